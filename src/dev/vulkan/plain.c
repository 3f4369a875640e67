/* Norms, element-wise ops, and what vision towers need beside them. */
#include "dev/vulkan/vulkan.h"

#include <string.h>

/* Push constants of each.comp. */
typedef struct each_args {
    ft_vk_mat y, x, z;
    uint64_t p, q;
    float f, g;
    int32_t i, acc;
} each_args;

/* rows: of the grid; each workgroup has 256 of y's columns. */
static void each(ft_vk *v, enum ft_vk_each op, const each_args *a, int rows)
{
    const size_t columns = (size_t)a->y.H * (size_t)a->y.d;
    FT_VK_RUN(v, FT_VK_EACH, FT_VK_SPEC(op), *a, ft_vk_groups(columns, 256), (size_t)rows, 1);
}

void ft_vk_act_mul(ft_dev *d, ft_mat y, ft_mat g, ft_mat u, ft_act act)
{
    const each_args a = {
        .y = ft_vk_mat_of(y), .x = ft_vk_mat_of(g), .z = ft_vk_mat_of(u), .i = act};
    each((ft_vk *)d, FT_VK_ACT_MUL, &a, y.T);
}

void ft_vk_act_mul_by(ft_vk *v, ft_mat y, ft_mat g, ft_mat u, ft_act act, ft_mat s)
{
    const each_args a = {.y = ft_vk_mat_of(y),
                         .x = ft_vk_mat_of(g),
                         .z = ft_vk_mat_of(u),
                         .p = ft_vk_address(s.p),
                         .i = act,
                         .acc = s.rs};
    each(v, FT_VK_ACT_MUL, &a, y.T);
}

void ft_vk_sigmoid_mul(ft_dev *d, ft_mat y, ft_mat g)
{
    const each_args a = {.y = ft_vk_mat_of(y), .x = ft_vk_mat_of(g)};
    if (!ft_vk_attend_gate((ft_vk *)d, y, g)) each((ft_vk *)d, FT_VK_SIGMOID_MUL, &a, y.T);
}

void ft_vk_add(ft_dev *d, ft_mat y, ft_mat x, float scale)
{
    const each_args a = {.y = ft_vk_mat_of(y), .x = ft_vk_mat_of(x), .f = scale};
    each((ft_vk *)d, FT_VK_ADD, &a, y.T);
}

void ft_vk_softcap(ft_dev *d, ft_mat y, float c)
{
    const each_args a = {.y = ft_vk_mat_of(y), .f = c};
    each((ft_vk *)d, FT_VK_SOFTCAP, &a, y.T);
}

/* The shader reads the address of the rows' array from the batch: it may be another one when the
 * step is submitted again. */
static void rows_of(ft_dev *d, enum ft_vk_each op, ft_mat y, ft_mat x, int which, int rows)
{
    ft_vk *v = (ft_vk *)d;
    const each_args a = {
        .y = ft_vk_mat_of(y), .x = ft_vk_mat_of(x), .q = v->batch_mem.address, .i = which};
    each(v, op, &a, rows);
}

void ft_vk_gather(ft_dev *d, ft_mat y, ft_mat x, int which)
{
    rows_of(d, FT_VK_GATHER, y, x, which, y.T);
}

void ft_vk_scatter(ft_dev *d, ft_mat y, ft_mat x)
{
    rows_of(d, FT_VK_SCATTER, y, x, 0, x.T);
}

void ft_vk_image_rows(ft_dev *d, ft_mat y, ft_mat x)
{
    rows_of(d, FT_VK_IMAGE_ROWS, y, x, 0, y.T);
}

void ft_vk_affine(ft_dev *d, ft_mat y, ft_vec b, ft_vec w, ft_act act)
{
    const each_args a = {
        .y = ft_vk_mat_of(y), .p = ft_vk_address(b.p), .q = ft_vk_address(w.p), .i = act};
    each((ft_vk *)d, FT_VK_AFFINE, &a, y.T);
}

void ft_vk_clamp(ft_dev *d, ft_mat y, ft_mat x, float lo, float hi)
{
    const each_args a = {.y = ft_vk_mat_of(y), .x = ft_vk_mat_of(x), .f = lo, .g = hi};
    each((ft_vk *)d, FT_VK_CLAMP, &a, y.T);
}

void ft_vk_mix(ft_dev *d, ft_mat y, ft_mat x, ft_mixing m, bool acc)
{
    const each_args a = {.y = ft_vk_mat_of(y),
                         .x = ft_vk_mat_of(x),
                         .p = ft_vk_address(m.row),
                         .q = ft_vk_address(m.w),
                         .i = m.n,
                         .acc = acc};
    each((ft_vk *)d, FT_VK_MIX, &a, y.T);
}

