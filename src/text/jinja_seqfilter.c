/* text/jinja_seqfilter.c - filters on lists and dicts. */
#include "base/mem.h"
#include "text/jinja_run.h"

static ft_jv list_value(ft_jlist *l)
{
    return ft_jv_ref(FT_J_LIST, l);
}

/* ---- members by path: "a.b.0" ---- */

static ft_jv by_path(ft_jctx *c, ft_jv v, ft_jv path, ft_jv dflt)
{
    if (path.kind == FT_J_INT) return ft_j_item(c, v, path);
    const ft_str s = ft_j_want_str(c, path, "an attribute");
    for (size_t from = 0; from <= s.n;) {
        size_t dot = ft_str_find(s, FT_STR("."), from);
        if (dot == SIZE_MAX) dot = s.n;
        const ft_str part = {s.p + from, dot - from};
        char z[24];
        int64_t i;
        ft_jv key = ft_jv_str(part.p, part.n);
        if (part.n && part.n < sizeof z) {
            memcpy(z, part.p, part.n);
            z[part.n] = 0;
            if (ft_parse_i64(z, 0, INT32_MAX, &i)) key = ft_jv_int(i);
        }
        v = ft_j_item(c, v, key);
        if (v.kind == FT_J_UNDEF && dflt.kind != FT_J_UNDEF) return dflt;
        from = dot + 1;
    }
    return v;
}

static ft_jv no_default(void)
{
    return ft_jv_undef(FT_STR("attribute"));
}

/* The sort key of an element: the attribute or the element itself, in lower case unless
 * case_sensitive. */
static ft_jv sort_key(ft_jctx *c, ft_jv v, ft_jv attribute, bool case_sensitive)
{
    if (attribute.kind != FT_J_NONE) v = by_path(c, v, attribute, no_default());
    if (v.kind == FT_J_STR && !case_sensitive) v = ft_j_recase(c, ft_jv_text(v), FT_CASE_LOWER);
    return v;
}

static ft_jv sorted(ft_jctx *c, ft_jpair *v, size_t n, bool reverse)
{
    ft_jlist *l = ft_jlist_new(c, n);
    ft_jpairs_sort(c, v, ft_j_alloc_n(c, n, sizeof *v), n, reverse);
    for (size_t i = 0; i < n; i++) ft_jlist_put(c, l, v[i].value);
    return list_value(l);
}

static ft_jv f_sort(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    const ft_jlist *in = ft_jv_elements(c, v);
    const bool exact = ft_j_arg_bool(a, 1, "case_sensitive", false);
    const ft_jv attribute = ft_j_arg(a, 2, "attribute", ft_jv_none());
    ft_jpair *p = ft_j_alloc_n(c, in->n, sizeof *p);
    for (size_t i = 0; i < in->n; i++)
        p[i] = (ft_jpair){sort_key(c, in->v[i], attribute, exact), in->v[i]};
    return sorted(c, p, in->n, ft_j_arg_bool(a, 0, "reverse", false));
}

static ft_jv f_dictsort(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    if (v.kind == FT_J_UNDEF) ft_j_undefined(c, v);
    if (v.kind != FT_J_DICT)
        ft_j_fail(c, FT_EINVAL, "dictsort: want a dict, found %s", ft_jv_type(v));
    const bool exact = ft_j_arg_bool(a, 0, "case_sensitive", false);
    const ft_str by = ft_j_want_str(c, ft_j_arg(a, 1, "by", ft_jv_z("key")), "by of dictsort");
    const ft_jdict *d = v.u.dict;
    ft_jpair *p = ft_j_alloc_n(c, d->n, sizeof *p);
    for (size_t i = 0; i < d->n; i++) {
        const ft_jv key = ft_str_is(by, "value") ? d->v[i].value : d->v[i].key;
        p[i].key = sort_key(c, key, ft_jv_none(), exact);
        p[i].value = ft_jv_pair(c, d->v[i].key, d->v[i].value);
    }
    return sorted(c, p, d->n, ft_j_arg_bool(a, 2, "reverse", false));
}

