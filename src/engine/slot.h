/* engine/slot.h - the inside of an engine, shared by its files. */
#ifndef FT_ENGINE_SLOT_H
#define FT_ENGINE_SLOT_H

#include "base/mem.h"
#include "engine/engine.h"
#include "engine/governor.h"
#include "kv/prefix.h"
#include "kv/save.h"

typedef enum slot_state { SLOT_FREE, SLOT_IDLE, SLOT_PREFILL, SLOT_DECODE } slot_state;

enum { FT_FEED_ROWS = FT_DECODE_ROWS }; /* that a slot brings along to a draft pass, at most */

struct ft_slot {
    ft_engine *e;
    slot_state state;
    uint64_t arrival;    /* the earlier goes first */
    ft_swapped *swapped; /* its pages, while others have the room; NULL: they are in the cache */
    int waited;          /* steps that brought its prompt no row */
    bool paused;         /* its reader stays behind: no rows until it is let go */
    ft_seq *seq;
    ft_task task;
    int32_t *ids;                           /* [ctx]: the first ft_seq_len are in the cache */
    int n_ids;                              /* known ids: the prompt, then what was drawn */
    int cut[FT_CHECKPOINTS_MAX + 1], n_cut; /* where chunks of the prompt end, to be kept there */

    ft_sampler *sampler;
    uint32_t *bits;
    void *mask_ahead; /* a clone of the task's mask, behind drafts; NULL: none was needed so far */
    ft_logprob *logprob;