void ft_vk_minus_inf(ft_vk *v, ft_mat y)
{
    const each_args a = {.y = ft_vk_mat_of(y)};
    each(v, FT_VK_MINUS_INF, &a, y.T);
}

void ft_vk_combine(ft_vk *v, ft_mat y, ft_mat x, const float *w, int K, bool acc)
{
    const each_args a = {
        .y = ft_vk_mat_of(y), .x = ft_vk_mat_of(x), .q = ft_vk_address(w), .i = K, .acc = acc};
    FT_VK_RUN(v, FT_VK_EACH, FT_VK_SPEC(FT_VK_COMBINE, (uint32_t)K), a,
              ft_vk_groups((size_t)ft_mat_cols(y), 256), (size_t)y.T, 1);
}

/* ---- norms ---- */

/* Push constants of norm.comp. */
typedef struct norm_args {
    ft_vk_mat y, x, z;
    uint64_t w, b;
    float eps, scale;
    int32_t acc, K;
} norm_args;

static void norm(ft_dev *d, enum ft_vk_norm op, const norm_args *a, int rows)
{
    const bool wide = ((ft_vk *)d)->props.limits.maxComputeWorkGroupInvocations >= 1024;
    const uint32_t threads = a->x.d <= 512 ? 64 : a->x.d <= 2048 || !wide ? 256 : 1024;
    FT_VK_RUN((ft_vk *)d, FT_VK_NORM, FT_VK_SPEC(op, threads, (uint32_t)a->K), *a, (size_t)a->x.H,
              (size_t)rows, 1);
}

/* The last command, if it is a dispatch of a shader and op; NULL otherwise. */
static const ft_vk_command *last_dispatch(const ft_vk *v, ft_vk_shader shader, uint32_t op)
{
    const ft_vk_command *c = v->cmd && v->n_list ? &v->list[v->n_list - 1] : NULL;
    return c && c->kind == FT_VK_DISPATCH && c->pipeline->shader == shader &&
                   c->pipeline->spec[0] == op
               ? c
               : NULL;
}

ft_vk_normed ft_vk_norm_of(const ft_vk *v, ft_mat x)
{
    const ft_vk_command *c = last_dispatch(v, FT_VK_NORM, FT_VK_RMS);
    norm_args a;
    if (!c || x.T != 1 || x.H != 1) return (ft_vk_normed){0};
    memcpy(&a, c->push, sizeof a);
    if (c->grid[0] != 1 || c->grid[1] != 1 || a.y.p != ft_vk_address(x.p) || a.x.p == a.y.p ||
        a.x.d != x.d || !a.w || a.w % 16 || a.x.p % 16 || c->pipeline->spec[1] < 256)
        return (ft_vk_normed){0};
    return (ft_vk_normed){a.x.p, a.w, a.eps, c->pipeline->spec[1]};
}

/* If the last op has added the results of experts to rows whose norm is computed now, one dispatch
 * does both. */
static bool join_combine(ft_vk *v, norm_args *a, ft_mat x)
{
    enum { ROWS = 64 }; /* more rows fill the device with one value per invocation */
    const ft_vk_command *c = last_dispatch(v, FT_VK_EACH, FT_VK_COMBINE);
    each_args e;
    if (!c) return false;
    memcpy(&e, c->push, sizeof e);
    if (e.y.p != ft_vk_address(x.p) || e.y.rs != x.rs || e.y.d != x.d || e.y.H != 1 || x.H != 1 ||
        c->grid[1] != (uint32_t)x.T || x.T > ROWS)
        return false;
    a->z = e.x;
    a->b = e.q;
    a->acc = e.acc;
    a->K = e.i;
    v->n_list--;
    v->dirty = false; /* the barrier before it */
    return true;
}

void ft_vk_rmsnorm(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, float eps)
{
    norm_args a = {.y = ft_vk_mat_of(y), .x = ft_vk_mat_of(x), .w = ft_vk_address(w.p), .eps = eps};
    const bool joined = join_combine((ft_vk *)d, &a, x);
    norm(d, joined ? FT_VK_SUM : FT_VK_RMS, &a, x.T);
}

/* Queries are rotated while keys and values are stored: those read k and v alone. */
static void beside_kv_put(ft_vk *v, ft_mat x)
{
    const ft_vk_command *c = v->cmd && v->n_list ? &v->list[v->n_list - 1] : NULL;
    ft_vk_mat kv[2]; /* the first push constants of kv_put.comp */
    if (!c || c->kind != FT_VK_DISPATCH || c->pipeline->shader != FT_VK_KV_PUT) return;
    memcpy(kv, c->push, sizeof kv);
    if (kv[0].p != ft_vk_address(x.p) && kv[1].p != ft_vk_address(x.p)) ft_vk_beside(v);
}

