/* AVX2: turbo caches. Codes are unpacked from sixteen bytes at a time, two planes in a vector: 32
 * codes of four bits, or 64 of two or three. A table look-up turns a code into a byte of the
 * codebook. For values two look-ups give the upper half of a float, which has all significant bits
 * of the codebook: no conversion is needed. */
#include "dev/cpu/x86/avx2_vec.h"

#include "base/half.h"
#include "dev/cpu/kern_turbo.h"

/* Two planes from one: the low half unchanged, the high half shifted right. */
INLINE vi two_planes(__m128i v, const int move)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(v), _mm_srli_epi16(v, move), 1);
}

/* The codes of run number r of a group in planes, two in a vector; a run is sixteen bytes of pairs
 * or nibbles. */
INLINE void turbo_codes(vi *code, const unsigned char *p, int r, int group, const int bits)
{
    const __m128i c = _mm_loadu_si128((const void *)(p + 16 * r));
    if (bits == 4) {
        code[0] = v_and(two_planes(c, 4), v_set8(15));
        return;
    }
    const vi pairs = two_planes(c, 2);
    code[0] = v_and(pairs, v_set8(3));
    code[1] = v_and(v_shr(pairs, 4), v_set8(3));
    if (bits == 2) return;
    /* The third bits of four values fill half a byte: byte i of h gets those of byte i of c. */
    const __m128i t = _mm_loadl_epi64((const void *)(p + group / 4 + 8 * r));
    const vi h = two_planes(_mm_unpacklo_epi8(t, _mm_srli_epi16(t, 4)), 1);
    code[0] = v_or(code[0], v_and(v_shl(h, 2), v_set8(4)));
    code[1] = v_or(code[1], v_and(h, v_set8(4)));
}

INLINE int sum_lanes(vi v)
{
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

INLINE float f16_bits(const unsigned char *p)
{
    uint16_t h;
    memcpy(&h, p, 2);
    return _cvtsh_ss(h);
}

INLINE void turbo_dot(const turbo_format t, float *const *y, const unsigned char *w,
                      size_t row_bytes, int rows, int k, const ft_col8 *x, const int n)
{
    const int group = ft_turbo_group(k), twos = t.bits == 4 ? 1 : 2, runs = group / 32 / twos;
    const size_t bytes = ft_turbo_group_bytes(t.type, group);
    const vi book = v_book_load(ft_turbo_of(t.type)->small), one = _mm256_set1_epi16(1);
    for (int o = 0; o < rows; o++, w += row_bytes) {
        const unsigned char *p = w;
        float sum[FT_COLS] = {0};
        for (int g = 0; g < k / group; g++, p += bytes) {
            vi s[FT_COLS];
            UNROLL for (int c = 0; c < n; c++) s[c] = v_zero();
            for (int r = 0; r < runs; r++) {
                vi code[2];
                turbo_codes(code, p + t.head, r, group, t.bits);
                UNROLL for (int j = 0; j < twos; j++)
                {
                    const vi v = v_book(book, code[j]), size = _mm256_abs_epi8(v);
                    const int at = g * group + 32 * (r * twos + j);
                    UNROLL for (int c = 0; c < n; c++)
                    {
                        const vi q = _mm256_sign_epi8(v_load(x[c].q + at), v);
                        s[c] = v_add32(s[c], _mm256_madd_epi16(_mm256_maddubs_epi16(size, q), one));
                    }
                }
            }
            const float scale = f16_bits(p);
            UNROLL for (int c = 0; c < n; c++) sum[c] =
                ft_fma((float)sum_lanes(s[c]), scale * x[c].d[g], sum[c]);
        }
        UNROLL for (int c = 0; c < n; c++) y[c][o] = sum[c];
    }
}

/* The upper halves of the codebook's floats as two tables of bytes. */
INLINE void turbo_book(vi *low, vi *high, ft_turbo t)
{
    uint8_t l[16], h[16];
    ft_turbo_upper(l, h, t);
    *low = v_book_load(l);
    *high = v_book_load(h);
}

/* Eight floats from the upper halves in v. */
INLINE void put_upper(float *y, __m128i v)
{
    const vi wide = _mm256_cvtepu16_epi32(v);
    f_store(y, _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16)));
}

INLINE void turbo_values(const turbo_format t, float *y, const unsigned char *p, size_t row_bytes,
                         int rows, int group)
{
    const int twos = t.bits == 4 ? 1 : 2, runs = group / 32 / twos;
    vi low, high;
    turbo_book(&low, &high, t.type);
    for (int o = 0; o < rows; o++, p += row_bytes)
        for (int r = 0; r < runs; r++) {
            vi code[2];
            turbo_codes(code, p + t.head, r, group, t.bits);
            UNROLL for (int j = 0; j < twos; j++, y += 32)
            {
                const vi l = v_book(low, code[j]), h = v_book(high, code[j]);
                const vi a = _mm256_unpacklo_epi8(l, h), b = _mm256_unpackhi_epi8(l, h);
                put_upper(y, _mm256_castsi256_si128(a));
                put_upper(y + 8, _mm256_castsi256_si128(b));
                put_upper(y + 16, _mm256_extracti128_si256(a, 1));
                put_upper(y + 24, _mm256_extracti128_si256(b, 1));
            }
        }
}

TURBO_KERNELS

void ft_kern_avx2_turbo(ft_kern *k)
{
    fill_turbo(k);
}
