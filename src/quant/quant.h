/* quant/quant.h - encoding and decoding of the blocks of every tensor type, in plain scalar C.
 * Decoding follows the order of operations that the format defines, so the values are bit-identical
 * to those of other readers. Encoding searches the scales with the least squared error. Rows are
 * independent of each other; n is always a multiple of the type's block size. */
#ifndef FT_QUANT_H
#define FT_QUANT_H

#include "base/type.h"

/* Every type of a model file can be decoded (integers too, as numbers). src may be unaligned. */
void ft_row_decode(ft_type t, float *dst, const void *src, size_t n);

/* true for the types that ft_row_encode can write */
bool ft_type_encodes(ft_type t);
/* weight: n importances (>= 0) that weigh the squared error of each column, or NULL. Values that
 * are not finite count as zero. */
void ft_row_encode(ft_type t, void *dst, const float *src, size_t n, const float *weight);

/* false when a block's scale is infinite or NaN: the file is damaged. *at is the block's index. */
bool ft_row_finite(ft_type t, const void *src, size_t n, size_t *at);

#endif
