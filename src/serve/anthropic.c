/* serve/anthropic.c - POST /v1/messages: converts an Anthropic body to an OpenAI chat body. */
#include "serve/anthropic.h"

#include "base/mem.h"
#include "serve/images.h"
#include "serve/routes.h"

#include <stdlib.h>

enum { DEFAULT_MAX_TOKENS = 4096 };

static const char *type_of(const json_t *block)
{
    const char *t = json_string_value(ft_get(block, "type"));
    return t ? t : "";
}

static bool is(const json_t *block, const char *type)
{
    return !strcmp(type_of(block), type);
}

/* ---- messages ---- */

/* Appends a string, or the text blocks of an array separated by newlines. */
static bool put_texts(const json_t *v, const char *param, ft_buf *out, ft_http_error *error)
{
    char brief[72];
    const json_t *b;
    size_t i;
    if (json_is_string(v)) {
        ft_buf_put(out, json_string_value(v), json_string_length(v));
        return true;
    }
    if (!json_is_array(v))
        return ft_http_error_set(error, FT_ERR_INVALID, param,
                                 "%s is %s, want a string or an array of blocks", param,
                                 ft_json_brief(v, brief));
    json_array_foreach(v, i, b)
    {
        const json_t *t = ft_get(b, "text");
        if (!is(b, "text") || !json_is_string(t))
            return ft_http_error_set(error, FT_ERR_INVALID, param,
                                     "%s[%zu] is %s, want a text block", param, i,
                                     ft_json_brief(b, brief));
        if (out->len) ft_buf_putc(out, '\n');
        ft_buf_put(out, json_string_value(t), json_string_length(t));
    }
    return true;
}

static bool put_message(json_t *list, const char *role, const json_t *v, const char *param,
                        ft_http_error *error)
{
    ft_buf b;
    ft_buf_init(&b, SIZE_MAX / 2);
    const bool ok = put_texts(v, param, &b, error);
    if (ok) json_array_append_new(list, ft_chat_message(role, json_stringn(ft_buf_z(&b), b.len)));
    ft_buf_release(&b);
    return ok;
}

/* Appends a tool message whose result has images. */
static bool put_result_with_images(json_t *list, const json_t *content, size_t i,
                                   ft_http_error *error)
{
    json_t *parts = json_array();
    const json_t *b;
    size_t k;
    bool ok = true;
    json_array_foreach(content, k, b)
    {
        json_t *part = is(b, "image") ? ft_images_from_anthropic(b, i, error)
                                      : json_incref((json_t *)(uintptr_t)b);
        ok = ok && part;
        if (part) json_array_append_new(parts, part);
    }
    if (ok) json_array_append_new(list, ft_chat_message("tool", json_incref(parts)));
    json_decref(parts);
    return ok;
}

static bool tool_result(json_t *list, const json_t *block, size_t i, ft_http_error *error)
{
    const json_t *content = ft_get(block, "content"), *id = ft_get(block, "tool_use_id");
    json_t *empty = json_string("");
    const bool ok = ft_images_in(content) ? put_result_with_images(list, content, i, error)
                                          : put_message(list, "tool", content ? content : empty,
                                                        "tool_result.content", error);
    json_decref(empty);
    json_t *m = json_array_get(list, json_array_size(list) - 1);
    if (ok && json_is_string(id)) json_object_set(m, "tool_call_id", (json_t *)(uintptr_t)id);
    return ok;
}

static json_t *tool_use(const json_t *block)
{
    json_t *input = ft_get(block, "input");
    char *args = json_is_object(input) ? json_dumps(input, JSON_COMPACT) : ft_strdup("{}");
    json_t *j = json_pack("{s:O?, s:s, s:{s:O?, s:s}}", "id", ft_get(block, "id"), "type",
                          "function", "function", "name", ft_get(block, "name"), "arguments", args);
    free(args);
    return j;
}

/* The content of one message, by kind. */
typedef struct parts {
    ft_buf text, thought;
    json_t *calls, *images;
} parts;

static bool take_block(parts *p, json_t *list, const json_t *b, size_t i, ft_http_error *error)
{
    char brief[72];
    const json_t *t = ft_get(b, is(b, "thinking") ? "thinking" : "text");
    if ((is(b, "text") || is(b, "thinking")) && json_is_string(t)) {
        ft_buf *to = is(b, "text") ? &p->text : &p->thought;
        if (to->len) ft_buf_putc(to, '\n');
        ft_buf_put(to, json_string_value(t), json_string_length(t));
        return true;
    }
    if (is(b, "redacted_thinking")) return true;
    if (is(b, "tool_result")) return tool_result(list, b, i, error);
    if (is(b, "tool_use") && json_is_string(ft_get(b, "name"))) {
        json_array_append_new(p->calls, tool_use(b));
        return true;
    }
    if (is(b, "image")) {
        json_t *part = ft_images_from_anthropic(b, i, error);
        if (part) json_array_append_new(p->images, part);
        return part != NULL;
    }
    if (is(b, "document"))
        return ft_http_error_set(
            error, FT_ERR_INVALID, "messages",
            "messages[%zu] has a block of type document, want text or an image", i);
    return ft_http_error_set(
        error, FT_ERR_INVALID, "messages",
        "messages[%zu] has the block %s, want text, thinking, tool_use or tool_result", i,
        ft_json_brief(b, brief));
}

