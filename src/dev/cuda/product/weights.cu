/* Upload of weights. The copy goes through two pinned buffers, so that several threads read the
 * file while the bus transfers; types with a packed layout (weights.cuh) are repacked on the
 * device. With an H200, 14.3 GiB in the page cache are uploaded at 15.9 GiB/s, a quarter of the bus
 * bandwidth: the threads that copy from the page cache are the limit. */
#include "dev/cuda/product/weights.cuh"

extern "C" {
#include "base/pool.h"
#include "quant/grids.h"
}

#include <string.h>

enum {
    PIN_BYTES = 32 << 20,
    READERS = 8,     /* one thread copies 6 GB/s out of the page cache, the bus transfers 50 */
    SMALL = 1 << 20, /* below this size one thread is enough */
    READ_GRAIN = 4096,
};

typedef struct reading {
    unsigned char *to;
    const unsigned char *from;
    size_t bytes;
} reading;

static void read_part(void *arg, int thread, int threads)
{
    const reading *r = (const reading *)arg;
    const size_t part = ft_round_up(r->bytes / (size_t)threads + 1, READ_GRAIN);
    const size_t lo = FT_MIN(r->bytes, part * (size_t)thread), hi = FT_MIN(r->bytes, lo + part);
    memcpy(r->to + lo, r->from + lo, hi - lo);
}

static void read_file(ft_cuda *c, unsigned char *to, const unsigned char *from, size_t bytes)
{
    reading r = {to, from, bytes};
    if (bytes < SMALL) {
        memcpy(to, from, bytes);
        return;
    }
    if (!c->readers) c->readers = ft_pool_new(FT_MIN(READERS, ft_cpu_count()), 0);
    ft_pool_run(c->readers, read_part, &r);
}

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

/* Copies from the host to dst on the device. Returns when src has been read. */
static void send(ft_cuda *c, unsigned char *dst, const unsigned char *src, size_t bytes)
{
    if (!pin_ready(c)) return;
    for (size_t at = 0, i = 0; at < bytes; at += PIN_BYTES, i ^= 1) {
        const size_t n = FT_MIN((size_t)PIN_BYTES, bytes - at);
        ft_cuda_check(c, cudaEventSynchronize(c->pinned[i]), "upload of weights");
        read_file(c, c->pin[i], src + at, n);
        ft_cuda_check(c, cudaMemcpyAsync(dst + at, c->pin[i], n, cudaMemcpyHostToDevice, c->stream),
                      "upload of weights");
        ft_cuda_check(c, cudaEventRecord(c->pinned[i], c->stream), "upload of weights");
    }
}

static void grids_ready(ft_cuda *c)
{
    static const struct {
        const uint16_t *from;
        int at, n;
    } part[] = {{ft_grid_iq2xxs, GRID_IQ2XXS, 256}, {ft_grid_iq2xs, GRID_IQ2XS, 512},
                {ft_grid_iq2s, GRID_IQ2S, 1024},    {ft_grid_iq3xxs, GRID_IQ3XXS, 256},
                {ft_grid_iq3s, GRID_IQ3S, 512},     {ft_grid_iq1s, GRID_IQ1S, 2048}};
    if (c->grid) return;
    ft_cuda_check(c, cudaMalloc((void **)&c->grid, GRID_ALL * sizeof(uint16_t)), "tables");
    for (size_t i = 0; i < FT_COUNT(part) && c->grid; i++)
        send(c, (unsigned char *)(c->grid + part[i].at), (const unsigned char *)part[i].from,
             (size_t)part[i].n * sizeof(uint16_t));
}

/* ---- repacking ---- */

/* Eight 4-bit codes as nib() reads them. */
__device__ __forceinline__ uint32_t pack_nib(const int *q)
{
    uint32_t v = 0;
    for (int j = 0; j < 8; j++) v |= (uint32_t)(q[j] & 15) << (4 * (j / 2) + 16 * (j % 2));
    return v;
}

__device__ __forceinline__ uint32_t bf_bits(float x)
{
    return __bfloat16_as_ushort(__float2bfloat16_rn(x));
}

