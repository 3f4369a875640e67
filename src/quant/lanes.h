/* quant/lanes.h - four sub-blocks at a time, one in each lane of a vector. The searches for scales
 * run over the values of a sub-block and keep sums; with one sub-block per lane the order of those
 * sums is the one written, so vectorised code gives the same bytes on every machine. Uses the
 * vector extensions of GCC and clang. */
#ifndef FT_QUANT_LANES_H
#define FT_QUANT_LANES_H

#include "base/half.h"

#include <stdbool.h>
#include <stddef.h>

enum { LANES = 4 };
typedef float v4 __attribute__((vector_size(16)));
typedef int32_t m4 __attribute__((vector_size(16))); /* all bits of a lane: true */

#define INLINE static inline __attribute__((always_inline))

typedef uint8_t b16 __attribute__((vector_size(16)));

/* qs[i] = low nibble of low[i], and high[i] above it, for i in 0..15 */
INLINE void put_nibbles(uint8_t *qs, const uint8_t *low, const uint8_t *high)
{
    b16 a, b;
    memcpy(&a, low, sizeof a);
    memcpy(&b, high, sizeof b);
    a = (a & 15) | b << 4;
    memcpy(qs, &a, sizeof a);
}

INLINE v4 splat(float x)
{
    return (v4){x, x, x, x};
}

INLINE v4 pick(m4 m, v4 yes, v4 no)
{
    return (v4)(((m4)yes & m) | ((m4)no & ~m));
}

INLINE v4 low_of(v4 a, v4 b)
{
    return pick(a < b, a, b);
}

INLINE v4 high_of(v4 a, v4 b)
{
    return pick(a > b, a, b);
}

INLINE v4 clamp(v4 x, v4 lo, v4 hi)
{
    return low_of(high_of(x, lo), hi);
}

/* To the nearest integer, ties to even, for |x| < 2^22: the addition rounds. */
INLINE v4 whole(v4 x)
{
    const v4 big = splat(12582912.0f);
    return (x + big) - big;
}

/* out[i] = the low eight bits of round(x[i] * mul + add), clamped to [lo, hi] before; n is a
 * multiple of 4. The sum with the big number holds the integer in its lowest bits. */
INLINE void quantise(uint8_t *restrict out, const float *restrict x, int n, float mul, float add,
                     float lo, float hi)
{
    uint32_t bits[256];
    for (int i = 0; i < n; i += LANES) {
        v4 v;
        memcpy(&v, x + i, sizeof v);
        v = clamp(v * splat(mul) + splat(add), splat(lo), splat(hi)) + splat(12582912.0f);
        memcpy(bits + i, &v, sizeof v);
    }
    for (int i = 0; i < n; i++) out[i] = (uint8_t)bits[i];
}

INLINE v4 magnitude(v4 x)
{
    return (v4)((m4)x & 0x7fffffff);
}

