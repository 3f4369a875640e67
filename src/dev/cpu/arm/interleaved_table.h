/* dev/cpu/arm/interleaved_table.h - the functions of each type for the table of kernels. The file
 * that includes it defines interleaved32, interleaved256 and COLUMNS(call), which calls them for
 * the columns of a call with a number that is known when they are compiled. */
#ifndef FT_DEV_CPU_ARM_INTERLEAVED_TABLE_H
#define FT_DEV_CPU_ARM_INTERLEAVED_TABLE_H

#include "dev/cpu/arm/interleaved_pack.h"

INLINE size_t group_bytes32(int k, kind32 t)
{
    return (size_t)((k / 32 + 1) / 2) * (size_t)pair32(t);
}

INLINE size_t group_bytes256(int k, kind256 t)
{
    return (size_t)(k / 256) * (size_t)bytes256(t);
}

#define INTERLEAVED(type, size)                                                                    \
    static size_t type##_bytes(int k)                                                              \
    {                                                                                              \
        return group_bytes##size(k, W_##type);                                                     \
    }                                                                                              \
    static void type##_pack(unsigned char *to, const unsigned char *from, size_t row_bytes, int k) \
    {                                                                                              \
        pack##size(to, from, row_bytes, k, W_##type);                                              \
    }                                                                                              \
    static void type##_dot(float *const *y, const unsigned char *w, size_t group, int rows, int k, \
                           const ft_col8 *x, int n)                                                \
    {                                                                                              \
        COLUMNS(interleaved##size, W_##type)                                                       \
    }

#define EACH_TYPE(f)                                                                               \
    f(Q8_0, 32) f(Q4_0, 32) f(Q4_1, 32) f(Q5_0, 32) f(Q5_1, 32) f(IQ4_NL, 32) f(MXFP4, 32)         \
        f(NVFP4, 32) f(Q1_0, 32) f(Q2_0, 32) f(Q4_K, 256) f(Q5_K, 256) f(Q6_K, 256) f(Q3_K, 256)   \
            f(Q2_K, 256) f(IQ4_XS, 256) f(IQ3_XXS, 256) f(IQ3_S, 256) f(IQ2_XXS, 256)              \
                f(IQ2_XS, 256) f(IQ2_S, 256) f(IQ1_S, 256) f(IQ1_M, 256) f(TQ1_0, 256)             \
                    f(TQ2_0, 256)
EACH_TYPE(INTERLEAVED)

#define FILL(type, size)                                                                           \
    k->pack[FT_##type] = (ft_pack){ROWS, COLS, type##_bytes, type##_pack, type##_dot, size == 256};

static void fill_interleaved(ft_kern *k)
{
    EACH_TYPE(FILL)
    k->pack[FT_Q2_0_FORK] = k->pack[FT_Q2_0];
}

#endif
