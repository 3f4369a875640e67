/* Encoders of the 32-value blocks: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0. Four blocks are searched at a
 * time. */
#include "base/mem.h"
#include "quant/family.h"
#include "quant/quad.h"

/* Bit 4 of each of 32 codes. The product moves the lowest bit of byte k to bit 56 + k. */
static uint32_t fifth_bits(const uint8_t *code)
{
    uint32_t high = 0;
    for (int i = 0; i < N; i += 8) {
        uint64_t eight;
        memcpy(&eight, code + i, sizeof eight);
        high |= (uint32_t)((eight >> 4 & 0x0101010101010101u) * 0x0102040810204080u >> 56) << i;
    }
    return high;
}

/* Where to put the extreme value. With importances the extreme may have little weight, so the
 * search is wider. */
static const float wide4[] = {-8, -7.3f, -7.7f, -8.4f, -8.8f, -9.3f, -10, -11, -12.5f, 7, 7.8f, 9};
static const float wide5[] = {-16, -15.3f, -16.6f, -17.3f, -18, -19, -20.5f, -22.5f, -25, 15, 17};
static const cut plain4[] = {{0.02f, 0.02f}}, plain5[] = {{0.006f, 0.006f}};
#define FIT_LINE(q, weight, hi, plain, wide)                                                       \
    ((weight) ? fit_line((q)->lane, (q)->weight, N, hi, false, wide, (int)FT_COUNT(wide), 3)       \
              : fit_line((q)->lane, NULL, N, hi, false, plain, (int)FT_COUNT(plain), 0))

void ft_encode_q4_0(uint8_t *dst, const float *src, size_t blocks, const float *weight)
{
    for (size_t n; blocks; blocks -= n) {
        quad q;
        n = quad_load(&q, src, blocks, weight, false);
        const v4 scale = weight ? fit_scale(q.lane, q.weight, N, -8, 7, wide4, FT_COUNT(wide4))
                                : fit_once(q.lane, N, 7, -8.15f);
        const v4 inverse = ratio(splat(1), quad_put(&q, dst, 18, n, scale));
        for (size_t b = 0; b < n; b++, dst += 18, src += N) {
            uint8_t code[N];
            quantise(code, q.x + N * b, N, inverse[b], 8, 0, 15);
            put_nibbles(dst + 2, code, code + 16);
        }
        if (weight) weight += n * N;
    }
}

void ft_encode_q5_0(uint8_t *dst, const float *src, size_t blocks, const float *weight)
{
    for (size_t n; blocks; blocks -= n) {
        quad q;
        n = quad_load(&q, src, blocks, weight, false);
        const v4 scale = weight ? fit_scale(q.lane, q.weight, N, -16, 15, wide5, FT_COUNT(wide5))
                                : fit_once(q.lane, N, 15, -16.1f);
        const v4 inverse = ratio(splat(1), quad_put(&q, dst, 22, n, scale));
        for (size_t b = 0; b < n; b++, dst += 22, src += N) {
            uint8_t code[N];
            quantise(code, q.x + N * b, N, inverse[b], 16, 0, 31);
            wr32(dst + 2, fifth_bits(code));
            put_nibbles(dst + 6, code, code + 16);
        }
        if (weight) weight += n * N;
    }
}

void ft_encode_q4_1(uint8_t *dst, const float *src, size_t blocks, const float *weight)
{
    for (size_t n; blocks; blocks -= n) {
        quad q;
        n = quad_load(&q, src, blocks, weight, false);
        const line l = FIT_LINE(&q, weight, 15, plain4, ft_cut4);
        const v4 inverse = ratio(splat(1), quad_put(&q, dst, 20, n, l.scale));
        const v4 add = -quad_put(&q, dst + 2, 20, n, l.min) * inverse;
        for (size_t b = 0; b < n; b++, dst += 20, src += N) {
            uint8_t code[N];
            quantise(code, q.x + N * b, N, inverse[b], add[b], 0, 15);
            put_nibbles(dst + 4, code, code + 16);
        }
        if (weight) weight += n * N;
    }
}

void ft_encode_q5_1(uint8_t *dst, const float *src, size_t blocks, const float *weight)
{
    for (size_t n; blocks; blocks -= n) {
        quad q;
        n = quad_load(&q, src, blocks, weight, false);
        const line l = FIT_LINE(&q, weight, 31, plain5, ft_cut5);
        const v4 inverse = ratio(splat(1), quad_put(&q, dst, 24, n, l.scale));
        const v4 add = -quad_put(&q, dst + 2, 24, n, l.min) * inverse;
        for (size_t b = 0; b < n; b++, dst += 24, src += N) {
            uint8_t code[N];
            quantise(code, q.x + N * b, N, inverse[b], add[b], 0, 31);
            wr32(dst + 4, fifth_bits(code));
            put_nibbles(dst + 8, code, code + 16);
        }
        if (weight) weight += n * N;
    }
}

/* Eight bits need no search: the largest value determines the scale. */
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
