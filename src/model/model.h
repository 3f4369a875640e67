/* model/model.h - a model file bound to a device: configuration, weights, and the two passes.
 * Owns its weights on the device and, through the open file, the mapped ones. Nothing changes
 * after ft_model_open; many sequences use it at once. */
#ifndef FT_MODEL_H
#define FT_MODEL_H

#include "base/progress.h"
#include "dev/step.h"
#include "gguf/gguf.h"
#include "kv/kv.h"

typedef struct ft_model ft_model;

typedef struct ft_arch {
    const char *name;         /* general.architecture */
    const char *const *alias; /* other spellings of it, NULL-terminated; may be NULL */
    const char *words;        /* "Qwen3.5, dense" */
    ft_status (*bind)(ft_model *m, ft_err *err);
    void (*release)(ft_model *m);
    /* Runs the rows of a step through the trunk: s->hidden for all rows, s->logits for the
     * output rows. NULL for a drafter. */
    void (*forward)(const ft_model *m, ft_step *s);
    /* One draft pass: reads tokens and s->hidden_in; writes s->hidden and s->logits for the
     * output rows. Other rows only store their keys and values. */
    void (*draft)(const ft_model *m, ft_step *s);
    /* Activation values that either pass needs for T rows and n_out output rows. */
    size_t (*arena)(const ft_model *m, int T, int n_out);
    /* The output matrix of draft(), and its tensor in the file; NULL if it cannot be narrowed. */
    const ft_weight *(*draft_head)(const ft_model *m, const ft_gguf_tensor **t);
} ft_arch;

typedef enum ft_drafter {
    FT_DRAFT_NONE,
    FT_DRAFT_MTP,
    FT_DRAFT_ASSISTANT,
    FT_DRAFT_MODEL, /* forward() of a model that was opened without a target */
} ft_drafter;

struct ft_model {
    const ft_arch *arch;
    ft_dev *dev;
    ft_gguf *file;
    const ft_model *target; /* an assistant's target */
    void *cfg;              /* the architecture's own configuration */

    int V, D, L;           /* vocabulary, width of hidden rows, trunk layers */
    int n_layer;           /* layers that store something: trunk and draft block */
    ft_layer_state *layer; /* [n_layer] */
    int ctx_train;
    ft_drafter drafter;   /* what draft() is; NONE: it must not be called */
    const char *no_draft; /* why there is no drafter */
    int draft_heads;      /* MTP heads in the file; the first one drafts */
    ft_dev_limits limits; /* k, experts, heads ...: what this model requires of a device */
    uint64_t weight_bytes, weight_count;

    /* A draft head over a subset of the vocabulary; n_draft_ids 0: over all ids. */
    ft_weight narrow;
    int32_t *draft_ids; /* [n_draft_ids], ascending: the id of each output; NULL: the first ones */
    int n_draft_ids;
    void *narrow_rows; /* its rows, as in the file; NULL: it is a part of the full matrix */

    /* LoRA adapters (model/adapter.h), in the order in which they were added. */
    struct ft_adapter *adapter[FT_LORA_MAX];
    int n_adapter;
    uint32_t adapters, draft_adapters; /* bits: with tensors of the trunk, of the draft head */
    ft_lora_sizes lora;

    ft_progress *progress; /* while binding */
    ft_weight **weights;   /* every bound weight, for unbinding */
    void **memory;         /* device memory of vectors and tables */
    int n_weights, n_memory;
    uint64_t table_bytes; /* of memory */
};

/* Selects the architecture. target: the model that an assistant drafts for, else NULL. On
 * success the model owns the file. progress counts the bytes bound; it may be NULL. */
ft_status ft_model_open(ft_model **out, ft_gguf *file, ft_dev *dev, const ft_model *target,
                        ft_progress *progress, ft_err *err);
/* A hash of the file's size, its tensors' names and shapes, and samples of their bytes. */
uint64_t ft_model_digest(const ft_model *m);
uint64_t ft_gguf_digest(const ft_gguf *g);
void ft_model_close(ft_model *m);
/* Whether a file holds a complete model; and whether it holds a head that can draft for this
 * target. */
bool ft_model_whole(const ft_gguf *file);
bool ft_model_head_for(const ft_gguf *file, const ft_model *target);
enum { FT_NARROW = 64 }; /* maximum number of rows of a weight that devices pack together */
/* Restricts drafting to these n ids (ascending): a copy of their rows of the output matrix makes
 * draft passes cheaper. ids NULL: the first n, a multiple of FT_NARROW, which needs no copy.
 * Verification still uses all ids. */
ft_status ft_model_narrow(ft_model *m, const int32_t *ids, int n, ft_err *err);
const ft_arch *const *ft_arch_list(void); /* NULL-terminated */

extern const ft_arch ft_arch_qwen35, ft_arch_qwen35moe, ft_arch_gemma4, ft_arch_gemma4_assistant;

#endif
