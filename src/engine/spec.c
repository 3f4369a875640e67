/* engine/spec.c - logits to ids: draws row by row, keeps the drafts that agree, and drafts again.
 *
 * At row i the sampler has seen everything up to draft i, so a draw is the same as without drafts;
 * a draft is kept while the draw repeats it. One token is drawn per row that counts and none for a
 * row that does not. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "engine/slot.h"

#include <math.h>
#include <stdio.h>

const uint32_t *ft_slot_token_mask(ft_slot *s, void *state)
{
    const ft_task *j = &s->task;
    if (!state || !j->mask.allow(state, s->bits, s->e->m->V)) return NULL;
    for (int i = 0; j->ignore_eog && i < j->n_eog; i++)
        s->bits[j->eog[i] / 32] &= ~(1u << j->eog[i] % 32);
    return s->bits;
}

bool ft_slot_token_allowed(const ft_slot *s, void *state, int32_t id)
{
    if (!state) return true;
    return s->task.mask.allows(state, id) && !(s->task.ignore_eog && ft_slot_is_end_id(s, id));
}

/* Whether the text may end here. */
static bool complete(const ft_slot *s)
{
    const ft_mask *k = &s->task.mask;
    for (int i = 0; k->user && i < s->task.n_eog; i++)
        if (k->allows(k->user, s->task.eog[i])) return true;
    return false;
}

/* The token of row i. Its logits are fetched only if they are needed. */
static int32_t draw_token(ft_slot *s, int i)
{
    void *const state = s->task.mask.user;
    const uint64_t at = (uint64_t)s->n_ids;
    const int out = s->rows.first_out + i;
    int32_t id =
        ft_sampler_plain(s->sampler) ? ft_runner_best(s->e->runner, out) : ft_draw_id(s, i);
    if (id >= 0 && !ft_sampler_bans(s->sampler, id) && ft_slot_token_allowed(s, state, id))
        return id;
    if (state && id == FT_DRAW_MORE && ft_sampler_greedy(s->sampler)) {
        id = ft_sampler_draw(s->sampler, ft_runner_logits(s->e->runner, out), NULL, at);
        if (id >= 0 && ft_slot_token_allowed(s, state, id)) return id;
    }
    const uint32_t *mask = ft_slot_token_mask(s, state);
    id = ft_draw_late(s, i, mask);
    if (id != FT_DRAW_MORE) return id;
    return ft_sampler_draw(s->sampler, ft_runner_logits(s->e->runner, out), mask, at);
}

/* The same where draft i was drawn, for rejection sampling. */
static int32_t draw_or_keep(ft_slot *s, int i)
{
    const uint32_t *mask = ft_slot_token_mask(s, s->task.mask.user);
    return ft_reject_draw(s, ft_runner_logits(s->e->runner, s->rows.first_out + i), mask, i);
}

/* No id is left. Where all has been said and only the end was banned, that is the end. */
static void end_without_token(ft_slot *s)
{
    if (complete(s)) {
        ft_slot_end(s, FT_FINISH_EOG);
        return;
    }
    const bool masked = s->task.mask.user != NULL;
    snprintf(s->error, sizeof s->error,
             masked ? "no token satisfies the grammar here"
                    : "the model's logits are not numbers: the weights are damaged");
    ft_slot_end(s, FT_FINISH_ERROR);
}

/* Takes the token of row i: history, limits, and the caller. false when the response ends with it.
 */
static bool take_token(ft_slot *s, int32_t id, int i, bool drafted)
{
    if (id < 0) {
        end_without_token(s);
        return false;
    }
    ft_sampler_accept(s->sampler, id);
    if (s->task.mask.user) s->task.mask.accept(s->task.mask.user, id);
    s->ids[s->n_ids++] = id;
    if (ft_slot_ends_at(s, id)) {
        ft_slot_end(s, FT_FINISH_EOG);
        return false;
    }
    s->stats.predicted_n++;
    ft_emit e = {.id = id, .drafted = drafted};
    if (s->task.top_logprobs >= 0) {
        e.n_logprob = ft_draw_logprobs(s, i, id);
        e.logprob = s->logprob;
    }
    if (!s->task.emit(s->task.user, &e))
        ft_slot_end(s, FT_FINISH_STOP);
    else if (s->task.max_tokens >= 0 && s->stats.predicted_n >= s->task.max_tokens)
        ft_slot_end(s, FT_FINISH_LENGTH);
    else if (s->n_ids >= s->e->p.ctx)
        ft_slot_end(s, FT_FINISH_CONTEXT);
    return s->state == SLOT_DECODE;
}

void ft_spec_first(ft_slot *s)
{
    s->state = SLOT_DECODE;
    take_token(s, draw_token(s, 0), 0, false);
}

