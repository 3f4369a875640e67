/* serve/responses.c - POST /v1/responses: converts input items to messages. Each request carries
 * the whole conversation; nothing is stored. */
#include "serve/responses.h"

#include "base/log.h"
#include "base/mem.h"
#include "serve/images.h"
#include "serve/routes.h"

/* The messages so far. Reasoning and tool calls belong to an assistant message, which may come
 * after them. */
typedef struct builder {
    json_t *list;
    json_t *thought; /* reasoning of the next assistant message */
} builder;

static json_t *last(const builder *m)
{
    const size_t n = json_array_size(m->list);
    return n ? json_array_get(m->list, n - 1) : NULL;
}

static bool is_assistant(const json_t *m)
{
    const char *role = json_string_value(json_object_get(m, "role"));
    return role && !strcmp(role, "assistant");
}

static void append_message(builder *m, const char *role, json_t *content)
{
    json_t *one = ft_chat_message(role, content);
    if (m->thought && !strcmp(role, "assistant")) {
        json_object_set_new(one, "reasoning_content", m->thought);
        m->thought = NULL;
    }
    json_array_append_new(m->list, one);
}

/* A custom tool call has text where a function call has JSON arguments. */
static void put_call(builder *m, const json_t *item, bool custom)
{
    if (!is_assistant(last(m)) || m->thought) append_message(m, "assistant", json_string(""));
    json_t *to = last(m), *calls = json_object_get(to, "tool_calls");
    if (!calls) {
        calls = json_array();
        json_object_set_new(to, "tool_calls", calls);
    }
    json_t *args = custom ? json_pack("{s:O*}", "input", ft_get(item, "input"))
                          : json_incref(ft_get(item, "arguments"));
    json_array_append_new(calls, json_pack("{s:O*, s:s, s:{s:O, s:o*}}", "id",
                                           ft_get(item, "call_id"), "type", "function", "function",
                                           "name", ft_get(item, "name"), "arguments", args));
}

static bool put_output(builder *m, const json_t *item, ft_http_error *error)
{
    json_t *text = NULL, *out = ft_get(item, "output");
    if (out && !ft_chat_text(out, "input", &text, error)) return false;
    append_message(m, "tool", text ? text : json_string(""));
    json_t *id = ft_get(item, "call_id");
    if (id) json_object_set(last(m), "tool_call_id", id);
    return true;
}

static bool put_thought(builder *m, const json_t *item, ft_http_error *error)
{
    const json_t *content = ft_get(item, "content");
    if (!json_array_size(content)) content = ft_get(item, "summary");
    json_decref(m->thought);
    m->thought = NULL;
    return !json_array_size(content) || ft_chat_text(content, "input", &m->thought, error);
}

static bool is(const json_t *item, const char *type)
{
    const char *t = json_string_value(ft_get(item, "type"));
    return t && !strcmp(t, type);
}

static bool put_message(builder *m, const json_t *item, size_t i, ft_http_error *error)
{
    const char *role = json_string_value(ft_get(item, "role"));
    const json_t *content = ft_get(item, "content");
    char brief[72];
    json_t *text = NULL;
    if (!role)
        return ft_http_error_set(error, FT_ERR_INVALID, "input", "input[%zu] is %s, want a role", i,
                                 ft_json_brief(item, brief));
    if (!content)
        return ft_http_error_set(error, FT_ERR_INVALID, "input", "input[%zu] has no content", i);
    if (ft_images_in(content))
        text = json_incref((json_t *)(uintptr_t)content); /* the chat parser handles these parts */
    else if (!ft_chat_text(content, "input", &text, error))
        return false;
    append_message(m, role, text);
    return true;
}

static bool put_item(builder *m, const json_t *item, size_t i, ft_http_error *error)
{
    char brief[72];
    const bool call = is(item, "function_call"), custom = is(item, "custom_tool_call");
    if (json_is_string(item)) {
        append_message(m, "user", json_copy((json_t *)(uintptr_t)item));
        return true;
    }
    if (!json_is_object(item))
        return ft_http_error_set(error, FT_ERR_INVALID, "input", "input[%zu] is %s, want an object",
                                 i, ft_json_brief(item, brief));
    if (is(item, "message") || (!ft_get(item, "type") && ft_get(item, "role")))
        return put_message(m, item, i, error);
    if (is(item, "reasoning")) return put_thought(m, item, error);
    if (is(item, "function_call_output") || is(item, "custom_tool_call_output"))
        return put_output(m, item, error);
    if ((call || custom) && json_is_string(ft_get(item, "name"))) {
        put_call(m, item, custom);
        return true;
    }
    /* newer clients send item types that are not known here */
    ft_log(FT_LOG_INFO, "responses: input[%zu] was skipped: %s", i, ft_json_brief(item, brief));
    return true;
}

