/* Plain numbers: floats of every width, and integers read as numbers. */
#include "quant/family.h"
#include "quant/lanes.h"

#include <math.h>

void ft_decode_f32(float *dst, const uint8_t *src, size_t blocks)
{
    memcpy(dst, src, blocks * sizeof *dst);
}

void ft_decode_f16(float *dst, const uint8_t *src, size_t blocks)
{
    for (size_t i = 0; i < blocks; i++) {
        uint16_t h;
        memcpy(&h, src + 2 * i, sizeof h);
        const uint32_t a = (uint32_t)(h & 0x7fff) << 13, sign = (uint32_t)(h & 0x8000) << 16;
        /* the exponent is moved by a product, which is exact for subnormals too */
        const uint32_t number = ft_f32_bits(ft_f32_of_bits(a) * 0x1p112f);
        const uint32_t special = a | 0x7f800000; /* infinities and NaN */
        dst[i] = ft_f32_of_bits(sign | (a < 0x0f800000 ? number : special));
    }
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
    enum { RUN = 64 };
    size_t i = 0;
    for (; i + RUN <= blocks; i += RUN) {
        uint32_t h[RUN];
        uint16_t out[RUN];
        for (int k = 0; k < RUN; k += LANES) {
            v4 seen;
            const m4 bits = to_f16(finite4(load4(src + i + k)), &seen);
            memcpy(h + k, &bits, sizeof bits);
        }
        for (int k = 0; k < RUN; k++) out[k] = (uint16_t)h[k];
        memcpy(dst + 2 * i, out, sizeof out);
    }
    for (; i < blocks; i++) wr_f16(dst + 2 * i, finite_or_zero(src[i]));
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
