/* Experts. Rows are sorted by expert, so that an expert's weights are read once for all of its
 * rows; a row still adds its experts in the order of its choices. */
#include "dev/cpu/cpu_dev.h"

#include <string.h>

/* ---- route ---- */

typedef struct route_args {
    ft_expert_choice r;
    ft_mat x;
} route_args;

static void route_job(const ft_part *p, const void *args)
{
    const route_args *a = args;
    const int E = ft_mat_cols(a->x), K = a->r.K;
    float *e = (float *)(void *)p->scratch;
    int lo, hi;
    ft_share(p, a->x.T, 1, &lo, &hi);
    for (int t = lo; t < hi; t++) {
        const float *x = ft_mat_head(a->x, t, 0);
        int32_t *id = a->r.id + (size_t)t * (size_t)K;
        float *w = a->r.w + (size_t)t * (size_t)K, picked = 0;
        for (int i = 0; i < K; i++) id[i] = ft_next_largest(x, E, i ? id[i - 1] : -1);
        p->k->exp_minus(e, x, x[id[0]], E);
        const float all = p->k->sum(e, E);
        for (int i = 0; i < K; i++) picked += e[id[i]] / all;
        for (int i = 0; i < K; i++) w[i] = e[id[i]] / all / fmaxf(picked, 0x1p-14f);
    }
}

void ft_cpu_route(ft_dev *d, ft_expert_choice r, ft_mat x)
{
    ft_cpu *c = (ft_cpu *)d;
    const route_args a = {r, x};
    const size_t n = (size_t)x.T * (size_t)r.K;
    ft_job_reads(c, x);
    ft_job_accesses(c, r.id, n * sizeof *r.id, true);
    ft_job_accesses(c, r.w, n * sizeof *r.w, true);
    ft_job_thread_scratch(c, (size_t)ft_mat_cols(x) * sizeof(float));
    FT_JOB(c, route_job, a);
}

/* ---- the experts ---- */

enum { STRIP = 64 };

typedef struct moe_args {
    ft_mat y, x, tmp;
    ft_rows8 x8, u8; /* u8: x for the up matrices, if they need another form */
    ft_experts e;
    ft_expert_choice r;
    bool acc;
} moe_args;

/* Shared scratch: choices sorted by expert, and the first of each expert. */
typedef struct sorted {
    int32_t *row, *choice; /* [n]: row of x, index of the choice */
    int32_t *first;        /* [E + 1] */
} sorted;

static sorted sorted_at(const ft_part *p, int n)
{
    int32_t *m = (int32_t *)(void *)p->c->shared;
    return (sorted){m, m + n, m + 2 * (size_t)n};
}

typedef struct sort_args {
    const int32_t *id; /* [n] */
    int n, each, E;    /* each: choices of a row */
} sort_args;

static void sort_job(const ft_part *p, const void *args)
{
    const sort_args *a = args;
    if (p->thread) return;
    const sorted s = sorted_at(p, a->n);
    memset(s.first, 0, (size_t)(a->E + 1) * sizeof *s.first);
    for (int i = 0; i < a->n; i++) s.first[a->id[i] + 1]++;
    for (int e = 0; e < a->E; e++) s.first[e + 1] += s.first[e];
    for (int i = 0; i < a->n; i++) {
        const int32_t at = s.first[a->id[i]]++;
        s.row[at] = i / a->each;
        s.choice[at] = i;
    }
    memmove(s.first + 1, s.first, (size_t)a->E * sizeof *s.first);
    s.first[0] = 0;
}

/* out[i, STRIP] = scale * rows [lo, hi) of expert e's matrix times the columns */
static void strip(const ft_part *p, float *out, const ft_weight *w, int e, int lo, int hi,
                  const ft_inputs *x)
{
    const float scale = ft_weight_scale(w, e);
    ft_cpu_product(p, out, STRIP, w, e, lo, hi, x);
    for (int i = 0; i < x->n; i++)
        for (int o = 0; o < hi - lo; o++) out[(size_t)i * STRIP + (size_t)o] *= scale;
}

/* Estimated cost of a strip of the experts [from, to): their rows, and reading their weights. */
static int cost_of(sorted s, int from, int to)
{
    enum { READ = 8 };
    int cost = 0;
    for (int e = from; e < to; e++)
        if (s.first[e + 1] > s.first[e]) cost += READ + s.first[e + 1] - s.first[e];
    return cost;
}

/* A thread's strips of the experts, one at a time: strip j of expert e. */
typedef struct strip_share {
    sorted s;
    int E, strips, lo, hi, at, cost, e, j;
} strip_share;

