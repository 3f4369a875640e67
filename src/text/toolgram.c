#include "text/toolgram.h"

#include "base/mem.h"
#include "text/schema.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- building blocks ---- */

static bool is_name(char c, bool first)
{
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    return letter || (!first && ((c >= '0' && c <= '9') || c == '-'));
}

/* Copies a grammar with a prefix before the name of every rule, so that several can be combined. */
static void put_renamed(ft_buf *out, ft_str g, const char *prefix)
{
    char quote = 0;
    for (size_t i = 0; i < g.n; i++) {
        const char c = g.p[i];
        if (quote) {
            ft_buf_putc(out, c);
            if (c == '\\' && i + 1 < g.n)
                ft_buf_putc(out, g.p[++i]);
            else if (c == quote)
                quote = 0;
        } else if (is_name(c, true)) {
            size_t n = 1;
            while (i + n < g.n && is_name(g.p[i + n], false)) n++;
            ft_buf_puts(out, prefix);
            ft_buf_put(out, g.p + i, n);
            i += n - 1;
        } else {
            if (c == '"') quote = '"';
            if (c == '[') quote = ']';
            ft_buf_putc(out, c);
        }
    }
    ft_buf_putc(out, '\n');
}

/* Text as a literal. */
static void put_literal(ft_buf *out, const char *text)
{
    ft_buf_putc(out, '"');
    for (const char *p = text; *p; p++) {
        const unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\')
            ft_buf_printf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            ft_buf_printf(out, "\\x%02x", c);
        else
            ft_buf_putc(out, (char)c);
    }
    ft_buf_putc(out, '"');
}

/* Writes a rule for text that does not contain the tag, whose only '<' is its first character: the
 * characters after each '<' must differ from the tag before its end. */
static void put_text_rule(ft_buf *out, const char *name, const char *tag)
{
    const size_t n = strlen(tag);
    ft_buf_printf(out, "%s ::= [^<]* (\"<\" %s1)*\n", name, name);
    for (size_t i = 1; i < n; i++) {
        const char c = tag[i];
        const char *escape = c == ']' || c == '\\' || c == '^' ? "\\" : "";
        ft_buf_printf(out, "%s%zu ::= ([^<%s%c] [^<]*", name, i, escape, c);
        if (i + 1 < n) {
            const char letter[2] = {c, 0};
            ft_buf_puts(out, " | ");
            put_literal(out, letter);
            ft_buf_printf(out, " %s%zu", name, i + 1);
        }
        ft_buf_puts(out, ")?\n");
    }
}

/* ---- parameters ---- */

typedef struct maker {
    const ft_toolgram *g;
    ft_buf rules;
    int n_value;
} maker;

static const json_t *properties_of(const json_t *params)
{
    return json_object_get(params, "properties");
}

static bool required(const json_t *params, const char *key)
{
    const json_t *k;
    size_t i;
    json_array_foreach(json_object_get(params, "required"), i, k)
    {
        const char *name = json_string_value(k);
        if (name && !strcmp(name, key)) return true;
    }
    return false;
}

static bool is_text(const json_t *schema)
{
    const char *type = json_string_value(json_object_get(schema, "type"));
    return type && !strcmp(type, "string");
}

/* Writes the alternatives of an enum of strings; false when the schema is not one. */
static bool put_choices(ft_buf *out, const json_t *schema)
{
    const json_t *list = json_object_get(schema, "enum"), *v;
    size_t i;
    if (!json_array_size(list)) return false;
    json_array_foreach(list, i, v) if (!json_is_string(v)) return false;
    ft_buf_puts(out, "(");
    json_array_foreach(list, i, v)
    {
        if (i) ft_buf_puts(out, " | ");
        put_literal(out, json_string_value(v));
    }
    ft_buf_puts(out, ")");
    return true;
}

/* The schema as text, with the definitions of the parameters, so that its references resolve. */
static char *schema_text(const json_t *schema, const json_t *params)
{
    static const char *const defs[] = {"$defs", "definitions"};
    json_t *whole = json_is_object(schema) ? json_copy((json_t *)(uintptr_t)schema) : json_object();
    for (size_t i = 0; i < FT_COUNT(defs); i++) {
        json_t *d = json_object_get(params, defs[i]);
        if (d) json_object_set(whole, defs[i], d);
    }
    char *text = json_dumps(whole, JSON_COMPACT);
    json_decref(whole);
    return text;
}

static bool put_schema(ft_buf *g, const char *text)
{
    ft_err err;
    ft_buf_clear(g);
    g->full = false;
    return text && !ft_schema_gbnf(g, ft_str_of(text), &err);
}

