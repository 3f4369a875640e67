/* api/model.h - the inside of a loaded model, shared by the files that implement foretoken.h. */
#ifndef FT_API_MODEL_H
#define FT_API_MODEL_H

#include "base/buf.h"
#include "dev/split.h"
#include "engine/calibrate.h"
#include "engine/draft_methods.h"
#include "engine/queue.h"
#include "text/chat.h"
#include "text/grammar.h"
#include "text/vocab.h"

#include <pthread.h>
#include <stdio.h>

struct ft_llm {
    ft_dev *dev;
    ft_model *model, *assistant;
    ft_engine *engine;
    ft_vocab *vocab;
    ft_chat *chat; /* NULL: the model has no template */
    ft_trie *trie; /* for grammars; made when the first one comes, under the lock */
    pthread_mutex_t lock;
    ft_queue *queue; /* NULL: nobody has started it */
    int32_t *eog;    /* ids that end a response */
    int n_eog;
    int draft_max;
    FILE *trace; /* of drafts; NULL: none */
    ft_llm_info info;
    char *path, *name, *drafter, *template_text, *bos, *eos;
    ft_buf cache_table;
    char cache_summary[200], draft_type[160];
    char place[300];                /* what lies where, in words; "": there is one place */
    ft_split_rule rule;             /* which layers are not on the device; all zero: none */
    ft_kv_calibration *calibration; /* of the keys; NULL: not measured */
    struct ft_images *images;       /* NULL: the model reads none */
};

/* A token that prints nothing by itself, but means something to who reads the model's responses. */
bool ft_llm_tag(const ft_llm *m, int32_t id);
/* The vocabulary's bytes, for grammars; from any thread. */
const ft_trie *ft_llm_trie(ft_llm *m);
/* api/model.c: a model file, bound. */
ft_status ft_llm_open_file(ft_model **out, const char *path, ft_dev *dev, const ft_model *target,
                           const ft_llm_params *p, ft_err *err);

ft_status ft_llm_engine_params(ft_engine_params *e, const ft_model *m, const ft_llm_params *p,
                               const ft_draft_methods *d, ft_err *err);
/* api/placement.c: before the model is bound: the device becomes one of two where that is asked
 * for, or where the model would not fit. */
ft_status ft_llm_place(ft_llm *m, const ft_llm_params *p, const ft_draft_methods *d, ft_err *err);

/* api/drafter.c: what the parameters say; the drafter's file, if it has one, which may decide that
 * it drafts as a second model; fewer tokens to draft from; and all of that in words (yours). */
ft_status ft_draft_methods_of(ft_draft_methods *d, const ft_llm_params *p, ft_err *err);
ft_status ft_llm_open_drafter(ft_llm *m, const ft_llm_params *p, ft_draft_methods *d, ft_err *err);
ft_status ft_llm_narrow(ft_llm *m, const ft_llm_params *p, ft_err *err);
void ft_drafter_type(const ft_llm *m, const ft_draft_methods *d, char *out, size_t bytes);
char *ft_drafter_text(const ft_llm *m, const ft_llm_params *p, const ft_draft_methods *d,
                      const ft_engine_params *e);

/* A prompt of random tokens and a greedy response of n_gen tokens; what it took is in *stats. */
ft_status ft_time_response(ft_engine *e, int V, ft_slot *s, int n_prompt, int n_gen,
                           const ft_stats **stats, ft_err *err);

/* Measures the model's keys as t in a context of ctx tokens. ft_calibration_free. */
ft_status ft_llm_calibrate(ft_kv_calibration **out, ft_llm *m, ft_kv_type t, int ctx, ft_err *err);

#endif