static strip_share share_strips(const ft_part *p, sorted s, int E, int strips)
{
    strip_share w = {.s = s, .E = E, .strips = strips, .e = -1, .j = strips};
    ft_share(p, strips * cost_of(s, 0, E), 1, &w.lo, &w.hi);
    return w;
}

static bool next_strip(strip_share *w)
{
    w->j++;
    while (w->j >= w->strips || w->at + w->j * w->cost >= w->hi) {
        w->at += w->strips * w->cost;
        if (++w->e >= w->E || w->at >= w->hi) return false;
        w->cost = cost_of(w->s, w->e, w->e + 1);
        w->j = w->strips; /* no rows: the next expert */
        if (w->cost) w->j = w->lo > w->at ? (w->lo - w->at + w->cost - 1) / w->cost : 0;
    }
    return true;
}

/* act(gate x) * up x into the front half of tmp's rows: one strip of one expert at a time. */
static void up_job(const ft_part *p, const void *args)
{
    const moe_args *a = args;
    const sorted s = sorted_at(p, a->x.T * a->r.K);
    const bool fused = a->e.gate_up.data != NULL;
    const ft_weight *wg = fused ? &a->e.gate_up : &a->e.gate, *wu = fused ? wg : &a->e.up;
    const int F = a->e.F, up_at = fused ? F : 0;
    float *g = (float *)(void *)(p->scratch + FT_MAX(ft_cpu_product_scratch(p->c, wg),
                                                     ft_cpu_product_scratch(p->c, wu)));
    float *u = g + (size_t)a->x.T * (size_t)a->r.K * STRIP;
    strip_share w = share_strips(p, s, a->e.E, (F + STRIP - 1) / STRIP);
    while (next_strip(&w)) {
        const int first = s.first[w.e], n = s.first[w.e + 1] - first;
        const int o = w.j * STRIP, end = FT_MIN(F, o + STRIP);
        const ft_inputs x = {a->x, a->x8, s.row + first, 0, n};
        const ft_inputs xu = {a->x, a->u8, s.row + first, 0, n};
        strip(p, g, wg, w.e, o, end, &x);
        strip(p, u, wu, w.e, up_at + o, up_at + end, &xu);
        for (int i = 0; i < n; i++) {
            float *to = ft_mat_head(a->tmp, s.choice[first + i], 0) + o;
            const float *gi = g + (size_t)i * STRIP, *ui = u + (size_t)i * STRIP;
            if (a->e.act == FT_SILU)
                p->k->silu_mul(to, gi, ui, end - o);
            else
                p->k->gelu_mul(to, gi, ui, end - o);
        }
    }
}

/* Outputs in strips: the part of every expert in a strip, then the sum of each row in the order of
 * its choices. */
static void down_job(const ft_part *p, const void *args)
{
    const moe_args *a = args;
    const sorted s = sorted_at(p, a->x.T * a->r.K);
    const ft_weight *w = &a->e.down;
    const size_t all = (size_t)a->x.T * (size_t)a->r.K;
    float *r = (float *)(void *)(p->scratch + ft_cpu_product_scratch(p->c, w)),
          *out = r + all * STRIP;
    const ft_mat hidden = ft_cols(a->tmp, 0, a->e.F);
    int lo, hi;
    ft_share(p, w->n, STRIP, &lo, &hi);
    for (int o = lo; o < hi; o += STRIP) {
        const int end = FT_MIN(hi, o + STRIP);
        for (int e = 0; e < a->e.E; e++) {
            const int first = s.first[e], n = s.first[e + 1] - first;
            const ft_inputs x = {hidden, a->x8, s.choice + first, 0, n};
            if (!n) continue;
            strip(p, out, w, e, o, end, &x);
            for (int i = 0; i < n; i++)
                memcpy(r + (size_t)s.choice[first + i] * STRIP, out + (size_t)i * STRIP,
                       STRIP * sizeof(float));
        }
        for (int t = 0; t < a->x.T; t++) {
            float *y = ft_mat_head(a->y, t, 0) + o;
            for (int j = 0; j < end - o; j++) {
                float sum = 0;
                for (int i = 0; i < a->r.K; i++) {
                    const size_t at = (size_t)t * (size_t)a->r.K + (size_t)i;
                    sum = ft_fma(a->r.w[at], r[at * STRIP + (size_t)j], sum);
                }
                y[j] = a->acc ? y[j] + sum : sum;
            }
        }
    }
}

static void reads_route(ft_cpu *c, ft_expert_choice r, size_t n)
{
    ft_job_accesses(c, r.id, n * sizeof *r.id, false);
    ft_job_accesses(c, r.w, n * sizeof *r.w, false);
}

