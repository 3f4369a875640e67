/* text/stream_value.c - converts the parameters of tool calls to JSON: by the schema of the tool,
 * from JSON calls, and from the value syntax of Gemma. */
#include "text/stream_value.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <stdlib.h>

#define MARK "<|\"|>"

enum { MAX_DEPTH = 100, MAX_SCHEMA_DEPTH = 16 };

static ft_str trim(ft_str s)
{
    while (s.n && ft_json_space(s.p[0])) s.p++, s.n--;
    while (s.n && ft_json_space(s.p[s.n - 1])) s.n--;
    return s;
}

/* ---- schemas ---- */

static const json_t *member(const json_t *o, ft_str key)
{
    char z[512];
    if (key.n >= sizeof z || memchr(key.p, 0, key.n)) return NULL;
    memcpy(z, key.p, key.n);
    z[key.n] = 0;
    return json_object_get(o, z);
}

static const json_t *function_of(const json_t *tools, ft_str name)
{
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *t = json_array_get(tools, i), *f = json_object_get(t, "function");
        if (!f) f = t;
        const json_t *n = json_object_get(f, "name");
        if (json_is_string(n) &&
            ft_str_eq(name, (ft_str){json_string_value(n), json_string_length(n)}))
            return f;
    }
    return NULL;
}

bool ft_tool_known(const json_t *tools, ft_str name)
{
    return function_of(tools, name) != NULL;
}

static unsigned type_bit(const char *z)
{
    static const struct {
        const char *name;
        unsigned bit;
    } types[] = {{"string", FT_TYPE_STRING}, {"integer", FT_TYPE_NUMBER},
                 {"number", FT_TYPE_NUMBER}, {"boolean", FT_TYPE_BOOLEAN},
                 {"null", FT_TYPE_NULL},     {"array", FT_TYPE_ARRAY},
                 {"object", FT_TYPE_OBJECT}};
    for (size_t i = 0; z && i < FT_COUNT(types); i++)
        if (!strcmp(z, types[i].name)) return types[i].bit;
    return 0;
}

static unsigned bit_of_value(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT: return FT_TYPE_OBJECT;
    case JSON_ARRAY: return FT_TYPE_ARRAY;
    case JSON_STRING: return FT_TYPE_STRING;
    case JSON_INTEGER:
    case JSON_REAL: return FT_TYPE_NUMBER;
    case JSON_NULL: return FT_TYPE_NULL;
    default: return FT_TYPE_BOOLEAN;
    }
}

static unsigned types_of(const json_t *schema, int depth)
{
    static const char *const unions[] = {"anyOf", "oneOf"};
    unsigned bits = 0;
    if (depth > MAX_SCHEMA_DEPTH) return 0;
    const json_t *type = json_object_get(schema, "type"), *all = json_object_get(schema, "enum");
    if (json_is_string(type)) return type_bit(json_string_value(type));
    for (size_t i = 0; i < json_array_size(type); i++)
        bits |= type_bit(json_string_value(json_array_get(type, i)));
    for (size_t i = 0; !bits && i < json_array_size(all); i++)
        bits |= bit_of_value(json_array_get(all, i));
    for (size_t u = 0; u < FT_COUNT(unions); u++) {
        const json_t *l = json_object_get(schema, unions[u]);
        for (size_t i = 0; i < json_array_size(l); i++)
            bits |= types_of(json_array_get(l, i), depth + 1);
    }
    return bits;
}

unsigned ft_tool_types(const json_t *tools, ft_str name, ft_str key)
{
    const json_t *f = function_of(tools, name);
    const json_t *p = json_object_get(json_object_get(f, "parameters"), "properties");
    if (!p) return 0;
    const json_t *schema = member(p, key);
    return schema ? types_of(schema, 0) : FT_TYPE_STRING;
}

/* ---- JSON output ---- */

