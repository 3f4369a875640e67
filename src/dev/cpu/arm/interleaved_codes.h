/* dev/cpu/arm/interleaved_codes.h - layout of weights with four interleaved rows, and how they are
 * unpacked to bytes that can be multiplied.
 *
 * A block is 32 values of four rows: eight vectors of bytes once it is unpacked. Each has RUN
 * values of 16 / RUN rows: four of each row for SDOT; eight of rows 0 and 1, then of rows 2 and 3,
 * for SMMLA. The file that includes this one defines RUN. The codes are stored so that unpacking is
 * mostly masking: a code is in the upper bits of its byte and so is a signed multiple of its value
 * (a nibble times 16), which the scale compensates; an offset of the format is handled separately.
 * Formats with a minimum and a scale for every 32 values need neither: their codes are in the lower
 * bits. Vectors that do not divide a byte evenly are built from the bits that the others leave
 * unused.
 *
 * A group of four rows holds
 *   blocks of 32 in pairs: their scales (four f16 each; four upper halves of floats for MXFP4),
 *                   their minima if there are any, then their codes
 *   blocks of 256 one after the other, see shape256 */
#ifndef FT_DEV_CPU_ARM_INTERLEAVED_CODES_H
#define FT_DEV_CPU_ARM_INTERLEAVED_CODES_H

#include "dev/cpu/arm/vec.h"
#include "dev/cpu/iq.h"

enum { ROWS = 4, COLS = 8 };

/* How the codes of a block are stored; the bytes of a block in brackets. */
typedef enum bits {
    BITS8, /* [128] */
    BITS6, /* [96] four codes in three bytes, twice: three in the upper bits, one in the rest */
    BITS5, /* [80] eight codes in five bytes */
    BITS4, /* [64] vector v low, v + 4 high */
    BOOK4, /* [64] the same; codes are indices into a table of sixteen numbers */
    LOW5,  /* [80] eight codes in five bytes, in the lower bits */
    LOW4,  /* [64] like BITS4 */
    BITS3, /* [48] eight codes in three bytes */
    BITS2, /* [32] four codes in a byte, twice */
    SIGN2, /* [32] the same; codes are signed and in the upper bits */
} bits;

INLINE int bits_bytes(bits b)
{
    return b == BITS8   ? 128
           : b == BITS6 ? 96
           : b == BITS5 ? 80
           : b == LOW5  ? 80
           : b == BITS3 ? 48
           : b == BITS2 ? 32
           : b == SIGN2 ? 32
                        : 64;
}

/* ---- blocks of 32 with their own scale ---- */

typedef enum kind32 {
    W_Q8_0,
    W_Q4_0,
    W_Q4_1,
    W_Q5_0,
    W_Q5_1,
    W_IQ4_NL,
    W_MXFP4,
    W_NVFP4,
    W_Q1_0,
    W_Q2_0,
} kind32;

INLINE bits kind32_bits(kind32 t)
{
    switch (t) {
    case W_Q8_0: return BITS8;
    case W_Q5_0: return BITS5;
    case W_Q5_1: return LOW5;
    case W_Q4_1: return LOW4;
    case W_Q1_0:
    case W_Q2_0: return SIGN2;
    case W_Q4_0: return BITS4;
    default: return BOOK4;
    }
}

INLINE bool has_min32(kind32 t)
{
    return t == W_Q4_1 || t == W_Q5_1;
}

/* A scale for each 16 values: the second ones are stored like minima. */
INLINE bool has_halves32(kind32 t)
{
    return t == W_NVFP4;
}

/* Two blocks are stored together, the scales of both first: that keeps vectors aligned. */
INLINE int head32(kind32 t)
{
    return has_min32(t) || has_halves32(t) ? 32 : 16;
}

INLINE int pair32(kind32 t)
{
    return head32(t) + 2 * bits_bytes(kind32_bits(t));
}

INLINE size_t scale32(int b, kind32 t)
{
    return (size_t)(b / 2) * (size_t)pair32(t) + (size_t)(b % 2) * 8;
}

INLINE size_t codes32(int b, kind32 t)
{
    const size_t one = (size_t)bits_bytes(kind32_bits(t));
    return (size_t)(b / 2) * (size_t)pair32(t) + (size_t)head32(t) + (size_t)(b % 2) * one;
}

