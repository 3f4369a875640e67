/* dev/cuda/product/product.cuh - y = x W^T on tensor cores: kernels with the same order of sums.
 * The columns of a product are cut into PARTS runs of units. A part is one chain of m16n8k16
 * products, unit after unit; the parts are then added in order. Which kernel computes a row, how
 * many other rows there are and which of them share a tile does not change the result: it is
 * bit-identical.
 *
 *   product_split few rows: a block has 1 or 2 tiles of weights, a warp computes one part.
 *                       Every weight is read once for up to 64 rows; the parts are added in shared
 *                       memory.
 *   product_stream up to 32 rows (compute capability 9.0 and newer): a block has many tiles of
 *                       weights, a warp one part of each.
 *   product_groups common types, 9 to 128 rows (9.0): a block has up to 20 tiles of weights and
 *                       16 to 80 rows; it computes all parts of them, or one.
 *   product_short few rows and at most eight units of columns: a warp computes all parts of a
 *                       tile.
 *   product_down the down projections of experts of few rows, and the sum of their results.
 *                       For one row this kernel and product_split can choose the experts.
 *   product_few gate and up of the experts of two to four rows (9.0 and newer). This kernel and
 *                       product_down choose the experts.
 *   product_listed, product_listed_short experts with up to eight rows each (9.0 and newer): a warp
 *                       computes all parts of its tiles, one after the other.
 *   product_rows_wgmma many rows: a warpgroup has 4 tiles of weights and 64 or 128 rows of
 *                       activations; it computes all parts.
 *   product_rows_f16 many rows with F16 and BF16 weights (9.0): a warpgroup has 4 tiles of weights
 *                       and 128 rows, both in shared memory.
 *   product_rows_mma many rows on GPUs without warpgroup instructions: a warp has 2 tiles and 32 or
 *                       64 rows.
 *
 * Experts are products whose rows are given by the items of a list: product_short, product_listed,
 * product_down and product_few compute nothing else, product_stream and product_rows_f16 do not
 * support them. All other kernels, and the last two, support one matrix, several that read the same
 * x, and a pair (gate, up) whose results are joined by an activation. */
#ifndef FT_DEV_CUDA_PRODUCT_CUH
#define FT_DEV_CUDA_PRODUCT_CUH

#include "dev/cuda/mma.cuh"
#include "dev/cuda/product/weights_low.cuh"
#include "dev/cuda/spans.cuh"

enum {
    PRODUCT_SEGS = 4,
    SPLIT_WARPS = PARTS,
    ROWS_MANY = 128, /* rows of a block's tile if there are many... */
    ROWS_SOME = 96,  /* ...if there are no more than this, for common types... */
    ROWS_FEW = 64,   /* ...for experts, or if there are no more rows than this */
    ROWS_TILES = 8,  /* tiles of weights in such a tile */
    ROWS_SPAN = 8    /* tiles of rows that are computed together */
};

/* A matrix (or a stack of them) and its output. */
typedef struct ft_seg {
    ft_wview w;
    size_t stride;           /* bytes from one expert's matrix to the next */
    const float *scale;      /* one per matrix, or NULL */
    const uint8_t *shared_w; /* the matrix of the shared expert, and its scale */
    const float *shared_scale;
    float *y;
    int rs;
    int blocks; /* blocks of the grid that compute it */
} ft_seg;

/* Rows of an expert: entries [first, first + n) of the list. */
typedef struct ft_item {
    int32_t expert, first, n;
} ft_item;

/* The logits of the router for few rows, for kernels that choose the experts themselves. */
typedef struct ft_logits {
    ft_mat x; /* x.p NULL: they are chosen */
    int E, K;
} ft_logits;

/* What the results of experts are added to: row t of y gets the sum over i < K of w[t K + i] times
 * row t K + i of the results, in this order, after sigmoid(gate[t]) times row T K + t, that of the
 * shared expert. */
typedef struct ft_expert_sum {
    float *y; /* NULL: they are not added here */
    int rs, K, T;
    bool acc;    /* y += */
    int32_t *id; /* the choices, ... */
    float *w;
    const float *gate; /* NULL without a shared expert */
    int gate_rs;
} ft_expert_sum;

