/* engine/draw.c - sampling on the device. While a trunk pass runs, the host prepares the
 * sampling parameters of each row: the history at row i consists of the accepted tokens and the
 * draft tokens before it, and a grammar is advanced over those draft tokens. All rows are
 * sampled at once; rows after the first rejected draft token are ignored. Which requests are
 * sampled on the device depends on their parameters alone, and the ids are those that the host
 * would sample (dev/draw.h). */
#include "base/mem.h"
#include "engine/slot.h"

#include <math.h>

/* What the log probabilities of a row need: the largest logits and the sum of all weights. */
static int add_list(ft_runner *run, int out, int n)
{
    const ft_draw d = {
        .temperature = 1, .top_k = FT_MAX(n, 1), .top_p = 1, .log_min_p = -INFINITY, .list = n};
    return ft_runner_draw(run, out, &d, NULL, NULL);
}

static int add_draw(ft_runner *run, int out, ft_sampler *s, const int32_t *more, int n_more,
                    uint64_t at, const uint32_t *mask)
{
    ft_draw d = {.list = -1};
    ft_edit e[FT_DRAW_EDITS];
    ft_sampler_put(s, more, n_more, at, &d, e);
    return ft_runner_draw(run, out, &d, e, mask);
}

/* The state of the grammar after the draft tokens before row i; false: the row cannot be
 * accepted, or the grammar cannot be advanced that far. */
static bool look_ahead(ft_slot *s, int i, void **state)
{
    const ft_mask *k = &s->task.mask;
    *state = k->user;
    if (i == 0) return true;
    if (ft_slot_ends_at(s, s->draft.id[i - 1])) return false;
    if (!k->user) return true;
    if (!s->mask_ahead && !k->clone) return false;
    if (!s->mask_ahead)
        s->mask_ahead = k->clone(k->user);
    else if (i == 1)
        k->copy(s->mask_ahead, k->user);
    *state = s->mask_ahead;
    if (!ft_slot_token_allowed(s, s->mask_ahead, s->draft.id[i - 1])) return false;
    k->accept(s->mask_ahead, s->draft.id[i - 1]);
    return true;
}

static void plan_rows(ft_slot *s, int rows)
{
    void *state;
    for (int i = 0; i < rows && look_ahead(s, i, &state); i++) {
        const uint32_t *mask;
        if (!ft_slot_token_mask(s, state, &mask)) return;
        const int at = add_draw(s->e->runner, s->rows.first_out + i, s->sampler, s->draft.id, i,
                                (uint64_t)(s->n_ids + i), mask);
        if (!i) s->device.first = at;
        s->device.n++;
    }
}

/* Rows of this pass whose tokens are needed. */
static int rows_of(const ft_slot *s)
{
    if (!s->rows.n) return 0;
    if (s->state == SLOT_DECODE) return s->rows.n;
    return slot_len(s) + s->rows.n == s->task.n_prompt ? 1 : 0;
}

void ft_draw_plan(ft_engine *e)
{
    for (int i = 0; i < e->p.slots; i++) {
        ft_slot *s = &e->slot[i];
        const int rows = rows_of(s);
        s->device.n = s->device.n_lists = 0;
        if (!rows || !ft_runner_draws(e->runner)) continue;
        if (!ft_sampler_plain(s->sampler) && !ft_rejecting(s) && ft_sampler_on_device(s->sampler))
            plan_rows(s, rows);
        if (s->task.top_logprobs < 0 || s->task.top_logprobs > FT_DRAW_TOP) continue;
        for (; s->device.n_lists < rows; s->device.n_lists++) {
            const int at =
                add_list(e->runner, s->rows.first_out + s->device.n_lists, s->task.top_logprobs);
            if (!s->device.n_lists) s->device.list_first = at;
        }
    }
}

int32_t ft_draw_id(const ft_slot *s, int i)
{
    return i < s->device.n ? ft_runner_drawn(s->e->runner, s->device.first + i)->id : FT_DRAW_MORE;
}

int32_t ft_draw_late(ft_slot *s, int i, const uint32_t *mask)
{
    ft_runner *run = s->e->runner;
    const bool left =
        i < s->device.n && ft_draw_id(s, i) == FT_DRAW_MORE; /* the device would return it again */
    if (left || !ft_runner_draws(run) || ft_rejecting(s) || !ft_sampler_on_device(s->sampler))
        return FT_DRAW_MORE;
    const int at =
        add_draw(run, s->rows.first_out + i, s->sampler, NULL, 0, (uint64_t)s->n_ids, mask);
    return ft_runner_wait(run, NULL) ? FT_DRAW_MORE : ft_runner_drawn(run, at)->id;
}

