#define _POSIX_C_SOURCE 200809L
#include "base/type.h"

#include "base/mem.h"

#include <strings.h>

static const ft_type_info table[FT_TYPE_MAX] = {
    [FT_F32] = {"F32", 1, 4, false, NULL},
    [FT_F16] = {"F16", 1, 2, false, NULL},
    [FT_Q4_0] = {"Q4_0", 32, 18, true, NULL},
    [FT_Q4_1] = {"Q4_1", 32, 20, true, NULL},
    [4] = {NULL, 0, 0, false, "Q4_2, removed from the format"},
    [5] = {NULL, 0, 0, false, "Q4_3, removed from the format"},
    [FT_Q5_0] = {"Q5_0", 32, 22, true, NULL},
    [FT_Q5_1] = {"Q5_1", 32, 24, true, NULL},
    [FT_Q8_0] = {"Q8_0", 32, 34, true, NULL},
    [9] = {NULL, 0, 0, false, "Q8_1, never stored in files"},
    [FT_Q2_K] = {"Q2_K", 256, 84, true, NULL},
    [FT_Q3_K] = {"Q3_K", 256, 110, true, NULL},
    [FT_Q4_K] = {"Q4_K", 256, 144, true, NULL},
    [FT_Q5_K] = {"Q5_K", 256, 176, true, NULL},
    [FT_Q6_K] = {"Q6_K", 256, 210, true, NULL},
    [15] = {NULL, 0, 0, false, "Q8_K, never stored in files"},
    [FT_IQ2_XXS] = {"IQ2_XXS", 256, 66, true, NULL},
    [FT_IQ2_XS] = {"IQ2_XS", 256, 74, true, NULL},
    [FT_IQ3_XXS] = {"IQ3_XXS", 256, 98, true, NULL},
    [FT_IQ1_S] = {"IQ1_S", 256, 50, true, NULL},
    [FT_IQ4_NL] = {"IQ4_NL", 32, 18, true, NULL},
    [FT_IQ3_S] = {"IQ3_S", 256, 110, true, NULL},
    [FT_IQ2_S] = {"IQ2_S", 256, 82, true, NULL},
    [FT_IQ4_XS] = {"IQ4_XS", 256, 136, true, NULL},
    [FT_I8] = {"I8", 1, 1, false, NULL},
    [FT_I16] = {"I16", 1, 2, false, NULL},
    [FT_I32] = {"I32", 1, 4, false, NULL},
    [FT_I64] = {"I64", 1, 8, false, NULL},
    [FT_F64] = {"F64", 1, 8, false, NULL},
    [FT_IQ1_M] = {"IQ1_M", 256, 56, true, NULL},
    [FT_BF16] = {"BF16", 1, 2, false, NULL},
    [31] = {NULL, 0, 0, false, "Q4_0_4_4, removed from the format"},
    [32] = {NULL, 0, 0, false, "Q4_0_4_8, removed from the format"},
    [33] = {NULL, 0, 0, false, "Q4_0_8_8, removed from the format"},
    [FT_TQ1_0] = {"TQ1_0", 256, 54, true, NULL},
    [FT_TQ2_0] = {"TQ2_0", 256, 66, true, NULL},
    [36] = {NULL, 0, 0, false, "IQ4_NL_4_4, removed from the format"},
    [37] = {NULL, 0, 0, false, "IQ4_NL_4_8, removed from the format"},
    [38] = {NULL, 0, 0, false, "IQ4_NL_8_8, removed from the format"},
    [FT_MXFP4] = {"MXFP4", 32, 17, true, NULL},
    [FT_NVFP4] = {"NVFP4", 64, 36, true, NULL},
    [FT_Q1_0] = {"Q1_0", 128, 18, true, NULL},
    [FT_Q2_0] = {"Q2_0", 64, 18, true, NULL},
    [43] = {NULL, 0, 0, false, "TURBO3_0, a cache type that is never stored in files"},
    [44] = {NULL, 0, 0, false, "TURBO4_0, a cache type that is never stored in files"},
    [FT_TQ3_1S] = {"TQ3_1S", 32, 16, true, NULL},
    [FT_TQ4_1S] = {"TQ4_1S", 32, 20, true, NULL},
    [FT_Q2_0_FORK] = {"Q2_0", 64, 18, true, NULL},
};

const ft_type_info *ft_type_of(uint32_t id)
{
    static const ft_type_info none = {NULL, 0, 0, false, "unknown"};
    if (id >= FT_TYPE_MAX || (!table[id].name && !table[id].note)) return &none;
    return &table[id];
}

bool ft_type_find(ft_str name, ft_type *out)
{
    for (uint32_t i = 0; i < FT_TYPE_MAX; i++) {
        const char *n = table[i].name;
        if (!n || strlen(n) != name.n || strncasecmp(n, name.p, name.n)) continue;
        *out = (ft_type)i;
        return true;
    }
    return false;
}
