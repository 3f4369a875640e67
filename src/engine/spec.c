/* engine/spec.c - logits to ids: draws row by row, keeps the drafts that agree, and drafts again.
 *
 * At row i the sampler has seen everything up to draft i, so a draw is the same as without drafts;
 * a draft is kept while the draw repeats it. One token is drawn per row that counts and none for a
 * row that does not. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "engine/lane.h"

#include <math.h>
#include <stdio.h>

const uint32_t *ft_lane_allow(ft_lane *l, void *state)
{
    const ft_task *j = &l->job;
    if (!state || !j->mask.allow(state, l->bits, l->e->m->V)) return NULL;
    for (int i = 0; j->ignore_eog && i < j->n_eog; i++)
        l->bits[j->eog[i] / 32] &= ~(1u << j->eog[i] % 32);
    return l->bits;
}

bool ft_lane_allows(const ft_lane *l, void *state, int32_t id)
{
    if (!state) return true;
    return l->job.mask.allows(state, id) && !(l->job.ignore_eog && ft_lane_end_id(l, id));
}

/* Whether the text may end here. */
static bool complete(const ft_lane *l)
{
    const ft_mask *k = &l->job.mask;
    for (int i = 0; k->user && i < l->job.n_eog; i++)
        if (k->allows(k->user, l->job.eog[i])) return true;
    return false;
}

/* The token of row i. Its logits are fetched only if they are needed. */
static int32_t draw(ft_lane *l, int i)
{
    void *const state = l->job.mask.user;
    const uint64_t at = (uint64_t)l->n_ids;
    const int out = l->first_out + i;
    int32_t id = ft_sampler_plain(l->sampler) ? ft_runner_best(l->e->run, out) : ft_draw_id(l, i);
    if (id >= 0 && !ft_sampler_bans(l->sampler, id) && ft_lane_allows(l, state, id)) return id;
    if (state && id == FT_DRAW_MORE && ft_sampler_greedy(l->sampler)) {
        id = ft_sampler_draw(l->sampler, ft_runner_logits(l->e->run, out), NULL, at);
        if (id >= 0 && ft_lane_allows(l, state, id)) return id;
    }
    const uint32_t *mask = ft_lane_allow(l, state);
    id = ft_draw_late(l, i, mask);
    if (id != FT_DRAW_MORE) return id;
    return ft_sampler_draw(l->sampler, ft_runner_logits(l->e->run, out), mask, at);
}

/* The same where draft i was drawn, for rejection sampling. */
static int32_t draw_or_keep(ft_lane *l, int i)
{
    const uint32_t *mask = ft_lane_allow(l, l->job.mask.user);
    return ft_reject_draw(l, ft_runner_logits(l->e->run, l->first_out + i), mask, i);
}

/* No id is left. Where all has been said and only the end was banned, that is the end. */
static void exhausted(ft_lane *l)
{
    if (complete(l)) {
        ft_lane_end(l, FT_FINISH_EOG);
        return;
    }
    const bool masked = l->job.mask.user != NULL;
    snprintf(l->error, sizeof l->error,
             masked ? "no token satisfies the grammar here"
                    : "the model's logits are not numbers: the weights are damaged");
    ft_lane_end(l, FT_FINISH_ERROR);
}

/* Takes the token of row i: history, limits, and the caller. false when the reply ends with it. */
static bool take(ft_lane *l, int32_t id, int i, bool drafted)
{
    if (id < 0) {
        exhausted(l);
        return false;
    }
    ft_sampler_accept(l->sampler, id);
    if (l->job.mask.user) l->job.mask.accept(l->job.mask.user, id);
    l->ids[l->n_ids++] = id;
    if (ft_lane_eog(l, id)) {
        ft_lane_end(l, FT_FINISH_EOG);
        return false;
    }
    l->stats.predicted_n++;
    ft_emit e = {.id = id, .drafted = drafted};
    if (l->job.top_logprobs >= 0) {
        e.n_logprob = ft_draw_logprobs(l, i, id);
        e.logprob = l->logprob;
    }
    if (!l->job.emit(l->job.user, &e))
        ft_lane_end(l, FT_FINISH_STOP);
    else if (l->job.max_tokens >= 0 && l->stats.predicted_n >= l->job.max_tokens)
        ft_lane_end(l, FT_FINISH_LENGTH);
    else if (l->n_ids >= l->e->p.ctx)
        ft_lane_end(l, FT_FINISH_CONTEXT);
    return l->state == LANE_REPLY;
}

