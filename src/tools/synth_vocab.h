/* tools/synth_vocab.h - a tokenizer for models that nobody trained: every byte has a token, a few
 * dozen merges join common letters, the control tokens of the family stand where its models have
 * them, and made-up words fill the rest of the vocabulary. */
#ifndef FT_TOOLS_SYNTH_VOCAB_H
#define FT_TOOLS_SYNTH_VOCAB_H

#include "gguf/writer.h"

void ft_synth_vocab_qwen(ft_gguf_writer *w, int vocab);
void ft_synth_vocab_gemma(ft_gguf_writer *w, int vocab);

#endif
