/* serve/response.c - parts of responses that several API formats share: events, usage, tool
 * calls. */
#include "base/clock.h"
#include "base/mem.h"
#include "serve/generation.h"

#include <stdlib.h>

static void put_json(ft_buf *out, json_t *j)
{
    char *text = json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(j);
    if (text) ft_buf_puts(out, text);
    free(text);
}

json_t *ft_with_warnings(ft_generation *t, json_t *j)
{
    if (!t->warnings || !json_is_object(j)) return j;
    json_object_set_new(j, "warnings", t->warnings);
    t->warnings = NULL;
    return j;
}

void ft_generation_event(ft_generation *t, const char *name, json_t *j)
{
    ft_buf *out = &t->c->out;
    if (name) ft_buf_printf(out, "event: %s\n", name);
    ft_buf_puts(out, "data: ");
    put_json(out, ft_with_warnings(t, j));
    ft_buf_puts(out, "\n\n");
}

void ft_generation_line(ft_generation *t, json_t *j)
{
    put_json(&t->c->out, ft_with_warnings(t, j));
    ft_buf_putc(&t->c->out, '\n');
}

const char *ft_finish_reason(const ft_choice *c)
{
    if (c->response.reason == FT_REASON_LENGTH) return "length";
    return c->n_call ? "tool_calls" : "stop";
}

ft_usage ft_generation_usage(const ft_generation *t)
{
    ft_usage u = {0};
    int last = -1;
    for (int i = 0; i < t->n; i++) {
        const ft_choice *c = &t->choice[i];
        if (c->prompt != last) {
            u.prompt += c->response.prompt_tokens;
            u.cached += c->response.cached_tokens;
            last = c->prompt;
        }
        u.response += c->response.output_tokens;
        u.thought += c->response.thought_tokens;
    }
    return u;
}

json_t *ft_usage_openai(const ft_generation *t)
{
    const ft_usage u = ft_generation_usage(t);
    return json_pack("{s:i, s:i, s:i, s:{s:i}, s:{s:i}}", "prompt_tokens", u.prompt,
                     "completion_tokens", u.response, "total_tokens", u.prompt + u.response,
                     "prompt_tokens_details", "cached_tokens", u.cached,
                     "completion_tokens_details", "reasoning_tokens", u.thought);
}

json_t *ft_choice_text(const ft_choice *c)
{
    if (!c->answer.len && c->n_call) return json_null();
    return ft_json_string(ft_buf_z(&c->answer), c->answer.len);
}

json_t *ft_choice_calls(const ft_choice *c)
{
    json_t *list = json_array();
    for (int i = 0; i < c->n_call; i++) {
        const ft_tool_call *k = &c->call[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:{s:o, s:o}}", "id", k->id, "type",
                                              "function", "function", "name",
                                              ft_json_string(k->name, strlen(k->name)), "arguments",
                                              ft_json_string(ft_buf_z(&k->args), k->args.len)));
    }
    return list;
}

json_t *ft_progress_json(const ft_generation *t, const ft_job_progress *p)
{
    return json_pack("{s:i, s:i, s:i, s:f}", "total", p->prompt_tokens, "cache", p->cached_tokens,
                     "processed", p->done_tokens, "time_ms", (ft_now_s() - t->c->begun_s) * 1e3);
}

void ft_live_timings(const ft_generation *t, const ft_choice *c, const ft_job_progress *at,
                     json_t *j)
{
    ft_job_progress p;
    if (!t->timings_per_token) return;
    if (at)
        p = *at;
    else
        ft_job_look(c->job, &p);
    const double now = ft_now_s();
    const bool begun = p.done_tokens > p.cached_tokens;
    const ft_response so_far = {.prompt_tokens = FT_MAX(p.done_tokens, p.cached_tokens),
                                .cached_tokens = p.cached_tokens,
                                .output_tokens = c->n_tokens,
                                .output_s = c->first_s > 0 ? now - c->first_s : 0,
                                .prompt_s = c->first_s > 0 ? c->first_s - t->c->begun_s
                                            : begun        ? now - t->c->begun_s
                                                           : 0};
    json_object_set_new(j, "timings", ft_timings_json(&so_far));
}

void ft_sse_ping(ft_generation *t)
{
    ft_buf_puts(&t->c->out, ":\n\n");
}

/* ---- response_fields ---- */

bool ft_response_fields(const json_t *body, json_t *extra, ft_http_error *error)
{
    json_t *v = ft_get(body, "response_fields"), *f;
    char brief[72];
    size_t i;
    if (!v) return true;
    bool ok = json_is_array(v);
    json_array_foreach(v, i, f) ok &= json_is_string(f);
    if (!ok)
        return ft_http_error_set(error, FT_ERR_INVALID, "response_fields",
                                 "response_fields is %s, want an array of strings",
                                 ft_json_brief(v, brief));
    json_object_set(extra, "fields", v);
    return true;
}

/* Resolves the path "a/b" in an object. */
static json_t *at_path(json_t *j, const char *path)
{
    char key[128];
    while (j && *path) {
        const size_t n = strcspn(path, "/");
        if (n >= sizeof key) return NULL;
        memcpy(key, path, n);
        key[n] = 0;
        j = json_object_get(j, key);
        path += n + (path[n] == '/');
    }
    return j;
}

json_t *ft_only_fields(const ft_generation *t, json_t *j)
{
    const json_t *fields = json_object_get(t->extra, "fields"), *f;
    size_t i;
    if (!json_array_size(fields)) return j;
    json_t *out = json_object();
    json_array_foreach(fields, i, f)
    {
        json_t *v = at_path(j, json_string_value(f));
        if (v) json_object_set(out, json_string_value(f), v);
    }
    json_decref(j);
    return out;
}

json_t *ft_openai_whole(ft_generation *t, json_t *j, json_t *choices)
{
    json_object_set_new(j, "choices", choices);
    json_object_set_new(j, "usage", ft_usage_openai(t));
    json_object_set_new(j, "timings", ft_timings_json(&t->choice[0].response));
    if (json_object_get(t->extra, "settings"))
        json_object_set_new(j, "__verbose", ft_native_object(t, &t->choice[0]));
    return j;
}

void ft_openai_finish(ft_generation *t, json_t *chunk)
{
    if (t->include_usage)
        ft_generation_event(t, NULL, ft_openai_whole(t, chunk, json_array()));
    else
        json_decref(chunk);
    ft_buf_puts(&t->c->out, "data: [DONE]\n\n");
}
