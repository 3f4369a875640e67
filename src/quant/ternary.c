/* One and two bits per value: TQ1_0, TQ2_0, Q1_0, Q2_0. Decoding only. */
#include "quant/family.h"

/* A byte holds five base-3 digits as a fraction of 256; multiplying by three moves the next digit
 * above the point. */
static float trit(uint8_t byte, int digit, float d)
{
    static const uint8_t pow3[5] = {1, 3, 9, 27, 81};
    const uint8_t fraction = (uint8_t)(byte * pow3[digit]);
    return (float)((fraction * 3 >> 8) - 1) * d;
}

void ft_decode_tq1_0(float *dst, const uint8_t *src, size_t blocks)
{
    for (; blocks--; src += 54, dst += 256) {
        const float d = rd_f16(src + 52);
        for (int i = 0; i < 160; i++) dst[i] = trit(src[i % 32], i / 32, d);
        for (int i = 0; i < 80; i++) dst[160 + i] = trit(src[32 + i % 16], i / 16, d);
        for (int i = 0; i < 16; i++) dst[240 + i] = trit(src[48 + i % 4], i / 4, d);
    }
}

void ft_decode_tq2_0(float *dst, const uint8_t *src, size_t blocks)
{
    for (; blocks--; src += 66, dst += 256) {
        const float d = rd_f16(src + 64);
        for (int b = 0; b < 8; b++)
            for (int r = 0; r < 32; r++)
                dst[32 * b + r] = (float)((src[32 * (b / 4) + r] >> 2 * (b % 4) & 3) - 1) * d;
    }
}

void ft_decode_q1_0(float *dst, const uint8_t *src, size_t blocks)
{
    for (; blocks--; src += 18, dst += 128) {
        const float d = rd_f16(src);
        for (int i = 0; i < 128; i++) dst[i] = src[2 + i / 8] >> i % 8 & 1 ? d : -d;
    }
}

void ft_decode_q2_0(float *dst, const uint8_t *src, size_t blocks)
{
    for (; blocks--; src += 18, dst += 64) {
        const float d = rd_f16(src);
        for (int i = 0; i < 64; i++) dst[i] = (float)((src[2 + i / 4] >> 2 * (i % 4) & 3) - 1) * d;
    }
}
