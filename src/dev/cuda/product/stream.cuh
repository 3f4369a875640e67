/* dev/cuda/product/stream.cuh - products of up to 32 rows. There are exactly as many blocks as the
 * GPU holds, each with its share of the tiles of weights. A warp computes one part of every tile of
 * its block, two tiles at a time from five rows on: it reads one after the other through a ring
 * buffer in shared memory that does not run empty in between. The results of parts are kept in
 * shared memory and added in order when all parts of a round of tiles are there. The sums are those
 * of product_split; product.cuh includes this file after it.
 *
 * On an H200 a step of one row of the 27b (Q4_K) takes 5.49 ms, with product_split 5.96; of 8 rows
 * 6.46 and 6.98; of 16 sequences 9.70 and 10.54. From nine rows on most files use product_groups
 * there. docs/why/0031 lists what else was tried. */
#ifndef FT_DEV_CUDA_PRODUCT_STREAM_CUH
#define FT_DEV_CUDA_PRODUCT_STREAM_CUH

enum {
    STREAM_WARPS = PARTS,
    STREAM_ROWS = 4 /* most rows for which one tile at a time is faster */
};

/* A warp multiplies MT tiles of weights of type W with NT groups of eight rows at a time. */
template <class W, int MT, int NT> struct stream_shape {
    enum {
        ONE = MT * NT == 1,
        BLOCKS = ONE && W::BYTES <= 2000 ? 3 : 2, /* of a multiprocessor */
        CHUNK = W::BYTES < 1024 ? 4 / MT : 1,     /* units that are copied together */
        AHEAD = NT < 3 ? CHUNK : 1,               /* units whose rows are loaded early */
        RUN = CHUNK * W::BYTES,                   /* bytes of a tile in an entry of the ring */
        PLACE = MT * RUN,
        PLACES = !ONE              ? (3 * PLACE <= 8192 ? 3 : 2)
                 : CHUNK > 1       ? 2
                 : W::BYTES > 2000 ? 5
                                   : 7,
        RING = PLACES * PLACE,
        BYTES = STREAM_WARPS * RING
    };
};

/* Tiles of weights whose results belong together: of a pair, at least gate and up. */
template <int MT> __device__ __forceinline__ int stream_tiles(const ft_product &p)
{
    return p.glu && MT == 1 ? 2 : MT;
}

/* What a warp copies: `left` units of its part of MT tiles, then those of step q of its block. */
template <int MT> struct stream_feed {
    const uint8_t *at[MT];
    int q, left;
};

/* Copies the next chunk of the warp's parts, if any is left. A block has `count` steps, and groups
 * of tiles from `first` on, a warp the units from u0 on; the tiles of a pair of matrices alternate.
 */
template <class W, int MT, int NT>
__device__ __forceinline__ void feed_stream(stream_feed<MT> &f, const ft_product &p, uint32_t to,
                                            int first, int count, int u0, int units, int lane)
{
    typedef stream_shape<W, MT, NT> shape;
    if (f.left <= 0 && f.q < count) {
        block_of b;
        const bool two = MT == 1 && p.glu;
        find_block(p, 8, first + (two ? f.q / 2 : f.q), 0, b);
#pragma unroll
        for (int j = 0; j < MT; j++) {
            const ft_wview &w = p.glu ? p.seg[(two ? f.q : j) % 2].w : b.s->w;
            const int tile = p.glu ? b.at * (MT > 1 ? MT / 2 : 1) + j / 2 : b.at * MT + j;
            f.at[j] =
                unit_at(w, min(tile, (w.n + TILE_N - 1) / TILE_N - 1), u0, W::BYTES) + 16 * lane;
        }
        f.left = units;
        f.q++;
    }
#pragma unroll
    for (int j = 0; j < MT; j++) {
        if (f.left >= shape::CHUNK)
            fetch_run<shape::RUN>(to + j * shape::RUN, f.at[j], lane);
        else
            for (int u = 0; u < f.left; u++)
                fetch_run<W::BYTES>(to + j * shape::RUN + u * W::BYTES, f.at[j] + u * W::BYTES,
                                    lane);
        f.at[j] += shape::RUN;
    }
    copy_commit();
    f.left -= shape::CHUNK;
}

/* Stores the results of a part of MT tiles, `each` floats apart. */
template <int MT, int NT>
__device__ __forceinline__ void put_part(float *to, const float (&c)[MT][NT][4], int T, int each,
                                         int lane)
{
    const int g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int j = 0; j < MT; j++)
#pragma unroll
        for (int i = 0; i < 4 * NT; i++) {
            const int row = i / 4 * 8 + 2 * t + (i & 1);
            if (row < T) to[j * each + row * TILE_N + g + 8 * (i >> 1 & 1)] = c[j][i / 4][i % 4];
        }
}

