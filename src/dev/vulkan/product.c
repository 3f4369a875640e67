/* Products with weights, and the ops that select rows or matrices. */
#include "dev/vulkan/vulkan.h"

/* Push constants of linear.comp. */
typedef struct linear_args {
    uint64_t w, x, y, scale, grid, plan, matrix;
    int32_t n, k, T, x_rs, y_rs, y_hs, y_d;
    uint32_t row_bytes;
    int32_t acc, K;
} linear_args;

/* How many rows of x and of W the lanes of a workgroup have: a choice of speed alone. */
typedef struct tiling {
    uint32_t rows, cols;
} tiling;

static tiling tiling_of(int T)
{
    if (T == 1) return (tiling){2, 1};
    if (T == 2) return (tiling){2, 2};
    return T <= 4 ? (tiling){4, 4} : (tiling){4, 8};
}

static linear_args args_of(const ft_vk *v, ft_mat y, ft_mat x, const ft_weight *w, bool acc)
{
    return (linear_args){.w = ft_vk_address(w->data),
                         .x = ft_vk_address(x.p),
                         .y = ft_vk_address(y.p),
                         .scale = ft_vk_address(w->scale),
                         .grid = v->grid,
                         .n = w->n,
                         .k = w->k,
                         .T = x.T,
                         .x_rs = x.rs,
                         .y_rs = y.rs,
                         .y_hs = y.hs,
                         .y_d = y.d,
                         .row_bytes = (uint32_t)w->row_bytes,
                         .acc = acc,
                         .K = 1};
}

/* A grid of n workgroups in x, and in z where there are too many. */
static void run(ft_vk *v, const linear_args *a, const ft_weight *w, tiling t, size_t tiles,
                bool experts)
{
    const size_t blocks = ft_vk_groups((size_t)a->n, 4 * t.rows);
    const size_t x = FT_MIN(blocks, (size_t)FT_VK_GRID);
    const bool fours = a->x % 16 == 0 && a->x_rs % 4 == 0 && a->k % 8 == 0;
    ft_vk_dispatch(v, FT_VK_LINEAR, FT_VK_SPEC(w->type, t.rows, t.cols, fours, experts), a,
                   sizeof *a, x, tiles, ft_vk_groups(blocks, x));
}

static void linear(ft_vk *v, ft_mat y, ft_mat x, const ft_weight *w, bool acc)
{
    const tiling t = tiling_of(x.T);
    const linear_args a = args_of(v, y, x, w, acc);
    run(v, &a, w, t, ft_vk_groups((size_t)x.T, t.cols), false);
}

void ft_vk_linear(ft_dev *d, ft_mat y, ft_mat x, const ft_weight *w, bool acc)
{
    ft_vk_barrier((ft_vk *)d);
    linear((ft_vk *)d, y, x, w, acc);
}

void ft_vk_linears(ft_dev *d, const ft_product_out *o, int n, ft_mat x)
{
    ft_vk_barrier((ft_vk *)d);
    for (int i = 0; i < n; i++) linear((ft_vk *)d, o[i].y, x, o[i].w, false);
}

void ft_vk_glu(ft_dev *d, ft_mat y, ft_mat u, ft_mat x, const ft_weight *gate, const ft_weight *up,
               ft_act act)
{
    ft_vk_barrier((ft_vk *)d);
    linear((ft_vk *)d, y, x, gate, false);
    linear((ft_vk *)d, u, x, up, false);
    ft_vk_act_mul(d, y, y, u, act);
}

void ft_vk_embed(ft_dev *d, ft_mat y, const ft_weight *w, float scale)
{
    ft_vk *v = (ft_vk *)d;
    const struct {
        ft_vk_mat y;
        uint64_t w, scale, grid, batch;
        uint32_t row_bytes;
        int32_t k;
        float f;
    } a = {ft_vk_mat_of(y),
           ft_vk_address(w->data),
           ft_vk_address(w->scale),
           v->grid,
           v->batch_mem.address,
           (uint32_t)w->row_bytes,
           w->k,
           scale};
    FT_VK_RUN(v, FT_VK_EMBED, FT_VK_SPEC(w->type), a, ft_vk_groups((size_t)w->k, 8 * 64),
              (size_t)y.T, 1);
}

/* ---- experts ---- */

static void select_top(ft_vk *v, enum ft_vk_select op, ft_mat x, uint64_t id, uint64_t w, int K)
{
    const struct {
        ft_vk_mat x;
        uint64_t id, w;
        int32_t K;
    } a = {ft_vk_mat_of(x), id, w, K};
    FT_VK_RUN(v, FT_VK_SELECT, FT_VK_SPEC(op), a, (size_t)x.T, 1, 1);
}

void ft_vk_route(ft_dev *d, ft_expert_choice r, ft_mat x)
{
    ft_vk *v = (ft_vk *)d;
    select_top(v, FT_VK_ROUTE, x, ft_vk_address(r.id), ft_vk_address(r.w), r.K);
}