void ft_spec_first(ft_lane *l)
{
    l->state = LANE_REPLY;
    take(l, draw(l, 0), 0, false);
}

static const char *reason(const ft_lane *l, int drafted, int kept)
{
    if (l->state == LANE_REPLY) return kept == drafted ? "full" : "mismatch";
    return l->finish == FT_FINISH_EOG ? "eos" : l->finish == FT_FINISH_STOP ? "stop" : "limit";
}

/* What a round of `drafted` drafts, `kept` of them, means for everyone who counts. */
static void learn(ft_lane *l, int drafted, int kept)
{
    ft_engine *e = l->e;
    ft_stats *s = &l->stats;
    s->rounds++;
    s->draft_rounds += drafted > 0;
    s->drafted += drafted;
    s->accepted += kept;
    for (int i = 0; i < drafted; i++) s->drafted_at[i]++;
    for (int i = 0; i < kept; i++) s->accepted_at[i]++;
    ft_gov_accept(l->winner >= 0 ? &l->gov_guess : &l->gov, &e->costs, drafted, kept);
    for (int i = 0; i < e->n_guesser; i++)
        e->guesser[i].accept(e->guesser[i].state, lane_index(l), drafted, kept,
                             drafted && i == l->winner);
    if (drafted) ft_trace_accept(l, drafted, kept, reason(l, drafted, kept));
    l->iter++;
}

/* What row i gave instead of `drawn` when acceptance is simulated: its draft, or anything else. */
static int32_t simulated(const ft_lane *l, int i, int32_t drawn)
{
    const uint64_t bits = ft_rng_at((uint64_t)lane_index(l), (uint64_t)l->n_ids, (uint32_t)i);
    if (ft_unit_f64(bits) < l->job.sim_accept[i]) return l->draft[i];
    return drawn == l->draft[i] ? (drawn + 1) % l->e->m->V : drawn;
}

void ft_spec_verify(ft_lane *l)
{
    const int drafted = l->n_draft;
    int kept = 0;
    int32_t last = -1;
    for (int i = 0;; i++) {
        int32_t id = i < drafted && l->drawn ? draw_or_keep(l, i) : draw(l, i);
        if (l->job.sim_accept && i < drafted + l->dropped) id = simulated(l, i, id);
        const bool agreed = i < drafted && id == l->draft[i];
        if (agreed) kept++;
        last = id;
        if (!take(l, id, i, agreed) || !agreed) break;
    }
    if (kept == drafted && l->dropped)
        ft_gov_dropped(&l->gov, &l->e->costs, last == l->draft[drafted]);
    l->n_draft = 0;
    l->dropped = false;
    ft_seq_accept(l->seq, 1 + kept);
    learn(l, drafted, kept);
}

/* ---- drafting ---- */

static int replying(const ft_engine *e)
{
    int n = 0;
    for (int i = 0; i < e->p.lanes; i++) n += e->lane[i].state == LANE_REPLY;
    return n;
}

/* Drafts for the next round that the limits leave room for. A request that asks for fewer than the
 * engine makes binds guessers too. */
static int budget(const ft_lane *l, bool guess)
{
    const ft_engine *e = l->e;
    if (l->state != LANE_REPLY) return 0;
    const bool bound = l->job.draft_max < e->p.draft_max;
    int k = bound   ? l->job.draft_max
            : guess ? FT_MAX(e->p.guess_max, e->p.draft_max)
                    : e->p.draft_max;
    k = FT_MIN(k, e->p.ctx - lane_len(l) - 2);
    if (l->job.max_tokens >= 0) k = FT_MIN(k, l->job.max_tokens - l->stats.predicted_n - 1);
    return k < FT_MAX(1, l->job.draft_min) ? 0 : k;
}

