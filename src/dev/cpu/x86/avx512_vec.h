/* dev/cpu/x86/avx512_vec.h - vectors of sixteen lanes, with the names that packed.h and plain.h
 * use. */
#ifndef FT_DEV_CPU_X86_AVX512_VEC_H
#define FT_DEV_CPU_X86_AVX512_VEC_H

#include "dev/cpu/x86/pack.h"

#include <immintrin.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline, unused))
#define UNROLL _Pragma("GCC unroll 16")

enum { W = 16, PACKED_COLS = 8 };
enum { DELTA_V = 4, DELTA_WIDE = 8, DELTA_E = 4 };
typedef __m512i vi;
typedef __m512 vf;

INLINE vi v_load(const void *p)
{
    return _mm512_loadu_si512(p);
}
INLINE vi v_zero(void)
{
    return _mm512_setzero_si512();
}
INLINE vi v_set8(int x)
{
    return _mm512_set1_epi8((char)x);
}
INLINE vi v_set32(int32_t x)
{
    return _mm512_set1_epi32(x);
}
/* The same four bytes for each row. */
INLINE vi v_four(const int8_t *x)
{
    int32_t v;
    memcpy(&v, x, sizeof v);
    return v_set32(v);
}
INLINE vi v_and(vi a, vi b)
{
    return _mm512_and_si512(a, b);
}
INLINE vi v_or(vi a, vi b)
{
    return _mm512_or_si512(a, b);
}
INLINE vi v_xor(vi a, vi b)
{
    return _mm512_xor_si512(a, b);
}
INLINE vi v_add8(vi a, vi b)
{
    return _mm512_add_epi8(a, b);
}
INLINE vi v_add16(vi a, vi b)
{
    return _mm512_add_epi16(a, b);
}
INLINE vi v_add32(vi a, vi b)
{
    return _mm512_add_epi32(a, b);
}
INLINE vi v_abs8(vi a)
{
    return _mm512_abs_epi8(a);
}
/* x, negated where sign is negative; where that is zero, anything. */
INLINE vi v_negate8(vi x, vi sign)
{
    return _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(sign), v_zero(), x);
}
/* Sums of two products of unsigned and signed bytes, with 16 bits. */
INLINE vi v_dot2(vi u, vi s)
{
    return _mm512_maddubs_epi16(u, s);
}
/* Sums of two numbers of 16 bits, with 32 bits. */
INLINE vi v_sum2(vi a)
{
    return _mm512_madd_epi16(a, _mm512_set1_epi16(1));
}
INLINE vi v_shr(vi a, const int n)
{
    return _mm512_srli_epi16(a, n);
}
INLINE vi v_shl(vi a, const int n)
{
    return _mm512_slli_epi16(a, n);
}
INLINE vi v_book_load(const void *p)
{
    return _mm512_broadcast_i32x4(_mm_loadu_si128(p));
}
INLINE vi v_book(vi table, vi code)
{
    return _mm512_shuffle_epi8(table, code);
}

INLINE vf f_zero(void)
{
    return _mm512_setzero_ps();
}
INLINE vf f_set1(float x)
{
    return _mm512_set1_ps(x);
}

INLINE vf f_spread(const float *p)
{
    return f_set1(*p);
}
INLINE vf f_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
/* Two loads of 32 bytes: where p is aligned to that, none crosses a cache line. */
INLINE vf f_load_halves(const float *p)
{
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(p)), _mm256_loadu_ps(p + 8),
                              1);
}
INLINE void f_store(float *p, vf v)
{
    _mm512_storeu_ps(p, v);
}
INLINE vf f_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}
INLINE vf f_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}
INLINE vf f_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}
INLINE vf f_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}
INLINE vf f_fnma(vf a, vf b, vf c) /* c - a b */
{
    return _mm512_fnmadd_ps(a, b, c);
}
INLINE vf f_of_bits(vi v)
{
    return _mm512_castsi512_ps(v);
}
INLINE vf f_from_i32(vi v)
{
    return _mm512_cvtepi32_ps(v);
}
INLINE vf f_from_f16(const void *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(p));
}
INLINE vf f_from_bf16(const void *p)
{
    const vi wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
INLINE vf f_from_i8(const void *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p)));
}
INLINE void f_to_f16(void *p, vf v)
{
    _mm256_storeu_si256(p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
INLINE float f_sum(vf v)
{
    return _mm512_reduce_add_ps(v);
}

#endif
