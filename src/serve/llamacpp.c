/* serve/llamacpp.c - llama.cpp's POST /completion, and /infill, which builds on it. */
#include "base/mem.h"
#include "serve/prompts.h"
#include "serve/routes.h"
#include "serve/settings.h"

#include <stdlib.h>

/* ---- responses ---- */

/* extra: {"settings", "prompts": [...], "fields": [...]} */

static const char *stop_type(const ft_choice *c)
{
    if (c->response.reason == FT_REASON_LENGTH) return "limit";
    return c->response.stop_text ? "word" : c->response.reason == FT_REASON_STOP ? "eos" : "none";
}

json_t *ft_native_object(const ft_generation *t, const ft_choice *c)
{
    const ft_response *r = &c->response;
    json_t *settings = json_deep_copy(json_object_get(t->extra, "settings"));
    json_object_set_new(settings, "seed", json_integer((json_int_t)c->seed));
    json_t *j = json_pack(
        "{s:i, s:o, s:o, s:i, s:b, s:s, s:i, s:i, s:o, s:O, s:b, s:b, s:s, s:s, s:i, s:o}", "index",
        c->index, "content",
        t->stream ? json_string("") : ft_json_string(ft_buf_z(&c->answer), c->answer.len), "tokens",
        t->return_tokens && !t->stream ? json_incref(c->ids) : json_array(), "id_slot", r->slot,
        "stop", 1, "model", t->model, "tokens_predicted", r->output_tokens, "tokens_evaluated",
        r->prompt_tokens, "generation_settings", settings, "prompt",
        json_array_get(json_object_get(t->extra, "prompts"), (size_t)c->prompt), "has_new_line",
        memchr(ft_buf_z(&c->answer), '\n', c->answer.len) != NULL, "truncated", r->context_full,
        "stop_type", stop_type(c), "stopping_word", r->stop_text ? r->stop_text : "",
        "tokens_cached", r->prompt_tokens + r->output_tokens, "timings", ft_timings_json(r));
    if (t->top_logprobs >= 0 && !t->stream)
        json_object_set(j, "completion_probabilities", c->logprobs);
    if (json_object_get(t->extra, "prompt_probs"))
        json_object_set_new(j, "prompt_probabilities", ft_prompt_probs(t, c));
    return j;
}

static json_t *final_object(const ft_generation *t, const ft_choice *c)
{
    return ft_only_fields(t, ft_native_object(t, c));
}

static void piece(ft_generation *t, ft_choice *c, const ft_piece *p)
{
    ft_job_progress at;
    ft_job_look(c->job, &at);
    json_t *j = json_pack("{s:i, s:o, s:o, s:b, s:i, s:i, s:i}", "index", c->index, "content",
                          ft_json_string(p->p, p->n), "tokens",
                          p->ids ? json_copy(p->ids) : json_array(), "stop", 0, "id_slot", at.slot,
                          "tokens_predicted", c->n_tokens, "tokens_evaluated", c->n_prompt);
    if (json_array_size(p->logprobs))
        json_object_set_new(j, "completion_probabilities", json_copy(p->logprobs));
    ft_live_timings(t, c, NULL, j);
    ft_generation_event(t, NULL, j);
}

static void end(ft_generation *t, ft_choice *c)
{
    ft_generation_event(t, NULL, final_object(t, c));
}

static void progress(ft_generation *t, ft_choice *c, const ft_job_progress *p)
{
    json_t *j =
        json_pack("{s:i, s:s, s:[], s:b, s:i, s:i, s:i, s:o}", "index", c->index, "content", "",
                  "tokens", "stop", 0, "id_slot", p->slot, "tokens_predicted", 0,
                  "tokens_evaluated", c->n_prompt, "prompt_progress", ft_progress_json(t, p));
    ft_live_timings(t, c, p, j);
    ft_generation_event(t, NULL, j);
}

/* One choice is an object, several are an array. */
static json_t *whole(ft_generation *t)
{
    if (t->n == 1) return final_object(t, &t->choice[0]);
    json_t *list = json_array();
    for (int i = 0; i < t->n; i++) json_array_append_new(list, final_object(t, &t->choice[i]));
    return list;
}

static const ft_api_format SHAPE = {
    .piece = piece,
    .end = end,
    .progress = progress,
    .whole = whole,
};

/* ---- requests ---- */