static bool governed(const ft_lane *l)
{
    return l->e->p.adapt && !l->job.draft_fixed;
}

/* Asks the guessers; the first proposal is taken. */
static void guess(ft_lane *l)
{
    ft_engine *e = l->e;
    int max = budget(l, true);
    if (!e->n_guesser || max <= 0) return;
    if (governed(l)) {
        ft_gov_turn t = {&l->gov_guess, max, 0};
        ft_gov_choose(&t, 1, &e->costs, replying(e));
        max = t.k;
    }
    for (int i = 0; i < e->n_guesser && max > 0; i++) {
        const ft_guesser *g = &e->guesser[i];
        const int n = g->draft(g->state, lane_index(l), l->ids, l->n_ids, max, l->draft);
        int ok = 0;
        while (ok < n && l->draft[ok] >= 0 && l->draft[ok] < e->m->V) ok++;
        if (ok < FT_MAX(1, l->job.draft_min)) continue;
        l->n_draft = ok;
        l->winner = i;
        l->drawn = false;
        return;
    }
}

/* How many drafts the model's head shall make for each lane: those that no guesser made. */
static void choose_drafts(ft_engine *e)
{
    int n = 0;
    for (int i = 0; i < e->p.lanes; i++) {
        ft_lane *l = &e->lane[i];
        l->draft_out = l->turn = -1;
        l->next_max = 0;
        if (!l->n_rows) continue; /* idle, or held with its drafts */
        l->winner = -1;
        guess(l);
        if (l->n_draft || !e->drafter) continue;
        l->next_max = budget(l, false);
        if (!governed(l)) continue;
        e->turn[l->turn = n++] = (ft_gov_turn){&l->gov, l->next_max, 0};
    }
    ft_gov_choose(e->turn, n, &e->costs, replying(e));
    for (int i = 0; i < e->p.lanes; i++) {
        ft_lane *l = &e->lane[i];
        if (l->turn >= 0) l->next_max = e->turn[l->turn].k;
    }
}

int ft_lane_hidden(const ft_lane *l, int cell)
{
    const int i = cell - l->past;
    if (i >= 0 && i < l->n_rows) return ft_hidden_trunk(l->e->run, l->first_row + i);
    return ft_hidden_ring(l->e->run, ft_seq_slot(l->seq), cell);
}

/* Tokens that the draft head has not read yet. */
static int unread(const ft_lane *l)
{
    return FT_MIN(lane_len(l) + 1, l->n_ids) - FT_MAX(1, l->fed);
}

/* Rows that bring the draft head n tokens further: cell c takes token c and hidden row c - 1.
 * Returns the last one. */
static int feed_rows(ft_lane *l, ft_rowset *w, int n)
{
    const int from = FT_MAX(1, l->fed);
    const int row = ft_rows_draft(w, ft_seq_slot(l->seq), from, n, from + 1, false);
    for (int i = 0; i < n; i++) {
        w->token[row + i] = l->ids[from + i];
        w->src_row[row + i] = ft_lane_hidden(l, from + i - 1);
    }
    l->fed = from + n;
    return row + n - 1;
}

/* All that is known; the row of the pending token is the first draft. */
static void feed_head(ft_lane *l, ft_rowset *w)
{
    const int n = unread(l);
    if (n <= 0) return;
    const int last = feed_rows(l, w, n);
    if (!l->next_max) return;
    l->draft_out = w->n_out;
    ft_rows_out(w, last);
}

/* Passes that let heads read what their lanes say, as many rows at a time as a prompt may have, in
 * spans as short as those of drafts: to the device they are nothing new. */
