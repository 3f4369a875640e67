/* engine/slot.h - the internals of the engine, shared by the files of this folder. */
#ifndef FT_ENGINE_SLOT_H
#define FT_ENGINE_SLOT_H

#include "base/mem.h"
#include "engine/engine.h"
#include "engine/governor.h"
#include "engine/rotation.h"
#include "kv/prefix.h"
#include "kv/save.h"

typedef enum slot_state { SLOT_FREE, SLOT_IDLE, SLOT_PREFILL, SLOT_DECODE } slot_state;

typedef struct ft_mask_thread ft_mask_thread;

enum {
    FT_FEED_ROWS = FT_DECODE_ROWS, /* maximum rows of one slot in a draft pass */
    FT_KEY_SERIAL = 1 << 30,       /* no vocabulary is as large; ids of images are negative */
};

struct ft_slot {
    ft_engine *e;
    slot_state state;
    uint64_t arrival;    /* order of arrival; earlier slots are served first */
    ft_swapped *swapped; /* its KV pages in host memory while it is preempted; NULL: it is not
                          * preempted */
    int waited;          /* steps in a row in which its prompt got no rows */
    bool paused;         /* its client reads too slowly: it gets no rows until it is resumed */
    bool resting;        /* other responses run in this step (engine/rotation.h) */
    bool preparing;      /* its images are not encoded yet: its prompt gets no rows until then */
    ft_seq *seq;
    ft_task task;
    uint64_t lora_key; /* of the adapters and scales that its context was computed with; 0: none */
    int32_t *ids;      /* [ctx + 1]: token ids; the first ft_seq_len(seq)
                        * are in the KV cache */
    int n_ids;         /* known ids: the prompt, then the generated tokens */
    int32_t *key; /* [ctx + 1]: ids as prefix checkpoints compare them: with FT_KEY_SERIAL where
                   * delta nets compute a row by row */
    int saved;    /* the last position with a prefix checkpoint; 0: none is known */
    int mark;     /* position of the last task.checkpoint_id of this step; 0: none */

    /* positions at which prefill stops to save a prefix checkpoint */
    int checkpoint[FT_CHECKPOINTS_MAX + 1], n_checkpoint;

    ft_sampler *sampler;
    uint32_t *bits;
    void *mask_ahead; /* a clone of the task's token constraint, advanced over draft tokens;
                       * NULL: not needed yet */
    ft_mask_thread *mask_thread; /* NULL: not needed yet */
    ft_logprob *logprob;
    struct slot_held { /* a row whose mask is being computed: its token is sampled when that is
                        * ready, and the slot takes no part in steps until then */
        bool on;
        bool sampled;  /* a token was sampled from it before this step */
        int row;       /* its number in the step that computed it */
        int32_t draft; /* its draft token, -1: none */
        float *logits; /* [V] */
        bool listed;   /* `list` has its most likely tokens, from the device */
        ft_drawn list;
    } held;

    struct slot_rows {
        int first, n;             /* rows of this step's trunk pass; n 0: none */
        int first_pos;            /* position of the first of them */
        int first_out;            /* its first output row */
        int first_score, n_score; /* output rows that score the prompt, and how many */
        int score_pos;            /* position of the first of them */
    } rows;
    struct slot_draft {
        int32_t id[FT_DRAFT_MAX];
        int n;               /* draft tokens that wait for verification after the pending token */
        int method;          /* the n-gram drafter that made them; -1: the model's head */
        bool sampled;        /* they were sampled from q, for rejection sampling */
        bool dropped;        /* id[n] was drafted as well, but verifying it was not worth a row */
        int next_max;        /* draft tokens to make for the next step */
        int choice;          /* index into the engine's governor choices of this step; -1: none */
        int out;             /* output row of this draft pass; -1: none */
        ft_sampler *sampler; /* the same penalties as the response's; greedy unless sampled */
        float *p, *q;        /* rejection sampling: [V], and [draft_max][V] */
    } draft;
    struct slot_head {
        int fed;     /* the draft head has keys and values of positions [1, fed) */
        int to_feed; /* tokens that it reads before this step's draft passes */
    } head;
    struct slot_draft_model {
        ft_seq *seq;        /* what the draft model has read; NULL: there is no draft model */
        int rows, accepted; /* rows of its open span, and how many of them stay */
    } draft_model;
    struct slot_device_draws {
        int first, n;            /* sampled on the device: the first n rows of this pass */
        int list_first, n_lists; /* lists of the most likely tokens, for log probabilities */
    } device;
    struct slot_governors {
        ft_governor head, ngram; /* of the draft head or model, and of the n-gram drafters */
    } gov;

