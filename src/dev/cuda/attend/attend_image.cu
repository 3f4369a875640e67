/* Attention of vision towers: thousands of rows that all see each other. On GPUs with warpgroup
 * instructions attend_image_wgmma.cu computes it. One kernel normalises and rotates queries and
 * keys and stores them and the values as f16, in heads that are padded with zeros to 64, 80 or 128
 * values; a second one has a tile of queries and all positions of a head.
 *
 * A warp of the second kernel has 32 query vectors and all positions of a page: scores, weights and
 * sums stay in its registers, and every fragment of keys and values that is loaded serves two
 * products. Pages of keys and values are copied two pages ahead; one barrier per page.
 *
 * Every sum is in the order of the positions, whatever the tile: a row has the same bits in any
 * batch of the same rows. */
#include "dev/cuda/attend/attend_image.cuh"

enum { PAGE = 64, TILE_THREADS = 128, STAGES = 3, PREPARE_WARPS = 8, LARGEST = 128 };

/* Heads of D values, D / 8 pieces of 16 bytes. */
template <int WIDTH> struct head_shape {
    enum {
        D = WIDTH,
        PIECES = D / 8,
        MT = D <= 80 ? 2 : 1,              /* groups of 16 vectors per warp */
        M = 16 * MT * (TILE_THREADS / 32), /* vectors of a tile */
        KS = D / 16,                       /* steps of a product over a head */
        SIDE = PAGE * D * 2,               /* bytes of a page of keys */
        Q = M * D * 2,                     /* bytes of the queries */
        BYTES = Q + STAGES * 2 * SIDE,
        BLOCKS = D <= 80 ? 2 : 1 /* per multiprocessor */
    };
};

/* Where piece c of row r is in a tile: eight rows of one column use eight different groups of
 * banks. */
template <int D> __host__ __device__ __forceinline__ uint32_t head_piece(int r, int c)
{
    return 16u * (uint32_t)(r * (D / 8) + (D % 64 ? c ^ (r >> 2 & 1) : c ^ (r & 7)));
}

/* ---- queries, keys and values as f16 ---- */

template <int D>
static __global__ void __launch_bounds__(32 * PREPARE_WARPS) prepare_kernel(const image_args p)
{
    __shared__ float room[PREPARE_WARPS][D];
    const int warp = threadIdx.x / 32, i = blockIdx.x * PREPARE_WARPS + warp, H = p.a.q.H;
    wait_for_previous_kernel();
    if (i >= p.rows * H) return;
    const int t = i / H, h = i % H;
    float *const v = room[warp];
    for (int which = 0; which < 3; which++) {
        unsigned char *to = (which == 0   ? p.q
                             : which == 1 ? p.k
                                          : p.v) +
                            2 * D * (size_t)p.rows * h;
        load_head<D>(p, which, t, h, v);
        /* the start of the page is a multiple of eight rows, so that the swizzle is that of t */
        for (int k = 2 * (threadIdx.x & 31); k < D; k += 64)
            *(uint32_t *)(to + head_piece<D>(t, k / 8) + 2 * (k % 8)) =
                pack_half(head_value(p, which, t, v, k), head_value(p, which, t, v, k + 1));
        __syncwarp();
    }
}

/* ---- attention ---- */

/* Copies page i, keys and then values, to its stage. */
template <class S>
__device__ __forceinline__ void fetch_page(const unsigned char *k, const unsigned char *v,
                                           uint32_t stages, int i, int pages)
{
    if (i < pages) {
        const uint32_t to = stages + (uint32_t)(i % STAGES * 2 * S::SIDE);
        k += (size_t)i * S::SIDE;
        v += (size_t)i * S::SIDE;
        for (int p = 16 * threadIdx.x; p < S::SIDE; p += 16 * TILE_THREADS) {
            copy_16(to + p, k + p);
            copy_16(to + S::SIDE + p, v + p);
        }
    }
    copy_commit();
}

/* A warp's part of the tile: maxima, sums of weights, sums of weighted values. */
template <class S> struct tile_state {
    float m[S::MT][2], l[S::MT][4], o[S::MT][S::PIECES][4];
};