/* What a lane packs: columns [k, k + 8) of a row, which may be outside the matrix. */
struct piece {
    const uint8_t *row; /* NULL: zeros */
    int k;
};

/* Codes, scale and offset (w = q * s + m) of eight values: types with blocks of 256. */
__device__ static void codes_256(int type, const piece &p, int *q, float &s, float &m)
{
    const int b = p.k / 256, i = p.k % 256, i32 = p.k % 32;
    switch (type) {
    case FT_Q4_K:
    case FT_Q5_K: {
        const bool five = type == FT_Q5_K;
        const uint8_t *x = p.row + (size_t)(five ? 176 : 144) * b;
        const uint8_t *c = x + (five ? 48 : 16) + 32 * (i / 64) + i32, *h = x + 16 + i32;
        int sc, mn;
        scale_min_k4(x + 4, i / 32, sc, mn);
        s = rd_f16(x) * (float)sc;
        m = -rd_f16(x + 2) * (float)mn;
        for (int j = 0; j < 8; j++) {
            q[j] = c[j] >> 4 * (i / 32 % 2) & 15;
            if (five) q[j] |= (h[j] >> i / 32 & 1) << 4;
        }
        return;
    }
    case FT_Q6_K: {
        const int b16 = i / 16, g = b16 / 2 % 4;
        const uint8_t *x = p.row + (size_t)210 * b, *lo = x + 64 * (b16 / 8) + 32 * (g % 2) + i32;
        const uint8_t *hi = x + 128 + 32 * (b16 / 8) + i32;
        s = rd_f16(x + 208) * (float)(int8_t)x[192 + b16];
        for (int j = 0; j < 8; j++) q[j] = (lo[j] >> 4 * (g / 2) & 15) | (hi[j] >> 2 * g & 3) << 4;
        return;
    }
    case FT_IQ4_XS: {
        const uint8_t *x = p.row + (size_t)136 * b, *c = x + 8 + 16 * (i / 32) + i32 % 16;
        const int ls = (x[4 + i / 64] >> 4 * (i / 32 % 2) & 15) | (rd16(x + 2) >> 2 * (i / 32) & 3)
                                                                      << 4;
        s = rd_f16(x) * (float)(ls - 32);
        for (int j = 0; j < 8; j++) q[j] = c[j] >> 4 * (i32 / 16) & 15;
        return;
    }
    }
}

/* The same for types with blocks of 32, and NVFP4. */
__device__ static void codes_32(int type, const piece &p, int *q, float &s, float &m)
{
    const int b32 = p.k / 32, i32 = p.k % 32, at = i32 % 16, up = 4 * (i32 / 16);
    switch (type) {
    case FT_Q4_1: {
        const uint8_t *x = p.row + (size_t)20 * b32;
        s = rd_f16(x);
        m = rd_f16(x + 2);
        for (int j = 0; j < 8; j++) q[j] = x[4 + at + j] >> up & 15;
        return;
    }
    case FT_Q5_0:
    case FT_Q5_1: {
        const bool one = type == FT_Q5_1; /* it stores an offset */
        const uint8_t *x = p.row + (size_t)(one ? 24 : 22) * b32, *h = x + (one ? 4 : 2);
        const uint32_t high = rd32(h) >> i32;
        s = rd_f16(x);
        m = one ? rd_f16(x + 2) : -16 * s;
        for (int j = 0; j < 8; j++) q[j] = (h[4 + at + j] >> up & 15) | (int)(high >> j & 1) << 4;
        return;
    }
    case FT_Q8_0: {
        const uint8_t *x = p.row + (size_t)34 * b32;
        s = rd_f16(x);
        for (int j = 0; j < 8; j++) q[j] = (int8_t)x[2 + i32 + j] + 128;
        return;
    }
    case FT_Q4_0:
    case FT_IQ4_NL: {
        const uint8_t *x = p.row + (size_t)18 * b32;
        s = rd_f16(x);
        for (int j = 0; j < 8; j++) q[j] = x[2 + at + j] >> up & 15;
        return;
    }
    case FT_MXFP4: {
        const uint8_t *x = p.row + (size_t)17 * b32;
        s = half_e8m0(x[0]);
        for (int j = 0; j < 8; j++) q[j] = x[1 + at + j] >> up & 15;
        return;
    }
    default: { /* NVFP4 */
        const int i64 = p.k % 64;
        const uint8_t *x = p.row + (size_t)36 * (p.k / 64), *c = x + 4 + 8 * (i64 / 16);
        s = half_ue4m3(x[i64 / 16]);
        for (int j = 0; j < 8; j++) q[j] = c[j] >> 4 * (i64 / 8 % 2) & 15;
        return;
    }
    }
}

