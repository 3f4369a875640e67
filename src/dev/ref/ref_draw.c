/* Sampling: all candidates are sorted, filtered, and cumulated. */
#include "base/mem.h"
#include "dev/ref/ref.h"

#include <stdlib.h>

static int falling(const void *a, const void *b)
{
    const ft_pick *p = a, *q = b;
    if (p->x != q->x) return p->x < q->x ? 1 : -1;
    return p->id > q->id ? 1 : -1;
}

static int rising_id(const void *a, const void *b)
{
    return ((const ft_pick *)a)->id > ((const ft_pick *)b)->id ? 1 : -1;
}

/* The candidates of a row, largest first; returns their number. */
static int load_candidates(const ft_batch *b, const ft_draw *d, ft_mat x, ft_pick *p)
{
    const int V = ft_mat_cols(x);
    const uint32_t *mask = d->mask < 0 ? NULL : b->draw_words + d->mask;
    const ft_edit *e = (const ft_edit *)(const void *)(b->draw_words + d->edit);
    for (int i = 0; i < V; i++) {
        const bool in = !mask || (mask[i / 32] >> i % 32 & 1);
        p[i] = (ft_pick){i, in ? ft_logit_finite(*ft_mat_value(x, d->row, i)) : -INFINITY};
    }
    for (int i = 0; i < d->n_edit; i++)
        if (e[i].id < V) p[e[i].id].x = ft_logit_edited(p[e[i].id].x, e[i], d);
    int n = 0;
    for (int i = 0; i < V; i++)
        if (p[i].x > -INFINITY) p[n++] = p[i];
    qsort(p, (size_t)n, sizeof *p, falling);
    return n;
}

static uint64_t sum(const ft_pick *p, int n, float max)
{
    uint64_t all = 0;
    for (int i = 0; i < n; i++) all += ft_weigh(p[i].x - max);
    return all;
}

/* How many of the first n candidates remain after filtering. */
static int cut(const ft_draw *d, const ft_pick *p, int n)
{
    const float max = p[0].x;
    if (d->top_k > 0) n = FT_MIN(n, d->top_k);
    if (d->top_p < 1) {
        const uint64_t goal = ft_top_p_goal(d->top_p, sum(p, n, max));
        uint64_t mass = ft_weigh(0);
        int m = 1;
        while (m < n && mass < goal) mass += ft_weigh(p[m++].x - max);
        n = m;
    }
    while (n > 1 && p[n - 1].x < max + d->log_min_p) n--;
    return n;
}

static void draw_one(const ft_batch *b, const ft_draw *d, ft_mat x, ft_pick *p, ft_drawn *y)
{
    int n = load_candidates(b, d, x, p);
    *y = (ft_drawn){.id = -1, .max = -INFINITY};
    if (!n) return;
    y->id = p[0].id;
    y->max = p[0].x;
    if (d->list >= 0) y->sum = sum(p, n, y->max);
    for (; y->n < FT_MIN(n, d->list); y->n++) y->top[y->n] = p[y->n];
    if (d->temperature > 0) {
        n = cut(d, p, n);
        for (int i = 0; i < n; i++) p[i].x = ft_logit_tempered(p[i].x, d->temperature);
        const float max = p[0].x;
        uint64_t mass = 0;
        const uint64_t at = ft_draw_at(d->seed, d->position, sum(p, n, max));
        qsort(p, (size_t)n, sizeof *p, rising_id);
        int i = 0;
        while ((mass += ft_weigh(p[i].x - max)) <= at) i++;
        y->id = p[i].id;
    }
    y->x = *ft_mat_value(x, d->row, y->id);
}

void ft_ref_draw(ft_dev *d, ft_drawn *y, ft_mat x)
{
    const ft_batch *b = d->batch;
    ft_pick *p = ft_new_n(ft_pick, (size_t)ft_mat_cols(x));
    for (int t = 0; t < b->T; t++)
        if (b->draw[t].row >= 0) draw_one(b, &b->draw[t], x, p, &y[b->draw[t].to]);
    ft_free(p);
}
