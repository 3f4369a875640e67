/* engine/draw.c - ids drawn on the device. While a trunk pass runs, the host works out what each of
 * its rows is to be drawn with: at row i the history is what was said and the drafts before it, and
 * a grammar stands behind those drafts. All rows of a window are drawn at once; those behind the
 * first that disagrees do not count. Which requests are drawn there is a matter of their parameters
 * alone, and the ids are those that the host would draw (dev/draw.h). */
#include "base/mem.h"
#include "engine/lane.h"

#include <math.h>

/* What tells a row's logprobs: the largest logits and the sum of all weights. */
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

/* The state of the grammar behind the drafts before row i; false when the row cannot count, or
 * nobody can look so far ahead. */
static bool look_ahead(ft_lane *l, int i, void **state)
{
    const ft_mask *k = &l->job.mask;
    *state = k->user;
    if (i == 0) return true;
    if (ft_lane_eog(l, l->draft[i - 1])) return false;
    if (!k->user) return true;
    if (!l->ahead && !k->clone) return false;
    if (!l->ahead)
        l->ahead = k->clone(k->user);
    else if (i == 1)
        k->copy(l->ahead, k->user);
    *state = l->ahead;
    if (!ft_lane_allows(l, l->ahead, l->draft[i - 1])) return false;
    k->accept(l->ahead, l->draft[i - 1]);
    return true;
}

static void plan_rows(ft_lane *l, int rows)
{
    void *state;
    for (int i = 0; i < rows && look_ahead(l, i, &state); i++) {
        const int at = add_draw(l->e->run, l->first_out + i, l->sampler, l->draft, i,
                                (uint64_t)(l->n_ids + i), ft_lane_allow(l, state));
        if (!i) l->far_first = at;
        l->n_far++;
    }
}

/* Rows of this pass whose ids are wanted. */
static int rows_of(const ft_lane *l)
{
    if (!l->n_rows) return 0;
    if (l->state == LANE_REPLY) return l->n_rows;
    return lane_len(l) + l->n_rows == l->job.n_prompt ? 1 : 0;
}

void ft_draw_plan(ft_engine *e)
{
    for (int i = 0; i < e->p.lanes; i++) {
        ft_lane *l = &e->lane[i];
        const int rows = rows_of(l);
        l->n_far = l->n_lists = 0;
        if (!rows || !ft_runner_draws(e->run)) continue;
        if (!ft_sampler_plain(l->sampler) && !ft_rejecting(l) && ft_sampler_far(l->sampler))
            plan_rows(l, rows);
        if (l->job.top_logprobs < 0 || l->job.top_logprobs > FT_DRAW_TOP) continue;
        for (; l->n_lists < rows; l->n_lists++) {
            const int at = add_list(e->run, l->first_out + l->n_lists, l->job.top_logprobs);
            if (!l->n_lists) l->list_first = at;
        }
    }
}

int32_t ft_draw_id(const ft_lane *l, int i)
{
    return i < l->n_far ? ft_runner_drawn(l->e->run, l->far_first + i)->id : FT_DRAW_MORE;
}

int32_t ft_draw_late(ft_lane *l, int i, const uint32_t *mask)
{
    ft_runner *run = l->e->run;
    const bool left = i < l->n_far && ft_draw_id(l, i) == FT_DRAW_MORE; /* it would be again */
    if (left || !ft_runner_draws(run) || ft_rejecting(l) || !ft_sampler_far(l->sampler))
        return FT_DRAW_MORE;
    const int at = add_draw(run, l->first_out + i, l->sampler, NULL, 0, (uint64_t)l->n_ids, mask);
    return ft_runner_wait(run, NULL) ? FT_DRAW_MORE : ft_runner_drawn(run, at)->id;
}

/* The logit of an id, where a draw or a list has it. */
static bool logit_of(const ft_drawn *drawn, const ft_drawn *list, int32_t id, float *x)
{
    if (drawn && drawn->id == id) return *x = drawn->x, true;
    if (list->id == id) return *x = list->x, true;
    for (int i = 0; i < list->n; i++)
        if (list->top[i].id == id) return *x = list->top[i].x, true;
    return false;
}

int ft_draw_logprobs(ft_lane *l, int i, int32_t id)
{
    ft_runner *run = l->e->run;
    const ft_drawn *list = i < l->n_lists ? ft_runner_drawn(run, l->list_first + i) : NULL;
    const ft_drawn *drawn = i < l->n_far ? ft_runner_drawn(run, l->far_first + i) : NULL;
    float x;
    if (!list || list->id < 0 || !logit_of(drawn, list, id, &x))
        return ft_logprobs(ft_runner_logits(run, l->first_out + i), l->e->m->V, id,
                           l->job.top_logprobs, l->logprob);
    l->logprob[0] = (ft_logprob){id, ft_logprob_of(x, list->max, list->sum)};
    for (int k = 0; k < list->n; k++)
        l->logprob[1 + k] =
            (ft_logprob){list->top[k].id, ft_logprob_of(list->top[k].x, list->max, list->sum)};
    return 1 + list->n;
}

/* ---- drafts ---- */

void ft_draw_plan_drafts(ft_engine *e)
{
    ft_runner *run = e->draft_run;
    for (int i = 0; i < e->p.lanes; i++) {
        ft_lane *l = &e->lane[i];
        l->n_far = l->n_lists = 0;
        if (l->draft_out < 0 || l->drawn || !ft_runner_draws(run)) continue;
        if (!ft_sampler_plain(l->drafting) && ft_sampler_far(l->drafting)) {
            l->far_first =
                add_draw(run, l->draft_out, l->drafting, NULL, 0, (uint64_t)l->n_ids, NULL);
            l->n_far = 1;
        }
        if (l->job.draft_p_min <= 0) continue;
        l->list_first = add_list(run, l->draft_out, 0);
        l->n_lists = 1;
    }
}

int32_t ft_draw_draft(const ft_lane *l)
{
    return l->n_far ? ft_runner_drawn(l->e->draft_run, l->far_first)->id : FT_DRAW_MORE;
}

float ft_draw_draft_logprob(ft_lane *l, int32_t id)
{
    ft_runner *run = l->e->draft_run;
    const ft_drawn *list = l->n_lists ? ft_runner_drawn(run, l->list_first) : NULL;
    const ft_drawn *drawn = l->n_far ? ft_runner_drawn(run, l->far_first) : NULL;
    float x;
    if (list && list->id >= 0 && logit_of(drawn, list, id, &x))
        return ft_logprob_of(x, list->max, list->sum);
    ft_logprob p;
    ft_logprobs(ft_runner_logits(run, l->draft_out), l->e->m->V, id, 0, &p);
    return p.logprob;
}

/* ---- before the first reply ---- */

ft_status ft_draw_warm(ft_engine *e, ft_err *err)
{
    ft_status st = FT_OK;
    if (!ft_runner_draws(e->run)) return st;
    const int most = FT_MIN(FT_DRAW_ROWS, e->p.lanes * (1 + e->p.draft_max));
    for (int n = 1; n < 2 * most && !st; n *= 2)
        for (int kind = 0; kind < 3 && !st; kind++) {
            const ft_draw d = {.temperature = kind > 0,
                               .top_k = kind == 1,
                               .top_p = 1,
                               .log_min_p = -INFINITY,
                               .list = -1};
            ft_runner_rows(e->run);
            for (int k = 0; k < FT_MIN(n, most); k++) ft_runner_draw(e->run, k, &d, NULL, NULL);
            st = ft_runner_wait(e->run, err);
        }
    return st;
}
