/* api/score.c - the measuring functions of foretoken.h. */
#include "api/model.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"

#include <limits.h>
#include <math.h>

/* ---- perplexity ---- */

typedef struct score {
    const int32_t *ids; /* the chunk */
    int n, V;
    double nll, nll2;
    int64_t count;
    bool broken; /* a logit is NaN or infinite */
} score;

/* Row i predicts token i + 1. */
static void score_row(void *user, int i, const float *logits)
{
    score *s = user;
    if (i + 1 >= s->n) return;
    float top = logits[0];
    for (int v = 1; v < s->V; v++) top = fmaxf(top, logits[v]);
    double sum = 0;
    for (int v = 0; v < s->V; v++) sum += exp((double)(logits[v] - top));
    const double nll = log(sum) - (double)(logits[s->ids[i + 1]] - top);
    if (!isfinite(nll)) s->broken = true;
    s->nll += nll;
    s->nll2 += nll * nll;
    s->count++;
}

static void finish(ft_perplexity *out, const score *s, int chunks)
{
    const double n = (double)s->count, mean = s->nll / n;
    const double var = n > 1 ? fmax(0, s->nll2 / n - mean * mean) / (n - 1) : 0;
    *out = (ft_perplexity){.ppl = exp(mean), .nll = mean, .tokens = s->count, .chunks = chunks};
    out->error = sqrt(var) * out->ppl;
}

ft_status ft_llm_perplexity(ft_llm *m, const int32_t *ids, size_t n_ids, int ctx, int chunks,
                            void (*progress)(void *user, int chunk, int chunks, double ppl),
                            void *user, ft_perplexity *out, ft_err *err)
{
    if (ctx < 2 || ctx > m->info.ctx)
        return ft_fail(err, FT_EINVAL, "chunks of %d tokens, want 2 to %d", ctx, m->info.ctx);
    const int most = (int)FT_MIN(n_ids / (size_t)ctx, (size_t)1 << 30);
    if (most < 1)
        return ft_fail(err, FT_EINVAL, "the text has %zu tokens, want at least %d", n_ids, ctx);
    const int n = chunks > 0 ? FT_MIN(chunks, most) : most;
    ft_slot *slot = ft_slot_new(m->engine);
    if (!slot) return ft_fail(err, FT_ELIMIT, "all slots are in use");
    int32_t *chunk = ft_new_n(int32_t, (size_t)ctx);
    const int32_t bos = ft_vocab_add_bos(m->vocab) ? ft_vocab_special(m->vocab)->bos : -1;
    score s = {.ids = chunk, .n = ctx, .V = m->model->V};
    const int64_t start = ft_now_ns();
    ft_status st = FT_OK;
    for (int i = 0; i < n && !st; i++) {
        memcpy(chunk, ids + (size_t)i * (size_t)ctx, sizeof *chunk * (size_t)ctx);
        if (bos >= 0) chunk[0] = bos;
        st = ft_slot_score(slot, chunk, ctx, ctx / 2, score_row, &s, err);
        if (!st && s.broken)
            st = ft_fail(err, FT_EFORMAT,
                         "chunk %d: the logits are not numbers: the weights are damaged", i);
        if (!st) finish(out, &s, i + 1);
        if (!st && progress) progress(user, i + 1, n, out->ppl);
    }
    out->seconds = (double)(ft_now_ns() - start) * 1e-9;
    ft_free(chunk);
    ft_slot_free(slot);
    return st;
}

/* ---- speed ---- */

static bool go_on(void *user, const ft_emit *e)
{
    (void)user, (void)e;
    return true;
}

static int32_t *random_ids(int n, int V)
{
    int32_t *ids = ft_new_n(int32_t, (size_t)n);
    ft_rng r = {(uint64_t)n};
    for (int i = 0; i < n; i++) ids[i] = (int32_t)(ft_rng_u64(&r) % (uint64_t)V);
    return ids;
}

ft_status ft_time_response(ft_engine *e, int V, ft_slot *s, int n_prompt, int n_gen,
                           const ft_stats **stats, ft_err *err)
{
    int32_t *ids = random_ids(n_prompt, V);
    ft_task j = {.prompt = ids,
                 .n_prompt = n_prompt,
                 .max_tokens = n_gen,
                 .ignore_eog = true,
                 .top_logprobs = -1,
                 .emit = go_on};
    ft_sample_defaults(&j.sampling);
    j.sampling.temperature = 0;
    j.sampling.repeat_last_n = 0;
    const ft_status st = ft_slot_start(s, &j, err);
    ft_free(ids);
    if (st) return st;
    while (ft_engine_step(e)) {
    }
    *stats = ft_slot_stats(s);
    if (ft_slot_finish(s) == FT_FINISH_ERROR)
        return ft_fail(err, FT_EDEVICE, "%s", ft_slot_error(s));
    return FT_OK;
}

