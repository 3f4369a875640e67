/* dev/remote_serve_ops.c - the steps of rank 0 on another rank: batches, and ops with their
 * arguments as remote_ops.c writes them. */
#include "base/mem.h"
#include "dev/remote_serve_priv.h"

#include <string.h>

/* ---- batches ---- */

static void take_pages(ft_remote_server *s, const ft_remote_batch *h)
{
    const size_t each = (size_t)h->pages_per_seq, n = each * (size_t)h->slots;
    for (int space = 0; space < 2; space++) {
        if (s->n_pages != n || !s->pages[space]) {
            ft_free(s->pages[space]);
            s->pages[space] = ft_new_n(int32_t, n + 1);
        }
        for (;;) {
            int32_t slot;
            memcpy(&slot, ft_serve_bytes(s, sizeof slot), sizeof slot);
            if (slot < 0 || slot >= h->slots || s->failed) break;
            const void *from = ft_serve_bytes(s, each * sizeof slot);
            if (from) memcpy(s->pages[space] + (size_t)slot * each, from, each * sizeof slot);
        }
    }
    s->n_pages = n;
}

static const int32_t *take_ints(ft_remote_server *s, unsigned char **at, size_t n)
{
    const void *from = ft_serve_bytes(s, n * sizeof(int32_t));
    int32_t *to = (int32_t *)(void *)*at;
    if (from) memcpy(to, from, n * sizeof *to);
    *at += n * sizeof *to;
    return to;
}

/* The earlier step has run: its arrays are overwritten. */
void ft_serve_record(ft_remote_server *s)
{
    ft_remote_batch h;
    memcpy(&h, ft_serve_bytes(s, sizeof h), sizeof h);
    ft_link_send(0, FT_LINK_ACK, "", 1);
    s->dev->commit(s->dev);
    const size_t T = (size_t)h.T, need = sizeof(int32_t) * (12 * T + (size_t)h.n_out) +
                                         sizeof(ft_span) * (size_t)h.S;
    if (need > s->batch_cap) {
        ft_free(s->batch_bytes);
        s->batch_bytes = ft_alloc(s->batch_cap = need);
    }
    unsigned char *at = s->batch_bytes;
    ft_batch *b = &s->batch;
    const int32_t **const each[] = {&b->token, &b->pos[0],  &b->pos[1],  &b->pos[2], &b->cell,
                                    &b->end,   &b->span_of, &b->src_row, &b->dst_row};
    *b = (ft_batch){.T = h.T, .S = h.S, .n_out = h.n_out, .max_ctx = h.max_ctx};
    for (size_t i = 0; i < FT_COUNT(each); i++) *each[i] = take_ints(s, &at, T);
    b->out_row = take_ints(s, &at, (size_t)h.n_out);
    if (h.has & FT_REMOTE_HAS_IMAGES) b->image_row = take_ints(s, &at, T);
    if (h.has & FT_REMOTE_HAS_AHEAD) b->ahead = take_ints(s, &at, T);
    b->span = (const ft_span *)(const void *)take_ints(
        s, &at, sizeof(ft_span) / sizeof(int32_t) * (size_t)h.S);
    take_pages(s, &h);
    b->page[0] = s->pages[0];
    b->page[1] = s->pages[1];
    b->pages_per_seq = h.pages_per_seq;
    b->slots = h.slots;
    b->pad_spans = h.pad_spans;
    s->arena_used = 0;
    if (!s->failed) s->dev->record(s->dev, b);
}

/* ---- arguments ---- */

#define TAKE(T, V)                                                                                 \
    T V;                                                                                           \
    memcpy(&V, ft_serve_bytes(s, sizeof V), sizeof V)

static void *here(const ft_remote_server *s, const void *p)
{
    return ft_serve_address(s, (uintptr_t)p);
}

static ft_mat take_mat(ft_remote_server *s)
{
    TAKE(ft_mat, m);
    m.p = here(s, m.p);
    return m;
}

static ft_vec take_vec(ft_remote_server *s)
{
    TAKE(ft_vec, v);
    v.p = here(s, v.p);
    return v;
}