static ft_jv f_unique(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    const ft_jlist *in = ft_jv_elements(c, v);
    const bool exact = ft_j_arg_bool(a, 0, "case_sensitive", false);
    const ft_jv attribute = ft_j_arg(a, 1, "attribute", ft_jv_none());
    ft_jdict *seen = ft_jdict_new(c, 0);
    ft_jlist *l = ft_jlist_new(c, 0);
    for (size_t i = 0; i < in->n; i++) {
        const ft_jv key = sort_key(c, in->v[i], attribute, exact);
        if (ft_jdict_find(c, seen, key)) continue;
        ft_jdict_put(c, seen, key, ft_jv_none());
        ft_jlist_put(c, l, in->v[i]);
    }
    return list_value(l);
}

static ft_jv min_or_max(ft_jctx *c, ft_jv v, const ft_jargs *a, int sign)
{
    const ft_jlist *in = ft_jv_elements(c, v);
    const bool exact = ft_j_arg_bool(a, 0, "case_sensitive", false);
    const ft_jv attribute = ft_j_arg(a, 1, "attribute", ft_jv_none());
    if (!in->n) return ft_jv_undef(FT_STR("the extreme of an empty list"));
    size_t best = 0;
    ft_jv best_key = sort_key(c, in->v[0], attribute, exact);
    for (size_t i = 1; i < in->n; i++) {
        const ft_jv key = sort_key(c, in->v[i], attribute, exact);
        if (ft_jv_compare(c, key, best_key) * sign > 0) {
            best = i;
            best_key = key;
        }
    }
    return in->v[best];
}

static ft_jv f_min(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    return min_or_max(c, v, a, -1);
}

static ft_jv f_max(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    return min_or_max(c, v, a, 1);
}

/* ---- map, select, reject ---- */

/* The elements for map and select: a false value, also none, has no elements. */
static const ft_jlist *lenient_elements(ft_jctx *c, ft_jv v)
{
    return ft_jv_truth(v) ? ft_jv_elements(c, v) : ft_jlist_new(c, 0);
}

static ft_jv f_map(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    const ft_jlist *in = lenient_elements(c, v);
    ft_jlist *l = ft_jlist_new(c, in->n);
    if (!a->n_pos) {
        const ft_jv attribute = ft_j_arg(a, SIZE_MAX, "attribute", ft_jv_none());
        const ft_jv dflt = ft_j_arg(a, SIZE_MAX, "default", no_default());
        for (size_t i = 0; i < in->n; i++)
            ft_jlist_put(c, l, by_path(c, in->v[i], attribute, dflt));
        return list_value(l);
    }
    const ft_str name = ft_j_want_str(c, a->pos[0], "map");
    const ft_jdef *d = ft_j_find_filter(name);
    const ft_jargs rest = ft_j_args_rest(a, 1);
    if (!d) ft_j_fail(c, FT_EUNSUPPORTED, "no filter '%.*s'", FT_STR_FMT(name));
    for (size_t i = 0; i < in->n; i++) {
        ft_j_step(c, 1);
        ft_jlist_put(c, l, ft_j_apply(c, d, "filter", in->v[i], &rest));
    }
    return list_value(l);
}

/* select and reject (attr false), selectattr and rejectattr (attr true). */
static ft_jv filter_elements(ft_jctx *c, ft_jv v, const ft_jargs *a, bool attr, bool want)
{
    const ft_jlist *in = lenient_elements(c, v);
    const size_t skip = attr ? 1 : 0;
    const ft_jv path = attr ? ft_j_arg(a, 0, NULL, ft_jv_none()) : ft_jv_none();
    const ft_jdef *d = NULL;
    if (a->n_pos > skip) {
        const ft_str name = ft_j_want_str(c, a->pos[skip], "the name of a test");
        d = ft_j_find_test(name);
        if (!d) ft_j_fail(c, FT_EUNSUPPORTED, "no test '%.*s'", FT_STR_FMT(name));
    }
    const ft_jargs rest = ft_j_args_rest(a, skip + 1);
    ft_jlist *l = ft_jlist_new(c, 0);
    for (size_t i = 0; i < in->n; i++) {
        ft_j_step(c, 1);
        const ft_jv e = attr ? by_path(c, in->v[i], path, no_default()) : in->v[i];
        const ft_jv r = d ? ft_j_apply(c, d, "test", e, &rest) : e;
        if (ft_jv_truth(r) == want) ft_jlist_put(c, l, in->v[i]);
    }
    return list_value(l);
}