static const char *reason(const ft_slot *s, int drafted, int kept)
{
    if (s->state == SLOT_DECODE) return kept == drafted ? "full" : "mismatch";
    return s->finish == FT_FINISH_EOG ? "eos" : s->finish == FT_FINISH_STOP ? "stop" : "limit";
}

/* What a step of `drafted` drafts, `kept` of them, means for everyone who counts. */
static void record_step(ft_slot *slot, int drafted, int kept)
{
    ft_engine *e = slot->e;
    ft_stats *s = &slot->stats;
    s->decode_steps++;
    s->draft_steps += drafted > 0;
    s->drafted += drafted;
    s->accepted += kept;
    for (int i = 0; i < drafted; i++) s->drafted_at[i]++;
    for (int i = 0; i < kept; i++) s->accepted_at[i]++;
    ft_gov_accept(slot->draft.method >= 0 ? &slot->gov.ngram : &slot->gov.head, &e->costs, drafted,
                  kept);
    for (int i = 0; !slot->task.n_image && i < e->n_ngram_drafter; i++)
        e->ngram_drafter[i].accept(e->ngram_drafter[i].state, slot_index(slot), drafted, kept,
                                   drafted && i == slot->draft.method);
    if (drafted) ft_trace_accept(slot, drafted, kept, reason(slot, drafted, kept));
    slot->iter++;
}

/* What row i gave instead of `drawn` when acceptance is simulated: its draft, or anything else. */
static int32_t simulated(const ft_slot *s, int i, int32_t drawn)
{
    const uint64_t bits = ft_rng_at((uint64_t)slot_index(s), (uint64_t)s->n_ids, (uint32_t)i);
    if (ft_unit_f64(bits) < s->task.sim_accept[i]) return s->draft.id[i];
    return drawn == s->draft.id[i] ? (drawn + 1) % s->e->m->V : drawn;
}

void ft_spec_verify(ft_slot *s)
{
    const int drafted = s->draft.n;
    int kept = 0;
    int32_t last = -1;
    for (int i = 0;; i++) {
        int32_t id = i < drafted && s->draft.sampled ? draw_or_keep(s, i) : draw_token(s, i);
        if (s->task.sim_accept && i < drafted + s->draft.dropped) id = simulated(s, i, id);
        const bool agreed = i < drafted && id == s->draft.id[i];
        if (agreed) kept++;
        last = id;
        if (!take_token(s, id, i, agreed) || !agreed) break;
    }
    if (kept == drafted && s->draft.dropped)
        ft_gov_dropped(&s->gov.head, &s->e->costs, last == s->draft.id[drafted]);
    s->draft.n = 0;
    s->draft.dropped = false;
    ft_seq_accept(s->seq, 1 + kept);
    record_step(s, drafted, kept);
}

/* ---- drafting ---- */

static int generating(const ft_engine *e)
{
    int n = 0;
    for (int i = 0; i < e->p.slots; i++) n += e->slot[i].state == SLOT_DECODE;
    return n;
}

/* Drafts for the next step that the limits leave room for. A request that asks for fewer than the
 * engine makes binds n-gram drafters too. */
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

static bool governed(const ft_slot *s)
{
    return s->e->p.adapt && !s->task.draft_fixed;
}

