/* text/jinja_method.c - methods of strings, lists, dicts and loops, and the built-in functions. */
#include "base/utf8.h"
#include "text/jinja_run.h"

#include <utf8proc.h>

/* ---- strings ---- */

static ft_jv str_strip(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    return ft_j_strip(c, ft_jv_text(v), ft_j_arg(a, 0, "chars", ft_jv_none()), true, true);
}

static ft_jv str_lstrip(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    return ft_j_strip(c, ft_jv_text(v), ft_j_arg(a, 0, "chars", ft_jv_none()), true, false);
}

static ft_jv str_rstrip(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    return ft_j_strip(c, ft_jv_text(v), ft_j_arg(a, 0, "chars", ft_jv_none()), false, true);
}

static ft_jlist *split_spaces(ft_jctx *c, ft_str s, int64_t max)
{
    ft_jlist *l = ft_jlist_new(c, 0);
    for (;;) {
        s = ft_jv_text(ft_j_strip(c, s, ft_jv_none(), true, false));
        if (!s.n) return l;
        size_t end = 0;
        int len;
        while (end < s.n && !ft_j_is_space(ft_utf8_decode(s.p + end, s.n - end, &len)))
            end += (size_t)len;
        ft_j_step(c, 1 + end / 8);
        if (max-- == 0) {
            ft_jlist_put(c, l, ft_jv_str(s.p, s.n));
            return l;
        }
        ft_jlist_put(c, l, ft_jv_str(s.p, end));
        s = (ft_str){s.p + end, s.n - end};
    }
}

static ft_jv str_split(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    const ft_str s = ft_jv_text(v);
    const ft_jv sep = ft_j_arg(a, 0, "sep", ft_jv_none());
    int64_t max = ft_j_arg_int(c, a, 1, "maxsplit", -1);
    if (sep.kind == FT_J_NONE) return ft_jv_ref(FT_J_LIST, split_spaces(c, s, max));
    const ft_str by = ft_j_want_str(c, sep, "split");
    if (!by.n)
        ft_j_fail(c, FT_EINVAL, "split: the separator is empty, want at least one character");
    ft_jlist *l = ft_jlist_new(c, 0);
    size_t at = 0;
    ft_j_step(c, s.n / 16);
    while (max-- != 0) {
        const size_t hit = ft_str_find(s, by, at);
        if (hit == SIZE_MAX) break;
        ft_jlist_put(c, l, ft_jv_str(s.p + at, hit - at));
        ft_j_step(c, 1);
        at = hit + by.n;
    }
    ft_jlist_put(c, l, ft_jv_str(s.p + at, s.n - at));
    return ft_jv_ref(FT_J_LIST, l);
}

static size_t find_last(ft_str s, ft_str needle)
{
    for (size_t i = s.n + 1; i-- > needle.n;)
        if (!memcmp(s.p + i - needle.n, needle.p, needle.n)) return i - needle.n;
    return SIZE_MAX;
}

static ft_jv str_rsplit(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    const ft_jv sep = ft_j_arg(a, 0, "sep", ft_jv_none());
    int64_t max = ft_j_arg_int(c, a, 1, "maxsplit", -1);
    if (max < 0 || sep.kind == FT_J_NONE) return str_split(c, v, a);
    const ft_str by = ft_j_want_str(c, sep, "rsplit");
    ft_str s = ft_jv_text(v);
    if (!by.n)
        ft_j_fail(c, FT_EINVAL, "rsplit: the separator is empty, want at least one character");
    ft_jlist *back = ft_jlist_new(c, 0), *l = ft_jlist_new(c, 0);
    while (max-- > 0) {
        const size_t hit = find_last(s, by);
        ft_j_step(c, 1 + s.n / 16);
        if (hit == SIZE_MAX) break;
        ft_jlist_put(c, back, ft_jv_str(s.p + hit + by.n, s.n - hit - by.n));
        s.n = hit;
    }
    ft_jlist_put(c, back, ft_jv_str(s.p, s.n));
    for (size_t i = back->n; i-- > 0;) ft_jlist_put(c, l, back->v[i]);
    return ft_jv_ref(FT_J_LIST, l);
}

static ft_jv str_splitlines(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)a;
    return ft_jv_ref(FT_J_LIST, ft_j_split_lines(c, ft_jv_text(v)));
}

