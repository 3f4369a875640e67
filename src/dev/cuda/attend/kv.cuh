/* dev/cuda/attend/kv.cuh - keys or values of a layer's KV cache as kernels see them: address of a
 * row, encoding, and the Hadamard transform of turbo encodings (quant/turbo.h). A warp transforms a
 * group; lane l holds its values E l .. E l + E - 1. */
#ifndef FT_CUDA_KV_CUH
#define FT_CUDA_KV_CUH

#include "dev/cuda/common.cuh"
#include "dev/cuda/mma.cuh"
extern "C" {
#include "dev/kv_row.h"
}

typedef struct kv_hadamard {
    uint32_t before[4], after[4];
    float root, root_128; /* 1 / sqrt(group); the encoders use it for groups of either size */
    int group;
} kv_hadamard;

typedef struct kv_side {
    int type;
    int d, width, G;
    int row;          /* bytes of a row */
    size_t page;      /* bytes of a page */
    unsigned char *p; /* page 0 */
    int hadamard;
    bool halves; /* pages are expanded: rows of halves in the order of key_column (expand.cu) */
    int group_bytes;
    ft_turbo_format f;
} kv_side;

static inline kv_hadamard kv_hadamard_of(int d)
{
    kv_hadamard t;
    for (int i = 0; i < 4; i++) {
        t.before[i] = ft_turbo_signs(0)[i];
        t.after[i] = ft_turbo_signs(1)[i];
    }
    t.group = ft_turbo_group(d);
    t.root = ft_turbo_root(t.group);
    t.root_128 = ft_turbo_root(128);
    return t;
}

static inline kv_side kv_side_of(const ft_kv *kv, bool values)
{
    kv_side s = {};
    s.type = values ? kv->vt : kv->kt;
    s.d = kv->d;
    s.width = ft_kv_row_width((ft_kv_type)s.type, kv->d);
    s.G = kv->G;
    s.row = (int)(values ? kv->v_row : kv->k_row);
    s.page = values ? kv->v_page : kv->k_page;
    s.p = values ? kv->v : kv->k;
    s.hadamard = ft_kv_is_turbo((ft_kv_type)s.type);
    if (s.hadamard) {
        s.f = *ft_turbo_of(ft_kv_turbo((ft_kv_type)s.type));
        s.group_bytes =
            (int)ft_turbo_group_bytes(ft_kv_turbo((ft_kv_type)s.type), ft_turbo_group(kv->d));
    }
    return s;
}

/* The rows of one head in a page. */
__device__ __forceinline__ unsigned char *kv_page(const kv_side &s, int page, int g)
{
    return s.p + (size_t)page * s.page + (size_t)(g * FT_PAGE_ROWS) * s.row;
}

__device__ __forceinline__ float finite_or_zero(float x)
{
    return (__float_as_uint(x) & 0x7f800000u) == 0x7f800000u ? 0.0f : x;
}

/* The nearest finite f16. */
__device__ __forceinline__ uint16_t kv_half(float x)
{
    return __half_as_ushort(__float2half_rn(fminf(fmaxf(finite_or_zero(x), -65504.0f), 65504.0f)));
}

__device__ __forceinline__ float signed_by(const uint32_t *minus, int i, float x)
{
    return __uint_as_float(__float_as_uint(x) ^ (minus[i / 32] >> (i % 32) & 1) << 31);
}

template <int E>
__device__ __forceinline__ void hadamard_group(float (&v)[E], const uint32_t *from,
                                               const uint32_t *to, float root)
{
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int e = 0; e < E; e++) v[e] = signed_by(from, E * lane + e, v[e]);
#pragma unroll
    for (int h = 1; h < E; h *= 2)
#pragma unroll
        for (int e = 0; e < E; e++)
            if (!(e & h)) {
                const float a = v[e], b = v[e + h];
                v[e] = a + b;
                v[e + h] = a - b;
            }
#pragma unroll
    for (int h = 1; h < 32; h *= 2)