    int64_t iter; /* steps, for the trace */
    ft_finish finish;
    char error[500];
    ft_stats stats;
    int64_t t_start, t_first;
};

/* Measured step times, used to bound the prompt rows of a step that also decodes. */
typedef struct ft_prefill_budget {
    double limit_s;   /* maximum time of such a step; 0: no limit */
    double plain_s;   /* recent time of a step without prompt rows; 0: not measured yet */
    double row_s;     /* recent time per row of steps with both; 0: not measured yet */
    int rows;         /* prompt rows of this step */
    double images_s;  /* time that this step has spent on encoding images */
    bool images_last; /* the previous step encoded images */
} ft_prefill_budget;

typedef struct ft_masks ft_masks;

struct ft_engine {
    ft_model *m, *drafter; /* drafter: NULL, m itself (MTP head), an assistant, or a draft model */
    ft_drafter kind;       /* what the drafter is */
    ft_engine_params p;
    float lora[FT_LORA_MAX]; /* p.lora */
    ft_cache *cache;
    ft_runner *runner;
    ft_runner *draft_runner; /* runner of the draft passes: `runner`, or the draft model's own */
    ft_cache *draft_cache;   /* the draft model's KV cache */
    ft_sample_scratch *scratch;
    ft_slot *slot;     /* [p.slots] */
    bool *seen;        /* [p.slots]: prompts that this step has already considered */
    ft_prefix *prefix; /* prefix checkpoints shared by all slots; NULL: disabled */
    float *row;        /* buffer for one hidden row that is saved to or loaded from a checkpoint */
    ft_ngram_drafter *ngram_drafter;
    int n_ngram_drafter;
    ft_gov_costs costs;
    ft_gov_choice *choice; /* [p.slots]: slots for which the governor chooses the number of draft
                            * tokens */
    int rows_now;          /* decode rows of this step */
    int resting;           /* responses that could run in this step and do not */
    ft_rotation rotation;
    int score_left;      /* output rows of this step that are left for scoring prompts */
    bool pure;           /* this step has no prompt rows */
    uint64_t steps;      /* trunk passes so far */
    ft_device_time time; /* up to the start of the last step */
    int64_t run_ns;      /* when that step began; 0: there was no work before it */
    double run_busy;     /* the device's busy_s then */
    uint64_t arrivals, preempted;
    uint64_t reuse_hits, reuse_misses; /* prompts of which some tokens, or none, were cached */
    char fault[500]; /* why a pass failed; a device does not recover, so all later passes fail
                      * too */
    ft_prefill_budget prefill;
    ft_masks *masks;
    int64_t mask_until_ns; /* when this step no longer waits for masks */
    int64_t mask_wait_ns;  /* how long it has waited for them */
    void (*trace)(void *user, const char *line);
    void *trace_user;
};

static inline int slot_len(const ft_slot *s)
{
    return ft_seq_len(s->seq);
}

/* Index of a slot in its engine. */
static inline int slot_index(const ft_slot *s)
{
    return (int)(s - s->e->slot);
}

/* The maximum number of draft tokens per step, of any draft method. */
static inline int ft_most_drafts(const ft_engine_params *p)
{
    return p->draft_max > 0 ? FT_MAX(p->draft_max, p->ngram_draft_max) : 0;
}

/* Whether delta nets compute the row with this key row by row. */
static inline bool ft_key_serial(int32_t key)
{
    return key >= FT_KEY_SERIAL;
}

/* Whether an id is an end-of-generation token. */
static inline bool ft_slot_is_end_id(const ft_slot *s, int32_t id)
{
    for (int i = 0; i < s->task.n_eog; i++)
        if (s->task.eog[i] == id) return true;
    return false;
}

/* Whether an id ends this response. */
static inline bool ft_slot_ends_at(const ft_slot *s, int32_t id)
{
    return !s->task.ignore_eog && ft_slot_is_end_id(s, id);
}

void ft_slot_end(ft_slot *s, ft_finish why);

