#include "model/rank.h"

#include "base/mem.h"
#include "quant/quant.h"

#include <math.h>
#include <stdio.h>

enum { LABELS_MAX = 1024 };

typedef struct layer {
    int n, k;
    float *w; /* [n, k]; NULL: the file has none */
    float *b; /* [n]; NULL: none */
} layer;

struct ft_rank {
    layer hidden, output;
};

static float *decode_tensor(const ft_gguf_tensor *t)
{
    const size_t n = (size_t)(t->n[0] * t->n[1]);
    float *f = ft_new_n(float, n);
    ft_row_decode(t->type, f, t->data, n);
    return f;
}

/* name.weight [k, n] and name.bias [n], if they are there. */
static ft_status open_layer(layer *l, const ft_gguf *g, const char *name, int k, int most,
                            ft_err *err)
{
    char full[64];
    snprintf(full, sizeof full, "%s.weight", name);
    const ft_gguf_tensor *w = ft_gguf_tensor_find(g, full);
    snprintf(full, sizeof full, "%s.bias", name);
    const ft_gguf_tensor *b = ft_gguf_tensor_find(g, full);
    if (!w) return FT_OK;
    if (w->n[0] != k || w->n[1] < 1 || w->n[1] > most || w->n[2] != 1)
        return ft_fail(err, FT_EFORMAT, "tensor %s.weight is [%lld, %lld], want [%d, 1 to %d]",
                       name, (long long)w->n[0], (long long)w->n[1], k, most);
    if (b && (b->n[0] != w->n[1] || b->n[1] != 1))
        return ft_fail(err, FT_EFORMAT, "tensor %s.bias has %lld values, want %lld", name,
                       (long long)b->n[0], (long long)w->n[1]);
    *l = (layer){.n = (int)w->n[1], .k = k, .w = decode_tensor(w)};
    if (b) l->b = decode_tensor(b);
    return FT_OK;
}

ft_status ft_rank_open(ft_rank **out, const ft_gguf *g, int D, ft_err *err)
{
    *out = NULL;
    ft_rank *r = ft_new(ft_rank);
    ft_status st = open_layer(&r->hidden, g, "cls", D, 1 << 20, err);
    const int k = r->hidden.w ? r->hidden.n : D;
    if (!st) st = open_layer(&r->output, g, "cls.output", k, LABELS_MAX, err);
    if (st || (!r->hidden.w && !r->output.w))
        ft_rank_free(r);
    else
        *out = r;
    return st;
}

void ft_rank_free(ft_rank *r)
{
    if (!r) return;
    const layer *all[] = {&r->hidden, &r->output};
    for (int i = 0; i < 2; i++) {
        ft_free(all[i]->w);
        ft_free(all[i]->b);
    }
    ft_free(r);
}

/* y = W x + b. */
static void apply_layer(const layer *l, double *y, const double *x)
{
    for (int o = 0; o < l->n; o++) {
        const float *w = l->w + (size_t)o * (size_t)l->k;
        y[o] = l->b ? (double)l->b[o] : 0;
        for (int i = 0; i < l->k; i++) y[o] += (double)w[i] * x[i];
    }
}

float ft_rank_score(const ft_rank *r, const double *row)
{
    double *h = r->hidden.w ? ft_new_n(double, (size_t)r->hidden.n) : NULL;
    if (h) apply_layer(&r->hidden, h, row);
    for (int i = 0; h && i < r->hidden.n; i++) h[i] = tanh(h[i]);
    double y[LABELS_MAX], score = h ? h[0] : 0;
    if (r->output.w) {
        apply_layer(&r->output, y, h ? h : row);
        score = y[0];
        double sum = 0;
        for (int i = 0; i < r->output.n; i++) sum += exp(y[i] - y[0]);
        if (r->output.n > 1) score = 1 / sum;
    }
    ft_free(h);
    return (float)score;
}
