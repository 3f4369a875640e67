/* dev/step.h - one step as a model sees it: the device, the batch, and a place for activations.
 * The wrappers around the ops check shapes and report named activations to a probe; both cost
 * nothing when off. */
#ifndef FT_DEV_STEP_H
#define FT_DEV_STEP_H

#include "dev/dev.h"

typedef struct ft_step ft_step;
typedef void ft_probe_fn(void *user, const ft_step *s, const char *what, int layer, ft_mat m);

struct ft_step {
    ft_dev *dev;
    const ft_batch *b;
    int T, n_out;

    /* Activations: a stack of rows of max_T, refilled by every step. */
    float *arena;
    size_t arena_used, arena_cap; /* values */

    const ft_kv *kv;       /* [layer]: keys and values of layers that own them */
    const ft_delta *delta; /* [layer] */
    ft_mat hidden_in;      /* [T, D]: a draft pass's hidden rows */
    ft_mat hidden;         /* rows after the final norm: all T of a trunk pass, n_out of a draft */
    ft_mat logits;         /* [n_out, V] */
    ft_probe_fn *probe;
    void *probe_user;
};

/* The next [T, n] matrix of the step's activations. With arena == NULL only the size is counted. */
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

static inline void ft_probe(const ft_step *s, const char *what, int layer, ft_mat m)
{
    if (s->probe) s->probe(s->probe_user, s, what, layer, m);
}

static inline bool ft_same_shape(ft_mat a, ft_mat b)
{
    return a.T == b.T && ft_mat_cols(a) == ft_mat_cols(b);
}

static inline void ft_embed(ft_step *s, ft_mat y, const ft_weight *w, float scale)
{
    assert(ft_mat_cols(y) == w->k);
    s->dev->op->embed(s->dev, y, w, scale);
}

static inline void ft_rmsnorm(ft_step *s, ft_mat y, ft_mat x, ft_vec w, float eps)
{
    assert(ft_same_shape(y, x) && y.d == x.d && (!w.p || w.n == x.d));
    s->dev->op->rmsnorm(s->dev, y, x, w, eps);
}

static inline void ft_linear(ft_step *s, ft_mat y, ft_mat x, const ft_weight *w)
{
    assert(ft_mat_cols(y) == w->n && ft_mat_cols(x) == w->k && y.T == x.T && x.hs == x.d);
    s->dev->op->linear(s->dev, y, x, w, false);
}

static inline void ft_linear_add(ft_step *s, ft_mat y, ft_mat x, const ft_weight *w) /* y += W x */
{
    assert(ft_mat_cols(y) == w->n && ft_mat_cols(x) == w->k && y.T == x.T && x.hs == x.d);
    s->dev->op->linear(s->dev, y, x, w, true);
}

static inline void ft_linears(ft_step *s, const ft_out *o, int n, ft_mat x)
{
    for (int i = 0; i < n; i++)
        assert(ft_mat_cols(o[i].y) == o[i].w->n && ft_mat_cols(x) == o[i].w->k && o[i].y.T == x.T);
    s->dev->op->linears(s->dev, o, n, x);
}

static inline void ft_glu(ft_step *s, ft_mat y, ft_mat u, ft_mat x, const ft_weight *gate,
                          const ft_weight *up, ft_act act)
{
    assert(ft_same_shape(y, u) && ft_mat_cols(y) == gate->n && gate->n == up->n && y.T == x.T);
    assert(ft_mat_cols(x) == gate->k && gate->k == up->k);
    s->dev->op->glu(s->dev, y, u, x, gate, up, act);
}

static inline void ft_rope_angles(ft_step *s, ft_mat cs, const ft_rope *r)
{
    assert(ft_mat_cols(cs) == r->n);
    s->dev->op->rope_angles(s->dev, cs, r);
}

static inline void ft_norm_rope(ft_step *s, ft_mat x, ft_vec w, float eps, ft_mat cs)
{
    assert(x.T == cs.T && ft_mat_cols(cs) <= x.d && (!w.p || w.n == x.d));
    s->dev->op->norm_rope(s->dev, x, w, eps, cs);
}

static inline void ft_kv_put(ft_step *s, int layer, ft_mat k, ft_mat v)
{
    const ft_kv *kv = &s->kv[layer];
    assert(k.H == kv->G && k.d == kv->d && v.H == kv->G && v.d == kv->d);
    s->dev->op->kv_put(s->dev, kv, k, v);
    if (kv->newest) s->dev->op->kv_put(s->dev, kv->newest, k, v);
}

