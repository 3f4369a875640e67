/* Positions, caches and attention. */
#include "dev/ref/ref.h"

#include "quant/quant.h"

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
    for (int t = 0; t < k.T; t++) {
        const int slot = b->span[b->span_of[t]].slot, cell = b->cell[t];
        for (int g = 0; g < kv->G; g++) {
            ft_row_encode(ft_kv_row_type(kv->kt),
                          kv->k + ft_kv_at(kv, b, slot, cell, g, kv->k_row, kv->k_page),
                          ft_mat_head(k, t, g), (size_t)kv->d, NULL);
            ft_row_encode(ft_kv_row_type(kv->vt),
                          kv->v + ft_kv_at(kv, b, slot, cell, g, kv->v_row, kv->v_page),
                          ft_mat_head(v, t, g), (size_t)kv->d, NULL);
        }
    }
}

/* One row and head: two walks over the cells, the scores again on the second. */
static void attend_head(ft_dev *d, float *o, const float *q, const ft_kv *kv, ft_attn p, int row,
                        int g)
{
    const ft_batch *b = d->batch;
    const int slot = b->span[b->span_of[row]].slot;
    int lo, hi;
    ft_attn_range(b, p, row, &lo, &hi);
    const size_t n = (size_t)(hi - lo), dim = (size_t)kv->d;
    float *line = ft_ref_row(d, 4 * dim + 2 * n);
    double *sum = (double *)(void *)(line + 2 * dim), *score = sum + dim, top = -HUGE_VAL, all = 0;
    memset(sum, 0, dim * sizeof *sum);
    for (int c = lo; c < hi; c++) {
        ft_row_decode(ft_kv_row_type(kv->kt), line,
                      kv->k + ft_kv_at(kv, b, slot, c, g, kv->k_row, kv->k_page), dim);
        double s = 0;
        for (size_t i = 0; i < dim; i++) s += (double)q[i] * (double)line[i];
        score[c - lo] = s * (double)p.scale;
        top = fmax(top, score[c - lo]);
    }
    for (int c = lo; c < hi; c++) {
        const double e = exp(score[c - lo] - top);
        ft_row_decode(ft_kv_row_type(kv->vt), line,
                      kv->v + ft_kv_at(kv, b, slot, c, g, kv->v_row, kv->v_page), dim);
        for (size_t i = 0; i < dim; i++) sum[i] += e * (double)line[i];
        all += e;
    }
    for (size_t i = 0; i < dim; i++) o[i] = hi > lo ? (float)(sum[i] / all) : 0.0f;
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
