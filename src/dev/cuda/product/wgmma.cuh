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

/* ---- ring buffers ---- */

/* A ring buffer in shared memory, and a thread's position in it: a producer fills S::PLACES
 * entries, the threads that multiply empty them. */
struct ring_buffer {
    unsigned char *at;
    uint32_t full, empty; /* barriers of the entries */
    int place, parity;
};

template <class S> __device__ __forceinline__ void next_place(ring_buffer &r)
{
    if (++r.place < S::PLACES) return;
    r.place = 0;
    r.parity ^= 1;
}

/* One thread calls it before any other uses the ring. */
template <class S>
__device__ __forceinline__ void ring_init(const ring_buffer &r, int producers, int consumers)
{
    for (int i = 0; i < S::PLACES; i++) {
        barrier_init(r.full + 8 * i, producers);
        barrier_init(r.empty + 8 * i, consumers);
    }
    shared_written();
}

/* ---- products ---- */

/* Descriptor of a tile of rows of 128 bytes, aligned to 1024 bytes, 16-byte pieces swizzled: piece
 * c of row r is at c ^ (r % 8). The operand is 16 values of each row, at multiples of 32 bytes. */
static __device__ __forceinline__ uint64_t group_operand(uint32_t at)
{
    return (uint64_t)1 << 62 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 16 | at >> 4;
}

/* Descriptor of a tile of eight by eight values (128 contiguous bytes, 16 for each row) that are
 * not swizzled: `next_k` bytes from one to the next along a row, `next_row` to the next eight rows.
 * The operand is 16 values of each row. */
static __device__ __forceinline__ uint64_t group_operand_eights(uint32_t at, int next_k,
                                                                int next_row)
{
    return (uint64_t)(next_row >> 4) << 32 | (uint64_t)(next_k >> 4) << 16 | at >> 4;
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

/* Keeps reads and writes of registers on their side of the instructions around it. */
template <int N> static __device__ __forceinline__ void group_registers(float (&c)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(c[i])::"memory");
}

#define FOUR(i)    "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define SIXTEEN(i) FOUR(i), FOUR(i + 4), FOUR(i + 8), FOUR(i + 12)
#define SUMS_8     "%0,%1,%2,%3,%4,%5,%6,%7"
#define SUMS_12    SUMS_8 ",%8,%9,%10,%11"
#define SUMS_16    SUMS_12 ",%12,%13,%14,%15"
#define SUMS_20    SUMS_16 ",%16,%17,%18,%19"
#define SUMS_24    SUMS_20 ",%20,%21,%22,%23"
#define SUMS_32                                                                                    \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,"   \
    "%25,%26,%27,%28,%29,%30,%31"
#define SUMS_40 SUMS_32 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define SUMS_48 SUMS_40 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define SUMS_64 SUMS_48 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define SUMS_96                                                                                    \
    SUMS_64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,"    \
            "%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define FRAGMENT "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])

/* c[64, N] += a[64, 16] b[N, 16]^T, c[SUMS] of a thread. Warp w of the group has rows 16 w ..: its
 * fragments of a and c are those of m16n8k16 products, and the sums are bit-identical to theirs.
 * Without `add` c = instead of +=. A, B, ADD: the numbers of the asm's operands a, b and add. */
#define GROUP_PRODUCT(NAME, TYPE, N, SUMS, A, B, ADD, ...)                                         \
    template <int R>                                                                               \
    static __device__ __forceinline__ void NAME##_##N(float(&c)[R], const uint32_t(&a)[4],         \
                                                      uint64_t b, bool add)                        \
    {                                                                                              \
        static_assert(R >= SUMS, "sums");                                                          \
        asm volatile("{.reg .pred p; setp.ne.b32 p, " ADD ", 0;\n\t"                               \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE               \
                     " {" SUMS_##SUMS "}, {" A "}, " B ", p, 1, 1, 0;}"                            \
                     : __VA_ARGS__                                                                 \
                     : FRAGMENT, "l"(b), "r"((int)add));                                           \
    }
GROUP_PRODUCT(group_product, "bf16", 128, 64, "%64,%65,%66,%67", "%68", "%69", SIXTEEN(0),
              SIXTEEN(16), SIXTEEN(32), SIXTEEN(48))
GROUP_PRODUCT(group_product, "bf16", 96, 48, "%48,%49,%50,%51", "%52", "%53", SIXTEEN(0),
              SIXTEEN(16), SIXTEEN(32))
GROUP_PRODUCT(group_product, "bf16", 80, 40, "%40,%41,%42,%43", "%44", "%45", SIXTEEN(0),
              SIXTEEN(16), FOUR(32), FOUR(36))
GROUP_PRODUCT(group_product, "bf16", 64, 32, "%32,%33,%34,%35", "%36", "%37", SIXTEEN(0),
              SIXTEEN(16))
