/* api/slots.c - reads, saves, restores and erases slots while the engine runs. */
#include "api/adapters.h"
#include "base/mem.h"

typedef struct asked {
    int slot, *n_tokens;
    uint64_t salt;
    float lora[FT_LORA_MAX];
    const char *path;
    enum { SAVE, RESTORE, ERASE } what;
    ft_slot_info *out;
    int cap, n;
    ft_status st;
    ft_err *err;
} asked;

static void tell_slots(void *user, ft_queue *q)
{
    asked *a = user;
    const ft_slot *slot;
    for (int i = 0; (slot = ft_queue_slot(q, i)); i++, a->n++) {
        if (i >= a->cap) continue;
        const ft_entry *e = ft_queue_entry(q, i);
        const ft_stats *s = ft_slot_stats(slot);
        a->out[i] = (ft_slot_info){
            .id = i,
            .busy = e != NULL,
            .ctx = ft_queue_ctx(q),
            .prompt_tokens = s->prompt_n + s->cached_n,
            .output_tokens = s->predicted_n,
            .cached_tokens = s->cached_n,
            .job = e ? e->id : 0,
            .cache_salt = ft_slot_salt(slot),
            .accept_len = s->draft_steps
                              ? (double)(s->accepted + s->draft_steps) / (double)s->draft_steps
                              : 0,
            .draft_mean = s->draft_steps ? (double)s->drafted / (double)s->draft_steps : 0,
        };
    }
}

int ft_llm_slots(ft_llm *m, ft_slot_info *out, int cap)
{
    asked a = {.out = out, .cap = cap};
    if (m->queue) ft_queue_call(m->queue, tell_slots, &a);
    return a.n;
}

static void on_slot(void *user, ft_queue *q)
{
    asked *a = user;
    ft_slot *s = ft_queue_slot(q, a->slot);
    if (!s)
        a->st = ft_fail(a->err, FT_ENOTFOUND, "there is no slot %d", a->slot);
    else if (ft_queue_entry(q, a->slot))
        a->st = ft_fail(a->err, FT_EINVAL, "slot %d is busy", a->slot);
    else if (ft_slot_salt(s) && ft_slot_salt(s) != a->salt)
        a->st =
            ft_fail(a->err, FT_ENOTFOUND, "slot %d holds the context of another API key", a->slot);
    else if (a->what == SAVE)
        a->st = ft_slot_write(s, a->path, a->n_tokens, a->err);
    else if (a->what == RESTORE)
        a->st = ft_slot_read(s, a->salt, a->lora, a->path, a->n_tokens, a->err);
    else
        ft_slot_forget(s, a->n_tokens);
}

static ft_status ask(ft_llm *m, asked a)
{
    if (!m->queue) return ft_fail(a.err, FT_EINVAL, "the model's queue was not started");
    *a.n_tokens = 0;
    ft_queue_call(m->queue, on_slot, &a);
    return a.st;
}

ft_status ft_slot_save(ft_llm *m, int slot, uint64_t salt, const char *path, int *n_tokens,
                       ft_err *err)
{
    return ask(m, (asked){.slot = slot,
                          .salt = salt,
                          .path = path,
                          .n_tokens = n_tokens,
                          .what = SAVE,
                          .err = err});
}

ft_status ft_slot_restore(ft_llm *m, int slot, uint64_t salt, const char *path, int *n_tokens,
                          ft_err *err)
{
    asked a = {.slot = slot,
               .salt = salt,
               .path = path,
               .n_tokens = n_tokens,
               .what = RESTORE,
               .err = err};
    const ft_status st = ft_llm_adapter_scales(m, NULL, 0, a.lora, err);
    return st ? st : ask(m, a);
}

ft_status ft_slot_erase(ft_llm *m, int slot, uint64_t salt, int *n_tokens, ft_err *err)
{
    return ask(
        m, (asked){.slot = slot, .salt = salt, .n_tokens = n_tokens, .what = ERASE, .err = err});
}
