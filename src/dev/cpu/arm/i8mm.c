/* The SMMLA instruction: two columns of eight activations times two rows of eight weights, four
 * sums at once and twice the products of SDOT. Weights have a layout of their own: a vector holds
 * eight values of two rows (interleaved_codes.h), so nothing is rearranged. The integer sums are
 * those of SDOT, and so are the operations on them and their order: a row's result is bit-identical
 * for any number of columns, and to that of SDOT.
 *
 * The sums of a pair of columns are two vectors: rows 0 and 1 of the first column, then of the
 * second; rows 2 and 3 in the second vector. Columns are interleaved in pairs for a few thousand
 * values at a time, for all rows of a call; y holds the sums of the values before. One column is
 * read where it is: the second half of its vectors is the next eight values, whose products are
 * ignored, and the first halves of both sums become one vector of four rows.
 *
 * With one or two columns memory is the limit, and is read in two streams: a group of the first and
 * one of the second half of the rows at a time. */
enum { RUN = 8 }; /* values of a row in a vector */

#include "dev/cpu/arm/interleaved_codes.h"
#include "dev/cpu/arm/interleaved_pack.h"

enum { PAIRS = COLS / 2, SUMS = 2 * PAIRS, CHUNK = 4096 };

#define multiply(i, q, v) __asm__ volatile("smmla %0.4s, %1.16b, %2.16b" : "+w"(i) : "w"(q), "w"(v))

/* n is the number of vectors of results: 1 for one column, two for each pair of columns. */
INLINE int pairs_of(const int n)
{
    return (n + 1) / 2;
}

/* Byte offset of group g of eight values of pair p. */
INLINE int group_at(int g, const int p, const int n)
{
    return n == 1 ? 8 * g : 16 * (pairs_of(n) * g + p);
}

INLINE float32x4_t low_halves(float32x4_t a, float32x4_t b)
{
    return vreinterpretq_f32_f64(vzip1q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)));
}

INLINE float32x4_t high_halves(float32x4_t a, float32x4_t b)
{
    return vreinterpretq_f32_f64(vzip2q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)));
}

/* Something of four rows, in the order of the results. */
typedef struct rows4 {
    float32x4_t h[2];
} rows4;

INLINE rows4 rows_of(float32x4_t v, const int n)
{
    if (n == 1) return (rows4){{v, v}};
    return (rows4){{low_halves(v, v), high_halves(v, v)}};
}

/* The bits of integer sums as floats, in the order of the results. */
INLINE float32x4_t sum_bits(const int32x4_t *i, const int c, const int n)
{
    const float32x4_t r = vreinterpretq_f32_s32(i[c]);
    return n == 1 ? low_halves(r, vreinterpretq_f32_s32(i[1])) : r;
}

/* i += code vector e times its group of eight values, which is loaded with the first of two */
INLINE void products(int32x4_t *i, int8x16_t v, int8x16_t *q, const int8_t *x, const int e,
                     const int n)
{
    UNROLL for (int p = 0; p < pairs_of(n); p++)
    {
        if (e % 2 == 0) load_here(q[p], x + group_at(e / 2, p, n));
        multiply(i[2 * p + e % 2], q[p], v);
    }
}

INLINE float32x4_t two(float a, float b)
{
    return vcombine_f32(vdup_n_f32(a), vdup_n_f32(b));
}

/* The bytes of n columns in pairs. */
INLINE void pair_bytes(int8_t *to, const int8_t *const *from, int values, const int n)
{
    for (int i = 0; i < values / 16; i++) UNROLL for (int p = 0; p < n / 2; p++)
        {
            const int64x2_t a = vreinterpretq_s64_s8(vld1q_s8(from[2 * p] + 16 * i));
            const int64x2_t b = vreinterpretq_s64_s8(vld1q_s8(from[2 * p + 1] + 16 * i));
            vst1q_s8(to + group_at(2 * i, p, n), vreinterpretq_s8_s64(vzip1q_s64(a, b)));
            vst1q_s8(to + group_at(2 * i + 1, p, n), vreinterpretq_s8_s64(vzip2q_s64(a, b)));
        }
}

