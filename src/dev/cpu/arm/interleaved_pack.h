/* dev/cpu/arm/interleaved_pack.h - repacks blocks in file layout to interleaved ones
 * (interleaved_codes.h). For interleaved.h. */
#ifndef FT_DEV_CPU_ARM_INTERLEAVED_PACK_H
#define FT_DEV_CPU_ARM_INTERLEAVED_PACK_H

#include "dev/cpu/arm/interleaved_codes.h"
#include "dev/cpu/small_codes.h"

/* ---- codes ---- */

/* The codes of a block: [row][value] to [vector][byte]. */
static void weave(uint8_t to[8][16], const uint8_t code[ROWS][32])
{
    for (int i = 0; i < 32 / RUN * ROWS; i++)
        memcpy(to[0] + RUN * i, code[i % ROWS] + RUN * (i / ROWS), RUN);
}

static void weave_bytes(unsigned char *to, const unsigned char *from, size_t row_bytes, int n)
{
    for (int r = 0; r < ROWS; r++) memcpy(to + n * r, from + (size_t)r * row_bytes, (size_t)n);
}

/* n bits of a code from bit `at` of it on, moved to bit `to`. */
static inline unsigned field(unsigned code, int at, int n, int to)
{
    return (code >> at & ((1u << n) - 1)) << to;
}

/* Vectors j and j + 1, ... of the stored bytes: whole codes, and the bits left over. */
static void pack6(unsigned char *to, const uint8_t c[4][16])
{
    for (int j = 0; j < 3; j++)
        for (int i = 0; i < 16; i++)
            to[16 * j + i] = (unsigned char)(c[j][i] << 2 | field(c[3][i], 4 - 2 * j, 2, 0));
}

static void pack5(unsigned char *to, const uint8_t c[8][16])
{
    for (int i = 0; i < 16; i++) {
        const unsigned x = c[5][i], y = c[6][i], z = c[7][i];
        to[i] = (unsigned char)(c[0][i] << 3 | field(x, 2, 3, 0));
        to[16 + i] = (unsigned char)(c[1][i] << 3 | field(x, 0, 2, 0) | field(z, 1, 1, 2));
        to[32 + i] = (unsigned char)(c[2][i] << 3 | field(y, 2, 3, 0));
        to[48 + i] = (unsigned char)(c[3][i] << 3 | field(y, 0, 2, 0) | field(z, 0, 1, 2));
        to[64 + i] = (unsigned char)(c[4][i] << 3 | field(z, 2, 3, 0));
    }
}

static void pack_low5(unsigned char *to, const uint8_t c[8][16])
{
    for (int i = 0; i < 16; i++) {
        const unsigned x = c[5][i], y = c[6][i], z = c[7][i];
        to[i] = (unsigned char)(c[0][i] | field(x, 2, 3, 5));
        to[16 + i] = (unsigned char)(c[1][i] | field(x, 0, 2, 6) | field(z, 1, 1, 5));
        to[32 + i] = (unsigned char)(c[2][i] | field(y, 2, 3, 5));
        to[48 + i] = (unsigned char)(c[3][i] | field(y, 0, 2, 6) | field(z, 0, 1, 5));
        to[64 + i] = (unsigned char)(c[4][i] | field(z, 2, 3, 5));
    }
}

static void pack3(unsigned char *to, const uint8_t c[8][16])
{
    for (int i = 0; i < 16; i++) {
        const unsigned y = c[6][i], z = c[7][i];
        to[i] = (unsigned char)(c[0][i] << 5 | c[1][i] << 2 | field(y, 1, 2, 0));
        to[16 + i] = (unsigned char)(c[2][i] << 5 | c[3][i] << 2 | field(z, 1, 2, 0));
        to[32 + i] =
            (unsigned char)(c[4][i] << 5 | c[5][i] << 2 | field(y, 0, 1, 1) | field(z, 0, 1, 0));
    }
}

