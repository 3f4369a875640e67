#include "dev/cpu/kern.h"

#include "base/cpu.h"

void ft_kern_init(ft_kern *k, unsigned isa)
{
    ft_kern_c(k);
    ft_kern_c_turbo(k);
    ft_kern_c_tq(k);
#if defined(__aarch64__)
    if (isa & FT_NEON) ft_kern_neon(k);
    if (isa & FT_DOTPROD) ft_kern_dotprod(k);
    if (isa & FT_FHM) ft_kern_fhm(k);
    if (isa & FT_DOTPROD && isa & FT_I8MM) ft_kern_i8mm(k);
    if (isa & FT_BF16MM) ft_kern_bf16(k);
#elif defined(__x86_64__)
    if (isa & FT_AVX2) ft_kern_avx2(k);
    if (isa & FT_AVXVNNI) ft_kern_avxvnni(k);
    if (isa & FT_AVX512) ft_kern_avx512(k);
    if (isa & FT_AVX512VNNI) {
        ft_kern_avx512vnni(k);
        ft_kern_avx512vnni_wide(k);
    }
    if (isa & FT_AMX) {
        ft_kern_amx(k);
        ft_kern_amx_plain(k);
        ft_kern_amx_wide(k);
    }
#else
    (void)isa;
#endif
}
