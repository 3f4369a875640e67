/* text/jinja_format.c - "%s" % value and "{}".format(value), as far as templates use them: fields
 * by order, number or name, width, precision, zero padding, and the types s d f x. */
#include "text/jinja_run.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>

enum { MAX_WIDTH = 1000 };

typedef struct spec {
    bool left, zero, plus;
    int width, precision; /* precision -1: not given */
    char type;            /* 0: as str() */
} spec;

/* Reads the decimal number at s[*at..]. */
static int read_digits(ft_jctx *c, ft_str s, size_t *at)
{
    int n = 0;
    while (*at < s.n && s.p[*at] >= '0' && s.p[*at] <= '9') {
        n = n * 10 + s.p[(*at)++] - '0';
        if (n > MAX_WIDTH) ft_j_fail(c, FT_ELIMIT, "a format field wider than %d", MAX_WIDTH);
    }
    return n;
}

static void put_field(ft_jctx *c, ft_jsb *b, ft_jv v, const spec *s)
{
    char num[MAX_WIDTH + 400];
    ft_jv text;
    int64_t i;
    double f;
    const bool numeric = s->type == 'd' || s->type == 'f' || s->type == 'x' || s->type == 'i';
    if ((s->type == 'd' || s->type == 'i' || s->type == 'x') && ft_jv_integer(v, &i)) {
        snprintf(num, sizeof num,
                 s->type == 'x' ? "%" PRIx64
                 : s->plus      ? "%+" PRId64
                                : "%" PRId64,
                 i);
        text = ft_jv_z(num);
    } else if (numeric && ft_jv_number(v, &f)) {
        const int p = s->type == 'f' ? (s->precision < 0 ? 6 : s->precision) : 0;
        snprintf(num, sizeof num, s->plus ? "%+.*f" : "%.*f", p, f);
        text = ft_jv_z(num);
    } else if (numeric) {
        ft_j_fail(c, FT_EINVAL, "format '%c': want a number, found %s", s->type, ft_jv_type(v));
    } else {
        text = ft_jv_to_str(c, v);
        if (s->precision >= 0) {
            const ft_jv cut[3] = {ft_jv_none(), ft_jv_int(s->precision), ft_jv_none()};
            text = ft_j_slice(c, text, cut);
        }
    }
    const int n = (int)FT_MIN(ft_j_utf8_count(ft_jv_text(text)), (size_t)MAX_WIDTH);
    for (int k = n; k < s->width && !s->left; k++) ft_jsb_puts(c, b, s->zero ? "0" : " ");
    ft_jsb_put(c, b, text.u.s, text.n);
    for (int k = n; k < s->width && s->left; k++) ft_jsb_puts(c, b, " ");
}

ft_jv ft_j_printf(ft_jctx *c, ft_str fmt, const ft_jv *v, size_t n)
{
    ft_jsb b = {0};
    size_t used = 0;
    for (size_t at = 0; at < fmt.n;) {
        if (fmt.p[at] != '%') {
            ft_jsb_put(c, &b, &fmt.p[at++], 1);
            continue;
        }
        spec s = {.precision = -1};
        for (at++; at < fmt.n && strchr("-0+ ", fmt.p[at]) && fmt.p[at]; at++) {
            s.left |= fmt.p[at] == '-';
            s.zero |= fmt.p[at] == '0';
            s.plus |= fmt.p[at] == '+';
        }
        s.width = read_digits(c, fmt, &at);
        if (at < fmt.n && fmt.p[at] == '.') {
            at++;
            s.precision = read_digits(c, fmt, &at);
        }
        s.type = at < fmt.n ? fmt.p[at++] : 0;
        if (s.type == '%') {
            ft_jsb_puts(c, &b, "%");
            continue;
        }
        if (!s.type || !strchr("sdifx", s.type))
            ft_j_fail(c, FT_EUNSUPPORTED, "the format '%%%c' is not supported",
                      s.type ? s.type : '?');
        if (used == n) ft_j_fail(c, FT_EINVAL, "a format with more fields than its %zu values", n);
        put_field(c, &b, v[used++], &s);
    }
    if (used < n) ft_j_fail(c, FT_EINVAL, "a format with %zu fields for %zu values", used, n);
    return ft_jsb_value(&b);
}

/* The value of {name}, {0} or {}; *next counts the fields without a name. */
static ft_jv field_value(ft_jctx *c, ft_str name, const ft_jargs *a, size_t *next)
{
    size_t i = 0;
    if (!name.n || (name.p[0] >= '0' && name.p[0] <= '9')) {
        const size_t at = name.n ? (size_t)read_digits(c, name, &i) : (*next)++;
        if (at >= a->n_pos || i != name.n)
            ft_j_fail(c, FT_EINVAL, "format has no value %zu, %zu were given", at, a->n_pos);
        return a->pos[at];
    }
    for (i = 0; i < a->n_kw; i++)
        if (ft_str_eq(a->key[i], name)) return a->kw[i];
    ft_j_fail(c, FT_EINVAL, "format has no value '%.*s'", FT_STR_FMT(name));
}

static spec parse_spec(ft_jctx *c, ft_str s, ft_jv v)
{
    spec r = {.precision = -1, .left = v.kind != FT_J_INT && v.kind != FT_J_FLOAT};
    size_t at = 0;
    if (at < s.n && (s.p[at] == '<' || s.p[at] == '>')) r.left = s.p[at++] == '<';
    if (at < s.n && s.p[at] == '+') r.plus = s.p[at++] == '+';
    if (at < s.n && s.p[at] == '0') r.zero = true;
    r.width = read_digits(c, s, &at);
    if (at < s.n && s.p[at] == '.') {
        at++;
        r.precision = read_digits(c, s, &at);
    }
    if (at < s.n && strchr("sdfx", s.p[at]) && s.p[at]) r.type = s.p[at++];
    if (at != s.n)
        ft_j_fail(c, FT_EUNSUPPORTED, "the format field ':%.*s' is not supported", FT_STR_FMT(s));
    return r;
}

ft_jv ft_j_str_format(ft_jctx *c, ft_str fmt, const ft_jargs *a)
{
    ft_jsb b = {0};
    size_t next = 0;
    for (size_t at = 0; at < fmt.n; at++) {
        const char ch = fmt.p[at];
        if ((ch == '{' || ch == '}') && at + 1 < fmt.n && fmt.p[at + 1] == ch) {
            ft_jsb_put(c, &b, &ch, 1);
            at++;
            continue;
        }
        if (ch == '}') ft_j_fail(c, FT_EINVAL, "a single '}' in a format");
        if (ch != '{') {
            ft_jsb_put(c, &b, &ch, 1);
            continue;
        }
        const size_t end = ft_str_find(fmt, FT_STR("}"), at);
        if (end == SIZE_MAX) ft_j_fail(c, FT_EINVAL, "a single '{' in a format");
        const ft_str field = {fmt.p + at + 1, end - at - 1};
        const size_t colon = FT_MIN(ft_str_find(field, FT_STR(":"), 0), field.n);
        const ft_jv v = field_value(c, (ft_str){field.p, colon}, a, &next);
        ft_str rest = {field.p + colon, field.n - colon};
        if (rest.n) rest = (ft_str){rest.p + 1, rest.n - 1};
        const spec s = parse_spec(c, rest, v);
        put_field(c, &b, v, &s);
        at = end;
    }
    return ft_jsb_value(&b);
}