static void pack_codes(unsigned char *to, const uint8_t code[ROWS][32], bits b)
{
    uint8_t v[8][16];
    weave(v, code);
    switch (b) {
    case BITS8: memcpy(to, v, sizeof v); break;
    case BITS6:
        pack6(to, v);
        pack6(to + 48, v + 4);
        break;
    case BITS5: pack5(to, v); break;
    case LOW5: pack_low5(to, v); break;
    case BITS4:
    case BOOK4:
    case LOW4:
        for (int i = 0; i < 64; i++)
            to[i] = (unsigned char)(v[i / 16][i % 16] | v[i / 16 + 4][i % 16] << 4);
        break;
    case BITS3: pack3(to, v); break;
    case BITS2:
        for (int i = 0; i < 32; i++) {
            const int j = i / 16 * 4, at = i % 16;
            to[i] = (unsigned char)(v[j][at] << 4 | v[j + 1][at] << 6 | v[j + 2][at] << 2 |
                                    v[j + 3][at]);
        }
        break;
    case SIGN2:
        for (int i = 0; i < 32; i++) {
            const int j = i / 16 * 4, at = i % 16;
            to[i] = (unsigned char)(v[j][at] << 6 | v[j + 1][at] << 4 | v[j + 2][at] << 2 |
                                    v[j + 3][at]);
        }
        break;
    }
}

/* The codes of block j of each row, then their scales. */

typedef struct row256 {
    uint8_t code[8][32], min[16];
    int8_t scale[16];
} row256;

static void codes_k4(row256 *r, const unsigned char *f, bool five)
{
    const unsigned char *qs = f + (five ? 48 : 16), *m = f + 4;
    for (int b = 0; b < 8; b++) {
        const int lo = b < 4;
        r->scale[b] = (int8_t)(lo ? m[b] & 63 : (m[b + 4] & 15) | m[b - 4] >> 6 << 4);
        r->min[b] = (uint8_t)(lo ? m[b + 4] & 63 : m[b + 4] >> 4 | m[b] >> 6 << 4);
        for (int i = 0; i < 32; i++) {
            const int q = qs[32 * (b / 2) + i] >> 4 * (b % 2) & 15;
            r->code[b][i] = (uint8_t)(five ? (q | (f[16 + i] >> b & 1) << 4) ^ 16 : q ^ 8);
        }
    }
}

static void codes_q6_k(row256 *r, const unsigned char *f)
{
    for (int b = 0; b < 8; b++)
        for (int i = 0; i < 32; i++) {
            const int n = b / 4, g = b % 4;
            const int lo = f[64 * n + 32 * (g % 2) + i] >> 4 * (g / 2) & 15;
            r->code[b][i] = (uint8_t)((lo | (f[128 + 32 * n + i] >> 2 * g & 3) << 4) ^ 32);
        }
    memcpy(r->scale, f + 192, 16);
}

static void codes_q3_k(row256 *r, const unsigned char *f)
{
    for (int b = 0; b < 8; b++)
        for (int i = 0; i < 32; i++) {
            const int low = f[32 + 32 * (b / 4) + i] >> 2 * (b % 4) & 3, top = f[i] >> b & 1;
            r->code[b][i] = (uint8_t)((low | top << 2) ^ 4);
        }
    for (int i = 0; i < 16; i++)
        r->scale[i] = (int8_t)(((f[96 + i % 8] >> 4 * (i / 8) & 15) |
                                (f[104 + i % 4] >> 2 * (i / 4) & 3) << 4) -
                               32);
}

static void codes_q2_k(row256 *r, const unsigned char *f)
{
    for (int b = 0; b < 8; b++)
        for (int i = 0; i < 32; i++) r->code[b][i] = f[16 + 32 * (b / 4) + i] >> 2 * (b % 4) & 3;
    for (int i = 0; i < 16; i++) {
        r->scale[i] = f[i] & 15;
        r->min[i] = f[i] >> 4;
    }
}

static void codes_iq4_xs(row256 *r, const unsigned char *f)
{
    const int high = f[2] | f[3] << 8;
    for (int b = 0; b < 8; b++) {
        for (int i = 0; i < 32; i++) r->code[b][i] = f[8 + 16 * b + i % 16] >> 4 * (i / 16) & 15;
        r->scale[b] =
            (int8_t)(((f[4 + b / 2] >> 4 * (b % 2) & 15) | (high >> 2 * b & 3) << 4) - 32);
    }
}

