#include "text/schema.h"

#include "text/gbnf.h"
#include "text/schema_parts.h"

#include "base/json.h"
#include "base/dict.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>

/* One optional space is allowed after an opening bracket, before a closing bracket, after a comma
 * and after a colon. */
static const char primitives[] =
    "ws ::= \" \"?\n"
    "comma ::= \",\" ws\n"
    "char ::= [^\"\\\\\\x00-\\x1f] | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" ([0-9a-cefA-CEF] hex{3} | "
    "[dD] [0-7] hex{2}))\n"
    "hex ::= [0-9a-fA-F]\n"
    "string ::= \"\\\"\" char* \"\\\"\"\n"
    "integer ::= \"0\" | \"-\"? [1-9] [0-9]{0,14}\n"
    "number ::= \"-\"? (\"0\" | [1-9] [0-9]{0,14}) (\".\" [0-9]{1,15})? ([eE] [+-]? [0-9]{1,2})?\n"
    "boolean ::= \"true\" | \"false\"\n"
    "object ::= \"{\" ws (string \":\" ws value (comma string \":\" ws value)*)? ws \"}\"\n"
    "array ::= \"[\" ws (value (comma value)*)? ws \"]\"\n"
    "value ::= object | array | string | number | boolean | \"null\"\n";

typedef struct conv {
    ft_schema_ctx c;
    ft_buf *out;
    ft_dict memo; /* the text of a schema -> its rule */
    char **key;   /* owns the texts */
    size_t n_key, cap_key;
    uint32_t n_rule;
} conv;

static void blame_push(ft_schema_blame *b, json_t *schema)
{
    if (b && b->n < FT_SCHEMA_DEPTH) b->at[b->n] = json_incref(schema);
    if (b) b->n++;
}

/* Down to n schemas. */
static void blame_cut(ft_schema_blame *b, int n)
{
    while (b && b->n > n)
        if (--b->n < FT_SCHEMA_DEPTH) json_decref(b->at[b->n]);
}

void ft_schema_blame_release(ft_schema_blame *b)
{
    blame_cut(b, 0);
}

static ft_status visit_schema(conv *v, json_t *schema, uint32_t *rule);

static ft_status visit_at(conv *v, const char *name, json_t *schema, uint32_t *rule)
{
    const size_t mark = ft_schema_enter(&v->c, name);
    const ft_status st = visit_schema(v, schema, rule);
    if (!st) ft_schema_leave(&v->c, mark);
    return st;
}

static void end_rule(conv *v, uint32_t rule, const ft_buf *body)
{
    ft_buf_printf(v->out, "r%u ::= ", rule);
    ft_buf_put_str(v->out, ft_buf_str(body));
    ft_buf_putc(v->out, '\n');
}

static uint32_t count_of(const json_t *flat, const char *key, uint32_t none)
{
    const json_t *n = json_object_get(flat, key);
    return n ? (uint32_t)FT_MIN(json_number_value(n), 4e9) : none;
}

static ft_status read_counts(conv *v, const json_t *flat, const char *lo, const char *hi,
                             uint32_t *min, uint32_t *max)
{
    *min = count_of(flat, lo, 0);
    *max = count_of(flat, hi, UINT32_MAX);
    if (*min > *max) return ft_schema_contradiction(&v->c, lo, "the minimum is above the maximum");
    if (*min > FT_GBNF_REPEAT_MAX)
        return ft_schema_unsupported(&v->c, lo, "the value is above 100000");
    if (*max != UINT32_MAX && *max > FT_GBNF_REPEAT_MAX)
        return ft_schema_unsupported(&v->c, hi, "the value is above 100000");
    return FT_OK;
}

static void put_repeat(ft_buf *b, uint32_t min, uint32_t max)
{
    if (max == UINT32_MAX)
        ft_buf_printf(b, "{%u,}", min);
    else
        ft_buf_printf(b, "{%u,%u}", min, max);
}

/* ---- scalars ---- */

static ft_status put_string(conv *v, ft_buf *b, const json_t *flat)
{
    const char *pattern = json_string_value(json_object_get(flat, "pattern"));
    const char *format = json_string_value(json_object_get(flat, "format"));
    uint32_t min, max, least = 0, most = UINT32_MAX;
    ft_status st = read_counts(v, flat, "minLength", "maxLength", &min, &max);
    if (st) return st;
    if (pattern && format)
        return ft_schema_unsupported(&v->c, "format", "not supported together with pattern");
    if (!pattern && !format) {
        if (!min && max == UINT32_MAX) {
            ft_buf_puts(b, "string");
            return FT_OK;
        }
        ft_buf_puts(b, "\"\\\"\" char");
        put_repeat(b, min, max);
        ft_buf_puts(b, " \"\\\"\"");
        return FT_OK;
    }
    ft_buf_puts(b, "\"\\\"\" ");
    if (pattern) {
        if ((st = ft_schema_pattern(&v->c, b, pattern, &least, &most))) return st;
    } else {
        const char *gbnf = ft_schema_format(format, &least, &most);
        if (!gbnf)
            return ft_schema_unsupported(&v->c, "format",
                                         "want one of date time date-time duration uuid ipv4 ipv6 "
                                         "hostname email uri");
        ft_buf_puts(b, gbnf);
    }
    ft_buf_puts(b, " \"\\\"\"");
    if (least < min)
        return ft_schema_unsupported(&v->c, "minLength",
                                     "the pattern or format also allows shorter text");
    if (most > max)
        return ft_schema_unsupported(&v->c, "maxLength",
                                     "the pattern or format also allows longer text");
    return FT_OK;
}

/* ---- arrays ---- */

/* The schema of item i; NULL when there must not be an item i. */
static json_t *item_schema(const json_t *flat, size_t i)
{
    json_t *s = json_array_get(json_object_get(flat, "prefixItems"), i);
    return json_is_false(s) ? NULL : s;
}

static ft_status put_array(conv *v, ft_buf *b, const json_t *flat)
{
    uint32_t min, max, rule;
    ft_status st = read_counts(v, flat, "minItems", "maxItems", &min, &max);
    if (st) return st;
    const size_t n_first = json_array_size(json_object_get(flat, "prefixItems"));
    size_t named = 0;
    while (named < n_first && named < max && item_schema(flat, named)) named++;
    if (named < n_first || json_is_false(json_object_get(flat, "items")))
        max = (uint32_t)FT_MIN(max, named);
    if (min > max)
        return ft_schema_contradiction(&v->c, "minItems",
                                       "the schema does not allow that many items");
    ft_buf_puts(b, "\"[\" ws ");
    size_t open = 0;
    for (size_t i = 0; i < named; i++) {
        char name[40];
        snprintf(name, sizeof name, "prefixItems/%zu", i);
        if ((st = visit_at(v, name, item_schema(flat, i), &rule))) return st;
        if (i >= min) ft_buf_putc(b, '('), open++;
        ft_buf_printf(b, "%s r%u ", i ? "comma" : "", rule);
    }
    if (max > named) {
        json_t *rest = json_object_get(flat, "items");
        if ((st = visit_at(v, "items", rest ? rest : json_true(), &rule))) return st;
        const uint32_t lo = min > named ? min - (uint32_t)named : 0;
        const uint32_t hi = max == UINT32_MAX ? max : max - (uint32_t)named;
        if (named) {
            ft_buf_printf(b, "(comma r%u)", rule);
            put_repeat(b, lo, hi);
        } else {
            ft_buf_printf(b, "(r%u (comma r%u)", rule, rule);
            put_repeat(b, lo ? lo - 1 : 0, hi == UINT32_MAX ? hi : hi - 1);
            ft_buf_puts(b, lo ? ")" : ")?");
        }
    }
    while (open--) ft_buf_puts(b, ")?");
    ft_buf_puts(b, " ws \"]\"");
    return FT_OK;
}

/* ---- objects ---- */

static void put_key(ft_buf *b, const char *name)
{
    json_t *s = json_string(name);
    char *z = json_dumps(s, JSON_ENCODE_ANY);
    if (z) ft_schema_literal(b, z, strlen(z));
    ft_buf_puts(b, " \":\" ws ");
    free(z);
    json_decref(s);
}

/* Writes an expression for keys that are none of the names: a trie of the names, left at the first
 * character that differs. */
static void put_other_keys(ft_buf *b, const json_t *names, const char *prefix, size_t n, int depth)
{
    char next[256];
    size_t k = 0;
    bool whole = false;
    const char *name;
    json_t *x;
    json_object_foreach((json_t *)(uintptr_t)names, name, x)
    {
        /* other keys contain no escapes, so they cannot equal a name that needs one */
        if (strncmp(name, prefix, n) || strpbrk(name, "\"\\")) continue;
        if (!name[n])
            whole = true;
        else if (!memchr(next, name[n], k) && k < sizeof next)
            next[k++] = name[n];
    }
    const char *bar = "";
    ft_buf_putc(b, '(');
    for (size_t i = 0; i < k && depth < 100; i++) {
        char longer[120];
        memcpy(longer, prefix, n);
        longer[n] = next[i];
        longer[n + 1] = 0;
        ft_buf_puts(b, bar);
        ft_schema_literal(b, next + i, 1);
        ft_buf_putc(b, ' ');
        put_other_keys(b, names, longer, n + 1, depth + 1);
        bar = " | ";
    }
    ft_buf_printf(b, "%s[^\\\"\\\\\\x00-\\x1f", bar);
    for (size_t i = 0; i < k; i++) ft_buf_printf(b, "\\x%02x", (unsigned char)next[i]);
    ft_buf_puts(b, "] keychar*");
    if (!whole) ft_buf_puts(b, " | \"\"");
    ft_buf_putc(b, ')');
}

static bool plain_names(const json_t *names)
{
    const char *name;
    json_t *x;
    json_object_foreach((json_t *)(uintptr_t)names, name, x)
    {
        if (strlen(name) > 100) return false;
        for (const char *p = name; *p; p++)
            if ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7F) return false;
    }
    return true;
}

