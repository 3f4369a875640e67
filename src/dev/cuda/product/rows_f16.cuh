/* dev/cuda/product/rows_f16.cuh - products of many rows with F16 and BF16 weights (compute
 * capability 9.0). A block computes tiles of 64 G outputs by 128 rows, one after the other: G
 * warpgroups multiply, 64 outputs each, with both operands in shared memory. Another warpgroup
 * copies to a ring buffer: an entry has a unit (64 columns) of the rows and of the 4 G tiles of
 * weights, and each of these is a bulk copy of one thread. A packed unit (Half) is the image of
 * shared memory that the instruction reads, and four of them are an operand of 64 outputs. The
 * products and their order are those of product_rows_wgmma, which loads weights into registers
 * first: the sums are bit-identical.
 *
 * On an H200, 2048 rows, us of product_rows_wgmma, of this kernel with G = 2 and with G = 3 (two
 * runs where they differ; 18 November 2026):
 *
 *   24576 x 4096             730, 853   661, 765   679, 666
 *   the same, gate and up    865, 904   801, 873   729, 716
 *   12352 x 4096             418        370, 385   338
 *   4096 x 12288             362, 380   319, 335   365, 361
 *   4096 x 4096              143, 137   132, 125   131
 *
 * The larger tile reads 17 % less from the L2 cache, but its tiles may divide worse among the
 * multiprocessors: f16_rows chooses. docs/why/0018 lists what else was tried.
 *
 * Included by product.cuh after rows_wgmma.cuh. */
#ifndef FT_DEV_CUDA_PRODUCT_ROWS_F16_CUH
#define FT_DEV_CUDA_PRODUCT_ROWS_F16_CUH

enum {
    F16_SHARED = 227 * 1024 - 1024 - 256, /* less the alignment and the barriers */
    F16_STAGE = 16                        /* rows of results that are stored together */
};

