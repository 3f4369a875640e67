#include "serve/chat.h"

#include "base/mem.h"
#include "serve/images.h"
#include "serve/tools.h"

#include <stdlib.h>

/* ---- messages ---- */

json_t *ft_chat_message(const char *role, json_t *content)
{
    json_t *m = json_object();
    json_object_set_new(m, "role", json_string(role));
    json_object_set_new(m, "content", content ? content : json_null());
    return m;
}

static bool part_text(ft_buf *out, const json_t *part, const char *param, ft_http_error *error)
{
    static const char *const texts[] = {"text",    "input_text",   "output_text",
                                        "refusal", "summary_text", "reasoning_text"};
    char brief[72];
    const char *type = json_string_value(ft_get(part, "type"));
    if (json_is_string(part)) {
        ft_buf_put(out, json_string_value(part), json_string_length(part));
        return true;
    }
    if (!json_is_object(part))
        return ft_http_error_set(error, FT_ERR_INVALID, param, "%s has the part %s, want an object",
                                 param, ft_json_brief(part, brief));
    for (size_t i = 0; i < FT_COUNT(texts); i++) {
        if (type && strcmp(type, texts[i])) continue;
        const json_t *t = ft_get(part, "text");
        if (!t && type && !strcmp(type, "refusal")) t = ft_get(part, "refusal");
        if (!json_is_string(t)) break;
        ft_buf_put(out, json_string_value(t), json_string_length(t));
        return true;
    }
    if (type && (strstr(type, "image") || strstr(type, "audio") || strstr(type, "video")))
        return ft_http_error_set(error, FT_ERR_INVALID, param,
                                 "%s has a part of type %.40s, want text here", param, type);
    return ft_http_error_set(error, FT_ERR_INVALID, param,
                             "%s has the part %s, want {\"type\":\"text\",...}", param,
                             ft_json_brief(part, brief));
}

bool ft_chat_text(const json_t *content, const char *param, json_t **out, ft_http_error *error)
{
    char brief[72];
    const json_t *part;
    size_t i;
    if (json_is_string(content)) {
        *out = json_copy((json_t *)(uintptr_t)content);
        return true;
    }
    if (!json_is_array(content))
        return ft_http_error_set(error, FT_ERR_INVALID, param,
                                 "%s is %s, want a string or an array of parts", param,
                                 ft_json_brief(content, brief));
    ft_buf b;
    ft_buf_init(&b, SIZE_MAX / 2);
    bool ok = true;
    json_array_foreach(content, i, part)
    {
        if (ok && i) ft_buf_putc(&b, '\n');
        ok = ok && part_text(&b, part, param, error);
    }
    if (ok) *out = json_stringn(ft_buf_z(&b), b.len);
    ft_buf_release(&b);
    return ok;
}

static bool check_calls(const json_t *calls, ft_http_error *error)
{
    const json_t *k;
    size_t i;
    char brief[72];
    if (!json_is_array(calls))
        return ft_http_error_set(error, FT_ERR_INVALID, "messages",
                                 "tool_calls is %s, want an array", ft_json_brief(calls, brief));
    json_array_foreach(calls, i, k)
    {
        const json_t *f = ft_get(k, "function"), *args = ft_get(f, "arguments");
        if (!json_is_string(ft_get(f, "name")) ||
            (args && !json_is_string(args) && !json_is_object(args)))
            return ft_http_error_set(error, FT_ERR_INVALID, "messages",
                                     "tool_calls has %s, want a function with a name and arguments",
                                     ft_json_brief(k, brief));
    }
    return true;
}

/* Copies the calls with their arguments as objects, which templates expect. Arguments that are not
 * a JSON object (truncated JSON or plain text) become {"arguments": text}. */
