/* dev/cpu/arm/woven.h - weights repacked at bind: four rows woven into one another, so that a
 * product instruction fills its lanes with outputs and nothing is added across lanes. For the file
 * that includes this and has defined
 *     place     which of eight vectors, and which byte of it, holds value k of row r of a block;
 *               PIECE values lie together
 *     tile_*    a block against n columns, minima against the sums of n columns, the end */
#ifndef FT_DEV_CPU_ARM_WOVEN_H
#define FT_DEV_CPU_ARM_WOVEN_H

#include "dev/cpu/arm/dot8.h"
#include "dev/cpu/arm/woven_pack.h"

enum { COLS = 8 };

/* Adding 1.5 * 2^23 to a small integer leaves it in the low bits of a float: a sum that begins
 * with these bits is a float at once. The conversion instruction is four times as dear on many
 * cores. A block's sums are below 2^22. */
static const int32_t sum_start[4] = {0x4b400000, 0x4b400000, 0x4b400000, 0x4b400000};

/* From memory: a copy of a register would take a turn of the units that multiply. */
INLINE int32x4_t sum_begin(void)
{
    int32x4_t r;
    __asm__ volatile("ldr %q0, %1" : "=w"(r) : "m"(sum_start));
    return r;
}

INLINE float32x4_t sum_end(int32x4_t i)
{
    return vsubq_f32(vreinterpretq_f32_s32(i), vdupq_n_f32(12582912.0f));
}

/* ---- unpacking ---- */

INLINE int8x16_t s8(uint8x16_t v)
{
    return vreinterpretq_s8_u8(v);
}

INLINE void unpack8(int8x16_t *v, const unsigned char *p)
{
    UNROLL for (int j = 0; j < 8; j++) v[j] = vld1q_s8((const int8_t *)p + 16 * j);
}

/* 8 (q - 16) */
INLINE void unpack5(int8x16_t *v, const unsigned char *p)
{
    const uint8x16_t upper = vdupq_n_u8(0xf8);
    uint8x16_t b[5];
    UNROLL for (int j = 0; j < 5; j++)
    {
        b[j] = vld1q_u8(p + 16 * j);
        v[j] = s8(vandq_u8(b[j], upper));
    }
    v[5] = s8(vsliq_n_u8(vshlq_n_u8(b[1], 3), b[0], 5));
    v[6] = s8(vsliq_n_u8(vshlq_n_u8(b[3], 3), b[2], 5));
    const uint8x16_t two = vbslq_u8(vdupq_n_u8(0x10), vshlq_n_u8(b[1], 2), vshlq_n_u8(b[3], 1));
    v[7] = s8(vandq_u8(vsliq_n_u8(two, b[4], 5), upper));
}

/* What sixteen nibbles stand for; all of them, each in four bits. */
INLINE void unpack_table(int8x16_t *v, const unsigned char *p, int8x16_t table)
{
    UNROLL for (int j = 0; j < 4; j++)
    {
        const uint8x16_t b = vld1q_u8(p + 16 * j);
        v[j] = vqtbl1q_s8(table, vandq_u8(b, vdupq_n_u8(15)));
        v[j + 4] = vqtbl1q_s8(table, vshrq_n_u8(b, 4));
    }
}

/* 16 q of signed nibbles */
INLINE void unpack4(int8x16_t *v, const unsigned char *p)
{
    UNROLL for (int j = 0; j < 4; j++)
    {
        const uint8x16_t b = vld1q_u8(p + 16 * j);
        v[j] = s8(vshlq_n_u8(b, 4));
        v[j + 4] = s8(vandq_u8(b, vdupq_n_u8(0xf0)));
    }
}

INLINE float32x4_t f16x4_at(const unsigned char *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}

/* Four floats whose lower halves are zero. */
INLINE float32x4_t upper_halves(const unsigned char *p)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(p)), 16));
}

/* ---- blocks of 32 with a scale of their own ---- */