    struct slot_rows {
        int first, n;  /* rows of this step's trunk pass; n 0: none */
        int first_pos; /* position of the first of them */
        int first_out; /* its first output row */
    } rows;
    struct slot_draft {
        int32_t id[FT_DRAFT_MAX];
        int n;               /* draft tokens that wait for verification after the pending token */
        int method;          /* the n-gram drafter that made them; -1: the model's head */
        bool sampled;        /* they were sampled from q, for rejection sampling */
        bool dropped;        /* id[n] was drafted too, but was not worth a row */
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

/* How long steps take, so that a prompt beside responses can be cut to measure. */
typedef struct ft_prefill_budget {
    double limit_s; /* of such a step; 0: none */
    double plain_s; /* a step without prompt rows, lately; 0: not known */
    double row_s;   /* what each row of a prompt adds; 0: not known */
    int rows;       /* prompt rows of this step */
} ft_prefill_budget;

struct ft_engine {
    ft_model *m, *drafter; /* drafter: NULL, m itself, an assistant, or a second model */
    ft_drafter kind;       /* what the drafter is here */
    ft_engine_params p;
    ft_cache *cache;
    ft_runner *runner;
    ft_runner *draft_runner; /* of draft passes: run, or a second model's own */
    ft_cache *draft_cache;   /* a second model's */
    ft_sample_scratch *scratch;
    ft_slot *slot;     /* [p.slots] */
    bool *seen;        /* [p.slots]: prompts that this step has been to */
    ft_prefix *prefix; /* what slots share; NULL: nothing */
    float *row;        /* a hidden row on its way there or back */
    ft_ngram_drafter *ngram_drafter;
    int n_ngram_drafter;
    ft_gov_costs costs;
    ft_gov_choice *choice; /* [p.slots]: responses whose drafts the governor chooses */
    int rows_now;          /* response rows of this step's step */
    bool pure;             /* it has no prompt rows */
    uint64_t steps;        /* trunk passes so far */
    uint64_t arrivals, preempted;
    char fault[500]; /* why a pass failed: a device remembers, no other will succeed */
    ft_prefill_budget prefill;
    void (*trace)(void *user, const char *line);
    void *trace_user;
};

static inline int slot_len(const ft_slot *s)
{
    return ft_seq_len(s->seq);
}

/* Where a slot is in its engine. */
static inline int slot_index(const ft_slot *s)
{
    return (int)(s - s->e->slot);
}

/* The most drafts that a step can bring. */
static inline int ft_most_drafts(const ft_engine_params *p)
{
    return p->draft_max > 0 ? FT_MAX(p->draft_max, p->ngram_draft_max) : 0;
}

/* Whether an id means the end of a response. */
static inline bool ft_slot_is_end_id(const ft_slot *s, int32_t id)
{
    for (int i = 0; i < s->task.n_eog; i++)
        if (s->task.eog[i] == id) return true;
    return false;
}

/* Whether an id ends the response. */
static inline bool ft_slot_ends_at(const ft_slot *s, int32_t id)
{
    return !s->task.ignore_eog && ft_slot_is_end_id(s, id);
}

void ft_slot_end(ft_slot *s, ft_finish why);

/* engine/warmup.c: which steps a device keeps before the first response, and how many they are:
 * trunk passes and draft passes. */
typedef struct ft_warmup_plan {
    int slots, ctx;
    int window, draft_window; /* rows of a response in a trunk pass, in a draft pass; 0: none */
    bool loose;               /* how rows lie in spans makes no difference to draft passes */
} ft_warmup_plan;
ft_warmup_plan ft_warmup_plan_of(const ft_engine_params *p, ft_drafter kind);
void ft_warmup_count(const ft_warmup_plan *p, int *trunk, int *draft);

/* engine/trace.c */
void ft_trace_draft(const ft_slot *s, double seconds);
void ft_trace_accept(const ft_slot *s, int drafted, int kept, const char *reason);

/* engine/rejection.c */
bool ft_rejecting(const ft_slot *s);
int32_t ft_reject_draft(ft_slot *s, const float *logits); /* the next draft */
int32_t ft_reject_draw(ft_slot *s, const float *logits, const uint32_t *mask, int i);

/* engine/draft_model.c: a second model that drafts. Bytes of its cache and its steps; what it can
 * keep of its past for a new prompt; passes that read what it missed; rows of the first draft and
 * of each further one; and the pass over such rows. */
uint64_t ft_draft_model_bytes(const ft_model *m, const ft_engine_params *p);
ft_status ft_draft_model_new(ft_engine *e, ft_err *err);
void ft_draft_model_start(ft_slot *s, const ft_task *j);
int ft_draft_model_backlog(
    const ft_engine *e); /* tokens of slots that draft now and did not, lately */
ft_status ft_draft_model_catch_up(ft_engine *e, ft_err *err);
void ft_draft_model_first(ft_slot *s, ft_rowset *w);
void ft_draft_model_next(ft_slot *s, ft_rowset *w);
void ft_draft_model_pass(ft_engine *e); /* begins it */

/* engine/prefix_reuse.c: where the prompt is cut, what others have read of it, and what they get.
 */
void ft_reuse_plan(ft_slot *s);
int ft_reuse_next_checkpoint(const ft_slot *s, int at); /* the next cut, or the prompt's end */
int ft_reuse_find(ft_slot *s, const ft_task *j, int longer);
void ft_reuse_save(ft_engine *e);

/* engine/preempt.c: room for n more cells, made if need be: false: the slot is swapped out or has
 * ended. Parked slots come back when there is room. */
void ft_preempt_idle(ft_slot *s, int cells); /* from other idle slots alone, as far as that goes */
bool ft_preempt_reserve(ft_slot *s, int n);
void ft_preempt_restore(ft_engine *e);

/* engine/images.c: whether the task's images can be read. Where a cell is rotated to; the same for
 * a row of the trunk, or of the draft head, which stands where the token before it does. Rows of a
 * pass that are n cells of the prompt: what they need on the device, then what they are. And how
 * long a chunk of n rows becomes, of `most` at most: it does not end inside of an image that sees
 * ahead; 0: there is no room now. */
ft_status ft_images_check(const ft_engine *e, const ft_task *t, ft_err *err);
void ft_slot_pos(const ft_slot *s, int cell, int32_t pos[3]);
void ft_images_place(const ft_slot *s, ft_rowset *w, int row, int cell, bool head);
ft_status ft_images_load(const ft_slot *s, int row, int cell, int n, ft_err *err);
void ft_images_rows(const ft_slot *s, ft_rowset *w, int row, int cell, int n, bool head);
int ft_images_chunk(const ft_slot *s, int at, int n, int most);

/* engine/prefill_budget.c */
int ft_prefill_rows(const ft_engine *e, int responses); /* prompt rows that this step may have */
void ft_prefill_record(ft_engine *e, int responses, double seconds);

/* engine/batch.c: this step's trunk rows. false when no slot has any. */
bool ft_batch_fill(ft_engine *e);

/* engine/draw.c: draws of the pass that was begun, for all slots that the device can draw for.
 * Then, of row i: its id, FT_DRAW_MORE where it was not drawn; a draw that turned out to be needed
 * only now; logprobs, into s->logprob. The same of drafts. And the first such steps. */
void ft_draw_plan(ft_engine *e);
int32_t ft_draw_id(const ft_slot *s, int i);
int32_t ft_draw_late(ft_slot *s, int i, const uint32_t *mask);
int ft_draw_logprobs(ft_slot *s, int i, int32_t id);
void ft_draw_plan_drafts(ft_engine *e);
int32_t ft_draw_draft(const ft_slot *s);
float ft_draw_draft_logprob(ft_slot *s, int32_t id);
ft_status ft_draw_warm_up(ft_engine *e, ft_err *err); /* behind a trunk pass */

/* engine/spec.c: the constraint at one of its states. The ids that may come next, in s->bits, or
 * NULL for all; may this one, where no means only that the former is to be asked. An end that is
 * ignored may not: a grammar cannot go on behind it. */
const uint32_t *ft_slot_token_mask(ft_slot *s, void *state);
bool ft_slot_token_allowed(const ft_slot *s, void *state, int32_t id);
/* What the rows' logits say; then the drafts for the next step. */
void ft_spec_verify(ft_slot *s);
/* Where the hidden row of a cell is: in this step's rows, or in the ring. */
int ft_slot_hidden_row(const ft_slot *s, int cell);
void ft_spec_first(ft_slot *s); /* the prompt is read: draws the first token */
ft_status ft_spec_draft(ft_engine *e, ft_err *err);
/* Before a prompt: what the draft head had not yet seen of the slot's past. */
ft_status ft_spec_catch_up(ft_engine *e, ft_err *err);

#endif
