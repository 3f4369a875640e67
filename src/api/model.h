/* api/model.h - the internals of a loaded model, shared by the files that implement foretoken.h. */
#ifndef FT_API_MODEL_H
#define FT_API_MODEL_H

#include "base/buf.h"
#include "dev/split.h"
#include "engine/calibrate.h"
#include "engine/draft_methods.h"
#include "engine/queue.h"
#include "foretoken.h"
#include "text/chat.h"
#include "text/grammar.h"
#include "text/vocab.h"

#include <pthread.h>
#include <stdio.h>

struct ft_llm {
    ft_dev *dev;
    /* Further devices that the model may be split over: until it is placed. */
    ft_dev *more[FT_SPLIT_MAX];
    int n_more;
    bool all_gpus; /* they are used only if the first device is not enough */
    ft_model *model, *assistant;
    ft_engine *engine;
    ft_vocab *vocab;
    ft_chat_template *chat; /* NULL: the model has no template */
    ft_trie *trie;          /* for grammars; created with the first one, under the lock */
    pthread_mutex_t lock;
    ft_queue *queue; /* NULL: not started */
    int32_t *eog;    /* end tokens */
    int n_eog;
    int draft_max;
    FILE *trace; /* draft trace; NULL: none */
    ft_llm_info info;
    char *path, *name, *drafter, *template_text, *bos, *eos;
    ft_buf cache_table;
    char cache_summary[200], draft_type[160];
    char place[2000];        /* placement of layers, as text; "": a single device */
    ft_split_rule rule;      /* where the layers are; all zero: on a single device */
    ft_split_override *over; /* [n_over] tensors that are placed by pattern */
    int n_over;
    ft_kv_calibration *calibration; /* of the keys; NULL: not measured */
    struct ft_images *images;       /* NULL: the model reads none */
    struct ft_rank *rank;           /* classification head; NULL: none */
    char *rank_template;            /* of the file; NULL: none */
    float lora[FT_LORA_MAX];        /* scales of requests without any, under the lock */
    struct ft_score_store *scores;  /* of recent prompts, under the lock; NULL: none yet */
};

/* A token without text of its own that structures a response (reasoning, tool calls). */
bool ft_llm_tag(const ft_llm *m, int32_t id);
/* The vocabulary as a byte trie, for grammars; any thread may call it. */
const ft_trie *ft_llm_trie(ft_llm *m);
/* api/model.c: opens and binds a model file. */
ft_status ft_llm_open_file(ft_model **out, const char *path, ft_dev *dev, const ft_model *target,
                           const ft_llm_params *p, ft_err *err);

/* Whether a larger batch, with which an engine takes `wide` bytes instead of `need`, leaves a
 * quarter of the free memory, and takes at most an eighth of it. */
bool ft_batch_widens(uint64_t need, uint64_t wide, uint64_t have);
ft_status ft_llm_engine_params(ft_engine_params *e, const ft_model *m, const ft_llm_params *p,
                               const ft_draft_methods *d, ft_err *err);
/* api/tools.c: the text that begins a tool call, or NULL. */
const char *ft_llm_call_marker(const ft_llm *m);
/* api/ranks.c: CPU threads and the device of this rank if several ranks share a machine. */
int ft_rank_threads(int threads);
const char *ft_rank_device(char name[24], const char *device);
/* api/devices.c: opens the devices that the parameters name. */
ft_status ft_llm_open_devices(ft_llm *m, const ft_llm_params *p, ft_err *err);
/* api/overrides.c: --override-tensor. */
ft_status ft_llm_read_overrides(ft_llm *m, const ft_llm_params *p, ft_err *err);
/* api/placement.c: before the model is bound: splits it between the devices and the CPU if
 * requested, or if it does not fit. */
ft_status ft_llm_place(ft_llm *m, const ft_llm_params *p, const ft_draft_methods *d, ft_err *err);
void ft_llm_free_overrides(ft_llm *m);

/* api/drafter.c: the draft methods of the parameters; opens the drafter's file, which may turn
 * out to be a draft model; narrows the draft vocabulary; and describes all of that (free the
 * text). */
ft_status ft_draft_methods_of(ft_draft_methods *d, const ft_llm_params *p, ft_err *err);
ft_status ft_llm_open_drafter(ft_llm *m, const ft_llm_params *p, ft_draft_methods *d, ft_err *err);
ft_status ft_llm_narrow(ft_llm *m, const ft_llm_params *p, ft_err *err);
void ft_drafter_type(const ft_llm *m, const ft_draft_methods *d, char *out, size_t bytes);
char *ft_drafter_text(const ft_llm *m, const ft_llm_params *p, const ft_draft_methods *d,
                      const ft_engine_params *e);

/* A prompt of random tokens and a greedy response of n_gen tokens; what it took is in *stats. */
ft_status ft_time_response(ft_engine *e, int V, ft_slot *s, int n_prompt, int n_gen,
                           const ft_stats **stats, ft_err *err);

/* Measures the model's keys as t in a context of ctx tokens. Release with ft_calibration_free. */
ft_status ft_llm_calibrate(ft_kv_calibration **out, ft_llm *m, ft_kv_type t, int ctx, ft_err *err);

#endif
