/* Heads of 256 values, up to 16 query vectors. */
#include "dev/cuda/attend/few_256.cuh"

few_kernel ft_cuda_attend_few_256_2(int kt, int vt)
{
    return few_256<2>(kt, vt);
}
