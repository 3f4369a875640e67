/* serve/body.h - parses a request body as JSON, with limits that are checked before parsing. */
#ifndef FT_SERVE_BODY_H
#define FT_SERVE_BODY_H

#include "base/str.h"
#include "serve/error.h"

enum { FT_JSON_DEPTH = 128 };

/* The body must be a JSON object in UTF-8, at most FT_JSON_DEPTH levels deep; an empty body is an
 * empty object. list: it may be an array too, which becomes an object with the member "list". The
 * caller owns *out. Errors give the byte offset. */
bool ft_body_parse(json_t **out, ft_str text, bool list, ft_http_error *error);

/* Upper bound of the memory in bytes that the parsed body takes, computed without parsing it. Two
 * bytes of JSON can take hundreds of bytes of memory. */
size_t ft_body_cost(ft_str text);

#endif
