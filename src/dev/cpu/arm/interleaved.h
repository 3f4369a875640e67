/* dev/cpu/arm/interleaved.h - weights repacked at bind: four rows are interleaved, so that the
 * lanes of a product instruction are four outputs and no horizontal additions are needed. Blocks of
 * 32 are here, those of 256 in interleaved_k.h; then the table of all types. */
#ifndef FT_DEV_CPU_ARM_INTERLEAVED_H
#define FT_DEV_CPU_ARM_INTERLEAVED_H

#include "dev/cpu/arm/interleaved_codes.h"
#include "dev/cpu/arm/interleaved_pack.h"

/* ---- blocks of 32 with their own scale ---- */

/* acc[c] += minimum times sum of block b */
INLINE void min32(float32x4_t *acc, const unsigned char *scale, const ft_col8 *x, const int n,
                  int b)
{
    const float32x4_t m = min_of32(scale);
    UNROLL for (int c = 0; c < n; c++) acc[c] =
        vfmaq_n_f32(acc[c], m, x[c].s[2 * b] + x[c].s[2 * b + 1]);
}

/* acc[c] += the products of block b times its scale and that of the column */
INLINE void block32_dot(float32x4_t *acc, const unsigned char *scale, const unsigned char *p,
                        const ft_col8 *x, const int n, int b, const kind32 t)
{
    const bits k = kind32_bits(t);
    const int stored = bits_bytes(k) / 16;
    const int8x16_t book = book32(t);
    const uint8x16_t mask = mask_of(k);
    const float32x4_t s = scale_of32(scale, t);
    uint8x16_t u[8];
    int8x16_t v, next, q[COLS];
    int32x4_t i[COLS];
    if (has_min32(t)) min32(acc, scale, x, n, b);
    UNROLL for (int e = 0; e < stored && k != BITS8; e++) load_here(u[e], p + 16 * e);
    if (k == BITS8) load_here(u[0], p);
    next = code_of(u, 0, mask, book, k);
    pin(next);
    UNROLL for (int e = 0; e < 8; e++)
    {
        v = next;
        if (e < 7) {
            if (k == BITS8) load_here(u[e + 1], p + 16 * (e + 1));
            next = code_of(u, e + 1, mask, book, k);
            pin(next);
        }
        if (e % 4 == 0) UNROLL for (int c = 0; c < n; c++) load_here(q[c], x[c].q + 32 * b + 4 * e);
        if (e == 0) UNROLL for (int c = 0; c < n; c++) load_here(i[c], sum_start);
        dots(i, v, q, n, e % 4);
    }
    UNROLL for (int c = 0; c < n; c++) acc[c] =
        vfmaq_n_f32(acc[c], vmulq_f32(sum_end(i[c]), s), x[c].d[b]);
}

INLINE void interleaved32(float *const *y, const unsigned char *w, size_t group, int rows, int k,
                          const ft_col8 *x, const int n, const kind32 t)
{
    for (int o = 0; o < rows; o += ROWS, w += group) {
        const unsigned char *p = w;
        float32x4_t acc[COLS];
        int b = 0;
        UNROLL for (int c = 0; c < n; c++) acc[c] = vdupq_n_f32(0);
        for (; b + 2 <= k / 32; b += 2, p += pair32(t)) {
            const unsigned char *code = p + head32(t);
            block32_dot(acc, p, code, x, n, b, t);
            block32_dot(acc, p + 8, code + bits_bytes(kind32_bits(t)), x, n, b + 1, t);
        }
        if (b < k / 32) block32_dot(acc, p, p + head32(t), x, n, b, t);
        UNROLL for (int c = 0; c < n; c++) vst1q_f32(y[c] + o, in_unit32(acc[c], t));
    }
}

#include "dev/cpu/arm/q8_rows.h"

/* Q8_0 for any number of columns; two to four, typical for verifying draft tokens, use q8_rows.h.
 */
INLINE void interleaved_q8_0(float *const *y, const unsigned char *w, size_t group, int rows, int k,
                             const ft_col8 *x, const int n)
{
    if (n == 1 || n > 4 || k % 64)
        interleaved32(y, w, group, rows, k, x, n, W_Q8_0);
    else if (n == 2)
        q8_rows2(y, w, group, rows, k, x);
    else if (n == 3)
        q8_rows3(y, w, group, rows, k, x);
    else
        q8_rows4(y, w, group, rows, k, x);
}

#include "dev/cpu/arm/interleaved_k.h"

/* ---- the table ---- */

