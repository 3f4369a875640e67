/* Norms and element-wise ops. A work item is a head of a row, or PIECE columns of a row if the op
 * has no sum. */
#include "dev/cpu/cpu_dev.h"

#include <string.h>

enum { PIECE = 256 };

typedef struct plain_args {
    ft_mat y, x, u;
    ft_vec w;
    float f;
    int mode;
} plain_args;

static float inverse_rms(const ft_kern *k, const float *x, int n, float eps)
{
    return 1.0f / sqrtf(k->dot(x, x, n) / (float)n + eps);
}

/* y = x r w; w may be NULL. */
static void scale_head(float *y, const float *x, float r, const float *w, int n)
{
    if (w)
        for (int i = 0; i < n; i++) y[i] = x[i] * r * w[i];
    else
        for (int i = 0; i < n; i++) y[i] = x[i] * r;
}

static void norm_head(const ft_kern *k, float *y, const float *x, const float *w, int n, float eps)
{
    scale_head(y, x, inverse_rms(k, x, n, eps), w, n);
}

static void rmsnorm_job(const ft_part *p, const void *args)
{
    const plain_args *a = args;
    int lo, hi;
    ft_share(p, a->x.T * a->x.H, 1, &lo, &hi);
    for (int i = lo; i < hi; i++)
        norm_head(p->k, ft_mat_head(a->y, i / a->x.H, i % a->x.H),
                  ft_mat_head(a->x, i / a->x.H, i % a->x.H), a->w.p, a->x.d, a->f);
}

void ft_cpu_rmsnorm(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, float eps)
{
    ft_cpu *c = (ft_cpu *)d;
    const plain_args a = {.y = y, .x = x, .w = w, .f = eps};
    const ft_partition cut =
        x.H == 1 ? ft_partition_rows(x) : (ft_partition){FT_PARTITION_HEADS, x.T * x.H, 1};
    ft_job_reads_part(c, x, cut);
    ft_job_writes_part(c, y, cut);
    FT_JOB(c, rmsnorm_job, a);
}

static void gated_head(const ft_part *p, const plain_args *a, int t, int h)
{
    float *y = ft_mat_head(a->y, t, h);
    norm_head(p->k, y, ft_mat_head(a->x, t, h), a->w.p, a->x.d, a->f);
    p->k->silu_mul(y, ft_mat_head(a->u, t, h), y, a->x.d);
}

static void gated_norm_job(const ft_part *p, const void *args)
{
    const plain_args *a = args;
    const ft_partition cut = ft_partition_heads(p->c, a->x);
    int lo, hi;
    ft_share(p, cut.n, cut.grain, &lo, &hi);
    if (cut.by == FT_PARTITION_HEADS)
        for (int i = lo; i < hi; i++) gated_head(p, a, i / a->x.H, i % a->x.H);
    else
        for (int t = 0; t < a->x.T; t++)
            for (int h = lo / a->x.d; h < hi / a->x.d; h++) gated_head(p, a, t, h);
}

void ft_cpu_gated_norm(ft_dev *d, ft_mat y, ft_mat o, ft_mat z, ft_vec w, float eps)
{
    ft_cpu *c = (ft_cpu *)d;
    assert(y.H == o.H && z.H == o.H && z.d == o.d);
    const plain_args a = {.y = y, .x = o, .u = z, .w = w, .f = eps};
    const ft_partition cut = ft_partition_heads(c, o);
    ft_job_reads_part(c, o, cut);
    ft_job_reads_part(c, z, cut);
    ft_job_writes_part(c, y, cut);
    FT_JOB(c, gated_norm_job, a);
}

typedef struct norm_add_args {
    ft_mat y, x;
    ft_vec w;
    float eps, scale;
    ft_norm_out o[FT_NORMS];
    int n;
} norm_add_args;

