/* Kernels for every 64-bit Arm machine (NEON). */
#include <arm_neon.h>

static inline int32x4_t dot16(int32x4_t acc, int8x16_t a, int8x16_t b)
{
    acc = vpadalq_s16(acc, vmull_s8(vget_low_s8(a), vget_low_s8(b)));
    return vpadalq_s16(acc, vmull_s8(vget_high_s8(a), vget_high_s8(b)));
}

static inline int32x4_t fours16(int8x16_t a, int8x16_t b)
{
    return vpaddq_s32(vpaddlq_s16(vmull_s8(vget_low_s8(a), vget_low_s8(b))),
                      vpaddlq_s16(vmull_s8(vget_high_s8(a), vget_high_s8(b))));
}

#include "dev/cpu/arm/tq.h"
#include "dev/cpu/arm/turbo.h"

/* ---- f32 ---- */

enum { W = 4, TILE_ROWS = 4 }; /* of a vector, of a tile of mm */

static float dot(const float *a, const float *b, int n)
{
    float32x4_t s[4] = {vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0)};
    int i = 0;
    for (; i + 16 <= n; i += 16)
        UNROLL for (int j = 0; j < 4; j++) s[j] =
            vfmaq_f32(s[j], vld1q_f32(a + i + 4 * j), vld1q_f32(b + i + 4 * j));
    for (; i + 4 <= n; i += 4) s[0] = vfmaq_f32(s[0], vld1q_f32(a + i), vld1q_f32(b + i));
    float r = vaddvq_f32(vaddq_f32(vaddq_f32(s[0], s[1]), vaddq_f32(s[2], s[3])));
    for (; i < n; i++) r = ft_fma(a[i], b[i], r);
    return r;
}

static float sum(const float *x, int n)
{
    float32x4_t s[2] = {vdupq_n_f32(0), vdupq_n_f32(0)};
    int i = 0;
    for (; i + 8 <= n; i += 8)
        UNROLL for (int j = 0; j < 2; j++) s[j] = vaddq_f32(s[j], vld1q_f32(x + i + 4 * j));
    float r = vaddvq_f32(vaddq_f32(s[0], s[1]));
    for (; i < n; i++) r += x[i];
    return r;
}

enum { WIDE_F32, WIDE_F16, WIDE_BF16 };

INLINE float32x4_t load4(const unsigned char *w, int i, const int kind)
{
    if (kind == WIDE_F32) return vld1q_f32((const float *)(const void *)w + i);
    const uint16x4_t h = vld1_u16((const uint16_t *)(const void *)w + i);
    if (kind == WIDE_F16) return vcvt_f32_f16(vreinterpret_f16_u16(h));
    return vreinterpretq_f32_u32(vshll_n_u16(h, 15) << 1);
}

/* Sixteen values as four vectors. */
INLINE void load16(float32x4_t *v, const unsigned char *w, int i, const int kind)
{
    if (kind == WIDE_F32) {
        UNROLL for (int j = 0; j < 4; j++) v[j] = load4(w, i + 4 * j, kind);
        return;
    }
    UNROLL for (int j = 0; j < 2; j++)
    {
        const uint16x8_t h = vld1q_u16((const uint16_t *)(const void *)w + i + 8 * j);
        const float16x8_t f = vreinterpretq_f16_u16(h);
        const uint16x8_t zero = vdupq_n_u16(0);
        v[2 * j] = kind == WIDE_F16 ? vcvt_f32_f16(vget_low_f16(f))
                                    : vreinterpretq_f32_u16(vzip1q_u16(zero, h));
        v[2 * j + 1] =
            kind == WIDE_F16 ? vcvt_high_f32_f16(f) : vreinterpretq_f32_u16(vzip2q_u16(zero, h));
    }
}

INLINE float load1(const unsigned char *w, int i, const int kind)
{
    if (kind == WIDE_F32) return ((const float *)(const void *)w)[i];
    if (kind == WIDE_F16) return f16_bits(w + 2 * i);
    return vgetq_lane_f32(
        vreinterpretq_f32_u32(vdupq_n_u32((uint32_t)((const uint16_t *)(const void *)w)[i] << 16)),
        0);
}