/* ---- blocks of 256 ---- */

typedef enum kind256 {
    W_Q4_K,
    W_Q5_K,
    W_Q6_K,
    W_Q3_K,
    W_Q2_K,
    W_IQ4_XS,
    W_IQ3_XXS,
    W_IQ3_S,
    W_IQ2_XXS,
    W_IQ2_XS,
    W_IQ2_S,
    W_IQ1_S,
    W_IQ1_M,
    W_TQ1_0,
    W_TQ2_0,
} kind256;

/* Layout of a block of 256 of four rows: d and dmin as f16 at 0 and 8, the initial value of the
 * sums (interleaved_k.h) as f32 at 16, then
 *   scale upper halves of floats: the integer scales of 32 values, or 16
 *   min bytes, if there are minima: those of four blocks of a row are adjacent
 *   code the codes of 32 values at a time
 * A block without scales is one sum of integers, with sum_start (below) as initial value. */
typedef struct shape256 {
    int scales, mins; /* of a row */
    bits bits;
} shape256;

INLINE shape256 shape_of(kind256 t)
{
    switch (t) {
    case W_Q4_K: return (shape256){8, 8, BITS4};
    case W_Q5_K: return (shape256){8, 8, BITS5};
    case W_Q6_K: return (shape256){16, 0, BITS6};
    case W_Q3_K: return (shape256){16, 0, BITS3};
    case W_Q2_K: return (shape256){16, 16, BITS2};
    case W_TQ1_0:
    case W_TQ2_0: return (shape256){0, 0, SIGN2};
    case W_IQ1_M:
    case W_IQ2_XS:
    case W_IQ2_S: return (shape256){16, 0, BOOK4};
    default: return (shape256){8, 0, BOOK4};
    }
}

enum { SUMS_AT = 16, SCALES_AT = 32 };

INLINE int mins_at(shape256 s)
{
    return SCALES_AT + 2 * ROWS * s.scales;
}

INLINE int codes_at(shape256 s)
{
    return mins_at(s) + ROWS * s.mins;
}

INLINE int bytes256(kind256 t)
{
    const shape256 s = shape_of(t);
    return codes_at(s) + 8 * bits_bytes(s.bits);
}

/* The initial value of a sum of a block of 256 has the bits of this float: then the integer in its
 * low bits makes a valid float without conversion, as long as it is below 2^20. */
#define SUM_BIAS 9437184.0f /* 1.125 * 2^23 */

/* ---- unpacking ---- */

/* The bits of a code in its byte. */
INLINE uint8x16_t mask_of(bits b)
{
    return vdupq_n_u8(b == BITS6   ? 0xfc
                      : b == BITS5 ? 0xf8
                      : b == BITS3 ? 0xe0
                      : b == BITS2 ? 0x30
                      : b == SIGN2 ? 0xc0
                      : b == LOW5  ? 0x1f
                      : b == BITS4 ? 0xf0
                                   : 0x0f);
}

INLINE uint8x16_t code6(const uint8x16_t *b, const int e, uint8x16_t mask)
{
    const uint8x16_t *h = b + e / 4 * 3;
    if (e % 4 < 3) return vandq_u8(h[e % 4], mask);
    return vsliq_n_u8(vsliq_n_u8(vshlq_n_u8(h[2], 2), h[1], 4), h[0], 6);
}

INLINE uint8x16_t code5(const uint8x16_t *b, const int e, uint8x16_t mask)
{
    if (e < 5) return vandq_u8(b[e], mask);
    if (e == 5) return vsliq_n_u8(vshlq_n_u8(b[1], 3), b[0], 5);
    if (e == 6) return vsliq_n_u8(vshlq_n_u8(b[3], 3), b[2], 5);
    const uint8x16_t two = vbslq_u8(vdupq_n_u8(0x10), vshlq_n_u8(b[1], 2), vshlq_n_u8(b[3], 1));
    return vandq_u8(vsliq_n_u8(two, b[4], 5), mask);
}

