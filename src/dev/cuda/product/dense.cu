/* Products of vision towers on GPUs with warpgroup instructions: many rows, f16 weights and inputs,
 * f32 sums, with the bias, the activation and the sum that follow a product in its last step.
 *
 * A block computes tiles of 192 rows by 192 outputs, or of 128 by 192 or 128 if there are few, one
 * after the other. A thread copies units of 64 columns of both operands to a ring buffer in shared
 * memory; three (two) warpgroups multiply 64 rows each, with both operands in shared memory. 4096
 * rows by 1152 outputs are 132 tiles, one for each multiprocessor of an H200.
 *
 * A result is one chain of products in the order of the columns, whatever the tile: a row has the
 * same bits alone and in a batch.
 *
 * f16 has 11 significant bits where bf16 has 8, so that the squared error is 64 times smaller at
 * the same speed. Its small range is no limit: rows of weights are scaled by powers of two, and
 * inputs are divided by OPERAND_RANGE (common.cuh). */
#include "dev/cuda/product/dense.cuh"
#include "dev/cuda/product/wgmma.cuh"
#include "dev/cuda/quant.cuh"
#include "dev/cuda/spans.cuh"

/* ---- weights ---- */

enum { DENSE_UNIT = 64, PACK_THREADS = 128 };

static inline int dense_units(int k)
{
    return (k + DENSE_UNIT - 1) / DENSE_UNIT;
}

/* Outputs, rounded up to those of a group that is copied as a whole. */
static inline int dense_outputs(int n)
{
    return (n + 7) / 8 * 8;
}

size_t ft_dense_bytes(const ft_weight *w)
{
    const size_t n = (size_t)dense_outputs(w->n);
    return n * (size_t)dense_units(w->k) * DENSE_UNIT * sizeof(uint16_t) + n * sizeof(float);
}

static inline const float *dense_scales(const ft_weight *w)
{
    return (const float *)((const unsigned char *)w->packed + ft_dense_bytes(w)) -
           dense_outputs(w->n);
}

/* A block packs the row of an output: divided by a power of two, its values are at most 1. */
static __global__ void dense_pack_kernel(uint16_t *to, float *scale, const uint8_t *raw,
                                         size_t row_bytes, int type, int n, int k,
                                         const uint16_t *grid)
{
    __shared__ float tops[PACK_THREADS / 32];
    const int o = blockIdx.x, outputs = gridDim.x, units = (k + DENSE_UNIT - 1) / DENSE_UNIT;
    const uint8_t *row = raw + (size_t)min(o, n - 1) * row_bytes;
    float v[8], top = 0;
    for (int c = 8 * threadIdx.x; c < k; c += 8 * PACK_THREADS) {
        decode8(type, row, c, k, v, grid);
        for (int j = 0; j < 8 && c + j < k; j++) top = fmaxf(top, fabsf(v[j]));
    }
    top = warp_max(top);
    if (!(threadIdx.x & 31)) tops[threadIdx.x / 32] = top;
    __syncthreads();
    for (int i = 0; i < PACK_THREADS / 32; i++) top = fmaxf(top, tops[i]);
    int e = 0;
    if (top > 0 && top < INFINITY) frexpf(top, &e);
    if (!threadIdx.x) scale[o] = ldexpf(1.0f, e);
    for (int c = 8 * threadIdx.x; c < units * DENSE_UNIT; c += 8 * PACK_THREADS) {
        if (o < n) decode8(type, row, c, k, v, grid);
        uint16_t *at = to + ((size_t)(c / DENSE_UNIT) * outputs + o) * DENSE_UNIT +
                       8 * ((c / 8 & 7) ^ (o & 7));
        for (int j = 0; j < 8; j++)
            at[j] = __half_as_ushort(__float2half_rn(o < n && c + j < k ? ldexpf(v[j], -e) : 0.0f));
    }
}

