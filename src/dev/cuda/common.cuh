/* dev/cuda/common.cuh - helpers of all kernels: reductions in a fixed order, matrix access,
 * launches. The order of a sum depends on its length only, never on the grid. */
#ifndef FT_DEV_CUDA_COMMON_CUH
#define FT_DEV_CUDA_COMMON_CUH

#include "dev/cuda/cuda.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

/* Launches on the device's stream and stores an error:
 *   FT_LAUNCH(c, kernel, grid, block, shared_bytes, arguments...) */
#define FT_LAUNCH(c, kernel, grid, block, shared, ...)                                             \
    do {                                                                                           \
        kernel<<<(grid), (block), (shared), (c)->stream>>>(__VA_ARGS__);                           \
        ft_cuda_check((c), cudaGetLastError(), #kernel);                                           \
    } while (0)

/* Programmatic dependent launch, for a kernel that calls wait_for_previous_kernel(): it starts
 * while the previous kernel still runs, and can do work that does not depend on it. */
#define FT_LAUNCH_NEXT(c, kernel, grid, block, shared, ...)                                        \
    ft_launch_next((c), kernel, (grid), (block), (shared), #kernel, __VA_ARGS__)

template <class... P, class... A>
static inline void ft_launch_next(ft_cuda *c, void (*kernel)(P...), dim3 grid, dim3 block,
                                  size_t shared, const char *name, A... args)
{
    ft_cuda_max_carveout(c, (const void *)kernel);
    cudaLaunchConfig_t g = {};
    cudaLaunchAttribute a[2];
    a[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    a[0].val.programmaticStreamSerializationAllowed = 1;
    g.gridDim = grid;
    g.blockDim = block;
    g.dynamicSmemBytes = shared;
    g.stream = c->stream;
    g.attrs = a;
    g.numAttrs = c->cc >= 90;
#if CUDART_VERSION >= 12080
    if (c->carveout) {
        a[g.numAttrs].id = cudaLaunchAttributePreferredSharedMemoryCarveout;
        a[g.numAttrs++].val.sharedMemCarveout = (unsigned)c->carveout;
    }
#endif
    ft_cuda_check(c, cudaLaunchKernelEx(&g, kernel, P(args)...), name);
}

/* Lets the next kernel start, then waits until all previous kernels have finished. Their results
 * may be read, and memory they use may be written, only after this call. */
__device__ __forceinline__ void wait_for_previous_kernel()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* The reverse order: the next kernel starts only when all previous kernels have finished. It may
 * therefore read their results before it calls wait_for_previous_kernel() itself. */
__device__ __forceinline__ void wait_then_start_next()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/* Prefetches data into the L2 cache that does not depend on the previous kernel; for thread i of n.
 */
__device__ __forceinline__ void prefetch_l2(const void *p, int bytes, int i, int n)
{
#if __CUDA_ARCH__ >= 800
    for (int at = 128 * i; at < bytes; at += 128 * n)
        asm volatile("prefetch.global.L2 [%0];" ::"l"((const char *)p + at));
#endif
}

static inline unsigned ft_blocks(size_t n, size_t per)
{
    return (unsigned)((n + per - 1) / per);
}

__device__ __forceinline__ float *mat_head(const ft_mat &m, int t, int h)
{
    return m.p + (size_t)t * m.rs + (size_t)h * m.hs;
}

/* Value c of row t, for any distance between heads. */
__device__ __forceinline__ float *mat_value(const ft_mat &m, int t, int c)
{
    return m.p + (size_t)t * m.rs + (size_t)(c / m.d) * m.hs + c % m.d;
}

/* Whether values 2 i and 2 i + 1 of a row can be read with one load. */
static inline bool mat_even(ft_mat m)
{
    return m.d % 2 == 0 && m.rs % 2 == 0 && (m.hs % 2 == 0 || m.H == 1) && (uintptr_t)m.p % 8 == 0;
}

__device__ __forceinline__ float warp_sum(float v)
{
#pragma unroll
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
    return v;
}

__device__ __forceinline__ float warp_max(float v)
{
#pragma unroll
    for (int o = 16; o; o >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, o));
    return v;
}

/* Sum over a block of at most 1024 threads, returned to every thread. shared: 33 floats. */
__device__ __forceinline__ float block_sum(float v, float *shared)
{
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = (blockDim.x + 31) >> 5;
    v = warp_sum(v);
    __syncthreads(); /* an earlier call may still read `shared` */
    if (!lane) shared[warp] = v;
    __syncthreads();
    if (!warp) {
        float s = lane < warps ? shared[lane] : 0.0f;
        s = warp_sum(s);
        if (!lane) shared[32] = s;
    }
    __syncthreads();
    return shared[32];
}

/* x as the sum of two bf16 numbers, with a relative error of 2^-17. */
__device__ __forceinline__ void split_bf16(float x, __nv_bfloat16 &hi, __nv_bfloat16 &lo)
{
    hi = __float2bfloat16_rn(x);
    const float rest = x - __bfloat162float(hi);
    /* infinity and NaN are stored in the high part only */
    lo = __float2bfloat16_rn(isfinite(x) ? rest : 0.0f);
}

/* The bf16 copy of many rows (ft_cuda_wide) has the 64 columns of a unit in the order that
 * product/rows_wgmma.cuh needs in shared memory: in each half of 32, columns 8 i + j (i < 4, j < 8)
 * are in the order (j / 2, i, j % 2), so that the 16 columns of one tensor core instruction are
 * contiguous; and the eight 16-byte pieces are swizzled by the row. Pairs of columns stay adjacent.
 * Packed F16 weights have the same order, with outputs as rows. */
__device__ __forceinline__ int wide_column(int t, int c)
{
    const int piece = c >> 3 & 4 | c >> 1 & 3;
    return (piece ^ (t & 7)) << 3 | c >> 2 & 6 | c & 1;
}

/* Index of value c of row t in plane 0 of a copy of T rows; plane 1 follows bf16_plane values
 * later. */
__device__ __forceinline__ size_t bf16_index(int T, bool wide, int t, int c)
{
    return ((size_t)(c >> 6) * T + t) * 64 + (wide ? wide_column(t, c & 63) : c & 63);
}

__host__ __device__ __forceinline__ size_t bf16_plane(int T, int k)
{
    return (size_t)((k + 63) / 64) * 64 * T;
}

/* A matrix that only products with rounded weights read (ft_mat.operand) is stored as f16 in its
 * own memory: groups of FT_OPERAND_ROWS rows, each [k / 64][rows][64] with zeros beyond column k,
 * the eight 16-byte pieces of a row swizzled by the row, as product/dense.cu needs them in shared
 * memory. Values are divided by OPERAND_RANGE and clamped to the largest f16: those up to a million
 * keep their 11 bits, and those below 0.001 have an error of 5e-7. */
enum { OPERAND_RANGE = 16 };

__device__ __forceinline__ unsigned char *operand_at(const ft_mat &m, int t, int c)
{
    const int r = t & (FT_OPERAND_ROWS - 1);
    return (unsigned char *)(m.p + (size_t)(t - r) * m.rs) + (c >> 6) * (FT_OPERAND_ROWS * 128) +
           r * 128 + ((c >> 3 & 7) ^ (t & 7)) * 16 + (c & 7) * 2;
}

/* Two values; the first is the lower half. */
__device__ __forceinline__ uint32_t operand_pair(float a, float b)
{
    const float most = 65504.0f, f = 1.0f / OPERAND_RANGE;
    /* a comparison with NaN is false: NaN stays */
    a = fabsf(a * f) > most ? copysignf(most, a) : a * f;
    b = fabsf(b * f) > most ? copysignf(most, b) : b * f;
    const __half2 h = __floats2half2_rn(a, b);
    return *(const uint32_t *)&h;
}

/* Plane 1 of a copy: its distance from plane 0, and whether it is f16 (FT_COPY_HALF; the values are
 * those of operand_pair) or what the rounding to bf16 left (FT_COPY_SPLIT). */
typedef struct ft_plane {
    size_t at;
    bool half;
} ft_plane;

/* Values c and c + 1 of a row, the first in the lower half: `hi` for plane 0, `lo` for plane 1. */
__device__ __forceinline__ void plane_pair(ft_plane p, float a, float b, uint32_t &hi, uint32_t &lo)
{
    __nv_bfloat16 ah, al, bh, bl;
    split_bf16(a, ah, al);
    split_bf16(b, bh, bl);
    hi = (uint32_t)__bfloat16_as_ushort(ah) | (uint32_t)__bfloat16_as_ushort(bh) << 16;
    lo = p.half ? operand_pair(a, b)
                : (uint32_t)__bfloat16_as_ushort(al) | (uint32_t)__bfloat16_as_ushort(bl) << 16;
}

/* Writes a value to both planes. */
__device__ __forceinline__ void bf16_put(uint16_t *s, ft_plane p, size_t at, float v)
{
    uint32_t hi, lo;
    plane_pair(p, v, 0, hi, lo);
    s[at] = (uint16_t)hi;
    s[p.at + at] = (uint16_t)lo;
}

/* Values c and c + 1 of a row, c even: adjacent in every order. */
__device__ __forceinline__ void bf16_put_pair(uint16_t *s, ft_plane p, size_t at, float2 v)
{
    uint32_t hi, lo;
    plane_pair(p, v.x, v.y, hi, lo);
    *(uint32_t *)(s + at) = hi;
    *(uint32_t *)(s + p.at + at) = lo;
}

__device__ __forceinline__ void operand_put(const ft_mat &m, int t, int c, float v)
{
    *(uint16_t *)operand_at(m, t, c) = (uint16_t)operand_pair(v, 0);
}

/* Zeros beyond the last column of row t; all threads of a block call it. */
__device__ __forceinline__ void operand_end(const ft_mat &m, int t)
{
    const int k = m.H * m.d;
    for (int c = k + threadIdx.x; c < (k + 63) / 64 * 64; c += blockDim.x) operand_put(m, t, c, 0);
}

/* The transform of 32 values that TQ3_1S and TQ4_1S weights were stored with
 * (quant/turbo_weights.c): signs, then Walsh-Hadamard. It is orthogonal, so the products of
 * transformed activations with transformed weights are those of the originals. A thread has N of
 * the 32 columns, c..., and 32 / N adjacent threads exchange theirs. Any N gives the same bits. */
template <int N> __device__ __forceinline__ void hadamard_32(float (&v)[N], int c)
{
    const uint32_t minus = 0x696b4b4au >> c % 32;
#pragma unroll
    for (int j = 0; j < N; j++) v[j] = minus >> j & 1 ? -v[j] : v[j];
#pragma unroll
    for (int h = 1; h < N; h *= 2)
#pragma unroll
        for (int j = 0; j < N; j++)
            if (!(j & h)) {
                const float a = v[j], b = v[j + h];
                v[j] = a + b;
                v[j + h] = a - b;
            }
#pragma unroll
    for (int h = N; h < 32; h *= 2)
#pragma unroll
        for (int j = 0; j < N; j++) {
            const float other = __shfl_xor_sync(~0u, v[j], h / N);
            v[j] = c & h ? other - v[j] : v[j] + other;
        }
#pragma unroll
    for (int j = 0; j < N; j++) v[j] *= 0.17677669529663688f; /* 1 / sqrt(32) */
}

__device__ __forceinline__ uint32_t bf2(float lo, float hi)
{
    const __nv_bfloat162 v = __floats2bfloat162_rn(lo, hi);
    return *(const uint32_t *)&v;
}

/* Writes the transformed values c... of a row to plane 0 of a copy: these weights read no other.
 * All lanes of a warp call it; those beyond the row (!inside) write nothing. */
template <int N>
__device__ __forceinline__ void hadamard_put(uint16_t *s, int T, bool wide, int t, int c,
                                             float (&v)[N], bool inside)
{
    hadamard_32(v, c);
#pragma unroll
    for (int j = 0; j < N; j += 2)
        if (inside) *(uint32_t *)(s + bf16_index(T, wide, t, c + j)) = bf2(v[j], v[j + 1]);
}

/* Address of the copy of a matrix with contiguous heads; p == NULL: it has none. */
typedef struct out_bf16 {
    uint16_t *p;
    ft_plane plane;
    int T;
    bool wide;
    uint16_t *hadamard; /* the transformed copy, or NULL */
    bool operand;       /* the matrix itself is f16 (ft_mat.operand) */
} out_bf16;

static inline out_bf16 out_copy(const ft_cuda *c, ft_mat y, uint16_t *p, bool half)
{
    out_bf16 s = {};
    s.p = p;
    s.plane.at = bf16_plane(y.T, ft_mat_cols(y));
    s.plane.half = half;
    s.T = y.T;
    s.wide = ft_cuda_wide(c, y.T);
    return s;
}

/* For an op that writes y. */
static inline out_bf16 out_bf16_of(ft_cuda *c, ft_mat y)
{
    out_bf16 s = {};
    bool half;
    if (y.operand || (y.H > 1 && y.hs != y.d)) {
        ft_cuda_wrote(c, y);
        s.operand = y.operand;
        return s;
    }
    uint16_t *const p = ft_cuda_wrote_with_bf16(c, y, &half);
    return out_copy(c, y, p, half);
}

/* The same for an op whose result products may not read. */
static inline out_bf16 out_missed_of(ft_cuda *c, ft_mat y)
{
    bool half;
    if (y.operand || (y.H > 1 && y.hs != y.d)) return out_bf16{};
    uint16_t *const p = ft_cuda_wrote_with_missed(c, y, &half);
    return out_copy(c, y, p, half);
}

/* out_bf16_of for an op that can also write the transformed copy. */
static inline out_bf16 out_both_of(ft_cuda *c, ft_mat y)
{
    out_bf16 s = out_bf16_of(c, y);
    if (s.p) s.hadamard = ft_cuda_wrote_with_hadamard(c, y);
    return s;
}

/* Writes value c of row t and its planes. */
__device__ __forceinline__ void put(const ft_mat &y, const out_bf16 &s, int t, int c, float v)
{
    if (s.operand) {
        operand_put(y, t, c, v);
        return;
    }
    *mat_value(y, t, c) = v;
    if (s.p) bf16_put(s.p, s.plane, bf16_index(s.T, s.wide, t, c), v);
}

/* (v & mask) | bits as one instruction. The compiler makes two of it, because both operands are
 * constants and an instruction has only one immediate. These instructions limit the speed of
 * decoding. */
__device__ __forceinline__ uint32_t and_or(uint32_t v, uint32_t mask, uint32_t bits)
{
    uint32_t r;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(r) : "r"(v), "r"(mask), "r"(bits));
    return r;
}

__device__ __forceinline__ float silu(float x)
{
    return x / (1.0f + expf(-x));
}

/* x (1 + tanh(u)) / 2 = x / (1 + exp(-2 u)): 1 + tanh(u) would cancel where x is far below 0. */
__device__ __forceinline__ float gelu_tanh(float x)
{
    return x / (1.0f + expf(-1.5957691216057308f * x * (1.0f + 0.044715f * x * x)));
}

__device__ __forceinline__ float act_of(float x, int act)
{
    return act == FT_SILU ? silu(x) : gelu_tanh(x);
}

#endif
