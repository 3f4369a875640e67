/* The gated delta net: convolution and recurrence, with their journals. Rows of a span are computed
 * one by one or, in pieces that end at multiples of FT_CHUNK_ROWS, in the blocked form of
 * cpu_chunk.c. A piece of few rows is always computed row by row, so that the result does not
 * depend on how a prompt was cut into batches. */
#include "dev/cpu/cpu_dev.h"

#include <string.h>

/* Row `row` of journal `plane` of a slot, in an array of `width` values per row. */
static float *journal(float *base, const ft_delta *s, int slot, int plane, int row, size_t width)
{
    return base + (((size_t)slot * 2 + (size_t)plane) * (size_t)s->J + (size_t)row) * width;
}

/* ---- convolution ---- */

enum { PIECE = 1024 }; /* channels per work item */

typedef struct conv_args {
    ft_mat y, u;
    ft_vec w;
    ft_delta s;
} conv_args;

/* Rows in time order: the stored window, then a run of new ones. */
typedef struct history {
    float *window;
    const float *next; /* rows next_step apart */
    size_t next_step, CH;
    int taps;
} history;

static const float *history_at(const history *h, int i)
{
    const int w = h->taps - 1;
    return i < w ? h->window + (size_t)i * h->CH : h->next + (size_t)(i - w) * h->next_step;
}

/* The window after n of the new rows: every row moves towards the front. */
static void history_move(const history *h, int n, int lo, int count)
{
    for (int i = 0; i < h->taps - 1; i++)
        memmove(h->window + (size_t)i * h->CH + lo, history_at(h, i + n) + lo,
                (size_t)count * sizeof(float));
}

static void conv_channels(const ft_kern *k, float *y, const history *h, int row, const float *w,
                          int lo, int n)
{
    const int taps = h->taps;
    if (taps == 4) {
        const float *x[4];
        for (int i = 0; i < 4; i++) x[i] = history_at(h, row + i) + lo;
        k->conv4(y, x, w, n);
        return;
    }
    memset(y, 0, (size_t)n * sizeof(float));
    for (int t = 0; t < taps; t++) {
        const float *x = history_at(h, row + t) + lo;
        for (int i = 0; i < n; i++) y[i] = ft_fma(w[i * taps + t], x[i], y[i]);
    }
}

static void conv_span(const ft_part *p, const conv_args *a, const ft_span *sp, int lo, int n)
{
    const ft_delta *s = &a->s;
    const size_t CH = (size_t)s->CH, size = (size_t)(s->C - 1) * CH;
    history h = {s->conv + (size_t)sp->slot * size, NULL, CH, CH, s->C};
    assert(!sp->tentative || sp->n <= s->J);
    if (sp->replay) {
        h.next = journal(s->j_conv, s, sp->slot, sp->plane, 0, CH);
        history_move(&h, sp->replay, lo, n);
    }
    h.next = ft_mat_head(a->u, sp->row, 0);
    h.next_step = (size_t)a->u.rs;
    for (int r = 0; r < sp->n; r++) {
        float *y = ft_mat_head(a->y, sp->row + r, 0) + lo;
        conv_channels(p->k, y, &h, r, a->w.p + (size_t)lo * (size_t)s->C, lo, n);
        p->k->silu(y, n);
        if (sp->tentative)
            memcpy(journal(s->j_conv, s, sp->slot, 1 - sp->plane, r, CH) + lo,
                   ft_mat_head(a->u, sp->row + r, 0) + lo, (size_t)n * sizeof(float));
    }
    if (!sp->tentative) history_move(&h, sp->n, lo, n);
}

static void conv_job(const ft_part *p, const void *args)
{
    const conv_args *a = args;
    int lo, hi;
    ft_share(p, a->s.CH, FT_COL_GRAIN, &lo, &hi);
    for (int i = 0; i < p->b->S; i++)
        for (int at = lo; at < hi; at += PIECE)
            conv_span(p, a, &p->b->span[i], at, FT_MIN(PIECE, hi - at));
}

void ft_cpu_conv(ft_dev *d, ft_mat y, ft_mat u, ft_vec w, const ft_delta *s)
{
    ft_cpu *c = (ft_cpu *)d;
    const conv_args a = {y, u, w, *s};
    ft_job_reads_part(c, u, ft_partition_cols(u, FT_COL_GRAIN));
    ft_job_writes_part(c, y, ft_partition_cols(y, FT_COL_GRAIN));
    ft_job_accesses(c, s->conv, 1, true); /* the first value represents window and journal */
    FT_JOB(c, conv_job, a);
}

