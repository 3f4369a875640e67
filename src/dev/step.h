/* dev/step.h - one step as a model sees it: the device, the batch, and memory for activations.
 * The wrappers around the ops check shapes, and report activations to a probe and op times to a
 * profile when these are set. */
#ifndef FT_DEV_STEP_H
#define FT_DEV_STEP_H

#include "dev/profile.h"

typedef struct ft_step ft_step;
typedef void ft_probe_fn(void *user, const ft_step *s, const char *what, int layer, ft_mat m);

/* Adapters of a step. */
typedef struct ft_step_lora {
    uint32_t active;    /* bit i: adapter i has a scale other than 0 for a row; 0: none has */
    const float *scale; /* on the device: for each adapter the scales of the T rows, then those of
                         * the n_out output rows */
    const int32_t *row; /* on the device: 0, 1, 2, ... */
    bool out;           /* the pass goes on with the output rows alone */
} ft_step_lora;

enum { FT_LORA_MAX = 16, FT_LORA_PRODUCTS = 4 }; /* adapters; products of one input */

struct ft_step {
    ft_dev *dev;
    const ft_batch *b;
    int T, n_out;

    /* Activations: allocated one behind the other, from the start in every step. */
    float *arena;
    size_t arena_used, arena_cap; /* values */

    const ft_kv *kv;       /* [layer]: keys and values of the layers that have a cache */
    const ft_delta *delta; /* [layer] */
    ft_mat hidden_in;      /* [T, D]: hidden states that a draft pass starts from */
    ft_mat images;         /* [any, D]: image rows, by batch.image_row */
    ft_mat hidden;         /* hidden states after the final norm: T rows, n_out in a draft pass */
    ft_mat logits;         /* [n_out, V] */
    ft_probe_fn *probe;
    void *probe_user;
    ft_profile *profile; /* or NULL */
    int layer;           /* current layer, for the profile */
    ft_step_lora lora;
};

/* The next [T, n] matrix of the step's activations. With arena == NULL only the size is computed.
 */
static inline ft_mat ft_take_rows(ft_step *s, int T, int n)
{
    const size_t want = (size_t)T * (size_t)((n + 15) / 16 * 16);
    float *p = s->arena ? s->arena + s->arena_used : NULL;
    assert(!s->arena || s->arena_used + want <= s->arena_cap);
    s->arena_used += want;
    return ft_mat_at(p, T, n);
}

static inline ft_mat ft_take(ft_step *s, int n)
{
    return ft_take_rows(s, s->T, n);
}

/* The same for a matrix that only products with rounded weights read. */
static inline ft_mat ft_take_operand(ft_step *s, int T, int n)
{
    ft_mat m = ft_take_rows(s, (T + FT_OPERAND_ROWS - 1) / FT_OPERAND_ROWS * FT_OPERAND_ROWS, n);
    m.T = T;
    m.operand = s->dev && s->dev->op->dense && n >= 32;
    return m;
}

static inline void ft_probe(const ft_step *s, const char *what, int layer, ft_mat m)
{
    if (s->probe) s->probe(s->probe_user, s, what, layer, m);
}

/* Layer l begins, with input x; l == L: the ops after the last layer. */
static inline void ft_layer_begin(ft_step *s, int l, ft_mat x)
{
    s->layer = l;
    ft_probe(s, "layer_in", l, x);
}

/* Adds the op that was just called to the profile. */
static inline void ft_count_op(ft_step *s, const char *op, double bytes, double flops)
{
    if (s->profile) ft_profile_op(s->profile, s->dev, op, s->layer, bytes, flops);
}

/* The values of a matrix. */
static inline double ft_mat_values(ft_mat m)
{
    return (double)m.T * ft_mat_cols(m);
}

static inline void ft_count_product(ft_step *s, ft_mat y, ft_mat x, const ft_weight *w)
{
    ft_count_op(s, "linear",
                (double)w->row_bytes * w->n + 4 * (ft_mat_values(y) + ft_mat_values(x)),
                2.0 * y.T * w->n * w->k);
}

/* An op that reads `read` values and writes those of y, with `each` operations per value. */
static inline void ft_count_values(ft_step *s, const char *op, ft_mat y, double read, double each)
{
    ft_count_op(s, op, 4 * (ft_mat_values(y) + read), each * ft_mat_values(y));
}