void ft_dense_pack(ft_cuda *c, const ft_weight *w, const void *raw)
{
    FT_LAUNCH(c, dense_pack_kernel, (unsigned)dense_outputs(w->n), PACK_THREADS, 0,
              (uint16_t *)w->packed, (float *)dense_scales(w), (const uint8_t *)raw, w->row_bytes,
              (int)w->type, w->n, w->k, c->grid);
}

/* ---- inputs ---- */

/* The rows of x as an operand; columns beyond its width are zeros. A thread has eight columns. */
static __global__ void operand_kernel(ft_mat y, ft_mat x, int k, int eights)
{
    wait_for_previous_kernel();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= eights * x.T) return;
    const int t = i / eights, c = i % eights * 8;
    const float *in = x.p + (size_t)t * x.rs;
    uint32_t v[4];
    for (int j = 0; j < 4; j++)
        v[j] = operand_pair(c + 2 * j < k ? in[c + 2 * j] : 0.0f,
                            c + 2 * j + 1 < k ? in[c + 2 * j + 1] : 0.0f);
    *(uint4 *)operand_at(y, t, c) = make_uint4(v[0], v[1], v[2], v[3]);
}

/* x itself if it is an operand, else a copy. */
static ft_mat operand_of(ft_cuda *c, ft_mat x)
{
    const int k = ft_mat_cols(x), units = dense_units(k);
    if (x.operand) return x;
    assert(x.hs == x.d || x.H == 1);
    /* a row of a unit has 128 bytes: 32 floats */
    ft_mat y = ft_mat_at(NULL, x.T, 32 * units);
    const size_t rows = ft_blocks((size_t)x.T, FT_OPERAND_ROWS) * FT_OPERAND_ROWS;
    y.p = (float *)ft_cuda_scratch(c, FT_SCRATCH_DENSE, rows * (size_t)y.rs * sizeof(float));
    y.operand = true;
    if (y.p)
        FT_LAUNCH_NEXT(c, operand_kernel, ft_blocks((size_t)(8 * units) * (size_t)x.T, 128), 128, 0,
                       y, x, k, 8 * units);
    return y;
}

/* ---- products ---- */

typedef struct dense_args {
    ft_mat x, y;
    const unsigned char *w[2]; /* gate and up, or one */
    const float *w_scale[2], *w_all[2], *b;
    int n, outputs, units; /* outputs: of the stored weights */
    int act;
    bool glu, acc, pairs; /* pairs: two values of y can be written at once */
    int rows, tiles;      /* tiles of rows; all tiles */
} dense_args;

