/* engine/draft_model.c - drafting with a second, smaller model, which has its own KV cache and
 * sequences. It needs token ids only, so it may fall behind a response that is not drafting and
 * reads the missing tokens when drafting resumes.
 * Rows of known ids are committed. Draft tokens are not: every draft pass runs all draft tokens
 * so far as tentative rows and accepts none of them, because a delta net cannot undo a committed
 * row. The few extra rows cost little. Tokens that the target accepted are fed again, as
 * committed rows, in the first pass of the next step. */
#include "base/mem.h"
#include "engine/slot.h"
#include "kv/plan.h"

#include <stdlib.h>

enum { LAST_ROWS = FT_RING_FEW }; /* maximum rows of the pass that makes the first draft token */

/* Free its plan with ft_free. */
static ft_cache_params cache_params_init(const ft_model *m, const ft_engine_params *p)
{
    ft_cache_params c = ft_engine_cache_params(m, p);
    c.tentative = p->draft_max + 1;
    c.plan = ft_kv_plan_new(&c);
    return c;
}

static ft_runner_params runner_params(ft_model *m, ft_cache *c, const ft_engine_params *p, int ids)
{
    return (ft_runner_params){
        .model = m,
        .cache = c,
        .slots = p->slots,
        .rows = p->rows + p->slots * (LAST_ROWS + 1),
        .out = p->slots,
        .cells = p->ctx,
        .micro = p->micro,
        .ids = ids,
    };
}

uint64_t ft_draft_model_bytes(ft_model *m, const ft_engine_params *p)
{
    const ft_cache_params cp = cache_params_init(m, p);
    const ft_runner_params rp = runner_params(m, NULL, p, m->V);
    const uint64_t bytes = ft_cache_bytes(&cp) + ft_runner_bytes(&rp);
    ft_free(cp.plan);
    return bytes;
}

ft_status ft_draft_model_new(ft_engine *e, ft_err *err)
{
    ft_model *m = e->drafter;
    if (abs(m->V - e->m->V) > FT_DRAFT_VOCAB_DIFF_MAX)
        return ft_fail(err, FT_EUNSUPPORTED,
                       "the draft model has %d tokens, the target %d; want at most %d apart", m->V,
                       e->m->V, FT_DRAFT_VOCAB_DIFF_MAX);
    const ft_cache_params cp = cache_params_init(m, &e->p);
    const ft_status st = ft_cache_new(&e->draft_cache, m->dev, &cp, err);
    ft_free(cp.plan);
    if (st) return st;
    const ft_runner_params rp = runner_params(m, e->draft_cache, &e->p, e->m->V);
    return ft_runner_new(&e->draft_runner, &rp, err);
}

void ft_draft_model_start(ft_slot *s, const ft_task *j)
{
    if (!s->draft_model.seq) return;
    const int most = FT_MIN(ft_seq_len(s->draft_model.seq), j->n_prompt - 1);
    int same = 0;
    while (same < most && s->ids[same] == j->prompt[same]) same++;
    if (!ft_seq_rewind(s->draft_model.seq, same)) ft_seq_rewind(s->draft_model.seq, 0);
}

int ft_draft_model_backlog(const ft_engine *e)
{
    int missed = 0;
    for (int i = 0; i < e->p.slots; i++) {
        const ft_slot *s = &e->slot[i];
        const int n =
            s->draft_model.seq && s->draft.next_max ? s->n_ids - ft_seq_len(s->draft_model.seq) : 0;
        if (n > 1 + e->p.draft_max) missed += n;
    }
    return missed;
}

/* Adds the slot's next n rows; false: its cache is full. Ids outside the draft model's
 * vocabulary, images among them, are replaced by 0. */
static bool add_rows(ft_slot *s, ft_rowset *w, const int32_t *ids, int n, bool tentative)
{
    if (!ft_seq_reserve(s->draft_model.seq, n)) return false;
    const int row = ft_rows_span(w, s->draft_model.seq, n, tentative);
    const int V = s->e->drafter->V;
    for (int i = 0; i < n; i++) w->token[row + i] = ids[i] >= 0 && ids[i] < V ? ids[i] : 0;
    s->draft_model.rows = n;
    s->draft_model.accepted = tentative ? 0 : n;
    return true;
}

void ft_draft_model_pass(ft_engine *e)
{
    ft_runner_trunk_begin(e->draft_runner);
    for (int i = 0; i < e->p.slots; i++) {
        ft_slot *s = &e->slot[i];
        if (s->draft_model.rows) ft_seq_accept(s->draft_model.seq, s->draft_model.accepted);
        s->draft_model.rows = 0;
    }
}

/* Rows of a prompt that fit, ending at the chunk boundaries of the target. */
static int chunk(const ft_slot *s, int room)
{
    const int at = ft_seq_len(s->draft_model.seq), n = s->n_ids - at;
    if (!s->draft.next_max || n <= LAST_ROWS) return 0;
    const int border = FT_MIN(at + room, s->n_ids - 1) / FT_CHUNK_ROWS * FT_CHUNK_ROWS;
    return border > at ? border - at : FT_MIN(room, n - LAST_ROWS);
}

ft_status ft_draft_model_catch_up(ft_engine *e, ft_err *err)
{
    for (ft_status st;;) {
        ft_rowset *w = ft_runner_rows(e->draft_runner);
        for (int i = 0; i < e->p.slots; i++) {
            ft_slot *s = &e->slot[i];
            const int n = s->draft_model.seq && w->T < e->p.rows ? chunk(s, e->p.rows - w->T) : 0;
            if (n && !add_rows(s, w, s->ids + ft_seq_len(s->draft_model.seq), n, false))
                s->draft.next_max = 0;
        }
        if (!w->T) return FT_OK;
        ft_draft_model_pass(e);
        if ((st = ft_runner_wait(e->draft_runner, err))) return st;
    }
}

void ft_draft_model_first(ft_slot *s, ft_rowset *w)
{
    const int at = ft_seq_len(s->draft_model.seq), n = s->n_ids - at;
    if (!s->draft.next_max || !add_rows(s, w, s->ids + at, n, false)) return;
    s->draft.out = w->n_out;
    ft_rows_out(w, w->T - 1);
}

void ft_draft_model_next(ft_slot *s, ft_rowset *w)
{
    s->draft.out = -1;
    if (!add_rows(s, w, s->draft.id, s->draft.n, true)) return;
    s->draft.out = w->n_out;
    ft_rows_out(w, w->T - 1);
}
