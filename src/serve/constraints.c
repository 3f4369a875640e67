#include "serve/constraints.h"

#include "base/mem.h"
#include "serve/schema_relax.h"

#include <stdlib.h>

static bool wrong(const char *name, const json_t *v, const char *want, ft_http_error *error)
{
    char brief[72];
    return ft_http_error_set(error, FT_ERR_INVALID, name, "%s is %s, want %s", name,
                             ft_json_brief(v, brief), want);
}

static bool is_free(const ft_gen_params *a, const char *param, ft_http_error *error)
{
    if (!a->r.grammar && !a->r.json_schema) return true;
    return ft_http_error_set(error, FT_ERR_INVALID, param,
                             "%s is given beside another grammar or JSON schema, want one of them",
                             param);
}

static bool is_short(const char *text, const char *param, ft_http_error *error)
{
    if (strlen(text) <= FT_PARAM_SOURCE) return true;
    return ft_http_error_set(error, FT_ERR_INVALID, param, "%s has %zu bytes, the maximum is %d",
                             param, strlen(text), FT_PARAM_SOURCE);
}

/* ---- JSON schemas ---- */

static bool put_schema(ft_gen_params *a, const json_t *schema, const char *param,
                       ft_http_error *error)
{
    if (!json_is_object(schema) && !json_is_boolean(schema))
        return wrong(param, schema, "a JSON schema", error);
    char *text;
    if (!ft_schema_relax(a, schema, param, "", &text, error)) return false;
    ft_gen_params_own(a, text);
    if (!is_free(a, param, error)) return false;
    a->r.json_schema = text;
    return is_short(text, param, error);
}

static bool put_object(ft_gen_params *a, const char *param, ft_http_error *error)
{
    if (!is_free(a, param, error)) return false;
    a->r.json_schema = "{\"type\":\"object\"}";
    return true;
}

static bool response_format(ft_gen_params *a, const json_t *body, ft_http_error *error)
{
    const json_t *v = ft_get(body, "response_format");
    if (!v) return true;
    const char *type = json_string_value(ft_get(v, "type"));
    if (type && !strcmp(type, "text")) return true;
    if (type && !strcmp(type, "json_object")) {
        const json_t *schema = ft_get(v, "schema");
        if (schema) return put_schema(a, schema, "response_format.schema", error);
        return put_object(a, "response_format", error);
    }
    if (type && !strcmp(type, "json_schema")) {
        const json_t *named = ft_get(v, "json_schema");
        const json_t *schema = ft_get(named ? named : v, "schema");
        return put_schema(a, schema, "response_format.json_schema.schema", error);
    }
    return wrong("response_format.type", ft_get(v, "type"), "text, json_object or json_schema",
                 error);
}

/* ---- grammars and choices ---- */

static bool put_grammar(ft_gen_params *a, const json_t *v, const char *param, ft_http_error *error)
{
    if (!json_is_string(v)) return wrong(param, v, "a GBNF grammar", error);
    if (!json_string_length(v)) return true;
    if (!is_free(a, param, error)) return false;
    a->r.grammar = json_string_value(v);
    return is_short(a->r.grammar, param, error);
}

/* A GBNF literal. */
static void put_literal(ft_buf *b, const json_t *text)
{
    const char *p = json_string_value(text);
    ft_buf_putc(b, '"');
    for (size_t i = 0; i < json_string_length(text); i++) {
        const unsigned char c = (unsigned char)p[i];
        if (c == '"' || c == '\\')
            ft_buf_printf(b, "\\%c", c);
        else if (c < 0x20 || c == 0x7F)
            ft_buf_printf(b, "\\x%02x", c);
        else
            ft_buf_putc(b, (char)c);
    }
    ft_buf_putc(b, '"');
}

static bool put_choice(ft_gen_params *a, const json_t *v, const char *param, ft_http_error *error)
{
    const json_t *one;
    size_t i;
    bool ok = json_array_size(v) > 0;
    json_array_foreach(v, i, one) ok &= json_is_string(one) && json_string_length(one) > 0;
    if (!ok) return wrong(param, v, "an array of non-empty strings", error);
    if (!is_free(a, param, error)) return false;
    ft_buf b;
    ft_buf_init(&b, SIZE_MAX / 2);
    json_array_foreach(v, i, one)
    {
        ft_buf_puts(&b, i ? " | " : "root ::= ");
        put_literal(&b, one);
    }
    a->r.grammar = ft_gen_params_own(a, ft_buf_take(&b));
    ft_buf_release(&b);
    return is_short(a->r.grammar, param, error);
}

