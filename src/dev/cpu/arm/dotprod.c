/* The SDOT instruction: sixteen byte products into four sums at once.
 *
 * Weights are also repacked at bind, four rows woven into one another in pieces of four values. One
 * SDOT then takes four values of each of four rows against four activations, so the four sums are
 * four outputs: no adding across lanes, and one conversion and scaling for four rows. A group of
 * four rows holds its blocks one after the other:
 *   Q8_0  four f16 scales, 8 x 16 bytes
 *   Q4_0  four f16 scales, 4 x 16 bytes; nibbles are signed (their top bit is flipped)
 *   Q4_K  four f16 scales, four f16 minima, 8 x 4 block scales, 8 x 4 block minima, 32 x 16 bytes
 *   Q6_K  four f16 scales, 16 x 4 scales, 32 x 16 bytes of low nibbles, 16 x 16 of high pairs */
#include <arm_neon.h>

static inline int32x4_t dot16(int32x4_t acc, int8x16_t a, int8x16_t b)
{
    return vdotq_s32(acc, a, b);
}

#include "dev/cpu/arm/turbo.h"

/* Four values at `at` of each of four rows. */
static void weave(unsigned char *to, const unsigned char *from, size_t row_bytes, size_t at,
                  size_t bytes)
{
    for (int r = 0; r < 4; r++)
        memcpy(to + bytes * (size_t)r, from + row_bytes * (size_t)r + at, bytes);
}

INLINE float32x4_t f16x4_at(const unsigned char *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}

/* acc += w (four values of four rows) . x[4 lane ...] */
INLINE int32x4_t dot_lane(int32x4_t acc, int8x16_t w, int8x16_t x, const int lane)
{
    return lane == 0   ? vdotq_laneq_s32(acc, w, x, 0)
           : lane == 1 ? vdotq_laneq_s32(acc, w, x, 1)
           : lane == 2 ? vdotq_laneq_s32(acc, w, x, 2)
                       : vdotq_laneq_s32(acc, w, x, 3);
}

/* ---- Q8_0 ---- */

enum { Q8_0X4 = 136, Q4_0X4 = 72 };

static size_t q8_0_bytes(int k)
{
    return (size_t)(k / 32) * Q8_0X4;
}

static void q8_0_pack(unsigned char *to, const unsigned char *from, size_t row_bytes, int k)
{
    for (int b = 0; b < k / 32; b++, to += Q8_0X4, from += 34) {
        weave(to, from, row_bytes, 0, 2);
        for (size_t j = 0; j < 8; j++) weave(to + 8 + 16 * j, from, row_bytes, 2 + 4 * j, 4);
    }
}

INLINE void q8_0x4(float *const *y, const unsigned char *w, size_t group, int rows, int k,
                   const ft_col8 *x, const int n)
{
    for (int o = 0; o < rows; o += 4, w += group) {
        const unsigned char *p = w;
        float32x4_t s[FT_COLS];
        UNROLL for (int c = 0; c < n; c++) s[c] = vdupq_n_f32(0);
        for (int b = 0; b < k / 32; b++, p += Q8_0X4) {
            int32x4_t i[FT_COLS];
            int8x16_t q[FT_COLS];
            const float32x4_t d = f16x4_at(p);
            UNROLL for (int c = 0; c < n; c++) i[c] = vdupq_n_s32(0);
            UNROLL for (int h = 0; h < 2; h++)
            {
                UNROLL for (int c = 0; c < n; c++) q[c] = vld1q_s8(x[c].q + 32 * b + 16 * h);
                UNROLL for (int j = 0; j < 4; j++)
                {
                    const int8x16_t v = vld1q_s8((const int8_t *)p + 8 + 64 * h + 16 * j);
                    UNROLL for (int c = 0; c < n; c++) i[c] = dot_lane(i[c], v, q[c], j);
                }
            }
            UNROLL for (int c = 0; c < n; c++) s[c] =
                vfmaq_f32(s[c], vcvtq_f32_s32(i[c]), vmulq_n_f32(d, x[c].d[b]));
        }
        UNROLL for (int c = 0; c < n; c++) vst1q_f32(y[c] + o, s[c]);
    }
}

