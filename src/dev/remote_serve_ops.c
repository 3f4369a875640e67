/* dev/remote_serve_ops.c - the steps of rank 0 on another rank: batches, and ops with their
 * arguments as remote_ops.c writes them. */
#include "base/mem.h"
#include "dev/remote_serve_priv.h"

#include <stddef.h>
#include <string.h>

/* ---- batches ---- */

static void want(ft_remote_server *s, bool ok)
{
    if (!ok) ft_serve_fail(s, FT_EFORMAT, "a step of rank 0 has wrong sizes");
}

static void take_pages(ft_remote_server *s, const ft_remote_batch *h)
{
    const size_t each = (size_t)h->pages_per_seq, n = each * (size_t)h->slots;
    if (s->n_pages != n) s->top_page[0] = s->top_page[1] = 0;
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
            int32_t *to = s->pages[space] + (size_t)slot * each;
            if (from) memcpy(to, from, each * sizeof slot);
            for (size_t i = 0; i < each && from; i++) {
                to[i] = FT_MAX(to[i], 0); /* -1: no page, and no row reads it */
                s->top_page[space] = FT_MAX(s->top_page[space], to[i]);
            }
        }
    }
    s->n_pages = n;
    for (int space = 0; space < 2 && s->top_stale; space++) {
        s->top_page[space] = 0;
        for (size_t i = 0; i < n; i++)
            s->top_page[space] = FT_MAX(s->top_page[space], s->pages[space][i]);
    }
    s->top_stale = false;
}

static const int32_t *take_ints(ft_remote_server *s, unsigned char **at, size_t n)
{
    const void *from = ft_serve_bytes(s, n * sizeof(int32_t));
    int32_t *to = (int32_t *)(void *)*at;
    if (from) memcpy(to, from, n * sizeof *to);
    *at += n * sizeof *to;
    return to;
}

/* Sizes that the rest of the message can have. */
static bool plausible(const ft_remote_server *s, const ft_remote_batch *h)
{
    const size_t most = 1 << 20;
    const int32_t each[] = {h->T, h->S, h->n_out, h->pages_per_seq, h->slots};
    for (size_t i = 0; i < FT_COUNT(each); i++)
        if (each[i] < 0 || (size_t)each[i] > most) return false;
    const size_t pages = (size_t)h->pages_per_seq * (size_t)h->slots;
    const size_t ints = 9 * (size_t)h->T + (size_t)h->n_out + (size_t)h->S * sizeof(ft_span) / 4;
    return h->T > 0 && (ints + (pages == s->n_pages ? 0 : 2 * pages)) * 4 <= s->left;
}

static bool all_below(const int32_t *v, int n, int32_t lo, int32_t hi)
{
    for (int i = 0; v && i < n; i++)
        if (v[i] < lo || v[i] >= hi) return false;
    return true;
}

/* Indices of a batch; those into matrices are checked by the ops. */
static bool batch_valid(const ft_batch *b)
{
    const int64_t cells = (int64_t)b->pages_per_seq * FT_PAGE_ROWS;
    bool ok = all_below(b->span_of, b->T, 0, b->S) && all_below(b->out_row, b->n_out, 0, b->T);
    for (int t = 0; t < b->T && ok; t++)
        ok = b->cell[t] >= 0 && b->cell[t] < cells && b->end[t] >= 0 && b->end[t] <= cells &&
             (!b->ahead || (b->ahead[t] >= 0 && b->ahead[t] <= cells));
    for (int i = 0; i < b->S && ok; i++) {
        const ft_span *p = &b->span[i];
        ok = p->slot >= 0 && p->slot < b->slots && p->row >= 0 && p->n >= 0 && p->row <= b->T &&
             p->n <= b->T - p->row && p->start >= 0 && p->start <= cells - p->n && p->replay >= 0 &&
             (p->plane & ~1) == 0;
    }
    return ok;
}

/* The earlier step has run: its arrays are overwritten. */
void ft_serve_record(ft_remote_server *s)
{
    ft_remote_batch h;
    memcpy(&h, ft_serve_bytes(s, sizeof h), sizeof h);
    ft_link_send(0, FT_LINK_ACK, "", 1);
    s->dev->commit(s->dev);
    s->batch = (ft_batch){0};
    want(s, plausible(s, &h));
    if (s->failed) {
        s->left = 0;
        return;
    }
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
    b->pad_spans = h.pad_spans != 0;
    b->drawn = ft_serve_address(s, h.drawn, sizeof(int32_t));
    want(s, batch_valid(b));
    for (int t = 0; t < b->T && !s->failed; t++)
        if (b->token[t] < 0)
            ft_serve_address(s, b->drawn ? h.drawn : 1, (uint64_t) - (int64_t)b->token[t] * 4);
    s->arena_used = 0;
    if (!s->failed) s->dev->record(s->dev, b);
}

