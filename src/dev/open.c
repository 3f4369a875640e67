/* Devices by name. */
#include "dev/dev.h"

#include <string.h>

#ifndef FT_HAVE_CUDA
static ft_status open_cuda(ft_dev **out, ft_err *err)
{
    (void)out;
    return ft_fail(err, FT_EUNSUPPORTED,
                   "device \"cuda\" is not in this build; make CUDA=1 builds it");
}
#else
#define open_cuda ft_dev_cuda
#endif

ft_status ft_dev_open(ft_dev **out, const char *name, int threads, ft_err *err)
{
    if (!strcmp(name, "cuda")) return open_cuda(out, err);
    if (!strcmp(name, "auto") && !open_cuda(out, NULL)) return FT_OK;
    if (!strcmp(name, "cpu") || !strcmp(name, "auto"))
        *out = ft_dev_cpu(threads);
    else if (!strcmp(name, "ref"))
        *out = ft_dev_ref();
    else
        return ft_fail(err, FT_EINVAL, "device \"%s\", want cpu, cuda, auto or ref", name);
    return FT_OK;
}
