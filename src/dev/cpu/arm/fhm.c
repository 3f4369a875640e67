/* F16 weights on Arm CPUs with FMLAL, which adds four exact products of f16 numbers to f32 sums.
 * Activations are rounded to f16, after a multiplication with a power of two for each row that puts
 * the largest value below 2^15. So nothing overflows, and rounding changes a value by at most 2^-12
 * of itself (2^-40 of the largest one, if that is more).
 *
 * An output has four vectors of sums, each of which takes every fourth four of the values, however
 * many rows and columns share a tile. */
#include "base/mem.h"
#include "dev/cpu/arm/vec.h"

#include <string.h>

enum { STEP = 16 }; /* values of one iteration */

/* ---- activations ---- */

static uint32_t largest_bits(const float *x, int n)
{
    uint32x4_t most = vdupq_n_u32(0);
    int i = 0;
    for (; i + 4 <= n; i += 4)
        most = vmaxq_u32(most, vreinterpretq_u32_f32(vabsq_f32(vld1q_f32(x + i))));
    uint32_t r = vmaxvq_u32(most);
    for (; i < n; i++) r = FT_MAX(r, ft_f32_bits(fabsf(x[i])));
    return r;
}

/* Exponent fields of the largest value and of the factor: 2^14 for 1 to 2, at most 2^126 and 1 for
 * infinity and NaN. */
static void to_scaled_f16(unsigned char *to, float *scale, const float *x, int n)
{
    const uint32_t e = largest_bits(x, n) >> 23, field = e == 255 ? 127 : FT_MIN(268 - e, 253);
    const float factor = ft_f32_of_bits(field << 23);
    *scale = ft_f32_of_bits((254 - field) << 23);
    for (int i = 0; i < n; i += 4, to += 8) {
        float v[4] = {0};
        memcpy(v, x + i, sizeof *v * (size_t)FT_MIN(4, n - i));
        const float16x4_t h = vcvt_f16_f32(vmulq_n_f32(vld1q_f32(v), factor));
        vst1_u16((uint16_t *)(void *)to, vreinterpret_u16_f16(h));
    }
    for (int i = (n + 3) / 4 * 4; i % STEP; i += 4, to += 8) memset(to, 0, 8);
}

/* ---- products ---- */

INLINE float16x8_t eight(const unsigned char *p)
{
    return vreinterpretq_f16_u16(vld1q_u16((const uint16_t *)(const void *)p));
}

/* Sixteen values of R rows and n columns, `at` bytes behind their starts. */
INLINE void sixteen(float32x4_t (*s)[4], const unsigned char *const *w, size_t at, const ft_col8 *x,
                    size_t at_x, const int R, const int n)
{
    UNROLL for (int j = 0; j < 2; j++)
    {
        float16x8_t v[2];
        UNROLL for (int r = 0; r < R; r++) v[r] = eight(w[r] + at + 16 * (size_t)j);
        UNROLL for (int c = 0; c < n; c++)
        {
            const float16x8_t f = eight((const unsigned char *)x[c].q + at_x + 16 * (size_t)j);
            UNROLL for (int r = 0; r < R; r++)
            {
                float32x4_t *to = s[r * n + c] + 2 * j;
                to[0] = vfmlalq_low_f16(to[0], v[r], f);
                to[1] = vfmlalq_high_f16(to[1], v[r], f);
            }
        }
    }
}

/* R rows, `apart` rows from each other, by n columns. */
INLINE void tile(float *const *y, int o, int apart, const unsigned char *row, size_t row_bytes,
                 int k, const ft_col8 *x, const int R, const int n)
{
    float32x4_t s[4][4];
    const unsigned char *w[2] = {row, row + (size_t)apart * row_bytes};
    const size_t whole = 2 * (size_t)(k / STEP * STEP);
    UNROLL for (int p = 0; p < R * n; p++) UNROLL for (int j = 0; j < 4; j++) s[p][j] =
        vdupq_n_f32(0);
    for (size_t i = 0; i < whole; i += 2 * STEP) sixteen(s, w, i, x, i, R, n);
    if (k % STEP) {
        unsigned char end[2][2 * STEP] = {{0}};
        const unsigned char *last[2] = {end[0], end[1]};
        for (int r = 0; r < R; r++) memcpy(end[r], w[r] + whole, 2 * (size_t)(k % STEP));
        sixteen(s, last, 0, x, whole, R, n);
    }
    UNROLL for (int p = 0; p < R * n; p++) y[p % n][o + p / n * apart] =
        *x[p % n].d *
        vaddvq_f32(vaddq_f32(vaddq_f32(s[p][0], s[p][1]), vaddq_f32(s[p][2], s[p][3])));
}

/* Memory is read in two streams: the first and the second half of the rows. */
static void dot_f16(float *const *y, const unsigned char *w, size_t row_bytes, int rows, int k,
                    const ft_col8 *x, int n)
{
    const int half = rows / 2;
    for (int o = 0; o < half; o++) {
        const unsigned char *at = w + (size_t)o * row_bytes;
        int c = 0;
        for (; c + 2 <= n; c += 2) tile(y + c, o, half, at, row_bytes, k, x + c, 2, 2);
        if (c < n) tile(y + c, o, half, at, row_bytes, k, x + c, 2, 1);
    }
    if (rows % 2)
        for (int c = 0; c < n; c++)
            tile(y + c, rows - 1, 0, w + (size_t)(rows - 1) * row_bytes, row_bytes, k, x + c, 1, 1);
}

void ft_kern_fhm(ft_kern *k)
{
    k->to_scaled_f16 = to_scaled_f16;
    k->dot8[FT_F16] = dot_f16;
}