static inline bool ft_same_shape(ft_mat a, ft_mat b)
{
    return a.T == b.T && ft_mat_cols(a) == ft_mat_cols(b);
}

/* dev/lora.c: what the active adapters add to products with w: y += scale B A x; the same for rows
 * of a table; and the ops that a fused one consists of, where adapters change their inputs. */
void ft_lora_linears(ft_step *s, const ft_product_out *o, int n, ft_mat x);
void ft_lora_embed(ft_step *s, ft_mat y, const ft_weight *w, float scale);
void ft_lora_glu(ft_step *s, ft_mat y, ft_mat u, ft_mat x, const ft_weight *gate,
                 const ft_weight *up, ft_act act);
void ft_lora_shared_expert(ft_step *s, ft_mat y, ft_mat x, const ft_shared_expert *sh, ft_act act);
/* What they add to the routed experts: called after moe. */
void ft_lora_experts(ft_step *s, ft_mat y, ft_mat x, const ft_experts *e, ft_expert_choice r);

enum { FT_LORA_ROWS = 64 }; /* rows whose experts are computed at a time */
/* The sizes of a model that decide how many values these need. */
typedef struct ft_lora_sizes {
    int rank;   /* highest */
    int shared; /* widest shared expert that an adapter changes, inputs or outputs; 0: none */
    int routed; /* the same of the routed experts */
    int chosen; /* experts of a row */
} ft_lora_sizes;
size_t ft_lora_arena(int T, const ft_lora_sizes *n); /* for T rows */
int ft_lora_rows(int T, const ft_lora_sizes *n);     /* entries of ft_step_lora.row */

static inline void ft_lora_linear(ft_step *s, ft_mat y, ft_mat x, const ft_weight *w)
{
    const ft_product_out o = {y, w};
    ft_lora_linears(s, &o, 1, x);
}

static inline bool ft_adapted(const ft_step *s, const ft_weight *w)
{
    return s->lora.active && w->lora;
}

static inline void ft_embed(ft_step *s, ft_mat y, const ft_weight *w, float scale)
{
    assert(ft_mat_cols(y) == w->k);
    s->dev->op->embed(s->dev, y, w, scale);
    ft_count_op(s, "embed", y.T * (double)w->row_bytes + 4 * ft_mat_values(y), ft_mat_values(y));
    if (ft_adapted(s, w)) ft_lora_embed(s, y, w, scale);
}

static inline void ft_rmsnorm(ft_step *s, ft_mat y, ft_mat x, ft_vec w, float eps)
{
    assert(ft_same_shape(y, x) && y.d == x.d && (!w.p || w.n == x.d));
    s->dev->op->rmsnorm(s->dev, y, x, w, eps);
    ft_count_values(s, "rmsnorm", y, ft_mat_values(x), 4);
}

static inline void ft_linear(ft_step *s, ft_mat y, ft_mat x, const ft_weight *w)
{
    assert(ft_mat_cols(y) == w->n && ft_mat_cols(x) == w->k && y.T == x.T && x.hs == x.d);
    s->dev->op->linear(s->dev, y, x, w, false);
    ft_count_product(s, y, x, w);
    if (ft_adapted(s, w)) ft_lora_linear(s, y, x, w);
}

static inline void ft_linear_add(ft_step *s, ft_mat y, ft_mat x, const ft_weight *w) /* y += W x */
{
    assert(ft_mat_cols(y) == w->n && ft_mat_cols(x) == w->k && y.T == x.T && x.hs == x.d);
    s->dev->op->linear(s->dev, y, x, w, true);
    ft_count_product(s, y, x, w);
    if (ft_adapted(s, w)) ft_lora_linear(s, y, x, w);
}

static inline void ft_count_linears(ft_step *s, const char *op, const ft_product_out *o, int n,
                                    ft_mat x)
{
    double bytes = 4 * ft_mat_values(x), flops = 0;
    if (!s->profile) return;
    for (int i = 0; i < n; i++) {
        bytes += (double)o[i].w->row_bytes * o[i].w->n + 4 * ft_mat_values(o[i].y);
        flops += 2.0 * x.T * o[i].w->n * o[i].w->k;
    }
    ft_count_op(s, op, bytes, flops);
}

