/* AVX-512: f32 kernels. */
#include "dev/cpu/x86/avx512_vec.h"

enum { TILE_ROWS = 4 };

#include "dev/cpu/x86/plain.h"
#include "dev/cpu/x86/tq4.h"

void ft_kern_avx512_plain(ft_kern *k)
{
    fill_plain(k);
    k->dotf[FT_TQ4_1S] = dot_tq4_1s; /* faster here than bytes in plain C */
    k->dot8[FT_TQ4_1S] = NULL;
}
