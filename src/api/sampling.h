/* api/sampling.h - the engine's sampling parameters with the memory they point to. */
#ifndef FT_API_SAMPLING_H
#define FT_API_SAMPLING_H

#include "api/model.h"
#include "text/bpe.h"

typedef struct ft_sample_setup {
    ft_sample_params p;
    ft_logit_bias *bias;
    ft_id_seq *seq;
    ft_ids *seq_ids;
    int n_seq;
} ft_sample_setup;

/* endless: never generate an end-of-text token. */
ft_status ft_sample_setup_init(ft_sample_setup *out, const ft_sampling *s, const ft_llm *m,
                               bool endless, ft_err *err);
void ft_sample_setup_release(ft_sample_setup *s);

#endif
