/* serve/constraints.h - what the answer of a request must match: a grammar, a JSON schema or a list
 * of choices, under the names of llama.cpp (grammar, json_schema), OpenAI (response_format) and
 * vLLM (guided_json and others, structured_outputs). */
#ifndef FT_SERVE_CONSTRAINTS_H
#define FT_SERVE_CONSTRAINTS_H

#include "serve/params.h"

/* Reads all of them; at most one may be given. */
bool ft_constraints_read(ft_gen_params *a, const json_t *body, ft_http_error *error);
/* Whether the body has a field that makes a grammar, which can take long to compile. */
bool ft_constraints_any(const json_t *body);

#endif