/* The rows and experts of a step, sorted by expert, and the most tiles that they can make. */
typedef struct plan {
    uint64_t at;
    tiling t;
    size_t tiles;
} plan;

static plan plan_of(ft_vk *v, ft_expert_choice r, int T, int E)
{
    const size_t pairs = (size_t)T * (size_t)r.K;
    plan p = {.t = pairs <= (size_t)E ? tiling_of(1) : tiling_of(8)};
    p.tiles = FT_MIN(pairs, ft_vk_groups(pairs, p.t.cols) + (size_t)E);
    p.at = ft_vk_scratch(v, FT_VK_SCRATCH_PLAN, 8 + 12 * p.tiles + 4 * pairs);
    if (!p.at) return p;
    const struct {
        uint64_t id, plan;
        int32_t pairs, E, tile, tiles;
    } a = {ft_vk_address(r.id), p.at, (int32_t)pairs, E, (int32_t)p.t.cols, (int32_t)p.tiles};
    FT_VK_RUN(v, FT_VK_PLAN, FT_VK_SPEC(0), a, 1, 1, 1);
    return p;
}

/* y[pair] = W of its expert times x[pair / K]. */
static void expert(ft_vk *v, const plan *p, ft_mat y, ft_mat x, const ft_weight *w, int K, bool acc)
{
    linear_args a = args_of(v, y, x, w, acc);
    a.plan = p->at;
    a.matrix = (uint64_t)w->row_bytes * (uint64_t)w->n;
    a.K = K;
    run(v, &a, w, p->t, p->tiles, true);
}

void ft_vk_moe(ft_dev *d, ft_mat y, ft_mat x, const ft_experts *e, ft_expert_choice r, ft_mat tmp,
               bool acc)
{
    ft_vk *v = (ft_vk *)d;
    const int D = e->down.n;
    const size_t pairs = (size_t)x.T * (size_t)r.K;
    const uint64_t sums =
        ft_vk_scratch(v, FT_VK_SCRATCH_EXPERTS, pairs * (size_t)D * sizeof(float));
    const plan p = plan_of(v, r, x.T, e->E);
    if (!sums || !p.at) return;
    const ft_mat gate = ft_cols(tmp, 0, e->F), up = ft_cols(tmp, e->F, e->F);
    const ft_mat out = ft_mat_at((float *)(uintptr_t)sums, (int)pairs, D);
    ft_vk_barrier(v);
    if (e->gate_up.data) {
        expert(v, &p, tmp, x, &e->gate_up, r.K, false);
    } else {
        expert(v, &p, gate, x, &e->gate, r.K, false);
        expert(v, &p, up, x, &e->up, r.K, false);
    }
    ft_vk_act_mul(d, gate, gate, up, e->act);
    ft_vk_barrier(v);
    expert(v, &p, out, gate, &e->down, 1, false);
    ft_vk_combine(v, y, out, r.w, r.K, acc);
}

void ft_vk_expert_linear(ft_dev *d, ft_mat y, ft_mat x, const ft_weight *w, ft_expert_choice r,
                         bool acc)
{
    ft_vk *v = (ft_vk *)d;
    r.K = 1;
    const plan p = plan_of(v, r, y.T, w->E);
    if (!p.at) return;
    ft_vk_barrier(v);
    expert(v, &p, y, x, w, y.T / x.T, acc);
}

/* ---- centroid_head ---- */

void ft_vk_centroid_head(ft_dev *d, ft_mat y, ft_mat x, ft_mat score, const ft_weight *w,
                         const int32_t *order, int top)
{
    ft_vk *v = (ft_vk *)d;
    const int n_c = ft_mat_cols(score), some = FT_MIN(top, n_c), group = w->n / n_c;
    const uint64_t chosen =
        ft_vk_scratch(v, FT_VK_SCRATCH_TOP, (size_t)x.T * (size_t)some * sizeof(int32_t));
    if (!chosen) return;
    select_top(v, FT_VK_TOP, score, chosen, 0, some);
    ft_vk_minus_inf(v, y);
    const struct {
        ft_vk_mat y, x;
        uint64_t w, scale, grid, order, chosen;
        uint32_t row_bytes;
        int32_t k, group, top;
    } a = {ft_vk_mat_of(y),
           ft_vk_mat_of(x),
           ft_vk_address(w->data),
           ft_vk_address(w->scale),
           v->grid,
           ft_vk_address(order),
           chosen,
           (uint32_t)w->row_bytes,
           w->k,
           group,
           some};
    FT_VK_RUN(v, FT_VK_CENTROID, FT_VK_SPEC(w->type), a,
              ft_vk_groups((size_t)group * (size_t)some, 4), (size_t)x.T, 1);
}
