/* engine/warm.c - the steps that replies consist of, run before there is one. A device that replays
 * steps runs the first of each shape slowly, and captures the second: nobody's reply shall wait for
 * that, nor the governor take it for what a step costs. */
#include "base/mem.h"
#include "engine/lane.h"

enum {
    FIRST = 256,    /* the shortest past that a device tells apart */
    LONGEST = 4096, /* past that is prepared for; longer ones are captured when they come */
    TURNS = 2,      /* until a step is captured */
};

/* n rows that see `past` cells, twice. Nothing stays of them but garbage in cells of nobody. */
static ft_status trunk(ft_engine *e, int slot, int n, int past, ft_err *err)
{
    ft_status st = FT_OK;
    for (int i = 0; i < TURNS && !st; i++) {
        ft_rowset *w = ft_runner_rows(e->run);
        const int row = ft_rows_draft(w, slot, past - n, n, past - n + 1, false);
        w->span[0].tentative = 1;
        for (int k = 0; k < n; k++) ft_rows_out(w, row + k);
        st = ft_runner_trunk(e->run, err);
    }
    return st;
}

static ft_status draft(ft_engine *e, int slot, int n, int past, ft_err *err)
{
    const bool constant = e->kind == FT_DRAFT_ASSISTANT;
    ft_status st = FT_OK;
    for (int i = 0; i < TURNS && !st; i++) {
        ft_rowset *w = ft_runner_rows(e->run);
        const int row = ft_rows_draft(w, slot, past - n, n, past - n + 1, constant);
        ft_rows_out(w, row + n - 1);
        st = ft_runner_draft(e->run, false, err);
    }
    return st;
}

/* All windows of one reply with about this past: greedy, drawn, and the drafts for the next. */
static ft_status windows(ft_engine *e, int slot, int past, ft_err *err)
{
    const int most = 1 + e->p.draft_max;
    const bool drafts = e->kind == FT_DRAFT_MTP || e->kind == FT_DRAFT_ASSISTANT;
    ft_status st = FT_OK;
    for (int n = 1; n <= most && !st; n++) {
        st = trunk(e, slot, n, past, err);
        if (!st && n == 1 && past == FIRST) st = ft_draw_warm(e, err);
        const bool wanted = drafts && (n == 1 || e->kind == FT_DRAFT_MTP);
        if (!st && wanted) st = draft(e, slot, n, past, err);
    }
    return st;
}

ft_status ft_engine_warm(ft_engine *e, ft_err *err)
{
    const int longest = FT_MIN(e->p.ctx, LONGEST);
    ft_seq *seq = ft_seq_new(e->cache);
    ft_status st = FT_OK;
    for (int past = FIRST, done = 0; done < longest && !st; past *= 2) {
        const int cells = FT_MIN(past, longest);
        if (cells <= e->p.draft_max || !ft_seq_reserve(seq, cells)) break;
        st = windows(e, ft_seq_slot(seq), cells, err);
        done = cells;
    }
    ft_seq_rewind(seq, 0);
    ft_seq_free(seq);
    return st;
}
