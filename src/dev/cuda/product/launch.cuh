/* dev/cuda/product/launch.cuh - which kernel computes a product, and its grid. product.cuh includes
 * this file after its kernels. */
#ifndef FT_DEV_CUDA_PRODUCT_LAUNCH_CUH
#define FT_DEV_CUDA_PRODUCT_LAUNCH_CUH

template <class W, int MT, int NT, bool CHOOSES = false>
static void split_launch(ft_cuda *c, const ft_product *p, dim3 grid)
{
    static uint64_t wide;
    const int bytes = has_large_smem(c->cc) ? (int)split_shape<W, MT, true>::BYTES
                                            : (int)split_shape<W, MT, false>::BYTES;
    if (ft_cuda_first_use(c, &wide))
        ft_cuda_shared(c, (const void *)product_split<W, MT, NT, CHOOSES>, bytes);
    FT_LAUNCH_NEXT(c, (product_split<W, MT, NT, CHOOSES>), grid, 32 * SPLIT_WARPS, bytes, *p);
}

/* The number of tiles above which registers or shared memory limit the occupancy. */
constexpr int most_tiles(int bytes)
{
    return bytes < 1024 ? 4 : 2;
}

template <class W, int MT>
static void split_rows(ft_cuda *c, const ft_product *p, dim3 grid, int tokens)
{
    if (tokens == 16)
        split_launch<W, MT, 2>(c, p, grid);
    else
        split_launch<W, MT, 1>(c, p, grid);
}

/* Tiles of weights per block of product_split. Each block has a start-up cost and reads the rows
 * again; but every multiprocessor must have work. */
static inline int split_tile_count(const ft_cuda *c, const ft_product *p, int unit, int tokens,
                                   int items)
{
    const int units = p->seg[0].w.units;
    size_t tiles = 0; /* in total */
    for (int i = 0; i < p->n_seg; i++) tiles += ft_blocks((size_t)p->seg[i].w.n, TILE_N);
    if (p->item) tiles *= (size_t)items;
    const size_t each = tiles / (size_t)c->sms; /* per multiprocessor */
    if (tokens >= 32) return 2;
    if (most_tiles(unit) == 4 &&
        (tokens == 16 ? each >= 16 : (units <= 8 && each >= 4) || (p->item && each >= 24)))
        return 4;
    const bool wide = unit > 2000; /* a block of these has enough work with one tile */
    return p->glu || (tokens == 16 && !wide && each >= 2) || each >= (units <= 32 ? 3u : 6u) ? 2
                                                                                             : 1;
}

/* Whether product_split can choose the experts of one row: gate and up of types with units of so
 * many bytes. */
static inline bool split_chooses(const ft_cuda *c, const ft_product *p, int unit, int tokens,
                                 int items)
{
    return p->glu && p->T == 1 && tokens == 8 && short_type(unit) &&
           split_tile_count(c, p, unit, tokens, items) == 2;
}

template <class S> static void rows_launch(ft_cuda *c, const ft_product *p, dim3 grid)
{
    static uint64_t wide;
    if (ft_cuda_first_use(c, &wide))
        ft_cuda_shared(c, (const void *)product_rows_wgmma<S>, S::BYTES);
    const unsigned tiles = grid.x * grid.y; /* one block per multiprocessor */
    FT_LAUNCH_NEXT(c, product_rows_wgmma<S>, FT_MIN(tiles, (unsigned)c->sms), ROWS_THREADS,
                   S::BYTES, *p);
}

template <class S> static void warps_launch(ft_cuda *c, const ft_product *p, dim3 grid)
{
    static uint64_t wide;
    if (ft_cuda_first_use(c, &wide)) ft_cuda_shared(c, (const void *)product_rows_mma<S>, S::BYTES);
    FT_LAUNCH_NEXT(c, product_rows_mma<S>, grid.x * grid.y, WARPS_THREADS, S::BYTES, *p);
}

/* The grid for blocks of `mt` tiles of weights; also sets the blocks of the segments. */
static dim3 product_grid(ft_product *p, int mt, int tokens, int items)
{
    const int each = p->glu ? mt / 2 : mt; /* tiles of results */
    unsigned blocks = 0;
    for (int i = 0; i < p->n_seg; i++) {
        p->seg[i].blocks = (int)ft_blocks((size_t)(p->seg[i].w.n + TILE_N - 1) / TILE_N, each);
        if (!p->glu || i == 0) blocks += (unsigned)p->seg[i].blocks;
    }
    return dim3(blocks, p->item ? (unsigned)(items + p->shared_blocks)
                                : ft_blocks((size_t)p->T, (size_t)tokens));
}

#include "dev/cuda/product/stream.cuh"

#include "dev/cuda/product/groups.cuh"

#include "dev/cuda/product/down.cuh"

