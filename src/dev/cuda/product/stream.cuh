/* dev/cuda/product/stream.cuh - products of up to four rows. There are exactly as many blocks as
 * the GPU holds, each with its share of the tiles of weights. A warp computes one part of every
 * tile of its block: it reads one after the other through a ring buffer in shared memory that does
 * not run empty in between. The results of parts are kept in shared memory and added in order when
 * all parts of a round of tiles are there. The sums are those of product_split; product.cuh
 * includes this file after it.
 *
 * On an H200 a step of one row of the 27b (Q4_K) takes 5.49 ms, with product_split 5.96; four rows
 * 5.96 and 6.43. With eight rows it is slower, 7.34 and 6.98: the rows do not fit into what shared
 * memory leaves of the L1 cache. docs/why/0031 lists what else was tried. */
#ifndef FT_DEV_CUDA_PRODUCT_STREAM_CUH
#define FT_DEV_CUDA_PRODUCT_STREAM_CUH

enum { STREAM_WARPS = PARTS, STREAM_ROWS = 4 };

template <class W> struct stream_shape {
    enum {
        BLOCKS = W::BYTES > 2000 ? 2 : 3, /* of a multiprocessor */
        CHUNK = W::BYTES < 1024 ? 4 : 1,  /* units that are copied together */
        PLACES = CHUNK > 1         ? 2
                 : W::BYTES > 2000 ? 5
                                   : 7,
        PLACE = CHUNK * W::BYTES,
        RING = PLACES * PLACE,
        BYTES = STREAM_WARPS * RING
    };
};

/* What a warp copies: `left` units of its part of a tile, then the part of tile q of its block. */
struct stream_feed {
    const uint8_t *at;
    int q, left;
};

/* Copies the next chunk of the warp's parts, if any is left. A block has `count` tiles from `first`
 * on, a warp the units from u0 on; tiles of a pair of matrices alternate. */
template <class W>
__device__ __forceinline__ void feed_stream(stream_feed &f, const ft_product &p, uint32_t to,
                                            int first, int count, int u0, int units, int lane)
{
    typedef stream_shape<W> shape;
    if (f.left <= 0 && f.q < count) {
        block_of b;
        find_block(p, 8, first + (p.glu ? f.q / 2 : f.q), 0, b);
        const ft_seg &s = p.glu ? p.seg[f.q % 2] : *b.s;
        f.at = unit_at(s.w, b.at, u0, W::BYTES) + 16 * lane;
        f.left = units;
        f.q++;
    }
    if (f.left >= shape::CHUNK)
        fetch_run<shape::PLACE>(to, f.at, lane);
    else
        for (int u = 0; u < f.left; u++)
            fetch_run<W::BYTES>(to + u * W::BYTES, f.at + u * W::BYTES, lane);
    copy_commit();
    f.at += shape::PLACE;
    f.left -= shape::CHUNK;
}

/* Stores the result of a part. */
__device__ __forceinline__ void put_part(float *to, const float (&c)[1][1][4], int T, int lane)
{
    const int g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (2 * t + (i & 1) < T) to[(2 * t + (i & 1)) * TILE_N + g + 8 * (i >> 1)] = c[0][0][i];
}

/* Adds the parts of n tiles (or pairs of tiles) in their order and stores the results. */
template <class W>
__device__ __forceinline__ void add_stream(const ft_product &p, const float *parts, int first,
                                           int n)
{
    const int each = PARTS * p.T * TILE_N; /* floats of a tile */
    for (int e = threadIdx.x; e < n * p.T * TILE_N; e += 32 * STREAM_WARPS) {
        const int o = e % TILE_N, tok = e / TILE_N % p.T, tile = e / TILE_N / p.T;
        const float *part = parts + (p.glu ? 2 * tile : tile) * each + tok * TILE_N + o;
        float sum = part[0], up = p.glu ? part[each] : 0;
#pragma unroll
        for (int q = 1; q < PARTS; q++) {
            part += p.T * TILE_N;
            sum += part[0];
            if (p.glu) up += part[each];
        }
        block_of b;
        find_block(p, 8, first + tile, 0, b);
        if (p.glu)
            put_pair(p, tok, b.at * TILE_N + o, sum * scale_of<W>(p.seg[0], 0),
                     up * scale_of<W>(p.seg[1], 0));
        else
            put_result(p, *b.s, tok, b.at * TILE_N + o, sum * scale_of<W>(*b.s, 0));
    }
}

