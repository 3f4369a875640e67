/* dev/cuda/product/groups.cuh - products of 9 to 128 rows with warpgroup instructions (compute
 * capability 9.0). A block computes up to G x 64 outputs of up to R rows: each of its warpgroups
 * has 64 outputs, all of them read the same rows in shared memory. Another warpgroup copies units
 * of weights to a ring buffer, and a thread of a third one copies the rows.
 *
 * Products with few outputs and long rows do not have enough tiles for all multiprocessors. There
 * (SPLIT) the parts of a sum are computed by different blocks, which store them, and another kernel
 * adds them in order. Else a block computes all parts of a tile, and keeps their sum in shared
 * memory. In both cases the sums are those of product_split.
 *
 * On an H200, gate and up of the 27b (Q4_K) take 33.5 us with 16 rows, 38.5 with 32, 52 with 64 and
 * 67 with 80; one row of product_stream takes 29. docs/why/0037 has the times of other products and
 * of steps, and lists what else was tried.
 *
 * Included by product.cuh after rows_wgmma.cuh. */
#ifndef FT_DEV_CUDA_PRODUCT_GROUPS_CUH
#define FT_DEV_CUDA_PRODUCT_GROUPS_CUH

/* Weights of type W, ROWS rows and up to GROUPS x 64 outputs per tile. */
template <class W, int ROWS, int GROUPS, bool SPLIT> struct groups_shape {
    typedef W weights;
    enum {
        R = ROWS,
        G = GROUPS,
        split = SPLIT,
        TILES = 4 * G,
        MULTIPLY = 128 * G,       /* threads that multiply */
        THREADS = MULTIPLY + 256, /* and those that copy */
        SUMS = R / 2,
        STEPS = R > 64 ? 1 : 2, /* products of 16 columns that are issued together */
        PLANE = R * 128,        /* bytes of a unit of rows */
        CHUNK = R <= 64 && W::BYTES <= 768 ? 2 : 1, /* units of an entry */
        RUN = CHUNK * W::BYTES,
        X = CHUNK * PLANE,
        PLACE = X + (TILES * RUN + 1023) / 1024 * 1024,
        PITCH = TILE_N * TILES + 4, /* floats of a row of results: avoids bank conflicts */
        RESULTS = SPLIT ? 0 : 4 * R * PITCH,
        FIT = (ROWS_SHARED - RESULTS) / PLACE,
        PLACES = FIT < 8 ? FIT : 8,
        OUT = PLACES * PLACE,
        BYTES = OUT + RESULTS + 1024
    };
};

/* What a launch computes: `across` tiles of outputs, `down` tiles of rows, and, if tiles are split,
 * the parts of their sums, one slot of R * 64 G values each. */
typedef struct groups_work {
    int across, down;
    int parts; /* of a sum */
    int tiles; /* of 16 outputs in a tile of a block */
    float4 *slot;
} groups_work;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900

/* Threads that multiply: whole warpgroups. */
__device__ __forceinline__ int groups_threads(const groups_work &w)
{
    return (w.tiles + 3) / 4 * 128;
}

/* Units [from, to) of a tile. */
struct groups_item {
    block_of b;
    int from, to, slot;
};

template <class S>
__device__ __forceinline__ bool groups_at(const ft_product &p, const groups_work &w, int i,
                                          groups_item &it)
{
    if (i >= w.across * w.down * (S::split ? w.parts : 1)) return false;
    const int down = i % w.down, part = S::split ? i / w.down % w.parts : 0;
    const int tile = i / w.down / (S::split ? w.parts : 1);
    find_block(p, S::R, tile, down, it.b);
    const int units = it.b.s->w.units, per = part_units(units);
    it.from = part * per;
    it.to = S::split ? min(units, it.from + per) : units;
    it.slot = (tile * w.down + down) * w.parts + part;
    return true;
}

/* ---- the warps that copy ---- */

/* What is copied next: from unit u of a part on, which ends at `end`. */
template <class S> struct groups_feed {
    const uint8_t *weights[S::G]; /* 16 bytes of a lane, of each tile of a warp */
    const char *x;
    int rows;
    int item, u, end, to, per;
};

