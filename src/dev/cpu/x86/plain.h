/* dev/cpu/x86/plain.h - f32 kernels, for a file that includes this after its vectors (avx2_vec.h,
 * avx512_vec.h). An output has one accumulator of W lanes, however many rows and columns share a
 * tile. DOT_ROWS is the number of weight rows in a tile of two to four columns, TILE_ROWS the
 * number of rows in a tile of small matrices (mm). */
#ifndef FT_DEV_CPU_X86_PLAIN_H
#define FT_DEV_CPU_X86_PLAIN_H

#include "dev/cpu/kern_loops.h"

INLINE float f16_bits(const unsigned char *p)
{
    uint16_t h;
    memcpy(&h, p, 2);
    return _cvtsh_ss(h);
}

static float dot(const float *a, const float *b, int n)
{
    vf s[4] = {f_zero(), f_zero(), f_zero(), f_zero()};
    int i = 0;
    for (; i + 4 * W <= n; i += 4 * W)
        UNROLL for (int j = 0; j < 4; j++) s[j] =
            f_fma(f_load(a + i + W * j), f_load(b + i + W * j), s[j]);
    for (; i + W <= n; i += W) s[0] = f_fma(f_load(a + i), f_load(b + i), s[0]);
    float r = f_sum(f_add(f_add(s[0], s[1]), f_add(s[2], s[3])));
    for (; i < n; i++) r = ft_fma(a[i], b[i], r);
    return r;
}

static float sum(const float *x, int n)
{
    vf s[2] = {f_zero(), f_zero()};
    int i = 0;
    for (; i + 2 * W <= n; i += 2 * W)
        UNROLL for (int j = 0; j < 2; j++) s[j] = f_add(s[j], f_load(x + i + W * j));
    float r = f_sum(f_add(s[0], s[1]));
    for (; i < n; i++) r += x[i];
    return r;
}

/* ---- rows of numbers of 32 or 16 bits, and of Q8_0 ---- */

enum { WIDE_F32, WIDE_F16, WIDE_BF16, WIDE_Q8_0 };

INLINE vf wide_load(const unsigned char *w, int i, const int kind)
{
    if (kind == WIDE_F32) return f_load((const float *)(const void *)w + i);
    if (kind == WIDE_F16) return f_from_f16(w + 2 * i);
    if (kind == WIDE_BF16) return f_from_bf16(w + 2 * i);
    const unsigned char *block = w + 34 * (i / 32);
    return f_mul(f_from_i8(block + 2 + i % 32), f_set1(f16_bits(block)));
}

INLINE float wide_load1(const unsigned char *w, int i, const int kind)
{
    if (kind == WIDE_F32) return ((const float *)(const void *)w)[i];
    if (kind == WIDE_F16) return f16_bits(w + 2 * i);
    uint16_t h;
    memcpy(&h, w + 2 * i, 2);
    return ft_bf16_to_f32(h);
}

/* Fetches the cache line of value i of the row at w, if it is the first value of that line. */
INLINE void fetch_line(const unsigned char *w, int i, const int kind)
{
    const int size = kind == WIDE_F32 ? 4 : 2;
    if (kind != WIDE_Q8_0 && i * size % 64 < W * size) __builtin_prefetch(w + (size_t)(i * size));
}

/* Keeps a vector in a register: read by several instructions, it is loaded once. */
#define KEEP(v) __asm__("" : "+v"(v))

/* R rows by n columns. With one column memory is the limit: the next R rows are fetched. */
INLINE void tile(float *const *y, int o, const unsigned char *w, size_t row_bytes, int k,
                 const float *const *x, const int R, const int n, const int kind)
{
    vf s[16];
    float r[16];
    int i = 0;
    UNROLL for (int p = 0; p < R * n; p++) s[p] = f_zero();
    for (; i + W <= k; i += W) {
        vf v[8];
        UNROLL for (int a = 0; a < R; a++)
        {
            const unsigned char *row = w + (size_t)a * row_bytes;
            v[a] = n == 1 && kind == WIDE_F32 ? f_load_halves((const float *)(const void *)row + i)
                                              : wide_load(row, i, kind);
            if (n == 1) fetch_line(w + (size_t)(R + a) * row_bytes, i, kind);
        }
        UNROLL for (int c = 0; c < n; c++)
        {
            vf f = f_load(x[c] + i);
            if (W == 8 && R > 1 && n > 1) KEEP(f);
            UNROLL for (int a = 0; a < R; a++) s[a * n + c] = f_fma(v[a], f, s[a * n + c]);
        }
    }
    UNROLL for (int p = 0; p < R * n; p++) r[p] = f_sum(s[p]);
    for (; i < k; i++) /* rows of Q8_0 have no remainder */
        UNROLL for (int p = 0; p < R * n; p++) r[p] =
            ft_fma(wide_load1(w + (size_t)(p / n) * row_bytes, i, kind), x[p % n][i], r[p]);
    UNROLL for (int p = 0; p < R * n; p++) y[p % n][o + p / n] = r[p];
}

