/* engine/engine.h - many sequences on one model: ids in, ids out.
 * A slot is one sequence: the ids it holds in the cache, the sampler of its response, the drafts
 * for its next step. A step advances every busy slot by one step: prompts by a chunk, responses by
 * the tokens that the model accepted. There is one way through: a response without drafts is a step
 * with no draft rows. Nothing here sees text; only one thread may call.
 *
 * A response's ids depend on its prompt and its parameters alone, not on who else is running nor on
 * whether anything was drafted. */
#ifndef FT_ENGINE_H
#define FT_ENGINE_H

#include "base/buf.h"
#include "engine/ngram_drafter.h"
#include "engine/sample.h"
#include "engine/step.h"

typedef struct ft_engine ft_engine;
typedef struct ft_slot ft_slot;

enum {
    FT_DRAFT_MAX = 15, /* drafts of a step; with the pending token a decode-class step */
    FT_DRAFT_VOCAB_DIFF_MAX = 128, /* ids that a draft model's vocabulary may have more or less */
    FT_CHECKPOINTS_MAX = 4,        /* places of a prompt where another may part from it */
};

typedef struct ft_engine_params {
    int slots;                            /* sequences at a time */
    int ctx;                              /* cells of the longest one */
    int64_t cells;                        /* of all together; 0: slots * ctx */
    int rows;                             /* prompt rows of a step */
    ft_kv_type kt, vt;                    /* encodings of the cache; kv/plan.h refines them ... */
    bool kv_exact;                        /* ... unless this is set */
    bool kv_tail;                         /* the most recent positions of turbo layers apart */
    const ft_kv_calibration *calibration; /* of the model's keys, or NULL; outlives the engine */
    int draft_max;                        /* most drafts of a step; 0: no drafting at all */
    int ngram_draft_max; /* the same for n-gram drafters, whose drafts are free; 0: draft_max */
    bool no_head;        /* only n-gram drafters draft */
    bool reject;         /* rejection sampling: drafts are drawn too; a seed gives other ids */
    bool adapt;          /* the governor chooses each step's drafts up to the maximum */
    int score_rows;      /* rows at a time of ft_slot_score; 0: it is not used */
} ft_engine_params;

typedef enum ft_finish {
    FT_FINISH_NONE,    /* still running */
    FT_FINISH_EOG,     /* the model ended its response */
    FT_FINISH_LENGTH,  /* max_tokens */
    FT_FINISH_CONTEXT, /* the context or the cache is full */
    FT_FINISH_STOP,    /* emit said so */
    FT_FINISH_ERROR,   /* see ft_slot_error */
} ft_finish;

