/* dev/cuda/mma.cuh - the few instructions that C++ has no word for: products of small
 * half-precision matrices in a warp, loads of their fragments, and copies that run beside the
 * arithmetic. Before compute capability 8.0 the copies are ordinary ones and a product takes two
 * instructions. */
#ifndef FT_CUDA_MMA_CUH
#define FT_CUDA_MMA_CUH

#include <cuda_fp16.h>
#include <stdint.h>

/* c[16, 8] += a[16, 16] b[16, 8]; lane l holds rows l/4 and l/4 + 8, columns 2 (l % 4) and + 1. */
static __device__ __forceinline__ void mma_f16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                               uint32_t b1)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b0));
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[2]), "r"(a[3]), "r"(b1));
#endif
}

/* Four 8x8 matrices of halves: lane l names row l % 8 of matrix l / 8 (16 bytes in shared memory)
 * and gets row l/4, columns 2 (l % 4) and + 1 of each; turned: of their transposes. */
static __device__ __forceinline__ void load_frags(uint32_t (&r)[4], const void *row)
{
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
}

static __device__ __forceinline__ void load_frags_turned(uint32_t (&r)[4], const void *row)
{
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
}

/* 16 bytes from global to shared memory, both aligned; done after copy_wait. */
static __device__ __forceinline__ void copy_16(void *shared, const void *global)
{
#if __CUDA_ARCH__ >= 800
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(global) : "memory");
#else
    *(uint4 *)shared = *(const uint4 *)global;
#endif
}

static __device__ __forceinline__ void copy_commit(void)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Waits for this thread's copies but those of the last N commits. */
template <int N> static __device__ __forceinline__ void copy_wait(void)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}

static __device__ __forceinline__ float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Where 16-byte piece c of row r lies in a tile of rows of `pieces` such pieces: eight rows of one
 * column meet eight different groups of banks. */
static __device__ __forceinline__ int swizzled(int r, int c, int pieces)
{
    return r * pieces + (c ^ (r & 7));
}

#endif
