/* api/sampling.c - converts the public sampling parameters to those of the engine. */
#include "api/sampling.h"

#include "api/images.h"

#include "base/mem.h"

#include <math.h>

void ft_sampling_defaults(ft_sampling *s, const ft_llm *m)
{
    ft_sample_params d;
    ft_sample_defaults(&d);
    *s = (ft_sampling){
        .seed = d.seed,
        .temperature = d.temperature,
        .top_k = d.top_k,
        .top_p = d.top_p,
        .min_p = d.min_p,
        .typical_p = d.typical_p,
        .top_n_sigma = d.top_n_sigma,
        .xtc_probability = d.xtc_probability,
        .xtc_threshold = d.xtc_threshold,
        .dynatemp_range = d.dynatemp_range,
        .dynatemp_exponent = d.dynatemp_exponent,
        .repeat_last_n = d.penalty_last_n,
        .repeat_penalty = d.repeat_penalty,
        .presence_penalty = d.presence_penalty,
        .frequency_penalty = d.frequency_penalty,
        .dry_multiplier = d.dry_multiplier,
        .dry_base = d.dry_base,
        .dry_allowed_length = d.dry_allowed_length,
        .dry_last_n = d.dry_last_n,
        .mirostat = d.mirostat,
        .mirostat_tau = d.mirostat_tau,
        .mirostat_eta = d.mirostat_eta,
    };
    if (!m) return;
    const ft_gguf *g = m->model->file;
    int64_t k;
    ft_gguf_f32(g, "general.sampling.temp", &s->temperature);
    ft_gguf_f32(g, "general.sampling.top_p", &s->top_p);
    ft_gguf_f32(g, "general.sampling.min_p", &s->min_p);
    if (ft_gguf_i64(g, "general.sampling.top_k", &k)) s->top_k = (int)FT_MAX(0, FT_MIN(k, 1 << 20));
}

/* The DRY sequence breakers as ids. A breaker may also occur within a token's text, but the
 * engine compares sequences of ids: the breaker encoded on its own. */
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
    int32_t image[FT_IMAGE_IDS];
    const size_t n_image = (size_t)ft_llm_image_ids(m, image);
    const size_t n = (size_t)s->n_bias + n_never + n_end + n_image;
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
    ban(out, image, n_image, m->model->V); /* what stands for an image is never said */
    return FT_OK;
}

ft_status ft_sample_setup_init(ft_sample_setup *out, const ft_sampling *s, const ft_llm *m,
                               bool endless, ft_err *err)
{
    *out = (ft_sample_setup){0};
    ft_sample_params *p = &out->p;
    ft_sample_defaults(p);
    p->seed = s->seed;
    p->temperature = s->temperature;
    p->top_k = s->top_k;
    p->top_p = s->top_p;
    p->min_p = s->min_p;
    p->typical_p = s->typical_p;
    p->top_n_sigma = s->top_n_sigma;
    p->xtc_probability = s->xtc_probability;
    p->xtc_threshold = s->xtc_threshold;
    p->dynatemp_range = s->dynatemp_range;
    p->dynatemp_exponent = s->dynatemp_exponent;
    p->penalty_last_n = s->repeat_last_n < 0 ? m->info.ctx : s->repeat_last_n;
    p->repeat_penalty = s->repeat_penalty;
    p->presence_penalty = s->presence_penalty;
    p->frequency_penalty = s->frequency_penalty;
    p->dry_multiplier = s->dry_multiplier;
    p->dry_base = s->dry_base;
    p->dry_allowed_length = s->dry_allowed_length;
    p->dry_last_n = s->dry_last_n < 0 ? m->info.ctx : s->dry_last_n;
    p->mirostat = s->mirostat;
    p->mirostat_tau = s->mirostat_tau;
    p->mirostat_eta = s->mirostat_eta;
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
