/* quant/turbo_weights.h - products with TQ3_1S and TQ4_1S weights without undoing their transform:
 * it is orthogonal, so the activations are transformed instead, 32 at a time. */
#ifndef FT_QUANT_TURBO_WEIGHTS_H
#define FT_QUANT_TURBO_WEIGHTS_H

#include "base/type.h"

/* The codebook in integers: value = small times step, within 1e-5 of its variance. The step is not
 * the one that uses the full range of a byte but the one with the smallest rounding error. */
typedef struct ft_tq_book {
    int8_t small[16];
    float step;
} ft_tq_book;

static inline bool ft_tq_is(ft_type t)
{
    return t == FT_TQ3_1S || t == FT_TQ4_1S;
}

const ft_tq_book *ft_tq_book_of(ft_type t);
/* y = transform of x, n a multiple of 32. y may be x. */
void ft_tq_hadamard(float *y, const float *x, int n);

#endif
