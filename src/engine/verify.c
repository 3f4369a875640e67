/* engine/verify.c - from logits to accepted tokens.
 *
 * At row i the sampler has seen the prompt, the response and draft tokens 0 to i - 1, so it samples
 * exactly the token that it would have sampled without drafting. Draft token i is accepted if it is
 * that token; the first one that differs is replaced by the sampled token, and the rows after it
 * are discarded. One token is sampled per accepted row and none for the others.
 *
 * A row whose mask is not ready in time is held: its logits are copied, the rows after it are
 * discarded like those after a rejected draft token, and the same token is sampled later. */
#include "base/rng.h"
#include "engine/slot.h"

#include <stdio.h>

enum { TOKEN_LATER = FT_DRAW_MORE - 1 }; /* instead of an id: the mask is not ready */

bool ft_slot_token_mask(ft_slot *s, void *state, const uint32_t **mask)
{
    const ft_task *j = &s->task;
    bool some = false;
    if (state && !ft_mask_find(s, state, &some)) return false;
    for (int i = 0; some && j->ignore_eog && i < j->n_eog; i++)
        s->bits[j->eog[i] / 32] &= ~(1u << j->eog[i] % 32);
    *mask = some ? s->bits : NULL;
    return true;
}

const float *ft_slot_logits(ft_slot *s, int i)
{
    return s->held.on ? s->held.logits : ft_runner_logits(s->e->runner, s->rows.first_out + i);
}

bool ft_slot_token_allowed(const ft_slot *s, void *state, int32_t id)
{
    if (!state) return true;
    return s->task.mask.allows(state, id) && !(s->task.ignore_eog && ft_slot_is_end_id(s, id));
}

/* Whether the constraint allows the text to end here. */
static bool complete(const ft_slot *s)
{
    const ft_mask *k = &s->task.mask;
    for (int i = 0; k->user && i < s->task.n_eog; i++)
        if (k->allows(k->user, s->task.eog[i])) return true;
    return false;
}

/* The token of row i if no mask is needed to tell: it is allowed, and would be sampled with or
 * without a mask. Otherwise negative. */
static int32_t draw_unmasked(ft_slot *s, int i)
{
    void *const state = s->task.mask.user;
    int32_t id = s->held.on ? FT_DRAW_MORE
                 : ft_sampler_plain(s->sampler)
                     ? ft_runner_best(s->e->runner, s->rows.first_out + i)
                     : ft_draw_id(s, i);
    if (id >= 0 && !ft_sampler_bans(s->sampler, id) && ft_slot_token_allowed(s, state, id))
        return id;
    if (!state || id != FT_DRAW_MORE || !ft_sampler_greedy(s->sampler)) return -1;
    id = ft_sampler_draw(s->sampler, ft_slot_logits(s, i), NULL, (uint64_t)s->n_ids);
    return id >= 0 && ft_slot_token_allowed(s, state, id) ? id : -1;
}

/* The token of row i. Its logits are fetched only if needed. */
static int32_t draw_token(ft_slot *s, int i)
{
    void *const state = s->task.mask.user;
    const uint32_t *mask;
    int32_t id = state && ft_mask_known(s) ? -1 : draw_unmasked(s, i);
    if (id >= 0) return id;
    if (!ft_slot_token_mask(s, state, &mask)) return TOKEN_LATER;
    id = s->held.on ? FT_DRAW_MORE : ft_draw_late(s, i, mask);
    if (id != FT_DRAW_MORE) return id;
    return ft_sampler_draw(s->sampler, ft_slot_logits(s, i), mask, (uint64_t)s->n_ids);
}

/* The same with rejection sampling, where draft token i was sampled. */
static int32_t draw_or_accept(ft_slot *s, int i)
{
    const uint32_t *mask;
    if (!ft_slot_token_mask(s, s->task.mask.user, &mask)) return TOKEN_LATER;
    return ft_reject_draw(s, ft_slot_logits(s, i), mask, i);
}

static int32_t draw_row(ft_slot *s, int i, bool drafted)
{
    if (s->task.mask.user && ft_mask_busy(s)) return TOKEN_LATER;
    return drafted && s->draft.sampled ? draw_or_accept(s, i) : draw_token(s, i);
}