typedef struct prop {
    const char *name;
    uint32_t rule;
    bool required;
} prop;

/* Writes the rules for what may follow each property: the remaining properties in schema order,
 * each after a comma. */
static void put_rest(conv *v, const prop *p, size_t n, uint32_t base, uint32_t more)
{
    for (size_t i = n + 1; i-- > 0;) {
        ft_buf_printf(v->out, "r%u ::= ", base + (uint32_t)i);
        if (i == n) {
            if (more)
                ft_buf_printf(v->out, "(comma r%u)*", more);
            else
                ft_buf_puts(v->out, "\"\"");
        } else {
            ft_buf_puts(v->out, "(comma ");
            put_key(v->out, p[i].name);
            ft_buf_printf(v->out, "r%u)%s r%u", p[i].rule, p[i].required ? "" : "?",
                          base + (uint32_t)i + 1);
        }
        ft_buf_putc(v->out, '\n');
    }
}

/* What propertyNames asks of the names: nothing, one of a list, or what a rule for strings says. */
typedef struct name_test {
    json_t *list; /* the values allowed; NULL: no list */
    bool by_rule;
    uint32_t rule; /* if by_rule: of a name in quotation marks */
} name_test;

static ft_status read_names(conv *v, const json_t *flat, name_test *t)
{
    json_t *names = json_object_get(flat, "propertyNames"), *plain;
    *t = (name_test){0};
    if (!names || json_is_true(names)) return FT_OK;
    if (json_is_false(names)) {
        t->list = json_array();
        return FT_OK;
    }
    json_t *text = json_pack("{s:s}", "type", "string"), *both = ft_schema_both(text, names);
    const size_t mark = ft_schema_enter(&v->c, "propertyNames");
    ft_status st = ft_schema_flatten(&v->c, both, &plain);
    if (!st) {
        t->list = json_incref(json_object_get(plain, "enum"));
        t->by_rule = !t->list && json_object_size(plain) > 1; /* more than its type */
        json_decref(plain);
    }
    if (!st && t->by_rule) st = visit_schema(v, both, &t->rule);
    if (!st) ft_schema_leave(&v->c, mark);
    json_decref(both);
    json_decref(text);
    return st;
}