template <class S>
__device__ __forceinline__ bool feed_item(groups_feed<S> &f, const ft_product &p,
                                          const groups_work &w)
{
    typedef typename S::weights W;
    groups_item it;
    if (!groups_at<S>(p, w, f.item, it)) return false;
#pragma unroll
    for (int j = 0; j < S::G; j++) {
        const int i = 4 * j + (threadIdx.x >> 5 & 3);
        const ft_wview &v = p.glu ? p.seg[i % 2].w : it.b.s->w;
        const int tile = p.glu ? it.b.at * (w.tiles / 2) + i / 2 : it.b.at * w.tiles + i;
        f.weights[j] = unit_at(v, min(tile, (v.n + TILE_N - 1) / TILE_N - 1), it.from, W::BYTES) +
                       16 * (threadIdx.x & 31);
    }
    f.x = (const char *)p.x + ((size_t)it.from * p.x_T + it.b.first) * 128;
    f.rows = it.b.n;
    f.u = it.from;
    f.to = it.to;
    f.per = part_units(it.b.s->w.units);
    f.end = min(f.to, f.u + f.per);
    return true;
}

/* After n units; false: they were the last. */
template <class S>
__device__ __forceinline__ bool feed_next(groups_feed<S> &f, const ft_product &p,
                                          const groups_work &w, int n)
{
    f.u += n;
    if (f.u < f.end) return true;
    f.end = min(f.to, f.u + f.per);
    if (f.u < f.to) return true;
    f.item += gridDim.x;
    return feed_item<S>(f, p, w);
}

/* Copies the weights of the next entry. */
template <class S>
__device__ __forceinline__ bool feed_weights(groups_feed<S> &f, const ft_product &p,
                                             const groups_work &w, const ring_buffer &r)
{
    typedef typename S::weights W;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3;
    const int n = min((int)S::CHUNK, f.end - f.u);
    const uint32_t to = shared_at(r.at) + r.place * S::PLACE + S::X + warp * S::RUN + 16 * lane;
#pragma unroll
    for (int j = 0; j < S::G; j++) {
        if (4 * j + warp >= w.tiles) break;
        if (n == S::CHUNK)
            fetch_run<S::RUN>(to + 4 * j * S::RUN, f.weights[j], lane);
        else
            fetch_run<W::BYTES>(to + 4 * j * S::RUN, f.weights[j], lane);
        f.weights[j] += n * W::BYTES;
    }
    barrier_arrive_copied(r.full + 8 * r.place);
    return feed_next<S>(f, p, w, n);
}

/* Copies the rows of the next entry. */
template <class S>
__device__ __forceinline__ bool feed_rows(groups_feed<S> &f, const ft_product &p,
                                          const groups_work &w, const ring_buffer &r)
{
    const int n = min((int)S::CHUNK, f.end - f.u);
    const uint32_t to = shared_at(r.at) + r.place * S::PLACE, bar = r.full + 8 * r.place;
    barrier_expect(bar, n * f.rows * 128);
    for (int i = 0; i < n; i++, f.x += (size_t)p.x_T * 128)
        copy_run(to + i * S::PLANE, f.x, f.rows * 128, bar);
    return feed_next<S>(f, p, w, n);
}

/* A warpgroup copies the weights, the first of them before the previous kernel has finished. */
template <class S>
__device__ __forceinline__ void groups_copy_weights(const ft_product &p, const groups_work &w,
                                                    ring_buffer r)
{
    groups_feed<S> f = {};
    f.item = blockIdx.x;
    bool more = feed_item<S>(f, p, w);
    for (; more && r.place < S::PLACES; r.place++) more = feed_weights<S>(f, p, w, r);
    wait_for_previous_kernel();
    r.place = 0;
    for (r.parity = 1; more; next_place<S>(r)) {
        barrier_wait(r.empty + 8 * r.place, r.parity ^ 1);
        more = feed_weights<S>(f, p, w, r);
    }
    copy_commit();
    copy_wait<0>();
}

/* One thread copies the rows. If it were a thread of a warp that copies weights, that warp would be
 * late with its share of every entry: products take up to a fifth longer. */