static ft_jv f_select(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    return filter_elements(c, v, a, false, true);
}

static ft_jv f_reject(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    return filter_elements(c, v, a, false, false);
}

static ft_jv f_selectattr(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    return filter_elements(c, v, a, true, true);
}

static ft_jv f_rejectattr(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    return filter_elements(c, v, a, true, false);
}

/* ---- other filters ---- */

static ft_jv f_length(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)a;
    size_t n;
    if (!ft_jv_length(c, v, &n))
        ft_j_fail(c, FT_EINVAL, "a value of type %s has no length", ft_jv_type(v));
    return ft_jv_int((int64_t)n);
}

static ft_jv f_join(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    const ft_jv sep = ft_jv_to_str(c, ft_j_arg(a, 0, "d", ft_jv_z("")));
    const ft_jv attribute = ft_j_arg(a, 1, "attribute", ft_jv_none());
    const ft_jlist *in = ft_jv_elements(c, v);
    if (attribute.kind != FT_J_NONE) {
        ft_jlist *l = ft_jlist_new(c, in->n);
        for (size_t i = 0; i < in->n; i++)
            ft_jlist_put(c, l, by_path(c, in->v[i], attribute, no_default()));
        in = l;
    }
    return ft_j_join(c, ft_jv_text(sep), in);
}

static ft_jv f_first(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)a;
    const ft_jlist *l = ft_jv_elements(c, v);
    return l->n ? l->v[0] : ft_jv_undef(FT_STR("the first of an empty list"));
}

static ft_jv f_last(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)a;
    const ft_jlist *l = ft_jv_elements(c, v);
    return l->n ? l->v[l->n - 1] : ft_jv_undef(FT_STR("the last of an empty list"));
}

static ft_jv f_list(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)a;
    const ft_jlist *in = ft_jv_elements(c, v);
    ft_jlist *l = ft_jlist_new(c, in->n);
    for (size_t i = 0; i < in->n; i++) ft_jlist_put(c, l, in->v[i]);
    return list_value(l);
}

static ft_jv f_reverse(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)a;
    const ft_jlist *in = ft_jv_elements(c, v);
    ft_jlist *l = ft_jlist_new(c, in->n);
    for (size_t i = in->n; i-- > 0;) ft_jlist_put(c, l, in->v[i]);
    return v.kind == FT_J_STR ? ft_j_join(c, FT_STR(""), l) : list_value(l);
}

static ft_jv f_items(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    (void)a;
    if (v.kind != FT_J_DICT && v.kind != FT_J_UNDEF)
        ft_j_fail(c, FT_EINVAL, "items: want a dict, found %s", ft_jv_type(v));
    const size_t n = v.kind == FT_J_DICT ? v.u.dict->n : 0;
    ft_jlist *l = ft_jlist_new(c, n);
    for (size_t i = 0; i < n; i++)
        ft_jlist_put(c, l, ft_jv_pair(c, v.u.dict->v[i].key, v.u.dict->v[i].value));
    return list_value(l);
}

static ft_jv f_sum(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    const ft_jlist *in = ft_jv_elements(c, v);
    const ft_jv attribute = ft_j_arg(a, 0, "attribute", ft_jv_none());
    ft_jv sum = ft_j_arg(a, 1, "start", ft_jv_int(0));
    for (size_t i = 0; i < in->n; i++) {
        const bool whole = attribute.kind == FT_J_NONE;
        const ft_jv e = whole ? in->v[i] : by_path(c, in->v[i], attribute, no_default());
        sum = ft_j_binary(c, FT_O_ADD, sum, e);
    }
    return sum;
}

