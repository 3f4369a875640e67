/* serve/body.h - the bytes of a request as JSON, checked before anything looks inside. */
#ifndef FT_SERVE_BODY_H
#define FT_SERVE_BODY_H

#include "base/str.h"
#include "serve/error.h"

enum { FT_JSON_DEPTH = 128 };

/* An object (an empty body is an empty one), strict UTF-8, at most FT_JSON_DEPTH deep. *out is
 * yours. A mistake is named with its byte. */
bool ft_body_parse(json_t **out, ft_str text, ft_http_error *error);

/* Bytes of memory that the parsed body would take, estimated from above without parsing it: two
 * bytes of JSON can become hundreds. */
size_t ft_body_cost(ft_str text);

#endif
