/* AVX-VNNI: products with packed rows. */
#include "dev/cpu/x86/avx2_vec.h"

INLINE vi v_dot4(vi start, vi u, vi s)
{
    return _mm256_dpbusd_avx_epi32(start, u, s);
}

#include "dev/cpu/x86/vnni.h"

#include "dev/cpu/x86/packed_256.h"

void ft_kern_avxvnni(ft_kern *k)
{
    fill_packed(k);
    fill_packed_256(k);
}
