/* dev/shape.h - what of a batch the launches of a step may depend on.
 * A device that keeps steps keeps them under their shape: two batches of one shape are served by
 * the same launches, whatever else they hold. There are few shapes, so that all of those that
 * responses can have are kept before the first response comes (engine/warmup.c): how many sequences
 * the rows belong to is not in it, nor how long the pasts are beyond the first range of cells. */
#ifndef FT_DEV_SHAPE_H
#define FT_DEV_SHAPE_H

#include "base/mem.h"
#include "dev/batch.h"

#include <limits.h>

enum {
    FT_SHAPE_ROWS = 64,  /* longer steps are worth their launches: their shape is exact */
    FT_SHAPE_NEAR = 512, /* pasts up to here are one range of an attention's cells */
};

typedef struct ft_shape {
    int T, n_out;
    int S;    /* spans: as many as rows, those beyond the batch's own being empty, or its own */
    int rows; /* of the longest span, rounded up */
    int past; /* FT_SHAPE_NEAR, or any: to few rows it is worth a shape of its own */
} ft_shape;

static inline int ft_longest_span(const ft_batch *b)
{
    int n = 0;
    for (int i = 0; i < b->S; i++) n = FT_MAX(n, b->span[i].n);
    return n;
}

static inline int ft_shape_rows(int longest, int T)
{
    int n = 2;
    while (n < longest) n *= 2;
    return FT_MIN(n, T);
}

/* Out rows that are computed for n wanted ones: a power of two, and no more than there are. */
static inline int ft_shape_out(int n, int T)
{
    int up = 1;
    while (up < n) up *= 2;
    return n && T <= FT_SHAPE_ROWS ? FT_MIN(up, T) : n;
}

static inline ft_shape ft_shape_of(const ft_batch *b)
{
    const int longest = ft_longest_span(b);
    ft_shape s = {b->T, b->n_out, b->S, longest, b->max_past};
    if (b->T > FT_SHAPE_ROWS) return s;
    const bool near = b->T <= FT_DECODE_ROWS && b->max_past <= FT_SHAPE_NEAR;
    s.past = near ? (int)FT_SHAPE_NEAR : INT_MAX;
    if (longest > FT_DECODE_ROWS) return s; /* a prompt: it does not come again */
    s.S = b->T;
    s.rows = ft_shape_rows(b->loose ? (int)FT_DECODE_ROWS : longest, b->T);
    return s;
}

static inline bool ft_shape_same(const ft_shape *a, const ft_shape *b)
{
    return a->T == b->T && a->n_out == b->n_out && a->S == b->S && a->rows == b->rows &&
           a->past == b->past;
}

#endif
