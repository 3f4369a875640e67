/* AVX-512: f32 kernels. */
#include "dev/cpu/x86/avx512_vec.h"

enum { TILE_ROWS = 4, DOT_ROWS = 4 };

#include "dev/cpu/x86/plain.h"

void ft_kern_avx512_plain(ft_kern *k)
{
    fill_plain(k);
}
