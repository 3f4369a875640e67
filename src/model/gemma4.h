/* model/gemma4.h - what the assistant needs to know of its target. */
#ifndef FT_MODEL_GEMMA4_H
#define FT_MODEL_GEMMA4_H

#include "model/bind.h"

/* The last layer of this kind that owns keys and values; false when there is none. */
bool ft_gemma4_source(const ft_model *m, bool sliding, int *l, int *G, int *d, int *window);
const ft_weight *ft_gemma4_embed(const ft_model *m);

/* Kind and head width of layer l, and the angles of both kinds, from the binder's own file. */
void ft_gemma4_heads(ft_binder *b, int l, int L, bool *sliding, int *d);
void ft_gemma4_ropes(ft_binder *b, ft_rope *full, ft_rope *slide);

#endif