template <class S>
__device__ __forceinline__ void groups_copy_rows(const ft_product &p, const groups_work &w,
                                                 ring_buffer r)
{
    groups_feed<S> f = {};
    f.item = blockIdx.x;
    bool more = feed_item<S>(f, p, w);
    wait_for_previous_kernel();
    for (; more; next_place<S>(r)) {
        barrier_wait(r.empty + 8 * r.place, r.parity ^ 1);
        more = feed_rows<S>(f, p, w, r);
    }
}

/* ---- the warpgroups that multiply ---- */

/* Issues products, from columns 16 q of a unit on, x in shared memory; a must not change until they
 * are complete. */
template <class S>
__device__ __forceinline__ void groups_products(float (&c)[S::SUMS], uint32_t (&a)[S::STEPS][4],
                                                const typename S::weights::regs &v, int q,
                                                uint64_t x)
{
    typedef typename S::weights W;
    ft_frag f;
    W::frag(&f, v, q / 2, threadIdx.x & 31);
#pragma unroll
    for (int k = 0; k < 4 * S::STEPS; k++) { /* all are in registers before the first product */
        a[k / 4][k % 4] = f.a[(q + k / 4) % 2][k % 4];
        asm volatile("" : "+r"(a[k / 4][k % 4])::"memory");
    }
    group_begin();
#pragma unroll
    for (int k = 0; k < S::STEPS; k++) /* in the order of half_unit */
        group_product_of<W, S::R>(c, a[k], x + 2 * (q + k));
    group_commit();
}

/* One part of n units: while some columns of a unit are multiplied, the next ones are decoded. */
template <class S>
__device__ __forceinline__ void groups_part(float (&c)[S::SUMS], ring_buffer &r, int n)
{
    typedef typename S::weights W;
    const int warp = threadIdx.x >> 5;
    uint32_t a[2][S::STEPS][4];
    int before = 0;
    clear(c);
    for (int u = 0; u < n; u += S::CHUNK) {
        const unsigned char *at = r.at + r.place * S::PLACE;
        const uint64_t x = group_operand(shared_at(at));
        barrier_wait(r.full + 8 * r.place, r.parity);
#pragma unroll
        for (int i = 0; i < S::CHUNK; i++) {
            typename W::regs v;
            if (i && u + i >= n) break;
            W::load(v, at + S::X + warp * S::RUN + i * W::BYTES, threadIdx.x & 31);
#pragma unroll
            for (int q = 0; q < 4; q += S::STEPS) {
                groups_products<S>(c, a[q / S::STEPS % 2], v, q, x + i * S::PLANE / 16);
                group_wait<1>();
                if (i + q == 0 && u) barrier_arrive(r.empty + 8 * before);
            }
        }
        before = r.place;
        next_place<S>(r);
    }
    group_wait<0>();
    barrier_arrive(r.empty + 8 * before);
}

/* A barrier of the threads that multiply. */
__device__ __forceinline__ void groups_meet(int threads)
{
    asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory");
}

/* Adds a part to the sum of the earlier ones in shared memory; the last one stays in registers. */
template <class S>
__device__ __forceinline__ void groups_add(float (&c)[S::SUMS], float4 *sum, bool first, bool last)
{
#pragma unroll
    for (int i = 0; i < S::SUMS; i += 4) {
        float4 *at = sum + i / 4 * S::MULTIPLY + threadIdx.x;
        float4 v = make_float4(c[i], c[i + 1], c[i + 2], c[i + 3]);
        if (!first) v = sum_of(*at, v);
        if (!last) *at = v;
        c[i] = v.x, c[i + 1] = v.y, c[i + 2] = v.z, c[i + 3] = v.w;
    }
}