/* Weights of type W, GROUPS warpgroups that multiply. */
template <class W, int GROUPS> struct f16_shape {
    typedef W weights;
    enum {
        listed = 0,
        R = ROWS_MANY,
        G = GROUPS,
        TILES = 4 * G,
        MULTIPLY = 128 * G,       /* threads that multiply */
        THREADS = MULTIPLY + 128, /* and those that copy */
        SUMS = R / 2,
        X = R * 128, /* bytes of a unit of rows */
        PLACE = X + TILES * W::BYTES,
        BUFFER = F16_STAGE * ROWS_PITCH, /* floats; each warpgroup has two of these */
        RESULTS = G * 2 * 4 * BUFFER,
        PLACES = (F16_SHARED - RESULTS) / PLACE,
        OUT = PLACES * PLACE,
        BYTES = OUT + RESULTS + 1024,
        AHEAD = G == 3 ? 2 : 4, /* stages whose old values are loaded together, if it adds */
        /* registers of a thread: at launch, of those that multiply, and of the others */
        LAUNCH = 65536 / THREADS / 8 * 8,
        MORE = G == 3 ? 160 : 224,
        LESS = LAUNCH * (G + 1) - MORE * G
    };
    static_assert(LESS >= 24 && LESS % 8 == 0, "registers of the threads that copy");
    static_assert(R / F16_STAGE % (2 * AHEAD) == 0, "two buffers alternate");
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900

/* ---- the producer warpgroup ---- */

/* Unit 0 of tile j of a block. Of a pair, gates and ups alternate. */
template <class S>
__device__ __forceinline__ const uint8_t *f16_tile(const ft_product &p, const block_of &b, int j)
{
    const ft_wview &w = p.glu ? p.seg[j % 2].w : b.s->w;
    const int tile = p.glu ? b.at * (S::TILES / 2) + j / 2 : b.at * S::TILES + j;
    return unit_at(w, min(tile, (w.n + TILE_N - 1) / TILE_N - 1), 0, S::weights::BYTES);
}

/* This thread copies tile j of the weights; j = TILES: the rows. */
template <class S>
__device__ __forceinline__ void f16_copy(const ft_product &p, ring_buffer r, int j)
{
    typedef typename S::weights W;
    const bool rows = j == S::TILES;
    const uint32_t to = shared_at(r.at) + (rows ? 0 : S::X + j * W::BYTES);
    const uint32_t step = rows ? p.x_T * 128 : (int)W::BYTES;
    block_of b;
    for (int i = blockIdx.x; tile_at<S>(p, i, b); i += gridDim.x) {
        const int units = b.s->w.units, bytes = rows ? b.n * 128 : (int)W::BYTES;
        const uint8_t *from =
            rows ? (const uint8_t *)p.x + (size_t)b.first * 128 : f16_tile<S>(p, b, j);
        for (int u = 0; u < units; u++) {
            const uint32_t bar = r.full + 8 * r.place;
            barrier_wait(r.empty + 8 * r.place, r.parity ^ 1);
            barrier_expect(bar, bytes);
            copy_run(to + r.place * S::PLACE, from, bytes, bar);
            from += step;
            next_place<S>(r);
        }
    }
}

/* Warps 0 to 2 copy weights, warp 3 the rows. */
template <class S>
__device__ __forceinline__ void f16_feed(const ft_product &p, const ring_buffer &r)
{
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3;
    if (warp == 3) {
        if (lane == 0) f16_copy<S>(p, r, S::TILES);
    } else if (warp + 3 * lane < S::TILES) {
        f16_copy<S>(p, r, warp + 3 * lane);
    }
}

/* ---- the warpgroups that multiply ---- */

/* Prefetches the results that this tile is added to. */
template <class S>
__device__ __forceinline__ void f16_expect(const ft_product &p, const block_of &b)
{
    const int i = threadIdx.x & 127, o = (b.at * S::G + (threadIdx.x >> 7)) * 64;
    if (p.acc && i < b.n)
        prefetch_l2(b.s->y + (size_t)(b.first + i) * b.s->rs + o, 4 * min(64, b.s->w.n - o), 0, 1);
}

/* Issues the products of a unit. ADD: c +=, else c =. */
template <class S, bool ADD>
__device__ __forceinline__ void f16_unit(float (&c)[S::SUMS], const ring_buffer &r)
{
    const uint32_t at = shared_at(r.at) + r.place * S::PLACE;
    const int group = __shfl_sync(~0u, threadIdx.x >> 7, 0); /* the same in a warp */
    const uint64_t x = group_operand(at);
    const uint64_t w = group_operand(at + S::X + group * (4 * S::weights::BYTES));
    barrier_wait(r.full + 8 * r.place, r.parity);
    group_begin();
    group_product_f16<ADD>(c, w, x);
#pragma unroll
    for (int q = 1; q < 4; q++) group_product_f16<true>(c, w + 2 * q, x + 2 * q);
    group_commit();
}

/* One part of n units: one unit is multiplied while the next is waited for. */
template <class S>
__device__ __forceinline__ void f16_part(float (&c)[S::SUMS], ring_buffer &r, int n)
{
    f16_unit<S, false>(c, r);
    next_place<S>(r);
    for (int u = 1; u < n; u++) {
        f16_unit<S, true>(c, r);
        group_wait<1>();
        free_place<S>(r);
        next_place<S>(r);
    }
    group_wait<0>();
    group_registers(c);
    free_place<S>(r);
}

/* What a thread stores: outputs [o, o + 4), values c... of its warpgroup, of every eighth row from
 * `row` on; `fours`: they are aligned. Of a pair, `up` is the scale of the second matrix. */
struct f16_own {
    int row, c, o;
    bool fours;
    float scale, up;
};

template <class S>
__device__ __forceinline__ f16_own f16_own_of(const ft_product &p, const block_of &b)
{
    typedef typename S::weights W;
    const int me = threadIdx.x & 127;
    f16_own own;
    own.row = me >> 4;
    own.c = 4 * (me & 15);
    own.o = (b.at * S::G + (threadIdx.x >> 7)) * 64 + own.c;
    own.fours = own.o + 4 <= b.s->w.n && b.s->rs % 4 == 0 && (uintptr_t)b.s->y % 16 == 0;
    own.scale = scale_of<W>(*b.s, 0);
    own.up = p.glu ? scale_of<W>(p.seg[1], 0) : 1.0f;
    return own;
}

/* Loads what results are added to: N values of a thread, from row `first` of the tile on. */
template <int N>
__device__ __forceinline__ void f16_old(float4 (&old)[N], const block_of &b, const f16_own &own,
                                        int first)
{
    const float *y = b.s->y + own.o;
#pragma unroll
    for (int i = 0; i < N; i++) {
        const int row = b.first + min(first + own.row + 8 * i, b.n - 1);
        old[i] = *(const float4 *)(y + (size_t)row * b.s->rs);
    }
}

/* Stores a stage of results, from row `first` of the tile on. */
__device__ __forceinline__ void f16_put(const ft_product &p, const block_of &b, const f16_own &own,
                                        const float *out, int first, const float4 *old)
{
    const float scale = own.scale;
#pragma unroll
    for (int i = 0; i < F16_STAGE / 8; i++) {
        const int at = own.row + 8 * i, row = b.first + first + at;
        if (first + at >= b.n) continue;
        float4 v = *(const float4 *)(out + at * ROWS_PITCH + own.c);
        v = make_float4(v.x * scale, v.y * scale, v.z * scale, v.w * scale);
        if (own.fours) {
            *(float4 *)(b.s->y + (size_t)row * b.s->rs + own.o) = p.acc ? sum_of(old[i], v) : v;
            continue;
        }
        put_result(p, *b.s, row, own.o, v.x);
        put_result(p, *b.s, row, own.o + 1, v.y);
        put_result(p, *b.s, row, own.o + 2, v.z);
        put_result(p, *b.s, row, own.o + 3, v.w);
    }
}

/* The same for a pair: a warpgroup has 16 gates, 16 ups, 16 gates and 16 ups. A thread makes eight
 * bytes of a row's copy: the two pairs of outputs that are adjacent there. */
template <class S>
__device__ __forceinline__ void f16_put_pair(const ft_product &p, const block_of &b,
                                             const f16_own &own, const float *out, int first)
{
    static_assert(F16_STAGE == 16, "eight threads per row");
    const int me = threadIdx.x & 127, i = me >> 3, tile = me & 1, c = me & 6;
    const ft_seg &s = p.seg[0];
    const int o = (b.at * S::G + (threadIdx.x >> 7)) * 32 + 16 * tile + c;
    const int row = b.first + first + i;
    const float *gate = out + i * ROWS_PITCH + 32 * tile + c, *up = gate + TILE_N;
    if (first + i >= b.n || o >= s.w.n) return;
    float *y = s.y ? s.y + (size_t)row * s.rs + o : NULL;
    uint32_t hi[2], lo[2];
#pragma unroll
    for (int k = 0; k < 2; k++) {
        const float2 g = *(const float2 *)(gate + 8 * k), u = *(const float2 *)(up + 8 * k);
        const float v0 = act_of(g.x * own.scale, p.act) * (u.x * own.up);
        const float v1 = act_of(g.y * own.scale, p.act) * (u.y * own.up);
        plane_pair(p.out_plane, v0, v1, hi[k], lo[k]);
        if (y && o + 8 * k < s.w.n) y[8 * k] = v0;
        if (y && o + 8 * k + 1 < s.w.n) y[8 * k + 1] = v1;
    }
    if (!p.out) return;
    const size_t at = bf16_index(p.out_T, true, row, o);
    *(uint2 *)(p.out + at) = make_uint2(hi[0], hi[1]);
    *(uint2 *)(p.out + p.out_plane.at + at) = make_uint2(lo[0], lo[1]);
}

/* Stores a warpgroup's results in stages, through two buffers that alternate: with one barrier per
 * stage, a buffer is written again only after all threads have read it. The number of stages is
 * even, so that also holds from one tile to the next. */
template <class S>
__device__ __forceinline__ void f16_results(const ft_product &p, const block_of &b, float *out,
                                            const float (&v)[S::SUMS])
{
    const int lane = threadIdx.x & 31, group = threadIdx.x >> 7;
    const int at = 2 * (lane & 3) * ROWS_PITCH + (threadIdx.x >> 5 & 3) * TILE_N + (lane >> 2);
    const f16_own own = f16_own_of<S>(p, b);
    float4 old[2 * S::AHEAD];
#pragma unroll
    for (int s = 0; s < S::R / F16_STAGE; s++) {
        float *to = out + s % 2 * S::BUFFER;
#pragma unroll
        for (int k = 0; k < F16_STAGE / 2; k++) /* in the order of rows_spread */
            to[at + (8 * (k / 4) + k % 2) * ROWS_PITCH + 8 * (k / 2 % 2)] =
                v[F16_STAGE / 2 * s + k];
        if (s % S::AHEAD == 0 && p.acc && own.fours) f16_old(old, b, own, F16_STAGE * s);
        asm volatile("bar.sync %0, 128;" ::"r"(1 + group) : "memory");
        if (p.glu)
            f16_put_pair<S>(p, b, own, to, F16_STAGE * s);
        else
            f16_put(p, b, own, to, F16_STAGE * s, old + s % S::AHEAD * 2);
    }
}

template <class S> __device__ __forceinline__ void f16_multiply(const ft_product &p, ring_buffer r)
{
    float *out = (float *)(r.at + S::OUT) + (threadIdx.x >> 7) * 2 * S::BUFFER;
    block_of b;
    for (int i = blockIdx.x; tile_at<S>(p, i, b); i += gridDim.x) {
        const int units = b.s->w.units, per = part_units(units);
        float sum[S::SUMS], c[S::SUMS];
        f16_expect<S>(p, b);
        clear(c); /* not for its value: so it needs no registers between tiles */
        for (int from = 0; from < units; from += per) {
            f16_part<S>(c, r, min(units - from, per));
            add_part(sum, c, from);
        }
        f16_results<S>(p, b, out, sum);
    }
}
#endif

template <class S>
__global__ void __launch_bounds__(S::THREADS, 1)
    product_rows_f16(const __grid_constant__ ft_product p)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
    extern __shared__ unsigned char smem[];
    __shared__ uint64_t bars[2 * S::PLACES];
    ring_buffer r = {smem + (-(uintptr_t)smem & 1023), shared_at(bars), shared_at(bars + S::PLACES),
                     0, 0};
    if (threadIdx.x == 0) ring_init<S>(r, S::TILES + 1, S::MULTIPLY);
    wait_then_start_next();
    __syncthreads();
    if (threadIdx.x >= S::MULTIPLY) {
        registers_less<S::LESS>();
        f16_feed<S>(p, r);
    } else {
        registers_more<S::MORE>();
        f16_multiply<S>(p, r);
    }
#endif
}