void ft_json_escape(ft_buf *out, ft_str text)
{
    for (size_t i = 0; i < text.n;) {
        int len;
        const uint32_t c = ft_utf8_decode(text.p + i, text.n - i, &len);
        if (c == FT_UTF8_BAD)
            ft_buf_puts(out, "\xEF\xBF\xBD");
        else if (c == '"' || c == '\\')
            ft_buf_printf(out, "\\%c", (int)c);
        else if (c == '\n')
            ft_buf_puts(out, "\\n");
        else if (c == '\t')
            ft_buf_puts(out, "\\t");
        else if (c == '\r')
            ft_buf_puts(out, "\\r");
        else if (c < 0x20)
            ft_buf_printf(out, "\\u%04x", c);
        else
            ft_buf_put(out, text.p + i, (size_t)len);
        i += (size_t)len;
    }
}

static void put_string(ft_buf *out, ft_str text)
{
    ft_buf_putc(out, '"');
    ft_json_escape(out, text);
    ft_buf_putc(out, '"');
}

static void put_json(ft_buf *out, const json_t *v)
{
    char *z = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
    ft_buf_puts(out, z ? z : "null");
    free(z);
}

/* Models write these values in Python syntax because templates do. */
static ft_str as_json_word(ft_str s)
{
    if (ft_str_is(s, "True")) return FT_STR("true");
    if (ft_str_is(s, "False")) return FT_STR("false");
    if (ft_str_is(s, "None")) return FT_STR("null");
    return s;
}

void ft_json_of_text(ft_buf *out, ft_str text, unsigned types)
{
    if (types != FT_TYPE_STRING) {
        const ft_str s = as_json_word(trim(text));
        json_t *v = s.n ? json_loadb(s.p, s.n, JSON_DECODE_ANY, NULL) : NULL;
        const bool fits = v && !json_is_string(v) && (!types || (bit_of_value(v) & types));
        /* a quoted string is unquoted only where the schema does not allow strings */
        const bool quoted = v && json_is_string(v) && types && !(types & FT_TYPE_STRING);
        if (fits || quoted) put_json(out, v);
        json_decref(v);
        if (fits || quoted) return;
    }
    put_string(out, text);
}

bool ft_json_call(ft_str text, ft_buf *name, ft_buf *args)
{
    json_t *o = json_loadb(text.p, text.n, 0, NULL);
    const json_t *n = json_object_get(o, "name");
    const json_t *a = json_object_get(o, "arguments");
    if (!a) a = json_object_get(o, "parameters");
    bool ok = json_is_string(n) && json_string_length(n);
    if (ok && json_is_object(a)) {
        put_json(args, a);
    } else if (ok && json_is_string(a)) { /* JSON in a string */
        json_t *in = json_loadb(json_string_value(a), json_string_length(a), 0, NULL);
        ok = json_is_object(in);
        if (ok) put_json(args, in);
        json_decref(in);
    } else if (ok && !a) {
        ft_buf_puts(args, "{}");
    } else {
        ok = false;
    }
    if (ok) ft_buf_put(name, json_string_value(n), json_string_length(n));
    json_decref(o);
    return ok;
}

/* ---- Gemma's values ---- */

typedef struct reader {
    ft_str s;
    size_t at;
    ft_buf *out;
} reader;

static void skip_spaces(reader *r)
{
    while (r->at < r->s.n && ft_json_space(r->s.p[r->at])) r->at++;
}

static bool next_is(const reader *r, const char *z)
{
    const size_t n = strlen(z);
    return r->s.n - r->at >= n && !memcmp(r->s.p + r->at, z, n);
}

static bool take_char(reader *r, char c)
{
    skip_spaces(r);
    if (r->at >= r->s.n || r->s.p[r->at] != c) return false;
    r->at++;
    return true;
}

/* <|"|>text<|"|> */
static bool read_marked(reader *r)
{
    const size_t from = r->at + sizeof MARK - 1;
    const size_t end = ft_str_find(r->s, FT_STR(MARK), from);
    if (end == SIZE_MAX) return false;
    put_string(r->out, (ft_str){r->s.p + from, end - from});
    r->at = end + sizeof MARK - 1;
    return true;
}

