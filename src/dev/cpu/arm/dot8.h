/* dev/cpu/arm/dot8.h - products of quantised weight rows with byte activations, for a file that
 * includes this and defines
 *     static inline int32x4_t dot16(int32x4_t acc, int8x16_t a, int8x16_t b)
 * Weights are processed 128 at a time: four blocks of 32 with one vector of four scales. A block is
 * unpacked once for all columns; each column has two accumulators, for even and odd blocks. */
#ifndef FT_DEV_CPU_ARM_DOT8_H
#define FT_DEV_CPU_ARM_DOT8_H

#include "base/half.h"
#include "dev/cpu/arm/vec.h"

#include <string.h>

typedef struct sums {
    float32x4_t even[FT_COLS], odd[FT_COLS], scale[FT_COLS], min[FT_COLS];
} sums;

INLINE float f16_bits(const unsigned char *p)
{
    float16_t h;
    memcpy(&h, p, 2);
    return (float)h;
}

/* Four f16 values `step` bytes apart. */
INLINE float32x4_t f16x4(const unsigned char *p, size_t step)
{
    uint16_t h[4];
    for (int i = 0; i < 4; i++) memcpy(h + i, p + step * (size_t)i, 2);
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(h)));
}

INLINE void sums_zero(sums *a, int n)
{
    UNROLL for (int c = 0; c < n; c++) a->even[c] = a->odd[c] = a->min[c] = vdupq_n_f32(0);
}

/* The scales of the four blocks from b on: weight times activation. */
INLINE void sums_scale(sums *a, float32x4_t dw, const ft_col8 *x, int n, int b)
{
    UNROLL for (int c = 0; c < n; c++) a->scale[c] = vmulq_f32(dw, vld1q_f32(x[c].d + b));
}

/* Minima of the four blocks from b on, times the sums of their activations. */
INLINE void sums_min(sums *a, float32x4_t m, const ft_col8 *x, int n, int b)
{
    UNROLL for (int c = 0; c < n; c++)
    {
        const float *s = x[c].s + 2 * b;
        a->min[c] = vfmaq_f32(a->min[c], m, vpaddq_f32(vld1q_f32(s), vld1q_f32(s + 4)));
    }
}

INLINE void sums_add(float32x4_t *acc, int32x4_t p, float32x4_t scale, const int lane)
{
    const float32x4_t f = vcvtq_f32_s32(p);
    *acc = lane == 0   ? vfmaq_laneq_f32(*acc, f, scale, 0)
           : lane == 1 ? vfmaq_laneq_f32(*acc, f, scale, 1)
           : lane == 2 ? vfmaq_laneq_f32(*acc, f, scale, 2)
                       : vfmaq_laneq_f32(*acc, f, scale, 3);
}

/* Block number b + lane: 32 weights with one scale. */
INLINE void sums_block(sums *a, int8x16_t w0, int8x16_t w1, const ft_col8 *x, int n, int b,
                       const int lane)
{
    UNROLL for (int c = 0; c < n; c++)
    {
        const int8_t *q = x[c].q + 32 * (b + lane);
        int32x4_t p = dot16(vdupq_n_s32(0), w0, vld1q_s8(q));
        p = dot16(p, w1, vld1q_s8(q + 16));
        sums_add(lane & 1 ? &a->odd[c] : &a->even[c], p, a->scale[c], lane);
    }
}

/* The same with an integer scale for each half of the block. */
INLINE void sums_halves(sums *a, int8x16_t w0, int8x16_t w1, int s0, int s1, const ft_col8 *x,
                        int n, int b, const int lane)
{
    UNROLL for (int c = 0; c < n; c++)
    {
        const int8_t *q = x[c].q + 32 * (b + lane);
        int32x4_t p = vmulq_n_s32(dot16(vdupq_n_s32(0), w0, vld1q_s8(q)), s0);
        p = vmlaq_n_s32(p, dot16(vdupq_n_s32(0), w1, vld1q_s8(q + 16)), s1);
        sums_add(lane & 1 ? &a->odd[c] : &a->even[c], p, a->scale[c], lane);
    }
}

INLINE void sums_store(const sums *a, float *const *y, int o, int n)
{
    UNROLL for (int c = 0; c < n; c++) y[c][o] =
        vaddvq_f32(vsubq_f32(vaddq_f32(a->even[c], a->odd[c]), a->min[c]));
}