typedef struct ft_product {
    ft_seg seg[PRODUCT_SEGS];
    int n_seg;
    bool acc; /* y += */
    bool glu; /* seg[0] gate, seg[1] up: y of seg[0] = act(gate) * up */
    int act;
    const uint16_t *x; /* the first plane that is read of the copy of x... */
    size_t x_plane;    /* ...and the distance of the second, if any */
    int x_T;           /* its rows */
    bool wide;         /* in the column order of ft_cuda_wide; `out` too */
    int T;             /* rows to compute, without a list */
    uint16_t *out;     /* copy of the result of a pair, or NULL */
    ft_plane out_plane;
    int out_T;
    uint16_t *hadamard;  /* its transformed copy, or NULL: for kernels that can write it... */
    bool wrote_hadamard; /* ...which set this in the argument of ft_product_run */
    const ft_item *item; /* NULL: rows [0, T) in order */
    const int32_t *n_item, *list;
    int shared_blocks,
        shared_T;           /* blocks of rows before the items, and rows, of the shared expert... */
    int shared_x, shared_y; /* ...and the index of its first row in x and y */
    bool item_old; /* the items were computed before the previous kernel (wait_then_start_next) */
    int list_div;  /* an entry of the list is row entry / list_div of x, and row entry of y */
    ft_logits logits;  /* there is no list yet; of one row item i is choice i */
    ft_expert_sum sum; /* for kernels that can add the results... */
    bool summed;       /* ...which set this in the argument of ft_product_run */
} ft_product;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
/* The same product with shuffles, for GPUs without the instruction: slow. A function call keeps
 * compile time short. */
__device__ __noinline__ static float4 mma_exchange(float4 c, uint4 a, uint32_t b0, uint32_t b1)
{
    const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    const uint32_t all[4] = {a.x, a.y, a.z, a.w};
    float sum[4] = {c.x, c.y, c.z, c.w};
#pragma unroll
    for (int k = 0; k < 8; k++) {
        const int from = k & 3, up = k >> 2;
        const uint32_t b = __shfl_sync(~0u, up ? b1 : b0, 8 * t + from);
        const uint32_t d = __shfl_sync(~0u, up ? b1 : b0, 8 * t + 4 + from);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t w = __shfl_sync(~0u, all[2 * up + i], 4 * g + from);
            const float w0 = __uint_as_float(w << 16), w1 = __uint_as_float(w & 0xffff0000u);
            sum[2 * i] += w0 * __uint_as_float(b << 16) + w1 * __uint_as_float(b & 0xffff0000u);
            sum[2 * i + 1] += w0 * __uint_as_float(d << 16) + w1 * __uint_as_float(d & 0xffff0000u);
        }
    }
    return make_float4(sum[0], sum[1], sum[2], sum[3]);
}
#endif

__device__ __forceinline__ void mma_bf16(float *c, const uint32_t *a, uint32_t b0, uint32_t b1)
{
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#elif defined(__CUDA_ARCH__)
    const float4 r = mma_exchange(make_float4(c[0], c[1], c[2], c[3]),
                                  make_uint4(a[0], a[1], a[2], a[3]), b0, b1);
    c[0] = r.x, c[1] = r.y, c[2] = r.z, c[3] = r.w;
#endif
}

/* The product for weights of type W. */
template <class W>
__device__ __forceinline__ void mma_of(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                       uint32_t b1)
{
    if constexpr (W::HALF)
        mma_f16(c, a, b0, b1);
    else
        mma_bf16(c, a, b0, b1);
}

/* Half a unit of MT tiles times G groups of eight rows, v[group][plane]. The order of the products
 * is part of the order of sums; consecutive instructions belong to different sums, so that none
 * waits for the previous one. */
template <class W, int MT, int NT, int G>
__device__ __forceinline__ void half_unit(float (*c)[NT][4], int at, const ft_frag (*f)[W::WP],
                                          const uint4 (*v)[W::XP])
{
#pragma unroll
    for (int q = 0; q < W::XP + W::WP - 1; q++) { /* (w0, x0), (w0, x1), (w1, x0) */
        const int w = q >= W::XP ? q - W::XP + 1 : 0, x = q < W::XP ? q : 0;
#pragma unroll
        for (int step = 0; step < 2; step++)
#pragma unroll
            for (int i = 0; i < G; i++)
#pragma unroll
                for (int j = 0; j < MT; j++)
                    mma_of<W>(c[j][at + i], f[j][w].a[step], step ? v[i][x].z : v[i][x].x,
                              step ? v[i][x].w : v[i][x].y);
    }
}

