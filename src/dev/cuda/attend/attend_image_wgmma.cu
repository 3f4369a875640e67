/* Attention of vision towers with warpgroup instructions. One kernel normalises and rotates queries
 * and keys and stores them and the values as f16, padded with zeros to heads of 64, 80 or 128
 * values; a second one has tiles of queries and all positions of a head.
 *
 * Eights. Heads are stored as groups of eight rows, each [D / 8][8][8]: eight by eight values in
 * 128 contiguous bytes, which is what warpgroup instructions read from shared memory if it is not
 * swizzled. In those of queries and keys a row has eight values of a head; in those of values, the
 * right operand of the second product, a row has eight positions. A page of 96 positions is
 * contiguous, one bulk copy for keys and one for values.
 *
 * A block has three warpgroups with 64 queries each (two for heads of 128), and one that copies.
 * Scores, weights and sums of a warpgroup stay in its registers: the layout of the scores is that
 * of a left operand. Warpgroups take turns: each issues the product of its weights and values and
 * then the scores of its next page, and computes weights while the others multiply.
 *
 * 4096 positions, 16 heads of 72: a page is 640 cycles of a warpgroup's products and 512 of its
 * exponentials.
 *
 * Every sum is in the order of the positions, whatever the tile: a row has the same bits in any
 * batch of the same rows. */
#include "dev/cuda/attend/attend_image.cuh"
#include "dev/cuda/product/wgmma.cuh"

enum { PREPARE_ROWS = 8, KEYS = 96 }; /* KEYS: positions of a page */

/* Heads of D values. */
template <int WIDTH> struct image_shape {
    enum {
        D = WIDTH,
        G = D <= 80 ? 3 : 2, /* warpgroups that multiply */
        M = 64 * G,          /* queries of a tile */
        GROUP = 8 * D * 2,   /* bytes of eight rows */
        Q = M / 8 * GROUP,
        SIDE = KEYS / 8 * GROUP, /* bytes of a page of keys */
        PLACE = 2 * SIDE,
        PLACES = 4,
        BYTES = Q + PLACES * PLACE + 128,
        THREADS = 128 * (G + 1)
    };
};

/* ---- queries, keys and values as f16 ---- */

