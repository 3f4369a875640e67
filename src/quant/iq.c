/* The IQ1, IQ2 and IQ3 types: every group of 4 or 8 values is a vector from a codebook (grids.h)
 * times a scale. Decoding only. The order of products is that of the format. */
#include "quant/family.h"
#include "quant/grids.h"

static float sign(float x, uint32_t signs, int j)
{
    return signs >> j & 1 ? -x : x;
}

static void put_iq2(float *dst, uint16_t entry, uint32_t signs, float scale)
{
    for (int j = 0; j < 8; j++) dst[j] = sign(scale * (float)ft_grid_iq2_value(entry, j), signs, j);
}

void ft_decode_iq2_xxs(float *dst, const uint8_t *src, size_t blocks)
{
    for (; blocks--; src += 66, dst += 256) {
        const float d = rd_f16(src);
        for (int k = 0; k < 32; k++) {
            const uint8_t *record = src + 2 + 8 * (k / 4);
            const uint32_t w = rd32(record + 4);
            const float scale = d * (0.5f + (float)(w >> 28)) * 0.25f;
            put_iq2(dst + 8 * k, ft_grid_iq2xxs[record[k % 4]], ft_even_signs(w >> 7 * (k % 4)),
                    scale);
        }
    }
}

void ft_decode_iq2_xs(float *dst, const uint8_t *src, size_t blocks)
{
    for (; blocks--; src += 74, dst += 256) {
        const float d = rd_f16(src);
        for (int k = 0; k < 32; k++) {
            const uint32_t v = rd16(src + 2 + 2 * k);
            const int s = src[66 + k / 4] >> 4 * (k / 2 % 2) & 15;
            put_iq2(dst + 8 * k, ft_grid_iq2xs[v & 511], ft_even_signs(v >> 9),
                    d * (0.5f + (float)s) * 0.25f);
        }
    }
}

void ft_decode_iq2_s(float *dst, const uint8_t *src, size_t blocks)
{
    for (; blocks--; src += 82, dst += 256) {
        const float d = rd_f16(src);
        const uint8_t *qs = src + 2, *signs = src + 34, *qh = src + 66, *scales = src + 74;
        for (int k = 0; k < 32; k++) {
            const int index = qs[k] | (qh[k / 4] >> 2 * (k % 4) & 3) << 8;
            const int s = scales[k / 4] >> 4 * (k / 2 % 2) & 15;
            put_iq2(dst + 8 * k, ft_grid_iq2s[index], signs[k], d * (0.5f + (float)s) * 0.25f);
        }
    }
}

void ft_decode_iq3_xxs(float *dst, const uint8_t *src, size_t blocks)
{
    for (; blocks--; src += 98, dst += 256) {
        const float d = rd_f16(src);
        for (int k = 0; k < 64; k++) {
            const uint32_t w = rd32(src + 66 + 4 * (k / 8));
            const uint32_t signs = ft_even_signs(w >> 7 * (k / 2 % 4)) >> 4 * (k % 2);
            const float scale = d * (0.5f + (float)(w >> 28)) * 0.5f;
            const uint16_t entry = ft_grid_iq3xxs[src[2 + k]];
            for (int j = 0; j < 4; j++)
                dst[4 * k + j] = sign(scale * (float)ft_grid_iq3xxs_value(entry, j), signs, j);
        }
    }
}

void ft_decode_iq3_s(float *dst, const uint8_t *src, size_t blocks)
{
    for (; blocks--; src += 110, dst += 256) {
        const float d = rd_f16(src);
        const uint8_t *qs = src + 2, *qh = src + 66, *signs = src + 74, *scales = src + 106;
        for (int k = 0; k < 64; k++) {
            const uint16_t entry = ft_grid_iq3s[qs[k] | (qh[k / 8] >> k % 8 & 1) << 8];
            const int s = scales[k / 16] >> 4 * (k / 8 % 2) & 15;
            const float scale = d * (float)(1 + 2 * s);
            const uint32_t minus = (uint32_t)signs[k / 2] >> 4 * (k % 2);
            for (int j = 0; j < 4; j++)
                dst[4 * k + j] = sign(scale * (float)ft_grid_iq3s_value(entry, j), minus, j);
        }
    }
}

static void put_iq1(float *dst, int index, float scale, float delta)
{
    for (int j = 0; j < 8; j++)
        dst[j] = scale * ((float)ft_grid_iq1s_value(ft_grid_iq1s[index], j) + delta);
}

void ft_decode_iq1_s(float *dst, const uint8_t *src, size_t blocks)
{
    for (; blocks--; src += 50, dst += 256) {
        const float d = rd_f16(src);
        for (int k = 0; k < 32; k++) {
            const int h = rd16(src + 34 + 2 * (k / 4));
            const int index = src[2 + k] | (h >> 3 * (k % 4) & 7) << 8;
            put_iq1(dst + 8 * k, index, d * (float)(2 * (h >> 12 & 7) + 1),
                    h & 0x8000 ? -0.125f : 0.125f);
        }
    }
}

void ft_decode_iq1_m(float *dst, const uint8_t *src, size_t blocks)
{
    for (; blocks--; src += 56, dst += 256) {
        const uint8_t *qh = src + 32, *sc = src + 48;
        const float d = ft_f16_to_f32(ft_iq1_m_scale(src));
        for (int k = 0; k < 32; k++) {
            const int nibble = qh[k / 2] >> 4 * (k % 2) & 15;
            const int index = src[k] | (nibble & 7) << 8;
            const int s = rd16(sc + 2 * (k / 8)) >> 3 * (k / 2 % 4) & 7;
            put_iq1(dst + 8 * k, index, d * (float)(2 * s + 1), nibble & 8 ? -0.125f : 0.125f);
        }
    }
}
