/* TQ3_1S and TQ4_1S: 32 weights are transformed by signs and a Walsh-Hadamard transform, after
 * which their distribution is about Gaussian; each half of 16 then has a scale and indices into a
 * Gaussian codebook. The order of sums follows the reference encoder, so that bytes can be
 * compared. */
#include "quant/turbo_weights.h"

#include "quant/family.h"
#include "quant/lanes.h"

#include <math.h>

typedef struct codebook {
    int count;
    float value[16], threshold[15]; /* a value equal to a threshold belongs above it */
} codebook;

static const codebook book3 = {
    8,
    {-1.996684f, -1.291398f, -0.740341f, -0.247508f, 0.230106f, 0.725222f, 1.277503f, 1.988943f},
    {-1.644041f, -1.015870f, -0.493925f, -0.008701f, 0.477664f, 1.001363f, 1.633223f}};
static const codebook book4 = {
    16,
    {-2.732590f, -2.069017f, -1.618046f, -1.256231f, -0.942340f, -0.656759f, -0.388048f, -0.128395f,
     0.128395f, 0.388048f, 0.656759f, 0.942340f, 1.256231f, 1.618046f, 2.069017f, 2.732590f},
    {-2.400804f, -1.843532f, -1.437139f, -1.099286f, -0.799550f, -0.522404f, -0.258222f, 0.0f,
     0.258222f, 0.522404f, 0.799550f, 1.099286f, 1.437139f, 1.843532f, 2.400804f}};

static const uint32_t minus_signs = 0x696b4b4au; /* bit i: value i is negated */
static const float norm = 0.17677669529663688f;  /* 1 / sqrt(32) */

static void hadamard(float v[32])
{
    for (int h = 1; h < 32; h *= 2)
        for (int i = 0; i < 32; i += 2 * h)
            for (int j = i; j < i + h; j++) {
                const float a = v[j], b = v[j + h];
                v[j] = a + b;
                v[j + h] = a - b;
            }
}

static void unrotate(float *dst, float v[32])
{
    hadamard(v);
    for (int i = 0; i < 32; i++) dst[i] = v[i] * (minus_signs >> i & 1 ? -norm : norm);
}

void ft_decode_tq3_1s(float *dst, const uint8_t *src, size_t blocks)
{
    for (; blocks--; src += 16, dst += 32) {
        const float d[2] = {rd_f16(src), rd_f16(src + 2)};
        float v[32];
        for (int i = 0; i < 32; i++) {
            const uint8_t *p = src + 4 + 3 * (i / 8);
            const uint32_t group = (uint32_t)rd16(p) | (uint32_t)p[2] << 16;
            v[i] = book3.value[group >> 3 * (i % 8) & 7] * d[i / 16];
        }
        unrotate(dst, v);
    }
}

void ft_decode_tq4_1s(float *dst, const uint8_t *src, size_t blocks)
{
    for (; blocks--; src += 20, dst += 32) {
        const float d[2] = {rd_f16(src), rd_f16(src + 2)};
        float v[32];
        for (int i = 0; i < 32; i++)
            v[i] = book4.value[src[4 + i / 2] >> 4 * (i % 2) & 15] * d[i / 16];
        unrotate(dst, v);
    }
}

const ft_tq_book *ft_tq_book_of(ft_type t)
{
    static const ft_tq_book three = {{-113, -73, -42, -14, 13, 41, 72, 112}, 0.0177042916f};
    static const ft_tq_book four = {
        {-104, -79, -62, -48, -36, -25, -15, -5, 5, 15, 25, 36, 48, 62, 79, 104}, 0.0261686014f};
    return t == FT_TQ3_1S ? &three : &four;
}

void ft_tq_hadamard(float *y, const float *x, int n)
{
    for (; n > 0; n -= 32, x += 32, y += 32) {
        float v[32];
        for (int i = 0; i < 32; i++) v[i] = minus_signs >> i & 1 ? -x[i] : x[i];
        hadamard(v);
        for (int i = 0; i < 32; i++) y[i] = v[i] * norm;
    }
}

