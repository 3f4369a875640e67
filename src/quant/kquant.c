/* The 256-value blocks with quantised scales: Q2_K to Q6_K. Decoding; the encoders are in
 * kquant_encode.c. Sub-scale times block scale is computed first, then times the quant, minus the
 * min. */
#include "quant/family.h"

void ft_decode_q2_k(float *dst, const uint8_t *src, size_t blocks)
{
    for (; blocks--; src += 84, dst += 256) {
        const uint8_t *qs = src + 16;
        const float d = rd_f16(src + 80), dmin = rd_f16(src + 82);
        for (int b = 0; b < 16; b++) {
            const float scale = d * (float)(src[b] & 15), min = dmin * (float)(src[b] >> 4);
            const uint8_t *q = qs + 32 * (b / 8) + 16 * (b % 2);
            for (int i = 0; i < 16; i++)
                dst[16 * b + i] = scale * (float)(q[i] >> 2 * (b / 2 % 4) & 3) - min;
        }
    }
}

void ft_decode_q3_k(float *dst, const uint8_t *src, size_t blocks)
{
    for (; blocks--; src += 110, dst += 256) {
        const uint8_t *high = src, *qs = src + 32, *scales = src + 96;
        const float d = rd_f16(src + 108);
        for (int b = 0; b < 16; b++) {
            const int lo = scales[b % 8] >> 4 * (b / 8) & 15;
            const int hi = scales[8 + b % 4] >> 2 * (b / 4) & 3;
            const float scale = d * (float)((lo | hi << 4) - 32);
            const uint8_t *q = qs + 32 * (b / 8) + 16 * (b % 2), *h = high + 16 * (b % 2);
            for (int i = 0; i < 16; i++) {
                const int low = q[i] >> 2 * (b / 2 % 4) & 3, top = h[i] >> b / 2 & 1;
                dst[16 * b + i] = scale * (float)((low | top << 2) - 4);
            }
        }
    }
}

void ft_decode_q4_k(float *dst, const uint8_t *src, size_t blocks)
{
    for (; blocks--; src += 144, dst += 256) {
        const float d = rd_f16(src), dmin = rd_f16(src + 2);
        for (int b = 0; b < 8; b++) {
            const uint8_t *qs = src + 16 + 32 * (b / 2);
            int sc, mn;
            ft_scale_min_k4(src + 4, b, &sc, &mn);
            const float scale = d * (float)sc, min = dmin * (float)mn;
            for (int r = 0; r < 32; r++)
                dst[32 * b + r] = scale * (float)(qs[r] >> 4 * (b % 2) & 15) - min;
        }
    }
}

void ft_decode_q5_k(float *dst, const uint8_t *src, size_t blocks)
{
    for (; blocks--; src += 176, dst += 256) {
        const float d = rd_f16(src), dmin = rd_f16(src + 2);
        const uint8_t *high = src + 16;
        for (int b = 0; b < 8; b++) {
            const uint8_t *qs = src + 48 + 32 * (b / 2);
            int sc, mn;
            ft_scale_min_k4(src + 4, b, &sc, &mn);
            const float scale = d * (float)sc, min = dmin * (float)mn;
            for (int r = 0; r < 32; r++) {
                const int q = (qs[r] >> 4 * (b % 2) & 15) | (high[r] >> b & 1) << 4;
                dst[32 * b + r] = scale * (float)q - min;
            }
        }
    }
}

void ft_decode_q6_k(float *dst, const uint8_t *src, size_t blocks)
{
    for (; blocks--; src += 210, dst += 256) {
        const uint8_t *ql = src, *qh = src + 128, *scales = src + 192;
        const float d = rd_f16(src + 208);
        for (int b = 0; b < 16; b++) {
            const int n = b / 8, g = b / 2 % 4, r = 16 * (b % 2);
            const uint8_t *lo = ql + 64 * n + 32 * (g % 2) + r, *hi = qh + 32 * n + r;
            const float scale = d * (float)(int8_t)scales[b];
            for (int i = 0; i < 16; i++) {
                const int q = (lo[i] >> 4 * (g / 2) & 15) | (hi[i] >> 2 * g & 3) << 4;
                dst[16 * b + i] = scale * (float)(q - 32);
            }
        }
    }
}
