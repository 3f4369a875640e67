/* base/cpu.h - which instruction sets this machine has. FT_CPU=name masks everything newer than
 * that name, so that one machine tests every rung below its own. */
#ifndef FT_BASE_CPU_H
#define FT_BASE_CPU_H

enum {
    FT_NEON = 1 << 0,
    FT_DOTPROD = 1 << 1,
    FT_I8MM = 1 << 2,
    FT_SVE = 1 << 3,
    FT_AVX2 = 1 << 8,
    FT_AVX512 = 1 << 9, /* F, BW, DQ, VL and VNNI */
    FT_AVX512BF16 = 1 << 10,
    FT_AMX = 1 << 11, /* tile, int8 and bf16, and the kernel lets us use them */
};

unsigned ft_cpu_isa(void);
const char *ft_cpu_isa_names(void); /* "neon dotprod", for people */

#endif
