/* AVX-512 with VNNI: products with packed rows. */
#include "dev/cpu/x86/avx512_vec.h"

INLINE vi v_dot4(vi start, vi u, vi s)
{
    return _mm512_dpbusd_epi32(start, u, s);
}

#include "dev/cpu/x86/vnni.h"

#include "dev/cpu/x86/packed_fill.h"

void ft_kern_avx512vnni(ft_kern *k)
{
    fill_packed(k);
}
