/* dev/cpu/arm/tq.h - TQ3_1S and TQ4_1S weights, for a file that includes this and defines dot16
 * (see dot8.h) and the products of four times four adjacent bytes:
 *     static inline int32x4_t fours16(int8x16_t a, int8x16_t b)
 * A table look-up turns codes into bytes of the codebook. */
#ifndef FT_DEV_CPU_ARM_TQ_H
#define FT_DEV_CPU_ARM_TQ_H

#include "dev/cpu/arm/dot8.h"
#include "quant/turbo_weights.h"

/* The 32 codes of a block in order. Nibbles: the low ones are the even values. */
INLINE uint8x16x2_t tq4_codes(const unsigned char *p)
{
    const uint8x16_t c = vld1q_u8(p + 4);
    const uint8x16_t even = vandq_u8(c, vdupq_n_u8(15)), odd = vshrq_n_u8(c, 4);
    return (uint8x16x2_t){{vzip1q_u8(even, odd), vzip2q_u8(even, odd)}};
}

/* Three bits: every code is moved into a 16-bit lane together with the next byte, then shifted
 * down. */
INLINE uint8x16x2_t tq3_codes(const unsigned char *p)
{
    static const uint8_t from[16] = {4, 5, 4, 5, 4, 5, 5, 6, 5, 6, 5, 6, 6, 7, 6, 7};
    static const int16_t down[8] = {0, -3, -6, -1, -4, -7, -2, -5};
    const uint8x16_t b = vld1q_u8(p), at = vld1q_u8(from);
    const int16x8_t by = vld1q_s16(down);
    uint16x8_t v[4];
    UNROLL for (int g = 0; g < 4; g++) v[g] = vshlq_u16(
        vreinterpretq_u16_u8(vqtbl1q_u8(b, vaddq_u8(at, vdupq_n_u8((uint8_t)(3 * g))))), by);
    const uint8x16_t seven = vdupq_n_u8(7);
    UNROLL for (int h = 0; h < 4; h += 2) v[h / 2] = vreinterpretq_u16_u8(
        vandq_u8(vuzp1q_u8(vreinterpretq_u8_u16(v[h]), vreinterpretq_u8_u16(v[h + 1])), seven));
    return (uint8x16x2_t){{vreinterpretq_u8_u16(v[0]), vreinterpretq_u8_u16(v[1])}};
}

INLINE void tq_dot(const ft_type type, float *const *y, const unsigned char *w, size_t row_bytes,
                   int rows, int k, const ft_col8 *x, const int n)
{
    const ft_tq_book *b = ft_tq_book_of(type);
    const int8x16_t book = vld1q_s8(b->small);
    const int bytes = type == FT_TQ3_1S ? 16 : 20;
    for (int o = 0; o < rows; o++, w += row_bytes) {
        const unsigned char *p = w;
        float32x4_t low[FT_COLS], high[FT_COLS];
        UNROLL for (int c = 0; c < n; c++) low[c] = high[c] = vdupq_n_f32(0);
        for (int i = 0; i < k / 32; i++, p += bytes) {
            const uint8x16x2_t code = type == FT_TQ3_1S ? tq3_codes(p) : tq4_codes(p);
            const int8x16_t v0 = vqtbl1q_s8(book, code.val[0]), v1 = vqtbl1q_s8(book, code.val[1]);
            const float d0 = f16_bits(p), d1 = f16_bits(p + 2);
            UNROLL for (int c = 0; c < n; c++)
            {
                const int8_t *q = x[c].q + 32 * i;
                const float *d = x[c].d + 8 * i; /* one for each lane */
                low[c] = vfmaq_f32(low[c], vcvtq_f32_s32(fours16(v0, vld1q_s8(q))),
                                   vmulq_n_f32(vld1q_f32(d), d0));
                high[c] = vfmaq_f32(high[c], vcvtq_f32_s32(fours16(v1, vld1q_s8(q + 16))),
                                    vmulq_n_f32(vld1q_f32(d + 4), d1));
            }
        }
        UNROLL for (int c = 0; c < n; c++) y[c][o] =
            vaddvq_f32(vaddq_f32(low[c], high[c])) * b->step;
    }
}

#define CALL_TQ3_1S(n) tq_dot(FT_TQ3_1S, y, w, row_bytes, rows, k, x, n)
#define CALL_TQ4_1S(n) tq_dot(FT_TQ4_1S, y, w, row_bytes, rows, k, x, n)
FT_DOT8(dot_tq3_1s, CALL_TQ3_1S)
FT_DOT8(dot_tq4_1s, CALL_TQ4_1S)

static void fill_tq(ft_kern *k)
{
    k->dot8[FT_TQ3_1S] = dot_tq3_1s;
    k->dot8[FT_TQ4_1S] = dot_tq4_1s;
}

#endif