/* engine/engine.c: cache parameters that the model and a draft model have in common. */
ft_cache_params ft_engine_cache_params(const ft_model *m, const ft_engine_params *p);

/* engine/warmup.c: the step shapes that the device captures before the first request, and how
 * many there are for trunk passes and for draft passes. */
typedef struct ft_warmup_plan {
    int slots, ctx;
    int window, draft_window; /* rows of one slot in a trunk pass and in a draft pass; 0: none */
    bool pad_spans;           /* the layout of rows in spans does not matter to draft passes */
} ft_warmup_plan;
ft_warmup_plan ft_warmup_plan_of(const ft_engine_params *p, ft_drafter kind);
void ft_warmup_count(const ft_warmup_plan *p, int *trunk, int *draft);

/* engine/trace.c */
void ft_trace_draft(const ft_slot *s, double seconds);
void ft_trace_accept(const ft_slot *s, int drafted, int kept, const char *reason);

/* engine/rejection.c */
bool ft_rejecting(const ft_slot *s);
int32_t ft_reject_draft(ft_slot *s, const float *logits); /* samples the next draft token */
int32_t ft_reject_draw(ft_slot *s, const float *logits, const uint32_t *mask, int i);

/* engine/draft_model.c: drafting with a second, smaller model. The memory that it needs; keeping
 * the common prefix of a new prompt; passes that read the tokens it has not seen yet; the rows
 * of the first draft token and of each further one; and the pass over those rows. */
uint64_t ft_draft_model_bytes(ft_model *m, const ft_engine_params *p);
ft_status ft_draft_model_new(ft_engine *e, ft_err *err);
void ft_draft_model_start(ft_slot *s, const ft_task *j);
int ft_draft_model_backlog(const ft_engine *e); /* tokens to read for slots that resume drafting */
ft_status ft_draft_model_catch_up(ft_engine *e, ft_err *err);
void ft_draft_model_first(ft_slot *s, ft_rowset *w);
void ft_draft_model_next(ft_slot *s, ft_rowset *w);
void ft_draft_model_pass(ft_engine *e); /* starts the pass; does not wait */

/* engine/prefix_reuse.c. Keys: position `at` of a prompt (range: 0 at first, then passed on), all
 * of a prompt, a generated token. */
uint64_t ft_reuse_lora_key(const ft_engine *e, const float *scale); /* of the adapters of a task */
int32_t ft_reuse_key(const ft_engine *e, const ft_task *t, int at, int *range);
void ft_reuse_keys(ft_slot *s, const ft_task *t);
void ft_reuse_generated(ft_slot *s, int32_t id);
/* Where prefill saves checkpoints: the plan; the next position after `at`, or the end of the
 * prompt. */
void ft_reuse_plan(ft_slot *s);
int ft_reuse_next_checkpoint(const ft_slot *s, int at);
/* How many of the `same` positions that a slot shares with a prompt it can go on from; the longest
 * checkpoint of the first n keys, if it has more than `longer` positions. */
int ft_reuse_own(const ft_slot *s, int same);
int ft_reuse_find(ft_slot *s, uint64_t salt, int n, int longer);
/* The position of the response at which this step saves a checkpoint; 0: it saves none. The head
 * must have read the tokens before it. */
int ft_reuse_response(const ft_slot *s);
void ft_reuse_save(ft_engine *e);
void ft_reuse_ended(ft_slot *s); /* the same for a response that ended between two steps */

/* engine/preempt.c: reserves n more positions; preempts later slots if pages run out. false:
 * this slot was preempted or has ended. Preempted slots resume when there are enough free pages. */
void ft_preempt_idle(ft_slot *s, int cells); /* frees pages of other idle slots only, as far as
                                              * needed */
bool ft_preempt_reserve(ft_slot *s, int n);
void ft_preempt_restore(ft_engine *e);

/* engine/images.c: whether the task's images can be read. Where a cell is rotated to; the same for
 * a row of the trunk, or of the draft head, which stands where the token before it does. Rows of a
 * pass that are n cells of the prompt: what they need on the device, then what they are. And how
 * long a chunk of n rows becomes, of `most` at most: it does not end inside of an image that sees
 * ahead; 0: there is no room now. */
