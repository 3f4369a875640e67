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
#else
#define open_cuda ft_dev_cuda

int ft_dev_gpus(void)
{
    return ft_dev_cuda_count();
}
#endif

/* "cuda", "cuda:1", "CUDA1": the index, or -1. */
static int cuda_index(const char *name)
{
    if (strncasecmp(name, "cuda", 4)) return -1;
    const char *digits = name[4] == ':' ? name + 5 : name + 4;
    char *end;
    if (!name[4]) return 0;
    const long n = *digits >= '0' && *digits <= '9' ? strtol(digits, &end, 10) : -1;
    return n >= 0 && n < 1024 && !*end ? (int)n : -1;
}

ft_status ft_dev_open(ft_dev **out, const char *name, int threads, ft_err *err)
{
    const int gpu = cuda_index(name);
    if (gpu >= 0) return open_cuda(out, gpu, err);
    if (!strcmp(name, "auto") && !open_cuda(out, 0, NULL)) return FT_OK;
    if (!strcasecmp(name, "cpu") || !strcasecmp(name, "none") || !strcmp(name, "auto"))
        *out = ft_dev_cpu(threads);
    else if (!strcmp(name, "ref"))
        *out = ft_dev_ref();
    else
        return ft_fail(err, FT_EINVAL, "device \"%s\", want cpu, cuda, cuda:N, auto or ref", name);
    return FT_OK;
}
