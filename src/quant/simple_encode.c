/* Encoders of the 32-value blocks: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0. Four blocks are searched at a
 * time. */
#include "base/mem.h"
#include "quant/family.h"
#include "quant/quad.h"

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

/* Where to put the extreme value. With importances the extreme may be worth little, so that the
 * search looks further. */
static const float wide4[] = {-8, -7.3f, -7.7f, -8.4f, -8.8f, -9.3f, -10, -11, -12.5f, 7, 7.8f, 9};
static const float wide5[] = {-16, -15.3f, -16.6f, -17.3f, -18, -19, -20.5f, -22.5f, -25, 15, 17};
static const cut plain[] = {{0, 0}, {0.05f, 0.05f}};
static const cut wide[] = {{0, 0},         {0.04f, 0.04f},   {0.09f, 0.09f}, {0.15f, 0.15f},
                           {0.22f, 0.22f}, {0, 0.08f},       {0, 0.16f},     {0, 0.26f},
                           {0.08f, 0},     {0.16f, 0},       {0.26f, 0},     {0.08f, 0.2f},
                           {0.2f, 0.08f},  {-0.03f, -0.03f}, {0.1f, 0.32f},  {0.32f, 0.1f}};

#define FIT_LINE(q, weight, hi)                                                                    \
    ((weight) ? fit_line((q)->lane, (q)->weight, N, hi, false, wide, (int)FT_COUNT(wide), 3)       \
              : fit_line((q)->lane, NULL, N, hi, false, plain, (int)FT_COUNT(plain), 1))

void ft_encode_q4_0(uint8_t *dst, const float *src, size_t blocks, const float *weight)
{
    for (size_t n; blocks; blocks -= n) {
        quad q;
        n = quad_load(&q, src, blocks, weight, false);
        const v4 scale = weight ? fit_scale(q.lane, q.weight, N, -8, 7, wide4, FT_COUNT(wide4)) : fit_once(q.lane, N, 7, -8.45f);
        for (size_t b = 0; b < n; b++, dst += 18, src += N) {
            uint8_t code[N];
            const float inverse = put_inverse(dst, scale[b], q.unit[b]);
            quantise(code, q.x + N * b, N, inverse, 8, 0, 15);
            put_nibbles(dst + 2, code);
        }
        if (weight) weight += n * N;
    }
}

void ft_encode_q5_0(uint8_t *dst, const float *src, size_t blocks, const float *weight)
{
    for (size_t n; blocks; blocks -= n) {
        quad q;
        n = quad_load(&q, src, blocks, weight, false);
        const v4 scale = weight ? fit_scale(q.lane, q.weight, N, -16, 15, wide5, FT_COUNT(wide5)) : fit_once(q.lane, N, 15, -16.45f);
        for (size_t b = 0; b < n; b++, dst += 22, src += N) {
            uint8_t code[N];
            const float inverse = put_inverse(dst, scale[b], q.unit[b]);
            quantise(code, q.x + N * b, N, inverse, 16, 0, 31);
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
        n = quad_load(&q, src, blocks, weight, false);
        const line l = FIT_LINE(&q, weight, 15);
        for (size_t b = 0; b < n; b++, dst += 20, src += N) {
            uint8_t code[N];
            const float inverse = put_inverse(dst, l.scale[b], q.unit[b]);
            const float m = put_scale(dst + 2, l.min[b], q.unit[b]);
            quantise(code, q.x + N * b, N, inverse, -m * inverse, 0, 15);
            put_nibbles(dst + 4, code);
        }
        if (weight) weight += n * N;
    }
}

void ft_encode_q5_1(uint8_t *dst, const float *src, size_t blocks, const float *weight)
{
    for (size_t n; blocks; blocks -= n) {
        quad q;
        n = quad_load(&q, src, blocks, weight, false);
        const line l = FIT_LINE(&q, weight, 31);
        for (size_t b = 0; b < n; b++, dst += 24, src += N) {
            uint8_t code[N];
            const float inverse = put_inverse(dst, l.scale[b], q.unit[b]);
            const float m = put_scale(dst + 2, l.min[b], q.unit[b]);
            quantise(code, q.x + N * b, N, inverse, -m * inverse, 0, 31);
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
        float copy[N];
        const float *x = src;
        if ((top_bits(src, N) >> 23) == 255) {
            for (int i = 0; i < N; i += LANES) {
                const v4 v = finite4(load4(src + i));
                memcpy(copy + i, &v, sizeof v);
            }
            x = copy;
        }
        const float d = wr_f16(dst, ft_f32_of_bits(top_bits(x, N)) / 127.0f);
        quantise(dst + 2, x, N, ratio1(1, d), 0, -127, 127);
    }
}
