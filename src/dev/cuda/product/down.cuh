/* dev/cuda/product/down.cuh - the down projections of the experts of few rows, and the sum of
 * their results; for up to four rows also the choice of experts. A block has one tile of outputs of
 * all experts that were chosen, a warp one to three experts: their weights are copied to shared
 * memory while the previous kernel runs, and the results of a row are added there, so that no
 * kernel has to follow that adds them. The sums are those of product_split and combine_kernel;
 * product.cuh includes this file. On an H200 a step of one row of the 35b-a3b takes 1.91 ms with it
 * instead of 2.00. */
#ifndef FT_DEV_CUDA_PRODUCT_DOWN_CUH
#define FT_DEV_CUDA_PRODUCT_DOWN_CUH

enum {
    DOWN_WARPS = 17,  /* most; with 33 experts, those of four rows, each has two... */
    DOWN_BESIDE = 12, /* ...or three: most that fit beside a block of product_few */
    DOWN_AHEAD = 4,   /* units whose rows are loaded early */
    DOWN_ITEMS = 41,  /* most, with the shared expert */
    DOWN_CHOSEN = (sizeof(chosen_items) + 15) / 16 * 16,
    DOWN_STATIC = 9 << 10 /* most shared memory besides that of the launch: the table of a type */
};

/* Item i: the shared expert is the last one. */
__device__ __forceinline__ block_of down_item(const ft_product &p, int i, int count,
                                              const ft_item *items)
{
    block_of b = {&p.seg[0], 0, -1, 0, p.shared_T};
    if (i == count) return b;
    const ft_item it = items[i];
    b.expert = it.expert;
    b.first = it.first;
    b.n = it.n;
    return b;
}

/* This lane's part of the rows of an item. Rows beyond the last one repeat it: their columns are
 * discarded. */
__device__ __forceinline__ const char *down_rows_of(const ft_product &p, const block_of &b,
                                                    const int32_t *list, int lane)
{
    const int row = chosen_row(p, b, list, min(lane >> 2, b.n - 1));
    return (const char *)p.x + 128 * row + 16 * (lane & 3);
}

/* The product of a tile, already in shared memory, with the rows of an item. */
template <class W>
__device__ __forceinline__ void down_tile(float (&sum)[4], const ft_product &p, const char *rows,
                                          const unsigned char *tile, int lane)
{
    const int units = p.seg[0].w.units, per = part_units(units);
    const uint32_t step = (uint32_t)p.x_T * 128;
    const size_t plane = 2 * p.x_plane;
    const char *x[1] = {rows};
    uint4 v[DOWN_AHEAD][2][1][W::XP];
#pragma unroll
    for (int u = 0; u < DOWN_AHEAD; u++)
        if (u < units) get_rows<W, 1, 1>(v[u], x, u * step, plane);
#pragma unroll
    for (int i = 0; i < 4; i++) sum[i] = -0.0f; /* x + -0 is x, also for -0 */
    float c[1][1][4] = {};
    int part = per; /* units left of it */
    for (int from = 0; from < units; from += DOWN_AHEAD)
#pragma unroll
        for (int u = 0; u < DOWN_AHEAD; u++) {
            if (from + u >= units) break;
            typename W::regs r[1];
            W::load(r[0], tile + (from + u) * W::BYTES, lane);
            unit_product<W, 1, 1, 1>(c, r, v[u], x, plane, lane);
            const int next = from + u + DOWN_AHEAD;
            if (next < units) get_rows<W, 1, 1>(v[u], x, next * step, plane);
            if (--part && from + u + 1 < units) continue;
            part = per;
#pragma unroll
            for (int i = 0; i < 4; i++) sum[i] += c[0][0][i], c[0][0][i] = 0;
        }
}

