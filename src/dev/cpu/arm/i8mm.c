/* The SMMLA instruction: two rows of eight weights times two columns of eight activations, four
 * sums at once and twice the products of SDOT. For more than four columns; weights have the same
 * layout as for SDOT (interleaved_codes.h), and two vectors of four rows by four values become two
 * of two rows by eight. The integer sums are the same, and so are the operations on them and their
 * order: a row's result is bit-identical to that of SDOT.
 *
 * Columns are interleaved in pairs for 256 values at a time, for all rows of a call; y holds the
 * sums of the values before. */
#include "dev/cpu/arm/interleaved_k.h"

enum { PAIRS = COLS / 2 };

#define multiply(i, v, q) __asm__ volatile("smmla %0.4s, %1.16b, %2.16b" : "+w"(i) : "w"(v), "w"(q))

/* Sums of a pair of columns: row 0 of both, row 1 of both; rows 2 and 3 in the second. */
typedef struct pair {
    float32x4_t h[2];
} pair;

/* Each of four rows twice, in the order of a pair. */
INLINE pair twice(float32x4_t v)
{
    return (pair){{vzip1q_f32(v, v), vzip2q_f32(v, v)}};
}

/* Rows 0 and 1, or 2 and 3, of eight values in two vectors of four. */
INLINE int8x16_t two_rows(int8x16_t a, int8x16_t b, const int h)
{
    const int32x4_t x = vreinterpretq_s32_s8(a), y = vreinterpretq_s32_s8(b);
    return vreinterpretq_s8_s32(h ? vzip2q_s32(x, y) : vzip1q_s32(x, y));
}

/* 256 values of up to eight columns in pairs: bytes in groups of eight, and for each 32 of them the
 * initial value of their sums, their scales and the sums of their bytes. */
typedef struct paired {
    int8x16_t q[32][PAIRS];
    int32x4_t start[8][PAIRS];
    float32x4_t d[8][PAIRS], s[8][PAIRS];
} paired;

INLINE void pair_bytes(paired *to, const ft_col8 *x, const int n, int at, int values)
{
    for (int i = 0; i < values / 16; i++) UNROLL for (int p = 0; p < n; p++)
        {
            const int64x2_t a = vreinterpretq_s64_s8(vld1q_s8(x[2 * p].q + at + 16 * i));
            const int64x2_t b = vreinterpretq_s64_s8(vld1q_s8(x[2 * p + 1].q + at + 16 * i));
            to->q[2 * i][p] = vreinterpretq_s8_s64(vzip1q_s64(a, b));
            to->q[2 * i + 1][p] = vreinterpretq_s8_s64(vzip2q_s64(a, b));
        }
}

/* i += half a block (sixteen values) for n pairs of columns */
INLINE void half_block(int32x4_t (*i)[2], const int8x16_t *v, const int8x16_t (*q)[PAIRS],
                       const int n)
{
    UNROLL for (int e = 0; e < 2; e++) UNROLL for (int h = 0; h < 2; h++)
    {
        const int8x16_t w = two_rows(v[2 * e], v[2 * e + 1], h);
        UNROLL for (int p = 0; p < n; p++) multiply(i[p][h], w, q[e][p]);
    }
}

/* Half a block of codes, from its stored bytes. */
INLINE void half_codes(int8x16_t *v, const uint8x16_t *b, const int half, int8x16_t book,
                       const bits k)
{
    UNROLL for (int e = 0; e < 4; e++) v[e] = code_of(b, 4 * half + e, mask_of(k), book, k);
}

/* ---- blocks of 256 ---- */

INLINE void block_pairs(pair *a, const unsigned char *p, const paired *x, const int n, int even,
                        const int odd, const kind256 t)
{
    const int j = even + odd;
    const shape256 at = shape_of(t);
    const int stored = bits_bytes(at.bits) / 16;
    const bool halves = at.scales == 16;
    const unsigned char *scales = p + SCALES_AT + ROWS * at.scales / 4 * even;
    uint8x16_t b[8];
    int32x4_t i[PAIRS][2];
    UNROLL for (int e = 0; e < stored; e++) b[e] =
        vld1q_u8(p + codes_at(at) + 16 * (stored * j + e));
    UNROLL for (int h = 0; h < 2; h++)
    {
        int8x16_t v[4];
        half_codes(v, b, h, book256(t), at.bits);
        if (h == 0 || halves)
            UNROLL for (int c = 0; c < n; c++) UNROLL for (int r = 0; r < 2; r++)
                load_here(i[c][r], has_offset(t) ? (const void *)&x->start[j][c] : bias_start);
        half_block(i, v, x->q + 4 * j + 2 * h, n);
        if (h == 0 && !halves) continue;
        const pair f = twice(scale256(scales, halves ? 2 * odd + h : odd));
        UNROLL for (int c = 0; c < n; c++) UNROLL for (int r = 0; r < 2; r++) a[c].h[r] =
            vfmaq_f32(a[c].h[r], vreinterpretq_f32_s32(i[c][r]), f.h[r]);
    }
}

