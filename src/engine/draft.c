/* engine/draft.c - makes the draft tokens of the next step.
 *
 * For each generating slot the governor chooses how many draft tokens to make. N-gram drafters are
 * asked first; the draft head, assistant or draft model drafts for the slots where none of them
 * proposed anything, all slots together, one pass per draft position. */
#include "base/clock.h"
#include "base/mem.h"
#include "engine/slot.h"

#include <math.h>

static int generating(const ft_engine *e)
{
    int n = 0;
    for (int i = 0; i < e->p.slots; i++) n += e->slot[i].state == SLOT_DECODE;
    return n;
}

/* How many draft tokens the limits of the request, the context and the engine allow for the next
 * step. A request that sets fewer than the engine's maximum limits n-gram drafters too. */
static int budget(const ft_slot *s, bool ngram)
{
    const ft_engine *e = s->e;
    if (s->state != SLOT_DECODE) return 0;
    const bool bound = s->task.draft_max < e->p.draft_max;
    int k = bound   ? s->task.draft_max
            : ngram ? FT_MAX(e->p.ngram_draft_max, e->p.draft_max)
                    : e->p.draft_max;
    k = FT_MIN(k, e->p.ctx - slot_len(s) - 2);
    if (s->task.max_tokens >= 0) k = FT_MIN(k, s->task.max_tokens - s->stats.predicted_n - 1);
    return k < FT_MAX(1, s->task.draft_min) ? 0 : k;
}

bool ft_slot_governed(const ft_slot *s)
{
    return s->e->p.adapt && !s->task.draft_fixed;
}

/* Asks the n-gram drafters in order; the first proposal is taken. */
static void draft_ngram(ft_slot *s)
{
    ft_engine *e = s->e;
    int max = budget(s, true);
    if (!e->n_ngram_drafter || max <= 0 || s->task.n_image) return; /* they compare ids only */
    if (ft_slot_governed(s)) {
        ft_gov_choice t = {&s->gov.ngram, max, 0, 0};
        ft_gov_choose(&t, 1, &e->costs, generating(e));
        max = t.k;
    }
    for (int i = 0; i < e->n_ngram_drafter && max > 0; i++) {
        const ft_ngram_drafter *g = &e->ngram_drafter[i];
        const int n = g->draft(g->state, slot_index(s), s->ids, s->n_ids, max, s->draft.id);
        int ok = 0;
        while (ok < n && s->draft.id[ok] >= 0 && s->draft.id[ok] < e->m->V) ok++;
        if (ok < FT_MAX(1, s->task.draft_min)) continue;
        s->draft.n = ok;
        s->draft.method = i;
        s->draft.sampled = false;
        return;
    }
}

/* How many draft tokens the head or draft model makes for each slot that no n-gram drafter
 * served. */
static void choose_drafts(ft_engine *e)
{
    int n = 0;
    for (int i = 0; i < e->p.slots; i++) {
        ft_slot *s = &e->slot[i];
        s->draft.out = s->draft.choice = -1;
        s->draft.next_max = 0;
        if (!s->rows.n || s->held.on) continue; /* idle, or paused with its draft tokens */
        s->draft.method = -1;
        draft_ngram(s);
        if (s->draft.n || !e->drafter) continue;
        s->draft.next_max = budget(s, false);
        if (!ft_slot_governed(s)) continue;
        const int behind = e->kind == FT_DRAFT_MTP ? ft_head_unread(s) : 0;
        e->choice[s->draft.choice = n++] =
            (ft_gov_choice){&s->gov.head, s->draft.next_max, 0, behind};
    }
    ft_gov_choose(e->choice, n, &e->costs, generating(e));
    for (int i = 0; i < e->p.slots; i++) {
        ft_slot *s = &e->slot[i];
        if (s->draft.choice >= 0) s->draft.next_max = e->choice[s->draft.choice].k;
    }
}

/* An assistant has no cache of its own: one row at the position of the pending token. */
static void first_assistant(ft_slot *s, ft_rowset *w)
{
    if (!s->draft.next_max) return;
    const int at = slot_len(s);
    const int row = ft_rows_draft(w, ft_seq_slot(s->seq), at, 1, at, true);
    w->token[row] = s->ids[at];
    w->src_row[row] = ft_slot_hidden_row(s, at - 1);
    s->draft.out = w->n_out;
    ft_rows_out(w, row);
}

/* Takes a draft token; false: the slot drafts no further. */
static bool take_draft(ft_slot *s, int32_t id)
{
    if (id < 0 || ft_sampler_bans(s->draft.sampler, id)) return false;
    ft_sampler_accept(s->draft.sampler, id);
    s->draft.id[s->draft.n++] = id;
    return s->draft.n < s->draft.next_max && !ft_slot_ends_at(s, id);
}

static void begin_drafts(ft_slot *s)
{
    ft_sampler_copy(s->draft.sampler, s->sampler);
    s->draft.sampled = ft_rejecting(s);
}

