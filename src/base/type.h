/* base/type.h - the tensor types: their numbers in files, names and block sizes.
 * The numbers are those of the GGUF format. The contents of blocks are defined in quant/. */
#ifndef FT_BASE_TYPE_H
#define FT_BASE_TYPE_H

#include "base/str.h"

typedef enum ft_type {
    FT_F32 = 0,
    FT_F16 = 1,
    FT_Q4_0 = 2,
    FT_Q4_1 = 3,
    FT_Q5_0 = 6,
    FT_Q5_1 = 7,
    FT_Q8_0 = 8,
    FT_Q2_K = 10,
    FT_Q3_K = 11,
    FT_Q4_K = 12,
    FT_Q5_K = 13,
    FT_Q6_K = 14,
    FT_IQ2_XXS = 16,
    FT_IQ2_XS = 17,
    FT_IQ3_XXS = 18,
    FT_IQ1_S = 19,
    FT_IQ4_NL = 20,
    FT_IQ3_S = 21,
    FT_IQ2_S = 22,
    FT_IQ4_XS = 23,
    FT_I8 = 24,
    FT_I16 = 25,
    FT_I32 = 26,
    FT_I64 = 27,
    FT_F64 = 28,
    FT_IQ1_M = 29,
    FT_BF16 = 30,
    FT_TQ1_0 = 34,
    FT_TQ2_0 = 35,
    FT_MXFP4 = 39,
    FT_NVFP4 = 40,
    FT_Q1_0 = 41,
    FT_Q2_0 = 42,
    FT_TQ3_1S = 45,
    FT_TQ4_1S = 46,
    FT_Q2_0_FORK = 47, /* the same blocks as FT_Q2_0 under a fork's number */
    FT_TYPE_MAX = 48,
} ft_type;

typedef struct ft_type_info {
    const char *name; /* NULL: no such type */
    uint16_t elems;   /* values in a block */
    uint16_t bytes;   /* bytes of a block */
    bool quant;       /* a block format, rather than plain numbers */
    const char
        *note; /* for messages about a number that is not a type: "removed", "run-time only" */
} ft_type_info;

/* Never NULL; info->name is NULL for a number that is not a type of a model file. */
const ft_type_info *ft_type_of(uint32_t id);
/* Finds a type by name, case-insensitively ("q4_K", "BF16"); false when there is none. */
bool ft_type_find(ft_str name, ft_type *out);
static inline const char *ft_type_name(uint32_t id)
{
    const char *n = ft_type_of(id)->name;
    return n ? n : "?";
}
/* Bytes of a row of n values; n must be a multiple of the block. */
static inline size_t ft_type_row(ft_type t, size_t n)
{
    const ft_type_info *i = ft_type_of(t);
    return n / i->elems * i->bytes;
}

#endif