#include "dev/cuda/product/chosen.cuh"

/* The part of the product that a block computes. */
struct block_of {
    const ft_seg *s;
    int at;            /* block within the segment */
    int expert, first; /* of the item */
    int n;             /* rows */
};

/* CHOOSES: item i is choice i of one row (p.logits); there is no list. */
template <bool CHOOSES = false>
__device__ __forceinline__ bool find_block(const ft_product &p, int tokens, int bx, int by,
                                           block_of &b)
{
    int i = 0;
    while (i + 1 < p.n_seg && bx >= p.seg[i].blocks) bx -= p.seg[i++].blocks;
    b.s = &p.seg[i];
    b.at = bx;
    b.expert = 0;
    if (!p.item) {
        b.first = by * tokens;
        b.n = min(tokens, p.T - b.first);
        return true;
    }
    const int y = by - p.shared_blocks;
    if (y < 0) {
        b.expert = -1;
        b.first = by * tokens;
        b.n = min(tokens, p.shared_T - b.first);
        return true;
    }
    if (CHOOSES) {
        b.expert = nth_expert(p.logits.x.p, p.logits.E, y);
        b.first = y;
        b.n = 1;
        return true;
    }
    const int count = __ldg(p.n_item);
    const ft_item it = p.item[y]; /* there is memory for as many as the grid has */
    if (y >= count) return false;
    b.expert = it.expert;
    b.first = it.first;
    b.n = it.n;
    return true;
}

/* Row of x, and of y, for row i of a block; -1 beyond its last row. */
template <bool CHOOSES = false>
__device__ __forceinline__ int row_x(const ft_product &p, const block_of &b, int i)
{
    if (i >= b.n) return -1;
    if (b.expert < 0) return p.shared_x + b.first + i;
    if (CHOOSES) return b.first / p.list_div;
    return p.item ? __ldg(p.list + b.first + i) / p.list_div : b.first + i;
}

template <bool CHOOSES = false>
__device__ __forceinline__ int row_y(const ft_product &p, const block_of &b, int i)
{
    if (b.expert < 0) return p.shared_y + b.first + i;
    return p.item && !CHOOSES ? __ldg(p.list + b.first + i) : b.first + i;
}

/* The same for an item of this list, which may be in shared memory. */
__device__ __forceinline__ int chosen_row(const ft_product &p, const block_of &b,
                                          const int32_t *list, int i)
{
    return b.expert < 0 ? p.shared_y + i : list[b.first + i];
}

__device__ __forceinline__ ft_wview view_of(const ft_seg &s, int expert)
{
    ft_wview w = s.w;
    w.p = expert < 0 ? s.shared_w : w.p + (size_t)expert * s.stride;
    return w;
}

/* What results are multiplied with. */
template <class W> __device__ __forceinline__ float scale_of(const ft_seg &s, int expert)
{
    const float *at = expert < 0 ? s.shared_scale : s.scale ? s.scale + expert : NULL;
    return at ? __ldg(at) * W::FACTOR : W::FACTOR;
}

__device__ __forceinline__ void put_result(const ft_product &p, const ft_seg &s, int row, int o,
                                           float v)
{
    if (o >= s.w.n) return;
    float *y = s.y + (size_t)row * s.rs + o;
    *y = p.acc ? *y + v : v;
}

/* Returns the result. */
__device__ __forceinline__ float put_pair(const ft_product &p, int row, int o, float gate, float up)
{
    const ft_seg &s = p.seg[0];
    const float v = act_of(gate, p.act) * up;
    if (o >= s.w.n) return v;
    if (s.y) s.y[(size_t)row * s.rs + o] = v;
    if (p.out) bf16_put(p.out, p.out_plane, bf16_index(p.out_T, false, row, o), v);
    return v;
}

__host__ __device__ __forceinline__ int part_units(int units)
{
    return (units + PARTS - 1) / PARTS;
}

/* ---- many rows ---- */

