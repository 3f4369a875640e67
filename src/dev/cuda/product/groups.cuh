/* dev/cuda/product/groups.cuh - products of 17 to 128 rows with warpgroup instructions (compute
 * capability 9.0). A block computes G x 64 outputs of up to R rows: each of its warpgroups has 64
 * outputs, all of them read the same rows in shared memory. One more warpgroup copies units of rows
 * and of weights to a ring buffer.
 *
 * Products with few outputs and long rows do not have enough tiles for all multiprocessors. There
 * (SPLIT) the parts of a sum are computed by different blocks, which store them, and another kernel
 * adds them in order. Else a block computes all parts of a tile, and keeps their sum in shared
 * memory. In both cases the sums are those of product_split.
 *
 * On an H200 a step of 32 sequences of the 27b (Q4_K) takes 11.2 ms, with product_stream 14.4; of
 * 64 15.9, with product_rows_wgmma 21.5. By these times a block of five groups takes 0.6 to 0.8 us
 * for a unit, of which tensor cores would need 0.2 to 0.35. docs/why/0037 lists what else was
 * tried.
 *
 * Included by product.cuh after rows_wgmma.cuh. */
#ifndef FT_DEV_CUDA_PRODUCT_GROUPS_CUH
#define FT_DEV_CUDA_PRODUCT_GROUPS_CUH

