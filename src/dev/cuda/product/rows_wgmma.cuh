/* dev/cuda/product/rows_wgmma.cuh - products of many rows with warpgroup instructions (compute
 * capability 9.0). A block computes tiles of 128 outputs by 128 rows, or by 96 or 64 if there are
 * no more rows, one after the other. Experts have tiles of 64 rows if that is enough for the
 * average one, else of 128, of which 32, 64, 96 or 128 are multiplied. Two warpgroups multiply, 64
 * outputs each: a warp decodes a tile of 16 into registers, which are the left operand; the right
 * operand, the rows, is in shared memory and used by both. A third warpgroup copies to a ring
 * buffer: an entry has a unit (64 columns) of the rows and of the eight tiles of weights.
 *
 * A warpgroup instruction takes 16 columns of the right operand from 32 contiguous bytes, whereas
 * in product_split a lane takes eight columns for two instructions from 16 bytes. So the bf16
 * copies of many rows have the columns in another order (wide_column). The sums are bit-identical.
 *
 * On an H200, 4096 rows, Q4_K (cuBLAS reaches 790 TFLOP/s with bf16): gate and up 2 x 17408 x 5120
 * 560 TFLOP/s, 16480 x 5120 524, 5120 x 17408 559, 5120 x 6144 471. Tensor cores are busy 55 % of
 * the time. There is no single bottleneck: without decoding it is 600, without loading rows no
 * more, without storing results 5 % more. Each scheduler has two warps that multiply, and while
 * both decode or wait the tensor core is idle; a third would need the registers that hold the sums
 * of parts.
 *
 * Experts (256 of 2048 x 512, 8 chosen, one layer, with the sums): 1024 rows 433 us, of which
 * reading the weights would take 108; 4096 rows 1,017 us, 228 TFLOP/s (docs/why/0033). With 64 rows
 * a tile of weights is decoded as often as it is multiplied: schedulers issue in 52 of 100 cycles,
 * half of it bit operations, of which they can do one in two cycles.
 *
 * Included by product.cuh. */
#ifndef FT_DEV_CUDA_PRODUCT_ROWS_CUH
#define FT_DEV_CUDA_PRODUCT_ROWS_CUH

#include "dev/cuda/product/wgmma.cuh"

enum {
    ROWS_WARPS = 8, /* warpgroups that multiply */
    ROWS_THREADS = 384,
    ROWS_PITCH = 64 + 4, /* floats of a row of a warpgroup's results: avoids bank conflicts */
    ROWS_SHARED = 225 * 1024
};

/* Parameters of a kernel: weights of type W, R rows per tile; rows in order or, LISTED, those of an
 * expert. */