/* s = queries times the keys of a page */
template <class S>
__device__ __forceinline__ void page_scores(float (&s)[S::MT][PAGE / 8][4],
                                            const uint32_t (&q)[S::MT][S::KS][4], uint32_t keys)
{
    const int lane = threadIdx.x & 31, r = (lane & 7) + (lane >> 4) * 8, c = lane >> 3 & 1;
#pragma unroll
    for (int k = 0; k < S::KS; k++)
#pragma unroll
        for (int n = 0; n < PAGE / 16; n++) {
            uint32_t y[4];
            load_frags(y, keys + head_piece<S::D>(16 * n + r, 2 * k + c));
#pragma unroll
            for (int mt = 0; mt < S::MT; mt++) {
                mma_f16(s[mt][2 * n], q[mt][k], y[0], y[1]);
                mma_f16(s[mt][2 * n + 1], q[mt][k], y[2], y[3]);
            }
        }
}

/* Turns the scores of the positions from `cell` on into weights; there are `all` positions. */
template <class S>
__device__ __forceinline__ void page_weights(tile_state<S> &w, float (&s)[S::MT][PAGE / 8][4],
                                             float scale, int cell, int all)
{
    const int first = cell + 2 * (threadIdx.x & 3);
#pragma unroll
    for (int mt = 0; mt < S::MT; mt++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            float top = -INFINITY;
            if (cell + PAGE > all) {
#pragma unroll
                for (int n = 0; n < PAGE / 8; n++)
#pragma unroll
                    for (int e = 0; e < 2; e++)
                        if (first + 8 * n + e >= all) s[mt][n][2 * j + e] = -INFINITY;
            }
#pragma unroll
            for (int n = 0; n < PAGE / 8; n++)
                top = fmaxf(top, fmaxf(s[mt][n][2 * j], s[mt][n][2 * j + 1]));
            top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
            top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
            const float now = fmaxf(w.m[mt][j], top * scale);
            const float use = now == -INFINITY ? 0.0f : now, fade = exp2_approx(w.m[mt][j] - use);
            w.m[mt][j] = now;
            w.l[mt][2 * j] *= fade;
            w.l[mt][2 * j + 1] *= fade;
#pragma unroll
            for (int n = 0; n < S::PIECES; n++) {
                w.o[mt][n][2 * j] *= fade;
                w.o[mt][n][2 * j + 1] *= fade;
            }
#pragma unroll
            for (int n = 0; n < PAGE / 8; n++)
#pragma unroll
                for (int e = 0; e < 2; e++)
                    s[mt][n][2 * j + e] = exp2_approx(fmaf(s[mt][n][2 * j + e], scale, -use));
        }
}

/* o += weights times values, l += weights. The scores' layout is that of a product's left side. */
template <class S>
__device__ __forceinline__ void page_values(tile_state<S> &w, const float (&s)[S::MT][PAGE / 8][4],
                                            uint32_t values)
{
    const int lane = threadIdx.x & 31;
    const uint32_t ones = 0x3c003c00;
#pragma unroll
    for (int k = 0; k < PAGE / 32; k++) {
        uint32_t p[S::MT][2][4];
#pragma unroll
        for (int mt = 0; mt < S::MT; mt++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float(&x)[4] = s[mt][4 * k + 2 * half], (&y)[4] = s[mt][4 * k + 2 * half + 1];
                p[mt][half][0] = pack_half(x[0], x[1]);
                p[mt][half][1] = pack_half(x[2], x[3]);
                p[mt][half][2] = pack_half(y[0], y[1]);
                p[mt][half][3] = pack_half(y[2], y[3]);
                mma_f16(w.l[mt], p[mt][half], ones, ones);
            }
#pragma unroll
        for (int n = 0; n < S::PIECES; n++) {
            uint32_t b[4];
            load_frags_transposed(b, values + head_piece<S::D>(32 * k + lane, n));
#pragma unroll
            for (int mt = 0; mt < S::MT; mt++) {
                mma_f16(w.o[mt][n], p[mt][0], b[0], b[1]);
                mma_f16(w.o[mt][n], p[mt][1], b[2], b[3]);
            }
        }
    }
}

template <class S>
__device__ __forceinline__ void tile_put(const image_args &p, const tile_state<S> &w, int row,
                                         int h)
{
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int mt = 0; mt < S::MT; mt++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            const int t = row + 16 * mt + lane / 4 + 8 * j;
            const float f = 1.0f / w.l[mt][2 * j]; /* the largest score has weight 1 */
#pragma unroll
            for (int n = 0; n < S::PIECES; n++)
                put_pair(p, t, h, 8 * n + 2 * (lane % 4), w.o[mt][n][2 * j] * f,
                         w.o[mt][n][2 * j + 1] * f);
        }
}

