/* text/jinja_func.c - methods of lists and dicts, and the built-in functions. */
#define _POSIX_C_SOURCE 200809L
#include "text/jinja_run.h"

#include <time.h>

enum { MAX_RANGE = 100000 }; /* as in Jinja's sandbox */

/* ---- lists ---- */

static ft_jv list_append(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    ft_jlist_put(c, v.u.list, ft_j_arg(a, 0, NULL, ft_jv_none()));
    return ft_jv_none();
}

static ft_jv list_extend(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    const ft_jlist *more = ft_jv_elements(c, ft_j_arg(a, 0, NULL, ft_jv_none()));
    const size_t n = more->n; /* a list may be added to itself */
    for (size_t i = 0; i < n; i++) ft_jlist_put(c, v.u.list, more->v[i]);
    ft_j_step(c, n);
    return ft_jv_none();
}

static ft_jv list_insert(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    ft_jlist *l = v.u.list;
    const int64_t n = (int64_t)l->n;
    int64_t at = ft_j_arg_int(c, a, 0, NULL, 0);
    if (at < 0) at = at < -n ? 0 : at + n;
    if (at > n) at = n;
    ft_jlist_put(c, l, ft_jv_none());
    memmove(l->v + at + 1, l->v + at, (size_t)(n - at) * sizeof *l->v);
    l->v[at] = ft_j_arg(a, 1, NULL, ft_jv_none());
    ft_j_step(c, (size_t)(n - at) / 8);
    return ft_jv_none();
}

static ft_jv list_pop(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    ft_jlist *l = v.u.list;
    const int64_t n = (int64_t)l->n;
    int64_t at = ft_j_arg_int(c, a, 0, NULL, -1);
    if (at < 0) at += n;
    if (at < 0 || at >= n) ft_j_fail(c, FT_EINVAL, "pop from a list of %d, out of range", (int)n);
    const ft_jv e = l->v[at];
    memmove(l->v + at, l->v + at + 1, (size_t)(n - at - 1) * sizeof e);
    l->n--;
    ft_j_step(c, (size_t)(n - at) / 8);
    return e;
}

static ft_jv list_index(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    for (size_t i = 0; i < v.u.list->n; i++)
        if (ft_jv_equal(c, v.u.list->v[i], ft_j_arg(a, 0, NULL, ft_jv_none())))
            return ft_jv_int((int64_t)i);
    ft_j_fail(c, FT_EINVAL, "index: the value is not in the list");
}

static ft_jv list_count(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    int64_t n = 0;
    for (size_t i = 0; i < v.u.list->n; i++)
        n += ft_jv_equal(c, v.u.list->v[i], ft_j_arg(a, 0, NULL, ft_jv_none()));
    return ft_jv_int(n);
}

static ft_jv list_reverse(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)a;
    ft_jlist *l = v.u.list;
    ft_j_step(c, l->n / 8);
    for (size_t i = 0, j = l->n; i + 1 < j; i++) {
        const ft_jv e = l->v[i];
        l->v[i] = l->v[--j];
        l->v[j] = e;
    }
    return ft_jv_none();
}

static ft_jv list_clear(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)c, (void)a;
    v.u.list->n = 0;
    return ft_jv_none();
}

static ft_jv list_copy(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)a;
    ft_jlist *l = ft_jlist_new(c, v.u.list->n);
    for (size_t i = 0; i < v.u.list->n; i++) ft_jlist_put(c, l, v.u.list->v[i]);
    return ft_jv_ref(FT_J_LIST, l);
}

const ft_jdef ft_j_list_methods[] = {
    {"append", list_append, 1, 1},   {"extend", list_extend, 1, 1},
    {"insert", list_insert, 2, 2},   {"pop", list_pop, 0, 1},
    {"index", list_index, 1, 1},     {"count", list_count, 1, 1},
    {"reverse", list_reverse, 0, 0}, {"clear", list_clear, 0, 0},
    {"copy", list_copy, 0, 0},       {NULL, NULL, 0, 0},
};

const ft_jdef ft_j_tuple_methods[] = {
    {"index", list_index, 1, 1}, {"count", list_count, 1, 1}, {NULL, NULL, 0, 0}};

/* ---- dicts ---- */

