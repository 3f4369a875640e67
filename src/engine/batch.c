/* engine/batch.c - which rows run now: every reply's pending token with its drafts, then prompt
 * chunks in the rows that are left. Chunks end at multiples of FT_CHUNK_ROWS, so that a prompt is
 * computed the same way however it was cut. */
#include "base/mem.h"
#include "engine/lane.h"

/* The last rows of a span leave their hidden rows in the lane's ring. */
static void keep_hidden(const ft_engine *e, const ft_lane *l, ft_rowset *w, int first, int n)
{
    for (int i = FT_MAX(0, n - ft_ring_rows(e->run)); i < n; i++)
        w->dst_row[first + i] = ft_hidden_ring(e->run, ft_seq_slot(l->seq), w->cell[first + i]);
}

/* Cells for this window and for the scratch rows of the next one's drafts. */
static bool reply_room(ft_engine *e, ft_lane *l)
{
    const int n = 1 + l->n_draft, left = e->p.ctx - lane_len(l);
    if (left >= n) return ft_room_for(l, FT_MIN(left, n + e->p.draft_max + 1));
    ft_lane_end(l, FT_FINISH_CONTEXT);
    return false;
}

static void reply_rows(ft_engine *e, ft_lane *l, ft_rowset *w)
{
    const int n = 1 + l->n_draft;
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

static void prompt_rows(ft_engine *e, ft_lane *l, ft_rowset *w, int room)
{
    const int n = prompt_chunk(l, room), at = lane_len(l);
    if (n == 0 || !ft_room_for(l, FT_MIN(e->p.ctx - at, n + e->p.draft_max + 1))) return;
    l->first_row = ft_rows_span(w, l->seq, n, false);
    l->n_rows = n;
    l->waited = 0;
    l->past = w->cell[l->first_row];
    l->first_out = w->n_out;
    memcpy(w->token + l->first_row, l->ids + at, sizeof(int32_t) * (size_t)n);
    if (at + n == l->job.n_prompt) ft_rows_out(w, l->first_row + n - 1);
    keep_hidden(e, l, w, l->first_row, n);
}

static bool replies_now(const ft_lane *l)
{
    return l->state == LANE_REPLY && !l->held && !l->parked;
}

/* Room is made in the order of arrival, before anyone has rows. */
static int reserve_replies(ft_engine *e)
{
    int n = 0;
    for (uint64_t after = 0;;) {
        ft_lane *next = NULL;
        for (int i = 0; i < e->p.lanes; i++) {
            ft_lane *l = &e->lane[i];
            if (replies_now(l) && l->arrival > after && (!next || l->arrival < next->arrival))
                next = l;
        }
        if (!next) return n;
        after = next->arrival;
        n += reply_room(e, next);
    }
}

/* The prompt with the fewest rows to go; each round that passes one over brings it forward, so that
 * a long one is not put off for ever. */
static ft_lane *next_prompt(ft_engine *e, const bool *seen)
{
    ft_lane *best = NULL;
    int64_t least = 0;
    for (int i = 0; i < e->p.lanes; i++) {
        ft_lane *l = &e->lane[i];
        if (l->state != LANE_PROMPT || l->parked || seen[i]) continue;
        const int64_t key = l->job.n_prompt - lane_len(l) - (int64_t)l->waited * FT_CHUNK_ROWS;
        if (!best || key < least || (key == least && l->arrival < best->arrival)) {
            best = l;
            least = key;
        }
    }
    return best;
}

static void prompts(ft_engine *e, ft_rowset *w, int room)
{
    memset(e->seen, 0, sizeof *e->seen * (size_t)e->p.lanes);
    for (ft_lane *l; room > 0 && (l = next_prompt(e, e->seen));) {
        e->seen[lane_index(l)] = true;
        l->waited++;
        const int before = w->T;
        prompt_rows(e, l, w, room);
        room -= w->T - before;
    }
}

bool ft_batch_fill(ft_engine *e)
{
    ft_rowset *w = ft_runner_rows(e->run);
    for (int i = 0; i < e->p.lanes; i++) e->lane[i].n_rows = 0;
    ft_room_back(e);
    const int replies = reserve_replies(e);
    for (int i = 0; i < e->p.lanes; i++)
        if (replies_now(&e->lane[i])) reply_rows(e, &e->lane[i], w);
    e->rows_now = w->T;
    prompts(e, w, FT_MIN(e->p.rows - w->T, ft_pace_rows(e, replies)));
    e->pure = w->T == e->rows_now;
    e->pace.rows = w->T - e->rows_now;
    return w->T > 0;
}