/* ---- arguments ---- */

#define TAKE(T, V)                                                                                 \
    T V;                                                                                           \
    memcpy(&V, ft_serve_bytes(s, sizeof V), sizeof V)

static void *here(ft_remote_server *s, const void *p, uint64_t bytes)
{
    return ft_serve_address(s, (uintptr_t)p, bytes);
}

enum { MOST = 1 << 26 }; /* of a dimension or a stride */

static bool is_size(int n)
{
    return n > 0 && n <= MOST;
}

/* As ft_mat_extent, whatever the numbers are. */
static uint64_t extent(ft_mat m)
{
    return ((uint64_t)(m.T - 1) * (uint64_t)m.rs + (uint64_t)(m.H - 1) * (uint64_t)m.hs +
            (uint64_t)m.d) *
           sizeof(float);
}

static ft_mat take_mat(ft_remote_server *s)
{
    const unsigned char *from = ft_serve_bytes(s, sizeof(ft_mat));
    ft_mat m;
    memcpy(&m, from, sizeof m);
    /* ranks have no ops that write operands; as a byte, which need not be a bool */
    const bool ok = from[offsetof(ft_mat, operand)] == 0 && m.p && is_size(m.T) && is_size(m.H) &&
                    is_size(m.d) && is_size(m.rs) && is_size(m.hs) && (int64_t)m.H * m.d <= MOST;
    want(s, ok);
    if (!ok) /* for the checks that follow */
        return (ft_mat){.T = 1, .H = 1, .d = 1, .rs = 1, .hs = 1};
    m.p = here(s, m.p, extent(m));
    return m;
}

static ft_vec take_vec(ft_remote_server *s)
{
    TAKE(ft_vec, v);
    want(s, v.n >= 0 && v.n <= MOST);
    v.p = s->failed ? NULL : here(s, v.p, (uint64_t)v.n * sizeof *v.p);
    return v;
}

/* The memory of two matrices has the same number of rows and columns. */
static bool alike(ft_mat a, ft_mat b)
{
    return a.T == b.T && ft_mat_cols(a) == ft_mat_cols(b);
}

static bool vec_fits(ft_vec v, int n)
{
    return !v.p || v.n >= n;
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
    TAKE(unsigned char, v);
    return v != 0;
}

static ft_act take_act(ft_remote_server *s)
{
    TAKE(int32_t, v);
    want(s, v >= 0 && v <= (int32_t)FT_ACT_NONE);
    return s->failed ? FT_SILU : (ft_act)v;
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
    want(s, v.n > 0 && v.n <= w.n);
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
    e->act = take_act(s);
    want(s, is_size(e->E) && is_size(e->F) && e->down.data);
    if (s->failed) e->E = e->F = 1;
    const ft_weight *const each[] = {&e->gate, &e->up, &e->gate_up, &e->down};
    for (size_t i = 0; i < FT_COUNT(each); i++) want(s, !each[i]->data || each[i]->E == e->E);
    return e;
}

/* The ids and weights themselves are in device memory. */
static ft_expert_choice take_choice(ft_remote_server *s)
{
    TAKE(ft_expert_choice, c);
    want(s, is_size(c.K) && c.id && c.w);
    if (s->failed) c.K = 1; /* for the checks that follow */
    return c;
}

/* c with n ids and weights, as pointers of this process. */
static ft_expert_choice choices(ft_remote_server *s, ft_expert_choice c, uint64_t n)
{
    c.id = here(s, c.id, n * sizeof *c.id);
    c.w = here(s, c.w, n * sizeof *c.w);
    return c;
}

/* The K choices of each of T rows. */
static ft_expert_choice choices_of_rows(ft_remote_server *s, int T)
{
    const ft_expert_choice c = take_choice(s);
    return choices(s, c, (uint64_t)T * (uint64_t)c.K);
}