/* Groups of tiles that a block takes together: the outputs of a pair that are transformed. */
__device__ __forceinline__ int stream_together(const ft_product &p)
{
    return p.hadamard ? 2 : 1;
}

/* Adds the parts of n groups of tiles in their order and stores the results. */
template <class W, int MT>
__device__ __forceinline__ void add_stream(const ft_product &p, const float *parts, int first,
                                           int n)
{
    const int each = PARTS * p.T * TILE_N; /* floats of a tile */
    const int tiles = stream_tiles<MT>(p), wide = TILE_N * (p.glu ? tiles / 2 : tiles);
    const int run = wide * stream_together(p); /* outputs of a row in adjacent threads */
    for (int e = threadIdx.x; e < n * p.T * wide; e += 32 * STREAM_WARPS) {
        const int tok = e / run % p.T, o = e % wide;
        const int group = e / run / p.T * (run / wide) + e % run / wide;
        const int tile = group * tiles + (p.glu ? o / TILE_N * 2 : o / TILE_N);
        const float *part = parts + tile * each + tok * TILE_N + o % TILE_N;
        float sum = part[0], up = p.glu ? part[each] : 0;
#pragma unroll
        for (int q = 1; q < PARTS; q++) {
            part += p.T * TILE_N;
            sum += part[0];
            if (p.glu) up += part[each];
        }
        block_of b;
        find_block(p, 8, first + group, 0, b);
        const int at = b.at * wide + o;
        if (!p.glu) {
            put_result(p, *b.s, tok, at, sum * scale_of<W>(*b.s, 0));
            continue;
        }
        float v[1] = {
            put_pair(p, tok, at, sum * scale_of<W>(p.seg[0], 0), up * scale_of<W>(p.seg[1], 0))};
        if (!p.hadamard) continue;
        hadamard_32(v, at);
        p.hadamard[bf16_index(p.out_T, false, tok, at)] = (uint16_t)bf2(v[0], 0);
    }
}

/* groups: of tiles, in total; round: groups of a block before their parts are added. */
template <class W, int MT, int NT>
__global__ void __launch_bounds__(32 * STREAM_WARPS, stream_shape<W, MT, NT>::BLOCKS)
    product_stream(const __grid_constant__ ft_product p, int groups, int round)
{
    typedef stream_shape<W, MT, NT> shape;
    enum { PLACES = shape::PLACES, CHUNK = shape::CHUNK, AHEAD = shape::AHEAD };
    extern __shared__ __align__(16) unsigned char smem[];
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    unsigned char *ring = smem + warp * shape::RING;
    float *parts = (float *)(smem + shape::BYTES);
    const int some = stream_together(p), sets = groups / some, both = stream_tiles<MT>(p) / MT;
    const int first = sets * blockIdx.x / gridDim.x * some;
    const int count = (sets * (blockIdx.x + 1) / gridDim.x * some - first) * both;
    const int all = p.seg[0].w.units, per = part_units(all), u0 = warp * per;
    const int units = min(all, u0 + per) - u0, each = PARTS * p.T * TILE_N;
    const uint32_t to = shared_at(ring) + 16 * lane, step = (uint32_t)p.x_T * 128;
    stream_feed<MT> f = {};
#pragma unroll 1
    for (int i = 0; i < PLACES; i++)
        feed_stream<W, MT, NT>(f, p, to + i * shape::PLACE, first, count, u0, units, lane);
    fill_table<W>(p.seg[0].w);
    wait_for_previous_kernel();
    /* Rows beyond the last one repeat it: their columns of c are discarded. */
    const char *x[NT];
#pragma unroll
    for (int i = 0; i < NT; i++)
        x[i] = (const char *)p.x + (size_t)u0 * step + 128 * min(8 * i + g, p.T - 1) + 16 * t;
    const size_t plane = 2 * p.x_plane;
    uint4 v[AHEAD][2][NT][W::XP];
#pragma unroll
    for (int u = 0; u < AHEAD; u++) get_rows<W, NT, NT>(v[u], x, u * step, plane);
    if (W::TABLE) __syncthreads();
    int place = 0;
    for (int from = 0; from < count; from += round * both) {
        const int here = min(count, from + round * both);
        for (int q = from; q < here; q++) {
            float c[MT][NT][4] = {};
            uint32_t at = 0;
            for (int left = units; left > 0; left -= CHUNK) {
                copy_wait<PLACES - 1>();
                __syncwarp();
#pragma unroll
                for (int u = 0; u < CHUNK; u++) {
                    if (u && left <= u) break;
                    typename W::regs r[MT];
#pragma unroll
                    for (int j = 0; j < MT; j++)
                        W::load(r[j], ring + place * shape::PLACE + j * shape::RUN + u * W::BYTES,
                                lane);
                    unit_product<W, MT, NT, NT>(c, r, v[u % AHEAD], x, plane, lane);
                    /* rows of a later unit, or of the first ones again, are loaded early */
                    get_rows<W, NT, NT>(v[u % AHEAD], x,
                                        left > AHEAD + u ? at + AHEAD * step : u % AHEAD * step,
                                        plane);
                    at += step;
                }
                __syncwarp();
                feed_stream<W, MT, NT>(f, p, to + place * shape::PLACE, first, count, u0, units,
                                       lane);
                place = place + 1 < PLACES ? place + 1 : 0;
            }
            put_part<MT, NT>(parts + (q - from) * MT * each + warp * p.T * TILE_N, c, p.T, each,
                             lane);
        }
        __syncthreads();
        add_stream<W, MT>(p, parts, first + from / both, (here - from) / both);
        if (here < count) __syncthreads();
    }
}

