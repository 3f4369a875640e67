/* Attention for vision towers: heads of 80 values (72 and zeros) over f16 keys and values, many
 * rows that see thousands of positions. A warp has 32 query vectors and all positions of a page:
 * scores, weights and sums stay in its registers, and every fragment of keys and values that is
 * loaded serves two products. Pages of keys and values are copied two pages ahead; one barrier per
 * page. The kernels of attend_mma.cuh, which divide a page's positions among warps, are made for
 * few rows and long contexts.
 *
 * Every sum is in the order of the positions, whatever the tile: a row has the same bits alone and
 * in a batch. */
#include "dev/cuda/attend/attend_mma.cuh"

enum {
    ROW_D = 80,
    ROW_PIECES = ROW_D / 8, /* of 16 bytes */
    ROW_THREADS = 128,
    ROW_MT = 2,                               /* groups of 16 vectors per warp */
    ROW_M = 16 * ROW_MT * (ROW_THREADS / 32), /* vectors of a tile */
    ROW_KS = ROW_D / 16,                      /* steps of a product over a head */
    ROW_STAGES = 3,                           /* pages of keys and values in shared memory */
    ROW_SIDE = PAGE * ROW_D * 2,              /* bytes of a page of keys */
    ROW_Q = ROW_M * ROW_D * 2,                /* bytes of the queries */
    ROW_BYTES = ROW_Q + ROW_STAGES * 2 * ROW_SIDE + ROW_M * 2 * (int)sizeof(int),
};

/* Where piece c of row r is: eight rows of one column use eight different groups of banks. */
__device__ __forceinline__ uint32_t row_piece(int r, int c)
{
    return 16u * (uint32_t)(r * ROW_PIECES + (c ^ (r >> 2 & 1)));
}

/* Copies page i of the tile, keys and then values, to its stage. */
__device__ __forceinline__ void row_fetch(const attend_args &a, uint32_t stages,
                                          const int32_t *page, int i, int pages, int g)
{
    if (i < pages) {
        const uint32_t to = stages + (uint32_t)(i % ROW_STAGES * 2 * ROW_SIDE);
        const unsigned char *k = kv_page(a.k, page[i], g), *v = kv_page(a.v, page[i], g);
        for (int p = threadIdx.x; p < PAGE * ROW_PIECES; p += ROW_THREADS) {
            const uint32_t at = to + row_piece(p / ROW_PIECES, p % ROW_PIECES);
            copy_16(at, k + 16 * p);
            copy_16(at + ROW_SIDE, v + 16 * p);
        }
    }
    copy_commit();
}

/* The tile's queries as halves; zeros behind them. */
__device__ __forceinline__ void row_queries(const attend_args &a, const tile &t, int g,
                                            unsigned char *to)
{
    for (int p = threadIdx.x; p < ROW_M * ROW_PIECES; p += ROW_THREADS) {
        const int i = p / ROW_PIECES, c = p % ROW_PIECES;
        float v[8] = {};
        if (i < t.rows * a.group) {
            const float *q = mat_head(a.q, t.row + i / a.group, g * a.group + i % a.group) + 8 * c;
#pragma unroll
            for (int j = 0; j < 8; j++) v[j] = q[j];
        }
        *(uint4 *)(to + row_piece(i, c)) = pack_eight(v);
    }
}

/* A warp's part of the tile: what attend_mma.cuh calls running, for ROW_MT groups of vectors. */
typedef struct row_state {
    float m[ROW_MT][2], l[ROW_MT][4], o[ROW_MT][ROW_PIECES][4];
} row_state;

/* s = queries times the keys of a page */
__device__ __forceinline__ void row_scores(float (&s)[ROW_MT][PAGE / 8][4],
                                           const uint32_t (&q)[ROW_MT][ROW_KS][4], uint32_t keys)
{
    const int lane = threadIdx.x & 31, r = (lane & 7) + (lane >> 4) * 8, c = lane >> 3 & 1;
#pragma unroll
    for (int k = 0; k < ROW_KS; k++)
#pragma unroll
        for (int n = 0; n < PAGE / 16; n++) {
            uint32_t y[4];
            load_frags(y, keys + row_piece(16 * n + r, 2 * k + c));
#pragma unroll
            for (int mt = 0; mt < ROW_MT; mt++) {
                mma_f16(s[mt][2 * n], q[mt][k], y[0], y[1]);
                mma_f16(s[mt][2 * n + 1], q[mt][k], y[2], y[3]);
            }
        }
}

