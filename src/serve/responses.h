/* serve/responses.h - OpenAI's responses API: bodies in (responses.c), replies out
 * (responses_out.c). */
#ifndef FT_SERVE_RESPONSES_H
#define FT_SERVE_RESPONSES_H

#include "serve/chat.h"

/* The body as a chat body, or NULL with bad filled. */
json_t *ft_responses_body(const json_t *body, ft_bad *bad);
/* Its talk's extra is the body as it came, for the fields that are echoed. */
extern const ft_api_format ft_responses_shape;

#endif
