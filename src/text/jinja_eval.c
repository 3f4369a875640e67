/* text/jinja_eval.c - evaluates expressions to values. */
#include "text/jinja_run.h"

#include "base/utf8.h"

enum { MAX_ARGS = 64 };

void ft_j_undefined(ft_jctx *c, ft_jv v)
{
    ft_j_fail(c, FT_EINVAL, "'%.*s' is undefined", FT_STR_FMT(ft_jv_text(v)));
}

/* ---- names and members ---- */

static ft_jv lookup(ft_jctx *c, const ft_jnode *e)
{
    for (const ft_jscope *s = c->scope; s != c->root; s = s->parent)
        for (int i = s->n - 1; i >= 0; i--)
            if (s->slot[i].sym == e->sym) return s->slot[i].value;
    const ft_jslot *slot = &c->root->slot[e->sym];
    return slot->sym >= 0 ? slot->value : ft_jv_undef(e->text);
}

ft_jv ft_j_loop_item(const ft_jloop *l, size_t i)
{
    if (l->over.kind != FT_J_RANGE) return l->v[i];
    const ft_jrange *r = l->over.u.p;
    return ft_jv_int(r->start + r->step * (int64_t)i);
}

static ft_jv loop_attr(ft_jv v, ft_str name)
{
    const ft_jloop *l = v.u.p;
    const int64_t n = (int64_t)l->n, at = (int64_t)l->at;
    if (ft_str_is(name, "index")) return ft_jv_int(at + 1);
    if (ft_str_is(name, "index0")) return ft_jv_int(at);
    if (ft_str_is(name, "revindex")) return ft_jv_int(n - at);
    if (ft_str_is(name, "revindex0")) return ft_jv_int(n - at - 1);
    if (ft_str_is(name, "first")) return ft_jv_bool(at == 0);
    if (ft_str_is(name, "last")) return ft_jv_bool(at == n - 1);
    if (ft_str_is(name, "length")) return ft_jv_int(n);
    if (ft_str_is(name, "depth")) return ft_jv_int(1); /* of recursion */
    if (ft_str_is(name, "depth0")) return ft_jv_int(0);
    if (ft_str_is(name, "previtem"))
        return at > 0 ? ft_j_loop_item(l, l->at - 1) : ft_jv_undef(FT_STR("loop.previtem"));
    if (ft_str_is(name, "nextitem"))
        return at + 1 < n ? ft_j_loop_item(l, l->at + 1) : ft_jv_undef(FT_STR("loop.nextitem"));
    return ft_jv_undef(name);
}

static ft_jv cycler_attr(ft_jv v, ft_str name)
{
    const ft_jcycler *y = v.u.p;
    return ft_str_is(name, "current") ? y->items->v[y->at] : ft_jv_undef(name);
}

ft_jv ft_j_attr(ft_jctx *c, ft_jv v, ft_str name)
{
    if (v.kind == FT_J_UNDEF) ft_j_undefined(c, v);
    const ft_jdef *m = ft_j_find_method(v, name);
    if (m) {
        ft_jmethod *bound = ft_j_alloc(c, sizeof *bound);
        *bound = (ft_jmethod){v, m};
        return ft_jv_ref(FT_J_METHOD, bound);
    }
    if (v.kind == FT_J_DICT || v.kind == FT_J_NS) {
        const ft_jv *p = ft_jdict_find(c, v.u.dict, ft_jv_str(name.p, name.n));
        return p ? *p : ft_jv_undef(name);
    }
    if (v.kind == FT_J_LOOP) return loop_attr(v, name);
    if (v.kind == FT_J_CYCLER) return cycler_attr(v, name);
    if (v.kind == FT_J_MACRO && ft_str_is(name, "name")) {
        const ft_str t = ((const ft_jmacro *)v.u.p)->node->text;
        return ft_jv_str(t.p, t.n);
    }
    return ft_jv_undef(name);
}