/* ---- Q4_0 ---- */

static size_t q4_0_bytes(int k)
{
    return (size_t)(k / 32) * Q4_0X4;
}

static void q4_0_pack(unsigned char *to, const unsigned char *from, size_t row_bytes, int k)
{
    for (int b = 0; b < k / 32; b++, to += Q4_0X4, from += 18) {
        weave(to, from, row_bytes, 0, 2);
        for (size_t j = 0; j < 4; j++) weave(to + 8 + 16 * j, from, row_bytes, 2 + 4 * j, 4);
        for (int i = 8; i < Q4_0X4; i++) to[i] ^= 0x88;
    }
}

/* A signed nibble in the upper half of a byte is sixteen times its value: the scale makes up. */
INLINE void q4_0x4(float *const *y, const unsigned char *w, size_t group, int rows, int k,
                   const ft_col8 *x, const int n)
{
    const int8x16_t high = vdupq_n_s8((int8_t)0xf0);
    for (int o = 0; o < rows; o += 4, w += group) {
        const unsigned char *p = w;
        float32x4_t s[FT_COLS];
        UNROLL for (int c = 0; c < n; c++) s[c] = vdupq_n_f32(0);
        for (int b = 0; b < k / 32; b++, p += Q4_0X4) {
            int32x4_t i[FT_COLS];
            int8x16_t q0[FT_COLS], q1[FT_COLS];
            const float32x4_t d = vmulq_n_f32(f16x4_at(p), 0.0625f);
            UNROLL for (int c = 0; c < n; c++)
            {
                i[c] = vdupq_n_s32(0);
                q0[c] = vld1q_s8(x[c].q + 32 * b);
                q1[c] = vld1q_s8(x[c].q + 32 * b + 16);
            }
            UNROLL for (int j = 0; j < 4; j++)
            {
                const int8x16_t v = vld1q_s8((const int8_t *)p + 8 + 16 * j);
                const int8x16_t lo = vshlq_n_s8(v, 4), hi = vandq_s8(v, high);
                UNROLL for (int c = 0; c < n; c++)
                {
                    i[c] = dot_lane(i[c], lo, q0[c], j);
                    i[c] = dot_lane(i[c], hi, q1[c], j);
                }
            }
            UNROLL for (int c = 0; c < n; c++) s[c] =
                vfmaq_f32(s[c], vcvtq_f32_s32(i[c]), vmulq_n_f32(d, x[c].d[b]));
        }
        UNROLL for (int c = 0; c < n; c++) vst1q_f32(y[c] + o, s[c]);
    }
}

/* ---- Q4_K ---- */

enum { Q4_KX4 = 592, Q6_KX4 = 840 };

static size_t q4_k_bytes(int k)
{
    return (size_t)(k / 256) * Q4_KX4;
}

static void q4_k_pack(unsigned char *to, const unsigned char *from, size_t row_bytes, int k)
{
    for (int s = 0; s < k / 256; s++, to += Q4_KX4, from += 144) {
        weave(to, from, row_bytes, 0, 2);
        weave(to + 8, from, row_bytes, 2, 2);
        for (int r = 0; r < 4; r++) {
            const unsigned char *m = from + (size_t)r * row_bytes + 4;
            for (int b = 0; b < 8; b++) {
                const int lo = b < 4;
                to[16 + 4 * b + r] =
                    (unsigned char)(lo ? m[b] & 63 : (m[b + 4] & 15) | m[b - 4] >> 6 << 4);
                to[48 + 4 * b + r] =
                    (unsigned char)(lo ? m[b + 4] & 63 : m[b + 4] >> 4 | m[b] >> 6 << 4);
            }
        }
        for (size_t j = 0; j < 32; j++) weave(to + 80 + 16 * j, from, row_bytes, 16 + 4 * j, 4);
    }
}

