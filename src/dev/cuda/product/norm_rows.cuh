/* dev/cuda/product/norm_rows.cuh - the norm of few rows in every block of a product that reads
 * them. The bits are those of rmsnorm_row_kernel. */
#ifndef FT_DEV_CUDA_PRODUCT_NORM_ROWS_CUH
#define FT_DEV_CUDA_PRODUCT_NORM_ROWS_CUH

#include "dev/cuda/norm.cuh"

enum {
    NORMED_WARPS = 8,
    NORMED_FOURS = 2, /* float4 values of a thread */
    NORMED_ROWS = 4   /* most */
};

/* The rows, and where the result is written besides. */
typedef struct ft_norm_in {
    ft_mat y, x;
    const float *w;
    float eps;
    out_bf16 s;
} ft_norm_in;

static inline bool norm_rows_fit(ft_mat y, ft_mat x, const float *w)
{
    return x.T <= NORMED_ROWS && fits_fours(x, w) && in_fours(y) && !y.operand && x.d % 64 == 0 &&
           norm_threads(x.d) == 32 * NORMED_WARPS && x.d <= 4 * NORMED_FOURS * 32 * NORMED_WARPS;
}

/* What a thread needs of the weights of the norm; before the wait for the previous kernel. */
__device__ __forceinline__ void norm_weights(float4 (&f)[NORMED_FOURS], const ft_norm_in &m)
{
#pragma unroll
    for (int k = 0; k < NORMED_FOURS; k++) {
        const int i = threadIdx.x + k * 32 * NORMED_WARPS;
        f[k] = m.w && i < m.x.d / 4 ? __ldg((const float4 *)m.w + i) : make_float4(1, 1, 1, 1);
    }
}

/* The norms of T rows, at most ROWS, as a copy of two planes in shared memory, xs. The blocks of
 * the grid share the work of writing them to global memory. sums: [ROWS][NORMED_WARPS]. */
template <int ROWS>
__device__ __forceinline__ void norm_rows(uint16_t *xs, float *sums, const ft_norm_in &m,
                                          const float4 (&f)[NORMED_FOURS])
{
    const int n = m.x.d / 4, T = m.x.T, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const ft_plane plane = {bf16_plane(T, m.x.d), false};
    float4 v[ROWS][NORMED_FOURS];
#pragma unroll
    for (int t = 0; t < ROWS; t++)
#pragma unroll
        for (int k = 0; k < NORMED_FOURS; k++) {
            const int i = threadIdx.x + k * 32 * NORMED_WARPS;
            v[t][k] = i < n ? ((const float4 *)mat_head(m.x, min(t, T - 1), 0))[i]
                            : make_float4(0, 0, 0, 0);
        }
#pragma unroll
    for (int t = 0; t < ROWS; t++) {
        float sum = 0;
#pragma unroll
        for (int k = 0; k < NORMED_FOURS; k++) sum += square(v[t][k]);
        sum = warp_sum(sum);
        if (!lane) sums[t * NORMED_WARPS + warp] = sum;
    }
    __syncthreads();
#pragma unroll
    for (int t = 0; t < ROWS; t++) {
        if (t >= T) break;
        const float all = warp_sum(lane < NORMED_WARPS ? sums[t * NORMED_WARPS + lane] : 0.0f);
        const float r = 1.0f / sqrtf(all / (float)m.x.d + m.eps);
#pragma unroll
        for (int k = 0; k < NORMED_FOURS; k++) {
            const int i = threadIdx.x + k * 32 * NORMED_WARPS;
            const float4 y = times(v[t][k], r, f[k]);
            uint32_t hi[2], lo[2];
            plane_pair(plane, y.x, y.y, hi[0], lo[0]);
            plane_pair(plane, y.z, y.w, hi[1], lo[1]);
            uint2 *at = (uint2 *)(xs + bf16_index(T, false, t, 4 * i));
            if (i < n) *at = make_uint2(hi[0], hi[1]);
            if (i < n) *(uint2 *)((uint16_t *)at + plane.at) = make_uint2(lo[0], lo[1]);
            if ((warp + k * NORMED_WARPS) % gridDim.x != blockIdx.x) continue;
            if (i < n) put_four(m.y, m.s, t, i, y);
            if (m.s.hadamard) {
                float four[4] = {y.x, y.y, y.z, y.w};
                hadamard_put(m.s.hadamard, T, false, t, 4 * i, four, i < n);
            }
        }
    }
    __syncthreads();
}

#endif