/* Reads n_probs, which has several names. */
static bool n_probs(ft_gen_params *a, const json_t *body, ft_http_error *error)
{
    int n = 0;
    const json_t *l = ft_get(body, "logprobs");
    if (json_is_number(l) && !ft_want_int(body, "logprobs", 0, FT_PARAM_PROBS, &n, error))
        return false;
    if (!ft_want_int(body, "n_probs", 0, FT_PARAM_PROBS, &n, error)) return false;
    a->r.top_logprobs = n > 0 ? n : -1;
    if (!ft_want_bool(body, "prompt_probs", &a->r.score_prompt, error)) return false;
    if (a->r.score_prompt && n <= 0)
        return ft_http_error_set(error, FT_ERR_INVALID, "prompt_probs",
                                 "prompt_probs is true without n_probs, want n_probs above 0");
    return true;
}

static json_t *prompt_texts(const ft_served *d, const ft_prompt *p, int n_prompt)
{
    json_t *list = json_array();
    for (int i = 0; i < n_prompt; i++) {
        char *text;
        size_t n;
        if (ft_vocab_decode(d->vocab, p[i].ids, (size_t)p[i].n, true, &text, &n, NULL)) {
            json_array_append_new(list, json_string(""));
            continue;
        }
        json_array_append_new(list, ft_json_string(text, n));
        free(text);
    }
    return list;
}

void ft_native_extra(json_t *extra, const ft_served *d, const ft_gen_params *a, const ft_prompt *p,
                     int n_prompt)
{
    json_object_set_new(extra, "settings", ft_settings_json(d, &a->r, 0));
    ft_settings_add(json_object_get(extra, "settings"), a);
    json_object_set_new(extra, "prompts", prompt_texts(d, p, n_prompt));
}

static void start_completion(ft_call *c, ft_served *d, ft_gen_params *a, const ft_prompts *p,
                             const char *model, ft_http_error *error)
{
    json_t *extra = json_object();
    if (!ft_response_fields(c->body, extra, error) || !n_probs(a, c->body, error)) {
        json_decref(extra);
        ft_call_fail(c, error);
        return;
    }
    a->r.parse = false;
    if (a->r.score_prompt) json_object_set_new(extra, "prompt_probs", json_true());
    a->return_tokens |= a->stream; /* each event of a stream has its tokens */
    ft_native_extra(extra, d, a, p->at, p->n);
    ft_generation_start(c, d, &SHAPE, "cmpl-", a, p->at, p->n, model, extra);
}

void ft_run_completion(ft_call *c)
{
    const char *model = NULL;
    ft_http_error error;
    ft_gen_params a;
    ft_prompts p = {0};
    ft_served *d = ft_call_model(c, NULL);
    if (!d) return;
    ft_gen_params_init(&a, c->s, d);
    if (ft_want_text(c->body, "model", &model, &error) &&
        ft_gen_params_fields(&a, d, c->body, &error) &&
        ft_prompts_read(&a, d, ft_get(c->body, "prompt"), "prompt", &p, &error))
        start_completion(c, d, &a, &p, model, &error);
    else
        ft_call_fail(c, &error);
    ft_prompts_release(&p);
    ft_gen_params_release(&a);
}

/* ---- infill ---- */

static bool infill_prompt(const ft_served *d, const json_t *body, ft_prompt *p,
                          ft_http_error *error)
{
    const char *prefix = NULL, *suffix = NULL, *prompt = "";
    if (!ft_want_text(body, "input_prefix", &prefix, error) ||
        !ft_want_text(body, "input_suffix", &suffix, error) ||
        !ft_want_text(body, "prompt", &prompt, error))
        return false;
    if (!prefix || !suffix)
        return ft_http_error_set(error, FT_ERR_INVALID, prefix ? "input_suffix" : "input_prefix",
                                 "%s is missing, want a string",
                                 prefix ? "input_suffix" : "input_prefix");
    return ft_prompt_infill(d, ft_get(body, "input_extra"), prefix, prompt, suffix, p, error);
}

void ft_run_infill(ft_call *c)
{
    ft_http_error error;
    ft_gen_params a;
    ft_prompt p = {0};
    ft_served *d = ft_call_model(c, NULL);
    if (!d) return;
    ft_gen_params_init(&a, c->s, d);
    if (ft_gen_params_fields(&a, d, c->body, &error) && infill_prompt(d, c->body, &p, &error)) {
        const ft_prompts one = {&p, 1};
        start_completion(c, d, &a, &one, NULL, &error);
    } else {
        ft_call_fail(c, &error);
    }
    ft_free(p.ids);
    ft_gen_params_release(&a);
}
