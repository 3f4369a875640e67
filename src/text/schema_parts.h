/* text/schema_parts.h - the parts of the schema compiler: merging, numbers, regular expressions. */
#ifndef FT_TEXT_SCHEMA_PARTS_H
#define FT_TEXT_SCHEMA_PARTS_H

#include "base/buf.h"

#include <jansson.h>

enum { FT_SCHEMA_DEPTH = 64, FT_SCHEMA_MULTIPLE_MAX = 200 };

/* Where a compilation failed: the keyword, and the schemas on the way to it, the root first. */
typedef struct ft_schema_blame {
    char key[64], why[160]; /* "": not because of a keyword */
    char path[200];
    json_t *at[FT_SCHEMA_DEPTH]; /* references */
    int n;
} ft_schema_blame;

typedef struct ft_schema_ctx {
    json_t *root;
    ft_schema_blame *blame; /* NULL: not wanted */
    ft_buf path;            /* path of the current schema, "#/properties/a" */
    ft_err *err;
    bool contradiction; /* the last failure: no value can satisfy the schema */
    int depth;
    uint64_t work;
} ft_schema_ctx;

/* Appends the grammar of a schema; blame may be NULL, else ft_schema_blame_release it. */
ft_status ft_schema_compile(ft_buf *out, json_t *root, ft_schema_blame *blame, ft_err *err);
void ft_schema_blame_release(ft_schema_blame *b);
/* text/schema_relax.c: removes the keywords that cannot be enforced, and appends a text "KEYWORD at
 * PATH: WHY" to the array `removed` for each. Fails as ft_schema_gbnf does for other errors. */
ft_status ft_schema_remove_unsupported(json_t *schema, json_t *removed, ft_err *err);
/* Parses the text of a schema. */
ft_status ft_schema_load(json_t **out, ft_str schema, ft_err *err);

/* These fail with "schema keyword 'KEY' at PATH: WHY". */
ft_status ft_schema_unsupported(ft_schema_ctx *c, const char *key, const char *why);
ft_status ft_schema_invalid(ft_schema_ctx *c, const char *key, const char *why);
ft_status ft_schema_contradiction(ft_schema_ctx *c, const char *key, const char *why);
size_t ft_schema_enter(ft_schema_ctx *c, const char *name); /* returns the mark for leave */
void ft_schema_leave(ft_schema_ctx *c, size_t mark);

/* A schema without $ref and allOf: *out is a new object with merged keywords. `enum` holds const
 * too, `type` is an array of names, `groups` an array of arrays: one of each must hold. `true` is
 * {}. */
ft_status ft_schema_flatten(ft_schema_ctx *c, json_t *schema, json_t **out);
/* A schema that requires both a and b; either may be NULL or true. New reference. */
json_t *ft_schema_both(json_t *a, json_t *b);
/* true when certainly no value satisfies both. */
bool ft_schema_disjoint(ft_schema_ctx *c, json_t *a, json_t *b);

/* *n_rule: the number of the next rule, for those that a multipleOf needs; they are appended to
 * rules. */
ft_status ft_schema_number(ft_schema_ctx *c, ft_buf *out, const json_t *flat, bool integer,
                           ft_buf *rules, uint32_t *n_rule);
bool ft_schema_is_multiple(double x, const json_t *of);
/* Appends a grammar for the texts that a regular expression matches as a whole. */
ft_status ft_regex_gbnf(ft_buf *out, const char *pattern, ft_err *err);
ft_status ft_schema_pattern(ft_schema_ctx *c, ft_buf *out, const char *pattern, uint32_t *min,
                            uint32_t *max);
/* NULL: unknown format */
const char *ft_schema_format(const char *name, uint32_t *min, uint32_t *max);
void ft_schema_literal(ft_buf *out, const char *bytes, size_t n); /* a GBNF literal */

#endif
