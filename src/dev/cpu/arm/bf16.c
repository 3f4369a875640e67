/* Weights of vision towers on Arm CPUs with BFMMLA, which multiplies two rows by two columns, four
 * values of each. Activations are the sum of two bf16 numbers (ft_col8): what is lost is 2^-18 of
 * a value.
 *
 * A result is one chain of sums in the order of the values, the first parts of four activations
 * before the second parts, for any number of rows and columns.
 *
 * Two instructions do the work of four FMLA on f32, of which a core starts as many per cycle: on a
 * Neoverse V1 twice the speed. */
#include "dev/cpu/arm/vec.h"

#include <string.h>

enum {
    COLS = 8,
    SPLIT4 = 32 /* bytes of four values of two rows: four first parts of a row and of the next one,
                   then their second parts. Rows end with zeros up to a multiple of eight values. */
};

/* ---- activations ---- */

static void split(unsigned char *to, const float *x, int n)
{
    const uint32x4_t exponent = vdupq_n_u32(0x7f800000);
    for (int i = 0; i < (n + 7) / 8 * 8; i += 4, to += SPLIT4) {
        float v[4] = {0};
        if (i < n) memcpy(v, x + i, sizeof *v * (size_t)(n - i < 4 ? n - i : 4));
        const float32x4_t f = vld1q_f32(v);
        const bfloat16x4_t hi = vcvt_bf16_f32(f);
        const uint32x4_t bits = vshll_n_u16(vreinterpret_u16_bf16(hi), 16);
        const float32x4_t rest = vsubq_f32(f, vreinterpretq_f32_u32(bits));
        /* the rest of an infinity is 0 */
        const uint32x4_t finite = vmvnq_u32(vceqq_u32(vandq_u32(bits, exponent), exponent));
        const float32x4_t lo =
            vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(rest), finite));
        vst1_u16((uint16_t *)(void *)to, vreinterpret_u16_bf16(hi));
        vst1_u16((uint16_t *)(void *)(to + SPLIT4 / 2), vreinterpret_u16_bf16(vcvt_bf16_f32(lo)));
    }
}

/* ---- products ---- */

/* Four values of two columns. near: they are adjacent. */
INLINE bfloat16x8_t columns4(const unsigned char *a, const unsigned char *b, const bool near)
{
    if (near) return vreinterpretq_bf16_u16(vld1q_u16((const uint16_t *)(const void *)a));
    return vreinterpretq_bf16_u16(vcombine_u16(vld1_u16((const uint16_t *)(const void *)a),
                                               vld1_u16((const uint16_t *)(const void *)b)));
}

/* The compiler must not move instructions across it: it would put those that wait for each other
 * side by side, and run out of registers. */
INLINE void in_order(float32x4_t (*s)[COLS / 2], const int R, const int P)
{
    UNROLL for (int r = 0; r < R; r++)
        UNROLL for (int p = 0; p < P; p++) __asm__ volatile("" : "+w"(s[r][p]));
}

/* Eight values, `from` bytes behind the start of a row, of R pairs of rows times P pairs of
 * columns. */
INLINE void eight(float32x4_t (*s)[COLS / 2], const unsigned char *const *w, size_t from,
                  const unsigned char *const *x, size_t from_x, const int R, const int P,
                  const bool near)
{
    bfloat16x8_t v[2][8];
    UNROLL for (int r = 0; r < R; r++)
    {
        const uint64x2_t a = vreinterpretq_u64_u8(vld1q_u8(w[2 * r] + from));
        const uint64x2_t b = vreinterpretq_u64_u8(vld1q_u8(w[2 * r + 1] + from));
        v[0][r] = vreinterpretq_bf16_u64(vzip1q_u64(a, b));
        v[1][r] = vreinterpretq_bf16_u64(vzip2q_u64(a, b));
    }
    UNROLL for (int i = 0; i < 4; i++) /* two parts of four values, then of the next four */
    {
        UNROLL for (int p = 0; p < P; p++)
        {
            const size_t at = from_x + (size_t)i * (SPLIT4 / 2);
            const bfloat16x8_t c = columns4(x[2 * p] + at, x[2 * p + 1] + at, near);
            UNROLL for (int r = 0; r < R; r++) s[r][p] = vbfmmlaq_f32(s[r][p], v[i / 2][r], c);
        }
        in_order(s, R, P);
    }
}