/* Weights of type W, ROWS rows and GROUPS x 64 outputs per tile. */
template <class W, int ROWS, int GROUPS, bool SPLIT> struct groups_shape {
    typedef W weights;
    enum {
        R = ROWS,
        G = GROUPS,
        split = SPLIT,
        TILES = 4 * G,
        MULTIPLY = 128 * G,            /* threads that multiply */
        THREADS = MULTIPLY + 128,      /* and those that copy */
        REGISTERS = G == 5 ? 88 : 208, /* of a thread that multiplies */
        SUMS = R / 2,
        PLANE = R * 128,                 /* bytes of a unit of rows */
        CHUNK = W::BYTES <= 768 ? 2 : 1, /* units of an entry */
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
    float4 *slot;
} groups_work;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900

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

/* ---- the warp that copies ---- */

/* What is copied next: from unit u of a part on, which ends at `end`. A warp copies G of the tiles
 * of weights, one thread the rows. */
template <class S> struct groups_feed {
    uint32_t tile[S::G]; /* offsets of the tiles, in 16 bytes */
    int seg, row, rows;
    int item, u, end, to, per;
};

template <class S>
__device__ __forceinline__ bool feed_item(groups_feed<S> &f, const ft_product &p,
                                          const groups_work &w)
{
    typedef typename S::weights W;
    groups_item it;
    if (!groups_at<S>(p, w, f.item, it)) return false;
    const ft_wview &v = it.b.s->w;
#pragma unroll
    for (int j = 0; j < S::G; j++) {
        const int i = (threadIdx.x >> 5 & 3) * S::G + j;
        const int tile = p.glu ? it.b.at * (S::TILES / 2) + i / 2 : it.b.at * S::TILES + i;
        f.tile[j] = (uint32_t)min(tile, (v.n + TILE_N - 1) / TILE_N - 1) *
                    (uint32_t)(v.units * (W::BYTES / 16));
    }
    f.seg = (int)(it.b.s - p.seg);
    f.row = it.b.first;
    f.rows = it.b.n;
    f.u = it.from;
    f.to = it.to;
    f.per = part_units(v.units);
    f.end = min(f.to, f.u + f.per);
    return true;
}

/* Copies the weights and the rows of the next entry, or one of them; false: that was the last. */
template <class S>
__device__ __forceinline__ bool feed_entry(groups_feed<S> &f, const ft_product &p,
                                           const groups_work &w, const ring_buffer &r, bool weights,
                                           bool rows)
{
    typedef typename S::weights W;
    const int lane = threadIdx.x & 31, first = (threadIdx.x >> 5 & 3) * S::G;
    const int n = min((int)S::CHUNK, f.end - f.u);
    const uint32_t to = shared_at(r.at) + r.place * S::PLACE, bar = r.full + 8 * r.place;
    if (rows && threadIdx.x == S::MULTIPLY) {
        const char *x = (const char *)p.x + ((size_t)f.u * p.x_T + f.row) * 128;
        barrier_expect(bar, n * f.rows * 128);
        for (int i = 0; i < n; i++)
            copy_run(to + i * S::PLANE, x + (size_t)i * p.x_T * 128, f.rows * 128, bar);
    }
    if (weights) {
#pragma unroll
        for (int j = 0; j < S::G; j++) {
            const uint8_t *base = p.seg[p.glu ? (first + j) % 2 : f.seg].w.p + 16 * lane;
            const uint8_t *from = base + 16 * (size_t)(f.tile[j] + f.u * (W::BYTES / 16));
            const uint32_t at = to + S::X + (first + j) * S::RUN + 16 * lane;
            if (n == S::CHUNK)
                fetch_run<S::RUN>(at, from, lane);
            else
                fetch_run<W::BYTES>(at, from, lane);
        }
        barrier_arrive_copied(bar);
    }
    f.u += n;
    if (f.u < f.end) return true;
    f.end = min(f.to, f.u + f.per);
    if (f.u < f.to) return true;
    f.item += gridDim.x;
    return feed_item<S>(f, p, w);
}

/* The first weights are copied before the previous kernel has finished. */
template <class S>
__device__ __forceinline__ void groups_copy(const ft_product &p, const groups_work &w,
                                            ring_buffer r)
{
    groups_feed<S> f = {}, early;
    f.item = blockIdx.x;
    bool more = feed_item<S>(f, p, w);
    early = f;
    for (bool some = more; some && r.place < S::PLACES; r.place++)
        some = feed_entry<S>(early, p, w, r, true, false);
    const int n = r.place;
    wait_for_previous_kernel();
    for (r.place = 0; r.place < n; r.place++) more = feed_entry<S>(f, p, w, r, false, true);
    r.place = 0;
    r.parity = 1;
    while (more) {
        barrier_wait(r.empty + 8 * r.place, r.parity ^ 1);
        more = feed_entry<S>(f, p, w, r, true, true);
        next_place<S>(r);
    }
    copy_commit();
    copy_wait<0>();
}

/* ---- the warpgroups that multiply ---- */

/* Issues the products of half a unit, x in shared memory; f must not change until they are
 * complete. */
template <class S>
__device__ __forceinline__ void groups_half(float (&c)[S::SUMS], ft_frag &f,
                                            const typename S::weights::regs &v, int h, uint64_t x)
{
    typedef typename S::weights W;
    W::frag(&f, v, h, threadIdx.x & 31);
#pragma unroll
    for (int k = 0; k < 8; k++) /* all of it is in registers before the first product */
        asm volatile("" : "+r"(f.a[k / 4][k % 4])::"memory");
    group_begin();
#pragma unroll
    for (int k = 0; k < 2; k++) /* in the order of half_unit */
        group_product_of<W>(c, f.a[k], x + 4 * h + 2 * k);
    group_commit();
}

/* One part of n units: while one half of a unit is multiplied, the other one is decoded. */
template <class S>
__device__ __forceinline__ void groups_part(float (&c)[S::SUMS], ring_buffer &r, int n)
{
    typedef typename S::weights W;
    const int warp = threadIdx.x >> 5;
    ft_frag f[2];
    int before = 0;
    clear(c);
    for (int u = 0; u < n; u++) {
        const int i = u % S::CHUNK;
        const unsigned char *at = r.at + r.place * S::PLACE;
        const uint64_t x = group_operand(shared_at(at) + i * S::PLANE);
        typename W::regs v;
        if (i == 0) barrier_wait(r.full + 8 * r.place, r.parity);
        W::load(v, at + S::X + warp * S::RUN + i * W::BYTES, threadIdx.x & 31);
        groups_half<S>(c, f[0], v, 0, x);
        group_wait<1>();
        if (i == 0 && u) barrier_arrive(r.empty + 8 * before);
        groups_half<S>(c, f[1], v, 1, x);
        group_wait<1>();
        before = r.place;
        if (i + 1 == S::CHUNK || u + 1 == n) next_place<S>(r);
    }
    group_wait<0>();
    barrier_arrive(r.empty + 8 * before);
}

/* A barrier of the threads that multiply. */
template <class S> __device__ __forceinline__ void groups_meet(void)
{
    asm volatile("bar.sync 1, %0;" ::"n"((int)S::MULTIPLY) : "memory");
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
__device__ __forceinline__ void groups_put(const ft_product &p, const block_of &b, const float *out)
{
    typedef typename S::weights W;
    enum { FOURS = 4 * S::TILES, AHEAD = 4 };
    const float scale = scale_of<W>(*b.s, 0);
    const int o = b.at * TILE_N * S::TILES, all = b.n * FOURS;
    float *y = b.s->y + (size_t)b.first * b.s->rs + o;
    if (o + TILE_N * S::TILES > b.s->w.n || b.s->rs % 4 || (uintptr_t)y % 16) {
        for (int e = threadIdx.x; e < 4 * all; e += S::MULTIPLY) {
            const int row = e / (4 * FOURS), k = e % (4 * FOURS);
            put_result(p, *b.s, b.first + row, o + k, out[row * S::PITCH + k] * scale);
        }
        return;
    }
    for (int from = threadIdx.x; from < all; from += AHEAD * S::MULTIPLY) {
        float4 *at[AHEAD], old[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) { /* all loads are issued before the first value is used */
            const int e = min(from + i * S::MULTIPLY, all - 1);
            at[i] = (float4 *)(y + (size_t)(e / FOURS) * b.s->rs) + e % FOURS;
            if (p.acc) old[i] = *at[i];
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const int e = from + i * S::MULTIPLY;
            if (e >= all) break;
            float4 v = *(const float4 *)(out + e / FOURS * S::PITCH + e % FOURS * 4);
            v = make_float4(v.x * scale, v.y * scale, v.z * scale, v.w * scale);
            *at[i] = p.acc ? sum_of(old[i], v) : v;
        }
    }
}

/* Tiles of gates and ups alternate. A thread makes 16 bytes of a row's copy: the pairs of outputs
 * that are adjacent there. */
template <class S>
__device__ __forceinline__ void groups_put_pair(const ft_product &p, const block_of &b,
                                                const float *out)
{
    typedef typename S::weights W;
    enum { PIECES = S::TILES }; /* of a row: four of 32 outputs */
    const ft_seg &s = p.seg[0];
    const float s0 = scale_of<W>(s, 0), s1 = scale_of<W>(p.seg[1], 0);
    for (int e = threadIdx.x; e < b.n * PIECES; e += S::MULTIPLY) {
        const int i = e / PIECES, piece = e % PIECES, row = b.first + i;
        const int o = b.at * (S::TILES / 2 * TILE_N) + piece / 4 * 32 + piece % 4 * 2;
        const float *gate = out + i * S::PITCH + piece / 4 * 64 + piece % 4 * 2;
        float *y = s.y ? s.y + (size_t)row * s.rs + o : NULL;
        uint32_t hi[4], lo[4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const float *at = gate + k / 2 * 32 + k % 2 * 8;
            const float2 g = *(const float2 *)at, u = *(const float2 *)(at + TILE_N);
            const float v0 = act_of(g.x * s0, p.act) * (u.x * s1);
            const float v1 = act_of(g.y * s0, p.act) * (u.y * s1);
            plane_pair(p.out_plane, v0, v1, hi[k], lo[k]);
            if (y && o + 8 * k < s.w.n) y[8 * k] = v0;
            if (y && o + 8 * k + 1 < s.w.n) y[8 * k + 1] = v1;
        }
        if (!p.out || o >= s.w.n) continue;
        const size_t at = bf16_index(p.out_T, true, row, o);
        *(uint4 *)(p.out + at) = make_uint4(hi[0], hi[1], hi[2], hi[3]);
        *(uint4 *)(p.out + p.out_plane.at + at) = make_uint4(lo[0], lo[1], lo[2], lo[3]);
    }
}

template <class S>
__device__ __forceinline__ void groups_multiply(const ft_product &p, const groups_work &w,
                                                ring_buffer r)
{
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
        const int lane = threadIdx.x & 31;
        float *mine = out + 2 * (lane & 3) * S::PITCH + threadIdx.x / 32 * TILE_N + lane / 4;
        groups_meet<S>(); /* all sums are in registers */
#pragma unroll
        for (int k = 0; k < S::SUMS; k++)
            mine[(8 * (k / 4) + k % 2) * S::PITCH + 8 * (k / 2 % 2)] = c[k];
        groups_meet<S>();
        if (p.glu)
            groups_put_pair<S>(p, it.b, out);
        else
            groups_put<S>(p, it.b, out);
        groups_meet<S>(); /* the results have been read */
    }
}
#endif

template <class S>
__global__ void __launch_bounds__(S::THREADS, 1)
    product_groups(const __grid_constant__ ft_product p, const groups_work w)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
    extern __shared__ unsigned char smem[];
    __shared__ uint64_t bars[2 * S::PLACES];
    ring_buffer r = {smem + (-(uintptr_t)smem & 1023), shared_at(bars), shared_at(bars + S::PLACES),
                     0, 0};
    if (threadIdx.x == 0) ring_init<S>(r, 128 + 1, S::MULTIPLY);
    __syncthreads();
    if (threadIdx.x >= S::MULTIPLY) {
        registers_less<40>();
        groups_copy<S>(p, w, r);
    } else {
        registers_more<S::REGISTERS>();
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
    if (blockIdx.y * 8 >= b.n) return;
    const int o = ((b.at * G + group) * 4 + threadIdx.x / 32) * TILE_N + g;
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

template <class S> static void groups_launch(ft_cuda *c, ft_product *p)
{
    static uint64_t wide;
    typedef typename S::weights W;
    const dim3 grid = product_grid(p, S::TILES, S::R, 0);
    const int units = p->seg[0].w.units, per = (units + PARTS - 1) / PARTS;
    groups_work w = {};
    w.across = (int)grid.x;
    w.down = (int)grid.y;
    w.parts = (units + per - 1) / per;
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
    if (!p->glu && outputs <= SPLIT_OUTPUTS)
        groups_launch<groups_shape<W, R, 5, true>>(c, p);
    else if (!p->glu && outputs < FEW_OUTPUTS)
        groups_launch<groups_shape<W, R, 2, false>>(c, p);
    else
        groups_launch<groups_shape<W, R, 5, false>>(c, p);
}

/* Launches the kernel for so many rows, if it applies. With more than ROWS_FEW rows, whole tiles
 * are left to product_rows_wgmma, which reads weights once for 128 of them. */
template <class W> static bool groups_rows(ft_cuda *c, ft_product *p)
{
    int outputs = 0;
    if (c->cc != 90 || p->item || !p->wide || p->T > 2 * ROWS_FEW) return false;
    for (int i = 0; i < p->n_seg; i++) outputs += p->seg[i].w.n;
    if (p->T > ROWS_FEW && (p->glu || outputs > SPLIT_OUTPUTS)) return false;
    if (p->T <= 24)
        groups_choose<W, 24>(c, p, outputs);
    else if (p->T <= 32)
        groups_choose<W, 32>(c, p, outputs);
    else if (p->T <= 40)
        groups_choose<W, 40>(c, p, outputs);
    else if (p->T <= 48)
        groups_choose<W, 48>(c, p, outputs);
    else
        groups_choose<W, 64>(c, p, outputs);
    return true;
}

#endif
