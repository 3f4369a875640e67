/* text/chat.c - renders messages to prompts with the chat template of the model. */
#define _POSIX_C_SOURCE 200809L
#include "text/chat.h"

#include "base/mem.h"

#include <time.h>

struct ft_chat_template {
    ft_jinja *jinja;
    ft_buf bos, eos;
    ft_chat_family family;
    bool knows_developer;
};

enum { MAX_TOKEN_TEXT = 1 << 16 };

static bool has(ft_str source, const char *z)
{
    return ft_str_find(source, ft_str_of(z), 0) != SIZE_MAX;
}

ft_chat_family ft_chat_detect(ft_str source)
{
    if (has(source, "<|channel>") || has(source, "<|tool_call>")) return FT_CHAT_GEMMA4;
    if (has(source, "<think>") || has(source, "<tool_call>")) return FT_CHAT_QWEN;
    return FT_CHAT_PLAIN;
}

ft_status ft_chat_new(ft_chat_template **out, ft_str source, ft_str bos, ft_str eos, ft_err *err)
{
    ft_chat_template *c = ft_new(ft_chat_template);
    ft_buf_init(&c->bos, MAX_TOKEN_TEXT);
    ft_buf_init(&c->eos, MAX_TOKEN_TEXT);
    ft_buf_put_str(&c->bos, bos);
    ft_buf_put_str(&c->eos, eos);
    c->family = ft_chat_detect(source);
    c->knows_developer = has(source, "developer");
    const ft_status st = ft_jinja_new(&c->jinja, source, err);
    if (st) {
        ft_chat_free(c);
        return st;
    }
    *out = c;
    return FT_OK;
}

void ft_chat_free(ft_chat_template *c)
{
    if (!c) return;
    ft_jinja_free(c->jinja);
    ft_buf_release(&c->bos);
    ft_buf_release(&c->eos);
    ft_free(c);
}

ft_chat_family ft_chat_family_of(const ft_chat_template *c)
{
    return c->family;
}

/* ---- messages as templates expect them ---- */

static void parse_arguments(json_t *calls)
{
    for (size_t i = 0; i < json_array_size(calls); i++) {
        json_t *f = json_object_get(json_array_get(calls, i), "function");
        const json_t *text = json_object_get(f, "arguments");
        if (!json_is_string(text)) continue;
        json_t *o = json_string_length(text)
                        ? json_loadb(json_string_value(text), json_string_length(text), 0, NULL)
                        : json_object();
        if (json_is_object(o))
            json_object_set_new(f, "arguments", o);
        else
            json_decref(o); /* arguments that are not a JSON object stay a string */
    }
}

static void adapt_message(const ft_chat_template *c, json_t *m)
{
    const char *role = json_string_value(json_object_get(m, "role"));
    if (role && !strcmp(role, "developer") && !c->knows_developer)
        json_object_set_new(m, "role", json_string("system"));
    json_t *thought = json_object_get(m, "reasoning");
    if (json_is_string(thought) && !json_object_get(m, "reasoning_content"))
        json_object_set(m, "reasoning_content", thought);
    parse_arguments(json_object_get(m, "tool_calls"));
}

/* Today, unless the caller sets them. */
static void set_dates(json_t *vars)
{
    char date[32] = "", day_second[32] = "";
    struct tm tm;
    const time_t now = time(NULL);
    if (localtime_r(&now, &tm)) {
        strftime(date, sizeof date, "%d %b %Y", &tm);
        strftime(day_second, sizeof day_second, "%b %d %Y", &tm);
    }
    if (!json_object_get(vars, "date_string"))
        json_object_set_new(vars, "date_string", json_string(date));
    if (!json_object_get(vars, "datetime"))
        json_object_set_new(vars, "datetime", json_string(day_second));
}

static json_t *template_variables(const ft_chat_template *c, const ft_chat_input *in)
{
    json_t *v = in->extra ? json_deep_copy(in->extra) : json_object();
    json_t *messages = json_deep_copy(in->messages);
    for (size_t i = 0; i < json_array_size(messages); i++)
        adapt_message(c, json_array_get(messages, i));
    json_object_set_new(v, "messages", messages);
    if (json_array_size(in->tools)) json_object_set_new(v, "tools", json_deep_copy(in->tools));
    json_object_set_new(v, "add_generation_prompt", json_boolean(in->add_generation_prompt));
    if (in->thinking != FT_THINK_UNSET)
        json_object_set_new(v, "enable_thinking", json_boolean(in->thinking == FT_THINK_ON));
    set_dates(v);
    json_object_set_new(v, "bos_token", json_string_nocheck(ft_buf_z(&c->bos)));
    json_object_set_new(v, "eos_token", json_string_nocheck(ft_buf_z(&c->eos)));
    return v;
}

ft_status ft_chat_render(const ft_chat_template *c, const ft_chat_input *in, ft_buf *out,
                         ft_err *err)
{
    if (!json_is_array(in->messages)) return ft_fail(err, FT_EINVAL, "messages: want an array");
    if (in->tools && !json_is_array(in->tools))
        return ft_fail(err, FT_EINVAL, "tools: want an array");
    if (in->extra && !json_is_object(in->extra))
        return ft_fail(err, FT_EINVAL, "chat_template_kwargs: want an object");
    for (size_t i = 0; i < json_array_size(in->messages); i++)
        if (!json_is_object(json_array_get(in->messages, i)))
            return ft_fail(err, FT_EINVAL, "messages[%zu]: want an object", i);
    json_t *v = template_variables(c, in);
    const ft_status st = ft_jinja_render(c->jinja, v, NULL, out, err);
    json_decref(v);
    return st;
}

ft_status ft_chat_check(const ft_chat_template *c, ft_err *err)
{
    static const char probe[] = "where is the user's message?";
    json_t *list = json_pack("[{s:s, s:s}]", "role", "user", "content", probe);
    const ft_chat_input in = {.messages = list, .add_generation_prompt = true};
    ft_buf out;
    ft_buf_init(&out, (size_t)1 << 20);
    ft_status st = ft_chat_render(c, &in, &out, err);
    if (!st && !has(ft_buf_str(&out), probe))
        st = ft_fail(err, FT_EINVAL,
                     "a message of the user is not in the prompt that it renders, \"%.80s\"",
                     ft_buf_z(&out));
    ft_buf_release(&out);
    json_decref(list);
    return st;
}

/* ---- the end and the start of a prompt ---- */

bool ft_chat_in_thought(ft_chat_family f, ft_str prompt)
{
    while (prompt.n && strchr(" \t\r\n", prompt.p[prompt.n - 1]) && prompt.p[prompt.n - 1])
        prompt.n--;
    switch (f) {
    case FT_CHAT_QWEN: return ft_str_ends(prompt, FT_STR("<think>"));
    case FT_CHAT_GEMMA4: return ft_str_ends(prompt, FT_STR("<|channel>thought"));
    default: return false;
    }
}

ft_str ft_chat_without_bos(const ft_chat_template *c, ft_str prompt)
{
    const ft_str bos = ft_buf_str(&c->bos);
    if (!bos.n || !ft_str_starts(prompt, bos)) return prompt;
    return (ft_str){prompt.p + bos.n, prompt.n - bos.n};
}
