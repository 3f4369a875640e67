#include "serve/tools.h"

#include "serve/chat.h"
#include "serve/schema_relax.h"

#include <stdlib.h>

static bool check_tool(const json_t *t, size_t i, ft_http_error *error)
{
    char brief[72];
    const json_t *f = ft_get(t, "function"), *p = ft_get(f, "parameters");
    if (!json_is_object(t) || !json_is_object(f) || !json_is_string(ft_get(f, "name")))
        return ft_http_error_set(
            error, FT_ERR_INVALID, "tools",
            "tools[%zu] is %s, want {\"type\":\"function\",\"function\":{\"name\":...}}", i,
            ft_json_brief(t, brief));
    if (p && !json_is_object(p))
        return ft_http_error_set(error, FT_ERR_INVALID, "tools",
                                 "tools[%zu].function.parameters is %s, want an object", i,
                                 ft_json_brief(p, brief));
    return true;
}

/* The functions among the tools. Tools of other types run on the vendors' servers; they are left
 * out with a warning if there are functions too, as coding clients send them. */
static bool functions(ft_gen_params *a, const json_t *list, json_t **out, ft_http_error *error)
{
    char brief[72];
    const char *other = NULL;
    const json_t *t;
    size_t i;
    if (!json_is_array(list))
        return ft_http_error_set(error, FT_ERR_INVALID, "tools", "tools is %s, want an array",
                                 ft_json_brief(list, brief));
    if (json_array_size(list) > FT_CHAT_TOOLS)
        return ft_http_error_set(error, FT_ERR_INVALID, "tools",
                                 "tools has %zu entries, the maximum is %d", json_array_size(list),
                                 FT_CHAT_TOOLS);
    *out = json_array();
    json_array_foreach(list, i, t)
    {
        const char *type = json_string_value(ft_get(t, "type"));
        if (type && strcmp(type, "function")) {
            ft_gen_params_warn(a, "tools[%zu] of type %.60s is not available", i, type);
            other = type;
            continue;
        }
        if (!check_tool(t, i, error)) return false;
        json_array_append(*out, (json_t *)(uintptr_t)t);
    }
    if (other && !json_array_size(*out))
        return ft_http_error_set(error, FT_ERR_INVALID, "tools",
                                 "tools has the type %.60s, which this server does not have, want "
                                 "functions",
                                 other);
    return true;
}

/* Parses tool_choice. *name: the function that must be called, or NULL. */
static bool choice(const json_t *body, bool *none, bool *required, const char **name,
                   ft_http_error *error)
{
    char brief[72];
    const json_t *v = ft_get(body, "tool_choice");
    *none = *required = false;
    *name = NULL;
    if (!v) return true;
    if (json_is_string(v)) {
        const char *w = json_string_value(v);
        *none = !strcmp(w, "none");
        *required = !strcmp(w, "required") || !strcmp(w, "any");
        if (*none || *required || !strcmp(w, "auto")) return true;
    }
    const json_t *f = ft_get(v, "function");
    const json_t *n = ft_get(f ? f : v, "name");
    if (json_is_string(n)) {
        *required = true;
        *name = json_string_value(n);
        return true;
    }
    return ft_http_error_set(error, FT_ERR_INVALID, "tool_choice",
                             "tool_choice is %s, want none, auto, required or a function's name",
                             ft_json_brief(v, brief));
}

/* Sets the tools of the request, with parameters that a grammar can enforce; the template shows the
 * original ones. */
static bool relax_tools(ft_gen_params *a, const json_t *tools, ft_http_error *error)
{
    json_t *list = json_deep_copy(tools), *t;
    size_t i;
    bool ok = true;
    json_array_foreach(list, i, t)
    {
        json_t *f = ft_get(t, "function"), *schema = ft_get(f, "parameters");
        char where[64], *text;
        if (!schema || !ok) continue;
        snprintf(where, sizeof where, "/%zu/function/parameters", i);
        ok = ft_schema_relax(a, schema, "tools", where, &text, error);
        if (!ok) continue;
        json_object_set_new(f, "parameters", json_loads(text, JSON_DECODE_ANY, NULL));
        free(text);
    }
    if (ok) a->r.tools = ft_gen_params_own(a, json_dumps(list, JSON_COMPACT));
    json_decref(list);
    return ok;
}