#pragma unroll
        for (int e = 0; e < E; e++) {
            const float other = __shfl_xor_sync(0xffffffffu, v[e], h);
            v[e] = lane & h ? other - v[e] : v[e] + other;
        }
#pragma unroll
    for (int e = 0; e < E; e++) v[e] = signed_by(to, E * lane + e, __fmul_rn(v[e], root));
}

/* Transforms a vector of whole groups in shared memory, in place, by a warp. */
__device__ __forceinline__ void hadamard_vector(float *x, int width, const kv_hadamard &t,
                                                bool back)
{
    const uint32_t *from = back ? t.after : t.before, *to = back ? t.before : t.after;
    const int lane = threadIdx.x & 31;
    if (t.group == 128) {
        for (int at = 0; at < width; at += 128) {
            float v[4];
            for (int e = 0; e < 4; e++) v[e] = x[at + 4 * lane + e];
            hadamard_group(v, from, to, t.root);
            for (int e = 0; e < 4; e++) x[at + 4 * lane + e] = v[e];
        }
    } else {
        for (int at = 0; at < width; at += 64) {
            float v[2];
            for (int e = 0; e < 2; e++) v[e] = x[at + 2 * lane + e];
            hadamard_group(v, from, to, t.root);
            for (int e = 0; e < 2; e++) x[at + 2 * lane + e] = v[e];
        }
    }
    __syncwarp();
}

__device__ __forceinline__ float f16_at(const unsigned char *p)
{
    return __half2float(__ushort_as_half((uint16_t)(p[0] | p[1] << 8)));
}

/* The code of value i in a group's codes. */
__device__ __forceinline__ int turbo_code(const unsigned char *codes, int bits, int group, int i)
{
    if (bits == 4) return codes[i / 2] >> 4 * (i % 2) & 15;
    const int low = codes[i / 4] >> 2 * (i % 4) & 3;
    return bits == 2 ? low : low | (codes[group / 4 + i / 8] >> i % 8 & 1) << 2;
}

/* Code i of 32 in the nibbles of a block. */
__device__ __forceinline__ int nibble_at(const unsigned char *codes, int i)
{
    return codes[i % 16] >> i / 16 * 4 & 15;
}

__device__ __forceinline__ int five_bits_at(const unsigned char *p, int i)
{
    return nibble_at(p + 4, i) | (p[i / 8] >> i % 8 & 1) << 4;
}

__constant__ const int8_t iq4_nl_step[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                             1,    13,   25,  38,  53,  69,  89,  113};

/* Value i of a row, one at a time: used by attend_scalar.cu. */
__device__ __forceinline__ float kv_value(const kv_side &s, const unsigned char *row, int group,
                                          int i)
{
    const unsigned char *b = row + i / 32 * (s.row / FT_MAX(1, s.d / 32));
    switch (s.type) {
    case FT_KV_F32: return ((const float *)row)[i];
    case FT_KV_F16: return f16_at(row + 2 * i);
    case FT_KV_BF16: return __uint_as_float((uint32_t)((const uint16_t *)row)[i] << 16);
    case FT_KV_Q8_0: return (float)(int8_t)b[2 + i % 32] * f16_at(b);
    case FT_KV_Q4_0: return (float)(nibble_at(b + 2, i % 32) - 8) * f16_at(b);
    case FT_KV_Q4_1: return (float)nibble_at(b + 4, i % 32) * f16_at(b) + f16_at(b + 2);
    case FT_KV_Q5_0: return (float)(five_bits_at(b + 2, i % 32) - 16) * f16_at(b);
    case FT_KV_Q5_1: return (float)five_bits_at(b + 4, i % 32) * f16_at(b) + f16_at(b + 2);
    case FT_KV_IQ4_NL: return (float)iq4_nl_step[nibble_at(b + 2, i % 32)] * f16_at(b);
    default: {
        const unsigned char *g = row + i / group * s.group_bytes;
        return s.f.value[turbo_code(g + s.f.head, s.f.bits, group, i % group)] * f16_at(g);
    }
    }
}

#endif
