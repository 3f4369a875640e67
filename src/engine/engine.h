/* engine/engine.h - batched decoding with speculation: token ids in, token ids out.
 * A slot holds one sequence at a time: its ids in the KV cache, the sampler of its response and
 * the draft tokens for its next step. ft_engine_step runs one step, which advances every busy
 * slot: a prompt by a chunk, a response by the accepted tokens. There is one code path: decoding
 * without drafting is a step with no draft rows. Nothing here sees text. Only one thread may
 * call these functions.
 * The ids of a response depend on its prompt and parameters alone, not on the rest of the batch
 * and not on what was drafted. */
#ifndef FT_ENGINE_H
#define FT_ENGINE_H

#include "base/buf.h"
#include "engine/ngram_drafter.h"
#include "engine/sample.h"
#include "engine/step.h"

_Static_assert(FT_DRAFT_MAX + 1 <= FT_DECODE_ROWS, "a verification step is a decode step");

typedef struct ft_engine ft_engine;
typedef struct ft_slot ft_slot;

enum {
    FT_DRAFT_VOCAB_DIFF_MAX = 128, /* by how much a draft model's vocabulary size may differ */
    FT_CHECKPOINTS_MAX = 4,        /* positions of a prompt at which the engine saves a prefix
                                    * checkpoint */
};

typedef struct ft_engine_params {
    int slots;                            /* sequences at a time */
    int ctx;                              /* maximum context length of a sequence */
    int64_t cells;                        /* KV cache positions of all sequences together; 0:
                                           * slots * ctx */
    int rows;                             /* maximum prompt rows per step */
    ft_kv_type kt, vt;                    /* KV cache encodings; kv/plan.h may choose better ones
                                           * for some layers ... */
    bool kv_exact;                        /* ... unless this is set */
    bool kv_tail;                         /* keep recent positions of turbo layers in q8_0 as
                                           * well */
    const ft_kv_calibration *calibration; /* measured statistics of the model's keys, or NULL;
                                           * must outlive the engine */
    int draft_max;                        /* maximum draft tokens per step; 0: no drafting */
    int ngram_draft_max; /* the same for n-gram drafters, which cost no forward pass; 0:
                          * draft_max */
    bool no_head;        /* use n-gram drafters only */
    bool reject;         /* rejection sampling: draft tokens are sampled; a seed gives different
                          * ids than without */
    bool adapt;          /* the governor chooses the number of draft tokens of each step */
    const float *lora;   /* [n_adapter]: scales of the model's adapters for tasks that have none of
                          * their own; NULL: 0. Copied */
    int micro;           /* micro-batches of a step on several devices (engine/micro.h); 0: chosen;
                          * 1: none */
    int score_rows;      /* prompt rows per step whose logits can be read, by ft_slot_score and
                          * ft_task.scored; 0: neither is used */
} ft_engine_params;

typedef enum ft_finish {
    FT_FINISH_NONE,    /* still running */
    FT_FINISH_EOG,     /* the model generated an end token */
    FT_FINISH_LENGTH,  /* max_tokens */
    FT_FINISH_CONTEXT, /* the context or the cache is full */
    FT_FINISH_STOP,    /* the emit callback returned false */
    FT_FINISH_ERROR,   /* see ft_slot_error */
} ft_finish;

typedef struct ft_emit {
    int32_t id;
    bool drafted;              /* it was a draft token that was accepted */
    const ft_logprob *logprob; /* [0] is id, then the most likely tokens; NULL unless requested */
    int n_logprob;
} ft_emit;

/* An image in a prompt: rows x cols tokens from token `first` on. Their ids are those of
 * ft_image_id. */
typedef struct ft_task_image {
    int first, rows, cols;
    const float *data; /* [rows cols, D]: what enters the model in their place */
} ft_task_image;

/* The id of token i of an image; key: of the image and of what it was resized to. */
int32_t ft_image_id(uint64_t key, int i);

/* Positions [first, end) of a prompt. */
typedef struct ft_task_range {
    int first, end;
} ft_task_range;

