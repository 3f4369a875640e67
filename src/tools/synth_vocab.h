/* tools/synth_vocab.h - writes a tokenizer for synthetic models: every byte has a token, a few
 * dozen merges join common letters, the control tokens have the ids that the models of the family
 * use, and made-up words fill the rest of the vocabulary. */
#ifndef FT_TOOLS_SYNTH_VOCAB_H
#define FT_TOOLS_SYNTH_VOCAB_H

#include "gguf/writer.h"

void ft_synth_vocab_qwen(ft_gguf_writer *w, int vocab);
void ft_synth_vocab_gemma(ft_gguf_writer *w, int vocab);

#endif