static bool put_blocks(json_t *list, const char *role, const json_t *content, size_t i,
                       ft_http_error *error)
{
    parts p = {.calls = json_array(), .images = json_array()};
    const json_t *b;
    size_t k;
    bool ok = true;
    ft_buf_init(&p.text, SIZE_MAX / 2);
    ft_buf_init(&p.thought, SIZE_MAX / 2);
    const size_t before = json_array_size(list);
    json_array_foreach(content, k, b) if (ok) ok = take_block(&p, list, b, i, error);
    const bool only_results =
        json_array_size(list) > before && !p.text.len && !json_array_size(p.images);
    if (ok && !only_results) {
        json_t *text = json_stringn(ft_buf_z(&p.text), p.text.len);
        json_t *m = ft_chat_message(role, ft_images_before(p.images, text));
        if (p.thought.len)
            json_object_set_new(m, "reasoning_content",
                                json_stringn(ft_buf_z(&p.thought), p.thought.len));
        if (json_array_size(p.calls)) json_object_set(m, "tool_calls", p.calls);
        json_array_append_new(list, m);
    }
    json_decref(p.calls);
    json_decref(p.images);
    ft_buf_release(&p.text);
    ft_buf_release(&p.thought);
    return ok;
}

static bool messages(const json_t *body, json_t *list, ft_http_error *error)
{
    const json_t *system = ft_get(body, "system"), *all = ft_get(body, "messages"), *m;
    char brief[72];
    size_t i;
    if (system && !put_message(list, "system", system, "system", error)) return false;
    if (!json_is_array(all) || !json_array_size(all))
        return ft_http_error_set(error, FT_ERR_INVALID, "messages",
                                 "messages is %s, want a non-empty array",
                                 ft_json_brief(all, brief));
    json_array_foreach(all, i, m)
    {
        const char *role = json_string_value(ft_get(m, "role"));
        const json_t *content = ft_get(m, "content");
        if (!role || (strcmp(role, "user") && strcmp(role, "assistant") && strcmp(role, "system")))
            return ft_http_error_set(error, FT_ERR_INVALID, "messages",
                                     "messages[%zu].role is %s, want user or assistant", i,
                                     ft_json_brief(ft_get(m, "role"), brief));
        const bool ok = json_is_array(content)
                            ? put_blocks(list, role, content, i, error)
                            : put_message(list, role, content, "messages", error);
        if (!ok) return false;
    }
    return true;
}

/* ---- tools, tool_choice, thinking ---- */

static bool tools(const json_t *body, json_t *out, ft_http_error *error)
{
    const json_t *list = ft_get(body, "tools"), *t;
    char brief[72];
    size_t i;
    if (!list) return true;
    json_t *f = json_array();
    json_object_set_new(out, "tools", f);
    if (!json_is_array(list))
        return ft_http_error_set(error, FT_ERR_INVALID, "tools", "tools is %s, want an array",
                                 ft_json_brief(list, brief));
    json_array_foreach(list, i, t)
    {
        if (ft_get(t, "type") && !is(t, "custom")) { /* a server tool: the chat parser handles it */
            json_array_append(f, (json_t *)(uintptr_t)t);
            continue;
        }
        if (!json_is_string(ft_get(t, "name")))
            return ft_http_error_set(error, FT_ERR_INVALID, "tools",
                                     "tools[%zu] is %s, want a name", i, ft_json_brief(t, brief));
        json_array_append_new(f, json_pack("{s:s, s:{s:O, s:O*, s:O*}}", "type", "function",
                                           "function", "name", ft_get(t, "name"), "description",
                                           ft_get(t, "description"), "parameters",
                                           ft_get(t, "input_schema")));
    }
    return true;
}

static bool tool_choice(const json_t *body, json_t *out, ft_http_error *error)
{
    const json_t *v = ft_get(body, "tool_choice");
    char brief[72];
    json_object_del(out, "tool_choice");
    if (!v) return true;
    bool one = false;
    if (!ft_want_bool(v, "disable_parallel_tool_use", &one, error)) return false;
    if (one) json_object_set_new(out, "parallel_tool_calls", json_false());
    if (is(v, "auto") || is(v, "none"))
        json_object_set_new(out, "tool_choice", json_string(type_of(v)));
    else if (is(v, "any"))
        json_object_set_new(out, "tool_choice", json_string("required"));
    else if (is(v, "tool") && json_is_string(ft_get(v, "name")))
        json_object_set_new(
            out, "tool_choice",
            json_pack("{s:s, s:{s:O}}", "type", "function", "function", "name", ft_get(v, "name")));
    else
        return ft_http_error_set(
            error, FT_ERR_INVALID, "tool_choice",
            "tool_choice is %s, want the type auto, any, tool (with a name) or none",
            ft_json_brief(v, brief));
    return true;
}