/* Partial results of four rows, from and to y. */
INLINE void load_results(float32x4_t *a, float *const *y, int o, bool first, const int n)
{
    UNROLL for (int c = 0; c < n; c++) a[c] = first ? vdupq_n_f32(0) : vld1q_f32(y[c] + o);
    UNROLL for (int c = 0; c + 2 <= n; c += 2)
    {
        const float32x4_t u = a[c];
        a[c] = low_halves(u, a[c + 1]);
        a[c + 1] = high_halves(u, a[c + 1]);
    }
}

INLINE void store_results(float *const *y, int o, const float32x4_t *a, const int n)
{
    if (n == 1) vst1q_f32(y[0] + o, a[0]);
    UNROLL for (int c = 0; c + 2 <= n; c += 2)
    {
        vst1q_f32(y[c] + o, low_halves(a[c], a[c + 1]));
        vst1q_f32(y[c + 1] + o, high_halves(a[c], a[c + 1]));
    }
}

/* Whether n columns are few enough for two streams. */
INLINE bool two_streams(const int n)
{
    return n <= 2;
}

/* ---- blocks of 256 ---- */

/* What a block needs of its columns; each is as in ft_wide8, or that of pairs. */
typedef struct cols256 {
    const int8_t *q, *sums;
    const int32_t *start;
    const float *d;
} cols256;

/* A few blocks in pairs. */
typedef struct paired256 {
    _Alignas(16) int8_t q[2 * CHUNK], sums[CHUNK / FT_WIDE8 * 4 * 16];
    int32_t start[CHUNK / FT_WIDE8][8 * 4];
    float d[CHUNK / FT_WIDE8][4];
} paired256;

INLINE int8_t const *sums_of(const ft_wide8 *w, shape256 s)
{
    return s.mins == 16 ? w->sum16[0] : w->sum32[0];
}

/* Scale i of those from `at` on: one instruction for each vector. */
INLINE rows4 scales_of(const unsigned char *at, const int i, const int n)
{
#define HALVES(a) 255, 255, a, a + 1, 255, 255, a + 2, a + 3
    static const uint8_t pick[4][16] = {{HALVES(0), HALVES(0)},
                                        {HALVES(4), HALVES(4)},
                                        {HALVES(8), HALVES(8)},
                                        {HALVES(12), HALVES(12)}};
    if (n == 1) return rows_of(scale256(at, i), 1);
    const uint8x16_t v = vld1q_u8(at + i / 2 * 16);
    rows4 r;
    UNROLL for (int h = 0; h < 2; h++)
    {
        uint8x16_t from;
        load_here(from, pick[i % 2 * 2 + h]);
        r.h[h] = vreinterpretq_f32_u8(vqtbl1q_u8(v, from));
    }
    return r;
}

INLINE void add_products(float32x4_t *a, const int32x4_t *i, rows4 f, const int n)
{
    UNROLL for (int c = 0; c < n; c++) __asm__ volatile("fmla %0.4s, %1.4s, %2.4s" : "+w"(a[c]) :
                                                        "w"(sum_bits(i, c, n)), "w"(f.h[c % 2]));
}

/* Without scales the sums are those in i, else those in a. */
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
    int8x16_t v, next, q[PAIRS];
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
        if (at.scales && e % run == 0)
            UNROLL for (int c = 0; c < 2 * pairs_of(n); c++) load_here(
                i[c], has_offset(t) ? x->start + 4 * (pairs_of(n) * j + c / 2) : bias_start);
        products(i, v, q, x->q + group_at(4 * j, 0, n), e, n);
        if (at.scales && e % run == run - 1)
            add_products(a, i, scales_of(scales, (8 * odd + e) / run, n), n);
    }
}

