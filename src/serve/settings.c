#include "serve/settings.h"

static json_t *texts(const char *const *z, int n)
{
    json_t *list = json_array();
    for (int i = 0; z && i < n; i++)
        json_array_append_new(list, ft_json_string(z[i], strlen(z[i])));
    return list;
}

static json_t *sampler_list(const char *names)
{
    json_t *list = json_array();
    if (!names) names = "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature";
    while (*names) {
        const size_t n = strcspn(names, ";");
        json_array_append_new(list, ft_json_string(names, n));
        names += n + (names[n] == ';');
    }
    return list;
}

static json_t *bias_list(const ft_sampling *s)
{
    json_t *list = json_array();
    for (int i = 0; i < s->n_bias; i++)
        json_array_append_new(
            list, json_pack("{s:i, s:f}", "token", s->bias_id[i], "bias", (double)s->bias[i]));
    return list;
}

json_t *ft_settings_json(const ft_request *r, uint64_t seed)
{
    const ft_sampling *s = &r->sampling;
    const struct {
        const char *name;
        float v;
    } real[] = {
        {"temperature", s->temperature},
        {"dynatemp_range", s->dynatemp_range},
        {"dynatemp_exponent", s->dynatemp_exponent},
        {"top_p", s->top_p},
        {"min_p", s->min_p},
        {"typical_p", s->typical_p},
        {"top_n_sigma", s->top_n_sigma},
        {"xtc_probability", s->xtc_probability},
        {"xtc_threshold", s->xtc_threshold},
        {"repeat_penalty", s->repeat_penalty},
        {"presence_penalty", s->presence_penalty},
        {"frequency_penalty", s->frequency_penalty},
        {"dry_multiplier", s->dry_multiplier},
        {"dry_base", s->dry_base},
        {"mirostat_tau", s->mirostat_tau},
        {"mirostat_eta", s->mirostat_eta},
    };
    json_t *j = json_pack(
        "{s:I, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b}", "seed", (json_int_t)seed, "top_k",
        s->top_k, "repeat_last_n", s->repeat_last_n, "dry_allowed_length", s->dry_allowed_length,
        "dry_penalty_last_n", s->dry_last_n, "mirostat", s->mirostat, "n_predict", r->max_tokens,
        "n_probs", r->top_logprobs < 0 ? 0 : r->top_logprobs, "ignore_eos", r->ignore_eos);
    for (size_t i = 0; i < sizeof real / sizeof real[0]; i++)
        json_object_set_new(j, real[i].name, json_real((double)real[i].v));
    json_object_set_new(j, "max_tokens", json_integer(r->max_tokens));
    json_object_set_new(j, "stop", texts(r->stop, r->n_stop));
    json_object_set_new(j, "dry_sequence_breakers", texts(s->dry_breakers, s->n_dry_breakers));
    json_object_set_new(j, "samplers", sampler_list(s->samplers));
    json_object_set_new(j, "logit_bias", bias_list(s));
    json_object_set_new(j, "grammar", json_string(r->grammar ? r->grammar : ""));
    json_object_set_new(j, "speculative.n_max", json_integer(r->draft_max));
    json_object_set_new(j, "speculative.n_min", json_integer(r->draft_min));
    json_object_set_new(j, "speculative.p_min", json_real((double)r->draft_p_min));
    json_object_set_new(j, "reasoning_budget_tokens", json_integer(r->reasoning_budget));
    return j;
}

void ft_settings_keep(ft_request *to, const ft_request *from)
{
    const ft_request old = *to;
    to->sampling = from->sampling;
    to->sampling.seed = old.sampling.seed;
    to->sampling.samplers = old.sampling.samplers;
    to->sampling.dry_breakers = old.sampling.dry_breakers;
    to->sampling.n_dry_breakers = old.sampling.n_dry_breakers;
    to->sampling.bias = old.sampling.bias;
    to->sampling.bias_id = old.sampling.bias_id;
    to->sampling.n_bias = old.sampling.n_bias;
    to->max_tokens = from->max_tokens;
    to->ignore_eos = from->ignore_eos;
    to->cache_prompt = from->cache_prompt;
    to->reasoning_budget = from->reasoning_budget;
    to->draft_max = from->draft_max;
    to->draft_min = from->draft_min;
    to->draft_p_min = from->draft_p_min;
}
