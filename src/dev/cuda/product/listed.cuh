/* dev/cuda/product/listed.cuh - products of experts that have few rows each (compute capability 9.0
 * and newer). There are exactly as many blocks as the GPU holds, each with its share of the tiles
 * of all experts that were chosen. A warp computes all parts of its tiles and adds them in order:
 * it waits for no other warp, and its ring buffer does not run empty between two tiles. The sums
 * are those of product_split; product.cuh includes this file after it.
 *
 * On an H200, one layer of the 35b-a3b (256 experts of 2048 x 512 and a shared one, Q4_K), us of a
 * profiler: 16 sequences (about 103 experts) 41 for gate and up (139 MB), 24 for down;
 * product_split and product_short take 50 and 28. 64 sequences (about 230 items) 84 and 46 instead
 * of 104 and 59. Without the products the copies take 37 and 20, 74 and 41; without the copies the
 * products take 33 and 19, 60 and 34. docs/why/0033 lists what else was tried. */
#ifndef FT_DEV_CUDA_PRODUCT_LISTED_CUH
#define FT_DEV_CUDA_PRODUCT_LISTED_CUH

enum {
    LISTED_WARPS = 8,
    LISTED_BLOCKS = 2, /* of a multiprocessor */
    LISTED_ROWS = 8,   /* of an item */
    LISTED_FEW = 40,   /* with no more items than this, parts are distributed over warps */
    LISTED_ITEMS = 512 /* most */
};

/* A warp has MT tiles of weights of type W at a time. */
template <class W_, int MT_> struct listed_shape {
    typedef W_ W;
    enum {
        MT = MT_,
        CHUNK = W::BYTES < 1024 ? 4 / MT : 1, /* units that are copied together */
        RUN = CHUNK * W::BYTES,               /* bytes of a tile in an entry of the ring */
        PLACE = MT * RUN,
        MOST = MT == 1 ? 5 : 4,
        PLACES = MOST * PLACE <= 12800 ? MOST : 12800 / PLACE, /* two blocks fit */
        RING = PLACES * PLACE,
        BYTES = LISTED_WARPS * RING
    };
};

/* The list of items in shared memory. */
struct listed_items {
    const ft_item *item;
    int across; /* groups of tiles of an item */
};

/* Group q of the tiles of all items: group `at` of item y, where those of the shared expert come
 * first. */
struct listed_walk {
    int q, y, at;
    __device__ __forceinline__ void start(int group, int across)
    {
        q = group;
        y = group / across;
        at = group - y * across;
    }
    __device__ __forceinline__ void next(int step, int across)
    {
        q += step;
        at += step;
        while (at >= across) at -= across, y++;
    }
};

__device__ __forceinline__ block_of listed_at(const ft_product &p, const listed_items &l,
                                              const listed_walk &w)
{
    const int i = w.y - p.shared_blocks;
    block_of b;
    b.s = &p.seg[0];
    b.at = w.at;
    if (i < 0) {
        b.expert = -1;
        b.first = w.y * LISTED_ROWS;
        b.n = min((int)LISTED_ROWS, p.shared_T - b.first);
    } else {
        b.expert = l.item[i].expert;
        b.first = l.item[i].first;
        b.n = l.item[i].n;
    }
    return b;
}

/* The ring buffer of a warp, and what it copies: `left` units of MT tiles, then those of the groups
 * to come, before `last`. */