/* A block has a tile of queries of one head. */
template <class S>
static __global__ void __launch_bounds__(TILE_THREADS, S::BLOCKS)
    attend_image_kernel(const image_args p)
{
    extern __shared__ uint4 attend_image_shared[];
    const uint32_t sm = shared_at(attend_image_shared), stages = sm + S::Q;
    const int lane = threadIdx.x & 31, m = threadIdx.x / 32 * 16 * S::MT;
    const int h = blockIdx.x % p.a.q.H, row = blockIdx.x / p.a.q.H * S::M;
    const int all = p.a.q.T, pages = (all + PAGE - 1) / PAGE;
    const size_t head = 2 * S::D * (size_t)p.rows * h;
    wait_for_previous_kernel();
    for (int i = 16 * threadIdx.x; i < S::Q; i += 16 * TILE_THREADS)
        copy_16(sm + i, p.q + head + 2 * S::D * (size_t)row + i);
    fetch_page<S>(p.k + head, p.v + head, stages, 0, pages);
    fetch_page<S>(p.k + head, p.v + head, stages, 1, pages);
    copy_wait<STAGES - 2>();
    __syncthreads();
    uint32_t q[S::MT][S::KS][4];
    tile_state<S> w = {};
#pragma unroll
    for (int mt = 0; mt < S::MT; mt++) {
#pragma unroll
        for (int k = 0; k < S::KS; k++)
            load_frags(q[mt][k], sm + head_piece<S::D>(m + 16 * mt + lane % 16, 2 * k + lane / 16));
        w.m[mt][0] = w.m[mt][1] = -INFINITY;
    }
    for (int i = 0; i < pages; i++) {
        const uint32_t keys = stages + (uint32_t)(i % STAGES * 2 * S::SIDE);
        copy_wait<STAGES - 2>();
        __syncthreads(); /* page i has arrived, and no warp reads page i - 1 any more */
        fetch_page<S>(p.k + head, p.v + head, stages, i + STAGES - 1, pages);
        float s[S::MT][PAGE / 8][4] = {};
        page_scores<S>(s, q, keys);
        page_weights<S>(w, s, p.scale, PAGE * i, all);
        page_values<S>(w, s, keys + S::SIDE);
    }
    tile_put<S>(p, w, row + m, h);
}

template <int D> static void run_image(ft_cuda *c, image_args *p)
{
    typedef head_shape<D> S;
    static uint64_t seen;
    const int H = p->a.q.H;
    p->rows = (int)ft_blocks((size_t)p->o.T, LARGEST) * LARGEST;
    if (!image_heads(c, p, D)) return;
    FT_LAUNCH_NEXT(c, prepare_kernel<D>, ft_blocks((size_t)p->rows * (size_t)H, PREPARE_WARPS),
                   32 * PREPARE_WARPS, 0, *p);
    if (ft_cuda_first_use(c, &seen))
        ft_cuda_shared(c, (const void *)attend_image_kernel<S>, S::BYTES);
    FT_LAUNCH_NEXT(c, attend_image_kernel<S>, ft_blocks((size_t)p->o.T, S::M) * (unsigned)H,
                   TILE_THREADS, (size_t)S::BYTES, *p);
}

/* Zeros beyond the last column of an operand. */
static __global__ void attend_image_end_kernel(ft_mat o)
{
    wait_for_previous_kernel();
    operand_end(o, blockIdx.x);
}

extern "C" void ft_cuda_attend_image(ft_dev *d, ft_mat o, const ft_image_attn *a)
{
    ft_cuda *c = (ft_cuda *)d;
    image_args p = {};
    p.a = *a;
    p.o = o;
    p.scale = a->scale * 1.4426950408889634f;
    ft_cuda_wrote(c, o);
    if (c->cc == 90)
        ft_cuda_attend_image_wgmma(c, &p);
    else if (a->q.d <= 64)
        run_image<64>(c, &p);
    else if (a->q.d <= 80)
        run_image<80>(c, &p);
    else
        run_image<128>(c, &p);
    if (o.operand && ft_mat_cols(o) % 64)
        FT_LAUNCH_NEXT(c, attend_image_end_kernel, (unsigned)o.T, 64, 0, o);
}
