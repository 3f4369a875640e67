/* engine/warmup.c - captures the steps of decoding before the first request. A device that
 * replays captured graphs is slow for the first step of each shape; no request should wait for
 * that, and the governor should not measure it.
 * Decoding up to `slots` sequences, each with its draft tokens, makes steps of few shapes
 * (dev/batch_shape.h): the number of rows, the longest span, and whether a context is longer
 * than one range. They are captured in the order of their rows, so that single sequences come
 * first. */
#include "base/clock.h"
#include "base/mem.h"
#include "dev/batch_shape.h"
#include "engine/slot.h"

/* Larger draft passes, in which heads of many slots catch up, are captured when they repeat. */
enum { DRAFT_ROWS = 64 };

/* T rows in spans of at most `longest`; `out` output rows. */
typedef struct step {
    int T, longest, out;
    bool far, draft;
} step;

typedef ft_status visit_fn(void *user, const step *s, ft_err *err);

/* A head catches up in spans of FT_FEED_ROWS tokens. */
ft_warmup_plan ft_warmup_plan_of(const ft_engine_params *p, ft_drafter kind)
{
    const int window = 1 + ft_most_drafts(p);
    const bool head = kind == FT_DRAFT_MTP;
    return (ft_warmup_plan){.slots = p->slots,
                            .ctx = p->ctx,
                            .window = window,
                            .draft_window = head                         ? FT_FEED_ROWS
                                            : kind == FT_DRAFT_ASSISTANT ? 1
                                            : kind == FT_DRAFT_MODEL     ? window
                                                                         : 0,
                            .pad_spans = kind != FT_DRAFT_MODEL};
}

/* In draft passes, each drafting slot has one output row; a pass that only feeds heads has none. */
static ft_status out_rows(const ft_warmup_plan *p, step s, visit_fn *visit, void *user, ft_err *err)
{
    const int most = FT_MIN(p->slots, s.T);
    ft_status st = FT_OK;
    if (p->draft_window == 1) return visit(user, &s, err); /* a slot's only row is its output row */
    s.out = 0;
    if (p->pad_spans) st = visit(user, &s, err);
    for (int out = 1; s.out < most && !st; out *= 2) {
        s.out = FT_MIN(out, most);
        st = visit(user, &s, err);
    }
    return st;
}

/* All steps of T rows, of trunk passes or of draft passes. */
static ft_status steps_of(const ft_warmup_plan *p, bool draft, int T, visit_fn *visit, void *user,
                          ft_err *err)
{
    const int window = FT_MIN(T, draft ? p->draft_window : p->window);
    ft_status st = FT_OK;
    for (int up = draft && p->pad_spans ? (int)FT_DECODE_ROWS : 2; !st && window; up *= 2) {
        step s = {.T = T, .longest = FT_MIN(up, window), .out = T, .draft = draft};
        for (int far = 0; far < 2 && !st; far++) {
            s.far = far;
            const bool few = T <= FT_DECODE_ROWS;
            if (s.longest * p->slots < T || (far ? few && p->ctx <= FT_SHAPE_SHORT_CTX : !few))
                continue;
            st = draft ? out_rows(p, s, visit, user, err) : visit(user, &s, err);
        }
        if (up >= window) break;
    }
    return st;
}

static ft_status each_step(const ft_warmup_plan *p, visit_fn *visit, void *user, ft_err *err)
{
    ft_status st = FT_OK;
    for (int T = 1; T <= FT_SHAPE_ROWS && !st; T++) {
        st = steps_of(p, false, T, visit, user, err);
        if (!st && T <= DRAFT_ROWS) st = steps_of(p, true, T, visit, user, err);
    }
    return st;
}

static ft_status count(void *user, const step *s, ft_err *err)
{
    (void)err;
    ((int *)user)[s->draft]++;
    return FT_OK;
}

void ft_warmup_count(const ft_warmup_plan *p, int *trunk, int *draft)
{
    int n[2] = {0};
    each_step(p, count, n, NULL);
    *trunk = n[0];
    *draft = n[1];
}

/* ---- capture ---- */

/* The rows belong to no sequence: what they would read and write does not matter, because
 * captured steps do not run here. */