static ft_jv char_at(ft_jctx *c, ft_jv s, int64_t i)
{
    const int64_t n = (int64_t)ft_j_utf8_count(ft_jv_text(s));
    if (i < 0) i += n;
    if (i < 0 || i >= n) return ft_jv_undef(FT_STR("index"));
    const ft_jv bound[3] = {ft_jv_int(i), ft_jv_int(i + 1), ft_jv_none()};
    return ft_j_slice(c, s, bound);
}

ft_jv ft_j_item(ft_jctx *c, ft_jv v, ft_jv key)
{
    int64_t i;
    if (v.kind == FT_J_UNDEF) ft_j_undefined(c, v);
    if (v.kind == FT_J_DICT) {
        const ft_jv *p = NULL;
        if (key.kind != FT_J_UNDEF && key.kind != FT_J_LIST && key.kind != FT_J_DICT)
            p = ft_jdict_find(c, v.u.dict, key);
        if (p) return *p;
    } else if (ft_jv_integer(key, &i)) {
        if (v.kind == FT_J_STR) return char_at(c, v, i);
        if (ft_jv_is_seq(v)) {
            const int64_t n = (int64_t)v.u.list->n;
            if (i < 0) i += n;
            return i >= 0 && i < n ? v.u.list->v[i] : ft_jv_undef(FT_STR("index"));
        }
        if (v.kind == FT_J_RANGE) {
            const ft_jrange *r = v.u.p;
            if (i < 0) i += r->n;
            return i >= 0 && i < r->n ? ft_jv_int(r->start + i * r->step)
                                      : ft_jv_undef(FT_STR("index"));
        }
    }
    if (key.kind == FT_J_STR) return ft_j_attr(c, v, ft_jv_text(key));
    return ft_jv_undef(FT_STR("item"));
}

/* ---- calls ---- */

/* The evaluated arguments; the arrays live in the arena. */
static ft_jargs eval_args(ft_jctx *c, const ft_jcallargs *in)
{
    ft_jargs a = {0};
    if (!in) return a;
    if (in->n_pos + in->n_kw > MAX_ARGS)
        ft_j_fail(c, FT_ELIMIT, "%zu arguments, want at most %d", in->n_pos + in->n_kw, MAX_ARGS);
    ft_jv *v = in->n_pos + in->n_kw ? ft_j_alloc_n(c, in->n_pos + in->n_kw, sizeof *v) : NULL;
    for (size_t i = 0; i < in->n_pos; i++) v[i] = ft_j_eval(c, in->pos[i]);
    for (size_t i = 0; i < in->n_kw; i++) v[in->n_pos + i] = ft_j_eval(c, in->kw[i]);
    a.pos = v;
    a.n_pos = in->n_pos;
    a.key = in->key;
    a.kw = v ? v + in->n_pos : NULL;
    a.n_kw = in->n_kw;
    return a;
}

ft_jv ft_j_apply(ft_jctx *c, const ft_jdef *d, const char *what, ft_jv self, const ft_jargs *a)
{
    const int n = (int)(a->n_pos + a->n_kw);
    if (n < d->min || (d->max >= 0 && n > d->max))
        ft_j_fail(c, FT_EINVAL, "%s '%s' got %d arguments, want %d to %d", what, d->name, n, d->min,
                  d->max);
    return d->fn(c, self, a);
}

ft_jv ft_j_call(ft_jctx *c, ft_jv f, const ft_jargs *a)
{
    switch (f.kind) {
    case FT_J_FUNC: return ft_j_apply(c, f.u.p, "function", ft_jv_none(), a);
    case FT_J_METHOD: {
        const ft_jmethod *m = f.u.p;
        return ft_j_apply(c, m->def, "method", m->self, a);
    }
    case FT_J_MACRO: return ft_j_call_macro(c, f.u.p, a);
    case FT_J_JOINER: { /* empty the first time, then its separator */
        ft_jlist *l = f.u.p;
        const bool first = l->n == 1;
        if (first) ft_jlist_put(c, l, ft_jv_none());
        return first ? ft_jv_z("") : l->v[0];
    }
    case FT_J_UNDEF: ft_j_undefined(c, f);
    default: ft_j_fail(c, FT_EINVAL, "a value of type %s cannot be called", ft_jv_type(f));
    }
}

