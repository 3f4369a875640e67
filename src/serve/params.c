#include "serve/params.h"

#include "base/mem.h"
#include "base/params.h"
#include "serve/constraints.h"
#include "serve/lora.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

/* Offset in ft_gen_params of each numeric or boolean row of base/request.def; 0: the row has its
 * own parser below. */
static const size_t home[FT_REQUEST_ROWS] = {
#define FT_SAMPLING(type, field, number, ...)                                                      \
    [FT_ROW_##field] = offsetof(ft_gen_params, r.sampling.field),
#define FT_REQUEST(type, field, number, ...) [FT_ROW_##field] = offsetof(ft_gen_params, r.field),
#define FT_ANSWER(type, field, number, ...)  [FT_ROW_##field] = offsetof(ft_gen_params, field),
#include "base/request.def"
};

json_t *ft_get(const json_t *body, const char *name)
{
    json_t *v = json_object_get(body, name);
    return json_is_null(v) ? NULL : v;
}

/* ---- numbers and flags ---- */

static bool wrong(const char *name, const json_t *v, const char *want, ft_http_error *error)
{
    char brief[72];
    return ft_http_error_set(error, FT_ERR_INVALID, name, "%s is %s, want %s", name,
                             ft_json_brief(v, brief), want);
}

static bool number(const json_t *v, const ft_param *p, const char *name, double *out,
                   ft_http_error *error)
{
    const bool whole = p->kind == FT_PARAM_INT;
    if (!json_is_number(v)) return wrong(name, v, whole ? "a whole number" : "a number", error);
    double x = json_number_value(v);
    if (whole && x != floor(x)) return wrong(name, v, "a whole number", error);
    if (p->flags & FT_PARAM_CLAMP) {
        x = fmin(fmax(x, p->lo), p->hi);
    } else if (x < p->lo || x > p->hi) {
        char want[64];
        snprintf(want, sizeof want, "a number from %.0f to %.0f", p->lo, p->hi);
        return wrong(name, v, want, error);
    }
    *out = x;
    return true;
}

static bool apply(ft_gen_params *a, int row, const char *name, const json_t *v,
                  ft_http_error *error)
{
    const ft_param *p = &ft_request_params[row];
    char *to = (char *)a + home[row];
    double x;
    if (p->kind == FT_PARAM_FLAG) {
        if (!json_is_boolean(v)) return wrong(name, v, "true or false", error);
        *(bool *)to = json_is_true(v);
        return true;
    }
    if (!number(v, p, name, &x, error)) return false;
    if (p->kind == FT_PARAM_FLOAT)
        *(float *)(void *)to = (float)x;
    else
        *(int *)(void *)to = (int)x;
    return true;
}

/* The value of a field. "a.b" also names the member b of the object a. */
static json_t *find(const json_t *body, const char *name)
{
    json_t *v = ft_get(body, name);
    const char *dot = v ? NULL : strchr(name, '.');
    if (!dot) return v;
    char object[64];
    snprintf(object, sizeof object, "%.*s", (int)(dot - name), name);
    return ft_get(ft_get(body, object), dot + 1);
}

/* The value under the first of the row's names that the body has; NULL: none. */
static json_t *find_row(const json_t *body, int row, char name[64])
{
    for (int i = 0; ft_param_json_name(&ft_request_params[row], i, name); i++) {
        json_t *v = find(body, name);
        if (v) return v;
    }
    return NULL;
}

bool ft_want_int(const json_t *body, const char *name, int64_t lo, int64_t hi, int *out,
                 ft_http_error *error)
{
    const json_t *v = ft_get(body, name);
    const ft_param p = {.kind = FT_PARAM_INT, .lo = (double)lo, .hi = (double)hi};
    double x;
    if (!v) return true;
    if (!number(v, &p, name, &x, error)) return false;
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
    if (v && !json_is_string(v)) return wrong(name, v, "a string", error);
    if (v) *out = json_string_value(v);
    return true;
}

/* ---- fields with their own parser ---- */

static bool one_stop(ft_gen_params *a, const char *name, const json_t *v, ft_http_error *error)
{
    if (!json_is_string(v)) return wrong(name, v, "a string", error);
    if (json_string_length(v) > FT_PARAM_STOP_BYTES)
        return ft_http_error_set(error, FT_ERR_INVALID, name,
                                 "%s has a string of %zu bytes, the maximum is %d", name,
                                 json_string_length(v), FT_PARAM_STOP_BYTES);
    if (!json_string_length(v)) return true;
    a->stop[a->r.n_stop++] = json_string_value(v);
    return true;
}

static bool stops(ft_gen_params *a, const json_t *body, ft_http_error *error)
{
    char name[64];
    const json_t *v = find_row(body, FT_ROW_stop, name), *one;
    size_t i;
    if (!v || (json_is_array(v) && !json_array_size(v))) return true;
    a->r.n_stop = 0;
    a->r.stop = a->stop;
    if (json_is_string(v)) return one_stop(a, name, v, error);
    if (!json_is_array(v)) return wrong(name, v, "a string or an array of strings", error);
    if (json_array_size(v) > FT_PARAM_STOPS)
        return ft_http_error_set(error, FT_ERR_INVALID, name,
                                 "%s has %zu strings, the maximum is %d", name, json_array_size(v),
                                 FT_PARAM_STOPS);
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

/* Makes space for one bias after n. Biases of the server's defaults are copied first. */
static void grow_biases(ft_gen_params *a, size_t n)
{
    const bool foreign = n && a->r.sampling.bias_id != a->bias_id;
    if (!foreign && n & (n - 1)) return; /* the capacity is a power of two */
    size_t cap = 1;
    while (cap <= n) cap *= 2;
    a->bias_id = ft_realloc(a->bias_id, sizeof *a->bias_id * cap);
    a->bias = ft_realloc(a->bias, sizeof *a->bias * cap);
    if (!foreign) return;
    memcpy(a->bias_id, a->r.sampling.bias_id, sizeof *a->bias_id * n);
    memcpy(a->bias, a->r.sampling.bias, sizeof *a->bias * n);
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
    grow_biases(a, n);
    a->bias_id[n] = (int32_t)id;
    a->bias[n] = json_is_false(v) ? -1e30f : (float)fmin(fmax(json_number_value(v), -1e30), 1e30);
    a->r.sampling.n_bias++;
    a->r.sampling.bias_id = a->bias_id;
    a->r.sampling.bias = a->bias;
    return true;
}

/* Adds a bias for one token id, or for every token of a string. */
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
            return wrong("logit_bias", one, "pairs of a token or string and a bias", error);
        } else if (!bias_of(a, d, json_string_value(who), bias, error)) {
            return false;
        }
    }
    return true;
}