void ft_vk_norm_rope(ft_dev *d, ft_mat x, ft_vec w, float eps, ft_mat cs)
{
    const norm_args a = {.y = ft_vk_mat_of(x),
                         .x = ft_vk_mat_of(x),
                         .z = ft_vk_mat_of(cs),
                         .w = eps < 0 ? 0 : ft_vk_address(w.p),
                         .eps = eps};
    beside_kv_put((ft_vk *)d, x);
    norm(d, FT_VK_ROPE, &a, x.T);
}

bool ft_vk_take_rotation(ft_vk *v, ft_mat k, ft_mat values, ft_vk_rotation *r)
{
    enum { WIDEST = 512 }; /* norms of 64 invocations */
    const ft_vk_command *c = last_dispatch(v, FT_VK_NORM, FT_VK_ROPE);
    const ft_vk_mat m = ft_vk_mat_of(k);
    norm_args a;
    if (!c || v->n_list < 2 || c[-1].kind != FT_VK_BARRIER) return false;
    memcpy(&a, c->push, sizeof a);
    if (memcmp(&a.x, &m, sizeof m) || c->grid[1] != (uint32_t)k.T || k.d > WIDEST ||
        ft_vk_address(values.p) == m.p)
        return false;
    *r = (ft_vk_rotation){a.z, a.w, a.eps};
    v->n_list--;
    v->dirty = false; /* the barrier before it */
    return true;
}

void ft_vk_gated_norm(ft_dev *d, ft_mat y, ft_mat o, ft_mat z, ft_vec w, float eps)
{
    const norm_args a = {.y = ft_vk_mat_of(y),
                         .x = ft_vk_mat_of(o),
                         .z = ft_vk_mat_of(z),
                         .w = ft_vk_address(w.p),
                         .eps = eps};
    assert(y.d == o.d && z.d == o.d);
    if (ft_vk_delta_norm((ft_vk *)d, y, o, z, w, eps)) return;
    norm(d, FT_VK_GATED, &a, o.T);
}

void ft_vk_norm_add(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, float eps, float scale,
                    const ft_norm_out *o, int n)
{
    const norm_args a = {.y = ft_vk_mat_of(y),
                         .x = ft_vk_mat_of(x),
                         .w = ft_vk_address(w.p),
                         .eps = eps,
                         .scale = scale};
    norm(d, FT_VK_NORM_ADD, &a, y.T);
    for (int i = 0; i < n; i++) ft_vk_rmsnorm(d, o[i].y, y, o[i].w, eps);
}

void ft_vk_layernorm(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, ft_vec b, float eps)
{
    const norm_args a = {.y = ft_vk_mat_of(y),
                         .x = ft_vk_mat_of(x),
                         .w = ft_vk_address(w.p),
                         .b = ft_vk_address(b.p),
                         .eps = eps};
    norm(d, FT_VK_LAYER, &a, x.T);
}

void ft_vk_rope_angles(ft_dev *d, ft_mat cs, const ft_rope *r)
{
    ft_vk *v = (ft_vk *)d;
    const struct {
        ft_vk_mat cs;
        uint64_t freq, axis, batch;
        float mscale;
    } a = {ft_vk_mat_of(cs), ft_vk_address(r->freq), ft_vk_address(r->axis), v->batch_mem.address,
           r->mscale};
    FT_VK_RUN(v, FT_VK_ANGLES, FT_VK_SPEC(0), a, ft_vk_groups((size_t)r->n / 2, 64), (size_t)cs.T,
              1);
}

/* A wide row is shared by workgroups; the scratch of few rows does not grow. */
void ft_vk_argmax(ft_dev *d, int32_t *id, ft_mat x)
{
    enum { WIDE = 8192, PARTS = 64 };
    ft_vk *v = (ft_vk *)d;
    struct {
        ft_vk_mat x;
        uint64_t id, w;
        int32_t K;
    } a = {.x = ft_vk_mat_of(x), .id = ft_vk_address(id)};
    const size_t n = (size_t)ft_mat_cols(x), T = (size_t)x.T;
    if (n <= WIDE) {
        FT_VK_RUN(v, FT_VK_SELECT, FT_VK_SPEC(FT_VK_ARGMAX), a, T, 1, 1);
        return;
    }
    a.K = (int32_t)FT_MIN(ft_vk_groups(n, WIDE / 2), (size_t)PARTS);
    a.w = ft_vk_scratch(v, FT_VK_SCRATCH_ARGMAX,
                        FT_MAX(T, (size_t)FT_SHAPE_ROWS) * PARTS * sizeof(int32_t));
    if (!a.w) return;
    FT_VK_RUN(v, FT_VK_SELECT, FT_VK_SPEC(FT_VK_PART), a, T, (size_t)a.K, 1);
    FT_VK_RUN(v, FT_VK_SELECT, FT_VK_SPEC(FT_VK_JOIN_PARTS), a, T, 1, 1);
}
