/* Heads of 512 values. */
#include "dev/cuda/attend/attend_mma.cuh"

attend_mma_fn *ft_cuda_attend_mma_512(int WM, bool loop, attend_way way)
{
    switch (WM) {
    case 1: return loop ? NULL : attend_mma_for<512, 1, false>(way);
    case 2: return loop ? attend_mma_for<512, 2, true>(way) : attend_mma_for<512, 2, false>(way);
    }
    return NULL;
}
