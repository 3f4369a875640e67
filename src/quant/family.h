/* quant/family.h - shared by the files of this folder: readers and writers of the fields of a
 * block, and the functions that quant.c joins into one table. All functions take whole blocks;
 * encoded bytes may be unaligned. */
#ifndef FT_QUANT_FAMILY_H
#define FT_QUANT_FAMILY_H

#include "base/half.h"
#include "quant/quant.h"

static inline uint16_t rd16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t rd32(const uint8_t *p)
{
    return (uint32_t)rd16(p) | (uint32_t)rd16(p + 2) << 16;
}

static inline float rd_f16(const uint8_t *p)
{
    return ft_f16_to_f32(rd16(p));
}

static inline void wr16(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static inline void wr32(uint8_t *p, uint32_t v)
{
    wr16(p, v);
    wr16(p + 2, v >> 16);
}

/* Writes v as the nearest finite f16 and returns the value that decoding gives. */
static inline float wr_f16(uint8_t *p, float v)
{
    const float top = 65504.0f;
    const uint16_t h = ft_f32_to_f16(v > top ? top : v < -top ? -top : v);
    wr16(p, h);
    return ft_f16_to_f32(h);
}

/* The sixteen steps of IQ4_NL and IQ4_XS, and twice the sixteen values of an FP4 number. */
extern const int8_t ft_iq4_value[16], ft_fp4_value[16];

/* 6-bit scale and min number b (0..7) of the twelve bytes in a Q4_K or Q5_K block. */
static inline void ft_scale_min_k4(const uint8_t *s, int b, int *scale, int *min)
{
    if (b < 4) {
        *scale = s[b] & 63;
        *min = s[b + 4] & 63;
    } else {
        *scale = (s[b + 4] & 15) | s[b - 4] >> 6 << 4;
        *min = s[b + 4] >> 4 | s[b] >> 6 << 4;
    }
}

/* The signs of eight IQ2 or IQ3 values: seven bits are stored, the eighth makes the number of minus
 * signs even. */
static inline uint32_t ft_even_signs(uint32_t v)
{
    v &= 127;
    return v | (uint32_t)(__builtin_popcount(v) & 1) << 7;
}

/* The f16 block scale of IQ1_M, spread over the top four bits of its four scale words. */
static inline uint16_t ft_iq1_m_scale(const uint8_t *block)
{
    const uint8_t *s = block + 48;
    return (uint16_t)(s[1] >> 4 | (s[3] & 0xf0) | (s[5] & 0xf0) << 4 | (s[7] & 0xf0) << 8);
}

/* dst gets the values of `blocks` blocks. */
typedef void ft_decode_fn(float *dst, const uint8_t *src, size_t blocks);
/* weight: one per value, or NULL. */
typedef void ft_encode_fn(uint8_t *dst, const float *src, size_t blocks, const float *weight);

ft_decode_fn ft_decode_f32, ft_decode_f16, ft_decode_bf16, ft_decode_f64;
ft_decode_fn ft_decode_i8, ft_decode_i16, ft_decode_i32, ft_decode_i64;
ft_decode_fn ft_decode_q4_0, ft_decode_q4_1, ft_decode_q5_0, ft_decode_q5_1, ft_decode_q8_0;
ft_decode_fn ft_decode_q2_k, ft_decode_q3_k, ft_decode_q4_k, ft_decode_q5_k, ft_decode_q6_k;
ft_decode_fn ft_decode_iq2_xxs, ft_decode_iq2_xs, ft_decode_iq2_s, ft_decode_iq3_xxs;
ft_decode_fn ft_decode_iq3_s, ft_decode_iq1_s, ft_decode_iq1_m, ft_decode_iq4_nl, ft_decode_iq4_xs;
ft_decode_fn ft_decode_tq1_0, ft_decode_tq2_0, ft_decode_q1_0, ft_decode_q2_0;
ft_decode_fn ft_decode_mxfp4, ft_decode_nvfp4, ft_decode_tq3_1s, ft_decode_tq4_1s;

ft_encode_fn ft_encode_f32, ft_encode_f16, ft_encode_bf16;
ft_encode_fn ft_encode_q4_0, ft_encode_q4_1, ft_encode_q5_0, ft_encode_q5_1, ft_encode_q8_0;
ft_encode_fn ft_encode_q2_k, ft_encode_q3_k, ft_encode_q4_k, ft_encode_q5_k, ft_encode_q6_k;
ft_encode_fn ft_encode_iq4_nl, ft_encode_iq4_xs, ft_encode_mxfp4;
ft_encode_fn ft_encode_tq3_1s, ft_encode_tq4_1s;

#endif