/* R rows, `apart` rows from each other, by n columns; four accumulators for each pair. */
INLINE void tile(float *const *y, int o, int apart, const unsigned char *w, size_t row_bytes, int k,
                 const float *const *x, const int R, const int n, const int kind)
{
    const size_t next = (size_t)apart * row_bytes;
    float32x4_t s[4][4];
    float r[4];
    int i = 0;
    UNROLL for (int p = 0; p < R * n; p++) UNROLL for (int j = 0; j < 4; j++) s[p][j] =
        vdupq_n_f32(0);
    for (; i + 16 <= k; i += 16) {
        float32x4_t v[2][4];
        UNROLL for (int a = 0; a < R; a++) load16(v[a], w + (size_t)a * next, i, kind);
        UNROLL for (int j = 0; j < 4; j++) UNROLL for (int c = 0; c < n; c++)
        {
            const float32x4_t f = vld1q_f32(x[c] + i + 4 * j);
            UNROLL for (int a = 0; a < R; a++) s[a * n + c][j] =
                vfmaq_f32(s[a * n + c][j], v[a][j], f);
        }
    }
    for (; i + 4 <= k; i += 4)
        UNROLL for (int p = 0; p < R * n; p++) s[p][0] =
            vfmaq_f32(s[p][0], load4(w + (size_t)(p / n) * next, i, kind), vld1q_f32(x[p % n] + i));
    UNROLL for (int p = 0; p < R * n; p++) r[p] =
        vaddvq_f32(vaddq_f32(vaddq_f32(s[p][0], s[p][1]), vaddq_f32(s[p][2], s[p][3])));
    for (; i < k; i++)
        UNROLL for (int p = 0; p < R * n; p++) r[p] =
            ft_fma(load1(w + (size_t)(p / n) * next, i, kind), x[p % n][i], r[p]);
    UNROLL for (int p = 0; p < R * n; p++) y[p % n][o + p / n * apart] = r[p];
}

/* Memory is read in two streams: the first and the second half of the rows. */
INLINE void wide(float *const *y, const unsigned char *w, size_t row_bytes, int rows, int k,
                 const float *const *x, int n, const int kind)
{
    const int half = rows / 2;
    for (int o = 0; o < half; o++) {
        const unsigned char *at = w + (size_t)o * row_bytes;
        int c = 0;
        for (; c + 2 <= n; c += 2) tile(y + c, o, half, at, row_bytes, k, x + c, 2, 2, kind);
        if (c < n) tile(y + c, o, half, at, row_bytes, k, x + c, 2, 1, kind);
    }
    if (rows % 2)
        for (int c = 0; c < n; c++)
            tile(y + c, rows - 1, 0, w + (size_t)(rows - 1) * row_bytes, row_bytes, k, x + c, 1, 1,
                 kind);
}

static void dot_f32(float *const *y, const unsigned char *w, size_t row_bytes, int rows, int k,
                    const float *const *x, int n)
{
    wide(y, w, row_bytes, rows, k, x, n, WIDE_F32);
}

static void dot_f16(float *const *y, const unsigned char *w, size_t row_bytes, int rows, int k,
                    const float *const *x, int n)
{
    wide(y, w, row_bytes, rows, k, x, n, WIDE_F16);
}

static void dot_bf16(float *const *y, const unsigned char *w, size_t row_bytes, int rows, int k,
                     const float *const *x, int n)
{
    wide(y, w, row_bytes, rows, k, x, n, WIDE_BF16);
}

/* ---- q8_0 caches: bytes times floats ---- */

/* The 32 values of a block without its scale. */
INLINE void q8_0_values(float32x4_t *v, const unsigned char *block)
{
    UNROLL for (int h = 0; h < 2; h++)
    {
        const int8x16_t q = vld1q_s8((const int8_t *)block + 2 + 16 * h);
        const int16x8_t a = vmovl_s8(vget_low_s8(q)), b = vmovl_high_s8(q);
        v[4 * h] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(a)));
        v[4 * h + 1] = vcvtq_f32_s32(vmovl_high_s16(a));
        v[4 * h + 2] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(b)));
        v[4 * h + 3] = vcvtq_f32_s32(vmovl_high_s16(b));
    }
}