__device__ static void codes(int type, const piece &p, int *q, float &s, float &m)
{
    s = m = 0;
    for (int j = 0; j < 8; j++) q[j] = type == FT_Q8_0 ? 128 : 0;
    if (!p.row) return;
    const bool k = type == FT_Q4_K || type == FT_Q5_K || type == FT_Q6_K || type == FT_IQ4_XS;
    if (k)
        codes_256(type, p, q, s, m);
    else
        codes_32(type, p, q, s, m);
}

/* Writes codes and scales of both halves and rows of a lane to a unit of the type. */
__device__ static void pack_codes(int type, uint8_t *u, const piece p[2][2], int lane)
{
    uint32_t *q = (uint32_t *)u + 4 * lane, high[2] = {0, 0};
    const int g = lane >> 2, t = lane & 3, as = packed_as(type);
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < 2; i++) {
            int c[8], top[8];
            float s, m;
            codes(type, p[h][i], c, s, m);
            for (int j = 0; j < 8; j++) top[j] = c[j] >> 4;
            uint32_t v = pack_nib(c);
            uint16_t *sc;
            switch (as) {
            case FT_Q4_K:
            case FT_Q5_K:
                if (!t)
                    ((uint32_t *)(u + (as == FT_Q4_K ? 512 : 640)))[4 * g + 2 * i + h] =
                        bf_bits(s) | bf_bits(m) << 16;
                for (int j = 0; j < 8; j++)
                    high[0] |= (uint32_t)(top[j] & 1) << (8 * h + 4 * i + j / 2 + 16 * (j % 2));
                break;
            case FT_Q6_K:
                sc = (uint16_t *)(u + 768);
                if (!(t & 1)) sc[8 * g + 4 * i + 2 * h + t / 2] = (uint16_t)bf_bits(s);
                for (int j = 0; j < 8; j++)
                    high[h] |= (uint32_t)(top[j] & 3) << (8 * i + 2 * (j / 2) + 16 * (j % 2));
                break;
            case FT_Q8_0:
                sc = (uint16_t *)(u + 1024);
                if (!t) sc[4 * g + 2 * i + h] = (uint16_t)bf_bits(s);
                ((uint32_t *)(u + 512 * h))[4 * lane + 2 * i] = v;
                ((uint32_t *)(u + 512 * h))[4 * lane + 2 * i + 1] = pack_nib(top);
                continue;
            case FT_NVFP4:
                sc = (uint16_t *)(u + 512);
                if (!(t & 1)) sc[8 * g + 4 * i + 2 * h + t / 2] = (uint16_t)bf_bits(s);
                break;
            default:
                sc = (uint16_t *)(u + 512);
                if (!t) sc[4 * g + 2 * i + h] = (uint16_t)bf_bits(s);
                break;
            }
            if (type == FT_NVFP4 || type == FT_MXFP4 || type == FT_IQ4_NL || type == FT_IQ4_XS) {
                v = 0;
                for (int j = 0; j < 8; j++) v |= (uint32_t)c[j] << 4 * j;
            }
            q[2 * h + i] = v;
        }
    if (as == FT_Q5_K) ((uint32_t *)(u + 512))[lane] = high[0];
    if (type == FT_Q6_K) ((uint2 *)(u + 512))[lane] = make_uint2(high[0], high[1]);
}

