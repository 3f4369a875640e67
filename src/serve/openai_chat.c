/* serve/openai_chat.c - POST /v1/chat/completions. */
#include "base/mem.h"
#include "serve/chat.h"
#include "serve/routes.h"

static json_t *head(const ft_generation *t, const char *object)
{
    return json_pack("{s:s, s:s, s:I, s:s, s:s}", "id", t->id, "object", object, "created",
                     (json_int_t)t->created, "model", t->model, "system_fingerprint", ft_version());
}

static json_t *logprobs(json_t *entries)
{
    json_t *l = json_object();
    json_object_set(l, "content", entries);
    return l;
}

/* Whether the request has the older `functions` instead of tools. */
static bool is_legacy(const ft_generation *t)
{
    return json_object_get(t->extra, "functions") != NULL;
}

static const char *reason_of(const ft_generation *t, const ft_choice *c)
{
    const char *reason = ft_finish_reason(c);
    return is_legacy(t) && !strcmp(reason, "tool_calls") ? "function_call" : reason;
}

/* ---- streamed ---- */

/* One chunk with a choice's delta, of which it takes ownership. reason NULL: not finished. */
static json_t *chunk(const ft_generation *t, const ft_choice *c, json_t *delta, const char *reason,
                     json_t *probs)
{
    json_t *j = head(t, "chat.completion.chunk");
    json_t *k = json_pack("{s:i, s:o, s:o}", "index", c->index, "delta", delta, "finish_reason",
                          reason ? json_string(reason) : json_null());
    if (json_array_size(probs)) json_object_set_new(k, "logprobs", logprobs(probs));
    json_object_set_new(j, "choices", json_pack("[o]", k));
    return j;
}

static void begin(ft_generation *t)
{
    for (int i = 0; i < t->n; i++)
        ft_generation_event(t, NULL,
                            chunk(t, &t->choice[i],
                                  json_pack("{s:s, s:n}", "role", "assistant", "content"), NULL,
                                  NULL));
}

static json_t *call_delta(const ft_generation *t, const ft_choice *c, const ft_piece *p)
{
    const ft_tool_call *k = &c->call[p->call];
    json_t *text = ft_json_string(p->p, p->n);
    if (is_legacy(t) && p->part == FT_PART_CALL)
        return json_pack("{s:{s:o, s:s}}", "function_call", "name", text, "arguments", "");
    if (is_legacy(t)) return json_pack("{s:{s:o}}", "function_call", "arguments", text);
    if (p->part == FT_PART_CALL)
        return json_pack("{s:[{s:i, s:s, s:s, s:{s:o, s:s}}]}", "tool_calls", "index", p->call,
                         "id", k->id, "type", "function", "function", "name", text, "arguments",
                         "");
    return json_pack("{s:[{s:i, s:{s:o}}]}", "tool_calls", "index", p->call, "function",
                     "arguments", text);
}

static void piece(ft_generation *t, ft_choice *c, const ft_piece *p)
{
    json_t *delta;
    switch (p->part) {
    case FT_PART_CALL:
    case FT_PART_ARGS: delta = call_delta(t, c, p); break;
    case FT_PART_THOUGHT:
        delta = json_pack("{s:o}", "reasoning_content", ft_json_string(p->p, p->n));
        if (t->both_thoughts) json_object_set_new(delta, "content", ft_json_string(p->p, p->n));
        break;
    default: delta = json_pack("{s:o}", "content", ft_json_string(p->p, p->n)); break;
    }
    json_t *j = chunk(t, c, delta, NULL, p->logprobs);
    if (json_array_size(p->ids)) json_object_set_new(j, "tokens", json_copy(p->ids));
    if (t->return_drafted) json_object_set_new(j, "drafted", json_boolean(p->drafted));
    ft_live_timings(t, c, NULL, j);
    ft_generation_event(t, NULL, j);
}

static void end(ft_generation *t, ft_choice *c)
{
    json_t *j = chunk(t, c, json_object(), reason_of(t, c), NULL);
    json_object_set_new(j, "timings", ft_timings_json(&c->response));
    if (json_object_get(t->extra, "settings"))
        json_object_set_new(j, "__verbose", ft_native_object(t, c));
    ft_generation_event(t, NULL, j);
}

static void finish(ft_generation *t)
{
    ft_openai_finish(t, head(t, "chat.completion.chunk"));
}

static void progress(ft_generation *t, ft_choice *c, const ft_job_progress *p)
{
    json_t *j = chunk(t, c, json_object(), NULL, NULL);
    json_object_set_new(j, "prompt_progress", ft_progress_json(t, p));
    ft_live_timings(t, c, p, j);
    ft_generation_event(t, NULL, j);
}

/* ---- unstreamed ---- */

static json_t *choice(const ft_generation *t, const ft_choice *c)
{
    json_t *m = json_pack("{s:s, s:o}", "role", "assistant", "content", ft_choice_text(c));
    if (c->thought.len)
        json_object_set_new(m, "reasoning_content",
                            ft_json_string(ft_buf_z(&c->thought), c->thought.len));
    json_t *calls = ft_choice_calls(c);
    if (c->n_call && is_legacy(t))
        json_object_set(m, "function_call", json_object_get(json_array_get(calls, 0), "function"));
    else if (c->n_call)
        json_object_set(m, "tool_calls", calls);
    json_decref(calls);
    json_t *j = json_pack("{s:i, s:o, s:s}", "index", c->index, "message", m, "finish_reason",
                          reason_of(t, c));
    if (t->top_logprobs >= 0) json_object_set_new(j, "logprobs", logprobs(c->logprobs));
    if (t->return_tokens) json_object_set(j, "tokens", c->ids);
    return j;
}

