/* text/schema_merge.c - flattens a schema: follows references, merges allOf, and combines keywords
 * that occur more than once. */
#include "text/schema_parts.h"

#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { DEPTH_MAX = 64, WORK_MAX = 200000 };

typedef ft_status merge_fn(ft_schema_ctx *c, json_t *into, const char *key, json_t *value);

static ft_status fail_keyword(ft_schema_ctx *c, ft_status code, const char *key, const char *why)
{
    return ft_fail(c->err, code, "schema keyword '%.60s' at %.200s: %s", key, ft_buf_z(&c->path),
                   why);
}

ft_status ft_schema_unsupported(ft_schema_ctx *c, const char *key, const char *why)
{
    c->contradiction = false;
    if (c->blame) {
        snprintf(c->blame->key, sizeof c->blame->key, "%s", key);
        snprintf(c->blame->why, sizeof c->blame->why, "%s", why);
        snprintf(c->blame->path, sizeof c->blame->path, "%s", ft_buf_z(&c->path));
    }
    return fail_keyword(c, FT_EUNSUPPORTED, key, why);
}

ft_status ft_schema_invalid(ft_schema_ctx *c, const char *key, const char *why)
{
    c->contradiction = false;
    return fail_keyword(c, FT_EINVAL, key, why);
}

ft_status ft_schema_contradiction(ft_schema_ctx *c, const char *key, const char *why)
{
    c->contradiction = true;
    return fail_keyword(c, FT_EINVAL, key, why);
}

size_t ft_schema_enter(ft_schema_ctx *c, const char *name)
{
    const size_t mark = c->path.len;
    ft_buf_putc(&c->path, '/');
    ft_buf_puts(&c->path, name);
    return mark;
}

void ft_schema_leave(ft_schema_ctx *c, size_t mark)
{
    if (mark > c->path.len) return;
    c->path.len = mark;
    c->path.full = false;
    if (c->path.data) c->path.data[mark] = 0;
}

/* ---- one keyword at a time ---- */

static ft_status take_greater(ft_schema_ctx *c, json_t *into, const char *key, json_t *v)
{
    json_t *old = json_object_get(into, key);
    if (!json_is_number(v)) return ft_schema_invalid(c, key, "want a number");
    if (!old || json_number_value(v) > json_number_value(old)) json_object_set(into, key, v);
    return FT_OK;
}

static ft_status take_less(ft_schema_ctx *c, json_t *into, const char *key, json_t *v)
{
    json_t *old = json_object_get(into, key);
    if (!json_is_number(v)) return ft_schema_invalid(c, key, "want a number");
    if (!old || json_number_value(v) < json_number_value(old)) json_object_set(into, key, v);
    return FT_OK;
}

static ft_status check_count(ft_schema_ctx *c, const char *key, json_t *v)
{
    const double d = json_number_value(v);
    if (!json_is_number(v) || d < 0 || d != floor(d))
        return ft_schema_invalid(c, key, "want a whole number of 0 or more");
    return FT_OK;
}

static ft_status take_min_count(ft_schema_ctx *c, json_t *into, const char *key, json_t *v)
{
    const ft_status st = check_count(c, key, v);
    return st ? st : take_greater(c, into, key, v);
}

static ft_status take_max_count(ft_schema_ctx *c, json_t *into, const char *key, json_t *v)
{
    const ft_status st = check_count(c, key, v);
    return st ? st : take_less(c, into, key, v);
}

/* Two different values cannot be enforced together. */
static ft_status take_same(ft_schema_ctx *c, json_t *into, const char *key, json_t *v)
{
    json_t *old = json_object_get(into, key);
    if (!json_is_string(v)) return ft_schema_invalid(c, key, "want a string");
    if (old && !json_equal(old, v))
        return ft_schema_unsupported(c, key,
                                     "two different values apply here, which is not supported");
    json_object_set(into, key, v);
    return FT_OK;
}

static bool same_value(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
    return json_equal(a, b) == 1;
}

static ft_status take_enum(ft_schema_ctx *c, json_t *into, const char *key, json_t *v)
{
    json_t *old = json_object_get(into, "enum");
    if (!json_is_array(v) || !json_array_size(v))
        return ft_schema_invalid(c, key, "want a list of values");
    c->work += json_array_size(v) * (1 + json_array_size(old));
    json_t *both = json_array();
    size_t i, k;
    json_t *x, *y;
    json_array_foreach(v, i, x)
    {
        bool in = !old;
        if (old) json_array_foreach(old, k, y) in = in || same_value(x, y);
        if (in) json_array_append(both, x);
    }
    json_object_set_new(into, "enum", both);
    return json_array_size(both)
               ? FT_OK
               : ft_schema_contradiction(c, key, "the lists have no common value");
}

