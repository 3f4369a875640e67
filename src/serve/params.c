#include "serve/params.h"

#include "base/mem.h"
#include "serve/schema_relax.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

typedef enum kind { REAL, WHOLE, BOOLEAN } kind;

typedef struct field {
    const char *name;
    kind kind;
    size_t at; /* in ft_gen_params */
    double lo, hi;
    bool clamp; /* what is outside becomes the nearest value inside; else it is refused */
} field;

#define AT(m)     offsetof(ft_gen_params, m)
#define SAMPLE(m) offsetof(ft_gen_params, r.sampling.m)
#define BIG       1e9

static const field TABLE[] = {
    {"temperature", REAL, SAMPLE(temperature), 0, BIG, true},
    {"top_k", WHOLE, SAMPLE(top_k), 0, BIG, true},
    {"top_p", REAL, SAMPLE(top_p), 0, 1, true},
    {"min_p", REAL, SAMPLE(min_p), 0, 1, true},
    {"typical_p", REAL, SAMPLE(typical_p), 0, 1, true},
    {"top_n_sigma", REAL, SAMPLE(top_n_sigma), -BIG, BIG, true},
    {"xtc_probability", REAL, SAMPLE(xtc_probability), 0, 1, true},
    {"xtc_threshold", REAL, SAMPLE(xtc_threshold), 0, 1, true},
    {"dynatemp_range", REAL, SAMPLE(dynatemp_range), 0, BIG, true},
    {"dynatemp_exponent", REAL, SAMPLE(dynatemp_exponent), 0, BIG, true},
    {"repeat_last_n", WHOLE, SAMPLE(repeat_last_n), -1, BIG, false},
    {"repeat_penalty", REAL, SAMPLE(repeat_penalty), 0, BIG, true},
    {"presence_penalty", REAL, SAMPLE(presence_penalty), -BIG, BIG, true},
    {"frequency_penalty", REAL, SAMPLE(frequency_penalty), -BIG, BIG, true},
    {"dry_multiplier", REAL, SAMPLE(dry_multiplier), 0, BIG, true},
    {"dry_base", REAL, SAMPLE(dry_base), -BIG, BIG, true},
    {"dry_allowed_length", WHOLE, SAMPLE(dry_allowed_length), 0, BIG, true},
    {"dry_penalty_last_n", WHOLE, SAMPLE(dry_last_n), -1, BIG, false},
    {"mirostat", WHOLE, SAMPLE(mirostat), 0, 2, true},
    {"mirostat_tau", REAL, SAMPLE(mirostat_tau), 0, BIG, true},
    {"mirostat_eta", REAL, SAMPLE(mirostat_eta), 0, BIG, true},
    {"ignore_eos", BOOLEAN, AT(r.ignore_eos), 0, 0, false},
    {"cache_prompt", BOOLEAN, AT(r.cache_prompt), 0, 0, false},
    {"id_slot", WHOLE, AT(r.slot), -1, 1 << 20, false},
    {"thinking_budget_tokens", WHOLE, AT(r.reasoning_budget), -1, BIG, true},
    {"reasoning_budget_tokens", WHOLE, AT(r.reasoning_budget), -1, BIG, true},
    {"speculative.n_max", WHOLE, AT(r.draft_max), 0, BIG, true},
    {"speculative.n_min", WHOLE, AT(r.draft_min), 0, BIG, true},
    {"speculative.p_min", REAL, AT(r.draft_p_min), 0, 1, true},
    {"stream", BOOLEAN, AT(stream), 0, 0, false},
    {"timings_per_token", BOOLEAN, AT(timings_per_token), 0, 0, false},
    {"return_drafted", BOOLEAN, AT(return_drafted), 0, 0, false},
    {"return_tokens", BOOLEAN, AT(return_tokens), 0, 0, false},
    {"return_progress", BOOLEAN, AT(progress), 0, 0, false},
    {"post_sampling_probs", BOOLEAN, AT(post_probs), 0, 0, false},
    {"sse_ping_interval", WHOLE, AT(ping_s), -1, 3600, true},
    {"t_max_predict_ms", WHOLE, AT(max_ms), 0, BIG, true},
    {"n", WHOLE, AT(n), 1, BIG, false},
    {"n_cmpl", WHOLE, AT(n), 1, BIG, false},
};

json_t *ft_get(const json_t *body, const char *name)
{
    json_t *v = json_object_get(body, name);
    return json_is_null(v) ? NULL : v;
}

/* ---- plain values ---- */