static bool name_allowed(const name_test *t, const char *name)
{
    size_t i;
    json_t *x;
    if (!t->list) return true;
    json_array_foreach(t->list, i,
                       x) if (json_is_string(x) && !strcmp(json_string_value(x), name)) return true;
    return false;
}

/* A rule for one additional "key": value with the keys of a list that are no names of properties.
 */
static uint32_t listed_rule(conv *v, const json_t *names, const name_test *t, uint32_t value)
{
    size_t i;
    json_t *x;
    uint32_t rule = 0;
    json_array_foreach(t->list, i, x)
    {
        if (!json_is_string(x) || json_object_get(names, json_string_value(x))) continue;
        char *z = json_dumps(x, JSON_ENCODE_ANY);
        if (!z) continue;
        if (!rule)
            ft_buf_printf(v->out, "r%u ::= (", rule = v->n_rule++);
        else
            ft_buf_puts(v->out, " | ");
        ft_schema_literal(v->out, z, strlen(z));
        free(z);
    }
    if (rule) ft_buf_printf(v->out, ") \":\" ws r%u\n", value);
    return rule;
}

/* A rule for one additional "key": value, or 0 when none is allowed. */
static ft_status more_rule(conv *v, const json_t *flat, const json_t *names, const name_test *t,
                           uint32_t *out)
{
    json_t *more = json_object_get(flat, "additionalProperties");
    uint32_t value;
    *out = 0;
    if (json_is_false(more)) return FT_OK;
    const ft_status st = visit_at(v, "additionalProperties", more ? more : json_true(), &value);
    if (st) return st;
    if (t->list) {
        *out = listed_rule(v, names, t, value);
        return FT_OK;
    }
    const bool free_keys = json_object_size(names) == 0;
    if (free_keys && t->by_rule) {
        *out = v->n_rule++;
        ft_buf_printf(v->out, "r%u ::= r%u \":\" ws r%u\n", *out, t->rule, value);
        return FT_OK;
    }
    if (!free_keys && !plain_names(names))
        return ft_schema_unsupported(
            &v->c, "additionalProperties",
            "not supported with property names longer than 100 bytes or not "
            "plain ASCII; want false");
    *out = v->n_rule++;
    ft_buf_printf(v->out, "r%u ::= ", *out);
    if (free_keys) {
        ft_buf_puts(v->out, "string");
    } else {
        ft_buf_puts(v->out, "\"\\\"\" ");
        put_other_keys(v->out, names, "", 0, 0);
        ft_buf_puts(v->out, " \"\\\"\"");
    }
    ft_buf_printf(v->out, " \":\" ws r%u\n", value);
    return FT_OK;
}