static ft_status take_const(ft_schema_ctx *c, json_t *into, const char *key, json_t *v)
{
    json_t *list = json_pack("[O]", v);
    const ft_status st = take_enum(c, into, key, list);
    json_decref(list);
    return st;
}

static bool type_in(json_t *list, const char *name)
{
    size_t i;
    json_t *t;
    json_array_foreach(list, i, t)
    {
        if (!strcmp(json_string_value(t), name)) return true;
        if (!strcmp(name, "integer") && !strcmp(json_string_value(t), "number")) return true;
    }
    return false;
}

static ft_status take_type(ft_schema_ctx *c, json_t *into, const char *key, json_t *v)
{
    static const char *const known[] = {"null",   "boolean", "object", "array",
                                        "string", "integer", "number"};
    json_t *list = json_is_string(v) ? json_pack("[O]", v) : json_incref(v), *x;
    json_t *old = json_object_get(into, "type"), *both = json_array();
    bool ok = json_is_array(list);
    size_t i;
    if (ok) json_array_foreach(list, i, x)
        {
            bool is = false;
            for (size_t k = 0; k < FT_COUNT(known); k++)
                is |= json_is_string(x) && !strcmp(json_string_value(x), known[k]);
            ok = ok && is;
        }
    for (size_t k = 0; ok && k < FT_COUNT(known); k++) {
        if (!type_in(list, known[k]) || (old && !type_in(old, known[k]))) continue;
        if (!strcmp(known[k], "integer") && type_in(list, "number") &&
            (!old || type_in(old, "number")))
            continue; /* number includes it and follows */
        json_array_append_new(both, json_string(known[k]));
    }
    json_decref(list);
    json_object_set_new(into, "type", both);
    if (!ok) return ft_schema_invalid(c, key, "want names of JSON types");
    return json_array_size(both)
               ? FT_OK
               : ft_schema_contradiction(c, key, "no type satisfies all keywords");
}

static ft_status take_required(ft_schema_ctx *c, json_t *into, const char *key, json_t *v)
{
    json_t *old = json_object_get(into, key), *x;
    size_t i;
    if (!json_is_array(v)) return ft_schema_invalid(c, key, "want a list of names");
    if (!old) json_object_set_new(into, key, old = json_object());
    json_array_foreach(v, i, x)
    {
        if (!json_is_string(x)) return ft_schema_invalid(c, key, "want a list of names");
        json_object_set_new(old, json_string_value(x), json_true());
    }
    return FT_OK;
}

static ft_status take_group(ft_schema_ctx *c, json_t *into, const char *key, json_t *v)
{
    if (!json_is_array(v) || !json_array_size(v))
        return ft_schema_invalid(c, key, "want a list of schemas");
    if (!strcmp(key, "oneOf"))
        for (size_t i = 0; i < json_array_size(v); i++)
            for (size_t k = 0; k < i; k++)
                if (!ft_schema_disjoint(c, json_array_get(v, i), json_array_get(v, k)))
                    return ft_schema_unsupported(
                        c, key,
                        "two of the schemas may match the same value; want anyOf, or "
                        "schemas that differ in type or in a required constant");
    json_t *groups = json_object_get(into, "groups");
    if (!groups) json_object_set_new(into, "groups", groups = json_array());
    json_array_append_new(groups, json_pack("{s:s,s:O}", "key", key, "of", v));
    return FT_OK;
}