/* The same for eight units, which are eight parts: fewer instructions and registers. */
template <class W>
__device__ __forceinline__ void down_eight(float (&sum)[4], const ft_product &p, const char *rows,
                                           const unsigned char *tile, int lane)
{
    const uint32_t step = (uint32_t)p.x_T * 128;
    const size_t plane = 2 * p.x_plane;
    const char *x[1] = {rows + 2 * step};
    const char *first[1] = {rows};
    uint4 v[2][2][1][W::XP];
    get_rows<W, 1, 1>(v[0], first, 0, plane);
    get_rows<W, 1, 1>(v[1], first, step, plane);
#pragma unroll
    for (int i = 0; i < 4; i++) sum[i] = -0.0f;
#pragma unroll 1
    for (int from = 0; from < PARTS; from += 2)
#pragma unroll
        for (int u = 0; u < 2; u++) {
            typename W::regs r[1];
            float c[1][1][4] = {};
            W::load(r[0], tile, lane);
            tile += W::BYTES;
            unit_product<W, 1, 1, 1>(c, r, v[u], x, plane, lane);
            if (from + 2 < PARTS) get_rows<W, 1, 1>(v[u], x, 0, plane);
            x[0] += step;
#pragma unroll
            for (int i = 0; i < 4; i++) sum[i] += c[0][0][i];
        }
}

/* Adds the results of row t, output o of the tile, with weights w. */
__device__ __forceinline__ float down_sum(const ft_expert_sum &s, const float *w, const float *part,
                                          int t, float shared_weight, float old)
{
    float sum = 0;
    for (int i = 0; i < s.K; i++) sum = fmaf(w[t * s.K + i], part[(t * s.K + i) * TILE_N], sum);
    if (s.gate) old = fmaf(shared_weight, part[(s.T * s.K + t) * TILE_N], old);
    return old + sum;
}

/* Chooses the experts and stores the choices. Gate and up have waited for the logits before this
 * kernel started (wait_then_start_next). */
__device__ __forceinline__ void down_route(const ft_product &p, chosen_items &c)
{
    const int i = threadIdx.x;
    choose_items<true>(c, p.logits);
    if (!blockIdx.x && i < p.logits.x.T * p.logits.K) {
        p.sum.id[i] = c.id[i];
        p.sum.w[i] = c.w[i];
    }
}

/* BESIDE: for eight units in a row. A block shares a multiprocessor with two blocks of
 * product_split (one row) or one of product_few; each quarter of it has 16,384 registers, so a
 * thread has 64 of them, as if a block had 1024 threads. */
template <class W, bool CHOOSES, bool BESIDE>
__global__ void __launch_bounds__(BESIDE ? 1024 : 32 * DOWN_WARPS)
    product_down(const __grid_constant__ ft_product p)
{
    extern __shared__ __align__(16) unsigned char smem[];
    chosen_items *const chosen = (chosen_items *)smem; /* if it chooses */
    const ft_expert_sum &s = p.sum;
    const int warp = threadIdx.x >> 5, warps = blockDim.x >> 5, lane = threadIdx.x & 31;
    const int g = lane >> 2, t = lane & 3;
    const int bytes = p.seg[0].w.units * W::BYTES, rows = s.T * (s.K + p.shared_blocks);
    float *part = (float *)(smem + DOWN_CHOSEN); /* [row][TILE_N] */
    unsigned char *tiles = smem + DOWN_CHOSEN + rows * TILE_N * sizeof(float);
    if (CHOOSES) down_route(p, *chosen);
    const ft_item *item = CHOOSES ? chosen->item : p.item;
    const int32_t *list = CHOOSES ? chosen->list : p.list;
    const int count = CHOOSES ? chosen->n_item : __ldg(p.n_item), items = count + p.shared_blocks;
    for (int i = warp; i < items; i += warps) {
        const block_of b = down_item(p, i, count, item);
        const uint8_t *from = unit_at(view_of(p.seg[0], b.expert), blockIdx.x, 0, W::BYTES);
        for (int j = 16 * lane; j < bytes; j += 512)
            copy_16(shared_at(tiles) + i * bytes + j, from + j);
    }
    copy_commit();
    fill_table<W>(p.seg[0].w);
    /* what the sum of this thread needs: written before the previous kernel */
    const int row = threadIdx.x / TILE_N, o = threadIdx.x % TILE_N, at = TILE_N * blockIdx.x + o;
    const bool adds = row < s.T && at < p.seg[0].w.n;
    float old = 0, shared_weight = 0;
    if (adds && s.acc) old = s.y[(size_t)row * s.rs + at];
    if (adds && s.gate) shared_weight = 1.0f / (1.0f + expf(-s.gate[(size_t)row * s.gate_rs]));
    for (int i = 0; adds && !CHOOSES && i < s.K; i++)
        asm volatile("prefetch.global.L1 [%0];" ::"l"(s.w + row * s.K + i));
    wait_for_previous_kernel();
    if (W::TABLE) __syncthreads();
    copy_wait<0>();
    __syncwarp();
    for (int i = warp; i < items; i += warps) {
        const block_of b = down_item(p, i, count, item);
        float sum[4];
        const char *x = down_rows_of(p, b, list, lane);
        if (BESIDE)
            down_eight<W>(sum, p, x, tiles + i * bytes, lane);
        else
            down_tile<W>(sum, p, x, tiles + i * bytes, lane);
        const float scale = scale_of<W>(p.seg[0], b.expert);
#pragma unroll
        for (int q = 0; q < 4; q++) {
            const int tok = 2 * t + (q & 1);
            if (tok < b.n)
                part[chosen_row(p, b, list, tok) * TILE_N + g + 8 * (q >> 1)] = sum[q] * scale;
        }
    }
    __syncthreads();
    if (adds)
        s.y[(size_t)row * s.rs + at] =
            down_sum(s, CHOOSES ? chosen->w : s.w, part + o, row, shared_weight, old);
}