static float take_f32(ft_remote_server *s)
{
    TAKE(float, v);
    return v;
}

static int take_int(ft_remote_server *s)
{
    TAKE(int, v);
    return v;
}

static int take_count(ft_remote_server *s, int most)
{
    const int n = take_int(s);
    if (n < 0 || n > most) ft_serve_fail(s, FT_EFORMAT, "a command of rank 0 has a wrong length");
    return n < 0 || n > most ? 0 : n;
}

static bool take_bool(ft_remote_server *s)
{
    TAKE(bool, v);
    return v;
}

static ft_weight weight_at(ft_remote_server *s)
{
    TAKE(ft_remote_weight, v);
    if (!v.id) return (ft_weight){0};
    if (v.id >= s->cap_weight || !s->weight[v.id].w.data) {
        ft_serve_fail(s, FT_EFORMAT, "an op of rank 0 uses a weight that is not bound");
        return (ft_weight){0};
    }
    ft_weight w = s->weight[v.id].w;
    w.n = v.n;
    return w;
}

static const ft_weight *take_weight(ft_remote_server *s)
{
    ft_weight *w = ft_serve_scratch(s, sizeof *w);
    *w = weight_at(s);
    return w;
}

static const ft_experts *take_experts(ft_remote_server *s)
{
    ft_experts *e = ft_serve_scratch(s, sizeof *e);
    e->gate = weight_at(s);
    e->up = weight_at(s);
    e->gate_up = weight_at(s);
    e->down = weight_at(s);
    e->E = take_int(s);
    e->F = take_int(s);
    e->act = (ft_act)take_int(s);
    return e;
}

static ft_expert_choice take_choice(ft_remote_server *s)
{
    TAKE(ft_expert_choice, c);
    c.id = here(s, c.id);
    c.w = here(s, c.w);
    return c;
}

static ft_kv *take_kv(ft_remote_server *s)
{
    ft_kv *kv = ft_serve_scratch(s, sizeof *kv);
    memcpy(kv, ft_serve_bytes(s, sizeof *kv), sizeof *kv);
    kv->k = here(s, kv->k);
    kv->v = here(s, kv->v);
    kv->mean = here(s, kv->mean);
    if (kv->recent) kv->recent = take_kv(s);
    return kv;
}

static const ft_delta *take_delta(ft_remote_server *s)
{
    ft_delta *d = ft_serve_scratch(s, sizeof *d);
    memcpy(d, ft_serve_bytes(s, sizeof *d), sizeof *d);
    float **const each[] = {&d->conv, &d->state, &d->j_conv, &d->j_k, &d->j_d, &d->j_g};
    for (size_t i = 0; i < FT_COUNT(each); i++) *each[i] = here(s, *each[i]);
    return d;
}

/* ---- ops: arguments are read in order, so they have names ---- */

static void products(ft_remote_server *s, ft_remote_op op)
{
    ft_dev *d = s->dev;
    const ft_ops *f = d->op;
    if (op == FT_REMOTE_LINEARS) {
        const int n = take_count(s, 8);
        ft_product_out *o = ft_serve_scratch(s, sizeof *o * 8);
        for (int i = 0; i < n; i++) {
            o[i].y = take_mat(s);
            o[i].w = take_weight(s);
        }
        const ft_mat x = take_mat(s);
        if (!s->failed) f->linears(d, o, n, x);
        return;
    }
    const ft_mat y = take_mat(s);
    if (op == FT_REMOTE_EMBED) {
        const ft_weight *w = take_weight(s);
        const float scale = take_f32(s);
        if (!s->failed) f->embed(d, y, w, scale);
    } else if (op == FT_REMOTE_LINEAR) {
        const ft_mat x = take_mat(s);
        const ft_weight *w = take_weight(s);
        const bool acc = take_bool(s);
        if (!s->failed) f->linear(d, y, x, w, acc);
    } else if (op == FT_REMOTE_GLU) {
        const ft_mat u = take_mat(s), x = take_mat(s);
        const ft_weight *gate = take_weight(s), *up = take_weight(s);
        TAKE(ft_act, act);
        if (!s->failed) f->glu(d, y, u, x, gate, up, act);
    } else {
        const ft_mat x = take_mat(s), score = take_mat(s);
        const ft_weight *w = take_weight(s);
        TAKE(const int32_t *, order);
        const int top = take_int(s);
        if (!s->failed) f->centroid_head(d, y, x, score, w, here(s, order), top);
    }
}