/* 2 R rows by 2 P columns. The last of an odd number of columns is there twice. */
INLINE void tile(float *const *y, int o, const unsigned char *const *w, int k, const ft_col8 *x,
                 const int R, const int P, const bool near)
{
    float32x4_t s[8][COLS / 2];
    const unsigned char *c[COLS];
    size_t i = 0; /* eights of values */
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int p = 0; p < P; p++) s[r][p] = vdupq_n_f32(0);
    UNROLL for (int p = 0; p < 2 * P; p++) c[p] = (const unsigned char *)x[p].q;
    for (; i < (size_t)k / 8; i++) eight(s, w, 16 * i, c, 2 * SPLIT4 * i, R, P, near);
    if (k % 8) {
        unsigned char end[16][16] = {{0}};
        const unsigned char *last[16];
        for (int r = 0; r < 2 * R; r++)
            last[r] = memcpy(end[r], w[r] + 16 * i, 2 * (size_t)(k % 8));
        eight(s, last, 0, c, 2 * SPLIT4 * i, R, P, near);
    }
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int p = 0; p < P; p++)
    {
        vst1_f32(y[2 * p] + o + 2 * r, vget_low_f32(vuzp1q_f32(s[r][p], s[r][p])));
        vst1_f32(y[2 * p + 1] + o + 2 * r, vget_low_f32(vuzp2q_f32(s[r][p], s[r][p])));
    }
}

/* The last of an odd number of rows is multiplied twice and stored once. */
INLINE void last_row(float *const *y, int o, const unsigned char *row, int k, const ft_col8 *x,
                     const int P, const bool near)
{
    const unsigned char *two[2] = {row, row};
    float out[COLS][2], *to[COLS];
    for (int p = 0; p < 2 * P; p++) to[p] = out[p];
    tile(to, 0, two, k, x, 1, P, near);
    for (int p = 0; p < 2 * P; p++) y[p][o] = out[p][0];
}

INLINE void columns(float *const *y, const unsigned char *w, size_t row_bytes, int rows, int k,
                    const ft_col8 *x, const int P, const bool near)
{
    const int R = P <= 2 ? 8 : 4; /* 16 sums, or 8 for one pair: as many as can be in flight */
    const unsigned char *row[16];
    int o = 0;
    for (; o + 2 * R <= rows; o += 2 * R) {
        UNROLL for (int r = 0; r < 2 * R; r++) row[r] = w + (size_t)(o + r) * row_bytes;
        tile(y, o, row, k, x, R, P, near);
    }
    for (; o + 2 <= rows; o += 2) {
        row[0] = w + (size_t)o * row_bytes;
        row[1] = row[0] + row_bytes;
        tile(y, o, row, k, x, 1, P, near);
    }
    if (o < rows) last_row(y, o, w + (size_t)o * row_bytes, k, x, P, near);
}

INLINE void dot_split(float *const *y, const unsigned char *w, size_t row_bytes, int rows, int k,
                      const ft_col8 *x, int n, const bool near)
{
    switch ((n + 1) / 2) {
    case 1: columns(y, w, row_bytes, rows, k, x, 1, near); break;
    case 2: columns(y, w, row_bytes, rows, k, x, 2, near); break;
    case 3: columns(y, w, row_bytes, rows, k, x, 3, near); break;
    default: columns(y, w, row_bytes, rows, k, x, 4, near); break;
    }
}

/* n <= COLS */
static void dot_some(float *const *y, const unsigned char *w, size_t row_bytes, int rows, int k,
                     const ft_col8 *x, int n)
{
    float *to[COLS];
    ft_col8 col[COLS];
    bool near = n % 2 == 0;
    for (int c = 0; c < COLS; c++) {
        to[c] = y[c < n ? c : n - 1];
        col[c] = x[c < n ? c : n - 1];
        if (c % 2 && c < n) near = near && x[c].q == x[c - 1].q + SPLIT4 / 4;
    }
    if (near)
        dot_split(to, w, row_bytes, rows, k, col, n, true);
    else
        dot_split(to, w, row_bytes, rows, k, col, n, false);
}

static void dot_bf16(float *const *y, const unsigned char *w, size_t row_bytes, int rows, int k,
                     const ft_col8 *x, int n)
{
    for (int c = 0; c < n; c += COLS)
        dot_some(y + c, w, row_bytes, rows, k, x + c, n - c < COLS ? n - c : COLS);
}

/* ---- F16 weights ---- */

/* An F16 number is the sum of two bf16 numbers too; of the four products the one of both second
 * parts is left out. A run of eight rows is split into two parts once for all columns. */
enum { ROWS = 8, RUN = 512 };

typedef struct f16_run {
    bfloat16x8_t part[2][RUN / 4][ROWS / 2]; /* four values of two rows */
} f16_run;

/* Four values of a row, zeros from n on. */
INLINE float32x4_t f16_four(const unsigned char *w, int n)
{
    uint16_t v[4] = {0};
    memcpy(v, w, sizeof *v * (size_t)(n < 4 ? n : 4));
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(v)));
}