INLINE void q8_0_cols(float *const *y, const unsigned char *w, size_t row_bytes, int rows, int k,
                      const float *const *x, const int n)
{
    for (int o = 0; o < rows; o++, w += row_bytes) {
        float32x4_t sum[FT_COLS];
        UNROLL for (int c = 0; c < n; c++) sum[c] = vdupq_n_f32(0);
        for (int b = 0; b < k / 32; b++) {
            const unsigned char *block = w + 34 * b;
            const float scale = f16_bits(block);
            float32x4_t v[8];
            q8_0_values(v, block);
            UNROLL for (int c = 0; c < n; c++)
            {
                const float *a = x[c] + 32 * b;
                float32x4_t s = vmulq_f32(v[0], vld1q_f32(a)),
                            t = vmulq_f32(v[1], vld1q_f32(a + 4));
                UNROLL for (int j = 2; j < 8; j += 2)
                {
                    s = vfmaq_f32(s, v[j], vld1q_f32(a + 4 * j));
                    t = vfmaq_f32(t, v[j + 1], vld1q_f32(a + 4 * j + 4));
                }
                sum[c] = vfmaq_n_f32(sum[c], vaddq_f32(s, t), scale);
            }
        }
        UNROLL for (int c = 0; c < n; c++) y[c][o] = vaddvq_f32(sum[c]);
    }
}

static void dotf_q8_0(float *const *y, const unsigned char *w, size_t row_bytes, int rows, int k,
                      const float *const *x, int n)
{
    switch (n) {
    case 1: q8_0_cols(y, w, row_bytes, rows, k, x, 1); break;
    case 2: q8_0_cols(y, w, row_bytes, rows, k, x, 2); break;
    case 3: q8_0_cols(y, w, row_bytes, rows, k, x, 3); break;
    default: q8_0_cols(y, w, row_bytes, rows, k, x, 4); break;
    }
}

static void q8_0_to_f32(float *y, const unsigned char *x, int n)
{
    for (int b = 0; b < n / 32; b++, x += 34, y += 32) {
        const float scale = f16_bits(x);
        float32x4_t v[8];
        q8_0_values(v, x);
        UNROLL for (int j = 0; j < 8; j++) vst1q_f32(y + 4 * j, vmulq_n_f32(v[j], scale));
    }
}

/* s += one row of b times lane `lane` of four values of each row of a */
INLINE void mm_step(float32x4_t s[4][4], const float *b, const float32x4_t *a, const int lane,
                    const int R, const int V)
{
    float32x4_t v[4];
    UNROLL for (int j = 0; j < V; j++) v[j] = vld1q_f32(b + 4 * j);
    UNROLL for (int i = 0; i < R; i++) UNROLL for (int j = 0; j < V; j++) s[i][j] =
        lane == 0   ? vfmaq_laneq_f32(s[i][j], v[j], a[i], 0)
        : lane == 1 ? vfmaq_laneq_f32(s[i][j], v[j], a[i], 1)
        : lane == 2 ? vfmaq_laneq_f32(s[i][j], v[j], a[i], 2)
                    : vfmaq_laneq_f32(s[i][j], v[j], a[i], 3);
}

