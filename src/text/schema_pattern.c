/* text/schema_pattern.c - translates regular expressions and formats to grammars over the
 * characters of a JSON string. Supported: characters, classes, groups, alternatives, repetitions,
 * and ^ and $ at the two ends. Lookaround, backreferences and Unicode properties are rejected.
 * Characters that JSON must escape are written escaped; of the control characters only those with a
 * short escape are allowed.
 *
 * A plain regular expression (ft_regex_gbnf) is translated in the same way, without the escapes,
 * and matches the whole text. */
#include "text/schema_parts.h"

#include "text/gbnf.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>

#define ANY "(char)*"

typedef struct regex {
    ft_schema_ctx *c;
    const char *p;
    ft_buf *out;
    int depth;
    const char *plain; /* not for a JSON string: the whole expression, for messages; else NULL */
    ft_err *err;       /* with plain */
} regex;

typedef struct length {
    uint32_t min, max; /* UINT32_MAX: unbounded */
} length;

typedef struct set {
    ft_grange r[256];
    size_t n;
} set;

void ft_schema_literal(ft_buf *out, const char *bytes, size_t n)
{
    ft_buf_putc(out, '"');
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)bytes[i];
        if (c == '"' || c == '\\')
            ft_buf_printf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7F)
            ft_buf_printf(out, "\\x%02x", c);
        else
            ft_buf_putc(out, (char)c);
    }
    ft_buf_putc(out, '"');
}

static ft_status bad_pattern(regex *x, const char *why)
{
    if (x->plain)
        return ft_fail(x->err, FT_EUNSUPPORTED, "the regular expression, byte %zu: %s",
                       (size_t)(x->p - x->plain), why);
    return ft_schema_unsupported(x->c, "pattern", why);
}