static void sort_choices(ft_cpu *c, ft_expert_choice r, int n, int each, int E)
{
    const sort_args a = {r.id, n, each, E};
    reads_route(c, r, (size_t)n);
    ft_job_shared_scratch(c, (2 * (size_t)n + (size_t)E + 1) * sizeof(int32_t));
    FT_JOB(c, sort_job, a);
}

void ft_cpu_moe(ft_dev *d, ft_mat y, ft_mat x, const ft_experts *e, ft_expert_choice r, ft_mat tmp,
                bool acc)
{
    ft_cpu *c = (ft_cpu *)d;
    assert(y.hs == y.d && x.hs == x.d && tmp.hs == tmp.d);
    const ft_weight *wg = e->gate_up.data ? &e->gate_up : &e->gate;
    const ft_weight *wu = e->gate_up.data ? &e->gate_up : &e->up;
    const size_t n = (size_t)x.T * (size_t)r.K, strips = 2 * n * STRIP * sizeof(float);
    moe_args a = {.y = y, .x = x, .tmp = tmp, .e = *e, .r = r, .acc = acc};
    if (ft_cpu_wants8(c, wg)) a.x8 = ft_rows8_of(c, x, wg);
    if (ft_cpu_wants8(c, wu)) a.u8 = ft_rows8_of(c, x, wu);

    sort_choices(c, r, (int)n, r.K, e->E);
    if (ft_cpu_wants8(c, wg)) ft_job_reads8(c, a.x8);
    if (ft_cpu_wants8(c, wu)) ft_job_reads8(c, a.u8);
    ft_job_reads(c, x);
    reads_route(c, r, n);
    ft_job_shared_scratch(c, 0);
    ft_job_writes(c, tmp);
    ft_job_thread_scratch(c, FT_MAX(ft_cpu_product_scratch(c, wg), ft_cpu_product_scratch(c, wu)) +
                                 strips);
    FT_JOB(c, up_job, a);

    if (ft_cpu_wants8(c, &e->down)) a.x8 = ft_rows8_of(c, ft_cols(tmp, 0, e->F), &e->down);
    if (ft_cpu_wants8(c, &e->down)) ft_job_reads8(c, a.x8);
    ft_job_reads(c, tmp);
    reads_route(c, r, n);
    ft_job_shared_scratch(c, 0);
    ft_job_writes(c, y);
    ft_job_thread_scratch(c, ft_cpu_product_scratch(c, &e->down) + strips);
    FT_JOB(c, down_job, a);
}

/* ---- one product ---- */

typedef struct expert_args {
    ft_mat y, x;
    ft_rows8 x8;
    ft_weight w;
    bool acc;
} expert_args;

static void expert_job(const ft_part *p, const void *args)
{
    const expert_args *a = args;
    const sorted s = sorted_at(p, a->y.T);
    float *out = (float *)(void *)(p->scratch + ft_cpu_product_scratch(p->c, &a->w));
    strip_share w = share_strips(p, s, a->w.E, (a->w.n + STRIP - 1) / STRIP);
    while (next_strip(&w)) {
        const int first = s.first[w.e], n = s.first[w.e + 1] - first;
        const int o = w.j * STRIP, end = FT_MIN(a->w.n, o + STRIP);
        const ft_inputs x = {a->x, a->x8, s.row + first, 0, n};
        strip(p, out, &a->w, w.e, o, end, &x);
        for (int i = 0; i < n; i++) {
            float *to = ft_mat_head(a->y, s.choice[first + i], 0) + o;
            const float *from = out + (size_t)i * STRIP;
            for (int j = 0; j < end - o; j++) to[j] = a->acc ? to[j] + from[j] : from[j];
        }
    }
}

void ft_cpu_expert_linear(ft_dev *d, ft_mat y, ft_mat x, const ft_weight *w, ft_expert_choice r,
                          bool acc)
{
    ft_cpu *c = (ft_cpu *)d;
    assert(y.hs == y.d && x.hs == x.d);
    expert_args a = {.y = y, .x = x, .w = *w, .acc = acc};
    if (ft_cpu_wants8(c, w)) a.x8 = ft_rows8_of(c, x, w);
    sort_choices(c, r, y.T, y.T / x.T, w->E);

    if (ft_cpu_wants8(c, w)) ft_job_reads8(c, a.x8);
    ft_job_reads(c, x);
    ft_job_shared_scratch(c, 0);
    ft_job_writes(c, y);
    ft_job_thread_scratch(c, ft_cpu_product_scratch(c, w) + (size_t)y.T * STRIP * sizeof(float));
    FT_JOB(c, expert_job, a);
}
