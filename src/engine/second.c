/* engine/second.c - a second, smaller model that drafts: its own cache, its own sequences.
 * It needs nothing but ids, so it may fall behind a reply that does not draft and reads what it
 * missed when drafting begins again.
 *
 * Rows of known ids are certain. Drafts are not: every draft step runs the whole window of drafts
 * so far as tentative rows and keeps none of them. A delta net cannot take a stored row back, and
 * the rows of a short window ride along for little; the ids that the target kept come again, as
 * certain rows, in the next round's first pass. */
#include "base/mem.h"
#include "engine/lane.h"

#include <stdlib.h>

enum { LAST_ROWS = FT_RING_FEW }; /* rows that the pass of the first draft reads at most */

static ft_cache_params cache_params(const ft_model *m, const ft_engine_params *p)
{
    return (ft_cache_params){
        .layer = m->layer,
        .n_layer = m->L,
        .trunk = m->L,
        .kt = p->kt,
        .vt = p->vt,
        .exact = p->kv_exact,
        .tail = p->kv_tail && !m->dev->no_tail,
        .slots = p->lanes,
        .cells = p->ctx,
        .total = p->cells,
        .tentative = p->draft_max + 1,
    };
}

static ft_runner_params runner_params(ft_model *m, ft_cache *c, const ft_engine_params *p, int ids)
{
    return (ft_runner_params){
        .model = m,
        .cache = c,
        .slots = p->lanes,
        .rows = p->rows + p->lanes * (LAST_ROWS + 1),
        .out = p->lanes,
        .cells = p->ctx,
        .ids = ids,
    };
}

uint64_t ft_second_bytes(const ft_model *m, const ft_engine_params *p)
{
    const ft_cache_params cp = cache_params(m, p);
    const ft_runner_params rp = runner_params((ft_model *)(uintptr_t)m, NULL, p, m->V);
    return ft_cache_bytes(&cp) + ft_runner_bytes(&rp);
}

ft_status ft_second_new(ft_engine *e, ft_err *err)
{
    ft_model *m = e->drafter;
    if (abs(m->V - e->m->V) > FT_DRAFT_APART)
        return ft_fail(err, FT_EUNSUPPORTED,
                       "the draft model has %d tokens, the target %d; want at most %d apart", m->V,
                       e->m->V, FT_DRAFT_APART);
    const ft_cache_params cp = cache_params(m, &e->p);
    const ft_status st = ft_cache_new(&e->second, m->dev, &cp, err);
    if (st) return st;
    const ft_runner_params rp = runner_params(m, e->second, &e->p, e->m->V);
    return ft_runner_new(&e->draft_run, &rp, err);
}

void ft_second_start(ft_lane *l, const ft_task *j)
{
    if (!l->second) return;
    const int most = FT_MIN(ft_seq_len(l->second), j->n_prompt - 1);
    int same = 0;
    while (same < most && l->ids[same] == j->prompt[same]) same++;
    if (!ft_seq_rewind(l->second, same)) ft_seq_rewind(l->second, 0);
}

int ft_second_missed(const ft_engine *e)
{
    int missed = 0;
    for (int i = 0; i < e->p.lanes; i++) {
        const ft_lane *l = &e->lane[i];
        const int n = l->second && l->next_max ? l->n_ids - ft_seq_len(l->second) : 0;
        if (n > 1 + e->p.draft_max) missed += n;
    }
    return missed;
}

/* Adds the lane's next n rows; false when its cache has no room. An id that only the target has
 * reads as the first. */
static bool add_rows(ft_lane *l, ft_rowset *w, const int32_t *ids, int n, bool tentative)
{
    if (!ft_seq_reserve(l->second, n)) return false;
    const int row = ft_rows_span(w, l->second, n, tentative);
    const int V = l->e->drafter->V;
    for (int i = 0; i < n; i++) w->token[row + i] = ids[i] < V ? ids[i] : 0;
    l->second_rows = n;
    l->second_kept = tentative ? 0 : n;
    return true;
}

void ft_second_pass(ft_engine *e)
{
    ft_runner_trunk_begin(e->draft_run);
    for (int i = 0; i < e->p.lanes; i++) {
        ft_lane *l = &e->lane[i];
        if (l->second_rows) ft_seq_accept(l->second, l->second_kept);
        l->second_rows = 0;
    }
}

/* Rows of a prompt that fit, up to the borders that the target's chunks have. */
static int chunk(const ft_lane *l, int room)
{
    const int at = ft_seq_len(l->second), n = l->n_ids - at;
    if (!l->next_max || n <= LAST_ROWS) return 0;
    const int border = FT_MIN(at + room, l->n_ids - 1) / FT_CHUNK_ROWS * FT_CHUNK_ROWS;
    return border > at ? border - at : FT_MIN(room, n - LAST_ROWS);
}

ft_status ft_second_catch_up(ft_engine *e, ft_err *err)
{
    for (ft_status st;;) {
        ft_rowset *w = ft_runner_rows(e->draft_run);
        for (int i = 0; i < e->p.lanes; i++) {
            ft_lane *l = &e->lane[i];
            const int n = l->second && w->T < e->p.rows ? chunk(l, e->p.rows - w->T) : 0;
            if (n && !add_rows(l, w, l->ids + ft_seq_len(l->second), n, false)) l->next_max = 0;
        }
        if (!w->T) return FT_OK;
        ft_second_pass(e);
        if ((st = ft_runner_wait(e->draft_run, err))) return st;
    }
}

void ft_second_first(ft_lane *l, ft_rowset *w)
{
    const int at = ft_seq_len(l->second), n = l->n_ids - at;
    if (!l->next_max || !add_rows(l, w, l->ids + at, n, false)) return;
    l->draft_out = w->n_out;
    ft_rows_out(w, w->T - 1);
}

void ft_second_next(ft_lane *l, ft_rowset *w)
{
    l->draft_out = -1;
    if (!add_rows(l, w, l->draft, l->n_draft, true)) return;
    l->draft_out = w->n_out;
    ft_rows_out(w, w->T - 1);
}
