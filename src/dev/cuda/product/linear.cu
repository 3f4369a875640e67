/* linear and glu: copies of activations, segments, and the choice of a product kernel. Memory
 * traffic of a product: the packed weights once for every 8, 16, 32, 64 or 128 rows. */
#include "dev/cuda/product/dense.cuh"
#include "dev/cuda/product/product.cuh"

extern "C" {
#include "quant/turbo_weights.h"
}

/* Writes both planes of x; columns beyond its width are zeros. A thread has eight columns of a row.
 * For inputs whose op wrote no copy, such as Gemma's attention. One row takes 3.5 us on an
 * H200 (time of a profiler), all of it latency. */
static __global__ void bf16_copy_kernel(uint16_t *s, ft_plane plane, ft_mat x, int k, int eights,
                                        bool wide)
{
    wait_for_previous_kernel();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= eights * x.T) return;
    const int t = i / eights, c = i % eights * 8;
    const float *in = x.p + (size_t)t * x.rs;
    for (int j = 0; j < 8; j += 2)
        bf16_put_pair(
            s, plane, bf16_index(x.T, wide, t, c + j),
            make_float2(c + j < k ? in[c + j] : 0.0f, c + j + 1 < k ? in[c + j + 1] : 0.0f));
}

/* The transformed copy. Without x.p the rows are those of s itself, changed in place. */
static __global__ void hadamard_copy_kernel(uint16_t *s, ft_plane plane, ft_mat x, int k,
                                            int eights, bool wide)
{
    wait_for_previous_kernel();
    const int all = eights * x.T, i = blockIdx.x * blockDim.x + threadIdx.x;
    const int t = min(i, all - 1) / eights, c = i % eights * 8; /* no thread leaves a warp early */
    const float *in = x.p + (size_t)t * x.rs + c;
    float v[8] = {};
    if (c < k && x.p && (uintptr_t)in % 16 == 0) {
        *(float4 *)v = ((const float4 *)in)[0];
        *(float4 *)(v + 4) = ((const float4 *)in)[1];
    } else if (c < k) {
        for (int j = 0; j < 8; j++) {
            const uint16_t *p = s + bf16_index(x.T, wide, t, c + j);
            v[j] = x.p ? in[j]
                       : __uint_as_float((uint32_t)p[0] << 16) +
                             __uint_as_float((uint32_t)p[plane.at] << 16);
        }
    }
    hadamard_put(s, x.T, wide, t, c, v, i < all);
}

/* The plane that weights of a type read first. */
static const uint16_t *first_plane(const uint16_t *s, ft_plane p)
{
    return p.half ? s + p.at : s;
}

/* Fills a copy of x for weights of a type. */
static void fill_bf16_copy(ft_cuda *c, uint16_t *s, ft_mat x, bool wide, ft_type type)
{
    const int k = ft_mat_cols(x), eights = (k + 63) / 64 * 8;
    FT_LAUNCH_NEXT(c, ft_tq_is(type) ? hadamard_copy_kernel : bf16_copy_kernel,
                   ft_blocks((size_t)eights * x.T, 128), 128, 0, s, ft_product_plane(x.T, k, type),
                   x, k, eights, wide);
}

/* The kinds of copies that weights of a type can read. */
static unsigned copy_kinds(ft_type type)
{
    if (ft_tq_is(type)) return FT_COPY_HADAMARD;
    if (packed_as(type) == FT_F16) return FT_COPY_HALF;
    return packed_as(type) == FT_F32 ? FT_COPY_SPLIT : FT_COPY_SPLIT | FT_COPY_HALF;
}

const uint16_t *ft_product_x(ft_cuda *c, ft_mat x, ft_type type)
{
    bool found;
    const unsigned kinds = copy_kinds(type);
    assert(x.hs == x.d || x.H == 1);
    uint16_t *s = ft_cuda_bf16_copy(c, x, kinds, &found);
    if (kinds == FT_COPY_HADAMARD || kinds == FT_COPY_HALF)
        ft_cuda_reads(c, x, (ft_copy_kind)kinds);
    if (!s) return NULL;
    if (!found && kinds != FT_COPY_HADAMARD) ft_cuda_reads(c, x, FT_COPY_SPLIT);
    if (!found) fill_bf16_copy(c, s, x, ft_cuda_wide(c, x.T), type);
    return first_plane(s, ft_product_plane(x.T, ft_mat_cols(x), type));
}

const uint16_t *ft_product_narrow(ft_cuda *c, uint16_t *p, ft_mat x, ft_type type)
{
    fill_bf16_copy(c, p, x, false, type);
    return first_plane(p, ft_product_plane(x.T, ft_mat_cols(x), type));
}

void ft_product_prepare(ft_cuda *c, uint16_t *p, int rows, int k, bool wide, ft_type type)
{
    if (ft_tq_is(type)) fill_bf16_copy(c, p, ft_mat_at(NULL, rows, k), wide, type);
}

/* Codebook of a type in the order of weights_low.cuh, or NULL. */
static const uint16_t *table_of_type(const ft_cuda *c, ft_type type)
{
    const uint16_t *all = c->grid + GRID_ALL;
    switch (type) {
    case FT_IQ1_S:
    case FT_IQ1_M: return all + GRID_IQ1S;
    case FT_IQ2_XXS: return all + GRID_IQ2XXS;
    case FT_IQ2_XS: return all + GRID_IQ2XS;
    case FT_IQ2_S: return all + GRID_IQ2S;
    case FT_IQ3_XXS: return all + GRID_IQ3XXS;
    case FT_IQ3_S: return all + GRID_IQ3S;
    default: return NULL;
    }
}