/* A block has eight rows of a head. */
template <int D>
static __global__ void __launch_bounds__(32 * PREPARE_ROWS)
    prepare_eights_kernel(const image_args p)
{
    __shared__ float room[PREPARE_ROWS][D];
    __shared__ uint4 out[3][D];
    const int r = threadIdx.x / 32, H = p.a.q.H, h = blockIdx.x % H, group = blockIdx.x / H;
    const int t = PREPARE_ROWS * group + r;
    wait_for_previous_kernel();
#pragma unroll
    for (int which = 0; which < 3; which++) {
        uint16_t *to = (uint16_t *)out[which];
        load_head<D>(p, which, t, h, room[r]);
        for (int i = 2 * (threadIdx.x & 31); i < D; i += 64) {
            const uint32_t pair = pack_half(head_value(p, which, t, room[r], i),
                                            head_value(p, which, t, room[r], i + 1));
            if (which < 2) {
                *(uint32_t *)(to + i / 8 * 64 + 8 * r + i % 8) = pair;
            } else {
                to[i / 8 * 64 + i % 8 * 8 + r] = (uint16_t)pair;
                to[i / 8 * 64 + i % 8 * 8 + 8 + r] = (uint16_t)(pair >> 16);
            }
        }
        __syncwarp();
    }
    __syncthreads();
    const size_t at = 2 * D * ((size_t)p.rows * h + PREPARE_ROWS * group);
    for (int i = threadIdx.x; i < 3 * D; i += 32 * PREPARE_ROWS) {
        unsigned char *to = i < D ? p.q : i < 2 * D ? p.k : p.v;
        *(uint4 *)(to + at + 16 * (i % D)) = out[i / D][i % D];
    }
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900

/* The queries of a tile in shared memory: a ring buffer of one entry. */
struct image_queries {
    uint32_t at, full, empty;
    int parity;
};

/* ---- the producer ---- */

template <class S>
__device__ __forceinline__ void image_feed(const image_args &p, ring_buffer r, image_queries q)
{
    for (int i = blockIdx.x; i < p.tiles * p.a.q.H; i += gridDim.x) {
        const size_t head = 2 * S::D * (size_t)p.rows * (i / p.tiles);
        const int row = i % p.tiles * S::M, bytes = 2 * S::D * min((int)S::M, p.rows - row);
        barrier_wait(q.empty, q.parity ^ 1);
        barrier_expect(q.full, bytes);
        copy_run(q.at, p.q + head + 2 * S::D * (size_t)row, bytes, q.full);
        q.parity ^= 1;
        for (size_t at = head; at < head + 2 * S::D * (size_t)p.rows; at += S::SIDE) {
            const uint32_t to = shared_at(r.at) + r.place * S::PLACE, bar = r.full + 8 * r.place;
            barrier_wait(r.empty + 8 * r.place, r.parity ^ 1);
            barrier_expect(bar, S::PLACE);
            copy_run(to, p.k + at, S::SIDE, bar);
            copy_run(to + S::SIDE, p.v + at, S::SIDE, bar);
            next_place<S>(r);
        }
    }
}

/* ---- the warpgroups that multiply ---- */

/* A warpgroup waits for its turn to issue products, and passes it to the next one. */
__device__ __forceinline__ void take_turn(void)
{
    asm volatile("bar.sync %0, 256;" ::"r"(1 + (threadIdx.x >> 7)) : "memory");
}

template <class S> __device__ __forceinline__ void pass_turn(void)
{
    const int next = (threadIdx.x >> 7) + 1;
    asm volatile("bar.arrive %0, 256;" ::"r"(next == S::G ? 1 : 1 + next) : "memory");
}

/* A thread's part of 64 queries: two of them, eight lines apart. */
template <class S> struct image_rows_state {
    float m[2], l[2], o[S::D / 2];
};

/* s = queries times the keys of a page */
template <class S>
__device__ __forceinline__ void page_scores(float (&s)[KEYS / 2], uint32_t queries, uint32_t keys)
{
    const uint64_t q = group_operand_eights(queries, 128, S::GROUP);
    const uint64_t k = group_operand_eights(keys, 128, S::GROUP);
    group_product_f16<false>(s, q, k);
#pragma unroll
    for (int i = 1; i < S::D / 16; i++)
        group_product_f16<true>(s, q + 256 / 16 * i, k + 256 / 16 * i); /* 16 values of a head */
}

/* o += weights times the values of a page */
template <class S>
__device__ __forceinline__ void page_values(image_rows_state<S> &w,
                                            const uint32_t (&weight)[KEYS / 16][4], uint32_t values)
{
    const uint64_t v = group_operand_eights(values, S::GROUP, 128);
#pragma unroll
    for (int i = 0; i < KEYS / 16; i++)
        group_product_f16<S::D>(w.o, weight[i], v + 2 * S::GROUP / 16 * i); /* 16 positions */
}

/* Turns scores into weights, the left operand of page_values; the page has `n` positions. */
template <class S>
__device__ __forceinline__ void page_weights(image_rows_state<S> &w,
                                             uint32_t (&weight)[KEYS / 16][4], float (&s)[KEYS / 2],
                                             float scale, int n)
{
    if (n < KEYS) {
#pragma unroll
        for (int i = 0; i < KEYS / 2; i++)
            if (i / 4 * 8 + 2 * (threadIdx.x & 3) + i % 2 >= n) s[i] = -INFINITY;
    }
#pragma unroll
    for (int j = 0; j < 2; j++) {
        float top = -INFINITY, sum = 0;
#pragma unroll
        for (int i = 0; i < KEYS / 8; i++)
            top = fmaxf(top, fmaxf(s[4 * i + 2 * j], s[4 * i + 2 * j + 1]));
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
        const float now = fmaxf(w.m[j], top * scale), use = now == -INFINITY ? 0.0f : now;
        const float fade = exp2_approx(w.m[j] - use);
        w.m[j] = now;
#pragma unroll
        for (int i = 0; i < KEYS / 8; i++) {
            const float a = exp2_approx(fmaf(s[4 * i + 2 * j], scale, -use));
            const float b = exp2_approx(fmaf(s[4 * i + 2 * j + 1], scale, -use));
            sum += a + b;
            weight[i / 2][i % 2 * 2 + j] = pack_half(a, b);
        }
        w.l[j] = fmaf(w.l[j], fade, sum);
#pragma unroll
        for (int i = 0; i < S::D / 8; i++) {
            w.o[4 * i + 2 * j] *= fade;
            w.o[4 * i + 2 * j + 1] *= fade;
        }
    }
#pragma unroll
    for (int i = 0; i < KEYS / 4; i++) /* all of it is in registers before the first product */
        asm volatile("" : "+r"(weight[i / 4][i % 4])::"memory");
}

template <class S>
__device__ __forceinline__ void tile_put(const image_args &p, const image_rows_state<S> &w, int row,
                                         int h)
{
    const int lane = threadIdx.x & 31;
    row += threadIdx.x / 32 * 16 + lane / 4;
#pragma unroll
    for (int j = 0; j < 2; j++) {
        float l = w.l[j];
        l += __shfl_xor_sync(0xffffffffu, l, 1);
        l += __shfl_xor_sync(0xffffffffu, l, 2);
        const float f = 1.0f / l; /* the largest score has weight 1 */
#pragma unroll
        for (int i = 0; i < S::D / 8; i++)
            put_pair(p, row + 8 * j, h, 8 * i + 2 * (lane % 4), w.o[4 * i + 2 * j] * f,
                     w.o[4 * i + 2 * j + 1] * f);
    }
}

/* 64 queries of this warpgroup and all positions of a head. */
template <class S>
__device__ __forceinline__ void attend_rows(const image_args &p, image_rows_state<S> &w,
                                            ring_buffer &r, uint32_t queries)
{
    const int all = p.a.q.T;
    const uint32_t ring = shared_at(r.at);
    float s[KEYS / 2] = {};
    uint32_t weight[KEYS / 16][4];
    barrier_wait(r.full + 8 * r.place, r.parity);
    take_turn();
    group_begin();
    page_scores<S>(s, queries, ring + r.place * S::PLACE);
    group_commit();
    pass_turn<S>();
    group_wait<0>();
    group_registers(s);
    for (int cell = 0; cell + KEYS < all; cell += KEYS) {
        const int now = r.place;
        page_weights<S>(w, weight, s, p.scale, KEYS);
        next_place<S>(r);
        barrier_wait(r.full + 8 * r.place, r.parity);
        group_registers(w.o);
        take_turn();
        group_begin();
        page_values<S>(w, weight, ring + now * S::PLACE + S::SIDE);
        page_scores<S>(s, queries, ring + r.place * S::PLACE);
        group_commit();
        pass_turn<S>();
        group_wait<0>();
        group_registers(w.o);
        group_registers(s);
        barrier_arrive(r.empty + 8 * now);
    }
    page_weights<S>(w, weight, s, p.scale, all - (all - 1) / KEYS * KEYS);
    group_registers(w.o);
    take_turn();
    group_begin();
    page_values<S>(w, weight, ring + r.place * S::PLACE + S::SIDE);
    group_commit();
    pass_turn<S>();
    group_wait<0>();
    group_registers(w.o);
    barrier_arrive(r.empty + 8 * r.place);
    next_place<S>(r);
}

template <class S>
__device__ __forceinline__ void image_attend(const image_args &p, ring_buffer r, image_queries q)
{
    const int group = threadIdx.x >> 7;
    if (group == S::G - 1) pass_turn<S>(); /* the first turn is that of the first warpgroup */
    for (int i = blockIdx.x; i < p.tiles * p.a.q.H; i += gridDim.x) {
        image_rows_state<S> w = {};
        w.m[0] = w.m[1] = -INFINITY;
        barrier_wait(q.full, q.parity);
        q.parity ^= 1;
        attend_rows<S>(p, w, r, q.at + group * 8 * S::GROUP);
        barrier_arrive(q.empty);
        tile_put<S>(p, w, i % p.tiles * S::M, i / p.tiles);
    }
}
#endif

template <class S>
static __global__ void __launch_bounds__(S::THREADS, 1)
    attend_image_wgmma_kernel(const __grid_constant__ image_args p)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
    extern __shared__ unsigned char smem[];
    __shared__ uint64_t bars[2 * S::PLACES + 2];
    unsigned char *const at = smem + (-(uintptr_t)smem & 127);
    const ring_buffer r = {at + S::Q, shared_at(bars), shared_at(bars + S::PLACES), 0, 0};
    const image_queries q = {shared_at(at), shared_at(bars + 2 * S::PLACES),
                             shared_at(bars + 2 * S::PLACES + 1), 0};
    if (threadIdx.x == 0) {
        barrier_init(q.full, 1);
        barrier_init(q.empty, 128 * S::G);
        ring_init<S>(r, 1, 128 * S::G);
    }
    wait_for_previous_kernel();
    __syncthreads();
    if (threadIdx.x >= 128 * S::G) {
        registers_less<32>();
        if (threadIdx.x == 128 * S::G) image_feed<S>(p, r, q);
    } else {
        registers_more<S::G == 3 ? 160 : 224>();
        image_attend<S>(p, r, q);
    }
#endif
}