template <int GROUPS, int COLS> struct dense_shape {
    enum {
        G = GROUPS, /* warpgroups that multiply */
        M = 64 * GROUPS,
        N = COLS,
        SUMS = N / 2, /* of a thread */
        X = M * 128,  /* bytes of a unit of rows */
        PLACE = X + N * 128,
        PLACES = 192 * 1024 / PLACE,
        BYTES = PLACES * PLACE + 1024,
        THREADS = 128 * (GROUPS + 1)
    };
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900

/* The first row and output of tile i. Outputs of a pair: gate and up take half of a tile each. */
template <class S>
__device__ __forceinline__ void dense_tile(const dense_args &a, int i, int &row, int &o)
{
    row = i % a.rows * S::M;
    o = i / a.rows * (a.glu ? S::N / 2 : S::N);
}

/* One thread copies both operands: rows in groups of FT_OPERAND_ROWS, outputs of a matrix at once.
 * Few large copies: a warp issues one at a time. */
template <class S> __device__ __forceinline__ void dense_feed(const dense_args &a, ring_buffer r)
{
    enum { GROUP = FT_OPERAND_ROWS * 128 };
    const size_t next = sizeof(float) * FT_OPERAND_ROWS * (size_t)a.x.rs; /* bytes to a group */
    for (int i = blockIdx.x; i < a.tiles; i += gridDim.x) {
        int row, o;
        dense_tile<S>(a, i, row, o);
        const int n_x = min((int)S::G, (a.x.T - row + FT_OPERAND_ROWS - 1) / FT_OPERAND_ROWS);
        const int n_w = 128 * min(a.glu ? S::N / 2 : S::N, max(0, a.outputs - o));
        const unsigned char *x = (const unsigned char *)(a.x.p + (size_t)row * a.x.rs);
        size_t w = 128 * (size_t)o;
        for (int u = 0; u < a.units; u++) {
            const uint32_t to = shared_at(r.at) + r.place * S::PLACE, bar = r.full + 8 * r.place;
            barrier_wait(r.empty + 8 * r.place, r.parity ^ 1);
            barrier_expect(bar, GROUP * n_x + (a.glu ? 2 * n_w : n_w));
#pragma unroll
            for (int g = 0; g < S::G; g++)
                if (g < n_x) copy_run(to + GROUP * g, x + next * g, GROUP, bar);
            if (n_w) copy_run(to + S::X, a.w[0] + w, n_w, bar);
            if (n_w && a.glu) copy_run(to + S::X + S::N / 2 * 128, a.w[1] + w, n_w, bar);
            x += GROUP;
            w += 128 * (size_t)a.outputs;
            next_place<S>(r);
        }
    }
}

/* x / (1 + exp(-z)), both operations with a relative error of 2^-22. */
__device__ __forceinline__ float over_exp(float x, float z)
{
    return __fdividef(x, 1.0f + exp2_approx(-1.4426950408889634f * z));
}

/* Activations of a whole tile: shorter than those of common.cuh. erfc after Abramowitz and Stegun,
 * 7.1.26, with an absolute error of 1.5e-7. */
template <int ACT> __device__ __forceinline__ float dense_act(float x)
{
    if (ACT == FT_ACT_NONE) return x;
    if (ACT == FT_SILU) return over_exp(x, x);
    if (ACT == FT_GELU) return over_exp(x, 1.5957691216057308f * x * fmaf(0.044715f * x, x, 1.0f));
    const float z = fabsf(x) * 0.70710678f, t = __fdividef(1.0f, fmaf(0.3275911f, z, 1.0f));
    float p = fmaf(1.061405429f, t, -1.453152027f);
    p = fmaf(p, t, 1.421413741f);
    p = fmaf(p, t, -0.284496736f);
    p = fmaf(p, t, 0.254829592f);
    const float tail = p * t * exp2_approx(-1.4426950408889634f * z * z); /* erfc(z) */
    return 0.5f * x * (x > 0 ? 2.0f - tail : tail);
}

/* Factors and biases of two outputs; zeros beyond the last. */
struct dense_pair {
    float s[2], b[2];
};

__device__ __forceinline__ dense_pair dense_factors(const dense_args &a, int which, float all,
                                                    int o)
{
    dense_pair p;
#pragma unroll
    for (int j = 0; j < 2; j++) {
        const bool some = o + j < a.n;
        p.s[j] = some ? __ldg(a.w_scale[which] + o + j) * all : 0.0f;
        p.b[j] = some && a.b ? __ldg(a.b + o + j) : 0.0f;
    }
    return p;
}

/* Four adjacent lanes have two values each of four pieces of eight: afterwards lane t has all of
 * piece t. */
__device__ __forceinline__ uint4 gather_piece(uint32_t (&v)[4])
{
    const int t = threadIdx.x & 3;
    const bool up = t & 2, odd = t & 1;
    uint32_t a = __shfl_xor_sync(~0u, up ? v[0] : v[2], 2);
    uint32_t b = __shfl_xor_sync(~0u, up ? v[1] : v[3], 2);
    /* pieces 2 (t / 2) and + 1, of lanes t and t ^ 2 */
    const uint32_t k0 = up ? v[2] : v[0], k1 = up ? v[3] : v[1];
    const uint32_t x = __shfl_xor_sync(~0u, odd ? k0 : k1, 1);
    const uint32_t y = __shfl_xor_sync(~0u, odd ? a : b, 1);
    const uint32_t mine = odd ? k1 : k0, far = odd ? b : a; /* of lanes t and t ^ 2 */
    /* x is of lane t ^ 1, y of lane t ^ 3 */
    const uint32_t lo0 = odd ? x : mine, lo1 = odd ? mine : x;
    const uint32_t hi0 = odd ? y : far, hi1 = odd ? far : y;
    return up ? make_uint4(hi0, hi1, lo0, lo1) : make_uint4(lo0, lo1, hi0, hi1);
}

/* Values o and o + 1 of a row that a result is added to; zeros where there are none. */
__device__ __forceinline__ float2 dense_old(const dense_args &a, int row, int o)
{
    const float *y = a.y.p + (size_t)row * a.y.rs + o;
    if (!a.acc || row >= a.y.T) return make_float2(0, 0);
    if (o + 1 < a.n && a.pairs) return *(const float2 *)y;
    return make_float2(o < a.n ? y[0] : 0, o + 1 < a.n ? y[1] : 0);
}

__device__ __forceinline__ void dense_put(const dense_args &a, int row, int o, float2 v)
{
    float *y = a.y.p + (size_t)row * a.y.rs + o;
    if (row >= a.y.T) return;
    if (o + 1 < a.n && a.pairs) {
        *(float2 *)y = v;
        return;
    }
    if (o < a.n) y[0] = v.x;
    if (o + 1 < a.n) y[1] = v.y;
}

/* Stores rows `row` and + 8 of four pieces. What they are added to is read before the first is
 * written: the compiler cannot know that rows do not overlap. */
__device__ __forceinline__ void dense_store(const dense_args &a, const float2 (&v)[2][4], int row,
                                            int o)
{
    const int t = threadIdx.x & 3, end = (a.n + 63) / 64 * 64;
    if (a.y.operand) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            uint32_t w[4];
#pragma unroll
            for (int i = 0; i < 4; i++) w[i] = operand_pair(v[h][i].x, v[h][i].y);
            const uint4 piece = gather_piece(w);
            if (row + 8 * h < a.y.T && o + 8 * t < end)
                *(uint4 *)operand_at(a.y, row + 8 * h, o + 8 * t) = piece;
        }
        return;
    }
    float2 old[2][4];