static const char *sampler_of(char letter)
{
    for (const ft_sampler_name *n = ft_sampler_names; n->name; n++)
        if (n->letter == letter) return n->name;
    return NULL;
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
        return wrong("samplers", v, "an array of names or a string of letters", error);
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
                                 "dry_sequence_breakers has %zu strings, want an array of 1 to %d",
                                 json_array_size(v), FT_PARAM_BREAKERS);
    a->breaker = ft_new_n(const char *, json_array_size(v));
    json_array_foreach(v, i, one)
    {
        if (!json_is_string(one))
            return wrong("dry_sequence_breakers", one, "an array of strings", error);
        if (json_string_length(one) > FT_PARAM_BREAKER_BYTES)
            return ft_http_error_set(
                error, FT_ERR_INVALID, "dry_sequence_breakers",
                "dry_sequence_breakers has a string of %zu bytes, the maximum is %d",
                json_string_length(one), FT_PARAM_BREAKER_BYTES);
        a->breaker[i] = json_string_value(one);
    }
    a->r.sampling.dry_breakers = a->breaker;
    a->r.sampling.n_dry_breakers = (int)json_array_size(v);
    return true;
}

static bool few_enough(const ft_gen_params *a, const ft_served *d, ft_http_error *error)
{
    const int slots = d->info->slots;
    if (a->n <= slots) return true;
    return ft_http_error_set(error, FT_ERR_INVALID, "n", "n is %d, the maximum is %d", a->n, slots);
}

/* ---- public functions ---- */

void ft_gen_params_init(ft_gen_params *a, ft_server *s, const ft_served *d)
{
    *a = (ft_gen_params){.n = 1,
                         .ping_s = s->p.ping_s,
                         .image_hosts = s->p.image_hosts,
                         .media_path = s->p.media_path,
                         .image_s = FT_PARAM_IMAGE_S};
    pthread_mutex_lock(&s->lock);
    a->r = d->defaults;
    pthread_mutex_unlock(&s->lock);
    char letters[9];
    ft_random_id(letters, "", 8);
    uint64_t h = 0;
    for (int i = 0; i < 8; i++) h = h * 62 + (uint64_t)(unsigned char)letters[i];
    a->r.sampling.seed = s->p.seed >= 0 ? (uint64_t)s->p.seed : h & 0xFFFFFFFFu;
}

void ft_gen_params_warn(ft_gen_params *a, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (!a->warnings) a->warnings = json_array();
    json_array_append_new(a->warnings, ft_json_string(text, strlen(text)));
}

char *ft_gen_params_own(ft_gen_params *a, char *p)
{
    a->own = ft_realloc(a->own, sizeof *a->own * (size_t)(a->n_own + 1));
    return a->own[a->n_own++] = p;
}

bool ft_gen_params_ban(ft_gen_params *a, const ft_served *d, int32_t id, ft_http_error *error)
{
    json_t *never = json_false();
    return put_bias(a, d, id, never, error);
}

void ft_gen_params_release(ft_gen_params *a)
{
    for (int i = 0; i < a->n_own; i++) free(a->own[i]);
    ft_free(a->own);
    ft_free(a->breaker);
    ft_free(a->bias_id);
    ft_free(a->bias);
    json_decref(a->warnings);
    *a = (ft_gen_params){0};
}

bool ft_gen_params_fields(ft_gen_params *a, const ft_served *d, const json_t *body,
                          ft_http_error *error)
{
    const json_t *draft = ft_get(body, "speculative");
    if (draft && !json_is_object(draft)) return wrong("speculative", draft, "an object", error);
    for (int row = 0; row < FT_REQUEST_ROWS; row++) {
        char name[64];
        const json_t *v = home[row] ? find_row(body, row, name) : NULL;
        if (v && !apply(a, row, name, v, error)) return false;
    }
    if (a->r.sampling.dry_base < 1) /* the penalty would shrink as the repetition gets longer */
        a->r.sampling.dry_base = strtof(ft_request_params[FT_ROW_dry_base].def, NULL);
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
    return few_enough(a, d, error) && stops(a, body, error) && seed(a, body, error) &&
           biases(a, d, body, error) && samplers(a, body, error) && breakers(a, body, error) &&
           ft_lora_field(a, d, body, error) && ft_constraints_read(a, body, error);
}