/* A request, as a slot runs it. Pointers must stay valid until the slot is idle again. */
typedef struct ft_task {
    const int32_t *prompt;
    int n_prompt;
    const ft_task_image *image; /* in the order of the prompt */
    int n_image;
    bool images_by_axis; /* positions in an image have a row and a column */
    /* Called on the engine thread between steps until it sets *done: fills in `data` of the images
     * that end behind token `from`, in pieces; each call should take about `seconds` (infinite: all
     * of it at once). NULL: the data is there. */
    ft_status (*prepare)(void *user, int from, double seconds, bool *done, ft_err *err);
    void *prepare_user;
    bool images_ahead; /* rows of an image see each other in layers that keep a window */
    int checkpoint[FT_CHECKPOINTS_MAX]; /* ascending positions at which other prompts are likely
                                         * to diverge from this one */
    int n_checkpoint;
    /* Ascending parts of the prompt that a model generated: earlier responses, without what the
     * template puts before and after them. Delta nets compute them row by row, as they did when
     * they were generated, so that the state after a response is a state of the next prompt. A
     * part that is missing here costs cache hits, never a bit of the output. */
    const ft_task_range *response;
    int n_response;
    int32_t checkpoint_id; /* a checkpoint is saved before this generated token, because templates
                            * may write what follows it differently; 0: none */
    bool cache_prompt;     /* use cached prefixes, and cache this prompt */
    uint64_t salt;         /* cached prefixes are shared by tasks with the same salt */
    const float *lora;     /* [n_adapter]: scales of the model's adapters; NULL: the engine's.
                            * Cached prefixes are shared by tasks with the same scales */
    int max_tokens;        /* < 0: until the context is full */
    ft_sample_params sampling;
    ft_mask mask;
    const int32_t *eog; /* end tokens; they are not emitted */
    int n_eog;
    bool ignore_eog;   /* end tokens do not end the response, unless the constraint allows
                        * nothing else */
    int top_logprobs;  /* < 0: none */
    int draft_max;     /* maximum draft tokens per step; 0: none; bounded by the engine's maximum */
    int draft_min;     /* discard drafts with fewer tokens than this */
    bool draft_fixed;  /* always draft draft_max tokens, without the governor */
    float draft_p_min; /* stop drafting below this probability */
    /* For benchmarks: draft token i is accepted with probability sim_accept[i] ([FT_DRAFT_MAX])
     * whatever the model predicts, so the output is meaningless. NULL: off. */
    const double *sim_accept;
    /* Called with the hidden row [D] of every prompt position, in order; NULL: not needed. */
    void (*hidden)(void *user, int cell, const float *row);
    /* Called with the log probabilities of prompt token i > score_from: [0] is the token, then the
     * top_logprobs most likely ones. NULL: not needed. At most score_from positions are reused. */
    void (*scored)(void *user, int i, const ft_logprob *p, int n);
    int score_from;
    /* Called for every token in order; false ends the response after it. */
    bool (*emit)(void *user, const ft_emit *e);
    void *user;
} ft_task;

typedef struct ft_stats {
    int prompt_n, cached_n, predicted_n;     /* prompt tokens computed, prompt tokens found in the
                                              * cache, tokens generated */
    double prompt_s, predicted_s;            /* predicted_s starts at the first token */
    int64_t decode_steps, drafted, accepted; /* steps of the response; draft tokens proposed and
                                              * accepted */
    int64_t draft_steps;                     /* steps with draft tokens */
    double draft_s, verify_s;                /* time of the steps that this response took part in */
    int64_t accepted_at[FT_DRAFT_MAX];       /* steps in which draft token i was accepted */
    int64_t drafted_at[FT_DRAFT_MAX];        /* steps in which draft token i was proposed */
} ft_stats;

/* drafter: an assistant or draft model, or NULL; a model with an MTP head drafts with that. The
 * engine borrows both. Fails before it allocates anything large if memory does not suffice. */
ft_status ft_engine_new(ft_engine **out, ft_model *m, ft_model *drafter, const ft_engine_params *p,
                        ft_err *err);
void ft_engine_free(ft_engine *e);
/* Before the first slot is used: captures or runs the steps that decoding needs
 * (engine/warmup.c). */
ft_status ft_engine_warm_up(ft_engine *e, ft_err *err);
/* Times steps with and without draft tokens, for at most about a second, so that the first
 * responses need not spend their own steps on it. Call it before n-gram drafters are added and
 * before the first slot is used. */
void ft_engine_time_drafts(ft_engine *e);
/* Device memory for the KV cache and the buffers of a step. */
uint64_t ft_engine_bytes(ft_model *m, ft_model *drafter, const ft_engine_params *p);
/* Its parts: the buffers of a step; and in cache[0 .. n), which has FT_ENGINE_LAYERS entries, the
 * caches of the layers, that of an MTP head last. Returns n. A draft model, which is a model and an
 * engine of its own, is *draft. */
enum { FT_ENGINE_LAYERS = 1024 };
int ft_engine_parts(ft_model *m, ft_model *drafter, const ft_engine_params *p, uint64_t *step,
                    uint64_t *draft, uint64_t *cache);
