/* dev/cuda/product_rows.cuh - products of many rows, on warpgroups (compute capability 9.0).
 * A block works on tiles of 128 outputs by 128 rows, one after the other. Two warpgroups multiply,
 * 64 outputs each: a warp decodes a tile of 16 into registers, which are the left operand as they
 * are; the right one, the rows, lies in shared memory and is shared. A third warpgroup feeds them
 * through a ring: a place has a unit (64 columns) of the rows and of the eight tiles of weights.
 *
 * A warpgroup's products take 16 columns of the right operand from 32 bytes in a row, where a lane
 * of a warp's own products (product_split) takes eight columns for two of them from 16: so shadows
 * of many rows have the columns in another order (wide_column). The sums are the same bit for bit.
 *
 * On an H200, 4096 rows, Q4_K (a library reaches 790 TFLOP/s with bf16 numbers): gate and up
 * 2 x 17408 x 5120 502 TFLOP/s, 16480 x 5120 492, 5120 x 17408 459, 5120 x 6144 335. The tensor
 * cores wait where tiles end: results leave from registers, with nothing else to multiply.
 *
 * A part of product.cuh, behind what both kernels share. */
#ifndef FT_DEV_CUDA_PRODUCT_ROWS_CUH
#define FT_DEV_CUDA_PRODUCT_ROWS_CUH

#include "dev/cuda/hopper.cuh"

enum {
    ROWS_TILES = 8,             /* of weights in a block's tile */
    ROWS_SPAN = 8,              /* tiles of rows that take turns */
    ROWS_X = ROWS_TOKENS * 128, /* bytes of a unit of rows, one plane */
    ROWS_WARPS = 8,             /* that multiply */
    ROWS_THREADS = 384,
    ROWS_JOIN = 64 * 128 * 4, /* bytes in which gate meets up */
    ROWS_SHARED = 225 * 1024
};

template <class W> struct rows_shape {
    enum {
        X = ROWS_X * W::XP,
        PLACE = X + (ROWS_TILES * W::BYTES + 1023) / 1024 * 1024,
        FIT = (ROWS_SHARED - ROWS_JOIN) / PLACE,
        PLACES = FIT < 8 ? FIT : 8,
        LATE = PLACES > 4 ? 2 : 1, /* places on their way before the first is waited for */
        BYTES = PLACES * PLACE + ROWS_JOIN + 1024
    };
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900

/* The ring, and where a thread stands in it. */
struct rows_ring {
    unsigned char *at;
    uint32_t full, empty; /* barriers */
    int place, parity;
};

template <class W> __device__ __forceinline__ void next_place(rows_ring &r)
{
    if (++r.place < rows_shape<W>::PLACES) return;
    r.place = 0;
    r.parity ^= 1;
}

/* The barrier `back` places before. */
template <class W>
__device__ __forceinline__ uint32_t barrier_back(uint32_t first, const rows_ring &r, int back)
{
    const int at = r.place - back;
    return first + 8 * (at < 0 ? at + rows_shape<W>::PLACES : at);
}

/* Tile number i of the launch. Blocks that run at the same time share much of what they read. */
__device__ __forceinline__ bool rows_tile(const ft_product &p, int i, block_of &b)
{
    int across = 0;
    for (int s = 0; s < p.n_seg; s++) across += p.seg[s].blocks;
    if (p.item) return find_block(p, ROWS_TOKENS, i % across, i / across, b);
    const int all = (p.T + ROWS_TOKENS - 1) / ROWS_TOKENS, span = i / (across * ROWS_SPAN);
    const int first = span * ROWS_SPAN, rows = min(ROWS_SPAN, all - first);
    if (rows <= 0) return false;
    i -= span * across * ROWS_SPAN;
    return find_block(p, ROWS_TOKENS, i / rows, first + i % rows, b);
}

/* Tile j of the eight, and the matrix it belongs to: of a pair, four are gates and four are ups. */
__device__ __forceinline__ int rows_weights(const ft_product &p, const block_of &b, int j,
                                            ft_wview &w)
{
    w = view_of(p.glu ? p.seg[j / 4] : *b.s, b.expert);
    const int tile = p.glu ? 4 * b.at + j % 4 : ROWS_TILES * b.at + j;
    return min(tile, (w.n + TILE_N - 1) / TILE_N - 1);
}

/* ---- the feeding warpgroup ---- */

/* Rows of a list: thread i brings piece i % 8 of rows i / 8, + 16, ... */
struct rows_listed {
    uint32_t from[8], to;
};

__device__ __forceinline__ void find_listed(const ft_product &p, const block_of &b, rows_listed &l)
{
    const int i = threadIdx.x & 127, piece = i & 7, first = i >> 3;
    l.to = 128 * first + 16 * (piece ^ (first & 7));
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const int row = row_x(p, b, min(first + 16 * j, b.n - 1));
        l.from[j] = 128u * row + 16 * (piece ^ (row & 7));
    }
}

