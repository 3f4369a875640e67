/* dev/cpu/x86/tq4.h - products with TQ4_1S rows, for a file that includes this after its vectors
 * and plain.h. The Hadamard transform of the blocks keeps products, so it is applied to the
 * activations, once for sixteen rows; a code is then one table look-up. Activations are split into
 * those of low nibbles and those of high ones. */
#ifndef FT_DEV_CPU_X86_TQ4_H
#define FT_DEV_CPU_X86_TQ4_H

#include "quant/family.h"
#include "quant/turbo_weights.h"

enum { TQ4_ROWS = 16, TQ4_RUN = 8 /* blocks transformed at a time */, TQ4_BYTES = 20 };

typedef struct tq4_inputs {
    float x[FT_COLS][TQ4_RUN][2][16]; /* low nibbles, high nibbles */
} tq4_inputs;

static void tq4_rotate(tq4_inputs *to, const float *const *x, int n, int b, int blocks)
{
    for (int c = 0; c < n; c++)
        for (int u = 0; u < blocks; u++) {
            float v[32];
            ft_tq_hadamard(v, x[c] + 32 * (b + u), 32);
            for (int i = 0; i < 16; i++) {
                to->x[c][u][0][i] = v[2 * i];
                to->x[c][u][1][i] = v[2 * i + 1];
            }
        }
}

/* One row times `blocks` blocks of n columns. */
INLINE void tq4_row(vf *acc, const unsigned char *p, const tq4_inputs *in, int blocks,
                    const v_table book, const int n)
{
    for (int u = 0; u < blocks; u++, p += TQ4_BYTES) UNROLL for (int at = 0; at < 16; at += W)
        {
            const vi code = v_from_u8(p + 4 + at);
            const vf low = v_lookup(book, v_and(code, v_set32(15)));
            const vf high = v_lookup(book, v_shr(code, 4));
            const vf scale =
                W == 16 ? f_halves(f16_bits(p), f16_bits(p + 2)) : f_set1(f16_bits(p + at / 4));
            UNROLL for (int c = 0; c < n; c++)
            {
                const vf s = f_mul(high, f_load(in->x[c][u][1] + at));
                acc[c] = f_fma(f_fma(low, f_load(in->x[c][u][0] + at), s), scale, acc[c]);
            }
        }
}

INLINE void tq4_cols(float *const *y, const unsigned char *w, size_t row_bytes, int rows, int k,
                     const float *const *x, const int n)
{
    const v_table book = v_table_load(ft_tq4_values());
    for (int o = 0; o < rows; o += TQ4_ROWS) {
        const int count = FT_MIN(TQ4_ROWS, rows - o);
        vf acc[TQ4_ROWS][FT_COLS];
        tq4_inputs in;
        for (int r = 0; r < count; r++) UNROLL for (int c = 0; c < n; c++) acc[r][c] = f_zero();
        for (int b = 0; b < k / 32; b += TQ4_RUN) {
            const int blocks = FT_MIN(TQ4_RUN, k / 32 - b);
            tq4_rotate(&in, x, n, b, blocks);
            for (int r = 0; r < count; r++)
                tq4_row(acc[r], w + (size_t)(o + r) * row_bytes + (size_t)(TQ4_BYTES * b), &in,
                        blocks, book, n);
        }
        for (int r = 0; r < count; r++)
            UNROLL for (int c = 0; c < n; c++) y[c][o + r] = f_sum(acc[r][c]);
    }
}

static void dot_tq4_1s(float *const *y, const unsigned char *w, size_t row_bytes, int rows, int k,
                       const float *const *x, int n)
{
    if (n == 1) tq4_cols(y, w, row_bytes, rows, k, x, 1);
    if (n == 2) tq4_cols(y, w, row_bytes, rows, k, x, 2);
    if (n == 3) tq4_cols(y, w, row_bytes, rows, k, x, 3);
    if (n == 4) tq4_cols(y, w, row_bytes, rows, k, x, 4);
}

#endif
