/* dev/cpu/x86/wide.h - types with blocks of 256 and integer scales (K-quants, IQ4_XS, IQ3, IQ2 and
 * IQ1), with one scale for 256 activations: AVX-512 VNNI and AMX. All products of 256 weights and
 * activations are added as integers, with the integer scales of the weights:
 *     S = sum_s scale[s] sum_i code[i] x[i]      M = sum_s min[s] sum_i x[i]
 * and an output is the sum of x.d (d S - d_min M) over the blocks, in their order. S and M are
 * exact, however they are added: with few columns scales are applied to the sums of VNNI, with many
 * to the codes, whose products AMX adds for 256 values without a stop. */
#ifndef FT_DEV_CPU_X86_WIDE_H
#define FT_DEV_CPU_X86_WIDE_H

#include "dev/cpu/x86/avx512_vec.h"

enum {
    LONG = FT_WIDE8,   /* values of a block here, */
    PIECES = LONG / 32 /* in so many pieces */
};

/* What is stored at t for each block of activations; their scale is d[block]. */
typedef struct wide_sums {
    int16_t sum16[16], sum32[8]; /* of 16 and of 32 activations */
    int32_t start16[4][16]; /* what sums of raised codes begin with: -4, -16, -32 and -64 sum16, */
    int32_t start32[4][8];  /* -16, -32, -64 and -128 sum32 */
} wide_sums;
static_assert(sizeof(wide_sums) <= PIECES * FT_STARTS8 * sizeof(int32_t), "t has room for it");

static inline const wide_sums *sums_at(const ft_col8 *x, int block)
{
    return (const wide_sums *)(const void *)x->t + block;
}

/* Pairs of groups of values that share a minimum. */
INLINE int pairs_of(const x86_format f)
{
    return LONG / f.sub / 2;
}

/* The integer scales of half h of piece b; those of the minima. */
INLINE const unsigned char *scale_bytes(const x86_format f, const unsigned char *w, int b, int h)
{
    return w + (f.min ? 64 : 32) + 16 * (b * (32 / f.sub) + h);
}

INLINE const unsigned char *min_bytes(const x86_format f, const unsigned char *w)
{
    return scale_bytes(f, w, 0, 0) + LONG / f.sub * PACK_ROWS;
}

/* The minima of two groups of values that share one, 16 bits each. */
INLINE vi min_pair(const unsigned char *p)
{
    const vi a = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p));
    const vi b = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)(p + PACK_ROWS)));
    return v_or(a, _mm512_slli_epi32(b, 16));
}

/* What a block of sixteen rows has for 256 values. */
typedef struct long_scales {
    vf d, d_min;
    vi mins[8]; /* min_pair of all groups */
} long_scales;

INLINE long_scales load_scales(const x86_format f, const unsigned char *w)
{
    long_scales s;
    s.d = f_mul(f_from_f16(w), f_set1(f.unit));
    if (!f.min) return s;
    s.d_min = f_from_f16(w + 32);
    UNROLL for (int j = 0; j < pairs_of(f); j++) s.mins[j] =
        min_pair(min_bytes(f, w) + 2 * PACK_ROWS * j);
    return s;
}

/* M of a column. */
INLINE vf minima(const x86_format f, const long_scales *s, const wide_sums *x)
{
    const int16_t *sums = f.sub == 16 ? x->sum16 : x->sum32;
    vi m = v_zero();
    UNROLL for (int j = 0; j < pairs_of(f); j++)
    {
        int32_t two;
        memcpy(&two, sums + 2 * j, sizeof two);
        m = _mm512_dpwssd_epi32(m, s->mins[j], v_set32(two));
    }
    return f_from_i32(m);
}

/* acc with a block added, whose activations have the scale x_d. */
INLINE vf add_long(const x86_format f, vf acc, vf S, const long_scales *s, const wide_sums *x,
                   float x_d)
{
    vf sum = f_mul(S, s->d);
    if (f.min) sum = f_fnma(s->d_min, minima(f, s, x), sum);
    return f_fma(sum, f_set1(x_d), acc);
}

#endif
