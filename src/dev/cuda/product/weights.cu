/* Upload of weights (copies.cu); those that products read are repacked on the device (pack.cu). */
#include "dev/cuda/product/dense.cuh"
#include "dev/cuda/product/pack.cuh"

extern "C" {
#include "quant/grids.h"
}

/* From the host to dst on the device; returns when src has been read. */
static void send(ft_cuda *c, void *dst, const void *src, size_t bytes)
{
    const ft_copy all = {(void *)src, dst, bytes};
    ft_cuda_copy_list(&c->dev, &all, 1, true);
}

/* Four codes of three bits, one in each nibble. */
static uint16_t nibbles_3(uint16_t entry)
{
    unsigned v = 0;
    for (int j = 0; j < 4; j++) v |= (unsigned)(entry >> 3 * j & 7) << 4 * j;
    return (uint16_t)v;
}

/* Eight codes of two bits: the first four in the lower bits of the nibbles. */
static uint16_t nibbles_2(uint16_t entry)
{
    unsigned v = 0;
    for (int j = 0; j < 8; j++) v |= (unsigned)(entry >> 2 * j & 3) << (4 * (j % 4) + 2 * (j / 4));
    return (uint16_t)v;
}

/* Eight codes of two bits: those with even indices in the lower byte. */
static uint16_t bytes_2(uint16_t entry)
{
    unsigned v = 0;
    for (int j = 0; j < 8; j++) v |= (unsigned)(entry >> 2 * j & 3) << (2 * (j / 2) + 8 * (j % 2));
    return (uint16_t)v;
}

/* The codebooks in the order of their files, for lookups of rows and repacking, then in the order
 * of weights_low.cuh. */
static void grids_ready(ft_cuda *c)
{
    static const struct {
        const uint16_t *from;
        int at, n;
    } part[] = {{ft_grid_iq2xxs, GRID_IQ2XXS, 256}, {ft_grid_iq2xs, GRID_IQ2XS, 512},
                {ft_grid_iq2s, GRID_IQ2S, 1024},    {ft_grid_iq3xxs, GRID_IQ3XXS, 256},
                {ft_grid_iq3s, GRID_IQ3S, 512},     {ft_grid_iq1s, GRID_IQ1S, 2048}};
    if (c->grid) return;
    uint16_t all[2 * GRID_ALL];
    for (size_t i = 0; i < FT_COUNT(part); i++)
        for (int j = 0; j < part[i].n; j++) {
            const uint16_t entry = part[i].from[j];
            const bool threes = part[i].at == GRID_IQ3XXS || part[i].at == GRID_IQ3S;
            all[part[i].at + j] = entry;
            all[GRID_ALL + part[i].at + j] = threes                    ? nibbles_3(entry)
                                             : part[i].at == GRID_IQ1S ? bytes_2(entry)
                                                                       : nibbles_2(entry);
        }
    ft_cuda_check(c, cudaMalloc((void **)&c->grid, sizeof all), "tables");
    if (c->grid) send(c, c->grid, all, sizeof all);
}

/* ---- binding ---- */

static ft_status no_memory(const ft_weight *w, size_t bytes, ft_err *err)
{
    return ft_fail(err, FT_ENOMEM, "no device memory for \"%s\": %zu bytes wanted",
                   w->name ? w->name : "?", bytes);
}

/* Memory for a weight in file layout while it is repacked; grows on demand, freed when the device
 * is closed. */
static void *raw_room(ft_cuda *c, size_t bytes)
{
    if (bytes <= c->raw_bytes) return c->raw;
    cudaStreamSynchronize(c->stream);
    cudaFree(c->raw);
    c->raw = NULL;
    c->raw_bytes = 0;
    if (cudaMalloc(&c->raw, bytes) != cudaSuccess) {
        cudaGetLastError();
        return NULL;
    }
    c->raw_bytes = bytes;
    return c->raw;
}

static size_t packed_bytes(const ft_cuda *c, const ft_weight *w)
{
    if (w->lookup) return 0;
    if (ft_dense_is(c, w)) return ft_dense_bytes(w);
    return ft_packed_bytes(ft_product_type(w), w->n, w->k) * (size_t)w->E;
}

/* Adds a packed weight to the sums that ft_cuda_wide depends on, or removes it. */
static void count_packed(ft_cuda *c, const ft_weight *w, bool add)
{
    if (ft_dense_is(c, w)) return;
    const size_t bytes = packed_bytes(c, w);
    c->packed = add ? c->packed + bytes : c->packed - bytes;
    if (ft_groups_type(ft_product_type(w)))
        c->groups = add ? c->groups + bytes : c->groups - bytes;
}

/* Products read the packed copy; lookups of single rows need the file layout. */
extern "C" ft_status ft_cuda_bind(ft_dev *d, ft_weight *w, const void *host, ft_err *err)
{
    ft_cuda *c = (ft_cuda *)d;
    ft_cuda_enter(d);
    w->row_bytes = ft_type_row(w->type, (size_t)w->k);
    w->packed = NULL;
    w->data = NULL;
    grids_ready(c);
    if (w->E > 1) c->experts = true;
    if (w->E > 1 && ft_units(w->k) == PARTS) c->experts_of_eight = true;
    const size_t bytes = w->row_bytes * (size_t)w->n * (size_t)w->E;
    const size_t packed = packed_bytes(c, w);
    const bool stays = w->lookup || w->rows || !packed;
    void *raw = stays ? d->alloc(d, bytes) : raw_room(c, bytes);
    if (!raw) return no_memory(w, bytes, err);
    send(c, raw, host, bytes);
    if (packed) {
        w->packed = d->alloc(d, packed);
        if (!w->packed) {
            if (stays) d->free(d, raw);
            return no_memory(w, packed, err);
        }
        count_packed(c, w, true);
        if (ft_dense_is(c, w))
            ft_dense_pack(c, w, raw);
        else
            ft_weights_pack(c, w, raw);
    }
    w->data = stays ? raw : w->packed; /* never NULL, which would mean "no such weight" */
    return c->error == cudaSuccess ? FT_OK : d->sync(d, err);
}

extern "C" uint64_t ft_cuda_weight_bytes(ft_dev *d, const ft_weight *w)
{
    const ft_cuda *c = (const ft_cuda *)d;
    const uint64_t raw = (uint64_t)w->row_bytes * w->n * w->E;
    const uint64_t packed = packed_bytes(c, w);
    return (packed ? ft_cuda_alloc_size(c, packed) : 0) +
           (w->lookup || w->rows || !packed ? ft_cuda_alloc_size(c, raw) : 0);
}

extern "C" void ft_cuda_unbind(ft_dev *d, ft_weight *w)
{
    if (w->packed) count_packed((ft_cuda *)d, w, false);
    if (w->data != w->packed) d->free(d, (void *)w->data);
    d->free(d, w->packed);
    w->data = w->packed = NULL;
}