/* m: the sum of minima times the sums of their activations */
INLINE void mins256(float32x4_t *m, const unsigned char *p, const cols256 *x, const int n,
                    const kind256 t)
{
    const shape256 at = shape_of(t);
    const int parts = at.mins / 4;
    int8x16_t q[PAIRS];
    int32x4_t i[SUMS];
    UNROLL for (int c = 0; c < 2 * pairs_of(n); c++) load_here(i[c], min_start);
    UNROLL for (int e = 0; e < 2 * parts; e++)
    {
        const int8x16_t v = vld1q_s8((const int8_t *)p + mins_at(at) + 16 * (e % parts));
        if (e == parts)
            UNROLL for (int c = 0; c < 2 * pairs_of(n); c++) i[c] = vshlq_n_s32(i[c], MIN_SHIFT);
        products(i, v, q, x->sums, e, n);
    }
    UNROLL for (int c = 0; c < n; c++) m[c] =
        vsubq_f32(sum_bits(i, c, n), vdupq_n_f32(12582912.0f));
}

/* acc += a block's sums and minima times the scales of weights and columns */
INLINE void end256(float32x4_t *acc, const float32x4_t *a, const unsigned char *p, const cols256 *x,
                   const int n, const kind256 t)
{
    const bool mins = shape_of(t).mins > 0;
    const rows4 d = rows_of(vmulq_n_f32(f16x4_at(p), unit256(t)), n);
    float32x4_t m[SUMS], r[SUMS];
    UNROLL for (int c = 0; c < n; c++) r[c] = vmulq_f32(a[c], d.h[c % 2]);
    if (mins) {
        const rows4 dm = rows_of(f16x4_at(p + 8), n);
        mins256(m, p, x, n, t);
        UNROLL for (int c = 0; c < n; c++) r[c] = vfmsq_f32(r[c], m[c], dm.h[c % 2]);
    }
    UNROLL for (int c = 0; c < n; c++) acc[c] =
        n == 1 ? vfmaq_n_f32(acc[c], r[c], x->d[0])
               : vfmaq_f32(acc[c], r[c], vld1q_f32(x->d + 4 * (c / 2)));
}

/* acc += a block */
INLINE void whole256(float32x4_t *acc, const unsigned char *p, const cols256 *x, const int n,
                     const kind256 t)
{
    float32x4_t a[SUMS];
    const rows4 sums = rows_of(vld1q_f32((const float *)(const void *)(p + SUMS_AT)), n);
    int32x4_t i[SUMS];
    UNROLL for (int c = 0; c < n; c++) a[c] = sums.h[c % 2];
    UNROLL for (int c = 0; c < 2 * pairs_of(n); c++) load_here(i[c], sum_start);
    UNROLL for (int j = 0; j < 8; j += 2)
    {
        block256(a, i, p, x, n, j, 0, t);
        block256(a, i, p, x, n, j, 1, t);
    }
    if (!shape_of(t).scales)
        UNROLL for (int c = 0; c < n; c++) a[c] = sum_end(vreinterpretq_s32_f32(sum_bits(i, c, n)));
    end256(acc, a, p, x, n, t);
}

INLINE void next256(cols256 *x, const int n)
{
    const int P = pairs_of(n);
    x->q += n == 1 ? FT_WIDE8 : 2 * FT_WIDE8 * P;
    x->sums += n == 1 ? (int)sizeof(ft_wide8) : 64 * P;
    x->start += n == 1 ? (int)sizeof(ft_wide8) / 4 : 32 * P;
    x->d += n == 1 ? (int)sizeof(ft_wide8) / 4 : 4 * P;
}

/* Blocks of one group: results acc. */
INLINE void blocks256(float32x4_t *acc, const unsigned char *p, cols256 x, int blocks, const int n,
                      const kind256 t)
{
    for (int b = 0; b < blocks; b++, p += bytes256(t), next256(&x, n)) whole256(acc, p, &x, n, t);
}

