/* dev/cpu/x86/avx2_vec.h - vectors of eight lanes, with the names that packed.h and plain.h
 * use. */
#ifndef FT_DEV_CPU_X86_AVX2_VEC_H
#define FT_DEV_CPU_X86_AVX2_VEC_H

#include "dev/cpu/x86/pack.h"

#include <immintrin.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline, unused))
#define UNROLL _Pragma("GCC unroll 16")

enum { W = 8, PACKED_COLS = 4 };
enum { DELTA_V = 4, DELTA_WIDE = 4, DELTA_E = 2 };
typedef __m256i vi;
typedef __m256 vf;

INLINE vi v_load(const void *p)
{
    return _mm256_loadu_si256(p);
}
INLINE vi v_zero(void)
{
    return _mm256_setzero_si256();
}
INLINE vi v_set8(int x)
{
    return _mm256_set1_epi8((char)x);
}
INLINE vi v_set32(int32_t x)
{
    return _mm256_set1_epi32(x);
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
    return _mm256_and_si256(a, b);
}
INLINE vi v_or(vi a, vi b)
{
    return _mm256_or_si256(a, b);
}
INLINE vi v_xor(vi a, vi b)
{
    return _mm256_xor_si256(a, b);
}
INLINE vi v_add8(vi a, vi b)
{
    return _mm256_add_epi8(a, b);
}
INLINE vi v_add16(vi a, vi b)
{
    return _mm256_add_epi16(a, b);
}
INLINE vi v_add32(vi a, vi b)
{
    return _mm256_add_epi32(a, b);
}
INLINE vi v_abs8(vi a)
{
    return _mm256_abs_epi8(a);
}
/* x, negated where sign is negative; where that is zero, anything. */
INLINE vi v_negate8(vi x, vi sign)
{
    return _mm256_sign_epi8(x, sign);
}
/* Sums of two products of unsigned and signed bytes, with 16 bits. */
INLINE vi v_dot2(vi u, vi s)
{
    return _mm256_maddubs_epi16(u, s);
}
/* Sums of two numbers of 16 bits, with 32 bits. */
INLINE vi v_sum2(vi a)
{
    return _mm256_madd_epi16(a, _mm256_set1_epi16(1));
}
INLINE vi v_shr(vi a, const int n)
{
    return _mm256_srli_epi16(a, n);
}
INLINE vi v_shl(vi a, const int n)
{
    return _mm256_slli_epi16(a, n);
}
INLINE vi v_book_load(const void *p)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(p));
}
INLINE vi v_book(vi table, vi code)
{
    return _mm256_shuffle_epi8(table, code);
}

INLINE vf f_zero(void)
{
    return _mm256_setzero_ps();
}
INLINE vf f_set1(float x)
{
    return _mm256_set1_ps(x);
}

INLINE vf f_spread(const float *p)
{
    return f_set1(*p);
}
INLINE vf f_load(const float *p)
{
    return _mm256_loadu_ps(p);
}
INLINE vf f_load_halves(const float *p)
{
    return f_load(p);
}
INLINE void f_store(float *p, vf v)
{
    _mm256_storeu_ps(p, v);
}
INLINE vf f_add(vf a, vf b)
{
    return _mm256_add_ps(a, b);
}
INLINE vf f_sub(vf a, vf b)
{
    return _mm256_sub_ps(a, b);
}
INLINE vf f_mul(vf a, vf b)
{
    return _mm256_mul_ps(a, b);
}
INLINE vf f_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}
INLINE vf f_fnma(vf a, vf b, vf c) /* c - a b */
{
    return _mm256_fnmadd_ps(a, b, c);
}
INLINE vf f_of_bits(vi v)
{
    return _mm256_castsi256_ps(v);
}
INLINE vf f_from_i32(vi v)
{
    return _mm256_cvtepi32_ps(v);
}
INLINE vf f_from_f16(const void *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128(p));
}
INLINE vf f_from_bf16(const void *p)
{
    const vi wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
INLINE vf f_from_i8(const void *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p)));
}
INLINE void f_to_f16(void *p, vf v)
{
    _mm_storeu_si128(p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
INLINE float f_sum(vf v)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

#endif
