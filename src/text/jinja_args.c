/* text/jinja_args.c - arguments of built-in functions and filters, and their lookup by name. */
#include "text/jinja_run.h"

ft_jv ft_j_arg(const ft_jargs *a, size_t i, const char *key, ft_jv dflt)
{
    if (i < a->n_pos) return a->pos[i];
    for (size_t k = 0; key && k < a->n_kw; k++)
        if (ft_str_is(a->key[k], key)) return a->kw[k];
    return dflt;
}

int64_t ft_j_arg_int(ft_jctx *c, const ft_jargs *a, size_t i, const char *key, int64_t dflt)
{
    int64_t n;
    const ft_jv v = ft_j_arg(a, i, key, ft_jv_int(dflt));
    if (v.kind == FT_J_NONE) return dflt;
    if (v.kind == FT_J_UNDEF) ft_j_undefined(c, v);
    if (!ft_jv_integer(v, &n))
        ft_j_fail(c, FT_EINVAL, "%s: want an integer, found %s", key ? key : "the argument",
                  ft_jv_type(v));
    return n;
}

bool ft_j_arg_bool(const ft_jargs *a, size_t i, const char *key, bool dflt)
{
    return ft_jv_truth(ft_j_arg(a, i, key, ft_jv_bool(dflt)));
}

ft_jargs ft_j_args_rest(const ft_jargs *a, size_t from)
{
    ft_jargs r = *a;
    from = from < a->n_pos ? from : a->n_pos;
    if (from) r.pos += from;
    r.n_pos -= from;
    return r;
}

const ft_jdef *ft_j_find_def(const ft_jdef *table, ft_str name)
{
    for (; table->name; table++)
        if (ft_str_is(name, table->name)) return table;
    return NULL;
}

const ft_jdef *ft_j_find_filter(ft_str name)
{
    const ft_jdef *d = ft_j_find_def(ft_j_text_filters, name);
    return d ? d : ft_j_find_def(ft_j_seq_filters, name);
}
