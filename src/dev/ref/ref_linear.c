/* Products with weights: embed, linear, and the ops that select rows or matrices. */
#include "dev/ref/ref.h"

#include "quant/quant.h"

#include <float.h>
#include <math.h>

/* Four sums, as each addition waits for the one before. */
static double dot(const float *a, const float *b, int n)
{
    double s[4] = {0};
    int i = 0;
    for (; i + 4 <= n; i += 4)
        for (int j = 0; j < 4; j++) s[j] += (double)a[i + j] * (double)b[i + j];
    for (; i < n; i++) s[0] += (double)a[i] * (double)b[i];
    return s[0] + s[1] + (s[2] + s[3]);
}

void ft_ref_embed(ft_dev *d, ft_mat y, const ft_weight *w, float scale)
{
    for (int t = 0; t < y.T; t++) {
        const float *row = ft_ref_weight(d, w, 0, ft_token_of(d->batch, t));
        const float s = scale * ft_weight_scale(w, 0);
        for (int i = 0; i < w->k; i++) *ft_mat_value(y, t, i) = s * row[i];
    }
}

void ft_ref_linear(ft_dev *d, ft_mat y, ft_mat x, const ft_weight *w, bool acc)
{
    for (int o = 0; o < w->n; o++) {
        const float *row = ft_ref_weight(d, w, 0, o);
        for (int t = 0; t < x.T; t++) {
            const double r = dot(row, ft_mat_head(x, t, 0), w->k) * (double)ft_weight_scale(w, 0);
            float *at = ft_mat_value(y, t, o);
            *at = (float)(acc ? (double)*at + r : r);
        }
    }
}

void ft_ref_route(ft_dev *d, ft_expert_choice r, ft_mat x)
{
    (void)d;
    const int E = ft_mat_cols(x);
    for (int t = 0; t < x.T; t++) {
        const float *row = ft_mat_head(x, t, 0);
        int32_t *id = r.id + (size_t)t * (size_t)r.K;
        float *w = r.w + (size_t)t * (size_t)r.K;
        float top = -FLT_MAX;
        double all = 0, picked = 0;
        for (int e = 0; e < E; e++) top = fmaxf(top, row[e]);
        for (int e = 0; e < E; e++) all += exp((double)row[e] - (double)top);
        for (int i = 0; i < r.K; i++) {
            id[i] = ft_next_largest(row, E, i ? id[i - 1] : -1);
            picked += exp((double)row[id[i]] - (double)top) / all;
        }
        for (int i = 0; i < r.K; i++)
            w[i] = (float)(exp((double)row[id[i]] - (double)top) / all / fmax(picked, 0x1p-14));
    }
}

/* out[o] = W_e x for every output of matrix e */
static void expert(ft_dev *d, float *out, const float *x, const ft_weight *w, int e)
{
    for (int o = 0; o < w->n; o++)
        out[o] = (float)(dot(ft_ref_weight(d, w, e, o), x, w->k) * (double)ft_weight_scale(w, e));
}

void ft_ref_moe(ft_dev *d, ft_mat y, ft_mat x, const ft_experts *e, ft_expert_choice r, ft_mat tmp,
                bool acc)
{
    for (int t = 0; t < x.T; t++) {
        const float *in = ft_mat_head(x, t, 0);
        for (int i = 0; i < r.K; i++) {
            const int id = r.id[(size_t)t * (size_t)r.K + (size_t)i];
            float *g = ft_mat_head(tmp, t * r.K + i, 0), *u = g + e->F;
            if (e->gate_up.data) {
                expert(d, g, in, &e->gate_up, id);
            } else {
                expert(d, g, in, &e->gate, id);
                expert(d, u, in, &e->up, id);
            }
            for (int f = 0; f < e->F; f++)
                g[f] = (float)(ft_ref_act((double)g[f], e->act) * (double)u[f]);
        }
        for (int o = 0; o < e->down.n; o++) {
            double sum = acc ? (double)*ft_mat_value(y, t, o) : 0;
            for (int i = 0; i < r.K; i++) {
                const size_t at = (size_t)t * (size_t)r.K + (size_t)i;
                const float *row = ft_ref_weight(d, &e->down, r.id[at], o);
                const double v = dot(row, ft_mat_head(tmp, (int)at, 0), e->F);
                sum += (double)r.w[at] * v * (double)ft_weight_scale(&e->down, r.id[at]);
            }
            *ft_mat_value(y, t, o) = (float)sum;
        }
    }
}

void ft_ref_expert_linear(ft_dev *d, ft_mat y, ft_mat x, const ft_weight *w, ft_expert_choice r,
                          bool acc)
{
    const int each = y.T / x.T;
    for (int i = 0; i < y.T; i++)
        for (int o = 0; o < w->n; o++) {
            const double v =
                dot(ft_ref_weight(d, w, r.id[i], o), ft_mat_head(x, i / each, 0), w->k) *
                (double)ft_weight_scale(w, r.id[i]);
            float *at = ft_mat_value(y, i, o);
            *at = (float)(acc ? (double)*at + v : v);
        }
}

void ft_ref_centroid_head(ft_dev *d, ft_mat y, ft_mat x, ft_mat score, const ft_weight *w,
                          const int32_t *order, int top)
{
    const int n_c = ft_mat_cols(score), V = w->n, group = V / n_c;
    for (int t = 0; t < x.T; t++) {
        const float *s = ft_mat_head(score, t, 0);
        for (int v = 0; v < V; v++) *ft_mat_value(y, t, v) = -INFINITY;
        int last = -1;
        for (int i = 0; i < top && i < n_c; i++) {
            last = ft_next_largest(s, n_c, last);
            for (int j = 0; j < group; j++) {
                const int id = order[(size_t)last * (size_t)group + (size_t)j];
                const double v = dot(ft_ref_weight(d, w, 0, id), ft_mat_head(x, t, 0), w->k);
                *ft_mat_value(y, t, id) = (float)(v * (double)ft_weight_scale(w, 0));
            }
        }
    }
}
