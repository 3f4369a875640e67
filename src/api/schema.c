/* api/schema.c - checks and relaxes JSON schemas for callers. */
#define _POSIX_C_SOURCE 200809L /* strdup */
#include "text/schema.h"
#include "foretoken.h"
#include "text/schema_parts.h"

#include <stdlib.h>
#include <string.h>

bool ft_schema_holds_format(const char *format, int64_t min, int64_t max)
{
    uint32_t least, most;
    if (!ft_schema_format(format, &least, &most)) return false;
    return least >= min && (int64_t)most <= max;
}

ft_status ft_regex_grammar(const char *regex, char **gbnf, ft_err *err)
{
    ft_buf b;
    ft_buf_init(&b, FT_SCHEMA_GBNF_MAX);
    ft_status st = ft_regex_gbnf(&b, regex, err);
    if (!st && b.full)
        st = ft_fail(err, FT_ELIMIT, "the regular expression becomes a grammar of over %zu bytes",
                     (size_t)FT_SCHEMA_GBNF_MAX);
    if (!st) *gbnf = strdup(ft_buf_z(&b));
    ft_buf_release(&b);
    return st;
}

ft_status ft_schema_enforceable(const char *schema, char **out, char **removed, ft_err *err)
{
    json_t *root, *list = json_array();
    ft_status st = ft_schema_load(&root, ft_str_of(schema), err);
    if (!st) {
        st = ft_schema_remove_unsupported(root, list, err);
        if (!st) {
            *out = json_dumps(root, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
            *removed = json_dumps(list, JSON_COMPACT);
        }
        json_decref(root);
    }
    json_decref(list);
    return st;
}
