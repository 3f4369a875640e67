/* The gated delta net, always row by row. State, keys, updates and decays are rounded to f32 where
 * the journal stores them, so that a replay gives the same state as the rows themselves. */
#include "dev/ref/ref.h"

#include <math.h>
#include <string.h>

/* Row `row` of journal `plane` of a slot, in an array of `width` values per row. */
static float *journal(float *base, const ft_delta *s, int slot, int plane, int row, size_t width)
{
    return base + (((size_t)slot * 2 + (size_t)plane) * (size_t)s->J + (size_t)row) * width;
}

static void shift(float *window, const float *u, int taps, int CH)
{
    memmove(window, window + CH, sizeof(float) * (size_t)(taps - 2) * (size_t)CH);
    memcpy(window + (size_t)(taps - 2) * (size_t)CH, u, sizeof(float) * (size_t)CH);
}

static void conv_row(float *y, const float *window, const float *u, const float *w, int taps,
                     int CH)
{
    for (int c = 0; c < CH; c++) {
        double sum = (double)w[(size_t)c * (size_t)taps + (size_t)taps - 1] * (double)u[c];
        for (int k = 0; k < taps - 1; k++)
            sum += (double)w[(size_t)c * (size_t)taps + (size_t)k] *
                   (double)window[(size_t)k * (size_t)CH + (size_t)c];
        y[c] = (float)ft_ref_act(sum, FT_SILU);
    }
}

void ft_ref_conv(ft_dev *d, ft_mat y, ft_mat u, ft_vec w, const ft_delta *s)
{
    const size_t n = (size_t)(s->C - 1) * (size_t)s->CH;
    float *window = ft_ref_row(d, n);
    for (int i = 0; i < d->batch->S; i++) {
        const ft_span *sp = &d->batch->span[i];
        float *stored = s->conv + (size_t)sp->slot * n;
        assert(!sp->tentative || sp->n <= s->J);
        for (int r = 0; r < sp->replay; r++)
            shift(stored, journal(s->j_conv, s, sp->slot, sp->plane, r, (size_t)s->CH), s->C,
                  s->CH);
        memcpy(window, stored, n * sizeof(float));
        for (int r = 0; r < sp->n; r++) {
            const float *in = ft_mat_head(u, sp->row + r, 0);
            if (sp->tentative)
                memcpy(journal(s->j_conv, s, sp->slot, 1 - sp->plane, r, (size_t)s->CH), in,
                       sizeof(float) * (size_t)s->CH);
            conv_row(ft_mat_head(y, sp->row + r, 0), window, in, w.p, s->C, s->CH);
            shift(window, in, s->C, s->CH);
        }
        if (!sp->tentative) memcpy(stored, window, n * sizeof(float));
    }
}

static void l2(float *y, const float *x, int n, double scale)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    for (int i = 0; i < n; i++) y[i] = (float)((double)x[i] / sqrt(sum + 1e-6) * scale);
}

/* Z = exp(g) Z + k d^T */
static void advance(float *Z, const float *k, const float *upd, float g, int S)
{
    const double decay = exp((double)g);
    for (int i = 0; i < S; i++)
        for (int j = 0; j < S; j++) {
            float *z = Z + (size_t)i * (size_t)S + (size_t)j;
            *z = (float)(decay * (double)*z + (double)k[i] * (double)upd[j]);
        }
}

/* d = beta (v - (exp(g) Z)^T k) */
static void update(float *upd, const float *Z, const float *k, const float *v, double beta, float g,
                   int S)
{
    const double decay = exp((double)g);
    for (int j = 0; j < S; j++) {
        double r = 0;
        for (int i = 0; i < S; i++)
            r += (double)Z[(size_t)i * (size_t)S + (size_t)j] * (double)k[i];
        upd[j] = (float)(beta * ((double)v[j] - decay * r));
    }
}

typedef struct head {
    const ft_delta *s;
    const ft_span *sp;
    ft_mat o, y, a, b;
    float A, dt;
    int h;
} head;

/* The span's rows of one value head over the working state Z. */
static void head_rows(const head *e, float *Z, float *scratch)
{
    const ft_delta *s = e->s;
    const int S = s->S, kh = e->h % s->Hk, slot = e->sp->slot;
    float *q = scratch, *k = q + S, *upd = k + S;
    for (int r = 0; r < e->sp->n; r++) {
        const int t = e->sp->row + r;
        const float *in = ft_mat_head(e->y, t, 0), *v = in + 2 * s->Hk * S + e->h * S;
        float *out = ft_mat_head(e->o, t, e->h);
        const double x = (double)*ft_mat_value(e->a, t, e->h) + (double)e->dt;
        const float g = (float)((double)e->A * (x > 20 ? x : log1p(exp(x))));
        l2(q, in + kh * S, S, 1 / sqrt((double)S));
        l2(k, in + (s->Hk + kh) * S, S, 1);
        update(upd, Z, k, v, ft_ref_sigmoid((double)*ft_mat_value(e->b, t, e->h)), g, S);
        advance(Z, k, upd, g, S);
        for (int j = 0; j < S; j++) {
            double sum = 0;
            for (int i = 0; i < S; i++)
                sum += (double)Z[(size_t)i * (size_t)S + (size_t)j] * (double)q[i];
            out[j] = (float)sum;
        }
        if (!e->sp->tentative) continue;
        const int plane = 1 - e->sp->plane;
        const size_t bytes = sizeof(float) * (size_t)S;
        memcpy(journal(s->j_k, s, slot, plane, r, (size_t)(s->Hk * S)) + kh * S, k, bytes);
        memcpy(journal(s->j_d, s, slot, plane, r, (size_t)(s->Hv * S)) + e->h * S, upd, bytes);
        journal(s->j_g, s, slot, plane, r, (size_t)s->Hv)[e->h] = g;
    }
}

void ft_ref_delta_rule(ft_dev *d, ft_mat o, ft_mat y, ft_mat a, ft_mat b, ft_vec A, ft_vec dt,
                       const ft_delta *s)
{
    const size_t S = (size_t)s->S, n = S * S;
    float *Z = ft_ref_row(d, n + 3 * S);
    for (int i = 0; i < d->batch->S; i++) {
        const ft_span *sp = &d->batch->span[i];
        assert(!sp->tentative || sp->n <= s->J);
        for (int h = 0; h < s->Hv; h++) {
            float *stored = s->state + ((size_t)sp->slot * (size_t)s->Hv + (size_t)h) * n;
            for (int r = 0; r < sp->replay; r++)
                advance(stored,
                        journal(s->j_k, s, sp->slot, sp->plane, r, (size_t)s->Hk * S) +
                            (size_t)(h % s->Hk) * S,
                        journal(s->j_d, s, sp->slot, sp->plane, r, (size_t)s->Hv * S) +
                            (size_t)h * S,
                        journal(s->j_g, s, sp->slot, sp->plane, r, (size_t)s->Hv)[h], s->S);
            memcpy(Z, stored, n * sizeof(float));
            const head e = {s, sp, o, y, a, b, A.p[h], dt.p[h], h};
            head_rows(&e, Z, Z + n);
            if (!sp->tentative) memcpy(stored, Z, n * sizeof(float));
        }
    }
}