static bool wrong(const char *name, const json_t *v, const char *want, ft_http_error *error)
{
    char brief[72];
    return ft_http_error_set(error, FT_ERR_INVALID, name, "%s is %s, want %s", name,
                             ft_json_brief(v, brief), want);
}

static bool number(const json_t *v, const field *f, double *out, ft_http_error *error)
{
    if (!json_is_number(v))
        return wrong(f->name, v, f->kind == REAL ? "a number" : "a whole number", error);
    double x = json_number_value(v);
    if (f->kind == WHOLE && x != floor(x)) return wrong(f->name, v, "a whole number", error);
    if (f->clamp) {
        x = fmin(fmax(x, f->lo), f->hi);
    } else if (x < f->lo || x > f->hi) {
        char want[64];
        snprintf(want, sizeof want, "a number from %.0f to %.0f", f->lo, f->hi);
        return wrong(f->name, v, want, error);
    }
    *out = x;
    return true;
}

static bool apply(ft_gen_params *a, const field *f, const json_t *v, ft_http_error *error)
{
    char *home = (char *)a + f->at;
    double x;
    if (f->kind == BOOLEAN) {
        if (!json_is_boolean(v)) return wrong(f->name, v, "true or false", error);
        *(bool *)home = json_is_true(v);
        return true;
    }
    if (!number(v, f, &x, error)) return false;
    if (f->kind == REAL)
        *(float *)(void *)home = (float)x;
    else
        *(int *)(void *)home = (int)x;
    return true;
}

bool ft_want_int(const json_t *body, const char *name, int64_t lo, int64_t hi, int *out,
                 ft_http_error *error)
{
    const json_t *v = ft_get(body, name);
    const field f = {name, WHOLE, 0, (double)lo, (double)hi, false};
    double x;
    if (!v) return true;
    if (!number(v, &f, &x, error)) return false;
    *out = (int)x;
    return true;
}

bool ft_want_bool(const json_t *body, const char *name, bool *out, ft_http_error *error)
{
    const json_t *v = ft_get(body, name);
    if (v && !json_is_boolean(v)) return wrong(name, v, "true or false", error);
    if (v) *out = json_is_true(v);
    return true;
}

bool ft_want_text(const json_t *body, const char *name, const char **out, ft_http_error *error)
{
    const json_t *v = ft_get(body, name);
    if (v && !json_is_string(v)) return wrong(name, v, "a text", error);
    if (v) *out = json_string_value(v);
    return true;
}

/* ---- values with a shape of their own ---- */

static bool one_stop(ft_gen_params *a, const char *name, const json_t *v, ft_http_error *error)
{
    if (!json_is_string(v)) return wrong(name, v, "a text", error);
    if (json_string_length(v) > FT_PARAM_STOP_BYTES)
        return ft_http_error_set(error, FT_ERR_INVALID, name,
                                 "%s has a text of %zu bytes, the maximum is %d", name,
                                 json_string_length(v), FT_PARAM_STOP_BYTES);
    if (!json_string_length(v)) return true;
    a->stop[a->r.n_stop++] = json_string_value(v);
    return true;
}

static bool stops(ft_gen_params *a, const json_t *body, const char *name, ft_http_error *error)
{
    const json_t *v = ft_get(body, name), *one;
    size_t i;
    if (!v || (json_is_array(v) && !json_array_size(v))) return true;
    a->r.n_stop = 0;
    a->r.stop = a->stop;
    if (json_is_string(v)) return one_stop(a, name, v, error);
    if (!json_is_array(v)) return wrong(name, v, "a text or an array of texts", error);
    if (json_array_size(v) > FT_PARAM_STOPS)
        return ft_http_error_set(error, FT_ERR_INVALID, name, "%s has %zu texts, the maximum is %d",
                                 name, json_array_size(v), FT_PARAM_STOPS);
    json_array_foreach(v, i, one) if (!one_stop(a, name, one, error)) return false;
    return true;
}

static bool seed(ft_gen_params *a, const json_t *body, ft_http_error *error)
{
    const json_t *v = ft_get(body, "seed");
    if (!v) return true;
    const double x = json_number_value(v);
    if (!json_is_number(v) || x != floor(x) || fabs(x) > 9.2e18)
        return wrong("seed", v, "a whole number", error);
    const int64_t i = json_is_integer(v) ? (int64_t)json_integer_value(v) : (int64_t)x;
    if (i >= 0) a->r.sampling.seed = (uint64_t)i & 0xFFFFFFFFu;
    return true;
}

