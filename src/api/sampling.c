/* api/sampling.c - converts ft_sampling of the API to the parameters of the engine's sampler. */
#include "api/sampling.h"

#include "base/mem.h"

#include <math.h>

/* A value that the model file recommends, within the parameter's range. */
static bool recommended(const ft_gguf *g, int row, double *out)
{
    const ft_param *p = &ft_request_params[row];
    float real;
    int64_t whole;
    if (!p->gguf) return false;
    if (p->kind == FT_PARAM_INT) {
        if (!ft_gguf_i64(g, p->gguf, &whole)) return false;
        *out = FT_MAX(p->lo, FT_MIN((double)whole, p->hi));
        return true;
    }
    if (!ft_gguf_f32(g, p->gguf, &real)) return false;
    *out = (double)real;
    return true;
}

void ft_sampling_defaults(ft_sampling *s, const ft_llm *m)
{
    *s = (ft_sampling){0};
#define FT_SAMPLING(type, field, number, ...) s->field = (type)(number);
#include "base/request.def"
    if (!m) return;
    double x;
#define FT_SAMPLING(type, field, number, ...)                                                      \
    if (recommended(m->model->file, FT_ROW_##field, &x)) s->field = (type)x;
#include "base/request.def"
}

/* Encodes the DRY sequence breakers. The engine compares token ids, so a breaker that occurs in the
 * middle of a token's text is not found: each is encoded on its own. */
static ft_status breakers(ft_sample_setup *out, const ft_sampling *s, const ft_vocab *v,
                          ft_err *err)
{
    static const char *const usual[] = {"\n", ":", "\"", "*"};
    const char *const *text = s->dry_breakers ? s->dry_breakers : usual;
    const int n = s->dry_breakers ? s->n_dry_breakers : (int)FT_COUNT(usual);
    if (s->dry_multiplier <= 0 || n <= 0) return FT_OK;
    out->seq = ft_new_n(ft_id_seq, (size_t)n);
    out->seq_ids = ft_new_n(ft_ids, (size_t)n);
    for (int i = 0; i < n; i++) {
        ft_ids *ids = &out->seq_ids[out->n_seq];
        ft_ids_init(ids, 64);
        out->n_seq++;
        const ft_status st = ft_encode(v, ft_str_of(text[i]), 0, ids, err);
        if (st) return st;
        out->seq[i] = (ft_id_seq){ids->id, ids->n};
    }
    out->p.dry_breakers = out->seq;
    out->p.n_dry_breakers = (size_t)n;
    return FT_OK;
}

/* Adds ids that are never sampled. */
static void ban(ft_sample_setup *out, const int32_t *id, size_t n, int V)
{
    for (size_t i = 0; i < n; i++)
        if (id[i] >= 0 && id[i] < V) out->bias[out->p.n_bias++] = (ft_logit_bias){id[i], -INFINITY};
}

static ft_status biases(ft_sample_setup *out, const ft_sampling *s, const ft_llm *m, bool endless,
                        ft_err *err)
{
    size_t n_never;
    const int32_t *never = ft_vocab_suppressed(m->vocab, &n_never);
    const size_t n_end = endless ? (size_t)m->n_eog : 0;
    const size_t n = (size_t)s->n_bias + n_never + n_end;
    if (!n) return FT_OK;
    out->bias = ft_new_n(ft_logit_bias, n);
    for (int i = 0; i < s->n_bias; i++) {
        if (s->bias_id[i] < 0 || s->bias_id[i] >= m->model->V)
            return ft_fail(err, FT_EINVAL, "logit bias for token %d, want 0 to %d", s->bias_id[i],
                           m->model->V - 1);
        out->bias[i] = (ft_logit_bias){s->bias_id[i], s->bias[i]};
    }
    out->p.bias = out->bias;
    out->p.n_bias = (size_t)s->n_bias;
    ban(out, never, n_never, m->model->V);
    ban(out, m->eog, n_end, m->model->V);
    return FT_OK;
}

ft_status ft_sample_setup_init(ft_sample_setup *out, const ft_sampling *s, const ft_llm *m,
                               bool endless, ft_err *err)
{
    *out = (ft_sample_setup){0};
    ft_sample_params *p = &out->p;
    ft_sample_defaults(p);
    p->seed = s->seed;
#define FT_SAMPLING(type, field, number, ...) p->field = s->field;
#include "base/request.def"
    if (p->repeat_last_n < 0) p->repeat_last_n = m->info.ctx;
    if (p->dry_last_n < 0) p->dry_last_n = m->info.ctx;
    ft_status st = FT_OK;
    if (s->samplers) st = ft_sample_order_parse(p, s->samplers, err);
    if (!st) st = breakers(out, s, m->vocab, err);
    if (!st) st = biases(out, s, m, endless, err);
    if (st) ft_sample_setup_release(out);
    return st;
}

void ft_sample_setup_release(ft_sample_setup *s)
{
    for (int i = 0; i < s->n_seq; i++) ft_ids_release(&s->seq_ids[i]);
    ft_free(s->seq_ids);
    ft_free(s->seq);
    ft_free(s->bias);
    *s = (ft_sample_setup){0};
}
