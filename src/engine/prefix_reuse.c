/* engine/prefix_reuse.c - prefix checkpoints: beginnings of prompts that any slot has computed,
 * shared by all slots (kv/prefix.h). Prefill stops at positions where later prompts are likely
 * to diverge, and saves a checkpoint there; the end of a response is one too.
 *
 * A sequence that goes on from a checkpoint has the bits of one that was computed from the start,
 * because every row is computed in the same way in both. Only delta nets know two ways: in chunks
 * that end at multiples of FT_CHUNK_ROWS positions, and row by row. Responses are generated row by
 * row, so a later prompt that contains them computes these rows row by row too; a key tells which
 * rows those are. With delta nets a checkpoint therefore lies at a multiple of FT_CHUNK_ROWS, or
 * after such a row. */
#include "base/mem.h"
#include "engine/slot.h"
#include "kv/save.h"
#include "model/adapter.h"

enum {
    APART = 256,        /* minimum distance between checkpoints within a prompt */
    RESPONSE = 64,      /* new positions that make a checkpoint in a response worthwhile */
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

/* ---- keys ---- */

uint64_t ft_reuse_lora_key(const ft_engine *e, const float *scale)
{
    return ft_adapters_key(e->m, scale ? scale : e->p.lora);
}

static bool has_delta(const ft_engine *e)
{
    return ft_cache_state_bytes(e->cache) > 0;
}

static int32_t key_of(const ft_engine *e, int32_t id, bool generated)
{
    return generated && id >= 0 && has_delta(e) ? id | FT_KEY_SERIAL : id;
}

int32_t ft_reuse_key(const ft_engine *e, const ft_task *t, int at, int *range)
{
    while (*range < t->n_response && t->response[*range].end <= at) ++*range;
    return key_of(e, t->prompt[at], *range < t->n_response && t->response[*range].first <= at);
}

void ft_reuse_keys(ft_slot *s, const ft_task *t)
{
    for (int i = 0, range = 0; i < t->n_prompt; i++) s->key[i] = ft_reuse_key(s->e, t, i, &range);
}

void ft_reuse_generated(ft_slot *s, int32_t id)
{
    s->key[s->n_ids] = key_of(s->e, id, true);
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

int ft_reuse_own(const ft_slot *s, int same)
{
    if (!same || !ft_seq_can_rewind(s->seq, same)) return 0;
    const bool anywhere = !has_delta(s->e) || same % FT_CHUNK_ROWS == 0;
    return anywhere || ft_key_serial(s->key[same - 1]) ? same : 0;
}

int ft_reuse_find(ft_slot *s, uint64_t salt, int n, int longer)
{
    ft_engine *e = s->e;
    ft_preempt_idle(s, n);
    const int len = ft_prefix_find(e->prefix, salt, s->key, n, longer, s->seq, e->row);
    if (!len) return 0;
    if (row_bytes(e))
        ft_runner_hidden_set(e->runner, ft_hidden_ring(e->runner, ft_seq_slot(s->seq), len - 1),
                             e->row);
    s->head.fed = len;
    return len;
}

ft_status ft_slot_write(ft_slot *s, const char *path, int *n, ft_err *err)
{
    if (!s->e->prefix)
        return ft_fail(err, FT_EUNSUPPORTED,
                       "a slot can only be saved with the prompt cache enabled");
    *n = slot_len(s);
    return ft_prefix_save(s->e->prefix, s->task.salt + s->lora_key, s->key, *n, path, err);
}

ft_status ft_slot_read(ft_slot *s, uint64_t salt, const float *lora, const char *path, int *n,
                       ft_err *err)
{
    const uint64_t lora_key = ft_reuse_lora_key(s->e, lora);
    if (!s->e->prefix)
        return ft_fail(err, FT_EUNSUPPORTED,
                       "a slot can only be restored with the prompt cache enabled");
    int32_t *key;
    const ft_status st = ft_prefix_load(s->e->prefix, salt + lora_key, path, &key, n, err);
    if (st) return st;
    ft_slot_forget(s, NULL);
    s->task.salt = salt;
    s->lora_key = lora_key;
    memcpy(s->key, key, sizeof *key * (size_t)*n);
    for (int i = 0; i < *n; i++) s->ids[i] = key[i] < 0 ? key[i] : key[i] & ~FT_KEY_SERIAL;
    s->n_ids = s->saved =
        ft_reuse_find(s, salt + lora_key, *n + 1, 0); /* all of them, if they are there */
    ft_free(key);
    return FT_OK;
}

void ft_slot_forget(ft_slot *s, int *n)
{
    if (n) *n = slot_len(s);
    ft_seq_rewind(s->seq, 0);
    s->head.fed = s->n_ids = s->saved = 0;
    s->task.salt = 0;
}

static void save_checkpoint(ft_slot *s, int len)
{
    ft_engine *e = s->e;
    const bool row = row_bytes(e) && s->head.fed >= len;
    if (row_bytes(e) && !row) return; /* that hidden row is gone, or the head has not read it */
    if (row)
        ft_runner_hidden_get(e->runner, ft_hidden_ring(e->runner, ft_seq_slot(s->seq), len - 1),
                             e->row);
    if (ft_prefix_put(e->prefix, s->task.salt + s->lora_key, s->key, len, s->seq,
                      row ? e->row : NULL))
        s->saved = len;
}

static int response_position(const ft_slot *s)
{
    const bool ended = s->state == SLOT_IDLE, delta = has_delta(s->e);
    if (!s->e->prefix || !s->task.cache_prompt || s->finish == FT_FINISH_ERROR) return 0;
    if (!ended && (s->state != SLOT_DECODE || !s->mark)) return 0;
    const int at = delta || ended ? ft_seq_stored(s->seq) : FT_MIN(s->mark, slot_len(s));
    if (delta && at <= s->task.n_prompt) return 0;
    return at - s->saved >= RESPONSE ? at : 0;
}

int ft_reuse_response(const ft_slot *s)
{
    return s->rows.n ? response_position(s) : 0;
}

void ft_reuse_ended(ft_slot *s)
{
    const int at = s->state == SLOT_IDLE ? response_position(s) : 0;
    if (at) save_checkpoint(s, at);
}

void ft_reuse_save(ft_engine *e)
{
    for (int i = 0; e->prefix && i < e->p.slots; i++) {
        ft_slot *s = &e->slot[i];
        if (!s->rows.n || !s->task.cache_prompt || s->finish == FT_FINISH_ERROR) continue;
        const int at = s->state == SLOT_PREFILL ? slot_len(s) : ft_reuse_response(s);
        if (s->state == SLOT_PREFILL ? at == ft_reuse_next_checkpoint(s, at - 1) : at > 0)
            save_checkpoint(s, at);
        s->mark = 0;
    }
}
