/* All sums here run over ascending indices into one float, and multiply-adds are not fused, so that
 * the bytes are identical to those of other encoders of these formats. */
#include "quant/turbo.h"

#include "quant/family.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Tables for coordinates of variance 1/128. small is 127 times the ratio to the largest centre. */
static const ft_turbo_format format[FT_TURBO_MAX] = {
    [FT_TURBO2] = {2,
                   2,
                   {-0.133462f, -0.039994f, 0.039994f, 0.133462f},
                   {0, 0.086728f},
                   {-127, -38, 38, 127},
                   0.133462f / 127},
    [FT_TURBO3] = {3,
                   2,
                   {-0.190685f, -0.117832f, -0.065717f, -0.021460f, 0.021460f, 0.065717f, 0.117832f,
                    0.190685f},
                   {0, 0.043589f, 0.091775f, 0.154259f},
                   {-127, -78, -44, -14, 14, 44, 78, 127},
                   0.190685f / 127},
    [FT_TURBO3_REVISED] = {3,
                           2,
                           {-0.190207f, -0.118786f, -0.066822f, -0.021663f, 0.021663f, 0.066822f,
                            0.118786f, 0.190207f},
                           {0, 0.044243f, 0.092804f, 0.154496f},
                           {-127, -79, -45, -14, 14, 45, 79, 127},
                           0.190207f / 127},
    [FT_TURBO4] = {4,
                   2,
                   {-0.241529f, -0.182877f, -0.143016f, -0.111036f, -0.083292f, -0.058050f,
                    -0.034299f, -0.011349f, 0.011349f, 0.034299f, 0.058050f, 0.083292f, 0.111036f,
                    0.143016f, 0.182877f, 0.241529f},
                   {0, 0.022824f, 0.046174f, 0.070671f, 0.097164f, 0.127026f, 0.162947f, 0.212203f},
                   {-127, -96, -75, -58, -44, -31, -18, -6, 6, 18, 31, 44, 58, 75, 96, 127},
                   0.241529f / 127},
    [FT_TURBO4_LEGACY] = {4,
                          4, /* the second half word is zero */
                          {-0.173926f, -0.117195f, -0.089527f, -0.068756f, -0.051262f, -0.035597f,
                           -0.020989f, -0.006938f, 0.006938f, 0.020989f, 0.035597f, 0.051262f,
                           0.068756f, 0.089527f, 0.117195f, 0.173926f},
                          {0, 0.013963f, 0.028293f, 0.043430f, 0.060009f, 0.079142f, 0.103361f,
                           0.145560f},
                          {-127, -86, -65, -50, -37, -26, -15, -5, 5, 15, 26, 37, 50, 65, 86, 127},
                          0.173926f / 127},
};

/* Which values change their sign before and after the transform: bit i of the words. */
static const uint32_t before[4] = {0xe46a0359, 0x42f85949, 0xa4c63bbb, 0x49f250a9};
static const uint32_t after[4] = {0x16acee90, 0x3f628fdc, 0xb7a5357a, 0xbea56562};
static const float root64 = 0.125f, root128 = 0.08838834764831845f; /* 1 / sqrt(group) */

enum { MOST = 128 };

const ft_turbo_format *ft_turbo_of(ft_turbo t)
{
    assert((unsigned)t < FT_TURBO_MAX);
    return &format[t];
}

int ft_turbo_width(int d)
{
    return (d + 63) / 64 * 64;
}

int ft_turbo_group(int d)
{
    return ft_turbo_width(d) % MOST ? 64 : MOST;
}

size_t ft_turbo_group_bytes(ft_turbo t, int group)
{
    return (size_t)(ft_turbo_of(t)->head + group * format[t].bits / 8);
}

size_t ft_turbo_row_bytes(ft_turbo t, int d)
{
    const int group = ft_turbo_group(d);
    return (size_t)(ft_turbo_width(d) / group) * ft_turbo_group_bytes(t, group);
}

/* ---- the transform ---- */

static void hadamard(float *v, int n)
{
    for (int h = 1; h < n; h *= 2)
        for (int i = 0; i < n; i += 2 * h)
            for (int j = i; j < i + h; j++) {
                const float a = v[j], b = v[j + h];
                v[j] = a + b;
                v[j + h] = a - b;
            }
}

static inline float signed_by(const uint32_t *minus, int i, float x)
{
    return ft_f32_of_bits(ft_f32_bits(x) ^ (minus[i / 32] >> i % 32 & 1) << 31);
}

/* y = scale * signs(to) H signs(from) x for one group */
static void signed_hadamard(float *y, const float *x, int n, const uint32_t *from,
                            const uint32_t *to, float scale)
{
    for (int i = 0; i < n; i++) y[i] = signed_by(from, i, x[i]);
    hadamard(y, n);
    for (int i = 0; i < n; i++) y[i] = signed_by(to, i, y[i] * scale);
}

const uint32_t *ft_turbo_signs(int is_after)
{
    return is_after ? after : before;
}

