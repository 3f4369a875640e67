/* engine/keep.c - what lanes share: beginnings of prompts that any of them has read (kv/prefix.h).
 * A prompt is read up to places where it is likely to part from the next one, and is kept there. */
#include "base/mem.h"
#include "engine/lane.h"
#include "kv/save.h"

enum {
    APART = 256,        /* points in the middle of a prompt closer than this are not worth it */
    LONG_PROMPT = 8192, /* a prompt that is this long gets one every so many cells */
};

static size_t row_bytes(const ft_engine *e)
{
    return e->kind == FT_DRAFT_MTP ? sizeof(float) * (size_t)e->m->D : 0;
}

ft_status ft_engine_share(ft_engine *e, uint64_t bytes, const char *dir, ft_err *err)
{
    if (!bytes) return FT_OK;
    const ft_prefix_params p = {
        .bytes = bytes,
        .dir = dir,
        .model = ft_model_digest(e->m) + (e->drafter ? 31 * ft_model_digest(e->drafter) : 0),
        .extra = row_bytes(e),
    };
    const ft_status st = ft_prefix_new(&e->prefix, e->cache, &p, err);
    if (!st) e->row = ft_alloc(FT_MAX((size_t)1, row_bytes(e)));
    return st;
}

void ft_engine_unshare(ft_engine *e)
{
    ft_prefix_free(e->prefix);
    ft_free(e->row);
    e->prefix = NULL;
    e->row = NULL;
}

/* ---- where ---- */

static int border(int cell)
{
    return cell / FT_PAGE_ROWS * FT_PAGE_ROWS;
}

static void cut(ft_lane *l, int at)
{
    at = border(at);
    if (l->n_cut < FT_MARKS + 1 && at > (l->n_cut ? l->cut[l->n_cut - 1] : lane_len(l)))
        l->cut[l->n_cut++] = at;
}

void ft_keep_plan(ft_lane *l)
{
    const ft_task *j = &l->job;
    const int end = j->n_prompt - 1;
    l->n_cut = 0;
    if (!l->e->prefix || !j->keep) return;
    const int last = j->n_mark ? FT_MIN(j->mark[j->n_mark - 1], end) : end;
    for (int i = 0; i < j->n_mark - 1; i++) {
        const int before = l->n_cut ? l->cut[l->n_cut - 1] : lane_len(l);
        if (j->mark[i] - before >= APART && last - j->mark[i] >= APART) cut(l, j->mark[i]);
    }
    cut(l, last);
    cut(l, end); /* the same, as a rule: a reply's header is short */
}

int ft_keep_next(const ft_lane *l, int at)
{
    for (int i = 0; i < l->n_cut; i++) {
        if (l->cut[i] <= at) continue;
        const int step = (at / LONG_PROMPT + 1) * LONG_PROMPT;
        return l->cut[i] - step >= APART ? step : l->cut[i];
    }
    return l->job.n_prompt;
}

/* ---- taking and giving ---- */

int ft_keep_find(ft_lane *l, const ft_task *j, int longer)
{
    ft_engine *e = l->e;
    ft_room_idle(l, j->n_prompt);
    const int n = ft_prefix_find(e->prefix, j->prompt, j->n_prompt, longer, l->seq, e->row);
    if (!n) return 0;
    if (row_bytes(e))
        ft_runner_hidden_set(e->run, ft_hidden_ring(e->run, ft_seq_slot(l->seq), n - 1), e->row);
    l->fed = n;
    return n;
}

ft_status ft_lane_write(ft_lane *l, const char *path, int *n, ft_err *err)
{
    if (!l->e->prefix)
        return ft_fail(err, FT_EUNSUPPORTED, "a lane can be saved only where prompts are kept");
    *n = lane_len(l);
    return ft_prefix_save(l->e->prefix, l->ids, *n, path, err);
}

ft_status ft_lane_read(ft_lane *l, const char *path, int *n, ft_err *err)
{
    if (!l->e->prefix)
        return ft_fail(err, FT_EUNSUPPORTED, "a lane can be restored only where prompts are kept");
    int32_t *ids;
    const ft_status st = ft_prefix_load(l->e->prefix, path, &ids, n, err);
    if (st) return st;
    ft_lane_forget(l, NULL);
    const ft_task t = {.prompt = ids, .n_prompt = *n + 1}; /* all of them, if they are there */
    memcpy(l->ids, ids, sizeof *ids * (size_t)*n);
    l->n_ids = ft_keep_find(l, &t, 0);
    ft_free(ids);
    return FT_OK;
}

void ft_lane_forget(ft_lane *l, int *n)
{
    if (n) *n = lane_len(l);
    ft_seq_rewind(l->seq, 0);
    l->fed = l->n_ids = 0;
}

static void keep(ft_lane *l, int len)
{
    ft_engine *e = l->e;
    const bool row = row_bytes(e) && len == lane_len(l) && l->fed >= len;
    if (row_bytes(e) && !row)
        return; /* the hidden row there is gone, or the head has not read it */
    if (row)
        ft_runner_hidden_get(e->run, ft_hidden_ring(e->run, ft_seq_slot(l->seq), len - 1), e->row);
    ft_prefix_keep(e->prefix, l->ids, len, l->seq, row ? e->row : NULL);
}

void ft_keep_round(ft_engine *e)
{
    for (int i = 0; e->prefix && i < e->p.lanes; i++) {
        ft_lane *l = &e->lane[i];
        if (!l->n_rows || !l->job.keep || l->finish == FT_FINISH_ERROR) continue;
        const int at = lane_len(l);
        if (l->state == LANE_PROMPT && at == ft_keep_next(l, at - 1)) keep(l, at);
        /* Without delta nets the rows of a reply have the bits of a prompt's; with them not. */
        const bool delta = ft_cache_state_bytes(e->cache) > 0;
        if (l->state == LANE_IDLE && border(at) && !delta) keep(l, border(at));
    }
}
