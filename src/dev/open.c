/* Devices by name. */
#include "dev/dev.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#ifndef FT_HAVE_CUDA
static ft_status open_cuda(ft_dev **out, int index, ft_err *err)
{
    (void)out, (void)index;
    return ft_fail(err, FT_EUNSUPPORTED,
                   "device \"cuda\" is not in this build; make CUDA=1 builds it");
}

int ft_dev_gpus(void)
{
    return 0;
}

bool ft_dev_cuda_info(int index, ft_dev_info *out)
{
    (void)index, (void)out;
    return false;
}
#else
#define open_cuda ft_dev_cuda

int ft_dev_gpus(void)
{
    return ft_dev_cuda_count();
}
#endif

#ifndef FT_HAVE_VULKAN
static ft_status open_vulkan(ft_dev **out, int index, ft_err *err)
{
    (void)out, (void)index;
    return ft_fail(err, FT_EUNSUPPORTED,
                   "device \"vulkan\" is not in this build; make VULKAN=1 builds it");
}

static ft_status open_discrete(ft_dev **out)
{
    return open_vulkan(out, 0, NULL);
}

bool ft_dev_vulkan_info(int index, ft_dev_info *out)
{
    (void)index, (void)out;
    return false;
}
#else
#define open_vulkan ft_dev_vulkan

/* The first discrete GPU of the Vulkan drivers. */
static ft_status open_discrete(ft_dev **out)
{
    const int i = ft_dev_vulkan_discrete();
    return i < 0 ? FT_EUNSUPPORTED : open_vulkan(out, i, NULL);
}
#endif

/* "cuda", "cuda:1", "CUDA1" of the kind "cuda": the index, or -1. */
static int index_of(const char *name, const char *kind)
{
    const size_t n = strlen(kind);
    if (strncasecmp(name, kind, n)) return -1;
    const char *digits = name[n] == ':' ? name + n + 1 : name + n;
    char *end;
    if (!name[n]) return 0;
    const long i = *digits >= '0' && *digits <= '9' ? strtol(digits, &end, 10) : -1;
    return i >= 0 && i < 1024 && !*end ? (int)i : -1;
}

ft_status ft_dev_open(ft_dev **out, const char *name, int threads, ft_err *err)
{
    const int gpu = index_of(name, "cuda"), vulkan = index_of(name, "vulkan");
    if (gpu >= 0) return open_cuda(out, gpu, err);
    if (vulkan >= 0) return open_vulkan(out, vulkan, err);
    if (!strcmp(name, "auto") && !open_cuda(out, 0, NULL)) return FT_OK;
    if (!strcmp(name, "auto") && !open_discrete(out)) return FT_OK;
    if (!strcasecmp(name, "cpu") || !strcasecmp(name, "none") || !strcmp(name, "auto"))
        *out = ft_dev_cpu(threads);
    else if (!strcmp(name, "ref"))
        *out = ft_dev_ref();
    else
        return ft_fail(err, FT_EINVAL,
                       "device \"%s\", want cpu, cuda, cuda:N, vulkan, vulkan:N, auto or ref",
                       name);
    return FT_OK;
}