INLINE void wide_cols(float *const *y, const unsigned char *w, size_t row_bytes, int rows, int k,
                      const float *const *x, const int R, const int n, const int kind)
{
    int o = 0;
    for (; o + R <= rows; o += R)
        tile(y, o, w + (size_t)o * row_bytes, row_bytes, k, x, R, n, kind);
    for (; o < rows; o++) tile(y, o, w + (size_t)o * row_bytes, row_bytes, k, x, 1, n, kind);
}

#define WIDE(name, kind)                                                                           \
    static void dot_##name(float *const *y, const unsigned char *w, size_t row_bytes, int rows,    \
                           int k, const float *const *x, int n)                                    \
    {                                                                                              \
        if (n == 1) wide_cols(y, w, row_bytes, rows, k, x, 8, 1, kind);                            \
        if (n == 2) wide_cols(y, w, row_bytes, rows, k, x, DOT_ROWS, 2, kind);                     \
        if (n == 3) wide_cols(y, w, row_bytes, rows, k, x, DOT_ROWS, 3, kind);                     \
        if (n == 4) wide_cols(y, w, row_bytes, rows, k, x, DOT_ROWS, 4, kind);                     \
    }
WIDE(f32, WIDE_F32)
WIDE(f16, WIDE_F16)
WIDE(bf16, WIDE_BF16)
WIDE(q8_0, WIDE_Q8_0)

static void q8_0_to_f32(float *y, const unsigned char *x, int n)
{
    for (int i = 0; i < n; i += W) f_store(y + i, wide_load(x, i, WIDE_Q8_0));
}

static void f16_to_f32(float *y, const unsigned char *x, int n)
{
    int i = 0;
    for (; i + W <= n; i += W) f_store(y + i, f_from_f16(x + 2 * i));
    for (; i < n; i++) y[i] = f16_bits(x + 2 * i);
}

static void f32_to_f16(unsigned char *y, const float *x, int n)
{
    int i = 0;
    for (; i + W <= n; i += W) f_to_f16(y + 2 * i, f_load(x + i));
    for (; i < n; i++) {
        const uint16_t h = _cvtss_sh(x[i], _MM_FROUND_TO_NEAREST_INT);
        memcpy(y + 2 * i, &h, 2);
    }
}

/* ---- small matrices ---- */

/* R rows by W V columns of c, all of k. */
INLINE void mm_tile(float *c, int ldc, const float *a, int lda, const float *b, int ldb, int k,
                    const int R, const int V)
{
    vf s[TILE_ROWS][4];
    UNROLL for (int i = 0; i < R; i++) UNROLL for (int j = 0; j < V; j++) s[i][j] =
        f_load(c + (size_t)i * (size_t)ldc + W * j);
    for (int x = 0; x < k; x++, b += ldb) {
        vf v[4];
        UNROLL for (int j = 0; j < V; j++) v[j] = f_load(b + W * j);
        UNROLL for (int i = 0; i < R; i++)
        {
            const vf f = f_set1(a[(size_t)i * (size_t)lda + (size_t)x]);
            UNROLL for (int j = 0; j < V; j++) s[i][j] = f_fma(v[j], f, s[i][j]);
        }
    }
    UNROLL for (int i = 0; i < R; i++) UNROLL for (int j = 0; j < V; j++)
        f_store(c + (size_t)i * (size_t)ldc + W * j, s[i][j]);
}

#include "dev/cpu/kern_mm.h"

/* ---- delta net ---- */

#include "dev/cpu/kern_delta.h"

static void fill_plain(ft_kern *k)
{
    fill_loops(k);
    k->dotf[FT_F32] = dot_f32;
    k->dotf[FT_F16] = dot_f16;
    k->dotf[FT_BF16] = dot_bf16;
    k->dotf[FT_Q8_0] = dot_q8_0;
    k->q8_0_to_f32 = q8_0_to_f32;
    k->dot = dot;
    k->sum = sum;
    k->mm = mm;
    k->f16_to_f32 = f16_to_f32;
    k->f32_to_f16 = f32_to_f16;
    k->delta_rows = delta_rows;
}

#endif