/* Tile number i of the launch. Blocks that run at the same time share much of what they read. */
template <class S> __device__ __forceinline__ bool tile_at(const ft_product &p, int i, block_of &b)
{
    int across = 0;
    for (int s = 0; s < p.n_seg; s++) across += p.seg[s].blocks;
    if (S::listed) return find_block(p, S::R, i % across, i / across, b);
    const int all = (p.T + S::R - 1) / S::R, span = i / (across * ROWS_SPAN);
    const int first = span * ROWS_SPAN, rows = min(ROWS_SPAN, all - first);
    i -= span * across * ROWS_SPAN;
    if (i >= across * rows) return false;
    return find_block(p, S::R, i / rows, first + i % rows, b);
}

/* ---- few rows ---- */

/* A warp reads its weights through a ring buffer in shared memory; an entry holds CHUNK units of
 * each of its MT tiles. Enough copies are in flight to keep memory busy, and the first start while
 * the previous kernel still runs. The parts are added in the same shared memory. The limit of this
 * kernel is its number of instructions: a chunk is handled with as few as possible.
 *
 * On an H200, one row, Q4_K, before product_stream (a plain read reaches 4.66 TB/s): 248320 x 5120
 * 4.1 TB/s, 89 %; 16480 x 5120 3.3 TB/s, 71 %; gate and up 2 x 17408 x 5120 3.4 TB/s, 72 %; 5120 x
 * 6144 and 5120 x 17408 together 2.6 TB/s, 55 %. A unit of a tile takes 61 instructions, a block
 * about 380 per warp. Short products are mostly latency: 2 us pass between two dependent kernels,
 * and 320 tiles do not divide evenly among 132 multiprocessors. docs/why/0006 and 0031 list what
 * did not help. */
constexpr int split_chunk(int bytes, int tiles)
{
    return bytes < 1024 ? 4 / tiles : 1;
}

/* Compute capabilities (times ten) of GPUs with more than 160 KB of shared memory per block. */
constexpr bool has_large_smem(int cc)
{
    return cc == 80 || cc == 90 || cc == 100;
}

#ifdef __CUDA_ARCH__
enum { LARGE_SMEM_HERE = has_large_smem(__CUDA_ARCH__ / 10) };
#else
enum { LARGE_SMEM_HERE = 1 };
#endif

/* F32 is for routers: their few tiles should be here as a whole when the rows come. F16 and BF16
 * need more bytes in flight: one row of the 9b takes 5.1 ms with five entries, 5.8 with three. */
constexpr int split_places(int bytes, int place, int weight_parts, bool large_smem)
{
    if (large_smem && bytes > 4000 && place == bytes) return 4;
    if (large_smem && bytes == 2048 && weight_parts == 1) return place == bytes ? 5 : 3;
    return 7680 / place >= 2 ? 7680 / place : 2 * place <= 8192 ? 2 : 1;
}

/* Blocks that should share a multiprocessor, as far as registers count. */
constexpr int split_blocks(int bytes, int groups)
{
    if (groups > 4 || bytes > 2000) return 1;
    return groups > 1 ? 2 : 3;
}

/* Whether rows may be in the column order for many rows: those of routers. */
constexpr bool split_reads_wide(int bytes, int groups)
{
    return bytes > 4000 && groups <= 4;
}

template <class W, int MT, bool LARGE_SMEM> struct split_shape {
    enum {
        STEP = 16 * MT + 4, /* keeps the lanes of a store in different banks */
        CHUNK = split_chunk(W::BYTES, MT),
        RUN = CHUNK * W::BYTES, /* bytes of a tile in an entry */
        PLACE = MT * RUN,
        PLACES = split_places(W::BYTES, PLACE, W::WP, LARGE_SMEM),
        MEET = 8 * STEP * 4,
        WARP = PLACES * PLACE > MEET ? PLACES *PLACE : MEET,
        BYTES = PARTS * WARP
    };
};

/* Starts copying BYTES, 16 per lane at a time; from and to are those of the lane. */
template <int BYTES>
__device__ __forceinline__ void fetch_run(uint32_t to, const uint8_t *from, int lane)
{
#pragma unroll
    for (int i = 0; i < BYTES; i += 512)
        if (BYTES - i >= 512 || 16 * lane < BYTES - i) copy_16(to + i, from + i);
}