template <class W, int ROWS, bool LISTED> struct rows_shape {
    typedef W weights;
    enum {
        listed = LISTED,
        R = ROWS,
        LEAST = LISTED && R > ROWS_FEW ? 32 : R, /* rows that are multiplied */
        SUMS = R / 2,                            /* of a thread */
        PLANE = R * 128,                         /* bytes of a unit of rows, one plane */
        X = PLANE * W::XP,
        PLACE = X + (ROWS_TILES * W::BYTES + 1023) / 1024 * 1024,
        RESULTS = R * ROWS_PITCH, /* floats of a warpgroup */
        FIT = (ROWS_SHARED - 2 * W::TABLE - 8 * RESULTS) / PLACE,
        PLACES = FIT < 8 ? FIT : 8,
        OUT = PLACES * PLACE,
        BYTES = OUT + 8 * RESULTS + 1024
    };
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900

/* Tile j of the eight, and the matrix it belongs to: of a pair, four are gates and four are ups. */
__device__ __forceinline__ int rows_weights(const ft_product &p, const block_of &b, int j,
                                            ft_wview &w)
{
    w = view_of(p.glu ? p.seg[j / 4] : *b.s, b.expert);
    const int tile = p.glu ? 4 * b.at + j % 4 : ROWS_TILES * b.at + j;
    return min(tile, (w.n + TILE_N - 1) / TILE_N - 1);
}

/* ---- the producer warpgroup ---- */

/* Rows of a list: thread i copies piece i % 8 of rows i / 8, + 16, ... */
template <int R> struct rows_listed {
    uint32_t from[R / 16], to;
};

template <int R>
__device__ __forceinline__ void find_listed(const ft_product &p, const block_of &b,
                                            rows_listed<R> &l)
{
    const int i = threadIdx.x & 127, piece = i & 7, first = i >> 3;
    l.to = 128 * first + 16 * (piece ^ (first & 7));
#pragma unroll
    for (int j = 0; j < R / 16; j++) {
        const int row = row_x(p, b, min(first + 16 * j, b.n - 1));
        l.from[j] = 128u * row + 16 * (piece ^ (row & 7));
    }
}

template <class S>
__device__ __forceinline__ void bring_listed(uint32_t to, const char *x, size_t plane,
                                             const rows_listed<S::R> &l, int rows)
{
#pragma unroll
    for (int q = 0; q < S::weights::XP; q++)
#pragma unroll
        for (int j = 0; j < S::R / 16; j++)
            if (16 * j < rows)
                copy_16(to + q * S::PLANE + 2048 * j + l.to, x + q * plane + l.from[j]);
}

/* Copies a unit of a warp's two tiles of weights. */
template <class W>
__device__ __forceinline__ void bring_weights(uint32_t to, const uint8_t *const (&from)[2])
{
    const int lane = threadIdx.x & 31, first = 2 * (threadIdx.x >> 5 & 3);
#pragma unroll
    for (int j = 0; j < 2; j++)
#pragma unroll
        for (int i = 16 * lane; i < W::BYTES; i += 512)
            copy_16(to + (first + j) * W::BYTES + i, from[j] + i);
}

/* Prefetches the results that this tile is added to. */
__device__ __forceinline__ void expect_results(const ft_product &p, const block_of &b)
{
    const int i = threadIdx.x & 127, o = b.at * ROWS_TILES * TILE_N;
    const int wide = min(ROWS_TILES * TILE_N, b.s->w.n - o);
    if (p.acc && i < b.n)
        prefetch_l2(b.s->y + (size_t)row_y(p, b, i) * b.s->rs + o, 4 * wide, 0, 1);
}

/* Contiguous rows are one copy by one thread; rows of a list, and weights, are copied by all
 * threads. The barrier of an entry completes when all of its copies have. */
template <class S> __device__ __forceinline__ void rows_feed(const ft_product &p, ring_buffer r)
{
    typedef typename S::weights W;
    const bool first = threadIdx.x == 32 * ROWS_WARPS;
    block_of b;
    for (int i = blockIdx.x; tile_at<S>(p, i, b); i += gridDim.x) {
        const uint8_t *weights[2];
        ft_wview w;
#pragma unroll
        for (int j = 0; j < 2; j++) {
            const int tile = rows_weights(p, b, 2 * (threadIdx.x >> 5 & 3) + j, w);
            weights[j] = unit_at(w, tile, 0, W::BYTES);
        }
        const char *x = (const char *)p.x + (S::listed ? 0 : (size_t)b.first * 128);
        rows_listed<S::R> l;
        if (S::listed) find_listed(p, b, l);
        expect_results(p, b);
        for (int u = 0; u < w.units; u++) {
            const uint32_t to = shared_at(r.at) + r.place * S::PLACE, bar = r.full + 8 * r.place;
            barrier_wait(r.empty + 8 * r.place, r.parity ^ 1);
            if (S::listed) {
                bring_listed<S>(to, x, 2 * p.x_plane, l, b.n);
            } else if (first) {
                barrier_expect(bar, b.n * 128 * W::XP);
                for (int q = 0; q < W::XP; q++)
                    copy_run(to + q * S::PLANE, x + 2 * q * p.x_plane, b.n * 128, bar);
            }
            bring_weights<W>(to + S::X, weights);
            barrier_arrive_copied(bar);
            weights[0] += W::BYTES;
            weights[1] += W::BYTES;
            x += (size_t)p.x_T * 128;
            next_place<S>(r);
        }
    }
    copy_commit();
    copy_wait<0>();
}

/* ---- the consumer warpgroups ---- */

/* The product of ROWS rows for weights of type W. */
template <class W, int ROWS, int N>
__device__ __forceinline__ void group_product_of(float (&c)[N], const uint32_t (&a)[4], uint64_t b,
                                                 bool add = true)
{
    if constexpr (W::HALF)
        group_product_f16<ROWS>(c, a, b, add);
    else
        group_product<ROWS>(c, a, b, add);
}

/* Decodes the weights of the current entry, when it is there. */
template <class S>
__device__ __forceinline__ void rows_decode(ft_frag (&f)[2][S::weights::WP], const ring_buffer &r)
{
    typedef typename S::weights W;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    typename W::regs v;
    barrier_wait(r.full + 8 * r.place, r.parity);
    W::load(v, r.at + r.place * S::PLACE + S::X + warp * W::BYTES, lane);
#pragma unroll
    for (int h = 0; h < 2; h++) W::frag(f[h], v, h, lane);
#pragma unroll
    for (int i = 0; i < 16 * W::WP; i++) /* all of it is in registers before the first product */
        asm volatile("" : "+r"(f[i / 8 % 2][i / 16].a[i / 4 % 2][i % 4])::"memory");
}

/* Issues the products of the current entry with its first ROWS rows; f must not change until they
 * are complete. Without `add` they begin a part. */
template <class S, int ROWS>
__device__ __forceinline__ void rows_issue(float (&c)[S::SUMS],
                                           const ft_frag (&f)[2][S::weights::WP],
                                           const ring_buffer &r, bool add)
{
    typedef typename S::weights W;
    const uint64_t x = group_operand(shared_at(r.at + r.place * S::PLACE));
    group_begin();
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int q = 0; q < W::XP + W::WP - 1; q++) { /* in the order of half_unit */
            const int wp = q >= W::XP ? q - W::XP + 1 : 0, xp = q < W::XP ? q : 0;
#pragma unroll
            for (int step = 0; step < 2; step++)
                group_product_of<W, ROWS>(c, f[h][wp].a[step],
                                          x + (xp * S::PLANE + 64 * h + 32 * step) / 16,
                                          h || q || step || add);
        }
}

