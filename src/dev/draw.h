/* dev/draw.h - the arithmetic of sampling, bit-identical on every device and in the host's sampler:
 * multiply-adds are not fused, and weights are integers, so that their sum does not depend on the
 * order. For C and CUDA. */
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
    FT_DRAW_ROWS = 64,    /* maximum draws per step */
    FT_DRAW_K = 1024,     /* largest top_k */
    FT_DRAW_EDITS = 1024, /* maximum ids that penalties and biases change */
    FT_DRAW_TOP = 32,     /* longest list of top logits */
    FT_DRAW_MORE = -2,    /* instead of an id: the host must sample this row */
};

/* Which of the random numbers of a position. */
enum { FT_STREAM_DRAW, FT_STREAM_XTC };

/* A logit that the sampler changes: first the bias is added, then the penalties for `count`
 * occurrences are applied. */
typedef struct ft_edit {
    int32_t id, count;
    float bias;
} ft_edit;

/* Parameters of one draw. */
typedef struct ft_draw {
    int32_t row;                       /* row of the logits; -1: unused draw */
    int32_t to;                        /* index of its result relative to y; may be negative */
    float temperature;                 /* <= 0: greedy, the next three are ignored */
    int32_t top_k;                     /* 0: disabled; at most FT_DRAW_K */
    float top_p;                       /* >= 1: disabled */
    float log_min_p;                   /* <= 0; -inf: disabled */
    float repeat, frequency, presence; /* penalties */
    uint64_t seed, position;           /* counter of the random number generator */
    int32_t mask;                      /* index of its first word in draw_words; -1: none */
    int32_t edit, n_edit; /* index of the first ft_edit in draw_words; ids are distinct */
    int32_t list;         /* number of top logits to return; -1: neither these nor the sum */
} ft_draw;

/* A logit and its id. */
typedef struct ft_pick {
    int32_t id;
    float x;
} ft_pick;

typedef struct ft_drawn {
    int32_t id;   /* -1: no candidate */
    float x;      /* its logit in the row */
    float max;    /* the largest candidate logit */
    int32_t n;    /* of top */
    uint64_t sum; /* sum of the weights of all candidates, before top_k and later filters */
    ft_pick
        top[FT_DRAW_TOP]; /* the largest logits in descending order; equal ones by ascending id */
} ft_drawn;

/* 0: greedy; 1: with top_k, or a list; 2: a draw that may need the whole row. */
static inline int ft_draw_kind(const ft_draw *d)
{
    if (d->temperature <= 0 && d->list < 0) return 0;
    return d->top_k > 0 ? 1 : 2;
}

/* Maximum words for the masks and edits of a step: all masks, and typical edits. */
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

/* The unit of weights is 2^-40: a million of them cannot overflow. */
#define FT_WEIGHT_ONE 0x1p40f

FT_BOTH uint64_t ft_weight_of(float p)
{
    return (uint64_t)(int64_t)(p * FT_WEIGHT_ONE);
}

/* Weight of a logit that is `below` (<= 0) the largest. */
FT_BOTH uint64_t ft_weigh(float below)
{
    return ft_weight_of(ft_exp_neg(below));
}

/* Replaces NaN and +inf. */
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

/* The cumulative weight at which top_p stops, of `sum`. */
FT_BOTH uint64_t ft_top_p_goal(float p, uint64_t sum)
{
    return p > 0 ? (uint64_t)((double)p * (double)sum) : 0;
}

/* The first id, in ascending order, whose cumulative weight exceeds this is drawn. */
FT_BOTH uint64_t ft_draw_at(uint64_t seed, uint64_t position, uint64_t sum)
{
    const double u = ft_unit_f64(ft_rng_at(seed, position, FT_STREAM_DRAW));
    const uint64_t at = (uint64_t)(u * (double)sum);
    return at < sum ? at : sum - 1;
}

#endif
