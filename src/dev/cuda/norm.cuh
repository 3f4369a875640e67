/* dev/cuda/norm.cuh - norms of rows that are read as float4, for kernels that compute one. */
#ifndef FT_CUDA_NORM_CUH
#define FT_CUDA_NORM_CUH

#include "dev/cuda/common.cuh"

enum { NORM_FOURS = 4 }; /* maximum float4 values per thread */

__device__ __forceinline__ float4 times(float4 a, float r, float4 b)
{
    return make_float4(a.x * r * b.x, a.y * r * b.y, a.z * r * b.z, a.w * r * b.w);
}

__device__ __forceinline__ float square(float4 v)
{
    return v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
}

/* Writes four values of row t, from 4 i on, and their planes. */
__device__ __forceinline__ void put_four(const ft_mat &y, const out_bf16 &s, int t, int i, float4 v)
{
    if (s.operand) {
        *(uint2 *)operand_at(y, t, 4 * i) =
            make_uint2(operand_pair(v.x, v.y), operand_pair(v.z, v.w));
        return;
    }
    ((float4 *)mat_head(y, t, 0))[i] = v;
    if (!s.p) return;
    bf16_put_pair(s.p, s.plane, bf16_index(s.T, s.wide, t, 4 * i), make_float2(v.x, v.y));
    bf16_put_pair(s.p, s.plane, bf16_index(s.T, s.wide, t, 4 * i + 2), make_float2(v.z, v.w));
}

static inline bool in_fours(ft_mat m)
{
    return m.H == 1 && m.d % 4 == 0 && m.rs % 4 == 0 && (uintptr_t)m.p % 16 == 0;
}

/* Threads for a row that is read as float4. */
static inline int norm_threads(int d)
{
    return d > 2048 ? 512 : 256;
}

/* Whether rows of x, and weights of the same length, can be read as float4 and kept in registers.
 */
static inline bool fits_fours(ft_mat x, const float *w)
{
    return in_fours(x) && (uintptr_t)w % 16 == 0 && x.d >= 256 &&
           x.d <= 4 * NORM_FOURS * norm_threads(x.d);
}

#endif