template <class S> struct listed_ring {
    typedef typename S::W W;
    const unsigned char *data;
    const uint8_t *at[S::MT];
    listed_walk w;
    int left, last, place;

    /* Copies the next chunk to the current entry, if any is left, and goes to the next entry. */
    __device__ __forceinline__ void feed(const ft_product &p, const listed_items &l, int lane)
    {
        const uint32_t to = shared_at(data) + place * S::PLACE + 16 * lane;
        if (left <= 0 && w.q < last) {
            find_tiles<W, S::MT>(at, p, listed_at(p, l, w), 0, lane);
            left = p.seg[0].w.units;
            w.next(LISTED_WARPS, l.across);
        }
        if (left >= S::CHUNK) {
#pragma unroll
            for (int j = 0; j < S::MT; j++) fetch_run<S::RUN>(to + j * S::RUN, at[j], lane);
        } else {
#pragma unroll
            for (int j = 0; j < S::MT; j++)
                for (int u = 0; u < left; u++)
                    fetch_run<W::BYTES>(to + j * S::RUN + u * W::BYTES, at[j] + u * W::BYTES, lane);
        }
        copy_commit();
#pragma unroll
        for (int j = 0; j < S::MT; j++) at[j] += S::RUN;
        left -= S::CHUNK;
        place = place + 1 < S::PLACES ? place + 1 : 0;
    }

    /* Waits for the current entry. */
    __device__ __forceinline__ const unsigned char *wait()
    {
        copy_wait<S::PLACES - 1>();
        __syncwarp();
        return data + place * S::PLACE;
    }

    /* All lanes have read the current entry. */
    __device__ __forceinline__ void used(const ft_product &p, const listed_items &l, int lane)
    {
        __syncwarp();
        feed(p, l, lane);
    }
};

/* Loads the list, and before that prefetches the shared expert; then fills the ring. w: the first
 * group of this warp. */
template <class S>
__device__ __forceinline__ void open_list(listed_ring<S> &r, const ft_product &p, listed_items &l,
                                          unsigned char *smem, int items, listed_walk &w)
{
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    ft_item *item = (ft_item *)(smem + S::BYTES);
    if (!p.item_old) {
        const int i = threadIdx.x + blockIdx.x * blockDim.x, n = blockDim.x * gridDim.x;
        for (int s = 0; s < (p.glu ? 2 : 1) && p.shared_blocks; s++)
            prefetch_l2(p.seg[s].shared_w, (int)p.seg[s].stride, i, n);
        wait_then_start_next(); /* the items were computed by the previous kernel */
    }
    for (int j = threadIdx.x; j < 3 * items; j += blockDim.x)
        ((int32_t *)item)[j] = __ldg((const int32_t *)p.item + j);
    const int groups = (__ldg(p.n_item) + p.shared_blocks) * l.across;
    __syncthreads();
    l.item = item;
    w.start(groups * blockIdx.x / gridDim.x + warp, l.across);
    r.w = w;
    r.last = groups * (blockIdx.x + 1) / gridDim.x;
    r.data = smem + warp * S::RING;
    r.left = r.place = 0;
#pragma unroll 1
    for (int i = 0; i < S::PLACES; i++) r.feed(p, l, lane);
    fill_table<typename S::W>(p.seg[0].w);
    if (p.item_old) wait_for_previous_kernel();
    if (S::W::TABLE) __syncthreads();
}

/* This lane's part of the rows of an item. Rows beyond the last one repeat it: their columns of c
 * are discarded. */
__device__ __forceinline__ const char *listed_row(const ft_product &p, const block_of &b, int lane)
{
    return (const char *)p.x + (128 * row_x(p, b, min(lane >> 2, b.n - 1)) + 16 * (lane & 3));
}

/* Adds a part to the sum. -0 is what a sum begins with: x + -0 is x, also for -0. */
template <int MT>
__device__ __forceinline__ void add_part(float (&sum)[MT][1][4], float (&c)[MT][1][4])
{
#pragma unroll
    for (int i = 0; i < 4 * MT; i++) {
        sum[i / 4][0][i % 4] += c[i / 4][0][i % 4];
        c[i / 4][0][i % 4] = 0;
    }
}