static inline void ft_linears(ft_step *s, const ft_product_out *o, int n, ft_mat x)
{
    for (int i = 0; i < n; i++)
        assert(ft_mat_cols(o[i].y) == o[i].w->n && ft_mat_cols(x) == o[i].w->k && o[i].y.T == x.T);
    s->dev->op->linears(s->dev, o, n, x);
    ft_count_linears(s, "linears", o, n, x);
    if (s->lora.active) ft_lora_linears(s, o, n, x);
}

/* y = rms(x) * w, then linears of y. */
static inline void ft_norm_linears(ft_step *s, ft_mat y, ft_mat x, ft_vec w, float eps,
                                   const ft_product_out *o, int n)
{
    if (!s->dev->op->norm_linears) {
        ft_rmsnorm(s, y, x, w, eps);
        ft_linears(s, o, n, y);
        return;
    }
    assert(ft_same_shape(y, x) && y.H == 1 && x.H == 1 && (!w.p || w.n == x.d));
    for (int i = 0; i < n; i++)
        assert(ft_mat_cols(o[i].y) == o[i].w->n && ft_mat_cols(y) == o[i].w->k && o[i].y.T == y.T);
    s->dev->op->norm_linears(s->dev, y, x, w, eps, o, n);
    ft_count_linears(s, "norm_linears", o, n, y);
    if (s->lora.active) ft_lora_linears(s, o, n, y);
}

static inline void ft_glu(ft_step *s, ft_mat y, ft_mat u, ft_mat x, const ft_weight *gate,
                          const ft_weight *up, ft_act act)
{
    assert(ft_same_shape(y, u) && ft_mat_cols(y) == gate->n && gate->n == up->n && y.T == x.T);
    assert(ft_mat_cols(x) == gate->k && gate->k == up->k);
    if (ft_adapted(s, gate) || ft_adapted(s, up)) {
        ft_lora_glu(s, y, u, x, gate, up, act);
        return;
    }
    s->dev->op->glu(s->dev, y, u, x, gate, up, act);
    ft_count_op(s, "glu",
                (double)(gate->row_bytes + up->row_bytes) * gate->n +
                    4 * (2 * ft_mat_values(y) + ft_mat_values(x)),
                (4.0 * gate->k + 20) * ft_mat_values(y));
}

static inline void ft_rope_angles(ft_step *s, ft_mat cs, const ft_rope *r)
{
    assert(ft_mat_cols(cs) == r->n);
    s->dev->op->rope_angles(s->dev, cs, r);
    ft_count_values(s, "rope_angles", cs, 0, 20);
}

static inline void ft_norm_rope(ft_step *s, ft_mat x, ft_vec w, float eps, ft_mat cs)
{
    assert(x.T == cs.T && ft_mat_cols(cs) <= x.d && (!w.p || w.n == x.d));
    s->dev->op->norm_rope(s->dev, x, w, eps, cs);
    ft_count_values(s, "norm_rope", x, ft_mat_values(x) + ft_mat_values(cs), 6);
}

static inline void ft_kv_put(ft_step *s, int layer, ft_mat k, ft_mat v)
{
    const ft_kv *kv = &s->kv[layer];
    assert(k.H == kv->G && k.d == kv->d && v.H == kv->G && v.d == kv->d);
    s->dev->op->kv_put(s->dev, kv, k, v);
    if (kv->recent) s->dev->op->kv_put(s->dev, kv->recent, k, v);
    ft_count_op(s, "kv_put",
                4 * (ft_mat_values(k) + ft_mat_values(v)) +
                    (double)k.T * k.H * (double)(kv->k_row + kv->v_row),
                0);
}

static inline void ft_put_heads(ft_step *s, int layer, const ft_qkv *x)
{
    const ft_kv *kv = &s->kv[layer];
    assert(x->k.H == kv->G && x->k.d == kv->d && x->v.H == kv->G && x->v.d == kv->d);
    assert(!x->q.p || (x->q.T == x->k.T && x->q.d == x->k.d));
    if (!s->dev->op->put_heads) {
        if (x->q.p) ft_norm_rope(s, x->q, x->q_norm, x->eps, x->cs);
        if (x->norm_v) ft_rmsnorm(s, x->v, x->v_of_k ? x->k : x->v, (ft_vec){0}, x->eps);
        ft_norm_rope(s, x->k, x->k_norm, x->eps, x->cs);
        ft_kv_put(s, layer, x->k, x->v);
        return;
    }
    s->dev->op->put_heads(s->dev, kv, x);
    ft_count_op(s, "put_heads",
                4 * ((x->q.p ? 2 * ft_mat_values(x->q) : 0) + 2 * ft_mat_values(x->k)) +
                    (double)x->k.T * x->k.H * (double)(kv->k_row + kv->v_row),
                6 * ((x->q.p ? ft_mat_values(x->q) : 0) + ft_mat_values(x->k)));
}