/* Writes rules with the prefix vN- for JSON that matches the schema. When the schema cannot be
 * enforced, only its type is, or any JSON is allowed, so that tools with such schemas still work.
 */
static void put_json_rule(maker *m, const json_t *schema, const json_t *params, char rule[32])
{
    ft_buf g;
    char prefix[16];
    json_t *type = json_object_get(schema, "type");
    json_t *bare = type ? json_pack("{s:O}", "type", type) : json_object();
    char *full = schema_text(schema, params), *less = json_dumps(bare, JSON_COMPACT);
    ft_buf_init(&g, FT_SCHEMA_GBNF_MAX);
    if (!put_schema(&g, full) && !put_schema(&g, less)) put_schema(&g, "{}");
    snprintf(prefix, sizeof prefix, "v%d-", m->n_value++);
    put_renamed(&m->rules, ft_buf_str(&g), prefix);
    snprintf(rule, 32, "%sroot", prefix);
    free(full);
    free(less);
    json_decref(bare);
    ft_buf_release(&g);
}

/* ---- one call ---- */

static void put_xml_value(maker *m, ft_buf *out, const json_t *schema, const json_t *params)
{
    char rule[32];
    if (is_text(schema) || !json_object_get(schema, "type")) {
        if (put_choices(out, schema)) return;
        if (is_text(schema)) {
            ft_buf_puts(out, "text");
            return;
        }
    }
    put_json_rule(m, schema, params, rule);
    ft_buf_puts(out, rule);
}

static void put_xml_call(maker *m, ft_buf *out, const char *name, const json_t *params)
{
    const char *key;
    json_t *schema;
    ft_buf_puts(out, "\"<tool_call>\\n<function=\" ");
    put_literal(out, name);
    ft_buf_puts(out, " \">\\n\"");
    json_object_foreach((json_t *)(uintptr_t)properties_of(params), key, schema)
    {
        ft_buf_puts(out, " (\"<parameter=\" ");
        put_literal(out, key);
        ft_buf_puts(out, " \">\\n\" ");
        put_xml_value(m, out, schema, params);
        ft_buf_printf(out, " \"\\n</parameter>\\n\")%s", required(params, key) ? "" : "?");
    }
    ft_buf_puts(out, " \"</function>\\n</tool_call>\"");
}

static void put_json_call(maker *m, ft_buf *out, const char *name, const json_t *params)
{
    char rule[32];
    json_t *any = json_pack("{s:s}", "type", "object");
    put_json_rule(m, params ? params : any, params, rule);
    json_decref(any);
    ft_buf_puts(out, "\"<tool_call>\\n{\\\"name\\\": \\\"\" ");
    put_literal(out, name);
    ft_buf_printf(out, " \"\\\", \\\"arguments\\\": \" %s \"}\\n</tool_call>\"", rule);
}

static const char *gemma_value(const json_t *schema)
{
    static const char *const known[][2] = {{"string", "gtext"},   {"integer", "ginteger"},
                                           {"number", "gnumber"}, {"boolean", "gboolean"},
                                           {"object", "gobject"}, {"array", "glist"}};
    const char *type = json_string_value(json_object_get(schema, "type"));
    for (size_t i = 0; type && i < FT_COUNT(known); i++)
        if (!strcmp(type, known[i][0])) return known[i][1];
    return "gvalue";
}

/* Writes rules for keys in order, with commas between those present: rule gN-i-1 matches the keys
 * from i on when no key came before, gN-i-0 when one did. */
static void put_gemma_params(maker *m, ft_buf *out, const json_t *params)
{
    const char *key;
    json_t *schema;
    int n = 0;
    const json_t *all = properties_of(params);
    const size_t count = json_object_size(all);
    const char **keys = ft_new_n(const char *, count + 1);
    json_object_foreach((json_t *)(uintptr_t)all, key, schema) keys[n++] = key;
    const int base = m->n_value;
    for (int first = 0; first < 2; first++) {
        ft_buf_printf(&m->rules, "g%d-%zu-%d ::= \"\"\n", base, count, first);
        for (int i = n - 1; i >= 0; i--) {
            ft_buf_printf(&m->rules, "g%d-%d-%d ::= %s", base, i, first, first ? "" : "\",\" ");
            put_literal(&m->rules, keys[i]);
            ft_buf_printf(&m->rules, " \":\" %s g%d-%d-0",
                          gemma_value(json_object_get(all, keys[i])), base, i + 1);
            if (!required(params, keys[i]))
                ft_buf_printf(&m->rules, " | g%d-%d-%d", base, i + 1, first);
            ft_buf_puts(&m->rules, "\n");
        }
    }
    m->n_value++;
    ft_buf_printf(out, "g%d-0-1", base);
    ft_free(keys);
}