static ft_status feed(ft_engine *e, ft_err *err)
{
    for (;;) {
        ft_rowset *w = ft_runner_rows(e->run);
        for (int i = 0; i < e->p.lanes; i++) {
            ft_lane *l = &e->lane[i];
            while (l->to_feed && w->T < e->p.rows) {
                const int n = FT_MIN(FT_MIN(l->to_feed, (int)FT_FEED_ROWS), e->p.rows - w->T);
                feed_rows(l, w, n);
                l->to_feed -= n;
            }
        }
        if (!w->T) return FT_OK;
        const int64_t start = ft_now_ns();
        const int n = w->T;
        const ft_status st = ft_runner_draft(e->run, false, err);
        if (st) return st;
        if (!ft_runner_fresh(e->run))
            ft_gov_read(&e->costs, n, (double)(ft_now_ns() - start) * 1e-9);
    }
}

/* A reply that does not draft may fall behind: should it end so, its head has cost nothing. It
 * catches up when it drafts again, or when its ring is about to be full: a few at a time, lest all
 * do in one round. */
static void plan_feeding(ft_engine *e)
{
    int room = e->p.rows;
    for (int i = 0; i < e->p.lanes; i++) {
        ft_lane *l = &e->lane[i];
        l->to_feed = 0;
        if (!l->n_rows || l->state == LANE_PROMPT) continue;
        const int n = unread(l);
        if (l->next_max)
            l->to_feed = FT_MAX(0, n - FT_FEED_ROWS);
        else if (n >= FT_RING_ROWS - FT_FEED_ROWS || (n >= FT_RING_ROWS * 3 / 4 && n <= room))
            l->to_feed = n;
        room -= l->to_feed;
    }
}

/* An assistant keeps nothing: one row at the pending token's position. */
static void first_assistant(ft_lane *l, ft_rowset *w)
{
    if (!l->next_max) return;
    const int at = lane_len(l);
    const int row = ft_rows_draft(w, ft_seq_slot(l->seq), at, 1, at, true);
    w->token[row] = l->ids[at];
    w->src_row[row] = ft_lane_hidden(l, at - 1);
    l->draft_out = w->n_out;
    ft_rows_out(w, row);
}

/* Takes a draft; false when the lane drafts no further. */
static bool take_draft(ft_lane *l, int32_t id)
{
    if (id < 0 || ft_sampler_bans(l->drafting, id)) return false;
    ft_sampler_accept(l->drafting, id);
    l->draft[l->n_draft++] = id;
    return l->n_draft < l->next_max && !ft_lane_eog(l, id);
}

static void begin_drafts(ft_lane *l)
{
    ft_sampler_copy(l->drafting, l->sampler);
    l->drawn = ft_rejecting(l);
}

/* Reads the draft that this pass made for the lane; false when the lane drafts no further. */
static bool read_draft(ft_lane *l)
{
    ft_runner *run = l->e->draft_run;
    int32_t id = FT_DRAW_MORE;
    if (!l->drawn)
        id = ft_sampler_plain(l->drafting) ? ft_runner_best(run, l->draft_out) : ft_draw_draft(l);
    if (id == FT_DRAW_MORE) {
        const float *logits = ft_runner_logits(run, l->draft_out);
        id = l->drawn ? ft_reject_draft(l, logits)
                      : ft_sampler_draw(l->drafting, logits, NULL, (uint64_t)l->n_ids);
    }
    if (id < 0 || ft_sampler_bans(l->drafting, id)) return false;
    if (l->job.draft_p_min > 0 && ft_draw_draft_logprob(l, id) < logf(l->job.draft_p_min))
        return false;
    l->gov.gain = (double)INFINITY;
    if (!l->e->costs.margins || !governed(l)) return take_draft(l, id);
    const ft_gov_next next =
        ft_gov_drafted(&l->gov, &l->e->costs, ft_runner_margin(run, l->draft_out), replying(l->e));
    l->dropped = next == FT_GOV_DROP;
    if (l->dropped) l->draft[l->n_draft] = id;
    return !l->dropped && take_draft(l, id) && next == FT_GOV_MORE;
}