INLINE uint8x16_t low5(const uint8x16_t *b, const int e, uint8x16_t mask)
{
    if (e < 5) return vandq_u8(b[e], mask);
    if (e == 5) return vsriq_n_u8(vshrq_n_u8(b[0], 3), b[1], 6);
    if (e == 6) return vsriq_n_u8(vshrq_n_u8(b[2], 3), b[3], 6);
    const uint8x16_t two = vsriq_n_u8(vshlq_n_u8(b[1], 2), vshlq_n_u8(b[3], 2), 1);
    return vsriq_n_u8(vshrq_n_u8(b[4], 3), two, 6);
}

/* Nibbles, unsigned. */
INLINE uint8x16_t low4(const uint8x16_t *b, const int e, uint8x16_t mask)
{
    return e < 4 ? vandq_u8(b[e], mask) : vshrq_n_u8(b[e - 4], 4);
}

INLINE uint8x16_t code3(const uint8x16_t *b, const int e, uint8x16_t mask)
{
    if (e == 6) return vandq_u8(vsliq_n_u8(vshlq_n_u8(b[2], 4), b[0], 6), mask);
    if (e == 7) return vsliq_n_u8(vshlq_n_u8(b[2], 5), b[1], 6);
    return vandq_u8(e % 2 ? vshlq_n_u8(b[e / 2], 3) : b[e / 2], mask);
}

INLINE uint8x16_t code2(const uint8x16_t *b, const int e, uint8x16_t mask)
{
    const uint8x16_t v = b[e / 4];
    return vandq_u8(e % 4 == 0   ? v
                    : e % 4 == 1 ? vshrq_n_u8(v, 2)
                    : e % 4 == 2 ? vshlq_n_u8(v, 2)
                                 : vshlq_n_u8(v, 4),
                    mask);
}

INLINE uint8x16_t sign2(const uint8x16_t *b, const int e, uint8x16_t mask)
{
    const uint8x16_t v = b[e / 4];
    if (e % 4 == 3) return vshlq_n_u8(v, 6);
    return vandq_u8(e % 4 == 0 ? v : e % 4 == 1 ? vshlq_n_u8(v, 2) : vshlq_n_u8(v, 4), mask);
}

/* Vector e of the eight of a block, from its stored bytes. */
INLINE int8x16_t code_of(const uint8x16_t *b, const int e, uint8x16_t mask, int8x16_t book,
                         const bits k)
{
    if (k == BOOK4) return vqtbl1q_s8(book, low4(b, e, mask));
    return vreinterpretq_s8_u8(k == BITS8   ? b[e]
                               : k == BITS6 ? code6(b, e, mask)
                               : k == BITS5 ? code5(b, e, mask)
                               : k == LOW5  ? low5(b, e, mask)
                               : k == LOW4  ? low4(b, e, mask)
                               : k == BITS3 ? code3(b, e, mask)
                               : k == BITS2 ? code2(b, e, mask)
                               : k == SIGN2 ? sign2(b, e, mask)
                               : e < 4      ? vshlq_n_u8(b[e], 4)
                                            : vandq_u8(b[e - 4], mask));
}

/* The inverse of the factor by which such codes are multiplied. Those of SIGN2 are negated: values
 * are -1 to 2, codes -2 to 1. */
INLINE float unit_of(bits b)
{
    return b == BITS4 || b == BITS2 ? 1.0f / 16
           : b == BITS5             ? 1.0f / 8
           : b == BITS6             ? 1.0f / 4
           : b == BITS3             ? 1.0f / 32
           : b == SIGN2             ? -1.0f / 64
                                    : 1;
}

/* ---- codebooks ---- */