typedef struct ft_emit {
    int32_t id;
    bool drafted;              /* a draft that the model accepted */
    const ft_logprob *logprob; /* [0] is id, then the best; NULL unless asked for */
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

/* What a slot is asked to do. Pointers must live until the slot is idle again. */
typedef struct ft_task {
    const int32_t *prompt;
    int n_prompt;
    const ft_task_image *image; /* in the order of the prompt */
    int n_image;
    bool images_by_axis; /* positions in an image have a row and a column */
    bool images_ahead;   /* rows of an image see each other in layers that keep a window */
    int checkpoint[FT_CHECKPOINTS_MAX]; /* ascending: where another prompt is likely to part from
                                           this one */
    int n_checkpoint;
    bool keep;      /* use what others have read, and leave them what this one reads */
    int max_tokens; /* < 0: until the context is full */
    ft_sample_params sampling;
    ft_mask mask;
    const int32_t *eog; /* ids that end a response; they are not emitted */
    int n_eog;
    bool ignore_eog;   /* they do not; a mask that leaves nothing else does */
    int top_logprobs;  /* < 0: none */
    int draft_max;     /* drafts of a step; 0: none; bounded by the engine's */
    int draft_min;     /* fewer drafts than this are not worth a step */
    bool draft_fixed;  /* always draft_max of them: the governor is not asked */
    float draft_p_min; /* stop drafting below this probability */
    /* Measuring: draft i is accepted with probability sim_accept[i] [FT_DRAFT_MAX], whatever the
     * model says; the tokens then mean nothing. NULL: the model decides. */
    const double *sim_accept;
    /* Called for rows of the prompt, in order, with the hidden row [D] of each; NULL: not wanted.
     */
    void (*hidden)(void *user, int cell, const float *row);
    /* Called for every token in order; false ends the response after it. */
    bool (*emit)(void *user, const ft_emit *e);
    void *user;
} ft_task;

typedef struct ft_stats {
    int prompt_n, cached_n, predicted_n; /* prompt tokens evaluated and found, tokens emitted */
    double prompt_s, predicted_s;        /* predicted_s starts at the first token */
    int64_t decode_steps, drafted,
        accepted;                      /* steps of the response, draft tokens proposed and kept */
    int64_t draft_steps;               /* steps that had drafts */
    double draft_s, verify_s;          /* of the steps that this response took part in */
    int64_t accepted_at[FT_DRAFT_MAX]; /* steps in which draft i was accepted */
    int64_t drafted_at[FT_DRAFT_MAX];  /* steps in which draft i was proposed */
} ft_stats;

/* drafter: an assistant of the model, or NULL; a model with a head of its own drafts with that.
 * The engine borrows both. Refuses before it allocates when memory would not do. */
ft_status ft_engine_new(ft_engine **out, ft_model *m, ft_model *drafter, const ft_engine_params *p,
                        ft_err *err);
void ft_engine_free(ft_engine *e);
/* Before the first slot: runs the steps that responses consist of (engine/warmup.c). */
ft_status ft_engine_warm_up(ft_engine *e, ft_err *err);
/* Device memory for the cache and the buffers of a step. */
uint64_t ft_engine_bytes(const ft_model *m, const ft_model *drafter, const ft_engine_params *p);
/* The same where the cache of layers below `first` lies elsewhere. */
uint64_t ft_engine_bytes_from(const ft_model *m, const ft_model *drafter, const ft_engine_params *p,
                              int first);
/* What its steps ask of a device, for the scratch that goes with it. */
ft_dev_limits ft_engine_limits(const ft_model *m, const ft_model *drafter,
                               const ft_engine_params *p);
/* Bytes of the cache alone. */
uint64_t ft_engine_cache_bytes(const ft_model *m, const ft_model *drafter,
                               const ft_engine_params *p);
/* Bytes of the model's own cache for one token; *f16: if all of it were f16. */
double ft_engine_token_bytes(const ft_model *m, const ft_engine_params *p, double *f16);
const ft_kv *ft_engine_kv(const ft_engine *e); /* of every layer */
/* Reports named activations of every pass. */
void ft_engine_probe(ft_engine *e, ft_probe_fn *fn, void *user);
void ft_engine_meter(ft_engine *e, ft_meter *m); /* times every op; NULL: no longer */
/* What each layer's cache is encoded as and what that takes: appends a table, and words[cap] gets
 * it in a line, special[cap] the layers that get more than was wished for (kv/plan.h). False: all
 * of it is f16. */
bool ft_engine_cache_table(ft_buf *out, char *words, char *special, size_t cap, const ft_model *m,
                           const ft_model *drafter, const ft_engine_params *p);
bool ft_engine_drafts(const ft_engine *e);
/* Adds a n-gram drafter behind those that are there; the engine owns its state from now on. Before
 * the first slot. */
void ft_engine_add_ngram_drafter(ft_engine *e, ft_ngram_drafter g);
/* One line of JSON for every draft and every acceptance; fn NULL: none. */
void ft_engine_trace(ft_engine *e, void (*fn)(void *user, const char *line), void *user);

/* From now on slots share what they read, in so many bytes; dir as in ft_queue_params. 0: nothing
 * happens. */
ft_status ft_engine_share(ft_engine *e, uint64_t bytes, const char *dir, ft_err *err);
void ft_engine_unshare(ft_engine *e); /* returns when everything is written */

/* A step with a prompt beside responses shall not take longer; 0: any time. */
void ft_engine_limit_step(ft_engine *e, double ms);
/* Whether there are pages for the task beside those who run; false: let it wait. */
bool ft_engine_can_admit(const ft_engine *e, const ft_task *t);
/* Why a slot of this engine could not begin the task, without beginning it; from any thread. */
ft_status ft_task_check(const ft_engine *e, const ft_task *t, ft_err *err);

ft_slot *ft_slot_new(ft_engine *e); /* NULL when all are taken */
void ft_slot_free(ft_slot *s);
/* Begins a response on an idle slot. What the slot holds already of the prompt is not read again,
 * nor is what slots share. */
ft_status ft_slot_start(ft_slot *s, const ft_task *j, ft_err *err);
bool ft_slot_busy(const ft_slot *s);
ft_finish ft_slot_finish(const ft_slot *s);
const char *ft_slot_error(const ft_slot *s);
const ft_stats *ft_slot_stats(const ft_slot *s);
int ft_slot_match(const ft_slot *s, const ft_task *t); /* cells of the prompt that it holds */
/* What an idle slot holds, in a file; from there into what slots share, and onto the slot; or
 * forgotten. n: tokens. */
ft_status ft_slot_write(ft_slot *s, const char *path, int *n, ft_err *err);
ft_status ft_slot_read(ft_slot *s, const char *path, int *n, ft_err *err);
void ft_slot_forget(ft_slot *s, int *n);
void ft_slot_cancel(ft_slot *s); /* between steps; the slot is idle afterwards */
/* A paused response takes no part in steps until it is let go. */
void ft_slot_pause(ft_slot *s, bool hold);

/* One step over all busy slots; false when none is busy. */
bool ft_engine_round(ft_engine *e);

/* Times `steps` steps of `rows` tentative rows each, as steps with rows - 1 drafts have them,
 * after the n ids; of each step one row more is kept than of the one before. seconds[steps]. The
 * slot must be idle; it is empty afterwards. */
ft_status ft_slot_steps(ft_slot *s, const int32_t *ids, int n, int rows, int steps, double *seconds,
                        ft_err *err);

/* Why the device failed; NULL: it did not. */
const char *ft_engine_fault(const ft_engine *e);

/* Scores a text: logits of every row in [from, n) of ids, through row(user, index, logits). The
 * slot must be idle; it is empty afterwards. */
ft_status ft_slot_score(ft_slot *s, const int32_t *ids, int n, int from,
                        void (*row)(void *user, int index, const float *logits), void *user,
                        ft_err *err);

#endif
