/* What vision towers need beside the ops of text models. A thread takes whole rows. */
#include "dev/cpu/cpu_dev.h"

#include <string.h>

typedef struct vision_args {
    ft_mat y, x;
    ft_vec w, b;
    ft_mixing m;
    float lo, hi; /* clamp; lo: a norm's eps */
    int act;
    bool acc;
} vision_args;

static void row_job(ft_cpu *c, ft_job_fn *fn, vision_args a)
{
    ft_job_writes_part(c, a.y, ft_partition_rows(a.y));
    FT_JOB(c, fn, a);
}

#define EACH_ROW(t)                                                                                \
    int t, hi_;                                                                                    \
    for (ft_share(p, a->y.T, 1, &t, &hi_); t < hi_; t++)

/* The squares are those of differences from the mean: no digits are lost to a large mean. */
static void layernorm_job(const ft_part *p, const void *args)
{
    const vision_args *a = args;
    const int n = a->x.d;
    EACH_ROW(t)
    {
        const float *x = ft_mat_head(a->x, t, 0), *w = a->w.p, *b = a->b.p;
        float *y = ft_mat_head(a->y, t, 0);
        const float mean = p->k->sum(x, n) / (float)n;
        for (int i = 0; i < n; i++) y[i] = x[i] - mean;
        const float r = 1.0f / sqrtf(p->k->dot(y, y, n) / (float)n + a->lo);
        for (int i = 0; i < n; i++) y[i] = ft_fma(y[i] * r, w[i], b[i]);
    }
}

void ft_cpu_layernorm(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, ft_vec b, float eps)
{
    ft_cpu *c = (ft_cpu *)d;
    ft_job_reads_part(c, x, ft_partition_rows(x));
    row_job(c, layernorm_job, (vision_args){.y = y, .x = x, .w = w, .b = b, .lo = eps});
}

enum { PIECE = 64 };

/* n <= PIECE values */
static void activate(const ft_kern *k, float *y, int n, int act)
{
    static const float one[PIECE] = {[0 ... PIECE - 1] = 1.0f};
    if (act == FT_GELU) k->gelu_mul(y, y, one, n);
    if (act == FT_SILU) k->silu_mul(y, y, one, n);
    for (int i = 0; act == FT_GELU_ERF && i < n; i++)
        y[i] = 0.5f * y[i] * erfcf(y[i] * -0.70710678f); /* 1 + erf cancels */
}

static void affine_job(const ft_part *p, const void *args)
{
    const vision_args *a = args;
    EACH_ROW(t)
    {
        float *y = ft_mat_head(a->y, t, 0);
        for (int at = 0; at < a->y.d; at += PIECE) {
            const int n = FT_MIN(PIECE, a->y.d - at);
            for (int i = at; a->b.p && i < at + n; i++) y[i] += a->b.p[i];
            for (int i = at; a->w.p && i < at + n; i++) y[i] *= a->w.p[i];
            activate(p->k, y + at, n, a->act);
        }
    }
}

void ft_cpu_affine(ft_dev *d, ft_mat y, ft_vec b, ft_vec w, ft_act act)
{
    row_job((ft_cpu *)d, affine_job, (vision_args){.y = y, .w = w, .b = b, .act = (int)act});
}

static void clamp_job(const ft_part *p, const void *args)
{
    const vision_args *a = args;
    const int cols = ft_mat_cols(a->y);
    EACH_ROW(t)
    for (int c = 0, n; c < cols; c += n) {
        const float *x = ft_mat_value(a->x, t, c);
        float *y = ft_mat_value(a->y, t, c);
        n = FT_MIN(a->y.d - c % a->y.d, a->x.d - c % a->x.d);
        for (int i = 0; i < n; i++) {
            const float v = x[i] > a->lo ? x[i] : a->lo;
            y[i] = v < a->hi ? v : a->hi;
        }
    }
}

void ft_cpu_clamp(ft_dev *d, ft_mat y, ft_mat x, float lo, float hi)
{
    ft_cpu *c = (ft_cpu *)d;
    ft_job_reads_part(c, x, ft_partition_rows(x));
    row_job(c, clamp_job, (vision_args){.y = y, .x = x, .lo = lo, .hi = hi});
}

static void mix_job(const ft_part *p, const void *args)
{
    const vision_args *a = args;
    EACH_ROW(t)
    {
        const int32_t *row = a->m.row + (size_t)t * (size_t)a->m.n;
        const float *w = a->m.w + (size_t)t * (size_t)a->m.n;
        float *y = ft_mat_head(a->y, t, 0);
        if (!a->acc) memset(y, 0, (size_t)a->y.d * sizeof *y);
        for (int j = 0; j < a->m.n; j++) {
            const float *x = ft_mat_head(a->x, row[j], 0), v = w[j];
            for (int i = 0; i < a->y.d; i++) y[i] = ft_fma(v, x[i], y[i]);
        }
    }
}

void ft_cpu_mix(ft_dev *d, ft_mat y, ft_mat x, ft_mixing m, bool acc)
{
    ft_cpu *c = (ft_cpu *)d;
    ft_job_reads(c, x);
    row_job(c, mix_job, (vision_args){.y = y, .x = x, .m = m, .acc = acc});
}

static void image_rows_job(const ft_part *p, const void *args)
{
    const vision_args *a = args;
    EACH_ROW(t)
    if (p->b->image_row[t] >= 0)
        memcpy(ft_mat_head(a->y, t, 0), ft_mat_head(a->x, p->b->image_row[t], 0),
               (size_t)a->y.d * sizeof(float));
}

void ft_cpu_image_rows(ft_dev *d, ft_mat y, ft_mat x)
{
    ft_cpu *c = (ft_cpu *)d;
    ft_job_reads(c, x);
    row_job(c, image_rows_job, (vision_args){.y = y, .x = x});
}
