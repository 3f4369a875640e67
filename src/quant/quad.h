/* quant/quad.h - four blocks of 32 values, as the encoders of such blocks search them.
 * The last quad of a row may be short; its missing blocks are zeros. */
#ifndef FT_QUANT_QUAD_H
#define FT_QUANT_QUAD_H

#include "quant/family.h"
#include "quant/fit.h"

enum { N = 32 };

typedef struct quad {
    float x[LANES * N]; /* normalised: the source is x * unit */
    float unit[LANES];
    v4 lane[N], weight[N];
    bool weighted;
} quad;

/* Returns how many of the four blocks there are. weight may be NULL. */
INLINE size_t quad_load(quad *q, const float *src, size_t blocks, const float *weight)
{
    const size_t n = blocks < LANES ? blocks : LANES;
    if (n < LANES) memset(q->x, 0, sizeof q->x);
    for (size_t b = 0; b < n; b++) q->unit[b] = normalise(q->x + N * b, src + N * b, N);
    to_lanes(q->lane, q->x, N);
    q->weighted = weight != NULL;
    if (!weight) return n;
    float w[LANES * N] = {0};
    memcpy(w, weight, n * N * sizeof *w);
    weights_to_lanes(q->weight, w, N);
    return n;
}

/* Writes the f16 of a block whose normalised scale is s; returns what was written, normalised. */
INLINE float put_scale(uint8_t *dst, float s, float unit)
{
    return wr_f16(dst, s * unit) / unit;
}

#endif
