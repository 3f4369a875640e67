/* api/kvbench.c - measures what each KV cache encoding costs: runs the same text through engines
 * that differ in nothing else, chunk by chunk, so that only one chunk's logits are in memory. */
#include "api/model.h"

#include "base/mem.h"
#include "kv/plan.h"

#include <math.h>

enum { SCORE_ROWS = 64, CORR_ROWS = 4 };

typedef struct trial {
    ft_engine_params e;
    ft_engine *engine;
    ft_kvbench_row *row; /* NULL: the reference */
    double nll, kld, kld_max;
    int64_t same;
} trial;

typedef struct bench {
    ft_llm *m;
    const ft_kvbench_params *p;
    trial *trial; /* [n_type + 1]; [0] is f16 */
    trial *now;
    const int32_t *chunk;
    float *logits; /* [ctx - ctx / 2, V]: the reference's, as log probabilities */
    int V;
    int64_t tokens;
    bool broken;
    int corr_end;                   /* end of the step whose scores are compared; 0: none */
    double *layers;                 /* [n_type]: the lowest correlation of a layer so far ... */
    double *now_layer;              /* ... and that of this layer */
    ft_kv_calibration *calibration; /* for presets that need it; NULL: none did */
} bench;

/* ---- next-token probabilities ---- */

/* x - log(sum of e^x) */
static void log_softmax(float *to, const float *x, int n, int *best)
{
    *best = 0;
    for (int v = 1; v < n; v++)
        if (x[v] > x[*best]) *best = v;
    const float top = x[*best];
    double sum = 0;
    for (int v = 0; v < n; v++) sum += (double)expf(x[v] - top);
    const float norm = top + (float)log(sum);
    for (int v = 0; v < n; v++) to[v] = x[v] - norm;
}

static void score_row(void *user, int i, const float *x)
{
    bench *b = user;
    const int V = b->V, from = b->p->ctx / 2;
    if (i + 1 >= b->p->ctx) return;
    float *ref = b->logits + (size_t)(i - from) * (size_t)V;
    float *mine = b->now->row ? b->logits + (size_t)(b->p->ctx - from) * (size_t)V : ref;
    int best, want = 0;
    log_softmax(mine, x, V, &best);
    const double nll = -(double)mine[b->chunk[i + 1]];
    if (!isfinite(nll)) b->broken = true;
    b->now->nll += nll;
    if (!b->now->row) {
        b->tokens++;
        return;
    }
    double kld = 0;
    for (int v = 0; v < V; v++) {
        if (ref[v] > ref[want]) want = v;
        kld += exp((double)ref[v]) * (double)(ref[v] - mine[v]);
    }
    b->now->kld += kld;
    b->now->kld_max = fmax(b->now->kld_max, kld);
    b->now->same += best == want;
}

/* ---- attention scores ---- */

static bool alike(const ft_kv *a, const ft_kv *b)
{
    return a->kt == b->kt && !a->mean == !b->mean;
}

/* The reference engine at the end of the first chunk. Its keys are f16. */
static void see_query(void *user, const ft_step *s, const char *what, int layer, ft_mat q)
{
    bench *b = user;
    const ft_kv *kv = &s->kv[layer];
    if (strcmp(what, "query") || s->T < CORR_ROWS || s->b->S != 1 || q.T != s->T) return;
    if (s->b->end[s->T - 1] != b->corr_end || kv->space != FT_SPACE_FULL) return;
    ft_kv_sample k;
    if (ft_kv_sample_take(&k, s, layer, q, CORR_ROWS, NULL)) return;
    for (int i = 0; i < b->p->n_type; i++) {
        const ft_kv *mine = &ft_engine_kv(b->trial[i + 1].engine)[layer];
        int same = 0; /* an earlier trial with the same keys has done the work */
        while (!alike(&ft_engine_kv(b->trial[same + 1].engine)[layer], mine)) same++;
        b->now_layer[i] =
            same < i ? b->now_layer[same]
                     : ft_kv_sample_correlation(&k, mine->kt,
                                                mine->mean ? b->calibration[layer].mean : NULL);
        b->layers[i] = fmin(b->layers[i], b->now_layer[i]);
    }
    ft_kv_sample_release(&k);
}

/* ---- the benchmark ---- */

static ft_status run_chunk(bench *b, trial *t, ft_err *err)
{
    ft_slot *s = ft_slot_new(t->engine);
    b->now = t;
    const ft_status st = ft_slot_score(s, b->chunk, b->p->ctx, b->p->ctx / 2, score_row, b, err);
    ft_slot_free(s);
    return st;
}

static ft_status run_text(bench *b, int chunks, ft_err *err)
{
    const ft_kvbench_params *p = b->p;
    const ft_vocab *v = b->m->vocab;
    int32_t *chunk = ft_new_n(int32_t, (size_t)p->ctx);
    ft_status st = FT_OK;
    b->chunk = chunk;
    for (int i = 0; i < chunks && !st; i++) {
        memcpy(chunk, p->ids + (size_t)i * (size_t)p->ctx, sizeof *chunk * (size_t)p->ctx);
        if (ft_vocab_add_bos(v)) chunk[0] = ft_vocab_special(v)->bos;
        b->corr_end = i ? 0 : p->ctx;
        for (int t = 0; t <= p->n_type && !st; t++) st = run_chunk(b, &b->trial[t], err);
        if (!st && b->broken)
            st = ft_fail(err, FT_EFORMAT,
                         "chunk %d: the logits are not numbers: the weights are damaged", i);
        if (!st && p->progress) p->progress(p->user, "text", i + 1, chunks);
    }
    ft_free(chunk);
    return st;
}