ft_seg ft_product_seg(const ft_cuda *c, const ft_weight *w, float *y, int rs)
{
    ft_seg s = {};
    assert(w->packed);
    s.w.p = (const uint8_t *)w->packed;
    s.w.table = table_of_type(c, w->type);
    s.w.n = w->n;
    s.w.units = ft_units(w->k);
    s.stride = ft_packed_bytes(ft_product_type(w), w->n, w->k);
    s.scale = w->scale;
    s.y = y;
    s.rs = rs;
    return s;
}

void ft_product_run(ft_cuda *c, ft_product *p, ft_type type, int tokens, int items)
{
    switch (packed_as(type)) {
#define RUN(type, W)                                                                               \
    case type: ft_product_##W(c, p, tokens, items); break;
        FT_LAYOUTS(RUN)
#undef RUN
    }
}

/* Rows per block. */
int ft_product_tokens(const ft_cuda *c, int rows)
{
    const bool wide = ft_cuda_wide(c, rows);
    if (rows <= 8) return 8;
    if (rows <= 32 && !wide) return rows <= 16 ? 16 : 32;
    return (wide || ft_cuda_tiled(c)) && rows > ROWS_FEW ? ROWS_MANY : ROWS_FEW;
}

/* Products of x with weights of a type: the segments are filled in by the caller. */
static ft_product product_of(ft_cuda *c, ft_mat x, ft_type type)
{
    ft_product p = {};
    p.x = ft_product_x(c, x, type);
    p.x_plane = bf16_plane(x.T, ft_mat_cols(x));
    p.x_T = p.T = x.T;
    p.wide = ft_cuda_wide(c, x.T);
    return p;
}

static void add_seg(ft_cuda *c, ft_product *p, ft_mat y, const ft_weight *w)
{
    assert(y.hs == y.d || y.H == 1);
    p->seg[p->n_seg++] = ft_product_seg(c, w, y.p, y.rs);
    ft_cuda_wrote(c, y);
}

extern "C" void ft_cuda_linear(ft_dev *d, ft_mat y, ft_mat x, const ft_weight *w, bool acc)
{
    ft_cuda *c = (ft_cuda *)d;
    if (ft_dense_is(c, w)) {
        ft_dense_run(c, y, x, w, NULL, NULL, FT_ACT_NONE, acc);
        return;
    }
    const ft_type type = ft_product_type(w);
    ft_product p = product_of(c, x, type);
    if (!p.x) return;
    p.acc = acc;
    add_seg(c, &p, y, w);
    ft_product_run(c, &p, type, ft_product_tokens(c, x.T), 0);
}

/* Products with weights of the same type share a launch. */
extern "C" void ft_cuda_linears(ft_dev *d, const ft_product_out *o, int n, ft_mat x)
{
    ft_cuda *c = (ft_cuda *)d;
    assert(n <= 32);
    uint32_t done = 0;
    for (int i = 0; i < n; i++) {
        if (done >> i & 1) continue;
        if (ft_dense_is(c, o[i].w)) {
            ft_cuda_linear(d, o[i].y, x, o[i].w, false);
            continue;
        }
        const ft_type type = ft_product_type(o[i].w);
        ft_product p = product_of(c, x, type);
        if (!p.x) return;
        for (int j = i; j < n && p.n_seg < PRODUCT_SEGS; j++) {
            if (done >> j & 1 || ft_product_type(o[j].w) != type || ft_dense_is(c, o[j].w))
                continue;
            done |= 1u << j;
            add_seg(c, &p, o[j].y, o[j].w);
        }
        ft_product_run(c, &p, type, ft_product_tokens(c, x.T), 0);
    }
}

extern "C" void ft_cuda_norm_linears(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, float eps,
                                     const ft_product_out *o, int n)
{
    if (ft_router_run((ft_cuda *)d, y, x, w, eps, o, n)) return;
    ft_cuda_rmsnorm(d, y, x, w, eps);
    ft_cuda_linears(d, o, n, y);
}

extern "C" void ft_cuda_glu(ft_dev *d, ft_mat y, ft_mat u, ft_mat x, const ft_weight *gate,
                            const ft_weight *up, ft_act act)
{
    ft_cuda *c = (ft_cuda *)d;
    const bool dense = ft_dense_is(c, gate);
    if (dense && ft_dense_is(c, up) && act == FT_GELU) {
        ft_dense_run(c, y, x, gate, up, NULL, act, false);
        return;
    }
    assert(!y.operand);
    const ft_type type = ft_product_type(gate);
    if (type != ft_product_type(up) || dense) {
        const ft_product_out o[2] = {{y, gate}, {u, up}};
        ft_cuda_linears(d, o, 2, x);
        ft_cuda_act_mul(d, y, y, u, act);
        return;
    }
    ft_product p = product_of(c, x, type);
    if (!p.x) return;
    assert(y.hs == y.d || y.H == 1);
    p.seg[0] = ft_product_seg(c, gate, y.p, y.rs);
    p.seg[1] = ft_product_seg(c, up, NULL, 0);
    p.n_seg = 2;
    p.glu = true;
    p.act = act;
    p.out = ft_cuda_wrote_with_bf16(c, y, &p.out_plane.half);
    p.out_T = y.T;
    p.out_plane.at = bf16_plane(y.T, ft_mat_cols(y));
    uint16_t *const hadamard = p.hadamard = ft_cuda_wrote_with_hadamard(c, y);
    ft_product_run(c, &p, type, ft_product_tokens(c, x.T), 0);
    if (hadamard && !p.wrote_hadamard) ft_cuda_no_hadamard(c, hadamard);
}