/* minProperties and maxProperties are supported only where the other keywords imply them. */
static ft_status check_sizes(conv *v, const json_t *flat, size_t n_required, size_t n, bool more)
{
    if (count_of(flat, "minProperties", 0) > n_required)
        return ft_schema_unsupported(
            &v->c, "minProperties",
            "above the number of required properties, which is not supported");
    if (count_of(flat, "maxProperties", UINT32_MAX) < (more ? UINT32_MAX : n))
        return ft_schema_unsupported(
            &v->c, "maxProperties",
            "below the number of properties that the schema allows, which is not supported");
    return FT_OK;
}

static ft_status read_props(conv *v, const json_t *flat, const name_test *t, prop *p, size_t *n)
{
    json_t *props = json_object_get(flat, "properties"), *need = json_object_get(flat, "required"),
           *s;
    json_t *more = json_object_get(flat, "additionalProperties");
    const char *k;
    *n = 0;
    json_object_foreach(props, k, s)
    {
        const bool required = json_object_get(need, k) != NULL;
        const size_t mark = ft_schema_enter(&v->c, "properties");
        if (json_is_false(s) || !name_allowed(t, k)) {
            if (required)
                return ft_schema_contradiction(&v->c, "required",
                                               "a required property that is not allowed");
            ft_schema_leave(&v->c, mark);
            continue;
        }
        const ft_status st = visit_at(v, k, s, &p[*n].rule);
        if (st) return st;
        ft_schema_leave(&v->c, mark);
        p[*n].name = k;
        p[(*n)++].required = required;
    }
    json_object_foreach(need, k, s)
    {
        if (json_object_get(props, k)) continue;
        if (json_is_false(more) || !name_allowed(t, k))
            return ft_schema_contradiction(
                &v->c, "required", "a required property that additionalProperties excludes");
        const ft_status st =
            visit_at(v, "additionalProperties", more ? more : json_true(), &p[*n].rule);
        if (st) return st;
        p[*n].name = k;
        p[(*n)++].required = true;
    }
    return FT_OK;
}

