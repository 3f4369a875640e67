/* The ops of a split device: each chooses its device, copies its inputs there if needed, and
 * marks what it wrote. */
#include "dev/split_priv.h"

#include "base/mem.h"

#include <string.h>

typedef enum use { READ, WRITE, CHANGE } use; /* CHANGE: read and written */

/* A view with gaps: the values in between belong to other matrices and must stay valid. */
static bool has_gaps(ft_mat m)
{
    return (m.H > 1 && m.hs != m.d) || (m.T > 1 && m.rs != m.H * m.d);
}

static void *bytes_on(ft_split *s, const void *p, size_t n, int side, use u)
{
    if (n && u != WRITE) ft_split_need(s, p, n, side);
    if (n && u != READ) ft_split_wrote(s, p, n, side);
    return ft_split_at(s, p, side);
}

/* The matrix on this device, for this use. */
static ft_mat mat_on(ft_split *s, ft_mat m, int side, use u)
{
    m.p = bytes_on(s, m.p, ft_mat_extent(m), side, u == WRITE && has_gaps(m) ? CHANGE : u);
    return m;
}

/* The device on which a matrix is valid; the last if there are several. */
static int side_of(const ft_split *s, ft_mat m)
{
    return ft_split_last(ft_split_valid(s, m.p, ft_mat_extent(m)));
}

static int vec_side(const ft_split *s, ft_vec w, ft_mat m)
{
    return w.p ? ft_split_of(s, w.p) : side_of(s, m);
}

#define ENTER(SIDE)                                                                                \
    ft_split *s = (ft_split *)d;                                                                   \
    const int side = (SIDE)

/* Calls the op; all copies that its arguments need have been made. */
#define RUN(OP, ...)                                                                               \
    do {                                                                                           \
        ft_dev *h = ft_split_op(s, side);                                                          \
        h->op->OP(h, __VA_ARGS__);                                                                 \
    } while (0)

/* ---- products ---- */

static void sigmoid_mul(ft_dev *d, ft_mat y, ft_mat g);

void ft_split_need_drawn(ft_split *s, int side)
{
    const ft_batch *b = s->dev.batch;
    const ft_split_mem *m = b->drawn ? ft_split_find(s, b->drawn) : NULL;
    const bool capturing = s->plans.capturing;
    int n = 0;
    if (capturing && s->plans.to) s->plans.to->embeds |= UINT64_C(1) << side;
    for (int t = 0; m && t < b->T; t++)
        if (b->token[t] < 0) n = FT_MAX(FT_MAX(n, (int)FT_SHAPE_ROWS), -b->token[t]);
    if (!n) return;
    const size_t left = m->bytes - (size_t)((uintptr_t)b->drawn - (uintptr_t)m->known);
    s->plans.capturing = false;
    ft_split_need(s, b->drawn, FT_MIN(left, (size_t)n * sizeof *b->drawn), side);
    s->plans.capturing = capturing;
}

static void embed(ft_dev *d, ft_mat y, const ft_weight *w, float scale)
{
    ENTER(w->side);
    const ft_mat to = mat_on(s, y, side, WRITE);
    ft_split_need_drawn(s, side);
    RUN(embed, to, w, scale);
}

static void linear(ft_dev *d, ft_mat y, ft_mat x, const ft_weight *w, bool acc)
{
    ENTER(w->side);
    const ft_mat from = mat_on(s, x, side, READ);
    const ft_mat to = mat_on(s, y, side, acc ? CHANGE : WRITE);
    RUN(linear, to, from, w, acc);
}

static void linears(ft_dev *d, const ft_product_out *o, int n, ft_mat x)
{
    enum { MOST = 8 };
    ft_product_out part[MOST];
    ft_split *s = (ft_split *)d;
    for (int side = 0; side < s->n; side++) {
        int m = 0;
        assert(n <= MOST);
        for (int i = 0; i < n; i++)
            if (o[i].w->side == side) part[m++] = o[i];
        if (!m) continue;
        const ft_mat from = mat_on(s, x, side, READ);
        for (int i = 0; i < m; i++) part[i].y = mat_on(s, part[i].y, side, WRITE);
        RUN(linears, part, m, from);
    }
}

