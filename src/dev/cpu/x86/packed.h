/* dev/cpu/x86/packed.h - products with packed rows (pack.h), for a file that includes this and
 * defines its vectors: W rows of 32 bits (vi, vf), the product of sixteen codes of W rows with
 * sixteen activations (half_sum), and whether bytes of any size stay signed there (SIGNED_BYTES).
 *
 * Every output is one lane with one accumulator, to which its blocks are added in order. */
#ifndef FT_DEV_CPU_X86_PACKED_H
#define FT_DEV_CPU_X86_PACKED_H

#include "quant/turbo_weights.h"

INLINE int kind_of(const x86_format f)
{
    if (f.plane == PLANE_8) return BYTES_ANY;
    if (f.book)
        return f.shift == 3   ? BYTES_SMALL
               : f.shift == 2 ? BYTES_64
               : f.shift == 1 ? BYTES_128
                              : BYTES_ANY;
    return f.plane == PLANE_4_2 ? BYTES_64 : BYTES_SMALL;
}

/* Whether bytes are multiplied as signed ones. */
INLINE bool stays_signed(const x86_format f)
{
    return SIGNED_BYTES && kind_of(f) == BYTES_ANY;
}

/* The values of the codebook: signed, or raised. */
INLINE vi book_of(const x86_format f)
{
    const int8_t *values = f.book == BOOK_TQ3   ? ft_tq_book_of(FT_TQ3_1S)->small
                           : f.book == BOOK_TQ4 ? ft_tq_book_of(FT_TQ4_1S)->small
                                                : ft_x86_book[f.book];
    const vi b = v_book_load(values);
    return stays_signed(f) ? b : v_add8(b, v_set8(128 >> f.shift));
}

/* Moves bit `from` of every byte to bit `to` and masks the others. */
INLINE vi bits_at(vi v, const int from, const int to, const int mask)
{
    const vi moved = from > to ? v_shr(v, from - to) : from < to ? v_shl(v, to - from) : v;
    return v_and(moved, v_set8(mask));
}

/* Quads 4 h ... 4 h + 3 of the 32 values at p. */
INLINE void quads(const x86_format f, vi *q, const unsigned char *p, const int h, vi book)
{
    UNROLL for (int j = 0; j < 4; j++)
    {
        if (f.plane == PLANE_8) {
            q[j] = v_load(p + 64 * (4 * h + j));
            if (SIGNED_BYTES) q[j] = v_xor(q[j], v_set8(0x80));
        } else if (f.plane == PLANE_2 || f.plane == PLANE_2_1) {
            q[j] = bits_at(v_load(p + 64 * h), 2 * j, 0, 3);
            if (f.plane == PLANE_2_1) q[j] = v_or(q[j], bits_at(v_load(p + 128), 4 * h + j, 2, 4));
            if (f.book) q[j] = v_book(book, q[j]);
        } else {
            q[j] = bits_at(v_load(p + 64 * j), 4 * h, 0, 15);
            if (f.plane == PLANE_4_1) q[j] = v_or(q[j], bits_at(v_load(p + 256), 4 * h + j, 4, 16));
            if (f.plane == PLANE_4_2)
                q[j] = v_or(q[j], bits_at(v_load(p + 256 + 64 * h), 2 * j, 4, 48));
            if (f.book) q[j] = v_book(book, q[j]);
        }
    }
}

/* Scales and minima of a block for W rows: [1] is for the second half where sub is 16. */
typedef struct scales {
    vf d, d_min; /* of 256 values */
    vf scale[2], min[2];
    vf base; /* -BASE scale[0] */
} scales;

INLINE vf two_bytes(const x86_format f, const unsigned char *p)
{
    return f.bf16 ? f_from_bf16(p) : f_from_f16(p);
}

/* Of block b; at: the first of the W rows. */
INLINE void scales_of(const x86_format f, scales *s, const unsigned char *w, int b, int at)
{
    const int halves = 32 / f.sub;
    if (!f.super) {
        const unsigned char *p = w + (size_t)b * x86_scale_bytes(f) + 2 * at;
        UNROLL for (int h = 0; h < halves; h++) s->scale[h] = two_bytes(f, p + 32 * h);
        if (f.min) s->min[0] = two_bytes(f, p + 32 * halves);
        s->base = f_mul(s->scale[0], f_set1(-BASE));
        return;
    }
    const unsigned char *p = w + (size_t)(b / 8) * x86_scale_bytes(f);
    if (b % 8 == 0) {
        s->d = f_from_f16(p + 2 * at);
        if (f.unit != 1) s->d = f_mul(s->d, f_set1(f.unit));
        if (f.min) s->d_min = f_from_f16(p + 32 + 2 * at);
    }
    p += (f.min ? 64 : 32) + 16 * (b % 8) * halves + at;
    UNROLL for (int h = 0; h < halves; h++)
    {
        s->scale[h] = f_mul(s->d, f_from_i8(p + 16 * h));
        if (f.min) s->min[h] = f_mul(s->d_min, f_from_i8(p + 16 * (8 * halves + h)));
    }
    s->base = f_mul(s->scale[0], f_set1(-BASE));
}