/* The first that is there counts. */
static bool max_tokens(ft_gen_params *a, const json_t *body, ft_http_error *error)
{
    static const char *const name[] = {"n_predict", "max_completion_tokens", "max_tokens",
                                       "max_output_tokens", "num_predict"};
    for (size_t i = 0; i < FT_COUNT(name); i++) {
        if (!ft_get(body, name[i])) continue;
        const field f = {name[i], WHOLE, AT(r.max_tokens), -1, BIG, true};
        return apply(a, &f, ft_get(body, name[i]), error);
    }
    return true;
}

static bool put_bias(ft_gen_params *a, const ft_served *d, int64_t id, const json_t *v,
                     ft_http_error *error)
{
    if (id < 0 || id >= d->info->vocab)
        return ft_http_error_set(error, FT_ERR_INVALID, "logit_bias",
                                 "logit_bias names the token %lld, want one from 0 to %d",
                                 (long long)id, d->info->vocab - 1);
    if (a->r.sampling.n_bias >= FT_PARAM_BIASES)
        return ft_http_error_set(error, FT_ERR_INVALID, "logit_bias",
                                 "logit_bias has more tokens than the maximum of %d",
                                 FT_PARAM_BIASES);
    if (!json_is_number(v) && !json_is_false(v))
        return wrong("logit_bias", v, "numbers or false", error);
    const size_t n = (size_t)a->r.sampling.n_bias;
    if (!(n & (n - 1))) { /* full at powers of two */
        a->bias_id = ft_realloc(a->bias_id, sizeof *a->bias_id * (n ? 2 * n : 1));
        a->bias = ft_realloc(a->bias, sizeof *a->bias * (n ? 2 * n : 1));
    }
    a->bias_id[n] = (int32_t)id;
    a->bias[n] = json_is_false(v) ? -1e30f : (float)fmin(fmax(json_number_value(v), -1e30), 1e30);
    a->r.sampling.n_bias++;
    a->r.sampling.bias_id = a->bias_id;
    a->r.sampling.bias = a->bias;
    return true;
}

/* A token by its id, or every token of a text. */
static bool bias_of(ft_gen_params *a, const ft_served *d, const char *text, const json_t *v,
                    ft_http_error *error)
{
    int64_t id;
    if (ft_parse_i64(text, INT64_MIN, INT64_MAX, &id)) return put_bias(a, d, id, v, error);
    int32_t *ids;
    size_t n;
    ft_err err;
    const ft_status st = ft_vocab_encode(d->vocab, text, strlen(text), 0, &ids, &n, &err);
    if (st) return ft_http_error_from(error, st, "logit_bias", &err);
    bool ok = true;
    for (size_t i = 0; i < n && ok; i++) ok = put_bias(a, d, ids[i], v, error);
    free(ids);
    return ok;
}

static bool biases(ft_gen_params *a, const ft_served *d, const json_t *body, ft_http_error *error)
{
    json_t *v = ft_get(body, "logit_bias"), *one;
    const char *key;
    size_t i;
    if (!v) return true;
    a->r.sampling.n_bias = 0;
    if (json_is_object(v)) {
        json_object_foreach(v, key, one) if (!bias_of(a, d, key, one, error)) return false;
        return true;
    }
    if (!json_is_array(v)) return wrong("logit_bias", v, "an object or an array of pairs", error);
    json_array_foreach(v, i, one)
    {
        const json_t *who = json_array_get(one, 0), *bias = json_array_get(one, 1);
        if (json_is_integer(who)) {
            if (!put_bias(a, d, json_integer_value(who), bias, error)) return false;
        } else if (!json_is_string(who)) {
            return wrong("logit_bias", one, "pairs of a token or text and a bias", error);
        } else if (!bias_of(a, d, json_string_value(who), bias, error)) {
            return false;
        }
    }
    return true;
}

static const char *sampler_of(char letter)
{
    static const char *const name[] = {
        ['d'] = "dry",         ['k'] = "top_k",       ['y'] = "typ_p",
        ['p'] = "top_p",       ['s'] = "top_n_sigma", ['m'] = "min_p",
        ['t'] = "temperature", ['x'] = "xtc",         ['e'] = "penalties"};
    const unsigned char c = (unsigned char)letter;
    return c < FT_COUNT(name) ? name[c] : NULL;
}