/* Reads the draft token that this pass made for the slot; false: the slot drafts no further. */
static bool read_draft(ft_slot *s)
{
    ft_runner *run = s->e->draft_runner;
    int32_t id = FT_DRAW_MORE;
    if (!s->draft.sampled)
        id = ft_sampler_plain(s->draft.sampler) ? ft_runner_best(run, s->draft.out)
                                                : ft_draw_draft(s);
    if (id == FT_DRAW_MORE) {
        const float *logits = ft_runner_logits(run, s->draft.out);
        id = s->draft.sampled ? ft_reject_draft(s, logits)
                              : ft_sampler_draw(s->draft.sampler, logits, NULL, (uint64_t)s->n_ids);
    }
    if (id < 0 || ft_sampler_bans(s->draft.sampler, id)) return false;
    if (s->task.draft_p_min > 0 && ft_draw_draft_logprob(s, id) < logf(s->task.draft_p_min))
        return false;
    s->gov.head.gain = (double)INFINITY;
    if (!s->e->costs.margins || !ft_slot_governed(s)) return take_draft(s, id);
    const ft_gov_next next = ft_gov_drafted(&s->gov.head, &s->e->costs,
                                            ft_runner_margin(run, s->draft.out), generating(s->e));
    s->draft.dropped = next == FT_GOV_DROP;
    if (s->draft.dropped) s->draft.id[s->draft.n] = id;
    return !s->draft.dropped && take_draft(s, id) && next == FT_GOV_MORE;
}

/* The row that makes the draft token after the last one. */
static void next_row(ft_slot *s, ft_rowset *w)
{
    if (s->e->kind == FT_DRAFT_MODEL) {
        ft_draft_model_next(s, w);
        return;
    }
    const bool constant = s->e->kind == FT_DRAFT_ASSISTANT;
    const int at = slot_len(s) + (constant ? 0 : s->draft.n);
    const int row = ft_rows_draft(w, ft_seq_slot(s->seq), at, 1, constant ? at : at + 1, constant);
    w->token[row] = s->draft.id[s->draft.n - 1];
    w->src_row[row] = ft_hidden_draft(s->e->runner, s->draft.out);
    if (!constant) ft_images_place(s, w, row, at, true);
    s->draft.out = w->n_out;
    ft_rows_out(w, row);
}

/* Starts a draft pass; does not wait. */
static void begin_pass(ft_engine *e, bool more)
{
    if (e->kind == FT_DRAFT_MODEL)
        ft_draft_model_pass(e);
    else
        ft_runner_draft_begin(e->runner, more);
}

/* One more row for every slot that continues drafting. */
static ft_rowset *next_rows(ft_engine *e)
{
    ft_rowset *w = ft_runner_rows(e->draft_runner);
    for (int i = 0; i < e->p.slots; i++)
        if (e->slot[i].draft.out >= 0) next_row(&e->slot[i], w);
    return w;
}

/* Reads the draft tokens of a pass. Slots continue only if one more pass over all of them is
 * expected to save time. */
static void read_drafts(ft_engine *e)
{
    double gain = 0;
    int n = 0;
    for (int i = 0; i < e->p.slots; i++) {
        ft_slot *s = &e->slot[i];
        if (s->draft.out >= 0 && !read_draft(s)) s->draft.out = -1;
        if (s->draft.out < 0) continue;
        gain += s->gov.head.gain;
        n++;
    }
    if (!n || ft_gov_pass_pays(&e->costs, gain, n)) return;
    for (int i = 0; i < e->p.slots; i++) e->slot[i].draft.out = -1;
}

/* Runs pass by pass; each draft token is read before the next row is made. pure: the time of the
 * first pass is representative. */
static ft_status run_passes(ft_engine *e, ft_rowset *w, bool pure, ft_err *err)
{
    for (bool first = true; w->T; w = next_rows(e), first = false) {
        const int64_t start = ft_now_ns();
        const int n = w->n_out, more = w->T - n;
        begin_pass(e, false);
        for (int i = 0; i < e->p.slots; i++) {
            ft_slot *s = &e->slot[i];
            if (s->draft.out >= 0 && !s->draft.n) begin_drafts(s);
        }
        ft_draw_plan_drafts(e);
        const ft_status st = ft_runner_wait(e->draft_runner, err);
        if (st) return st;
        read_drafts(e);
        if (!n || ft_runner_fresh(e->draft_runner)) continue;
        const double seconds = (double)(ft_now_ns() - start) * 1e-9;
        if (pure || !first)
            ft_gov_draft(&e->costs, first, n, seconds);
        else if (e->pure)
            ft_gov_draft_feed(&e->costs, n, more, seconds);
    }
    return FT_OK;
}

/* Whether every draft token of this step is the head's most likely token, so that each pass can
 * take it from the previous pass on the device. */