/* ---- blocks of 32: one scale each, the last group may be short ---- */

enum { KIND_Q8_0, KIND_Q4_0, KIND_IQ4_NL };

INLINE int8x16x2_t block32(const unsigned char *p, const int kind, int8x16_t table)
{
    if (kind == KIND_Q8_0)
        return (int8x16x2_t){{vld1q_s8((const int8_t *)p + 2), vld1q_s8((const int8_t *)p + 18)}};
    const uint8x16_t b = vld1q_u8(p + 2);
    const uint8x16_t lo = vandq_u8(b, vdupq_n_u8(15)), hi = vshrq_n_u8(b, 4);
    if (kind == KIND_IQ4_NL) return (int8x16x2_t){{vqtbl1q_s8(table, lo), vqtbl1q_s8(table, hi)}};
    const int8x16_t eight = vdupq_n_s8(8);
    return (int8x16x2_t){
        {vsubq_s8(vreinterpretq_s8_u8(lo), eight), vsubq_s8(vreinterpretq_s8_u8(hi), eight)}};
}

INLINE void simple(float *const *y, const unsigned char *w, size_t row_bytes, int rows, int k,
                   const ft_col8 *x, const int n, const int kind, const int bytes)
{
    const int8x16_t table = vld1q_s8(iq4_steps);
    for (int o = 0; o < rows; o++, w += row_bytes) {
        const unsigned char *p = w;
        sums a;
        int b = 0;
        sums_zero(&a, n);
        for (; b + 4 <= k / 32; b += 4, p += 4 * bytes) {
            sums_scale(&a, f16x4(p, (size_t)bytes), x, n, b);
            UNROLL for (int j = 0; j < 4; j++)
            {
                const int8x16x2_t q = block32(p + j * bytes, kind, table);
                sums_block(&a, q.val[0], q.val[1], x, n, b, j);
            }
        }
        for (; b < k / 32; b++, p += bytes) {
            const int8x16x2_t q = block32(p, kind, table);
            UNROLL for (int c = 0; c < n; c++) a.scale[c] = vdupq_n_f32(f16_bits(p) * x[c].d[b]);
            sums_block(&a, q.val[0], q.val[1], x, n, b, 0);
        }
        sums_store(&a, y, o, n);
    }
}

/* ---- blocks of 256 ---- */

/* The eight 6-bit scales and minima of Q4_K and Q5_K as floats, times d and dmin. */
typedef struct scales8 {
    float32x4_t scale[2], min[2];
} scales8;

INLINE float32x4x2_t u8_to_f32(uint8x8_t v)
{
    const uint16x8_t h = vmovl_u8(v);
    return (float32x4x2_t){
        {vcvtq_f32_u32(vmovl_u16(vget_low_u16(h))), vcvtq_f32_u32(vmovl_u16(vget_high_u16(h)))}};
}

INLINE scales8 scales_k4(const unsigned char *p)
{
    uint32_t u[3];
    memcpy(u, p + 4, 12);
    const uint64_t lo = u[0] & 0x3f3f3f3fu, lo_m = u[1] & 0x3f3f3f3fu;
    const uint64_t hi = (u[2] & 0x0f0f0f0fu) | (u[0] >> 6 & 0x03030303u) << 4;
    const uint64_t hi_m = (u[2] >> 4 & 0x0f0f0f0fu) | (u[1] >> 6 & 0x03030303u) << 4;
    const float d = f16_bits(p), dmin = f16_bits(p + 2);
    const float32x4x2_t s = u8_to_f32(vcreate_u8(lo | hi << 32));
    const float32x4x2_t m = u8_to_f32(vcreate_u8(lo_m | hi_m << 32));
    return (scales8){{vmulq_n_f32(s.val[0], d), vmulq_n_f32(s.val[1], d)},
                     {vmulq_n_f32(m.val[0], dmin), vmulq_n_f32(m.val[1], dmin)}};
}

INLINE int8x16_t nibble(uint8x16_t b, const int high)
{
    return vreinterpretq_s8_u8(high ? vshrq_n_u8(b, 4) : vandq_u8(b, vdupq_n_u8(15)));
}