static const int8_t fp4_steps[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static const int8_t book_iq2[16] = {FT_BOOK_IQ2}, book_iq3_xxs[16] = {FT_BOOK_IQ3_XXS},
                    book_iq3_s[16] = {FT_BOOK_IQ3_S}, book_iq1[16] = {FT_BOOK_IQ1};

/* Small numbers are multiplied by a power of two. */
INLINE int8x16_t book256(kind256 t)
{
    return t == W_IQ3_XXS   ? vshlq_n_s8(vld1q_s8(book_iq3_xxs), 2)
           : t == W_IQ3_S   ? vshlq_n_s8(vld1q_s8(book_iq3_s), 3)
           : t >= W_IQ1_S   ? vshlq_n_s8(vld1q_s8(book_iq1), 3)
           : t >= W_IQ2_XXS ? vshlq_n_s8(vld1q_s8(book_iq2), 1)
                            : vld1q_s8(iq4_steps);
}

/* Factor for the scale of the block. */
INLINE float unit256(kind256 t)
{
    switch (t) {
    case W_IQ3_XXS:
    case W_IQ3_S: return 1.0f / 8;
    case W_IQ2_XXS:
    case W_IQ2_XS:
    case W_IQ2_S: return 1.0f / 16;
    case W_IQ1_S:
    case W_IQ1_M: return 1.0f / 64;
    default: return unit_of(shape_of(t).bits);
    }
}

INLINE float32x4_t f16x4_at(const unsigned char *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}

/* Four floats whose lower halves are zero. */
INLINE float32x4_t upper_halves(const unsigned char *p)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(p)), 16));
}

/* ---- blocks of 256: sums and scales ---- */

/* The sums of minima start with the bits of a bias shifted down: they are shifted up once, between
 * the high halves and the low ones. */
enum { MIN_SHIFT = 7 };
static const int32_t min_start[4] = {0x4b400000 >> MIN_SHIFT, 0x4b400000 >> MIN_SHIFT,
                                     0x4b400000 >> MIN_SHIFT, 0x4b400000 >> MIN_SHIFT};
static const int32_t bias_start[4] = {0x4b100000, 0x4b100000, 0x4b100000, 0x4b100000};

/* Codes that are unsigned in the file: the initial value of their sums depends on the activations.
 */
INLINE bool has_offset(kind256 t)
{
    return t == W_Q4_K || t == W_Q5_K;
}

/* Scale i of those from `at` on. */
INLINE float32x4_t scale256(const unsigned char *at, const int i)
{
    const uint16x8_t v = vld1q_u16((const uint16_t *)(const void *)at + i / 2 * 8);
    const uint16x8_t zero = vdupq_n_u16(0);
    return vreinterpretq_f32_u16(i % 2 ? vzip2q_u16(zero, v) : vzip1q_u16(zero, v));
}

/* ---- blocks of 32 ---- */

/* Adding 1.5 * 2^23 to a small integer leaves it in the low bits of a float: a sum that starts with
 * these bits is a float without conversion. The conversion instruction is four times as slow on
 * many cores. A block's sums are below 2^22, also those of 256 values of SIGN2. */
static const int32_t sum_start[4] = {0x4b400000, 0x4b400000, 0x4b400000, 0x4b400000};

INLINE float32x4_t sum_end(int32x4_t i)
{
    return vsubq_f32(vreinterpretq_f32_s32(i), vdupq_n_f32(12582912.0f));
}

INLINE int8x16_t book32(kind32 t)
{
    return vld1q_s8(t == W_IQ4_NL ? iq4_steps : fp4_steps);
}

/* Scales a block's sum: by the scale of its codes, and adds its minimum. The result still has to be
 * multiplied by the unit of the type. */
INLINE float32x4_t scale_of32(const unsigned char *p, kind32 t)
{
    return t == W_MXFP4 ? upper_halves(p) : f16x4_at(p);
}

/* A power of two or its negative, so it can be applied at any point without changing the result. */
INLINE float32x4_t in_unit32(float32x4_t v, kind32 t)
{
    const float unit = unit_of(kind32_bits(t));
    return unit == 1 ? v : vmulq_n_f32(v, unit);
}

INLINE float32x4_t min_of32(const unsigned char *p)
{
    return f16x4_at(p + 16);
}

/* ---- instructions in the order they are written in ----
 * Columns are interleaved, and codes are unpacked between the products of the previous codes.
 * Compilers put the products of a column one after the other, where each waits for the one before.
 */

#define pin(v) __asm__ volatile("" : : "w"(v))
/* Loads from memory at this point: a register copy would use the multiply units. */
#define load_here(v, p)                                                                            \
    __asm__ volatile("ldr %q0, %1" : "=w"(v) : "m"(*(const char(*)[16])(const void *)(p)))

#endif
