/* engine/batch.c - which rows run now: every response's pending token with its drafts, then prompt
 * chunks in the rows that are left. Chunks end at multiples of FT_CHUNK_ROWS, so that a prompt is
 * computed the same way however it was cut. */
#include "base/mem.h"
#include "engine/slot.h"

#include <stdio.h>

/* The last rows of a span leave their hidden rows in the slot's ring. */
static void keep_hidden(const ft_engine *e, const ft_slot *s, ft_rowset *w, int first, int n)
{
    for (int i = FT_MAX(0, n - ft_ring_rows(e->runner)); i < n; i++)
        w->dst_row[first + i] = ft_hidden_ring(e->runner, ft_seq_slot(s->seq), w->cell[first + i]);
}

/* Cells for this window and for the scratch rows of the next one's drafts. */
static void response_room(ft_engine *e, ft_slot *s)
{
    const int n = 1 + s->draft.n, left = e->p.ctx - slot_len(s);
    if (left >= n)
        ft_preempt_reserve(s, FT_MIN(left, n + e->p.draft_max + 1));
    else
        ft_slot_end(s, FT_FINISH_CONTEXT);
}

static void response_rows(ft_engine *e, ft_slot *s, ft_rowset *w)
{
    const int n = 1 + s->draft.n;
    s->rows.first = ft_rows_span(w, s->seq, n, s->draft.n > 0);
    s->rows.n = n;
    s->rows.first_pos = w->cell[s->rows.first];
    s->rows.first_out = w->n_out;
    w->token[s->rows.first] = s->ids[s->n_ids - 1];
    for (int i = 1; i < n; i++) w->token[s->rows.first + i] = s->draft.id[i - 1];
    for (int i = 0; i < n; i++) {
        ft_images_place(s, w, s->rows.first + i, s->rows.first_pos + i, false);
        ft_rows_out(w, s->rows.first + i);
    }
    keep_hidden(e, s, w, s->rows.first, n);
}

/* The first position from `at` on, before `end`, that is serial or is not; else end. */
static int next_serial(const ft_slot *s, int at, int end, bool serial)
{
    while (at < end && ft_key_serial(s->key[at]) != serial) at++;
    return at;
}

/* Rows of this slot's prompt that fit: all up to the next checkpoint, or up to a multiple of
 * FT_CHUNK_ROWS, with serial rows only at their beginning; whole images where that is a must, of
 * `most` rows at most. */
static int prompt_chunk(const ft_slot *s, int room, int most)
{
    const int at = slot_len(s), stop = ft_reuse_next_checkpoint(s, at);
    const int rest = next_serial(s, next_serial(s, at, stop, false), stop, true) - at;
    if (rest <= room) return ft_images_chunk(s, at, rest, most);
    const int border = (at + room) / FT_CHUNK_ROWS * FT_CHUNK_ROWS;
    return ft_images_chunk(s, at, FT_MAX(0, border - at), most);
}

/* Image rows that do not reach the device end this response alone. */
static bool load_images(ft_slot *s, int row, int at, int n)
{
    ft_err err;
    if (!ft_images_load(s, row, at, n, &err)) return true;
    snprintf(s->error, sizeof s->error, "%s", err.text);
    ft_slot_end(s, FT_FINISH_ERROR);
    return false;
}

/* Requests the logits of the rows that predict prompt tokens to be scored. */
static void score_rows(ft_engine *e, ft_slot *s, ft_rowset *w, int at, int n)
{
    const int from = FT_MAX(at, s->task.score_from), to = FT_MIN(at + n, s->task.n_prompt - 1);
    s->rows.first_score = w->n_out;
    s->rows.n_score = s->task.scored ? FT_MAX(0, to - from) : 0;
    s->rows.score_pos = from;
    for (int i = 0; i < s->rows.n_score; i++) ft_rows_out(w, s->rows.first + from - at + i);
    e->score_left -= s->rows.n_score;
}

static void prompt_rows(ft_engine *e, ft_slot *s, ft_rowset *w, int room)
{
    const int at = slot_len(s);
    if (s->task.scored) room = FT_MIN(room, FT_MAX(0, s->task.score_from - at) + e->score_left);
    const int n = prompt_chunk(s, room, e->p.rows - (w->T - e->rows_now));
    if (n == 0 || !ft_preempt_reserve(s, FT_MIN(e->p.ctx - at, n + e->p.draft_max + 1))) return;
    if (!load_images(s, w->T, at, n)) return;
    s->rows.first = ft_rows_span(w, s->seq, n, false);
    w->span[w->S - 1].serial = next_serial(s, at, at + n, false) - at;
    s->rows.n = n;
    s->waited = 0;
    s->rows.first_pos = w->cell[s->rows.first];
    memcpy(w->token + s->rows.first, s->ids + at, sizeof(int32_t) * (size_t)n);
    ft_images_rows(s, w, s->rows.first, at, n, false);
    score_rows(e, s, w, at, n);
    s->rows.first_out = w->n_out;
    if (at + n == s->task.n_prompt) ft_rows_out(w, s->rows.first + n - 1);
    keep_hidden(e, s, w, s->rows.first, n);
}

