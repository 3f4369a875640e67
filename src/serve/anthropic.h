/* serve/anthropic.h - Anthropic's messages API: bodies in (anthropic.c), responses out
 * (anthropic_out.c). */
#ifndef FT_SERVE_ANTHROPIC_H
#define FT_SERVE_ANTHROPIC_H

#include "serve/chat.h"

/* The body as a chat body, or NULL with error filled. Shares parts of what it was made from. */
json_t *ft_anthropic_body(const json_t *body, ft_http_error *error);
extern const ft_api_format ft_anthropic_shape;

#endif
