/* dev/cpu/arm/turbo.h - turbo caches, for a file that includes this and defines dot16 (see dot8.h).
 * Codes are unpacked from sixteen bytes at a time: 32 of four bits, or 64 of two or three. A table
 * look-up turns a code into a byte of the codebook. For values two look-ups give the upper half of
 * a float, which has all significant bits of the codebook: no conversion is needed. */
#ifndef FT_DEV_CPU_ARM_TURBO_H
#define FT_DEV_CPU_ARM_TURBO_H

#include "dev/cpu/arm/dot8.h"
#include "dev/cpu/kern_turbo.h"

/* The codes of run number r of a group in planes; a run is sixteen bytes of pairs or nibbles. */
INLINE void turbo_codes(uint8x16_t *code, const unsigned char *p, int r, int group, const int bits)
{
    const uint8x16_t c = vld1q_u8(p + 16 * r);
    if (bits == 4) {
        code[0] = vandq_u8(c, vdupq_n_u8(15));
        code[1] = vshrq_n_u8(c, 4);
        return;
    }
    if (bits == 2) {
        const uint8x16_t three = vdupq_n_u8(3);
        code[0] = vandq_u8(c, three);
        code[1] = vandq_u8(vshrq_n_u8(c, 2), three);
        code[2] = vandq_u8(vshrq_n_u8(c, 4), three);
        code[3] = vshrq_n_u8(c, 6);
        return;
    }
    /* The third bits of four values fill half a byte: byte i of h gets those of byte i of c. They
     * are placed above the pair, which has been shifted to the bottom. */
    const uint8x8_t t = vld1_u8(p + group / 4 + 8 * r);
    const uint8x16_t h = vzip1q_u8(vcombine_u8(t, t), vcombine_u8(vshr_n_u8(t, 4), t));
    const uint8x16_t seven = vdupq_n_u8(7);
    code[0] = vandq_u8(vsliq_n_u8(c, h, 2), seven);
    code[1] = vandq_u8(vsliq_n_u8(vshrq_n_u8(c, 2), vshrq_n_u8(h, 1), 2), seven);
    code[2] = vandq_u8(vsliq_n_u8(vshrq_n_u8(c, 4), vshrq_n_u8(h, 2), 2), seven);
    code[3] = vandq_u8(vsliq_n_u8(vshrq_n_u8(c, 6), vshrq_n_u8(h, 3), 2), seven);
}

INLINE void turbo_dot(const turbo_format t, float *const *y, const unsigned char *w,
                      size_t row_bytes, int rows, int k, const ft_col8 *x, const int n)
{
    const int group = ft_turbo_group(k), planes = t.bits == 4 ? 2 : 4, runs = group / 16 / planes;
    const size_t bytes = ft_turbo_group_bytes(t.type, group);
    const int8x16_t book = vld1q_s8(ft_turbo_of(t.type)->small);
    for (int o = 0; o < rows; o++, w += row_bytes) {
        const unsigned char *p = w;
        float sum[FT_COLS] = {0};
        for (int g = 0; g < k / group; g++, p += bytes) {
            int32x4_t s[FT_COLS][2];
            UNROLL for (int c = 0; c < n; c++) s[c][0] = s[c][1] = vdupq_n_s32(0);
            for (int r = 0; r < runs; r++) {
                uint8x16_t code[4];
                turbo_codes(code, p + t.head, r, group, t.bits);
                UNROLL for (int j = 0; j < planes; j++)
                {
                    const int8x16_t v = vqtbl1q_s8(book, code[j]);
                    const int at = g * group + 16 * (r * planes + j);
                    UNROLL for (int c = 0; c < n; c++) s[c][j & 1] =
                        dot16(s[c][j & 1], v, vld1q_s8(x[c].q + at));
                }
            }
            const float scale = f16_bits(p);
            UNROLL for (int c = 0; c < n; c++) sum[c] =
                ft_fma((float)vaddvq_s32(vaddq_s32(s[c][0], s[c][1])), scale * x[c].d[g], sum[c]);
        }
        UNROLL for (int c = 0; c < n; c++) y[c][o] = sum[c];
    }
}

/* The upper halves of the codebook's floats as two tables of bytes. */
INLINE void turbo_book(uint8x16_t *low, uint8x16_t *high, ft_turbo t)
{
    uint8_t l[16], h[16];
    ft_turbo_upper(l, h, t);
    *low = vld1q_u8(l);
    *high = vld1q_u8(h);
}

INLINE void turbo_values(const turbo_format t, float *y, const unsigned char *p, size_t row_bytes,
                         int rows, int group)
{
    const int planes = t.bits == 4 ? 2 : 4, runs = group / 16 / planes;
    const uint16x8_t zero = vdupq_n_u16(0);
    uint8x16_t low, high;
    turbo_book(&low, &high, t.type);
    for (int o = 0; o < rows; o++, p += row_bytes)
        for (int r = 0; r < runs; r++) {
            uint8x16_t code[4];
            turbo_codes(code, p + t.head, r, group, t.bits);
            UNROLL for (int j = 0; j < planes; j++, y += 16)
            {
                const uint8x16_t l = vqtbl1q_u8(low, code[j]), h = vqtbl1q_u8(high, code[j]);
                const uint16x8_t a = vreinterpretq_u16_u8(vzip1q_u8(l, h)),
                                 b = vreinterpretq_u16_u8(vzip2q_u8(l, h));
                vst1q_f32(y, vreinterpretq_f32_u16(vzip1q_u16(zero, a)));
                vst1q_f32(y + 4, vreinterpretq_f32_u16(vzip2q_u16(zero, a)));
                vst1q_f32(y + 8, vreinterpretq_f32_u16(vzip1q_u16(zero, b)));
                vst1q_f32(y + 12, vreinterpretq_f32_u16(vzip2q_u16(zero, b)));
            }
        }
}

TURBO_KERNELS

#endif