#pragma unroll
    for (int k = 0; k < 8; k++)
        old[k / 4][k % 4] = dense_old(a, row + 8 * (k / 4), o + 8 * (k % 4) + 2 * t);
#pragma unroll
    for (int k = 0; k < 8; k++) {
        const float2 x = old[k / 4][k % 4], y = v[k / 4][k % 4];
        dense_put(a, row + 8 * (k / 4), o + 8 * (k % 4) + 2 * t, make_float2(x.x + y.x, x.y + y.y));
    }
}

/* Results of four pieces of eight outputs, from o on: c has 16 sums of two rows, up those of the
 * other matrix of a pair. */
template <int ACT, bool GLU>
__device__ __forceinline__ void dense_pieces(const dense_args &a, const float *c, const float *up,
                                             int row, int o, float all, float all_up)
{
    const int t = threadIdx.x & 3;
    float2 v[2][4]; /* of rows `row` and + 8 */
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const dense_pair f = dense_factors(a, 0, all, o + 8 * i + 2 * t);
        dense_pair g = {};
        if (GLU) g = dense_factors(a, 1, all_up, o + 8 * i + 2 * t);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int k = 4 * i + 2 * h;
            v[h][i].x = dense_act<ACT>(fmaf(c[k], f.s[0], f.b[0]));
            v[h][i].y = dense_act<ACT>(fmaf(c[k + 1], f.s[1], f.b[1]));
            if (GLU) v[h][i].x *= up[k] * g.s[0], v[h][i].y *= up[k + 1] * g.s[1];
        }
    }
    dense_store(a, v, row, o);
}