static json_t *whole(ft_generation *t)
{
    json_t *list = json_array();
    for (int i = 0; i < t->n; i++) json_array_append_new(list, choice(t, &t->choice[i]));
    return ft_only_fields(t, ft_openai_whole(t, head(t, "chat.completion"), list));
}

static const ft_api_format SHAPE = {
    .begin = begin,
    .piece = piece,
    .end = end,
    .finish = finish,
    .progress = progress,
    .whole = whole,
};

/* ---- requests ---- */

static bool chat_logprobs(ft_gen_params *a, const json_t *body, ft_http_error *error)
{
    bool wanted = false;
    int top = -1;
    a->r.top_logprobs = -1;
    if (!ft_want_bool(body, "logprobs", &wanted, error)) return false;
    const json_t *v = ft_get(body, "top_logprobs");
    if (v && json_is_number(v) && json_number_value(v) > 20)
        return ft_http_error_set(error, FT_ERR_INVALID, "top_logprobs",
                                 "top_logprobs is %.0f, the maximum is 20", json_number_value(v));
    if (!ft_want_int(body, "top_logprobs", 0, 20, &top, error)) return false;
    if (top > 0 && !wanted)
        return ft_http_error_set(error, FT_ERR_INVALID, "top_logprobs",
                                 "top_logprobs is %d without logprobs, want logprobs to be true",
                                 top);
    if (wanted) a->r.top_logprobs = top < 0 ? 0 : top;
    return true;
}

/* ---- functions, the older form of tools ---- */

static json_t *tools_of(const json_t *functions)
{
    json_t *list = json_array(), *f;
    size_t i;
    json_array_foreach((json_t *)(uintptr_t)functions, i, f)
        json_array_append_new(list, json_pack("{s:s, s:O}", "type", "function", "function", f));
    return list;
}

/* An assistant message with function_call becomes one with tool_calls. */
static json_t *modern_messages(const json_t *messages)
{
    json_t *list = json_array(), *m;
    size_t i;
    json_array_foreach((json_t *)(uintptr_t)messages, i, m)
    {
        json_t *call = ft_get(m, "function_call"), *one = json_incref(m);
        if (call) {
            json_decref(one);
            one = json_copy(m);
            json_object_del(one, "function_call");
            json_object_set_new(one, "tool_calls",
                                json_pack("[{s:s, s:s, s:O}]", "id", "call_0", "type", "function",
                                          "function", call));
        }
        json_array_append_new(list, one);
    }
    return list;
}

/* Replaces functions and function_call in the body by tools and tool_choice. */
static bool modernise(ft_call *c, json_t *extra, ft_http_error *error)
{
    json_t *functions = ft_get(c->body, "functions"), *choice = ft_get(c->body, "function_call");
    char brief[72];
    if (!functions && !choice) return true;
    if (!json_is_array(functions) || ft_get(c->body, "tools"))
        return ft_http_error_set(
            error, FT_ERR_INVALID, "functions", "functions is %s%s, want an array, and no tools",
            ft_json_brief(functions, brief), ft_get(c->body, "tools") ? " beside tools" : "");
    json_t *body = json_copy(c->body);
    json_object_set_new(body, "tools", tools_of(functions));
    json_object_set_new(body, "parallel_tool_calls", json_false());
    json_object_set_new(body, "messages", modern_messages(ft_get(body, "messages")));
    if (choice) json_object_set(body, "tool_choice", choice);
    json_object_set_new(extra, "functions", json_true());
    json_decref(c->body); /* the parameters point into the new body, so the call keeps it */
    c->body = body;
    return true;
}

void ft_run_chat(ft_call *c)
{
    const char *model = NULL;
    bool verbose = c->s->p.verbose;
    ft_http_error error;
    ft_gen_params a;
    ft_chat_prompt p = {0};
    if (!ft_want_text(c->body, "model", &model, &error)) {
        ft_call_fail(c, &error);
        return;
    }
    ft_served *d = ft_call_model(c, model);
    if (!d) return;
    ft_gen_params_init(&a, c->s, d);
    json_t *extra = json_object();
    if (modernise(c, extra, &error) && ft_chat_read(&a, c->s, d, c->body, &p, &error) &&
        chat_logprobs(&a, c->body, &error) && ft_response_fields(c->body, extra, &error) &&
        ft_want_bool(c->body, "verbose", &verbose, &error)) {
        if (verbose) ft_native_extra(extra, d, &a, &p.ids, 1);
        ft_generation_start(c, d, &SHAPE, "chatcmpl-", &a, &p.ids, 1, model, extra);
        ft_chat_release(&p);
    } else {
        json_decref(extra);
        ft_chat_release(&p);
        ft_call_fail(c, &error);
    }
    ft_gen_params_release(&a);
}

/* Controls a running response: ends its reasoning phase. */
void ft_run_chat_control(ft_call *c)
{
    const char *id = NULL, *action = NULL;
    ft_http_error error;
    bool ok = ft_want_text(c->body, "id", &id, &error) &&
              ft_want_text(c->body, "action", &action, &error);
    if (ok && !id)
        ok = ft_http_error_set(&error, FT_ERR_INVALID, "id",
                               "id is missing, want the id of a response");
    if (ok && (!action || strcmp(action, "reasoning_end")))
        ok = ft_http_error_set(&error, FT_ERR_INVALID, "action",
                               "action is \"%.40s\", want reasoning_end", action ? action : "");
    if (!ok) {
        ft_call_fail(c, &error);
        return;
    }
    const bool done = ft_generation_end_thought(c->s, id);
    json_t *j = json_pack("{s:b}", "success", done);
    if (!done)
        json_object_set_new(j, "message", json_string("no response with this id is running"));
    ft_call_json(c, 200, j);
}
