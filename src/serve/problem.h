/* serve/problem.h - what can be wrong with a request, and how each API says it. */
#ifndef FT_SERVE_PROBLEM_H
#define FT_SERVE_PROBLEM_H

#include "base/err.h"

#include <jansson.h>

typedef enum ft_problem {
    FT_P_INVALID,
    FT_P_AUTH,
    FT_P_FORBIDDEN,
    FT_P_NOT_FOUND,
    FT_P_METHOD,
    FT_P_CONTEXT,
    FT_P_TOO_LARGE,
    FT_P_HEADERS,
    FT_P_UNSUPPORTED,
    FT_P_UNAVAILABLE,
    FT_P_BUSY,
    FT_P_SERVER,
} ft_problem;

typedef struct ft_bad {
    ft_problem kind;
    const char *param;   /* the field, or NULL; lives as long as the program or the request */
    char text[512];      /* a sentence: the thing, what was found, what is wanted */
    int n_prompt, n_ctx; /* of FT_P_CONTEXT */
} ft_bad;

/* Fills bad and returns false, so that failing is one line. */
bool ft_bad_say(ft_bad *bad, ft_problem kind, const char *param, const char *fmt, ...)
    FT_PRINTF(4, 5);
/* From a status of the library: wrong input, a full queue, or our own trouble. */
bool ft_bad_from(ft_bad *bad, ft_status st, const char *param, const ft_err *err);

int ft_problem_http(ft_problem p);
/* {"error": {...}} as OpenAI and llama.cpp have it. */
json_t *ft_problem_openai(const ft_bad *bad);
/* {"type": "error", "error": {...}, "request_id": ...} */
json_t *ft_problem_anthropic(const ft_bad *bad, const char *request_id);
/* {"error": "text"} */
json_t *ft_problem_ollama(const ft_bad *bad);

/* A JSON value in a few bytes, for sentences. */
const char *ft_json_brief(const json_t *v, char out[72]);

#endif
