#include "text/gbnf.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <stdlib.h>

typedef struct parser {
    ft_gbnf *g;
    const char *p, *end;
    uint32_t line;
    int depth;
    ft_err *err;
} parser;

static ft_status syntax_error(parser *s, ft_status code, const char *what)
{
    char near[24];
    size_t n = 0;
    for (const char *p = s->p; p < s->end && n < sizeof near - 1 && *p != '\n'; p++)
        near[n++] = *p >= 32 && *p < 127 ? *p : '?';
    near[n] = 0;
    return ft_fail(s->err, code, "grammar line %u: %s%s%s", s->line, what, n ? " at " : "", near);
}

static void *grow_array(void *p, size_t n, size_t *cap, size_t size)
{
    if (n < *cap) return p;
    *cap = *cap ? *cap * 2 : 64;
    return ft_realloc(p, *cap * size);
}

static uint32_t add_node(ft_gbnf *g, ft_gnode node)
{
    g->node = grow_array(g->node, g->n_node, &g->cap_node, sizeof *g->node);
    g->node[g->n_node] = node;
    return (uint32_t)g->n_node++;
}

static void skip_space(parser *s, bool lines)
{
    while (s->p < s->end) {
        const char c = *s->p;
        if (c == '#') {
            while (s->p < s->end && *s->p != '\n') s->p++;
        } else if (c == ' ' || c == '\t' || c == '\r' || (c == '\n' && lines)) {
            s->line += c == '\n';
            s->p++;
        } else {
            return;
        }
    }
}

static bool word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

static ft_str read_name(parser *s)
{
    const char *from = s->p;
    while (s->p < s->end && word_char(*s->p)) s->p++;
    return (ft_str){from, (size_t)(s->p - from)};
}

static uint32_t rule_of(ft_gbnf *g, ft_str name, uint32_t line)
{
    uint32_t r;
    if (ft_dict_find(&g->names, name, &r)) return r;
    g->rule = grow_array(g->rule, g->n_rule, &g->cap_rule, sizeof *g->rule);
    g->rule[g->n_rule] = (ft_grule){.name = name, .line = line};
    ft_dict_put(&g->names, name, (uint32_t)g->n_rule);
    return (uint32_t)g->n_rule++;
}

/* One character of a literal or class, escapes resolved. */
static ft_status read_char(parser *s, uint32_t *out)
{
    if (s->p >= s->end)
        return syntax_error(s, FT_EFORMAT, "the text ends inside a literal or class");
    if (*s->p == '\n')
        return syntax_error(s, FT_EFORMAT, "the line ends inside a literal or class");
    if (*s->p != '\\') {
        int len;
        *out = ft_utf8_decode(s->p, (size_t)(s->end - s->p), &len);
        if (*out == FT_UTF8_BAD) return syntax_error(s, FT_EFORMAT, "invalid UTF-8");
        s->p += len;
        return FT_OK;
    }
    if (s->end - s->p < 2) return syntax_error(s, FT_EFORMAT, "the text ends inside an escape");
    const char c = s->p[1];
    const int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    static const char from[] = "tnr\\\"[]-^", to[] = "\t\n\r\\\"[]-^";
    const char *at = memchr(from, c, sizeof from - 1);
    if (!digits && !at) return syntax_error(s, FT_EFORMAT, "unknown escape");
    s->p += 2;
    *out = at ? (uint32_t)(unsigned char)to[at - from] : 0;
    for (int i = 0; i < digits; i++) {
        const int h = s->p < s->end ? ft_hex_digit(*s->p) : -1;
        if (h < 0) return syntax_error(s, FT_EFORMAT, "too few hexadecimal digits in an escape");
        *out = *out << 4 | (uint32_t)h;
        s->p++;
    }
    if (*out > 0x10FFFF || (*out >= 0xD800 && *out <= 0xDFFF))
        return syntax_error(s, FT_EFORMAT, "an escape that is not a Unicode character");
    return FT_OK;
}

static ft_status read_literal(parser *s, uint32_t *out)
{
    ft_gbnf *g = s->g;
    const size_t at = g->n_byte;
    for (s->p++;;) {
        uint32_t c;
        char b[4];
        if (s->p < s->end && *s->p == '"') break;
        const ft_status st = read_char(s, &c);
        if (st) return st;
        const int n = ft_utf8_encode(c, b);
        for (int i = 0; i < n; i++) {
            g->byte = grow_array(g->byte, g->n_byte, &g->cap_byte, 1);
            g->byte[g->n_byte++] = b[i];
        }
    }
    s->p++;
    const uint32_t n = (uint32_t)(g->n_byte - at);
    *out = add_node(g, (ft_gnode){.kind = n ? FT_G_BYTES : FT_G_EMPTY, .at = (uint32_t)at, .n = n});
    return FT_OK;
}

static int by_lo(const void *a, const void *b)
{
    const ft_grange *l = a, *r = b;
    return l->lo < r->lo ? -1 : l->lo > r->lo;
}

