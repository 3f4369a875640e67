/* dev/cuda/product/rows_mma.cuh - products of many rows on GPUs without warpgroup instructions
 * (compute capability 8.0, 8.6, 8.9, 12.0). A block has a tile of 128 outputs by 128 rows, or by 64
 * for experts. Units of rows and of packed weights come through a ring buffer in shared memory; of
 * the eight warps four divide the outputs, 32 each, and two the rows. A warp decodes its two tiles
 * of weights into registers and multiplies them with 64 (32) rows: each weight is decoded twice,
 * and each row read from shared memory four times, for 64 products of a warp. Gate and up of a pair
 * are the two tiles of one warp, so that a thread has both results.
 *
 * On an H200 with the code of 8.0 (CUDA_ARCH=80/90), 2048 rows, Q4_K: gate and up 2 x 17408 x 5120
 * 289 TFLOP/s, all products of the 27b 281; product_split gives 159. Schedulers issue in 36 of 100
 * cycles: each has two warps, which wait for the results of products (a fifth of the time), for
 * shared memory (an eighth) and at the barrier of every unit (a fourteenth). More warps would need
 * the registers that hold the sums of parts. That is 650 multiplications per cycle and
 * multiprocessor; 8.0 can do 1024, and 8.6, 8.9 and 12.0 can do 256 or 512, so that there the
 * products themselves should be the limit. Not tested on any of these GPUs.
 *
 * The products and their order are those of product_split; product.cuh includes this file after it.
 */
#ifndef FT_DEV_CUDA_PRODUCT_WARPS_CUH
#define FT_DEV_CUDA_PRODUCT_WARPS_CUH

enum {
    WARPS_ACROSS = 4, /* warps that divide the outputs... */
    WARPS_DOWN = 2,   /* ...and the rows */
    WARPS_THREADS = 32 * WARPS_ACROSS * WARPS_DOWN,
    WARPS_SHARED = 99 * 1024 /* shared memory per block that all of these GPUs have */
};
static_assert(ROWS_TILES == 2 * WARPS_ACROSS, "a warp has two tiles of weights");

/* Parameters of a kernel: weights of type W, R rows per tile; rows in order or, LISTED, those of an
 * expert. */
template <class W, int ROWS, bool LISTED> struct warps_shape {
    typedef W weights;
    enum {
        listed = LISTED,
        R = ROWS,
        GROUPS = R / WARPS_DOWN / 8, /* of eight rows, of a warp */
        PLANE = R * 128,             /* bytes of a unit of rows, one plane */
        X = PLANE * W::XP,
        PLACE = X + ROWS_TILES * W::BYTES,
        BLOCKS = R == ROWS_FEW && PLACE < 16 * 1024 ? 2 : 1, /* that share a multiprocessor */
        FIT = (WARPS_SHARED / BLOCKS - 1024 - 2 * W::TABLE) / PLACE,
        PLACES = FIT < 4 ? FIT : 4,
        BYTES = PLACES * PLACE
    };
};

/* Types with two units in shared memory: one is multiplied while the other is copied. */
template <class S> constexpr bool warps_fit()
{
    return S::PLACES >= 2;
}

/* Tile j of the eight, which is one of a warp's two: of a pair, a gate and its up. */
__device__ __forceinline__ int warps_tile(const ft_product &p, const block_of &b, int j)
{
    return p.glu ? WARPS_ACROSS * b.at + j / 2 : ROWS_TILES * b.at + j;
}

__device__ __forceinline__ int warps_weights(const ft_product &p, const block_of &b, int j,
                                             ft_wview &w)
{
    w = view_of(p.glu ? p.seg[j % 2] : *b.s, b.expert);
    return min(warps_tile(p, b, j), (w.n + TILE_N - 1) / TILE_N - 1);
}

/* What a thread copies of each unit: 16 bytes of every 32nd row, and some of one tile. */
template <class S> struct warps_feed {
    const char *x;
    uint32_t row[S::R / 32], row_to;
    const uint8_t *weights;
    uint32_t to;
    int left; /* units */
};

template <class S>
__device__ __forceinline__ void feed_begin(warps_feed<S> &f, const ft_product &p, const block_of &b,
                                           uint32_t to)
{
    typedef typename S::weights W;
    const int i = threadIdx.x, piece = i & 7, first = i >> 3;
    ft_wview w;
    const int tile = warps_weights(p, b, i >> 5, w);
    f.x = (const char *)p.x + 16 * piece;
    f.row_to = 128 * first + 16 * (piece ^ (first & 1) << 2);
#pragma unroll
    for (int j = 0; j < S::R / 32; j++) f.row[j] = 128u * row_x(p, b, min(first + 32 * j, b.n - 1));
    f.weights = unit_at(w, tile, 0, W::BYTES) + 16 * (i & 31);
    f.to = to;
    f.left = w.units;
}

