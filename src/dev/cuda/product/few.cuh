/* dev/cuda/product/few.cuh - gate and up of the experts of two to four rows, which every block
 * chooses from the logits of the router (compute capability 9.0 and newer). There is one block per
 * multiprocessor, with a share of the tiles of all experts that were chosen. Two warps multiply a
 * tile of gates and the same tile of ups, all parts of it one after the other, and one passes its
 * sums to the other through shared memory. A block leaves enough of the multiprocessor for one of
 * product_down, which chooses and copies its weights while this kernel multiplies. The sums are
 * those of product_split; product.cuh includes this file after listed.cuh. docs/why/0036 has the
 * times of each part of a layer. */
#ifndef FT_DEV_CUDA_PRODUCT_FEW_CUH
#define FT_DEV_CUDA_PRODUCT_FEW_CUH

enum {
    FEW_WARPS = 16,
    FEW_PAIRS = FEW_WARPS / 2,
    FEW_BOUND = 896, /* threads: so that one has 72 registers, and product_down fits beside it */
    FEW_RING = 3328  /* most bytes of a warp's ring buffer, if it has more than two entries */
};

/* Entries of the ring, two units each. */
constexpr int few_places(int unit)
{
    return 8 * unit <= FEW_RING ? 4 : 6 * unit <= FEW_RING ? 3 : 2;
}

/* Shared memory of a block: rings, sums of ups, choices. */
constexpr int few_bytes(int unit)
{
    return FEW_WARPS * few_places(unit) * 2 * unit + FEW_PAIRS * 32 * (int)sizeof(float4) +
           (int)sizeof(chosen_items);
}

/* The ring buffer of a warp, and what it copies next: two units of a tile, then those of the tiles
 * to come, before group `last`. */
template <class W> struct few_ring {
    enum { RUN = 2 * W::BYTES, RING = few_places(W::BYTES) * RUN, PLACES = few_places(W::BYTES) };
    const unsigned char *data;
    const uint8_t *from; /* this lane's part */
    listed_walk w;
    int left, last, place; /* entries left of the tile; the end; bytes from the start */

    __device__ __forceinline__ void feed(const ft_product &p, const listed_items &l, int lane)
    {
        if (!left && w.q < last) {
            const ft_seg &s = p.seg[threadIdx.x >> 5 & 1];
            const block_of b = listed_at(p, l, w);
            from = unit_at(view_of(s, b.expert), b.at, 0, W::BYTES) + 16 * lane;
            left = s.w.units / 2;
            w.next(FEW_PAIRS, l.across);
        }
        if (left) {
            fetch_run<RUN>(shared_at(data) + place + 16 * lane, from, lane);
            from += RUN;
            left--;
        }
        copy_commit();
        place = place + RUN < RING ? place + RUN : 0;
    }

    /* Loads the two units of the current entry, and fills it again. */
    __device__ __forceinline__ void take(typename W::regs (&r)[2][1], const ft_product &p,
                                         const listed_items &l, int lane)
    {
        copy_wait<PLACES - 1>();
        __syncwarp();
        W::load(r[0][0], data + place, lane);
        W::load(r[1][0], data + place + W::BYTES, lane);
        __syncwarp();
        feed(p, l, lane);
    }
};

/* Chooses the experts and fills the ring. w: the first group of this warp. */
template <class W>
__device__ __forceinline__ void few_open(few_ring<W> &r, const ft_product &p, listed_items &l,
                                         unsigned char *smem, chosen_items &chosen, listed_walk &w)
{
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const int thread = threadIdx.x + blockIdx.x * blockDim.x, all = blockDim.x * gridDim.x;
    for (int s = 0; s < 2 && p.shared_blocks; s++)
        prefetch_l2(p.seg[s].shared_w, (int)p.seg[s].stride, thread, all);
    fill_table<W>(p.seg[0].w);
    wait_then_start_next(); /* the logits were computed by the previous kernel */
    choose_items<false>(chosen, p.logits);
    l.item = chosen.item;
    const int groups = (chosen.n_item + p.shared_blocks) * l.across;
    w.start(groups * blockIdx.x / gridDim.x + warp / 2, l.across);
    r.w = w;
    r.last = groups * (blockIdx.x + 1) / gridDim.x;
    r.data = smem + warp * few_ring<W>::RING;
    r.left = r.place = 0;
#pragma unroll 1
    for (int i = 0; i < few_ring<W>::PLACES; i++) r.feed(p, l, lane);
}

/* Two warps have a tile: a barrier for them. */
__device__ __forceinline__ void few_meet()
{
    asm volatile("bar.sync %0, 64;" ::"r"(1 + (threadIdx.x >> 6)) : "memory");
}

