/* The SDOT instruction: sixteen byte products added to four sums at once. On interleaved weights it
 * multiplies four values of each of four rows with four activations: the four sums are four
 * outputs. */
#include <arm_neon.h>

static inline int32x4_t dot16(int32x4_t acc, int8x16_t a, int8x16_t b)
{
    return vdotq_s32(acc, a, b);
}

static inline int32x4_t fours16(int8x16_t a, int8x16_t b)
{
    return vdotq_s32(vdupq_n_s32(0), a, b);
}

#include "dev/cpu/arm/tq.h"
#include "dev/cpu/arm/turbo.h"

enum { RUN = 4 }; /* values of a row in a vector */

#include "dev/cpu/arm/interleaved.h"

/* Sixteen sums: more than the instruction's latency times its rate. */
static double spin(int n)
{
    int32x4_t s[16];
    const int8x16_t v = vdupq_n_s8(1);
    _Pragma("GCC unroll 16") for (int j = 0; j < 16; j++) s[j] = vdupq_n_s32(j);
    for (int i = 0; i < n; i++)
        _Pragma("GCC unroll 16") for (int j = 0; j < 16; j++) __asm__ volatile(
            "sdot %0.4s, %1.16b, %1.16b" : "+w"(s[j]) : "w"(v));
    return 16 * 32;
}

void ft_kern_dotprod(ft_kern *k)
{
    fill_dot8(k);
    fill_turbo(k);
    fill_tq(k);
    fill_interleaved(k);
    k->spin = spin;
}
