/* dev/cpu/x86/packed_k.h - the kernels of packed.h for K-quants, for instruction sets that have no
 * wide ones (wide.h). */
#ifndef FT_DEV_CPU_X86_PACKED_K_H
#define FT_DEV_CPU_X86_PACKED_K_H

#include "dev/cpu/x86/packed_fill.h"

PACKED(q2_k)
PACKED(q3_k)
PACKED(q4_k)
PACKED(q5_k)
PACKED(q6_k)

static void fill_packed_k(ft_kern *k)
{
    static const struct {
        ft_type type;
        ft_dot8_fn *dot;
    } kernel[] = {
        {FT_Q2_K, dot_q2_k}, {FT_Q3_K, dot_q3_k}, {FT_Q4_K, dot_q4_k},
        {FT_Q5_K, dot_q5_k}, {FT_Q6_K, dot_q6_k},
    };
    for (size_t i = 0; i < FT_COUNT(kernel); i++) {
        k->pack[kernel[i].type].cols = PACKED_COLS;
        k->pack[kernel[i].type].dot = kernel[i].dot;
    }
}

#endif
