/* dev/cpu/x86/packed_fill.h - the kernels of packed.h for every layout without blocks of 256, which
 * are in packed_256.h. */
#ifndef FT_DEV_CPU_X86_PACKED_FILL_H
#define FT_DEV_CPU_X86_PACKED_FILL_H

#include "dev/cpu/x86/packed.h"

#define PACKED(name)                                                                               \
    static void dot_##name(float *const *y, const unsigned char *w, size_t group, int rows, int k, \
                           const ft_col8 *x, int n)                                                \
    {                                                                                              \
        if (PACKED_COLS > 4)                                                                       \
            for (; n >= PACKED_COLS; n -= PACKED_COLS, y += PACKED_COLS, x += PACKED_COLS)         \
                packed(x86_##name, y, w, group, rows, k, x, PACKED_COLS);                          \
        if (PACKED_COLS > 4 && n == 5) packed(x86_##name, y, w, group, rows, k, x, 5);             \
        if (PACKED_COLS > 4 && n == 6) packed(x86_##name, y, w, group, rows, k, x, 6);             \
        if (PACKED_COLS > 4 && n == 7) packed(x86_##name, y, w, group, rows, k, x, 7);             \
        if (PACKED_COLS > 4 && n > 4) return;                                                      \
        for (; n >= 4; n -= 4, y += 4, x += 4) packed(x86_##name, y, w, group, rows, k, x, 4);     \
        if (n == 1) packed(x86_##name, y, w, group, rows, k, x, 1);                                \
        if (n == 2) packed(x86_##name, y, w, group, rows, k, x, 2);                                \
        if (n == 3) packed(x86_##name, y, w, group, rows, k, x, 3);                                \
    }

#define TWICE(name, type)                                                                          \
    static void dot_##name(float *const *y, const unsigned char *w, size_t group, int rows, int k, \
                           const ft_col8 *x, int n)                                                \
    {                                                                                              \
        if (n == 1) packed_twice(x86_##name, type, y, w, group, rows, k, x, 1);                    \
        if (n == 2) packed_twice(x86_##name, type, y, w, group, rows, k, x, 2);                    \
        if (PACKED_COLS > 4 && n == 3) packed_twice(x86_##name, type, y, w, group, rows, k, x, 3); \
        if (PACKED_COLS > 4 && n == 4) packed_twice(x86_##name, type, y, w, group, rows, k, x, 4); \
    }

TWICE(tq3_1s, FT_TQ3_1S)
TWICE(tq4_1s, FT_TQ4_1S)
PACKED(q8_0)
PACKED(q4_0)
PACKED(q4_1)
PACKED(q5_0)
PACKED(q5_1)
PACKED(iq4_nl)
PACKED(mxfp4)
PACKED(nvfp4)
PACKED(trits)

static void fill_packed(ft_kern *k)
{
    static const struct {
        ft_type type;
        ft_dot8_fn *dot;
    } kernel[] = {
        {FT_Q8_0, dot_q8_0},       {FT_Q4_0, dot_q4_0},     {FT_Q4_1, dot_q4_1},
        {FT_Q5_0, dot_q5_0},       {FT_Q5_1, dot_q5_1},     {FT_IQ4_NL, dot_iq4_nl},
        {FT_MXFP4, dot_mxfp4},     {FT_NVFP4, dot_nvfp4},   {FT_TQ1_0, dot_trits},
        {FT_TQ2_0, dot_trits},     {FT_Q1_0, dot_trits},    {FT_Q2_0, dot_trits},
        {FT_Q2_0_FORK, dot_trits}, {FT_TQ3_1S, dot_tq3_1s}, {FT_TQ4_1S, dot_tq4_1s},
    };
    for (size_t i = 0; i < FT_COUNT(kernel); i++) {
        k->pack[kernel[i].type].cols = ft_tq_is(kernel[i].type) ? PACKED_COLS / 2 : PACKED_COLS;
        k->pack[kernel[i].type].dot = kernel[i].dot;
    }
}

#endif
