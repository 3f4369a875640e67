/* Encoders of the 32-value blocks: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0. Four blocks are searched at a
 * time. */
#include "base/mem.h"
#include "quant/family.h"
#include "quant/quad.h"

/* q = nearest whole number to (x - min) / d, in [lo, hi] */
INLINE void quantise(uint8_t *restrict out, const float *restrict x, float min, float d, float lo,
                     float hi)
{
    const float inverse = ratio1(1, d);
    for (int i = 0; i < N; i++) {
        const float q = (x[i] - min) * inverse;
        out[i] = (uint8_t)(int8_t)whole1(q < lo ? lo : q > hi ? hi : q);
    }
}

static void put_nibbles(uint8_t *restrict qs, const uint8_t *restrict code)
{
    for (int i = 0; i < 16; i++) qs[i] = (uint8_t)((code[i] & 15) | code[i + 16] << 4);
}

static uint32_t fifth_bits(const uint8_t *code)
{
    uint32_t high = 0;
    for (int i = 0; i < N; i++) high |= (uint32_t)(code[i] >> 4 & 1) << i;
    return high;
}

static const float trial4[] = {-8, -7.2f, -8.8f, -9.8f};
static const float trial5[] = {-16, -15.2f, -17, -18.2f};
static const float cut[] = {0, 0.05f, 0.1f, 0.16f};

#define FIT_SCALE(q, lo, hi, trial)                                                                \
    ((q)->weighted ? fit_scale((q)->lane, (q)->weight, N, lo, hi, trial, (int)FT_COUNT(trial))     \
                   : fit_scale((q)->lane, NULL, N, lo, hi, trial, (int)FT_COUNT(trial)))
#define FIT_LINE(q, hi)                                                                            \
    ((q)->weighted ? fit_line((q)->lane, (q)->weight, N, hi, false, cut, (int)FT_COUNT(cut), 2)    \
                   : fit_line((q)->lane, NULL, N, hi, false, cut, (int)FT_COUNT(cut), 2))

void ft_encode_q4_0(uint8_t *dst, const float *src, size_t blocks, const float *weight)
{
    for (size_t n; blocks; blocks -= n) {
        quad q;
        n = quad_load(&q, src, blocks, weight);
        const v4 scale = FIT_SCALE(&q, -8, 7, trial4);
        for (size_t b = 0; b < n; b++, dst += 18, src += N) {
            uint8_t code[N];
            quantise(code, q.x + N * b, 0, put_scale(dst, scale[b], q.unit[b]), -8, 7);
            for (int i = 0; i < N; i++) code[i] ^= 8; /* -8..7 to 0..15 in the low bits */
            put_nibbles(dst + 2, code);
        }
        if (weight) weight += n * N;
    }
}

void ft_encode_q5_0(uint8_t *dst, const float *src, size_t blocks, const float *weight)
{
    for (size_t n; blocks; blocks -= n) {
        quad q;
        n = quad_load(&q, src, blocks, weight);
        const v4 scale = FIT_SCALE(&q, -16, 15, trial5);
        for (size_t b = 0; b < n; b++, dst += 22, src += N) {
            uint8_t code[N];
            quantise(code, q.x + N * b, 0, put_scale(dst, scale[b], q.unit[b]), -16, 15);
            for (int i = 0; i < N; i++) code[i] ^= 16;
            wr32(dst + 2, fifth_bits(code));
            put_nibbles(dst + 6, code);
        }
        if (weight) weight += n * N;
    }
}

void ft_encode_q4_1(uint8_t *dst, const float *src, size_t blocks, const float *weight)
{
    for (size_t n; blocks; blocks -= n) {
        quad q;
        n = quad_load(&q, src, blocks, weight);
        const line l = FIT_LINE(&q, 15);
        for (size_t b = 0; b < n; b++, dst += 20, src += N) {
            uint8_t code[N];
            const float d = put_scale(dst, l.scale[b], q.unit[b]);
            quantise(code, q.x + N * b, put_scale(dst + 2, l.min[b], q.unit[b]), d, 0, 15);
            put_nibbles(dst + 4, code);
        }
        if (weight) weight += n * N;
    }
}

void ft_encode_q5_1(uint8_t *dst, const float *src, size_t blocks, const float *weight)
{
    for (size_t n; blocks; blocks -= n) {
        quad q;
        n = quad_load(&q, src, blocks, weight);
        const line l = FIT_LINE(&q, 31);
        for (size_t b = 0; b < n; b++, dst += 24, src += N) {
            uint8_t code[N];
            const float d = put_scale(dst, l.scale[b], q.unit[b]);
            quantise(code, q.x + N * b, put_scale(dst + 2, l.min[b], q.unit[b]), d, 0, 31);
            wr32(dst + 4, fifth_bits(code));
            put_nibbles(dst + 8, code);
        }
        if (weight) weight += n * N;
    }
}

/* Eight bits need no search: the largest value sets the scale. */
void ft_encode_q8_0(uint8_t *dst, const float *src, size_t blocks, const float *weight)
{
    (void)weight;
    for (; blocks--; dst += 34, src += N) {
        float x[N];
        v4 top = splat(0);
        for (int i = 0; i < N; i += LANES) {
            const v4 v = finite4(load4(src + i));
            top = high_of(top, magnitude(v));
            memcpy(x + i, &v, sizeof v);
        }
        const float a = FT_MAX(top[0], top[1]), b = FT_MAX(top[2], top[3]);
        const float d = wr_f16(dst, FT_MAX(a, b) / 127.0f);
        quantise(dst + 2, x, 0, d, -127, 127);
    }
}