/* Blocks of two groups. */
INLINE void twice256(float32x4_t *a, float32x4_t *b, const unsigned char *p, const unsigned char *q,
                     cols256 x, int blocks, const int n, const kind256 t)
{
    for (int i = 0; i < blocks; i++, p += bytes256(t), q += bytes256(t), next256(&x, n)) {
        whole256(a, p, &x, n, t);
        whole256(b, q, &x, n, t);
    }
}

/* `blocks` blocks of n columns from block b on. */
INLINE cols256 pair256(paired256 *to, const ft_col8 *x, int b, int blocks, const int n,
                       const kind256 t)
{
    const shape256 s = shape_of(t);
    const int P = pairs_of(n);
    const int8_t *q[COLS];
    const ft_wide8 *w[COLS];
    UNROLL for (int c = 0; c < n; c++)
    {
        q[c] = x[c].q + FT_WIDE8 * b;
        w[c] = (const ft_wide8 *)(const void *)x[c].t + b;
    }
    if (n == 1) return (cols256){q[0], sums_of(w[0], s), w[0]->start[0], &w[0]->d};
    pair_bytes(to->q, q, FT_WIDE8 * blocks, n);
    for (int i = 0; i < blocks; i++) {
        int8_t *sums = to->sums + 64 * P * i;
        int32_t *start = to->start[0] + 32 * P * i;
        const int8_t *u[COLS];
        UNROLL for (int c = 0; c < n; c++) u[c] = sums_of(w[c] + i, s);
        if (s.mins) pair_bytes(sums, u, 2 * s.mins, n);
        UNROLL for (int p = 0; p < P; p++)
        {
            const ft_wide8 *v = w[2 * p] + i, *z = w[2 * p + 1] + i;
            for (int j = 0; j < 8 && has_offset(t); j++)
                vst1q_s32(start + 4 * (P * j + p),
                          vcombine_s32(vld1_s32(v->start[j]), vld1_s32(z->start[j])));
            vst1q_f32(to->d[0] + 4 * (P * i + p), two(v->d, z->d));
        }
    }
    return (cols256){to->q, to->sums, to->start[0], to->d[0]};
}

/* An even number of groups in two streams; returns how many rows. */
INLINE int streams256(float *const *y, const unsigned char *p, size_t group, int rows, cols256 in,
                      int blocks, bool first, const int n, const kind256 t)
{
    const int half = rows / ROWS / 2 * ROWS;
    const unsigned char *q = p + (size_t)(half / ROWS) * group;
    for (int o = 0; o < half; o += ROWS, p += group, q += group) {
        float32x4_t a[SUMS], b[SUMS];
        load_results(a, y, o, first, n);
        load_results(b, y, o + half, first, n);
        twice256(a, b, p, q, in, blocks, n, t);
        store_results(y, o, a, n);
        store_results(y, o + half, b, n);
    }
    return 2 * half;
}

INLINE void interleaved256(float *const *y, const unsigned char *w, size_t group, int rows, int k,
                           const ft_col8 *x, const int n, const kind256 t)
{
    const int most = n == 1 ? k / FT_WIDE8 : CHUNK / FT_WIDE8 / pairs_of(n);
    for (int b = 0; b < k / FT_WIDE8; b += most) {
        const int blocks = k / FT_WIDE8 - b < most ? k / FT_WIDE8 - b : most;
        const unsigned char *p = w + (size_t)b * (size_t)bytes256(t);
        paired256 mem;
        const cols256 in = pair256(&mem, x, b, blocks, n, t);
        int o = 0;
        if (two_streams(n)) o = streams256(y, p, group, rows, in, blocks, b == 0, n, t);
        for (p += (size_t)(o / ROWS) * group; o < rows; o += ROWS, p += group) {
            float32x4_t acc[SUMS];
            load_results(acc, y, o, b == 0, n);
            blocks256(acc, p, in, blocks, n, t);
            store_results(y, o, acc, n);
        }
    }
}

/* ---- blocks of 32 ---- */

typedef struct cols32 {
    const int8_t *q;
    const float *d, *s; /* scales, sums of 16 or of pairs' 32 */
} cols32;