/* The sums of outputs beyond the last one are of memory that was not copied: their factors are 0,
 * and so that 0 times infinity does not matter, they are set to 0 first. */
template <class S, int ACT, bool GLU>
__device__ __forceinline__ void dense_results(const dense_args &a, float (&c)[S::SUMS], int row,
                                              int o)
{
    enum { EACH = GLU ? S::SUMS / 2 : S::SUMS };
    const float all = OPERAND_RANGE * (a.w_all[0] ? __ldg(a.w_all[0]) : 1.0f);
    const float all_up = OPERAND_RANGE * (a.w_all[1] ? __ldg(a.w_all[1]) : 1.0f);
    row += threadIdx.x / 32 * 16 + (threadIdx.x & 31) / 4;
#pragma unroll
    for (int i = 0; i < S::SUMS; i++) {
        const int at = o + i % EACH / 4 * 8 + 2 * (threadIdx.x & 3) + i % 2;
        if (at >= a.n) c[i] = 0;
    }
#pragma unroll
    for (int i = 0; i < EACH; i += 16)
        dense_pieces<ACT, GLU>(a, c + i, c + i + S::SUMS - EACH, row, o + 2 * i, all, all_up);
}

/* c[64 rows of this warpgroup, N] = all units of a tile. */
template <class S>
__device__ __forceinline__ void dense_sums(const dense_args &a, float (&c)[S::SUMS], ring_buffer &r)
{
    const int group = threadIdx.x >> 7;
    int before = -1;
#pragma unroll
    for (int i = 0; i < S::SUMS; i++) c[i] = 0;
    for (int u = 0; u < a.units; u++) {
        const uint32_t at = shared_at(r.at) + r.place * S::PLACE;
        barrier_wait(r.full + 8 * r.place, r.parity);
        const uint64_t x = group_operand(at + group * 64 * 128), w = group_operand(at + S::X);
        group_begin();
#pragma unroll
        for (int step = 0; step < 4; step++)
            group_product_f16<true>(c, x + 2 * step, w + 2 * step); /* 16 columns: 32 bytes */
        group_commit();
        group_wait<1>();
        if (before >= 0) barrier_arrive(r.empty + 8 * before);
        before = r.place;
        next_place<S>(r);
    }
    group_wait<0>();
    group_registers(c);
    barrier_arrive(r.empty + 8 * before);
}

template <class S>
__device__ __forceinline__ void dense_multiply(const dense_args &a, ring_buffer r)
{
    for (int i = blockIdx.x; i < a.tiles; i += gridDim.x) {
        int row, o;
        float c[S::SUMS];
        dense_tile<S>(a, i, row, o);
        dense_sums<S>(a, c, r);
        if (a.glu)
            dense_results<S, FT_GELU, true>(a, c, row, o);
        else if (a.act == FT_GELU)
            dense_results<S, FT_GELU, false>(a, c, row, o);
        else if (a.act == FT_GELU_ERF)
            dense_results<S, FT_GELU_ERF, false>(a, c, row, o);
        else if (a.act == FT_SILU)
            dense_results<S, FT_SILU, false>(a, c, row, o);
        else
            dense_results<S, FT_ACT_NONE, false>(a, c, row, o);
    }
}
#endif

template <class S>
static __global__ void __launch_bounds__(S::THREADS, 1)
    dense_kernel(const __grid_constant__ dense_args a)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
    extern __shared__ unsigned char smem[];
    __shared__ uint64_t bars[2 * S::PLACES];
    ring_buffer r = {smem + (-(uintptr_t)smem & 1023), shared_at(bars), shared_at(bars + S::PLACES),
                     0, 0};
    if (threadIdx.x == 0) ring_init<S>(r, 1, 128 * S::G);
    wait_for_previous_kernel();
    __syncthreads();
    if (threadIdx.x >= 128 * S::G) {
        registers_less<32>();
        if (threadIdx.x == 128 * S::G) dense_feed<S>(a, r);
    } else {
        registers_more<S::G == 3 ? 160 : 224>();
        dense_multiply<S>(a, r);
    }