/* Copies what sampling from row i needs. */
static void hold_row(ft_slot *s, int i, int drafted)
{
    struct slot_held *h = &s->held;
    const size_t bytes = sizeof *h->logits * (size_t)s->e->m->V;
    if (!h->logits) h->logits = ft_alloc(bytes);
    memcpy(h->logits, ft_slot_logits(s, i), bytes);
    h->row = i;
    h->draft = i < drafted ? s->draft.id[i] : -1;
    h->listed = i < s->device.n_lists;
    if (h->listed) h->list = *ft_runner_drawn(s->e->runner, s->device.list_first + i);
    h->on = true;
}

/* No token is possible. If the text may end here and only the end token was banned, the response
 * ends. */
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

/* Takes the token of row i: updates history and limits, and calls emit. false: the response
 * ends. */
static bool take_token(ft_slot *s, int32_t id, int i, bool drafted)
{
    if (id < 0) {
        end_without_token(s);
        return false;
    }
    ft_sampler_accept(s->sampler, id);
    if (s->task.mask.user) s->task.mask.accept(s->task.mask.user, id);
    if (id == s->task.checkpoint_id) s->mark = s->n_ids;
    ft_reuse_generated(s, id);
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

void ft_verify_first(ft_slot *s)
{
    s->state = SLOT_DECODE;
    const int32_t id = draw_row(s, 0, false);
    if (id == TOKEN_LATER)
        hold_row(s, 0, 0);
    else
        take_token(s, id, 0, false);
}

void ft_verify_held(ft_slot *s)
{
    const struct slot_held *h = &s->held;
    const int32_t id = draw_row(s, h->row, h->draft >= 0);
    if (id == TOKEN_LATER) return;
    take_token(s, id, h->row, id == h->draft);
    s->held.on = false;
    s->held.sampled = true;
}

static const char *reason(const ft_slot *s, int drafted, int accepted)
{
    if (s->state == SLOT_DECODE) return accepted == drafted ? "full" : "mismatch";
    return s->finish == FT_FINISH_EOG ? "eos" : s->finish == FT_FINISH_STOP ? "stop" : "limit";
}

/* Updates statistics, governor and n-gram drafters after a step. */
static void record_step(ft_slot *slot, int drafted, int accepted)
{
    ft_engine *e = slot->e;
    ft_stats *s = &slot->stats;
    s->decode_steps++;
    s->draft_steps += drafted > 0;
    s->drafted += drafted;
    s->accepted += accepted;
    for (int i = 0; i < drafted; i++) s->drafted_at[i]++;
    for (int i = 0; i < accepted; i++) s->accepted_at[i]++;
    ft_gov_accept(slot->draft.method >= 0 ? &slot->gov.ngram : &slot->gov.head, &e->costs, drafted,
                  accepted);
    for (int i = 0; !slot->task.n_image && i < e->n_ngram_drafter; i++)
        e->ngram_drafter[i].accept(e->ngram_drafter[i].state, slot_index(slot), drafted, accepted,
                                   drafted && i == slot->draft.method);
    if (drafted) ft_trace_accept(slot, drafted, accepted, reason(slot, drafted, accepted));
    slot->iter++;
}

/* The token of row i when acceptance is simulated: the draft token, or any other. */
static int32_t simulated(const ft_slot *s, int i, int32_t drawn)
{
    const uint64_t bits = ft_rng_at((uint64_t)slot_index(s), (uint64_t)s->n_ids, (uint32_t)i);
    if (ft_unit_f64(bits) < s->task.sim_accept[i]) return s->draft.id[i];
    return drawn == s->draft.id[i] ? (drawn + 1) % s->e->m->V : drawn;
}

void ft_verify(ft_slot *s)
{
    int drafted = s->draft.n;
    int accepted = 0;
    int32_t last = -1;
    for (int i = 0;; i++) {
        int32_t id = draw_row(s, i, i < drafted);
        if (id == TOKEN_LATER) {
            hold_row(s, i, drafted);
            drafted = i;
            break;
        }
        if (s->task.sim_accept && i < drafted + s->draft.dropped) id = simulated(s, i, id);
        const bool matches = i < drafted && id == s->draft.id[i];
        if (matches) accepted++;
        last = id;
        if (!take_token(s, id, i, matches) || !matches) break;
    }
    if (accepted == drafted && s->draft.dropped && !s->held.on)
        ft_gov_dropped(&s->gov.head, &s->e->costs, last == s->draft.id[drafted]);
    s->draft.n = 0;
    s->draft.dropped = false;
    ft_seq_accept(s->seq, 1 + accepted);
    record_step(s, drafted, accepted);
}
