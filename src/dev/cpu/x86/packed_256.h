/* dev/cpu/x86/packed_256.h - the kernels of packed.h for types with blocks of 256 and integer
 * scales, for instruction sets that have no wide ones (wide.h). */
#ifndef FT_DEV_CPU_X86_PACKED_256_H
#define FT_DEV_CPU_X86_PACKED_256_H

#include "dev/cpu/x86/packed_fill.h"

PACKED(q2_k)
PACKED(q3_k)
PACKED(q4_k)
PACKED(q5_k)
PACKED(q6_k)
PACKED(iq4_xs)
PACKED(iq3_xxs)
PACKED(iq3_s)
PACKED(iq2_xxs)
PACKED(iq2_s)
PACKED(iq1_s)
PACKED(iq1_m)

static void fill_packed_256(ft_kern *k)
{
    static const struct {
        ft_type type;
        ft_dot8_fn *dot;
    } kernel[] = {
        {FT_Q2_K, dot_q2_k},       {FT_Q3_K, dot_q3_k},   {FT_Q4_K, dot_q4_k},
        {FT_Q5_K, dot_q5_k},       {FT_Q6_K, dot_q6_k},   {FT_IQ4_XS, dot_iq4_xs},
        {FT_IQ3_XXS, dot_iq3_xxs}, {FT_IQ3_S, dot_iq3_s}, {FT_IQ2_XXS, dot_iq2_xxs},
        {FT_IQ2_XS, dot_iq2_s},    {FT_IQ2_S, dot_iq2_s}, {FT_IQ1_S, dot_iq1_s},
        {FT_IQ1_M, dot_iq1_m},
    };
    for (size_t i = 0; i < FT_COUNT(kernel); i++) {
        k->pack[kernel[i].type].cols = PACKED_COLS;
        k->pack[kernel[i].type].dot = kernel[i].dot;
    }
}

#endif
