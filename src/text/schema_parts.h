/* text/schema_parts.h - the parts of the schema compiler: merging, numbers, regular expressions. */
#ifndef FT_TEXT_SCHEMA_PARTS_H
#define FT_TEXT_SCHEMA_PARTS_H

#include "base/buf.h"

#include <jansson.h>

typedef struct ft_schema_ctx {
    json_t *root;
    ft_buf path; /* path of the current schema, "#/properties/a" */
    ft_err *err;
    bool contradiction; /* the last failure: no value can satisfy the schema */
    int depth;
    uint64_t work;
} ft_schema_ctx;

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

ft_status ft_schema_number(ft_schema_ctx *c, ft_buf *out, const json_t *flat, bool integer);
ft_status ft_schema_pattern(ft_schema_ctx *c, ft_buf *out, const char *pattern, uint32_t *min,
                            uint32_t *max);
/* NULL: unknown format */
const char *ft_schema_format(const char *name, uint32_t *min, uint32_t *max);
void ft_schema_literal(ft_buf *out, const char *bytes, size_t n); /* a GBNF literal */

#endif
