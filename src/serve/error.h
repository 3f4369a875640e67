/* serve/error.h - request errors, and their JSON in the format of each API. */
#ifndef FT_SERVE_ERROR_H
#define FT_SERVE_ERROR_H

#include "base/err.h"

#include <jansson.h>

typedef enum ft_error_kind {
    FT_ERR_INVALID,
    FT_ERR_AUTH,
    FT_ERR_FORBIDDEN,
    FT_ERR_NOT_FOUND,
    FT_ERR_METHOD,
    FT_ERR_CONTEXT,
    FT_ERR_TOO_LARGE,
    FT_ERR_MEDIA,
    FT_ERR_HEADERS,
    FT_ERR_UNSUPPORTED,
    FT_ERR_UNAVAILABLE,
    FT_ERR_BUSY,
    FT_ERR_SERVER,
    FT_ERR_REMOTE,
    FT_ERR_NO_SPACE,
} ft_error_kind;

typedef struct ft_http_error {
    ft_error_kind kind;
    char param[64];      /* name of the field, truncated to 63 bytes; empty: none */
    char text[512];      /* one sentence: the thing, the value found, the value wanted */
    int n_prompt, n_ctx; /* for FT_ERR_CONTEXT */
} ft_http_error;

/* Fills error and returns false. */
bool ft_http_error_set(ft_http_error *error, ft_error_kind kind, const char *param, const char *fmt,
                       ...) FT_PRINTF(4, 5);
/* Converts a library status to invalid input, a full queue or an internal error. Returns false. */
bool ft_http_error_from(ft_http_error *error, ft_status st, const char *param, const ft_err *err);

int ft_error_http_status(ft_error_kind p);
/* {"error": {...}} as in OpenAI's API and llama.cpp. */
json_t *ft_error_openai(const ft_http_error *error);
/* {"type": "error", "error": {...}, "request_id": ...} */
json_t *ft_error_anthropic(const ft_http_error *error, const char *request_id);
/* {"error": "text"} */
json_t *ft_error_ollama(const ft_http_error *error);

/* A JSON value, shortened for error messages. */
const char *ft_json_brief(const json_t *v, char out[72]);

#endif
