/* api/chat.c - renders messages to a prompt with the model's chat template. */
#include "api/images.h"

#include "base/mem.h"

enum { MAX_PROMPT = 64 << 20 };

static ft_status parse(json_t **out, const char *text, const char *what, bool array, ft_err *err)
{
    json_error_t e;
    *out = json_loads(text, JSON_REJECT_DUPLICATES, &e);
    if (!*out) return ft_fail(err, FT_EFORMAT, "%s: line %d: %s", what, e.line, e.text);
    if (array ? json_is_array(*out) : json_is_object(*out)) return FT_OK;
    json_decref(*out);
    *out = NULL;
    return ft_fail(err, FT_EINVAL, "%s: want a JSON %s", what, array ? "array" : "object");
}

/* Removes a member from the options: those with a field of their own are not passed on. */
static json_t *take_option(json_t *options, const char *key)
{
    json_t *v = json_object_get(options, key);
    json_incref(v);
    json_object_del(options, key);
    return v;
}

static ft_status render(const ft_chat_template *c, const json_t *messages, json_t *options,
                        ft_buf *out, ft_err *err)
{
    ft_chat_input in = {.messages = messages, .extra = options, .add_generation_prompt = true};
    json_t *tools = take_option(options, "tools"), *think = take_option(options, "enable_thinking");
    json_t *add = take_option(options, "add_generation_prompt");
    if (json_is_array(tools) && json_array_size(tools)) in.tools = tools;
    in.thinking = json_is_false(think) ? FT_THINK_OFF : FT_THINK_ON;
    if (json_is_boolean(add)) in.add_generation_prompt = json_is_true(add);
    const ft_status st = ft_chat_render(c, &in, out, err);
    json_decref(tools);
    json_decref(think);
    json_decref(add);
    return st;
}

ft_status ft_llm_render(const ft_llm *m, const char *messages, const char *options, char **prompt,
                        bool *in_thought, ft_err *err)
{
    if (!m->chat)
        return ft_fail(err, FT_ENOTFOUND,
                       "the model has no chat template; give one, or use a raw prompt");
    json_t *list = NULL, *opts = NULL;
    ft_buf out;
    ft_buf_init(&out, MAX_PROMPT);
    ft_status st = parse(&list, messages, "messages", true, err);
    if (!st) st = parse(&opts, options ? options : "{}", "options", false, err);
    if (!st && m->images) {
        ft_placeholders_hide(ft_llm_placeholders(m), list);
        ft_placeholders_hide(ft_llm_placeholders(m), opts);
    }
    if (!st) st = render(m->chat, list, opts, &out, err);
    if (!st) {
        /* The tokenizer adds BOS: it must not be there twice. */
        const ft_str text = ft_vocab_add_bos(m->vocab)
                                ? ft_chat_without_bos(m->chat, ft_buf_str(&out))
                                : ft_buf_str(&out);
        *in_thought = ft_chat_in_thought(ft_chat_family_of(m->chat), text);
        *prompt = ft_alloc(text.n + 1);
        memcpy(*prompt, text.p, text.n);
    }
    json_decref(list);
    json_decref(opts);
    ft_buf_release(&out);
    return st;
}

char *ft_llm_prompt_text(const ft_llm *m, const char *prompt)
{
    const ft_placeholders *p = ft_llm_placeholders(m);
    return p ? ft_placeholders_show(p, prompt) : ft_strdup(prompt);
}