static ft_jv f_batch(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    const ft_jlist *in = ft_jv_elements(c, v);
    const int64_t n = ft_j_arg_int(c, a, 0, "linecount", 1);
    const ft_jv fill = ft_j_arg(a, 1, "fill_with", ft_jv_none());
    if (n < 1 || n > 1 << 20) ft_j_fail(c, FT_EINVAL, "batch: want 1 to 1048576, found %d", (int)n);
    ft_jlist *out = ft_jlist_new(c, 0), *row = NULL;
    for (size_t i = 0; i < in->n; i++) {
        if (i % (size_t)n == 0) {
            row = ft_jlist_new(c, 0);
            ft_jlist_put(c, out, list_value(row));
        }
        ft_jlist_put(c, row, in->v[i]);
    }
    while (row && fill.kind != FT_J_NONE && row->n < (size_t)n) ft_jlist_put(c, row, fill);
    return list_value(out);
}

static ft_jv f_slice(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    const ft_jlist *in = ft_jv_elements(c, v);
    const int64_t n = ft_j_arg_int(c, a, 0, "slices", 1);
    const ft_jv fill = ft_j_arg(a, 1, "fill_with", ft_jv_none());
    if (n < 1 || n > 1 << 20) ft_j_fail(c, FT_EINVAL, "slice: want 1 to 1048576, found %d", (int)n);
    const size_t each = in->n / (size_t)n, more = in->n % (size_t)n;
    ft_jlist *out = ft_jlist_new(c, (size_t)n);
    size_t at = 0;
    for (size_t k = 0; k < (size_t)n; k++) {
        ft_jlist *part = ft_jlist_new(c, each + 1);
        for (size_t i = 0; i < each + (k < more); i++) ft_jlist_put(c, part, in->v[at++]);
        if (fill.kind != FT_J_NONE && k >= more) ft_jlist_put(c, part, fill);
        ft_jlist_put(c, out, list_value(part));
    }
    return list_value(out);
}

static ft_jv f_attr(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    return ft_j_attr(c, v, ft_j_want_str(c, ft_j_arg(a, 0, "name", ft_jv_none()), "attr"));
}

static ft_jv f_groupby(ft_jctx *c, ft_jv v, const ft_jargs *a)
{
    const ft_jlist *in = ft_jv_elements(c, v);
    const ft_jv path = ft_j_arg(a, 0, "attribute", ft_jv_none());
    const ft_jv dflt = ft_j_arg(a, 1, "default", no_default());
    ft_jpair *p = ft_j_alloc_n(c, in->n, sizeof *p);
    for (size_t i = 0; i < in->n; i++) {
        p[i].key = by_path(c, in->v[i], path, dflt);
        p[i].value = ft_jv_pair(c, p[i].key, in->v[i]);
    }
    const ft_jlist *all = sorted(c, p, in->n, false).u.list;
    ft_jlist *out = ft_jlist_new(c, 0), *group = NULL;
    for (size_t i = 0; i < all->n; i++) {
        const ft_jv *pair = all->v[i].u.list->v;
        if (!group || !ft_jv_equal(c, pair[0], out->v[out->n - 1].u.list->v[0])) {
            group = ft_jlist_new(c, 0);
            ft_jlist_put(c, out, ft_jv_pair(c, pair[0], list_value(group)));
        }
        ft_jlist_put(c, group, pair[1]);
    }
    return list_value(out);
}

const ft_jdef ft_j_seq_filters[] = {
    {"length", f_length, 0, 0},
    {"count", f_length, 0, 0},
    {"join", f_join, 0, 2},
    {"first", f_first, 0, 0},
    {"last", f_last, 0, 0},
    {"list", f_list, 0, 0},
    {"items", f_items, 0, 0},
    {"map", f_map, 1, -1},
    {"select", f_select, 0, -1},
    {"reject", f_reject, 0, -1},
    {"selectattr", f_selectattr, 1, -1},
    {"rejectattr", f_rejectattr, 1, -1},
    {"sort", f_sort, 0, 3},
    {"dictsort", f_dictsort, 0, 3},
    {"unique", f_unique, 0, 2},
    {"sum", f_sum, 0, 2},
    {"min", f_min, 0, 2},
    {"max", f_max, 0, 2},
    {"reverse", f_reverse, 0, 0},
    {"batch", f_batch, 1, 2},
    {"slice", f_slice, 1, 2},
    {"attr", f_attr, 1, 1},
    {"groupby", f_groupby, 1, 2},
    {NULL, NULL, 0, 0},
};
