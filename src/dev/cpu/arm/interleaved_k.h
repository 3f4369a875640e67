/* dev/cpu/arm/interleaved_k.h - interleaved weights in blocks of 256, times activations with one
 * scale per 256 values (ft_wide8 in kern.h). For interleaved.h.
 *
 * With one scale for both, a block of 256 is a sum of integers: scale times products of bytes, for
 * each 32 values or each 16. SDOT accumulates on top of the bits of SUM_BIAS, which makes the sums
 * floats without a conversion, and one multiply-add adds them to the block's sum; the total of the
 * biases is known when weights are packed, and the block's sum starts with its negative. That sum
 * is rounded in units of 2^-24 of the bias and not of itself: codes are multiplied by the place
 * value of their highest bits (16 for a nibble), so that this error is a hundredth of that of
 * rounding activations to bytes (a tenth for Q2_K, whose codes are smallest). Codes are signed
 * then; where the format has them unsigned, the initial value of the sums includes offset times
 * activations.
 *
 * Minima are bytes, and so are the two halves of the sum of 32 activations: SDOT again. */
#ifndef FT_DEV_CPU_ARM_INTERLEAVED_K_H
#define FT_DEV_CPU_ARM_INTERLEAVED_K_H

#include "dev/cpu/arm/interleaved_codes.h"

typedef struct cols256 {
    const int8_t *q[COLS];
    const ft_wide8 *w[COLS];
} cols256;

/* a[c] += i[c] f */
INLINE void add_products(float32x4_t *a, const int32x4_t *i, float32x4_t f, const int n)
{
    UNROLL for (int c = 0; c < n;
                c++) __asm__ volatile("fmla %0.4s, %1.4s, %2.4s" : "+w"(a[c]) : "w"(i[c]), "w"(f));
}

/* a[c] += the products of block `even` or the one after it, each 32 or 16 of them times their
 * scale; without scales i[c] += the products */
INLINE void block256(float32x4_t *a, int32x4_t *i, const unsigned char *p, const cols256 *x,
                     const int n, int even, const int odd, const kind256 t)
{
    const int j = even + odd;
    const shape256 at = shape_of(t);
    const int stored = bits_bytes(at.bits) / 16, run = at.scales == 16 ? 4 : 8;
    const unsigned char *scales = p + SCALES_AT + ROWS * at.scales / 4 * even;
    const int8x16_t book = book256(t);
    const uint8x16_t mask = mask_of(at.bits);
    uint8x16_t b[8];
    int8x16_t v, next, q[COLS];
    UNROLL for (int e = 0; e < stored; e++)
        load_here(b[e], p + codes_at(at) + 16 * (stored * j + e));
    next = code_of(b, 0, mask, book, at.bits);
    pin(next);
    UNROLL for (int e = 0; e < 8; e++)
    {
        v = next;
        if (e < 7) {
            next = code_of(b, e + 1, mask, book, at.bits);
            pin(next);
        }
        if (e % 4 == 0)
            UNROLL for (int c = 0; c < n; c++) load_here(q[c], x->q[c] + 32 * j + 4 * e);
        if (at.scales && e % run == 0)
            UNROLL for (int c = 0; c < n; c++)
                load_here(i[c], has_offset(t) ? x->w[c]->start[j] : bias_start);
        dots(i, v, q, n, e % 4);
        if (at.scales && e % run == run - 1)
            add_products(a, i, scale256(scales, (8 * odd + e) / run), n);
    }
}

/* m[c]: the sum of minima times the sums of their activations */
INLINE void mins256(float32x4_t *m, const unsigned char *p, const cols256 *x, const int n,
                    const kind256 t)
{
    const shape256 at = shape_of(t);
    const int parts = at.mins / 4;
    int8x16_t q[COLS], v[4];
    int32x4_t i[COLS];
    UNROLL for (int e = 0; e < parts; e++) v[e] =
        vld1q_s8((const int8_t *)p + mins_at(at) + 16 * e);
    UNROLL for (int c = 0; c < n; c++) load_here(i[c], min_start);
    UNROLL for (int h = 0; h < 2; h++)
    {
        UNROLL for (int c = 0; c < n; c++)
            load_here(q[c], parts == 2 ? x->w[c]->sum32[0] : x->w[c]->sum16[h]);
        UNROLL for (int e = 0; e < parts; e++) dots(i, v[e], q, n, parts == 2 ? 2 * h + e : e);
        if (h == 0) UNROLL for (int c = 0; c < n; c++) i[c] = vshlq_n_s32(i[c], MIN_SHIFT);
    }
    UNROLL for (int c = 0; c < n; c++) m[c] =
        vsubq_f32(vreinterpretq_f32_s32(i[c]), vdupq_n_f32(12582912.0f));
}

/* acc[c] += a block's sums and minima times the scales of weights and columns; then the next block
 */
INLINE void end256(float32x4_t *acc, const float32x4_t *a, const unsigned char *p, cols256 *x,
                   const int n, const kind256 t)
{
    const bool mins = shape_of(t).mins > 0;
    const float32x4_t d = vmulq_n_f32(f16x4_at(p), unit256(t)), dm = f16x4_at(p + 8);
    float32x4_t m[COLS];
    if (mins) mins256(m, p, x, n, t);
    UNROLL for (int c = 0; c < n; c++)
    {
        float32x4_t r = vmulq_f32(a[c], d);
        if (mins) r = vfmsq_f32(r, m[c], dm);
        acc[c] = vfmaq_n_f32(acc[c], r, x->w[c]->d);
        x->q[c] += 256;
        x->w[c]++;
    }
}

INLINE void interleaved256(float *const *y, const unsigned char *w, size_t group, int rows, int k,
                           const ft_col8 *x, const int n, const kind256 t)
{
    for (int o = 0; o < rows; o += ROWS, w += group) {
        const unsigned char *p = w;
        float32x4_t acc[COLS];
        cols256 at;
        UNROLL for (int c = 0; c < n; c++)
        {
            acc[c] = vdupq_n_f32(0);
            at.q[c] = x[c].q;
            at.w[c] = (const ft_wide8 *)(const void *)x[c].t;
        }
        for (int b = 0; b < k / 256; b++, p += bytes256(t)) {
            float32x4_t a[COLS];
            int32x4_t i[COLS];
            UNROLL for (int c = 0; c < n; c++) load_here(a[c], p + SUMS_AT);
            UNROLL for (int c = 0; c < n; c++) load_here(i[c], sum_start);
            UNROLL for (int j = 0; j < 8; j += 2)
            {
                block256(a, i, p, &at, n, j, 0, t);
                block256(a, i, p, &at, n, j, 1, t);
            }
            if (!shape_of(t).scales) UNROLL for (int c = 0; c < n; c++) a[c] = sum_end(i[c]);
            end256(acc, a, p, &at, n, t);
        }
        UNROLL for (int c = 0; c < n; c++) vst1q_f32(y[c] + o, acc[c]);
    }
}

#endif
