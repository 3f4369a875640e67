#include "tools/hf_json.h"

#include "base/file.h"
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>

#define MAX_JSON ((size_t)1 << 28) /* the largest tokenizer.json seen is 33 MB */

ft_status ft_hf_json_parse(json_t **out, const char *text, size_t n, const char *name, ft_err *err)
{
    json_error_t e;
    *out = json_loadb(text, n, JSON_ALLOW_NUL, &e);
    if (!*out)
        return ft_fail(err, FT_EFORMAT, "%s: line %d, column %d: %s", name, e.line, e.column,
                       e.text);
    if (json_is_object(*out)) return FT_OK;
    json_decref(*out);
    *out = NULL;
    return ft_fail(err, FT_EFORMAT, "%s: found a JSON array, want an object", name);
}

ft_status ft_hf_json_load(json_t **out, const char *dir, const char *name, ft_err *err)
{
    char path[4096];
    *out = NULL;
    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path)
        return ft_fail(err, FT_EINVAL, "the path %.60s... is too long", dir);
    if (!ft_file_exists(path)) return FT_OK;
    char *text;
    size_t n;
    ft_status st = ft_file_read(&text, &n, path, MAX_JSON, err);
    if (st) return st;
    st = ft_hf_json_parse(out, text, n, path, err);
    ft_free(text);
    return st;
}

json_t *ft_hf_get(const ft_hf_obj *o, const char *key)
{
    for (size_t i = 0; i < FT_COUNT(o->at); i++) {
        json_t *v = json_object_get(o->at[i], key);
        if (v && !json_is_null(v)) return v;
    }
    return NULL;
}

bool ft_hf_has(const ft_hf_obj *o, const char *key)
{
    return ft_hf_get(o, key) != NULL;
}

void ft_hf_bad(ft_hf_obj *o, const char *fmt, ...)
{
    if (o->note->st) return;
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    o->note->st = ft_fail(o->note->err, FT_EFORMAT, "%s: %s", o->file, text);
}

static const char *kind_of(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER:
    case JSON_REAL: return "a number";
    case JSON_TRUE:
    case JSON_FALSE: return "true or false";
    default: return "null";
    }
}

static int64_t check_int(ft_hf_obj *o, const char *key, const json_t *v, int64_t lo, int64_t hi,
                         int64_t def)
{
    if (!json_is_integer(v)) {
        ft_hf_bad(o, "%s is %s, want a whole number", key, kind_of(v));
        return def;
    }
    const int64_t x = json_integer_value(v);
    if (x >= lo && x <= hi) return x;
    ft_hf_bad(o, "%s is %lld, want %lld to %lld", key, (long long)x, (long long)lo, (long long)hi);
    return def;
}

int64_t ft_hf_int(ft_hf_obj *o, const char *key, int64_t lo, int64_t hi)
{
    const json_t *v = ft_hf_get(o, key);
    if (v) return check_int(o, key, v, lo, hi, lo);
    ft_hf_bad(o, "%s is missing, want a whole number", key);
    return lo;
}

int64_t ft_hf_int_or(ft_hf_obj *o, const char *key, int64_t lo, int64_t hi, int64_t def)
{
    const json_t *v = ft_hf_get(o, key);
    return v ? check_int(o, key, v, lo, hi, def) : def;
}

double ft_hf_num_or(ft_hf_obj *o, const char *key, double lo, double hi, double def)
{
    const json_t *v = ft_hf_get(o, key);
    if (!v) return def;
    if (!json_is_number(v)) {
        ft_hf_bad(o, "%s is %s, want a number", key, kind_of(v));
        return def;
    }
    const double x = json_number_value(v);
    if (x >= lo && x <= hi) return x;
    ft_hf_bad(o, "%s is %g, want %g to %g", key, x, lo, hi);
    return def;
}

bool ft_hf_bool_or(ft_hf_obj *o, const char *key, bool def)
{
    const json_t *v = ft_hf_get(o, key);
    if (!v) return def;
    if (!json_is_boolean(v)) ft_hf_bad(o, "%s is %s, want true or false", key, kind_of(v));
    return json_is_true(v);
}

const char *ft_hf_text_or(ft_hf_obj *o, const char *key, const char *def)
{
    const json_t *v = ft_hf_get(o, key);
    if (!v) return def;
    if (json_is_string(v)) return json_string_value(v);
    ft_hf_bad(o, "%s is %s, want a string", key, kind_of(v));
    return def;
}

ft_hf_obj ft_hf_inner(ft_hf_obj *o, const char *key)
{
    json_t *v = ft_hf_get(o, key);
    if (v && !json_is_object(v)) {
        ft_hf_bad(o, "%s is %s, want an object", key, kind_of(v));
        v = NULL;
    }
    return (ft_hf_obj){.at = {v, NULL}, .file = o->file, .note = o->note};
}
