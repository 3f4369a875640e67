/* serve/chat.h - a chat request in OpenAI's format, to which the other APIs are converted: from
 * messages to the token ids of the prompt. */
#ifndef FT_SERVE_CHAT_H
#define FT_SERVE_CHAT_H

#include "serve/generation.h"

enum { FT_CHAT_MESSAGES = 4096, FT_CHAT_TOOLS = 512 };

typedef struct ft_chat_prompt {
    char *text; /* the rendered template; free() */
    ft_prompt ids;
} ft_chat_prompt;

/* Fills the parameters (fields, tools, reasoning) and renders the prompt. The caller releases the
 * prompt with ft_chat_release. */
bool ft_chat_read(ft_gen_params *a, ft_server *s, const ft_served *d, const json_t *body,
                  ft_chat_prompt *out, ft_http_error *error);
void ft_chat_release(ft_chat_prompt *p);

/* Returns {role, content}. Takes ownership of content. */
json_t *ft_chat_message(const char *role, json_t *content);
/* Concatenates the text parts of content, which may also be a plain string. *out is a new
 * reference. */
bool ft_chat_text(const json_t *content, const char *param, json_t **out, ft_http_error *error);

/* Tokenizes text; adds BOS if the model uses one. */
bool ft_encode_prompt(const ft_served *d, const char *text, size_t n, ft_prompt *out,
                      ft_http_error *error);

#endif