/* One warp feeds rows that lie in a row; all four of the group bring rows of a list. */
template <class W> __device__ __forceinline__ void rows_feed(const ft_product &p, rows_ring r)
{
    typedef rows_shape<W> shape;
    const int lane = threadIdx.x & 31;
    const bool first = threadIdx.x / 32 == ROWS_WARPS, listed = p.item != NULL;
    if (!first && !listed) return;
    int late = 0;
    block_of b;
    for (int i = blockIdx.x; rows_tile(p, i, b); i += gridDim.x) {
        ft_wview w;
        const int tile = rows_weights(p, b, lane % ROWS_TILES, w), units = w.units;
        const uint8_t *weights = unit_at(w, tile, 0, W::BYTES);
        const char *x = (const char *)p.x + (listed ? 0 : (size_t)b.first * 128);
        rows_listed l;
        if (listed) find_listed(p, b, l);
        for (int u = 0; u < units; u++) {
            const uint32_t to = shared_at(r.at) + r.place * shape::PLACE,
                           bar = r.full + 8 * r.place;
            barrier_wait(r.empty + 8 * r.place, r.parity ^ 1);
            if (first && lane == 0) {
                barrier_expect(bar, (listed ? 0 : b.n * 128 * W::XP) + ROWS_TILES * W::BYTES);
                for (int q = 0; q < W::XP && !listed; q++)
                    copy_run(to + q * ROWS_X, x + 2 * q * p.x_plane, b.n * 128, bar);
            }
            __syncwarp();
            if (first && lane < ROWS_TILES && W::BYTES)
                copy_run(to + shape::X + lane * W::BYTES, weights, W::BYTES, bar);
            if (listed) {
#pragma unroll
                for (int j = 0; j < 8 * W::XP; j++)
                    copy_16(to + j / 8 * ROWS_X + 2048 * (j % 8) + l.to,
                            x + 2 * (j / 8) * p.x_plane + l.from[j % 8]);
                copy_commit();
                if (late == shape::LATE) {
                    copy_wait<shape::LATE>();
                    shared_written();
                    barrier_arrive(barrier_back<W>(r.full, r, late));
                } else {
                    late++;
                }
            }
            weights += W::BYTES;
            x += (size_t)p.x_T * 128;
            next_place<W>(r);
        }
    }
    copy_wait<0>();
    shared_written();
    for (; late; late--) barrier_arrive(barrier_back<W>(r.full, r, late));
}

/* ---- the multiplying warpgroups ---- */