/* ---- launch ---- */

/* Tiles that the block with most of them computes. */
template <class S> static unsigned f16_rounds(const ft_cuda *c, ft_product *p)
{
    const dim3 grid = product_grid(p, S::TILES, S::R, 0);
    return ft_blocks((size_t)grid.x * grid.y, (size_t)c->sms);
}

template <class S> static void f16_launch(ft_cuda *c, ft_product *p)
{
    static uint64_t wide;
    const dim3 grid = product_grid(p, S::TILES, S::R, 0);
    if (p->glu) p->n_seg = 1;
    if (ft_cuda_first_use(c, &wide)) ft_cuda_shared(c, (const void *)product_rows_f16<S>, S::BYTES);
    const unsigned tiles = grid.x * grid.y; /* one block per multiprocessor */
    FT_LAUNCH_NEXT(c, product_rows_f16<S>, FT_MIN(tiles, (unsigned)c->sms), S::THREADS, S::BYTES,
                   *p);
}

/* Launches it, if it applies. A tile of 192 outputs takes about 1.45 times the time of 128. */
template <class W> static bool f16_rows(ft_cuda *c, ft_product *p, int tokens)
{
    typedef f16_shape<W, 2> two;
    typedef f16_shape<W, 3> three;
    if (!p->wide || p->item || tokens == ROWS_FEW) return false;
    if (p->glu || 145 * f16_rounds<three>(c, p) <= 100 * f16_rounds<two>(c, p))
        f16_launch<three>(c, p);
    else
        f16_launch<two>(c, p);
    return true;
}

#endif