typedef struct paired32 {
    _Alignas(16) int8_t q[2 * CHUNK];
    float d[CHUNK / 32][4], s[CHUNK / 32][4];
} paired32;

/* acc += sums of products of block b times the scales of weights and columns */
INLINE void end32(float32x4_t *acc, const int32x4_t *i, rows4 s, const cols32 *x, const int n,
                  int b)
{
    float32x4_t r[SUMS];
    UNROLL for (int c = 0; c < n; c++)
    {
        r[c] = vmulq_f32(sum_end(vreinterpretq_s32_f32(sum_bits(i, c, n))), s.h[c % 2]);
        acc[c] = n == 1 ? vfmaq_n_f32(acc[c], r[c], x->d[b])
                        : vfmaq_f32(acc[c], r[c], vld1q_f32(x->d + 4 * (pairs_of(n) * b + c / 2)));
    }
}

/* acc += block b */
INLINE void block32(float32x4_t *acc, const unsigned char *scale, const unsigned char *p,
                    const cols32 *x, const int n, int b, const kind32 t)
{
    const bits k = kind32_bits(t);
    const int P = pairs_of(n), stored = bits_bytes(k) / 16, run = has_halves32(t) ? 4 : 8;
    const int8x16_t book = book32(t);
    const uint8x16_t mask = mask_of(k);
    uint8x16_t u[8];
    int8x16_t v, next, q[PAIRS];
    int32x4_t i[SUMS];
    if (has_min32(t)) {
        const rows4 m = rows_of(min_of32(scale), n);
        UNROLL for (int c = 0; c < n; c++) acc[c] =
            n == 1 ? vfmaq_n_f32(acc[c], m.h[0], x->s[2 * b] + x->s[2 * b + 1])
                   : vfmaq_f32(acc[c], m.h[c % 2], vld1q_f32(x->s + 4 * (P * b + c / 2)));
    }
    UNROLL for (int e = 0; e < stored; e++) load_here(u[e], p + 16 * e);
    next = code_of(u, 0, mask, book, k);
    pin(next);
    UNROLL for (int e = 0; e < 8; e++)
    {
        v = next;
        if (e < 7) {
            next = code_of(u, e + 1, mask, book, k);
            pin(next);
        }
        if (e % run == 0) UNROLL for (int c = 0; c < 2 * P; c++) load_here(i[c], sum_start);
        products(i, v, q, x->q + group_at(4 * b, 0, n), e, n);
        if (e % run == run - 1)
            end32(acc, i, rows_of(scale_of32(scale + 16 * (e / run), t), n), x, n, b);
    }
}

/* `blocks` blocks of n columns from block b on. */
INLINE cols32 pair32_cols(paired32 *to, const ft_col8 *x, int b, int blocks, const int n,
                          const kind32 t)
{
    const int P = pairs_of(n);
    const int8_t *q[COLS];
    if (n == 1) return (cols32){x->q + 32 * b, x->d + b, x->s + 2 * b};
    UNROLL for (int c = 0; c < n; c++) q[c] = x[c].q + 32 * b;
    pair_bytes(to->q, q, 32 * blocks, n);
    for (int i = 0; i < blocks; i++) UNROLL for (int p = 0; p < P; p++)
        {
            const ft_col8 *u = &x[2 * p], *v = &x[2 * p + 1];
            const int j = 2 * (b + i);
            vst1q_f32(to->d[0] + 4 * (P * i + p), two(u->d[b + i], v->d[b + i]));
            if (has_min32(t))
                vst1q_f32(to->s[0] + 4 * (P * i + p),
                          two(u->s[j] + u->s[j + 1], v->s[j] + v->s[j + 1]));
        }
    return (cols32){to->q, to->d[0], to->s[0]};
}

/* acc += blocks i and i + 1, which are stored at p */
INLINE void both32(float32x4_t *acc, const unsigned char *p, const cols32 *x, const int n, int i,
                   const kind32 t)
{
    const unsigned char *code = p + head32(t);
    block32(acc, p, code, x, n, i, t);
    block32(acc, p + 8, code + bits_bytes(kind32_bits(t)), x, n, i + 1, t);
}