/* The same for the fewest of ROWS, ROWS + 32, ... that a tile of `rows` rows needs. */
template <class S, int ROWS>
__device__ __forceinline__ void rows_issue_some(float (&c)[S::SUMS],
                                                const ft_frag (&f)[2][S::weights::WP],
                                                const ring_buffer &r, bool add, int rows)
{
    if constexpr (ROWS < S::R) {
        if (rows > ROWS)
            rows_issue_some<S, ROWS + 32>(c, f, r, add, rows);
        else
            rows_issue<S, ROWS>(c, f, r, add);
    } else {
        rows_issue<S, S::R>(c, f, r, add);
    }
}

/* The same for a tile of `rows` rows, as one group to wait for. */
template <class S>
__device__ __forceinline__ void rows_unit(float (&c)[S::SUMS],
                                          const ft_frag (&f)[2][S::weights::WP],
                                          const ring_buffer &r, bool add, int rows)
{
    if (S::listed) shared_written(); /* other threads copied these rows with ordinary copies */
    rows_issue_some<S, S::LEAST>(c, f, r, add, rows);
    group_commit();
}

/* This thread has used the previous entry. Every thread arrives by itself: one lane for its warp
 * takes 1 % longer, and compute-sanitizer's racecheck does not recognise it. */
template <class S> __device__ __forceinline__ void free_place(const ring_buffer &r)
{
    const int before = r.place ? r.place - 1 : S::PLACES - 1;
    barrier_arrive(r.empty + 8 * before);
}

/* Waits until all but the last N units are multiplied, and adds a part that is complete then. */
template <class S, int N>
__device__ __forceinline__ void rows_add(float (&sum)[S::SUMS], float (&c)[S::SUMS],
                                         const ring_buffer &r)
{
    group_wait<N>();
    group_registers(c);
    free_place<S>(r);
#pragma unroll
    for (int i = 0; i < S::SUMS; i++) sum[i] += c[i];
}

/* Parts of one unit each, an even number of them: two alternate. */
template <class S>
__device__ __forceinline__ void rows_units(float (&sum)[S::SUMS], ring_buffer &r, int units,
                                           int rows)
{
    ft_frag f[2][2][S::weights::WP];
    for (int u = 0; u < units; u += 2) {
        float c[2][S::SUMS] = {};
        rows_decode<S>(f[0], r);
        rows_unit<S>(c[0], f[0], r, false, rows);
        next_place<S>(r);
        rows_decode<S>(f[1], r);
        rows_unit<S>(c[1], f[1], r, false, rows);
        rows_add<S, 1>(sum, c[0], r);
        next_place<S>(r);
        rows_add<S, 0>(sum, c[1], r);
    }
}

