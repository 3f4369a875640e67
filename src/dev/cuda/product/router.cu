/* The router of one row, F32 matrices of few tiles, and the norm that it reads, in one kernel:
 * every block computes the norm. Weights do not depend on the previous kernel: a warp decodes its
 * part of a tile to tensor core operands, in registers, before the row comes. The bits are those of
 * rmsnorm_row_kernel and product_split. On an H200 a step of one row of the 35b-a3b takes 1.86 ms
 * with it instead of 1.96; with the norms of two or four rows in every block it is slower. */
#include "dev/cuda/product/norm_rows.cuh"
#include "dev/cuda/product/product.cuh"

enum { ROUTER_UNITS = 4 }; /* most of a part */

typedef split_shape<F32, 1, true> router_shape;

/* Decodes the units of a part as they arrive. */
__device__ __forceinline__ void router_weights(ft_frag (&a)[ROUTER_UNITS][2][F32::WP],
                                               const unsigned char *ring, int n, int lane)
{
#pragma unroll
    for (int u = 0; u < ROUTER_UNITS; u++) {
        F32::regs r;
        if (u >= n) break;
        F32::load(r, ring + u * F32::BYTES, lane);
        F32::frag(a[u][0], r, 0, lane);
        F32::frag(a[u][1], r, 1, lane);
    }
}

/* 168 registers: a block fits beside one of product_stream, whose results it waits for. */
static __global__ void __launch_bounds__(384)
    router_kernel(const __grid_constant__ ft_product p, const __grid_constant__ ft_norm_in m)
{
    typedef F32 W;
    extern __shared__ __align__(16) unsigned char smem[];
    __shared__ float sums[NORMED_WARPS];
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    unsigned char *ring = smem + warp * router_shape::WARP;
    uint16_t *xs = (uint16_t *)(smem + router_shape::BYTES);
    block_of b;
    find_block(p, 8, blockIdx.x, 0, b);
    const int units = b.s->w.units, per = part_units(units), parts = (units + per - 1) / per;
    const int u0 = warp * per, n = min(units, u0 + per) - u0; /* units of this part */
    const uint8_t *from = unit_at(b.s->w, b.at, u0, W::BYTES) + 16 * lane;
    for (int u = 0; u < n; u++)
        fetch_run<W::BYTES>(shared_at(ring) + 16 * lane + u * W::BYTES, from + u * W::BYTES, lane);
    copy_commit();
    float4 f[NORMED_FOURS];
    norm_weights(f, m);
    ft_frag a[ROUTER_UNITS][2][W::WP];
    copy_wait<0>();
    __syncwarp();
    router_weights(a, ring, n, lane);
    wait_for_previous_kernel();
    norm_rows<1>(xs, sums, m, f);
    const char *x = (const char *)xs;
    const uint32_t step = (uint32_t)p.T * 128;
    const size_t plane = 2 * p.x_plane;
    x += (size_t)u0 * step + 128 * min(g, p.T - 1) + 16 * t;
    float c[1][1][4] = {};
#pragma unroll
    for (int u = 0; u < ROUTER_UNITS; u++) {
        if (u >= n) break;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            uint4 v[1][W::XP];
#pragma unroll
            for (int i = 0; i < W::XP; i++)
                v[0][i] = *(const uint4 *)(x + u * step + 64 * h + i * plane);
            const ft_frag one[1][W::WP] = {{a[u][h][0], a[u][h][1]}};
            half_unit<W, 1, 1, 1>(c, 0, one, v);
        }
    }
    add_parts<W, 1, 1>(p, b, c, smem, (float *)ring, parts);
}

/* Whether there is one row, and the weights are F32 and few. */
static bool router_fits(const ft_cuda *c, ft_mat y, ft_mat x, const float *w,
                        const ft_product_out *o, int n)
{
    if (!has_large_smem(c->cc) || n > PRODUCT_SEGS || x.T > 1 || !norm_rows_fit(y, x, w))
        return false;
    if (ft_blocks((size_t)ft_units(x.d), PARTS) > ROUTER_UNITS) return false;
    unsigned tiles = 0;
    for (int i = 0; i < n; i++) {
        if (ft_product_type(o[i].w) != FT_F32) return false;
        tiles += ft_blocks((size_t)o[i].w->n, TILE_N);
    }
    return tiles <= (unsigned)c->sms;
}

bool ft_router_run(ft_cuda *c, ft_mat y, ft_mat x, ft_vec w, float eps, const ft_product_out *o,
                   int n)
{
    static uint64_t used;
    if (!router_fits(c, y, x, w.p, o, n)) return false;
    ft_product p = {};
    ft_norm_in m = {y, x, w.p, eps};
    m.s = out_both_of(c, y);
    p.x_plane = bf16_plane(x.T, x.d);
    p.x_T = p.T = x.T;
    for (int i = 0; i < n; i++) {
        p.seg[p.n_seg++] = ft_product_seg(c, o[i].w, o[i].y.p, o[i].y.rs);
        ft_cuda_wrote(c, o[i].y);
    }
    if (ft_cuda_first_use(c, &used))
        ft_cuda_shared(c, (const void *)router_kernel, (int)c->smem - 1024);
    const dim3 grid = product_grid(&p, 1, 8, 0);
    const int bytes = router_shape::BYTES + 2 * (int)sizeof(uint16_t) * x.d;
    FT_LAUNCH_NEXT(c, router_kernel, grid, 32 * SPLIT_WARPS, bytes, p, m);
    return true;
}
