/* serve/responses.h - OpenAI's responses API: bodies in (responses.c), responses out
 * (responses_out.c). */
#ifndef FT_SERVE_RESPONSES_H
#define FT_SERVE_RESPONSES_H

#include "serve/chat.h"

/* The body as a chat body, or NULL with error filled. */
json_t *ft_responses_body(const json_t *body, ft_http_error *error);
/* Its talk's extra is the body as it came, for the fields that are echoed. */
extern const ft_api_format ft_responses_shape;

#endif
