/* dev/cuda/mma.cuh - wrappers of instructions that have no C++ equivalent: half-precision matrix
 * products of a warp, loads of their fragments, and asynchronous copies. Before compute capability
 * 8.0 copies are synchronous and a product takes two instructions. */
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

/* A shared memory address for the functions below. */
static __device__ __forceinline__ uint32_t shared_at(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* Four 8x8 matrices of halves: lane l passes the address of row l % 8 of matrix l / 8 (16 bytes in
 * shared memory) and gets row l/4, columns 2 (l % 4) and + 1 of each; transposed: of their
 * transposes. */
static __device__ __forceinline__ void load_frags(uint32_t (&r)[4], uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
}

static __device__ __forceinline__ void load_frags_transposed(uint32_t (&r)[4], uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
}

/* Copies 16 bytes from global to shared memory, both aligned; complete after copy_wait. */
static __device__ __forceinline__ void copy_16(uint32_t at, const void *global)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(global) : "memory");
#else
    const uint4 v = *(const uint4 *)global;
    asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(v.x), "r"(v.y), "r"(v.z),
                 "r"(v.w)
                 : "memory");
#endif
}

static __device__ __forceinline__ void copy_commit(void)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Waits for this thread's copies except those of the last N commits. */
template <int N> static __device__ __forceinline__ void copy_wait(void)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}

static __device__ __forceinline__ float exp2_approx(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Index of 16-byte piece c of row r in a tile of rows of `pieces` such pieces: eight rows of one
 * column use eight different groups of banks. */
static __device__ __forceinline__ int swizzled(int r, int c, int pieces)
{
    return r * pieces + (c ^ (r & 7));
}

/* s[16, 8 NT] += rows [m, m + 16) of a times rows [n, n + 8 NT) of b, both swizzled tiles of rows
 * of D halves. The swizzle repeats every 64 halves of a row, so all addresses are a few bases plus
 * constants. m and n are multiples of 8. */
template <int D, int NT>
static __device__ __forceinline__ void rows_by_rows(float (&s)[NT][4], uint32_t a, uint32_t b,
                                                    int m, int n)
{
    const int lane = threadIdx.x & 31, x = lane & 7;
    const uint32_t at = a + (m + lane % 16) * 2 * D, bt = b + (n + x) * 2 * D;
    uint32_t pa[4], pb[2];
#pragma unroll
    for (int i = 0; i < 4; i++) pa[i] = at + 16 * ((2 * i + lane / 16) ^ x);
#pragma unroll
    for (int i = 0; i < 2; i++) pb[i] = bt + 16 * ((4 * i + lane / 8) ^ x);
#pragma unroll 4
    for (int k = 0; k < D / 64; k++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint32_t a0[4], a1[4], y[4];
            load_frags(a0, pa[2 * i] + 128 * k);
            load_frags(a1, pa[2 * i + 1] + 128 * k);
#pragma unroll
            for (int t = 0; t < NT; t++) {
                load_frags(y, pb[i] + 128 * k + 8 * t * 2 * D);
                mma_f16(s[t], a0, y[0], y[1]);
                mma_f16(s[t], a1, y[2], y[3]);
            }
        }
}

static __device__ __forceinline__ uint32_t pack_half(float a, float b)
{
    const __half2 h = __floats2half2_rn(a, b);
    uint32_t u;
    memcpy(&u, &h, 4);
    return u;
}

static __device__ __forceinline__ uint4 pack_eight(const float (&v)[8])
{
    return make_uint4(pack_half(v[0], v[1]), pack_half(v[2], v[3]), pack_half(v[4], v[5]),
                      pack_half(v[6], v[7]));
}

#endif