/* Multiples of a whole number are integers. Otherwise a power of ten: it limits the decimals. */
static ft_status take_multiple(ft_schema_ctx *c, json_t *into, const char *key, json_t *v)
{
    const double m = json_number_value(v);
    json_t *old = json_object_get(into, key);
    if (!json_is_number(v) || m <= 0) return ft_schema_invalid(c, key, "want a number above 0");
    if (m == floor(m) && m <= FT_SCHEMA_MULTIPLE_MAX) {
        const int64_t a = (int64_t)m;
        const int64_t b = FT_MAX((int64_t)json_number_value(old), 1); /* none, or below 1: 1 */
        int64_t x = a, y = b;
        while (y) {
            const int64_t r = x % y;
            x = y;
            y = r;
        }
        if (a / x * b > FT_SCHEMA_MULTIPLE_MAX)
            return ft_schema_unsupported(c, key, "the least common multiple is above 200");
        json_object_set_new(into, key, json_integer(a / x * b));
        json_t *all =
            json_pack("[ssssss]", "null", "boolean", "object", "array", "string", "integer");
        const ft_status st = take_type(c, into, "type", all);
        json_decref(all);
        return st;
    }
    int k = 0;
    while (k < 15 && m < 1 && fabs(m * pow(10, k) - 1) > 1e-9) k++;
    if (m > 1 || k == 15)
        return ft_schema_unsupported(c, key,
                                     "want a whole number up to 200, or 0.1, 0.01, and so on");
    if (!old || json_number_value(old) < m) json_object_set(into, key, v);
    return FT_OK;
}

static ft_status take_unique(ft_schema_ctx *c, json_t *into, const char *key, json_t *v)
{
    (void)into;
    return json_is_false(v) ? FT_OK : ft_schema_unsupported(c, key, "not supported");
}

/* ---- objects and arrays: keywords that depend on each other ---- */

json_t *ft_schema_both(json_t *a, json_t *b)
{
    if (!a || json_is_true(a)) return b ? json_incref(b) : json_true();
    if (!b || json_is_true(b) || a == b || json_equal(a, b)) return json_incref(a);
    if (json_is_false(a) || json_is_false(b)) return json_false();
    return json_pack("{s:[OO]}", "allOf", a, b);
}

static ft_status take_names(ft_schema_ctx *c, json_t *into, const char *key, json_t *v)
{
    if (!json_is_object(v) && !json_is_boolean(v))
        return ft_schema_invalid(c, key, "want a schema");
    json_object_set_new(into, key, ft_schema_both(json_object_get(into, key), v));
    return FT_OK;
}

static ft_status merge_properties(ft_schema_ctx *c, json_t *into, json_t *schema)
{
    json_t *p = json_object_get(schema, "properties"),
           *more = json_object_get(schema, "additionalProperties");
    if (!p && !more) return FT_OK;
    if (p && !json_is_object(p)) return ft_schema_invalid(c, "properties", "want an object");
    if (more && !json_is_object(more) && !json_is_boolean(more))
        return ft_schema_invalid(c, "additionalProperties", "want a schema");
    json_t *old = json_object_get(into, "properties"),
           *old_more = json_object_get(into, "additionalProperties");
    json_t *all = json_object(), *v;
    const char *k;
    if (old) json_object_foreach(old, k, v)
        {
            json_t *mine = p ? json_object_get(p, k) : NULL;
            json_object_set_new(all, k, ft_schema_both(v, mine ? mine : more));
        }
    if (p) json_object_foreach(p, k, v)
        {
            if (!json_is_object(v) && !json_is_boolean(v)) {
                json_decref(all);
                return ft_schema_invalid(c, "properties", "want schemas");
            }
            if (!old || !json_object_get(old, k))
                json_object_set_new(all, k, ft_schema_both(old_more, v));
        }
    c->work += json_object_size(all);
    json_t *rest = ft_schema_both(old_more, more);
    json_object_set_new(into, "properties", all);
    json_object_set_new(into, "additionalProperties", rest);
    return FT_OK;
}

static ft_status merge_items(ft_schema_ctx *c, json_t *into, json_t *schema)
{
    json_t *items = json_object_get(schema, "items"),
           *first = json_object_get(schema, "prefixItems");
    json_t *more = json_object_get(schema, "additionalItems");
    if (json_is_array(items) && !first) { /* the older spelling */
        first = items;
        items = more;
    } else if (more && items) {
        items = json_object_get(schema, "items"); /* additionalItems has no effect without a list */
    }
    if (!items && !first) return FT_OK;
    if (first && !json_is_array(first))
        return ft_schema_invalid(c, "prefixItems", "want a list of schemas");
    if (items && !json_is_object(items) && !json_is_boolean(items))
        return ft_schema_invalid(c, "items", "want a schema");
    json_t *old = json_object_get(into, "items"), *old_first = json_object_get(into, "prefixItems");
    if ((first || old_first) && (old || old_first))
        return ft_schema_unsupported(
            c, "prefixItems", "two descriptions of the items apply here, which is not supported");
    if (first) json_object_set(into, "prefixItems", first);
    json_object_set_new(into, "items", ft_schema_both(old, items));
    return FT_OK;
}

