/* dev/cpu/x86/pack.h - the layout of packed weights on x86: sixteen interleaved rows.
 *
 * A quad is four values of each of sixteen rows: 64 bytes, one vector of AVX-512 or two of AVX2,
 * whose 32-bit sums belong to sixteen outputs. Thirty-two values of each row are eight quads. Their
 * codes are stored in planes of whole vectors:
 *   PLANE_8 eight vectors, one per quad
 *   PLANE_4 four vectors: quad j in the low nibbles of vector j, quad j + 4 in the high ones
 *   PLANE_2 two vectors: quad j at bit 2 (j % 4) of vector j / 4
 *   _1 one vector more: bit j is the next higher bit of quad j
 *   _2 two vectors more, like PLANE_2: the next two bits
 * The scales of a group precede its planes: sixteen at a time, one for each row. Either two bytes
 * each for every `sub` values (followed by minima), or for 256 values an f16 (and one for minima),
 * then a signed byte for every `sub` values (and those of minima). */
#ifndef FT_DEV_CPU_X86_PACK_H
#define FT_DEV_CPU_X86_PACK_H

#include "base/mem.h"
#include "dev/cpu/kern.h"

enum { PLANE_2, PLANE_2_1, PLANE_4, PLANE_4_1, PLANE_4_2, PLANE_8 };
enum { BOOK_NONE, BOOK_IQ4, BOOK_FP4, BOOK_IQ2, BOOK_IQ3_XXS, BOOK_IQ3_S, BOOK_IQ1, BOOKS };
enum { BOOK_TQ3 = BOOKS, BOOK_TQ4 }; /* in quant/turbo_weights.h, the others in ft_x86_book */
enum { PACK_ROWS = 16 };
/* What is known of the bytes that are multiplied: below 32, 64, 128, nothing. */
enum { BYTES_SMALL, BYTES_64, BYTES_128, BYTES_ANY };

typedef struct x86_format {
    int plane, book; /* with a codebook a code is an index to one of its values */
    int sub;         /* values per scale: 16 or 32 */
    bool super;      /* one scale for 256 values and an integer scale for each `sub` */
    bool bf16;       /* two-byte scales are bf16 rather than f16 */
    bool min;        /* values are scale times code minus minimum */
    int shift;       /* codes are 128 >> shift larger than their values; -1: they are not. The
                        values of a codebook are smaller in magnitude: raised by as much, they are
                        not negative. */
    float unit;      /* a factor on every scale */
} x86_format;

/* One line per layout; types with the same layout share their kernel. */
static const x86_format x86_q8_0 = {PLANE_8, BOOK_NONE, 32, false, false, false, 0, 1},
                        x86_q4_0 = {PLANE_4, BOOK_NONE, 32, false, false, false, 4, 1},
                        x86_q4_1 = {PLANE_4, BOOK_NONE, 32, false, false, true, -1, 1},
                        x86_q5_0 = {PLANE_4_1, BOOK_NONE, 32, false, false, false, 3, 1},
                        x86_q5_1 = {PLANE_4_1, BOOK_NONE, 32, false, false, true, -1, 1},
                        x86_q2_k = {PLANE_2, BOOK_NONE, 16, true, false, true, -1, 1},
                        x86_q3_k = {PLANE_2_1, BOOK_NONE, 16, true, false, false, 5, 1},
                        x86_q4_k = {PLANE_4, BOOK_NONE, 32, true, false, true, -1, 1},
                        x86_q5_k = {PLANE_4_1, BOOK_NONE, 32, true, false, true, -1, 1},
                        x86_q6_k = {PLANE_4_2, BOOK_NONE, 16, true, false, false, 2, 1},
                        x86_iq4_nl = {PLANE_4, BOOK_IQ4, 32, false, false, false, 0, 1},
                        x86_iq4_xs = {PLANE_4, BOOK_IQ4, 32, true, false, false, 0, 1},
                        x86_iq3_xxs = {PLANE_4, BOOK_IQ3_XXS, 32, true, false, false, 2, 0.5f},
                        x86_iq3_s = {PLANE_4, BOOK_IQ3_S, 32, true, false, false, 3, 1},
                        x86_iq2_xxs = {PLANE_4, BOOK_IQ2, 32, true, false, false, 1, 0.125f},
                        x86_iq2_s = {PLANE_4, BOOK_IQ2, 16, true, false, false, 1, 0.125f},
                        x86_iq1_s = {PLANE_4, BOOK_IQ1, 32, true, false, false, 3, 0.125f},
                        x86_iq1_m = {PLANE_4, BOOK_IQ1, 16, true, false, false, 3, 0.125f},
                        x86_mxfp4 = {PLANE_4, BOOK_FP4, 32, false, true, false, 3, 1},
                        x86_nvfp4 = {PLANE_4, BOOK_FP4, 16, false, false, false, 3, 1},
                        x86_tq3_1s = {PLANE_2_1, BOOK_TQ3, 16, false, false, false, 0, 1},
                        x86_tq4_1s = {PLANE_4, BOOK_TQ4, 16, false, false, false, 0, 1},
                        x86_trits = {PLANE_2, BOOK_NONE, 32, false, false, false, 7, 1};

