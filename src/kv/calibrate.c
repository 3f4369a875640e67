#include "kv/calibrate.h"

#include "base/mem.h"
#include "dev/host.h"

#include <math.h>
#include <string.h>

static void take_keys(ft_kv_sample *out, const ft_step *s, const ft_kv *kv)
{
    const int slot = s->b->span[0].slot;
    unsigned char *row = ft_alloc(kv->k_row);
    float *to = out->keys;
    for (int g = 0; g < out->G; g++)
        for (int c = 0; c < out->cells; c++, to += out->d) {
            const size_t at = ft_kv_at(kv, s->b, slot, c, g, kv->k_row, kv->k_page);
            s->dev->download(s->dev, row, kv->k + at, kv->k_row);
            ft_kv_row_decode(kv->kt, to, row, out->d);
        }
    ft_free(row);
}

ft_status ft_kv_sample_take(ft_kv_sample *out, const ft_step *s, int layer, ft_mat q, int rows,
                            ft_err *err)
{
    const ft_kv *kv = &s->kv[layer];
    assert(!ft_kv_is_turbo(kv->kt) && s->b->S == 1 && q.T == s->T && rows <= q.T);
    s->dev->commit(s->dev);
    const ft_status st = s->dev->sync(s->dev, err);
    if (st) return st;
    *out = (ft_kv_sample){.H = q.H, .G = kv->G, .d = kv->d, .cells = s->b->end[s->T - 1]};
    const size_t d = (size_t)out->d, heads = (size_t)out->H;
    out->rows = rows;
    out->keys = ft_new_n(float, (size_t)out->G *(size_t)out->cells *d);
    out->q = ft_new_n(float, (size_t)rows *heads *d);
    take_keys(out, s, kv);
    for (int r = 0; r < rows; r++)
        for (int h = 0; h < q.H; h++)
            s->dev->download(s->dev, out->q + ((size_t)r * heads + (size_t)h) * d,
                             ft_mat_head(q, q.T - rows + r, h), d * sizeof(float));
    return FT_OK;
}

void ft_kv_sample_release(ft_kv_sample *s)
{
    ft_free(s->keys);
    ft_free(s->q);
    *s = (ft_kv_sample){0};
}

void ft_kv_sample_mean(const ft_kv_sample *s, float *mean)
{
    const float *key = s->keys;
    for (int g = 0; g < s->G; g++, mean += s->d) {
        for (int i = 0; i < s->d; i++) mean[i] = 0;
        for (int c = 0; c < s->cells; c++, key += s->d)
            for (int i = 0; i < s->d; i++) mean[i] += key[i] / (float)s->cells;
    }
}

/* The stored keys of head g, decoded, in the model's basis. */
static void stored_keys(float *to, const ft_kv_sample *s, int g, ft_kv_type t, const float *mean)
{
    const float *key = s->keys + (size_t)g * (size_t)s->cells * (size_t)s->d;
    unsigned char *bytes = ft_alloc(ft_kv_row_bytes(t, s->d));
    float *line = ft_new_n(float, (size_t)ft_kv_row_width(t, s->d));
    for (int c = 0; c < s->cells; c++, key += s->d, to += s->d) {
        for (int i = 0; i < s->d; i++) to[i] = mean ? key[i] - mean[g * s->d + i] : key[i];
        ft_kv_row_encode(t, bytes, to, s->d);
        ft_kv_row_decode(t, line, bytes, s->d);
        if (ft_kv_is_turbo(t))
            ft_turbo_hadamard_inverse(to, line, s->d);
        else
            memcpy(to, line, sizeof *to * (size_t)s->d);
    }
    ft_free(bytes);
    ft_free(line);
}

static void scores(double *to, const float *q, const float *keys, int n, int d)
{
    for (int c = 0; c < n; c++, keys += d) {
        to[c] = 0;
        for (int i = 0; i < d; i++) to[c] += (double)q[i] * (double)keys[i];
    }
}

/* A shift common to all scores is ignored, as softmax ignores it. */
static double correlation(const double *a, const double *b, int n)
{
    double ma = 0, mb = 0, ab = 0, aa = 0, bb = 0;
    for (int i = 0; i < n; i++) {
        ma += a[i] / n;
        mb += b[i] / n;
    }
    for (int i = 0; i < n; i++) {
        ab += (a[i] - ma) * (b[i] - mb);
        aa += (a[i] - ma) * (a[i] - ma);
        bb += (b[i] - mb) * (b[i] - mb);
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 1;
}

double ft_kv_sample_correlation(const ft_kv_sample *s, ft_kv_type t, const float *mean)
{
    const int group = s->H / s->G;
    const size_t d = (size_t)s->d, cells = (size_t)s->cells;
    float *keys = ft_new_n(float, cells *d);
    double *a = ft_new_n(double, 2 * cells), sum = 0;
    for (int g = 0; g < s->G; g++) {
        stored_keys(keys, s, g, t, mean);
        for (int h = g * group; h < (g + 1) * group; h++)
            for (int r = 0; r < s->rows; r++) {
                const float *q = s->q + ((size_t)r * (size_t)s->H + (size_t)h) * d;
                const int n = s->cells - (s->rows - 1 - r);
                scores(a, q, s->keys + (size_t)g * cells * d, n, s->d);
                scores(a + cells, q, keys, n, s->d);
                sum += correlation(a, a + cells, n) / (s->H * s->rows);
            }
    }
    ft_free(keys);
    ft_free(a);
    return sum;
}
