/* The SMMLA instruction: two rows of eight weights times two columns of eight activations, four
 * sums at once and twice the products of SDOT. For more columns than four; weights lie as they do
 * for SDOT (woven_codes.h), two vectors of four rows by four values become two of two rows by
 * eight. Sums are the same whole numbers, and what is done to them is the same in the same order:
 * a row's result has the bits that SDOT gives it. */
#include "dev/cpu/arm/woven_k.h"

enum { PAIRS = COLS / 2 };

#define multiply(i, v, q) __asm__ volatile("smmla %0.4s, %1.16b, %2.16b" : "+w"(i) : "w"(v), "w"(q))

/* Sums of a pair of columns: row 0 of both, row 1 of both; rows 2 and 3 in the second. */
typedef struct pair {
    float32x4_t h[2];
} pair;

/* Each of four rows twice, as a pair has them. */
INLINE pair twice(float32x4_t v)
{
    return (pair){{vzip1q_f32(v, v), vzip2q_f32(v, v)}};
}

INLINE int8x16_t low64(int8x16_t a, int8x16_t b)
{
    return vreinterpretq_s8_s64(vzip1q_s64(vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b)));
}

INLINE int8x16_t high64(int8x16_t a, int8x16_t b)
{
    return vreinterpretq_s8_s64(vzip2q_s64(vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b)));
}

/* Rows 0 and 1, or 2 and 3, of eight values in two vectors of four. */
INLINE int8x16_t two_rows(int8x16_t a, int8x16_t b, const int h)
{
    const int32x4_t x = vreinterpretq_s32_s8(a), y = vreinterpretq_s32_s8(b);
    return vreinterpretq_s8_s32(h ? vzip2q_s32(x, y) : vzip1q_s32(x, y));
}

/* i += half a block (sixteen values) for n pairs of columns, whose bytes begin at q[c] + at */
INLINE void half_block(int32x4_t (*i)[2], const int8x16_t *v, const int8_t *const *q, int at,
                       const int n)
{
    int8x16_t x[PAIRS][2];
    UNROLL for (int p = 0; p < n; p++)
    {
        const int8x16_t a = vld1q_s8(q[2 * p] + at), b = vld1q_s8(q[2 * p + 1] + at);
        x[p][0] = low64(a, b);
        x[p][1] = high64(a, b);
    }
    UNROLL for (int e = 0; e < 2; e++) UNROLL for (int h = 0; h < 2; h++)
    {
        const int8x16_t w = two_rows(v[2 * e], v[2 * e + 1], h);
        UNROLL for (int p = 0; p < n; p++) multiply(i[p][h], w, x[p][e]);
    }
}

/* Half a block of codes, of its stored bytes. */
INLINE void half_codes(int8x16_t *v, const uint8x16_t *b, const int half, int8x16_t book,
                       const bits k)
{
    UNROLL for (int e = 0; e < 4; e++) v[e] = code_of(b, 4 * half + e, mask_of(k), book, k);
}

/* ---- blocks of 256 ---- */

INLINE void block_pairs(pair *a, const unsigned char *p, const cols256 *x, const int n, const int j,
                        const kind256 t)
{
    const shape256 at = shape_of(t);
    const int stored = bits_bytes(at.bits) / 16;
    const bool halves = at.scales == 16;
    const int8x16_t book = book256(t);
    uint8x16_t b[8];
    int32x4_t i[PAIRS][2];
    UNROLL for (int e = 0; e < stored; e++) b[e] =
        vld1q_u8(p + codes_at(at) + 16 * (stored * j + e));
    UNROLL for (int h = 0; h < 2; h++)
    {
        int8x16_t v[4];
        half_codes(v, b, h, book, at.bits);
        if (h == 0 || halves) UNROLL for (int c = 0; c < n; c++)
            {
                const int32x4_t one = vld1q_s32(has_offset(t) ? x->w[2 * c]->start[j] : bias_start);
                const int32x4_t two =
                    vld1q_s32(has_offset(t) ? x->w[2 * c + 1]->start[j] : bias_start);
                i[c][0] = i[c][1] = vzip1q_s32(one, two);
            }
        half_block(i, v, x->q, 32 * j + 16 * h, n);
        if (h == 0 && !halves) continue;
        const pair f = twice(scale256(p, halves ? 2 * j + h : j));
        UNROLL for (int c = 0; c < n; c++) UNROLL for (int r = 0; r < 2; r++) a[c].h[r] =
            vfmaq_f32(a[c].h[r], vreinterpretq_f32_s32(i[c][r]), f.h[r]);
    }
}

