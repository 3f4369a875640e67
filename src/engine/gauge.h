/* engine/gauge.h - measures a model's keys before a small cache is trusted with them. */
#ifndef FT_ENGINE_GAUGE_H
#define FT_ENGINE_GAUGE_H

#include "engine/engine.h"

/* Reads a text of n ids (at least FT_GAUGE_LEAST) with an f16 cache and finds what encoding t does
 * to every layer that keeps all cells. The pieces of the text lie far apart in a context of ctx
 * tokens, so that the mean of the keys is what they have in common at every position.
 * *out: [m->L], ft_gauge_free. */
enum { FT_GAUGE_LEAST = 32, FT_GAUGE_MOST = 256 };
ft_status ft_gauge(ft_kv_gauge **out, ft_model *m, ft_kv_type t, const int32_t *ids, int n, int ctx,
                   ft_err *err);
void ft_gauge_free(ft_kv_gauge *g, const ft_model *m);

#endif