INLINE void q4_k(float *const *y, const unsigned char *w, size_t row_bytes, int rows, int k,
                 const ft_col8 *x, const int n)
{
    for (int o = 0; o < rows; o++, w += row_bytes) {
        const unsigned char *p = w;
        sums a;
        sums_zero(&a, n);
        for (int b = 0; b < k / 32; b += 8, p += 144) {
            const scales8 s = scales_k4(p);
            UNROLL for (int g = 0; g < 2; g++)
            {
                sums_scale(&a, s.scale[g], x, n, b + 4 * g);
                sums_min(&a, s.min[g], x, n, b + 4 * g);
                UNROLL for (int j = 0; j < 4; j += 2)
                {
                    const unsigned char *q = p + 16 + 64 * g + 16 * j;
                    const uint8x16_t u = vld1q_u8(q), v = vld1q_u8(q + 16);
                    sums_block(&a, nibble(u, 0), nibble(v, 0), x, n, b + 4 * g, j);
                    sums_block(&a, nibble(u, 1), nibble(v, 1), x, n, b + 4 * g, j + 1);
                }
            }
        }
        sums_store(&a, y, o, n);
    }
}

/* Bit number `bit` of each byte, as 16 or 0. */
INLINE int8x16_t bit16(uint8x16_t h, int bit)
{
    const uint8x16_t one = vandq_u8(vshlq_u8(h, vdupq_n_s8((int8_t)-bit)), vdupq_n_u8(1));
    return vreinterpretq_s8_u8(vshlq_n_u8(one, 4));
}

INLINE void q5_k(float *const *y, const unsigned char *w, size_t row_bytes, int rows, int k,
                 const ft_col8 *x, const int n)
{
    for (int o = 0; o < rows; o++, w += row_bytes) {
        const unsigned char *p = w;
        sums a;
        sums_zero(&a, n);
        for (int b = 0; b < k / 32; b += 8, p += 176) {
            const scales8 s = scales_k4(p);
            const uint8x16_t h0 = vld1q_u8(p + 16), h1 = vld1q_u8(p + 32);
            UNROLL for (int g = 0; g < 2; g++)
            {
                sums_scale(&a, s.scale[g], x, n, b + 4 * g);
                sums_min(&a, s.min[g], x, n, b + 4 * g);
                UNROLL for (int j = 0; j < 4; j++)
                {
                    const unsigned char *q = p + 48 + 64 * g + 32 * (j / 2);
                    const int8x16_t u = nibble(vld1q_u8(q), j & 1);
                    const int8x16_t v = nibble(vld1q_u8(q + 16), j & 1);
                    sums_block(&a, vorrq_s8(u, bit16(h0, 4 * g + j)),
                               vorrq_s8(v, bit16(h1, 4 * g + j)), x, n, b + 4 * g, j);
                }
            }
        }
        sums_store(&a, y, o, n);
    }
}

/* Bits 2j and 2j + 1 of each byte. */
INLINE uint8x16_t pair(uint8x16_t b, const int j)
{
    const uint8x16_t three = vdupq_n_u8(3);
    return j == 0   ? vandq_u8(b, three)
           : j == 1 ? vandq_u8(vshrq_n_u8(b, 2), three)
           : j == 2 ? vandq_u8(vshrq_n_u8(b, 4), three)
                    : vshrq_n_u8(b, 6);
}

INLINE void q6_k(float *const *y, const unsigned char *w, size_t row_bytes, int rows, int k,
                 const ft_col8 *x, const int n)
{
    const int8x16_t mid = vdupq_n_s8(32);
    for (int o = 0; o < rows; o++, w += row_bytes) {
        const unsigned char *p = w;
        sums a;
        sums_zero(&a, n);
        for (int b = 0; b < k / 32; b += 8, p += 210) {
            const float32x4_t d = vdupq_n_f32(f16_bits(p + 208));
            const int8_t *sc = (const int8_t *)p + 192;
            UNROLL for (int g = 0; g < 2; g++)
            {
                const unsigned char *ql = p + 64 * g, *qh = p + 128 + 32 * g;
                const uint8x16_t h0 = vld1q_u8(qh), h1 = vld1q_u8(qh + 16);
                sums_scale(&a, d, x, n, b + 4 * g);
                UNROLL for (int j = 0; j < 4; j++)
                {
                    const uint8x16_t u = vld1q_u8(ql + 32 * (j & 1));
                    const uint8x16_t v = vld1q_u8(ql + 32 * (j & 1) + 16);
                    const uint8x16_t hu = vshlq_n_u8(pair(h0, j), 4);
                    const uint8x16_t hv = vshlq_n_u8(pair(h1, j), 4);
                    const int8x16_t w0 = vorrq_s8(nibble(u, j / 2), vreinterpretq_s8_u8(hu));
                    const int8x16_t w1 = vorrq_s8(nibble(v, j / 2), vreinterpretq_s8_u8(hv));
                    sums_halves(&a, vsubq_s8(w0, mid), vsubq_s8(w1, mid), sc[8 * g + 2 * j],
                                sc[8 * g + 2 * j + 1], x, n, b + 4 * g, j);
                }
            }
        }
        sums_store(&a, y, o, n);
    }
}

