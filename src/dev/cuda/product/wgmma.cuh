/* dev/cuda/product/wgmma.cuh - wrappers of instructions of compute capability 9.0: matrix products
 * of a warpgroup (four warps) whose right operand is in shared memory, bulk copies, and the
 * barriers that both are waited for with. They need a build for 90a. */
#ifndef FT_CUDA_HOPPER_CUH
#define FT_CUDA_HOPPER_CUH

#include "dev/cuda/mma.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
#ifndef __CUDA_ARCH_FEAT_SM90_ALL
#error "a build for compute capability 9.0 is one for 90a: CUDA_ARCH=90a"
#endif

/* ---- barriers: 8 bytes in shared memory each ---- */

static __device__ __forceinline__ void barrier_init(uint32_t bar, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(arrivals) : "memory");
}

static __device__ __forceinline__ void barrier_arrive(uint32_t bar)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}

/* Arrives, and makes the barrier wait for this many bytes of bulk copies too. */
static __device__ __forceinline__ void barrier_expect(uint32_t bar, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes)
                 : "memory");
}

/* Arrives when this thread's copies so far (copy_16) are complete. */
static __device__ __forceinline__ void barrier_arrive_copied(uint32_t bar)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(bar) : "memory");
}

/* Waits until the phase of this parity is over. */
static __device__ __forceinline__ void barrier_wait(uint32_t bar, int parity)
{
    asm volatile("{\n.reg .pred p;\n"
                 "again:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@!p bra again;\n}" ::"r"(bar),
                 "r"(parity)
                 : "memory");
}

/* Makes shared memory written by this thread, or by one that it waited for, visible to its products
 * and bulk copies. */
static __device__ __forceinline__ void shared_written(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Copies contiguous memory, size and addresses multiples of 16 bytes; completes on the barrier. */
static __device__ __forceinline__ void copy_run(uint32_t to, const void *global, int bytes,
                                                uint32_t bar)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], "
                 "%2, [%3];" ::"r"(to),
                 "l"(global), "r"(bytes), "r"(bar)
                 : "memory");
}

/* ---- products ---- */

/* Descriptor of a tile of rows of 128 bytes, aligned to 1024 bytes, 16-byte pieces swizzled: piece
 * c of row r is at c ^ (r % 8). The operand is 16 values of each row, at multiples of 32 bytes. */
static __device__ __forceinline__ uint64_t group_operand(uint32_t at)
{
    return (uint64_t)1 << 62 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 16 | at >> 4;
}

static __device__ __forceinline__ void group_begin(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

static __device__ __forceinline__ void group_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int N> static __device__ __forceinline__ void group_wait(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

#define FOUR(i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
/* c[64, 128] += a[64, 16] b[128, 16]^T. Warp w of the group has rows 16 w ..: its fragments of a
 * and c are those of m16n8k16 products, and the sums are bit-identical to theirs. */
static __device__ __forceinline__ void group_product(float (&c)[64], const uint32_t (&a)[4],
                                                     uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
                 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,"
                 "%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,"
                 "%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,"
                 "%62,%63}, {%64,%65,%66,%67}, %68, 1, 1, 1, 0;"
                 : FOUR(0), FOUR(4), FOUR(8), FOUR(12), FOUR(16), FOUR(20), FOUR(24), FOUR(28),
                   FOUR(32), FOUR(36), FOUR(40), FOUR(44), FOUR(48), FOUR(52), FOUR(56), FOUR(60)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

/* The same for 64 rows of b. */
static __device__ __forceinline__ void group_product(float (&c)[32], const uint32_t (&a)[4],
                                                     uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,"
                 "%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, {%32,%33,%34,%35}, %36, 1, 1, 1, 0;"
                 : FOUR(0), FOUR(4), FOUR(8), FOUR(12), FOUR(16), FOUR(20), FOUR(24), FOUR(28)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
#undef FOUR

/* Sets the number of registers per thread of this warpgroup. */
template <int N> static __device__ __forceinline__ void registers_less(void)
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N> static __device__ __forceinline__ void registers_more(void)
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

#endif
#endif
