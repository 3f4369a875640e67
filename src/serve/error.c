#include "serve/error.h"

#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    int http;
    const char *type, *anthropic;
    const char *code; /* as OpenAI spells it; NULL: it has none */
} KIND[] = {
    [FT_ERR_INVALID] = {400, "invalid_request_error", "invalid_request_error", NULL},
    [FT_ERR_AUTH] = {401, "authentication_error", "authentication_error", "invalid_api_key"},
    [FT_ERR_FORBIDDEN] = {403, "permission_error", "permission_error", NULL},
    [FT_ERR_NOT_FOUND] = {404, "not_found_error", "not_found_error", "not_found"},
    [FT_ERR_METHOD] = {405, "invalid_request_error", "invalid_request_error", "method_not_allowed"},
    [FT_ERR_CONTEXT] = {400, "exceed_context_size_error", "invalid_request_error",
                        "context_length_exceeded"},
    [FT_ERR_TOO_LARGE] = {413, "invalid_request_error", "request_too_large", "request_too_large"},
    [FT_ERR_MEDIA] = {415, "invalid_request_error", "invalid_request_error", NULL},
    [FT_ERR_HEADERS] = {431, "invalid_request_error", "request_too_large", NULL},
    [FT_ERR_UNSUPPORTED] = {501, "not_supported_error", "api_error", "not_supported"},
    [FT_ERR_UNAVAILABLE] = {503, "unavailable_error", "overloaded_error", "service_unavailable"},
    [FT_ERR_BUSY] = {429, "rate_limit_error", "rate_limit_error", "rate_limit_exceeded"},
    [FT_ERR_SERVER] = {500, "server_error", "api_error", "server_error"},
    [FT_ERR_REMOTE] = {502, "server_error", "api_error", "server_error"},
    [FT_ERR_NO_SPACE] = {507, "insufficient_storage_error", "api_error", "insufficient_storage"},
};

bool ft_http_error_set(ft_http_error *error, ft_error_kind kind, const char *param, const char *fmt,
                       ...)
{
    va_list ap;
    va_start(ap, fmt);
    *error = (ft_http_error){.kind = kind};
    if (param) snprintf(error->param, sizeof error->param, "%s", param);
    vsnprintf(error->text, sizeof error->text, fmt, ap);
    va_end(ap);
    return false;
}

bool ft_http_error_from(ft_http_error *error, ft_status st, const char *param, const ft_err *err)
{
    ft_error_kind kind = FT_ERR_SERVER;
    switch (st) {
    case FT_EINVAL:
    case FT_EFORMAT:
    case FT_ELIMIT: /* the cost of a grammar or template: retrying would not help */
    case FT_EUNSUPPORTED: kind = FT_ERR_INVALID; break;
    case FT_EBUSY: kind = FT_ERR_BUSY; break;
    case FT_ENOSPC: kind = FT_ERR_NO_SPACE; break;
    case FT_ENOTFOUND: kind = FT_ERR_UNSUPPORTED; break;
    case FT_ECANCELLED: kind = FT_ERR_UNAVAILABLE; break;
    default: break;
    }
    return ft_http_error_set(error, kind, param, "%s", err->text);
}

int ft_error_http_status(ft_error_kind p)
{
    return KIND[p].http;
}

/* A JSON string of a text that may end in the middle of a UTF-8 sequence. NULL: not valid UTF-8. */
static json_t *cut_text(const char *text)
{
    const size_t n = strlen(text);
    return json_stringn(text, n - ft_utf8_partial((ft_str){text, n}));
}

static json_t *text_of(const ft_http_error *error)
{
    json_t *t = cut_text(error->text);
    return t ? t : json_string("the message is not valid UTF-8");
}

static json_t *param_of(const ft_http_error *error)
{
    json_t *t = *error->param ? cut_text(error->param) : NULL;
    return t ? t : json_null();
}

json_t *ft_error_openai(const ft_http_error *error)
{
    json_t *e = json_object(), *j = json_object();
    const char *code = KIND[error->kind].code;
    if (error->kind == FT_ERR_NOT_FOUND && !strcmp(error->param, "model")) code = "model_not_found";
    json_object_set_new(e, "code", code ? json_string(code) : json_null());
    json_object_set_new(e, "status", json_integer(KIND[error->kind].http));
    json_object_set_new(e, "message", text_of(error));
    json_object_set_new(e, "type", json_string(KIND[error->kind].type));
    json_object_set_new(e, "param", param_of(error));
    if (error->kind == FT_ERR_CONTEXT) {
        json_object_set_new(e, "n_prompt_tokens", json_integer(error->n_prompt));
        json_object_set_new(e, "n_ctx", json_integer(error->n_ctx));
    }
    json_object_set_new(j, "error", e);
    return j;
}

json_t *ft_error_anthropic(const ft_http_error *error, const char *request_id)
{
    json_t *e = json_object(), *j = json_object();
    json_object_set_new(j, "type", json_string("error"));
    json_object_set_new(e, "type", json_string(KIND[error->kind].anthropic));
    json_object_set_new(e, "message", text_of(error));
    json_object_set_new(j, "error", e);
    json_object_set_new(j, "request_id", json_string(request_id));
    return j;
}

json_t *ft_error_ollama(const ft_http_error *error)
{
    json_t *j = json_object();
    json_object_set_new(j, "error", text_of(error));
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