static void put_object_body(ft_buf *b, const prop *p, size_t n, uint32_t base, uint32_t more)
{
    const char *bar = "";
    bool must = false;
    ft_buf_puts(b, "\"{\" ws (");
    for (size_t i = 0; i < n && !must; i++) {
        ft_buf_puts(b, bar);
        put_key(b, p[i].name);
        ft_buf_printf(b, "r%u r%u", p[i].rule, base + (uint32_t)i + 1);
        bar = " | ";
        must = p[i].required;
    }
    if (more && !must) ft_buf_printf(b, "%sr%u r%u", bar, more, base + (uint32_t)n), bar = " | ";
    ft_buf_puts(b, must ? ")" : *bar ? ")?" : "\"\")");
    ft_buf_puts(b, " ws \"}\"");
}

static ft_status put_object(conv *v, ft_buf *b, const json_t *flat)
{
    json_t *props = json_object_get(flat, "properties"), *need = json_object_get(flat, "required");
    json_t *names = props ? json_copy(props) : json_object();
    json_object_update_missing(names, need);
    prop *p = ft_new_n(prop, json_object_size(names));
    size_t n = 0, n_required = 0;
    uint32_t more = 0;
    name_test t;
    ft_status st = read_names(v, flat, &t);
    if (!st && t.by_rule && json_object_size(names))
        st = ft_schema_unsupported(&v->c, "propertyNames",
                                   "not supported together with names of properties");
    if (!st) st = read_props(v, flat, &t, p, &n);
    if (!st) st = more_rule(v, flat, names, &t, &more);
    for (size_t i = 0; i < n; i++) n_required += p[i].required;
    if (!st) st = check_sizes(v, flat, n_required, n, more != 0);
    if (!st && v->n_rule + n + 1 > FT_SCHEMA_RULES_MAX)
        st = ft_schema_unsupported(&v->c, "properties", "the schema needs more than 20000 rules");
    if (!st) {
        const uint32_t base = v->n_rule;
        v->n_rule += (uint32_t)n + 1;
        put_rest(v, p, n, base, more);
        put_object_body(b, p, n, base, more);
    }
    ft_free(p);
    json_decref(t.list);
    json_decref(names);
    return st;
}

/* ---- enum and const ---- */

static const char *type_of(const json_t *x)
{
    switch (json_typeof(x)) {
    case JSON_OBJECT: return "object";
    case JSON_ARRAY: return "array";
    case JSON_STRING: return "string";
    case JSON_INTEGER: return "integer";
    case JSON_REAL: return json_real_value(x) == floor(json_real_value(x)) ? "integer" : "number";
    case JSON_NULL: return "null";
    default: return "boolean";
    }
}

static bool has_type(const json_t *types, const char *name)
{
    if (!types) return true;
    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *t = json_string_value(json_array_get(types, i));
        if (!strcmp(t, name) || (!strcmp(name, "integer") && !strcmp(t, "number"))) return true;
    }
    return false;
}

static size_t characters(const char *z)
{
    size_t n = 0;
    for (; *z; z++) n += ((unsigned char)*z & 0xC0) != 0x80;
    return n;
}

static bool within(const json_t *flat, double x, const char *lo, const char *hi, const char *above,
                   const char *below)
{
    const json_t *a = json_object_get(flat, lo), *b = json_object_get(flat, hi);
    const json_t *c = above ? json_object_get(flat, above) : NULL,
                 *d = below ? json_object_get(flat, below) : NULL;
    return !((a && x < json_number_value(a)) || (b && x > json_number_value(b)) ||
             (c && x <= json_number_value(c)) || (d && x >= json_number_value(d)));
}