static void codes_iq(row256 *r, const unsigned char *f, kind256 t)
{
    for (int b = 0; b < 8; b++) {
        ft_iq32 v;
        switch (t) {
        case W_IQ3_XXS: ft_iq3_xxs(&v, f, b); break;
        case W_IQ3_S: ft_iq3_s(&v, f, b); break;
        case W_IQ2_XXS: ft_iq2_xxs(&v, f, b); break;
        case W_IQ2_XS: ft_iq2_xs(&v, f, b); break;
        case W_IQ1_S: ft_iq1_s(&v, f, b); break;
        case W_IQ1_M: ft_iq1_m(&v, f, b); break;
        default: ft_iq2_s(&v, f, b); break;
        }
        memcpy(r->code[b], v.code, sizeof v.code);
        if (shape_of(t).scales == 16)
            memcpy(r->scale + 2 * b, v.scale, sizeof v.scale);
        else
            r->scale[b] = (int8_t)v.scale[0];
    }
}

/* Codes of SIGN2 from those that are one larger than the values. */
static void negate(uint8_t code[32])
{
    for (int i = 0; i < 32; i++) code[i] = (uint8_t)(1 - code[i]) & 3;
}

static void codes_ternary(row256 *r, const unsigned char *f, kind256 t)
{
    for (int b = 0; b < 8; b++) {
        (t == W_TQ1_0 ? ft_codes_tq1_0 : ft_codes_tq2_0)(r->code[b], f, b);
        negate(r->code[b]);
    }
}

/* Bytes of a block in the file, and the offset of its scale; that of the minima follows. */
typedef struct file256 {
    int bytes, d;
} file256;

static file256 file_of(kind256 t)
{
    switch (t) {
    case W_Q4_K: return (file256){144, 0};
    case W_Q5_K: return (file256){176, 0};
    case W_Q6_K: return (file256){210, 208};
    case W_Q3_K: return (file256){110, 108};
    case W_Q2_K: return (file256){84, 80};
    case W_IQ4_XS: return (file256){136, 0};
    case W_IQ3_XXS: return (file256){98, 0};
    case W_IQ3_S: return (file256){110, 0};
    case W_IQ2_XXS: return (file256){66, 0};
    case W_IQ2_XS: return (file256){74, 0};
    case W_IQ1_S: return (file256){50, 0};
    case W_IQ1_M: return (file256){56, 0};
    case W_TQ1_0: return (file256){54, 52};
    case W_TQ2_0: return (file256){66, 64};
    default: return (file256){82, 0};
    }
}

static void codes_of(kind256 t, row256 *r, const unsigned char *f)
{
    switch (t) {
    case W_Q4_K: codes_k4(r, f, false); break;
    case W_Q5_K: codes_k4(r, f, true); break;
    case W_Q6_K: codes_q6_k(r, f); break;
    case W_Q3_K: codes_q3_k(r, f); break;
    case W_Q2_K: codes_q2_k(r, f); break;
    case W_IQ4_XS: codes_iq4_xs(r, f); break;
    case W_TQ1_0:
    case W_TQ2_0: codes_ternary(r, f, t); break;
    default: codes_iq(r, f, t); break;
    }
}

/* The scales of row r of a block: its integer scales, their sum times SUM_BIAS, minima. */
static void pack_scales(unsigned char *to, const row256 *row, int r, shape256 at)
{
    float sum = 0;
    for (int j = 0; j < at.scales; j++) {
        const float scale = row->scale[j];
        const uint16_t half = (uint16_t)(ft_f32_bits(scale) >> 16);
        memcpy(to + SCALES_AT + 2 * (ROWS * j + r), &half, sizeof half);
        sum -= SUM_BIAS * scale;
    }
    memcpy(to + SUMS_AT + (int)sizeof sum * r, &sum, sizeof sum);
    for (int j = 0; j < at.mins; j++)
        to[mins_at(at) + RUN * (ROWS * (j / RUN) + r) + j % RUN] = row->min[j];
}

