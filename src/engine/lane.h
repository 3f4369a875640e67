/* engine/lane.h - the inside of an engine, shared by its files. */
#ifndef FT_ENGINE_LANE_H
#define FT_ENGINE_LANE_H

#include "base/mem.h"
#include "engine/engine.h"
#include "engine/governor.h"
#include "kv/prefix.h"
#include "kv/save.h"

typedef enum lane_state { LANE_FREE, LANE_IDLE, LANE_PROMPT, LANE_REPLY } lane_state;

enum { FT_FEED_ROWS = FT_DECODE_ROWS }; /* that a lane brings along to a draft pass, at most */

struct ft_lane {
    ft_engine *e;
    lane_state state;
    uint64_t arrival;  /* the earlier goes first */
    ft_parked *parked; /* its pages, while others have the room; NULL: they are in the cache */
    int waited;        /* rounds that brought its prompt no row */
    bool held;         /* its reader stays behind: no rows until it is let go */
    ft_seq *seq;
    ft_task job;
    int32_t *ids;                 /* [ctx]: the first ft_seq_len are in the cache */
    int n_ids;                    /* known ids: the prompt, then what was drawn */
    int cut[FT_MARKS + 1], n_cut; /* where chunks of the prompt end, to be kept there */
    int fed;                      /* the draft head has keys and values of cells [1, fed) */
    int to_feed;                  /* tokens that it reads before this round's draft passes */
    ft_seq *second;               /* what a second model has read of them; NULL: none drafts */
    int second_rows, second_kept; /* rows of its open span, and how many of them stay */

    ft_sampler *sampler,
        *drafting; /* drafting: the same penalties; greedy unless drafts are drawn */
    uint32_t *bits;
    void *ahead; /* a clone of the task's mask, behind drafts; NULL: none was needed so far */
    ft_logprob *logprob;
    /* Draws of this pass on the device: of the first n_far of its rows, from number far_first on;
     * and lists of the best. Of a draft pass, the same for its one row. */
    int far_first, n_far, list_first, n_lists;

    int32_t draft[FT_DRAFT_MAX];
    float *p, *q; /* rejection sampling: [V], and [draft_max][V] of what drafts were drawn from */
    bool drawn;   /* these drafts were */
    int winner;   /* which guesser made them; -1: the model's head */
    bool dropped; /* one more stands behind them that was not worth a row */
    int n_draft;  /* drafts waiting for verification behind the pending token */
    int next_max; /* drafts to make for the next round */
    int turn;     /* its place in the engine's turns of this round, -1: none */
    int first_row, n_rows; /* rows of this round's trunk pass; n_rows 0: none */
    int past;              /* cell of the first of them */
    int first_out;         /* its first out row */
    int draft_out;         /* out row of this draft pass, -1: none */

    ft_governor gov, gov_guess; /* for the model's head, and for guessers */
    int64_t iter;               /* rounds, for the trace */
    ft_finish finish;
    char error[500];
    ft_stats stats;
    int64_t t_start, t_first;
};

/* How long rounds take, so that a prompt beside replies can be cut to measure. */
typedef struct ft_pace {
    double limit_s; /* of such a round; 0: none */
    double plain_s; /* a round without prompt rows, lately; 0: not known */
    double row_s;   /* what each row of a prompt adds; 0: not known */
    int rows;       /* prompt rows of this round */
} ft_pace;

struct ft_engine {
    ft_model *m, *drafter; /* drafter: NULL, m itself, an assistant, or a second model */
    ft_drafter kind;       /* what the drafter is here */
    ft_engine_params p;
    ft_cache *cache;
    ft_runner *run;
    ft_runner *draft_run; /* of draft passes: run, or a second model's own */
    ft_cache *second;     /* a second model's */
    ft_sample_scratch *scratch;
    ft_lane *lane;     /* [p.lanes] */
    bool *seen;        /* [p.lanes]: prompts that this round has been to */
    ft_prefix *prefix; /* what lanes share; NULL: nothing */
    float *row;        /* a hidden row on its way there or back */
    ft_guesser *guesser;
    int n_guesser;
    ft_gov_costs costs;
    ft_gov_turn *turn; /* [p.lanes]: replies whose drafts the governor chooses */
    int rows_now;      /* reply rows of this round's step */
    bool pure;         /* it has no prompt rows */
    uint64_t steps;    /* trunk passes so far */
    uint64_t arrivals, preempted;
    char fault[500]; /* why a pass failed: a device remembers, no other will succeed */
    ft_pace pace;
    void (*trace)(void *user, const char *line);
    void *trace_user;
};

static inline int lane_len(const ft_lane *l)
{
    return ft_seq_len(l->seq);
}

/* Where a lane is in its engine. */
static inline int lane_index(const ft_lane *l)
{
    return (int)(l - l->e->lane);
}

/* The most drafts that a round can bring. */
static inline int ft_most_drafts(const ft_engine_params *p)
{
    return p->draft_max > 0 ? FT_MAX(p->draft_max, p->guess_max) : 0;
}