static ft_jv has_affix(ft_jctx *c, ft_jv v, const ft_jargs *a, bool (*is)(ft_str, ft_str))
{
    const ft_jv what = ft_j_arg(a, 0, NULL, ft_jv_none());
    if (what.kind != FT_J_TUPLE)
        return ft_jv_bool(is(ft_jv_text(v), ft_j_want_str(c, what, "startswith or endswith")));
    for (size_t i = 0; i < what.u.list->n; i++)
        if (is(ft_jv_text(v), ft_j_want_str(c, what.u.list->v[i], "startswith or endswith")))
            return ft_jv_bool(true);
    return ft_jv_bool(false);
}

static ft_jv str_startswith(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    return has_affix(c, v, a, ft_str_starts);
}

static ft_jv str_endswith(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    return has_affix(c, v, a, ft_str_ends);
}

static ft_jv str_removeprefix(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    const ft_str s = ft_jv_text(v);
    const ft_str p = ft_j_want_str(c, ft_j_arg(a, 0, NULL, ft_jv_none()), "removeprefix");
    return ft_str_starts(s, p) ? ft_jv_str(s.p + p.n, s.n - p.n) : v;
}

static ft_jv str_removesuffix(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    const ft_str s = ft_jv_text(v);
    const ft_str p = ft_j_want_str(c, ft_j_arg(a, 0, NULL, ft_jv_none()), "removesuffix");
    return ft_str_ends(s, p) ? ft_jv_str(s.p, s.n - p.n) : v;
}

static ft_jv str_replace(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    const ft_str from = ft_j_want_str(c, ft_j_arg(a, 0, "old", ft_jv_none()), "replace");
    const ft_str to = ft_j_want_str(c, ft_j_arg(a, 1, "new", ft_jv_none()), "replace");
    return ft_j_replace(c, ft_jv_text(v), from, to, ft_j_arg_int(c, a, 2, "count", -1));
}

static ft_jv str_upper(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)a;
    return ft_j_recase(c, ft_jv_text(v), FT_CASE_UPPER);
}

static ft_jv str_lower(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)a;
    return ft_j_recase(c, ft_jv_text(v), FT_CASE_LOWER);
}

static ft_jv str_capitalize(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)a;
    return ft_j_recase(c, ft_jv_text(v), FT_CASE_CAPITAL);
}

static ft_jv str_title(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)a;
    return ft_j_recase(c, ft_jv_text(v), FT_CASE_TITLE);
}

static ft_jv str_join(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    const ft_jlist *l = ft_jv_elements(c, ft_j_arg(a, 0, NULL, ft_jv_none()));
    for (size_t i = 0; i < l->n; i++) ft_j_want_str(c, l->v[i], "join");
    return ft_j_join(c, ft_jv_text(v), l);
}

/* Returns an offset in characters, not bytes. */
static ft_jv str_find(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    const ft_str s = ft_jv_text(v);
    const ft_str what = ft_j_want_str(c, ft_j_arg(a, 0, NULL, ft_jv_none()), "find");
    const size_t hit = ft_str_find(s, what, 0);
    ft_j_step(c, s.n / 16);
    return ft_jv_int(hit == SIZE_MAX ? -1 : (int64_t)ft_j_utf8_count((ft_str){s.p, hit}));
}

static ft_jv str_rfind(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    const ft_str s = ft_jv_text(v);
    const ft_str what = ft_j_want_str(c, ft_j_arg(a, 0, NULL, ft_jv_none()), "rfind");
    const size_t hit = find_last(s, what);
    ft_j_step(c, s.n / 16);
    return ft_jv_int(hit == SIZE_MAX ? -1 : (int64_t)ft_j_utf8_count((ft_str){s.p, hit}));
}

static ft_jv str_index(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    const ft_jv at = str_find(c, v, a);
    if (at.u.i < 0) ft_j_fail(c, FT_EINVAL, "index: the text is not found");
    return at;
}

static ft_jv str_count(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    const ft_str s = ft_jv_text(v);
    const ft_str what = ft_j_want_str(c, ft_j_arg(a, 0, NULL, ft_jv_none()), "count");
    int64_t n = 0;
    ft_j_step(c, s.n / 8);
    if (!what.n) return ft_jv_int((int64_t)ft_j_utf8_count(s) + 1);
    for (size_t at = 0; (at = ft_str_find(s, what, at)) != SIZE_MAX; at += what.n) n++;
    return ft_jv_int(n);
}

static ft_jv str_format(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    return ft_j_str_format(c, ft_jv_text(v), a);
}

typedef bool (*char_test)(utf8proc_category_t k);

static bool digit_char(utf8proc_category_t k)
{
    return k == UTF8PROC_CATEGORY_ND;
}

