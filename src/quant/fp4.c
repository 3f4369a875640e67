/* Four-bit floats: MXFP4 (a power of two per 32 values) and NVFP4 (an eight-bit float per 16). The
 * second-level scale of NVFP4 is a separate tensor and not handled here. */
#include "quant/quad.h"

const int8_t ft_fp4_value[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* Half of 2^(e - 127), since the table holds doubled values; the two smallest are subnormal. */
static float half_e8m0(uint8_t e)
{
    return ft_f32_of_bits(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

/* Half of an unsigned E4M3 number; the top bit is not used and 0x7f is NaN. */
static float half_ue4m3(uint8_t b)
{
    const uint32_t e = b >> 3 & 15, m = b & 7;
    if (b == 0 || b == 0x7f) return 0.0f;
    if (e == 0) return (float)m * 0x1p-10f;
    return ft_f32_of_bits((e + 119) << 23 | m << 20);
}

void ft_decode_mxfp4(float *dst, const uint8_t *src, size_t blocks)
{
    for (; blocks--; src += 17, dst += 32) {
        const float d = half_e8m0(src[0]);
        for (int i = 0; i < 32; i++)
            dst[i] = (float)ft_fp4_value[src[1 + i % 16] >> 4 * (i / 16) & 15] * d;
    }
}

void ft_decode_nvfp4(float *dst, const uint8_t *src, size_t blocks)
{
    for (; blocks--; src += 36, dst += 64) {
        for (int s = 0; s < 4; s++) {
            const float d = half_ue4m3(src[s]);
            for (int j = 0; j < 16; j++) {
                const int q = src[4 + 8 * s + j % 8] >> 4 * (j / 8) & 15;
                dst[16 * s + j] = (float)ft_fp4_value[q] * d;
            }
        }
    }
}

/* Magnitude of the nearest FP4 value (doubled), and its code without the sign. */
static const float fp4_limit[7] = {0.5f, 1.5f, 2.5f, 3.5f, 5, 7, 10};
static const float fp4_rise[7] = {1, 1, 1, 1, 2, 2, 4};

INLINE v4 fp4_error(const v4 *x, const v4 *w, float spacing)
{
    v4 sum = splat(0);
    for (int i = 0; i < N; i++) {
        const v4 t = magnitude(x[i]) * splat(spacing);
        v4 e = t;
        for (int j = 0; j < 7; j++) e -= (v4)((m4)splat(fp4_rise[j]) & (t > splat(fp4_limit[j])));
        sum += w ? w[i] * e * e : e * e;
    }
    return sum / splat(spacing * spacing);
}

static void put_fp4(uint8_t *restrict qs, const float *restrict x, float spacing)
{
    int code[N];
    for (int i = 0; i < N; i++) code[i] = x[i] < 0 ? 8 : 0;
    for (int j = 0; j < 7; j++)
        for (int i = 0; i < N; i++) {
            const float t = x[i] * spacing;
            code[i] += (t < 0 ? -t : t) > fp4_limit[j];
        }
    for (int i = 0; i < 16; i++) qs[i] = (uint8_t)(code[i] | code[i + 16] << 4);
}

/* The largest value of a block is in [1, 2) units, so the scale is one of three powers of two. */
void ft_encode_mxfp4(uint8_t *dst, const float *src, size_t blocks, const float *weight)
{
    static const float spacing[3] = {8, 4, 16};
    static const int exponent[3] = {-3, -2, -4};
    for (size_t n; blocks; blocks -= n) {
        quad q;
        n = quad_load(&q, src, blocks, weight, true);
        v4 error[3];
        for (int t = 0; t < 3; t++)
            error[t] = weight ? fp4_error(q.lane, q.weight, spacing[t])
                              : fp4_error(q.lane, NULL, spacing[t]);
        for (size_t b = 0; b < n; b++, dst += 17, src += N) {
            int t = error[1][b] < error[0][b] ? 1 : 0;
            if (error[2][b] < error[t][b]) t = 2;
            const int unit = (int)(ft_f32_bits(q.unit[b]) >> 23) - 127;
            int e = 128 + unit + exponent[t];
            e = e < 0 ? 0 : e > 254 ? 254 : e;
            dst[0] = (uint8_t)e;
            put_fp4(dst + 1, q.x + N * b, ft_f32_of_bits((uint32_t)(unit + 128 - e + 127) << 23));
        }
        if (weight) weight += n * N;
    }
}