/* Parts of any number of units. A unit is decoded while the one before it is multiplied, also
 * across the end of a part. */
template <class S>
__device__ __forceinline__ void rows_parts(float (&sum)[S::SUMS], ring_buffer &r, int units,
                                           int rows)
{
    const int per = part_units(units);
    ft_frag f[2][2][S::weights::WP];
    float c[S::SUMS] = {};
    int done = 0; /* units of this part */
    for (int u = 0; u < units; u += 2)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            if (h && u + h >= units) break;
            rows_decode<S>(f[h], r);
            if (!done && u + h) rows_add<S, 0>(sum, c, r);
            rows_unit<S>(c, f[h], r, done, rows);
            if (done) {
                group_wait<1>();
                free_place<S>(r);
            }
            next_place<S>(r);
            if (++done == per) done = 0;
        }
    rows_add<S, 0>(sum, c, r);
}

/* The sums of a tile. They begin with -0: x + -0 is x, also for -0. The registers are enough for
 * two parts at a time in tiles of few rows. */
template <class S>
__device__ __forceinline__ void rows_sums(float (&sum)[S::SUMS], ring_buffer &r, int units,
                                          int rows)
{
#pragma unroll
    for (int i = 0; i < S::SUMS; i++) sum[i] = -0.0f;
    if (S::listed && S::R == ROWS_FEW && part_units(units) == 1 && units % 2 == 0)
        rows_units<S>(sum, r, units, rows);
    else
        rows_parts<S>(sum, r, units, rows);
}

template <int N> __device__ __forceinline__ void clear(float (&c)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++) c[i] = 0;
}

/* sum += c, or = if c is the first part. */
template <int N>
__device__ __forceinline__ void add_part(float (&sum)[N], const float (&c)[N], int u)
{
#pragma unroll
    for (int i = 0; i < N; i++) sum[i] = u ? sum[i] + c[i] : c[i];
}

/* A warpgroup's results, as [row][output]. Row 8 i + 2 t + (q & 1) and output g + 8 (q >> 1) of the
 * warp's 16 are value 4 i + q. */
template <int N> __device__ __forceinline__ void rows_spread(float *out, const float (&v)[N])
{
    const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    out += 2 * t * ROWS_PITCH + (threadIdx.x >> 5 & 3) * TILE_N + g;
#pragma unroll
    for (int k = 0; k < N; k++) out[(8 * (k / 4) + k % 2) * ROWS_PITCH + 8 * (k / 2 % 2)] = v[k];
}

/* A barrier of both warpgroups, or of one. */
__device__ __forceinline__ void rows_meet(bool both, int group)
{
    asm volatile("bar.sync %0, %1;" ::"r"(both ? 1 : 2 + group), "r"(both ? 256 : 128) : "memory");
}

