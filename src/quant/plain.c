/* Plain numbers: floats of every width, and integers read as numbers. */
#include "quant/family.h"

#include <math.h>

void ft_decode_f32(float *dst, const uint8_t *src, size_t blocks)
{
    memcpy(dst, src, blocks * sizeof *dst);
}

void ft_decode_f16(float *dst, const uint8_t *src, size_t blocks)
{
    for (size_t i = 0; i < blocks; i++) dst[i] = rd_f16(src + 2 * i);
}

void ft_decode_bf16(float *dst, const uint8_t *src, size_t blocks)
{
    for (size_t i = 0; i < blocks; i++) dst[i] = ft_bf16_to_f32(rd16(src + 2 * i));
}

void ft_decode_f64(float *dst, const uint8_t *src, size_t blocks)
{
    for (size_t i = 0; i < blocks; i++) {
        double x;
        memcpy(&x, src + 8 * i, sizeof x);
        dst[i] = (float)x;
    }
}

void ft_decode_i8(float *dst, const uint8_t *src, size_t blocks)
{
    for (size_t i = 0; i < blocks; i++) dst[i] = (float)(int8_t)src[i];
}

void ft_decode_i16(float *dst, const uint8_t *src, size_t blocks)
{
    for (size_t i = 0; i < blocks; i++) dst[i] = (float)(int16_t)rd16(src + 2 * i);
}

void ft_decode_i32(float *dst, const uint8_t *src, size_t blocks)
{
    for (size_t i = 0; i < blocks; i++) dst[i] = (float)(int32_t)rd32(src + 4 * i);
}

void ft_decode_i64(float *dst, const uint8_t *src, size_t blocks)
{
    for (size_t i = 0; i < blocks; i++)
        dst[i] =
            (float)(int64_t)((uint64_t)rd32(src + 8 * i) | (uint64_t)rd32(src + 8 * i + 4) << 32);
}

static float finite_or_zero(float x)
{
    return isfinite(x) ? x : 0.0f;
}

void ft_encode_f32(uint8_t *dst, const float *src, size_t blocks, const float *weight)
{
    (void)weight;
    for (size_t i = 0; i < blocks; i++) {
        const float x = finite_or_zero(src[i]);
        memcpy(dst + 4 * i, &x, sizeof x);
    }
}

void ft_encode_f16(uint8_t *dst, const float *src, size_t blocks, const float *weight)
{
    (void)weight;
    for (size_t i = 0; i < blocks; i++) wr_f16(dst + 2 * i, finite_or_zero(src[i]));
}

void ft_encode_bf16(uint8_t *dst, const float *src, size_t blocks, const float *weight)
{
    (void)weight;
    for (size_t i = 0; i < blocks; i++) {
        const uint32_t u = ft_f32_bits(src[i]), top = u & 0x7fffffff;
        const uint32_t h = (u + 0x7fff + (u >> 16 & 1)) >> 16; /* nearest, ties to even */
        const uint16_t out = (uint16_t)(top >= 0x7f800000   ? 0
                                        : top >= 0x7f7f8000 ? (u >> 31 << 15) | 0x7f7f
                                                            : h);
        memcpy(dst + 2 * i, &out, 2);
    }
}