/* Copies the next chunk of each tile; `left` units remain. */
template <class W, int MT>
__device__ __forceinline__ void fetch_chunk(uint32_t to, const uint8_t *(&at)[MT], int left,
                                            int lane)
{
    typedef split_shape<W, MT, LARGE_SMEM_HERE> shape;
#pragma unroll
    for (int j = 0; j < MT; j++) {
        if (left >= shape::CHUNK)
            fetch_run<shape::RUN>(to + j * shape::RUN, at[j], lane);
        else
            for (int u = 0; u < left; u++)
                fetch_run<W::BYTES>(to + j * shape::RUN + u * W::BYTES, at[j] + u * W::BYTES, lane);
        at[j] += shape::RUN;
    }
    copy_commit();
}

/* What a lane reads of all rows for a unit, both halves: x points there. */
template <class W, int NT, int G>
__device__ __forceinline__ void get_rows(uint4 (&v)[2][G][W::XP], const char *const (&x)[NT],
                                         size_t ahead, size_t plane)
{
    if constexpr (G == NT) { /* the others are read when they are needed */
#pragma unroll
        for (int i = 0; i < G * W::XP; i++)
#pragma unroll
            for (int h = 0; h < 2; h++)
                v[h][i / W::XP][i % W::XP] =
                    ld16(x[i / W::XP] + ahead + 64 * h + i % W::XP * plane);
    }
}

/* The same from the column order for many rows (wide_column): x points to word t of a row, `last`
 * is the last row of the block. */
template <class W, int NT>
__device__ __forceinline__ void get_wide_rows(uint4 (&v)[2][NT][W::XP], const char *const (&x)[NT],
                                              size_t ahead, size_t plane, int last)
{
    const int g = threadIdx.x >> 2 & 7;
#pragma unroll
    for (int i = 0; i < NT * W::XP; i++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int n = i / W::XP, swizzle = min(8 * n + g, last) & 7;
            const char *from = x[n] + ahead + i % W::XP * plane;
            uint32_t w[4];
#pragma unroll
            for (int j = 0; j < 4; j++)
                w[j] = __ldg((const uint32_t *)(from + 16 * ((4 * h + j) ^ swizzle)));
            v[h][n][i % W::XP] = make_uint4(w[0], w[1], w[2], w[3]);
        }
}

/* A unit of MT tiles, already in shared memory, times all rows. x: of both halves, where G == NT.
 */
template <class W, int MT, int NT, int G>
__device__ __forceinline__ void unit_product(float (*c)[NT][4], const typename W::regs (&r)[MT],
                                             uint4 (&v)[2][G][W::XP], const char *const (&x)[NT],
                                             size_t plane, int lane)
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        ft_frag f[MT][W::WP];
#pragma unroll
        for (int j = 0; j < MT; j++) W::frag(f[j], r[j], h, lane);
#pragma unroll
        for (int from = 0; from < NT; from += G) {
            if (G < NT)
#pragma unroll
                for (int i = 0; i < G * W::XP; i++)
                    v[h][i / W::XP][i % W::XP] =
                        ld16(x[from + i / W::XP] + 64 * h + i % W::XP * plane);
            half_unit<W, MT, NT, G>(c, from, f, v[h]);
        }
    }
}

/* The MT tiles of weights of a block: of a pair, gate and up alternate. at: this lane's part of
 * unit u0. */
template <class W, int MT>
__device__ __forceinline__ void find_tiles(const uint8_t *(&at)[MT], const ft_product &p,
                                           const block_of &b, int u0, int lane)
{
#pragma unroll
    for (int j = 0; j < MT; j++) {
        const ft_wview w = view_of(p.glu ? p.seg[j % 2] : *b.s, b.expert);
        const int tile = min(p.glu ? b.at * (MT / 2) + j / 2 : b.at * MT + j,
                             (b.s->w.n + TILE_N - 1) / TILE_N - 1);
        at[j] = unit_at(w, tile, u0, W::BYTES) + 16 * lane;
    }
}

