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

/* Twelve sums: more than the latency of an instruction times its rate, and there are registers for
 * them with AVX2. */
static double spin(int n)
{
    vi s[12], x = v_set8(1);
    const vi ones = v_set8(1);
    UNROLL for (int j = 0; j < 12; j++) s[j] = v_zero();
    for (int i = 0; i < n; i++) UNROLL for (int j = 0; j < 12; j++)
        {
            s[j] = add_products(s[j], ones, x);
            __asm__ volatile("" : "+x"(s[j]), "+x"(x)); /* every product is computed */
        }
    return 12 * 4 * W * 2;
}

static void fill_packed(ft_kern *k)
{
#define KERNEL(type, layout) {type, dot_##layout},
    static const struct {
        ft_type type;
        ft_dot8_fn *dot;
    } kernel[] = {X86_TYPES(KERNEL) KERNEL(FT_TQ3_1S, tq3_1s) KERNEL(FT_TQ4_1S, tq4_1s)};
#undef KERNEL
    for (size_t i = 0; i < FT_COUNT(kernel); i++) {
        k->pack[kernel[i].type].cols = ft_tq_is(kernel[i].type) ? PACKED_COLS / 2 : PACKED_COLS;
        k->pack[kernel[i].type].dot = kernel[i].dot;
    }
    k->spin = spin;
}

#endif