/* Sets *in when a listed value satisfies the other keywords; fails when that cannot be decided. */
static ft_status value_satisfies(conv *v, const json_t *flat, const json_t *x, bool *in)
{
    static const char *const for_string[] = {"pattern", "format"};
    static const char *const for_array[] = {"prefixItems", "items"};
    static const char *const for_object[] = {"properties", "required", "minProperties",
                                             "maxProperties", "propertyNames"};
    const char *const *keys = NULL;
    size_t n = 0;
    *in = has_type(json_object_get(flat, "type"), type_of(x));
    if (json_is_number(x))
        *in = *in &&
              within(flat, json_number_value(x), "minimum", "maximum", "exclusiveMinimum",
                     "exclusiveMaximum") &&
              ft_schema_is_multiple(json_number_value(x), json_object_get(flat, "multipleOf"));
    if (json_is_string(x)) {
        *in = *in && within(flat, (double)characters(json_string_value(x)), "minLength",
                            "maxLength", NULL, NULL);
        keys = for_string, n = FT_COUNT(for_string);
    }
    if (json_is_array(x)) {
        *in = *in && within(flat, (double)json_array_size(x), "minItems", "maxItems", NULL, NULL);
        keys = for_array, n = FT_COUNT(for_array);
    }
    if (json_is_object(x)) keys = for_object, n = FT_COUNT(for_object);
    for (size_t i = 0; *in && i < n; i++)
        if (json_object_get(flat, keys[i]))
            return ft_schema_unsupported(&v->c, keys[i],
                                         "not supported together with enum or const");
    return FT_OK;
}

static ft_status put_enum(conv *v, ft_buf *b, const json_t *flat, json_t *list)
{
    const char *bar = "";
    size_t i;
    json_t *x;
    json_array_foreach(list, i, x)
    {
        bool in;
        const ft_status st = value_satisfies(v, flat, x, &in);
        if (st) return st;
        if (!in) continue;
        char *z = json_dumps(x, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(17));
        if (!z) return ft_schema_invalid(&v->c, "enum", "a value that cannot be serialised");
        ft_buf_puts(b, bar);
        ft_schema_literal(b, z, strlen(z));
        free(z);
        bar = " | ";
    }
    return *bar ? FT_OK
                : ft_schema_contradiction(&v->c, "enum",
                                          "no listed value satisfies the other keywords");
}

/* ---- schemas ---- */

/* Converts a flat schema back to an ordinary one, without its first group. */
static json_t *unflatten(const json_t *flat)
{
    json_t *plain = json_copy((json_t *)(uintptr_t)flat), *all = json_array(), *need = json_array(),
           *x;
    json_t *groups = json_object_get(flat, "groups");
    const char *k;
    json_object_foreach(json_object_get(flat, "required"), k, x)
        json_array_append_new(need, json_string(k));
    if (json_array_size(need)) json_object_set(plain, "required", need);
    json_decref(need);
    json_object_del(plain, "groups");
    json_array_append_new(all, plain);
    for (size_t i = 1; i < json_array_size(groups); i++) {
        const json_t *g = json_array_get(groups, i);
        json_array_append_new(all, json_pack("{s:O}", "anyOf", json_object_get(g, "of")));
    }
    return all;
}