/* Stores a tile of results. */
template <class S>
__device__ __forceinline__ void groups_put(const ft_product &p, const block_of &b, const float *out,
                                           int tiles, int threads)
{
    typedef typename S::weights W;
    enum { AHEAD = 4 };
    const float scale = scale_of<W>(*b.s, 0);
    const int fours = 4 * tiles, o = b.at * TILE_N * tiles, all = b.n * fours;
    float *y = b.s->y + (size_t)b.first * b.s->rs + o;
    if (o + TILE_N * tiles > b.s->w.n || b.s->rs % 4 || (uintptr_t)y % 16) {
        for (int e = threadIdx.x; e < 4 * all; e += threads) {
            const int row = e / (4 * fours), k = e % (4 * fours);
            put_result(p, *b.s, b.first + row, o + k, out[row * S::PITCH + k] * scale);
        }
        return;
    }
    for (int from = threadIdx.x; from < all; from += AHEAD * threads) {
        float4 *at[AHEAD], old[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) { /* all loads are issued before the first value is used */
            const int e = min(from + i * threads, all - 1);
            at[i] = (float4 *)(y + (size_t)(e / fours) * b.s->rs) + e % fours;
            if (p.acc) old[i] = *at[i];
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const int e = from + i * threads;
            if (e >= all) break;
            float4 v = *(const float4 *)(out + e / fours * S::PITCH + e % fours * 4);
            v = make_float4(v.x * scale, v.y * scale, v.z * scale, v.w * scale);
            *at[i] = p.acc ? sum_of(old[i], v) : v;
        }
    }
}

/* Tiles of gates and ups alternate. A thread makes eight bytes of a row's copy: the two pairs of
 * outputs that are adjacent there. */
template <class S>
__device__ __forceinline__ void groups_put_pair(const ft_product &p, const block_of &b,
                                                const float *out, int tiles, int threads)
{
    typedef typename S::weights W;
    const ft_seg &s = p.seg[0];
    const float s0 = scale_of<W>(s, 0), s1 = scale_of<W>(p.seg[1], 0);
    const int pieces = 2 * tiles; /* of a row: four of 16 outputs */
    for (int e = threadIdx.x; e < b.n * pieces; e += threads) {
        const int i = e / pieces, piece = e % pieces, row = b.first + i;
        const int o = (b.at * (tiles / 2) + piece / 4) * TILE_N + piece % 4 * 2;
        const float *gate = out + i * S::PITCH + piece / 4 * (2 * TILE_N) + piece % 4 * 2;
        float *y = s.y ? s.y + (size_t)row * s.rs + o : NULL;
        uint32_t hi[2], lo[2];
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const float2 g = *(const float2 *)(gate + 8 * k);
            const float2 u = *(const float2 *)(gate + 8 * k + TILE_N);
            const float v0 = act_of(g.x * s0, p.act) * (u.x * s1);
            const float v1 = act_of(g.y * s0, p.act) * (u.y * s1);
            plane_pair(p.out_plane, v0, v1, hi[k], lo[k]);
            if (y && o + 8 * k < s.w.n) y[8 * k] = v0;
            if (y && o + 8 * k + 1 < s.w.n) y[8 * k + 1] = v1;
        }
        if (!p.out || o >= s.w.n) continue;
        const size_t at = bf16_index(p.out_T, true, row, o);
        *(uint2 *)(p.out + at) = make_uint2(hi[0], hi[1]);
        *(uint2 *)(p.out + p.out_plane.at + at) = make_uint2(lo[0], lo[1]);
    }
}

template <class S>
__device__ __forceinline__ void groups_multiply(const ft_product &p, const groups_work &w,
                                                ring_buffer r)
{
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const int threads = groups_threads(w);
    float *out = (float *)(r.at + S::OUT);
    groups_item it;
    for (int i = blockIdx.x; groups_at<S>(p, w, i, it); i += gridDim.x) {
        const int per = part_units(it.b.s->w.units);
        float c[S::SUMS];
        for (int from = it.from; from < it.to; from += per) {
            groups_part<S>(c, r, min(it.to, from + per) - from);
            if (!S::split) groups_add<S>(c, (float4 *)out, from == 0, from + per >= it.to);
        }
        if (S::split) {
            float4 *to = w.slot + (size_t)it.slot * (S::R / 8 * S::MULTIPLY) + threadIdx.x;
#pragma unroll
            for (int k = 0; k < S::SUMS; k += 4)
                if (2 * k < it.b.n)
                    to[k / 4 * S::MULTIPLY] = make_float4(c[k], c[k + 1], c[k + 2], c[k + 3]);
            continue;
        }
        float *mine = out + 2 * (lane & 3) * S::PITCH + warp * TILE_N + lane / 4;
        groups_meet(threads); /* all sums are in registers */
#pragma unroll
        for (int k = 0; k < S::SUMS; k++)
            mine[(8 * (k / 4) + k % 2) * S::PITCH + 8 * (k / 2 % 2)] = c[k];
        groups_meet(threads);
        if (p.glu)
            groups_put_pair<S>(p, it.b, out, w.tiles, threads);
        else
            groups_put<S>(p, it.b, out, w.tiles, threads);
        groups_meet(threads); /* the results have been read */
    }
}
#endif

