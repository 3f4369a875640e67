/* Heads of 512 values. */
#include "dev/cuda/attend/attend_mma.cuh"

attend_mma_fn *ft_cuda_attend_mma_512(int WM, bool loop)
{
    switch (WM) {
    case 1: return loop ? NULL : attend_mma_kernel<512, 1, false>;
    case 2: return loop ? attend_mma_kernel<512, 2, true> : attend_mma_kernel<512, 2, false>;
    }
    return NULL;
}