ft_status ft_llm_time(ft_llm *m, int n_prompt, int n_gen, int depth, double *prompt_s,
                      double *gen_s, ft_err *err)
{
    *prompt_s = *gen_s = 0;
    ft_status st = FT_OK;
    const ft_stats *stats;
    for (int pass = 0; pass < 2 && !st; pass++) {
        if (pass == 0 ? n_prompt <= 0 : n_gen <= 0) continue;
        ft_slot *s = ft_slot_new(m->engine);
        if (!s) return ft_fail(err, FT_ELIMIT, "all slots are in use");
        if (pass == 0) {
            if (!(st = ft_time_response(m->engine, m->model->V, s, n_prompt, 1, &stats, err)))
                *prompt_s = stats->prompt_s;
        } else {
            st = ft_time_response(m->engine, m->model->V, s, FT_MAX(1, depth), n_gen + 1, &stats,
                                  err);
            if (!st) *gen_s = stats->predicted_s;
        }
        ft_slot_free(s);
    }
    return st;
}

ft_status ft_llm_steps(ft_llm *m, int rows, int depth, int n, double *seconds, ft_err *err)
{
    const int past = FT_MAX(1, depth);
    ft_slot *s = ft_slot_new(m->engine);
    if (!s) return ft_fail(err, FT_ELIMIT, "all slots are in use");
    int32_t *ids = random_ids(past, m->model->V);
    const ft_status st = ft_slot_steps(s, ids, past, rows, n, seconds, err);
    ft_free(ids);
    ft_slot_free(s);
    return st;
}

enum {
    LONG_PROMPT = 4096, /* longer prompts are profiled once, and only their last full step */
    PROMPT_RUNS = 3,
};

static ft_status run_profiled(ft_llm *m, const ft_ops_params *p, ft_err *err)
{
    double prompt_s, gen_s;
    ft_status st = FT_OK;
    if (p->n_prompt) {
        for (int i = 0; i < (p->n_prompt > LONG_PROMPT ? 1 : PROMPT_RUNS) && !st; i++)
            st = ft_llm_time(m, p->n_prompt, 0, 0, &prompt_s, &gen_s, err);
        return st;
    }
    if (p->seqs > 1) {
        const ft_decode_params d = {.seqs = p->seqs, .depth = p->depth, .n_gen = p->n_gen};
        ft_decode_time t;
        return ft_llm_decode(m, &d, &t, err);
    }
    if (p->rows <= 1) return ft_llm_time(m, 0, p->n_gen, p->depth, &prompt_s, &gen_s, err);
    double *each = ft_new_n(double, (size_t)p->n_gen);
    st = ft_llm_steps(m, p->rows, p->depth, p->n_gen, each, err);
    ft_free(each);
    return st;
}

ft_status ft_llm_ops(ft_llm *m, const ft_ops_params *p, ft_op_time **out, int *n, int *rows,
                     ft_err *err)
{
    ft_profile *meter = ft_new(ft_profile);
    const int decode_rows = FT_MAX(1, FT_MAX(p->rows, p->seqs));
    meter->least = p->n_prompt ? 2 : decode_rows;
    meter->most = p->n_prompt ? INT_MAX : decode_rows;
    meter->last = p->n_prompt > LONG_PROMPT;
    ft_engine_meter(m->engine, meter);
    const ft_status st = run_profiled(m, p, err);
    ft_engine_meter(m->engine, NULL);
    ft_profile_begin(meter, 0);
    *out = st ? NULL : ft_new_n(ft_op_time, FT_PROFILE_ROWS);
    *n = st ? 0 : meter->n;
    for (int i = 0; i < *n; i++) {
        const ft_profile_row *r = &meter->row[i];
        const double steps = meter->steps;
        (*out)[i] = (ft_op_time){r->op,   r->layer,         r->calls / steps,
                                 r->best, r->bytes / steps, r->flops / steps};
    }
    *rows = meter->rows / FT_MAX(1, meter->steps);
    ft_free(meter);
    return st;
}

double ft_llm_arithmetic(ft_llm *m)
{
    ft_dev *d = m->model->dev;
    return d->arithmetic ? d->arithmetic(d) : 0;
}

double ft_llm_bandwidth(ft_llm *m)
{
    return m->dev->read_rate(m->dev);
}
