/* serve/chat.h - a chat request in OpenAI's form, which the other APIs are turned into, from
 * messages to the ids of a prompt. */
#ifndef FT_SERVE_CHAT_H
#define FT_SERVE_CHAT_H

#include "serve/generation.h"

enum { FT_CHAT_MESSAGES = 4096, FT_CHAT_TOOLS = 512 };

typedef struct ft_chat_prompt {
    char *text; /* as the template wrote it; free() */
    ft_prompt ids;
} ft_chat_prompt;

/* Fills the ask (fields, tools, reasoning) and renders. The prompt is yours: ft_chat_release. */
bool ft_chat_read(ft_gen_params *a, ft_server *s, const ft_served *d, const json_t *body,
                  ft_chat_prompt *out, ft_http_error *error);
void ft_chat_release(ft_chat_prompt *p);

/* {role, content} with the content stolen. */
json_t *ft_chat_message(const char *role, json_t *content);
/* The texts of an array of parts (or a string) as one. *out is new. */
bool ft_chat_text(const json_t *content, const char *param, json_t **out, ft_http_error *error);

/* Text as ids, with BOS where the model wants it. */
bool ft_encode_prompt(const ft_served *d, const char *text, size_t n, ft_prompt *out,
                      ft_http_error *error);

#endif
