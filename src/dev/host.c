#include "dev/host.h"

#include "base/mem.h"

#include <string.h>

/* calloc hands out untouched pages of the system, which a memset would all claim at once: caches
 * are sized for the longest past and mostly stay empty. The base lies in front of the block. */
void *ft_host_alloc(ft_dev *d, size_t bytes)
{
    (void)d;
    size_t want;
    if (!ft_add_size(bytes, FT_HOST_ALIGN + sizeof(void *), &want)) return NULL;
    unsigned char *base = ft_try_alloc(want);
    if (!base) return NULL;
    const uintptr_t at = (uintptr_t)base + sizeof(void *);
    unsigned char *p = base + (ft_round_up(at, FT_HOST_ALIGN) - (uintptr_t)base);
    memcpy(p - sizeof(void *), &base, sizeof base);
    return p;
}

void ft_host_free(ft_dev *d, void *p)
{
    (void)d;
    if (!p) return;
    unsigned char *base;
    memcpy(&base, (unsigned char *)p - sizeof base, sizeof base);
    ft_free(base);
}

void ft_host_copy(ft_dev *d, void *dst, const void *src, size_t bytes)
{
    (void)d;
    memcpy(dst, src, bytes);
}

ft_status ft_host_bind(ft_dev *d, ft_weight *w, const void *host, ft_err *err)
{
    (void)d, (void)err;
    w->data = host;
    w->row_bytes = ft_type_row(w->type, (size_t)w->k);
    return FT_OK;
}

bool ft_host_replay(ft_dev *d, const void *pass)
{
    (void)d, (void)pass;
    return false;
}
