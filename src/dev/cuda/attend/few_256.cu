/* Few query vectors, heads of 256 values. */
#include "dev/cuda/attend/attend_few.cuh"

attend_few_fn *ft_cuda_attend_few_256(int NB)
{
    switch (NB) {
    case 1: return attend_few_kernel<256, 1>;
    case 2: return attend_few_kernel<256, 2>;
    case 3: return attend_few_kernel<256, 3>;
    case 4: return attend_few_kernel<256, 4>;
    }
    return NULL;
}
