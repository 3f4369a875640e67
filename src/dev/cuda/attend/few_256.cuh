/* dev/cuda/attend/few_256.cuh - few query vectors, heads of 256 values. Each number of vectors has
 * its own file. */
#ifndef FT_CUDA_FEW_256_CUH
#define FT_CUDA_FEW_256_CUH

#include "dev/cuda/attend/attend_few.cuh"

template <int NB, typename K, typename V, int U = 1> static few_kernel few_256_of(void)
{
    enum { BLOCKS = 2 };
    return {attend_few_kernel<256, NB, K, V, U, BLOCKS>, BLOCKS, U};
}

template <int NB> static few_kernel few_256(int kt, int vt)
{
    typedef block_rows<256, FT_KV_Q8_0> q8_0;
    typedef turbo_rows<256, 4, 2> turbo4;
    typedef turbo_rows<256, 3, 2> turbo3;
    enum { TWO = NB == 1 ? 2 : 1 }; /* pages at a time */
    if (kt == FT_KV_Q8_0 && vt == FT_KV_Q8_0) return few_256_of<NB, q8_0, q8_0>();
    if (kt == FT_KV_Q8_0 && vt == FT_KV_TURBO4) return few_256_of<NB, q8_0, turbo4>();
    if (kt == FT_KV_Q8_0 && vt == FT_KV_TURBO3) return few_256_of<NB, q8_0, turbo3>();
    if (kt == FT_KV_TURBO4 && vt == FT_KV_TURBO4) return few_256_of<NB, turbo4, turbo4, TWO>();
    if (kt == FT_KV_TURBO4 && vt == FT_KV_TURBO3) return few_256_of<NB, turbo4, turbo3>();
    if (kt == FT_KV_TURBO3 && vt == FT_KV_TURBO3) return few_256_of<NB, turbo3, turbo3, TWO>();
    return few_256_of<NB, any_rows, any_rows>();
}

#endif
