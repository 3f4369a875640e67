/* dev/cpu/arm/vec.h - included first by every kernel file of this folder. */
#ifndef FT_DEV_CPU_ARM_VEC_H
#define FT_DEV_CPU_ARM_VEC_H

#include "dev/cpu/kern.h"

#include <arm_neon.h>

#define INLINE static inline __attribute__((always_inline))
/* Unrolls a loop of known length completely, so that arrays become registers; for each compiler. */
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

/* The values of the nibbles of IQ4 types. */
static const int8_t iq4_steps[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};

#endif