/* A unit's products are on their way; f must stay as it is until they are done. */
template <class W>
__device__ __forceinline__ void rows_unit(float (&c)[64], ft_frag (&f)[2][W::WP],
                                          const rows_ring &r, const ft_wview &w, int tile, int u)
{
    typedef rows_shape<W> shape;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const unsigned char *at = r.at + r.place * shape::PLACE;
    typename W::regs v;
    if (!W::BYTES) W::template load<Global>(v, NULL, w, tile, u, lane);
    barrier_wait(r.full + 8 * r.place, r.parity);
    if (W::BYTES) W::template load<Shared>(v, at + shape::X + warp * W::BYTES, w, tile, u, lane);
#pragma unroll
    for (int h = 0; h < 2; h++) W::frag(f[h], v, h, lane);
#pragma unroll
    for (int i = 0; i < 16 * W::WP; i++) /* all of it is there before the first product */
        asm volatile("" : "+r"(f[i / 8 % 2][i / 16].a[i / 4 % 2][i % 4])::"memory");
    const uint64_t x = group_operand(shared_at(at));
    group_begin();
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int q = 0; q < W::XP + W::WP - 1; q++) { /* in the order of half_unit */
            const int wp = q >= W::XP ? q - W::XP + 1 : 0, xp = q < W::XP ? q : 0;
#pragma unroll
            for (int step = 0; step < 2; step++)
                group_product(c, f[h][wp].a[step], x + (xp * ROWS_X + 64 * h + 32 * step) / 16);
        }
    group_commit();
}

/* This warp is done with the place before. */
template <class W> __device__ __forceinline__ void free_place(const rows_ring &r)
{
    if (threadIdx.x % 32 == 0) barrier_arrive(barrier_back<W>(r.empty, r, 1));
}

/* One part: c = units [from, to). Two units take turns, so that one is decoded while the other is
 * multiplied. */
template <class W>
__device__ __forceinline__ void rows_part(float (&c)[64], rows_ring &r, const ft_wview &w, int tile,
                                          int from, int to)
{
    ft_frag f[2][2][W::WP];
    int u = from;
#pragma unroll
    for (int i = 0; i < 64; i++) c[i] = 0;
    for (; u + 1 < to; u += 2)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            rows_unit<W>(c, f[h], r, w, tile, u + h);
            group_wait<1>();
            if (h || u > from) free_place<W>(r);
            next_place<W>(r);
        }
    if (u < to) {
        group_wait<0>();
        if (u > from) free_place<W>(r);
        rows_unit<W>(c, f[0], r, w, tile, u);
        next_place<W>(r);
    }
    group_wait<0>();
    free_place<W>(r);
}

/* Row 8 i + 2 t + (q & 1) and output g + 8 (q >> 1) of the warp's 16 are value 4 i + q. */
__device__ __forceinline__ void rows_put(const ft_product &p, const block_of &b,
                                         const float (&v)[64])
{
    const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    const int o = (b.at * ROWS_TILES + (threadIdx.x >> 5)) * TILE_N + g;
    const float scale = scale_of(*b.s, b.expert);
    const bool in[2] = {o < b.s->w.n, o + 8 < b.s->w.n};
#pragma unroll
    for (int i = 0; i < 16; i += 2) {
        float *at[4], old[8];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int tok = 8 * i + 8 * (j / 2) + 2 * t + j % 2;
            at[j] = tok < b.n ? b.s->y + (size_t)row_y(p, b, tok) * b.s->rs + o : NULL;
#pragma unroll
            for (int e = 0; e < 2; e++)
                old[2 * j + e] = p.acc && at[j] && in[e] ? at[j][8 * e] : 0.0f;
        }
#pragma unroll
        for (int j = 0; j < 8; j++) {
            const float x = v[4 * i + 4 * (j / 4) + j / 2 % 2 + 2 * (j % 2)] * scale;
            if (at[j / 2] && in[j % 2]) at[j / 2][8 * (j % 2)] = p.acc ? old[j] + x : x;
        }
    }
}

/* Both planes of outputs o and o + 1, o even, and the results themselves. */
__device__ __forceinline__ void put_two(const ft_product &p, int row, int o, float v0, float v1)
{
    const ft_seg &s = p.seg[0];
    if (s.y && o < s.w.n) s.y[(size_t)row * s.rs + o] = v0;
    if (s.y && o + 1 < s.w.n) s.y[(size_t)row * s.rs + o + 1] = v1;
    if (!p.out || o >= s.w.n) return;
    uint32_t hi, lo;
    split2(v0, v1, hi, lo);
    const size_t at = shadow_at(p.out_T, true, row, o);
    *(uint32_t *)(p.out + at) = hi;
    *(uint32_t *)(p.out + p.out_plane + at) = lo;
}