static void pack256(unsigned char *to, const unsigned char *from, size_t row_bytes, int k,
                    kind256 t)
{
    const shape256 at = shape_of(t);
    const file256 file = file_of(t);
    for (int s = 0; s < k / 256; s++, to += bytes256(t), from += file.bytes) {
        uint8_t code[8][ROWS][32];
        weave_bytes(to, from + file.d, row_bytes, 2);
        if (at.mins) weave_bytes(to + 8, from + file.d + 2, row_bytes, 2);
        for (int r = 0; r < ROWS; r++) {
            row256 row;
            codes_of(t, &row, from + (size_t)r * row_bytes);
            if (t == W_IQ1_M) wr16(to + 2 * r, ft_iq1_m_scale(from + (size_t)r * row_bytes));
            pack_scales(to, &row, r, at);
            for (int j = 0; j < 8; j++) memcpy(code[j][r], row.code[j], 32);
        }
        for (int j = 0; j < 8; j++)
            pack_codes(to + codes_at(at) + bits_bytes(at.bits) * j, code[j], at.bits);
    }
}

/* The upper half of the float that is a block's scale: half of 2^(e - 127). */
static void scale_mxfp4(unsigned char *to, unsigned char e)
{
    const uint16_t h = (uint16_t)(e < 2 ? 0x20 << e : (e - 1) << 7);
    memcpy(to, &h, sizeof h);
}

/* Value i of block f in the file layout of 32 values. */
static uint8_t code32(const unsigned char *f, int i, kind32 t)
{
    const int nibble = 4 * (i / 16);
    switch (t) {
    case W_Q8_0: return f[2 + i];
    case W_Q4_0: return (uint8_t)((f[2 + i % 16] >> nibble & 15) ^ 8);
    case W_Q5_0:
    case W_Q5_1: {
        const int q = (f[6 + i % 16] >> nibble & 15) | (f[2 + i / 8] >> i % 8 & 1) << 4;
        return (uint8_t)(t == W_Q5_0 ? q ^ 16 : q);
    }
    case W_Q4_1:
    case W_IQ4_NL: return f[2 + i % 16] >> nibble & 15;
    default: return f[1 + i % 16] >> nibble & 15;
    }
}

/* The 32 values number b of a block f of more. */
static void codes_small(uint8_t code[32], const unsigned char *f, int b, kind32 t)
{
    switch (t) {
    case W_NVFP4: ft_codes_nvfp4(code, f, b); return;
    case W_Q1_0: ft_codes_q1_0(code, f, b); break;
    default: ft_codes_q2_0(code, f, b); break;
    }
    negate(code);
}

/* The scales of row r at `to`, and its minimum or the scale of its second half. */
static void scales32(unsigned char *to, int r, const unsigned char *f, int b, kind32 t)
{
    if (t == W_MXFP4)
        scale_mxfp4(to + 2 * r, f[0]);
    else if (has_halves32(t))
        for (int h = 0; h < 2; h++) wr16(to + 16 * h + 2 * r, ft_scale_nvfp4(f, b, h));
    else
        memcpy(to + 2 * r, f, 2);
    if (has_min32(t)) memcpy(to + 16 + 2 * r, f + 2, 2);
}

/* Blocks in the file: bytes, and how many times 32 values. */
typedef struct file32 {
    int bytes, per;
} file32;

static void pack32(unsigned char *to, const unsigned char *from, size_t row_bytes, int k, kind32 t)
{
    static const file32 files[] = {
        [W_Q8_0] = {34, 1}, [W_Q4_0] = {18, 1},   [W_Q4_1] = {20, 1},  [W_Q5_0] = {22, 1},
        [W_Q5_1] = {24, 1}, [W_IQ4_NL] = {18, 1}, [W_MXFP4] = {17, 1}, [W_NVFP4] = {36, 2},
        [W_Q1_0] = {18, 4}, [W_Q2_0] = {18, 2}};
    const file32 file = files[t];
    for (int b = 0; b < k / 32; b++) {
        uint8_t code[ROWS][32];
        for (int r = 0; r < ROWS; r++) {
            const unsigned char *f =
                from + (size_t)r * row_bytes + (size_t)(b / file.per * file.bytes);
            const unsigned char *q = f + (has_min32(t) ? 2 : 0); /* the same as without */
            if (file.per > 1)
                codes_small(code[r], f, b % file.per, t);
            else
                for (int i = 0; i < 32; i++) code[r][i] = code32(q, i, t);
            scales32(to + scale32(b, t), r, f, b % file.per, t);
        }
        pack_codes(to + codes32(b, t), code, kind32_bits(t));
    }
}

#endif