static json_t *plain_calls(const json_t *calls)
{
    json_t *out = json_deep_copy(calls), *k;
    size_t i;
    json_array_foreach(out, i, k)
    {
        json_t *f = json_object_get(k, "function"), *args = ft_get(f, "arguments");
        json_t *parsed = json_is_string(args) && json_string_length(args)
                             ? json_loads(json_string_value(args), 0, NULL)
                             : json_object();
        if (json_is_object(args)) {
            json_decref(parsed);
        } else if (json_is_object(parsed)) {
            json_object_set_new(f, "arguments", parsed);
        } else {
            json_decref(parsed);
            json_object_set_new(f, "arguments", json_pack("{s:O}", "arguments", args));
        }
    }
    return out;
}

static const char *role_of(const json_t *m, size_t i, ft_http_error *error)
{
    static const char *const role[] = {"system",    "developer", "user",
                                       "assistant", "tool",      "function"};
    char brief[72];
    const char *r = json_string_value(ft_get(m, "role"));
    for (size_t k = 0; r && k < FT_COUNT(role); k++)
        if (!strcmp(r, role[k])) return k == 5 ? role[4] : role[k];
    ft_http_error_set(error, FT_ERR_INVALID, "messages",
                      "messages[%zu].role is %s, want system, developer, user, assistant or tool",
                      i, ft_json_brief(ft_get(m, "role"), brief));
    return NULL;
}

/* The content of message i: its text, or an array of parts if it has images. */
static bool content_of(ft_gen_params *a, const ft_served *d, const json_t *content, size_t i,
                       json_t **out, ft_http_error *error)
{
    if (!ft_images_in(content)) return ft_chat_text(content, "messages", out, error);
    return ft_images_read(a, d, content, i, out, error);
}

/* One message in the form that templates expect: content as a string or parts, no null fields. */
static json_t *message(ft_gen_params *a, const ft_served *d, const json_t *m, size_t i,
                       ft_http_error *error)
{
    char brief[72];
    if (!json_is_object(m)) {
        ft_http_error_set(error, FT_ERR_INVALID, "messages", "messages[%zu] is %s, want an object",
                          i, ft_json_brief(m, brief));
        return NULL;
    }
    const char *role = role_of(m, i, error);
    if (!role) return NULL;
    const json_t *content = ft_get(m, "content"), *calls = ft_get(m, "tool_calls");
    const bool assistant = !strcmp(role, "assistant");
    json_t *text = NULL;
    if (!content && !assistant) {
        ft_http_error_set(error, FT_ERR_INVALID, "messages",
                          "messages[%zu] has the role %s and no content", i, role);
        return NULL;
    }
    if (content && !content_of(a, d, content, i, &text, error)) return NULL;
    if (calls && !check_calls(calls, error)) {
        json_decref(text);
        return NULL;
    }
    json_t *out = json_copy((json_t *)(uintptr_t)m), *v;
    const char *key;
    void *next;
    json_object_foreach_safe(out, next, key, v) if (json_is_null(v)) json_object_del(out, key);
    json_object_set_new(out, "role", json_string(role));
    json_object_set_new(out, "content", text ? text : json_string(""));
    if (json_array_size(calls))
        json_object_set_new(out, "tool_calls", plain_calls(calls));
    else
        json_object_del(out, "tool_calls");
    return out;
}

/* Lines that some clients put at the start of the system message and that change with each request,
 * so the cached prompt could never be reused. */
static bool noise(const char *line)
{
    static const char *const begin[] = {"x-anthropic-billing-header:", "Token usage:"};
    for (size_t i = 0; i < FT_COUNT(begin); i++)
        if (!strncmp(line, begin[i], strlen(begin[i]))) return true;
    return false;
}

static void normalize(json_t *m)
{
    const char *role = json_string_value(json_object_get(m, "role"));
    const char *p = json_string_value(json_object_get(m, "content"));
    ft_buf b;
    if (!p) return; /* an array of parts */
    if (strcmp(role, "system") && strcmp(role, "developer")) return;
    ft_buf_init(&b, SIZE_MAX / 2);
    while (*p) {
        const size_t n = strcspn(p, "\n"), line = n + (p[n] == '\n');
        if (!noise(p)) ft_buf_put(&b, p, line);
        p += line;
    }
    json_object_set_new(m, "content", json_stringn(ft_buf_z(&b), b.len));
    ft_buf_release(&b);
}

