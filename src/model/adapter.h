/* model/adapter.h - LoRA adapters in GGUF files: pairs of matrices that are added to weights of a
 * model, W + scale B A. The products run beside those of W (dev/lora.c); W itself is not changed,
 * so every row of a step has its own scale. */
#ifndef FT_MODEL_ADAPTER_H
#define FT_MODEL_ADAPTER_H

#include "model/model.h"

struct ft_adapter {
    ft_gguf *file;
    uint64_t digest;
    ft_lora *lora; /* [n] */
    int n;
    void **memory; /* [n]: the factor of each B on the device, or NULL */
};

/* Adds the adapter in a file to the model, as the next one; head: a draft head in a file of its own
 * that the adapter may have tensors for, or NULL. Checks every tensor against the model first. On
 * success the model owns the file. Before an engine is made. */
ft_status ft_adapter_add(ft_model *m, ft_model *head, ft_gguf *file, ft_err *err);
void ft_adapters_free(ft_model *m); /* before its weights are unbound */
/* A hash of the adapters that have a scale other than 0, and of these scales; 0: there are none.
 * scale: [n_adapter], or NULL. */
uint64_t ft_adapters_key(const ft_model *m, const float *scale);

#endif
