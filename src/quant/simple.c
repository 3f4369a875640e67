/* The 32-value blocks with one scale: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0. Reading them; the encoders
 * are in simple_encode.c. */
#include "quant/family.h"

/* Values 0..15 are the low nibbles, 16..31 the high nibbles of the same sixteen bytes. */
static int nibble(const uint8_t *qs, int i)
{
    return qs[i % 16] >> 4 * (i / 16) & 15;
}

void ft_decode_q4_0(float *dst, const uint8_t *src, size_t blocks)
{
    for (; blocks--; src += 18, dst += 32) {
        const float d = rd_f16(src);
        for (int i = 0; i < 32; i++) dst[i] = (float)(nibble(src + 2, i) - 8) * d;
    }
}

void ft_decode_q4_1(float *dst, const uint8_t *src, size_t blocks)
{
    for (; blocks--; src += 20, dst += 32) {
        const float d = rd_f16(src), m = rd_f16(src + 2);
        for (int i = 0; i < 32; i++) dst[i] = (float)nibble(src + 4, i) * d + m;
    }
}

void ft_decode_q5_0(float *dst, const uint8_t *src, size_t blocks)
{
    for (; blocks--; src += 22, dst += 32) {
        const float d = rd_f16(src);
        const uint32_t high = rd32(src + 2);
        for (int i = 0; i < 32; i++) {
            const int q = nibble(src + 6, i) | (int)(high >> i & 1) << 4;
            dst[i] = (float)(q - 16) * d;
        }
    }
}

void ft_decode_q5_1(float *dst, const uint8_t *src, size_t blocks)
{
    for (; blocks--; src += 24, dst += 32) {
        const float d = rd_f16(src), m = rd_f16(src + 2);
        const uint32_t high = rd32(src + 4);
        for (int i = 0; i < 32; i++) {
            const int q = nibble(src + 8, i) | (int)(high >> i & 1) << 4;
            dst[i] = (float)q * d + m;
        }
    }
}

void ft_decode_q8_0(float *dst, const uint8_t *src, size_t blocks)
{
    for (; blocks--; src += 34, dst += 32) {
        const float d = rd_f16(src);
        for (int i = 0; i < 32; i++) dst[i] = (float)(int8_t)src[2 + i] * d;
    }
}