static ft_jv dict_items(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)a;
    ft_jlist *l = ft_jlist_new(c, v.u.dict->n);
    for (size_t i = 0; i < v.u.dict->n; i++)
        ft_jlist_put(c, l, ft_jv_pair(c, v.u.dict->v[i].key, v.u.dict->v[i].value));
    return ft_jv_ref(FT_J_LIST, l);
}

static ft_jv dict_keys(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)a;
    ft_jlist *l = ft_jlist_new(c, v.u.dict->n);
    for (size_t i = 0; i < v.u.dict->n; i++) ft_jlist_put(c, l, v.u.dict->v[i].key);
    return ft_jv_ref(FT_J_LIST, l);
}

static ft_jv dict_values(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)a;
    ft_jlist *l = ft_jlist_new(c, v.u.dict->n);
    for (size_t i = 0; i < v.u.dict->n; i++) ft_jlist_put(c, l, v.u.dict->v[i].value);
    return ft_jv_ref(FT_J_LIST, l);
}

static ft_jv dict_get(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    const ft_jv *p = ft_jdict_find(c, v.u.dict, ft_j_arg(a, 0, "key", ft_jv_none()));
    return p ? *p : ft_j_arg(a, 1, "default", ft_jv_none());
}

static ft_jv dict_update(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    const ft_jv other = ft_j_arg(a, 0, NULL, ft_jv_none());
    if (other.kind == FT_J_DICT) {
        for (size_t i = 0, n = other.u.dict->n; i < n; i++)
            ft_jdict_put(c, v.u.dict, other.u.dict->v[i].key, other.u.dict->v[i].value);
    } else if (other.kind != FT_J_NONE) {
        ft_j_fail(c, FT_EINVAL, "update: want a dict, found %s", ft_jv_type(other));
    }
    for (size_t i = 0; i < a->n_kw; i++)
        ft_jdict_put(c, v.u.dict, ft_jv_str(a->key[i].p, a->key[i].n), a->kw[i]);
    return ft_jv_none();
}

static ft_jv dict_pop(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    const ft_jv key = ft_j_arg(a, 0, NULL, ft_jv_none());
    const ft_jv *p = ft_jdict_find(c, v.u.dict, key);
    if (!p) {
        if (a->n_pos < 2) ft_j_fail(c, FT_EINVAL, "pop: the key is not in the dict");
        return a->pos[1];
    }
    const ft_jv e = *p;
    ft_jdict_remove(c, v.u.dict, key);
    return e;
}

static ft_jv dict_setdefault(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    const ft_jv key = ft_j_arg(a, 0, NULL, ft_jv_none());
    const ft_jv *p = ft_jdict_find(c, v.u.dict, key);
    if (p) return *p;
    const ft_jv e = ft_j_arg(a, 1, "default", ft_jv_none());
    ft_jdict_put(c, v.u.dict, key, e);
    return e;
}

static ft_jv copy_dict(ft_jctx *c, const ft_jdict *from)
{
    ft_jdict *d = ft_jdict_new(c, from->n);
    for (size_t i = 0; i < from->n; i++) ft_jdict_put(c, d, from->v[i].key, from->v[i].value);
    return ft_jv_ref(FT_J_DICT, d);
}

static ft_jv dict_copy(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)a;
    return copy_dict(c, v.u.dict);
}

const ft_jdef ft_j_dict_methods[] = {
    {"items", dict_items, 0, 0},
    {"keys", dict_keys, 0, 0},
    {"values", dict_values, 0, 0},
    {"get", dict_get, 1, 2},
    {"update", dict_update, 0, -1},
    {"pop", dict_pop, 1, 2},
    {"setdefault", dict_setdefault, 1, 2},
    {"copy", dict_copy, 0, 0},
    {NULL, NULL, 0, 0},
};

/* ---- functions ---- */

static ft_jv fn_raise(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)v;
    const ft_jv s = ft_jv_to_str(c, ft_j_arg(a, 0, "message", ft_jv_z("")));
    ft_j_fail(c, FT_EINVAL, "raised by the template: %.*s", FT_STR_FMT(ft_jv_text(s)));
}