__device__ __forceinline__ float4 sum_of(float4 a, float4 b)
{
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

/* Four outputs of R / 8 rows per thread, where they are aligned. */
template <int R>
__device__ __forceinline__ void rows_put_fours(const ft_product &p, const block_of &b, float *y,
                                               const float *out, int row, float scale)
{
    enum { AHEAD = 8 };
    for (int from = row; from < b.n; from += 8 * AHEAD) {
        float4 *at[AHEAD], old[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) { /* all loads are issued before the first value is used */
            at[i] = (float4 *)(y + (size_t)row_y(p, b, min(from + 8 * i, b.n - 1)) * b.s->rs);
            if (p.acc) old[i] = *at[i];
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const int at_row = R % (8 * AHEAD) ? min(from + 8 * i, R - 1) : from + 8 * i;
            float4 v = *(const float4 *)(out + at_row * ROWS_PITCH);
            v = make_float4(v.x * scale, v.y * scale, v.z * scale, v.w * scale);
            if (from + 8 * i < b.n) *at[i] = p.acc ? sum_of(old[i], v) : v;
        }
    }
}

/* Stores a warpgroup's 64 outputs of all rows. */
template <class W, int R>
__device__ __forceinline__ void rows_put(const ft_product &p, const block_of &b, const float *out)
{
    const int me = threadIdx.x & 127, row = me >> 4, c = 4 * (me & 15), n = b.s->w.n;
    const int o = (b.at * 2 + (threadIdx.x >> 7)) * 64 + c;
    const float scale = scale_of<W>(*b.s, b.expert);
    float *y = b.s->y + o;
    out += c;
    if (o + 4 <= n && b.s->rs % 4 == 0 && (uintptr_t)y % 16 == 0) {
        rows_put_fours<R>(p, b, y, out, row, scale);
        return;
    }
    for (int i = row; i < b.n; i += 8)
        for (int j = 0; j < 4; j++)
            put_result(p, *b.s, row_y(p, b, i), o + j, out[i * ROWS_PITCH + j] * scale);
}

/* Gates and ups are adjacent. A thread makes 16 bytes of a row's copy: the pairs of outputs
 * that are adjacent there. */
template <class W>
__device__ __forceinline__ void rows_put_pair(const ft_product &p, const block_of &b,
                                              const float *out, int results)
{
    const int me = threadIdx.x, piece = me & 7, c = (piece & 4) << 3 | (piece & 3) << 1;
    const ft_seg &s = p.seg[0];
    const int o = b.at * 64 + c;
    const float s0 = scale_of<W>(s, b.expert), s1 = scale_of<W>(p.seg[1], b.expert);
    for (int i = me >> 3; i < b.n; i += 32) {
        const int row = row_y(p, b, i);
        const float *gate = out + i * ROWS_PITCH + c, *up = gate + results;
        float *y = s.y ? s.y + (size_t)row * s.rs + o : NULL;
        uint32_t hi[4], lo[4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const float2 g = *(const float2 *)(gate + 8 * k), u = *(const float2 *)(up + 8 * k);
            const float v0 = act_of(g.x * s0, p.act) * (u.x * s1);
            const float v1 = act_of(g.y * s0, p.act) * (u.y * s1);
            plane_pair(p.out_plane, v0, v1, hi[k], lo[k]);
            if (y && o + 8 * k < s.w.n) y[8 * k] = v0;
            if (y && o + 8 * k + 1 < s.w.n) y[8 * k + 1] = v1;
        }
        if (!p.out || b.at * 64 >= s.w.n) continue;
        const size_t at = bf16_index(p.out_T, true, row, o);
        *(uint4 *)(p.out + at) = make_uint4(hi[0], hi[1], hi[2], hi[3]);
        *(uint4 *)(p.out + p.out_plane.at + at) = make_uint4(lo[0], lo[1], lo[2], lo[3]);
    }
}

template <class S> __device__ __forceinline__ void rows_multiply(const ft_product &p, ring_buffer r)
{
    const int group = threadIdx.x >> 7;
    float *out = (float *)(r.at + S::OUT);
    block_of b;
    for (int i = blockIdx.x; tile_at<S>(p, i, b); i += gridDim.x) {
        float sum[S::SUMS];
        rows_sums<S>(sum, r, b.s->w.units, b.n);
        rows_meet(p.glu, group); /* the previous tile has been read */
        rows_spread(out + group * S::RESULTS, sum);
        rows_meet(p.glu, group);
        if (p.glu)
            rows_put_pair<typename S::weights>(p, b, out, S::RESULTS);
        else
            rows_put<typename S::weights, S::R>(p, b, out + group * S::RESULTS);
    }
}
#endif

template <class S>
__global__ void __launch_bounds__(ROWS_THREADS, 1)
    product_rows_wgmma(const __grid_constant__ ft_product p)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
    extern __shared__ unsigned char smem[];
    __shared__ uint64_t bars[2 * S::PLACES];
    ring_buffer r = {smem + (-(uintptr_t)smem & 1023), shared_at(bars), shared_at(bars + S::PLACES),
                     0, 0};
    if (threadIdx.x == 0) ring_init<S>(r, S::listed ? 128 : 128 + 1, 32 * ROWS_WARPS);
    fill_table<typename S::weights>(p.seg[0].w);
    wait_then_start_next();
    __syncthreads();
    if (threadIdx.x >= 32 * ROWS_WARPS) {
        registers_less<56>();
        rows_feed<S>(p, r);
    } else {
        registers_more<224>();
        rows_multiply<S>(p, r);
    }
#endif
}

#endif
