/* text/jinja_text.c - values as text: Python's str() and repr(), and JSON as json.dumps writes it.
 */
#include "text/jinja_value.h"

#include "base/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <utf8proc.h>

void ft_j_format_float(double f, char *out)
{
    char digits[40];
    if (isnan(f) || isinf(f)) {
        strcpy(out, isnan(f) ? "nan" : f > 0 ? "inf" : "-inf");
        return;
    }
    for (int p = 0; p < 17; p++) { /* the fewest digits that read back as f */
        snprintf(digits, sizeof digits, "%.*e", p, f);
        const double back = strtod(digits, NULL);
        if (!(back < f) && !(back > f)) break;
    }
    const char *e = strchr(digits, 'e');
    const int exp = atoi(e + 1);
    const int n = (int)(e - digits) - (digits[0] == '-') - (e - digits > 2 + (digits[0] == '-'));
    if (exp < -4 || exp >= 16) {
        snprintf(out, 40, "%.*se%c%02d", (int)(e - digits), digits, exp < 0 ? '-' : '+', abs(exp));
        return;
    }
    snprintf(out, 40, "%.*f", n - 1 - exp > 1 ? n - 1 - exp : 1, f);
}

static bool printable(uint32_t cp)
{
    if (cp == ' ') return true;
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
    }
}

static void repr_str(ft_jctx *c, ft_jsb *b, ft_str s)
{
    const bool dbl = memchr(s.p, '\'', s.n) && !memchr(s.p, '"', s.n);
    const char quote = dbl ? '"' : '\'';
    ft_jsb_put(c, b, &quote, 1);
    for (size_t at = 0; at < s.n;) {
        int len;
        const uint32_t cp = ft_utf8_decode(s.p + at, s.n - at, &len);
        char esc[16];
        if (cp == (uint32_t)quote || cp == '\\')
            snprintf(esc, sizeof esc, "\\%c", (int)cp);
        else if (cp == '\n' || cp == '\r' || cp == '\t')
            snprintf(esc, sizeof esc, "\\%c", cp == '\n' ? 'n' : cp == '\r' ? 'r' : 't');
        else if (printable(cp))
            snprintf(esc, sizeof esc, "%.*s", len, s.p + at);
        else if (cp < 0x100)
            snprintf(esc, sizeof esc, "\\x%02x", cp);
        else
            snprintf(esc, sizeof esc, cp < 0x10000 ? "\\u%04x" : "\\U%08x", cp);
        ft_jsb_puts(c, b, esc);
        at += (size_t)len;
    }
    ft_jsb_put(c, b, &quote, 1);
    ft_j_step(c, s.n / 8);
}

static void repr_list(ft_jctx *c, ft_jsb *b, ft_jv v)
{
    const bool tuple = v.kind == FT_J_TUPLE;
    ft_jsb_puts(c, b, tuple ? "(" : "[");
    for (size_t i = 0; i < v.u.list->n; i++) {
        if (i) ft_jsb_puts(c, b, ", ");
        ft_jv_repr(c, b, v.u.list->v[i]);
    }
    if (tuple && v.u.list->n == 1) ft_jsb_puts(c, b, ",");
    ft_jsb_puts(c, b, tuple ? ")" : "]");
}

static void repr_dict(ft_jctx *c, ft_jsb *b, const ft_jdict *d)
{
    ft_jsb_puts(c, b, "{");
    for (size_t i = 0; i < d->n; i++) {
        if (i) ft_jsb_puts(c, b, ", ");
        ft_jv_repr(c, b, d->v[i].key);
        ft_jsb_puts(c, b, ": ");
        ft_jv_repr(c, b, d->v[i].value);
    }
    ft_jsb_puts(c, b, "}");
}

