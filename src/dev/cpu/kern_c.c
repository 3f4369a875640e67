/* All kernels in plain C. */
#include "dev/cpu/kern_loops.h"

#include <string.h>

enum { LANES = 16 };

static float fold(float *acc)
{
    for (int n = LANES / 2; n; n /= 2)
        for (int i = 0; i < n; i++) acc[i] += acc[i + n];
    return acc[0];
}

static float dot(const float *a, const float *b, int n)
{
    float acc[LANES] = {0};
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) acc[j] = ft_fma(a[i + j], b[i + j], acc[j]);
    for (int j = 0; i < n; i++, j++) acc[j] = ft_fma(a[i], b[i], acc[j]);
    return fold(acc);
}

static float sum(const float *x, int n)
{
    float acc[LANES] = {0};
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) acc[j] += x[i + j];
    for (int j = 0; i < n; i++, j++) acc[j] += x[i];
    return fold(acc);
}

static void mm(float *c, int ldc, const float *a, int lda, const float *b, int ldb, int m, int n,
               int k)
{
    for (int i = 0; i < m; i++)
        for (int x = 0; x < k; x++) {
            float *restrict to = c + (size_t)i * (size_t)ldc;
            const float f = a[(size_t)i * (size_t)lda + (size_t)x];
            const float *restrict from = b + (size_t)x * (size_t)ldb;
            for (int j = 0; j < n; j++) to[j] = ft_fma(f, from[j], to[j]);
        }
}

/* ---- products of weight rows ---- */

static void dot_f32(float *const *y, const unsigned char *w, size_t row_bytes, int rows, int k,
                    const float *const *x, int n)
{
    for (int o = 0; o < rows; o++, w += row_bytes)
        for (int c = 0; c < n; c++) y[c][o] = dot((const float *)(const void *)w, x[c], k);
}

/* Sixteen-bit weights: converted a piece at a time, summed like dot(). */
static inline void dot_wide(float *const *y, const unsigned char *w, size_t row_bytes, int rows,
                            int k, const float *const *x, int n, float (*to_f32)(uint16_t))
{
    for (int o = 0; o < rows; o++, w += row_bytes) {
        const uint16_t *h = (const uint16_t *)(const void *)w;
        for (int c = 0; c < n; c++) {
            float acc[LANES] = {0};
            int i = 0;
            for (; i + LANES <= k; i += LANES)
                for (int j = 0; j < LANES; j++)
                    acc[j] = ft_fma(to_f32(h[i + j]), x[c][i + j], acc[j]);
            for (int j = 0; i < k; i++, j++) acc[j] = ft_fma(to_f32(h[i]), x[c][i], acc[j]);
            y[c][o] = fold(acc);
        }
    }
}

static void dot_f16(float *const *y, const unsigned char *w, size_t row_bytes, int rows, int k,
                    const float *const *x, int n)
{
    dot_wide(y, w, row_bytes, rows, k, x, n, ft_f16_to_f32);
}

static void dot_bf16(float *const *y, const unsigned char *w, size_t row_bytes, int rows, int k,
                     const float *const *x, int n)
{
    dot_wide(y, w, row_bytes, rows, k, x, n, ft_bf16_to_f32);
}

static float f16_at(const unsigned char *p)
{
    uint16_t h;
    memcpy(&h, p, 2);
    return ft_f16_to_f32(h);
}

static void dot_q8_0(float *const *y, const unsigned char *w, size_t row_bytes, int rows, int k,
                     const ft_col8 *x, int n)
{
    for (int o = 0; o < rows; o++, w += row_bytes)
        for (int c = 0; c < n; c++) {
            float s = 0;
            for (int b = 0; b < k / 32; b++) {
                const int8_t *q = (const int8_t *)w + 34 * b + 2, *a = x[c].q + 32 * b;
                int32_t p = 0;
                for (int i = 0; i < 32; i++) p += q[i] * a[i];
                s = ft_fma((float)p, f16_at(w + 34 * b) * x[c].d[b], s);
            }
            y[c][o] = s;
        }
}