/* ---- recurrence ---- */

typedef struct delta_args {
    ft_mat o, y, a, b;
    ft_vec A, dt;
    ft_delta s;
} delta_args;

/* One value head of one span, and its scratch. */
typedef struct head {
    const delta_args *a;
    const ft_span *sp;
    int h, kh;
    float *q, *k;    /* [FT_CHUNK_ROWS, S], normalised */
    float *g, *beta; /* [FT_CHUNK_ROWS] */
    float *upd;      /* [FT_DECODE_ROWS, S] */
    float *cols;     /* [S, FT_DELTA_COLS]: the working state of tentative rows */
    float *chunk;
} head;

static size_t head_floats(int S)
{
    const size_t n = (size_t)S;
    return 2 * FT_CHUNK_ROWS * n + 2 * FT_CHUNK_ROWS + ft_round_up(FT_DECODE_ROWS * n, 16) +
           FT_DELTA_COLS * n + ft_delta_chunk_scratch(S);
}

static void head_place(head *e, float *m)
{
    const size_t S = (size_t)e->a->s.S;
    e->q = m;
    e->k = e->q + FT_CHUNK_ROWS * S;
    e->g = e->k + FT_CHUNK_ROWS * S;
    e->beta = e->g + FT_CHUNK_ROWS;
    e->upd = e->beta + FT_CHUNK_ROWS;
    e->cols = e->upd + ft_round_up(FT_DECODE_ROWS * S, 16);
    e->chunk = e->cols + FT_DELTA_COLS * S;
}

/* Row r of the span as row i of the scratch: normalised q and k, log decay and beta. */
static void prepare(const ft_part *p, const head *e, int r, int i)
{
    const delta_args *a = e->a;
    const int S = a->s.S, t = e->sp->row + r;
    const float *q = ft_mat_head(a->y, t, 0) + e->kh * S, *k = q + a->s.Hk * S;
    const float fq = 1.0f / sqrtf(p->k->dot(q, q, S) + 1e-6f) / sqrtf((float)S);
    const float fk = 1.0f / sqrtf(p->k->dot(k, k, S) + 1e-6f);
    for (int j = 0; j < S; j++) e->q[(size_t)i * (size_t)S + (size_t)j] = q[j] * fq;
    for (int j = 0; j < S; j++) e->k[(size_t)i * (size_t)S + (size_t)j] = k[j] * fk;
    const float x = *ft_mat_value(a->a, t, e->h) + a->dt.p[e->h];
    e->g[i] = a->A.p[e->h] * (x > 20 ? x : log1pf(expf(x)));
    e->beta[i] = 1.0f / (1.0f + expf(-*ft_mat_value(a->b, t, e->h)));
}

static void write_journal(const head *e, int r)
{
    const ft_delta *s = &e->a->s;
    const int slot = e->sp->slot, plane = 1 - e->sp->plane;
    const size_t S = (size_t)s->S, bytes = S * sizeof(float);
    if (e->h == e->kh) /* the first of the value heads that share this key */
        memcpy(journal(s->j_k, s, slot, plane, r, (size_t)s->Hk * S) + (size_t)e->kh * S,
               e->k + (size_t)r * S, bytes);
    memcpy(journal(s->j_d, s, slot, plane, r, (size_t)s->Hv * S) + (size_t)e->h * S,
           e->upd + (size_t)r * S, bytes);
    journal(s->j_g, s, slot, plane, r, (size_t)s->Hv)[e->h] = e->g[r];
}

static const float *value_at(const head *e, int r)
{
    const ft_delta *s = &e->a->s;
    return ft_mat_head(e->a->y, e->sp->row + r, 0) + (2 * s->Hk + e->h) * s->S;
}

/* Rows [from, to) in order, at most FT_DECODE_ROWS, after the journal entries that are to be
 * applied. */
