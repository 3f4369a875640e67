/* serve/openai_completions.c - POST /v1/completions. */
#include "base/mem.h"
#include "base/utf8.h"
#include "serve/prompts.h"
#include "serve/routes.h"

#include <stdlib.h>

/* extra: {"echo": [prompt texts]}, and "settings" and "prompts" if verbose */

static json_t *head(const ft_generation *t)
{
    return json_pack("{s:s, s:s, s:I, s:s, s:s}", "id", t->id, "object", "text_completion",
                     "created", (json_int_t)t->created, "model", t->model, "system_fingerprint",
                     ft_version());
}

/* The legacy format: four parallel lists. offset: characters from the start of the text. */
static json_t *logprobs(const json_t *entries, size_t offset)
{
    json_t *tokens = json_array(), *of = json_array(), *top = json_array(), *at = json_array();
    const json_t *e, *k;
    size_t i, m;
    json_array_foreach(entries, i, e)
    {
        json_t *best = json_object(), *text = json_object_get(e, "token");
        const json_t *list = json_object_get(e, "top_logprobs");
        json_array_append(tokens, text);
        json_array_append(of, json_object_get(e, "logprob"));
        json_array_foreach(list, m, k) json_object_set(
            best, json_string_value(json_object_get(k, "token")), json_object_get(k, "logprob"));
        json_array_append_new(top, json_is_null(list) ? json_null() : json_incref(best));
        json_decref(best);
        json_array_append_new(at, json_integer((json_int_t)offset));
        const char *z = json_string_value(text);
        for (; *z; z++) offset += ((unsigned char)*z & 0xC0) != 0x80;
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "tokens", tokens, "token_logprobs", of, "top_logprobs",
                     top, "text_offset", at);
}

static json_t *choice(int index, json_t *text, json_t *probs, const char *reason)
{
    return json_pack("{s:o, s:i, s:o, s:o}", "text", text, "index", index, "logprobs",
                     probs ? probs : json_null(), "finish_reason",
                     reason ? json_string(reason) : json_null());
}

static void send_choice(ft_generation *t, const ft_choice *c, json_t *k)
{
    json_t *j = head(t);
    json_object_set_new(j, "choices", json_pack("[o]", k));
    ft_live_timings(t, c, NULL, j);
    ft_generation_event(t, NULL, j);
}

static json_t *echo_of(const ft_generation *t, const ft_choice *c)
{
    return json_array_get(json_object_get(t->extra, "echo"), (size_t)c->prompt);
}

static void begin(ft_generation *t)
{
    for (int i = 0; i < t->n; i++) {
        json_t *echo = echo_of(t, &t->choice[i]);
        if (echo) send_choice(t, &t->choice[i], choice(i, json_incref(echo), NULL, NULL));
    }
}

static size_t count_chars(const char *p, size_t n)
{
    size_t m = 0;
    for (size_t i = 0; i < n; i++) m += ((unsigned char)p[i] & 0xC0) != 0x80;
    return m;
}

static void piece(ft_generation *t, ft_choice *c, const ft_piece *p)
{
    const size_t before =
        count_chars(ft_buf_z(&c->answer), c->answer.len - FT_MIN(p->n, c->answer.len));
    send_choice(t, c,
                choice(c->index, ft_json_string(p->p, p->n),
                       json_array_size(p->logprobs) ? logprobs(p->logprobs, before) : NULL, NULL));
}

static const char *reason_of(const ft_choice *c)
{
    return c->response.reason == FT_REASON_LENGTH ? "length" : "stop";
}

static void end(ft_generation *t, ft_choice *c)
{
    json_t *j = head(t);
    json_object_set_new(j, "choices",
                        json_pack("[o]", choice(c->index, json_string(""), NULL, reason_of(c))));
    json_object_set_new(j, "timings", ft_timings_json(&c->response));
    ft_generation_event(t, NULL, j);
}

static void finish(ft_generation *t)
{
    ft_openai_finish(t, head(t));
}