#endif
}

template <class S> static void dense_launch(ft_cuda *c, dense_args *a)
{
    static uint64_t seen;
    const int wide = a->y.operand ? (a->n + 63) / 64 * 64 : a->n, each = a->glu ? S::N / 2 : S::N;
    a->rows = (int)ft_blocks((size_t)a->x.T, S::M);
    a->tiles = a->rows * (int)ft_blocks((size_t)wide, (size_t)each);
    if (ft_cuda_first_use(c, &seen)) ft_cuda_shared(c, (const void *)dense_kernel<S>, S::BYTES);
    FT_LAUNCH_NEXT(c, dense_kernel<S>, (unsigned)FT_MIN(a->tiles, c->sms), S::THREADS, S::BYTES,
                   *a);
}

typedef dense_shape<3, 192> dense_large;
typedef dense_shape<2, 192> dense_medium;
typedef dense_shape<2, 128> dense_small;

/* Time of tiles of one size, in cycles of a multiprocessor per unit: it multiplies 2048 pairs in a
 * cycle, and gets 40 bytes from the L2 cache. */
template <class S> static double dense_cost(const ft_cuda *c, const dense_args *a)
{
    const size_t outputs = (size_t)a->n * (a->glu ? 2 : 1);
    const unsigned tiles = ft_blocks((size_t)a->x.T, S::M) * ft_blocks(outputs, S::N);
    const double multiply = S::M * S::N * DENSE_UNIT / 2048.0, copy = S::PLACE / 40.0;
    return ft_blocks(tiles, (size_t)c->sms) * FT_MAX(multiply, copy);
}

void ft_dense_run(ft_cuda *c, ft_mat y, ft_mat x, const ft_weight *w, const ft_weight *up,
                  const float *b, ft_act act, bool acc)
{
    dense_args a = {};
    assert(y.H == 1 || y.hs == y.d);
    assert(!up || (act == FT_GELU && !b && !acc));
    a.x = operand_of(c, x);
    if (!a.x.p) return;
    ft_cuda_wrote(c, y);
    a.y = y;
    a.n = w->n;
    a.outputs = dense_outputs(w->n);
    a.units = dense_units(w->k);
    a.b = b;
    a.act = (int)act;
    a.acc = acc;
    a.glu = up != NULL;
    a.pairs = y.rs % 2 == 0 && (uintptr_t)y.p % 8 == 0;
    for (int i = 0; i < (up ? 2 : 1); i++) {
        const ft_weight *m = i ? up : w;
        a.w[i] = (const unsigned char *)m->packed;
        a.w_scale[i] = dense_scales(m);
        a.w_all[i] = m->scale;
    }
    const double large = dense_cost<dense_large>(c, &a), medium = dense_cost<dense_medium>(c, &a);
    if (dense_cost<dense_small>(c, &a) < FT_MIN(large, medium))
        dense_launch<dense_small>(c, &a);
    else if (medium < large)
        dense_launch<dense_medium>(c, &a);
    else
        dense_launch<dense_large>(c, &a);
}

extern "C" void ft_cuda_dense(ft_dev *d, ft_mat y, ft_mat x, const ft_weight *w, ft_vec b,
                              ft_act act, bool acc)
{
    ft_cuda *c = (ft_cuda *)d;
    if (ft_dense_is(c, w)) {
        ft_dense_run(c, y, x, w, NULL, b.p, act, acc);
        return;
    }
    assert(!x.operand && !y.operand);
    ft_cuda_linear(d, y, x, w, acc);
    if (b.p || act != FT_ACT_NONE) ft_cuda_affine(d, y, b, ft_vec{}, act);
}