size_t ft_granges_merge(ft_grange *r, size_t n)
{
    size_t m = 0;
    if (n) qsort(r, n, sizeof *r, by_lo);
    for (size_t i = 0; i < n; i++) {
        if (m && r[i].lo <= r[m - 1].hi + 1)
            r[m - 1].hi = FT_MAX(r[m - 1].hi, r[i].hi);
        else
            r[m++] = r[i];
    }
    return m;
}

static void add_range(ft_gbnf *g, uint32_t lo, uint32_t hi)
{
    g->range = grow_array(g->range, g->n_range, &g->cap_range, sizeof *g->range);
    g->range[g->n_range++] = (ft_grange){lo, hi};
}

/* Merges the ranges from `at` on, and complements them if negate is set. */
static void normalise_ranges(ft_gbnf *g, size_t at, bool negate)
{
    const size_t m = ft_granges_merge(g->range + at, g->n_range - at);
    g->n_range = at + m;
    if (!negate) return;
    uint32_t next = 0;
    for (size_t i = 0; i < m; i++) {
        const ft_grange was = g->range[at + i];
        if (was.lo > next) add_range(g, next, was.lo - 1);
        next = was.hi + 1;
    }
    if (next <= 0x10FFFF) add_range(g, next, 0x10FFFF);
    const size_t k = g->n_range - at - m;
    memmove(g->range + at, g->range + at + m, k * sizeof *g->range);
    g->n_range = at + k;
}

static ft_status read_class(parser *s, uint32_t *out)
{
    ft_gbnf *g = s->g;
    const size_t at = g->n_range;
    ft_status st;
    s->p++;
    const bool negate = s->p < s->end && *s->p == '^';
    if (negate) s->p++;
    while (s->p >= s->end || *s->p != ']') {
        uint32_t lo, hi;
        if ((st = read_char(s, &lo))) return st;
        hi = lo;
        if (s->end - s->p >= 2 && s->p[0] == '-' && s->p[1] != ']') {
            s->p++;
            if ((st = read_char(s, &hi))) return st;
        }
        if (hi < lo) return syntax_error(s, FT_EFORMAT, "a range whose end is below its start");
        add_range(g, lo, hi);
    }
    s->p++;
    normalise_ranges(g, at, negate);
    *out = add_node(
        g, (ft_gnode){.kind = FT_G_CLASS, .at = (uint32_t)at, .n = (uint32_t)(g->n_range - at)});
    return FT_OK;
}

static ft_status read_number(parser *s, uint32_t *out)
{
    uint32_t v = 0;
    const char *from = s->p;
    for (; s->p < s->end && *s->p >= '0' && *s->p <= '9'; s->p++) {
        v = v * 10 + (uint32_t)(*s->p - '0');
        if (v > FT_GBNF_REPEAT_MAX)
            return syntax_error(s, FT_ELIMIT, "more than 100000 repetitions");
    }
    if (s->p == from) return syntax_error(s, FT_EFORMAT, "want a number");
    *out = v;
    return FT_OK;
}

static ft_status read_bounds(parser *s, uint32_t *min, uint32_t *max)
{
    ft_status st;
    s->p++;
    skip_space(s, false);
    if ((st = read_number(s, min))) return st;
    *max = *min;
    skip_space(s, false);
    if (s->p < s->end && *s->p == ',') {
        s->p++;
        skip_space(s, false);
        *max = UINT32_MAX;
        if (s->p < s->end && *s->p != '}' && (st = read_number(s, max))) return st;
        skip_space(s, false);
    }
    if (s->p >= s->end || *s->p != '}') return syntax_error(s, FT_EFORMAT, "want '}'");
    s->p++;
    return *max < *min ? syntax_error(s, FT_EFORMAT, "a repetition with max below min") : FT_OK;
}

static ft_status read_suffix(parser *s, uint32_t *item, bool nested)
{
    for (int n = 0;; n++) {
        const char *before = s->p;
        const uint32_t line = s->line;
        skip_space(s, nested);
        const char c = s->p < s->end ? *s->p : 0;
        uint32_t min = 0, max = UINT32_MAX;
        if (c == '*' || c == '+' || c == '?') {
            min = c == '+';
            if (c == '?') max = 1;
            s->p++;
        } else if (c == '{') {
            const ft_status st = read_bounds(s, &min, &max);
            if (st) return st;
        } else {
            s->p = before;
            s->line = line;
            return FT_OK;
        }
        if (n == 8) return syntax_error(s, FT_ELIMIT, "more than 8 repetitions of repetitions");
        if (s->g->n_node >= FT_GBNF_NODES_MAX)
            return syntax_error(s, FT_ELIMIT, "more than 1000000 elements");
        *item =
            add_node(s->g, (ft_gnode){.kind = FT_G_REPEAT, .first = *item, .min = min, .max = max});
    }
}

static ft_status read_alternatives(parser *s, uint32_t *out, bool nested);

