/* Heads of 256 values. */
#include "dev/cuda/attend_walk.cuh"

walk_kernel *ft_cuda_walk_256(int WM, bool loop)
{
    switch (WM) {
    case 1: return loop ? NULL : attend_walk_kernel<256, 1, false>;
    case 2: return loop ? attend_walk_kernel<256, 2, true> : attend_walk_kernel<256, 2, false>;
    case 4: return loop ? attend_walk_kernel<256, 4, true> : attend_walk_kernel<256, 4, false>;
    }
    return NULL;
}