template <int D> static void run_image_wgmma(ft_cuda *c, image_args *p)
{
    typedef image_shape<D> S;
    static uint64_t seen;
    const int H = p->a.q.H;
    p->rows = (int)ft_blocks((size_t)p->o.T, KEYS) * KEYS;
    if (!image_heads(c, p, D)) return;
    p->tiles = (int)ft_blocks((size_t)p->o.T, S::M);
    FT_LAUNCH_NEXT(c, prepare_eights_kernel<D>, (unsigned)(p->rows / PREPARE_ROWS * H),
                   32 * PREPARE_ROWS, 0, *p);
    if (ft_cuda_first_use(c, &seen))
        ft_cuda_shared(c, (const void *)attend_image_wgmma_kernel<S>, S::BYTES);
    FT_LAUNCH_NEXT(c, attend_image_wgmma_kernel<S>, (unsigned)FT_MIN(p->tiles * H, c->sms),
                   S::THREADS, (size_t)S::BYTES, *p);
}

void ft_cuda_attend_image_wgmma(ft_cuda *c, image_args *p)
{
    if (p->a.q.d <= 64)
        run_image_wgmma<64>(c, p);
    else if (p->a.q.d <= 80)
        run_image_wgmma<80>(c, p);
    else
        run_image_wgmma<128>(c, p);
}