/* Turns the scores of the positions from `cell` on into weights, for rows that see [lo, hi). */
__device__ __forceinline__ void row_weigh(row_state &w, float (&s)[ROW_MT][PAGE / 8][4],
                                          float scale, int cell, const int (&lo)[ROW_MT][2],
                                          const int (&hi)[ROW_MT][2])
{
    const int first = cell + 2 * (threadIdx.x & 3);
#pragma unroll
    for (int mt = 0; mt < ROW_MT; mt++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            float top = -INFINITY;
            if (cell < lo[mt][j] || cell + PAGE > hi[mt][j]) {
#pragma unroll
                for (int n = 0; n < PAGE / 8; n++)
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        const int at = first + 8 * n + e;
                        if (at < lo[mt][j] || at >= hi[mt][j]) s[mt][n][2 * j + e] = -INFINITY;
                    }
            }
#pragma unroll
            for (int n = 0; n < PAGE / 8; n++)
                top = fmaxf(top, fmaxf(s[mt][n][2 * j], s[mt][n][2 * j + 1]));
            top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
            top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
            const float all = fmaxf(w.m[mt][j], top * scale);
            const float use = all == -INFINITY ? 0.0f : all, fade = exp2_approx(w.m[mt][j] - use);
            w.m[mt][j] = all;
            w.l[mt][2 * j] *= fade;
            w.l[mt][2 * j + 1] *= fade;
#pragma unroll
            for (int n = 0; n < ROW_PIECES; n++) {
                w.o[mt][n][2 * j] *= fade;
                w.o[mt][n][2 * j + 1] *= fade;
            }
#pragma unroll
            for (int n = 0; n < PAGE / 8; n++)
#pragma unroll
                for (int e = 0; e < 2; e++)
                    s[mt][n][2 * j + e] = exp2_approx(fmaf(s[mt][n][2 * j + e], scale, -use));
        }
}

/* o += weights times values, l += weights. The scores' layout is that of a product's left side. */
__device__ __forceinline__ void row_values(row_state &w, const float (&s)[ROW_MT][PAGE / 8][4],
                                           uint32_t values)
{
    const int lane = threadIdx.x & 31;
    const uint32_t ones = 0x3c003c00;
#pragma unroll
    for (int k = 0; k < PAGE / 32; k++) {
        uint32_t p[ROW_MT][2][4];
#pragma unroll
        for (int mt = 0; mt < ROW_MT; mt++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float(&x)[4] = s[mt][4 * k + 2 * half], (&y)[4] = s[mt][4 * k + 2 * half + 1];
                p[mt][half][0] = pack_half(x[0], x[1]);
                p[mt][half][1] = pack_half(x[2], x[3]);
                p[mt][half][2] = pack_half(y[0], y[1]);
                p[mt][half][3] = pack_half(y[2], y[3]);
                mma_f16(w.l[mt], p[mt][half], ones, ones);
            }
#pragma unroll
        for (int n = 0; n < ROW_PIECES; n++) {
            uint32_t b[4];
            load_frags_transposed(b, values + row_piece(32 * k + lane, n));
#pragma unroll
            for (int mt = 0; mt < ROW_MT; mt++) {
                mma_f16(w.o[mt][n], p[mt][0], b[0], b[1]);
                mma_f16(w.o[mt][n], p[mt][1], b[2], b[3]);
            }
        }
    }
}

