/* quant/fit.h - the searches of the encoders, on four sub-blocks at once. Each tries a few
 * spacings, rounds, and computes the scale with the least squared error for the rounded
 * values; the spacing with the smallest error wins. w is NULL (all values have the same weight) or
 * one weight per value. */
#ifndef FT_QUANT_FIT_H
#define FT_QUANT_FIT_H

#include "quant/lanes.h"

/* The value of largest magnitude, with its sign. n is even. */
INLINE v4 extreme(const v4 *x, int n)
{
    v4 low0 = x[0], high0 = x[0], low1 = x[1], high1 = x[1];
    for (int i = 2; i < n; i += 2) {
        low0 = low_of(low0, x[i]);
        low1 = low_of(low1, x[i + 1]);
        high0 = high_of(high0, x[i]);
        high1 = high_of(high1, x[i + 1]);
    }
    const v4 low = low_of(low0, low1), high = high_of(high0, high1);
    return pick(-low > high, low, high);
}

/* x is about scale * q, q an integer in [lo, hi]. Each trial sets the q of the extreme value. */
INLINE v4 fit_scale(const v4 *x, const v4 *w, int n, float lo, float hi, const float *trial,
                    int trials)
{
    const v4 inverse = ratio(splat(1), extreme(x, n));
    v4 scale = splat(0), best = splat(0), spacing = splat(0);
    for (int t = 0; t <= trials; t++) {
        /* the last round starts from the best scale */
        spacing = t < trials ? inverse * splat(trial[t]) : ratio(splat(1), scale);
        v4 xq = splat(0), qq = splat(0);
        for (int i = 0; i < n; i++) {
            const v4 q = clamp(whole(x[i] * spacing), splat(lo), splat(hi));
            const v4 wq = w ? w[i] * q : q;
            xq += wq * x[i];
            qq += wq * q;
        }
        const v4 s = ratio(xq, qq), gain = s * xq;
        const m4 better = gain > best;
        best = pick(better, gain, best);
        scale = pick(better, s, scale);
    }
    return scale;
}

/* The same with one trial and no weights: the extreme value becomes `at`, which cannot leave [lo,
 * hi], so that only the other end needs a limit. */
INLINE v4 fit_once(const v4 *x, int n, float hi, float at)
{
    const v4 spacing = ratio(splat(at), extreme(x, n));
    v4 xq = splat(0), qq = splat(0);
    for (int i = 0; i < n; i++) {
        const v4 q = low_of(whole(x[i] * spacing), splat(hi));
        xq += q * x[i];
        qq += q * q;
    }
    return ratio(xq, qq);
}

typedef struct line {
    v4 scale, min;
} line;

/* Which parts of the range of a sub-block to cut off at its two ends. */
typedef struct cut {
    float low, high;
} cut;

/* Trials for weighted values of up to four bits, and of five: an end of the range may have so
 * little weight that a deep cut reduces the error. */
static const cut ft_cut4[] = {{0, 0},         {0.04f, 0.04f},   {0.09f, 0.09f}, {0.15f, 0.15f},
                              {0.22f, 0.22f}, {0, 0.08f},       {0, 0.16f},     {0, 0.26f},
                              {0.08f, 0},     {0.16f, 0},       {0.26f, 0},     {0.08f, 0.2f},
                              {0.2f, 0.08f},  {-0.03f, -0.03f}, {0.1f, 0.32f},  {0.32f, 0.1f}};
static const cut ft_cut5[] = {
    {0, 0},      {0.02f, 0.02f}, {0.05f, 0.05f}, {0.09f, 0.09f}, {0.14f, 0.14f},     {0.2f, 0.2f},
    {0, 0.03f},  {0, 0.08f},     {0, 0.14f},     {0, 0.21f},     {0.03f, 0},         {0.08f, 0},
    {0.14f, 0},  {0.21f, 0},     {0.05f, 0.15f}, {0.15f, 0.05f}, {-0.015f, -0.015f}, {0, 0.015f},
    {0.015f, 0}, {0.08f, 0.25f}, {0.25f, 0.08f}, {0, -0.02f},    {-0.02f, 0}};

/* x is about scale * q + min, q an integer in [0, hi]; each trial cuts the range, then
 * `refits` more start from the best line. below: the min must not be above zero. */
INLINE line fit_line(const v4 *x, const v4 *w, int n, float hi, bool below, const cut *trial,
                     int trials, int refits)
{
    v4 bottom = x[0], top = x[0], sw = splat(0), sx = splat(0);
    for (int i = 0; i < n; i++) {
        bottom = low_of(bottom, x[i]);
        top = high_of(top, x[i]);
        sw += w ? w[i] : splat(1);
        sx += w ? w[i] * x[i] : x[i];
    }
    if (below) bottom = low_of(bottom, splat(0));
    const v4 range = top - bottom;
    line best = {splat(0), sx / sw};
    if (below) best.min = low_of(best.min, splat(0));
    v4 best_gain = (splat(2) * sx - best.min * sw) * best.min;
    for (int t = 0; t < trials + refits; t++) {
        v4 spacing, start;
        if (t < trials) {
            spacing = ratio(splat(hi), range * splat(1 - trial[t].low - trial[t].high));
            start = bottom + range * splat(trial[t].low);
        } else {
            spacing = ratio(splat(1), best.scale);
            start = best.min;
        }
        v4 sq = splat(0), qq = splat(0), xq = splat(0);
        for (int i = 0; i < n; i++) {
            const v4 q = clamp(whole((x[i] - start) * spacing), splat(0), splat(hi));
            const v4 wq = w ? w[i] * q : q;
            sq += wq;
            qq += wq * q;
            xq += wq * x[i];
        }
        line l;
        l.scale = ratio(sw * xq - sx * sq, sw * qq - sq * sq);
        l.min = (sx - l.scale * sq) / sw;
        if (below) {
            const m4 above = l.min > splat(0);
            l.scale = pick(above, ratio(xq, qq), l.scale);
            l.min = pick(above, splat(0), l.min);
        }
        const v4 gain = l.scale * (splat(2) * (xq - l.min * sq) - l.scale * qq) +
                        l.min * (splat(2) * sx - l.min * sw);
        const m4 better = (gain > best_gain) & (l.scale > splat(0));
        best_gain = pick(better, gain, best_gain);
        best.scale = pick(better, l.scale, best.scale);
        best.min = pick(better, l.min, best.min);
    }
    return best;
}

#endif
