/* serve/responses.h - OpenAI's Responses API: request parsing (responses.c) and response formatting
 * (responses_out.c). */
#ifndef FT_SERVE_RESPONSES_H
#define FT_SERVE_RESPONSES_H

#include "serve/chat.h"

/* Converts a Responses body to a chat body. Returns NULL and fills error if the body is not
 * valid. */
json_t *ft_responses_body(const json_t *body, ft_http_error *error);
/* extra of the generation is the original body, because the response echoes some of its fields. */
extern const ft_api_format ft_responses_format;

#endif
