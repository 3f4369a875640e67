/* model/rank.h - the classification head of a model that ranks documents: tensors cls.weight and
 * cls.bias (optional, followed by tanh), cls.output.weight and cls.output.bias. It reads the hidden
 * row of the last token. */
#ifndef FT_MODEL_RANK_H
#define FT_MODEL_RANK_H

#include "gguf/gguf.h"

typedef struct ft_rank ft_rank;

/* *out is NULL if the file has no such head. D: width of a hidden row. */
ft_status ft_rank_open(ft_rank **out, const ft_gguf *g, int D, ft_err *err);
void ft_rank_free(ft_rank *r); /* accepts NULL */
/* The score of a row [D]: the output, or the probability of the first label if there are several.
 */
float ft_rank_score(const ft_rank *r, const double *row);

#endif