static void glu(ft_dev *d, ft_mat y, ft_mat u, ft_mat x, const ft_weight *gate, const ft_weight *up,
                ft_act act)
{
    ENTER(gate->side);
    const ft_mat from = mat_on(s, x, side, READ), scratch = mat_on(s, u, side, WRITE);
    const ft_mat to = mat_on(s, y, side, WRITE);
    RUN(glu, to, scratch, from, gate, up, act);
}

static void route(ft_dev *d, ft_expert_choice r, ft_mat x)
{
    ENTER(side_of((const ft_split *)d, x));
    const size_t n = (size_t)x.T * (size_t)r.K * 4;
    const ft_mat from = mat_on(s, x, side, READ);
    r.id = bytes_on(s, r.id, n, side, WRITE);
    r.w = bytes_on(s, r.w, n, side, WRITE);
    RUN(route, r, from);
}

static void moe(ft_dev *d, ft_mat y, ft_mat x, const ft_experts *e, ft_expert_choice r, ft_mat tmp,
                bool acc)
{
    const bool spread = e->down.side == FT_SPLIT_SPREAD;
    ENTER(spread ? side_of((const ft_split *)d, x) : e->down.side);
    const size_t n = (size_t)x.T * (size_t)r.K * 4;
    const ft_mat from = mat_on(s, x, side, READ);
    r.id = bytes_on(s, r.id, n, side, READ);
    r.w = bytes_on(s, r.w, n, side, READ);
    const ft_mat to = mat_on(s, y, side, acc ? CHANGE : WRITE);
    if (spread) {
        ft_split_moe_spread(s, side, to, from, e, r, tmp, acc);
        return;
    }
    const ft_mat scratch = mat_on(s, tmp, side, WRITE);
    RUN(moe, to, from, e, r, scratch, acc);
}

static void expert_linear(ft_dev *d, ft_mat y, ft_mat x, const ft_weight *w, ft_expert_choice r,
                          bool acc)
{
    ENTER(w->side);
    const ft_mat from = mat_on(s, x, side, READ);
    const size_t n = (size_t)y.T * 4;
    r.id = bytes_on(s, r.id, n, side, READ);
    r.w = bytes_on(s, r.w, n, side, READ);
    const ft_mat to = mat_on(s, y, side, acc ? CHANGE : WRITE);
    RUN(expert_linear, to, from, w, r, acc);
}

/* One op if the device has it and all weights; else its parts, in the same order. */
static void moe_shared(ft_dev *d, ft_mat y, ft_mat x, const ft_experts *e, ft_expert_choice r,
                       ft_mat tmp, const ft_shared_expert *sh)
{
    ENTER(e->down.side);
    if (side == FT_SPLIT_SPREAD || !s->part[side]->op->moe_shared || sh->gate->side != side ||
        sh->down->side != side) {
        glu(d, sh->g, sh->u, x, sh->gate, sh->up, e->act);
        sigmoid_mul(d, sh->g, sh->s);
        linear(d, y, sh->g, sh->down, true);
        moe(d, y, x, e, r, tmp, true);
        return;
    }
    const size_t n = (size_t)x.T * (size_t)r.K * 4;
    ft_shared_expert here = *sh;
    here.s = mat_on(s, sh->s, side, READ);
    here.g = mat_on(s, sh->g, side, WRITE);
    here.u = mat_on(s, sh->u, side, WRITE);
    const ft_mat from = mat_on(s, x, side, READ), scratch = mat_on(s, tmp, side, WRITE);
    r.id = bytes_on(s, r.id, n, side, READ);
    r.w = bytes_on(s, r.w, n, side, READ);
    const ft_mat to = mat_on(s, y, side, CHANGE);
    RUN(moe_shared, to, from, e, r, scratch, &here);
}

static void centroid_head(ft_dev *d, ft_mat y, ft_mat x, ft_mat score, const ft_weight *w,
                          const int32_t *order, int top)
{
    ENTER(w->side);
    const ft_mat from = mat_on(s, x, side, READ), scores = mat_on(s, score, side, READ);
    const ft_mat to = mat_on(s, y, side, WRITE);
    RUN(centroid_head, to, from, scores, w, order, top);
}

/* ---- norms, RoPE, element-wise ops ---- */

static void rmsnorm(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, float eps)
{
    ENTER(vec_side((const ft_split *)d, w, x));
    const ft_mat from = mat_on(s, x, side, READ);
    const ft_mat to = mat_on(s, y, side, WRITE);
    RUN(rmsnorm, to, from, w, eps);
}