static void norm_add_row(const ft_kern *k, const norm_add_args *a, int t)
{
    const int d = a->x.d;
    const float *x = ft_mat_head(a->x, t, 0), *w = a->w.p;
    float *y = ft_mat_head(a->y, t, 0);
    const float r = inverse_rms(k, x, d, a->eps);
    for (int i = 0; i < d; i++) y[i] = (y[i] + x[i] * r * w[i]) * a->scale;
    if (!a->n) return;
    const float q = inverse_rms(k, y, d, a->eps);
    for (int i = 0; i < a->n; i++) scale_head(ft_mat_head(a->o[i].y, t, 0), y, q, a->o[i].w.p, d);
}

static void norm_add_job(const ft_part *p, const void *args)
{
    const norm_add_args *a = args;
    int lo, hi;
    ft_share(p, a->x.T, 1, &lo, &hi);
    for (int t = lo; t < hi; t++) norm_add_row(p->k, a, t);
}

void ft_cpu_norm_add(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, float eps, float scale,
                     const ft_norm_out *o, int n)
{
    ft_cpu *c = (ft_cpu *)d;
    norm_add_args a = {.y = y, .x = x, .w = w, .eps = eps, .scale = scale, .n = n};
    const ft_partition rows = ft_partition_rows(y);
    ft_job_reads_part(c, x, rows);
    ft_job_writes_part(c, y, rows);
    for (int i = 0; i < n; i++) {
        a.o[i] = o[i];
        ft_job_writes_part(c, o[i].y, rows);
    }
    FT_JOB(c, norm_add_job, a);
}

/* ---- element-wise ops ---- */

typedef void run_fn(const ft_kern *k, const plain_args *a, float *y, const float *x, const float *u,
                    int n);

/* Columns [from, to) of row t, in runs that are contiguous in all matrices. */
static void row_runs(const ft_part *p, const plain_args *a, run_fn *fn, int t, int from, int to)
{
    for (int c = from, n; c < to; c += n) {
        n = FT_MIN(to - c, a->y.d - c % a->y.d);
        if (a->x.p) n = FT_MIN(n, a->x.d - c % a->x.d);
        if (a->u.p) n = FT_MIN(n, a->u.d - c % a->u.d);
        fn(p->k, a, ft_mat_value(a->y, t, c), a->x.p ? ft_mat_value(a->x, t, c) : NULL,
           a->u.p ? ft_mat_value(a->u, t, c) : NULL, n);
    }
}

/* All rows of some columns, or a few columns of some rows if there are few. */
static ft_partition run_cut(const ft_cpu *c, ft_mat y)
{
    const bool wide = ft_mat_cols(y) / FT_COL_GRAIN >= ft_pool_threads(c->pool);
    return wide ? ft_partition_cols(y, FT_COL_GRAIN) : (ft_partition){0};
}

/* Calls fn for this thread's part of y. */
static void each_run(const ft_part *p, const plain_args *a, run_fn *fn)
{
    const int cols = ft_mat_cols(a->y), pieces = (cols + PIECE - 1) / PIECE;
    int lo, hi;
    if (run_cut(p->c, a->y).by == FT_PARTITION_COLS) {
        ft_share(p, cols, FT_COL_GRAIN, &lo, &hi);
        for (int t = 0; t < a->y.T; t++) row_runs(p, a, fn, t, lo, hi);
        return;
    }
    ft_share(p, a->y.T * pieces, 1, &lo, &hi);
    for (int i = lo; i < hi; i++) {
        const int from = i % pieces * PIECE;
        row_runs(p, a, fn, i / pieces, from, FT_MIN(cols, from + PIECE));
    }
}

static void run_job(ft_cpu *c, ft_job_fn *fn, plain_args a)
{
    const ft_partition cut = run_cut(c, a.y);
    if (a.x.p) ft_job_reads_part(c, a.x, cut);
    if (a.u.p) ft_job_reads_part(c, a.u, cut);
    ft_job_writes_part(c, a.y, cut);
    FT_JOB(c, fn, a);
}

static void act_mul_run(const ft_kern *k, const plain_args *a, float *y, const float *x,
                        const float *u, int n)
{
    if (a->mode == FT_SILU)
        k->silu_mul(y, x, u, n);
    else
        k->gelu_mul(y, x, u, n);
}