/* What its steps require of a device, to size the device's scratch memory. */
ft_dev_limits ft_engine_limits(ft_model *m, ft_model *drafter, const ft_engine_params *p);
/* Bytes of the cache alone. */
uint64_t ft_engine_cache_bytes(ft_model *m, ft_model *drafter, const ft_engine_params *p);
/* Bytes of the model's own KV cache per token; *f16: if all layers were f16. */
double ft_engine_token_bytes(const ft_model *m, const ft_engine_params *p, double *f16);
const ft_kv *ft_engine_kv(const ft_engine *e); /* of every layer */
/* Reports named activations of every pass. */
void ft_engine_probe(ft_engine *e, ft_probe_fn *fn, void *user);
void ft_engine_meter(ft_engine *e, ft_profile *m); /* times every op; NULL: stop */
/* The encoding and size of each layer's cache: appends a table to out; words[cap] receives a
 * one-line summary, special[cap] the layers with a better encoding than requested (kv/plan.h).
 * Returns false if all layers are f16. */
bool ft_engine_cache_table(ft_buf *out, char *words, char *special, size_t cap, ft_model *m,
                           ft_model *drafter, const ft_engine_params *p);
bool ft_engine_drafts(const ft_engine *e);
/* Adds an n-gram drafter after the existing ones. The engine owns its state from now on. Call it
 * before the first slot is used. */
void ft_engine_add_ngram_drafter(ft_engine *e, ft_ngram_drafter g);
/* One line of JSON for every draft and every acceptance; fn NULL: none. */
void ft_engine_trace(ft_engine *e, void (*fn)(void *user, const char *line), void *user);

/* Enables prefix checkpoints for all slots, in at most so many bytes; dir as in ft_queue_limits.
 * 0 bytes: does nothing. */
ft_status ft_engine_share(ft_engine *e, uint64_t bytes, const char *dir, ft_err *err);
void ft_engine_unshare(ft_engine *e); /* returns when all files are written */

/* Limits the time of a step that reads a prompt while others decode; 0: no limit. */
void ft_engine_limit_step(ft_engine *e, double ms);
/* Whether there are enough free pages for the task beside the running ones; false: it should
 * wait. */
bool ft_engine_can_admit(const ft_engine *e, const ft_task *t);
/* Reports why this engine could not run the task, without starting it. Any thread may call it. */
ft_status ft_task_check(const ft_engine *e, const ft_task *t, ft_err *err);

ft_slot *ft_slot_new(ft_engine *e); /* NULL when all slots are taken */
void ft_slot_free(ft_slot *s);
/* Starts a response on an idle slot. Prompt tokens that the slot or a prefix checkpoint holds
 * already are not computed again. */
ft_status ft_slot_start(ft_slot *s, const ft_task *j, ft_err *err);
bool ft_slot_busy(const ft_slot *s);
ft_finish ft_slot_finish(const ft_slot *s);
const char *ft_slot_error(const ft_slot *s);
const ft_stats *ft_slot_stats(const ft_slot *s);
uint64_t ft_slot_salt(const ft_slot *s); /* of the task whose context it holds; 0: none */
int ft_slot_match(const ft_slot *s, const ft_task *t); /* prompt tokens that it holds */
/* Saves the sequence of an idle slot to a file, restores one, or erases it. n: number of tokens. */
ft_status ft_slot_write(ft_slot *s, const char *path, int *n, ft_err *err);
/* lora: as in ft_task; a file that was saved with other scales is rejected. */
ft_status ft_slot_read(ft_slot *s, uint64_t salt, const float *lora, const char *path, int *n,
                       ft_err *err);
void ft_slot_forget(ft_slot *s, int *n);
void ft_slot_cancel(ft_slot *s); /* call it between steps; the slot is idle afterwards */
/* A paused slot takes no part in steps until it is resumed. */
void ft_slot_pause(ft_slot *s, bool hold);

/* Runs one step over all busy slots; false when none is busy. */
bool ft_engine_step(ft_engine *e);

/* Times `steps` decode steps with `rows` tentative rows each (a pending token and rows - 1 draft
 * tokens) after n ids; each step accepts one row more than the one before. seconds[steps]. The
 * slot must be idle and is empty afterwards. */
ft_status ft_slot_steps(ft_slot *s, const int32_t *ids, int n, int rows, int steps, double *seconds,
                        ft_err *err);

/* Why the device failed; NULL: it has not failed. */
const char *ft_engine_fault(const ft_engine *e);

/* Time in which the engine had work, and for how much of it steps were on the device, by the
 * device's clock; busy_s is 0 where the device has none. The rest of the time it was idle. */
typedef struct ft_device_time {
    double run_s, busy_s;
} ft_device_time;
ft_device_time ft_engine_device_time(const ft_engine *e);

/* Scores a text: calls row(user, index, logits) for every position in [from, n) of ids. The slot
 * must be idle and is empty afterwards. */
ft_status ft_slot_score(ft_slot *s, const int32_t *ids, int n, int from,
                        void (*row)(void *user, int index, const float *logits), void *user,
                        ft_err *err);

#endif