/* With echo, the prompt and its log probabilities come first. */
static json_t *whole_choice(const ft_generation *t, const ft_choice *c)
{
    const json_t *echo = echo_of(t, c);
    json_t *probs = NULL;
    ft_buf b;
    ft_buf_init(&b, SIZE_MAX / 2);
    ft_buf_put(&b, json_string_value(echo), json_string_length(echo));
    if (t->top_logprobs >= 0) {
        json_t *entries = ft_prompt_probs(t, c);
        const size_t offset = json_array_size(entries) ? 0 : count_chars(ft_buf_z(&b), b.len);
        json_array_extend(entries, c->logprobs);
        probs = logprobs(entries, offset);
        json_decref(entries);
    }
    ft_buf_put(&b, ft_buf_z(&c->answer), c->answer.len);
    json_t *j = choice(c->index, ft_json_string(ft_buf_z(&b), b.len), probs, reason_of(c));
    ft_buf_release(&b);
    return j;
}

static json_t *whole(ft_generation *t)
{
    json_t *list = json_array();
    for (int i = 0; i < t->n; i++) json_array_append_new(list, whole_choice(t, &t->choice[i]));
    return ft_openai_whole(t, head(t), list);
}

static const ft_api_format SHAPE = {
    .begin = begin,
    .piece = piece,
    .end = end,
    .finish = finish,
    .whole = whole,
};

/* ---- requests ---- */

static json_t *echo_texts(const ft_served *d, const ft_prompts *p)
{
    json_t *list = json_array();
    for (int i = 0; i < p->n; i++) {
        char *text = NULL;
        size_t n = 0;
        if (ft_vocab_decode(d->vocab, p->at[i].ids, (size_t)p->at[i].n, false, &text, &n, NULL))
            n = 0;
        json_array_append_new(list, ft_json_string(text ? text : "", n));
        free(text);
    }
    return list;
}

static bool fields(ft_gen_params *a, const json_t *body, bool *echo, ft_http_error *error)
{
    int top = -1, best = -1;
    if (!ft_want_int(body, "logprobs", 0, 5, &top, error) ||
        !ft_want_bool(body, "echo", echo, error) ||
        !ft_want_int(body, "best_of", 1, 1 << 20, &best, error))
        return false;
    if (best > 0 && best != a->n)
        return ft_http_error_set(error, FT_ERR_INVALID, "best_of",
                                 "best_of is %d, want %d, the value of n", best, a->n);
    a->r.top_logprobs = top;
    a->r.score_prompt = *echo && top >= 0;
    a->r.parse = false;
    if (a->r.score_prompt && a->stream)
        return ft_http_error_set(error, FT_ERR_INVALID, "stream",
                                 "stream is true with echo and logprobs, want false");
    return true;
}

/* With a suffix, the response is the text between prompt and suffix (fill-in-the-middle). */
static bool prompts(const ft_served *d, const json_t *body, ft_prompts *p, ft_http_error *error)
{
    const char *suffix = NULL, *prefix = "";
    if (!ft_want_text(body, "suffix", &suffix, error)) return false;
    if (!suffix || !*suffix)
        return ft_prompts_read(NULL, d, ft_get(body, "prompt"), "prompt", p, error);
    *p = (ft_prompts){ft_new(ft_prompt), 1};
    return ft_want_text(body, "prompt", &prefix, error) &&
           ft_prompt_infill(d, NULL, prefix, "", suffix, p->at, error);
}

void ft_run_completions(ft_call *c)
{
    const char *model = NULL;
    bool echo = false, verbose = c->s->p.verbose;
    ft_http_error error;
    ft_gen_params a;
    ft_prompts p = {0};
    ft_served *d = ft_call_model(c, NULL);
    if (!d) return;
    ft_gen_params_init(&a, c->s, d);
    if (ft_want_text(c->body, "model", &model, &error) &&
        ft_gen_params_fields(&a, d, c->body, &error) && fields(&a, c->body, &echo, &error) &&
        ft_want_bool(c->body, "verbose", &verbose, &error) && prompts(d, c->body, &p, &error)) {
        json_t *extra = json_object();
        if (echo) json_object_set_new(extra, "echo", echo_texts(d, &p));
        if (verbose) ft_native_extra(extra, d, &a, p.at, p.n);
        ft_generation_start(c, d, &SHAPE, "cmpl-", &a, p.at, p.n, model, extra);
    } else {
        ft_call_fail(c, &error);
    }
    ft_prompts_release(&p);
    ft_gen_params_release(&a);
}
