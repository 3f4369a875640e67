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
#define KERNEL(type, layout) {type, dot_##layout},
    static const struct {
        ft_type type;
        ft_dot8_fn *dot;
    } kernel[] = {X86_TYPES_256(KERNEL)};
#undef KERNEL
    for (size_t i = 0; i < FT_COUNT(kernel); i++) {
        k->pack[kernel[i].type].cols = PACKED_COLS;
        k->pack[kernel[i].type].dot = kernel[i].dot;
    }
}

#endif