__device__ __forceinline__ void row_put(const attend_args &a, const tile &t, const row_state &w,
                                        int g, int m)
{
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int mt = 0; mt < ROW_MT; mt++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            const int i = m + 16 * mt + lane / 4 + 8 * j;
            if (i >= t.rows * a.group) continue;
            const float factor = inverse_of(w.l[mt][2 * j]);
            float *to = mat_head(a.o, t.row + i / a.group, g * a.group + i % a.group);
#pragma unroll
            for (int n = 0; n < ROW_PIECES; n++)
                *(float2 *)(to + 8 * n + 2 * (lane % 4)) =
                    make_float2(w.o[mt][n][2 * j] * factor, w.o[mt][n][2 * j + 1] * factor);
        }
}

/* A block has a tile and a KV head. */
static __global__ void __launch_bounds__(ROW_THREADS, 2) attend_rows_kernel(const attend_args a)
{
    extern __shared__ uint4 attend_rows_shared[];
    unsigned char *const sm = (unsigned char *)attend_rows_shared;
    int *const seen_by = (int *)(sm + ROW_Q + ROW_STAGES * 2 * ROW_SIDE);
    const uint32_t stages = shared_at(sm) + ROW_Q;
    const int g = blockIdx.x % a.k.G, lane = threadIdx.x & 31, m = threadIdx.x / 32 * 16 * ROW_MT;
    tile t;
    wait_for_previous_kernel();
    if (!find_tile(a, blockIdx.x / a.k.G, &t)) return;
    tile_ranges(a, &t, seen_by, ROW_M);
    const int pages = t.lo < t.hi ? (t.hi - 1) / PAGE - t.lo / PAGE + 1 : 0;
    const int32_t *page = a.b.page[a.space] + (size_t)t.slot * a.b.pages_per_seq + t.lo / PAGE;
    row_fetch(a, stages, page, 0, pages, g);
    row_fetch(a, stages, page, 1, pages, g);
    row_queries(a, t, g, sm);
    __syncthreads();
    uint32_t q[ROW_MT][ROW_KS][4];
    int lo[ROW_MT][2], hi[ROW_MT][2];
    row_state w = {};
#pragma unroll
    for (int mt = 0; mt < ROW_MT; mt++) {
#pragma unroll
        for (int k = 0; k < ROW_KS; k++)
            load_frags(q[mt][k],
                       shared_at(sm) + row_piece(m + 16 * mt + lane % 16, 2 * k + lane / 16));
#pragma unroll
        for (int j = 0; j < 2; j++) {
            const int i = m + 16 * mt + lane / 4 + 8 * j;
            lo[mt][j] = seen_by[2 * i];
            hi[mt][j] = seen_by[2 * i + 1];
            w.m[mt][j] = -INFINITY;
        }
    }
    int cell = t.lo / PAGE * PAGE;
    for (int i = 0; i < pages; i++, cell += PAGE) {
        const uint32_t keys = stages + (uint32_t)(i % ROW_STAGES * 2 * ROW_SIDE);
        copy_wait<ROW_STAGES - 2>();
        __syncthreads(); /* page i has arrived, and no warp reads page i - 1 any more */
        row_fetch(a, stages, page, i + ROW_STAGES - 1, pages, g);
        float s[ROW_MT][PAGE / 8][4] = {};
        row_scores(s, q, keys);
        row_weigh(w, s, a.scale, cell, lo, hi);
        row_values(w, s, keys + ROW_SIDE);
    }
    row_put(a, t, w, g, m);
}

bool ft_cuda_attend_rows(ft_cuda *c, attend_args *a)
{
    const int T = a->q.T, S = FT_MAX(1, c->shape.S);
    if (a->q.d != ROW_D || a->k.type != FT_KV_F16 || a->v.type != FT_KV_F16) return false;
    if (a->group > ROW_M || (size_t)ROW_BYTES > c->smem) return false;
    a->rows = ROW_M / a->group;
    a->part_of = c->part_of;
    a->span_range = c->span_range;
    ft_cuda_shared(c, (const void *)attend_rows_kernel, ROW_BYTES);
    const unsigned tiles = a->out ? (unsigned)T : span_pieces(T, S, a->rows);
    FT_LAUNCH_NEXT(c, attend_rows_kernel, tiles * (unsigned)a->k.G, ROW_THREADS, (size_t)ROW_BYTES,
                   *a);
    return true;
}
