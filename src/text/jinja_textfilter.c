/* text/jinja_textfilter.c - filters on text and single values. */
#include "base/utf8.h"
#include "text/jinja_run.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static ft_str text_of(ft_jctx *c, ft_jv v)
{
    return ft_jv_text(ft_jv_to_str(c, v));
}

static ft_jv f_string(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)a;
    return ft_jv_to_str(c, v.kind == FT_J_UNDEF ? ft_jv_z("") : v);
}

static ft_jv f_trim(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    return ft_j_strip(c, text_of(c, v), ft_j_arg(a, 0, "chars", ft_jv_none()), true, true);
}

static ft_jv f_upper(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)a;
    return ft_j_recase(c, text_of(c, v), FT_CASE_UPPER);
}

static ft_jv f_lower(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)a;
    return ft_j_recase(c, text_of(c, v), FT_CASE_LOWER);
}

static ft_jv f_capitalize(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)a;
    return ft_j_recase(c, text_of(c, v), FT_CASE_CAPITAL);
}

/* Unlike the method, the filter starts a word only after white space and opening brackets. */
static ft_jv f_title(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)a;
    const ft_str s = text_of(c, v);
    ft_jv out = ft_jv_z("");
    size_t from = 0;
    for (size_t at = 0; at <= s.n;) {
        int len = 1;
        const uint32_t cp = at < s.n ? ft_utf8_decode(s.p + at, s.n - at, &len) : ' ';
        at += (size_t)len;
        if (!ft_j_is_space(cp) && !(cp < 0x80 && strchr("-({[<", (int)cp))) continue;
        const size_t end = at <= s.n ? at : s.n;
        const ft_jv word = ft_j_recase(c, (ft_str){s.p + from, end - from}, FT_CASE_CAPITAL);
        out = ft_jv_concat(c, ft_jv_text(out), ft_jv_text(word));
        from = end;
    }
    return out;
}

static ft_jv f_replace(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    const ft_str from = text_of(c, ft_j_arg(a, 0, "old", ft_jv_none()));
    const ft_str to = text_of(c, ft_j_arg(a, 1, "new", ft_jv_none()));
    return ft_j_replace(c, text_of(c, v), from, to, ft_j_arg_int(c, a, 2, "count", -1));
}

static ft_jv f_default(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)c;
    const bool use =
        v.kind == FT_J_UNDEF || (ft_j_arg_bool(a, 1, "boolean", false) && !ft_jv_truth(v));
    return use ? ft_j_arg(a, 0, "default_value", ft_jv_z("")) : v;
}

static ft_jv f_indent(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    const ft_jv width = ft_j_arg(a, 0, "width", ft_jv_int(4));
    const bool first = ft_j_arg_bool(a, 1, "first", false);
    const bool blank = ft_j_arg_bool(a, 2, "blank", false);
    ft_jv pad = width;
    if (width.kind != FT_J_STR) pad = ft_j_binary(c, FT_O_MUL, ft_jv_z(" "), width);
    /* the added line end preserves a final one */
    const ft_jv s = ft_jv_concat(c, text_of(c, v), FT_STR("\n"));
    const ft_jlist *l = ft_j_split_lines(c, ft_jv_text(s));
    ft_jsb b = {0};
    for (size_t i = 0; i < l->n; i++) {
        if (i) ft_jsb_puts(c, &b, "\n");
        if (i ? blank || l->v[i].n : first) ft_jsb_put(c, &b, pad.u.s, pad.n);
        ft_jsb_put(c, &b, l->v[i].u.s, l->v[i].n);
    }
    return ft_jsb_value(&b);
}

static ft_jv f_escape(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)a;
    const ft_str s = text_of(c, v);
    ft_jsb b = {0};
    for (size_t i = 0; i < s.n; i++) {
        switch (s.p[i]) {
        case '&': ft_jsb_puts(c, &b, "&amp;"); break;
        case '<': ft_jsb_puts(c, &b, "&lt;"); break;
        case '>': ft_jsb_puts(c, &b, "&gt;"); break;
        case '"': ft_jsb_puts(c, &b, "&#34;"); break;
        case '\'': ft_jsb_puts(c, &b, "&#39;"); break;
        default: ft_jsb_put(c, &b, &s.p[i], 1);
        }
    }
    ft_j_step(c, s.n / 4);
    return ft_jsb_value(&b);
}