/* The end of a group's blocks: an odd one, and where they are the last of a row, the unit. */
INLINE void end_group32(float *const *y, int o, float32x4_t *acc, const unsigned char *p,
                        const cols32 *x, int i, int blocks, bool last, const int n, const kind32 t)
{
    if (i < blocks) block32(acc, p, p + head32(t), x, n, i, t);
    if (last) UNROLL for (int c = 0; c < n; c++) acc[c] = in_unit32(acc[c], t);
    store_results(y, o, acc, n);
}

/* An even number of groups in two streams; returns how many rows. */
INLINE int streams32(float *const *y, const unsigned char *w, size_t group, int rows,
                     const cols32 *in, int blocks, bool first, bool last, const int n,
                     const kind32 t)
{
    const int half = rows / ROWS / 2 * ROWS;
    for (int o = 0; o < half; o += ROWS, w += group) {
        const unsigned char *p = w, *q = w + (size_t)(half / ROWS) * group;
        float32x4_t a[SUMS], b[SUMS];
        int i = 0;
        load_results(a, y, o, first, n);
        load_results(b, y, o + half, first, n);
        for (; i + 2 <= blocks; i += 2, p += pair32(t), q += pair32(t)) {
            both32(a, p, in, n, i, t);
            both32(b, q, in, n, i, t);
        }
        end_group32(y, o, a, p, in, i, blocks, last, n, t);
        end_group32(y, o + half, b, q, in, i, blocks, last, n, t);
    }
    return 2 * half;
}

INLINE void interleaved32(float *const *y, const unsigned char *w, size_t group, int rows, int k,
                          const ft_col8 *x, const int n, const kind32 t)
{
    const int most = n == 1 ? k / 32 : CHUNK / 64 / pairs_of(n) * 2;
    for (int b = 0; b < k / 32; b += most) {
        const int blocks = k / 32 - b < most ? k / 32 - b : most;
        const bool last = b + blocks == k / 32;
        const unsigned char *at = w + scale32(b, t);
        paired32 mem;
        const cols32 in = pair32_cols(&mem, x, b, blocks, n, t);
        int o = 0;
        if (two_streams(n)) o = streams32(y, at, group, rows, &in, blocks, b == 0, last, n, t);
        for (at += (size_t)(o / ROWS) * group; o < rows; o += ROWS, at += group) {
            const unsigned char *p = at;
            float32x4_t acc[SUMS];
            int i = 0;
            load_results(acc, y, o, b == 0, n);
            for (; i + 2 <= blocks; i += 2, p += pair32(t)) both32(acc, p, &in, n, i, t);
            end_group32(y, o, acc, p, &in, i, blocks, last, n, t);
        }
    }
}

/* Up to eight columns. An odd one is multiplied twice and stored twice. */
#define COLUMNS(call, kind)                                                                        \
    float *to[COLS];                                                                               \
    ft_col8 col[COLS];                                                                             \
    for (int c = 0; c < COLS; c++) {                                                               \
        to[c] = y[c < n ? c : n - 1];                                                              \
        col[c] = x[c < n ? c : n - 1];                                                             \
    }                                                                                              \
    switch (n == 1 ? 0 : (n + 1) / 2) {                                                            \
    case 0: call(y, w, group, rows, k, x, 1, kind); break;                                         \
    case 1: call(to, w, group, rows, k, col, 2, kind); break;                                      \
    case 2: call(to, w, group, rows, k, col, 4, kind); break;                                      \
    case 3: call(to, w, group, rows, k, col, 6, kind); break;                                      \
    default: call(to, w, group, rows, k, col, 8, kind); break;                                     \
    }

#include "dev/cpu/arm/interleaved_table.h"

void ft_kern_i8mm(ft_kern *k)
{
    fill_interleaved(k);
}