static ft_jv fn_range(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)v;
    int64_t b[3] = {0, 0, 1};
    for (size_t i = 0; i < a->n_pos && i < 3; i++) b[i] = ft_j_arg_int(c, a, i, NULL, 0);
    if (a->n_pos == 1) {
        b[1] = b[0];
        b[0] = 0;
    }
    if (!b[2]) ft_j_fail(c, FT_EINVAL, "range with a step of 0");
    const bool up = b[2] > 0;
    const uint64_t span = up ? (b[1] > b[0] ? (uint64_t)b[1] - (uint64_t)b[0] : 0)
                             : (b[0] > b[1] ? (uint64_t)b[0] - (uint64_t)b[1] : 0);
    const uint64_t step = up ? (uint64_t)b[2] : 0 - (uint64_t)b[2];
    const uint64_t n = span ? (span - 1) / step + 1 : 0;
    if (n > MAX_RANGE) ft_j_fail(c, FT_ELIMIT, "a range of more than %d numbers", MAX_RANGE);
    ft_jrange *r = ft_j_alloc(c, sizeof *r);
    *r = (ft_jrange){b[0], b[2], (int64_t)n};
    return ft_jv_ref(FT_J_RANGE, r);
}

static ft_jv fn_dict(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)v;
    const ft_jv from = ft_j_arg(a, 0, NULL, ft_jv_none());
    ft_jdict *d = ft_jdict_new(c, 0);
    if (from.kind == FT_J_DICT) {
        d = copy_dict(c, from.u.dict).u.dict;
    } else if (from.kind != FT_J_NONE) { /* pairs */
        const ft_jlist *l = ft_jv_elements(c, from);
        for (size_t i = 0; i < l->n; i++) {
            const ft_jlist *pair = ft_jv_elements(c, l->v[i]);
            if (pair->n != 2)
                ft_j_fail(c, FT_EINVAL, "dict: want pairs, found %zu values", pair->n);
            ft_jdict_put(c, d, pair->v[0], pair->v[1]);
        }
    }
    for (size_t i = 0; i < a->n_kw; i++)
        ft_jdict_put(c, d, ft_jv_str(a->key[i].p, a->key[i].n), a->kw[i]);
    return ft_jv_ref(FT_J_DICT, d);
}

static ft_jv fn_namespace(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    ft_jv ns = fn_dict(c, v, a);
    ns.kind = FT_J_NS;
    return ns;
}

static ft_jv fn_strftime(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)v;
    char fmt[256], text[1024];
    const ft_str f = ft_j_want_str(c, ft_j_arg(a, 0, "format", ft_jv_none()), "strftime_now");
    const time_t now = time(NULL);
    struct tm tm;
    if (f.n >= sizeof fmt)
        ft_j_fail(c, FT_ELIMIT, "a time format of %zu bytes, want at most %zu", f.n,
                  sizeof fmt - 1);
    memcpy(fmt, f.p, f.n);
    fmt[f.n] = 0;
    localtime_r(&now, &tm);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    const size_t n = strftime(text, sizeof text, fmt, &tm);
#pragma GCC diagnostic pop
    return ft_jv_copy_str(c, (ft_str){text, n});
}

static ft_jv fn_joiner(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)v;
    ft_jlist *l = ft_jlist_new(c, 2);
    ft_jlist_put(c, l, ft_jv_to_str(c, ft_j_arg(a, 0, "sep", ft_jv_z(", "))));
    return ft_jv_ref(FT_J_JOINER, l);
}

static ft_jv fn_cycler(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)v;
    ft_jlist *l = ft_jlist_new(c, a->n_pos);
    for (size_t i = 0; i < a->n_pos; i++) ft_jlist_put(c, l, a->pos[i]);
    if (!l->n) ft_j_fail(c, FT_EINVAL, "cycler: want at least one value");
    ft_jcycler *y = ft_j_alloc(c, sizeof *y);
    *y = (ft_jcycler){l, 0};
    return ft_jv_ref(FT_J_CYCLER, y);
}

const ft_jdef ft_j_functions[] = {
    {"raise_exception", fn_raise, 0, 1},
    {"strftime_now", fn_strftime, 1, 1},
    {"range", fn_range, 1, 3},
    {"namespace", fn_namespace, 0, -1},
    {"dict", fn_dict, 0, -1},
    {"joiner", fn_joiner, 0, 1},
    {"cycler", fn_cycler, 1, -1},
    {NULL, NULL, 0, 0},
};
