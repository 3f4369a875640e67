/* Norms and element-wise ops. */
#include "dev/ref/ref.h"

#include <math.h>
#include <string.h>

double ft_ref_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

double ft_ref_act(double x, ft_act act)
{
    if (act == FT_SILU) return x * ft_ref_sigmoid(x);
    return 0.5 * x * (1 + tanh(0.7978845608028654 * x * (1 + 0.044715 * x * x)));
}

static double inv_rms(const float *x, int n, float eps)
{
    double s = 0;
    for (int i = 0; i < n; i++) s += (double)x[i] * (double)x[i];
    return 1 / sqrt(s / n + (double)eps);
}

void ft_ref_rmsnorm(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, float eps)
{
    (void)d;
    for (int t = 0; t < x.T; t++)
        for (int h = 0; h < x.H; h++) {
            const float *in = ft_mat_head(x, t, h);
            float *out = ft_mat_head(y, t, h);
            const double r = inv_rms(in, x.d, eps);
            for (int i = 0; i < x.d; i++)
                out[i] = (float)((double)in[i] * r * (w.p ? (double)w.p[i] : 1));
        }
}

void ft_ref_act_mul(ft_dev *d, ft_mat y, ft_mat g, ft_mat u, ft_act act)
{
    (void)d;
    for (int t = 0; t < y.T; t++)
        for (int c = 0; c < ft_mat_cols(y); c++) {
            const double v = ft_ref_act((double)*ft_mat_value(g, t, c), act);
            *ft_mat_value(y, t, c) = (float)(v * (double)*ft_mat_value(u, t, c));
        }
}

void ft_ref_sigmoid_mul(ft_dev *d, ft_mat y, ft_mat g)
{
    (void)d;
    const bool whole_row = ft_mat_cols(g) == 1;
    for (int t = 0; t < y.T; t++)
        for (int c = 0; c < ft_mat_cols(y); c++) {
            const double s = ft_ref_sigmoid((double)*ft_mat_value(g, t, whole_row ? 0 : c));
            float *at = ft_mat_value(y, t, c);
            *at = (float)((double)*at * s);
        }
}

void ft_ref_add(ft_dev *d, ft_mat y, ft_mat x, float scale)
{
    (void)d;
    for (int t = 0; t < y.T; t++)
        for (int c = 0; c < ft_mat_cols(y); c++) {
            float *at = ft_mat_value(y, t, c);
            *at = (float)(((double)*at + (double)*ft_mat_value(x, t, c)) * (double)scale);
        }
}

void ft_ref_norm_add(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, float eps, float scale,
                     const ft_norm_out *o, int n)
{
    for (int t = 0; t < y.T; t++) {
        const float *in = ft_mat_head(x, t, 0);
        float *at = ft_mat_head(y, t, 0);
        const double r = inv_rms(in, x.d, eps);
        for (int i = 0; i < y.d; i++)
            at[i] = (float)(((double)at[i] + (double)in[i] * r * (double)w.p[i]) * (double)scale);
    }
    for (int i = 0; i < n; i++) ft_ref_rmsnorm(d, o[i].y, y, o[i].w, eps);
}

void ft_ref_softcap(ft_dev *d, ft_mat y, float c)
{
    (void)d;
    for (int t = 0; t < y.T; t++)
        for (int i = 0; i < ft_mat_cols(y); i++) {
            float *at = ft_mat_value(y, t, i);
            *at = (float)((double)c * tanh((double)*at / (double)c));
        }
}

void ft_ref_gather(ft_dev *d, ft_mat y, ft_mat x, int which)
{
    const int32_t *from = which == FT_OUT ? d->batch->out_row : d->batch->src_row;
    for (int t = 0; t < y.T; t++)
        for (int c = 0; c < ft_mat_cols(y); c++)
            *ft_mat_value(y, t, c) = *ft_mat_value(x, from[t], c);
}

void ft_ref_scatter(ft_dev *d, ft_mat y, ft_mat x)
{
    for (int t = 0; t < x.T; t++) {
        const int to = d->batch->dst_row[t];
        for (int c = 0; to >= 0 && c < ft_mat_cols(x); c++)
            *ft_mat_value(y, to, c) = *ft_mat_value(x, t, c);
    }
}

void ft_ref_gated_norm(ft_dev *d, ft_mat y, ft_mat o, ft_mat z, ft_vec w, float eps)
{
    (void)d;
    for (int t = 0; t < o.T; t++)
        for (int h = 0; h < o.H; h++) {
            const float *in = ft_mat_head(o, t, h);
            const double r = inv_rms(in, o.d, eps);
            for (int i = 0; i < o.d; i++) {
                const int c = h * o.d + i;
                const double gate = ft_ref_act((double)*ft_mat_value(z, t, c), FT_SILU);
                *ft_mat_value(y, t, c) = (float)((double)in[i] * r * (double)w.p[i] * gate);
            }
        }
}

void ft_ref_argmax(ft_dev *d, int32_t *id, ft_mat x)
{
    (void)d;
    for (int t = 0; t < x.T; t++) id[t] = ft_argmax_row(ft_mat_head(x, t, 0), ft_mat_cols(x));
}
