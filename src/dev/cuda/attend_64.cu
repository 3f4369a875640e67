/* Heads of 64 values. */
#include "dev/cuda/attend_walk.cuh"

walk_kernel *ft_cuda_walk_64(int WM, bool loop)
{
    switch (WM) {
    case 1: return loop ? NULL : attend_walk_kernel<64, 1, false>;
    case 2: return loop ? NULL : attend_walk_kernel<64, 2, false>;
    case 4: return loop ? attend_walk_kernel<64, 4, true> : attend_walk_kernel<64, 4, false>;
    }
    return NULL;
}