/* inner: of the recent-token window. */
static ft_kv *take_kv(ft_remote_server *s, bool inner)
{
    ft_kv *kv = ft_serve_scratch(s, sizeof *kv);
    memcpy(kv, ft_serve_bytes(s, sizeof *kv), sizeof *kv);
    const bool ok = (kv->space & ~1) == 0 && kv->k && kv->v && is_size(kv->G) && is_size(kv->d) &&
                    kv->k_page <= MOST && kv->v_page <= MOST && kv->kt >= 0 && kv->vt >= 0 &&
                    kv->kt < FT_KV_TYPES && kv->vt < FT_KV_TYPES &&
                    kv->k_row * (size_t)kv->G * FT_PAGE_ROWS <= kv->k_page &&
                    kv->v_row * (size_t)kv->G * FT_PAGE_ROWS <= kv->v_page;
    want(s, ok);
    if (!ok) kv->G = kv->d = 1;
    const uint64_t pages = ok ? (uint64_t)s->top_page[kv->space] + 1 : 0;
    kv->k = here(s, kv->k, pages * kv->k_page);
    kv->v = here(s, kv->v, pages * kv->v_page);
    kv->mean = here(s, kv->mean, ok ? sizeof *kv->mean * (size_t)kv->G * (size_t)kv->d : 0);
    if (kv->recent) kv->recent = inner ? NULL : take_kv(s, true);
    return kv;
}

static const ft_delta *take_delta(ft_remote_server *s)
{
    ft_delta *d = ft_serve_scratch(s, sizeof *d);
    memcpy(d, ft_serve_bytes(s, sizeof *d), sizeof *d);
    const bool ok = is_size(d->Hk) && is_size(d->Hv) && is_size(d->S) && is_size(d->C) &&
                    is_size(d->CH) && d->J >= 0 && d->J <= MOST && d->S <= 4096 && d->Hk <= 4096 &&
                    d->Hv <= 4096 && d->C <= 4096 && d->CH == (2 * d->Hk + d->Hv) * d->S &&
                    d->conv && d->state && d->j_conv && d->j_k && d->j_d && d->j_g;
    want(s, ok);
    if (!ok) *d = (ft_delta){0};
    const uint64_t S = (uint64_t)d->S, slots = (uint64_t)s->batch.slots * sizeof(float);
    const uint64_t journal = 2 * slots * (uint64_t)d->J;
    d->conv = here(s, d->conv, slots * (uint64_t)FT_MAX(d->C - 1, 0) * (uint64_t)d->CH);
    d->state = here(s, d->state, slots * (uint64_t)d->Hv * S * S);
    d->j_conv = here(s, d->j_conv, journal * (uint64_t)d->CH);
    d->j_k = here(s, d->j_k, journal * (uint64_t)d->Hk * S);
    d->j_d = here(s, d->j_d, journal * (uint64_t)d->Hv * S);
    d->j_g = here(s, d->j_g, journal * (uint64_t)d->Hv);
    for (int i = 0; i < s->batch.S; i++)
        want(s, s->batch.span[i].replay <= d->J &&
                    (!s->batch.span[i].tentative || s->batch.span[i].n <= d->J));
    return d;
}

/* ---- ops: arguments are read in order, so they have names ---- */

/* y = x W^T */
static bool product_fits(ft_mat y, ft_mat x, const ft_weight *w)
{
    return w->data && y.T == x.T && ft_mat_cols(x) == w->k && ft_mat_cols(y) == w->n;
}

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
        for (int i = 0; i < n; i++) want(s, product_fits(o[i].y, x, o[i].w));
        if (!s->failed) f->linears(d, o, n, x);
        return;
    }
    const ft_mat y = take_mat(s);
    if (op == FT_REMOTE_EMBED) {
        const ft_weight *w = take_weight(s);
        const float scale = take_f32(s);
        want(s, w->data && ft_mat_cols(y) == w->k && y.T <= s->batch.T);
        for (int t = 0; t < y.T && !s->failed; t++) want(s, s->batch.token[t] < w->n);
        if (!s->failed) f->embed(d, y, w, scale);
    } else if (op == FT_REMOTE_LINEAR) {
        const ft_mat x = take_mat(s);
        const ft_weight *w = take_weight(s);
        const bool acc = take_bool(s);
        want(s, product_fits(y, x, w));
        if (!s->failed) f->linear(d, y, x, w, acc);
    } else if (op == FT_REMOTE_GLU) {
        const ft_mat u = take_mat(s), x = take_mat(s);
        const ft_weight *gate = take_weight(s), *up = take_weight(s);
        const ft_act act = take_act(s);
        want(s, product_fits(y, x, gate) && product_fits(u, x, up) && alike(u, y));
        if (!s->failed) f->glu(d, y, u, x, gate, up, act);
    } else {
        const ft_mat x = take_mat(s), score = take_mat(s);
        const ft_weight *w = take_weight(s);
        TAKE(const int32_t *, order);
        const int top = take_int(s);
        want(s, product_fits(y, x, w) && score.T == x.T && top > 0 && top <= ft_mat_cols(score) &&
                    w->n % ft_mat_cols(score) == 0);
        order = here(s, order, (uint64_t)w->n * sizeof *order);
        if (!s->failed && order) f->centroid_head(d, y, x, score, w, order, top);
    }
}

