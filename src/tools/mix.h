/* tools/mix.h - chooses the type of each tensor of a quantised file.
 * A mix is a type for most matrices and a few rules that give more bits to the tensors most
 * sensitive to quantisation: attention values and the FFN down projection, in some layers. It does
 * not touch data. */
#ifndef FT_TOOLS_MIX_H
#define FT_TOOLS_MIX_H

#include "base/err.h"
#include "base/type.h"

typedef struct ft_mix {
    const char *name; /* "Q4_K_M" */
    uint32_t file;    /* general.file_type */
    ft_type base;
} ft_mix;

/* By name, case-insensitively, or NULL. */
const ft_mix *ft_mix_find(const char *name);
const char *ft_mix_names(void); /* all names, for error messages */

/* true for tensors that keep their type in any mix: vectors, norms, routers, convolutions and
 * tensors whose name does not end in "weight". */
bool ft_mix_keeps(ft_str name, int n_dims);

/* Properties of the model that the choice depends on. */
typedef struct ft_mix_model {
    int layers; /* all blocks of the file */
    int gqa;    /* query heads per key head */
    bool tied;  /* no output.weight: the embedding is the output matrix */
    bool imatrix;
} ft_mix_model;

/* true for the tensors that the value rules count: attn_v and attn_qkv. */
bool ft_mix_is_value(ft_str name);
/* The layer that a name belongs to, or -1. */
int ft_mix_layer(ft_str name);

/* The type for a tensor whose rows have n values; value_no of value_n is its index among the value
 * tensors, in layer order. The block size of the result may not divide n: see ft_mix_fit. */
ft_type ft_mix_type(const ft_mix *m, const ft_mix_model *model, ft_str name, int64_t n,
                    int value_no, int value_n);
/* The type itself when its block divides n, else the nearest one whose block does. */
ft_type ft_mix_fit(ft_type t, int64_t n);

#endif
