/* text/chat.h - chat templates: detects the response format of a template, renders messages, and
 * finds where the response begins.
 * Messages and tools are JSON in the format of the OpenAI API. Safe to use from many threads. */
#ifndef FT_TEXT_CHAT_H
#define FT_TEXT_CHAT_H

#include "text/jinja.h"

typedef enum ft_chat_family {
    FT_CHAT_PLAIN,  /* no reasoning, no tool calls: everything is content */
    FT_CHAT_QWEN,   /* <think>, <tool_call> with <function=NAME> or with JSON */
    FT_CHAT_GEMMA4, /* <|channel>thought, <|tool_call>call:NAME{...} */
} ft_chat_family;

typedef struct ft_chat_template ft_chat_template;

typedef struct ft_chat_input {
    const json_t *messages; /* an array */
    const json_t *tools;    /* an array, or NULL */
    const json_t *extra;    /* an object of further template variables, or NULL */
    bool add_generation_prompt;
    /* The template variable enable_thinking. llama.cpp sets it unless thinking is turned off. */
    enum { FT_THINK_UNSET, FT_THINK_ON, FT_THINK_OFF } thinking;
} ft_chat_input;

/* bos and eos are the texts of these tokens; empty when the model has none. All are copied. */
ft_status ft_chat_new(ft_chat_template **out, ft_str source, ft_str bos, ft_str eos, ft_err *err);
void ft_chat_free(ft_chat_template *c);

ft_chat_family ft_chat_family_of(const ft_chat_template *c);
ft_chat_family ft_chat_detect(ft_str source);

/* The source of a built-in template: "chatml", "gemma" or "gemma4"; NULL: there is none of this
 * name. */
const char *ft_chat_builtin(const char *name);

/* Fails unless the template renders a message of the user: its text must be in the prompt. */
ft_status ft_chat_check(const ft_chat_template *c, ft_err *err);

/* Appends the prompt to out. The template receives arguments of tool calls that are JSON text as
 * objects, the role developer as system when the template does not use developer, and `reasoning`
 * as `reasoning_content`; it has the variables date_string ("02 Jan 2026") and datetime ("Jan 02
 * 2026") too. */
ft_status ft_chat_render(const ft_chat_template *c, const ft_chat_input *in, ft_buf *out,
                         ft_err *err);

/* true when the prompt ends inside a reasoning block, so that the response starts with reasoning.
 */
bool ft_chat_in_thought(ft_chat_family f, ft_str prompt);
/* The prompt without the BOS text at its start, for tokenizers that add BOS themselves. */
ft_str ft_chat_without_bos(const ft_chat_template *c, ft_str prompt);

#endif