static void act_mul_job(const ft_part *p, const void *args)
{
    each_run(p, args, act_mul_run);
}

void ft_cpu_act_mul(ft_dev *d, ft_mat y, ft_mat g, ft_mat u, ft_act act)
{
    run_job((ft_cpu *)d, act_mul_job, (plain_args){.y = y, .x = g, .u = u, .mode = (int)act});
}

static void sigmoid_run(const ft_kern *k, const plain_args *a, float *y, const float *x,
                        const float *u, int n)
{
    (void)a, (void)u;
    k->sigmoid_mul(y, x, n);
}

static void sigmoid_job(const ft_part *p, const void *args)
{
    each_run(p, args, sigmoid_run);
}

/* One gate for the whole row. */
static void sigmoid_row_job(const ft_part *p, const void *args)
{
    const plain_args *a = args;
    int lo, hi;
    ft_share(p, a->y.T, 1, &lo, &hi);
    for (int t = lo; t < hi; t++) {
        float gate = 1;
        p->k->sigmoid_mul(&gate, ft_mat_head(a->x, t, 0), 1);
        for (int c = 0; c < ft_mat_cols(a->y); c++) *ft_mat_value(a->y, t, c) *= gate;
    }
}

void ft_cpu_sigmoid_mul(ft_dev *d, ft_mat y, ft_mat g)
{
    ft_cpu *c = (ft_cpu *)d;
    const plain_args a = {.y = y, .x = g};
    if (ft_mat_cols(g) == ft_mat_cols(y)) {
        run_job(c, sigmoid_job, a);
        return;
    }
    ft_job_reads(c, g);
    ft_job_writes_part(c, y, ft_partition_rows(y));
    FT_JOB(c, sigmoid_row_job, a);
}

static void add_run(const ft_kern *k, const plain_args *a, float *y, const float *x, const float *u,
                    int n)
{
    (void)k, (void)u;
    for (int i = 0; i < n; i++) y[i] = (y[i] + x[i]) * a->f;
}

static void add_job(const ft_part *p, const void *args)
{
    each_run(p, args, add_run);
}

void ft_cpu_add(ft_dev *d, ft_mat y, ft_mat x, float scale)
{
    run_job((ft_cpu *)d, add_job, (plain_args){.y = y, .x = x, .f = scale});
}

static void softcap_run(const ft_kern *k, const plain_args *a, float *y, const float *x,
                        const float *u, int n)
{
    (void)x, (void)u;
    k->softcap(y, a->f, n);
}

static void softcap_job(const ft_part *p, const void *args)
{
    each_run(p, args, softcap_run);
}

void ft_cpu_softcap(ft_dev *d, ft_mat y, float cap)
{
    run_job((ft_cpu *)d, softcap_job, (plain_args){.y = y, .f = cap});
}

static void gather_job(const ft_part *p, const void *args)
{
    const plain_args *a = args;
    const int32_t *from = a->mode == FT_OUT ? p->b->out_row : p->b->src_row;
    const int cols = ft_mat_cols(a->y);
    int lo, hi;
    ft_share(p, a->y.T, 1, &lo, &hi);
    for (int t = lo; t < hi; t++)
        for (int c = 0, n; c < cols; c += n) {
            n = FT_MIN(a->y.d - c % a->y.d, a->x.d - c % a->x.d);
            memcpy(ft_mat_value(a->y, t, c), ft_mat_value(a->x, from[t], c),
                   (size_t)n * sizeof(float));
        }
}

void ft_cpu_gather(ft_dev *d, ft_mat y, ft_mat x, int which)
{
    ft_cpu *c = (ft_cpu *)d;
    const plain_args a = {.y = y, .x = x, .mode = which};
    ft_job_reads(c, x);
    ft_job_writes(c, y);
    FT_JOB(c, gather_job, a);
}