/* Plain numbers: copied, zeros outside the matrix. */
__device__ static void pack_plain(int type, uint8_t *u, const piece p[2][2], int K, int lane)
{
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 8; j++) {
                const bool some = p[h][i].row && p[h][i].k + j < K;
                const size_t at = (size_t)p[h][i].k + j;
                if (type == FT_F32)
                    ((uint32_t *)u)[128 * (4 * h + 2 * i + j / 4) + 4 * lane + j % 4] =
                        some ? rd32(p[h][i].row + 4 * at) : 0;
                else
                    ((uint16_t *)u)[256 * (2 * h + i) + 8 * lane + j] =
                        (uint16_t)(some ? rd16(p[h][i].row + 2 * at) : 0);
            }
}

/* A warp packs a unit. Experts are stored one after the other, each in whole tiles. */
static __global__ void pack_kernel(uint8_t *dst, const uint8_t *src, ft_wview w, int bytes,
                                   int tiles, size_t all)
{
    const size_t id = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) >> 5;
    const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    if (id >= all) return;
    const int u = (int)(id % w.units), tile = (int)(id / w.units % tiles);
    const size_t e = id / w.units / tiles;
    piece p[2][2];
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < 2; i++) {
            const int o = tile * TILE_N + g + 8 * i, k = u * UNIT_K + 32 * h + 8 * t;
            const bool some = o < w.n && k < w.k;
            p[h][i].row = some ? src + (e * w.n + o) * w.row_bytes : NULL;
            p[h][i].k = k;
        }
    uint8_t *to = dst + id * bytes;
    if (w.type == FT_F32 || w.type == FT_F16 || w.type == FT_BF16)
        pack_plain(w.type, to, p, w.k, lane);
    else
        pack_codes(w.type, to, p, lane);
}

static void pack(ft_cuda *c, const ft_weight *w, const void *raw)
{
    ft_wview v = {};
    v.type = w->type;
    v.n = w->n;
    v.k = w->k;
    v.units = ft_units(w->k);
    v.row_bytes = w->row_bytes;
    const int tiles = (w->n + TILE_N - 1) / TILE_N;
    const size_t all = (size_t)tiles * v.units * w->E;
    FT_LAUNCH(c, pack_kernel, ft_blocks(all, 8), 256, 0, (uint8_t *)w->packed, (const uint8_t *)raw,
              v, ft_unit_bytes(w->type), tiles, all);
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

/* Products read the packed copy; lookups of single rows need the file layout. */
extern "C" ft_status ft_cuda_bind(ft_dev *d, ft_weight *w, const void *host, ft_err *err)
{
    ft_cuda *c = (ft_cuda *)d;
    w->row_bytes = ft_type_row(w->type, (size_t)w->k);
    w->packed = NULL;
    w->data = NULL;
    grids_ready(c);
    const size_t bytes = w->row_bytes * (size_t)w->n * (size_t)w->E;
    const size_t packed = w->lookup ? 0 : ft_packed_bytes(w->type, w->n, w->k) * (size_t)w->E;
    const bool stays = w->lookup || w->rows || !packed;
    void *raw = stays ? d->alloc(d, bytes) : raw_room(c, bytes);
    if (!raw) return no_memory(w, bytes, err);
    send(c, (unsigned char *)raw, (const unsigned char *)host, bytes);
    if (packed) {
        w->packed = d->alloc(d, packed);
        if (!w->packed) {
            if (stays) d->free(d, raw);
            return no_memory(w, packed, err);
        }
        pack(c, w, raw);
    }
    w->data = stays ? raw : w->packed; /* never NULL, which would mean "no such weight" */
    return c->error == cudaSuccess ? FT_OK : d->sync(d, err);
}

extern "C" uint64_t ft_cuda_weight_bytes(ft_dev *d, const ft_weight *w)
{
    const ft_cuda *c = (const ft_cuda *)d;
    const uint64_t raw = (uint64_t)w->row_bytes * w->n * w->E;
    const uint64_t packed = w->lookup ? 0 : (uint64_t)ft_packed_bytes(w->type, w->n, w->k) * w->E;
    return (packed ? ft_cuda_alloc_size(c, packed) : 0) +
           (w->lookup || w->rows || !packed ? ft_cuda_alloc_size(c, raw) : 0);
}

extern "C" void ft_cuda_unbind(ft_dev *d, ft_weight *w)
{
    if (w->data != w->packed) d->free(d, (void *)w->data);
    d->free(d, w->packed);
    w->data = w->packed = NULL;
}
