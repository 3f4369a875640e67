/* quant/quad.h - four blocks of 32 values, in the form that the encoders of such blocks search. The
 * last quad of a row may be short; its missing blocks are zeros. */
#ifndef FT_QUANT_QUAD_H
#define FT_QUANT_QUAD_H

#include "quant/family.h"
#include "quant/fit.h"

enum { N = 32 };

typedef struct quad {
    const float *x; /* four blocks, one after the other; the source is x * unit */
    v4 unit;
    float copy[LANES * N];
    v4 lane[N], weight[N];
} quad;

/* Returns how many of the four blocks exist. weight may be NULL. exact: every block is scaled into
 * [1, 2), not only those that need it. */
INLINE size_t quad_load(quad *q, const float *src, size_t blocks, const float *weight, bool exact)
{
    const size_t n = blocks < LANES ? blocks : LANES;
    if (!exact && n == LANES && tame(src, LANES * N)) {
        q->x = src;
        q->unit = splat(1);
    } else {
        memset(q->copy, 0, sizeof q->copy);
        q->unit = splat(1);
        for (size_t b = 0; b < n; b++) q->unit[b] = normalise(q->copy + N * b, src + N * b, N);
        q->x = q->copy;
    }
    to_lanes(q->lane, q->x, N);
    if (!weight) return n;
    float w[LANES * N] = {0};
    memcpy(w, weight, n * N * sizeof *w);
    weights_to_lanes(q->weight, w, N);
    return n;
}

/* Writes the f16 of blocks whose normalised numbers are s, each at the start of its block; returns
 * the written values, normalised. */
INLINE v4 quad_put(const quad *q, uint8_t *dst, size_t bytes, size_t blocks, v4 s)
{
    v4 seen;
    const m4 bits = to_f16(s * q->unit, &seen);
    for (size_t b = 0; b < blocks; b++) wr16(dst + b * bytes, (uint32_t)bits[b]);
    return seen / q->unit;
}

#endif