static bool put_sampler(ft_gen_params *a, const char *name, const json_t *v, ft_http_error *error)
{
    const size_t have = strlen(a->samplers);
    if (!name || have + strlen(name) + 2 > sizeof a->samplers)
        return wrong("samplers", v, "names of samplers", error);
    snprintf(a->samplers + have, sizeof a->samplers - have, "%s%s", have ? ";" : "", name);
    return true;
}

static bool samplers(ft_gen_params *a, const json_t *body, ft_http_error *error)
{
    const json_t *v = ft_get(body, "samplers"), *one;
    size_t i;
    if (!v) return true;
    a->samplers[0] = 0;
    if (json_is_string(v)) {
        const char *text = json_string_value(v);
        if (strchr(text, ';') || strlen(text) > 16) {
            if (!put_sampler(a, text, v, error)) return false;
        } else {
            for (; *text; text++)
                if (!put_sampler(a, sampler_of(*text), v, error)) return false;
        }
    } else if (json_is_array(v)) {
        json_array_foreach(v, i,
                           one) if (!put_sampler(a, json_string_value(one), v, error)) return false;
    } else {
        return wrong("samplers", v, "an array of names or a text of letters", error);
    }
    a->r.sampling.samplers = a->samplers;
    return true;
}

static bool breakers(ft_gen_params *a, const json_t *body, ft_http_error *error)
{
    const json_t *v = ft_get(body, "dry_sequence_breakers"), *one;
    size_t i;
    if (!v) return true;
    if (!json_is_array(v) || !json_array_size(v) || json_array_size(v) > FT_PARAM_BREAKERS)
        return ft_http_error_set(error, FT_ERR_INVALID, "dry_sequence_breakers",
                                 "dry_sequence_breakers has %zu texts, want an array of 1 to %d",
                                 json_array_size(v), FT_PARAM_BREAKERS);
    a->breaker = ft_new_n(const char *, json_array_size(v));
    json_array_foreach(v, i, one)
    {
        if (!json_is_string(one))
            return wrong("dry_sequence_breakers", one, "an array of texts", error);
        if (json_string_length(one) > FT_PARAM_BREAKER_BYTES)
            return ft_http_error_set(
                error, FT_ERR_INVALID, "dry_sequence_breakers",
                "dry_sequence_breakers has a text of %zu bytes, the maximum is %d",
                json_string_length(one), FT_PARAM_BREAKER_BYTES);
        a->breaker[i] = json_string_value(one);
    }
    a->r.sampling.dry_breakers = a->breaker;
    a->r.sampling.n_dry_breakers = (int)json_array_size(v);
    return true;
}

/* ---- constraints ---- */

bool ft_gen_params_schema(ft_gen_params *a, const json_t *schema, const char *param,
                          ft_http_error *error)
{
    if (!json_is_object(schema) && !json_is_boolean(schema))
        return wrong(param, schema, "a JSON schema", error);
    json_t *soft = json_deep_copy(schema);
    ft_schema_relax(soft, a->ignored, sizeof a->ignored);
    char *text = json_dumps(soft, JSON_COMPACT | JSON_ENCODE_ANY);
    json_decref(soft);
    if (!text)
        return ft_http_error_set(error, FT_ERR_INVALID, param, "%s cannot be written as text",
                                 param);
    a->r.json_schema = ft_gen_params_keep(a, text);
    if (strlen(text) <= FT_PARAM_SOURCE) return true;
    return ft_http_error_set(error, FT_ERR_INVALID, param, "%s has %zu bytes, the maximum is %d",
                             param, strlen(text), FT_PARAM_SOURCE);
}

static bool response_format(ft_gen_params *a, const json_t *body, ft_http_error *error)
{
    const json_t *v = ft_get(body, "response_format");
    if (!v) return true;
    const char *type = json_string_value(ft_get(v, "type"));
    if (type && !strcmp(type, "text")) return true;
    if (type && !strcmp(type, "json_object")) {
        const json_t *schema = ft_get(v, "schema");
        if (schema) return ft_gen_params_schema(a, schema, "response_format.schema", error);
        a->r.json_schema = "{\"type\":\"object\"}";
        return true;
    }
    if (type && !strcmp(type, "json_schema")) {
        const json_t *named = ft_get(v, "json_schema");
        const json_t *schema = ft_get(named ? named : v, "schema");
        return ft_gen_params_schema(a, schema, "response_format.json_schema.schema", error);
    }
    return wrong("response_format.type", ft_get(v, "type"), "text, json_object or json_schema",
                 error);
}

