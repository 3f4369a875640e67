/* Heads of 256 values. */
#include "dev/cuda/attend/attend_mma.cuh"

attend_mma_fn *ft_cuda_attend_mma_256(int WM, bool loop)
{
    switch (WM) {
    case 1: return loop ? NULL : attend_mma_kernel<256, 1, false>;
    case 2: return loop ? attend_mma_kernel<256, 2, true> : attend_mma_kernel<256, 2, false>;
    case 4: return loop ? attend_mma_kernel<256, 4, true> : attend_mma_kernel<256, 4, false>;
    }
    return NULL;
}
