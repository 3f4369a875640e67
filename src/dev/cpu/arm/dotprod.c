/* The SDOT instruction: sixteen byte products into four sums at once. */
#include <arm_neon.h>

static inline int32x4_t dot16(int32x4_t acc, int8x16_t a, int8x16_t b)
{
    return vdotq_s32(acc, a, b);
}

#include "dev/cpu/arm/dot8.h"

void ft_kern_dotprod(ft_kern *k)
{
    fill_dot8(k);
}