static void scatter_job(const ft_part *p, const void *args)
{
    const plain_args *a = args;
    const int cols = ft_mat_cols(a->x);
    int lo, hi;
    ft_share(p, a->x.T, 1, &lo, &hi);
    for (int t = lo; t < hi; t++) {
        const int to = p->b->dst_row[t];
        if (to < 0) continue;
        for (int c = 0, n; c < cols; c += n) {
            n = FT_MIN(a->y.d - c % a->y.d, a->x.d - c % a->x.d);
            memcpy(ft_mat_value(a->y, to, c), ft_mat_value(a->x, t, c), (size_t)n * sizeof(float));
        }
    }
}

void ft_cpu_scatter(ft_dev *d, ft_mat y, ft_mat x)
{
    ft_cpu *c = (ft_cpu *)d;
    const plain_args a = {.y = y, .x = x};
    ft_job_reads(c, x);
    ft_job_writes(c, y);
    FT_JOB(c, scatter_job, a);
}

/* ---- RoPE ---- */

typedef struct angles_args {
    ft_mat cs;
    ft_rope r;
} angles_args;

static void angles_job(const ft_part *p, const void *args)
{
    const angles_args *a = args;
    const int half = a->r.n / 2;
    int lo, hi;
    ft_share(p, a->cs.T * half, 16, &lo, &hi);
    for (int i = lo; i < hi; i++) {
        const int t = i / half, j = i % half;
        const double angle = (double)p->b->pos[a->r.axis[j]][t] * a->r.freq[j];
        float *row = ft_mat_head(a->cs, t, 0);
        row[j] = (float)cos(angle) * a->r.mscale;
        row[j + half] = (float)sin(angle) * a->r.mscale;
    }
}

void ft_cpu_rope_angles(ft_dev *d, ft_mat cs, const ft_rope *r)
{
    ft_cpu *c = (ft_cpu *)d;
    const angles_args a = {cs, *r};
    ft_job_writes(c, cs);
    FT_JOB(c, angles_job, a);
}

static void norm_rope_job(const ft_part *p, const void *args)
{
    const plain_args *a = args;
    const int half = ft_mat_cols(a->u) / 2;
    int lo, hi;
    ft_share(p, a->x.T * a->x.H, 1, &lo, &hi);
    for (int i = lo; i < hi; i++) {
        const int t = i / a->x.H, h = i % a->x.H;
        float *x = ft_mat_head(a->x, t, h);
        const float *cs = ft_mat_head(a->u, t, 0);
        if (a->f >= 0) norm_head(p->k, x, x, a->w.p, a->x.d, a->f);
        for (int j = 0; j < half; j++) {
            const float re = x[j], im = x[j + half], co = cs[j], si = cs[j + half];
            x[j] = ft_fma(re, co, -(im * si));
            x[j + half] = ft_fma(im, co, re * si);
        }
    }
}

void ft_cpu_norm_rope(ft_dev *d, ft_mat x, ft_vec w, float eps, ft_mat cs)
{
    ft_cpu *c = (ft_cpu *)d;
    const plain_args a = {.x = x, .u = cs, .w = w, .f = eps};
    ft_job_reads(c, cs);
    ft_job_writes_part(c, x, (ft_partition){FT_PARTITION_HEADS, x.T * x.H, 1});
    FT_JOB(c, norm_rope_job, a);
}

typedef struct argmax_args {
    ft_mat x;
    int32_t *id;
} argmax_args;

static void argmax_job(const ft_part *p, const void *args)
{
    const argmax_args *a = args;
    int lo, hi;
    ft_share(p, a->x.T, 1, &lo, &hi);
    for (int t = lo; t < hi; t++)
        a->id[t] = ft_argmax_row(ft_mat_head(a->x, t, 0), ft_mat_cols(a->x));
}

void ft_cpu_argmax(ft_dev *d, int32_t *id, ft_mat x)
{
    ft_cpu *c = (ft_cpu *)d;
    const argmax_args a = {x, id};
    assert(x.hs == x.d || x.H == 1);
    ft_job_reads(c, x);
    ft_job_accesses(c, id, (size_t)x.T * sizeof *id, true);
    FT_JOB(c, argmax_job, a);
}
