#include "serve/schema_relax.h"

#include "base/mem.h"
#include "foretoken.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH = 200 };

typedef struct relaxer {
    ft_gen_params *a;
    char path[PATH];
} relaxer;

/* what: "KEYWORD at PATH"; why may be empty. */
static void add_note(ft_gen_params *a, const char *what, size_t n, const char *why)
{
    char *note = a->ignored;
    const size_t have = strlen(note), comma = have ? 2 : 0;
    ft_gen_params_warn(a, "the JSON schema keyword %.*s is not enforced%s%s", (int)n, what,
                       *why ? ": " : "", why);
    if (have + comma + n >= sizeof a->ignored) return;
    memcpy(note + have, ", ", comma);
    for (size_t i = 0; i < n; i++) /* the note becomes an HTTP header */
        note[have + comma + i] = what[i] < 32 || what[i] > 126 ? '?' : what[i];
    note[have + comma + n] = 0;
}

static int64_t bound(const json_t *schema, const char *key, int64_t other)
{
    const json_t *v = json_object_get(schema, key);
    return json_is_integer(v) ? (int64_t)json_integer_value(v) : other;
}

static bool is_enforced(const json_t *schema, const char *format)
{
    return !json_object_get(schema, "pattern") &&
           ft_schema_holds_format(format, bound(schema, "minLength", 0),
                                  bound(schema, "maxLength", INT64_MAX));
}

/* Keywords whose values are data, not schemas: a "format" inside them is not a keyword. */
static bool is_data(const char *key)
{
    static const char *const data[] = {"enum", "const", "default", "examples", "required"};
    for (size_t i = 0; i < FT_COUNT(data); i++)
        if (!strcmp(key, data[i])) return true;
    return false;
}

static void walk(relaxer *s, json_t *j)
{
    const size_t at = strlen(s->path);
    const char *key;
    json_t *v;
    void *next;
    size_t i;
    const json_t *f = json_object_get(j, "format");
    if (json_is_string(f) && !is_enforced(j, json_string_value(f))) {
        char what[PATH + 80];
        snprintf(what, sizeof what, "format %.40s at #%s", json_string_value(f), s->path);
        add_note(s->a, what, strlen(what), "");
        json_object_del(j, "format");
    }
    json_object_foreach_safe(j, next, key, v)
    {
        if (is_data(key)) continue;
        snprintf(s->path + at, PATH - at, "/%s", key);
        walk(s, v);
        s->path[at] = 0;
    }
    json_array_foreach(j, i, v)
    {
        snprintf(s->path + at, PATH - at, "/%zu", i);
        walk(s, v);
        s->path[at] = 0;
    }
}

/* Adds what ft_schema_enforceable removed: texts "KEYWORD at #PATH: WHY". */
static void add_removed(ft_gen_params *a, const char *removed, const char *where)
{
    json_t *list = json_loads(removed, 0, NULL);
    const json_t *one;
    size_t i;
    json_array_foreach(list, i, one)
    {
        const char *text = json_string_value(one), *at = strstr(text, " at #");
        const char *rest = at ? at + strlen(" at #") : text, *why = strstr(rest, ": ");
        char what[PATH + 80];
        snprintf(what, sizeof what, "%.*s%s%.*s", (int)(rest - text), text, at ? where : "",
                 (int)(why ? (size_t)(why - rest) : strlen(rest)), rest);
        add_note(a, what, strlen(what), why ? why + 2 : "");
    }
    json_decref(list);
}

bool ft_schema_relax(ft_gen_params *a, const json_t *schema, const char *param, const char *where,
                     char **text, ft_http_error *error)
{
    relaxer s = {.a = a};
    ft_err err;
    char *removed = NULL;
    json_t *copy = json_deep_copy(schema);
    snprintf(s.path, sizeof s.path, "%s", where);
    walk(&s, copy);
    char *plain = json_dumps(copy, JSON_COMPACT | JSON_ENCODE_ANY);
    json_decref(copy);
    const ft_status st = plain ? ft_schema_enforceable(plain, text, &removed, &err)
                               : ft_fail(&err, FT_EFORMAT, "%s cannot be serialised", param);
    if (!st) add_removed(a, removed, where);
    free(removed);
    free(plain);
    return st ? ft_http_error_from(error, st, param, &err) : true;
}