/* R rows by 4 V columns of c, all of k. */
INLINE void mm_tile(float *c, int ldc, const float *a, int lda, const float *b, int ldb, int k,
                    const int R, const int V)
{
    float32x4_t s[4][4], f[4];
    int x = 0;
    UNROLL for (int i = 0; i < R; i++) UNROLL for (int j = 0; j < V; j++) s[i][j] =
        vld1q_f32(c + (size_t)i * (size_t)ldc + 4 * j);
    for (; x + 4 <= k; x += 4, b += 4 * (size_t)ldb) {
        UNROLL for (int i = 0; i < R; i++) f[i] = vld1q_f32(a + (size_t)i * (size_t)lda + x);
        mm_step(s, b, f, 0, R, V);
        mm_step(s, b + (size_t)ldb, f, 1, R, V);
        mm_step(s, b + 2 * (size_t)ldb, f, 2, R, V);
        mm_step(s, b + 3 * (size_t)ldb, f, 3, R, V);
    }
    for (; x < k; x++, b += ldb) {
        UNROLL for (int i = 0; i < R; i++) f[i] =
            vdupq_n_f32(a[(size_t)i * (size_t)lda + (size_t)x]);
        mm_step(s, b, f, 0, R, V);
    }
    UNROLL for (int i = 0; i < R; i++) UNROLL for (int j = 0; j < V; j++)
        vst1q_f32(c + (size_t)i * (size_t)ldc + 4 * j, s[i][j]);
}

#include "dev/cpu/kern_mm.h"

static void f16_to_f32(float *y, const unsigned char *x, int n)
{
    int i = 0;
    for (; i + 4 <= n; i += 4) vst1q_f32(y + i, load4(x, i, WIDE_F16));
    for (; i < n; i++) y[i] = f16_bits(x + 2 * i);
}

static void f32_to_f16(unsigned char *y, const float *x, int n)
{
    int i = 0;
    for (; i + 4 <= n; i += 4)
        vst1_u16((uint16_t *)(void *)y + i, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(x + i))));
    for (; i < n; i++) {
        const float16_t h = (float16_t)x[i];
        memcpy(y + 2 * i, &h, 2);
    }
}

/* Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits: conversions are slow.
 */
/* The largest magnitude of 32 values. */
INLINE float32x4_t largest(float32x4_t top, const float *x)
{
    UNROLL for (int j = 0; j < 8; j++) top = vmaxq_f32(top, vabsq_f32(vld1q_f32(x + 4 * j)));
    return top;
}

/* 32 values times inv as bytes; total: the sums of each sixteen of them. */
INLINE void bytes32(int8_t *q, int total[2], const float *x, float inv)
{
    const float32x4_t round = vdupq_n_f32(12582912.0f);
    float32x4_t v[8];
    UNROLL for (int j = 0; j < 8; j++) v[j] =
        vaddq_f32(vmulq_n_f32(vld1q_f32(x + 4 * j), inv), round);
    UNROLL for (int h = 0; h < 2; h++)
    {
        const int16x8_t lo =
            vuzp1q_s16(vreinterpretq_s16_f32(v[4 * h]), vreinterpretq_s16_f32(v[4 * h + 1]));
        const int16x8_t hi =
            vuzp1q_s16(vreinterpretq_s16_f32(v[4 * h + 2]), vreinterpretq_s16_f32(v[4 * h + 3]));
        const int8x16_t out = vuzp1q_s8(vreinterpretq_s8_s16(lo), vreinterpretq_s8_s16(hi));
        vst1q_s8(q + 16 * h, out);
        total[h] = vaddvq_s32(dot16(vdupq_n_s32(0), out, vdupq_n_s8(1)));
    }
}

static void quantise(ft_col8 to, const float *x, int lo, int hi, int k)
{
    float *d = (float *)to.d, *s = (float *)to.s;
    (void)k;
    for (int b = lo / FT_BLOCK8; b < hi / FT_BLOCK8; b++, x += FT_BLOCK8) {
        const float amax = vmaxvq_f32(largest(vdupq_n_f32(0), x));
        int total[2];
        bytes32((int8_t *)to.q + FT_BLOCK8 * b, total, x, amax > 0 ? 127.0f / amax : 0);
        d[b] = amax / 127.0f;
        s[2 * b] = d[b] * (float)total[0];
        s[2 * b + 1] = d[b] * (float)total[1];
    }
}

