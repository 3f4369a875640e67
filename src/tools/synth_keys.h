/* tools/synth_keys.h - the keys of a synthetic model: its sizes and its tokenizer. */
#ifndef FT_TOOLS_SYNTH_KEYS_H
#define FT_TOOLS_SYNTH_KEYS_H

#include "gguf/writer.h"
#include "tools/shapes.h"

void ft_synth_keys(ft_gguf_writer *w, const ft_model_shape *s, ft_type type, bool mtp);

#endif