#include "dev/cuda/product/listed.cuh"

#include "dev/cuda/product/few.cuh"

#include "dev/cuda/product/rows_f16.cuh"

/* Many rows without warpgroup instructions, if the tiles fill the GPU; else false. */
template <class W> static bool product_tiled(ft_cuda *c, ft_product *p, int tokens, int items)
{
    typedef warps_shape<W, ROWS_MANY, false> many;
    typedef warps_shape<W, ROWS_FEW, true> listed;
    if (p->wide || tokens != (p->item ? ROWS_FEW : ROWS_MANY)) return false;
    if (!(p->item ? warps_fit<listed>() : warps_fit<many>())) return false;
    const dim3 grid = product_grid(p, ROWS_TILES, tokens, items);
    if (!p->item && 4 * grid.x * grid.y < (unsigned)c->sms) return false;
    if (p->glu) p->n_seg = 1;
    if constexpr (warps_fit<listed>())
        if (p->item) warps_launch<listed>(c, p, grid);
    if constexpr (warps_fit<many>())
        if (!p->item) warps_launch<many>(c, p, grid);
    return true;
}

/* Routers: F32 matrices of few tiles. Every 8, 16 or 32 rows have blocks of their own if the GPU
 * holds all of them. 257 x 2048 with 64 rows: 9.5 us on an H200, on warpgroups 32 (three blocks).
 */
template <class W> static bool router_rows(ft_cuda *c, ft_product *p)
{
    if (p->item || p->glu) return false;
    for (int tokens = 8; tokens <= 32; tokens *= 2) {
        const dim3 grid = product_grid(p, tokens == 32 ? 2 : 1, tokens, 0);
        if (grid.x * grid.y > (unsigned)c->sms) continue;
        if (tokens == 32)
            split_launch<W, 2, 4>(c, p, grid);
        else
            split_rows<W, 1>(c, p, grid, tokens);
        return true;
    }
    return false;
}

/* Chooses the kernel and sizes the grid: by rows without a list; with one, by items of `tokens`
 * rows (8 or 16; ROWS_FEW if there are many) and at most `items` of them. */
template <class W> static void product_launch(ft_cuda *c, ft_product *p, int tokens, int items)
{
    if constexpr (W::BYTES < 4000)
        if (stream_rows<W>(c, p, tokens)) return;
    if constexpr (groups_layout<W>())
        if (groups_rows<W>(c, p)) return;
    if constexpr (W::BYTES > 4000)
        if (router_rows<W>(c, p)) return;
    if constexpr (short_type(W::BYTES)) {
        if (down_rows<W>(c, p, tokens, items)) return;
        if (few_rows<W>(c, p, items)) return;
        if (listed_rows<W>(c, p, tokens, items)) return;
        if (is_short(c, p, W::BYTES, tokens, items)) return short_launch<W>(c, p, tokens, items);
    }
    if (product_tiled<W>(c, p, tokens, items)) return;
    if constexpr (W::HALF)
        if (f16_rows<W>(c, p, tokens)) return;
    if (!p->wide) tokens = FT_MIN(tokens, 64);
    const int mt = p->wide ? ROWS_TILES : split_tile_count(c, p, W::BYTES, tokens, items);
    const dim3 grid = product_grid(p, mt, tokens, items);
    if (p->glu) p->n_seg = 1;
    if (p->wide && p->item && tokens == ROWS_MANY) {
        rows_launch<rows_shape<W, ROWS_MANY, true>>(c, p, grid);
    } else if (p->wide && p->item) {
        rows_launch<rows_shape<W, ROWS_FEW, true>>(c, p, grid);
    } else if (p->wide && tokens == ROWS_FEW) {
        rows_launch<rows_shape<W, ROWS_FEW, false>>(c, p, grid);
    } else if (groups_layout<W>() && p->wide && p->T <= ROWS_SOME) {
        if constexpr (groups_layout<W>()) rows_launch<rows_shape<W, ROWS_SOME, false>>(c, p, grid);
    } else if (p->wide) {
        if constexpr (!W::HALF) rows_launch<rows_shape<W, ROWS_MANY, false>>(c, p, grid);
    } else if (tokens == 64) {
        split_launch<W, 2, 8>(c, p, grid);
    } else if (tokens == 32) {
        split_launch<W, 2, 4>(c, p, grid);
    } else if (mt == 4) {
        split_rows<W, most_tiles(W::BYTES)>(c, p, grid, tokens);
    } else if (p->logits.x.p) {
        if constexpr (short_type(W::BYTES)) split_launch<W, 2, 1, true>(c, p, grid);
    } else if (mt == 2) {
        split_rows<W, 2>(c, p, grid, tokens);
    } else {
        split_rows<W, 1>(c, p, grid, tokens);
    }
}

#endif
