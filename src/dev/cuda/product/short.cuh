/* dev/cuda/product/short.cuh - products of few rows and few columns: the down projections of
 * experts. A part has at most one unit, so it is not worth distributing parts over warps: a warp
 * has a whole tile, computes its parts and adds them in order. No warp waits for another, and eight
 * tiles share the start-up cost of a block. The sums are those of product_split; product.cuh
 * includes this file after it.
 *
 * On an H200, 16 rows of 8 experts each of 256 (about 100 of them and the shared one: 66 MB of 2048
 * x 512 Q4_K): 27 us, 2.5 TB/s, 53 % of a plain read; product_split took 41. Every block waits for
 * its tiles once, and no loads are in flight while it multiplies. */
#ifndef FT_DEV_CUDA_PRODUCT_SHORT_CUH
#define FT_DEV_CUDA_PRODUCT_SHORT_CUH

enum { SHORT_WARPS = 8 };

/* Shared memory of a block. */
constexpr int short_bytes(int unit)
{
    return SHORT_WARPS * PARTS * unit;
}

/* Types for which several blocks fit on a multiprocessor. */
constexpr bool short_type(int unit)
{
    return unit <= 1100;
}

/* Stores the results of a tile. */
template <class W, int NT>
__device__ __forceinline__ void put_tile(const ft_product &p, const block_of &b,
                                         const float (&sum)[NT][4], int tile)
{
    const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    const float scale = scale_of<W>(p.seg[0], b.expert);
#pragma unroll
    for (int i = 0; i < NT; i++)
#pragma unroll
        for (int q = 0; q < 4; q++) {
            const int tok = 8 * i + 2 * t + (q & 1), o = 16 * tile + g + 8 * (q >> 1);
            if (tok < b.n) put_result(p, p.seg[0], row_y(p, b, tok), o, sum[i][q] * scale);
        }
}

template <class W, int NT>
__global__ void __launch_bounds__(32 * SHORT_WARPS, NT == 1 ? 4 : 2)
    product_short(const __grid_constant__ ft_product p)
{
    extern __shared__ __align__(16) unsigned char smem[];
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    const bool is_shared = (int)blockIdx.y < p.shared_blocks;
    unsigned char *const here = smem + warp * PARTS * W::BYTES;
    block_of b;
    if (!p.item_old && !is_shared)
        wait_then_start_next(); /* the items were computed by the previous kernel */
    if (!find_block(p, 8 * NT, blockIdx.x, blockIdx.y, b)) return;
    const ft_seg &s = p.seg[0];
    const int units = s.w.units, tile = b.at * SHORT_WARPS + warp, half = (units + 1) / 2;
    if (tile < (s.w.n + TILE_N - 1) / TILE_N) {
        const uint8_t *from = unit_at(view_of(s, b.expert), tile, 0, W::BYTES);
        const uint32_t to = shared_at(here);
        for (int i = 16 * lane; i < half * W::BYTES; i += 512) copy_16(to + i, from + i);
        copy_commit();
        for (int i = half * W::BYTES + 16 * lane; i < units * W::BYTES; i += 512)
            copy_16(to + i, from + i);
        copy_commit();
    }
    fill_table<W>(s.w);
    if (p.item_old)
        wait_for_previous_kernel();
    else if (is_shared)
        wait_then_start_next();
    if (W::TABLE) __syncthreads();
    if (tile >= (s.w.n + TILE_N - 1) / TILE_N) return;

    const uint32_t step = (uint32_t)p.x_T * 128;
    const char *x[NT]; /* rows beyond the last one repeat it: their columns of c are discarded */
#pragma unroll
    for (int i = 0; i < NT; i++)
        x[i] = (const char *)p.x + (128 * row_x(p, b, min(8 * i + g, b.n - 1)) + 16 * t);
    float sum[NT][4];
    uint4 v[2][2][NT][W::XP];
    get_rows<W, NT, NT>(v[0], x, 0, 2 * p.x_plane);
#pragma unroll
    for (int u = 0; u < PARTS; u++) {
        if (u >= units) continue;
        if (u + 1 < units) get_rows<W, NT, NT>(v[(u + 1) & 1], x, step, 2 * p.x_plane);
        if (u == 0)
            copy_wait<1>();
        else if (u == half)
            copy_wait<0>();
        if (u == 0 || u == half) __syncwarp();
        float c[1][NT][4] = {};
        typename W::regs r[1];
        W::load(r[0], here + u * W::BYTES, lane);
        unit_product<W, 1, NT, NT>(c, r, v[u & 1], x, 2 * p.x_plane, lane);
#pragma unroll
        for (int i = 0; i < NT; i++) {
#pragma unroll
            for (int q = 0; q < 4; q++) sum[i][q] = u ? sum[i][q] + c[0][i][q] : c[0][i][q];
            x[i] += step;
        }
    }

    put_tile<W, NT>(p, b, sum, tile);
}

/* Whether this kernel applies, and there is enough work for one warp per tile. */
static inline bool is_short(const ft_cuda *c, const ft_product *p, int unit, int tokens, int items)
{
    const size_t tiles = ft_blocks((size_t)p->seg[0].w.n, TILE_N);
    return p->item && (size_t)short_bytes(unit) <= c->smem && !p->glu &&
           p->seg[0].w.units <= PARTS && tokens <= 16 &&
           tiles * (size_t)items >= SHORT_WARPS * (size_t)c->sms;
}

template <class W> static void short_launch(ft_cuda *c, ft_product *p, int tokens, int items)
{
    static uint64_t wide;
    const int bytes = short_bytes(W::BYTES);
    if (ft_cuda_first_use(c, &wide)) {
        ft_cuda_shared(c, (const void *)product_short<W, 1>, bytes);
        ft_cuda_shared(c, (const void *)product_short<W, 2>, bytes);
    }
    const dim3 grid(ft_blocks((size_t)p->seg[0].w.n, TILE_N * SHORT_WARPS),
                    (unsigned)(items + p->shared_blocks));
    if (tokens == 16)
        FT_LAUNCH_NEXT(c, (product_short<W, 2>), grid, 32 * SHORT_WARPS, bytes, *p);
    else
        FT_LAUNCH_NEXT(c, (product_short<W, 1>), grid, 32 * SHORT_WARPS, bytes, *p);
}

#endif
