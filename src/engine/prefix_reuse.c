/* engine/prefix_reuse.c - prefix checkpoints: beginnings of prompts that any slot has computed,
 * shared by all slots (kv/prefix.h). Prefill stops at positions where later prompts are likely
 * to diverge, and saves a checkpoint there. */
#include "base/mem.h"
#include "engine/slot.h"
#include "kv/save.h"

enum {
    APART = 256,        /* minimum distance between checkpoints within a prompt */
    LONG_PROMPT = 8192, /* long prompts get a checkpoint every so many positions */
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

/* ---- positions ---- */

static int page_start(int cell)
{
    return cell / FT_PAGE_ROWS * FT_PAGE_ROWS;
}

static void add_checkpoint(ft_slot *s, int at)
{
    at = page_start(at);
    if (s->n_checkpoint < FT_CHECKPOINTS_MAX + 1 &&
        at > (s->n_checkpoint ? s->checkpoint[s->n_checkpoint - 1] : slot_len(s)))
        s->checkpoint[s->n_checkpoint++] = at;
}

void ft_reuse_plan(ft_slot *s)
{
    const ft_task *j = &s->task;
    const int end = j->n_prompt - 1;
    s->n_checkpoint = 0;
    if (!s->e->prefix || !j->cache_prompt) return;
    const int last = j->n_checkpoint ? FT_MIN(j->checkpoint[j->n_checkpoint - 1], end) : end;
    for (int i = 0; i < j->n_checkpoint - 1; i++) {
        const int before = s->n_checkpoint ? s->checkpoint[s->n_checkpoint - 1] : slot_len(s);
        if (j->checkpoint[i] - before >= APART && last - j->checkpoint[i] >= APART)
            add_checkpoint(s, j->checkpoint[i]);
    }
    add_checkpoint(s, last);
    add_checkpoint(s, end); /* usually the same position: the header of a response is short */
}

int ft_reuse_next_checkpoint(const ft_slot *s, int at)
{
    for (int i = 0; i < s->n_checkpoint; i++) {
        if (s->checkpoint[i] <= at) continue;
        const int step = (at / LONG_PROMPT + 1) * LONG_PROMPT;
        return s->checkpoint[i] - step >= APART ? step : s->checkpoint[i];
    }
    return s->task.n_prompt;
}

/* ---- lookup and saving ---- */

int ft_reuse_find(ft_slot *s, const ft_task *j, int longer)
{
    ft_engine *e = s->e;
    ft_preempt_idle(s, j->n_prompt);
    const int n =
        ft_prefix_find(e->prefix, j->salt, j->prompt, j->n_prompt, longer, s->seq, e->row);
    if (!n) return 0;
    if (row_bytes(e))
        ft_runner_hidden_set(e->runner, ft_hidden_ring(e->runner, ft_seq_slot(s->seq), n - 1),
                             e->row);
    s->head.fed = n;
    return n;
}

ft_status ft_slot_write(ft_slot *s, const char *path, int *n, ft_err *err)
{
    if (!s->e->prefix)
        return ft_fail(err, FT_EUNSUPPORTED,
                       "a slot can only be saved with the prompt cache enabled");
    *n = slot_len(s);
    return ft_prefix_save(s->e->prefix, s->task.salt, s->ids, *n, path, err);
}

ft_status ft_slot_read(ft_slot *s, uint64_t salt, const char *path, int *n, ft_err *err)
{
    if (!s->e->prefix)
        return ft_fail(err, FT_EUNSUPPORTED,
                       "a slot can only be restored with the prompt cache enabled");
    int32_t *ids;
    const ft_status st = ft_prefix_load(s->e->prefix, salt, path, &ids, n, err);
    if (st) return st;
    ft_slot_forget(s, NULL);
    s->task.salt = salt;
    /* all of them, if they are there */
    const ft_task t = {.prompt = ids, .n_prompt = *n + 1, .salt = salt};
    memcpy(s->ids, ids, sizeof *ids * (size_t)*n);
    s->n_ids = ft_reuse_find(s, &t, 0);
    ft_free(ids);
    return FT_OK;
}

void ft_slot_forget(ft_slot *s, int *n)
{
    if (n) *n = slot_len(s);
    ft_seq_rewind(s->seq, 0);
    s->head.fed = s->n_ids = 0;
    s->task.salt = 0;
}

static void save_checkpoint(ft_slot *s, int len)
{
    ft_engine *e = s->e;
    const bool row = row_bytes(e) && len == slot_len(s) && s->head.fed >= len;
    if (row_bytes(e) && !row) return; /* that hidden row is gone, or the head has not read it */
    if (row)
        ft_runner_hidden_get(e->runner, ft_hidden_ring(e->runner, ft_seq_slot(s->seq), len - 1),
                             e->row);
    ft_prefix_put(e->prefix, s->task.salt, s->ids, len, s->seq, row ? e->row : NULL);
}

void ft_reuse_save(ft_engine *e)
{
    for (int i = 0; e->prefix && i < e->p.slots; i++) {
        ft_slot *s = &e->slot[i];
        if (!s->rows.n || !s->task.cache_prompt || s->finish == FT_FINISH_ERROR) continue;
        const int at = slot_len(s);
        if (s->state == SLOT_PREFILL && at == ft_reuse_next_checkpoint(s, at - 1))
            save_checkpoint(s, at);
        /* Without delta nets, the cached rows of a response are bit-identical to those of a
         * prompt; with delta nets they are not. */
        const bool delta = ft_cache_state_bytes(e->cache) > 0;
        if (s->state == SLOT_IDLE && page_start(at) && !delta) save_checkpoint(s, page_start(at));
    }
}
