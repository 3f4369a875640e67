/* The table of types, and the three functions that work on any of them. */
#include "quant/quant.h"

#include "quant/family.h"

#include <assert.h>

enum { NONE = 255 };

typedef struct family {
    ft_decode_fn *decode;
    ft_encode_fn *encode; /* NULL: read only */
    uint8_t scale[2];     /* offset of the f16 scales of a block, or NONE */
} family;

static const family table[FT_TYPE_MAX] = {
    [FT_F32] = {ft_decode_f32, ft_encode_f32, {NONE, NONE}},
    [FT_F16] = {ft_decode_f16, ft_encode_f16, {0, NONE}},
    [FT_BF16] = {ft_decode_bf16, ft_encode_bf16, {NONE, NONE}},
    [FT_F64] = {ft_decode_f64, NULL, {NONE, NONE}},
    [FT_I8] = {ft_decode_i8, NULL, {NONE, NONE}},
    [FT_I16] = {ft_decode_i16, NULL, {NONE, NONE}},
    [FT_I32] = {ft_decode_i32, NULL, {NONE, NONE}},
    [FT_I64] = {ft_decode_i64, NULL, {NONE, NONE}},
    [FT_Q4_0] = {ft_decode_q4_0, ft_encode_q4_0, {0, NONE}},
    [FT_Q4_1] = {ft_decode_q4_1, ft_encode_q4_1, {0, 2}},
    [FT_Q5_0] = {ft_decode_q5_0, ft_encode_q5_0, {0, NONE}},
    [FT_Q5_1] = {ft_decode_q5_1, ft_encode_q5_1, {0, 2}},
    [FT_Q8_0] = {ft_decode_q8_0, ft_encode_q8_0, {0, NONE}},
    [FT_Q2_K] = {ft_decode_q2_k, ft_encode_q2_k, {80, 82}},
    [FT_Q3_K] = {ft_decode_q3_k, ft_encode_q3_k, {108, NONE}},
    [FT_Q4_K] = {ft_decode_q4_k, ft_encode_q4_k, {0, 2}},
    [FT_Q5_K] = {ft_decode_q5_k, ft_encode_q5_k, {0, 2}},
    [FT_Q6_K] = {ft_decode_q6_k, ft_encode_q6_k, {208, NONE}},
    [FT_IQ2_XXS] = {ft_decode_iq2_xxs, NULL, {0, NONE}},
    [FT_IQ2_XS] = {ft_decode_iq2_xs, NULL, {0, NONE}},
    [FT_IQ2_S] = {ft_decode_iq2_s, NULL, {0, NONE}},
    [FT_IQ3_XXS] = {ft_decode_iq3_xxs, NULL, {0, NONE}},
    [FT_IQ3_S] = {ft_decode_iq3_s, NULL, {0, NONE}},
    [FT_IQ1_S] = {ft_decode_iq1_s, NULL, {0, NONE}},
    [FT_IQ1_M] = {ft_decode_iq1_m, NULL, {NONE, NONE}},
    [FT_IQ4_NL] = {ft_decode_iq4_nl, ft_encode_iq4_nl, {0, NONE}},
    [FT_IQ4_XS] = {ft_decode_iq4_xs, ft_encode_iq4_xs, {0, NONE}},
    [FT_TQ1_0] = {ft_decode_tq1_0, NULL, {52, NONE}},
    [FT_TQ2_0] = {ft_decode_tq2_0, NULL, {64, NONE}},
    [FT_Q1_0] = {ft_decode_q1_0, NULL, {0, NONE}},
    [FT_Q2_0] = {ft_decode_q2_0, NULL, {0, NONE}},
    [FT_Q2_0_FORK] = {ft_decode_q2_0, NULL, {0, NONE}},
    [FT_MXFP4] = {ft_decode_mxfp4, ft_encode_mxfp4, {NONE, NONE}},
    [FT_NVFP4] = {ft_decode_nvfp4, NULL, {NONE, NONE}},
    [FT_TQ3_1S] = {ft_decode_tq3_1s, ft_encode_tq3_1s, {0, 2}},
    [FT_TQ4_1S] = {ft_decode_tq4_1s, ft_encode_tq4_1s, {0, 2}},
};

void ft_row_decode(ft_type t, float *dst, const void *src, size_t n)
{
    assert((unsigned)t < FT_TYPE_MAX && table[t].decode && n % ft_type_of(t)->elems == 0);
    table[t].decode(dst, src, n / ft_type_of(t)->elems);
}

bool ft_type_encodes(ft_type t)
{
    return (unsigned)t < FT_TYPE_MAX && table[t].encode;
}

void ft_row_encode(ft_type t, void *dst, const float *src, size_t n, const float *weight)
{
    assert(ft_type_encodes(t) && n % ft_type_of(t)->elems == 0);
    table[t].encode(dst, src, n / ft_type_of(t)->elems, weight);
}

static bool f16_finite(uint16_t h)
{
    return (h & 0x7c00) != 0x7c00;
}

static bool block_finite(ft_type t, const uint8_t *block)
{
    switch (t) {
    case FT_F32: return (rd32(block) & 0x7f800000) != 0x7f800000;
    case FT_BF16: return (rd16(block) & 0x7f80) != 0x7f80;
    case FT_F64: return (rd16(block + 6) & 0x7ff0) != 0x7ff0;
    case FT_MXFP4: return block[0] != 255;
    case FT_IQ1_M: return f16_finite(ft_iq1_m_scale(block));
    default: break;
    }
    for (int i = 0; i < 2; i++)
        if (table[t].scale[i] != NONE && !f16_finite(rd16(block + table[t].scale[i]))) return false;
    return true;
}

bool ft_row_finite(ft_type t, const void *src, size_t n, size_t *at)
{
    assert((unsigned)t < FT_TYPE_MAX && table[t].decode && n % ft_type_of(t)->elems == 0);
    const size_t bytes = ft_type_of(t)->bytes, blocks = n / ft_type_of(t)->elems;
    for (size_t b = 0; b < blocks; b++) {
        if (block_finite(t, (const uint8_t *)src + b * bytes)) continue;
        if (at) *at = b;
        return false;
    }
    return true;
}