static inline void ft_attend(ft_step *s, int layer, ft_mat o, ft_mat q, ft_attn p)
{
    const ft_kv *kv = &s->kv[layer];
    assert(q.d == kv->d && q.H % kv->G == 0 && o.H == q.H && o.d == q.d && o.T == q.T);
    assert(q.T == (p.out ? s->b->n_out : s->b->T));
    ft_probe(s, "query", layer, q);
    s->dev->op->attend(s->dev, o, q, kv, p);
    if (s->profile) {
        const ft_attended seen = ft_profile_attended(s->b, p);
        ft_count_op(s, "attend",
                    seen.cells * kv->G * (double)(kv->k_row + kv->v_row) +
                        4 * (ft_mat_values(q) + ft_mat_values(o)),
                    4 * seen.pairs * ft_mat_cols(q));
    }
}

static inline void ft_act_mul(ft_step *s, ft_mat y, ft_mat g, ft_mat u, ft_act act)
{
    assert(ft_same_shape(y, g) && ft_same_shape(y, u));
    s->dev->op->act_mul(s->dev, y, g, u, act);
    ft_count_values(s, "act_mul", y, 2 * ft_mat_values(y), 20);
}

static inline void ft_sigmoid_mul(ft_step *s, ft_mat y, ft_mat g)
{
    assert(y.T == g.T && (ft_mat_cols(g) == ft_mat_cols(y) || ft_mat_cols(g) == 1));
    s->dev->op->sigmoid_mul(s->dev, y, g);
    ft_count_values(s, "sigmoid_mul", y, ft_mat_values(y) + ft_mat_values(g), 20);
}

static inline void ft_add(ft_step *s, ft_mat y, ft_mat x, float scale)
{
    assert(ft_same_shape(y, x));
    s->dev->op->add(s->dev, y, x, scale);
    ft_count_values(s, "add", y, 2 * ft_mat_values(y), 2);
}

static inline void ft_norm_add(ft_step *s, ft_mat y, ft_mat x, ft_vec w, float eps, float scale,
                               const ft_norm_out *o, int n)
{
    assert(ft_same_shape(y, x) && y.H == 1 && x.H == 1 && w.n == x.d && n <= FT_NORMS);
    for (int i = 0; i < n; i++)
        assert(ft_same_shape(y, o[i].y) && o[i].y.H == 1 && o[i].w.n == y.d);
    s->dev->op->norm_add(s->dev, y, x, w, eps, scale, o, n);
    ft_count_values(s, "norm_add", y, (2 + n) * ft_mat_values(y), 8 + 4 * n);
}

/* norm_add of rms(x[0].y) * x[0].w + rms(x[1].y) * x[1].w. */
static inline void ft_norm_add_both(ft_step *s, ft_mat y, const ft_norm_out *x, ft_vec w, float eps,
                                    float scale, const ft_norm_out *o, int n)
{
    if (!s->dev->op->norm_add_both) {
        ft_rmsnorm(s, x[0].y, x[0].y, x[0].w, eps);
        ft_norm_add(s, x[0].y, x[1].y, x[1].w, eps, 1, NULL, 0);
        ft_norm_add(s, y, x[0].y, w, eps, scale, o, n);
        return;
    }
    assert(y.H == 1 && w.n == y.d && n <= FT_NORMS);
    for (int i = 0; i < 2; i++)
        assert(ft_same_shape(y, x[i].y) && x[i].y.H == 1 && x[i].w.n == y.d);
    for (int i = 0; i < n; i++)
        assert(ft_same_shape(y, o[i].y) && o[i].y.H == 1 && o[i].w.n == y.d);
    s->dev->op->norm_add_both(s->dev, y, x, w, eps, scale, o, n);
    ft_count_values(s, "norm_add_both", y, (3 + n) * ft_mat_values(y), 16 + 4 * n);
}

