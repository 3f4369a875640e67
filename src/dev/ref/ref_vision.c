/* What vision towers need beside the ops of text models. */
#include "dev/ref/ref.h"

#include <math.h>

void ft_ref_layernorm(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, ft_vec b, float eps)
{
    (void)d;
    for (int t = 0; t < x.T; t++) {
        const float *in = ft_mat_head(x, t, 0);
        float *out = ft_mat_head(y, t, 0);
        double mean = 0, var = 0;
        for (int i = 0; i < x.d; i++) mean += (double)in[i];
        mean /= x.d;
        for (int i = 0; i < x.d; i++) var += ((double)in[i] - mean) * ((double)in[i] - mean);
        const double r = 1 / sqrt(var / x.d + (double)eps);
        for (int i = 0; i < x.d; i++)
            out[i] = (float)(((double)in[i] - mean) * r * (double)w.p[i] + (double)b.p[i]);
    }
}

static double activated(double x, ft_act act)
{
    if (act == FT_ACT_NONE) return x;
    if (act == FT_GELU_ERF) return 0.5 * x * (1 + erf(x * 0.70710678118654752));
    return ft_ref_act(x, act);
}

void ft_ref_affine(ft_dev *d, ft_mat y, ft_vec b, ft_vec w, ft_act act)
{
    (void)d;
    for (int t = 0; t < y.T; t++) {
        float *at = ft_mat_head(y, t, 0);
        for (int i = 0; i < y.d; i++) {
            const double v = (double)at[i] + (b.p ? (double)b.p[i] : 0);
            at[i] = (float)activated(v * (w.p ? (double)w.p[i] : 1), act);
        }
    }
}

void ft_ref_clamp(ft_dev *d, ft_mat y, ft_mat x, float lo, float hi)
{
    (void)d;
    for (int t = 0; t < y.T; t++)
        for (int c = 0; c < ft_mat_cols(y); c++)
            *ft_mat_value(y, t, c) = fminf(fmaxf(*ft_mat_value(x, t, c), lo), hi);
}

void ft_ref_mix(ft_dev *d, ft_mat y, ft_mat x, ft_mixing m, bool acc)
{
    (void)d;
    for (int t = 0; t < y.T; t++) {
        const int32_t *row = m.row + (size_t)t * (size_t)m.n;
        const float *w = m.w + (size_t)t * (size_t)m.n;
        float *at = ft_mat_head(y, t, 0);
        for (int i = 0; i < y.d; i++) {
            double v = acc ? (double)at[i] : 0;
            for (int j = 0; j < m.n; j++) v += (double)w[j] * (double)ft_mat_head(x, row[j], 0)[i];
            at[i] = (float)v;
        }
    }
}

void ft_ref_image_rows(ft_dev *d, ft_mat y, ft_mat x)
{
    for (int t = 0; t < y.T; t++) {
        const int from = d->batch->image_row[t];
        for (int c = 0; from >= 0 && c < ft_mat_cols(y); c++)
            *ft_mat_value(y, t, c) = *ft_mat_value(x, from, c);
    }
}