/* Stores the results of two tiles. */
template <class W>
__device__ __forceinline__ void put_listed(const ft_product &p, const block_of &b,
                                           const float (&sum)[2][1][4], int lane)
{
    const int g = lane >> 2, t = lane & 3;
    const float s0 = scale_of<W>(p.seg[0], b.expert);
    const float s1 = p.glu ? scale_of<W>(p.seg[1], b.expert) : s0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int tok = 2 * t + (i & 1), o = g + 8 * (i >> 1);
        if (tok >= b.n) continue;
        const int row = row_y(p, b, tok);
        const float v0 = sum[0][0][i] * s0, v1 = sum[1][0][i] * s1;
        if (p.glu) {
            put_pair(p, row, TILE_N * b.at + o, v0, v1);
        } else {
            put_result(p, p.seg[0], row, TILE_N * 2 * b.at + o, v0);
            put_result(p, p.seg[0], row, TILE_N * (2 * b.at + 1) + o, v1);
        }
    }
}

/* Two tiles at a time: gate and up, or neighbours. */
template <class S>
__global__ void __launch_bounds__(32 * LISTED_WARPS, LISTED_BLOCKS)
    product_listed(const __grid_constant__ ft_product p, int across, int items)
{
    typedef typename S::W W;
    enum { MT = S::MT, CHUNK = S::CHUNK, AHEAD = CHUNK };
    extern __shared__ __align__(16) unsigned char smem[];
    const int lane = threadIdx.x & 31;
    listed_items l = {NULL, across};
    listed_ring<S> ring;
    listed_walk w;
    open_list(ring, p, l, smem, items, w);
    const int units = p.seg[0].w.units, per = part_units(units);
    const uint32_t step = (uint32_t)p.x_T * 128;
    const size_t plane = 2 * p.x_plane;
    uint4 v[AHEAD][2][1][W::XP];
    const char *x[1];
    int item = -1;
    for (; w.q < ring.last; w.next(LISTED_WARPS, across)) {
        const block_of b = listed_at(p, l, w);
        if (w.y != item) { /* other rows */
            item = w.y;
            x[0] = listed_row(p, b, lane);
#pragma unroll
            for (int u = 0; u < AHEAD; u++)
                if (u < units) get_rows<W, 1, 1>(v[u], x, u * step, plane);
        }
        float c[MT][1][4] = {}, sum[MT][1][4];
#pragma unroll
        for (int i = 0; i < 4 * MT; i++) sum[i / 4][0][i % 4] = -0.0f;
        uint32_t at = 0;
        int part = per; /* units left of it */
        for (int left = units; left > 0; left -= CHUNK) {
            const unsigned char *here = ring.wait();
#pragma unroll
            for (int u = 0; u < CHUNK; u++) {
                if (u && left <= u) break;
                typename W::regs r[MT];
#pragma unroll
                for (int j = 0; j < MT; j++) W::load(r[j], here + j * S::RUN + u * W::BYTES, lane);
                unit_product<W, MT, 1, 1>(c, r, v[u % AHEAD], x, plane, lane);
                /* rows of a later unit, or of the first ones again, are loaded early */
                get_rows<W, 1, 1>(v[u % AHEAD], x,
                                  left > AHEAD + u ? at + AHEAD * step : u % AHEAD * step, plane);
                at += step;
                if (--part == 0) {
                    add_part<MT>(sum, c);
                    part = per;
                }
            }
            ring.used(p, l, lane);
        }
        if (part != per) add_part<MT>(sum, c);
        put_listed<W>(p, b, sum, lane);
    }
}