static void repr_range(ft_jctx *c, ft_jsb *b, const ft_jrange *r)
{
    char text[100];
    const int64_t stop = r->start + r->n * r->step;
    int n = snprintf(text, sizeof text, "range(%" PRId64 ", %" PRId64, r->start, stop);
    snprintf(text + n, sizeof text - (size_t)n, r->step == 1 ? ")" : ", %" PRId64 ")", r->step);
    ft_jsb_puts(c, b, text);
}

void ft_jv_repr(ft_jctx *c, ft_jsb *b, ft_jv v)
{
    char num[40];
    ft_j_step(c, 1);
    ft_j_enter(c);
    switch (v.kind) {
    case FT_J_UNDEF: ft_jsb_puts(c, b, "Undefined"); break;
    case FT_J_NONE: ft_jsb_puts(c, b, "None"); break;
    case FT_J_BOOL: ft_jsb_puts(c, b, v.u.b ? "True" : "False"); break;
    case FT_J_INT:
        snprintf(num, sizeof num, "%" PRId64, v.u.i);
        ft_jsb_puts(c, b, num);
        break;
    case FT_J_FLOAT:
        ft_j_format_float(v.u.f, num);
        ft_jsb_puts(c, b, num);
        break;
    case FT_J_STR: repr_str(c, b, ft_jv_text(v)); break;
    case FT_J_LIST:
    case FT_J_TUPLE: repr_list(c, b, v); break;
    case FT_J_DICT: repr_dict(c, b, v.u.dict); break;
    case FT_J_RANGE: repr_range(c, b, v.u.p); break;
    case FT_J_NS:
        ft_jsb_puts(c, b, "<Namespace ");
        repr_dict(c, b, v.u.dict);
        ft_jsb_puts(c, b, ">");
        break;
    default:
        ft_jsb_puts(c, b, "<");
        ft_jsb_puts(c, b, ft_jv_type(v));
        ft_jsb_puts(c, b, ">");
    }
    ft_j_leave(c);
}

void ft_jv_print(ft_jctx *c, ft_jsb *b, ft_jv v)
{
    if (v.kind == FT_J_STR)
        ft_jsb_put(c, b, v.u.s, v.n);
    else if (v.kind != FT_J_UNDEF)
        ft_jv_repr(c, b, v);
}

ft_jv ft_jv_to_str(ft_jctx *c, ft_jv v)
{
    if (v.kind == FT_J_STR) return v;
    ft_jsb b = {0};
    ft_jv_print(c, &b, v);
    return ft_jsb_value(&b);
}

/* ---- JSON ---- */

static void json_str(ft_jctx *c, ft_jsb *b, ft_str s, bool ascii)
{
    ft_jsb_puts(c, b, "\"");
    size_t from = 0;
    for (size_t at = 0; at < s.n;) {
        int len = 1;
        uint32_t cp = (unsigned char)s.p[at];
        if (cp >= 0x80) cp = ft_utf8_decode(s.p + at, s.n - at, &len);
        const bool plain = cp >= 0x20 && cp != '"' && cp != '\\' && (cp < 0x7f || !ascii);
        if (!plain) {
            static const char named[] = "\"\"\\\\\nn\rr\tt\bb\ff";
            char esc[16];
            const char *p = named;
            while (*p && (uint32_t)*p != cp) p += 2;
            if (*p)
                snprintf(esc, sizeof esc, "\\%c", p[1]);
            else if (cp < 0x10000)
                snprintf(esc, sizeof esc, "\\u%04x", cp);
            else
                snprintf(esc, sizeof esc, "\\u%04x\\u%04x", 0xD7C0 + (cp >> 10),
                         0xDC00 + (cp & 0x3FF));
            ft_jsb_put(c, b, s.p + from, at - from);
            ft_jsb_puts(c, b, esc);
            from = at + (size_t)len;
        }
        at += (size_t)len;
    }
    ft_jsb_put(c, b, s.p + from, s.n - from);
    ft_jsb_puts(c, b, "\"");
    ft_j_step(c, s.n / 16);
}

