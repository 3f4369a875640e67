/* AVX2: products with packed rows. */
#include "dev/cpu/x86/avx2_vec.h"

#include "dev/cpu/x86/pairs.h"

#include "dev/cpu/x86/packed_256.h"

void ft_kern_avx2(ft_kern *k)
{
    ft_x86_pack(k);
    fill_packed(k);
    fill_packed_256(k);
    ft_kern_avx2_plain(k);
    ft_kern_avx2_turbo(k);
}
