/* engine/calibrate.h - measures how well a model's keys survive a small cache encoding. */
#ifndef FT_ENGINE_CALIBRATE_H
#define FT_ENGINE_CALIBRATE_H

#include "engine/engine.h"

/* Reads a text of n ids (at least FT_CALIBRATE_MIN) with an f16 cache and measures what encoding
 * t does to every layer with full attention. The parts of the text are spread over a context of
 * ctx tokens, so that the mean of the keys is what they have in common at every position. *out:
 * [m->L]; release with ft_calibration_free. */
enum { FT_CALIBRATE_MIN = 32, FT_CALIBRATE_MAX = 256 };
ft_status ft_calibrate(ft_kv_calibration **out, ft_model *m, ft_kv_type t, const int32_t *ids,
                       int n, int ctx, ft_err *err);
void ft_calibration_free(ft_kv_calibration *g, const ft_model *m);

#endif
