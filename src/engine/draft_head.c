/* engine/draft_head.c - what the model's own draft head (MTP) has read.
 *
 * The head has a KV cache of its own: position c holds token c and the model's hidden row of
 * position c - 1. It must have read all known tokens before it can draft. A response that is not
 * drafting may leave the head behind; it catches up from a ring of recent hidden rows. */
#include "base/clock.h"
#include "base/mem.h"
#include "engine/slot.h"

int ft_slot_hidden_row(const ft_slot *s, int cell)
{
    const int i = cell - s->rows.first_pos;
    if (i >= 0 && i < s->rows.n) return ft_hidden_trunk(s->e->runner, s->rows.first + i);
    return ft_hidden_ring(s->e->runner, ft_seq_slot(s->seq), cell);
}

int ft_head_unread(const ft_slot *s)
{
    return FT_MIN(slot_len(s) + 1, s->n_ids) - FT_MAX(1, s->head.fed);
}

/* Adds rows that feed the head n more tokens: position c gets token c and hidden row c - 1.
 * Returns the last row. */
static int feed_rows(ft_slot *s, ft_rowset *w, int n)
{
    const int from = FT_MAX(1, s->head.fed);
    /* Without the image rows the head reads token 0 in their place: fewer tokens are accepted. */
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

/* Feeds all known tokens; the row of the pending token makes the first draft token. */
void ft_head_first_row(ft_slot *s, ft_rowset *w)
{
    const int n = ft_head_unread(s);
    if (n <= 0) return;
    const int last = feed_rows(s, w, n);
    if (!s->draft.next_max) return;
    s->draft.out = w->n_out;
    ft_rows_out(w, last);
}

/* Runs passes that only feed heads, with as many rows as a prompt step and spans as short as
 * those of drafting, so that the device needs no new shapes. */
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

/* A response that is not drafting may leave its head behind; if it ends that way, the head has
 * cost nothing. The head catches up when drafting resumes, before a prefix checkpoint, or when its
 * ring of hidden rows is nearly full: only a few slots at a time, to keep steps short. */
static void plan_feeding(ft_engine *e)
{
    int room = e->p.rows;
    for (int i = 0; i < e->p.slots; i++) {
        ft_slot *s = &e->slot[i];
        s->head.to_feed = 0;
        if (!s->rows.n || s->state == SLOT_PREFILL) continue;
        const int n = ft_head_unread(s), saved = ft_reuse_response(s);
        if (s->draft.next_max)
            s->head.to_feed = FT_MAX(0, n - FT_FEED_ROWS);
        else if (saved)
            s->head.to_feed = FT_MAX(0, saved - FT_MAX(1, s->head.fed));
        else if (n >= FT_RING_ROWS - FT_FEED_ROWS || (n >= FT_RING_ROWS * 3 / 4 && n <= room))
            s->head.to_feed = n;
        room -= s->head.to_feed;
    }
}

ft_status ft_head_feed(ft_engine *e, ft_err *err)
{
    plan_feeding(e);
    return feed_heads(e, err);
}

ft_status ft_head_catch_up(ft_engine *e, ft_err *err)
{
    for (int i = 0; i < e->p.slots; i++) {
        ft_slot *s = &e->slot[i];
        const bool behind =
            s->state == SLOT_PREFILL && !s->swapped && !s->preparing && s->head.fed <= slot_len(s);
        s->head.to_feed = 0;
        if (!behind) continue;
        s->rows.n = 0; /* of the last step: all hidden rows are in the ring */
        s->head.to_feed = FT_MAX(0, ft_head_unread(s));
    }
    return feed_heads(e, err);
}