static ft_status open_trial(bench *b, int i, int ctx, ft_err *err)
{
    trial *t = &b->trial[i];
    t->e = (ft_engine_params){.slots = 1,
                              .ctx = ctx,
                              .rows = 512,
                              .kt = FT_KV_F16,
                              .vt = FT_KV_F16,
                              .kv_exact = b->p->exact,
                              .score_rows = SCORE_ROWS};
    if (i && !ft_kv_pair_find(ft_str_of(b->p->type[i - 1]), &t->e.kt, &t->e.vt))
        return ft_fail(err, FT_EINVAL,
                       "cache \"%s\", want quality, balanced, compact, or one or two (K/V) of %s",
                       b->p->type[i - 1], ft_kv_type_names());
    if (i) t->e.kv_tail = ft_kv_tail_wanted(b->p->tail, b->p->type[i - 1]);
    if (i && !b->p->exact && ft_kv_pair_measured(ft_str_of(b->p->type[i - 1]))) {
        const ft_status st = b->calibration
                                 ? FT_OK
                                 : ft_llm_calibrate(&b->calibration, b->m, t->e.kt, b->p->ctx, err);
        if (st) return st;
        t->e.calibration = b->calibration;
    }
    return ft_engine_new(&t->engine, b->m->model, NULL, &t->e, err);
}

static void fill(const bench *b, int i, ft_kvbench_row *r)
{
    const trial *t = &b->trial[i + 1];
    const double n = (double)b->tokens;
    double f16;
    r->type = b->p->type[i];
    r->ppl = exp(t->nll / n);
    r->ppl_ratio = exp((t->nll - b->trial[0].nll) / n);
    r->kld = t->kld / n;
    r->kld_max = t->kld_max;
    r->top1 = (double)t->same / n;
    r->correlation = b->layers[i];
    r->token_bytes = ft_engine_token_bytes(b->m->model, &t->e, &f16);
    r->ratio = r->token_bytes > 0 ? f16 / r->token_bytes : 1;
}

static ft_status quality(bench *b, int chunks, ft_kvbench_row *row, ft_err *err)
{
    const int n = b->p->n_type;
    ft_status st = FT_OK;
    for (int i = 0; i <= n && !st; i++) {
        st = open_trial(b, i, b->p->ctx, err);
        b->trial[i].row = i ? &row[i - 1] : NULL;
    }
    if (!st) ft_engine_probe(b->trial[0].engine, see_query, b);
    if (!st) st = run_text(b, chunks, err);
    for (int i = 0; i < n && !st; i++) fill(b, i, &row[i]);
    for (int i = 0; i <= n; i++) {
        ft_engine_free(b->trial[i].engine);
        b->trial[i].engine = NULL;
    }
    return st;
}

/* One engine at a time: a long context may fill the memory. */
static ft_status speed(bench *b, ft_kvbench_row *row, ft_err *err)
{
    const ft_kvbench_params *p = b->p;
    ft_status st = FT_OK;
    for (int i = 0; i < p->n_type && !st; i++) {
        const ft_stats *stats;
        if ((st = open_trial(b, i + 1, p->depth + p->n_gen + 2, err))) break;
        trial *t = &b->trial[i + 1];
        ft_slot *s = ft_slot_new(t->engine);
        st = ft_time_response(t->engine, b->V, s, FT_MAX(1, p->depth), p->n_gen + 1, &stats, err);
        if (!st) {
            row[i].prompt_s = stats->prompt_s / FT_MAX(1, p->depth);
            row[i].gen_s = stats->predicted_s / p->n_gen;
            if (p->progress) p->progress(p->user, "speed", i + 1, p->n_type);
        }
        ft_slot_free(s);
        ft_engine_free(t->engine);
        t->engine = NULL;
    }
    return st;
}

ft_status ft_llm_kvbench(ft_llm *m, const ft_kvbench_params *p, ft_kvbench_row *row, ft_err *err)
{
    const int most = (int)FT_MIN(p->n_ids / (size_t)FT_MAX(2, p->ctx), (size_t)1 << 30);
    if (p->ctx < 16 || p->ctx > 1 << 20)
        return ft_fail(err, FT_EINVAL, "chunks of %d tokens, want 16 to %d", p->ctx, 1 << 20);
    if (most < 1)
        return ft_fail(err, FT_EINVAL, "the text has %zu tokens, want at least %d", p->n_ids,
                       p->ctx);
    bench b = {.m = m, .p = p, .V = m->model->V};
    const uint64_t values = (uint64_t)(p->ctx - p->ctx / 2 + 1) * (uint64_t)b.V;
    if (values > (uint64_t)1 << 31)
        return ft_fail(err, FT_ELIMIT,
                       "chunks of %d tokens over a vocabulary of %d, want shorter "
                       "ones",
                       p->ctx, b.V);
    b.logits = ft_new_n(float, (size_t)values);
    b.trial = ft_new_n(trial, (size_t)p->n_type + 1);
    b.layers = ft_new_n(double, (size_t)p->n_type + 1);
    b.now_layer = ft_new_n(double, (size_t)p->n_type + 1);
    for (int i = 0; i < p->n_type; i++) {
        b.layers[i] = 1;
        row[i] = (ft_kvbench_row){0};
    }
    ft_status st = quality(&b, p->chunks > 0 ? FT_MIN(p->chunks, most) : most, row, err);
    if (!st && p->n_gen > 0) st = speed(&b, row, err);
    ft_free(b.logits);
    ft_free(b.trial);
    ft_free(b.layers);
    ft_free(b.now_layer);
    ft_calibration_free(b.calibration, m->model);
    return st;
}