static bool thinking(const json_t *body, json_t *out, ft_http_error *error)
{
    json_t *v = ft_get(body, "thinking");
    char brief[72];
    if (!v) return true;
    json_t *kwargs = json_object_get(out, "chat_template_kwargs");
    kwargs = json_is_object(kwargs) ? json_copy(kwargs) : json_object();
    json_object_set_new(out, "chat_template_kwargs", kwargs);
    if (is(v, "disabled")) {
        json_object_set_new(kwargs, "enable_thinking", json_false());
        return true;
    }
    if (!is(v, "enabled") && !is(v, "adaptive"))
        return ft_http_error_set(error, FT_ERR_INVALID, "thinking",
                                 "thinking is %s, want the type enabled, adaptive or disabled",
                                 ft_json_brief(v, brief));
    json_object_set_new(kwargs, "enable_thinking", json_true());
    return true;
}

/* output_config: {"format": {"type": "json_schema", "schema": ...}, "effort": ...}; an older name
 * of the format is output_format. */
static bool output_config(const json_t *body, json_t *out, ft_http_error *error)
{
    const json_t *config = ft_get(body, "output_config");
    const char *effort = NULL;
    char brief[72];
    if (config && !json_is_object(config))
        return ft_http_error_set(error, FT_ERR_INVALID, "output_config",
                                 "output_config is %s, want an object",
                                 ft_json_brief(config, brief));
    json_t *format = ft_get(config, "format");
    if (!format) format = ft_get(body, "output_format");
    if (format && (!is(format, "json_schema") || !ft_get(format, "schema")))
        return ft_http_error_set(error, FT_ERR_INVALID, "output_config.format",
                                 "output_config.format is %s, want the type json_schema and a "
                                 "schema",
                                 ft_json_brief(format, brief));
    if (format) json_object_set(out, "response_format", format);
    if (!ft_want_text(config, "effort", &effort, error)) return false;
    if (effort) json_object_set_new(out, "reasoning_effort", json_string(effort));
    return true;
}

/* Tools and containers that run on Anthropic's servers. */
static bool is_local(const json_t *body, ft_http_error *error)
{
    static const char *const remote[] = {"mcp_servers", "container"};
    for (size_t i = 0; i < FT_COUNT(remote); i++) {
        const json_t *v = ft_get(body, remote[i]);
        if (v && (!json_is_array(v) || json_array_size(v)))
            return ft_http_error_set(error, FT_ERR_INVALID, remote[i],
                                     "%s is not supported, want tools that the client runs",
                                     remote[i]);
    }
    return true;
}

json_t *ft_anthropic_body(const json_t *body, ft_http_error *error)
{
    json_t *out = json_copy((json_t *)(uintptr_t)body), *list = json_array();
    json_object_set_new(out, "messages", list);
    if (!ft_get(body, "max_tokens"))
        json_object_set_new(out, "max_tokens", json_integer(DEFAULT_MAX_TOKENS));
    if (messages(body, list, error) && tools(body, out, error) && tool_choice(body, out, error) &&
        thinking(body, out, error) && output_config(body, out, error) && is_local(body, error))
        return out;
    json_decref(out);
    return NULL;
}

/* ---- routes ---- */

static bool read_request(ft_call *c, ft_served *d, ft_gen_params *a, ft_chat_prompt *p,
                         ft_http_error *error)
{
    json_t *chat = ft_anthropic_body(c->body, error);
    if (!chat) return false;
    json_decref(c->body); /* the parameters point into the new body, so the call keeps it */
    c->body = chat;
    return ft_chat_read(a, c->s, d, chat, p, error);
}

static void run_messages(ft_call *c, bool count)
{
    const char *model = NULL;
    ft_http_error error;
    ft_gen_params a;
    ft_chat_prompt p = {0};
    ft_served *d = ft_call_model(c, NULL);
    if (!d) return;
    ft_gen_params_init(&a, c->s, d);
    if (!ft_want_text(c->body, "model", &model, &error) || !read_request(c, d, &a, &p, &error)) {
        ft_call_fail(c, &error);
    } else if (count) {
        ft_call_json(c, 200, json_pack("{s:i}", "input_tokens", ft_images_count(&a, d, p.ids.n)));
    } else {
        a.r.top_logprobs = -1;
        a.n = 1;
        model = json_string_value(ft_get(c->body, "model"));
        ft_generation_start(c, d, &ft_anthropic_format, "msg_", &a, &p.ids, 1, model, NULL);
    }
    ft_chat_release(&p);
    ft_gen_params_release(&a);
}

void ft_run_messages(ft_call *c)
{
    run_messages(c, false);
}

void ft_run_messages_count(ft_call *c)
{
    run_messages(c, true);
}
