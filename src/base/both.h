/* base/both.h - FT_BOTH: declares a header function that is compiled for the CPU and for CUDA. */
#ifndef FT_BASE_BOTH_H
#define FT_BASE_BOTH_H

#ifdef __CUDACC__
#define FT_BOTH __host__ __device__ static __forceinline__
#else
#define FT_BOTH static inline
#endif

#endif
