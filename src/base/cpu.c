#define _GNU_SOURCE
#include "base/cpu.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#if defined(__aarch64__)
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* From oldest to newest: FT_CPU=name keeps the entries up to and including that name. */
static const struct {
    const char *name;
    unsigned bit;
} isa_table[] = {
    {"neon", FT_NEON},
    {"dotprod", FT_DOTPROD},
    {"fhm", FT_FHM},
    {"i8mm", FT_I8MM},
    {"bf16", FT_BF16MM},
    {"sve", FT_SVE},
    {"avx2", FT_AVX2},
    {"avxvnni", FT_AVXVNNI},
    {"avx512", FT_AVX512},
    {"avx512vnni", FT_AVX512VNNI},
    {"avx512bf16", FT_AVX512BF16},
    {"amx", FT_AMX},
};

#if defined(__aarch64__)
static unsigned detect_isa(void)
{
    const unsigned long cap = getauxval(AT_HWCAP), cap2 = getauxval(AT_HWCAP2);
    unsigned isa = FT_NEON;
    if (cap & (1ul << 20)) isa |= FT_DOTPROD; /* HWCAP_ASIMDDP */
    if (cap & (1ul << 23)) isa |= FT_FHM;     /* HWCAP_ASIMDFHM */
    if (cap2 & (1ul << 13)) isa |= FT_I8MM;   /* HWCAP2_I8MM */
    if (cap2 & (1ul << 14)) isa |= FT_BF16MM; /* HWCAP2_BF16 */
    if (cap & (1ul << 22)) isa |= FT_SVE;     /* HWCAP_SVE */
    return isa;
}
#elif defined(__x86_64__)
static unsigned long long xcr0(void)
{
    unsigned lo, hi;
    __asm__ __volatile__("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (unsigned long long)hi << 32 | lo;
}

static unsigned detect_isa(void)
{
    unsigned a, b, c, d, isa = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return 0;
    const int osxsave = (c >> 27) & 1, fma = (c >> 12) & 1, f16c = (c >> 29) & 1;
    if (!osxsave) return 0;
    const unsigned long long x = xcr0();
    unsigned b7, c7, d7, a71 = 0;
    if (!__get_cpuid_count(7, 0, &a, &b7, &c7, &d7)) return 0;
    if (a >= 1) __get_cpuid_count(7, 1, &a71, &b, &c, &d);
    if ((x & 6) == 6 && fma && f16c && (b7 >> 5 & 1)) isa |= FT_AVX2;
    if ((isa & FT_AVX2) && (a71 >> 4 & 1)) isa |= FT_AVXVNNI;
    const int f = b7 >> 16 & 1, dq = b7 >> 17 & 1, bw = b7 >> 30 & 1, vl = b7 >> 31 & 1;
    if ((x & 0xe6) == 0xe6 && f && dq && bw && vl && (isa & FT_AVX2)) isa |= FT_AVX512;
    if ((isa & FT_AVX512) && (c7 >> 11 & 1)) isa |= FT_AVX512VNNI;
    if ((isa & FT_AVX512VNNI) && (a71 >> 5 & 1)) isa |= FT_AVX512BF16;
    const int amx = (d7 >> 22 & 1) && (d7 >> 24 & 1) && (d7 >> 25 & 1);
    if ((isa & FT_AVX512BF16) && amx && (x & 0x60000) == 0x60000) {
        enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
        if (syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0) isa |= FT_AMX;
    }
    return isa;
}
#else
static unsigned detect_isa(void)
{
    return 0;
}
#endif

static unsigned mask_isa(unsigned isa)
{
    const char *want = getenv("FT_CPU");
    if (!want || !*want) return isa;
    if (!strcmp(want, "c")) return 0;
    unsigned keep = 0;
    for (size_t i = 0; i < FT_COUNT(isa_table); i++) {
        keep |= isa_table[i].bit;
        if (!strcmp(want, isa_table[i].name)) return isa & keep;
    }
    return isa;
}

unsigned ft_cpu_isa(void)
{
    static unsigned isa, known;
    if (!known) {
        isa = mask_isa(detect_isa());
        known = 1;
    }
    return isa;
}

const char *ft_cpu_isa_names(void)
{
    static char text[96];
    const unsigned isa = ft_cpu_isa();
    size_t n = 0;
    if (text[0]) return text;
    for (size_t i = 0; i < FT_COUNT(isa_table); i++)
        if (isa & isa_table[i].bit)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? " " : "",
                                  isa_table[i].name);
    if (!n) snprintf(text, sizeof text, "plain C");
    return text;
}

void ft_cpu_name(char out[128])
{
    struct utsname u;
    char line[256];
    snprintf(out, 128, "%s", uname(&u) ? "unknown" : u.machine);
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, "model name", 10)) continue;
        const char *at = strchr(line, ':');
        if (at && at[1]) snprintf(out, 128, "%.*s", (int)strcspn(at + 2, "\n"), at + 2);
        break;
    }
    if (f) fclose(f);
}