/* *out 0: end of this sequence */
static ft_status read_item(parser *s, uint32_t *out)
{
    *out = 0;
    if (s->p >= s->end) return FT_OK;
    const char c = *s->p;
    if (c == '"') return read_literal(s, out);
    if (c == '[') return read_class(s, out);
    if (c == '.') {
        const size_t at = s->g->n_range;
        s->p++;
        add_range(s->g, 0, 0x10FFFF);
        *out = add_node(s->g, (ft_gnode){.kind = FT_G_CLASS, .at = (uint32_t)at, .n = 1});
        return FT_OK;
    }
    if (c == '(') {
        if (++s->depth > FT_GBNF_DEPTH_MAX)
            return syntax_error(s, FT_ELIMIT, "groups nested more than 200 deep");
        s->p++;
        const ft_status st = read_alternatives(s, out, true);
        if (st) return st;
        if (s->p >= s->end || *s->p != ')') return syntax_error(s, FT_EFORMAT, "want ')'");
        s->p++;
        s->depth--;
        return FT_OK;
    }
    if (!word_char(c)) return FT_OK;
    const uint32_t line = s->line;
    const uint32_t r = rule_of(s->g, read_name(s), line);
    *out = add_node(s->g, (ft_gnode){.kind = FT_G_RULE, .at = r});
    return FT_OK;
}

static ft_status read_sequence(parser *s, uint32_t *out, bool nested)
{
    const uint32_t seq = add_node(s->g, (ft_gnode){.kind = FT_G_SEQ});
    uint32_t last = 0, item;
    ft_status st;
    for (;;) {
        skip_space(s, nested);
        if (s->g->n_node >= FT_GBNF_NODES_MAX)
            return syntax_error(s, FT_ELIMIT, "more than 1000000 elements");
        if ((st = read_item(s, &item))) return st;
        if (!item) break;
        if ((st = read_suffix(s, &item, nested))) return st;
        if (last)
            s->g->node[last].next = item;
        else
            s->g->node[seq].first = item;
        last = item;
    }
    *out = seq;
    return FT_OK;
}

static ft_status read_alternatives(parser *s, uint32_t *out, bool nested)
{
    const uint32_t alt = add_node(s->g, (ft_gnode){.kind = FT_G_ALT});
    uint32_t last = 0, seq = 0;
    for (;;) {
        skip_space(s, nested || last);
        const ft_status st = read_sequence(s, &seq, nested);
        if (st) return st;
        if (last)
            s->g->node[last].next = seq;
        else
            s->g->node[alt].first = seq;
        last = seq;
        skip_space(s, nested);
        if (s->p >= s->end || *s->p != '|') break;
        s->p++;
    }
    *out = alt;
    return FT_OK;
}

static ft_status read_rule(parser *s)
{
    const uint32_t line = s->line;
    const ft_str name = read_name(s);
    if (!name.n) return syntax_error(s, FT_EFORMAT, "want the name of a rule");
    skip_space(s, false);
    if (s->end - s->p < 3 || memcmp(s->p, "::=", 3))
        return syntax_error(s, FT_EFORMAT, "want '::='");
    s->p += 3;
    const uint32_t r = rule_of(s->g, name, line);
    if (s->g->rule[r].body)
        return ft_fail(s->err, FT_EFORMAT, "grammar line %u: rule '%.*s' is defined twice", line,
                       (int)FT_MIN(name.n, 60), name.p);
    skip_space(s, true);
    uint32_t body;
    const ft_status st = read_alternatives(s, &body, false);
    if (st) return st;
    if (s->p < s->end && *s->p != '\n') return syntax_error(s, FT_EFORMAT, "unexpected text");
    s->g->rule[r].body = body;
    s->g->rule[r].line = line;
    return FT_OK;
}

ft_status ft_gbnf_init(ft_gbnf *g, ft_str text, const char *root, ft_err *err)
{
    *g = (ft_gbnf){0};
    ft_dict_init(&g->names);
    if (text.n > FT_GBNF_TEXT_MAX)
        return ft_fail(err, FT_ELIMIT, "grammar of %zu bytes, want at most %zu", text.n,
                       FT_GBNF_TEXT_MAX);
    g->text = ft_alloc(text.n + 1);
    if (text.n) memcpy(g->text, text.p, text.n);
    add_node(g, (ft_gnode){0});
    g->range = grow_array(g->range, 0, &g->cap_range, sizeof *g->range);
    g->byte = grow_array(g->byte, 0, &g->cap_byte, 1);
    parser s = {.g = g, .p = g->text, .end = g->text + text.n, .line = 1, .err = err};
    ft_status st = FT_OK;
    while (skip_space(&s, true), s.p < s.end)
        if ((st = read_rule(&s))) return st;
    if (!ft_dict_find(&g->names, ft_str_of(root), &g->root))
        return ft_fail(err, FT_EFORMAT, "grammar has no rule '%s'", root);
    for (size_t i = 0; i < g->n_rule; i++)
        if (!g->rule[i].body)
            return ft_fail(err, FT_EFORMAT, "grammar line %u: rule '%.*s' is used but not defined",
                           g->rule[i].line, (int)FT_MIN(g->rule[i].name.n, 60), g->rule[i].name.p);
    return FT_OK;
}

void ft_gbnf_release(ft_gbnf *g)
{
    ft_free(g->text);
    ft_free(g->node);
    ft_free(g->range);
    ft_free(g->byte);
    ft_free(g->rule);
    ft_dict_release(&g->names);
    *g = (ft_gbnf){0};
}