static void rows_one_by_one(const ft_part *p, const head *e, float *Z, int replay, int from, int to)
{
    const ft_delta *s = &e->a->s;
    const ft_span *sp = e->sp;
    const size_t S = (size_t)s->S;
    float decay[FT_DECODE_ROWS], j_decay[FT_DECODE_ROWS];
    assert(to - from <= FT_DECODE_ROWS && replay <= FT_DECODE_ROWS);
    for (int r = 0; r < replay; r++)
        j_decay[r] = expf(journal(s->j_g, s, sp->slot, sp->plane, r, (size_t)s->Hv)[e->h]);
    for (int r = from; r < to; r++) {
        prepare(p, e, r, r - from);
        decay[r - from] = expf(e->g[r - from]);
    }
    const ft_delta_rows rows = {
        .S = s->S,
        .replay = replay,
        .n = to - from,
        .jk = journal(s->j_k, s, sp->slot, sp->plane, 0, (size_t)s->Hk * S) + (size_t)e->kh * S,
        .jd = journal(s->j_d, s, sp->slot, sp->plane, 0, (size_t)s->Hv * S) + (size_t)e->h * S,
        .j_decay = j_decay,
        .jk_step = s->Hk * s->S,
        .jd_step = s->Hv * s->S,
        .q = e->q,
        .k = e->k,
        .v = value_at(e, from),
        .o = ft_mat_head(e->a->o, sp->row + from, e->h),
        .upd = e->upd,
        .v_step = e->a->y.rs,
        .o_step = e->a->o.rs,
        .decay = decay,
        .beta = e->beta,
        .store_state = !sp->tentative,
    };
    p->k->delta_rows(Z, &rows, e->cols);
}

static void rows_in_chunk(const ft_part *p, const head *e, float *Z, int from, int to)
{
    for (int r = from; r < to; r++) prepare(p, e, r, r - from);
    const ft_chunk c = {
        .n = to - from,
        .S = e->a->s.S,
        .q = e->q,
        .k = e->k,
        .v = value_at(e, from),
        .o = ft_mat_head(e->a->o, e->sp->row + from, e->h),
        .v_step = e->a->y.rs,
        .o_step = e->a->o.rs,
        .g = e->g,
        .beta = e->beta,
        .Z = Z,
    };
    ft_delta_chunk(p->k, &c, e->chunk);
}

static void delta_head(const ft_part *p, const head *e)
{
    const ft_delta *s = &e->a->s;
    const ft_span *sp = e->sp;
    const size_t n = (size_t)s->S * (size_t)s->S;
    float *Z = s->state + ((size_t)sp->slot * (size_t)s->Hv + (size_t)e->h) * n;
    assert(!sp->tentative || sp->n <= s->J);
    if (sp->tentative) {
        rows_one_by_one(p, e, Z, sp->replay, 0, sp->n);
        for (int r = 0; r < sp->n; r++) write_journal(e, r);
        return;
    }
    int replay = sp->replay;
    for (int r = 0, to; r < sp->n; r = to, replay = 0) {
        to = r < sp->serial ? FT_MIN(sp->serial, r + FT_DECODE_ROWS)
                            : FT_MIN(sp->n, r + FT_CHUNK_ROWS - (sp->start + r) % FT_CHUNK_ROWS);
        if (to - r <= FT_DECODE_ROWS) {
            rows_one_by_one(p, e, Z, replay, r, to);
        } else {
            if (replay) rows_one_by_one(p, e, Z, replay, r, r);
            rows_in_chunk(p, e, Z, r, to);
        }
    }
}

static void delta_job(const ft_part *p, const void *args)
{
    const delta_args *a = args;
    int lo, hi;
    ft_share(p, p->b->S * a->s.Hv, 1, &lo, &hi);
    for (int i = lo; i < hi; i++) {
        const int h = i % a->s.Hv;
        head e = {.a = a, .sp = &p->b->span[i / a->s.Hv], .h = h, .kh = h % a->s.Hk};
        head_place(&e, (float *)(void *)p->scratch);
        delta_head(p, &e);
    }
}

void ft_cpu_delta_rule(ft_dev *d, ft_mat o, ft_mat y, ft_mat a, ft_mat b, ft_vec A, ft_vec dt,
                       const ft_delta *s)
{
    ft_cpu *c = (ft_cpu *)d;
    const delta_args args = {o, y, a, b, A, dt, *s};
    ft_job_reads(c, y);
    ft_job_reads(c, a);
    ft_job_reads(c, b);
    ft_job_writes_part(c, o, d->batch->S == 1 ? ft_partition_cols(o, o.d) : (ft_partition){0});
    ft_job_accesses(c, s->state, 1, true);
    ft_job_thread_scratch(c, head_floats(s->S) * sizeof(float));
    FT_JOB(c, delta_job, args);
}