static void quantise_wide(ft_col8 to, const float *x, int lo, int hi)
{
    float *d = (float *)to.d, *s = (float *)to.s;
    ft_wide8 *w = (ft_wide8 *)(void *)to.t + lo / FT_WIDE8;
    for (int b = lo / FT_BLOCK8; b < hi / FT_BLOCK8; b += 8, x += FT_WIDE8, w++) {
        int8_t *q = (int8_t *)to.q + FT_BLOCK8 * b;
        float32x4_t top = vdupq_n_f32(0);
        for (int j = 0; j < 8; j++) top = largest(top, x + FT_BLOCK8 * j);
        const float amax = vmaxvq_f32(top), inv = amax > 0 ? 127.0f / amax : 0;
        w->d = amax / 127.0f;
        for (int j = 0; j < 8; j++) {
            int total[2];
            bytes32(q + FT_BLOCK8 * j, total, x + FT_BLOCK8 * j, inv);
            const int sum = total[0] + total[1];
            vst1q_s32(w->start[j], vdupq_n_s32(0x4b100000 + 128 * sum));
            w->sum32[0][j] = (int8_t)(sum >> 7);
            w->sum32[1][j] = (int8_t)(sum & 127);
            d[b + j] = w->d;
            for (int h = 0; h < 2; h++) {
                w->sum16[0][2 * j + h] = (int8_t)(total[h] >> 7);
                w->sum16[1][2 * j + h] = (int8_t)(total[h] & 127);
                s[2 * (b + j) + h] = w->d * (float)total[h];
            }
        }
    }
}

/* ---- exponentials ---- */

/* x = n ln 2 + r: n in the low bits of *t, e^r as the result. The two halves of the polynomial are
 * independent. */
INLINE float32x4_t exp_reduced(float32x4_t x, int32x4_t *n)
{
    const float32x4_t round = vdupq_n_f32(12582912.0f); /* leaves an integer in the low bits */
    const float32x4_t t = vfmaq_f32(round, x, vdupq_n_f32(1.44269504f)), f = vsubq_f32(t, round);
    float32x4_t r = vfmsq_f32(x, f, vdupq_n_f32(0.693145752f));
    r = vfmsq_f32(r, f, vdupq_n_f32(1.42860677e-6f));
    const float32x4_t q = vmulq_f32(r, r);
    float32x4_t a = vfmaq_f32(vdupq_n_f32(1.0f / 120), r, vdupq_n_f32(1.0f / 720));
    float32x4_t b = vfmaq_f32(vdupq_n_f32(1.0f / 6), r, vdupq_n_f32(1.0f / 24));
    a = vfmaq_f32(a, q, vdupq_n_f32(1.0f / 5040));
    b = vfmaq_f32(b, q, a);
    *n = vsubq_s32(vreinterpretq_s32_f32(t), vdupq_n_s32(0x4b400000));
    return vaddq_f32(vfmaq_f32(r, q, vfmaq_f32(vdupq_n_f32(0.5f), r, b)), vdupq_n_f32(1.0f));
}

INLINE float32x4_t power_of_two(int32x4_t n)
{
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23));
}

INLINE float32x4_t clamp(float32x4_t x, float lo, float hi)
{
    return vminq_f32(vmaxq_f32(x, vdupq_n_f32(lo)), vdupq_n_f32(hi));
}

/* The power of two in two steps, so that the ends give subnormals and infinity. */
INLINE float32x4_t exp4(float32x4_t x)
{
    int32x4_t n;
    const float32x4_t p = exp_reduced(clamp(x, -104, 89), &n);
    const int32x4_t half = vshrq_n_s32(n, 1);
    return vmulq_f32(vmulq_f32(p, power_of_two(half)), power_of_two(vsubq_s32(n, half)));
}

INLINE float32x4_t sigmoid4(float32x4_t x)
{
    int32x4_t n;
    const float32x4_t p = exp_reduced(clamp(vnegq_f32(x), -87, 88), &n);
    const float32x4_t one = vdupq_n_f32(1);
    return vdivq_f32(one, vfmaq_f32(one, p, power_of_two(n)));
}

INLINE float32x4_t gelu4(float32x4_t x)
{
    const float32x4_t k = vmulq_n_f32(x, 0.044715f);
    const float32x4_t z = vmulq_f32(vmulq_n_f32(x, 1.59576912f), vfmaq_f32(vdupq_n_f32(1), k, x));
    return vmulq_f32(x, sigmoid4(z));
}