static bool messages(ft_gen_params *a, const ft_server *s, const ft_served *d, const json_t *body,
                     json_t **out, ft_http_error *error)
{
    const json_t *list = ft_get(body, "messages"), *m;
    char brief[72];
    size_t i;
    if (!json_is_array(list) || !json_array_size(list))
        return ft_http_error_set(error, FT_ERR_INVALID, "messages",
                                 "messages is %s, want an array with at least one message",
                                 ft_json_brief(list, brief));
    if (json_array_size(list) > FT_CHAT_MESSAGES)
        return ft_http_error_set(error, FT_ERR_INVALID, "messages",
                                 "messages has %zu entries, the maximum is %d",
                                 json_array_size(list), FT_CHAT_MESSAGES);
    *out = json_array();
    json_array_foreach(list, i, m)
    {
        json_t *one = message(a, d, m, i, error);
        if (!one) {
            json_decref(*out);
            *out = NULL;
            return false;
        }
        if (s->p.normalize) normalize(one);
        json_array_append_new(*out, one);
    }
    return true;
}

/* ---- template options ---- */

static bool choose(const char *word, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(word, list[i])) return true;
    return false;
}

static bool reasoning_format(ft_gen_params *a, const ft_server *s, const json_t *body,
                             ft_http_error *error)
{
    static const char *const known[] = {"none", "auto", "deepseek", "deepseek-legacy"};
    const char *f = s->p.reasoning_format;
    if (!ft_want_text(body, "reasoning_format", &f, error)) return false;
    if (!choose(f, known, FT_COUNT(known)))
        return ft_http_error_set(error, FT_ERR_INVALID, "reasoning_format",
                                 "reasoning_format is \"%.40s\", want none, auto, deepseek or "
                                 "deepseek-legacy",
                                 f);
    a->r.keep_thoughts = !strcmp(f, "none");
    a->both_thoughts = !strcmp(f, "deepseek-legacy");
    return true;
}

static bool template_options(const ft_server *s, const json_t *body, json_t *o,
                             ft_http_error *error)
{
    char brief[72];
    json_t *kwargs = ft_get(body, "chat_template_kwargs");
    const char *effort = s->p.reasoning_effort;
    if (strcmp(s->p.thinking, "auto"))
        json_object_set_new(o, "enable_thinking", json_boolean(!strcmp(s->p.thinking, "on")));
    if (kwargs && !json_is_object(kwargs))
        return ft_http_error_set(error, FT_ERR_INVALID, "chat_template_kwargs",
                                 "chat_template_kwargs is %s, want an object",
                                 ft_json_brief(kwargs, brief));
    if (!ft_want_text(body, "reasoning_effort", &effort, error)) return false;
    if (effort && !strcmp(effort, "none"))
        json_object_set_new(o, "enable_thinking", json_false());
    else if (effort)
        json_object_set_new(o, "reasoning_effort", json_string(effort));
    if (kwargs) json_object_update(o, kwargs);
    const json_t *think = json_object_get(o, "enable_thinking");
    if (!think || json_is_boolean(think)) return true;
    return ft_http_error_set(error, FT_ERR_INVALID, "chat_template_kwargs",
                             "enable_thinking is %s, want true or false",
                             ft_json_brief(think, brief));
}

/* ---- continuing an assistant message (prefill) ---- */

static bool is_assistant(const json_t *list, size_t back)
{
    const size_t n = json_array_size(list);
    if (back > n) return false;
    const char *role = json_string_value(ft_get(json_array_get(list, n - back), "role"));
    return role && !strcmp(role, "assistant");
}

/* Removes the last message from the list if it is to be continued. Its text is already part of the
 * answer, so thinking is disabled. */