static inline void ft_softcap(ft_step *s, ft_mat y, float c)
{
    s->dev->op->softcap(s->dev, y, c);
    ft_count_values(s, "softcap", y, ft_mat_values(y), 20);
}

/* The output rows: [n_out] rows of x. */
static inline void ft_gather_out(ft_step *s, ft_mat y, ft_mat x)
{
    assert(y.T == s->b->n_out && ft_mat_cols(y) == ft_mat_cols(x));
    s->dev->op->gather(s->dev, y, x, FT_OUT);
    ft_count_values(s, "gather", y, ft_mat_values(y), 0);
    s->lora.out = true;
}

static inline void ft_gather_src(ft_step *s, ft_mat y, ft_mat x)
{
    assert(y.T == s->b->T && ft_mat_cols(y) == ft_mat_cols(x));
    s->dev->op->gather(s->dev, y, x, FT_SRC);
    ft_count_values(s, "gather", y, ft_mat_values(y), 0);
}

static inline void ft_argmax_rows(ft_step *s, int32_t *id, ft_mat x)
{
    s->dev->op->argmax(s->dev, id, x);
    ft_count_op(s, "argmax", 4 * ft_mat_values(x), ft_mat_values(x));
}

static inline void ft_draw_rows(ft_step *s, ft_drawn *y, ft_mat x)
{
    assert(x.H == 1 && s->b->T <= FT_DRAW_ROWS);
    s->dev->op->draw(s->dev, y, x);
    const double values = (double)s->b->T * ft_mat_cols(x);
    ft_count_op(s, "draw", (s->b->sampled ? 12 : 4) * values, 20 * values);
}

static inline void ft_scatter(ft_step *s, ft_mat y, ft_mat x)
{
    assert(x.T == s->b->T && ft_mat_cols(y) == ft_mat_cols(x));
    s->dev->op->scatter(s->dev, y, x);
    ft_count_values(s, "scatter", x, ft_mat_values(x), 0);
}

static inline void ft_conv(ft_step *s, int layer, ft_mat y, ft_mat u, ft_vec w)
{
    const ft_delta *d = &s->delta[layer];
    assert(ft_mat_cols(u) == d->CH && ft_mat_cols(y) == d->CH && w.n == d->CH * d->C);
    s->dev->op->conv(s->dev, y, u, w, d);
    ft_count_values(s, "conv", y, ft_mat_values(u) + w.n, 2 * d->C + 20);
}

static inline void ft_delta_rule(ft_step *s, int layer, ft_mat o, ft_mat y, ft_mat a, ft_mat b,
                                 ft_vec A, ft_vec dt)
{
    const ft_delta *d = &s->delta[layer];
    assert(o.H == d->Hv && o.d == d->S && ft_mat_cols(y) == d->CH && ft_mat_cols(a) == d->Hv);
    s->dev->op->delta_rule(s->dev, o, y, a, b, A, dt, d);
    ft_count_op(s, "delta_rule",
                8.0 * s->b->S * d->Hv * d->S * d->S + 4 * (ft_mat_values(y) + ft_mat_values(o)),
                6.0 * o.T * d->Hv * d->S * d->S);
}

static inline void ft_gated_norm(ft_step *s, ft_mat y, ft_mat o, ft_mat z, ft_vec w, float eps)
{
    assert(ft_same_shape(y, o) && ft_same_shape(y, z) && w.n == o.d);
    s->dev->op->gated_norm(s->dev, y, o, z, w, eps);
    ft_count_values(s, "gated_norm", y, 2 * ft_mat_values(y), 24);
}

static inline void ft_route_top(ft_step *s, ft_expert_choice r, ft_mat x)
{
    assert(r.K <= ft_mat_cols(x));
    s->dev->op->route(s->dev, r, x);
    ft_count_op(s, "route", 4 * ft_mat_values(x) + 8.0 * x.T * r.K, 20 * ft_mat_values(x));
}

/* Assumes that no two rows choose the same expert as long as there are enough experts. sh: or
 * NULL. */