/* Makes the token that begins a call impossible to sample, so that the response is text. */
static bool ban_calls(ft_gen_params *a, const ft_served *d, ft_http_error *error)
{
    const char *marker = d->info->call_marker;
    int32_t *ids;
    size_t n;
    ft_err err;
    if (!marker) return true;
    const ft_status st =
        ft_vocab_encode(d->vocab, marker, strlen(marker), FT_ENCODE_PARSE_SPECIAL, &ids, &n, &err);
    if (st) return ft_http_error_from(error, st, "tool_choice", &err);
    const bool ok = n != 1 || ft_gen_params_ban(a, d, ids[0], error);
    free(ids);
    return ok;
}

bool ft_tools_read(ft_gen_params *a, const ft_served *d, const json_t *body, json_t *options,
                   ft_http_error *error)
{
    const json_t *list = ft_get(body, "tools");
    const char *name;
    bool none, required;
    a->r.no_calls = true;
    if (!choice(body, &none, &required, &name, error)) return false;
    if (none && !ban_calls(a, d, error)) return false;
    if (!list) return true;
    json_t *f = NULL;
    const bool ok = functions(a, list, &f, error);
    if (ok && json_array_size(f) && none) {
        json_object_set(options, "tools", f); /* as with "auto": the same prompt can be reused */
    } else if (ok && json_array_size(f)) {
        if (a->r.grammar) {
            json_decref(f);
            return ft_http_error_set(error, FT_ERR_INVALID, "grammar",
                                     "both tools and a grammar are given, want one of them");
        }
        if (!relax_tools(a, f, error)) {
            json_decref(f);
            return false;
        }
        a->r.no_calls = false;
        json_object_set(options, "tools", f);
    }
    json_decref(f);
    return ok;
}

static bool has_tool(const char *tools, const char *name)
{
    json_t *list = json_loads(tools, 0, NULL), *t;
    size_t i;
    bool found = false;
    json_array_foreach(list, i, t)
    {
        const char *n = json_string_value(ft_get(ft_get(t, "function"), "name"));
        found |= n && !strcmp(n, name);
    }
    json_decref(list);
    return found;
}

/* If a call is required, the grammar applies from the first token; otherwise from the first
 * tool-call tag on. With a response schema, the answer may be JSON instead of a call, unless a call
 * is required. */
static bool constrain(ft_gen_params *a, const ft_served *d, bool required, const char *name,
                      bool parallel, ft_http_error *error)
{
    ft_err err;
    char *gbnf;
    const char *schema = required ? NULL : a->r.json_schema;
    const ft_tool_rules rules = {name, !parallel, schema};
    const ft_status st = ft_llm_tool_grammar(d->llm, a->r.tools, &rules, &gbnf, &a->trigger, &err);
    if (st) return ft_http_error_from(error, st, "tools", &err);
    a->r.grammar = ft_gen_params_own(a, gbnf);
    a->r.json_schema = NULL;
    if (required || schema) return true;
    a->r.grammar_trigger = &a->trigger;
    a->r.n_grammar_trigger = 1;
    return true;
}

bool ft_tools_constrain(ft_gen_params *a, const ft_served *d, const json_t *body,
                        ft_http_error *error)
{
    bool none, required, parallel = true;
    const char *name;
    if (!ft_want_bool(body, "parallel_tool_calls", &parallel, error)) return false;
    if (!choice(body, &none, &required, &name, error)) return false;
    if (required && a->r.no_calls)
        return ft_http_error_set(error, FT_ERR_INVALID, "tool_choice",
                                 "tool_choice requires a call, but tools has no function");
    if (name && !has_tool(a->r.tools, name))
        return ft_http_error_set(error, FT_ERR_INVALID, "tool_choice",
                                 "tool_choice names \"%.60s\", which is not among the tools", name);
    return a->r.no_calls || constrain(a, d, required, name, parallel, error);
}