ft_status ft_images_check(const ft_engine *e, const ft_task *t, ft_err *err);
void ft_slot_pos(const ft_slot *s, int cell, int32_t pos[3]);
/* Encodes images of the first prompt that waits for them, within this step's time for that. */
void ft_images_prepare(ft_engine *e);
void ft_images_place(const ft_slot *s, ft_rowset *w, int row, int cell, bool head);
ft_status ft_images_load(const ft_slot *s, int row, int cell, int n, ft_err *err);
void ft_images_rows(const ft_slot *s, ft_rowset *w, int row, int cell, int n, bool head);
int ft_images_chunk(const ft_slot *s, int at, int n, int most);

/* engine/prefill_budget.c: maximum number of prompt rows in this step; seconds for images; and what
 * a step took. */
int ft_prefill_rows(const ft_engine *e, int response_rows);
double ft_prefill_image_time(const ft_engine *e, int responses);
void ft_prefill_record(ft_engine *e, int response_rows, double seconds);

/* engine/batch.c: fills the rows of this step's trunk pass. false: no slot has any. */
bool ft_batch_fill(ft_engine *e);

/* engine/draw.c: plans sampling on the device for the pass that was started. Afterwards, for row
 * i: its token, or FT_DRAW_MORE if the device did not sample it; a token sampled now, after all;
 * log probabilities, into s->logprob. Then the same for draft tokens, and the warm-up. */
void ft_draw_plan(ft_engine *e);
int32_t ft_draw_id(const ft_slot *s, int i);
int32_t ft_draw_late(ft_slot *s, int i, const uint32_t *mask);
int ft_draw_logprobs(ft_slot *s, int i, int32_t id);
void ft_draw_plan_drafts(ft_engine *e);
int32_t ft_draw_draft(const ft_slot *s);
float ft_draw_draft_logprob(ft_slot *s, int32_t id);
ft_status ft_draw_warm_up(ft_engine *e, ft_err *err); /* after a trunk pass */

/* engine/mask.c: masks that are computed beside the engine thread. Whether one is being computed
 * for this slot: then its constraint must not be touched; whether that of the task's constraint
 * is ready; the mask of a state into s->bits, false: it is not ready (some: as `allow` returns it).
 * How long this step waits for masks from now on; sleeping while all slots wait for theirs. At the
 * end of a response; when the slot is freed. */
ft_masks *ft_masks_new(void);
void ft_masks_free(ft_masks *m);
bool ft_mask_busy(const ft_slot *s);
bool ft_mask_known(const ft_slot *s);
bool ft_mask_find(ft_slot *s, void *state, bool *some);
void ft_mask_limit(ft_engine *e, double seconds);
void ft_mask_wait_any(const ft_engine *e);
void ft_mask_drop(ft_slot *s);
void ft_mask_thread_free(ft_slot *s);

/* engine/verify.c: the token constraint (grammar) in one of its states. The tokens that are allowed
 * next, in s->bits, or NULL for all, false: they are not known yet; whether this one is, where
 * false only means that the mask has to be computed. An end token that is ignored is never
 * allowed. */
bool ft_slot_token_mask(ft_slot *s, void *state, const uint32_t **mask);
bool ft_slot_token_allowed(const ft_slot *s, void *state, int32_t id);
const float *ft_slot_logits(ft_slot *s, int i); /* of row i, or of the row that is held */
void ft_verify(ft_slot *s);       /* samples this step's rows and accepts draft tokens */
void ft_verify_first(ft_slot *s); /* the prompt is complete: samples the first token */
void ft_verify_held(ft_slot *s);  /* samples the row that is held, if its mask is ready */

/* engine/draft.c */
bool ft_slot_governed(const ft_slot *s);       /* the number of its draft tokens is adaptive */
ft_status ft_draft(ft_engine *e, ft_err *err); /* draft tokens for the next step, of all slots */

/* engine/draft_head.c */
int ft_slot_hidden_row(const ft_slot *s, int cell); /* in this step's rows or in the ring */
int ft_head_unread(const ft_slot *s);               /* tokens that the head has not read yet */
void ft_head_first_row(ft_slot *s, ft_rowset *w);   /* rows that make the first draft token */
ft_status ft_head_feed(ft_engine *e, ft_err *err);  /* reads what has fallen far behind */
/* Before a prompt chunk: reads what the head has not read yet of the slot's sequence. */
ft_status ft_head_catch_up(ft_engine *e, ft_err *err);

#endif