/* Block b of n pairs of columns, of which the last may be the same column twice. */
INLINE void rows_pairs(float *const *y, const unsigned char *w, size_t group, int rows,
                       const paired *x, const cols256 *at, const int n, int b, const kind256 t)
{
    for (int o = 0; o < rows; o += ROWS, w += group) {
        pair a[PAIRS];
        float32x4_t sum[COLS], acc[COLS];
        cols256 here = *at;
        UNROLL for (int c = 0; c < n; c++) a[c] =
            twice(vld1q_f32((const float *)(const void *)(w + SUMS_AT)));
        for (int j = 0; j < 8; j += 2) {
            block_pairs(a, w, x, n, j, 0, t);
            block_pairs(a, w, x, n, j, 1, t);
        }
        UNROLL for (int c = 0; c < n; c++)
        {
            sum[2 * c] = vuzp1q_f32(a[c].h[0], a[c].h[1]);
            sum[2 * c + 1] = vuzp2q_f32(a[c].h[0], a[c].h[1]);
        }
        UNROLL for (int c = 0; c < 2 * n; c++) acc[c] = b ? vld1q_f32(y[c] + o) : vdupq_n_f32(0);
        end256(acc, sum, w, &here, 2 * n, t);
        UNROLL for (int c = 0; c < 2 * n; c++) vst1q_f32(y[c] + o, acc[c]);
    }
}

INLINE void pairs256(float *const *y, const unsigned char *w, size_t group, int rows, int k,
                     const ft_col8 *x, const int n, const kind256 t)
{
    for (int b = 0; b < k / 256; b++, w += bytes256(t)) {
        paired in;
        cols256 at;
        UNROLL for (int c = 0; c < n; c++)
        {
            at.q[2 * c] = x[2 * c].q + 256 * b;
            at.q[2 * c + 1] = x[2 * c + 1].q + 256 * b;
            at.w[2 * c] = (const ft_wide8 *)(const void *)x[2 * c].t + b;
            at.w[2 * c + 1] = (const ft_wide8 *)(const void *)x[2 * c + 1].t + b;
        }
        pair_bytes(&in, x, n, 256 * b, 256);
        if (has_offset(t))
            for (int j = 0; j < 8; j++)
                UNROLL for (int c = 0; c < n; c++) in.start[j][c] = vzip1q_s32(
                    vld1q_s32(at.w[2 * c]->start[j]), vld1q_s32(at.w[2 * c + 1]->start[j]));
        rows_pairs(y, w, group, rows, &in, &at, n, b, t);
    }
}

/* ---- blocks of 32 ---- */

INLINE float32x4_t both(float a, float b)
{
    const float32x4_t v = vsetq_lane_f32(b, vdupq_n_f32(a), 1);
    return vsetq_lane_f32(b, v, 3);
}

/* acc += block number j of those in pairs */
INLINE void block32_pairs(pair *acc, const unsigned char *scale, const unsigned char *p,
                          const paired *x, const int n, int j, const kind32 t)
{
    const bits k = kind32_bits(t);
    const pair s = twice(in_unit32(scale_of32(scale, t), t));
    uint8x16_t u[8];
    int32x4_t i[PAIRS][2];
    if (has_min32(t)) {
        const pair m = twice(min_of32(scale));
        UNROLL for (int c = 0; c < n; c++) UNROLL for (int r = 0; r < 2; r++) acc[c].h[r] =
            vfmaq_f32(acc[c].h[r], m.h[r], x->s[j][c]);
    }
    UNROLL for (int e = 0; e < bits_bytes(k) / 16; e++) u[e] = vld1q_u8(p + 16 * e);
    UNROLL for (int c = 0; c < n; c++) UNROLL for (int r = 0; r < 2; r++)
        load_here(i[c][r], sum_start);
    UNROLL for (int h = 0; h < 2; h++)
    {
        int8x16_t v[4];
        half_codes(v, u, h, book32(t), k);
        half_block(i, v, x->q + 4 * j + 2 * h, n);
    }
    UNROLL for (int c = 0; c < n; c++) UNROLL for (int r = 0; r < 2; r++) acc[c].h[r] =
        vfmaq_f32(acc[c].h[r], vmulq_f32(sum_end(i[c][r]), s.h[r]), x->d[j][c]);
}