/* With five groups a thread has 72 registers at first; those that copy give some of them up. */
template <class S>
__global__ void __launch_bounds__(S::THREADS, 1)
    product_groups(const __grid_constant__ ft_product p, const groups_work w)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
    extern __shared__ unsigned char smem[];
    __shared__ uint64_t bars[2 * S::PLACES];
    ring_buffer r = {smem + (-(uintptr_t)smem & 1023), shared_at(bars), shared_at(bars + S::PLACES),
                     0, 0};
    const int group = __shfl_sync(~0u, threadIdx.x >> 7, 0);
    if (threadIdx.x == 0) ring_init<S>(r, 128 + 1, groups_threads(w));
    __syncthreads();
    if (group == S::G + 1) {
        if (S::G == 5) registers_less<24>();
        if (threadIdx.x == S::MULTIPLY + 128) groups_copy_rows<S>(p, w, r);
    } else if (group == S::G) {
        if (S::G == 5) registers_less<40>();
        groups_copy_weights<S>(p, w, r);
    } else {
        if (S::G == 5) registers_more<88>();
        if (4 * group >= w.tiles) return;
        wait_for_previous_kernel();
        groups_multiply<S>(p, w, r);
    }
#endif
}

/* Adds the parts of split tiles and stores the results. A block has 64 outputs of a tile, and eight
 * rows. */
template <class W, int R, int G>
__global__ void __launch_bounds__(128)
    product_add(const __grid_constant__ ft_product p, const groups_work w)
{
    const int tile = blockIdx.x / G, group = blockIdx.x % G;
    const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    const float4 *at = w.slot + ((size_t)tile * w.parts * (R / 8) + blockIdx.y) * G * 128 +
                       group * 128 + threadIdx.x;
    block_of b;
    find_block(p, R, tile / w.down, tile % w.down, b);
    wait_for_previous_kernel();
    const int row = b.first + blockIdx.y * 8 + 2 * t, end = b.first + b.n;
    if (blockIdx.y * 8 >= b.n || group * 4 + (int)threadIdx.x / 32 >= w.tiles) return;
    const int in = group * 4 + threadIdx.x / 32, o = (b.at * w.tiles + in) * TILE_N + g;
    float4 v[PARTS];
    float *y[4], old[4] = {};
#pragma unroll
    for (int q = 0; q < PARTS; q++)
        if (q < w.parts) v[q] = at[(size_t)q * (R / 8) * G * 128];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const bool some = row + i % 2 < end && o + i / 2 * 8 < b.s->w.n;
        y[i] = some ? b.s->y + (size_t)(row + i % 2) * b.s->rs + o + i / 2 * 8 : NULL;
        if (p.acc && some) old[i] = *y[i];
    }
#pragma unroll
    for (int q = 1; q < PARTS; q++)
        if (q < w.parts)
            v[0] = make_float4(v[0].x + v[q].x, v[0].y + v[q].y, v[0].z + v[q].z, v[0].w + v[q].w);
    const float scale = scale_of<W>(*b.s, 0), sum[4] = {v[0].x, v[0].y, v[0].z, v[0].w};
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (y[i]) *y[i] = p.acc ? old[i] + sum[i] * scale : sum[i] * scale;
}

/* ---- launch ---- */

/* Tiles of 16 outputs of a block: of half to all that fit, those with which the block that computes
 * most takes least time. A tile of a block also costs a constant, like two tiles of 16 outputs. */