/* Sums of products that began with BASE_BITS, as floats: to[0] times its scale. BASE times a scale
 * has at most 21 bits, so that one multiply-add gives the same result as a conversion and a
 * product. A bf16 scale may be so large that BASE times it overflows. */
INLINE void to_float(const x86_format f, vf *to, const vi *sum, const scales *s)
{
    if (f.bf16)
        to[0] = f_mul(f_sub(f_of_bits(sum[0]), f_set1(BASE)), s->scale[0]);
    else
        to[0] = f_fma(f_of_bits(sum[0]), s->scale[0], s->base);
    if (f.sub == 16) to[1] = f_sub(f_of_bits(sum[1]), f_set1(BASE));
}

/* acc with the products of a block added: d (v[0] + v[1] scale[1] - minima); v[1] is for layouts
 * with two scales. d, s0 and s1 are the scale and the sums of its activations. */
INLINE vf add_block(const x86_format f, vf acc, const vf *v, const scales *s, float d, float s0,
                    float s1)
{
    vf sum = v[0];
    if (f.sub == 16) sum = f_fma(v[1], s->scale[1], sum);
    if (f.min) sum = f_fnma(s->min[0], f_set1(s0), sum);
    if (f.min && f.sub == 16) sum = f_fnma(s->min[1], f_set1(s1), sum);
    return f_fma(sum, f_set1(d), acc);
}

/* With few columns memory is the limit: what will be read is fetched this many bytes ahead. */
enum { AHEAD = 4096 };

INLINE void fetch_ahead(const unsigned char *p, const int bytes)
{
    UNROLL for (int i = 0; i < bytes; i += 64) __builtin_prefetch(p + AHEAD + i);
}

/* W rows from row `at` of a group, n columns. */
INLINE void packed_rows(const x86_format f, float *const *y, int o, const unsigned char *w, int at,
                        int k, const ft_col8 *x, const int n)
{
    const unsigned char *p = w + x86_planes_at(f, k) + 4 * at;
    const vi book = f.book ? book_of(f) : v_zero();
    const bool raised = f.shift >= 0 && !stays_signed(f);
    const int blocks = k / 32, first = f.sub == 32 ? SUM_32 * blocks : 0;
    scales s = {.d = f_zero(), .d_min = f_zero()};
    vf acc[PACKED_COLS];
    UNROLL for (int c = 0; c < n; c++) acc[c] = f_zero();
    for (int b = 0; b < blocks; b++, p += x86_plane_bytes(f.plane)) {
        vi sum[PACKED_COLS][2];
        if (at == 0) fetch_ahead(p, (int)x86_plane_bytes(f.plane));
        scales_of(f, &s, w, b, at);
        UNROLL for (int h = 0; h < 2; h++)
        {
            vi q[4];
            quads(f, q, p, h, book);
            UNROLL for (int c = 0; c < n; c++)
            {
                vi start = v_set32(BASE_BITS);
                if (h && f.sub == 32)
                    start = sum[c][0];
                else if (raised)
                    start = v_set32(x[c].t[x86_start(f, h) * blocks + b]);
                sum[c][h && f.sub == 16] = half_sum(start, q, x[c].q + 32 * b + 16 * h, kind_of(f));
            }
        }
        UNROLL for (int c = 0; c < n; c++)
        {
            vf v[2];
            to_float(f, v, sum[c], &s);
            acc[c] = add_block(f, acc[c], v, &s, x[c].d[b], x[c].s[first + b], x[c].s[blocks + b]);
        }
    }
    UNROLL for (int c = 0; c < n; c++) f_store(y[c] + o + at, acc[c]);
}

INLINE void packed(const x86_format f, float *const *y, const unsigned char *w, size_t group,
                   int rows, int k, const ft_col8 *x, const int n)
{
    for (int o = 0; o < rows; o += PACK_ROWS, w += group)
        for (int at = 0; at < PACK_ROWS; at += W) packed_rows(f, y, o, w, at, k, x, n);
}

/* TQ weights: a row of activations is the sum of two. */
INLINE void packed_twice(const x86_format f, ft_type type, float *const *y, const unsigned char *w,
                         size_t group, int rows, int k, const ft_col8 *x, const int n)
{
    const float step = ft_tq_book_of(type)->step;
    ft_col8 both[PACKED_COLS];
    float out[PACKED_COLS][PACK_ROWS], *to[PACKED_COLS];
    for (int c = 0; c < n; c++) {
        both[2 * c] = x[c];
        both[2 * c + 1] = ft_col8_rest(x[c], k);
        to[2 * c] = out[2 * c];
        to[2 * c + 1] = out[2 * c + 1];
    }
    for (int o = 0; o < rows; o += PACK_ROWS, w += group) {
        for (int at = 0; at < PACK_ROWS; at += W) packed_rows(f, to, 0, w, at, k, both, 2 * n);
        for (int c = 0; c < n; c++)
            for (int i = 0; i < PACK_ROWS; i++)
                y[c][o + i] = (out[2 * c][i] + out[2 * c + 1][i]) * step;
    }
}

#endif