/* The two warpgroups have gate and up of the same outputs. Each gives the other half of its rows
 * away. Then neighbours change places too, so that a thread has pairs of outputs. */
__device__ __forceinline__ void rows_put_pair(const ft_product &p, const block_of &b,
                                              const float (&v)[64], float4 *join)
{
    const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3, me = threadIdx.x & 127;
    const int group = threadIdx.x >> 7, o = b.at * 64 + (threadIdx.x >> 5 & 3) * TILE_N + g;
    const float s0 = scale_of(p.seg[0], b.expert), s1 = scale_of(p.seg[1], b.expert);
    const bool odd = g & 1;
    asm volatile("bar.sync 1, 256;" ::: "memory"); /* the tile before has been read */
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float4 give;
        give.x = group ? v[4 * i] : v[32 + 4 * i];
        give.y = group ? v[4 * i + 1] : v[33 + 4 * i];
        give.z = group ? v[4 * i + 2] : v[34 + 4 * i];
        give.w = group ? v[4 * i + 3] : v[35 + 4 * i];
        join[(group * 8 + i) * 128 + me] = give;
    }
    asm volatile("bar.sync 1, 256;" ::: "memory");
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const float4 got = join[((1 - group) * 8 + i) * 128 + me];
        const float theirs[4] = {got.x, got.y, got.z, got.w};
        float r[4];
#pragma unroll
        for (int q = 0; q < 4; q++) {
            const float mine = group ? v[32 + 4 * i + q] : v[4 * i + q];
            r[q] =
                act_of((group ? theirs[q] : mine) * s0, p.act) * ((group ? mine : theirs[q]) * s1);
        }
        const int tok = 64 * group + 8 * i + 2 * t + odd;
        const int row = tok < b.n ? row_y(p, b, tok) : -1;
#pragma unroll
        for (int q = 0; q < 4; q += 2) {
            const float other = __shfl_xor_sync(~0u, odd ? r[q] : r[q + 1], 4);
            if (row >= 0)
                put_two(p, row, (o & ~1) + 4 * q, odd ? other : r[q], odd ? r[q + 1] : other);
        }
    }
}

template <class W> __device__ __forceinline__ void rows_multiply(const ft_product &p, rows_ring r)
{
    block_of b;
    for (int i = blockIdx.x; rows_tile(p, i, b); i += gridDim.x) {
        ft_wview w;
        const int tile = rows_weights(p, b, threadIdx.x >> 5, w), per = part_units(w.units);
        float c[64], sum[64];
        for (int from = 0; from < w.units; from += per) {
            rows_part<W>(c, r, w, tile, from, min(w.units, from + per));
#pragma unroll
            for (int k = 0; k < 64; k++) sum[k] = from ? sum[k] + c[k] : c[k];
        }
        if (p.glu)
            rows_put_pair(p, b, sum,
                          (float4 *)(r.at + rows_shape<W>::PLACES * rows_shape<W>::PLACE));
        else
            rows_put(p, b, sum);
    }
}
#endif

template <class W>
__global__ void __launch_bounds__(ROWS_THREADS, 1)
    product_rows(const __grid_constant__ ft_product p)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
    typedef rows_shape<W> shape;
    extern __shared__ unsigned char smem[];
    __shared__ uint64_t bars[2 * shape::PLACES];
    rows_ring r = {smem + (-(uintptr_t)smem & 1023), shared_at(bars),
                   shared_at(bars + shape::PLACES), 0, 0};
    if (threadIdx.x == 0) {
        for (int i = 0; i < shape::PLACES; i++) {
            barrier_init(r.full + 8 * i, p.item ? 1 + 128 : 1);
            barrier_init(r.empty + 8 * i, ROWS_WARPS);
        }
        shared_written();
    }
    hold();
    __syncthreads();
    if (threadIdx.x >= 32 * ROWS_WARPS) {
        registers_less<56>();
        rows_feed<W>(p, r);
    } else {
        registers_more<224>();
        rows_multiply<W>(p, r);
    }
#endif
}

#endif
