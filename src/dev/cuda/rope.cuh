/* dev/cuda/rope.cuh - the rotation of a head that a warp holds. */
#ifndef FT_CUDA_ROPE_CUH
#define FT_CUDA_ROPE_CUH

#include "dev/cuda/common.cuh"

/* Rotates the pairs of a head of 32 N values. Value lane + 32 j is v[j], so that both values of a
 * pair are in the same lane; `half` values of a lane are the first of a pair. */
template <int N>
__device__ __forceinline__ void rotate(float (&v)[N], const float (&c)[N / 2],
                                       const float (&s)[N / 2], int half)
{
#pragma unroll
    for (int h = 1; h <= N / 2; h++) { /* half is not a compile-time constant: tries all values */
        if (h != half) continue;
#pragma unroll
        for (int j = 0; j < h; j++) {
            const float a = v[j], b = v[j + h];
            v[j] = a * c[j] - b * s[j];
            v[j + h] = b * c[j] + a * s[j];
        }
    }
}

#endif
