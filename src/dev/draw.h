/* dev/draw.h - the arithmetic of a draw, the same to the bit on every device and in the host's
 * sampler: nothing is fused, and weights are whole numbers, so that a sum of them does not depend
 * on its order. C and CUDA C. */
#ifndef FT_DEV_DRAW_H
#define FT_DEV_DRAW_H

#include "base/rng.h"

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

enum {
    FT_DRAW_ROWS = 64,    /* draws of a step */
    FT_DRAW_K = 1024,     /* largest top_k */
    FT_DRAW_EDITS = 1024, /* most ids that penalties and biases change */
    FT_DRAW_TOP = 32,     /* longest list of the best */
    FT_DRAW_MORE = -2,    /* instead of an id: this row is for the host to draw from */
};

/* Which of the random numbers of a position. */
enum { FT_STREAM_DRAW, FT_STREAM_XTC };

/* A logit that the sampler changes: bias first, then what having stood `count` times costs. */
typedef struct ft_edit {
    int32_t id, count;
    float bias;
} ft_edit;

/* One draw of a step of draws. */
typedef struct ft_draw {
    int32_t row;                       /* of the logits; -1: nobody's draw */
    int32_t to;                        /* where its result goes, from y on; may be below 0 */
    float temperature;                 /* <= 0: the largest, whatever the next three say */
    int32_t top_k;                     /* 0: off; at most FT_DRAW_K */
    float top_p;                       /* 1 and more: off */
    float log_min_p;                   /* at most 0; -inf: off */
    float repeat, frequency, presence; /* the penalties */
    uint64_t seed, position;           /* what the random number is made of */
    int32_t mask;                      /* its bits are at this word of `aside`; -1: none */
    int32_t edit, n_edit;              /* ft_edit at this word of `aside`; each id once */
    int32_t list;                      /* how many of the best are wanted; -1: nor sum */
} ft_draw;

/* A value of a row, and where it stands. */
typedef struct ft_pick {
    int32_t id;
    float x;
} ft_pick;

typedef struct ft_drawn {
    int32_t id;   /* -1: no id is left */
    float x;      /* its logit as the row has it */
    float max;    /* the largest that may be drawn */
    int32_t n;    /* of top */
    uint64_t sum; /* of the weights of all that may be, before top_k and what follows it */
    ft_pick top[FT_DRAW_TOP]; /* the best of them, falling; equal ones by rising id */
} ft_drawn;

/* 0: the largest; 1: a cut by top_k, or a list; 2: a draw that may reach through the whole row. */
static inline int ft_draw_kind(const ft_draw *d)
{
    if (d->temperature <= 0 && d->list < 0) return 0;
    return d->top_k > 0 ? 1 : 2;
}

/* Words that the masks and edits of a step may take: all masks, and the edits of most. */
static inline size_t ft_draw_words(int V)
{
    return FT_DRAW_ROWS * ((size_t)V / 32 + 1) + (size_t)16 * FT_DRAW_EDITS;
}

/* a * b + c, rounded twice. */
FT_BOTH float ft_mul_add(float a, float b, float c)
{
#ifdef __CUDA_ARCH__
    return __fadd_rn(__fmul_rn(a, b), c);
#else
    return a * b + c;
#endif
}

FT_BOTH float ft_divide(float a, float b)
{
#ifdef __CUDA_ARCH__
    return __fdiv_rn(a, b);
#else
    return a / b;
#endif
}

/* e^x for x <= 0, relative error below 3e-7; 0 from about -87 down. */
FT_BOTH float ft_exp_neg(float x)
{
    union {
        float f;
        int32_t i;
    } s;
    if (!(x > -87.0f)) return 0.0f;
    const float n = ft_mul_add(x, 1.44269504f, 12582912.0f) - 12582912.0f;
    const float r = ft_mul_add(n, -1.42860677e-6f, ft_mul_add(n, -0.693145752f, x));
    float y = ft_mul_add(1.38888889e-3f, r, 8.33333333e-3f);
    y = ft_mul_add(y, r, 4.16666667e-2f);
    y = ft_mul_add(y, r, 1.66666667e-1f);
    y = ft_mul_add(y, r, 0.5f);
    y = ft_mul_add(y, r, 1.0f);
    y = ft_mul_add(y, r, 1.0f);
    s.i = ((int32_t)n + 127) << 23;
    return y * s.f;
}

/* A probability's share of a sum, in units of 2^-40: a million of them have room. */
#define FT_WEIGHT_ONE 0x1p40f

FT_BOTH uint64_t ft_weight_of(float p)
{
    return (uint64_t)(int64_t)(p * FT_WEIGHT_ONE);
}

/* The weight of a logit that lies `below` (<= 0) the largest. */
FT_BOTH uint64_t ft_weigh(float below)
{
    return ft_weight_of(ft_exp_neg(below));
}

/* What NaN and +inf count as. */
FT_BOTH float ft_logit_finite(float x)
{
    const float y = x > FLT_MAX ? FLT_MAX : x;
    return y == y ? y : -INFINITY;
}

FT_BOTH float ft_logit_biased(float x, float bias)
{
    return ft_logit_finite(x + bias);
}

FT_BOTH float ft_logit_penalized(float x, int32_t count, float repeat, float frequency,
                                 float presence)
{
    x = x <= 0 ? x * repeat : ft_divide(x, repeat);
    return x - ft_mul_add((float)count, frequency, presence);
}

FT_BOTH float ft_logit_edited(float x, ft_edit e, const ft_draw *d)
{
    if (e.bias != 0) x = ft_logit_biased(x, e.bias);
    return e.count ? ft_logit_penalized(x, e.count, d->repeat, d->frequency, d->presence) : x;
}

FT_BOTH float ft_logit_tempered(float x, float temperature)
{
    const float most = FLT_MAX / 2, v = temperature == 1.0f ? x : ft_divide(x, temperature);
    return temperature != 1.0f && v > most ? most : v;
}

/* The mass at which top_p stops, of `sum`. */
FT_BOTH uint64_t ft_top_p_goal(float p, uint64_t sum)
{
    return p > 0 ? (uint64_t)((double)p * (double)sum) : 0;
}

/* The first id, in rising order, whose cumulated weight is above this is drawn. */
FT_BOTH uint64_t ft_draw_at(uint64_t seed, uint64_t position, uint64_t sum)
{
    const double u = ft_unit_f64(ft_rng_at(seed, position, FT_STREAM_DRAW));
    const uint64_t at = (uint64_t)(u * (double)sum);
    return at < sum ? at : sum - 1;
}

#endif