INLINE void q4_kx4(float *const *y, const unsigned char *w, size_t group, int rows, int k,
                   const ft_col8 *x, const int n)
{
    const uint8x16_t low = vdupq_n_u8(15);
    for (int o = 0; o < rows; o += 4, w += group) {
        const unsigned char *p = w;
        float32x4_t s[FT_COLS], m[FT_COLS];
        UNROLL for (int c = 0; c < n; c++) s[c] = m[c] = vdupq_n_f32(0);
        for (int b = 0; b < k / 32; b += 2) {
            const int in = b % 8;
            const unsigned char *v = p + 80 + 64 * in;
            const float32x4x2_t sc = u8_to_f32(vld1_u8(p + 16 + 4 * in));
            const float32x4x2_t mn = u8_to_f32(vld1_u8(p + 48 + 4 * in));
            const float32x4_t d = f16x4_at(p), dm = f16x4_at(p + 8);
            int32x4_t i0[FT_COLS], i1[FT_COLS];
            UNROLL for (int c = 0; c < n; c++) i0[c] = i1[c] = vdupq_n_s32(0);
            UNROLL for (int h = 0; h < 2; h++)
            {
                int8x16_t q0[FT_COLS], q1[FT_COLS];
                UNROLL for (int c = 0; c < n; c++)
                {
                    q0[c] = vld1q_s8(x[c].q + 32 * b + 16 * h);
                    q1[c] = vld1q_s8(x[c].q + 32 * b + 32 + 16 * h);
                }
                UNROLL for (int j = 0; j < 4; j++)
                {
                    const uint8x16_t u = vld1q_u8(v + 64 * h + 16 * j);
                    const int8x16_t lo = vreinterpretq_s8_u8(vandq_u8(u, low));
                    const int8x16_t hi = vreinterpretq_s8_u8(vshrq_n_u8(u, 4));
                    UNROLL for (int c = 0; c < n; c++)
                    {
                        i0[c] = dot_lane(i0[c], lo, q0[c], j);
                        i1[c] = dot_lane(i1[c], hi, q1[c], j);
                    }
                }
            }
            const float32x4_t d0 = vmulq_f32(d, sc.val[0]), d1 = vmulq_f32(d, sc.val[1]);
            const float32x4_t m0 = vmulq_f32(dm, mn.val[0]), m1 = vmulq_f32(dm, mn.val[1]);
            UNROLL for (int c = 0; c < n; c++)
            {
                const float32x4_t four = vld1q_f32(x[c].s + 2 * b);
                const float32x4_t two = vpaddq_f32(four, four);
                s[c] = vfmaq_f32(s[c], vcvtq_f32_s32(i0[c]), vmulq_n_f32(d0, x[c].d[b]));
                s[c] = vfmaq_f32(s[c], vcvtq_f32_s32(i1[c]), vmulq_n_f32(d1, x[c].d[b + 1]));
                m[c] = vfmaq_laneq_f32(m[c], m0, two, 0);
                m[c] = vfmaq_laneq_f32(m[c], m1, two, 1);
            }
            if (in == 6) p += Q4_KX4;
        }
        UNROLL for (int c = 0; c < n; c++) vst1q_f32(y[c] + o, vsubq_f32(s[c], m[c]));
    }
}

/* ---- Q6_K ---- */

static size_t q6_k_bytes(int k)
{
    return (size_t)(k / 256) * Q6_KX4;
}

static void q6_k_pack(unsigned char *to, const unsigned char *from, size_t row_bytes, int k)
{
    for (int s = 0; s < k / 256; s++, to += Q6_KX4, from += 210) {
        weave(to, from, row_bytes, 208, 2);
        for (size_t b = 0; b < 16; b++) weave(to + 8 + 4 * b, from, row_bytes, 192 + b, 1);
        for (size_t j = 0; j < 32; j++) weave(to + 72 + 16 * j, from, row_bytes, 4 * j, 4);
        for (size_t j = 0; j < 16; j++) weave(to + 584 + 16 * j, from, row_bytes, 128 + 4 * j, 4);
    }
}