static const int8_t fp4_steps[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

INLINE void block32_dot(float32x4_t *acc, const unsigned char *scale, const unsigned char *p,
                        const ft_col8 *x, const int n, int b, const kind32 t)
{
    const int8x16_t table = vld1q_s8(t == W_MXFP4 ? fp4_steps : iq4_steps);
    int8x16_t v[8];
    float32x4_t s = t == W_MXFP4 ? upper_halves(scale) : f16x4_at(scale);
    if (has_min32(t)) {
        const float32x4_t m = vfmaq_n_f32(f16x4_at(scale + 16), s, t == W_Q4_1 ? 8 : 16);
        UNROLL for (int c = 0; c < n; c++) acc[c] =
            vfmaq_n_f32(acc[c], m, x[c].s[2 * b] + x[c].s[2 * b + 1]);
    }
    if (t == W_Q8_0) unpack8(v, p);
    if (t == W_Q4_0 || t == W_Q4_1) unpack4(v, p), s = vmulq_n_f32(s, 1.0f / 16);
    if (t == W_Q5_0 || t == W_Q5_1) unpack5(v, p), s = vmulq_n_f32(s, 1.0f / 8);
    if (t == W_IQ4_NL || t == W_MXFP4) unpack_table(v, p, table);
    tile_block(acc, v, s, x, n, b);
}

INLINE void woven32(float *const *y, const unsigned char *w, size_t group, int rows, int k,
                    const ft_col8 *x, const int n, const kind32 t)
{
    for (int o = 0; o < rows; o += ROWS, w += group) {
        const unsigned char *p = w;
        float32x4_t acc[COLS];
        int b = 0;
        tile_zero(acc, n);
        for (; b + 2 <= k / 32; b += 2, p += pair32(t)) {
            const unsigned char *code = p + head32(t);
            block32_dot(acc, p, code, x, n, b, t);
            block32_dot(acc, p + 8, code + bits_bytes(kind32_bits(t)), x, n, b + 1, t);
        }
        if (b < k / 32) block32_dot(acc, p, p + head32(t), x, n, b, t);
        tile_store(y, o, acc, n);
    }
}

#include "dev/cpu/arm/q8_rows.h"

/* Q8_0 against any columns; those of a step that verifies drafts by hand. */
INLINE void woven_q8_0(float *const *y, const unsigned char *w, size_t group, int rows, int k,
                       const ft_col8 *x, const int n)
{
    if (n == 1 || n > 4 || k % 64)
        woven32(y, w, group, rows, k, x, n, W_Q8_0);
    else if (n == 2)
        q8_rows2(y, w, group, rows, k, x);
    else if (n == 3)
        q8_rows3(y, w, group, rows, k, x);
    else
        q8_rows4(y, w, group, rows, k, x);
}

#include "dev/cpu/arm/woven_k.h"

/* ---- the table ---- */

#define WOVEN(name, size, pack, call)                                                              \
    static size_t name##_bytes(int k)                                                              \
    {                                                                                              \
        return size;                                                                               \
    }                                                                                              \
    static void name##_pack(unsigned char *to, const unsigned char *from, size_t row_bytes, int k) \
    {                                                                                              \
        pack;                                                                                      \
    }                                                                                              \
    static void name##_cols(float *const *y, const unsigned char *w, size_t group, int rows,       \
                            int k, const ft_col8 *x, int n)                                        \
    {                                                                                              \
        switch (n) {                                                                               \
        case 1: call(1); break;                                                                    \
        case 2: call(2); break;                                                                    \
        case 3: call(3); break;                                                                    \
        case 4: call(4); break;                                                                    \
        default: call(8); break;                                                                   \
        }                                                                                          \
    }                                                                                              \
    static void name##_dot(float *const *y, const unsigned char *w, size_t group, int rows, int k, \
                           const ft_col8 *x, int n)                                                \
    {                                                                                              \
        if (n <= 4 || n == 8) {                                                                    \
            name##_cols(y, w, group, rows, k, x, n);                                               \
            return;                                                                                \
        }                                                                                          \
        name##_cols(y, w, group, rows, k, x, 4);                                                   \
        name##_cols(y + 4, w, group, rows, k, x + 4, n - 4);                                       \
    }

