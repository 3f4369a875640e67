/* base/cpu.h - detects the instruction-set extensions of this machine. FT_CPU=name disables every
 * extension newer than that name ("c" disables all), so that one machine can test all older
 * kernels. */
#ifndef FT_BASE_CPU_H
#define FT_BASE_CPU_H

enum {
    FT_NEON = 1 << 0,
    FT_DOTPROD = 1 << 1,
    FT_I8MM = 1 << 2,
    FT_SVE = 1 << 3,
    FT_BF16MM = 1 << 4, /* BFMMLA */
    FT_FHM = 1 << 5,    /* FMLAL */
    FT_AVX2 = 1 << 8,
    FT_AVXVNNI = 1 << 9,
    FT_AVX512 = 1 << 10, /* F, BW, DQ and VL */
    FT_AVX512VNNI = 1 << 11,
    FT_AVX512BF16 = 1 << 12, /* and VNNI */
    FT_AMX = 1 << 13,        /* tile, int8 and bf16, and the kernel has granted their use */
};

unsigned ft_cpu_isa(void);
const char *ft_cpu_isa_names(void); /* "neon dotprod", for display */
void ft_cpu_name(char out[128]);    /* the model, or the architecture where it is not known */

/* From here on this thread's float operations give 0 instead of a subnormal number, on x86, where
 * operations on those take a hundred times as long. Returns the mode to restore afterwards. */
static inline unsigned ft_flush_subnormals(void)
{
#ifdef __x86_64__
    const unsigned mode = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(mode | 0x8000);
    return mode;
#else
    return 0;
#endif
}

static inline void ft_restore_float_mode(unsigned mode)
{
#ifdef __x86_64__
    __builtin_ia32_ldmxcsr(mode);
#else
    (void)mode;
#endif
}

#endif