/* caller is the macro of a call block, or none. */
ft_jv ft_j_eval_call(ft_jctx *c, const ft_jnode *e, ft_jv caller)
{
    const ft_jnode *f = e->a;
    ft_jv callee;
    if (f->kind == FT_N_ATTR) { /* the common x.method(): no bound method is made */
        const ft_jv self = ft_j_eval(c, f->a);
        const ft_jdef *m = self.kind == FT_J_UNDEF ? NULL : ft_j_find_method(self, f->text);
        if (m) {
            const ft_jargs a = eval_args(c, e->args);
            c->line = e->line;
            return ft_j_apply(c, m, "method", self, &a);
        }
        callee = ft_j_attr(c, self, f->text);
        if (callee.kind == FT_J_UNDEF)
            ft_j_fail(c, FT_EINVAL, "a value of type %s has no method '%.*s'", ft_jv_type(self),
                      FT_STR_FMT(f->text));
    } else {
        callee = ft_j_eval(c, f);
    }
    const ft_jargs a = eval_args(c, e->args);
    c->line = e->line;
    if (caller.kind == FT_J_MACRO) {
        if (callee.kind != FT_J_MACRO)
            ft_j_fail(c, FT_EINVAL, "'call': want a macro, found %s", ft_jv_type(callee));
        ft_jmacro m = *(const ft_jmacro *)callee.u.p;
        m.caller = caller;
        return ft_j_call_macro(c, &m, &a);
    }
    return ft_j_call(c, callee, &a);
}

static ft_jv eval_named(ft_jctx *c, const ft_jnode *e, ft_jv self, const char *what)
{
    if (!e->def) ft_j_fail(c, FT_EUNSUPPORTED, "no %s '%.*s'", what, FT_STR_FMT(e->text));
    const ft_jargs a = eval_args(c, e->args);
    c->line = e->line;
    return ft_j_apply(c, e->def, what, self, &a);
}

ft_jv ft_j_filter_chain(ft_jctx *c, const ft_jnode *e, ft_jv input)
{
    ft_j_enter(c);
    const ft_jv self = e->a ? ft_j_filter_chain(c, e->a, input) : input;
    ft_j_leave(c);
    return eval_named(c, e, self, "filter");
}

/* ---- other expressions ---- */

static ft_jv eval_list(ft_jctx *c, const ft_jnode *e)
{
    ft_jlist *l = ft_jlist_new(c, e->n);
    for (size_t i = 0; i < e->n; i++) ft_jlist_put(c, l, ft_j_eval(c, e->list[i]));
    return ft_jv_ref(e->kind == FT_N_LIST ? FT_J_LIST : FT_J_TUPLE, l);
}

static ft_jv eval_dict(ft_jctx *c, const ft_jnode *e)
{
    ft_jdict *d = ft_jdict_new(c, e->n / 2);
    for (size_t i = 0; i < e->n; i += 2) {
        const ft_jv key = ft_j_eval(c, e->list[i]);
        ft_jdict_put(c, d, key, ft_j_eval(c, e->list[i + 1]));
    }
    return ft_jv_ref(FT_J_DICT, d);
}

static ft_jv eval_compare(ft_jctx *c, const ft_jnode *e)
{
    ft_jv left = ft_j_eval(c, e->a);
    for (size_t i = 0; i < e->n; i++) {
        const ft_jv right = ft_j_eval(c, e->list[i]);
        c->line = e->line;
        if (!ft_j_compare_op(c, e->op_list[i], left, right)) return ft_jv_bool(false);
        left = right;
    }
    return ft_jv_bool(true);
}