static bool put_regex(ft_gen_params *a, const json_t *v, const char *param, ft_http_error *error)
{
    char *gbnf;
    ft_err err;
    if (!json_is_string(v)) return wrong(param, v, "a regular expression", error);
    if (!is_short(json_string_value(v), param, error) || !is_free(a, param, error)) return false;
    if (ft_regex_grammar(json_string_value(v), &gbnf, &err))
        return ft_http_error_set(error, FT_ERR_INVALID, param, "%s: %s", param, err.text);
    a->r.grammar = ft_gen_params_own(a, ft_strdup(gbnf));
    free(gbnf);
    return is_short(a->r.grammar, param, error);
}

/* ---- vLLM ---- */

/* guided_json and the others; within structured_outputs the same names without "guided_". */
static bool put_guided(ft_gen_params *a, const char *kind, const char *param, json_t *v,
                       ft_http_error *error)
{
    if (!strcmp(kind, "json")) {
        json_t *parsed = json_is_string(v) ? json_loads(json_string_value(v), 0, NULL) : NULL;
        const bool ok = put_schema(a, parsed ? parsed : v, param, error);
        json_decref(parsed);
        return ok;
    }
    if (!strcmp(kind, "json_object")) {
        if (!json_is_boolean(v)) return wrong(param, v, "true or false", error);
        return json_is_false(v) || put_object(a, param, error);
    }
    if (!strcmp(kind, "choice")) return put_choice(a, v, param, error);
    if (!strcmp(kind, "grammar")) return put_grammar(a, v, param, error);
    if (!strcmp(kind, "regex")) return put_regex(a, v, param, error);
    return ft_http_error_set(error, FT_ERR_INVALID, param,
                             "%s is not supported, want a JSON schema, a list of choices, a "
                             "regular expression or a GBNF grammar",
                             param);
}

static const char *const guided[] = {"json",  "json_object", "choice",
                                     "regex", "grammar",     "structural_tag"};

static bool guided_fields(ft_gen_params *a, const json_t *body, ft_http_error *error)
{
    const json_t *outputs = ft_get(body, "structured_outputs");
    char name[64];
    if (outputs && !json_is_object(outputs))
        return wrong("structured_outputs", outputs, "an object", error);
    for (size_t i = 0; i < FT_COUNT(guided); i++) {
        snprintf(name, sizeof name, "guided_%s", guided[i]);
        json_t *v = ft_get(body, name);
        if (v && !put_guided(a, guided[i], name, v, error)) return false;
        snprintf(name, sizeof name, "structured_outputs.%s", guided[i]);
        v = ft_get(outputs, guided[i]);
        if (v && !put_guided(a, guided[i], name, v, error)) return false;
    }
    return true;
}

/* ---- all of them ---- */

bool ft_constraints_read(ft_gen_params *a, const json_t *body, ft_http_error *error)
{
    const json_t *schema = ft_get(body, "json_schema"), *grammar = ft_get(body, "grammar");
    const ft_request usual = a->r;
    a->r.json_schema = a->r.grammar = NULL;
    const bool ok = (!schema || put_schema(a, schema, "json_schema", error)) &&
                    response_format(a, body, error) &&
                    (!grammar || put_grammar(a, grammar, "grammar", error)) &&
                    guided_fields(a, body, error);
    if (a->r.json_schema || a->r.grammar) return ok;
    a->r.json_schema = usual.json_schema; /* the server's default */
    a->r.grammar = usual.grammar;
    return ok;
}

bool ft_constraints_any(const json_t *body)
{
    static const char *const field[] = {
        "grammar", "json_schema", "response_format", "tools",         "functions",
        "format",  "text",        "output_format",   "output_config", "structured_outputs"};
    char name[64];
    for (size_t i = 0; i < FT_COUNT(field); i++)
        if (json_object_get(body, field[i])) return true;
    for (size_t i = 0; i < FT_COUNT(guided); i++) {
        snprintf(name, sizeof name, "guided_%s", guided[i]);
        if (json_object_get(body, name)) return true;
    }
    return false;
}
