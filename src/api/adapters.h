/* api/adapters.h - the LoRA adapters of a model, and their scales for requests without any. */
#ifndef FT_API_ADAPTERS_H
#define FT_API_ADAPTERS_H

#include "api/model.h"

/* Opens the adapters of the parameters, once model and drafter are there. */
ft_status ft_llm_open_adapters(ft_llm *m, const ft_llm_params *p, ft_err *err);
/* The scales of a request: its own, or those of the model. */
ft_status ft_llm_adapter_scales(ft_llm *m, const float *own, int n, float out[FT_LORA_MAX],
                                ft_err *err);

#endif
