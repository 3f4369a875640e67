/* serve/anthropic.h - the Anthropic messages API: request parsing (anthropic.c) and response
 * formatting (anthropic_out.c). */
#ifndef FT_SERVE_ANTHROPIC_H
#define FT_SERVE_ANTHROPIC_H

#include "serve/chat.h"

/* Converts an Anthropic body to an OpenAI chat body, which shares values with it. Returns NULL and
 * fills error if the body is not valid. */
json_t *ft_anthropic_body(const json_t *body, ft_http_error *error);
extern const ft_api_format ft_anthropic_format;

#endif