static ft_jv f_striptags(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)a;
    const ft_str s = text_of(c, v);
    ft_jsb b = {0};
    bool gap = false;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '<') {
            const bool comment = s.n - i >= 4 && !memcmp(s.p + i, "<!--", 4);
            const ft_str end = comment ? FT_STR("-->") : FT_STR(">");
            const size_t close = ft_str_find(s, end, i);
            ft_j_step(c, 1 + (close == SIZE_MAX ? s.n / 16 : 0));
            if (close != SIZE_MAX) {
                i = close + end.n - 1;
                continue;
            }
        }
        if (ft_j_is_space((unsigned char)s.p[i])) {
            gap = true;
            continue;
        }
        if (gap && b.n) ft_jsb_puts(c, &b, " ");
        gap = false;
        ft_jsb_put(c, &b, &s.p[i], 1);
    }
    ft_j_step(c, s.n / 4);
    return ft_jsb_value(&b);
}

static ft_jv f_wordcount(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)a;
    const ft_str s = text_of(c, v);
    int64_t n = 0;
    bool in = false;
    ft_j_step(c, s.n / 4);
    for (size_t i = 0; i < s.n; i++) {
        const char ch = s.p[i];
        const bool w = (ch & 0x80) || ch == '_' || (ch >= '0' && ch <= '9') ||
                       ((ch | 32) >= 'a' && (ch | 32) <= 'z');
        n += w && !in;
        in = w;
    }
    return ft_jv_int(n);
}

static ft_jv f_center(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    const ft_str s = text_of(c, v);
    const int64_t width = ft_j_arg_int(c, a, 0, "width", 80), n = (int64_t)ft_j_utf8_count(s);
    if (width <= n) return ft_jv_str(s.p, s.n);
    if (width > 1 << 20) ft_j_fail(c, FT_ELIMIT, "a width of more than a million");
    const int64_t room = width - n, left = room / 2 + (room & width & 1);
    ft_jsb b = {0};
    for (int64_t i = 0; i < left; i++) ft_jsb_puts(c, &b, " ");
    ft_jsb_put(c, &b, s.p, s.n);
    for (int64_t i = left; i < room; i++) ft_jsb_puts(c, &b, " ");
    return ft_jsb_value(&b);
}

static ft_jv f_format(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    return ft_j_printf(c, text_of(c, v), a->pos, a->n_pos);
}

/* ---- numbers ---- */

static bool parse_float(ft_jctx *c, ft_jv v, double *out)
{
    if (ft_jv_number(v, out)) return true;
    if (v.kind != FT_J_STR) return false;
    const ft_jv s = ft_j_strip(c, ft_jv_text(v), ft_jv_none(), true, true);
    char z[64], *end;
    if (!s.n || s.n >= sizeof z) return false;
    memcpy(z, s.u.s, s.n);
    z[s.n] = 0;
    if (strspn(z, "+-0123456789.eE") != s.n) return false;
    *out = strtod(z, &end);
    return !*end;
}

static ft_jv f_int(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    const ft_jv dflt = ft_j_arg(a, 0, "default", ft_jv_int(0));
    const int64_t base = ft_j_arg_int(c, a, 1, "base", 10);
    int64_t i;
    double f;
    if (ft_jv_integer(v, &i)) return ft_jv_int(i);
    if (v.kind == FT_J_UNDEF) ft_j_undefined(c, v);
    if (v.kind == FT_J_STR && base >= 2 && base <= 36) {
        const ft_jv s = ft_j_strip(c, ft_jv_text(v), ft_jv_none(), true, true);
        char z[80], *end;
        if (s.n && s.n < sizeof z) {
            memcpy(z, s.u.s, s.n);
            z[s.n] = 0;
            errno = 0;
            i = strtoll(z, &end, (int)base);
            if (!*end && !errno && end != z) return ft_jv_int(i);
        }
    }
    if (!parse_float(c, v, &f) || !(fabs(f) < 9.2e18)) return dflt;
    return ft_jv_int((int64_t)f);
}

static ft_jv f_float(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    double f;
    if (v.kind == FT_J_UNDEF) ft_j_undefined(c, v);
    return parse_float(c, v, &f) ? ft_jv_float(f) : ft_j_arg(a, 0, "default", ft_jv_float(0.0));
}

static ft_jv f_abs(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)a;
    int64_t i;
    double f;
    if (ft_jv_integer(v, &i))
        return i < 0 ? ft_j_binary(c, FT_O_SUB, ft_jv_int(0), v) : ft_jv_int(i);
    if (!ft_jv_number(v, &f))
        ft_j_fail(c, FT_EINVAL, "abs: want a number, found %s", ft_jv_type(v));
    return ft_jv_float(fabs(f));
}

