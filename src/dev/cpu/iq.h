/* dev/cpu/iq.h - blocks of the IQ1, IQ2 and IQ3 types as plain codes: 32 values of a row become
 * indices into a codebook of sixteen signed values (8 is added where a value is negative), and each
 * half of them has an integer scale:
 *     value = unit of the type * scale of the block * integer scale * codebook[index] */
#ifndef FT_DEV_CPU_IQ_H
#define FT_DEV_CPU_IQ_H

#include "quant/family.h"
#include "quant/grids.h"

#define FT_BOOK_IQ2     8, 25, 43, 0, 0, 0, 0, 0, -8, -25, -43, 0, 0, 0, 0, 0
#define FT_BOOK_IQ3_XXS 2, 6, 10, 14, 18, 22, 26, 31, -2, -6, -10, -14, -18, -22, -26, -31
#define FT_BOOK_IQ1     -7, 1, 9, 0, 0, 0, 0, 0, -9, -1, 7, 0, 0, 0, 0, 0
#define FT_BOOK_IQ3_S   1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15

typedef struct ft_iq32 {
    uint8_t code[32];
    uint8_t scale[2];
} ft_iq32;

/* n codes of `bits` bits */
static inline void ft_iq_codes(uint8_t *code, uint16_t entry, uint32_t signs, int n, int bits)
{
    for (int j = 0; j < n; j++)
        code[j] = (uint8_t)((entry >> bits * j & ((1 << bits) - 1)) | (signs >> j & 1) << 3);
}

static inline void ft_iq_scales(ft_iq32 *to, uint32_t first, uint32_t second)
{
    to->scale[0] = (uint8_t)(2 * (first & 15) + 1);
    to->scale[1] = (uint8_t)(2 * (second & 15) + 1);
}

/* Number b of the eight groups of 32 values of block s. IQ1 adds an eighth to -1, 0 and 1 or
 * subtracts it: its codebook has eight times these values, its codes 8 where it subtracts. */
static inline void ft_iq1_s(ft_iq32 *to, const uint8_t *s, int b)
{
    const uint32_t h = rd16(s + 34 + 2 * b);
    ft_iq_scales(to, h >> 12 & 7, h >> 12 & 7);
    for (int k = 0; k < 4; k++)
        ft_iq_codes(to->code + 8 * k, ft_grid_iq1s[s[2 + 4 * b + k] | (h >> 3 * k & 7) << 8],
                    h & 0x8000 ? 255 : 0, 8, 2);
}

static inline void ft_iq1_m(ft_iq32 *to, const uint8_t *s, int b)
{
    const uint32_t scales = (uint32_t)rd16(s + 48 + 2 * (b / 2)) >> 6 * (b % 2);
    ft_iq_scales(to, scales & 7, scales >> 3 & 7);
    for (int k = 0; k < 4; k++) {
        const int at = 4 * b + k, nibble = s[32 + at / 2] >> 4 * (at % 2) & 15;
        ft_iq_codes(to->code + 8 * k, ft_grid_iq1s[s[at] | (nibble & 7) << 8], nibble & 8 ? 255 : 0,
                    8, 2);
    }
}

static inline void ft_iq2_xxs(ft_iq32 *to, const uint8_t *s, int b)
{
    const uint8_t *record = s + 2 + 8 * b;
    const uint32_t w = rd32(record + 4);
    ft_iq_scales(to, w >> 28, w >> 28);
    for (int k = 0; k < 4; k++)
        ft_iq_codes(to->code + 8 * k, ft_grid_iq2xxs[record[k]], ft_even_signs(w >> 7 * k), 8, 2);
}

static inline void ft_iq2_xs(ft_iq32 *to, const uint8_t *s, int b)
{
    ft_iq_scales(to, s[66 + b], s[66 + b] >> 4);
    for (int k = 0; k < 4; k++) {
        const uint32_t v = rd16(s + 2 + 2 * (4 * b + k));
        ft_iq_codes(to->code + 8 * k, ft_grid_iq2xs[v & 511], ft_even_signs(v >> 9), 8, 2);
    }
}

static inline void ft_iq2_s(ft_iq32 *to, const uint8_t *s, int b)
{
    ft_iq_scales(to, s[74 + b], s[74 + b] >> 4);
    for (int k = 0; k < 4; k++) {
        const int at = 4 * b + k, index = s[2 + at] | (s[66 + b] >> 2 * k & 3) << 8;
        ft_iq_codes(to->code + 8 * k, ft_grid_iq2s[index], s[34 + at], 8, 2);
    }
}

static inline void ft_iq3_xxs(ft_iq32 *to, const uint8_t *s, int b)
{
    const uint32_t w = rd32(s + 66 + 4 * b);
    ft_iq_scales(to, w >> 28, w >> 28);
    for (int k = 0; k < 8; k++)
        ft_iq_codes(to->code + 4 * k, ft_grid_iq3xxs[s[2 + 8 * b + k]],
                    ft_even_signs(w >> 7 * (k / 2)) >> 4 * (k % 2), 4, 3);
}

static inline void ft_iq3_s(ft_iq32 *to, const uint8_t *s, int b)
{
    const uint32_t scale = (uint32_t)s[106 + b / 2] >> 4 * (b % 2);
    ft_iq_scales(to, scale, scale);
    for (int k = 0; k < 8; k++) {
        const int index = s[2 + 8 * b + k] | (s[66 + b] >> k & 1) << 8;
        ft_iq_codes(to->code + 4 * k, ft_grid_iq3s[index],
                    (uint32_t)s[74 + 4 * b + k / 2] >> 4 * (k % 2), 4, 3);
    }
}

#endif