static ft_status put_groups(conv *v, ft_buf *b, const json_t *flat, const json_t *groups)
{
    const json_t *g = json_array_get(groups, 0);
    const char *key = json_string_value(json_object_get(g, "key")), *bar = "";
    json_t *list = json_object_get(g, "of"), *rest = unflatten(flat);
    const bool alone = json_object_size(flat) == 1 && json_array_size(groups) == 1;
    ft_status st = FT_OK;
    for (size_t i = 0; i < json_array_size(list) && !st; i++) {
        char name[40];
        uint32_t rule;
        snprintf(name, sizeof name, "%s/%zu", key, i);
        json_t *both = json_copy(rest), *s = json_array_get(list, i), *all;
        json_array_append(both, s);
        all = alone ? json_incref(s) : json_pack("{s:O}", "allOf", both);
        const size_t mark = v->c.path.len;
        const int on_way = v->c.blame ? v->c.blame->n : 0;
        st = visit_at(v, name, all, &rule);
        if (!st) {
            ft_buf_printf(b, "%sr%u", bar, rule);
            bar = " | ";
        } else if (v->c.contradiction &&
                   !alone) { /* this alternative contradicts the rest of the schema */
            ft_schema_leave(&v->c, mark);
            blame_cut(v->c.blame, on_way);
            st = FT_OK;
        }
        json_decref(all);
        json_decref(both);
    }
    json_decref(rest);
    if (!st && !*bar)
        st = ft_schema_contradiction(&v->c, key,
                                     "every alternative contradicts the rest of the schema");
    return st;
}

/* Without `type`, the types follow from the other keywords; without any, all types are allowed. */
static json_t *infer_types(const json_t *flat)
{
    static const struct {
        const char *key, *type;
    } hint[] = {
        {"properties", "object"},       {"required", "object"},   {"minProperties", "object"},
        {"maxProperties", "object"},    {"items", "array"},       {"prefixItems", "array"},
        {"minItems", "array"},          {"maxItems", "array"},    {"pattern", "string"},
        {"format", "string"},           {"minLength", "string"},  {"maxLength", "string"},
        {"minimum", "number"},          {"maximum", "number"},    {"exclusiveMinimum", "number"},
        {"exclusiveMaximum", "number"}, {"multipleOf", "number"}, {"propertyNames", "object"}};
    json_t *types = json_object(), *list = json_array(), *x;
    const char *k;
    for (size_t i = 0; i < FT_COUNT(hint); i++)
        if (json_object_get(flat, hint[i].key))
            json_object_set_new(types, hint[i].type, json_true());
    json_object_foreach(types, k, x) json_array_append_new(list, json_string(k));
    json_decref(types);
    return list;
}

static ft_status put_type(conv *v, ft_buf *b, const json_t *flat, const char *type)
{
    if (!strcmp(type, "null")) ft_buf_puts(b, "\"null\"");
    if (!strcmp(type, "boolean")) ft_buf_puts(b, "boolean");
    if (!strcmp(type, "string")) return put_string(v, b, flat);
    if (!strcmp(type, "integer")) return ft_schema_number(&v->c, b, flat, true, v->out, &v->n_rule);
    if (!strcmp(type, "number")) return ft_schema_number(&v->c, b, flat, false, v->out, &v->n_rule);
    if (!strcmp(type, "array")) return put_array(v, b, flat);
    if (!strcmp(type, "object")) return put_object(v, b, flat);
    return FT_OK;
}

static ft_status put_types(conv *v, ft_buf *b, const json_t *flat)
{
    json_t *types = json_incref(json_object_get(flat, "type"));
    if (!types) types = infer_types(flat);
    if (!json_array_size(types)) ft_buf_puts(b, "value");
    ft_status st = FT_OK;
    for (size_t i = 0; i < json_array_size(types) && !st; i++) {
        if (i) ft_buf_puts(b, " | ");
        st = put_type(v, b, flat, json_string_value(json_array_get(types, i)));
    }
    json_decref(types);
    return st;
}

static ft_status put_schema(conv *v, ft_buf *b, json_t *schema)
{
    json_t *flat;
    ft_status st = ft_schema_flatten(&v->c, schema, &flat);
    if (st) return st;
    json_t *groups = json_object_get(flat, "groups"), *list = json_object_get(flat, "enum");
    if (groups)
        st = put_groups(v, b, flat, groups);
    else if (list)
        st = put_enum(v, b, flat, list);
    else
        st = put_types(v, b, flat);
    json_decref(flat);
    return st;
}

/* Makes one rule per schema text: equal texts share a rule, because their meaning does not depend
 * on their position. This also makes recursion finite. */
