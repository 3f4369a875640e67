/* AVX2: products with packed rows. Pairs of byte products become 16-bit sums, which must not
 * saturate: with unsigned bytes below 32 four pairs can be added, below 64 two; for other bytes the
 * magnitude is multiplied, with the sign applied to the activation. */
#include "dev/cpu/x86/avx2_vec.h"

INLINE vi four(const int8_t *x)
{
    int32_t v;
    memcpy(&v, x, sizeof v);
    return _mm256_set1_epi32(v);
}

/* start + four values of each row times x[0 ... 3], and so on for four quads */
INLINE vi half_sum(vi start, const vi *q, const int8_t *x, const int kind)
{
    const vi one = _mm256_set1_epi16(1);
    if (kind == BYTES_ANY) {
        UNROLL for (int j = 0; j < 4; j++)
        {
            const vi with_sign = _mm256_sign_epi8(four(x + 4 * j), q[j]);
            const vi pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(q[j]), with_sign);
            start = v_add32(start, _mm256_madd_epi16(pairs, one));
        }
        return start;
    }
    vi low = _mm256_maddubs_epi16(q[0], four(x)), high = _mm256_maddubs_epi16(q[2], four(x + 8));
    low = _mm256_add_epi16(low, _mm256_maddubs_epi16(q[1], four(x + 4)));
    high = _mm256_add_epi16(high, _mm256_maddubs_epi16(q[3], four(x + 12)));
    if (kind == BYTES_SMALL)
        return v_add32(start, _mm256_madd_epi16(_mm256_add_epi16(low, high), one));
    start = v_add32(start, _mm256_madd_epi16(low, one));
    return v_add32(start, _mm256_madd_epi16(high, one));
}

#include "dev/cpu/x86/packed_fill.h"

void ft_kern_avx2(ft_kern *k)
{
    ft_x86_pack(k);
    fill_packed(k);
    ft_kern_avx2_plain(k);
    ft_kern_avx2_turbo(k);
}