static inline void ft_count_experts(ft_step *s, ft_mat y, const ft_experts *e, ft_expert_choice r,
                                    const ft_shared_expert *sh)
{
    const ft_weight *up = e->gate_up.data ? &e->gate_up : &e->up;
    const double chosen = (double)y.T * r.K, used = chosen < e->E ? chosen : e->E;
    const double both = (double)up->row_bytes * 2 * e->F, D = ft_mat_cols(y);
    double bytes = used * (both + (double)e->down.row_bytes * D) + 8 * ft_mat_values(y);
    double flops = chosen * 6 * D * e->F;
    if (sh) {
        bytes += 2.0 * (double)sh->up->row_bytes * sh->up->n + (double)sh->down->row_bytes * D;
        flops += y.T * 6.0 * D * sh->up->n;
    }
    ft_count_op(s, "moe", bytes, flops);
}

static inline void ft_expert_linear(ft_step *s, ft_mat y, ft_mat x, const ft_weight *w,
                                    ft_expert_choice r, bool acc)
{
    assert(ft_mat_cols(y) == w->n && ft_mat_cols(x) == w->k);
    assert(y.T == x.T * r.K || (y.T == x.T && y.T % r.K == 0));
    s->dev->op->expert_linear(s->dev, y, x, w, r, acc);
    ft_count_op(s, "expert_linear",
                (double)(y.T < w->E ? y.T : w->E) * (double)w->row_bytes * w->n +
                    4 * (ft_mat_values(x) + ft_mat_values(y)),
                2.0 * w->k * ft_mat_values(y));
}

static inline bool ft_experts_adapted(const ft_step *s, const ft_experts *e)
{
    return s->lora.active && (e->gate.lora || e->up.lora || e->gate_up.lora || e->down.lora);
}

static inline void ft_moe(ft_step *s, ft_mat y, ft_mat x, const ft_experts *e, ft_expert_choice r,
                          ft_mat tmp, bool acc)
{
    assert(tmp.T == y.T * r.K && ft_mat_cols(tmp) == 2 * e->F);
    s->dev->op->moe(s->dev, y, x, e, r, tmp, acc);
    ft_count_experts(s, y, e, r, NULL);
    if (ft_experts_adapted(s, e)) ft_lora_experts(s, y, x, e, r);
}

static inline void ft_moe_shared(ft_step *s, ft_mat y, ft_mat x, const ft_experts *e,
                                 ft_expert_choice r, ft_mat tmp, const ft_shared_expert *sh)
{
    assert(tmp.T == y.T * r.K && ft_mat_cols(tmp) == 2 * e->F);
    assert(ft_mat_cols(sh->s) == 1 && ft_mat_cols(sh->g) == sh->gate->n && sh->g.T == y.T);
    if (!s->dev->op->moe_shared) {
        ft_glu(s, sh->g, sh->u, x, sh->gate, sh->up, e->act);
        ft_sigmoid_mul(s, sh->g, sh->s); /* down is linear, so the factor may come first */
        ft_linear_add(s, y, sh->g, sh->down);
        ft_moe(s, y, x, e, r, tmp, true);
        return;
    }
    s->dev->op->moe_shared(s->dev, y, x, e, r, tmp, sh);
    ft_count_experts(s, y, e, r, sh);
    if (ft_adapted(s, sh->gate) || ft_adapted(s, sh->up) || ft_adapted(s, sh->down))
        ft_lora_shared_expert(s, y, x, sh, e->act);
    if (ft_experts_adapted(s, e)) ft_lora_experts(s, y, x, e, r);
}

static inline void ft_centroid_head(ft_step *s, ft_mat y, ft_mat x, ft_mat score,
                                    const ft_weight *w, const int32_t *order, int top)
{
    s->dev->op->centroid_head(s->dev, y, x, score, w, order, top);
    ft_count_op(s, "centroid_head",
                4 * ft_mat_values(y) + (double)w->row_bytes * w->n / ft_mat_cols(score) * top * y.T,
                2.0 * y.T * w->n / ft_mat_cols(score) * top * w->k);
}

static inline void ft_layernorm(ft_step *s, ft_mat y, ft_mat x, ft_vec w, ft_vec b, float eps)
{
    assert(ft_same_shape(y, x) && y.H == 1 && x.H == 1 && w.n == x.d && b.n == x.d);
    s->dev->op->layernorm(s->dev, y, x, w, b, eps);
    ft_count_values(s, "layernorm", y, ft_mat_values(x), 8);
}

