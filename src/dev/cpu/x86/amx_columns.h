/* dev/cpu/x86/amx_columns.h - what AMX products with packed rows share: decoding by packed.h, and
 * columns of activations in sets of sixteen, which are the rows of a tile. */
#ifndef FT_DEV_CPU_X86_AMX_COLUMNS_H
#define FT_DEV_CPU_X86_AMX_COLUMNS_H

#include "dev/cpu/x86/amx_tile.h"
#include "dev/cpu/x86/avx512_vec.h"

enum { SIGNED_BYTES = 0 };

/* The tiles compute the products; packed.h only decodes here. */
INLINE vi half_sum(vi start, const vi *q, const int8_t *x, const int kind)
{
    (void)q, (void)x, (void)kind;
    return start;
}

#include "dev/cpu/x86/packed.h"

enum {
    COLS = FT_MANY_GRAIN,      /* columns of a set */
    SETS = FT_MANY_COLS / COLS /* maximum sets */
};

/* Sixteen columns, or the last ones. */
typedef struct column_set {
    const ft_col8 *x;
    int n;
    bool even; /* the same distance apart, so that a tile can be loaded where they are */
} column_set;

/* true when all columns are the same distance apart */
static bool in_step(const ft_col8 *x, int n)
{
    const ptrdiff_t step = n > 1 ? x[1].q - x[0].q : 0;
    for (int c = 2; c < n; c++)
        if (x[c].q - x[c - 1].q != step) return false;
    return step > 0;
}

/* A tile has as many rows as the first set has columns, so that a shorter one is copied. */
static int sets_of(column_set *to, const ft_col8 *x, int n)
{
    int sets = 0;
    for (int c = 0; c < n; c += COLS, sets++) {
        const int m = FT_MIN(COLS, n - c);
        to[sets] = (column_set){x + c, m, m == FT_MIN(COLS, n) && in_step(x + c, m)};
    }
    return sets;
}

/* to[i][c] = from[c][i] for sixteen c and n i, up to sixteen. */
INLINE void transpose(float (*to)[COLS], const float *const *from, int n)
{
    const __mmask16 exist = (__mmask16)(n >= COLS ? 0xffff : (1 << n) - 1);
    vf a[COLS], b[COLS];
    UNROLL for (int i = 0; i < COLS; i++) b[i] = _mm512_maskz_loadu_ps(exist, from[i]);
    UNROLL for (int i = 0; i < COLS; i += 2)
    {
        a[i] = _mm512_unpacklo_ps(b[i], b[i + 1]);
        a[i + 1] = _mm512_unpackhi_ps(b[i], b[i + 1]);
    }
    UNROLL for (int i = 0; i < COLS; i += 4)
    {
        UNROLL for (int j = 0; j < 2; j++)
        {
            const __m512d x = _mm512_castps_pd(a[i + j]), y = _mm512_castps_pd(a[i + j + 2]);
            b[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(x, y));
            b[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(x, y));
        }
    }
    UNROLL for (int j = 0; j < 4; j++)
    {
        const vf even1 = _mm512_shuffle_f32x4(b[j], b[j + 4], 0x88);
        const vf even2 = _mm512_shuffle_f32x4(b[j + 8], b[j + 12], 0x88);
        const vf odd1 = _mm512_shuffle_f32x4(b[j], b[j + 4], 0xdd);
        const vf odd2 = _mm512_shuffle_f32x4(b[j + 8], b[j + 12], 0xdd);
        a[j] = _mm512_shuffle_f32x4(even1, even2, 0x88);
        a[j + 4] = _mm512_shuffle_f32x4(odd1, odd2, 0x88);
        a[j + 8] = _mm512_shuffle_f32x4(even1, even2, 0xdd);
        a[j + 12] = _mm512_shuffle_f32x4(odd1, odd2, 0xdd);
    }
    UNROLL for (int i = 0; i < COLS; i++) if (i < n) f_store(to[i], a[i]);
}

/* d, or one of the arrays at s, of the blocks [from, to) of a set of columns; at: where they begin
 * in each. */
static void gather(float (*out)[COLS], const column_set *set, bool sums, int at, int n)
{
    const float *from[COLS];
    for (int i = 0; i < n; i += COLS) {
        for (int c = 0; c < COLS; c++) {
            const ft_col8 *x = &set->x[FT_MIN(c, set->n - 1)];
            from[c] = (sums ? x->s : x->d) + at + i;
        }
        transpose(out + i, from, FT_MIN(COLS, n - i));
    }
}

#endif