INLINE void q3_k(float *const *y, const unsigned char *w, size_t row_bytes, int rows, int k,
                 const ft_col8 *x, const int n)
{
    for (int o = 0; o < rows; o++, w += row_bytes) {
        const unsigned char *p = w;
        sums a;
        sums_zero(&a, n);
        for (int b = 0; b < k / 32; b += 8, p += 110) {
            const float32x4_t d = vdupq_n_f32(f16_bits(p + 108));
            const uint8x16_t h0 = vld1q_u8(p), h1 = vld1q_u8(p + 16);
            UNROLL for (int g = 0; g < 2; g++)
            {
                const uint8x16_t u = vld1q_u8(p + 32 + 32 * g), v = vld1q_u8(p + 48 + 32 * g);
                sums_scale(&a, d, x, n, b + 4 * g);
                UNROLL for (int j = 0; j < 4; j++)
                {
                    int s[2];
                    for (int i = 0; i < 2; i++) {
                        const int at = 8 * g + 2 * j + i;
                        const int lo = p[96 + at % 8] >> 4 * g & 15;
                        s[i] = (lo | (p[104 + at % 4] >> 2 * (at / 4) & 3) << 4) - 32;
                    }
                    /* the high bit adds four; four is subtracted if it is not set */
                    const uint8x16_t f0 = vtstq_u8(h0, vdupq_n_u8((uint8_t)(1 << (4 * g + j))));
                    const uint8x16_t f1 = vtstq_u8(h1, vdupq_n_u8((uint8_t)(1 << (4 * g + j))));
                    const uint8x16_t m0 = vbicq_u8(vdupq_n_u8(4), f0);
                    const uint8x16_t m1 = vbicq_u8(vdupq_n_u8(4), f1);
                    sums_halves(&a, vreinterpretq_s8_u8(vsubq_u8(pair(u, j), m0)),
                                vreinterpretq_s8_u8(vsubq_u8(pair(v, j), m1)), s[0], s[1], x, n,
                                b + 4 * g, j);
                }
            }
        }
        sums_store(&a, y, o, n);
    }
}

INLINE void q2_k(float *const *y, const unsigned char *w, size_t row_bytes, int rows, int k,
                 const ft_col8 *x, const int n)
{
    for (int o = 0; o < rows; o++, w += row_bytes) {
        const unsigned char *p = w;
        sums a;
        sums_zero(&a, n);
        for (int b = 0; b < k / 32; b += 8, p += 84) {
            const float32x4_t d = vdupq_n_f32(f16_bits(p + 80));
            const float dmin = f16_bits(p + 82);
            UNROLL for (int g = 0; g < 2; g++)
            {
                const uint8x16_t u = vld1q_u8(p + 16 + 32 * g), v = vld1q_u8(p + 32 + 32 * g);
                const float32x4x2_t m = u8_to_f32(vshr_n_u8(vld1_u8(p + 8 * g), 4));
                sums_scale(&a, d, x, n, b + 4 * g);
                UNROLL for (int c = 0; c < n; c++)
                {
                    const float *s = x[c].s + 2 * (b + 4 * g);
                    a.min[c] = vfmaq_f32(a.min[c], vmulq_n_f32(m.val[0], dmin), vld1q_f32(s));
                    a.min[c] = vfmaq_f32(a.min[c], vmulq_n_f32(m.val[1], dmin), vld1q_f32(s + 4));
                }
                UNROLL for (int j = 0; j < 4; j++) sums_halves(
                    &a, vreinterpretq_s8_u8(pair(u, j)), vreinterpretq_s8_u8(pair(v, j)),
                    p[8 * g + 2 * j] & 15, p[8 * g + 2 * j + 1] & 15, x, n, b + 4 * g, j);
            }
        }
        sums_store(&a, y, o, n);
    }
}