/* Blocks [from, to) of all rows. */
INLINE void rows_pairs32(float *const *y, const unsigned char *w, size_t group, int rows,
                         const paired *x, const int n, int from, int to, const kind32 t)
{
    for (int o = 0; o < rows; o += ROWS, w += group) {
        pair acc[PAIRS];
        UNROLL for (int c = 0; c < n; c++)
        {
            const float32x4_t a = from ? vld1q_f32(y[2 * c] + o) : vdupq_n_f32(0);
            const float32x4_t b = from ? vld1q_f32(y[2 * c + 1] + o) : vdupq_n_f32(0);
            acc[c] = (pair){{vzip1q_f32(a, b), vzip2q_f32(a, b)}};
        }
        for (int b = from; b < to; b++)
            block32_pairs(acc, w + scale32(b, t), w + codes32(b, t), x, n, b - from, t);
        UNROLL for (int c = 0; c < n; c++)
        {
            vst1q_f32(y[2 * c] + o, vuzp1q_f32(acc[c].h[0], acc[c].h[1]));
            vst1q_f32(y[2 * c + 1] + o, vuzp2q_f32(acc[c].h[0], acc[c].h[1]));
        }
    }
}

INLINE void pairs32(float *const *y, const unsigned char *w, size_t group, int rows, int k,
                    const ft_col8 *x, const int n, const kind32 t)
{
    for (int b = 0; b < k / 32; b += 8) {
        const int to = b + 8 < k / 32 ? b + 8 : k / 32;
        paired in;
        pair_bytes(&in, x, n, 32 * b, 32 * (to - b));
        for (int j = 0; j < to - b; j++) UNROLL for (int c = 0; c < n; c++)
            {
                const ft_col8 *u = &x[2 * c], *v = &x[2 * c + 1];
                const int i = 2 * (b + j);
                in.d[j][c] = both(u->d[b + j], v->d[b + j]);
                if (has_min32(t)) in.s[j][c] = both(u->s[i] + u->s[i + 1], v->s[i] + v->s[i + 1]);
            }
        rows_pairs32(y, w, group, rows, &in, n, b, to, t);
    }
}

/* ---- the table ---- */

/* Up to eight columns at a time. An odd one is multiplied twice and stored twice. */
#define MANY(type, size)                                                                           \
    static void type##_many(float *const *y, const unsigned char *w, size_t group, int rows,       \
                            int k, const ft_col8 *x, int n)                                        \
    {                                                                                              \
        for (int at = 0; at < n; at += COLS) {                                                     \
            float *to[COLS];                                                                       \
            ft_col8 col[COLS];                                                                     \
            const int left = n - at < COLS ? n - at : COLS;                                        \
            for (int c = 0; c < COLS; c++) {                                                       \
                to[c] = y[at + (c < left ? c : left - 1)];                                         \
                col[c] = x[at + (c < left ? c : left - 1)];                                        \
            }                                                                                      \
            switch ((left + 1) / 2) {                                                              \
            case 1: pairs##size(to, w, group, rows, k, col, 1, W_##type); break;                   \
            case 2: pairs##size(to, w, group, rows, k, col, 2, W_##type); break;                   \
            case 3: pairs##size(to, w, group, rows, k, col, 3, W_##type); break;                   \
            default: pairs##size(to, w, group, rows, k, col, 4, W_##type); break;                  \
            }                                                                                      \
        }                                                                                          \
    }

#define EACH_TYPE(f)                                                                               \
    f(Q8_0, 32) f(Q4_0, 32) f(Q4_1, 32) f(Q5_0, 32) f(Q5_1, 32) f(IQ4_NL, 32) f(MXFP4, 32)         \
        f(Q4_K, 256) f(Q5_K, 256) f(Q6_K, 256) f(Q3_K, 256) f(Q2_K, 256) f(IQ4_XS, 256)            \
            f(IQ3_XXS, 256) f(IQ3_S, 256) f(IQ2_XXS, 256) f(IQ2_XS, 256) f(IQ2_S, 256)
EACH_TYPE(MANY)

#define FILL(type, size)                                                                           \
    k->many[FT_##type] = type##_many;                                                              \
    k->pack[FT_##type].cols = 4;

void ft_kern_i8mm(ft_kern *k)
{
    EACH_TYPE(FILL)
}