typedef enum each { E_EXP, E_SILU, E_SIGMOID, E_GELU } each;

/* One vector: x, and its factor. */
INLINE float32x4_t each4(float32x4_t x, float32x4_t u, const each f)
{
    if (f == E_EXP) return exp4(vsubq_f32(x, u));
    if (f == E_SILU) return vmulq_f32(vmulq_f32(x, sigmoid4(x)), u);
    if (f == E_SIGMOID) return vmulq_f32(u, sigmoid4(x));
    return vmulq_f32(gelu4(x), u);
}

/* y = f(x, u); u == NULL: the constant c. The last few values are copied into a padded vector. */
INLINE void each_value(float *y, const float *x, const float *u, float c, int n, const each f)
{
    int i = 0;
    for (; i + 4 <= n; i += 4)
        vst1q_f32(y + i, each4(vld1q_f32(x + i), u ? vld1q_f32(u + i) : vdupq_n_f32(c), f));
    if (i == n) return;
    float a[4] = {0}, b[4] = {c, c, c, c};
    memcpy(a, x + i, (size_t)(n - i) * sizeof *a);
    if (u) memcpy(b, u + i, (size_t)(n - i) * sizeof *b);
    vst1q_f32(a, each4(vld1q_f32(a), vld1q_f32(b), f));
    memcpy(y + i, a, (size_t)(n - i) * sizeof *a);
}

static void exp_minus(float *y, const float *x, float m, int n)
{
    each_value(y, x, NULL, m, n, E_EXP);
}

static void silu(float *y, int n)
{
    each_value(y, y, NULL, 1, n, E_SILU);
}

static void silu_mul(float *y, const float *g, const float *u, int n)
{
    each_value(y, g, u, 0, n, E_SILU);
}

static void gelu_mul(float *y, const float *g, const float *u, int n)
{
    each_value(y, g, u, 0, n, E_GELU);
}

static void sigmoid_mul(float *y, const float *g, int n)
{
    each_value(y, g, y, 0, n, E_SIGMOID);
}

/* ---- delta net ---- */

typedef float32x4_t vf;
enum { DELTA_V = 8, DELTA_WIDE = 8, DELTA_E = 2 };

INLINE vf f_load(const float *p)
{
    return vld1q_f32(p);
}

INLINE void f_store(float *p, vf v)
{
    vst1q_f32(p, v);
}

INLINE vf f_set1(float x)
{
    return vdupq_n_f32(x);
}

INLINE vf f_spread(const float *p)
{
    return vld1q_dup_f32(p);
}

INLINE vf f_zero(void)
{
    return vdupq_n_f32(0);
}

INLINE vf f_mul(vf a, vf b)
{
    return vmulq_f32(a, b);
}

INLINE vf f_fma(vf a, vf b, vf c)
{
    return vfmaq_f32(c, a, b);
}

INLINE vf f_fnma(vf a, vf b, vf c)
{
    return vfmsq_f32(c, a, b);
}

#include "dev/cpu/kern_delta.h"

void ft_kern_neon(ft_kern *k)
{
    fill_dot8(k);
    fill_turbo(k);
    fill_tq(k);
    k->dotf[FT_F32] = dot_f32;
    k->dotf[FT_F16] = dot_f16;
    k->dotf[FT_BF16] = dot_bf16;
    k->dotf[FT_Q8_0] = dotf_q8_0;
    k->q8_0_to_f32 = q8_0_to_f32;
    k->dot = dot;
    k->sum = sum;
    k->mm = mm;
    k->f16_to_f32 = f16_to_f32;
    k->f32_to_f16 = f32_to_f16;
    k->quantise = quantise;
    k->quantise_wide = quantise_wide;
    k->exp_minus = exp_minus;
    k->silu = silu;
    k->silu_mul = silu_mul;
    k->gelu_mul = gelu_mul;
    k->sigmoid_mul = sigmoid_mul;
    k->delta_rows = delta_rows;
}