/* The sums of a tile. */
template <class W>
__device__ __forceinline__ void few_sums(float (&sum)[4], const ft_product &p,
                                         const listed_items &l, few_ring<W> &ring, const char *rows,
                                         int per, int lane)
{
    const uint32_t step = (uint32_t)p.x_T * 128;
    const size_t plane = 2 * p.x_plane;
    const char *x[1] = {rows};
    float c[1][1][4] = {};
    int part = per; /* units left of it */
#pragma unroll
    for (int i = 0; i < 4; i++) sum[i] = -0.0f; /* x + -0 is x, also for -0 */
    for (int left = p.seg[0].w.units; left > 0; left -= 2) {
        uint4 v[2][2][1][W::XP];
        typename W::regs r[2][1];
        get_rows<W, 1, 1>(v[0], x, 0, plane);
        get_rows<W, 1, 1>(v[1], x, step, plane);
        x[0] += 2 * step;
        ring.take(r, p, l, lane);
        unit_product<W, 1, 1, 1>(c, r[0], v[0], x, plane, lane);
        unit_product<W, 1, 1, 1>(c, r[1], v[1], x, plane, lane);
        part -= 2;
        if (part && left > 2) continue;
        part = per;
#pragma unroll
        for (int i = 0; i < 4; i++) sum[i] += c[0][0][i], c[0][0][i] = 0;
    }
}

template <class W>
__global__ void __launch_bounds__(FEW_BOUND, 1)
    product_few(const __grid_constant__ ft_product p, int across)
{
    extern __shared__ __align__(16) unsigned char smem[];
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    unsigned char *const after = smem + FEW_WARPS * few_ring<W>::RING;
    float4 *const up = (float4 *)after + warp / 2 * 32 + lane;
    chosen_items &chosen = *(chosen_items *)(after + FEW_PAIRS * 32 * sizeof(float4));
    const int per = part_units(p.seg[0].w.units);
    listed_items l = {NULL, across};
    few_ring<W> ring;
    listed_walk w;
    few_open(ring, p, l, smem, chosen, w);
    for (; w.q < ring.last; w.next(FEW_PAIRS, across)) {
        const block_of b = listed_at(p, l, w);
        const int choice = chosen_row(p, b, chosen.list, min(g, b.n - 1));
        const int row = b.expert < 0 ? choice - p.shared_y : choice / p.list_div;
        float sum[4];
        few_sums<W>(sum, p, l, ring, (const char *)p.x + 128 * row + 16 * t, per, lane);
        if (warp & 1) *up = make_float4(sum[0], sum[1], sum[2], sum[3]);
        few_meet();
        if (!(warp & 1)) {
            const float4 v = *up;
            const float ups[4] = {v.x, v.y, v.z, v.w};
            const float s0 = scale_of<W>(p.seg[0], b.expert), s1 = scale_of<W>(p.seg[1], b.expert);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int tok = 2 * t + (i & 1), o = TILE_N * b.at + g + 8 * (i >> 1);
                if (tok < b.n)
                    put_pair(p, chosen_row(p, b, chosen.list, tok), o, sum[i] * s0, ups[i] * s1);
            }
        }
        few_meet();
    }
}

/* ---- launch ---- */

/* Whether product_few applies to gate and up of types with units of so many bytes, and shares a
 * multiprocessor with product_down. */
static inline bool few_chooses(const ft_cuda *c, const ft_product *up, int up_unit,
                               const ft_product *down, int down_unit, int tokens, int items)
{
    const int units = up->seg[0].w.units;
    if (c->cc < 90 || !up->glu || tokens != LISTED_ROWS || !short_type(up_unit)) return false;
    if (units % 2 || part_units(units) % 2 || down->seg[0].w.units != PARTS) return false;
    const size_t tables =
        (up->seg[0].w.table ? DOWN_STATIC : 0) + (down->seg[0].w.table ? DOWN_STATIC : 0);
    const size_t reserved = 1024; /* of each block, by CUDA */
    return (size_t)few_bytes(up_unit) + down_bytes(down, down_unit, items) + tables + reserved <=
           c->smem;
}

/* Launches it, if the experts of several rows are not chosen yet. */
template <class W> static bool few_rows(ft_cuda *c, ft_product *p, int items)
{
    static uint64_t used;
    const int bytes = few_bytes(W::BYTES);
    if (!p->logits.x.p || p->T == 1) return false;
    if (ft_cuda_first_use(c, &used)) ft_cuda_shared(c, (const void *)product_few<W>, bytes);
    const unsigned across = product_grid(p, 2, LISTED_ROWS, items).x;
    p->n_seg = 1;
    FT_LAUNCH_NEXT(c, product_few<W>, (unsigned)c->sms, 32 * FEW_WARPS, bytes, *p, (int)across);
    return true;
}

#endif