static void experts(ft_remote_server *s, ft_remote_op op)
{
    ft_dev *d = s->dev;
    if (op == FT_REMOTE_ROUTE) {
        const ft_expert_choice c = take_choice(s);
        const ft_mat x = take_mat(s);
        if (!s->failed) d->op->route(d, c, x);
        return;
    }
    const ft_mat y = take_mat(s), x = take_mat(s);
    if (op == FT_REMOTE_EXPERT_LINEAR) {
        const ft_weight *w = take_weight(s);
        const ft_expert_choice c = take_choice(s);
        const bool acc = take_bool(s);
        if (!s->failed) d->op->expert_linear(d, y, x, w, c, acc);
        return;
    }
    const ft_experts *e = take_experts(s);
    const ft_expert_choice c = take_choice(s);
    const ft_mat tmp = take_mat(s);
    if (op == FT_REMOTE_MOE) {
        const bool acc = take_bool(s);
        if (!s->failed) d->op->moe(d, y, x, e, c, tmp, acc);
        return;
    }
    ft_shared_expert *sh = ft_serve_scratch(s, sizeof *sh);
    sh->gate = take_weight(s);
    sh->up = take_weight(s);
    sh->down = take_weight(s);
    sh->s = take_mat(s);
    sh->g = take_mat(s);
    sh->u = take_mat(s);
    if (!s->failed) d->op->moe_shared(d, y, x, e, c, tmp, sh);
}

static void norms(ft_remote_server *s, ft_remote_op op)
{
    ft_dev *d = s->dev;
    const ft_mat y = take_mat(s);
    if (op == FT_REMOTE_NORM_ROPE) {
        const ft_vec w = take_vec(s);
        const float eps = take_f32(s);
        const ft_mat cs = take_mat(s);
        if (!s->failed) d->op->norm_rope(d, y, w, eps, cs);
        return;
    }
    const ft_mat x = take_mat(s);
    if (op == FT_REMOTE_RMSNORM) {
        const ft_vec w = take_vec(s);
        const float eps = take_f32(s);
        if (!s->failed) d->op->rmsnorm(d, y, x, w, eps);
    } else if (op == FT_REMOTE_GATED_NORM) {
        const ft_mat z = take_mat(s);
        const ft_vec w = take_vec(s);
        const float eps = take_f32(s);
        if (!s->failed) d->op->gated_norm(d, y, x, z, w, eps);
    } else {
        const ft_vec w = take_vec(s);
        const float eps = take_f32(s), scale = take_f32(s);
        const int n = take_count(s, FT_NORMS);
        ft_norm_out *o = ft_serve_scratch(s, sizeof *o * FT_NORMS);
        for (int i = 0; i < n; i++) {
            o[i].y = take_mat(s);
            o[i].w = take_vec(s);
        }
        if (!s->failed) d->op->norm_add(d, y, x, w, eps, scale, o, n);
    }
}

static void states(ft_remote_server *s, ft_remote_op op)
{
    ft_dev *d = s->dev;
    if (op == FT_REMOTE_KV_PUT) {
        const ft_kv *kv = take_kv(s);
        const ft_mat k = take_mat(s), v = take_mat(s);
        if (!s->failed) d->op->kv_put(d, kv, k, v);
        return;
    }
    const ft_mat o = take_mat(s), y = take_mat(s);
    if (op == FT_REMOTE_ATTEND) {
        const ft_kv *kv = take_kv(s);
        TAKE(ft_attn, p);
        if (!s->failed) d->op->attend(d, o, y, kv, p);
    } else if (op == FT_REMOTE_CONV) {
        const ft_vec w = take_vec(s);
        const ft_delta *m = take_delta(s);
        if (!s->failed) d->op->conv(d, o, y, w, m);
    } else {
        const ft_mat a = take_mat(s), b = take_mat(s);
        const ft_vec A = take_vec(s), dt = take_vec(s);
        const ft_delta *m = take_delta(s);
        if (!s->failed) d->op->delta_rule(d, o, y, a, b, A, dt, m);
    }
}