static bool all_plain(const ft_engine *e)
{
    if (!ft_runner_chains(e->draft_runner)) return false;
    for (int i = 0; i < e->p.slots; i++) {
        const ft_slot *s = &e->slot[i];
        if (s->draft.out < 0) continue;
        if (!ft_sampler_plain(s->draft.sampler) || ft_rejecting(s) || s->task.draft_p_min > 0)
            return false;
    }
    return true;
}

/* A slot's output row in each pass: earlier slots that draft as many tokens come first. */
static int chain_out(const ft_slot *s, int pass_no)
{
    int out = 0;
    for (const ft_slot *k = s->e->slot; k < s; k++) out += k->draft.next_max > pass_no;
    return out;
}

/* Runs all passes on the device without waiting in between, then reads all draft tokens. The
 * tokens are the same as with run_passes. */
static ft_status run_chained_passes(ft_engine *e, ft_rowset *w, bool pure, ft_err *err)
{
    const int64_t start = ft_now_ns();
    const int n = w->n_out, more = w->T - n;
    int passes = 0;
    for (int i = 0; i < e->p.slots; i++) passes = FT_MAX(passes, e->slot[i].draft.next_max);
    for (int k = 1; w->T; w = next_rows(e), k++) {
        begin_pass(e, k < passes);
        const ft_status st = k < passes ? FT_OK : ft_runner_wait(e->runner, err);
        if (st) return st;
        for (int i = 0; i < e->p.slots; i++) {
            ft_slot *s = &e->slot[i];
            if (s->draft.out < 0) continue;
            s->draft.id[s->draft.n++] = ft_token_drawn(s->draft.out);
            if (k == s->draft.next_max) s->draft.out = -1;
        }
    }
    for (int i = 0; i < e->p.slots; i++) {
        ft_slot *s = &e->slot[i];
        if (!s->draft.next_max) continue;
        s->draft.n = 0;
        begin_drafts(s);
        for (int k = 0; take_draft(s, ft_runner_chained(e->runner, k, chain_out(s, k))); k++) {
        }
    }
    if (!e->pure || ft_runner_fresh(e->runner)) return FT_OK;
    /* Chained passes cannot be timed separately: each counts as the average. */
    const double seconds = (double)(ft_now_ns() - start) * 1e-9 / passes;
    if (!pure) {
        if (passes == 1) ft_gov_draft_feed(&e->costs, n, more, seconds);
        return FT_OK;
    }
    ft_gov_draft(&e->costs, true, n, seconds);
    if (passes > 1) ft_gov_draft(&e->costs, false, n, seconds);
    return FT_OK;
}

/* Runs the first rows and all passes that follow. */
static ft_status run_draft_passes(ft_engine *e, ft_rowset *w, ft_err *err)
{
    /* Rows with which a head catches up are not a cost of drafting. */
    const bool pure = e->pure && w->n_out && w->T <= w->n_out * (1 + e->p.draft_max);
    return w->n_out && all_plain(e) ? run_chained_passes(e, w, pure, err)
                                    : run_passes(e, w, pure, err);
}

/* The rows that make every slot's first draft token. */
static ft_rowset *first_rows(ft_engine *e)
{
    ft_rowset *w = ft_runner_rows(e->draft_runner);
    for (int i = 0; i < e->p.slots; i++) {
        ft_slot *s = &e->slot[i];
        if (!s->rows.n) continue;
        /* During prefill the head must not fall behind: the next chunk overwrites the hidden
         * rows. */
        const bool reads = s->draft.next_max || s->state == SLOT_PREFILL;
        if (e->kind == FT_DRAFT_MTP && reads) ft_head_first_row(s, w);
        if (e->kind == FT_DRAFT_ASSISTANT) first_assistant(s, w);
        if (e->kind == FT_DRAFT_MODEL) ft_draft_model_first(s, w);
    }
    return w;
}

ft_status ft_draft(ft_engine *e, ft_err *err)
{
    const int64_t start = ft_now_ns();
    choose_drafts(e);
    const int missed = ft_draft_model_backlog(e);
    ft_status st = e->kind == FT_DRAFT_MODEL ? ft_draft_model_catch_up(e, err) : FT_OK;
    if (e->kind == FT_DRAFT_MTP) st = ft_head_feed(e, err);
    if (!st) st = run_draft_passes(e, first_rows(e), err);
    const double seconds = (double)(ft_now_ns() - start) * 1e-9;
    if (missed && e->pure) ft_gov_catch_up(&e->costs, missed, seconds);
    for (int i = 0; i < e->p.slots; i++) {
        ft_slot *s = &e->slot[i];
        if (s->state != SLOT_DECODE || !s->rows.n) continue;
        s->stats.draft_s += seconds;
        if (s->draft.n < s->task.draft_min) {
            s->draft.n = 0;
            s->draft.dropped = false;
        }
        if (s->draft.n) ft_trace_draft(s, seconds);
    }
    return st;
}