#define WOVEN32(name, kind)                                                                        \
    WOVEN(name, (size_t)((k / 32 + 1) / 2) * (size_t)pair32(kind),                                 \
          pack32(to, from, row_bytes, k, kind), name##_call)
#define WOVEN256(name, kind)                                                                       \
    WOVEN(name, (size_t)(k / 256) * (size_t)bytes256(kind), pack256(to, from, row_bytes, k, kind), \
          name##_call)

#define q8_0_call(n)    woven_q8_0(y, w, group, rows, k, x, n)
#define q4_0_call(n)    woven32(y, w, group, rows, k, x, n, W_Q4_0)
#define q5_0_call(n)    woven32(y, w, group, rows, k, x, n, W_Q5_0)
#define iq4_nl_call(n)  woven32(y, w, group, rows, k, x, n, W_IQ4_NL)
#define q4_1_call(n)    woven32(y, w, group, rows, k, x, n, W_Q4_1)
#define q5_1_call(n)    woven32(y, w, group, rows, k, x, n, W_Q5_1)
#define mxfp4_call(n)   woven32(y, w, group, rows, k, x, n, W_MXFP4)
#define q4_k_call(n)    woven256(y, w, group, rows, k, x, n, W_Q4_K)
#define q5_k_call(n)    woven256(y, w, group, rows, k, x, n, W_Q5_K)
#define q6_k_call(n)    woven256(y, w, group, rows, k, x, n, W_Q6_K)
#define q3_k_call(n)    woven256(y, w, group, rows, k, x, n, W_Q3_K)
#define q2_k_call(n)    woven256(y, w, group, rows, k, x, n, W_Q2_K)
#define iq4_xs_call(n)  woven256(y, w, group, rows, k, x, n, W_IQ4_XS)
#define iq3_xxs_call(n) woven256(y, w, group, rows, k, x, n, W_IQ3_XXS)
#define iq3_s_call(n)   woven256(y, w, group, rows, k, x, n, W_IQ3_S)
#define iq2_xxs_call(n) woven256(y, w, group, rows, k, x, n, W_IQ2_XXS)
#define iq2_xs_call(n)  woven256(y, w, group, rows, k, x, n, W_IQ2_XS)
#define iq2_s_call(n)   woven256(y, w, group, rows, k, x, n, W_IQ2_S)
WOVEN32(q8_0, W_Q8_0)
WOVEN32(q4_0, W_Q4_0)
WOVEN32(q5_0, W_Q5_0)
WOVEN32(iq4_nl, W_IQ4_NL)
WOVEN32(q4_1, W_Q4_1)
WOVEN32(q5_1, W_Q5_1)
WOVEN32(mxfp4, W_MXFP4)
WOVEN256(q4_k, W_Q4_K)
WOVEN256(q5_k, W_Q5_K)
WOVEN256(q6_k, W_Q6_K)
WOVEN256(q3_k, W_Q3_K)
WOVEN256(q2_k, W_Q2_K)
WOVEN256(iq4_xs, W_IQ4_XS)
WOVEN256(iq3_xxs, W_IQ3_XXS)
WOVEN256(iq3_s, W_IQ3_S)
WOVEN256(iq2_xxs, W_IQ2_XXS)
WOVEN256(iq2_xs, W_IQ2_XS)
WOVEN256(iq2_s, W_IQ2_S)

static void fill_woven(ft_kern *k)
{
    k->pack[FT_Q8_0] = (ft_pack){ROWS, COLS, q8_0_bytes, q8_0_pack, q8_0_dot, false};
    k->pack[FT_Q4_0] = (ft_pack){ROWS, COLS, q4_0_bytes, q4_0_pack, q4_0_dot, false};
    k->pack[FT_Q5_0] = (ft_pack){ROWS, COLS, q5_0_bytes, q5_0_pack, q5_0_dot, false};
    k->pack[FT_IQ4_NL] = (ft_pack){ROWS, COLS, iq4_nl_bytes, iq4_nl_pack, iq4_nl_dot, false};
    k->pack[FT_Q4_1] = (ft_pack){ROWS, COLS, q4_1_bytes, q4_1_pack, q4_1_dot, false};
    k->pack[FT_Q5_1] = (ft_pack){ROWS, COLS, q5_1_bytes, q5_1_pack, q5_1_dot, false};
    k->pack[FT_MXFP4] = (ft_pack){ROWS, COLS, mxfp4_bytes, mxfp4_pack, mxfp4_dot, false};
    k->pack[FT_Q4_K] = (ft_pack){ROWS, COLS, q4_k_bytes, q4_k_pack, q4_k_dot, true};
    k->pack[FT_Q5_K] = (ft_pack){ROWS, COLS, q5_k_bytes, q5_k_pack, q5_k_dot, true};
    k->pack[FT_Q6_K] = (ft_pack){ROWS, COLS, q6_k_bytes, q6_k_pack, q6_k_dot, true};
    k->pack[FT_Q3_K] = (ft_pack){ROWS, COLS, q3_k_bytes, q3_k_pack, q3_k_dot, true};
    k->pack[FT_Q2_K] = (ft_pack){ROWS, COLS, q2_k_bytes, q2_k_pack, q2_k_dot, true};
    k->pack[FT_IQ4_XS] = (ft_pack){ROWS, COLS, iq4_xs_bytes, iq4_xs_pack, iq4_xs_dot, true};
    k->pack[FT_IQ3_XXS] = (ft_pack){ROWS, COLS, iq3_xxs_bytes, iq3_xxs_pack, iq3_xxs_dot, true};
    k->pack[FT_IQ3_S] = (ft_pack){ROWS, COLS, iq3_s_bytes, iq3_s_pack, iq3_s_dot, true};
    k->pack[FT_IQ2_XXS] = (ft_pack){ROWS, COLS, iq2_xxs_bytes, iq2_xxs_pack, iq2_xxs_dot, true};
    k->pack[FT_IQ2_XS] = (ft_pack){ROWS, COLS, iq2_xs_bytes, iq2_xs_pack, iq2_xs_dot, true};
    k->pack[FT_IQ2_S] = (ft_pack){ROWS, COLS, iq2_s_bytes, iq2_s_pack, iq2_s_dot, true};
}

#endif
