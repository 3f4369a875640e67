/* The 32-value blocks with one scale: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0. Decoding; the encoders are in
 * simple_encode.c. */
#include "quant/family.h"

/* Values 0..15 are the low nibbles, 16..31 the high nibbles of the same sixteen bytes; five-bit
 * types store the fifth bits separately. */
void ft_decode_q4_0(float *dst, const uint8_t *src, size_t blocks)
{
    for (; blocks--; src += 18, dst += 32) {
        const float d = rd_f16(src);
        for (int i = 0; i < 16; i++) dst[i] = (float)((src[2 + i] & 15) - 8) * d;
        for (int i = 0; i < 16; i++) dst[16 + i] = (float)((src[2 + i] >> 4) - 8) * d;
    }
}

void ft_decode_q4_1(float *dst, const uint8_t *src, size_t blocks)
{
    for (; blocks--; src += 20, dst += 32) {
        const float d = rd_f16(src), m = rd_f16(src + 2);
        for (int i = 0; i < 16; i++) dst[i] = (float)(src[4 + i] & 15) * d + m;
        for (int i = 0; i < 16; i++) dst[16 + i] = (float)(src[4 + i] >> 4) * d + m;
    }
}

void ft_decode_q5_0(float *dst, const uint8_t *src, size_t blocks)
{
    for (; blocks--; src += 22, dst += 32) {
        const float d = rd_f16(src);
        const uint32_t high = rd32(src + 2);
        for (uint32_t i = 0; i < 16; i++) {
            const int q = (src[6 + i] & 15) | (int)(high >> i & 1) << 4;
            dst[i] = (float)(q - 16) * d;
        }
        for (uint32_t i = 0; i < 16; i++) {
            const int q = src[6 + i] >> 4 | (int)(high >> (16 + i) & 1) << 4;
            dst[16 + i] = (float)(q - 16) * d;
        }
    }
}

void ft_decode_q5_1(float *dst, const uint8_t *src, size_t blocks)
{
    for (; blocks--; src += 24, dst += 32) {
        const float d = rd_f16(src), m = rd_f16(src + 2);
        const uint32_t high = rd32(src + 4);
        for (uint32_t i = 0; i < 16; i++) {
            const int q = (src[8 + i] & 15) | (int)(high >> i & 1) << 4;
            dst[i] = (float)q * d + m;
        }
        for (uint32_t i = 0; i < 16; i++) {
            const int q = src[8 + i] >> 4 | (int)(high >> (16 + i) & 1) << 4;
            dst[16 + i] = (float)q * d + m;
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