/* The limit is far above what an f16 scale can hold, and keeps the sums of squares finite. */
static void rotate(float v[32], const float *src)
{
    const float limit = 1e9f;
    float x[32];
    for (int i = 0; i < 32; i++) {
        const float finite = isfinite(src[i]) ? src[i] : 0.0f;
        x[i] = finite > limit ? limit : finite < -limit ? -limit : finite;
    }
    ft_tq_hadamard(v, x, 32);
}

/* Codes of one half for scale d: the number of thresholds at or below each value. */
INLINE void assign(const codebook *c, uint8_t code[16], const float y[16], float d)
{
    const v4 inverse = splat(d > 1e-10f ? 1.0f / d : 0.0f);
    uint32_t above[16];
    for (int i = 0; i < 16; i += LANES) {
        const v4 t = load4(y + i) * inverse;
        m4 n = {0};
        for (int j = 0; j < c->count - 1; j++) n -= t >= splat(c->threshold[j]);
        memcpy(above + i, &n, sizeof n);
    }
    for (int i = 0; i < 16; i++) code[i] = (uint8_t)above[i];
}

/* Squared error of one half, added to sum in ascending order. */
INLINE float add_error(const codebook *c, const uint8_t code[16], const float y[16], float d,
                       float sum)
{
    for (int i = 0; i < 16; i++) {
        const float e = y[i] - c->value[code[i]] * d;
        sum += e * e;
    }
    return sum;
}

/* The search starts from one of nine common factors of the standard deviation of each half; then
 * each half alternates between codes and the least-squares scale. */
INLINE void fit(const codebook *c, uint8_t code[32], float d[2], const float y[32])
{
    static const float factor[9] = {0.6f, 0.7f, 0.8f, 0.9f, 1.0f, 1.1f, 1.2f, 1.35f, 1.5f};
    float rms[2], best = 1e30f, chosen = 1.0f;
    for (int h = 0; h < 2; h++) {
        float sum = 0;
        for (int i = 0; i < 16; i++) sum += y[16 * h + i] * y[16 * h + i];
        rms[h] = sqrtf(sum / 16.0f);
    }
    for (int f = 0; f < 9; f++) {
        float error = 0;
        for (int h = 0; h < 2; h++) {
            const float s = factor[f] * rms[h];
            assign(c, code + 16 * h, y + 16 * h, s);
            error = add_error(c, code + 16 * h, y + 16 * h, s, error);
        }
        if (error < best) {
            best = error;
            chosen = factor[f];
        }
    }
    for (int h = 0; h < 2; h++) {
        d[h] = chosen * rms[h];
        for (int round = 0; round < 6; round++) {
            assign(c, code + 16 * h, y + 16 * h, d[h]);
            float yc = 0, cc = 0;
            for (int i = 0; i < 16; i++) {
                const float v = c->value[code[16 * h + i]];
                yc += y[16 * h + i] * v;
                cc += v * v;
            }
            if (cc > 1e-10f) d[h] = yc / cc;
        }
        assign(c, code + 16 * h, y + 16 * h, d[h]);
    }
}

/* Column importances are not used: after the transform every coordinate is a mixture of all 32. */
void ft_encode_tq3_1s(uint8_t *dst, const float *src, size_t blocks, const float *weight)
{
    (void)weight;
    for (; blocks--; src += 32, dst += 16) {
        float y[32], d[2];
        uint8_t code[32];
        rotate(y, src);
        fit(&book3, code, d, y);
        wr_f16(dst, d[0]);
        wr_f16(dst + 2, d[1]);
        for (int g = 0; g < 4; g++) {
            uint32_t bits = 0;
            for (int i = 0; i < 8; i++) bits |= (uint32_t)code[8 * g + i] << 3 * i;
            wr16(dst + 4 + 3 * g, bits);
            dst[6 + 3 * g] = (uint8_t)(bits >> 16);
        }
    }
}

void ft_encode_tq4_1s(uint8_t *dst, const float *src, size_t blocks, const float *weight)
{
    (void)weight;
    for (; blocks--; src += 32, dst += 20) {
        float y[32], d[2];
        uint8_t code[32];
        rotate(y, src);
        fit(&book4, code, d, y);
        wr_f16(dst, d[0]);
        wr_f16(dst + 2, d[1]);
        for (int i = 0; i < 16; i++) dst[4 + i] = (uint8_t)(code[2 * i] | code[2 * i + 1] << 4);
    }
}