static inline void ft_attend(ft_step *s, int layer, ft_mat o, ft_mat q, ft_attn p)
{
    const ft_kv *kv = &s->kv[layer];
    assert(q.d == kv->d && q.H % kv->G == 0 && o.H == q.H && o.d == q.d && o.T == q.T);
    assert(q.T == (p.out ? s->b->n_out : s->b->T));
    ft_probe(s, "query", layer, q);
    s->dev->op->attend(s->dev, o, q, kv, p);
}

static inline void ft_act_mul(ft_step *s, ft_mat y, ft_mat g, ft_mat u, ft_act act)
{
    assert(ft_same_shape(y, g) && ft_same_shape(y, u));
    s->dev->op->act_mul(s->dev, y, g, u, act);
}

static inline void ft_sigmoid_mul(ft_step *s, ft_mat y, ft_mat g)
{
    assert(y.T == g.T && (ft_mat_cols(g) == ft_mat_cols(y) || ft_mat_cols(g) == 1));
    s->dev->op->sigmoid_mul(s->dev, y, g);
}

static inline void ft_add(ft_step *s, ft_mat y, ft_mat x, float scale)
{
    assert(ft_same_shape(y, x));
    s->dev->op->add(s->dev, y, x, scale);
}

static inline void ft_softcap(ft_step *s, ft_mat y, float c)
{
    s->dev->op->softcap(s->dev, y, c);
}

/* The rows whose result is wanted: [n_out] rows of x. */
static inline void ft_gather_out(ft_step *s, ft_mat y, ft_mat x)
{
    assert(y.T == s->b->n_out && ft_mat_cols(y) == ft_mat_cols(x));
    s->dev->op->gather(s->dev, y, x, FT_OUT);
}

static inline void ft_gather_src(ft_step *s, ft_mat y, ft_mat x)
{
    assert(y.T == s->b->T && ft_mat_cols(y) == ft_mat_cols(x));
    s->dev->op->gather(s->dev, y, x, FT_SRC);
}

static inline void ft_argmax_rows(ft_step *s, int32_t *id, ft_mat x)
{
    s->dev->op->argmax(s->dev, id, x);
}

static inline void ft_scatter(ft_step *s, ft_mat y, ft_mat x)
{
    assert(x.T == s->b->T && ft_mat_cols(y) == ft_mat_cols(x));
    s->dev->op->scatter(s->dev, y, x);
}

static inline void ft_conv(ft_step *s, int layer, ft_mat y, ft_mat u, ft_vec w)
{
    const ft_delta *d = &s->delta[layer];
    assert(ft_mat_cols(u) == d->CH && ft_mat_cols(y) == d->CH && w.n == d->CH * d->C);
    s->dev->op->conv(s->dev, y, u, w, d);
}

static inline void ft_delta_rule(ft_step *s, int layer, ft_mat o, ft_mat y, ft_mat a, ft_mat b,
                                 ft_vec A, ft_vec dt)
{
    const ft_delta *d = &s->delta[layer];
    assert(o.H == d->Hv && o.d == d->S && ft_mat_cols(y) == d->CH && ft_mat_cols(a) == d->Hv);
    s->dev->op->delta_rule(s->dev, o, y, a, b, A, dt, d);
}

static inline void ft_gated_norm(ft_step *s, ft_mat y, ft_mat o, ft_mat z, ft_vec w, float eps)
{
    assert(ft_same_shape(y, o) && ft_same_shape(y, z) && w.n == o.d);
    s->dev->op->gated_norm(s->dev, y, o, z, w, eps);
}

static inline void ft_route_top(ft_step *s, ft_route r, ft_mat x)
{
    assert(r.K <= ft_mat_cols(x));
    s->dev->op->route(s->dev, r, x);
}

static inline void ft_moe(ft_step *s, ft_mat y, ft_mat x, const ft_experts *e, ft_route r,
                          ft_mat tmp, bool acc)
{
    assert(tmp.T == y.T * r.K && ft_mat_cols(tmp) == 2 * e->F);
    s->dev->op->moe(s->dev, y, x, e, r, tmp, acc);
}

static inline void ft_centroid_head(ft_step *s, ft_mat y, ft_mat x, ft_mat score,
                                    const ft_weight *w, const int32_t *order, int top)
{
    s->dev->op->centroid_head(s->dev, y, x, score, w, order, top);
}

#endif