/* The row of the draft after the last one. */
static void next_row(ft_lane *l, ft_rowset *w)
{
    if (l->e->kind == FT_DRAFT_MODEL) {
        ft_second_next(l, w);
        return;
    }
    const bool constant = l->e->kind == FT_DRAFT_ASSISTANT;
    const int at = lane_len(l) + (constant ? 0 : l->n_draft);
    const int row = ft_rows_draft(w, ft_seq_slot(l->seq), at, 1, constant ? at : at + 1, constant);
    w->token[row] = l->draft[l->n_draft - 1];
    w->src_row[row] = ft_hidden_draft(l->e->run, l->draft_out);
    l->draft_out = w->n_out;
    ft_rows_out(w, row);
}

/* Begins it. */
static void pass(ft_engine *e, bool more)
{
    if (e->kind == FT_DRAFT_MODEL)
        ft_second_pass(e);
    else
        ft_runner_draft_begin(e->run, more);
}

/* One further row for every lane that goes on drafting. */
static ft_rowset *next_rows(ft_engine *e)
{
    ft_rowset *w = ft_runner_rows(e->draft_run);
    for (int i = 0; i < e->p.lanes; i++)
        if (e->lane[i].draft_out >= 0) next_row(&e->lane[i], w);
    return w;
}

/* Reads the drafts of a pass; those lanes go on for which one more is worth making, all together.
 */
static void read_drafts(ft_engine *e)
{
    double gain = 0;
    int n = 0;
    for (int i = 0; i < e->p.lanes; i++) {
        ft_lane *l = &e->lane[i];
        if (l->draft_out >= 0 && !read_draft(l)) l->draft_out = -1;
        if (l->draft_out < 0) continue;
        gain += l->gov.gain;
        n++;
    }
    if (!n || ft_gov_pays(&e->costs, gain, n)) return;
    for (int i = 0; i < e->p.lanes; i++) e->lane[i].draft_out = -1;
}

/* Pass after pass, each lane's draft read before its next row is made. pure: the first pass says
 * what such a pass costs. */
static ft_status step_by_step(ft_engine *e, ft_rowset *w, bool pure, ft_err *err)
{
    for (bool first = true; w->T; w = next_rows(e), first = false) {
        const int64_t start = ft_now_ns();
        const int n = w->n_out;
        pass(e, false);
        for (int i = 0; i < e->p.lanes; i++) {
            ft_lane *l = &e->lane[i];
            if (l->draft_out >= 0 && !l->n_draft) begin_drafts(l);
        }
        ft_draw_plan_drafts(e);
        const ft_status st = ft_runner_wait(e->draft_run, err);
        if (st) return st;
        read_drafts(e);
        if (n && (pure || !first) && !ft_runner_fresh(e->draft_run))
            ft_gov_draft(&e->costs, first, n, (double)(ft_now_ns() - start) * 1e-9);
    }
    return FT_OK;
}

/* Whether every draft of this round is simply the head's best token, so that a pass can take it
 * from the one before without anybody looking. */
static bool all_plain(const ft_engine *e)
{
    if (!ft_runner_chains(e->draft_run)) return false;
    for (int i = 0; i < e->p.lanes; i++) {
        const ft_lane *l = &e->lane[i];
        if (l->draft_out < 0) continue;
        if (!ft_sampler_plain(l->drafting) || ft_rejecting(l) || l->job.draft_p_min > 0)
            return false;
    }
    return true;
}

/* A lane's out row in each pass: those before it that draft as far have theirs first. */
static int chain_out(const ft_lane *l, int pass_no)
{
    int out = 0;
    for (const ft_lane *k = l->e->lane; k < l; k++) out += k->next_max > pass_no;
    return out;
}