static void gated_norm(ft_dev *d, ft_mat y, ft_mat o, ft_mat z, ft_vec w, float eps)
{
    ENTER(vec_side((const ft_split *)d, w, o));
    const ft_mat from = mat_on(s, o, side, READ), gate = mat_on(s, z, side, READ);
    const ft_mat to = mat_on(s, y, side, WRITE);
    RUN(gated_norm, to, from, gate, w, eps);
}

/* All layers need the angles: computing them on every device is cheaper than a copy, for which the
 * devices would have to wait. */
static void rope_angles(ft_dev *d, ft_mat cs, const ft_rope *r)
{
    ft_split *s = (ft_split *)d;
    for (int side = 0; side < s->n; side++) {
        if (!(s->busy >> side & 1)) continue;
        ft_mat to = cs;
        ft_rope here = *r;
        to.p = ft_split_at(s, cs.p, side);
        here.freq = ft_split_at(s, r->freq, side);
        here.axis = ft_split_at(s, r->axis, side);
        RUN(rope_angles, to, &here);
    }
    ft_split_wrote_all(s, cs.p, ft_mat_extent(cs), s->busy);
}

static void norm_rope(ft_dev *d, ft_mat x, ft_vec w, float eps, ft_mat cs)
{
    ENTER(vec_side((const ft_split *)d, w, x));
    const ft_mat angles = mat_on(s, cs, side, READ);
    const ft_mat to = mat_on(s, x, side, CHANGE);
    RUN(norm_rope, to, w, eps, angles);
}

static void act_mul(ft_dev *d, ft_mat y, ft_mat g, ft_mat u, ft_act act)
{
    ENTER(side_of((const ft_split *)d, g));
    const ft_mat a = mat_on(s, g, side, READ), b = mat_on(s, u, side, READ);
    const ft_mat to = mat_on(s, y, side, WRITE);
    RUN(act_mul, to, a, b, act);
}

static void sigmoid_mul(ft_dev *d, ft_mat y, ft_mat g)
{
    ENTER(side_of((const ft_split *)d, y));
    const ft_mat gate = mat_on(s, g, side, READ);
    const ft_mat to = mat_on(s, y, side, CHANGE);
    RUN(sigmoid_mul, to, gate);
}

static void add(ft_dev *d, ft_mat y, ft_mat x, float scale)
{
    ENTER(side_of((const ft_split *)d, x));
    const ft_mat from = mat_on(s, x, side, READ);
    const ft_mat to = mat_on(s, y, side, CHANGE);
    RUN(add, to, from, scale);
}

/* Norms whose weights are on another device (that of the next layer) are computed there. */
static void norm_add(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, float eps, float scale,
                     const ft_norm_out *o, int n)
{
    ENTER(vec_side((const ft_split *)d, w, x));
    ft_norm_out here[FT_NORMS];
    int m = 0;
    const ft_mat from = mat_on(s, x, side, READ), to = mat_on(s, y, side, CHANGE);
    for (int i = 0; i < n; i++)
        if (vec_side(s, o[i].w, y) == side)
            here[m++] = (ft_norm_out){mat_on(s, o[i].y, side, WRITE), o[i].w};
    RUN(norm_add, to, from, w, eps, scale, here, m);
    for (int i = 0; i < n; i++)
        if (vec_side(s, o[i].w, y) != side) rmsnorm(d, o[i].y, y, o[i].w, eps);
}

static void softcap(ft_dev *d, ft_mat y, float c)
{
    ENTER(side_of((const ft_split *)d, y));
    const ft_mat to = mat_on(s, y, side, CHANGE);
    RUN(softcap, to, c);
}

static void gather(ft_dev *d, ft_mat y, ft_mat x, int which)
{
    ENTER(side_of((const ft_split *)d, x));
    const ft_mat from = mat_on(s, x, side, READ);
    const ft_mat to = mat_on(s, y, side, WRITE);
    RUN(gather, to, from, which);
}

static void scatter(ft_dev *d, ft_mat y, ft_mat x)
{
    ENTER(side_of((const ft_split *)d, x));
    const ft_mat from = mat_on(s, x, side, READ);
    const ft_mat to = mat_on(s, y, side, CHANGE);
    RUN(scatter, to, from);
}