static uint32_t plus(uint32_t a, uint32_t b)
{
    return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

static uint32_t times(uint32_t a, uint32_t b)
{
    if (!a || !b) return 0;
    if (a == UINT32_MAX || b == UINT32_MAX) return UINT32_MAX;
    const uint64_t p = (uint64_t)a * b;
    return p > UINT32_MAX ? UINT32_MAX : (uint32_t)p;
}

/* ---- sets of characters ---- */

static bool set_add(set *s, uint32_t lo, uint32_t hi)
{
    if (s->n == FT_COUNT(s->r)) return false;
    s->r[s->n++] = (ft_grange){lo, hi};
    return true;
}

static bool set_negate(set *s)
{
    set out = {.n = 0};
    uint32_t next = 0;
    bool ok = true;
    s->n = ft_granges_merge(s->r, s->n);
    for (size_t i = 0; i < s->n; i++) {
        if (s->r[i].lo > next) ok &= set_add(&out, next, s->r[i].lo - 1);
        next = s->r[i].hi + 1;
    }
    if (next <= 0x10FFFF) ok &= set_add(&out, next, 0x10FFFF);
    *s = out;
    return ok;
}

static bool set_add_class(set *s, char which)
{
    static const ft_grange space[] = {
        {9, 13},          {32, 32},         {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
        {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
    static const ft_grange word[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    static const ft_grange line[] = {{10, 10}, {13, 13}, {0x2028, 0x2029}};
    set own = {.n = 0};
    bool ok = true;
    const ft_grange *r = which == 's' || which == 'S' ? space : which == '.' ? line : word;
    size_t n = r == space ? FT_COUNT(space) : r == line ? FT_COUNT(line) : FT_COUNT(word);
    if (which == 'd' || which == 'D') n = 1;
    for (size_t i = 0; i < n; i++) ok &= set_add(&own, r[i].lo, r[i].hi);
    if (which == 'S' || which == 'W' || which == 'D' || which == '.') ok &= set_negate(&own);
    for (size_t i = 0; i < own.n; i++) ok &= set_add(s, own.r[i].lo, own.r[i].hi);
    return ok;
}

static bool set_has(const set *s, uint32_t c)
{
    for (size_t i = 0; i < s->n; i++)
        if (c >= s->r[i].lo && c <= s->r[i].hi) return true;
    return false;
}

static void put_class_range(ft_buf *out, uint32_t lo, uint32_t hi, bool plain)
{
    static const ft_grange all[] = {{1, 0xD7FF}, {0xE000, 0x10FFFF}};
    static const ft_grange json[] = {
        {0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0xD7FF}, {0xE000, 0x10FFFF}};
    const ft_grange *cut = plain ? all : json; /* json: all but " and \ and control characters */
    const size_t n = plain ? FT_COUNT(all) : FT_COUNT(json);
    for (size_t i = 0; i < n; i++) {
        const uint32_t a = FT_MAX(lo, cut[i].lo), b = FT_MIN(hi, cut[i].hi);
        if (a <= b) ft_buf_printf(out, "\\U%08x-\\U%08x", a, b);
    }
}

static ft_status put_set(regex *x, set *s)
{
    static const struct {
        uint32_t c;
        const char *gbnf;
    } escaped[] = {{'"', "\"\\\\\\\"\""}, {'\\', "\"\\\\\\\\\""}, {8, "\"\\\\b\""},
                   {9, "\"\\\\t\""},      {10, "\"\\\\n\""},      {12, "\"\\\\f\""},
                   {13, "\"\\\\r\""}};
    s->n = ft_granges_merge(s->r, s->n);
    const char *bar = "";
    ft_buf_putc(x->out, '(');
    const size_t before = x->out->len;
    ft_buf_putc(x->out, '[');
    for (size_t i = 0; i < s->n; i++)
        put_class_range(x->out, s->r[i].lo, s->r[i].hi, x->plain != NULL);
    if (x->out->len > before + 1) {
        ft_buf_putc(x->out, ']');
        bar = " | ";
    } else if (x->out->data) {
        x->out->len = before; /* no "[]": all characters of the class are escaped */
    }
    for (size_t i = 0; i < FT_COUNT(escaped); i++) {
        if (x->plain || !set_has(s, escaped[i].c)) continue;
        ft_buf_printf(x->out, "%s%s", bar, escaped[i].gbnf);
        bar = " | ";
    }
    ft_buf_putc(x->out, ')');
    return *bar ? FT_OK : bad_pattern(x, "a class without any character that is allowed");
}

/* ---- reading ---- */

static int read_hex(const char *p, int n, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < n; i++) {
        const int d = ft_hex_digit(p[i]);
        if (d < 0) return -1;
        *out = *out << 4 | (uint32_t)d;
    }
    return 0;
}

/* Reads the part after a backslash: a class (its letter is returned in *cls) or one character. */
static ft_status read_escape(regex *x, uint32_t *out, char *cls)
{
    const char c = *x->p;
    *cls = 0;
    if (!c) return bad_pattern(x, "the pattern ends in a backslash");
    if (strchr("dDwWsS", c)) {
        *cls = c;
        x->p++;
        return FT_OK;
    }
    static const char from[] = "tnrfv0", to[] = "\t\n\r\f\v";
    const char *at = strchr(from, c);
    x->p++;
    if (at && c != '0') {
        *out = (uint32_t)(unsigned char)to[at - from];
        return FT_OK;
    }
    if (c == 'x' || c == 'u') {
        const int n = c == 'x' ? 2 : 4;
        if (read_hex(x->p, n, out) || (*out >= 0xD800 && *out <= 0xDFFF))
            return bad_pattern(x, "an unsupported escape");
        x->p += n;
        return FT_OK;
    }
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
        (unsigned char)c >= 128)
        return bad_pattern(
            x, "word boundaries, backreferences and Unicode properties are not supported");
    *out = (uint32_t)(unsigned char)c;
    return FT_OK;
}

static ft_status read_plain(regex *x, uint32_t *out)
{
    int len;
    *out = ft_utf8_decode(x->p, strlen(x->p), &len);
    if (*out == FT_UTF8_BAD) return bad_pattern(x, "the pattern is not valid UTF-8");
    x->p += len;
    return FT_OK;
}

static ft_status read_class_item(regex *x, uint32_t *out, char *cls)
{
    *cls = 0;
    if (*x->p != '\\') return read_plain(x, out);
    x->p++;
    if (*x->p == 'b') {
        x->p++;
        *out = 8;
        return FT_OK;
    }
    return read_escape(x, out, cls);
}

static ft_status read_class(regex *x, set *s)
{
    ft_status st;
    s->n = 0;
    const bool negate = *x->p == '^';
    if (negate) x->p++;
    bool ok = true;
    while (*x->p != ']') {
        uint32_t lo = 0, hi = 0;
        char cls;
        if (!*x->p) return bad_pattern(x, "a class is not closed");
        if ((st = read_class_item(x, &lo, &cls))) return st;
        if (cls) {
            ok &= set_add_class(s, cls);
            continue;
        }
        hi = lo;
        if (x->p[0] == '-' && x->p[1] && x->p[1] != ']') {
            x->p++;
            if ((st = read_class_item(x, &hi, &cls))) return st;
            if (cls || hi < lo) return bad_pattern(x, "an invalid range in a class");
        }
        ok &= set_add(s, lo, hi);
    }
    x->p++;
    if (negate) ok &= set_negate(s);
    return ok ? FT_OK : bad_pattern(x, "a class of more than 256 ranges");
}

static ft_status read_alternatives(regex *x, length *len, bool top);

static ft_status read_group(regex *x, length *len)
{
    if (x->p[0] == '?') {
        if (x->p[1] == ':') {
            x->p += 2;
        } else if (x->p[1] == '<' && x->p[2] != '=' && x->p[2] != '!' && strchr(x->p, '>')) {
            x->p = strchr(x->p, '>') + 1;
        } else {
            return bad_pattern(x, "lookahead, lookbehind and flags are not supported");
        }
    }
    if (++x->depth > 50) return bad_pattern(x, "groups nested more than 50 deep");
    const ft_status st = read_alternatives(x, len, false);
    if (st) return st;
    x->depth--;
    if (*x->p != ')') return bad_pattern(x, "a group is not closed");
    x->p++;
    return FT_OK;
}

static ft_status read_atom(regex *x, length *len)
{
    const char c = *x->p;
    set s = {.n = 0};
    ft_status st;
    *len = (length){1, 1};
    if (strchr("*+?{", c)) return bad_pattern(x, "a repetition without an operand");
    if (c == '^' || c == '$') return bad_pattern(x, "^ and $ are supported only at the ends");
    if (c == '(') {
        x->p++;
        return read_group(x, len);
    }
    if (c == '[') {
        x->p++;
        if ((st = read_class(x, &s))) return st;
        return put_set(x, &s);
    }
    if (c == '.') {
        x->p++;
        set_add_class(&s, '.');
        return put_set(x, &s);
    }
    uint32_t ch = 0;
    char cls = 0;
    if (c == '\\') {
        x->p++;
        st = read_escape(x, &ch, &cls);
    } else {
        st = read_plain(x, &ch);
    }
    if (st) return st;
    if (cls)
        set_add_class(&s, cls);
    else
        set_add(&s, ch, ch);
    return put_set(x, &s);
}

static ft_status read_count(regex *x, uint32_t *out)
{
    uint32_t v = 0;
    if (*x->p < '0' || *x->p > '9') return bad_pattern(x, "an invalid repetition in braces");
    for (; *x->p >= '0' && *x->p <= '9'; x->p++) {
        v = v * 10 + (uint32_t)(*x->p - '0');
        if (v > FT_GBNF_REPEAT_MAX) return bad_pattern(x, "more than 100000 repetitions");
    }
    *out = v;
    return FT_OK;
}

static ft_status read_repeat(regex *x, length *len)
{
    uint32_t min = 1, max = 1;
    ft_status st;
    const char c = *x->p;
    if (!c || !strchr("*+?{", c)) return FT_OK;
    x->p++;
    if (c == '{') {
        if ((st = read_count(x, &min))) return st;
        max = min;
        if (*x->p == ',') {
            x->p++;
            max = UINT32_MAX;
            if (*x->p != '}' && (st = read_count(x, &max))) return st;
        }
        if (*x->p++ != '}' || max < min) return bad_pattern(x, "an invalid repetition in braces");
    } else {
        min = c == '+';
        max = c == '?' ? 1 : UINT32_MAX;
    }
    if (*x->p == '?') x->p++; /* lazy matching accepts the same texts */
    if (*x->p && strchr("*+?{", *x->p))
        return bad_pattern(x, "a repetition of a repetition is not supported");
    if (max == UINT32_MAX)
        ft_buf_printf(x->out, "{%u,}", min);
    else
        ft_buf_printf(x->out, "{%u,%u}", min, max);
    *len = (length){times(len->min, min), times(len->max, max)};
    return FT_OK;
}

static ft_status read_sequence(regex *x, length *len, bool top)
{
    *len = (length){0, 0};
    bool any = false;
    while (*x->p && *x->p != '|' && *x->p != ')') {
        if (top && *x->p == '$' && (!x->p[1] || x->p[1] == '|')) break;
        length one;
        ft_buf_putc(x->out, ' ');
        ft_status st = read_atom(x, &one);
        if (!st) st = read_repeat(x, &one);
        if (st) return st;
        *len = (length){plus(len->min, one.min), plus(len->max, one.max)};
        any = true;
    }
    if (!any) ft_buf_puts(x->out, " \"\"");
    return FT_OK;
}

static ft_status read_alternatives(regex *x, length *len, bool top)
{
    *len = (length){UINT32_MAX, 0};
    ft_buf_putc(x->out, '(');
    for (;;) {
        length one;
        const bool marked = top && *x->p == '^', open = top && !marked && !x->plain;
        if (marked) x->p++;
        if (open) ft_buf_puts(x->out, ANY);
        const ft_status st = read_sequence(x, &one, top);
        if (st) return st;
        const bool closed = top && *x->p == '$';
        if (closed) x->p++;
        const bool longer = top && !closed && !x->plain;
        if (longer) ft_buf_puts(x->out, " " ANY);
        if (open || longer) one.max = UINT32_MAX;
        *len = (length){FT_MIN(len->min, one.min), FT_MAX(len->max, one.max)};
        if (*x->p != '|') break;
        x->p++;
        ft_buf_puts(x->out, " | ");
    }
    ft_buf_putc(x->out, ')');
    return FT_OK;
}

ft_status ft_schema_pattern(ft_schema_ctx *c, ft_buf *out, const char *pattern, uint32_t *min,
                            uint32_t *max)
{
    regex x = {.c = c, .p = pattern, .out = out};
    length len;
    const ft_status st = read_alternatives(&x, &len, true);
    if (st) return st;
    if (*x.p) return bad_pattern(&x, "an unmatched ')'");
    *min = len.min;
    *max = len.max;
    return FT_OK;
}

ft_status ft_regex_gbnf(ft_buf *out, const char *pattern, ft_err *err)
{
    regex x = {.p = pattern, .out = out, .plain = pattern, .err = err};
    length len;
    ft_buf_puts(out, "root ::= ");
    ft_status st = read_alternatives(&x, &len, true);
    if (!st && *x.p) st = bad_pattern(&x, "an unmatched ')'");
    ft_buf_putc(out, '\n');
    return st;
}

/* ---- formats ---- */

#define DATE                                                                                       \
    "[0-9]{4} \"-\" ((\"0\" [13578] | \"1\" [02]) \"-\" (\"0\" [1-9] | [12] [0-9] | \"3\" [01]) "  \
    "| (\"0\" "                                                                                    \
    "[469] | \"11\") \"-\" (\"0\" [1-9] | [12] [0-9] | \"30\") | \"02-\" (\"0\" [1-9] | \"1\" "    \
    "[0-9] | "                                                                                     \
    "\"2\" [0-8]))"
#define HOUR   "([01] [0-9] | \"2\" [0-3])"
#define MINUTE "[0-5] [0-9]"
#define TIME                                                                                       \
    HOUR " \":\" " MINUTE " \":\" " MINUTE " (\".\" [0-9]{1,6})? (\"Z\" | [+-] " HOUR              \
         " \":\" " MINUTE ")"
#define H4    "[0-9a-f]{4}"
#define BYTE  "(\"25\" [0-5] | \"2\" [0-4] [0-9] | \"1\" [0-9] [0-9] | [1-9] [0-9] | [0-9])"
#define LABEL "[a-z0-9] ([a-z0-9-]{0,20} [a-z0-9])?"
#define HOST  LABEL " (\".\" " LABEL "){0,4}"
#define ATOM  "[a-z0-9_+-]{1,20}"

static const struct {
    const char *name, *gbnf;
    uint32_t min, max;
} format[] = {
    {"date", DATE, 10, 10},
    {"time", TIME, 9, 21},
    {"date-time", DATE " \"T\" " TIME, 20, 32},
    {"uuid", "[0-9a-f]{8} (\"-\" " H4 "){3} \"-\" [0-9a-f]{12}", 36, 36},
    {"ipv4", BYTE " (\".\" " BYTE "){3}", 7, 15},
    {"ipv6", "[0-9a-f]{1,4} (\":\" [0-9a-f]{1,4}){7}", 15, 39},
    {"hostname", HOST, 1, 114},
    {"email", ATOM " (\".\" " ATOM "){0,2} \"@\" " LABEL " (\".\" " LABEL "){1,3}", 5, 153},
    {"uri", "(\"http\" \"s\"? \"://\" " HOST " (\"/\" [a-zA-Z0-9._~-]{0,40}){0,6})", 8, 370},
    {"duration",
     "\"P\" ([0-9]{1,3} \"D\" | \"T\" ([0-9]{1,3} \"H\" ([0-9]{1,3} \"M\" ([0-9]{1,3} \"S\")?)? | "
     "[0-9]{1,3} \"M\" ([0-9]{1,3} \"S\")? | [0-9]{1,3} \"S\"))",
     3, 14},
};

const char *ft_schema_format(const char *name, uint32_t *min, uint32_t *max)
{
    for (size_t i = 0; i < FT_COUNT(format); i++) {
        if (strcmp(format[i].name, name)) continue;
        *min = format[i].min;
        *max = format[i].max;
        return format[i].gbnf;
    }
    return NULL;
}