INLINE v4 load4(const float *p)
{
    v4 v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* a / b, and 0 where b is 0 */
INLINE v4 ratio(v4 a, v4 b)
{
    const m4 ok = b != splat(0);
    return (v4)((m4)(a / pick(ok, b, splat(1))) & ok);
}

INLINE float ratio1(float a, float b)
{
    return b != 0 ? a / b : 0.0f;
}

/* Values that are not finite become zero. */
INLINE v4 finite4(v4 x)
{
    const m4 exponent = (m4)x & 0x7f800000;
    return (v4)((m4)x & (exponent != 0x7f800000));
}

/* The f16 nearest to each of four finite numbers, ties to even, never infinite. *seen gets the
 * decoded values. Below the normal range the addition rounds, at the weight of the last bit.
 */
INLINE m4 to_f16(v4 x, v4 *seen)
{
    const m4 bits = (m4)clamp(x, splat(-65504), splat(65504));
    const m4 a = bits & 0x7fffffff, sign = bits ^ a, small = a < 0x38800000;
    const m4 normal = (a - 0x38000000 + 0xfff + (a >> 13 & 1)) >> 13;
    const v4 half = (v4)a + splat(0.5f);
    const v4 back = pick(small, half - splat(0.5f), (v4)((normal << 13) + 0x38000000));
    *seen = (v4)((m4)back | sign);
    return (small & ((m4)half - 0x3f000000)) | (~small & normal) | (sign >> 16 & 0x8000);
}

/* The largest of the magnitudes as bits: infinities and NaN are above every number. n is a
 * multiple of 16: four independent chains keep the vector units busy. */
INLINE uint32_t top_bits(const float *src, int n)
{
    m4 top[4] = {{0}, {0}, {0}, {0}};
    for (int i = 0; i < n; i += 4 * LANES)
        for (int j = 0; j < 4; j++) {
            const m4 a = (m4)magnitude(load4(src + i + LANES * j)), above = a > top[j];
            top[j] = (a & above) | (top[j] & ~above);
        }
    for (int j = 1; j < 4; j++) {
        const m4 above = top[j] > top[0];
        top[0] = (top[j] & above) | (top[0] & ~above);
    }
    const m4 t = top[0];
    const int32_t a = t[0] > t[1] ? t[0] : t[1], b = t[2] > t[3] ? t[2] : t[3];
    return (uint32_t)(a > b ? a : b);
}

/* true when all n values are finite and the largest is neither so large nor so small that sums of
 * squares could leave the range of a float: almost always. */
INLINE bool tame(const float *src, int n)
{
    const uint32_t e = top_bits(src, n) >> 23;
    return e >= 127 - 24 && e < 127 + 24;
}

/* Copies n values (a multiple of 4), makes them finite and scales the largest into [1, 2) by a
 * power of two, which is returned: x times that is the source. If even the largest is subnormal,
 * all are zero. */
INLINE float normalise(float *restrict x, const float *restrict src, int n)
{
    for (int i = 0; i < n; i += LANES) {
        const v4 v = finite4(load4(src + i));
        memcpy(x + i, &v, sizeof v);
    }
    uint32_t e = top_bits(x, n) >> 23;
    const bool tiny = e == 0;
    if (e > 253) e = 253;
    const v4 mul = splat(tiny ? 0.0f : ft_f32_of_bits((254 - e) << 23));
    for (int i = 0; i < n; i += LANES) {
        const v4 v = load4(x + i) * mul;
        memcpy(x + i, &v, sizeof v);
    }
    return tiny ? 1.0f : ft_f32_of_bits(e << 23);
}

/* lane k of out[i] = in[k * n + i]; n is a multiple of 4 */
INLINE void to_lanes(v4 *restrict out, const float *restrict in, int n)
{
    for (int i = 0; i < n; i += 4) {
        const v4 a = load4(in + i), b = load4(in + n + i);
        const v4 c = load4(in + 2 * n + i), d = load4(in + 3 * n + i);
        const v4 ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5);
        const v4 ab1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
        const v4 cd0 = __builtin_shufflevector(c, d, 0, 4, 1, 5);
        const v4 cd1 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
        out[i] = __builtin_shufflevector(ab0, cd0, 0, 1, 4, 5);
        out[i + 1] = __builtin_shufflevector(ab0, cd0, 2, 3, 6, 7);
        out[i + 2] = __builtin_shufflevector(ab1, cd1, 0, 1, 4, 5);
        out[i + 3] = __builtin_shufflevector(ab1, cd1, 2, 3, 6, 7);
    }
}

/* Importances of four sub-blocks: each lane is scaled to the mean 1, and the mean it had is
 * returned. A lane with zero importance gets equal weights. */
INLINE v4 weights_to_lanes(v4 *restrict out, const float *restrict in, int n)
{
    v4 sum = splat(0);
    to_lanes(out, in, n);
    for (int i = 0; i < n; i++) {
        out[i] = clamp(finite4(out[i]), splat(0), splat(1e30f));
        sum += out[i];
    }
    const v4 mean = sum / splat((float)n);
    const m4 ok = mean > splat(1e-30f);
    const v4 mul = ratio(splat(1), pick(ok, mean, splat(1)));
    for (int i = 0; i < n; i++) out[i] = pick(ok, out[i] * mul, splat(1));
    return (v4)((m4)mean & ok);
}

#endif
