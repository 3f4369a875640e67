#include "serve/settings.h"

#include "base/params.h"
#include "serve/lora.h"

#include <stdlib.h>

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
    for (const ft_sampler_name *n = ft_sampler_names; !names && n->name; n++)
        json_array_append_new(list, json_string(n->name));
    while (names && *names) {
        const size_t n = strcspn(names, ";");
        json_array_append_new(list, ft_json_string(names, n));
        names += n + (names[n] == ';');
    }
    return list;
}

/* With ignore_eos the end token can never be sampled; JSON has no infinity, so its bias is null. */
static void put_end_token(json_t *list, const ft_served *d)
{
    const char *eos = d->info->eos;
    int32_t *ids;
    size_t n;
    if (!eos || !*eos ||
        ft_vocab_encode(d->vocab, eos, strlen(eos), FT_ENCODE_PARSE_SPECIAL, &ids, &n, NULL))
        return;
    if (n == 1) json_array_append_new(list, json_pack("{s:n, s:i}", "bias", "token", ids[0]));
    free(ids);
}

static json_t *bias_list(const ft_served *d, const ft_request *r)
{
    const ft_sampling *s = &r->sampling;
    json_t *list = json_array();
    if (r->ignore_eos) put_end_token(list, d);
    for (int i = 0; i < s->n_bias; i++)
        json_array_append_new(
            list, json_pack("{s:i, s:f}", "token", s->bias_id[i], "bias", (double)s->bias[i]));
    return list;
}

/* Adds a number or flag under llama.cpp's name. from: the struct that holds the field. */
static void put(json_t *j, int row, const void *from)
{
    const ft_param *p = &ft_request_params[row];
    char name[64];
    if (!ft_param_json_name(p, 0, name)) return;
    json_object_set_new(j, name,
                        p->kind == FT_PARAM_FLAG    ? json_boolean(*(const bool *)from)
                        : p->kind == FT_PARAM_FLOAT ? json_real((double)*(const float *)from)
                                                    : json_integer(*(const int *)from));
}

/* Fields of llama.cpp whose value never changes here. */
static void put_fixed(json_t *j)
{
    json_t *fixed = json_pack(
        "{s:f, s:f, s:i, s:i, s:[], s:s, s:s, s:b, s:s, s:b, s:b, s:b, s:b}", "adaptive_target",
        -1.0, "adaptive_decay", 0.9, "n_keep", 0, "n_discard", 0, "preserved_tokens", "chat_format",
        "Content-only", "reasoning_format", "none", "reasoning_in_content", 0, "generation_prompt",
        "", "backend_sampling", 0, "stream", 0, "timings_per_token", 0, "post_sampling_probs", 0);
    json_object_update(j, fixed);
    json_decref(fixed);
}

void ft_settings_add(json_t *settings, const ft_gen_params *a)
{
    json_object_set_new(settings, "stream", json_boolean(a->stream));
    json_object_set_new(settings, "timings_per_token", json_boolean(a->timings_per_token));
    json_object_set_new(settings, "post_sampling_probs", json_boolean(a->post_probs));
}

json_t *ft_settings_json(const ft_served *d, const ft_request *r, uint64_t seed)
{
    const ft_sampling *s = &r->sampling;
    json_t *j = json_pack("{s:I}", "seed", (json_int_t)seed);
#define FT_SAMPLING(type, field, number, ...) put(j, FT_ROW_##field, &s->field);
#define FT_REQUEST(type, field, number, ...)                                                       \
    if (ft_request_params[FT_ROW_##field].flags & FT_PARAM_REPORTED)                               \
        put(j, FT_ROW_##field, &r->field);
#include "base/request.def"
    json_object_set_new(j, "max_tokens", json_integer(r->max_tokens));
    json_object_set_new(j, "n_probs", json_integer(r->top_logprobs < 0 ? 0 : r->top_logprobs));
    json_object_set_new(j, "stop", texts(r->stop, r->n_stop));
    json_object_set_new(j, "dry_sequence_breakers", texts(s->dry_breakers, s->n_dry_breakers));
    json_object_set_new(j, "samplers", sampler_list(s->samplers));
    json_object_set_new(j, "logit_bias", bias_list(d, r));
    json_object_set_new(j, "grammar", json_string(r->grammar ? r->grammar : ""));
    json_object_set_new(j, "grammar_lazy", json_boolean(r->n_grammar_trigger > 0));
    json_object_set_new(j, "grammar_triggers", texts(r->grammar_trigger, r->n_grammar_trigger));
    json_object_set_new(j, "speculative.types", json_string(d->info->draft_type));
    put_fixed(j);
    json_object_set_new(j, "lora", ft_lora_json(r));
    return j;
}

void ft_settings_copy(ft_request *to, const ft_request *from)
{
#define FT_SAMPLING(type, field, number, ...) to->sampling.field = from->sampling.field;
#define FT_REQUEST(type, field, number, ...)                                                       \
    if (ft_request_params[FT_ROW_##field].flags & FT_PARAM_PROPS) to->field = from->field;
#include "base/request.def"
}