/* A tower runs on one device alone: of its ops these two are all that the text model calls. */
static void image_rows(ft_dev *d, ft_mat y, ft_mat x)
{
    ENTER(side_of((const ft_split *)d, y));
    const ft_mat from = mat_on(s, x, side, READ);
    const ft_mat to = mat_on(s, y, side, CHANGE);
    RUN(image_rows, to, from);
}

static void mix(ft_dev *d, ft_mat y, ft_mat x, ft_mixing m, bool acc)
{
    ENTER(side_of((const ft_split *)d, x));
    const size_t n = (size_t)y.T * (size_t)m.n * 4;
    const ft_mat from = mat_on(s, x, side, READ);
    m.row = bytes_on(s, m.row, n, side, READ);
    m.w = bytes_on(s, m.w, n, side, READ);
    const ft_mat to = mat_on(s, y, side, acc ? CHANGE : WRITE);
    RUN(mix, to, from, m, acc);
}

static void argmax(ft_dev *d, int32_t *id, ft_mat x)
{
    ENTER(side_of((const ft_split *)d, x));
    const ft_mat from = mat_on(s, x, side, READ);
    int32_t *const to = bytes_on(s, id, (size_t)x.T * sizeof *id, side, WRITE);
    RUN(argmax, to, from);
}

/* On the device of the output layer. The results are anywhere before y, in the same allocation. */
static void draw(ft_dev *d, ft_drawn *y, ft_mat x)
{
    ENTER(ft_split_output_side(&((const ft_split *)d)->rule));
    const ft_mat from = mat_on(s, x, side, READ);
    const ft_split_mem *m = ft_split_find(s, y);
    assert(m && m->side < 0);
    ft_split_wrote(s, m->known, (size_t)((uintptr_t)y - (uintptr_t)m->known), side);
    ft_drawn *const to = ft_split_at(s, y, side);
    RUN(draw, to, from);
}

/* ---- caches and states ---- */

static void kv_put(ft_dev *d, const ft_kv *kv, ft_mat k, ft_mat v)
{
    ENTER(ft_split_of((const ft_split *)d, kv->k));
    const ft_mat keys = mat_on(s, k, side, READ);
    const ft_mat values = mat_on(s, v, side, READ);
    RUN(kv_put, kv, keys, values);
}

static void attend(ft_dev *d, ft_mat o, ft_mat q, const ft_kv *kv, ft_attn p)
{
    ENTER(ft_split_of((const ft_split *)d, kv->k));
    const ft_mat from = mat_on(s, q, side, READ);
    const ft_mat to = mat_on(s, o, side, WRITE);
    RUN(attend, to, from, kv, p);
}

static void conv(ft_dev *d, ft_mat y, ft_mat u, ft_vec w, const ft_delta *m)
{
    ENTER(ft_split_of((const ft_split *)d, m->conv));
    const ft_mat from = mat_on(s, u, side, READ);
    const ft_mat to = mat_on(s, y, side, WRITE);
    RUN(conv, to, from, w, m);
}

static void delta_rule(ft_dev *d, ft_mat o, ft_mat y, ft_mat a, ft_mat b, ft_vec A, ft_vec dt,
                       const ft_delta *m)
{
    ENTER(ft_split_of((const ft_split *)d, m->state));
    const ft_mat in = mat_on(s, y, side, READ), decay = mat_on(s, a, side, READ);
    const ft_mat beta = mat_on(s, b, side, READ);
    const ft_mat to = mat_on(s, o, side, WRITE);
    RUN(delta_rule, to, in, decay, beta, A, dt, m);
}

const ft_ops ft_split_ops = {
    .embed = embed,
    .rmsnorm = rmsnorm,
    .linear = linear,
    .linears = linears,
    .glu = glu,
    .rope_angles = rope_angles,
    .norm_rope = norm_rope,
    .kv_put = kv_put,
    .attend = attend,
    .act_mul = act_mul,
    .sigmoid_mul = sigmoid_mul,
    .add = add,
    .norm_add = norm_add,
    .softcap = softcap,
    .gather = gather,
    .argmax = argmax,
    .draw = draw,
    .scatter = scatter,
    .conv = conv,
    .delta_rule = delta_rule,
    .gated_norm = gated_norm,
    .route = route,
    .moe = moe,
    .expert_linear = expert_linear,
    .moe_shared = moe_shared,
    .centroid_head = centroid_head,
    .mix = mix,
    .image_rows = image_rows,
};
