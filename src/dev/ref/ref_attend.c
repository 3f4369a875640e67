/* RoPE, KV cache and attention. */
#include "base/mem.h"
#include "dev/ref/ref.h"

#include <math.h>
#include <string.h>

void ft_ref_rope_angles(ft_dev *d, ft_mat cs, const ft_rope *r)
{
    const int half = r->n / 2;
    for (int t = 0; t < cs.T; t++) {
        float *row = ft_mat_head(cs, t, 0);
        for (int j = 0; j < half; j++) {
            const double angle = (double)d->batch->pos[r->axis[j]][t] * r->freq[j];
            row[j] = (float)(cos(angle) * (double)r->mscale);
            row[j + half] = (float)(sin(angle) * (double)r->mscale);
        }
    }
}

static void rotate(float *x, const float *cs, int n)
{
    const int half = n / 2;
    for (int j = 0; j < half; j++) {
        const double a = (double)x[j], b = (double)x[j + half];
        const double c = (double)cs[j], s = (double)cs[j + half];
        x[j] = (float)(a * c - b * s);
        x[j + half] = (float)(b * c + a * s);
    }
}

void ft_ref_norm_rope(ft_dev *d, ft_mat x, ft_vec w, float eps, ft_mat cs)
{
    if (eps >= 0) ft_ref_rmsnorm(d, x, x, w, eps);
    for (int t = 0; t < x.T; t++)
        for (int h = 0; h < x.H; h++)
            rotate(ft_mat_head(x, t, h), ft_mat_head(cs, t, 0), ft_mat_cols(cs));
}

void ft_ref_kv_put(ft_dev *d, const ft_kv *kv, ft_mat k, ft_mat v)
{
    const ft_batch *b = d->batch;
    float *line = ft_ref_row(d, (size_t)kv->d);
    for (int t = 0; t < k.T; t++) {
        const int slot = b->span[b->span_of[t]].slot, cell = b->cell[t];
        for (int g = 0; g < kv->G; g++) {
            ft_kv_row_encode(kv->kt, kv->k + ft_kv_at(kv, b, slot, cell, g, kv->k_row, kv->k_page),
                             ft_kv_centred(kv, line, ft_mat_head(k, t, g), g), kv->d);
            ft_kv_row_encode(kv->vt, kv->v + ft_kv_at(kv, b, slot, cell, g, kv->v_row, kv->v_page),
                             ft_mat_head(v, t, g), kv->d);
        }
    }
}

/* One row and head over some positions of one cache. */
typedef struct walk {
    const ft_kv *kv;
    int slot, g, lo, hi;
    float scale;
} walk;

/* Transforms the query like the keys. Scores go to score[hi - lo]; returns the largest. */
static double walk_keys(ft_dev *d, const walk *w, const float *q, float *query, float *line,
                        double *score)
{
    const ft_kv *kv = w->kv;
    const int kw = ft_kv_row_width(kv->kt, kv->d);
    double top = -HUGE_VAL;
    if (ft_kv_is_turbo(kv->kt))
        ft_turbo_hadamard(query, q, kv->d);
    else
        memcpy(query, q, (size_t)kv->d * sizeof *q);
    for (int c = w->lo; c < w->hi; c++) {
        const size_t at = ft_kv_at(kv, d->batch, w->slot, c, w->g, kv->k_row, kv->k_page);
        ft_kv_row_decode(kv->kt, line, kv->k + at, kv->d);
        double s = 0;
        for (int i = 0; i < kw; i++) s += (double)query[i] * (double)line[i];
        score[c - w->lo] = s * (double)w->scale;
        top = fmax(top, score[c - w->lo]);
    }
    return top;
}

/* o += sum of e^(score - top) / all times the values; the sum is transformed back. */
static void walk_values(ft_dev *d, const walk *w, float *o, float *line, double *sum,
                        const double *score, double top, double all)
{
    const ft_kv *kv = w->kv;
    const int vw = ft_kv_row_width(kv->vt, kv->d);
    if (w->lo >= w->hi) return;
    memset(sum, 0, (size_t)vw * sizeof *sum);
    for (int c = w->lo; c < w->hi; c++) {
        const double e = exp(score[c - w->lo] - top);
        const size_t at = ft_kv_at(kv, d->batch, w->slot, c, w->g, kv->v_row, kv->v_page);
        ft_kv_row_decode(kv->vt, line, kv->v + at, kv->d);
        for (int i = 0; i < vw; i++) sum[i] += e * (double)line[i];
    }
    for (int i = 0; i < vw; i++) line[i] = (float)(sum[i] / all);
    if (ft_kv_is_turbo(kv->vt)) ft_turbo_hadamard_inverse(line, line, kv->d);
    for (int i = 0; i < kv->d; i++) o[i] += line[i];
}

/* One row and head: the older positions, then the recent-token window if there is one. */
static void attend_head(ft_dev *d, float *o, const float *q, const ft_kv *kv, ft_attn p, int row,
                        int g)
{
    const ft_batch *b = d->batch;
    const size_t width =
        (size_t)FT_MAX(ft_kv_row_width(kv->kt, kv->d), ft_kv_row_width(kv->vt, kv->d));
    int lo, hi;
    ft_attn_range(b, p, row, &lo, &hi);
    const int cut = FT_MIN(hi, FT_MAX(lo, ft_kv_recent_start(kv, hi))),
              slot = b->span[b->span_of[row]].slot;
    const walk w[2] = {{kv, slot, g, lo, cut, p.scale}, {kv->recent, slot, g, cut, hi, p.scale}};
    const size_t n = (size_t)(hi - lo);
    float *line = ft_ref_row(d, 4 * width + 2 * n), *query = line + width;
    double *sum = (double *)(void *)(line + 2 * width), *score = sum + width;
    double top = walk_keys(d, &w[0], q, query, line, score), all = 0;
    if (cut < hi) top = fmax(top, walk_keys(d, &w[1], q, query, line, score + (cut - lo)));
    for (size_t i = 0; i < n; i++) all += exp(score[i] - top);
    memset(o, 0, (size_t)kv->d * sizeof *o);
    walk_values(d, &w[0], o, line, sum, score, top, all);
    if (cut < hi) walk_values(d, &w[1], o, line, sum, score + (cut - lo), top, all);
}

void ft_ref_attend(ft_dev *d, ft_mat o, ft_mat q, const ft_kv *kv, ft_attn p)
{
    const int group = q.H / kv->G;
    for (int t = 0; t < q.T; t++) {
        const int row = p.out ? d->batch->out_row[t] : t;
        for (int h = 0; h < q.H; h++)
            attend_head(d, ft_mat_head(o, t, h), ft_mat_head(q, t, h), kv, p, row, h / group);
    }
}
