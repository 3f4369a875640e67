/* dev/cpu/kern_loops.h - element-wise kernels, written so that the compiler can vectorise them: no
 * branches, no calls. A file that includes this gets them in its instruction set. Outputs may alias
 * inputs of the same index. */
#ifndef FT_DEV_CPU_KERN_LOOPS_H
#define FT_DEV_CPU_KERN_LOOPS_H

#include "base/half.h"
#include "dev/cpu/kern.h"

#if defined(__clang__)
#define IN_PLACE _Pragma("clang loop vectorize(assume_safety)")
#else
#define IN_PLACE _Pragma("GCC ivdep")
#endif

/* e^x within 2 ulp: 2^n times a polynomial on [-ln2/2, ln2/2]. 2^n is applied in two halves, so
 * that the ends give subnormals and infinity; a NaN stays one. */
static inline float exp1(float x)
{
    const float round = 12582912.0f; /* 1.5 * 2^23: adding it leaves an integer in the low bits */
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.0f ? -104.0f : x;
    const float t = ft_fma(x, 1.44269504f, round), n = t - round;
    const float r = ft_fma(n, -1.42860677e-6f, ft_fma(n, -0.693145752f, x));
    float p = 1.0f / 5040;
    p = ft_fma(p, r, 1.0f / 720);
    p = ft_fma(p, r, 1.0f / 120);
    p = ft_fma(p, r, 1.0f / 24);
    p = ft_fma(p, r, 1.0f / 6);
    p = ft_fma(p, r, 0.5f);
    p = ft_fma(p, r, 1.0f);
    p = ft_fma(p, r, 1.0f);
    const int32_t e = (int32_t)(ft_f32_bits(t) - 0x4b400000u), half = e >> 1;
    const float a = ft_f32_of_bits((uint32_t)(half + 127) << 23);
    const float b = ft_f32_of_bits((uint32_t)(e - half + 127) << 23);
    return p * a * b;
}

static inline float sigmoid1(float x)
{
    return 1.0f / (1.0f + exp1(-x));
}

/* tanh, accurate for small values too: a polynomial there, exponentials beyond. */
static inline float tanh1(float x)
{
    const float a = fabsf(x), q = x * x, e = exp1(-2.0f * a);
    const float far = copysignf((1.0f - e) / (1.0f + e), x);
    float p = 62.0f / 2835;
    p = ft_fma(p, q, -17.0f / 315);
    p = ft_fma(p, q, 2.0f / 15);
    p = ft_fma(p, q, -1.0f / 3);
    p = ft_fma(p * q, x, x);
    return a < 0.3f ? p : far;
}

static void exp_minus(float *y, const float *x, float m, int n)
{
    IN_PLACE
    for (int i = 0; i < n; i++) y[i] = exp1(x[i] - m);
}

static void silu(float *y, int n)
{
    for (int i = 0; i < n; i++) y[i] *= sigmoid1(y[i]);
}

static void silu_mul(float *y, const float *g, const float *u, int n)
{
    IN_PLACE
    for (int i = 0; i < n; i++) y[i] = g[i] * sigmoid1(g[i]) * u[i];
}

static void gelu_mul(float *y, const float *g, const float *u, int n)
{
    IN_PLACE
    for (int i = 0; i < n; i++) {
        const float x = g[i]; /* (1 + tanh z) / 2 is the sigmoid of 2z */
        const float z = 1.59576912f * x * ft_fma(0.044715f * x, x, 1.0f);
        y[i] = x * sigmoid1(z) * u[i];
    }
}

static void sigmoid_mul(float *y, const float *g, int n)
{
    IN_PLACE
    for (int i = 0; i < n; i++) y[i] *= sigmoid1(g[i]);
}

static void softcap(float *y, float c, int n)
{
    const float inv = 1.0f / c;
    for (int i = 0; i < n; i++) y[i] = c * tanh1(y[i] * inv);
}

/* y does not alias an input. */
static void conv4(float *restrict y, const float *const *x, const float *restrict w, int n)
{
    const float *a = x[0], *b = x[1], *c = x[2], *d = x[3];
    for (int i = 0; i < n; i++, w += 4)
        y[i] = ft_fma(w[3], d[i], ft_fma(w[2], c[i], ft_fma(w[1], b[i], w[0] * a[i])));
}

static void fill_loops(ft_kern *k)
{
    k->conv4 = conv4;
    k->exp_minus = exp_minus;
    k->silu = silu;
    k->silu_mul = silu_mul;
    k->gelu_mul = gelu_mul;
    k->sigmoid_mul = sigmoid_mul;
    k->softcap = softcap;
}

#endif
