/* dev/cpu/small_codes.h - blocks of the ternary types, of Q1_0 and Q2_0 and of NVFP4 as plain
 * codes, 32 values at a time: number b of block s. */
#ifndef FT_DEV_CPU_SMALL_CODES_H
#define FT_DEV_CPU_SMALL_CODES_H

#include "quant/family.h"

/* ---- values that are scale times code - 1 ---- */

static inline void ft_codes_tq1_0(uint8_t code[32], const uint8_t *s, int b)
{
    static const uint8_t pow3[5] = {1, 3, 9, 27, 81};
    for (int i = 0; i < 32; i++) {
        const int at = 32 * b + i;
        const int byte = at < 160 ? at % 32 : at < 240 ? 32 + (at - 160) % 16 : 48 + (at - 240) % 4;
        const int digit = at < 160 ? at / 32 : at < 240 ? (at - 160) / 16 : (at - 240) / 4;
        code[i] = (uint8_t)((uint8_t)(s[byte] * pow3[digit]) * 3 >> 8);
    }
}

static inline void ft_codes_tq2_0(uint8_t code[32], const uint8_t *s, int b)
{
    for (int i = 0; i < 32; i++) code[i] = s[32 * (b / 4) + i] >> 2 * (b % 4) & 3;
}

static inline void ft_codes_q1_0(uint8_t code[32], const uint8_t *s, int b)
{
    for (int i = 0; i < 32; i++) code[i] = (uint8_t)((s[2 + 4 * b + i / 8] >> i % 8 & 1) << 1);
}

static inline void ft_codes_q2_0(uint8_t code[32], const uint8_t *s, int b)
{
    for (int i = 0; i < 32; i++) code[i] = s[2 + 8 * b + i / 4] >> 2 * (i % 4) & 3;
}

/* ---- four-bit floats ---- */

static inline void ft_codes_nvfp4(uint8_t code[32], const uint8_t *s, int b)
{
    for (int i = 0; i < 32; i++)
        code[i] = s[4 + 8 * (2 * b + i / 16) + i % 8] >> 4 * (i / 8 % 2) & 15;
}

/* The scale of half h of the 32 values, as f16: half of an unsigned E4M3 number, which is exact. */
static inline uint16_t ft_scale_nvfp4(const uint8_t *s, int b, int h)
{
    const uint8_t v = s[2 * b + h];
    const int e = v >> 3 & 15, m = v & 7;
    if (v == 0 || v == 0x7f) return 0;
    if (e == 0) return ft_f32_to_f16((float)m * 0x1p-10f);
    return (uint16_t)((e + 7) << 10 | m << 7);
}

#endif