/* Whether an id means the end of a reply. */
static inline bool ft_lane_end_id(const ft_lane *l, int32_t id)
{
    for (int i = 0; i < l->job.n_eog; i++)
        if (l->job.eog[i] == id) return true;
    return false;
}

/* Whether an id ends the reply. */
static inline bool ft_lane_eog(const ft_lane *l, int32_t id)
{
    return !l->job.ignore_eog && ft_lane_end_id(l, id);
}

void ft_lane_end(ft_lane *l, ft_finish why);

/* engine/warm.c: which steps a device keeps before the first reply, and how many they are: trunk
 * passes and draft passes. */
typedef struct ft_warm_plan {
    int lanes, ctx;
    int window, draft_window; /* rows of a reply in a trunk pass, in a draft pass; 0: none */
    bool loose;               /* how rows lie in spans makes no difference to draft passes */
} ft_warm_plan;
ft_warm_plan ft_warm_plan_of(const ft_engine_params *p, ft_drafter kind);
void ft_warm_count(const ft_warm_plan *p, int *trunk, int *draft);

/* engine/trace.c */
void ft_trace_draft(const ft_lane *l, double seconds);
void ft_trace_accept(const ft_lane *l, int drafted, int kept, const char *reason);

/* engine/reject.c */
bool ft_rejecting(const ft_lane *l);
int32_t ft_reject_draft(ft_lane *l, const float *logits); /* the next draft */
int32_t ft_reject_draw(ft_lane *l, const float *logits, const uint32_t *mask, int i);

/* engine/second.c: a second model that drafts. Bytes of its cache and its steps; what it can keep
 * of its past for a new prompt; passes that read what it missed; rows of the first draft and of
 * each further one; and the pass over such rows. */
uint64_t ft_second_bytes(const ft_model *m, const ft_engine_params *p);
ft_status ft_second_new(ft_engine *e, ft_err *err);
void ft_second_start(ft_lane *l, const ft_task *j);
int ft_second_missed(const ft_engine *e); /* tokens of lanes that draft now and did not, lately */
ft_status ft_second_catch_up(ft_engine *e, ft_err *err);
void ft_second_first(ft_lane *l, ft_rowset *w);
void ft_second_next(ft_lane *l, ft_rowset *w);
void ft_second_pass(ft_engine *e); /* begins it */

/* engine/keep.c: where the prompt is cut, what others have read of it, and what they get. */
void ft_keep_plan(ft_lane *l);
int ft_keep_next(const ft_lane *l, int at); /* the next cut, or the prompt's end */
int ft_keep_find(ft_lane *l, const ft_task *j, int longer);
void ft_keep_round(ft_engine *e);

/* engine/room.c: room for n more cells, made if need be: false: the lane is parked or has ended.
 * Parked lanes come back when there is room. */
void ft_room_idle(ft_lane *l, int cells); /* from other idle lanes alone, as far as that goes */
bool ft_room_for(ft_lane *l, int n);
void ft_room_back(ft_engine *e);

/* engine/pace.c */
int ft_pace_rows(const ft_engine *e, int replies); /* prompt rows that this round may have */
void ft_pace_round(ft_engine *e, int replies, double seconds);

/* engine/batch.c: this round's trunk rows. false when no lane has any. */
bool ft_batch_fill(ft_engine *e);

/* engine/draw.c: draws of the pass that was begun, for all lanes that the device can draw for.
 * Then, of row i: its id, FT_DRAW_MORE where it was not drawn; a draw that turned out to be needed
 * only now; logprobs, into l->logprob. The same of drafts. And the first such steps. */
void ft_draw_plan(ft_engine *e);
int32_t ft_draw_id(const ft_lane *l, int i);
int32_t ft_draw_late(ft_lane *l, int i, const uint32_t *mask);
int ft_draw_logprobs(ft_lane *l, int i, int32_t id);
void ft_draw_plan_drafts(ft_engine *e);
int32_t ft_draw_draft(const ft_lane *l);
float ft_draw_draft_logprob(ft_lane *l, int32_t id);
ft_status ft_draw_warm(ft_engine *e, ft_err *err); /* behind a trunk pass */

/* engine/spec.c: the constraint at one of its states. The ids that may come next, in l->bits, or
 * NULL for all; may this one, where no means only that the former is to be asked. An end that is
 * ignored may not: a grammar cannot go on behind it. */
const uint32_t *ft_lane_allow(ft_lane *l, void *state);
bool ft_lane_allows(const ft_lane *l, void *state, int32_t id);
/* What the rows' logits say; then the drafts for the next round. */
void ft_spec_verify(ft_lane *l);
/* Where the hidden row of a cell is: in this round's rows, or in the ring. */
int ft_lane_hidden(const ft_lane *l, int cell);
void ft_spec_first(ft_lane *l); /* the prompt is read: draws the first token */
ft_status ft_spec_draft(ft_engine *e, ft_err *err);
/* Before a prompt: what the draft head had not yet seen of the lane's past. */
ft_status ft_spec_catch_up(ft_engine *e, ft_err *err);

#endif