/* n pairs of columns, of which the last may be the same column twice. */
INLINE void pairs256(float *const *y, const unsigned char *w, size_t group, int rows, int k,
                     const ft_col8 *x, const int n, const kind256 t)
{
    for (int o = 0; o < rows; o += ROWS, w += group) {
        const unsigned char *p = w;
        float32x4_t acc[COLS];
        cols256 at;
        UNROLL for (int c = 0; c < 2 * n; c++)
        {
            acc[c] = vdupq_n_f32(0);
            at.q[c] = x[c].q;
            at.w[c] = (const ft_wide8 *)(const void *)x[c].t;
        }
        for (int b = 0; b < k / 256; b++, p += bytes256(t)) {
            pair a[PAIRS];
            float32x4_t sum[COLS];
            UNROLL for (int c = 0; c < n; c++) a[c] =
                twice(vld1q_f32((const float *)(const void *)(p + SUMS_AT)));
            UNROLL for (int j = 0; j < 8; j++) block_pairs(a, p, &at, n, j, t);
            UNROLL for (int c = 0; c < n; c++)
            {
                sum[2 * c] = vuzp1q_f32(a[c].h[0], a[c].h[1]);
                sum[2 * c + 1] = vuzp2q_f32(a[c].h[0], a[c].h[1]);
            }
            end256(acc, sum, p, &at, 2 * n, t);
        }
        UNROLL for (int c = 0; c < 2 * n; c++) vst1q_f32(y[c] + o, acc[c]);
    }
}

/* ---- blocks of 32 ---- */

INLINE float32x4_t both(float a, float b)
{
    const float32x4_t v = vsetq_lane_f32(b, vdupq_n_f32(a), 1);
    return vsetq_lane_f32(b, v, 3);
}

INLINE void block32_pairs(pair *acc, const unsigned char *scale, const unsigned char *p,
                          const ft_col8 *x, const int8_t *const *q, const int n, int b,
                          const kind32 t)
{
    const bits k = kind32_bits(t);
    const pair s = twice(scale_of32(scale, t));
    uint8x16_t u[8];
    int32x4_t i[PAIRS][2];
    if (has_min32(t)) {
        const pair m = twice(min_of32(scale, t));
        UNROLL for (int c = 0; c < n; c++)
        {
            const float *d = x[2 * c].s + 2 * b, *e = x[2 * c + 1].s + 2 * b;
            const float32x4_t sum = both(d[0] + d[1], e[0] + e[1]);
            UNROLL for (int r = 0; r < 2; r++) acc[c].h[r] = vfmaq_f32(acc[c].h[r], m.h[r], sum);
        }
    }
    UNROLL for (int e = 0; e < bits_bytes(k) / 16; e++) u[e] = vld1q_u8(p + 16 * e);
    UNROLL for (int c = 0; c < n; c++) i[c][0] = i[c][1] = vld1q_s32(sum_start);
    UNROLL for (int h = 0; h < 2; h++)
    {
        int8x16_t v[4];
        half_codes(v, u, h, book32(t), k);
        half_block(i, v, q, 32 * b + 16 * h, n);
    }
    UNROLL for (int c = 0; c < n; c++)
    {
        const float32x4_t d = both(x[2 * c].d[b], x[2 * c + 1].d[b]);
        UNROLL for (int r = 0; r < 2; r++) acc[c].h[r] =
            vfmaq_f32(acc[c].h[r], vmulq_f32(sum_end(i[c][r]), s.h[r]), d);
    }
}

INLINE void pairs32(float *const *y, const unsigned char *w, size_t group, int rows, int k,
                    const ft_col8 *x, const int n, const kind32 t)
{
    const int8_t *q[COLS];
    UNROLL for (int c = 0; c < 2 * n; c++) q[c] = x[c].q;
    for (int o = 0; o < rows; o += ROWS, w += group) {
        pair acc[PAIRS];
        UNROLL for (int c = 0; c < n; c++) acc[c] = twice(vdupq_n_f32(0));
        for (int b = 0; b < k / 32; b++)
            block32_pairs(acc, w + scale32(b, t), w + codes32(b, t), x, q, n, b, t);
        UNROLL for (int c = 0; c < n; c++)
        {
            vst1q_f32(y[2 * c] + o, vuzp1q_f32(acc[c].h[0], acc[c].h[1]));
            vst1q_f32(y[2 * c + 1] + o, vuzp2q_f32(acc[c].h[0], acc[c].h[1]));
        }
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
