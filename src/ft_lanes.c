/* ft_lanes.c - what may be asked about lanes, and of them, while the engine runs. */
#include "base/mem.h"
#include "ft_llm.h"

typedef struct asked {
    int lane, *n_tokens;
    const char *path;
    enum { SAVE, RESTORE, ERASE } what;
    ft_lane_info *out;
    int cap, n;
    ft_status st;
    ft_err *err;
} asked;

static void tell_lanes(void *user, ft_queue *q)
{
    asked *a = user;
    const ft_lane *l;
    for (int i = 0; (l = ft_queue_lane(q, i)); i++, a->n++) {
        if (i >= a->cap) continue;
        const ft_entry *e = ft_queue_entry(q, i);
        const ft_stats *s = ft_lane_stats(l);
        a->out[i] = (ft_lane_info){
            .id = i,
            .busy = e != NULL,
            .ctx = ft_queue_ctx(q),
            .prompt_tokens = s->prompt_n + s->cached_n,
            .reply_tokens = s->predicted_n,
            .cached_tokens = s->cached_n,
            .job = e ? e->id : 0,
            .accept_len = s->draft_rounds
                              ? (double)(s->accepted + s->draft_rounds) / (double)s->draft_rounds
                              : 0,
            .draft_mean = s->draft_rounds ? (double)s->drafted / (double)s->draft_rounds : 0,
        };
    }
}

int ft_llm_lanes(ft_llm *m, ft_lane_info *out, int cap)
{
    asked a = {.out = out, .cap = cap};
    if (m->queue) ft_queue_call(m->queue, tell_lanes, &a);
    return a.n;
}

static void on_lane(void *user, ft_queue *q)
{
    asked *a = user;
    ft_lane *l = ft_queue_lane(q, a->lane);
    if (!l)
        a->st = ft_fail(a->err, FT_ENOTFOUND, "there is no lane %d", a->lane);
    else if (ft_queue_entry(q, a->lane))
        a->st = ft_fail(a->err, FT_EINVAL, "lane %d is busy", a->lane);
    else if (a->what == SAVE)
        a->st = ft_lane_write(l, a->path, a->n_tokens, a->err);
    else if (a->what == RESTORE)
        a->st = ft_lane_read(l, a->path, a->n_tokens, a->err);
    else
        ft_lane_forget(l, a->n_tokens);
}

static ft_status ask(ft_llm *m, asked a)
{
    if (!m->queue) return ft_fail(a.err, FT_EINVAL, "the model's queue was not started");
    *a.n_tokens = 0;
    ft_queue_call(m->queue, on_lane, &a);
    return a.st;
}

ft_status ft_lane_save(ft_llm *m, int lane, const char *path, int *n_tokens, ft_err *err)
{
    return ask(m, (asked){.lane = lane, .path = path, .n_tokens = n_tokens, .err = err});
}

ft_status ft_lane_restore(ft_llm *m, int lane, const char *path, int *n_tokens, ft_err *err)
{
    return ask(
        m, (asked){.lane = lane, .path = path, .n_tokens = n_tokens, .what = RESTORE, .err = err});
}

ft_status ft_lane_erase(ft_llm *m, int lane, int *n_tokens, ft_err *err)
{
    return ask(m, (asked){.lane = lane, .n_tokens = n_tokens, .what = ERASE, .err = err});
}