static ft_jv f_round(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    const int64_t digits = ft_j_arg_int(c, a, 0, "precision", 0);
    const ft_jv method = ft_j_arg(a, 1, "method", ft_jv_z("common"));
    double f;
    if (!ft_jv_number(v, &f))
        ft_j_fail(c, FT_EINVAL, "round: want a number, found %s", ft_jv_type(v));
    if (digits < -300 || digits > 300) ft_j_fail(c, FT_ELIMIT, "round: want -300 to 300 digits");
    const ft_str m = ft_j_want_str(c, method, "the method of round");
    const double scale = pow(10, (double)digits);
    if (ft_str_is(m, "ceil")) return ft_jv_float(ceil(f * scale) / scale);
    if (ft_str_is(m, "floor")) return ft_jv_float(floor(f * scale) / scale);
    if (!ft_str_is(m, "common"))
        ft_j_fail(c, FT_EINVAL, "round: want the method common, ceil or floor, found '%.*s'",
                  FT_STR_FMT(m));
    const double r = digits > 15 ? f : rint(f * scale) / scale; /* ties to even */
    return v.kind == FT_J_FLOAT || isnan(r) ? ft_jv_float(isfinite(r) ? r : f) : v;
}

/* ---- JSON ---- */

static ft_jv f_tojson(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    const ft_jv indent = ft_j_arg(a, 1, "indent", ft_jv_none());
    const ft_jv seps = ft_j_arg(a, 2, "separators", ft_jv_none());
    ft_jjson o = {.ascii = ft_j_arg_bool(a, 0, "ensure_ascii", false),
                  .sort = ft_j_arg_bool(a, 3, "sort_keys", false),
                  .pretty = indent.kind != FT_J_NONE,
                  .comma = FT_STR(", "),
                  .colon = FT_STR(": ")};
    if (o.pretty) {
        ft_jv pad = indent;
        if (indent.kind != FT_J_STR) pad = ft_j_binary(c, FT_O_MUL, ft_jv_z(" "), indent);
        o.indent = ft_jv_text(pad);
        o.comma = FT_STR(",");
    }
    if (seps.kind != FT_J_NONE) {
        if (!ft_jv_is_seq(seps) || seps.u.list->n != 2)
            ft_j_fail(c, FT_EINVAL, "separators: want two strings");
        o.comma = ft_j_want_str(c, seps.u.list->v[0], "separators");
        o.colon = ft_j_want_str(c, seps.u.list->v[1], "separators");
    }
    if (v.kind == FT_J_UNDEF) ft_j_undefined(c, v);
    ft_jsb b = {0};
    ft_jv_to_json(c, &b, v, &o);
    return ft_jsb_value(&b);
}

/* The conversion may fail and leave with longjmp, so the context owns the parsed JSON meanwhile. */
static ft_jv f_from_json(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)a;
    json_error_t e;
    const ft_str s = ft_j_want_str(c, v, "from_json");
    ft_j_step(c, s.n / 4);
    c->json = json_loadb(s.p, s.n, JSON_DECODE_ANY, &e);
    if (!c->json) ft_j_fail(c, FT_EFORMAT, "from_json: %s", e.text);
    const ft_jv r = ft_jv_from_json(c, c->json);
    json_decref(c->json);
    c->json = NULL;
    return r;
}

const ft_jdef ft_j_text_filters[] = {
    {"trim", f_trim, 0, 1},           {"tojson", f_tojson, 0, 4},
    {"string", f_string, 0, 0},       {"default", f_default, 0, 2},
    {"d", f_default, 0, 2},           {"upper", f_upper, 0, 0},
    {"lower", f_lower, 0, 0},         {"capitalize", f_capitalize, 0, 0},
    {"title", f_title, 0, 0},         {"replace", f_replace, 2, 3},
    {"indent", f_indent, 0, 3},       {"safe", f_string, 0, 0},
    {"escape", f_escape, 0, 0},       {"e", f_escape, 0, 0},
    {"forceescape", f_escape, 0, 0},  {"striptags", f_striptags, 0, 0},
    {"wordcount", f_wordcount, 0, 0}, {"center", f_center, 0, 1},
    {"format", f_format, 0, -1},      {"int", f_int, 0, 2},
    {"float", f_float, 0, 1},         {"abs", f_abs, 0, 0},
    {"round", f_round, 0, 2},         {"from_json", f_from_json, 0, 0},
    {"fromjson", f_from_json, 0, 0},  {NULL, NULL, 0, 0},
};