/* ---- a whole schema ---- */

static const struct {
    const char *key;
    merge_fn *fn; /* NULL: does not affect validity, or is handled with another keyword */
} keyword[] = {
    {"type", take_type},
    {"enum", take_enum},
    {"const", take_const},
    {"minimum", take_greater},
    {"exclusiveMinimum", take_greater},
    {"maximum", take_less},
    {"exclusiveMaximum", take_less},
    {"multipleOf", take_multiple},
    {"minLength", take_min_count},
    {"maxLength", take_max_count},
    {"pattern", take_same},
    {"format", take_same},
    {"minItems", take_min_count},
    {"maxItems", take_max_count},
    {"uniqueItems", take_unique},
    {"minProperties", take_min_count},
    {"maxProperties", take_max_count},
    {"required", take_required},
    {"propertyNames", take_names},
    {"anyOf", take_group},
    {"oneOf", take_group},
    {"properties", NULL},
    {"additionalProperties", NULL},
    {"items", NULL},
    {"prefixItems", NULL},
    {"additionalItems", NULL},
    {"$ref", NULL},
    {"allOf", NULL},
    {"nullable", NULL},
    {"title", NULL},
    {"description", NULL},
    {"default", NULL},
    {"example", NULL},
    {"examples", NULL},
    {"deprecated", NULL},
    {"readOnly", NULL},
    {"writeOnly", NULL},
    {"$schema", NULL},
    {"$id", NULL},
    {"$comment", NULL},
    {"$anchor", NULL},
    {"$defs", NULL},
    {"definitions", NULL},
    {"discriminator", NULL},
    {"contentEncoding", NULL},
    {"contentMediaType", NULL},
};

static ft_status merge_keyword(ft_schema_ctx *c, json_t *into, json_t *schema, const char *k,
                               json_t *v)
{
    size_t i = 0;
    while (i < FT_COUNT(keyword) && strcmp(keyword[i].key, k)) i++;
    if (i == FT_COUNT(keyword))
        return k[0] == 'x' && k[1] == '-' ? FT_OK : ft_schema_unsupported(c, k, "not supported");
    if (!keyword[i].fn) return FT_OK;
    if (keyword[i].fn == take_type && json_is_true(json_object_get(schema, "nullable"))) {
        json_t *list = json_is_string(v) ? json_pack("[O]", v) : json_deep_copy(v);
        json_array_append_new(list, json_string("null"));
        const ft_status st = take_type(c, into, k, list);
        json_decref(list);
        return st;
    }
    return keyword[i].fn(c, into, k, v);
}

/* Follows a reference of the form "#" or "#/a/b"; other forms are not supported. */
static ft_status resolve_ref(ft_schema_ctx *c, json_t *ref, json_t **out)
{
    const char *z = json_string_value(ref);
    if (!z) return ft_schema_invalid(c, "$ref", "want a string");
    if (z[0] != '#' || (z[1] && z[1] != '/'))
        return ft_schema_unsupported(c, "$ref",
                                     "want a reference into this schema, such as #/$defs/name");
    json_t *at = c->root;
    for (z++; *z && at;) {
        char name[256];
        size_t n = 0;
        for (z++; *z && *z != '/'; z++) {
            char ch = *z;
            if (ch == '~' && (z[1] == '0' || z[1] == '1')) ch = *++z == '0' ? '~' : '/';
            if (ch == '%')
                return ft_schema_unsupported(c, "$ref",
                                             "percent signs in references are not supported");
            if (n + 1 >= sizeof name)
                return ft_schema_unsupported(c, "$ref", "a name of more than 255 bytes");
            name[n++] = ch;
        }
        name[n] = 0;
        at = json_is_array(at) ? json_array_get(at, strtoul(name, NULL, 10))
                               : json_object_get(at, name);
    }
    if (!at) return ft_schema_invalid(c, "$ref", "the referenced schema does not exist");
    *out = at;
    return FT_OK;
}

static ft_status merge_schema(ft_schema_ctx *c, json_t *into, json_t *schema);

static ft_status merge_all_of(ft_schema_ctx *c, json_t *into, json_t *list)
{
    size_t i;
    json_t *x;
    if (!json_is_array(list)) return ft_schema_invalid(c, "allOf", "want a list of schemas");
    json_array_foreach(list, i, x)
    {
        const ft_status st = merge_schema(c, into, x);
        if (st) return st;
    }
    return FT_OK;
}