/* tiles: of results, in total; round: tiles of a block before their parts are added. */
template <class W>
__global__ void __launch_bounds__(32 * STREAM_WARPS, stream_shape<W>::BLOCKS)
    product_stream(const __grid_constant__ ft_product p, int tiles, int round)
{
    typedef stream_shape<W> shape;
    enum { PLACES = shape::PLACES, CHUNK = shape::CHUNK };
    extern __shared__ __align__(16) unsigned char smem[];
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    unsigned char *ring = smem + warp * shape::RING;
    float *parts = (float *)(smem + shape::BYTES);
    const int first = tiles * blockIdx.x / gridDim.x, both = p.glu ? 2 : 1;
    const int count = (tiles * (blockIdx.x + 1) / gridDim.x - first) * both;
    const int all = p.seg[0].w.units, per = part_units(all), u0 = warp * per;
    const int units = min(all, u0 + per) - u0;
    const uint32_t to = shared_at(ring) + 16 * lane, step = (uint32_t)p.x_T * 128;
    stream_feed f = {NULL, 0, 0};
#pragma unroll 1
    for (int i = 0; i < PLACES; i++)
        feed_stream<W>(f, p, to + i * shape::PLACE, first, count, u0, units, lane);
    fill_table<W>(p.seg[0].w);
    wait_for_previous_kernel();
    /* Rows beyond the last one repeat it: their columns of c are discarded. */
    const char *const x[1] = {(const char *)p.x + (size_t)u0 * step + 128 * min(g, p.T - 1) +
                              16 * t};
    const size_t plane = 2 * p.x_plane;
    uint4 v[CHUNK][2][1][W::XP];
#pragma unroll
    for (int u = 0; u < CHUNK; u++) get_rows<W, 1, 1>(v[u], x, u * step, plane);
    if (W::TABLE) __syncthreads();
    int place = 0;
    for (int from = 0; from < count; from += round * both) {
        const int here = min(count, from + round * both);
        for (int q = from; q < here; q++) {
            float c[1][1][4] = {};
            uint32_t at = 0;
            for (int left = units; left > 0; left -= CHUNK) {
                copy_wait<PLACES - 1>();
                __syncwarp();
#pragma unroll
                for (int u = 0; u < CHUNK; u++) {
                    if (u && left <= u) break;
                    typename W::regs r[1];
                    W::load(r[0], ring + place * shape::PLACE + u * W::BYTES, lane);
                    unit_product<W, 1, 1, 1>(c, r, v[u], x, plane, lane);
                    /* rows of a later unit, or of the first ones again, are loaded early */
                    get_rows<W, 1, 1>(v[u], x, left > CHUNK + u ? at + CHUNK * step : u * step,
                                      plane);
                    at += step;
                }
                __syncwarp();
                feed_stream<W>(f, p, to + place * shape::PLACE, first, count, u0, units, lane);
                place = place + 1 < PLACES ? place + 1 : 0;
            }
            put_part(parts + ((q - from) * PARTS + warp) * p.T * TILE_N, c, p.T, lane);
        }
        __syncthreads();
        add_stream<W>(p, parts, first + from / both, (here - from) / both);
        if (here < count) __syncthreads();
    }
}

/* Blocks that the GPU holds: more than these would wait, and fewer would share the multiprocessors
 * that are free first when they start, while the blocks of the previous kernel end. */
template <class W> static unsigned stream_blocks(ft_cuda *c, int bytes)
{
    static uint64_t wide;
    const void *kernel = (const void *)product_stream<W>;
    int fit = 0;
    if (ft_cuda_first_use(c, &wide))
        ft_cuda_shared(c, kernel, (int)c->smem / stream_shape<W>::BLOCKS);
    ft_cuda_max_carveout(c, kernel);
    ft_cuda_check(c,
                  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit, kernel, 32 * STREAM_WARPS,
                                                                (size_t)bytes),
                  "occupancy");
    return (unsigned)(FT_MAX(1, fit) * c->sms);
}

/* Launches it, if it applies: for few rows, parts of at least a chunk, and enough shared memory. */
template <class W> static bool stream_launch(ft_cuda *c, ft_product *p)
{
    typedef stream_shape<W> shape;
    const int units = p->seg[0].w.units, per = (units + PARTS - 1) / PARTS;
    if (c->cc < 90 || p->item || p->T > STREAM_ROWS || units - (PARTS - 1) * per < shape::CHUNK)
        return false;
    const int own = 1024 + (int)sizeof(uint16_t) * W::TABLE; /* what else a block takes */
    const int room = ((int)c->smem + 1024) / shape::BLOCKS - own - (int)shape::BYTES;
    const int tile = PARTS * p->T * TILE_N * (int)sizeof(float) * (p->glu ? 2 : 1);
    if (tile > room) return false;
    const unsigned tiles = product_grid(p, p->glu ? 2 : 1, 8, 0).x;
    const int each = (int)ft_blocks(tiles, (size_t)(shape::BLOCKS * c->sms));
    const int round = FT_MIN(each, room / tile), bytes = shape::BYTES + round * tile;
    const unsigned blocks = FT_MIN(tiles, stream_blocks<W>(c, bytes));
    if (p->glu) p->n_seg = 1;
    FT_LAUNCH_NEXT(c, product_stream<W>, blocks, 32 * STREAM_WARPS, bytes, *p, (int)tiles, round);
    return true;
}

#endif
