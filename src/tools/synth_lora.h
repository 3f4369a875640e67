/* tools/synth_lora.h - writes a LoRA adapter with random weights for a model file, for tests and
 * benchmarks: a pair for every matrix, and for the stacked ones of routed experts. */
#ifndef FT_TOOLS_SYNTH_LORA_H
#define FT_TOOLS_SYNTH_LORA_H

#include "base/err.h"
#include "base/type.h"

typedef struct ft_synth_lora_opts {
    const char *model; /* GGUF file of the model */
    const char *path;
    const char *type; /* of the tensors: F32, F16 or BF16; Q8_0 where the rank allows it */
    const char *only; /* only tensors whose name contains this; NULL: all */
    int rank;
    float alpha; /* 0: the file has none, which means the rank */
    uint64_t seed;
} ft_synth_lora_opts;

/* *tensors: how many the file has. */
ft_status ft_synth_lora(size_t *tensors, const ft_synth_lora_opts *o, ft_err *err);

#endif
