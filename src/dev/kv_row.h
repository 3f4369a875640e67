/* dev/kv_row.h - rows of the KV cache: one head's keys or values at one position, in an encoding.
 * Turbo encodings store Hadamard-transformed vectors (quant/turbo.h): a query is transformed before
 * it is multiplied with their keys, and a sum of their values is transformed back. */
#ifndef FT_DEV_KV_ROW_H
#define FT_DEV_KV_ROW_H

#include "base/str.h"
#include "dev/ops.h"
#include "quant/turbo.h"

const char *ft_kv_type_name(ft_kv_type t);
bool ft_kv_type_find(ft_str name, ft_kv_type *out); /* "f16", "q8_0", "turbo3", ... */
/* All names, for messages: "f32, f16, ... or turbo4-legacy". */
const char *ft_kv_type_names(void);
bool ft_kv_is_turbo(ft_kv_type t);
ft_turbo ft_kv_turbo(ft_kv_type t); /* of a turbo encoding */

/* false when rows of d values cannot have this encoding: d is not a multiple of its block size */
bool ft_kv_row_fits(ft_kv_type t, int d);
size_t ft_kv_row_bytes(ft_kv_type t, int d);
/* Values of a decoded row: d, or more where the encoding pads. */
int ft_kv_row_width(ft_kv_type t, int d);

/* Host memory. Decoding gives ft_kv_row_width values. */
void ft_kv_row_encode(ft_kv_type t, void *dst, const float *x, int d);
void ft_kv_row_decode(ft_kv_type t, float *y, const void *src, int d);

#endif