/* Half a block: sixteen values of four rows, each with the integer scale of its row. */
INLINE void q6_half(int32x4_t *sum, const unsigned char *ql, const unsigned char *qh,
                    const int8_t *scale, const ft_col8 *x, const int n, int at, const int j)
{
    const int8x16_t mid = vdupq_n_s8(32);
    int32x4_t i[FT_COLS];
    int8x16_t q[FT_COLS];
    UNROLL for (int c = 0; c < n; c++)
    {
        i[c] = vdupq_n_s32(0);
        q[c] = vld1q_s8(x[c].q + at);
    }
    UNROLL for (int v = 0; v < 4; v++)
    {
        const uint8x16_t h = vshlq_n_u8(pair(vld1q_u8(qh + 16 * v), j), 4);
        const int8x16_t lo = nibble(vld1q_u8(ql + 16 * v), j / 2);
        const int8x16_t wv = vsubq_s8(vorrq_s8(lo, vreinterpretq_s8_u8(h)), mid);
        UNROLL for (int c = 0; c < n; c++) i[c] = dot_lane(i[c], wv, q[c], v);
    }
    int32_t four;
    memcpy(&four, scale, 4);
    const int32x4_t sc = vmovl_s16(vget_low_s16(vmovl_s8(vcreate_s8((uint32_t)four))));
    UNROLL for (int c = 0; c < n; c++) sum[c] = vmlaq_s32(sum[c], i[c], sc);
}

INLINE void q6_kx4(float *const *y, const unsigned char *w, size_t group, int rows, int k,
                   const ft_col8 *x, const int n)
{
    for (int o = 0; o < rows; o += 4, w += group) {
        const unsigned char *p = w;
        float32x4_t s[FT_COLS];
        UNROLL for (int c = 0; c < n; c++) s[c] = vdupq_n_f32(0);
        for (int b = 0; b < k / 32; b += 4, p += b % 8 ? 0 : Q6_KX4) {
            const int g = b % 8 / 4;
            const unsigned char *ql = p + 72 + 256 * g, *qh = p + 584 + 128 * g;
            const int8_t *scale = (const int8_t *)p + 8 + 32 * g;
            const float32x4_t d = f16x4_at(p);
            UNROLL for (int j = 0; j < 4; j++)
            {
                int32x4_t sum[FT_COLS];
                const int at = 32 * (b + j);
                UNROLL for (int c = 0; c < n; c++) sum[c] = vdupq_n_s32(0);
                q6_half(sum, ql + 128 * (j & 1), qh, scale + 8 * j, x, n, at, j);
                q6_half(sum, ql + 128 * (j & 1) + 64, qh + 64, scale + 8 * j + 4, x, n, at + 16, j);
                UNROLL for (int c = 0; c < n; c++) s[c] =
                    vfmaq_f32(s[c], vcvtq_f32_s32(sum[c]), vmulq_n_f32(d, x[c].d[b + j]));
            }
        }
        UNROLL for (int c = 0; c < n; c++) vst1q_f32(y[c] + o, s[c]);
    }
}

#define CALL_Q8_0X4(n) q8_0x4(y, w, row_bytes, rows, k, x, n)
#define CALL_Q4_0X4(n) q4_0x4(y, w, row_bytes, rows, k, x, n)
#define CALL_Q4_KX4(n) q4_kx4(y, w, row_bytes, rows, k, x, n)
#define CALL_Q6_KX4(n) q6_kx4(y, w, row_bytes, rows, k, x, n)
FT_DOT8(dot_q8_0x4, CALL_Q8_0X4)
FT_DOT8(dot_q4_0x4, CALL_Q4_0X4)
FT_DOT8(dot_q4_kx4, CALL_Q4_KX4)
FT_DOT8(dot_q6_kx4, CALL_Q6_KX4)

void ft_kern_dotprod(ft_kern *k)
{
    fill_dot8(k);
    fill_turbo(k);
    k->pack[FT_Q8_0] = (ft_pack){4, 4, q8_0_bytes, q8_0_pack, dot_q8_0x4};
    k->pack[FT_Q4_0] = (ft_pack){4, 4, q4_0_bytes, q4_0_pack, dot_q4_0x4};
    k->pack[FT_Q4_K] = (ft_pack){4, 4, q4_k_bytes, q4_k_pack, dot_q4_kx4};
    k->pack[FT_Q6_K] = (ft_pack){4, 4, q6_k_bytes, q6_k_pack, dot_q6_kx4};
}