static void experts(ft_remote_server *s, ft_remote_op op)
{
    ft_dev *d = s->dev;
    if (op == FT_REMOTE_ROUTE) {
        const ft_expert_choice c = choices_of_rows(s, s->batch.T);
        const ft_mat x = take_mat(s);
        want(s, x.T <= s->batch.T && c.K <= ft_mat_cols(x));
        if (!s->failed) d->op->route(d, c, x);
        return;
    }
    const ft_mat y = take_mat(s), x = take_mat(s);
    if (op == FT_REMOTE_EXPERT_LINEAR) {
        const ft_weight *w = take_weight(s);
        const ft_expert_choice c = choices(s, take_choice(s), (uint64_t)y.T);
        const bool acc = take_bool(s);
        want(s, d->op->expert_linear && w->n == ft_mat_cols(y) && w->k == ft_mat_cols(x) &&
                    (y.T == x.T || (int64_t)y.T == (int64_t)x.T * c.K));
        if (!s->failed) d->op->expert_linear(d, y, x, w, c, acc);
        return;
    }
    const ft_experts *e = take_experts(s);
    const ft_expert_choice c = choices_of_rows(s, x.T);
    const ft_mat tmp = take_mat(s);
    want(s, alike(x, y) && tmp.T / FT_MAX(c.K, 1) >= x.T && ft_mat_cols(tmp) / 2 >= e->F &&
                e->down.k == e->F && e->down.n == ft_mat_cols(y));
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
    want(s, d->op->moe_shared && product_fits(sh->g, x, sh->gate) && alike(sh->g, sh->u) &&
                product_fits(sh->u, x, sh->up) && product_fits(y, sh->g, sh->down) &&
                sh->s.T == x.T);
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
        want(s, vec_fits(w, y.d) && cs.T >= y.T && ft_mat_cols(cs) <= y.d);
        if (!s->failed) d->op->norm_rope(d, y, w, eps, cs);
        return;
    }
    const ft_mat x = take_mat(s);
    if (op == FT_REMOTE_RMSNORM) {
        const ft_vec w = take_vec(s);
        const float eps = take_f32(s);
        want(s, alike(x, y) && x.H == y.H && vec_fits(w, x.d));
        if (!s->failed) d->op->rmsnorm(d, y, x, w, eps);
    } else if (op == FT_REMOTE_GATED_NORM) {
        const ft_mat z = take_mat(s);
        const ft_vec w = take_vec(s);
        const float eps = take_f32(s);
        want(s, alike(x, y) && alike(z, y) && vec_fits(w, z.d));
        if (!s->failed) d->op->gated_norm(d, y, x, z, w, eps);
    } else {
        const ft_vec w = take_vec(s);
        const float eps = take_f32(s), scale = take_f32(s);
        const int n = take_count(s, FT_NORMS);
        ft_norm_out *o = ft_serve_scratch(s, sizeof *o * FT_NORMS);
        for (int i = 0; i < n; i++) {
            o[i].y = take_mat(s);
            o[i].w = take_vec(s);
            want(s, alike(o[i].y, y) && vec_fits(o[i].w, ft_mat_cols(y)));
        }
        want(s, alike(x, y) && vec_fits(w, ft_mat_cols(y)));
        if (!s->failed) d->op->norm_add(d, y, x, w, eps, scale, o, n);
    }
}

static ft_attn take_attn(ft_remote_server *s)
{
    ft_attn p = {0};
    const unsigned char *from = ft_serve_bytes(s, sizeof p);
    want(s, from[offsetof(ft_attn, out)] <= 1 && from[offsetof(ft_attn, ahead)] <= 1);
    if (!s->failed) memcpy(&p, from, sizeof p);
    want(s, p.window >= 0 && p.first >= 0);
    return p;
}