static void put_gemma_call(maker *m, ft_buf *out, const char *name, const json_t *params)
{
    ft_buf_puts(out, "\"<|tool_call>call:\" ");
    put_literal(out, name);
    ft_buf_puts(out, " \"{\" ");
    put_gemma_params(m, out, params);
    ft_buf_puts(out, " \"}<tool_call|>\"");
}

/* ---- the grammar ---- */

static void put_shared_rules(maker *m)
{
    if (m->g->syntax == FT_CALLS_XML) put_text_rule(&m->rules, "text", "</parameter>");
    if (m->g->syntax != FT_CALLS_GEMMA4) return;
    put_text_rule(&m->rules, "gbody", "<|\"|>");
    ft_buf_puts(&m->rules,
                "gtext ::= \"<|\\\"|>\" gbody \"<|\\\"|>\"\n"
                "ginteger ::= \"-\"? [0-9]{1,15}\n"
                "gnumber ::= ginteger (\".\" [0-9]{1,15})?\n"
                "gboolean ::= \"true\" | \"false\"\n"
                "gkey ::= [a-zA-Z_] [a-zA-Z0-9_-]*\n"
                "gobject ::= \"{\" (gkey \":\" gvalue (\",\" gkey \":\" gvalue)*)? \"}\"\n"
                "glist ::= \"[\" (gvalue (\",\" gvalue)*)? \"]\"\n"
                "gvalue ::= gtext | gnumber | gboolean | \"null\" | gobject | glist\n");
}

static ft_status put_calls(maker *m, ft_buf *calls, ft_err *err)
{
    const json_t *t;
    size_t i;
    int n = 0;
    json_array_foreach(m->g->tools, i, t)
    {
        const json_t *f = json_object_get(t, "function");
        const char *name = json_string_value(json_object_get(f, "name"));
        const json_t *params = json_object_get(f, "parameters");
        if (!name || (m->g->name && strcmp(name, m->g->name))) continue;
        if (n++) ft_buf_puts(calls, " | ");
        switch (m->g->syntax) {
        case FT_CALLS_XML: put_xml_call(m, calls, name, params); break;
        case FT_CALLS_JSON: put_json_call(m, calls, name, params); break;
        case FT_CALLS_GEMMA4: put_gemma_call(m, calls, name, params); break;
        }
    }
    if (n) return FT_OK;
    return ft_fail(err, FT_EINVAL, "no tool named \"%.80s\"", m->g->name ? m->g->name : "");
}

/* Writes the rules of the response that is allowed instead of calls. */
static ft_status put_answer(maker *m, ft_err *err)
{
    ft_buf g;
    ft_buf_init(&g, FT_SCHEMA_GBNF_MAX);
    const ft_status st = ft_schema_gbnf(&g, ft_str_of(m->g->schema), err);
    if (!st) put_renamed(&m->rules, ft_buf_str(&g), "a-");
    ft_buf_release(&g);
    return st;
}

const char *ft_toolgram_trigger(ft_call_syntax s)
{
    return s == FT_CALLS_GEMMA4 ? "<|tool_call>" : "<tool_call>";
}

ft_status ft_toolgram_gbnf(ft_buf *out, const ft_toolgram *g, ft_err *err)
{
    maker m = {.g = g};
    ft_buf calls;
    ft_buf_init(&m.rules, FT_SCHEMA_GBNF_MAX);
    ft_buf_init(&calls, FT_SCHEMA_GBNF_MAX);
    put_shared_rules(&m);
    ft_status st = put_calls(&m, &calls, err);
    if (!st && g->schema) st = put_answer(&m, err);
    if (!st && (m.rules.full || calls.full))
        st = ft_fail(err, FT_ELIMIT, "the tools make a grammar of more than %zu bytes",
                     FT_SCHEMA_GBNF_MAX);
    if (!st) {
        const char *gap = g->syntax == FT_CALLS_GEMMA4 ? "" : "\"\\n\" ";
        ft_buf_puts(out, ft_buf_z(&m.rules));
        ft_buf_printf(out, "call ::= %s\n", ft_buf_z(&calls));
        ft_buf_printf(out, "calls ::= call");
        if (!g->one) ft_buf_printf(out, " (%scall)*", gap);
        ft_buf_printf(out, "\nroot ::= calls%s\n", g->schema ? " | a-root" : "");
    }
    ft_buf_release(&m.rules);
    ft_buf_release(&calls);
    return st;
}
