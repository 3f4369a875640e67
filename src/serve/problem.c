#include "serve/problem.h"

#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    int http;
    const char *type, *anthropic;
} KIND[] = {
    [FT_P_INVALID] = {400, "invalid_request_error", "invalid_request_error"},
    [FT_P_AUTH] = {401, "authentication_error", "authentication_error"},
    [FT_P_FORBIDDEN] = {403, "permission_error", "permission_error"},
    [FT_P_NOT_FOUND] = {404, "not_found_error", "not_found_error"},
    [FT_P_METHOD] = {405, "invalid_request_error", "invalid_request_error"},
    [FT_P_CONTEXT] = {400, "exceed_context_size_error", "invalid_request_error"},
    [FT_P_TOO_LARGE] = {413, "invalid_request_error", "request_too_large"},
    [FT_P_HEADERS] = {431, "invalid_request_error", "request_too_large"},
    [FT_P_UNSUPPORTED] = {501, "not_supported_error", "api_error"},
    [FT_P_UNAVAILABLE] = {503, "unavailable_error", "overloaded_error"},
    [FT_P_BUSY] = {429, "rate_limit_error", "rate_limit_error"},
    [FT_P_SERVER] = {500, "server_error", "api_error"},
};

bool ft_bad_say(ft_bad *bad, ft_problem kind, const char *param, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    *bad = (ft_bad){.kind = kind, .param = param};
    vsnprintf(bad->text, sizeof bad->text, fmt, ap);
    va_end(ap);
    return false;
}

bool ft_bad_from(ft_bad *bad, ft_status st, const char *param, const ft_err *err)
{
    ft_problem kind = FT_P_SERVER;
    switch (st) {
    case FT_EINVAL:
    case FT_EFORMAT:
    case FT_ELIMIT: /* a grammar or a template's work: asking again would not help */
    case FT_EUNSUPPORTED: kind = FT_P_INVALID; break;
    case FT_EBUSY: kind = FT_P_BUSY; break;
    case FT_ENOTFOUND: kind = FT_P_UNSUPPORTED; break;
    case FT_ECANCELLED: kind = FT_P_UNAVAILABLE; break;
    default: break;
    }
    return ft_bad_say(bad, kind, param, "%s", err->text);
}

int ft_problem_http(ft_problem p)
{
    return KIND[p].http;
}

/* The text may hold a cut-off character at its end. */
static json_t *text_of(const ft_bad *bad)
{
    size_t n = strlen(bad->text);
    n -= ft_utf8_partial((ft_str){bad->text, n});
    json_t *t = json_stringn(bad->text, n);
    return t ? t : json_string("the message is no UTF-8");
}

json_t *ft_problem_openai(const ft_bad *bad)
{
    json_t *e = json_object(), *j = json_object();
    json_object_set_new(e, "code", json_integer(KIND[bad->kind].http));
    json_object_set_new(e, "message", text_of(bad));
    json_object_set_new(e, "type", json_string(KIND[bad->kind].type));
    json_object_set_new(e, "param", bad->param ? json_string(bad->param) : json_null());
    if (bad->kind == FT_P_CONTEXT) {
        json_object_set_new(e, "n_prompt_tokens", json_integer(bad->n_prompt));
        json_object_set_new(e, "n_ctx", json_integer(bad->n_ctx));
    }
    json_object_set_new(j, "error", e);
    return j;
}

json_t *ft_problem_anthropic(const ft_bad *bad, const char *request_id)
{
    json_t *e = json_object(), *j = json_object();
    json_object_set_new(j, "type", json_string("error"));
    json_object_set_new(e, "type", json_string(KIND[bad->kind].anthropic));
    json_object_set_new(e, "message", text_of(bad));
    json_object_set_new(j, "error", e);
    json_object_set_new(j, "request_id", json_string(request_id));
    return j;
}

json_t *ft_problem_ollama(const ft_bad *bad)
{
    json_t *j = json_object();
    json_object_set_new(j, "error", text_of(bad));
    return j;
}

const char *ft_json_brief(const json_t *v, char out[72])
{
    char *s = v ? json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    const char *text = s ? s : "absent";
    const size_t n = strlen(text), room = 60;
    if (n <= room) {
        memcpy(out, text, n + 1);
    } else {
        size_t cut = room - ft_utf8_partial((ft_str){text, room});
        memcpy(out, text, cut);
        memcpy(out + cut, "...", 4);
    }
    free(s);
    return out;
}
