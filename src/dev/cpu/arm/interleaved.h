/* dev/cpu/arm/interleaved.h - weights repacked at bind: four rows are interleaved, so that the
 * lanes of a product instruction are four outputs and no horizontal additions are needed. Blocks of
 * 32 are here, those of 256 in interleaved_k.h; then the table of all types. */
#ifndef FT_DEV_CPU_ARM_INTERLEAVED_H
#define FT_DEV_CPU_ARM_INTERLEAVED_H

#include "dev/cpu/arm/interleaved_codes.h"
#include "dev/cpu/arm/interleaved_pack.h"

#define dot_lane(i, v, q, lane)                                                                    \
    __asm__ volatile("sdot %0.4s, %1.16b, %2.4b[" #lane "]" : "+w"(i) : "w"(v), "w"(q))

/* i[c] += a vector of codes times lane j of the bytes of n columns, interleaved */
INLINE void dots(int32x4_t *i, int8x16_t v, const int8x16_t *q, const int n, const int j)
{
    UNROLL for (int c = 0; c < n; c++)
    {
        if (j == 0) dot_lane(i[c], v, q[c], 0);
        if (j == 1) dot_lane(i[c], v, q[c], 1);
        if (j == 2) dot_lane(i[c], v, q[c], 2);
        if (j == 3) dot_lane(i[c], v, q[c], 3);
    }
}

/* ---- blocks of 32 with their own scale ---- */

/* acc[c] += minimum times sum of block b */
INLINE void min32(float32x4_t *acc, const unsigned char *scale, const ft_col8 *x, const int n,
                  int b)
{
    const float32x4_t m = min_of32(scale);
    UNROLL for (int c = 0; c < n; c++) acc[c] =
        vfmaq_n_f32(acc[c], m, x[c].s[2 * b] + x[c].s[2 * b + 1]);
}

/* acc[c] += sums of products of block b times the scales of weights and column */
INLINE void end32(float32x4_t *acc, const int32x4_t *i, float32x4_t s, const ft_col8 *x,
                  const int n, int b)
{
    UNROLL for (int c = 0; c < n; c++) acc[c] =
        vfmaq_n_f32(acc[c], vmulq_f32(sum_end(i[c]), s), x[c].d[b]);
}

/* acc[c] += the products of block b times its scale and that of the column */
INLINE void block32_dot(float32x4_t *acc, const unsigned char *scale, const unsigned char *p,
                        const ft_col8 *x, const int n, int b, const kind32 t)
{
    const bits k = kind32_bits(t);
    const int stored = bits_bytes(k) / 16, run = has_halves32(t) ? 4 : 8;
    const int8x16_t book = book32(t);
    const uint8x16_t mask = mask_of(k);
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
        if (e % run == 0) UNROLL for (int c = 0; c < n; c++) load_here(i[c], sum_start);
        dots(i, v, q, n, e % 4);
        if (e % run == run - 1) end32(acc, i, scale_of32(scale + 16 * (e / run), t), x, n, b);
    }
}

#include "dev/cpu/arm/q8_rows.h"

/* Q8_0 with two to four columns, typical for verifying draft tokens, uses q8_rows.h. */
INLINE void interleaved32(float *const *y, const unsigned char *w, size_t group, int rows, int k,
                          const ft_col8 *x, const int n, const kind32 t)
{
    if (t == W_Q8_0 && n > 1 && n <= 4 && k % 64 == 0) {
        (n == 2 ? q8_rows2 : n == 3 ? q8_rows3 : q8_rows4)(y, w, group, rows, k, x);
        return;
    }
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

#include "dev/cpu/arm/interleaved_k.h"

/* One to four columns, or eight. */
#define COLUMNS(call, kind)                                                                        \
    for (int left = n; left > 0; left -= n, y += n, x += n) {                                      \
        n = left == 8 ? 8 : left < 4 ? left : 4;                                                   \
        switch (n) {                                                                               \
        case 1: call(y, w, group, rows, k, x, 1, kind); break;                                     \
        case 2: call(y, w, group, rows, k, x, 2, kind); break;                                     \
        case 3: call(y, w, group, rows, k, x, 3, kind); break;                                     \
        case 4: call(y, w, group, rows, k, x, 4, kind); break;                                     \
        default: call(y, w, group, rows, k, x, 8, kind); break;                                    \
        }                                                                                          \
    }

#include "dev/cpu/arm/interleaved_table.h"

#endif
