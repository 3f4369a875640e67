/* Heads of 128 values. */
#include "dev/cuda/attend/attend_mma.cuh"

attend_mma_fn *ft_cuda_attend_mma_128(int WM, bool loop)
{
    switch (WM) {
    case 1: return loop ? NULL : attend_mma_kernel<128, 1, false>;
    case 2: return loop ? NULL : attend_mma_kernel<128, 2, false>;
    case 4: return loop ? attend_mma_kernel<128, 4, true> : attend_mma_kernel<128, 4, false>;
    }
    return NULL;
}