/* Few columns: every unit is a part, and the rows of an item are in registers. */
template <class S>
__global__ void __launch_bounds__(32 * LISTED_WARPS, LISTED_BLOCKS)
    product_listed_short(const __grid_constant__ ft_product p, int across, int items)
{
    typedef typename S::W W;
    extern __shared__ __align__(16) unsigned char smem[];
    const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    listed_items l = {NULL, across};
    listed_ring<S> ring;
    listed_walk w;
    open_list(ring, p, l, smem, items, w);
    const int units = p.seg[0].w.units, outputs = p.seg[0].w.n;
    uint4 v[PARTS][2][1][W::XP];
    float *y[2], scale = 0; /* of rows 2 t and 2 t + 1, from output g on; NULL: no such row */
    int item = -1;
    for (; w.q < ring.last; w.next(LISTED_WARPS, across)) {
        if (w.y != item) { /* other rows */
            const block_of b = listed_at(p, l, w);
            const char *x[1] = {listed_row(p, b, lane)};
            item = w.y;
#pragma unroll
            for (int u = 0; u < PARTS; u++)
                if (u < units) get_rows<W, 1, 1>(v[u], x, u * p.x_T * 128, 2 * p.x_plane);
#pragma unroll
            for (int i = 0; i < 2; i++)
                y[i] = 2 * t + i < b.n
                           ? p.seg[0].y + (size_t)row_y(p, b, 2 * t + i) * p.seg[0].rs + g
                           : NULL;
            scale = scale_of<W>(p.seg[0], b.expert);
        }
        float sum[1][1][4] = {{{-0.0f, -0.0f, -0.0f, -0.0f}}};
#pragma unroll
        for (int h = 0; h < PARTS; h += S::CHUNK) {
            if (h >= units) break;
            const unsigned char *here = ring.wait();
#pragma unroll
            for (int u = 0; u < S::CHUNK; u++) {
                if (u && h + u >= units) break;
                typename W::regs r[1];
                float c[1][1][4] = {};
                const char *none[1] = {};
                W::load(r[0], here + u * W::BYTES, lane);
                unit_product<W, 1, 1, 1>(c, r, v[h + u], none, 0, lane);
                add_part<1>(sum, c);
            }
            ring.used(p, l, lane);
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int o = TILE_N * w.at + i / 2 * 8;
            if (!y[i & 1] || o + g >= outputs) continue;
            const float value = sum[0][0][i] * scale;
            y[i & 1][o] = p.acc ? y[i & 1][o] + value : value;
        }
    }
}

/* ---- launch ---- */

template <class S> constexpr int listed_bytes(int items)
{
    return S::BYTES + (int)sizeof(ft_item) * items;
}

/* As many blocks as the GPU holds: see stream_blocks. */
template <class S>
static void listed_launch(ft_cuda *c, ft_product *p, void (*kernel)(ft_product, int, int),
                          uint64_t *used, int items)
{
    const int bytes = listed_bytes<S>(items);
    int fit = 0;
    if (ft_cuda_first_use(c, used))
        ft_cuda_shared(c, (const void *)kernel, listed_bytes<S>(LISTED_ITEMS));
    ft_cuda_max_carveout(c, (const void *)kernel);
    ft_cuda_check(c,
                  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit, (const void *)kernel,
                                                                32 * LISTED_WARPS, (size_t)bytes),
                  "occupancy");
    const unsigned across = product_grid(p, S::MT, LISTED_ROWS, items).x;
    const unsigned groups = across * (unsigned)(items + p->shared_blocks);
    const unsigned blocks = (unsigned)(FT_MAX(1, fit) * c->sms);
    if (p->glu) p->n_seg = 1;
    FT_LAUNCH_NEXT(c, kernel, FT_MIN(blocks, ft_blocks(groups, LISTED_WARPS)), 32 * LISTED_WARPS,
                   bytes, *p, (int)across, items);
}

/* Launches the kernel for experts with few rows, if there is enough for every warp to do: with the
 * 35b-a3b from six rows on. */
template <class W> static bool listed_rows(ft_cuda *c, ft_product *p, int tokens, int items)
{
    static uint64_t pairs_used, short_used;
    typedef listed_shape<W, 1> one;
    typedef listed_shape<W, 2> two;
    if (c->cc < 90 || !p->item || p->wide || tokens != LISTED_ROWS) return false;
    if (items <= LISTED_FEW || items > LISTED_ITEMS) return false;
    if ((size_t)(LISTED_BLOCKS * listed_bytes<one>(items)) > c->smem) return false;
    if (p->seg[0].w.units <= PARTS && !p->glu)
        listed_launch<one>(c, p, product_listed_short<one>, &short_used, items);
    else
        listed_launch<two>(c, p, product_listed<two>, &pairs_used, items);
    return true;
}

#endif