static bool prefill(const json_t *body, json_t *list, json_t *o, json_t **begun,
                    ft_http_error *error)
{
    bool add = true, go_on = false;
    *begun = NULL;
    if (!ft_want_bool(body, "add_generation_prompt", &add, error) ||
        !ft_want_bool(body, "continue_final_message", &go_on, error))
        return false;
    if (go_on && ft_get(body, "add_generation_prompt") && add)
        return ft_http_error_set(
            error, FT_ERR_INVALID, "continue_final_message",
            "both continue_final_message and add_generation_prompt are true, want one of them");
    const size_t n = json_array_size(list);
    const json_t *last = json_array_get(list, n - 1);
    const bool open = is_assistant(list, 1) && !ft_get(last, "tool_calls") &&
                      json_is_string(ft_get(last, "content"));
    if (go_on && !open)
        return ft_http_error_set(error, FT_ERR_INVALID, "continue_final_message",
                                 "there is no assistant message at the end to continue");
    json_object_set_new(o, "add_generation_prompt", json_boolean(add || open));
    if (!open || (!add && !go_on)) return true;
    if (is_assistant(list, 2))
        return ft_http_error_set(error, FT_ERR_INVALID, "messages",
                                 "there are two assistant messages at the end, want at most one");
    *begun = json_incref(ft_get(last, "content"));
    json_array_remove(list, n - 1);
    if (!n || !json_array_size(list))
        json_array_append_new(list, ft_chat_message("user", json_string("")));
    json_object_set_new(o, "enable_thinking", json_false());
    return true;
}

/* ---- the prompt ---- */

bool ft_encode_prompt(const ft_served *d, const char *text, size_t n, ft_prompt *out,
                      ft_http_error *error)
{
    ft_err err;
    size_t n_ids;
    const unsigned flags = FT_ENCODE_ADD_SPECIAL | FT_ENCODE_PARSE_SPECIAL;
    const ft_status st = ft_vocab_encode(d->vocab, text, n, flags, &out->ids, &n_ids, &err);
    if (st) return ft_http_error_from(error, st, NULL, &err);
    out->n = (int)FT_MIN(n_ids, (size_t)INT32_MAX);
    return true;
}

static bool render(ft_gen_params *a, const ft_served *d, const json_t *list, const json_t *o,
                   const json_t *begun, ft_chat_prompt *out, ft_http_error *error)
{
    char *l = json_dumps(list, JSON_COMPACT), *options = json_dumps(o, JSON_COMPACT), *text = NULL;
    ft_err err;
    const ft_status st = ft_llm_render(d->llm, l, options, &text, &a->r.in_thought, &err);
    free(l);
    free(options);
    if (st) return ft_http_error_from(error, st, "messages", &err);
    const size_t n = strlen(text), more = json_string_length(begun);
    out->text = realloc(text, n + more + 1);
    if (more) memcpy(out->text + n, json_string_value(begun), more + 1);
    a->r.parse = true;
    return ft_encode_prompt(d, out->text, n + more, &out->ids, error);
}

bool ft_chat_read(ft_gen_params *a, ft_server *s, const ft_served *d, const json_t *body,
                  ft_chat_prompt *out, ft_http_error *error)
{
    json_t *list = NULL, *begun = NULL, *o = json_deep_copy(s->kwargs);
    *out = (ft_chat_prompt){0};
    const bool ok =
        ft_gen_params_fields(a, d, body, error) && messages(a, s, d, body, &list, error) &&
        reasoning_format(a, s, body, error) && template_options(s, body, o, error) &&
        prefill(body, list, o, &begun, error) && ft_tools_read(a, d, body, o, error) &&
        render(a, d, list, o, begun, out, error) && ft_tools_constrain(a, d, body, error);
    json_decref(list);
    json_decref(begun);
    json_decref(o);
    if (!ok) ft_chat_release(out);
    return ok;
}

void ft_chat_release(ft_chat_prompt *p)
{
    free(p->text);
    free(p->ids.ids);
    *p = (ft_chat_prompt){0};
}
