/* quant/super.h - a block of 256 values with quantised sub-scales, as the encoders see it. First
 * the best scale of every sub-block is computed (fit.h). Then the block's scale is chosen, the
 * sub-scales are rounded to integer multiples of it, neighbours of the rounded ones are tried with
 * the actual values, and the block scale is fitted again to the result. */
#ifndef FT_QUANT_SUPER_H
#define FT_QUANT_SUPER_H

#include "quant/fit.h"

enum { SUPER = 256 };

typedef struct super {
    const float *x; /* the source is x * unit */
    float unit;
    float copy[SUPER];
    v4 lane[SUPER / LANES], weight[SUPER / LANES]; /* group after group of four sub-blocks */
    v4 share[SUPER / LANES / 16];                  /* importance of each sub-block */
} super;

/* n: values in a sub-block. weight may be NULL. */
INLINE void super_load(super *s, const float *src, const float *weight, int n)
{
    const bool as_is = tame(src, SUPER);
    s->unit = as_is ? 1.0f : normalise(s->copy, src, SUPER);
    s->x = as_is ? src : s->copy;
    for (int g = 0; g < SUPER / LANES / n; g++) {
        to_lanes(s->lane + g * n, s->x + LANES * g * n, n);
        s->share[g] =
            weight ? weights_to_lanes(s->weight + g * n, weight + LANES * g * n, n) : splat(1);
    }
}

INLINE float sum4(v4 v)
{
    return (v[0] + v[1]) + (v[2] + v[3]);
}

#endif