INLINE void iq4_xs(float *const *y, const unsigned char *w, size_t row_bytes, int rows, int k,
                   const ft_col8 *x, const int n)
{
    const int8x16_t table = vld1q_s8(iq4_steps);
    for (int o = 0; o < rows; o++, w += row_bytes) {
        const unsigned char *p = w;
        sums a;
        sums_zero(&a, n);
        for (int b = 0; b < k / 32; b += 8, p += 136) {
            const float d = f16_bits(p);
            const int high = p[2] | p[3] << 8;
            UNROLL for (int g = 0; g < 2; g++)
            {
                float dw[4];
                for (int j = 0; j < 4; j++) {
                    const int at = 4 * g + j, lo = p[4 + at / 2] >> 4 * (at % 2) & 15;
                    dw[j] = d * (float)((lo | (high >> 2 * at & 3) << 4) - 32);
                }
                sums_scale(&a, vld1q_f32(dw), x, n, b + 4 * g);
                UNROLL for (int j = 0; j < 4; j++)
                {
                    const int8x16x2_t q = block32(p + 6 + 64 * g + 16 * j, KIND_IQ4_NL, table);
                    sums_block(&a, q.val[0], q.val[1], x, n, b + 4 * g, j);
                }
            }
        }
        sums_store(&a, y, o, n);
    }
}

/* One function per type, with the same code for one to four columns. */
#define FT_DOT8(name, call)                                                                        \
    static void name(float *const *y, const unsigned char *w, size_t row_bytes, int rows, int k,   \
                     const ft_col8 *x, int n)                                                      \
    {                                                                                              \
        if (n == 1) call(1);                                                                       \
        if (n == 2) call(2);                                                                       \
        if (n == 3) call(3);                                                                       \
        if (n == 4) call(4);                                                                       \
    }
#define CALL_Q8_0(n)   simple(y, w, row_bytes, rows, k, x, n, KIND_Q8_0, 34)
#define CALL_Q4_0(n)   simple(y, w, row_bytes, rows, k, x, n, KIND_Q4_0, 18)
#define CALL_IQ4_NL(n) simple(y, w, row_bytes, rows, k, x, n, KIND_IQ4_NL, 18)
#define CALL_Q4_K(n)   q4_k(y, w, row_bytes, rows, k, x, n)
#define CALL_Q5_K(n)   q5_k(y, w, row_bytes, rows, k, x, n)
#define CALL_Q6_K(n)   q6_k(y, w, row_bytes, rows, k, x, n)
#define CALL_Q3_K(n)   q3_k(y, w, row_bytes, rows, k, x, n)
#define CALL_Q2_K(n)   q2_k(y, w, row_bytes, rows, k, x, n)
#define CALL_IQ4_XS(n) iq4_xs(y, w, row_bytes, rows, k, x, n)
FT_DOT8(dot_q8_0, CALL_Q8_0)
FT_DOT8(dot_q4_0, CALL_Q4_0)
FT_DOT8(dot_iq4_nl, CALL_IQ4_NL)
FT_DOT8(dot_q4_k, CALL_Q4_K)
FT_DOT8(dot_q5_k, CALL_Q5_K)
FT_DOT8(dot_q6_k, CALL_Q6_K)
FT_DOT8(dot_q3_k, CALL_Q3_K)
FT_DOT8(dot_q2_k, CALL_Q2_K)
FT_DOT8(dot_iq4_xs, CALL_IQ4_XS)

static void fill_dot8(ft_kern *k)
{
    k->dot8[FT_Q8_0] = dot_q8_0;
    k->dot8[FT_Q4_0] = dot_q4_0;
    k->dot8[FT_IQ4_NL] = dot_iq4_nl;
    k->dot8[FT_Q4_K] = dot_q4_k;
    k->dot8[FT_Q5_K] = dot_q5_k;
    k->dot8[FT_Q6_K] = dot_q6_k;
    k->dot8[FT_Q3_K] = dot_q3_k;
    k->dot8[FT_Q2_K] = dot_q2_k;
    k->dot8[FT_IQ4_XS] = dot_iq4_xs;
}

#endif