template <class S> static int groups_tiles(const ft_cuda *c, ft_product *p, int parts)
{
    const int step = p->glu ? 2 : 1;
    int best = S::TILES;
    unsigned least = ~0u;
    for (int tiles = S::TILES; tiles >= S::TILES / 2; tiles -= step) {
        const dim3 grid = product_grid(p, tiles, S::R, 0);
        const unsigned items = grid.x * grid.y * (S::split ? (unsigned)parts : 1);
        const unsigned time = (items + c->sms - 1) / c->sms * (unsigned)(tiles + 2);
        if (time >= least) continue;
        least = time;
        best = tiles;
    }
    return best;
}

template <class S> static void groups_launch(ft_cuda *c, ft_product *p)
{
    static uint64_t wide;
    typedef typename S::weights W;
    const int units = p->seg[0].w.units, per = (units + PARTS - 1) / PARTS;
    groups_work w = {};
    w.parts = (units + per - 1) / per;
    w.tiles = groups_tiles<S>(c, p, w.parts);
    const dim3 grid = product_grid(p, w.tiles, S::R, 0);
    w.across = (int)grid.x;
    w.down = (int)grid.y;
    const unsigned tiles = grid.x * grid.y, items = tiles * (S::split ? (unsigned)w.parts : 1);
    if (S::split) {
        w.slot = (float4 *)ft_cuda_scratch(c, FT_SCRATCH_PARTS,
                                           (size_t)items * S::R * 16 * S::TILES * sizeof(float));
        if (!w.slot) return;
    }
    if (p->glu) p->n_seg = 1;
    if (ft_cuda_first_use(c, &wide)) ft_cuda_shared(c, (const void *)product_groups<S>, S::BYTES);
    FT_LAUNCH_NEXT(c, product_groups<S>, FT_MIN(items, (unsigned)c->sms), S::THREADS, S::BYTES, *p,
                   w);
    if constexpr (S::split)
        FT_LAUNCH_NEXT(c, (product_add<W, S::R, S::G>),
                       dim3(tiles * S::G, ft_blocks((size_t)FT_MIN(p->T, (int)S::R), 8)), 128, 0,
                       *p, w);
}

/* Numbers of outputs of all matrices: up to SPLIT_OUTPUTS there are too few tiles for all
 * multiprocessors, up to FEW_OUTPUTS too few of five groups. */
enum { SPLIT_OUTPUTS = 8192, FEW_OUTPUTS = 40000 };

template <class W, int R> static void groups_choose(ft_cuda *c, ft_product *p, int outputs)
{
    if (p->glu || outputs >= FEW_OUTPUTS)
        groups_launch<groups_shape<W, R, 5, false>>(c, p);
    else if (outputs <= SPLIT_OUTPUTS)
        groups_launch<groups_shape<W, R, 5, true>>(c, p);
    else if constexpr (R <= ROWS_FEW)
        groups_launch<groups_shape<W, R, 2, false>>(c, p);
}

/* Launches the kernel for so many rows, if it applies. More than ROWS_ONCE rows are two tiles. With
 * more than ROWS_FEW, other products with many outputs are left to product_rows_wgmma. */
template <class W> static bool groups_rows(ft_cuda *c, ft_product *p)
{
    enum { ROWS_ONCE = 80 };
    int outputs = 0;
    if (c->cc != 90 || p->item || !p->wide || p->T > 2 * ROWS_FEW) return false;
    for (int i = 0; i < p->n_seg; i++) outputs += p->seg[i].w.n;
    if (p->T > ROWS_FEW && !p->glu && outputs > SPLIT_OUTPUTS) return false;
    const int rows = p->T > ROWS_ONCE ? (p->T + 1) / 2 : p->T;
    if (rows <= 16)
        groups_choose<W, 16>(c, p, outputs);
    else if (rows <= 24)
        groups_choose<W, 24>(c, p, outputs);
    else if (rows <= 32)
        groups_choose<W, 32>(c, p, outputs);
    else if (rows <= 40)
        groups_choose<W, 40>(c, p, outputs);
    else if (rows <= 48)
        groups_choose<W, 48>(c, p, outputs);
    else if (rows <= 64)
        groups_choose<W, 64>(c, p, outputs);
    else
        groups_choose<W, ROWS_ONCE>(c, p, outputs);
    return true;
}

#endif
