/* Products of vision towers on GPUs with warpgroup instructions: many rows, f16 weights and inputs,
 * f32 sums, with the bias, the activation and the sum that follow a product in its last step.
 *
 * A block computes tiles of 192 rows by 192 outputs, or of 128 by 128 if there are few, one after
 * the other. A warp copies units of 64 columns of both operands to a ring buffer in shared memory;
 * three (two) warpgroups multiply 64 rows each, with both operands in shared memory. 4096 rows by
 * 1152 outputs are 132 tiles, one for each multiprocessor of an H200.
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
    /* of 8 rows and 64 columns each group has 1024 bytes: 32 floats a row */
    ft_mat y = ft_mat_at(NULL, x.T, 32 * units);
    y.p = (float *)ft_cuda_scratch(c, FT_SCRATCH_DENSE,
                                   (size_t)((x.T + 7) / 8 * 8) * (size_t)y.rs * sizeof(float));
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
        STAGE = X + N * 128,
        STAGES = 192 * 1024 / STAGE,
        BYTES = STAGES * STAGE + 1024,
        THREADS = 128 * (GROUPS + 1)
    };
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900

#define FOUR(i)    "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define SIXTEEN(i) FOUR(i), FOUR(i + 4), FOUR(i + 8), FOUR(i + 12)
/* c[64, 192] += a[64, 16] b[192, 16]^T, both in shared memory (group_operand). */
static __device__ __forceinline__ void group_product_f16(float (&c)[96], uint64_t a, uint64_t b)
{
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n192k16.f32.f16.f16 "
        "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,"
        "%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,"
        "%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,"
        "%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,"
        "%90,%91,%92,%93,%94,%95}, %96, %97, 1, 1, 1, 0, 0;"
        : SIXTEEN(0), SIXTEEN(16), SIXTEEN(32), SIXTEEN(48), SIXTEEN(64), SIXTEEN(80)
        : "l"(a), "l"(b));
}

/* The same for 128 rows of b. */
static __device__ __forceinline__ void group_product_f16(float (&c)[64], uint64_t a, uint64_t b)
{
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
        "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,"
        "%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,"
        "%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, 1, 1, "
        "1, 0, 0;"
        : SIXTEEN(0), SIXTEEN(16), SIXTEEN(32), SIXTEEN(48)
        : "l"(a), "l"(b));
}
#undef SIXTEEN
#undef FOUR

/* The ring buffer, and a thread's position in it. */
struct dense_ring {
    unsigned char *at;
    uint32_t full, empty; /* barriers */
    int stage, parity;
};

template <class S> __device__ __forceinline__ void next_stage(dense_ring &r)
{
    if (++r.stage < S::STAGES) return;
    r.stage = 0;
    r.parity ^= 1;
}

/* The first row and output of tile i. Outputs of a pair: gate and up take half of a tile each. */
template <class S>
__device__ __forceinline__ void dense_tile(const dense_args &a, int i, int &row, int &o)
{
    row = i % a.rows * S::M;
    o = i / a.rows * (a.glu ? S::N / 2 : S::N);
}

/* A warp copies both operands, in groups of eight rows or outputs and 64 columns. Weights of one
 * matrix are contiguous; of a pair, groups of gates and ups alternate. */