static bool input(const json_t *body, json_t *list, ft_http_error *error)
{
    const json_t *in = ft_get(body, "input"), *instructions = ft_get(body, "instructions"), *item;
    char brief[72];
    size_t i;
    builder m = {list, NULL};
    if (json_is_string(instructions))
        append_message(&m, "system", json_copy((json_t *)(uintptr_t)instructions));
    if (json_is_string(in)) {
        append_message(&m, "user", json_copy((json_t *)(uintptr_t)in));
        return true;
    }
    if (!json_is_array(in))
        return ft_http_error_set(error, FT_ERR_INVALID, "input",
                                 "input is %s, want a string or an array",
                                 ft_json_brief(in, brief));
    bool ok = true;
    json_array_foreach(in, i, item) if (ok) ok = put_item(&m, item, i, error);
    json_decref(m.thought);
    return ok;
}

/* ---- tools and the rest ---- */

static void tools(const json_t *body, json_t *out)
{
    const json_t *list = ft_get(body, "tools"), *t;
    size_t i;
    if (!json_is_array(list)) return;
    json_t *f = json_array();
    json_array_foreach(list, i, t)
    {
        if (!is(t, "function")) { /* the chat parser handles these */
            json_array_append(f, (json_t *)(uintptr_t)t);
            continue;
        }
        json_array_append_new(f, json_pack("{s:s, s:{s:O*, s:O*, s:O*}}", "type", "function",
                                           "function", "name", ft_get(t, "name"), "description",
                                           ft_get(t, "description"), "parameters",
                                           ft_get(t, "parameters")));
    }
    json_object_set_new(out, "tools", f);
    if (!json_array_size(f)) json_object_del(out, "tool_choice");
}

static void format(const json_t *body, json_t *out)
{
    json_t *f = ft_get(ft_get(body, "text"), "format");
    json_object_del(out, "text");
    if (f) json_object_set(out, "response_format", f);
}

/* Refuses what needs stored responses or conversations. */
static bool is_stateless(const json_t *body, ft_http_error *error)
{
    static const char *const stored[] = {"previous_response_id", "conversation", "prompt"};
    bool background = false;
    for (size_t i = 0; i < FT_COUNT(stored); i++)
        if (ft_get(body, stored[i]))
            return ft_http_error_set(error, FT_ERR_INVALID, stored[i],
                                     "%s is not supported, want the whole conversation in input",
                                     stored[i]);
    if (!ft_want_bool(body, "background", &background, error)) return false;
    if (!background) return true;
    return ft_http_error_set(error, FT_ERR_INVALID, "background",
                             "background is true, want false: responses are not stored");
}

json_t *ft_responses_body(const json_t *body, ft_http_error *error)
{
    if (!is_stateless(body, error)) return NULL;
    json_t *out = json_copy((json_t *)(uintptr_t)body), *list = json_array();
    json_object_set_new(out, "messages", list);
    /* these fields have another meaning in this API, or are not supported */
    json_object_del(out, "top_logprobs");
    json_object_del(out, "logprobs");
    tools(body, out);
    format(body, out);
    json_t *effort = ft_get(ft_get(body, "reasoning"), "effort");
    if (effort) json_object_set(out, "reasoning_effort", effort);
    if (input(body, list, error)) return out;
    json_decref(out);
    return NULL;
}

static void run_responses(ft_call *c, bool count)
{
    const char *model = NULL;
    ft_http_error error;
    ft_gen_params a;
    ft_chat_prompt p = {0};
    ft_served *d = ft_call_model(c, NULL);
    if (!d) return;
    json_t *chat = NULL;
    ft_gen_params_init(&a, c->s, d);
    const bool ok = ft_want_text(c->body, "model", &model, &error) &&
                    (chat = ft_responses_body(c->body, &error)) != NULL &&
                    ft_chat_read(&a, c->s, d, chat, &p, &error);
    if (!ok) {
        ft_call_fail(c, &error);
    } else if (count) {
        ft_call_json(
            c, 200,
            json_pack("{s:s, s:i}", "object", "response.input_tokens", "input_tokens", p.ids.n));
    } else {
        a.r.top_logprobs = -1;
        a.n = 1;
        ft_generation_start(c, d, &ft_responses_format, "resp_", &a, &p.ids, 1, model,
                            json_incref(c->body));
    }
    ft_chat_release(&p);
    ft_gen_params_release(&a);
    json_decref(chat);
}

void ft_run_responses(ft_call *c)
{
    run_responses(c, false);
}

void ft_run_responses_count(ft_call *c)
{
    run_responses(c, true);
}