static bool alpha_char(utf8proc_category_t k)
{
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

static bool alnum_char(utf8proc_category_t k)
{
    return alpha_char(k) || (k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO);
}

static ft_jv all_chars(ft_jctx *c, ft_jv v, char_test is)
{
    bool all = v.n != 0;
    ft_j_step(c, v.n / 4);
    for (size_t at = 0; all && at < v.n;) {
        int len;
        const uint32_t cp = ft_utf8_decode(v.u.s + at, v.n - at, &len);
        all = is ? is(utf8proc_category((utf8proc_int32_t)cp)) : ft_j_is_space(cp);
        at += (size_t)len;
    }
    return ft_jv_bool(all);
}

static ft_jv str_isdigit(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)a;
    return all_chars(c, v, digit_char);
}

static ft_jv str_isalpha(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)a;
    return all_chars(c, v, alpha_char);
}

static ft_jv str_isalnum(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)a;
    return all_chars(c, v, alnum_char);
}

static ft_jv str_isspace(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)a;
    return all_chars(c, v, NULL);
}

static const ft_jdef str_methods[] = {
    {"strip", str_strip, 0, 1},
    {"lstrip", str_lstrip, 0, 1},
    {"rstrip", str_rstrip, 0, 1},
    {"split", str_split, 0, 2},
    {"rsplit", str_rsplit, 0, 2},
    {"splitlines", str_splitlines, 0, 0},
    {"startswith", str_startswith, 1, 1},
    {"endswith", str_endswith, 1, 1},
    {"removeprefix", str_removeprefix, 1, 1},
    {"removesuffix", str_removesuffix, 1, 1},
    {"replace", str_replace, 2, 3},
    {"upper", str_upper, 0, 0},
    {"lower", str_lower, 0, 0},
    {"casefold", str_lower, 0, 0},
    {"capitalize", str_capitalize, 0, 0},
    {"title", str_title, 0, 0},
    {"join", str_join, 1, 1},
    {"find", str_find, 1, 1},
    {"rfind", str_rfind, 1, 1},
    {"index", str_index, 1, 1},
    {"count", str_count, 1, 1},
    {"format", str_format, 0, -1},
    {"isdigit", str_isdigit, 0, 0},
    {"isdecimal", str_isdigit, 0, 0},
    {"isnumeric", str_isdigit, 0, 0},
    {"isalpha", str_isalpha, 0, 0},
    {"isalnum", str_isalnum, 0, 0},
    {"isspace", str_isspace, 0, 0},
    {NULL, NULL, 0, 0},
};

/* ---- loops and cyclers ---- */

static ft_jv loop_cycle(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    const ft_jloop *l = v.u.p;
    if (!a->n_pos) ft_j_fail(c, FT_EINVAL, "cycle: want at least one value");
    return a->pos[l->at % a->n_pos];
}

static ft_jv loop_changed(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    ft_jloop *l = v.u.p;
    ft_jlist *now = ft_jlist_new(c, a->n_pos);
    for (size_t i = 0; i < a->n_pos; i++) ft_jlist_put(c, now, a->pos[i]);
    const ft_jv t = ft_jv_ref(FT_J_TUPLE, now);
    const bool changed = !ft_jv_equal(c, l->last_seen, t);
    l->last_seen = t;
    return ft_jv_bool(changed);
}

static const ft_jdef loop_methods[] = {
    {"cycle", loop_cycle, 1, -1}, {"changed", loop_changed, 0, -1}, {NULL, NULL, 0, 0}};

static ft_jv cycler_next(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)c, (void)a;
    ft_jcycler *y = v.u.p;
    const ft_jv now = y->items->v[y->at];
    y->at = (y->at + 1) % y->items->n;
    return now;
}

static ft_jv cycler_reset(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)c, (void)a;
    ((ft_jcycler *)v.u.p)->at = 0;
    return ft_jv_none();
}

static const ft_jdef cycler_methods[] = {
    {"next", cycler_next, 0, 0}, {"reset", cycler_reset, 0, 0}, {NULL, NULL, 0, 0}};

const ft_jdef *ft_j_find_method(ft_jv self, ft_str name)
{
    switch (self.kind) {
    case FT_J_STR: return ft_j_find_def(str_methods, name);
    case FT_J_LIST: return ft_j_find_def(ft_j_list_methods, name);
    case FT_J_TUPLE: return ft_j_find_def(ft_j_tuple_methods, name);
    case FT_J_DICT: return ft_j_find_def(ft_j_dict_methods, name);
    case FT_J_LOOP: return ft_j_find_def(loop_methods, name);
    case FT_J_CYCLER: return ft_j_find_def(cycler_methods, name);
    default: return NULL;
    }
}