static ft_status rehearse(void *user, const step *s, ft_err *err)
{
    ft_engine *e = user;
    ft_runner *run = s->draft ? e->draft_runner : e->runner;
    ft_rowset *w = ft_runner_rows(run);
    const int past = s->far && e->p.ctx > FT_SHAPE_SHORT_CTX ? FT_SHAPE_SHORT_CTX : 0;
    while (w->T < s->T) ft_rows_draft(w, 0, past, FT_MIN(s->longest, s->T - w->T), past + 1, true);
    for (int i = s->T - s->out; i < s->T; i++) ft_rows_out(w, i);
    if (s->draft && e->kind != FT_DRAFT_MODEL) return ft_runner_draft(run, false, err);
    return ft_runner_trunk(run, err);
}

/* The longest steps, whole and not captured: they size the scratch memory. Then sampling. */
static ft_status settle(ft_engine *e, const ft_warmup_plan *p, ft_err *err)
{
    const int T = e->p.rows, spans = FT_MIN(p->slots, T / (FT_DECODE_ROWS + 1));
    step s = {.T = T, .longest = (T + spans - 1) / spans, .out = FT_MIN(T, p->slots * p->window)};
    const int micro = ft_runner_micro(e->runner, 1);
    ft_status st = rehearse(e, &s, err);
    ft_runner_micro(e->runner, micro);
    if (!st) st = ft_draw_warm_up(e, err); /* on rows as wide as those of the last pass */
    if (st || p->draft_window <= 1) return st;
    s.draft = true;
    s.out = FT_MIN(T, p->slots);
    return rehearse(e, &s, err);
}

ft_status ft_engine_warm_up(ft_engine *e, ft_err *err)
{
    ft_dev *d = e->m->dev;
    const ft_warmup_plan p = ft_warmup_plan_of(&e->p, e->kind);
    if (!d->capture) return FT_OK;
    d->capture(d, true);
    ft_status st = settle(e, &p, err);
    if (!st) st = each_step(&p, rehearse, e, err);
    d->capture(d, false);
    return st;
}

/* ---- times ---- */

enum { TIMED_PROMPT = 16, TIMED_SAMPLES = 3 };
#define TIMED_SECONDS 1.0

static bool until(void *user, const ft_emit *e)
{
    (void)e;
    return ft_now_ns() < *(const int64_t *)user;
}

/* The number of draft tokens whose steps have not been timed often enough: none, as many as
 * possible, then one; -1: all were. How many of them are accepted does not matter. */
static int not_timed(const ft_engine *e)
{
    const int drafts[] = {0, e->p.draft_max, 1};
    for (size_t i = 0; i < FT_COUNT(drafts); i++)
        if (e->costs.trunk[0][0][ft_times_size(1 + drafts[i])].n < TIMED_SAMPLES) return drafts[i];
    return -1;
}

void ft_engine_time_drafts(ft_engine *e)
{
    int32_t ids[TIMED_PROMPT];
    int64_t end = ft_now_ns() + (int64_t)(TIMED_SECONDS * 1e9);
    ft_task t = {.prompt = ids,
                 .n_prompt = TIMED_PROMPT,
                 .max_tokens = (TIMED_SAMPLES + 2) * (e->p.draft_max + 4),
                 .top_logprobs = -1,
                 .draft_fixed = true,
                 .emit = until,
                 .user = &end};
    if (!e->drafter || !e->p.adapt || t.n_prompt + t.max_tokens >= e->p.ctx) return;
    for (int i = 0; i < TIMED_PROMPT; i++) ids[i] = i % e->m->V;
    ft_sample_defaults(&t.sampling);
    t.sampling.temperature = 0;
    ft_slot *s = ft_slot_new(e);
    ft_err err;
    if (!ft_slot_start(s, &t, &err))
        for (int n; ft_slot_busy(s) && (n = not_timed(e)) >= 0; ft_engine_step(e))
            s->task.draft_max = n;
    ft_slot_cancel(s);
    ft_slot_free(s);
    ft_gov_forget(&e->costs);
    e->steps = 0;
    e->prefill = (ft_prefill_budget){.limit_s = e->prefill.limit_s};
}