/* Blocks that the GPU holds: more than these would wait, and fewer would share the multiprocessors
 * that are free first when they start, while the blocks of the previous kernel end. */
template <class W, int MT, int NT> static unsigned stream_blocks(ft_cuda *c, int bytes)
{
    static uint64_t wide;
    const void *kernel = (const void *)product_stream<W, MT, NT>;
    int fit = 0;
    if (ft_cuda_first_use(c, &wide))
        ft_cuda_shared(c, kernel, (int)c->smem / stream_shape<W, MT, NT>::BLOCKS);
    ft_cuda_max_carveout(c, kernel);
    ft_cuda_check(c,
                  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit, kernel, 32 * STREAM_WARPS,
                                                                (size_t)bytes),
                  "occupancy");
    return (unsigned)(FT_MAX(1, fit) * c->sms);
}

/* Launches it, if it applies: for parts of at least a chunk, and enough shared memory. */
template <class W, int MT, int NT> static bool stream_launch(ft_cuda *c, ft_product *p)
{
    typedef stream_shape<W, MT, NT> shape;
    const int units = p->seg[0].w.units, per = (units + PARTS - 1) / PARTS;
    if (units - (PARTS - 1) * per < shape::CHUNK) return false;
    const int own = 1024 + (int)sizeof(uint16_t) * W::TABLE; /* what else a block takes */
    const int room = ((int)c->smem + 1024) / shape::BLOCKS - own - (int)shape::BYTES;
    const int tiles = p->glu && MT == 1 ? 2 : MT;
    const int group = PARTS * p->T * TILE_N * (int)sizeof(float) * tiles;
    if (group > room) return false;
    const unsigned groups = product_grid(p, tiles, 8, 0).x;
    const size_t held = (size_t)(shape::BLOCKS * c->sms);
    const int each = (int)ft_blocks(groups, held);
    /* 32 outputs are transformed together: not if that makes the largest share of a block larger */
    const bool together = p->hadamard && groups % 2 == 0 && room / group >= 2 &&
                          2 * (int)ft_blocks(groups / 2, held) <= each;
    if (!together) p->hadamard = NULL;
    p->wrote_hadamard = together;
    const int round = FT_MIN(each, together ? room / group / 2 * 2 : room / group);
    const int bytes = shape::BYTES + round * group;
    const unsigned blocks =
        FT_MIN(together ? groups / 2 : groups, (stream_blocks<W, MT, NT>(c, bytes)));
    if (p->glu) p->n_seg = 1;
    FT_LAUNCH_NEXT(c, (product_stream<W, MT, NT>), blocks, 32 * STREAM_WARPS, bytes, *p,
                   (int)groups, round);
    return true;
}

/* Types of which two tiles and the parts of 32 rows fit into shared memory. */
template <class W> constexpr bool stream_pairs()
{
    return W::BYTES < 2000 && W::XP == 1;
}

/* Launches the kernel for so many rows, if it applies. */
template <class W> static bool stream_rows(ft_cuda *c, ft_product *p, int tokens)
{
    if (c->cc < 90 || p->item || p->wide || tokens > 32) return false;
    if (p->T <= STREAM_ROWS) return stream_launch<W, 1, 1>(c, p);
    if constexpr (stream_pairs<W>()) {
        if (tokens == 8) return stream_launch<W, 2, 1>(c, p);
        if (tokens == 16) return stream_launch<W, 2, 2>(c, p);
        return p->T <= 24 ? stream_launch<W, 2, 3>(c, p) : stream_launch<W, 2, 4>(c, p);
    }
    return false;
}

#endif
