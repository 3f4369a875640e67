/* engine/engine.h - many sequences on one model: ids in, ids out.
 * A lane is one sequence: the ids it holds in the cache, the sampler of its reply, the drafts for
 * its next step. A round advances every busy lane by one step: prompts by a chunk, replies by the
 * tokens that the model agreed to. There is one way through: a reply without drafts is a round with
 * no draft rows. Nothing here sees text; only one thread may call.
 *
 * A reply's ids depend on its prompt and its parameters alone, not on who else is running nor on
 * whether anything was drafted. */
#ifndef FT_ENGINE_H
#define FT_ENGINE_H

#include "base/buf.h"
#include "engine/guess.h"
#include "engine/sample.h"
#include "engine/step.h"

_Static_assert(FT_DRAFT_MAX + 1 <= FT_DECODE_ROWS, "a verification step is a decode step");

typedef struct ft_engine ft_engine;
typedef struct ft_lane ft_lane;

enum {
    FT_DRAFT_APART = 128, /* ids that a draft model's vocabulary may have more or less */
    FT_MARKS = 4,         /* places of a prompt where another may part from it */
};

typedef struct ft_engine_params {
    int lanes;                /* sequences at a time */
    int ctx;                  /* cells of the longest one */
    int64_t cells;            /* of all together; 0: lanes * ctx */
    int rows;                 /* prompt rows of a step */
    ft_kv_type kt, vt;        /* encodings of the cache; kv/plan.h refines them ... */
    bool kv_exact;            /* ... unless this is set */
    bool kv_tail;             /* the newest cells of turbo layers apart */
    const ft_kv_gauge *gauge; /* of the model's keys, or NULL; outlives the engine */
    int draft_max;            /* most drafts of a round; 0: no drafting at all */
    int guess_max;            /* the same for guessers, whose drafts are free; 0: draft_max */
    bool no_head;             /* only guessers draft */
    bool reject;              /* rejection sampling: drafts are drawn too; a seed gives other ids */
    bool adapt;               /* the governor chooses each round's drafts up to the maximum */
    int score_rows;           /* rows at a time of ft_lane_score; 0: it is not used */
} ft_engine_params;

typedef enum ft_finish {
    FT_FINISH_NONE,    /* still running */
    FT_FINISH_EOG,     /* the model ended its reply */
    FT_FINISH_LENGTH,  /* max_tokens */
    FT_FINISH_CONTEXT, /* the context or the cache is full */
    FT_FINISH_STOP,    /* emit said so */
    FT_FINISH_ERROR,   /* see ft_lane_error */
} ft_finish;

typedef struct ft_emit {
    int32_t id;
    bool drafted;              /* a draft that the model agreed to */
    const ft_logprob *logprob; /* [0] is id, then the best; NULL unless asked for */
    int n_logprob;
} ft_emit;

/* What a lane is asked to do. Pointers must live until the lane is idle again. */
typedef struct ft_task {
    const int32_t *prompt;
    int n_prompt;
    int mark[FT_MARKS]; /* ascending: where another prompt is likely to part from this one */
    int n_mark;
    bool keep;      /* use what others have read, and leave them what this one reads */
    int max_tokens; /* < 0: until the context is full */
    ft_sample_params sampling;
    ft_mask mask;
    const int32_t *eog; /* ids that end a reply; they are not emitted */
    int n_eog;
    bool ignore_eog;   /* they do not; a mask that leaves nothing else does */
    int top_logprobs;  /* < 0: none */
    int draft_max;     /* drafts of a round; 0: none; bounded by the engine's */
    int draft_min;     /* fewer drafts than this are not worth a round */
    bool draft_fixed;  /* always draft_max of them: the governor is not asked */
    float draft_p_min; /* stop drafting below this probability */
    /* Measuring: draft i is agreed to with probability sim_accept[i] [FT_DRAFT_MAX], whatever the
     * model says; the tokens then mean nothing. NULL: the model decides. */
    const double *sim_accept;
    /* Called for rows of the prompt, in order, with the hidden row [D] of each; NULL: not wanted.
     */
    void (*hidden)(void *user, int cell, const float *row);
    /* Called for every token in order; false ends the reply after it. */
    bool (*emit)(void *user, const ft_emit *e);
    void *user;
} ft_task;

