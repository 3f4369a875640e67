/* Weights: from the file to the device. The copy goes through two pinned buffers, so that reading
 * the file and the link work at the same time. */
#include "dev/cuda/cuda.h"

#include <string.h>

enum { PIN_BYTES = 32 << 20 };

static bool pin_ready(ft_cuda *c)
{
    for (int i = 0; i < 2 && c->error == cudaSuccess; i++) {
        if (c->pin[i]) continue;
        ft_cuda_check(c, cudaMallocHost((void **)&c->pin[i], PIN_BYTES), "pinned memory");
        ft_cuda_check(c, cudaEventCreateWithFlags(&c->pinned[i], cudaEventDisableTiming),
                      "cudaEventCreate");
    }
    return c->error == cudaSuccess;
}

/* dst on the device = src of the host. Returns when src is read. */
static void send(ft_cuda *c, unsigned char *dst, const unsigned char *src, size_t bytes)
{
    if (!pin_ready(c)) return;
    for (size_t at = 0, i = 0; at < bytes; at += PIN_BYTES, i ^= 1) {
        const size_t n = FT_MIN((size_t)PIN_BYTES, bytes - at);
        ft_cuda_check(c, cudaEventSynchronize(c->pinned[i]), "upload of weights");
        memcpy(c->pin[i], src + at, n);
        ft_cuda_check(c, cudaMemcpyAsync(dst + at, c->pin[i], n, cudaMemcpyHostToDevice, c->stream),
                      "upload of weights");
        ft_cuda_check(c, cudaEventRecord(c->pinned[i], c->stream), "upload of weights");
    }
}

extern "C" ft_status ft_cuda_bind(ft_dev *d, ft_weight *w, const void *host, ft_err *err)
{
    ft_cuda *c = (ft_cuda *)d;
    w->row_bytes = ft_type_row(w->type, (size_t)w->k);
    const size_t bytes = w->row_bytes * (size_t)w->n * (size_t)w->E;
    void *p = d->alloc(d, bytes);
    if (!p)
        return ft_fail(err, FT_ENOMEM, "no device memory for \"%s\": %zu bytes wanted",
                       w->name ? w->name : "?", bytes);
    w->data = p;
    w->packed = NULL;
    send(c, (unsigned char *)p, (const unsigned char *)host, bytes);
    return c->error == cudaSuccess ? FT_OK : d->sync(d, err);
}

extern "C" void ft_cuda_unbind(ft_dev *d, ft_weight *w)
{
    d->free(d, (void *)w->data);
    d->free(d, w->packed);
    w->data = w->packed = NULL;
}
