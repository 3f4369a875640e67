/* dev/cpu/kern_turbo.h - kernels of turbo caches for all formats. A file includes this and defines
 *     turbo_dot       ft_kern_turbo.dot for n columns, n constant
 *     turbo_values    ft_kern_turbo.values
 * as inline functions, then invokes TURBO_KERNELS, which defines fill_turbo(k): it sets the turbo
 * entries of the table. */
#ifndef FT_DEV_CPU_KERN_TURBO_H
#define FT_DEV_CPU_KERN_TURBO_H

#include "dev/cpu/kern.h"

typedef struct turbo_format {
    ft_turbo type;
    int bits, head; /* bits of a code; bytes of a group in front of its codes */
} turbo_format;

static const turbo_format turbo2 = {FT_TURBO2, 2, 2}, turbo3 = {FT_TURBO3, 3, 2},
                          turbo4 = {FT_TURBO4, 4, 2}, turbo4_legacy = {FT_TURBO4_LEGACY, 4, 4};

#define TURBO_KERNEL(name)                                                                         \
    static void dot_##name(float *const *y, const unsigned char *w, size_t row_bytes, int rows,    \
                           int k, const ft_col8 *x, int n)                                         \
    {                                                                                              \
        switch (n) {                                                                               \
        case 1: turbo_dot(name, y, w, row_bytes, rows, k, x, 1); break;                            \
        case 2: turbo_dot(name, y, w, row_bytes, rows, k, x, 2); break;                            \
        case 3: turbo_dot(name, y, w, row_bytes, rows, k, x, 3); break;                            \
        default: turbo_dot(name, y, w, row_bytes, rows, k, x, 4); break;                           \
        }                                                                                          \
    }                                                                                              \
    static void values_##name(float *y, const unsigned char *group, size_t row_bytes, int rows,    \
                              int n)                                                               \
    {                                                                                              \
        turbo_values(name, y, group, row_bytes, rows, n);                                          \
    }

#define TURBO_KERNELS                                                                              \
    TURBO_KERNEL(turbo2)                                                                           \
    TURBO_KERNEL(turbo3)                                                                           \
    TURBO_KERNEL(turbo4)                                                                           \
    TURBO_KERNEL(turbo4_legacy)                                                                    \
    static void fill_turbo(ft_kern *k)                                                             \
    {                                                                                              \
        k->turbo[FT_TURBO2] = (ft_kern_turbo){dot_turbo2, values_turbo2};                          \
        k->turbo[FT_TURBO3] = (ft_kern_turbo){dot_turbo3, values_turbo3};                          \
        k->turbo[FT_TURBO4] = (ft_kern_turbo){dot_turbo4, values_turbo4};                          \
        k->turbo[FT_TURBO4_LEGACY] = (ft_kern_turbo){dot_turbo4_legacy, values_turbo4_legacy};     \
    }

#endif