static bool constraints(ft_gen_params *a, const json_t *body, ft_http_error *error)
{
    const json_t *schema = ft_get(body, "json_schema");
    const char *grammar = NULL;
    if (!ft_want_text(body, "grammar", &grammar, error)) return false;
    if (schema && !ft_gen_params_schema(a, schema, "json_schema", error)) return false;
    if (!response_format(a, body, error)) return false;
    if (!grammar || !*grammar) return true;
    if (a->r.json_schema)
        return ft_http_error_set(error, FT_ERR_INVALID, "grammar",
                                 "a grammar and a JSON schema, want one of them");
    if (strlen(grammar) > FT_PARAM_SOURCE)
        return ft_http_error_set(error, FT_ERR_INVALID, "grammar",
                                 "grammar has %zu bytes, the maximum is %d", strlen(grammar),
                                 FT_PARAM_SOURCE);
    a->r.grammar = grammar;
    return true;
}

/* speculative: {n_max, n_min, p_min} is another way to write the dotted fields. */
static bool speculative(ft_gen_params *a, const json_t *body, ft_http_error *error)
{
    json_t *o = ft_get(body, "speculative");
    if (!o) return true;
    if (!json_is_object(o)) return wrong("speculative", o, "an object", error);
    for (size_t i = 0; i < FT_COUNT(TABLE); i++) {
        const char *dot = strchr(TABLE[i].name, '.');
        const json_t *v = dot ? ft_get(o, dot + 1) : NULL;
        if (v && !apply(a, &TABLE[i], v, error)) return false;
    }
    return true;
}

static bool few_enough(const ft_gen_params *a, const ft_served *d, ft_http_error *error)
{
    const int slots = d->info->slots;
    if (a->n <= slots) return true;
    return ft_http_error_set(error, FT_ERR_INVALID, "n", "n is %d, the maximum is %d", a->n, slots);
}

/* ---- all of it ---- */

void ft_gen_params_init(ft_gen_params *a, ft_server *s, const ft_served *d)
{
    *a = (ft_gen_params){.n = 1, .ping_s = s->p.ping_s};
    pthread_mutex_lock(&s->lock);
    a->r = d->defaults;
    pthread_mutex_unlock(&s->lock);
    char letters[9];
    ft_random_id(letters, "", 8);
    uint64_t h = 0;
    for (int i = 0; i < 8; i++) h = h * 62 + (uint64_t)(unsigned char)letters[i];
    a->r.sampling.seed = s->p.seed >= 0 ? (uint64_t)s->p.seed : h & 0xFFFFFFFFu;
}

char *ft_gen_params_keep(ft_gen_params *a, char *p)
{
    a->own = ft_realloc(a->own, sizeof *a->own * (size_t)(a->n_own + 1));
    return a->own[a->n_own++] = p;
}

void ft_gen_params_release(ft_gen_params *a)
{
    for (int i = 0; i < a->n_own; i++) free(a->own[i]);
    ft_free(a->own);
    ft_free(a->breaker);
    ft_free(a->bias_id);
    ft_free(a->bias);
    *a = (ft_gen_params){0};
}

bool ft_gen_params_fields(ft_gen_params *a, const ft_served *d, const json_t *body,
                          ft_http_error *error)
{
    for (size_t i = 0; i < FT_COUNT(TABLE); i++) {
        const json_t *v = ft_get(body, TABLE[i].name);
        if (v && !apply(a, &TABLE[i], v, error)) return false;
    }
    if (a->r.sampling.dry_base < 1) a->r.sampling.dry_base = 1.75f;
    const json_t *adaptive = ft_get(body, "adaptive_target");
    if (json_is_number(adaptive) && json_number_value(adaptive) >= 0)
        return ft_http_error_set(error, FT_ERR_INVALID, "adaptive_target",
                                 "adaptive_target is not supported, want -1");
    const json_t *decay = ft_get(body, "adaptive_decay");
    if (decay && (json_number_value(decay) < 0 || json_number_value(decay) > 0.99))
        return wrong("adaptive_decay", decay, "a number from 0 to 0.99", error);
    if (!ft_want_text(body, "reasoning_budget_message", &a->r.reasoning_message, error))
        return false;
    const json_t *options = ft_get(body, "stream_options");
    if (options && !ft_want_bool(options, "include_usage", &a->include_usage, error)) return false;
    return few_enough(a, d, error) && max_tokens(a, body, error) && stops(a, body, "stop", error) &&
           seed(a, body, error) && biases(a, d, body, error) && samplers(a, body, error) &&
           breakers(a, body, error) && constraints(a, body, error) && speculative(a, body, error);
}