static bool responses_now(const ft_slot *s)
{
    return s->state == SLOT_DECODE && !s->paused && !s->swapped && !s->held.on && !s->resting;
}

/* Whether the rows of this step are one for each response. */
static bool one_row_each(const ft_engine *e)
{
    for (int i = 0; i < e->p.slots; i++) {
        const ft_slot *s = &e->slot[i];
        if (s->state == SLOT_PREFILL || (responses_now(s) && s->draft.n)) return false;
    }
    return true;
}

/* Chooses which responses run in this step. */
static void rotate(ft_engine *e)
{
    const int slots = e->p.slots;
    int n = 0;
    for (int i = 0; i < slots; i++) {
        e->slot[i].resting = false;
        n += responses_now(&e->slot[i]);
    }
    int left = one_row_each(e) ? ft_rotation_choose(&e->rotation, n) : n;
    e->resting = n - left;
    const int first = e->rotation.first;
    for (int i = 0; i < slots && e->resting; i++) {
        ft_slot *s = &e->slot[(first + i) % slots];
        if (!responses_now(s)) continue;
        s->resting = !left;
        if (left && --left == 0) e->rotation.first = (slot_index(s) + 1) % slots;
    }
}

/* Room is made in the order of arrival, before anyone has rows. */
static void reserve_responses(ft_engine *e)
{
    for (uint64_t after = 0;;) {
        ft_slot *next = NULL;
        for (int i = 0; i < e->p.slots; i++) {
            ft_slot *s = &e->slot[i];
            if (responses_now(s) && s->arrival > after && (!next || s->arrival < next->arrival))
                next = s;
        }
        if (!next) return;
        after = next->arrival;
        response_room(e, next);
    }
}

/* The prompt with the fewest rows to go, where each step that brought a prompt no row counts like a
 * chunk that it has read. So no prompt waits for ever: one with r rows to go is the first after
 * r / FT_CHUNK_ROWS steps, except for those that have waited like it, of which every step serves
 * one. tests/invariants/waiting.c checks the bound r / FT_CHUNK_ROWS + slots. */
static ft_slot *next_prompt(ft_engine *e, const bool *seen)
{
    ft_slot *best = NULL;
    int64_t least = 0;
    for (int i = 0; i < e->p.slots; i++) {
        ft_slot *s = &e->slot[i];
        if (s->state != SLOT_PREFILL || s->swapped || s->preparing || seen[i]) continue;
        const int64_t key = s->task.n_prompt - slot_len(s) - (int64_t)s->waited * FT_CHUNK_ROWS;
        if (!best || key < least || (key == least && s->arrival < best->arrival)) {
            best = s;
            least = key;
        }
    }
    return best;
}

static void prompts(ft_engine *e, ft_rowset *w, int room)
{
    memset(e->seen, 0, sizeof *e->seen * (size_t)e->p.slots);
    for (int i = 0; i < e->p.slots; i++)
        e->slot[i].waited += e->slot[i].state == SLOT_PREFILL && !e->slot[i].preparing;
    for (ft_slot *s; room > 0 && (s = next_prompt(e, e->seen));) {
        e->seen[slot_index(s)] = true;
        const int before = w->T;
        prompt_rows(e, s, w, room);
        room -= w->T - before;
    }
}

bool ft_batch_fill(ft_engine *e)
{
    ft_rowset *w = ft_runner_rows(e->runner);
    for (int i = 0; i < e->p.slots; i++) e->slot[i].rows.n = 0;
    ft_preempt_restore(e);
    rotate(e);
    reserve_responses(e);
    for (int i = 0; i < e->p.slots; i++)
        if (responses_now(&e->slot[i])) response_rows(e, &e->slot[i], w);
    e->rows_now = w->T;
    e->score_left = e->p.score_rows;
    /* One chunk always fits: the buffers of a step have rows for every response beside p.rows. */
    prompts(e, w, FT_MIN(FT_MAX(e->p.rows - w->T, FT_CHUNK_ROWS), ft_prefill_rows(e, w->T)));
    e->pure = w->T == e->rows_now;
    e->prefill.rows = w->T - e->rows_now;
    return w->T > 0;
}
