/* dev/cpu/arm/q8_rows.h - interleaved Q8_0 weights times 2, 3 and 4 columns: typical for a step
 * that verifies draft tokens. The sums are bit-identical to those of interleaved32 in
 * interleaved.h.
 *
 * Weights arrive at memory bandwidth, and on a Neoverse-N1 the arithmetic of two columns already
 * takes as long. The code that compilers make of interleaved32 loses a fifth of the cycles: the end
 * of a block (subtract the bias, multiply by the scales, add) is a chain of three instructions per
 * column that stalls the pipelines. Here the end of a block is placed between the products of the
 * next one, when its sums have long been ready. The order of the instructions is the order in which
 * they are written: all of them are volatile asm. */
#ifndef FT_DEV_CPU_ARM_Q8_ROWS_H
#define FT_DEV_CPU_ARM_Q8_ROWS_H

#include "dev/cpu/arm/dot8.h"

/* s -= bias, s *= scale, acc += s * xd[lane], here. */
#define sub_here(s, bias)  __asm__ volatile("fsub %0.4s, %0.4s, %1.4s" : "+w"(s) : "w"(bias))
#define mul_here(s, scale) __asm__ volatile("fmul %0.4s, %0.4s, %1.4s" : "+w"(s) : "w"(scale))
#define add_here(acc, s, xd, lane)                                                                 \
    __asm__ volatile("fmla %0.4s, %1.4s, %2.s[" #lane "]" : "+w"(acc) : "w"(s), "w"(xd))
#define load_8_here(v, p)                                                                          \
    __asm__ volatile("ldr %d0, %1" : "=w"(v) : "m"(*(const char(*)[8])(const void *)(p)))

/* The columns, and what is added to their results at the end of a block. */
typedef struct q8_columns {
    const int8_t *q[4];
    const float *d[4];
    float32x2_t xd[4]; /* scales of the activations of both blocks of a pair */
    float32x4_t acc[4];
} q8_columns;

/* A block of four rows by 32 values: its integer sums plus the bias, and the scales of its rows. */
typedef struct q8_block {
    int32x4_t s[4];
    float32x4_t scale;
} q8_block;

INLINE void end_sub(q8_block *b, float32x4_t bias, const int from, const int to)
{
    UNROLL for (int c = from; c < to; c++) sub_here(b->s[c], bias);
}

INLINE void end_mul(q8_block *b, const int from, const int to)
{
    UNROLL for (int c = from; c < to; c++) mul_here(b->s[c], b->scale);
}

INLINE void end_add(q8_columns *x, const q8_block *b, const int lane, const int from, const int to)
{
    UNROLL for (int c = from; c < to; c++)
    {
        if (lane == 0) add_here(x->acc[c], b->s[c], x->xd[c], 0);
        if (lane == 1) add_here(x->acc[c], b->s[c], x->xd[c], 1);
    }
}

/* The products of block number `lane` of a pair, with codes at w; between them the end of the block
 * before, `prev`. The scales of activations are loaded when those of the pair before are used up.
 */
INLINE void q8_products(q8_block *b, q8_block *prev, q8_columns *x, const unsigned char *w,
                        float32x4_t bias, const int n, const int lane)
{
    int8x16_t v[4], q[4];
    load_here(v[0], w);
    load_here(v[1], w + 16);
    UNROLL for (int c = 0; c < n; c++) load_here(q[c], x->q[c] + 32 * lane);
    UNROLL for (int c = 0; c < n; c++) load_here(b->s[c], sum_start);
    dots(b->s, v[0], q, n, 0);
    end_sub(prev, bias, 0, 2);
    load_here(v[2], w + 32);
    load_here(v[3], w + 48);
    dots(b->s, v[1], q, n, 1);
    end_sub(prev, bias, 2, n);
    dots(b->s, v[2], q, n, 2);
    end_mul(prev, 0, 2);
    dots(b->s, v[3], q, n, 3);
    end_mul(prev, 2, n);
    load_here(v[0], w + 64);
    load_here(v[1], w + 80);
    UNROLL for (int c = 0; c < n; c++) load_here(q[c], x->q[c] + 32 * lane + 16);
    dots(b->s, v[0], q, n, 0);
    end_add(x, prev, 1 - lane, 0, 2);
    load_here(v[2], w + 96);
    load_here(v[3], w + 112);
    dots(b->s, v[1], q, n, 1);
    end_add(x, prev, 1 - lane, 2, n);
    dots(b->s, v[2], q, n, 2);
    if (!lane) UNROLL for (int c = 0; c < n; c++) load_8_here(x->xd[c], x->d[c]);
    dots(b->s, v[3], q, n, 3);
}

/* n: 2 to 4; k is a multiple of 64. A pair of blocks is the scales of both, then their codes. */
INLINE void q8_rows(float *const *y, const unsigned char *w, size_t group, int rows, int k,
                    const ft_col8 *col, const int n)
{
    const float32x4_t bias = vreinterpretq_f32_s32(vld1q_s32(sum_start));
    for (int o = 0; o < rows; o += 4, w += group) {
        const unsigned char *p = w;
        q8_columns x;
        q8_block even, odd = {.scale = vdupq_n_f32(0)};
        UNROLL for (int c = 0; c < n; c++)
        {
            x.q[c] = col[c].q;
            x.d[c] = col[c].d;
            x.xd[c] = vdup_n_f32(0);
            x.acc[c] = vdupq_n_f32(0);
            odd.s[c] = vreinterpretq_s32_f32(bias);
        }
        for (int i = 0; i < k / 64; i++, p += 272) {
            const float16x8_t scale = vreinterpretq_f16_u8(vld1q_u8(p));
            q8_products(&even, &odd, &x, p + 16, bias, n, 0);
            even.scale = vcvt_f32_f16(vget_low_f16(scale));
            q8_products(&odd, &even, &x, p + 144, bias, n, 1);
            odd.scale = vcvt_high_f32_f16(scale);
            UNROLL for (int c = 0; c < n; c++)
            {
                x.q[c] += 64;
                x.d[c] += 2;
            }
        }
        end_sub(&odd, bias, 0, n);
        end_mul(&odd, 0, n);
        end_add(&x, &odd, 1, 0, n);
        UNROLL for (int c = 0; c < n; c++) vst1q_f32(y[c] + o, x.acc[c]);
    }
}

#define Q8_ROWS(n)                                                                                 \
    static void q8_rows##n(float *const *y, const unsigned char *w, size_t group, int rows, int k, \
                           const ft_col8 *x)                                                       \
    {                                                                                              \
        q8_rows(y, w, group, rows, k, x, n);                                                       \
    }

Q8_ROWS(2)
Q8_ROWS(3)
Q8_ROWS(4)

#endif