/* The logit of an id, if a sampled token or a list contains it. */
static bool logit_of(const ft_drawn *drawn, const ft_drawn *list, int32_t id, float *x)
{
    if (drawn && drawn->id == id) return *x = drawn->x, true;
    if (list->id == id) return *x = list->x, true;
    for (int i = 0; i < list->n; i++)
        if (list->top[i].id == id) return *x = list->top[i].x, true;
    return false;
}

int ft_draw_logprobs(ft_slot *s, int i, int32_t id)
{
    ft_runner *run = s->e->runner;
    const ft_drawn *list = NULL, *drawn = NULL;
    if (s->held.on) {
        if (s->held.listed) list = &s->held.list;
    } else {
        if (i < s->device.n_lists) list = ft_runner_drawn(run, s->device.list_first + i);
        if (i < s->device.n) drawn = ft_runner_drawn(run, s->device.first + i);
    }
    if (!list || list->id < 0)
        return ft_logprobs(ft_slot_logits(s, i), s->e->m->V, id, s->task.top_logprobs, s->logprob);
    float x;
    if (!logit_of(drawn, list, id, &x)) x = ft_slot_logits(s, i)[id];
    s->logprob[0] = (ft_logprob){id, ft_logprob_of(x, list->max, list->sum)};
    for (int k = 0; k < list->n; k++)
        s->logprob[1 + k] =
            (ft_logprob){list->top[k].id, ft_logprob_of(list->top[k].x, list->max, list->sum)};
    return 1 + list->n;
}

/* ---- draft tokens ---- */

void ft_draw_plan_drafts(ft_engine *e)
{
    ft_runner *run = e->draft_runner;
    for (int i = 0; i < e->p.slots; i++) {
        ft_slot *s = &e->slot[i];
        s->device.n = s->device.n_lists = 0;
        if (s->draft.out < 0 || s->draft.sampled || !ft_runner_draws(run)) continue;
        if (!ft_sampler_plain(s->draft.sampler) && ft_sampler_on_device(s->draft.sampler)) {
            s->device.first =
                add_draw(run, s->draft.out, s->draft.sampler, NULL, 0, (uint64_t)s->n_ids, NULL);
            s->device.n = 1;
        }
        if (s->task.draft_p_min <= 0) continue;
        s->device.list_first = add_list(run, s->draft.out, 0);
        s->device.n_lists = 1;
    }
}

int32_t ft_draw_draft(const ft_slot *s)
{
    return s->device.n ? ft_runner_drawn(s->e->draft_runner, s->device.first)->id : FT_DRAW_MORE;
}

float ft_draw_draft_logprob(ft_slot *s, int32_t id)
{
    ft_runner *run = s->e->draft_runner;
    const ft_drawn *list = s->device.n_lists ? ft_runner_drawn(run, s->device.list_first) : NULL;
    const ft_drawn *drawn = s->device.n ? ft_runner_drawn(run, s->device.first) : NULL;
    float x;
    if (list && list->id >= 0 && logit_of(drawn, list, id, &x))
        return ft_logprob_of(x, list->max, list->sum);
    ft_logprob p;
    ft_logprobs(ft_runner_logits(run, s->draft.out), s->e->m->V, id, 0, &p);
    return p.logprob;
}

/* ---- warm-up ---- */

ft_status ft_draw_warm_up(ft_engine *e, ft_err *err)
{
    ft_status st = FT_OK;
    if (!ft_runner_draws(e->runner)) return st;
    const int most = FT_MIN(FT_DRAW_ROWS, e->p.slots * (1 + e->p.draft_max));
    for (int n = 1; n < 2 * most && !st; n *= 2)
        for (int kind = 0; kind < 3 && !st; kind++) {
            const ft_draw d = {.temperature = kind > 0,
                               .top_k = kind == 1,
                               .top_p = 1,
                               .log_min_p = -INFINITY,
                               .list = -1};
            ft_runner_rows(e->runner);
            for (int k = 0; k < FT_MIN(n, most); k++) ft_runner_draw(e->runner, k, &d, NULL, NULL);
            st = ft_runner_wait(e->runner, err);
        }
    return st;
}