static inline void ft_affine(ft_step *s, ft_mat y, ft_vec b, ft_vec w, ft_act act)
{
    assert(y.H == 1 && (!b.p || b.n == y.d) && (!w.p || w.n == y.d));
    s->dev->op->affine(s->dev, y, b, w, act);
    ft_count_values(s, "affine", y, ft_mat_values(y), act == FT_ACT_NONE ? 2 : 20);
}

/* y = act(W x + b); y += W x + b when acc. */
static inline void ft_dense(ft_step *s, ft_mat y, ft_mat x, const ft_weight *w, ft_vec b,
                            ft_act act, bool acc)
{
    assert(ft_mat_cols(y) == w->n && ft_mat_cols(x) == w->k && y.T == x.T && x.hs == x.d);
    assert((!b.p || b.n == w->n) && (!acc || act == FT_ACT_NONE));
    if (s->dev->op->dense) {
        s->dev->op->dense(s->dev, y, x, w, b, act, acc);
        ft_count_op(s, "dense",
                    (double)w->row_bytes * w->n + 4 * (ft_mat_values(y) + ft_mat_values(x)),
                    2.0 * y.T * w->n * w->k);
        return;
    }
    s->dev->op->linear(s->dev, y, x, w, acc);
    ft_count_product(s, y, x, w);
    if (b.p || act != FT_ACT_NONE) ft_affine(s, y, b, (ft_vec){0}, act);
}

static inline void ft_rotate_heads(ft_step *s, ft_mat x, const ft_mat *cs)
{
    const ft_vec none = {0};
    if (!cs[1].p) {
        ft_norm_rope(s, x, none, -1, cs[0]);
        return;
    }
    for (int i = 0; i < 2; i++) {
        ft_mat half = x;
        half.d = x.d / 2;
        half.p += i * half.d;
        ft_norm_rope(s, half, none, -1, cs[i]);
    }
}

static inline void ft_attend_image(ft_step *s, ft_mat o, const ft_image_attn *a)
{
    const ft_attn all = {.scale = a->scale};
    assert(ft_same_shape(o, a->q) && ft_same_shape(a->k, a->q) && ft_same_shape(a->v, a->q));
    assert(a->q.d <= FT_IMAGE_HEAD && a->q.d % 2 == 0);
    if (s->dev->op->attend_image) {
        s->dev->op->attend_image(s->dev, o, a);
        ft_count_op(s, "attend_image", 16 * ft_mat_values(o), 4.0 * o.T * ft_mat_values(o));
        return;
    }
    if (a->eps >= 0) {
        ft_rmsnorm(s, a->q, a->q, a->q_norm, a->eps);
        ft_rmsnorm(s, a->k, a->k, a->k_norm, a->eps);
        ft_rmsnorm(s, a->v, a->v, (ft_vec){0}, a->eps);
    }
    ft_rotate_heads(s, a->q, a->cs);
    ft_rotate_heads(s, a->k, a->cs);
    ft_kv_put(s, 0, a->k, a->v);
    ft_attend(s, 0, o, a->q, all);
}

static inline void ft_clamp(ft_step *s, ft_mat y, ft_mat x, float lo, float hi)
{
    assert(ft_same_shape(y, x));
    s->dev->op->clamp(s->dev, y, x, lo, hi);
    ft_count_values(s, "clamp", y, ft_mat_values(x), 2);
}

static inline void ft_mix(ft_step *s, ft_mat y, ft_mat x, ft_mixing m, bool acc)
{
    assert(ft_mat_cols(y) == ft_mat_cols(x) && y.H == 1 && x.H == 1);
    s->dev->op->mix(s->dev, y, x, m, acc);
    ft_count_values(s, "mix", y, m.n * ft_mat_values(y), 2 * m.n);
}

/* The step's image rows take the place of their tokens' rows. */
static inline void ft_image_rows(ft_step *s, ft_mat y)
{
    if (!s->b->image_row) return;
    assert(y.T == s->b->T && ft_mat_cols(y) == ft_mat_cols(s->images));
    s->dev->op->image_rows(s->dev, y, s->images);
    ft_count_values(s, "image_rows", y, ft_mat_values(y), 0);
}

#endif
