/* dev/host.h - device memory that is host memory: shared by the ref and cpu devices. */
#ifndef FT_DEV_HOST_H
#define FT_DEV_HOST_H

#include "dev/dev.h"
#include "dev/kv_row.h"

#include <math.h>

enum { FT_HOST_ALIGN = 64 }; /* a cache line, and the widest vector */

void *ft_host_alloc(ft_dev *d, size_t bytes);
void ft_host_free(ft_dev *d, void *p);
void ft_host_copy(ft_dev *d, void *dst, const void *src, size_t bytes); /* upload, download, move */
/* Ops that these devices implement with smaller ones. */
void ft_host_linears(ft_dev *d, const ft_product_out *o, int n, ft_mat x);
void ft_host_glu(ft_dev *d, ft_mat y, ft_mat u, ft_mat x, const ft_weight *gate,
                 const ft_weight *up, ft_act act);
uint64_t ft_host_weight_bytes(ft_dev *d, const ft_weight *w); /* as in the file */
uint64_t ft_host_step_bytes(ft_dev *d, const ft_dev_limits *l);
uint64_t ft_host_free_bytes(ft_dev *d);
double ft_host_read_rate(ft_dev *d);
bool ft_host_replay(ft_dev *d, const void *pass); /* always false: ops are called in every step */
/* Uses the weight where it is mapped. */
ft_status ft_host_bind(ft_dev *d, ft_weight *w, const void *host, ft_err *err);

/* Value c of row t, for any distance between heads. */
static inline float *ft_mat_value(ft_mat m, int t, int c)
{
    return m.p + (size_t)t * (size_t)m.rs + (size_t)(c / m.d) * (size_t)m.hs + c % m.d;
}

static inline float *ft_mat_head(ft_mat m, int t, int h)
{
    return m.p + (size_t)t * (size_t)m.rs + (size_t)h * (size_t)m.hs;
}

static inline const unsigned char *ft_weight_row(const ft_weight *w, int e, int o)
{
    const size_t row = (size_t)e * (size_t)w->n + (size_t)o;
    return (const unsigned char *)w->data + row * w->row_bytes;
}

static inline float ft_weight_scale(const ft_weight *w, int e)
{
    return w->scale ? w->scale[e] : 1.0f;
}

/* Offset into k or v of the row of head g at a position of a slot. */
static inline size_t ft_kv_at(const ft_kv *kv, const ft_batch *b, int slot, int cell, int g,
                              size_t row, size_t page_bytes)
{
    const int32_t *table = b->page[kv->space] + (size_t)slot * (size_t)b->pages_per_seq;
    const size_t in_page = (size_t)g * FT_PAGE_ROWS + (size_t)(cell % FT_PAGE_ROWS);
    return (size_t)table[cell / FT_PAGE_ROWS] * page_bytes + in_page * row;
}

/* The key k of head g as it is stored: k itself, or k minus the mean in line[d]. */
static inline const float *ft_kv_centred(const ft_kv *kv, float *line, const float *k, int g)
{
    if (!kv->mean) return k;
    const float *mean = kv->mean + (size_t)g * (size_t)kv->d;
    for (int i = 0; i < kv->d; i++) line[i] = k[i] - mean[i];
    return line;
}

/* The positions [lo, hi) that a row sees. */
static inline void ft_attn_range(const ft_batch *b, ft_attn p, int row, int *lo, int *hi)
{
    *hi = b->end[row];
    *lo = p.window && *hi > p.window ? *hi - p.window : 0;
    if (*lo < p.first) *lo = p.first;
    if (*hi < *lo) *hi = *lo;
}

/* Index of the first of the largest values of a row; -1 when none is above -inf. */
static inline int ft_argmax_row(const float *x, int n)
{
    float top = -INFINITY;
    int best = -1;
    for (int i = 0; i < n; i++)
        if (x[i] > top) top = x[i], best = i;
    return best;
}

/* The index that follows `last` (-1: none yet) when s is sorted by descending value, then by
 * ascending index. A NaN sorts last, so that invalid numbers cannot lead out of the array. */
static inline int ft_next_largest(const float *s, int n, int last)
{
    int best = -1;
    const float bound = last < 0 ? INFINITY : s[last] == s[last] ? s[last] : -INFINITY;
    float top = -INFINITY;
    for (int i = 0; i < n; i++) {
        const float v = s[i] == s[i] ? s[i] : -INFINITY;
        if (v > bound || (v == bound && i <= last)) continue;
        if (best >= 0 && v <= top) continue;
        best = i;
        top = v;
    }
    return best < 0 ? 0 : best;
}

#endif
