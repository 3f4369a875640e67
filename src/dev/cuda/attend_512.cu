/* Heads of 512 values. */
#include "dev/cuda/attend_walk.cuh"

walk_kernel *ft_cuda_walk_512(int WM, bool loop)
{
    switch (WM) {
    case 1: return loop ? NULL : attend_walk_kernel<512, 1, false>;
    case 2: return loop ? attend_walk_kernel<512, 2, true> : attend_walk_kernel<512, 2, false>;
    }
    return NULL;
}