/* Shared memory of a block. */
static inline size_t down_bytes(const ft_product *p, int unit, int items)
{
    return (size_t)((items + p->shared_blocks) * p->seg[0].w.units * unit) +
           sizeof(float) * TILE_N * (size_t)(p->sum.T * (p->sum.K + p->shared_blocks)) +
           DOWN_CHOSEN;
}

/* Whether the weights of all experts, in units of so many bytes, fit into shared memory. */
static inline bool down_fits(const ft_cuda *c, const ft_product *p, int unit, int tokens, int items)
{
    const int all = items + p->shared_blocks;
    if (!short_type(unit) || !p->sum.y || !p->item_old || tokens != 8 || all > DOWN_ITEMS ||
        p->sum.T > 8)
        return false;
    const int warps = (int)ft_blocks((size_t)all, ft_blocks((size_t)all, DOWN_WARPS));
    return down_bytes(p, unit, items) + DOWN_STATIC <= c->smem && 32 * warps >= TILE_N * p->sum.T;
}

template <class W, bool CHOOSES, bool BESIDE>
static void down_launch(ft_cuda *c, const ft_product *p, unsigned warps, size_t bytes)
{
    static uint64_t used;
    static_assert((int)sizeof(uint16_t) * W::TABLE <= DOWN_STATIC, "table");
    if (ft_cuda_first_use(c, &used))
        ft_cuda_shared(c, (const void *)product_down<W, CHOOSES, BESIDE>,
                       (int)c->smem - DOWN_STATIC);
    FT_LAUNCH_NEXT(c, (product_down<W, CHOOSES, BESIDE>), ft_blocks((size_t)p->seg[0].w.n, TILE_N),
                   32 * warps, bytes, *p);
}

/* Launches it, if the weights of all experts fit into shared memory. */
template <class W> static bool down_rows(ft_cuda *c, ft_product *p, int tokens, int items)
{
    if (!down_fits(c, p, W::BYTES, tokens, items)) return false;
    const size_t all = (size_t)(items + p->shared_blocks);
    const bool few = p->logits.x.p && p->sum.T > 1;
    const unsigned warps = ft_blocks(all, ft_blocks(all, few ? DOWN_BESIDE : DOWN_WARPS));
    const size_t bytes = down_bytes(p, W::BYTES, items);
    if (p->logits.x.p && p->seg[0].w.units == PARTS)
        down_launch<W, true, true>(c, p, warps, bytes);
    else if (p->logits.x.p)
        down_launch<W, true, false>(c, p, warps, bytes);
    else
        down_launch<W, false, false>(c, p, warps, bytes);
    p->summed = true;
    return true;
}

#endif
