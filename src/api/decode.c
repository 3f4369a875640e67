/* api/decode.c - ft_llm_decode: times the decoding of many sequences at once. */
#include "api/sampling.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"

typedef struct many {
    ft_llm *m;
    int n;
    ft_slot **slot;
    int64_t *tokens; /* of each slot */
    double accept[FT_DRAFT_MAX];
    ft_sample_setup sampling;
} many;

static bool count(void *user, const ft_emit *e)
{
    (void)e;
    ++*(int64_t *)user;
    return true;
}

static ft_task task_of(const many *b, const ft_decode_params *p, const int32_t *ids, int i)
{
    ft_task j = {.prompt = ids,
                 .n_prompt = FT_MAX(1, p->depth),
                 .max_tokens = p->n_gen + 1,
                 .ignore_eog = true,
                 .top_logprobs = -1,
                 .draft_max = p->draft_max < 0 ? FT_DRAFT_MAX : p->draft_max,
                 .draft_fixed = p->draft_max > 0,
                 .sim_accept = p->accept ? b->accept : NULL,
                 .emit = count,
                 .user = &b->tokens[i]};
    j.sampling = b->sampling.p;
    j.sampling.seed += (uint64_t)i;
    return j;
}

static ft_status sampling(many *b, const ft_decode_params *p, ft_err *err)
{
    if (p->sampling) return ft_sample_setup_init(&b->sampling, p->sampling, b->m, false, err);
    ft_sample_defaults(&b->sampling.p);
    b->sampling.p.temperature = 0;
    return FT_OK;
}

/* Reads slot i's prompt and pauses the slot at its first token until all are ready. */
static ft_status read_prompt(many *b, const ft_decode_params *p, int i, ft_err *err)
{
    const int n = FT_MAX(1, p->depth);
    int32_t *ids = ft_new_n(int32_t, (size_t)n);
    ft_rng r = {(uint64_t)i << 32 | (uint64_t)n};
    for (int t = 0; t < n; t++) ids[t] = (int32_t)(ft_rng_u64(&r) % (uint64_t)b->m->model->V);
    const ft_task j = task_of(b, p, ids, i);
    const ft_status st = ft_slot_start(b->slot[i], &j, err);
    ft_free(ids);
    if (st) return st;
    while (!b->tokens[i] && ft_slot_busy(b->slot[i])) ft_engine_step(b->m->engine);
    ft_slot_pause(b->slot[i], true);
    if (ft_slot_finish(b->slot[i]) != FT_FINISH_ERROR) return FT_OK;
    return ft_fail(err, FT_EDEVICE, "%s", ft_slot_error(b->slot[i]));
}

/* Adds the statistics of all slots to *t, times sign. */
static void add_stats(const many *b, ft_decode_time *t, int sign)
{
    for (int i = 0; i < b->n; i++) {
        const ft_stats *s = ft_slot_stats(b->slot[i]);
        t->tokens += sign * b->tokens[i];
        t->decode_steps += sign * s->decode_steps;
        t->drafted += sign * s->drafted;
        t->accepted += sign * s->accepted;
    }
    const ft_stats *s = ft_slot_stats(b->slot[0]); /* the time of a step counts for every slot */
    t->draft_s += sign * s->draft_s;
    t->verify_s += sign * s->verify_s;
}

static ft_status decode(many *b, ft_decode_time *out, ft_err *err)
{
    add_stats(b, out, -1);
    for (int i = 0; i < b->n; i++) ft_slot_pause(b->slot[i], false);
    const double busy = b->m->model->dev->busy_s;
    const int64_t start = ft_now_ns();
    for (bool all = true; all;) {
        ft_engine_step(b->m->engine);
        for (int i = 0; i < b->n; i++) all = all && ft_slot_busy(b->slot[i]);
    }
    out->seconds = (double)(ft_now_ns() - start) * 1e-9;
    out->device_s = b->m->model->dev->busy_s - busy;
    add_stats(b, out, 1);
    for (int i = 0; i < b->n; i++)
        if (ft_slot_finish(b->slot[i]) == FT_FINISH_ERROR)
            return ft_fail(err, FT_EDEVICE, "%s", ft_slot_error(b->slot[i]));
    return FT_OK;
}

ft_status ft_llm_decode(ft_llm *m, const ft_decode_params *p, ft_decode_time *out, ft_err *err)
{
    *out = (ft_decode_time){0};
    if (p->seqs < 1 || p->seqs > m->info.slots)
        return ft_fail(err, FT_EINVAL, "%d sequences at once, want 1 to %d", p->seqs,
                       m->info.slots);
    many b = {.m = m};
    b.slot = ft_new_n(ft_slot *, (size_t)p->seqs);
    b.tokens = ft_new_n(int64_t, (size_t)p->seqs);
    for (int i = 0; i < FT_DRAFT_MAX && p->n_accept > 0; i++)
        b.accept[i] = p->accept[FT_MIN(i, p->n_accept - 1)];
    ft_status st = sampling(&b, p, err);
    while (b.n < p->seqs && !st) {
        if (!(b.slot[b.n] = ft_slot_new(m->engine)))
            st = ft_fail(err, FT_ELIMIT, "all slots are in use");
        else
            st = read_prompt(&b, p, b.n++, err);
    }
    if (!st) st = decode(&b, out, err);
    for (int i = 0; i < b.n; i++) {
        ft_slot_cancel(b.slot[i]);
        ft_slot_free(b.slot[i]);
    }
    ft_sample_setup_release(&b.sampling);
    ft_free(b.slot);
    ft_free(b.tokens);
    return st;
}