/* Packed types and their layouts: X(type, layout). Those with blocks of 256 and integer scales,
 * then all others but TQ weights, whose activations are the sum of two rows. */
#define X86_TYPES_256(X)                                                                           \
    X(FT_Q2_K, q2_k)                                                                               \
    X(FT_Q3_K, q3_k)                                                                               \
    X(FT_Q4_K, q4_k)                                                                               \
    X(FT_Q5_K, q5_k)                                                                               \
    X(FT_Q6_K, q6_k)                                                                               \
    X(FT_IQ4_XS, iq4_xs)                                                                           \
    X(FT_IQ3_XXS, iq3_xxs)                                                                         \
    X(FT_IQ3_S, iq3_s)                                                                             \
    X(FT_IQ2_XXS, iq2_xxs)                                                                         \
    X(FT_IQ2_XS, iq2_s)                                                                            \
    X(FT_IQ2_S, iq2_s)                                                                             \
    X(FT_IQ1_S, iq1_s)                                                                             \
    X(FT_IQ1_M, iq1_m)
#define X86_TYPES(X)                                                                               \
    X(FT_Q8_0, q8_0)                                                                               \
    X(FT_Q4_0, q4_0)                                                                               \
    X(FT_Q4_1, q4_1)                                                                               \
    X(FT_Q5_0, q5_0)                                                                               \
    X(FT_Q5_1, q5_1)                                                                               \
    X(FT_IQ4_NL, iq4_nl)                                                                           \
    X(FT_MXFP4, mxfp4)                                                                             \
    X(FT_NVFP4, nvfp4)                                                                             \
    X(FT_TQ1_0, trits)                                                                             \
    X(FT_TQ2_0, trits)                                                                             \
    X(FT_Q1_0, trits)                                                                              \
    X(FT_Q2_0, trits)                                                                              \
    X(FT_Q2_0_FORK, trits)

/* Sums of the activations of a row, in arrays that have an element for each 32 of them. At s are
 * the sums of the first sixteen, of the last sixteen and of all of them (SUM_32), as floats. At t
 * are the values that sums of products begin with because of `shift`: BASE_BITS, and -128 >> shift
 * times those sums, for each shift with which a layout reads them. */
enum { SUM_32 = 2 };

/* BASE_BITS are the bits of BASE (1.5 times 2 to the 23rd) as an f32, and BASE_BITS + n those of
 * BASE + n for every integer n below 2 to the 22nd in magnitude. So an integer sum that begins with
 * BASE_BITS needs no conversion. */
enum { BASE_BITS = 0x4b400000, BASE = 3 << 22 };

static inline int x86_start(const x86_format f, int half)
{
    if (f.sub == 32) return f.shift <= 4 ? f.shift : 5;
    return 6 + 2 * (f.shift <= 3 ? f.shift : 4) + half;
}

extern const int8_t ft_x86_book[BOOKS][16];

static inline size_t x86_plane_bytes(const int plane)
{
    return plane == PLANE_2     ? 128
           : plane == PLANE_2_1 ? 192
           : plane == PLANE_4   ? 256
           : plane == PLANE_4_1 ? 320
           : plane == PLANE_4_2 ? 384
                                : 512;
}

/* Bytes of the scales of 256 values, or of 32 where there is no super block. */
static inline size_t x86_scale_bytes(const x86_format f)
{
    const size_t kinds = f.min ? 2 : 1, subs = (size_t)((f.super ? 256 : 32) / f.sub);
    return f.super ? kinds * PACK_ROWS * (2 + subs) : kinds * PACK_ROWS * 2 * subs;
}

/* Offset of the planes of a group of k values. */
static inline size_t x86_planes_at(const x86_format f, int k)
{
    return ft_round_up((size_t)(k / (f.super ? 256 : 32)) * x86_scale_bytes(f), 64);
}

static inline size_t x86_group_bytes(const x86_format f, int k)
{
    return x86_planes_at(f, k) + (size_t)(k / 32) * x86_plane_bytes(f.plane);
}

/* Sets bytes and rows of every type's layout; the instruction sets add their kernels. */
void ft_x86_pack(ft_kern *k);

void ft_kern_avx2_plain(ft_kern *k);
void ft_kern_avx2_turbo(ft_kern *k);
void ft_kern_avx512_plain(ft_kern *k);

#endif
