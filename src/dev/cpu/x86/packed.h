/* dev/cpu/x86/packed.h - products with packed rows (pack.h), for the file that includes this and
 * has defined its vectors: W rows of 32 bits (vi, vf), how sixteen codes of W rows meet sixteen
 * activations (half_sum), and whether a book's values stay signed there (BOOK_SIGNED).
 *
 * Every output is one lane with one accumulator; it takes its blocks in order. */
#ifndef FT_DEV_CPU_X86_PACKED_H
#define FT_DEV_CPU_X86_PACKED_H

INLINE int kind_of(const x86_format f)
{
    if (f.plane == PLANE_8 || f.book) return BYTES_ANY;
    return f.plane == PLANE_4_2 ? BYTES_64 : BYTES_SMALL;
}

/* Bytes that the book or PLANE_8 stand for: signed, or 128 higher. */
INLINE vi book_of(const x86_format f)
{
    const vi b = v_book_load(ft_x86_book[f.book]);
    return BOOK_SIGNED ? b : v_xor(b, v_set8(0x80));
}

/* Moves bit `from` of every byte to bit `to` and keeps those of mask. */
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
            if (BOOK_SIGNED) q[j] = v_xor(q[j], v_set8(0x80));
        } else if (f.plane == PLANE_2 || f.plane == PLANE_2_1) {
            q[j] = bits_at(v_load(p + 64 * h), 2 * j, 0, 3);
            if (f.plane == PLANE_2_1)
                q[j] = v_or(q[j], bits_at(v_load(p + 128), 4 * h + j, 2, 4));
        } else {
            q[j] = bits_at(v_load(p + 64 * j), 4 * h, 0, 15);
            if (f.plane == PLANE_4_1)
                q[j] = v_or(q[j], bits_at(v_load(p + 256), 4 * h + j, 4, 16));
            if (f.plane == PLANE_4_2)
                q[j] = v_or(q[j], bits_at(v_load(p + 256 + 64 * h), 2 * j, 4, 48));
            if (f.book) q[j] = v_book(book, q[j]);
        }
    }
}

/* Scales and minima of a block for W rows: [1] belongs to the second half where sub is 16. */
typedef struct scales {
    vf d, d_min; /* of 256 values */
    vf scale[2], min[2];
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
}

/* W rows from row `at` of a group, n columns. */
INLINE void packed_rows(const x86_format f, float *const *y, int o, const unsigned char *w, int at,
                        int k, const ft_col8 *x, const int n)
{
    const unsigned char *p = w + x86_planes_at(f, k) + 4 * at;
    const vi book = f.book ? book_of(f) : v_zero();
    const bool raised = f.shift >= 0 && !(BOOK_SIGNED && kind_of(f) == BYTES_ANY);
    const int last = 32 / f.sub - 1;
    scales s = {.d = f_zero(), .d_min = f_zero()};
    vf acc[PACKED_COLS];
    UNROLL for (int c = 0; c < n; c++) acc[c] = f_zero();
    for (int b = 0; b < k / 32; b++, p += x86_plane_bytes(f.plane)) {
        vi sum[PACKED_COLS];
        scales_of(f, &s, w, b, at);
        UNROLL for (int h = 0; h < 2; h++)
        {
            vi q[4];
            quads(f, q, p, h, book);
            UNROLL for (int c = 0; c < n; c++)
            {
                vi start = h && f.sub == 32 ? sum[c] : v_zero();
                if (raised)
                    start = v_add32(start, v_sra32(v_set32(x[c].t[2 * b + h]), f.shift));
                sum[c] = half_sum(start, q, x[c].q + 32 * b + 16 * h, kind_of(f));
                if (h || f.sub == 16)
                    acc[c] = f_fma(f_from_i32(sum[c]),
                                   f_mul(s.scale[h & last], f_set1(x[c].d[b])), acc[c]);
                if (f.min)
                    acc[c] = f_fnma(s.min[h & last], f_set1(x[c].s[2 * b + h]), acc[c]);
            }
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

#define PACKED(name)                                                                               \
    static void dot_##name(float *const *y, const unsigned char *w, size_t group, int rows, int k, \
                           const ft_col8 *x, int n)                                                \
    {                                                                                              \
        if (PACKED_COLS > 4)                                                                       \
            for (; n >= PACKED_COLS; n -= PACKED_COLS, y += PACKED_COLS, x += PACKED_COLS)         \
                packed(x86_##name, y, w, group, rows, k, x, PACKED_COLS);                          \
        for (; n >= 4; n -= 4, y += 4, x += 4) packed(x86_##name, y, w, group, rows, k, x, 4);     \
        if (n == 1) packed(x86_##name, y, w, group, rows, k, x, 1);                                \
        if (n == 2) packed(x86_##name, y, w, group, rows, k, x, 2);                                \
        if (n == 3) packed(x86_##name, y, w, group, rows, k, x, 3);                                \
    }

PACKED(q8_0)
PACKED(q4_0)
PACKED(q4_1)
PACKED(q5_0)
PACKED(q5_1)
PACKED(q2_k)
PACKED(q3_k)
PACKED(q4_k)
PACKED(q5_k)
PACKED(q6_k)
PACKED(iq4_nl)
PACKED(iq4_xs)
PACKED(iq3_xxs)
PACKED(iq3_s)
PACKED(iq2_xxs)
PACKED(iq2_s)
PACKED(iq1_s)
PACKED(iq1_m)
PACKED(mxfp4)
PACKED(nvfp4)
PACKED(trits)

static void fill_packed(ft_kern *k)
{
    static const struct {
        ft_type type;
        ft_dot8_fn *dot;
    } kernel[] = {
        {FT_Q8_0, dot_q8_0},       {FT_Q4_0, dot_q4_0},       {FT_Q4_1, dot_q4_1},
        {FT_Q5_0, dot_q5_0},       {FT_Q5_1, dot_q5_1},       {FT_Q2_K, dot_q2_k},
        {FT_Q3_K, dot_q3_k},       {FT_Q4_K, dot_q4_k},       {FT_Q5_K, dot_q5_k},
        {FT_Q6_K, dot_q6_k},       {FT_IQ4_NL, dot_iq4_nl},   {FT_IQ4_XS, dot_iq4_xs},
        {FT_IQ3_XXS, dot_iq3_xxs}, {FT_IQ3_S, dot_iq3_s},     {FT_IQ2_XXS, dot_iq2_xxs},
        {FT_IQ2_XS, dot_iq2_s},    {FT_IQ2_S, dot_iq2_s},     {FT_IQ1_S, dot_iq1_s},
        {FT_IQ1_M, dot_iq1_m},     {FT_MXFP4, dot_mxfp4},     {FT_NVFP4, dot_nvfp4},
        {FT_TQ1_0, dot_trits},     {FT_TQ2_0, dot_trits},     {FT_Q1_0, dot_trits},
        {FT_Q2_0, dot_trits},      {FT_Q2_0_FORK, dot_trits},
    };
    for (size_t i = 0; i < FT_COUNT(kernel); i++) {
        k->pack[kernel[i].type].cols = PACKED_COLS;
        k->pack[kernel[i].type].dot = kernel[i].dot;
    }
}

#endif