static ft_jv eval_concat(ft_jctx *c, const ft_jnode *e)
{
    ft_jv s = ft_jv_z("");
    for (size_t i = 0; i < e->n; i++) {
        const ft_jv part = ft_jv_to_str(c, ft_j_eval(c, e->list[i]));
        s = ft_jv_concat(c, ft_jv_text(s), ft_jv_text(part));
    }
    return s;
}

static ft_jv eval_slice(ft_jctx *c, const ft_jnode *e)
{
    ft_jv bound[3];
    const ft_jv v = ft_j_eval(c, e->a);
    for (int i = 0; i < 3; i++) bound[i] = e->list[i] ? ft_j_eval(c, e->list[i]) : ft_jv_none();
    c->line = e->line;
    return ft_j_slice(c, v, bound);
}

static ft_jv eval_sign(ft_jctx *c, const ft_jnode *e)
{
    const ft_jv v = ft_j_eval(c, e->a);
    double f;
    if (!ft_jv_number(v, &f)) {
        if (v.kind == FT_J_UNDEF) ft_j_undefined(c, v);
        ft_j_fail(c, FT_EINVAL, "unary + or -: want a number, found %s", ft_jv_type(v));
    }
    if (v.kind == FT_J_FLOAT) return e->kind == FT_N_NEG ? ft_jv_float(-f) : v;
    return ft_j_binary(c, e->kind == FT_N_NEG ? FT_O_SUB : FT_O_ADD, ft_jv_int(0), v);
}

static ft_jv eval_condition(ft_jctx *c, const ft_jnode *e)
{
    if (ft_jv_truth(ft_j_eval(c, e->b))) return ft_j_eval(c, e->a);
    return e->c ? ft_j_eval(c, e->c) : ft_jv_undef(FT_STR("the missing else"));
}

static ft_jv eval_node(ft_jctx *c, const ft_jnode *e)
{
    ft_jv v;
    switch (e->kind) {
    case FT_N_LIST:
    case FT_N_TUPLE: return eval_list(c, e);
    case FT_N_DICT: return eval_dict(c, e);
    case FT_N_ATTR:
        v = ft_j_eval(c, e->a);
        c->line = e->line;
        return ft_j_attr(c, v, e->text);
    case FT_N_ITEM: {
        v = ft_j_eval(c, e->a);
        const ft_jv key = ft_j_eval(c, e->b);
        c->line = e->line;
        return ft_j_item(c, v, key);
    }
    case FT_N_SLICE: return eval_slice(c, e);
    case FT_N_CALL: return ft_j_eval_call(c, e, ft_jv_none());
    case FT_N_FILTER: return eval_named(c, e, ft_j_eval(c, e->a), "filter");
    case FT_N_TEST: return eval_named(c, e, ft_j_eval(c, e->a), "test");
    case FT_N_NOT: return ft_jv_bool(!ft_jv_truth(ft_j_eval(c, e->a)));
    case FT_N_NEG:
    case FT_N_POS: return eval_sign(c, e);
    case FT_N_AND: v = ft_j_eval(c, e->a); return ft_jv_truth(v) ? ft_j_eval(c, e->b) : v;
    case FT_N_OR: v = ft_j_eval(c, e->a); return ft_jv_truth(v) ? v : ft_j_eval(c, e->b);
    case FT_N_BINARY: {
        v = ft_j_eval(c, e->a);
        const ft_jv right = ft_j_eval(c, e->b);
        c->line = e->line;
        return ft_j_binary(c, e->op, v, right);
    }
    case FT_N_COMPARE: return eval_compare(c, e);
    case FT_N_CONCAT: return eval_concat(c, e);
    default: return eval_condition(c, e);
    }
}

ft_jv ft_j_eval(ft_jctx *c, const ft_jnode *e)
{
    ft_j_step(c, 1);
    if (e->kind == FT_N_CONST) return e->value;
    if (e->kind == FT_N_NAME) return lookup(c, e);
    c->line = e->line;
    ft_j_enter(c);
    const ft_jv v = eval_node(c, e);
    ft_j_leave(c);
    return v;
}