/* Starts copying the next unit to an entry of the ring. */
template <class S>
__device__ __forceinline__ void feed_next(warps_feed<S> &f, const ft_product &p, int place)
{
    typedef typename S::weights W;
    if (f.left-- > 0) {
        const uint32_t to = f.to + place * S::PLACE;
        const uint32_t own = to + S::X + (threadIdx.x >> 5) * W::BYTES + 16 * (threadIdx.x & 31);
#pragma unroll
        for (int q = 0; q < W::XP; q++)
#pragma unroll
            for (int j = 0; j < S::R / 32; j++)
                copy_16(to + q * S::PLANE + 4096 * j + f.row_to,
                        f.x + 2 * q * p.x_plane + f.row[j]);
        fetch_run<W::BYTES>(own, f.weights, threadIdx.x & 31);
        f.weights += W::BYTES;
        f.x += (size_t)p.x_T * 128;
    }
    copy_commit();
}

/* The products of a unit: c += two tiles of weights times a warp's rows, all of it at `at`. */
template <class S>
__device__ __forceinline__ void warps_unit(float (&c)[2][S::GROUPS][4], const unsigned char *at)
{
    typedef typename S::weights W;
    enum { G = 4 };
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    const int first = warp / WARPS_ACROSS * (S::R / WARPS_DOWN);
    const unsigned char *own = at + S::X + warp % WARPS_ACROSS * 2 * W::BYTES;
    typename W::regs r[2];
#pragma unroll
    for (int j = 0; j < 2; j++) W::load(r[j], own + j * W::BYTES, lane);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const unsigned char *x = at + 128 * (first + g) + 16 * ((4 * h + t) ^ (g & 1) << 2);
        ft_frag f[2][W::WP];
#pragma unroll
        for (int j = 0; j < 2; j++) W::frag(f[j], r[j], h, lane);
#pragma unroll
        for (int from = 0; from < S::GROUPS; from += G) {
            uint4 v[G][W::XP];
#pragma unroll
            for (int i = 0; i < G * W::XP; i++)
                v[i / W::XP][i % W::XP] =
                    *(const uint4 *)(x + 1024 * (from + i / W::XP) + i % W::XP * S::PLANE);
            half_unit<W, 2, S::GROUPS, G>(c, from, f, v);
        }
    }
}

/* Stores a warp's results. */
template <class S>
__device__ __forceinline__ void warps_put(const ft_product &p, const block_of &b,
                                          const float (&sum)[2][S::GROUPS][4])
{
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    const int first = warp / WARPS_ACROSS * (S::R / WARPS_DOWN) + 2 * t;
    const int j0 = warp % WARPS_ACROSS * 2;
    const int o0 = warps_tile(p, b, j0) * TILE_N + g, o1 = warps_tile(p, b, j0 + 1) * TILE_N + g;
    typedef typename S::weights W;
    const float s0 = scale_of<W>(p.glu ? p.seg[0] : *b.s, b.expert);
    const float s1 = p.glu ? scale_of<W>(p.seg[1], b.expert) : s0;
#pragma unroll
    for (int i = 0; i < 2 * S::GROUPS; i++) {
        const int at = first + i / 2 * 8 + i % 2;
        if (at >= b.n) continue;
        const int row = row_y(p, b, at);
#pragma unroll
        for (int q = 0; q < 2; q++) {
            const float v0 = sum[0][i / 2][i % 2 + 2 * q] * s0;
            const float v1 = sum[1][i / 2][i % 2 + 2 * q] * s1;
            if (p.glu) {
                put_pair(p, row, o0 + 8 * q, v0, v1);
            } else {
                put_result(p, *b.s, row, o0 + 8 * q, v0);
                put_result(p, *b.s, row, o1 + 8 * q, v1);
            }
        }
    }
}

template <class S>
__global__ void __launch_bounds__(WARPS_THREADS, S::BLOCKS)
    product_rows_mma(const __grid_constant__ ft_product p)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800 && __CUDA_ARCH__ != 900
    extern __shared__ __align__(16) unsigned char smem[];
    block_of b;
    fill_table<typename S::weights>(p.seg[0].w); /* complete at the barrier of the first unit */
    wait_then_start_next();
    if (!tile_at<S>(p, blockIdx.x, b)) return;
    const int units = b.s->w.units, per = part_units(units);
    warps_feed<S> f;
    feed_begin<S>(f, p, b, shared_at(smem));
#pragma unroll
    for (int i = 0; i < S::PLACES - 1; i++) feed_next<S>(f, p, i);
    float sum[2][S::GROUPS][4];
    int place = 0;
    for (int from = 0; from < units; from += per) {
        float c[2][S::GROUPS][4] = {};
        for (int u = from; u < min(units, from + per); u++) {
            copy_wait<S::PLACES - 2>();
            __syncthreads(); /* this unit is in shared memory, and the previous one has been used */
            feed_next<S>(f, p, place ? place - 1 : S::PLACES - 1);
            warps_unit<S>(c, smem + place * S::PLACE);
            place = place + 1 < S::PLACES ? place + 1 : 0;
        }
#pragma unroll
        for (int i = 0; i < 8 * S::GROUPS; i++) {
            float &all = sum[i / (4 * S::GROUPS)][i / 4 % S::GROUPS][i % 4];
            const float part = c[i / (4 * S::GROUPS)][i / 4 % S::GROUPS][i % 4];
            all = from ? all + part : part;
        }
    }
    warps_put<S>(p, b, sum);
#endif
}

#endif