static void angles(ft_remote_server *s)
{
    const ft_mat cs = take_mat(s);
    ft_rope *r = ft_serve_scratch(s, sizeof *r);
    memcpy(r, ft_serve_bytes(s, sizeof *r), sizeof *r);
    r->freq = here(s, r->freq);
    r->axis = here(s, r->axis);
    if (!s->failed) s->dev->op->rope_angles(s->dev, cs, r);
}

static void find_largest(ft_remote_server *s)
{
    TAKE(int32_t *, id);
    const ft_mat x = take_mat(s);
    if (!s->failed) s->dev->op->argmax(s->dev, here(s, id), x);
}

/* Ops with one or two matrices and a number. */
static void elements(ft_remote_server *s, ft_remote_op op)
{
    ft_dev *d = s->dev;
    const ft_ops *f = d->op;
    const ft_mat y = take_mat(s);
    if (op == FT_REMOTE_SOFTCAP) {
        const float c = take_f32(s);
        if (!s->failed) f->softcap(d, y, c);
        return;
    }
    const ft_mat x = take_mat(s);
    if (op == FT_REMOTE_ACT_MUL) {
        const ft_mat u = take_mat(s);
        TAKE(ft_act, act);
        if (!s->failed) f->act_mul(d, y, x, u, act);
    } else if (op == FT_REMOTE_ADD) {
        const float scale = take_f32(s);
        if (!s->failed) f->add(d, y, x, scale);
    } else if (op == FT_REMOTE_MIX) {
        TAKE(ft_mixing, m);
        const bool acc = take_bool(s);
        m.row = here(s, m.row);
        m.w = here(s, m.w);
        if (!s->failed) f->mix(d, y, x, m, acc);
    } else if (op == FT_REMOTE_GATHER) {
        const int which = take_int(s);
        if (!s->failed) f->gather(d, y, x, which);
    } else if (!s->failed) {
        void (*const two)(ft_dev *, ft_mat, ft_mat) = op == FT_REMOTE_SIGMOID_MUL ? f->sigmoid_mul
                                                      : op == FT_REMOTE_SCATTER   ? f->scatter
                                                                                  : f->image_rows;
        two(d, y, x);
    }
}

void ft_serve_op(ft_remote_server *s, ft_remote_op op)
{
    ft_serve_scratch_ready(s);
    switch (op) {
    case FT_REMOTE_EMBED:
    case FT_REMOTE_LINEAR:
    case FT_REMOTE_LINEARS:
    case FT_REMOTE_GLU:
    case FT_REMOTE_CENTROID_HEAD: products(s, op); break;
    case FT_REMOTE_ROUTE:
    case FT_REMOTE_MOE:
    case FT_REMOTE_EXPERT_LINEAR:
    case FT_REMOTE_MOE_SHARED: experts(s, op); break;
    case FT_REMOTE_RMSNORM:
    case FT_REMOTE_GATED_NORM:
    case FT_REMOTE_NORM_ROPE:
    case FT_REMOTE_NORM_ADD: norms(s, op); break;
    case FT_REMOTE_KV_PUT:
    case FT_REMOTE_ATTEND:
    case FT_REMOTE_CONV:
    case FT_REMOTE_DELTA_RULE: states(s, op); break;
    case FT_REMOTE_ROPE_ANGLES: angles(s); break;
    case FT_REMOTE_ARGMAX: find_largest(s); break;
    case FT_REMOTE_SOFTCAP:
    case FT_REMOTE_ACT_MUL:
    case FT_REMOTE_ADD:
    case FT_REMOTE_GATHER:
    case FT_REMOTE_SIGMOID_MUL:
    case FT_REMOTE_SCATTER:
    case FT_REMOTE_MIX:
    case FT_REMOTE_IMAGE_ROWS: elements(s, op); break;
    default: s->left = 0; ft_serve_fail(s, FT_EFORMAT, "rank 0 sent a command that does not exist");
    }
}