template <class S> __device__ __forceinline__ void dense_feed(const dense_args &a, dense_ring r)
{
    const int lane = threadIdx.x & 31;
    for (int i = blockIdx.x; i < a.tiles; i += gridDim.x) {
        int row, o;
        dense_tile<S>(a, i, row, o);
        const int n_x = min(S::M / 8, (a.x.T - row + 7) / 8);
        const int n_w = min(S::N / 8, max(0, a.outputs - o) / 8 * (a.glu ? 2 : 1));
        const unsigned char *x = (const unsigned char *)(a.x.p + (size_t)(row + 8 * lane) * a.x.rs);
        const unsigned char *w =
            a.w[a.glu ? lane & 1 : 0] + 128 * ((size_t)o + (a.glu ? 8 * (lane >> 1) : 8 * lane));
        for (int u = 0; u < a.units; u++) {
            const uint32_t to = shared_at(r.at) + r.stage * S::STAGE, bar = r.full + 8 * r.stage;
            barrier_wait(r.empty + 8 * r.stage, r.parity ^ 1);
            if (!lane) barrier_expect(bar, 1024 * (n_x + n_w));
            __syncwarp();
            if (lane < n_x) copy_run(to + 1024 * lane, x, 1024, bar);
            if (a.glu ? lane < n_w : !lane && n_w > 0)
                copy_run(to + S::X + 1024 * lane, w, a.glu ? 1024 : 1024 * n_w, bar);
            x += 1024;
            w += 128 * (size_t)a.outputs;
            next_stage<S>(r);
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

/* Stores values o and o + 1 of a row. */
__device__ __forceinline__ void dense_put(const dense_args &a, int row, int o, float2 v)
{
    float *y = a.y.p + (size_t)row * a.y.rs + o;
    if (o + 1 < a.n && a.pairs) {
        const float2 old = a.acc ? *(const float2 *)y : make_float2(0, 0);
        *(float2 *)y = make_float2(old.x + v.x, old.y + v.y);
        return;
    }
    if (o < a.n) y[0] = a.acc ? y[0] + v.x : v.x;
    if (o + 1 < a.n) y[1] = a.acc ? y[1] + v.y : v.y;
}

/* Results of four pieces of eight outputs, from o on: c has 16 sums of two rows each (32 of a pair,
 * in which gates and ups alternate). */
template <int ACT, bool GLU>
__device__ __forceinline__ void dense_pieces(const dense_args &a, const float *c, int row, int o,
                                             float all, float all_up)
{
    const int t = threadIdx.x & 3, end = (a.n + 63) / 64 * 64;
    float2 v[2][4]; /* of rows `row` and + 8 */
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float *s = c + (GLU ? 8 : 4) * i;
        const dense_pair f = dense_factors(a, 0, all, o + 8 * i + 2 * t);
        dense_pair g = {};
        if (GLU) g = dense_factors(a, 1, all_up, o + 8 * i + 2 * t);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            v[h][i].x = dense_act<ACT>(fmaf(s[2 * h], f.s[0], f.b[0]));
            v[h][i].y = dense_act<ACT>(fmaf(s[2 * h + 1], f.s[1], f.b[1]));
            if (GLU) v[h][i].x *= s[4 + 2 * h] * g.s[0], v[h][i].y *= s[5 + 2 * h] * g.s[1];
        }
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        if (a.y.operand) {
            uint32_t w[4];
#pragma unroll
            for (int i = 0; i < 4; i++) w[i] = operand_pair(v[h][i].x, v[h][i].y);
            const uint4 piece = gather_piece(w);
            if (row + 8 * h < a.y.T && o + 8 * t < end)
                *(uint4 *)operand_at(a.y, row + 8 * h, o + 8 * t) = piece;
            continue;
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (row + 8 * h < a.y.T) dense_put(a, row + 8 * h, o + 8 * i + 2 * t, v[h][i]);
    }
}

/* The sums of outputs beyond the last one are of memory that was not copied: their factors are 0,
 * and so that 0 times infinity does not matter, they are set to 0 first. */
template <class S, int ACT, bool GLU>
__device__ __forceinline__ void dense_results(const dense_args &a, float (&c)[S::SUMS], int row,
                                              int o)
{
    const float all = OPERAND_RANGE * (a.w_all[0] ? __ldg(a.w_all[0]) : 1.0f);
    const float all_up = OPERAND_RANGE * (a.w_all[1] ? __ldg(a.w_all[1]) : 1.0f);
    row += threadIdx.x / 32 * 16 + (threadIdx.x & 31) / 4;
#pragma unroll
    for (int i = 0; i < S::SUMS; i++) {
        const int at = o + i / (GLU ? 8 : 4) * 8 + 2 * (threadIdx.x & 3) + i % 2;
        if (at >= a.n) c[i] = 0;
    }
#pragma unroll
    for (int i = 0; i < S::SUMS; i += GLU ? 32 : 16)
        dense_pieces<ACT, GLU>(a, c + i, row, o + (GLU ? i : 2 * i), all, all_up);
}

/* c[64 rows of this warpgroup, N] = all units of a tile. */
template <class S>
__device__ __forceinline__ void dense_sums(const dense_args &a, float (&c)[S::SUMS], dense_ring &r)
{
    const int group = threadIdx.x >> 7;
    int before = -1;
#pragma unroll
    for (int i = 0; i < S::SUMS; i++) c[i] = 0;
    for (int u = 0; u < a.units; u++) {
        const uint32_t at = shared_at(r.at) + r.stage * S::STAGE;
        barrier_wait(r.full + 8 * r.stage, r.parity);
        const uint64_t x = group_operand(at + group * 64 * 128), w = group_operand(at + S::X);
        group_begin();
#pragma unroll
        for (int step = 0; step < 4; step++)
            group_product_f16(c, x + 2 * step, w + 2 * step); /* 16 columns: 32 bytes */
        group_commit();
        group_wait<1>();
        if (before >= 0) barrier_arrive(r.empty + 8 * before);
        before = r.stage;
        next_stage<S>(r);
    }
    group_wait<0>();
    barrier_arrive(r.empty + 8 * before);
}

template <class S> __device__ __forceinline__ void dense_multiply(const dense_args &a, dense_ring r)
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
    __shared__ uint64_t bars[2 * S::STAGES];
    dense_ring r = {smem + (-(uintptr_t)smem & 1023), shared_at(bars), shared_at(bars + S::STAGES),
                    0, 0};
    if (threadIdx.x == 0) {
        for (int i = 0; i < S::STAGES; i++) {
            barrier_init(r.full + 8 * i, 1);
            barrier_init(r.empty + 8 * i, 128 * S::G);
        }
        shared_written();
    }
    wait_for_previous_kernel();
    __syncthreads();
    if (threadIdx.x >= 128 * S::G) {
        registers_less<32>();
        if (threadIdx.x < 128 * S::G + 32) dense_feed<S>(a, r);
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
typedef dense_shape<2, 128> dense_small;

/* Time of tiles of one size, in multiply-adds of a multiprocessor's tensor cores. */
template <class S> static double dense_cost(const ft_cuda *c, const dense_args *a)
{
    const size_t outputs = (size_t)a->n * (a->glu ? 2 : 1);
    const unsigned tiles = ft_blocks((size_t)a->x.T, S::M) * ft_blocks(outputs, S::N);
    return (double)ft_blocks(tiles, (size_t)c->sms) * S::M * S::N;
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
    /* a small tile reads a third more for each result */
    if (dense_cost<dense_large>(c, &a) <= 1.2 * dense_cost<dense_small>(c, &a))
        dense_launch<dense_large>(c, &a);
    else
        dense_launch<dense_small>(c, &a);
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