float ft_turbo_root(int group)
{
    return group == MOST ? root128 : root64;
}

void ft_turbo_hadamard(float *y, const float *x, int d)
{
    const int width = ft_turbo_width(d), group = ft_turbo_group(d);
    if (y != x) memcpy(y, x, (size_t)d * sizeof *y);
    for (int i = d; i < width; i++) y[i] = 0;
    for (int i = 0; i < width; i += group)
        signed_hadamard(y + i, y + i, group, before, after, ft_turbo_root(group));
}

void ft_turbo_hadamard_inverse(float *x, float *y, int d)
{
    const int width = ft_turbo_width(d), group = ft_turbo_group(d);
    for (int i = 0; i < width; i += group)
        signed_hadamard(y + i, y + i, group, after, before, ft_turbo_root(group));
    if (x != y) memcpy(x, y, (size_t)d * sizeof *x);
}

/* ---- codes ---- */

static void pack(const ft_turbo_format *f, uint8_t *dst, const uint8_t *code, int n)
{
    if (f->bits == 4) {
        for (int i = 0; i < n / 2; i++) dst[i] = (uint8_t)(code[2 * i] | code[2 * i + 1] << 4);
        return;
    }
    for (int i = 0; i < n / 4; i++) {
        const uint8_t *c = code + 4 * i;
        dst[i] = (uint8_t)((c[0] & 3) | (c[1] & 3) << 2 | (c[2] & 3) << 4 | (c[3] & 3) << 6);
    }
    if (f->bits == 2) return;
    for (int i = 0; i < n / 8; i++) { /* the third bits follow all pairs */
        int bits = 0;
        for (int j = 0; j < 8; j++) bits |= code[8 * i + j] >> 2 << j;
        dst[n / 4 + i] = (uint8_t)bits;
    }
}

static int code_at(const ft_turbo_format *f, const uint8_t *src, int i, int n)
{
    if (f->bits == 4) return src[i / 2] >> 4 * (i % 2) & 15;
    const int low = src[i / 4] >> 2 * (i % 4) & 3;
    return f->bits == 2 ? low : low | (src[n / 4 + i / 8] >> i % 8 & 1) << 2;
}

/* The number of thresholds at or below each value. They are symmetric around zero: for a negative
 * value those that it is strictly beyond are counted. */
static void choose(const ft_turbo_format *f, uint8_t *code, const float *y, int n)
{
    const int half = 1 << (f->bits - 1);
    int above[MOST];
    for (int i = 0; i < n; i++) {
        int c = y[i] >= 0 ? half : half - 1;
        for (int j = 1; j < half; j++) c += (y[i] >= f->threshold[j]) - (y[i] < -f->threshold[j]);
        above[i] = c;
    }
    for (int i = 0; i < n; i++) code[i] = (uint8_t)above[i];
}

/* A group of 64 is scaled like one of 128, so that the same tables apply; the stored scale is the
 * ratio of two norms and compensates. */
static void encode_group(const ft_turbo_format *f, uint8_t *dst, const float *x, int n)
{
    float y[MOST], norm = 0, size = 0;
    uint8_t code[MOST];
    for (int i = 0; i < n; i++) norm += x[i] * x[i];
    norm = sqrtf(norm);
    const float inverse = norm > 1e-10f ? 1.0f / norm : 0.0f;
    for (int i = 0; i < n; i++) y[i] = x[i] * inverse;
    signed_hadamard(y, y, n, before, after, root128);
    choose(f, code, y, n);
    for (int i = 0; i < n; i++) size += f->value[code[i]] * f->value[code[i]];
    memset(dst, 0, (size_t)f->head);
    wr_f16(dst, norm / sqrtf(size));
    pack(f, dst + f->head, code, n);
}

void ft_turbo_encode(ft_turbo t, void *dst, const float *x, int d)
{
    const ft_turbo_format *f = ft_turbo_of(t);
    const int group = ft_turbo_group(d);
    const float limit = 1e9f; /* far above what the scale can hold; keeps the squares finite */
    uint8_t *to = dst;
    for (int at = 0; at < d; at += group, to += ft_turbo_group_bytes(t, group)) {
        float v[MOST];
        for (int i = 0; i < group; i++) {
            const float a = at + i < d ? x[at + i] : 0.0f, finite = a - a == 0 ? a : 0.0f;
            v[i] = finite > limit ? limit : finite < -limit ? -limit : finite;
        }
        encode_group(f, to, v, group);
    }
}

void ft_turbo_decode(ft_turbo t, float *y, const void *src, int d)
{
    const ft_turbo_format *f = ft_turbo_of(t);
    const int width = ft_turbo_width(d), group = ft_turbo_group(d);
    const uint8_t *from = src;
    for (int at = 0; at < width; at += group, from += ft_turbo_group_bytes(t, group)) {
        const float scale = rd_f16(from);
        for (int i = 0; i < group; i++)
            y[at + i] = f->value[code_at(f, from + f->head, i, group)] * scale;
    }
}