/* n values of eight rows. */
static void split_run(f16_run *to, const unsigned char *const *row, int from, int n)
{
    for (int i = 0; i < n; i += 4) UNROLL for (int r = 0; r < ROWS / 2; r++)
        {
            bfloat16x4_t hi[2], lo[2];
            UNROLL for (int j = 0; j < 2; j++)
            {
                const unsigned char *at = row[2 * r + j] + 2 * (size_t)(from + i);
                const float32x4_t f = f16_four(at, n - i);
                hi[j] = vcvt_bf16_f32(f);
                const uint32x4_t bits = vshll_n_u16(vreinterpret_u16_bf16(hi[j]), 16);
                lo[j] = vcvt_bf16_f32(vsubq_f32(f, vreinterpretq_f32_u32(bits)));
            }
            to->part[0][i / 4][r] = vcombine_bf16(hi[0], hi[1]);
            to->part[1][i / 4][r] = vcombine_bf16(lo[0], lo[1]);
        }
}

/* sum += eight rows times eight columns, 4 * fours values of each. */
INLINE void multiply_run(float32x4_t (*sum)[COLS / 2], const f16_run *w, int fours,
                         const unsigned char *const *x, size_t from, const bool near)
{
    float32x4_t s[ROWS / 2][COLS / 2];
    UNROLL for (int r = 0; r < ROWS / 2; r++) UNROLL for (int p = 0; p < COLS / 2; p++) s[r][p] =
        sum[r][p];
    for (int i = 0; i < fours; i++, from += SPLIT4)
        UNROLL for (int part = 0; part < 3; part++) /* first parts; second of w; second of x */
        {
            const size_t at = from + (part == 2 ? SPLIT4 / 2 : 0);
            UNROLL for (int p = 0; p < COLS / 2; p++)
            {
                const bfloat16x8_t c = columns4(x[2 * p] + at, x[2 * p + 1] + at, near);
                UNROLL for (int r = 0; r < ROWS / 2; r++) s[r][p] =
                    vbfmmlaq_f32(s[r][p], w->part[part == 1][i][r], c);
            }
            in_order(s, ROWS / 2, COLS / 2);
        }
    UNROLL for (int r = 0; r < ROWS / 2; r++) UNROLL for (int p = 0; p < COLS / 2; p++) sum[r][p] =
        s[r][p];
}

/* Eight rows, of which `rows` exist, by n columns. */
static void f16_rows(float *const *y, int o, const unsigned char *const *row, int rows, int k,
                     const ft_col8 *x, int n)
{
    float32x4_t sum[FT_SPLIT_COLS / COLS][ROWS / 2][COLS / 2];
    f16_run run;
    for (int g = 0; g < n; g += COLS)
        for (int i = 0; i < ROWS / 2 * COLS / 2; i++)
            sum[g / COLS][i / (COLS / 2)][i % (COLS / 2)] = vdupq_n_f32(0);
    for (int from = 0; from < k; from += RUN) {
        const int run_k = k - from < RUN ? k - from : RUN;
        split_run(&run, row, from, run_k);
        for (int g = 0; g < n; g += COLS) {
            const unsigned char *c[COLS];
            bool near = true;
            for (int i = 0; i < COLS; i++) {
                c[i] = (const unsigned char *)x[g + i < n ? g + i : n - 1].q;
                if (i % 2) near = near && c[i] == c[i - 1] + SPLIT4 / 4;
            }
            const size_t at = (size_t)from / 4 * SPLIT4;
            if (near)
                multiply_run(sum[g / COLS], &run, (run_k + 3) / 4, c, at, true);
            else
                multiply_run(sum[g / COLS], &run, (run_k + 3) / 4, c, at, false);
        }
    }
    for (int c = 0; c < n; c++)
        for (int r = 0; r < rows; r++)
            y[c][o + r] = sum[c / COLS][r / 2][c % COLS / 2][r % 2 * 2 + c % 2];
}

static void dot_f16(float *const *y, const unsigned char *w, size_t row_bytes, int rows, int k,
                    const ft_col8 *x, int n)
{
    for (int o = 0; o < rows; o += ROWS) {
        const unsigned char *row[ROWS];
        const int some = rows - o < ROWS ? rows - o : ROWS;
        for (int r = 0; r < ROWS; r++)
            row[r] = w + (size_t)(o + (r < some ? r : some - 1)) * row_bytes;
        f16_rows(y, o, row, some, k, x, n);
    }
}

void ft_kern_bf16(ft_kern *k)
{
    k->split = split;
    k->split_rows = 2;
    k->split_step = SPLIT4 / 4;
    k->dot_split[FT_BF16] = dot_bf16;
    k->dot_split[FT_F16] = dot_f16;
}
