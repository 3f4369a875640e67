/* ft_decode.c - many sequences decoding at once, timed: ft_llm_decode of foretoken.h. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "ft_sampling.h"

typedef struct many {
    ft_llm *m;
    int n;
    ft_lane **lane;
    int64_t *tokens; /* of each lane */
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

/* Reads lane i's prompt and holds the lane at its first token, until all are there. */
static ft_status read_prompt(many *b, const ft_decode_params *p, int i, ft_err *err)
{
    const int n = FT_MAX(1, p->depth);
    int32_t *ids = ft_new_n(int32_t, (size_t)n);
    ft_rng r = {(uint64_t)i << 32 | (uint64_t)n};
    for (int t = 0; t < n; t++) ids[t] = (int32_t)(ft_rng_u64(&r) % (uint64_t)b->m->model->V);
    const ft_task j = task_of(b, p, ids, i);
    const ft_status st = ft_lane_start(b->lane[i], &j, err);
    ft_free(ids);
    if (st) return st;
    while (!b->tokens[i] && ft_lane_busy(b->lane[i])) ft_engine_round(b->m->engine);
    ft_lane_hold(b->lane[i], true);
    if (ft_lane_finish(b->lane[i]) != FT_FINISH_ERROR) return FT_OK;
    return ft_fail(err, FT_EDEVICE, "%s", ft_lane_error(b->lane[i]));
}

/* What the lanes have counted so far, into *t with a sign. */
static void add_stats(const many *b, ft_decode_time *t, int sign)
{
    for (int i = 0; i < b->n; i++) {
        const ft_stats *s = ft_lane_stats(b->lane[i]);
        t->tokens += sign * b->tokens[i];
        t->rounds += sign * s->rounds;
        t->drafted += sign * s->drafted;
        t->accepted += sign * s->accepted;
    }
    const ft_stats *s = ft_lane_stats(b->lane[0]); /* a round's time is every lane's */
    t->draft_s += sign * s->draft_s;
    t->verify_s += sign * s->verify_s;
}

static ft_status decode(many *b, ft_decode_time *out, ft_err *err)
{
    add_stats(b, out, -1);
    for (int i = 0; i < b->n; i++) ft_lane_hold(b->lane[i], false);
    const int64_t start = ft_now_ns();
    for (bool all = true; all;) {
        ft_engine_round(b->m->engine);
        for (int i = 0; i < b->n; i++) all = all && ft_lane_busy(b->lane[i]);
    }
    out->seconds = (double)(ft_now_ns() - start) * 1e-9;
    add_stats(b, out, 1);
    for (int i = 0; i < b->n; i++)
        if (ft_lane_finish(b->lane[i]) == FT_FINISH_ERROR)
            return ft_fail(err, FT_EDEVICE, "%s", ft_lane_error(b->lane[i]));
    return FT_OK;
}

ft_status ft_llm_decode(ft_llm *m, const ft_decode_params *p, ft_decode_time *out, ft_err *err)
{
    *out = (ft_decode_time){0};
    if (p->seqs < 1 || p->seqs > m->info.lanes)
        return ft_fail(err, FT_EINVAL, "%d sequences at once, want 1 to %d", p->seqs,
                       m->info.lanes);
    many b = {.m = m};
    b.lane = ft_new_n(ft_lane *, (size_t)p->seqs);
    b.tokens = ft_new_n(int64_t, (size_t)p->seqs);
    for (int i = 0; i < FT_DRAFT_MAX && p->n_accept > 0; i++)
        b.accept[i] = p->accept[FT_MIN(i, p->n_accept - 1)];
    ft_status st = sampling(&b, p, err);
    while (b.n < p->seqs && !st) {
        if (!(b.lane[b.n] = ft_lane_new(m->engine)))
            st = ft_fail(err, FT_ELIMIT, "every lane is taken");
        else
            st = read_prompt(&b, p, b.n++, err);
    }
    if (!st) st = decode(&b, out, err);
    for (int i = 0; i < b.n; i++) {
        ft_lane_cancel(b.lane[i]);
        ft_lane_free(b.lane[i]);
    }
    ft_sample_setup_release(&b.sampling);
    ft_free(b.lane);
    ft_free(b.tokens);
    return st;
}
