/* Few query vectors, heads of 512 values. */
#include "dev/cuda/attend/attend_few.cuh"

few_kernel ft_cuda_attend_few_512(int NB)
{
    switch (NB) {
    case 1: return {attend_few_kernel<512, 1, any_rows, any_rows, 1, 2>, 2, 1};
    case 2: return {attend_few_kernel<512, 2, any_rows, any_rows, 1, 2>, 2, 1};
    }
    return {};
}
