/* AVX-512 without VNNI: products with packed rows. */
#include "dev/cpu/x86/avx512_vec.h"

#include "dev/cpu/x86/pairs.h"

#include "dev/cpu/x86/packed_256.h"

void ft_kern_avx512(ft_kern *k)
{
    fill_packed(k);
    fill_packed_256(k);
    ft_kern_avx512_plain(k);
}
