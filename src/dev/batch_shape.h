/* dev/batch_shape.h - the properties of a batch that the kernel launches of a step may depend on.
 * A device that captures steps keeps one graph per shape: two batches of the same shape use the
 * same launches, whatever else they contain. There are few shapes, so that all of those that occur
 * in decoding are captured at start-up (engine/warmup.c): a shape contains neither the number of
 * sequences nor the context length beyond FT_SHAPE_SHORT_CTX. */
#ifndef FT_DEV_SHAPE_H
#define FT_DEV_SHAPE_H

#include "base/mem.h"
#include "dev/batch.h"

#include <limits.h>

enum {
    FT_SHAPE_ROWS = 128,      /* larger steps are not captured: their shape is exact */
    FT_SHAPE_SHORT_CTX = 128, /* contexts up to this length are one range of attention */
};

typedef struct ft_batch_shape {
    int T, n_out;
    int S;    /* spans. In a captured shape: as many as rows; the surplus spans are empty */
    int rows; /* of the longest span, rounded up */
    int ctx;  /* upper bound of the context length: FT_SHAPE_SHORT_CTX, INT_MAX, or exact */
} ft_batch_shape;

static inline int ft_longest_span(const ft_batch *b)
{
    int n = 0;
    for (int i = 0; i < b->S; i++) n = FT_MAX(n, b->span[i].n);
    return n;
}

static inline int ft_batch_shape_rows(int longest, int T)
{
    int n = 2;
    while (n < longest) n *= 2;
    return FT_MIN(n, T);
}

/* Output rows to compute when n are needed: n rounded up to a power of two, at most T. */
static inline int ft_batch_shape_out(int n, int T)
{
    int up = 1;
    while (up < n) up *= 2;
    return n && T <= FT_SHAPE_ROWS ? FT_MIN(up, T) : n;
}

static inline ft_batch_shape ft_batch_shape_of(const ft_batch *b)
{
    const int longest = ft_longest_span(b);
    ft_batch_shape s = {b->T, b->n_out, b->S, longest, b->max_ctx};
    if (b->T > FT_SHAPE_ROWS) return s;
    const bool short_ctx = b->T <= FT_DECODE_ROWS && b->max_ctx <= FT_SHAPE_SHORT_CTX;
    s.ctx = short_ctx ? (int)FT_SHAPE_SHORT_CTX : INT_MAX;
    if (longest > FT_DECODE_ROWS) return s; /* a prompt: this shape is not likely to repeat */
    s.S = b->T;
    s.rows = ft_batch_shape_rows(b->pad_spans ? (int)FT_DECODE_ROWS : longest, b->T);
    return s;
}

static inline bool ft_batch_shape_same(const ft_batch_shape *a, const ft_batch_shape *b)
{
    return a->T == b->T && a->n_out == b->n_out && a->S == b->S && a->rows == b->rows &&
           a->ctx == b->ctx;
}

#endif