typedef struct ft_stats {
    int prompt_n, cached_n, predicted_n; /* prompt tokens evaluated and found, tokens emitted */
    double prompt_s, predicted_s;        /* predicted_s starts at the first token */
    int64_t rounds, drafted, accepted;   /* rounds of the reply, draft tokens proposed and kept */
    int64_t draft_rounds;                /* rounds that had drafts */
    double draft_s, verify_s;            /* of the rounds that this reply took part in */
    int64_t accepted_at[FT_DRAFT_MAX];   /* rounds in which draft i was accepted */
    int64_t drafted_at[FT_DRAFT_MAX];    /* rounds in which draft i was proposed */
} ft_stats;

/* drafter: an assistant of the model, or NULL; a model with a head of its own drafts with that.
 * The engine borrows both. Refuses before it allocates when memory would not do. */
ft_status ft_engine_new(ft_engine **out, ft_model *m, ft_model *drafter, const ft_engine_params *p,
                        ft_err *err);
void ft_engine_free(ft_engine *e);
/* Before the first lane: runs the steps that replies consist of (engine/warm.c). */
ft_status ft_engine_warm(ft_engine *e, ft_err *err);
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
/* Adds a guesser behind those that are there; the engine owns its state from now on. Before the
 * first lane. */
void ft_engine_add_guesser(ft_engine *e, ft_guesser g);
/* One line of JSON for every draft and every acceptance; fn NULL: none. */
void ft_engine_trace(ft_engine *e, void (*fn)(void *user, const char *line), void *user);

/* From now on lanes share what they read, in so many bytes; dir as in ft_queue_params. 0: nothing
 * happens. */
ft_status ft_engine_share(ft_engine *e, uint64_t bytes, const char *dir, ft_err *err);
void ft_engine_unshare(ft_engine *e); /* returns when everything is written */

/* A round with a prompt beside replies shall not take longer; 0: any time. */
void ft_engine_pace(ft_engine *e, double ms);
/* Whether there are pages for the task beside those who run; false: let it wait. */
bool ft_engine_room(const ft_engine *e, const ft_task *t);
/* Why a lane of this engine could not begin the task, without beginning it; from any thread. */
ft_status ft_task_check(const ft_engine *e, const ft_task *t, ft_err *err);

ft_lane *ft_lane_new(ft_engine *e); /* NULL when all are taken */
void ft_lane_free(ft_lane *l);
/* Begins a reply on an idle lane. What the lane holds already of the prompt is not read again, nor
 * is what lanes share. */
ft_status ft_lane_start(ft_lane *l, const ft_task *j, ft_err *err);
bool ft_lane_busy(const ft_lane *l);
ft_finish ft_lane_finish(const ft_lane *l);
const char *ft_lane_error(const ft_lane *l);
const ft_stats *ft_lane_stats(const ft_lane *l);
int ft_lane_match(const ft_lane *l, const ft_task *t); /* cells of the prompt that it holds */
/* What an idle lane holds, in a file; from there into what lanes share, and onto the lane; or
 * forgotten. n: tokens. */
ft_status ft_lane_write(ft_lane *l, const char *path, int *n, ft_err *err);
ft_status ft_lane_read(ft_lane *l, const char *path, int *n, ft_err *err);
void ft_lane_forget(ft_lane *l, int *n);
void ft_lane_cancel(ft_lane *l); /* between rounds; the lane is idle afterwards */
/* A held reply takes no part in rounds until it is let go. */
void ft_lane_hold(ft_lane *l, bool hold);

/* One round over all busy lanes; false when none is busy. */
bool ft_engine_round(ft_engine *e);

/* Times `steps` steps of `rows` tentative rows each, as rounds with rows - 1 drafts have them,
 * after the n ids; of each step one row more is kept than of the one before. seconds[steps]. The
 * lane must be idle; it is empty afterwards. */
ft_status ft_lane_steps(ft_lane *l, const int32_t *ids, int n, int rows, int steps, double *seconds,
                        ft_err *err);

/* Why the device failed; NULL: it did not. */
const char *ft_engine_fault(const ft_engine *e);

/* Scores a text: logits of every row in [from, n) of ids, through row(user, index, logits). The
 * lane must be idle; it is empty afterwards. */
ft_status ft_lane_score(ft_lane *l, const int32_t *ids, int n, int from,
                        void (*row)(void *user, int index, const float *logits), void *user,
                        ft_err *err);

#endif
