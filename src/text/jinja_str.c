/* text/jinja_str.c - string functions shared by filters and methods; characters are code points. */
#include "base/utf8.h"
#include "text/jinja_run.h"

#include <utf8proc.h>

bool ft_j_is_space(uint32_t cp)
{
    if (cp < 0x80) return cp == ' ' || (cp >= 9 && cp <= 13) || (cp >= 0x1c && cp <= 0x1f);
    if (cp == 0x85) return true;
    const utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)cp);
    return k == UTF8PROC_CATEGORY_ZS || k == UTF8PROC_CATEGORY_ZL || k == UTF8PROC_CATEGORY_ZP;
}

ft_str ft_j_want_str(ft_jctx *c, ft_jv v, const char *what)
{
    if (v.kind == FT_J_UNDEF) ft_j_undefined(c, v);
    if (v.kind != FT_J_STR)
        ft_j_fail(c, FT_EINVAL, "%s: want a string, found %s", what, ft_jv_type(v));
    return ft_jv_text(v);
}

/* ---- strip ---- */

static bool in_set(ft_jv chars, ft_str ch)
{
    if (chars.kind == FT_J_STR) return ft_str_find(ft_jv_text(chars), ch, 0) != SIZE_MAX;
    int len;
    return ft_j_is_space(ft_utf8_decode(ch.p, ch.n, &len));
}

ft_jv ft_j_strip(ft_jctx *c, ft_str s, ft_jv chars, bool left, bool right)
{
    if (chars.kind != FT_J_STR && chars.kind != FT_J_NONE)
        ft_j_fail(c, FT_EINVAL, "strip: want a string of characters, found %s", ft_jv_type(chars));
    size_t from = 0, to = s.n;
    while (left && from < to) {
        int len;
        ft_utf8_decode(s.p + from, to - from, &len);
        if (!in_set(chars, (ft_str){s.p + from, (size_t)len})) break;
        from += (size_t)len;
    }
    while (right && to > from) {
        size_t at = to - 1;
        while (at > from && ((unsigned char)s.p[at] & 0xC0) == 0x80) at--;
        if (!in_set(chars, (ft_str){s.p + at, to - at})) break;
        to = at;
    }
    ft_j_step(c, (s.n - (to - from)) * (1 + chars.n / 16));
    return ft_jv_str(s.p + from, to - from);
}

/* ---- replace ---- */

ft_jv ft_j_replace(ft_jctx *c, ft_str s, ft_str from, ft_str to, int64_t count)
{
    ft_jsb b = {0};
    size_t at = 0;
    ft_j_step(c, s.n / 8);
    while (count && at <= s.n) { /* a negative count is no limit */
        size_t hit = from.n ? ft_str_find(s, from, at) : at;
        if (hit == SIZE_MAX) break;
        ft_jsb_put(c, &b, s.p + at, hit - at);
        ft_jsb_put(c, &b, to.p, to.n);
        ft_j_step(c, 1);
        at = hit + from.n;
        if (!from.n) { /* an empty pattern matches before every character and at the end */
            if (at == s.n) return ft_jsb_value(&b);
            int len;
            ft_utf8_decode(s.p + at, s.n - at, &len);
            ft_jsb_put(c, &b, s.p + at, (size_t)len);
            at += (size_t)len;
        }
        count--;
    }
    if (at < s.n) ft_jsb_put(c, &b, s.p + at, s.n - at);
    return ft_jsb_value(&b);
}

/* ---- upper and lower case ---- */

static void put_case(ft_jctx *c, ft_jsb *b, uint32_t cp, bool upper)
{
    if (upper && cp == 0xDF) { /* sharp s has no simple capital */
        ft_jsb_puts(c, b, "SS");
        return;
    }
    const utf8proc_int32_t x = (utf8proc_int32_t)cp;
    ft_jsb_put_char(c, b, (uint32_t)(upper ? utf8proc_toupper(x) : utf8proc_tolower(x)));
}

static bool is_letter(uint32_t cp)
{
    const utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)cp);
    return k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LL || k == UTF8PROC_CATEGORY_LT;
}

ft_jv ft_j_recase(ft_jctx *c, ft_str s, ft_jcase how)
{
    ft_jsb b = {0};
    bool start = true;
    ft_j_step(c, s.n / 4);
    for (size_t at = 0; at < s.n;) {
        int len;
        const uint32_t cp = ft_utf8_decode(s.p + at, s.n - at, &len);
        put_case(c, &b, cp, how == FT_CASE_UPPER || (start && how >= FT_CASE_CAPITAL));
        start = how == FT_CASE_TITLE && !is_letter(cp);
        at += (size_t)len;
    }
    return ft_jsb_value(&b);
}

/* ---- lines and lists ---- */

static bool line_end(uint32_t cp)
{
    return (cp >= 10 && cp <= 13) || (cp >= 0x1c && cp <= 0x1e) || cp == 0x85 || cp == 0x2028 ||
           cp == 0x2029;
}

ft_jlist *ft_j_split_lines(ft_jctx *c, ft_str s)
{
    ft_jlist *l = ft_jlist_new(c, 0);
    size_t from = 0;
    ft_j_step(c, s.n / 4);
    for (size_t at = 0; at < s.n;) {
        int len;
        const uint32_t cp = ft_utf8_decode(s.p + at, s.n - at, &len);
        const size_t end = at;
        at += (size_t)len;
        if (!line_end(cp)) continue;
        if (cp == '\r' && at < s.n && s.p[at] == '\n') at++;
        ft_jlist_put(c, l, ft_jv_str(s.p + from, end - from));
        from = at;
    }
    if (from < s.n) ft_jlist_put(c, l, ft_jv_str(s.p + from, s.n - from));
    return l;
}

ft_jv ft_j_join(ft_jctx *c, ft_str sep, const ft_jlist *l)
{
    ft_jsb b = {0};
    for (size_t i = 0; i < l->n; i++) {
        if (i) ft_jsb_put(c, &b, sep.p, sep.n);
        ft_jv_print(c, &b, l->v[i]);
        ft_j_step(c, 1);
    }
    return ft_jsb_value(&b);
}