/* Asks the n-gram drafters; the first proposal is taken. */
static void ngram(ft_slot *s)
{
    ft_engine *e = s->e;
    int max = budget(s, true);
    if (!e->n_ngram_drafter || max <= 0 || s->task.n_image) return; /* they know ids alone */
    if (governed(s)) {
        ft_gov_choice t = {&s->gov.ngram, max, 0};
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

/* How many drafts the model's head shall make for each slot: those that no n-gram drafter made. */
static void choose_drafts(ft_engine *e)
{
    int n = 0;
    for (int i = 0; i < e->p.slots; i++) {
        ft_slot *s = &e->slot[i];
        s->draft.out = s->draft.choice = -1;
        s->draft.next_max = 0;
        if (!s->rows.n) continue; /* idle, or paused with its drafts */
        s->draft.method = -1;
        ngram(s);
        if (s->draft.n || !e->drafter) continue;
        s->draft.next_max = budget(s, false);
        if (!governed(s)) continue;
        e->choice[s->draft.choice = n++] = (ft_gov_choice){&s->gov.head, s->draft.next_max, 0};
    }
    ft_gov_choose(e->choice, n, &e->costs, generating(e));
    for (int i = 0; i < e->p.slots; i++) {
        ft_slot *s = &e->slot[i];
        if (s->draft.choice >= 0) s->draft.next_max = e->choice[s->draft.choice].k;
    }
}

int ft_slot_hidden_row(const ft_slot *s, int cell)
{
    const int i = cell - s->rows.first_pos;
    if (i >= 0 && i < s->rows.n) return ft_hidden_trunk(s->e->runner, s->rows.first + i);
    return ft_hidden_ring(s->e->runner, ft_seq_slot(s->seq), cell);
}

/* Tokens that the draft head has not read yet. */
static int unread(const ft_slot *s)
{
    return FT_MIN(slot_len(s) + 1, s->n_ids) - FT_MAX(1, s->head.fed);
}

/* Rows that bring the draft head n tokens further: cell c takes token c and hidden row c - 1.
 * Returns the last one. */
static int feed_rows(ft_slot *s, ft_rowset *w, int n)
{
    const int from = FT_MAX(1, s->head.fed);
    /* without image rows it reads the first token there, which costs acceptance alone */
    const bool images = !ft_images_load(s, w->T, from, n, NULL);
    const int row = ft_rows_draft(w, ft_seq_slot(s->seq), from, n, from + 1, false);
    for (int i = 0; i < n; i++) {
        w->token[row + i] = FT_MAX(0, s->ids[from + i]);
        w->src_row[row + i] = ft_slot_hidden_row(s, from + i - 1);
        if (!images) ft_images_place(s, w, row + i, from + i, true);
    }
    if (images) ft_images_rows(s, w, row, from, n, true);
    s->head.fed = from + n;
    return row + n - 1;
}

/* All that is known; the row of the pending token is the first draft. */
static void feed_head(ft_slot *s, ft_rowset *w)
{
    const int n = unread(s);
    if (n <= 0) return;
    const int last = feed_rows(s, w, n);
    if (!s->draft.next_max) return;
    s->draft.out = w->n_out;
    ft_rows_out(w, last);
}

/* Passes that let heads read what their slots say, as many rows at a time as a prompt may have, in
 * spans as short as those of drafts: to the device they are nothing new. */
static ft_status feed_heads(ft_engine *e, ft_err *err)
{
    for (;;) {
        ft_rowset *w = ft_runner_rows(e->runner);
        for (int i = 0; i < e->p.slots; i++) {
            ft_slot *s = &e->slot[i];
            while (s->head.to_feed && w->T < e->p.rows) {
                const int n = FT_MIN(FT_MIN(s->head.to_feed, (int)FT_FEED_ROWS), e->p.rows - w->T);
                feed_rows(s, w, n);
                s->head.to_feed -= n;
            }
        }
        if (!w->T) return FT_OK;
        const int64_t start = ft_now_ns();
        const int n = w->T;
        const ft_status st = ft_runner_draft(e->runner, false, err);
        if (st) return st;
        if (!ft_runner_fresh(e->runner))
            ft_gov_feed(&e->costs, n, (double)(ft_now_ns() - start) * 1e-9);
    }
}

/* A response that does not draft may fall behind: should it end so, its head has cost nothing. It
 * catches up when it drafts again, or when its ring is about to be full: a few at a time, lest all
 * do in one step. */
static void plan_feeding(ft_engine *e)
{
    int room = e->p.rows;
    for (int i = 0; i < e->p.slots; i++) {
        ft_slot *s = &e->slot[i];
        s->head.to_feed = 0;
        if (!s->rows.n || s->state == SLOT_PREFILL) continue;
        const int n = unread(s);
        if (s->draft.next_max)
            s->head.to_feed = FT_MAX(0, n - FT_FEED_ROWS);
        else if (n >= FT_RING_ROWS - FT_FEED_ROWS || (n >= FT_RING_ROWS * 3 / 4 && n <= room))
            s->head.to_feed = n;
        room -= s->head.to_feed;
    }
}

/* An assistant keeps nothing: one row at the pending token's position. */
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

/* Takes a draft; false when the slot drafts no further. */
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

/* Reads the draft that this pass made for the slot; false when the slot drafts no further. */
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
    if (!s->e->costs.margins || !governed(s)) return take_draft(s, id);
    const ft_gov_next next = ft_gov_drafted(&s->gov.head, &s->e->costs,
                                            ft_runner_margin(run, s->draft.out), generating(s->e));
    s->draft.dropped = next == FT_GOV_DROP;
    if (s->draft.dropped) s->draft.id[s->draft.n] = id;
    return !s->draft.dropped && take_draft(s, id) && next == FT_GOV_MORE;
}

/* The row of the draft after the last one. */
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

/* Begins it. */
static void pass(ft_engine *e, bool more)
{
    if (e->kind == FT_DRAFT_MODEL)
        ft_draft_model_pass(e);
    else
        ft_runner_draft_begin(e->runner, more);
}

/* One further row for every slot that goes on drafting. */
static ft_rowset *next_rows(ft_engine *e)
{
    ft_rowset *w = ft_runner_rows(e->draft_runner);
    for (int i = 0; i < e->p.slots; i++)
        if (e->slot[i].draft.out >= 0) next_row(&e->slot[i], w);
    return w;
}

/* Reads the drafts of a pass; those slots go on for which one more is worth making, all together.
 */
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

/* Pass after pass, each slot's draft read before its next row is made. pure: the first pass says
 * what such a pass costs. */
static ft_status step_by_step(ft_engine *e, ft_rowset *w, bool pure, ft_err *err)
{
    for (bool first = true; w->T; w = next_rows(e), first = false) {
        const int64_t start = ft_now_ns();
        const int n = w->n_out;
        pass(e, false);
        for (int i = 0; i < e->p.slots; i++) {
            ft_slot *s = &e->slot[i];
            if (s->draft.out >= 0 && !s->draft.n) begin_drafts(s);
        }
        ft_draw_plan_drafts(e);
        const ft_status st = ft_runner_wait(e->draft_runner, err);
        if (st) return st;
        read_drafts(e);
        if (n && (pure || !first) && !ft_runner_fresh(e->draft_runner))
            ft_gov_draft(&e->costs, first, n, (double)(ft_now_ns() - start) * 1e-9);
    }
    return FT_OK;
}

/* Whether every draft of this step is simply the head's best token, so that a pass can take it
 * from the one before without anybody looking. */
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

/* A slot's out row in each pass: those before it that draft as far have theirs first. */
static int chain_out(const ft_slot *s, int pass_no)
{
    int out = 0;
    for (const ft_slot *k = s->e->slot; k < s; k++) out += k->draft.next_max > pass_no;
    return out;
}

/* All passes one after the other on the device, then all drafts at once: the same ones. */
static ft_status chained(ft_engine *e, ft_rowset *w, bool pure, ft_err *err)
{
    const int64_t start = ft_now_ns();
    const int n = w->n_out;
    int passes = 0;
    for (int i = 0; i < e->p.slots; i++) passes = FT_MAX(passes, e->slot[i].draft.next_max);
    for (int k = 1; w->T; w = next_rows(e), k++) {
        pass(e, k < passes);
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
    if (!pure || ft_runner_fresh(e->runner)) return FT_OK;
    /* Passes that follow one another cannot be told apart: each counts as long as the others. */
    const double seconds = (double)(ft_now_ns() - start) * 1e-9 / passes;
    ft_gov_draft(&e->costs, true, n, seconds);
    if (passes > 1) ft_gov_draft(&e->costs, false, n, seconds);
    return FT_OK;
}

/* Runs the rows that are filled, and what follows from them. */
static ft_status chain(ft_engine *e, ft_rowset *w, ft_err *err)
{
    /* Rows that a swapped out head had to catch up with are no cost of drafting. */
    const bool pure = e->pure && w->n_out && w->T <= w->n_out * (1 + e->p.draft_max);
    return w->n_out && all_plain(e) ? chained(e, w, pure, err) : step_by_step(e, w, pure, err);
}

/* The rows that make every slot's first draft. */
static ft_rowset *first_rows(ft_engine *e)
{
    ft_rowset *w = ft_runner_rows(e->draft_runner);
    for (int i = 0; i < e->p.slots; i++) {
        ft_slot *s = &e->slot[i];
        if (!s->rows.n) continue;
        /* A prompt never falls behind: its next chunk would overwrite the hidden rows. */
        const bool reads = s->draft.next_max || s->state == SLOT_PREFILL;
        if (e->kind == FT_DRAFT_MTP && reads) feed_head(s, w);
        if (e->kind == FT_DRAFT_ASSISTANT) first_assistant(s, w);
        if (e->kind == FT_DRAFT_MODEL) ft_draft_model_first(s, w);
    }
    return w;
}

ft_status ft_spec_draft(ft_engine *e, ft_err *err)
{
    const int64_t start = ft_now_ns();
    choose_drafts(e);
    const int missed = ft_draft_model_backlog(e);
    ft_status st = e->kind == FT_DRAFT_MODEL ? ft_draft_model_catch_up(e, err) : FT_OK;
    if (e->kind == FT_DRAFT_MTP) {
        plan_feeding(e);
        st = feed_heads(e, err);
    }
    if (!st) st = chain(e, first_rows(e), err);
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

ft_status ft_spec_catch_up(ft_engine *e, ft_err *err)
{
    for (int i = 0; i < e->p.slots; i++) {
        ft_slot *s = &e->slot[i];
        const bool behind = s->state == SLOT_PREFILL && !s->swapped && s->head.fed <= slot_len(s);
        s->head.to_feed = 0;
        if (!behind) continue;
        s->rows.n = 0; /* of the last step: all hidden rows are in the ring */
        s->head.to_feed = FT_MAX(0, unread(s));
    }
    return feed_heads(e, err);
}