#define INTERLEAVED(name, size, pack, call)                                                        \
    static size_t name##_bytes(int k)                                                              \
    {                                                                                              \
        return size;                                                                               \
    }                                                                                              \
    static void name##_pack(unsigned char *to, const unsigned char *from, size_t row_bytes, int k) \
    {                                                                                              \
        pack;                                                                                      \
    }                                                                                              \
    static void name##_dot(float *const *y, const unsigned char *w, size_t group, int rows, int k, \
                           const ft_col8 *x, int n)                                                \
    {                                                                                              \
        for (int left = n; left > 0; left -= n, y += n, x += n) {                                  \
            n = left == 8 ? 8 : left < 4 ? left : 4;                                               \
            switch (n) {                                                                           \
            case 1: call(1); break;                                                                \
            case 2: call(2); break;                                                                \
            case 3: call(3); break;                                                                \
            case 4: call(4); break;                                                                \
            default: call(8); break;                                                               \
            }                                                                                      \
        }                                                                                          \
    }

#define INTERLEAVED32(name, kind)                                                                  \
    INTERLEAVED(name, (size_t)((k / 32 + 1) / 2) * (size_t)pair32(kind),                           \
                pack32(to, from, row_bytes, k, kind), name##_call)
#define INTERLEAVED256(name, kind)                                                                 \
    INTERLEAVED(name, (size_t)(k / 256) * (size_t)bytes256(kind),                                  \
                pack256(to, from, row_bytes, k, kind), name##_call)

#define q8_0_call(n)    interleaved_q8_0(y, w, group, rows, k, x, n)
#define q4_0_call(n)    interleaved32(y, w, group, rows, k, x, n, W_Q4_0)
#define q5_0_call(n)    interleaved32(y, w, group, rows, k, x, n, W_Q5_0)
#define iq4_nl_call(n)  interleaved32(y, w, group, rows, k, x, n, W_IQ4_NL)
#define q4_1_call(n)    interleaved32(y, w, group, rows, k, x, n, W_Q4_1)
#define q5_1_call(n)    interleaved32(y, w, group, rows, k, x, n, W_Q5_1)
#define mxfp4_call(n)   interleaved32(y, w, group, rows, k, x, n, W_MXFP4)
#define q4_k_call(n)    interleaved256(y, w, group, rows, k, x, n, W_Q4_K)
#define q5_k_call(n)    interleaved256(y, w, group, rows, k, x, n, W_Q5_K)
#define q6_k_call(n)    interleaved256(y, w, group, rows, k, x, n, W_Q6_K)
#define q3_k_call(n)    interleaved256(y, w, group, rows, k, x, n, W_Q3_K)
#define q2_k_call(n)    interleaved256(y, w, group, rows, k, x, n, W_Q2_K)
#define iq4_xs_call(n)  interleaved256(y, w, group, rows, k, x, n, W_IQ4_XS)
#define iq3_xxs_call(n) interleaved256(y, w, group, rows, k, x, n, W_IQ3_XXS)
#define iq3_s_call(n)   interleaved256(y, w, group, rows, k, x, n, W_IQ3_S)
#define iq2_xxs_call(n) interleaved256(y, w, group, rows, k, x, n, W_IQ2_XXS)
#define iq2_xs_call(n)  interleaved256(y, w, group, rows, k, x, n, W_IQ2_XS)
#define iq2_s_call(n)   interleaved256(y, w, group, rows, k, x, n, W_IQ2_S)
INTERLEAVED32(q8_0, W_Q8_0)
INTERLEAVED32(q4_0, W_Q4_0)
INTERLEAVED32(q5_0, W_Q5_0)
INTERLEAVED32(iq4_nl, W_IQ4_NL)
INTERLEAVED32(q4_1, W_Q4_1)
INTERLEAVED32(q5_1, W_Q5_1)
INTERLEAVED32(mxfp4, W_MXFP4)
INTERLEAVED256(q4_k, W_Q4_K)
INTERLEAVED256(q5_k, W_Q5_K)
INTERLEAVED256(q6_k, W_Q6_K)
INTERLEAVED256(q3_k, W_Q3_K)
INTERLEAVED256(q2_k, W_Q2_K)
INTERLEAVED256(iq4_xs, W_IQ4_XS)
INTERLEAVED256(iq3_xxs, W_IQ3_XXS)
INTERLEAVED256(iq3_s, W_IQ3_S)
INTERLEAVED256(iq2_xxs, W_IQ2_XXS)
INTERLEAVED256(iq2_xs, W_IQ2_XS)
INTERLEAVED256(iq2_s, W_IQ2_S)

static void fill_interleaved(ft_kern *k)
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