static void json_break(ft_jctx *c, ft_jsb *b, const ft_jjson *o, int level)
{
    if (!o->pretty) return;
    ft_jsb_puts(c, b, "\n");
    for (int i = 0; i < level; i++) ft_jsb_put(c, b, o->indent.p, o->indent.n);
}

static void json_any(ft_jctx *c, ft_jsb *b, ft_jv v, const ft_jjson *o, int level);

static void json_key(ft_jctx *c, ft_jsb *b, ft_jv k, const ft_jjson *o)
{
    if (k.kind == FT_J_STR) {
        json_str(c, b, ft_jv_text(k), o->ascii);
        return;
    }
    if (k.kind == FT_J_TUPLE) ft_j_fail(c, FT_EINVAL, "a tuple cannot be a key in JSON");
    ft_jsb_puts(c, b, "\"");
    json_any(c, b, k, o, 0);
    ft_jsb_puts(c, b, "\"");
}

static void json_dict(ft_jctx *c, ft_jsb *b, const ft_jdict *d, const ft_jjson *o, int level)
{
    const ft_jpair *v = d->v;
    if (o->sort && d->n) {
        ft_jpair *p = ft_j_alloc_n(c, d->n, sizeof *p), *tmp = ft_j_alloc_n(c, d->n, sizeof *p);
        memcpy(p, v, d->n * sizeof *p);
        ft_jpairs_sort(c, p, tmp, d->n, false);
        v = p;
    }
    ft_jsb_puts(c, b, "{");
    for (size_t i = 0; i < d->n; i++) {
        if (i) ft_jsb_put(c, b, o->comma.p, o->comma.n);
        json_break(c, b, o, level + 1);
        json_key(c, b, v[i].key, o);
        ft_jsb_put(c, b, o->colon.p, o->colon.n);
        json_any(c, b, v[i].value, o, level + 1);
    }
    if (d->n) json_break(c, b, o, level);
    ft_jsb_puts(c, b, "}");
}

static void json_list(ft_jctx *c, ft_jsb *b, const ft_jlist *l, const ft_jjson *o, int level)
{
    ft_jsb_puts(c, b, "[");
    for (size_t i = 0; i < l->n; i++) {
        if (i) ft_jsb_put(c, b, o->comma.p, o->comma.n);
        json_break(c, b, o, level + 1);
        json_any(c, b, l->v[i], o, level + 1);
    }
    if (l->n) json_break(c, b, o, level);
    ft_jsb_puts(c, b, "]");
}

static void json_any(ft_jctx *c, ft_jsb *b, ft_jv v, const ft_jjson *o, int level)
{
    ft_j_step(c, 1);
    ft_j_enter(c);
    switch (v.kind) {
    case FT_J_NONE: ft_jsb_puts(c, b, "null"); break;
    case FT_J_BOOL: ft_jsb_puts(c, b, v.u.b ? "true" : "false"); break;
    case FT_J_INT: ft_jv_repr(c, b, v); break;
    case FT_J_FLOAT:
        if (isnan(v.u.f))
            ft_jsb_puts(c, b, "NaN");
        else if (isinf(v.u.f))
            ft_jsb_puts(c, b, v.u.f > 0 ? "Infinity" : "-Infinity");
        else
            ft_jv_repr(c, b, v);
        break;
    case FT_J_STR: json_str(c, b, ft_jv_text(v), o->ascii); break;
    case FT_J_LIST:
    case FT_J_TUPLE: json_list(c, b, v.u.list, o, level); break;
    case FT_J_DICT: json_dict(c, b, v.u.dict, o, level); break;
    default: ft_j_fail(c, FT_EINVAL, "a value of type %s cannot be JSON", ft_jv_type(v));
    }
    ft_j_leave(c);
}

void ft_jv_to_json(ft_jctx *c, ft_jsb *b, ft_jv v, const ft_jjson *o)
{
    json_any(c, b, v, o, 0);
}