static ft_status visit_schema(conv *v, json_t *schema, uint32_t *rule)
{
    char *text = json_dumps(schema, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(17));
    if (!text) return ft_schema_invalid(&v->c, "schema", "the schema cannot be serialised");
    const bool known = ft_dict_find(&v->memo, ft_str_of(text), rule);
    v->c.work += strlen(text) / 64;
    if (known) {
        free(text);
        return FT_OK;
    }
    if (v->n_rule >= FT_SCHEMA_RULES_MAX || v->c.depth > 60) {
        free(text);
        return ft_schema_unsupported(&v->c, "schema",
                                     "nested more than 60 deep, or more than 20000 rules");
    }
    if (v->n_key == v->cap_key) {
        v->cap_key = v->cap_key ? v->cap_key * 2 : 64;
        v->key = ft_realloc(v->key, v->cap_key * sizeof *v->key);
    }
    v->key[v->n_key++] = text;
    *rule = v->n_rule++;
    ft_dict_put(&v->memo, ft_str_of(text), *rule);
    ft_buf body;
    ft_buf_init(&body, FT_SCHEMA_GBNF_MAX);
    v->c.depth++;
    blame_push(v->c.blame, schema);
    ft_status st = put_schema(v, &body, schema);
    if (!st && v->c.blame) blame_cut(v->c.blame, v->c.blame->n - 1);
    v->c.depth--;
    if (!st && (body.full || v->out->full))
        st = ft_schema_unsupported(&v->c, "schema", "the grammar is larger than 8 MiB");
    if (st) { /* other rules may refer to this one; it matches nothing */
        ft_buf_clear(&body);
        ft_buf_printf(&body, "\"x\" r%u", *rule);
    }
    end_rule(v, *rule, &body);
    ft_buf_release(&body);
    return st;
}

ft_status ft_schema_compile(ft_buf *out, json_t *root, ft_schema_blame *blame, ft_err *err)
{
    conv v = {.c = {.root = root, .err = err, .blame = blame}, .out = out};
    if (blame) *blame = (ft_schema_blame){0};
    ft_dict_init(&v.memo);
    ft_buf_init(&v.c.path, 4096);
    ft_buf_putc(&v.c.path, '#');
    ft_buf_puts(out, primitives);
    ft_buf_puts(out, "keychar ::= [^\"\\\\\\x00-\\x1f]\n");
    uint32_t rule;
    ft_status st = visit_schema(&v, root, &rule);
    if (!st) ft_buf_printf(out, "root ::= r%u\n", rule);
    if (!st && out->full)
        st = ft_fail(err, FT_ELIMIT, "schema: the grammar is larger than the buffer");
    ft_dict_release(&v.memo);
    for (size_t i = 0; i < v.n_key; i++) free(v.key[i]);
    ft_free(v.key);
    ft_buf_release(&v.c.path);
    return st;
}

ft_status ft_schema_load(json_t **out, ft_str schema, ft_err *err)
{
    json_error_t at;
    if (schema.n > FT_SCHEMA_TEXT_MAX)
        return ft_fail(err, FT_ELIMIT, "schema of %zu bytes, want at most %zu", schema.n,
                       FT_SCHEMA_TEXT_MAX);
    *out = ft_json_load(schema.p, schema.n, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &at);
    if (*out) return FT_OK;
    return ft_fail(err, FT_EFORMAT, "schema line %d column %d: %s", at.line, at.column, at.text);
}

ft_status ft_schema_gbnf(ft_buf *out, ft_str schema, ft_err *err)
{
    json_t *root;
    ft_status st = ft_schema_load(&root, schema, err);
    if (st) return st;
    st = ft_schema_compile(out, root, NULL, err);
    json_decref(root);
    return st;
}

ft_status ft_schema_grammar(ft_grammar **out, ft_str schema, ft_err *err)
{
    ft_buf text;
    ft_buf_init(&text, FT_SCHEMA_GBNF_MAX);
    ft_status st = ft_schema_gbnf(&text, schema, err);
    if (!st && (st = ft_grammar_new(out, ft_buf_str(&text), "root", err)))
        ft_err_prefix(err, "schema");
    ft_buf_release(&text);
    return st;
}