/* All passes one after the other on the device, then all drafts at once: the same ones. */
static ft_status chained(ft_engine *e, ft_rowset *w, bool pure, ft_err *err)
{
    const int64_t start = ft_now_ns();
    const int n = w->n_out;
    int passes = 0;
    for (int i = 0; i < e->p.lanes; i++) passes = FT_MAX(passes, e->lane[i].next_max);
    for (int k = 1; w->T; w = next_rows(e), k++) {
        pass(e, k < passes);
        const ft_status st = k < passes ? FT_OK : ft_runner_wait(e->run, err);
        if (st) return st;
        for (int i = 0; i < e->p.lanes; i++) {
            ft_lane *l = &e->lane[i];
            if (l->draft_out < 0) continue;
            l->draft[l->n_draft++] = ft_token_drawn(l->draft_out);
            if (k == l->next_max) l->draft_out = -1;
        }
    }
    for (int i = 0; i < e->p.lanes; i++) {
        ft_lane *l = &e->lane[i];
        if (!l->next_max) continue;
        l->n_draft = 0;
        begin_drafts(l);
        for (int k = 0; take_draft(l, ft_runner_chained(e->run, k, chain_out(l, k))); k++) {
        }
    }
    if (!pure || ft_runner_fresh(e->run)) return FT_OK;
    /* Passes that follow one another cannot be told apart: each counts as long as the others. */
    const double seconds = (double)(ft_now_ns() - start) * 1e-9 / passes;
    ft_gov_draft(&e->costs, true, n, seconds);
    if (passes > 1) ft_gov_draft(&e->costs, false, n, seconds);
    return FT_OK;
}

/* Runs the rows that are filled, and what follows from them. */
static ft_status chain(ft_engine *e, ft_rowset *w, ft_err *err)
{
    /* Rows that a parked head had to catch up with are no cost of drafting. */
    const bool pure = e->pure && w->n_out && w->T <= w->n_out * (1 + e->p.draft_max);
    return w->n_out && all_plain(e) ? chained(e, w, pure, err) : step_by_step(e, w, pure, err);
}

/* The rows that make every lane's first draft. */
static ft_rowset *first_rows(ft_engine *e)
{
    ft_rowset *w = ft_runner_rows(e->draft_run);
    for (int i = 0; i < e->p.lanes; i++) {
        ft_lane *l = &e->lane[i];
        if (!l->n_rows) continue;
        /* A prompt never falls behind: its next chunk would overwrite the hidden rows. */
        const bool reads = l->next_max || l->state == LANE_PROMPT;
        if (e->kind == FT_DRAFT_MTP && reads) feed_head(l, w);
        if (e->kind == FT_DRAFT_ASSISTANT) first_assistant(l, w);
        if (e->kind == FT_DRAFT_MODEL) ft_second_first(l, w);
    }
    return w;
}

ft_status ft_spec_draft(ft_engine *e, ft_err *err)
{
    const int64_t start = ft_now_ns();
    choose_drafts(e);
    const int missed = ft_second_missed(e);
    ft_status st = e->kind == FT_DRAFT_MODEL ? ft_second_catch_up(e, err) : FT_OK;
    if (e->kind == FT_DRAFT_MTP) {
        plan_feeding(e);
        st = feed(e, err);
    }
    if (!st) st = chain(e, first_rows(e), err);
    const double seconds = (double)(ft_now_ns() - start) * 1e-9;
    if (missed && e->pure) ft_gov_behind(&e->costs, missed, seconds);
    for (int i = 0; i < e->p.lanes; i++) {
        ft_lane *l = &e->lane[i];
        if (l->state != LANE_REPLY || !l->n_rows) continue;
        l->stats.draft_s += seconds;
        if (l->n_draft < l->job.draft_min) {
            l->n_draft = 0;
            l->dropped = false;
        }
        if (l->n_draft) ft_trace_draft(l, seconds);
    }
    return st;
}

ft_status ft_spec_catch_up(ft_engine *e, ft_err *err)
{
    for (int i = 0; i < e->p.lanes; i++) {
        ft_lane *l = &e->lane[i];
        const bool behind = l->state == LANE_PROMPT && !l->parked && l->fed <= lane_len(l);
        l->to_feed = 0;
        if (!behind) continue;
        l->n_rows = 0; /* of the last round: all hidden rows are in the ring */
        l->to_feed = FT_MAX(0, unread(l));
    }
    return feed(e, err);
}
