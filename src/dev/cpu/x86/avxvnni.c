/* AVX-VNNI: products with packed rows. One instruction multiplies four unsigned codes of each of
 * eight rows with four activations. */
#include "dev/cpu/x86/avx2_vec.h"

enum { BOOK_SIGNED = 0 };

/* start + four values of each row times x[0 ... 3], and so on for four quads */
INLINE vi half_sum(vi start, const vi *q, const int8_t *x, const int kind)
{
    (void)kind;
    UNROLL for (int j = 0; j < 4; j++)
    {
        int32_t v;
        memcpy(&v, x + 4 * j, sizeof v);
        start = _mm256_dpbusd_avx_epi32(start, q[j], _mm256_set1_epi32(v));
    }
    return start;
}

#include "dev/cpu/x86/packed_fill.h"

void ft_kern_avxvnni(ft_kern *k)
{
    fill_packed(k);
}