/* Adds the parts in their order and stores the results. c: this warp's part. */
template <class W, int MT, int NT, bool CHOOSES = false>
__device__ __forceinline__ void add_parts(const ft_product &p, const block_of &b,
                                          const float (&c)[MT][NT][4], unsigned char *smem,
                                          float *mine, int parts)
{
    typedef split_shape<W, MT, LARGE_SMEM_HERE> shape;
    enum { STEP = shape::STEP };
    const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    const float s0 = scale_of<W>(p.glu ? p.seg[0] : *b.s, b.expert);
    const float s1 = p.glu ? scale_of<W>(p.seg[1], b.expert) : 1.0f;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < NT; i++) {
        if (i && 8 * i >= b.n) break;
#pragma unroll
        for (int j = 0; j < MT; j++)
#pragma unroll
            for (int q = 0; q < 4; q++)
                mine[(2 * t + (q & 1)) * STEP + 16 * j + g + 8 * (q >> 1)] = c[j][i][q];
        __syncthreads();
        const int wide = p.glu ? 8 * MT : 16 * MT; /* outputs per row of results */
        const int rows = min(8, b.n - 8 * i);
        for (int e = threadIdx.x; e < rows * wide; e += 32 * SPLIT_WARPS) {
            const int o = e % wide, tok = e / wide;
            const int at_gate = p.glu ? o + o / 16 * 16 : o; /* its partner is 16 values further */
            const unsigned char *part = smem + (tok * STEP + at_gate) * 4;
            const int far = p.glu ? 64 : 0;
            float sum = *(const float *)part, up = *(const float *)(part + far);
            for (int q = 1; q < parts; q++) {
                part += shape::WARP;
                sum += *(const float *)part;
                up += *(const float *)(part + far);
            }
            const int row = row_y<CHOOSES>(p, b, 8 * i + tok);
            if (p.glu)
                put_pair(p, row, b.at * 8 * MT + o, sum * s0, up * s1);
            else
                put_result(p, *b.s, row, b.at * 16 * MT + o, sum * s0);
        }
        __syncthreads();
    }
}

/* One part: c += n units of the tiles times the rows x, through the ring. last: row of the block.
 */
template <class W, int MT, int NT>
__device__ __forceinline__ void multiply_part(float (&c)[MT][NT][4], const ft_product &p,
                                              const uint8_t *(&at)[MT], const char *(&x)[NT],
                                              unsigned char *ring, int n, int last)
{
    typedef split_shape<W, MT, LARGE_SMEM_HERE> shape;
    enum { PLACES = shape::PLACES, CHUNK = shape::CHUNK, G = NT < 4 ? NT : 4 };
    enum { AHEAD = NT < 4 ? CHUNK : 1 }; /* units whose rows are being loaded */
    const int lane = threadIdx.x & 31;
    const uint32_t to = shared_at(ring) + 16 * lane, step = (uint32_t)p.x_T * 128;
    const size_t plane = 2 * p.x_plane;
    uint4 v[AHEAD][2][G][W::XP];
    const auto get = [&](int u, uint32_t ahead) {
        if constexpr (split_reads_wide(W::BYTES, NT)) {
            if (p.wide) return get_wide_rows<W, NT>(v[u], x, ahead, plane, last);
        }
        get_rows<W, NT, G>(v[u], x, ahead, plane);
    };
#pragma unroll
    for (int u = 0; u < AHEAD; u++)
        if (u < n) get(u, u * step);
    int place = 0;
    for (int left = n; left > 0; left -= CHUNK) {
        copy_wait<PLACES - 1>();
        __syncwarp();
#pragma unroll
        for (int u = 0; u < CHUNK; u++) {
            if (u && left <= u) break;
            typename W::regs r[MT];
#pragma unroll
            for (int j = 0; j < MT; j++)
                W::load(r[j], ring + place + j * shape::RUN + u * W::BYTES, lane);
            unit_product<W, MT, NT, G>(c, r, v[u % AHEAD], x, plane, lane);
            /* rows of a later unit are loaded while others are used */
            if (left > AHEAD + u) get(u % AHEAD, AHEAD * step);
#pragma unroll
            for (int i = 0; i < NT; i++) x[i] += step;
        }
        __syncwarp();
        fetch_chunk<W, MT>(to + place, at, left - PLACES * CHUNK, lane);
        place = place + shape::PLACE == PLACES * shape::PLACE ? 0 : place + shape::PLACE;
    }
}