GROUP_PRODUCT(group_product, "bf16", 48, 24, "%24,%25,%26,%27", "%28", "%29", SIXTEEN(0), FOUR(16),
              FOUR(20))
GROUP_PRODUCT(group_product, "bf16", 40, 20, "%20,%21,%22,%23", "%24", "%25", SIXTEEN(0), FOUR(16))
GROUP_PRODUCT(group_product, "bf16", 32, 16, "%16,%17,%18,%19", "%20", "%21", SIXTEEN(0))
GROUP_PRODUCT(group_product, "bf16", 24, 12, "%12,%13,%14,%15", "%16", "%17", FOUR(0), FOUR(4),
              FOUR(8))
GROUP_PRODUCT(group_product, "bf16", 16, 8, "%8,%9,%10,%11", "%12", "%13", FOUR(0), FOUR(4))
GROUP_PRODUCT(group_product_f16, "f16", 32, 16, "%16,%17,%18,%19", "%20", "%21", SIXTEEN(0))
GROUP_PRODUCT(group_product_f16, "f16", 64, 32, "%32,%33,%34,%35", "%36", "%37", SIXTEEN(0),
              SIXTEEN(16))
GROUP_PRODUCT(group_product_f16, "f16", 80, 40, "%40,%41,%42,%43", "%44", "%45", SIXTEEN(0),
              SIXTEEN(16), FOUR(32), FOUR(36))
GROUP_PRODUCT(group_product_f16, "f16", 96, 48, "%48,%49,%50,%51", "%52", "%53", SIXTEEN(0),
              SIXTEEN(16), SIXTEEN(32))
GROUP_PRODUCT(group_product_f16, "f16", 128, 64, "%64,%65,%66,%67", "%68", "%69", SIXTEEN(0),
              SIXTEEN(16), SIXTEEN(32), SIXTEEN(48))
#undef GROUP_PRODUCT

#define GROUP_CASE(NAME, N)                                                                        \
    if constexpr (ROWS == N) NAME##_##N(c, a, b, add);
/* The same for ROWS rows. */
template <int ROWS, int R>
static __device__ __forceinline__ void group_product(float (&c)[R], const uint32_t (&a)[4],
                                                     uint64_t b, bool add = true)
{
    GROUP_CASE(group_product, 128)
    GROUP_CASE(group_product, 96)
    GROUP_CASE(group_product, 80)
    GROUP_CASE(group_product, 64)
    GROUP_CASE(group_product, 48)
    GROUP_CASE(group_product, 40)
    GROUP_CASE(group_product, 32)
    GROUP_CASE(group_product, 24)
    GROUP_CASE(group_product, 16)
}

template <int ROWS, int R>
static __device__ __forceinline__ void group_product_f16(float (&c)[R], const uint32_t (&a)[4],
                                                         uint64_t b, bool add = true)
{
    GROUP_CASE(group_product_f16, 128)
    GROUP_CASE(group_product_f16, 96)
    GROUP_CASE(group_product_f16, 80)
    GROUP_CASE(group_product_f16, 64)
    GROUP_CASE(group_product_f16, 32)
}
#undef GROUP_CASE

/* With a in shared memory too. ADD: c +=, else c =. */
template <bool ADD>
static __device__ __forceinline__ void group_product_f16(float (&c)[48], uint64_t a, uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n96k16.f32.f16.f16 {" SUMS_48
                 "}, %48, %49, %50, 1, 1, 0, 0;"
                 : SIXTEEN(0), SIXTEEN(16), SIXTEEN(32)
                 : "l"(a), "l"(b), "n"(ADD));
}

template <bool ADD>
static __device__ __forceinline__ void group_product_f16(float (&c)[64], uint64_t a, uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" SUMS_64
                 "}, %64, %65, %66, 1, 1, 0, 0;"
                 : SIXTEEN(0), SIXTEEN(16), SIXTEEN(32), SIXTEEN(48)
                 : "l"(a), "l"(b), "n"(ADD));
}

template <bool ADD>
static __device__ __forceinline__ void group_product_f16(float (&c)[96], uint64_t a, uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n192k16.f32.f16.f16 {" SUMS_96
                 "}, %96, %97, %98, 1, 1, 0, 0;"
                 : SIXTEEN(0), SIXTEEN(16), SIXTEEN(32), SIXTEEN(48), SIXTEEN(64), SIXTEEN(80)
                 : "l"(a), "l"(b), "n"(ADD));
}
#undef FOUR
#undef SIXTEEN
#undef SUMS_8
#undef SUMS_12
#undef SUMS_16
#undef SUMS_20
#undef SUMS_24
#undef SUMS_32
#undef SUMS_40
#undef SUMS_48
#undef SUMS_64
#undef SUMS_96
#undef FRAGMENT

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