/* "text" as in JSON */
static bool read_quoted(reader *r)
{
    size_t end = r->at + 1;
    while (end < r->s.n && r->s.p[end] != '"') end += r->s.p[end] == '\\' ? 2 : 1;
    if (end >= r->s.n) return false;
    json_t *v = json_loadb(r->s.p + r->at, end + 1 - r->at, JSON_DECODE_ANY, NULL);
    if (!v) return false;
    put_string(r->out, (ft_str){json_string_value(v), json_string_length(v)});
    json_decref(v);
    r->at = end + 1;
    return true;
}

/* Reads up to the next separator: a number, true, false, null, or a string without delimiters. */
static bool read_bare(reader *r)
{
    const size_t from = r->at;
    while (r->at < r->s.n && !strchr(",]}", r->s.p[r->at]) && r->s.p[r->at] && !next_is(r, MARK))
        r->at++;
    const ft_str text = trim((ft_str){r->s.p + from, r->at - from});
    if (!text.n || (r->at < r->s.n && !strchr(",]}", r->s.p[r->at]))) return false;
    const ft_str word = as_json_word(text);
    json_t *v = json_loadb(word.p, word.n, JSON_DECODE_ANY, NULL);
    if (v)
        put_json(r->out, v);
    else
        put_string(r->out, text);
    json_decref(v);
    return true;
}

static bool read_key(reader *r)
{
    skip_spaces(r);
    bool ok = true;
    if (next_is(r, MARK)) {
        ok = read_marked(r);
    } else if (next_is(r, "\"")) {
        ok = read_quoted(r);
    } else {
        const size_t from = r->at;
        while (r->at < r->s.n && !strchr(":,{}[]", r->s.p[r->at]) && r->s.p[r->at]) r->at++;
        const ft_str key = trim((ft_str){r->s.p + from, r->at - from});
        ok = key.n != 0;
        put_string(r->out, key);
    }
    if (!ok || !take_char(r, ':')) return false;
    ft_buf_putc(r->out, ':');
    return true;
}

static bool read_value(reader *r, int depth);

/* An object or a list, after its opening bracket. */
static bool read_members(reader *r, bool object, int depth)
{
    const char close = object ? '}' : ']';
    ft_buf_putc(r->out, object ? '{' : '[');
    for (bool first = true; !take_char(r, close); first = false) {
        if (!first && !take_char(r, ',')) return false;
        if (!first) ft_buf_putc(r->out, ',');
        if (object && !read_key(r)) return false;
        if (!read_value(r, depth)) return false;
    }
    ft_buf_putc(r->out, close);
    return true;
}

static bool read_value(reader *r, int depth)
{
    if (depth > MAX_DEPTH) return false;
    skip_spaces(r);
    if (next_is(r, MARK)) return read_marked(r);
    if (next_is(r, "\"")) return read_quoted(r);
    if (take_char(r, '{')) return read_members(r, true, depth + 1);
    if (take_char(r, '[')) return read_members(r, false, depth + 1);
    return read_bare(r);
}

bool ft_gemma_call(ft_str text, ft_buf *name, ft_buf *args)
{
    reader r = {trim(text), 0, args};
    if (!next_is(&r, "call:")) return false;
    r.at += 5;
    const size_t from = r.at;
    while (r.at < r.s.n && r.s.p[r.at] != '{' && r.s.p[r.at] != '<') r.at++;
    const ft_str n = trim((ft_str){r.s.p + from, r.at - from});
    if (!n.n || !ft_utf8_valid(n) || !take_char(&r, '{') || !read_members(&r, true, 0))
        return false;
    skip_spaces(&r);
    if (r.at != r.s.n) return false;
    ft_buf_put_str(name, n);
    return !args->full;
}
