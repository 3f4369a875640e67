/* engine/batch.c - which rows run now: every reply's pending token with its drafts, then prompt
 * chunks in the rows that are left. Chunks end at multiples of FT_CHUNK_ROWS, so that a prompt is
 * computed the same way however it was cut. */
#include "base/mem.h"
#include "engine/lane.h"

/* The last rows of a span leave their hidden rows in the lane's ring. */
static void keep_hidden(const ft_engine *e, const ft_lane *l, ft_rowset *w, int first, int n)
{
    for (int i = FT_MAX(0, n - FT_RING_ROWS); i < n; i++)
        w->dst_row[first + i] = ft_hidden_ring(e->run, ft_seq_slot(l->seq), w->cell[first + i]);
}

static void reply_rows(ft_engine *e, ft_lane *l, ft_rowset *w)
{
    const int n = 1 + l->n_draft;
    /* Room for this window and for the scratch rows of the next one's drafts. */
    const int left = e->p.ctx - lane_len(l);
    if (left < n || !ft_seq_reserve(l->seq, FT_MIN(left, n + e->p.draft_max + 1))) {
        ft_lane_end(l, FT_FINISH_CONTEXT);
        return;
    }
    l->first_row = ft_rows_span(w, l->seq, n, l->n_draft > 0);
    l->n_rows = n;
    l->past = w->cell[l->first_row];
    l->first_out = w->n_out;
    w->token[l->first_row] = l->ids[l->n_ids - 1];
    for (int i = 1; i < n; i++) w->token[l->first_row + i] = l->draft[i - 1];
    for (int i = 0; i < n; i++) ft_rows_out(w, l->first_row + i);
    keep_hidden(e, l, w, l->first_row, n);
}

/* Rows of this lane's prompt that fit: all up to where it is kept, or up to a chunk border. */
static int prompt_chunk(const ft_lane *l, int room)
{
    const int at = lane_len(l), rest = ft_keep_next(l, at) - at;
    if (rest <= room) return rest;
    const int border = (at + room) / FT_CHUNK_ROWS * FT_CHUNK_ROWS;
    return FT_MAX(0, border - at);
}

static void prompt_rows(ft_engine *e, ft_lane *l, ft_rowset *w)
{
    const int n = prompt_chunk(l, e->p.rows - w->T), at = lane_len(l);
    if (n == 0) return;
    if (!ft_seq_reserve(l->seq, FT_MIN(e->p.ctx - at, n + e->p.draft_max + 1))) {
        ft_lane_end(l, FT_FINISH_CONTEXT);
        return;
    }
    l->first_row = ft_rows_span(w, l->seq, n, false);
    l->n_rows = n;
    l->past = w->cell[l->first_row];
    l->first_out = w->n_out;
    memcpy(w->token + l->first_row, l->ids + at, sizeof(int32_t) * (size_t)n);
    if (at + n == l->job.n_prompt) ft_rows_out(w, l->first_row + n - 1);
    keep_hidden(e, l, w, l->first_row, n);
}

bool ft_batch_fill(ft_engine *e)
{
    ft_rowset *w = ft_runner_rows(e->run);
    for (int i = 0; i < e->p.lanes; i++) {
        ft_lane *l = &e->lane[i];
        l->n_rows = 0;
        if (l->state == LANE_REPLY && !l->held) reply_rows(e, l, w);
    }
    e->rows_now = w->T;
    for (int i = 0; i < e->p.lanes; i++) {
        ft_lane *l = &e->lane[(e->turn + i) % e->p.lanes];
        if (l->state == LANE_PROMPT && w->T < e->p.rows) prompt_rows(e, l, w);
    }
    e->turn = (e->turn + 1) % e->p.lanes;
    e->pure = w->T == e->rows_now;
    return w->T > 0;
}