static void q8_0_to_f32(float *y, const unsigned char *x, int n)
{
    for (int b = 0; b < n / 32; b++, x += 34, y += 32) {
        const float scale = f16_at(x);
        for (int i = 0; i < 32; i++) y[i] = (float)((const int8_t *)x)[2 + i] * scale;
    }
}

/* As many sums as dot() has, so that the compiler can vectorise. */
static void dotf_q8_0(float *const *y, const unsigned char *w, size_t row_bytes, int rows, int k,
                      const float *const *x, int n)
{
    for (int o = 0; o < rows; o++, w += row_bytes)
        for (int c = 0; c < n; c++) {
            float acc[LANES] = {0};
            for (int b = 0; b < k / 32; b++) {
                float v[32];
                q8_0_to_f32(v, w + 34 * b, 32);
                for (int i = 0; i < 32; i++)
                    acc[i % LANES] = ft_fma(v[i], x[c][32 * b + i], acc[i % LANES]);
            }
            y[c][o] = fold(acc);
        }
}

static void quantise(ft_col8 to, const float *x, int lo, int hi, int k)
{
    (void)k;
    for (int at = lo; at < hi; at += FT_BLOCK8, x += FT_BLOCK8) {
        int8_t *q = (int8_t *)to.q + at;
        float top = 0;
        for (int i = 0; i < FT_BLOCK8; i++) {
            const float a = fabsf(x[i]);
            top = a <= top ? top : a; /* also a NaN */
            if (isnan(a)) break;
        }
        const float inv = top > 0 ? 127.0f / top : 0;
        ((float *)to.d)[at / FT_BLOCK8] = top / 127.0f;
        for (int i = 0; i < FT_BLOCK8; i++) q[i] = top < INFINITY ? (int8_t)lrintf(x[i] * inv) : 0;
    }
}

static void f16_to_f32(float *y, const unsigned char *x, int n)
{
    for (int i = 0; i < n; i++) y[i] = f16_at(x + 2 * i);
}

static void f32_to_f16(unsigned char *y, const float *x, int n)
{
    for (int i = 0; i < n; i++) {
        const uint16_t h = ft_f32_to_f16(x[i]);
        memcpy(y + 2 * i, &h, 2);
    }
}

/* ---- delta net: one value at a time; the compiler may vectorise a block ---- */

#define INLINE static inline
#define UNROLL
typedef float vf;
enum { W = 1, DELTA_V = 16, DELTA_WIDE = 16, DELTA_E = 2 };
#define f_load(p)       (*(p))
#define f_store(p, v)   (*(p) = (v))
#define f_set1(x)       (x)
#define f_spread(p)     (*(p))
#define f_zero()        0.0f
#define f_mul(a, b)     ((a) * (b))
#define f_fma(a, b, c)  ft_fma(a, b, c)
#define f_fnma(a, b, c) ft_fma(-(a), b, c)
#include "dev/cpu/kern_delta.h"

static double spin(int n)
{
    float acc[4 * LANES] = {0};
    for (int i = 0; i < n; i++)
        for (int j = 0; j < 4 * LANES; j++) acc[j] = ft_fma(acc[j], 0.5f, 1.0f);
    __asm__ volatile("" : : "r"(acc) : "memory"); /* the sums are needed */
    return 2 * 4 * LANES;
}

void ft_kern_c(ft_kern *k)
{
    *k = (ft_kern){
        .dot8 = {[FT_Q8_0] = dot_q8_0},
        .dotf =
            {[FT_F32] = dot_f32, [FT_F16] = dot_f16, [FT_BF16] = dot_bf16, [FT_Q8_0] = dotf_q8_0},
        .quantise = quantise,
        .dot = dot,
        .sum = sum,
        .mm = mm,
        .f16_to_f32 = f16_to_f32,
        .q8_0_to_f32 = q8_0_to_f32,
        .f32_to_f16 = f32_to_f16,
        .delta_rows = delta_rows,
        .spin = spin,
    };
    fill_loops(k);
}