template <class W, int MT, int NT, bool CHOOSES>
__global__ void __launch_bounds__(32 * SPLIT_WARPS, split_blocks(W::BYTES, NT))
    product_split(const __grid_constant__ ft_product p)
{
    typedef split_shape<W, MT, LARGE_SMEM_HERE> shape;
    enum { PLACES = shape::PLACES, CHUNK = shape::CHUNK };
    extern __shared__ __align__(16) unsigned char smem[];
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    unsigned char *ring = smem + warp * shape::WARP;
    block_of b;
    const bool is_shared = p.item && (int)blockIdx.y < p.shared_blocks;
    if (p.item && !p.item_old && !is_shared)
        wait_then_start_next(); /* the items were computed by the previous kernel */
    if (!find_block<CHOOSES>(p, 8 * NT, blockIdx.x, blockIdx.y, b)) return;
    const int units = b.s->w.units, per = part_units(units), parts = (units + per - 1) / per;
    const int u0 = warp * per, n = min(units, u0 + per) - u0; /* units of this part */

    const uint8_t *at[MT];
    find_tiles<W, MT>(at, p, b, u0, lane);
    /* prefetches into L2 what a short ring has no entry for */
    for (int j = 0; j < MT && PLACES * CHUNK < 4; j++)
        prefetch_l2(at[j] + PLACES * shape::RUN, (n - PLACES * CHUNK) * W::BYTES, lane, 32);
#pragma unroll
    for (int i = 0; i < PLACES; i++)
        fetch_chunk<W, MT>(shared_at(ring) + 16 * lane + i * shape::PLACE, at, n - i * CHUNK, lane);
    fill_table<W>(b.s->w);
    if (!p.item || p.item_old)
        wait_for_previous_kernel();
    else if (is_shared)
        wait_then_start_next();
    /* Rows beyond the last one repeat it: their columns of c are discarded. */
    const int word = split_reads_wide(W::BYTES, NT) && p.wide ? 4 * t : 16 * t;
    const char *x[NT];
#pragma unroll
    for (int i = 0; i < NT; i++)
        x[i] = (const char *)p.x + (size_t)u0 * ((uint32_t)p.x_T * 128) +
               (128 * row_x<CHOOSES>(p, b, min(8 * i + g, b.n - 1)) + word);
    float c[MT][NT][4] = {};
    if (W::TABLE) __syncthreads();
    multiply_part<W, MT, NT>(c, p, at, x, ring, n, b.n - 1);
    add_parts<W, MT, NT, CHOOSES>(p, b, c, smem, (float *)ring, parts);
}

#include "dev/cuda/product/rows_wgmma.cuh"

#include "dev/cuda/product/short.cuh"

#include "dev/cuda/product/rows_mma.cuh"

#include "dev/cuda/product/launch.cuh"

/* One for each weight layout, in files of their own to compile in parallel. */
typedef void ft_product_fn(ft_cuda *c, ft_product *p, int tokens, int items);
#define FT_PRODUCT_DECLARE(type, W) ft_product_fn ft_product_##W;
FT_LAYOUTS(FT_PRODUCT_DECLARE)
#define FT_PRODUCT_DEFINE(W)                                                                       \
    void ft_product_##W(ft_cuda *c, ft_product *p, int tokens, int items)                          \
    {                                                                                              \
        product_launch<W>(c, p, tokens, items);                                                    \
    }

/* linear.cu: by the type of the first segment; all segments have the same. */
void ft_product_run(ft_cuda *c, ft_product *p, ft_type type, int tokens, int items);
/* router.cu: y = rms(x) * w of one row, and its products with F32 matrices of few tiles; false: it
 * does not apply. */
bool ft_router_run(ft_cuda *c, ft_mat y, ft_mat x, ft_vec w, float eps, const ft_product_out *o,
                   int n);
/* A segment over matrices of w; y may be NULL for the second of a pair. */
ft_seg ft_product_seg(const ft_cuda *c, const ft_weight *w, float *y, int rs);
/* Rows per block for so many rows. */
int ft_product_tokens(const ft_cuda *c, int rows);
/* The planes of x that weights of a type read, in a copy that is made if there is none: in the
 * column order for many rows if it has many. */
const uint16_t *ft_product_x(ft_cuda *c, ft_mat x, ft_type type);
/* The same in the column order for few rows, in memory p. */
const uint16_t *ft_product_narrow(ft_cuda *c, uint16_t *p, ft_mat x, ft_type type);
/* Plane 1 of a copy of T rows of k values that weights of a type read. */
static inline ft_plane ft_product_plane(int T, int k, ft_type type)
{
    ft_plane p = {bf16_plane(T, k), packed_as(type) == FT_F16};
    return p;
}
/* Prepares a copy of rows of k values for weights of a type, in place. */
void ft_product_prepare(ft_cuda *c, uint16_t *p, int rows, int k, bool wide, ft_type type);

#endif