static void states(ft_remote_server *s, ft_remote_op op)
{
    ft_dev *d = s->dev;
    if (op == FT_REMOTE_KV_PUT) {
        const ft_kv *kv = take_kv(s, false);
        const ft_mat k = take_mat(s), v = take_mat(s);
        want(s, alike(k, v) && k.T <= s->batch.T && ft_mat_cols(k) == (int64_t)kv->G * kv->d);
        if (!s->failed) d->op->kv_put(d, kv, k, v);
        return;
    }
    const ft_mat o = take_mat(s), y = take_mat(s);
    if (op == FT_REMOTE_ATTEND) {
        const ft_kv *kv = take_kv(s, false);
        const ft_attn p = take_attn(s);
        want(s, alike(o, y) && y.d == kv->d && y.H % kv->G == 0 && (!p.ahead || s->batch.ahead) &&
                    y.T <= (p.out ? s->batch.n_out : s->batch.T));
        if (!s->failed) d->op->attend(d, o, y, kv, p);
    } else if (op == FT_REMOTE_CONV) {
        const ft_vec w = take_vec(s);
        const ft_delta *m = take_delta(s);
        want(s, alike(o, y) && ft_mat_cols(y) == m->CH && y.T == s->batch.T && w.p &&
                    w.n / FT_MAX(m->C, 1) >= m->CH);
        if (!s->failed) d->op->conv(d, o, y, w, m);
    } else {
        const ft_mat a = take_mat(s), b = take_mat(s);
        const ft_vec A = take_vec(s), dt = take_vec(s);
        const ft_delta *m = take_delta(s);
        want(s, ft_mat_cols(y) == m->CH && y.T == s->batch.T && o.T == y.T && a.T == y.T &&
                    b.T == y.T && ft_mat_cols(o) == m->Hv * m->S && ft_mat_cols(a) == m->Hv &&
                    ft_mat_cols(b) == m->Hv && A.p && dt.p && A.n >= m->Hv && dt.n >= m->Hv);
        if (!s->failed) d->op->delta_rule(d, o, y, a, b, A, dt, m);
    }
}

static void angles(ft_remote_server *s)
{
    const ft_mat cs = take_mat(s);
    ft_rope *r = ft_serve_scratch(s, sizeof *r);
    memcpy(r, ft_serve_bytes(s, sizeof *r), sizeof *r);
    want(s, is_size(r->n) && r->n == ft_mat_cols(cs) && cs.T <= s->batch.T && r->freq && r->axis);
    const uint64_t pairs = s->failed ? 0 : (uint64_t)r->n / 2;
    r->freq = here(s, r->freq, pairs * sizeof *r->freq);
    r->axis = here(s, r->axis, pairs * sizeof *r->axis);
    if (!s->failed) s->dev->op->rope_angles(s->dev, cs, r);
}

static void find_largest(ft_remote_server *s)
{
    TAKE(int32_t *, id);
    const ft_mat x = take_mat(s);
    id = here(s, id, s->failed ? 0 : (uint64_t)x.T * sizeof *id);
    if (!s->failed && id) s->dev->op->argmax(s->dev, id, x);
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
        const ft_act act = take_act(s);
        want(s, alike(x, y) && alike(u, y));
        if (!s->failed) f->act_mul(d, y, x, u, act);
    } else if (op == FT_REMOTE_ADD) {
        const float scale = take_f32(s);
        want(s, alike(x, y));
        if (!s->failed) f->add(d, y, x, scale);
    } else if (op == FT_REMOTE_MIX) {
        TAKE(ft_mixing, m);
        const bool acc = take_bool(s);
        want(s, is_size(m.n) && m.row && m.w && ft_mat_cols(x) == ft_mat_cols(y));
        const uint64_t n = s->failed ? 0 : (uint64_t)y.T * (uint64_t)m.n;
        m.row = here(s, m.row, n * sizeof *m.row);
        m.w = here(s, m.w, n * sizeof *m.w);
        if (!s->failed) f->mix(d, y, x, m, acc);
    } else if (op == FT_REMOTE_GATHER) {
        const int which = take_int(s);
        const ft_batch *b = &s->batch;
        want(s, ft_mat_cols(x) == ft_mat_cols(y) && y.T <= (which == FT_OUT ? b->n_out : b->T) &&
                    all_below(which == FT_OUT ? b->out_row : b->src_row, y.T, 0, x.T));
        if (!s->failed) f->gather(d, y, x, which);
    } else if (!s->failed) {
        void (*const two)(ft_dev *, ft_mat, ft_mat) = op == FT_REMOTE_SIGMOID_MUL ? f->sigmoid_mul
                                                      : op == FT_REMOTE_SCATTER   ? f->scatter
                                                                                  : f->image_rows;
        if (op == FT_REMOTE_SIGMOID_MUL)
            want(s, y.T == x.T && (ft_mat_cols(x) == 1 || alike(x, y)));
        else
            want(s, ft_mat_cols(x) == ft_mat_cols(y) &&
                        (op == FT_REMOTE_SCATTER
                             ? x.T <= s->batch.T && all_below(s->batch.dst_row, x.T, -1, y.T)
                             : s->batch.image_row && y.T <= s->batch.T &&
                                   all_below(s->batch.image_row, y.T, -1, x.T)));
        if (!s->failed) two(d, y, x);
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