static ft_status merge_schema(ft_schema_ctx *c, json_t *into, json_t *schema)
{
    ft_status st;
    if (json_is_true(schema)) return FT_OK;
    if (json_is_false(schema))
        return ft_schema_contradiction(c, "false", "nothing is allowed here");
    if (!json_is_object(schema))
        return ft_schema_invalid(c, "schema", "want an object, true or false");
    if (c->depth >= DEPTH_MAX)
        return ft_schema_unsupported(c, json_object_get(schema, "$ref") ? "$ref" : "allOf",
                                     "more than 64 nested references or allOf");
    if (++c->work > WORK_MAX)
        return ft_schema_unsupported(c, "schema", "merging it takes more than 200000 steps");
    c->depth++;
    const char *k;
    json_t *v, *target;
    st = FT_OK;
    json_object_foreach(schema, k, v)
    {
        if (!strcmp(k, "$ref")) {
            if (!(st = resolve_ref(c, v, &target))) st = merge_schema(c, into, target);
        } else if (!strcmp(k, "allOf")) {
            st = merge_all_of(c, into, v);
        } else {
            st = merge_keyword(c, into, schema, k, v);
        }
        if (st) break;
    }
    c->depth--;
    if (st || (st = merge_properties(c, into, schema))) return st;
    return merge_items(c, into, schema);
}

ft_status ft_schema_flatten(ft_schema_ctx *c, json_t *schema, json_t **out)
{
    json_t *into = json_object();
    const ft_status st = merge_schema(c, into, schema);
    if (st) json_decref(into);
    *out = st ? NULL : into;
    return st;
}

/* ---- oneOf ---- */

static bool lists_disjoint(json_t *a, json_t *b)
{
    size_t i, k;
    json_t *x, *y;
    json_array_foreach(a, i, x) json_array_foreach(b, k, y) if (same_value(x, y)) return false;
    return true;
}

static bool types_disjoint(json_t *a, json_t *b)
{
    size_t i;
    json_t *x;
    json_array_foreach(a, i, x)
    {
        const char *t = json_string_value(x);
        if (type_in(b, t) || (!strcmp(t, "number") && type_in(b, "integer"))) return false;
    }
    return true;
}

static bool is_only(json_t *types, const char *name)
{
    return json_array_size(types) == 1 &&
           !strcmp(json_string_value(json_array_get(types, 0)), name);
}

static bool flat_disjoint(ft_schema_ctx *c, json_t *a, json_t *b)
{
    json_t *ea = json_object_get(a, "enum"), *eb = json_object_get(b, "enum");
    if (ea && eb) return lists_disjoint(ea, eb);
    json_t *ta = json_object_get(a, "type"), *tb = json_object_get(b, "type");
    if (!ta || !tb) return false;
    if (types_disjoint(ta, tb)) return true;
    if (!is_only(ta, "object") || !is_only(tb, "object")) return false;
    json_t *pa = json_object_get(a, "properties"), *pb = json_object_get(b, "properties"), *v;
    json_t *ra = json_object_get(a, "required"), *rb = json_object_get(b, "required");
    const char *k;
    json_object_foreach(pa, k, v)
    {
        json_t *w = json_object_get(pb, k);
        /* one side must require it, or its absence could satisfy both */
        if (!w || (!json_object_get(ra, k) && !json_object_get(rb, k))) continue;
        if (ft_schema_disjoint(c, v, w)) return true;
    }
    json_object_foreach(
        ra, k, v) if (!json_object_get(pb, k) &&
                      json_is_false(json_object_get(b, "additionalProperties"))) return true;
    json_object_foreach(
        rb, k, v) if (!json_object_get(pa, k) &&
                      json_is_false(json_object_get(a, "additionalProperties"))) return true;
    return false;
}

bool ft_schema_disjoint(ft_schema_ctx *c, json_t *a, json_t *b)
{
    ft_schema_ctx quiet = *c; /* a failure here only means that it cannot be decided */
    quiet.err = NULL;
    ft_buf_init(&quiet.path, 0);
    if (quiet.depth++ >= DEPTH_MAX) return false;
    json_t *fa = NULL, *fb = NULL;
    bool apart = false;
    if (!ft_schema_flatten(&quiet, a, &fa) && !ft_schema_flatten(&quiet, b, &fb))
        apart = flat_disjoint(&quiet, fa, fb);
    json_decref(fa);
    json_decref(fb);
    c->work = quiet.work;
    return apart;
}
