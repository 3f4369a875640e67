/* text/jinja_exec.c - executes statements and macros; parses and renders templates. */
#include "base/mem.h"
#include "base/utf8.h"
#include "text/jinja_run.h"

typedef enum flow { GO, BREAK, CONTINUE } flow;

static flow exec(ft_jctx *c, const ft_jnode *e);

/* ---- scopes ---- */

static void bind_in(ft_jctx *c, ft_jscope *s, int sym, ft_jv v)
{
    if (s == c->root) {
        s->slot[sym] = (ft_jslot){sym, v};
        return;
    }
    for (int i = 0; i < s->n; i++)
        if (s->slot[i].sym == sym) {
            s->slot[i].value = v;
            return;
        }
    if (s->n == s->cap) {
        const int cap = s->cap ? 2 * s->cap : 4;
        ft_jslot *p = ft_j_alloc_n(c, (size_t)cap, sizeof *p);
        if (s->n) memcpy(p, s->slot, (size_t)s->n * sizeof *p);
        s->slot = p;
        s->cap = cap;
    }
    s->slot[s->n++] = (ft_jslot){sym, v};
}

void ft_j_bind(ft_jctx *c, int sym, ft_jv v)
{
    bind_in(c, c->scope, sym, v);
}

static ft_jscope *push_scope(ft_jctx *c, ft_jscope *parent)
{
    ft_jscope *s = ft_j_alloc(c, sizeof *s);
    *s = (ft_jscope){parent, NULL, 0, 0, false};
    c->scope = s;
    return s;
}

static void keep_scopes(ft_jctx *c)
{
    for (ft_jscope *s = c->scope; s && !s->kept; s = s->parent) s->kept = true;
}

static void assign(ft_jctx *c, const ft_jnode *target, ft_jv v)
{
    if (target->kind == FT_N_NAME) {
        ft_j_bind(c, target->sym, v);
        return;
    }
    if (target->kind == FT_N_ATTR) {
        const ft_jv ns = ft_j_eval(c, target->a);
        if (ns.kind != FT_J_NS)
            ft_j_fail(c, FT_EINVAL, "attributes can be set on a namespace only, found %s",
                      ft_jv_type(ns));
        ft_jdict_put(c, ns.u.dict, ft_jv_str(target->text.p, target->text.n), v);
        return;
    }
    ft_j_enter(c);
    if (v.kind == FT_J_UNDEF) ft_j_undefined(c, v);
    const ft_jlist *l = ft_jv_elements(c, v);
    if (l->n != target->n) ft_j_fail(c, FT_EINVAL, "%zu values for %zu names", l->n, target->n);
    for (size_t i = 0; i < target->n; i++) assign(c, target->list[i], l->v[i]);
    ft_j_leave(c);
}

/* ---- text of a body, as a value ---- */

static ft_jv capture(ft_jctx *c, const ft_jnode *body)
{
    ft_jsb b = {0}, *out = c->out;
    c->out = &b;
    exec(c, body);
    c->out = out;
    return ft_jsb_value(&b);
}

static void emit(ft_jctx *c, const char *p, size_t n)
{
    if (n > c->max_out - FT_MIN(c->out->n, c->max_out))
        ft_j_fail(c, FT_ELIMIT, "more than %zu bytes of output", c->max_out);
    ft_jsb_put(c, c->out, p, n);
}

/* ---- macros ---- */

static bool takes_keyword(const ft_jcallargs *p, ft_str key, size_t *at)
{
    for (*at = 0; *at < p->n_kw; ++*at)
        if (ft_str_eq(p->key[*at], key)) return true;
    return false;
}

/* Binds the arguments without a parameter to varargs and kwargs, for a macro that uses these names.
 */
static void bind_rest(ft_jctx *c, const ft_jnode *m, const ft_jargs *a)
{
    const ft_jcallargs *p = m->args;
    ft_jlist *rest = m->rest & FT_REST_POS ? ft_jlist_new(c, 0) : NULL;
    ft_jdict *more = m->rest & FT_REST_KEY ? ft_jdict_new(c, 0) : NULL;
    size_t at;
    if (!rest && a->n_pos > p->n_kw)
        ft_j_fail(c, FT_EINVAL, "macro '%.*s' got %zu arguments, want at most %zu",
                  FT_STR_FMT(m->text), a->n_pos, p->n_kw);
    for (size_t i = p->n_kw; i < a->n_pos; i++) ft_jlist_put(c, rest, a->pos[i]);
    for (size_t i = 0; i < a->n_kw; i++) {
        if (takes_keyword(p, a->key[i], &at)) continue;
        if (!more)
            ft_j_fail(c, FT_EINVAL, "macro '%.*s' has no parameter '%.*s'", FT_STR_FMT(m->text),
                      FT_STR_FMT(a->key[i]));
        ft_jdict_put(c, more, ft_jv_str(a->key[i].p, a->key[i].n), a->kw[i]);
    }
    if (rest) ft_j_bind(c, FT_SYM_VARARGS, ft_jv_ref(FT_J_TUPLE, rest));
    if (more) ft_j_bind(c, FT_SYM_KWARGS, ft_jv_ref(FT_J_DICT, more));
}

ft_jv ft_j_call_macro(ft_jctx *c, const ft_jmacro *m, const ft_jargs *a)
{
    const ft_jcallargs *p = m->node->args;
    ft_jscope *scope = c->scope;
    const int line = c->line;
    ft_j_enter(c);
    push_scope(c, m->scope);
    for (size_t i = 0; i < p->n_kw; i++) {
        ft_jv v = ft_jv_undef(p->key[i]);
        size_t k = 0;
        while (k < a->n_kw && !ft_str_eq(a->key[k], p->key[i])) k++;
        if (i < a->n_pos)
            v = a->pos[i];
        else if (k < a->n_kw)
            v = a->kw[k];
        else if (p->kw[i])
            v = ft_j_eval(c, p->kw[i]);
        ft_j_bind(c, p->sym[i], v);
    }
    bind_rest(c, m->node, a);
    if (m->caller.kind == FT_J_MACRO) ft_j_bind(c, FT_SYM_CALLER, m->caller);
    const ft_jv v = capture(c, m->node->c);
    ft_j_leave(c);
    c->scope = scope;
    c->line = line;
    return v;
}

static ft_jv new_macro(ft_jctx *c, const ft_jnode *e)
{
    ft_jmacro *m = ft_j_alloc(c, sizeof *m);
    *m = (ft_jmacro){e, c->scope, ft_jv_none()};
    keep_scopes(c);
    return ft_jv_ref(FT_J_MACRO, m);
}

/* ---- loops ---- */

static ft_jv filtered(ft_jctx *c, const ft_jnode *e, ft_jv v)
{
    ft_jscope *outer = c->scope;
    const ft_jlist *all = ft_jv_elements(c, v);
    ft_jlist *l = ft_jlist_new(c, 0);
    ft_jscope *s = push_scope(c, outer);
    for (size_t i = 0; i < all->n; i++) {
        s->n = 0;
        ft_j_step(c, 1);
        assign(c, e->a, all->v[i]);
        if (ft_jv_truth(ft_j_eval(c, e->c))) ft_jlist_put(c, l, all->v[i]);
    }
    c->scope = outer;
    return ft_jv_ref(FT_J_LIST, l);
}

static ft_jloop *new_loop(ft_jctx *c, const ft_jnode *e)
{
    ft_jv v = ft_j_eval(c, e->b);
    c->line = e->line;
    if (e->c) v = filtered(c, e, v);
    ft_jloop *l = ft_j_alloc(c, sizeof *l);
    *l = (ft_jloop){.over = v, .last_seen = ft_jv_undef(FT_STR(""))};
    if (v.kind == FT_J_RANGE) {
        l->n = (size_t)((const ft_jrange *)v.u.p)->n;
    } else {
        const ft_jlist *all = ft_jv_elements(c, v);
        l->v = all->v;
        l->n = all->n;
    }
    return l;
}

static flow exec_for(ft_jctx *c, const ft_jnode *e)
{
    ft_jscope *outer = c->scope;
    ft_jloop *loop = new_loop(c, e);
    ft_jscope *s = NULL;
    flow f = GO;
    for (size_t i = 0; i < loop->n && f != BREAK; i++) {
        ft_j_step(c, 1);
        if (!s || s->kept) s = push_scope(c, outer);
        c->scope = s;
        s->n = 0;
        loop->at = i;
        ft_j_bind(c, FT_SYM_LOOP, ft_jv_ref(FT_J_LOOP, loop));
        assign(c, e->a, ft_j_loop_item(loop, i));
        f = exec(c, e->list[0]);
    }
    c->scope = outer;
    if (!loop->n && e->list[1]) {
        push_scope(c, outer);
        f = exec(c, e->list[1]);
        c->scope = outer;
        return f;
    }
    return GO;
}

/* ---- the other statements ---- */

static flow exec_if(ft_jctx *c, const ft_jnode *e)
{
    for (size_t i = 0; i < e->n; i += 2)
        if (ft_jv_truth(ft_j_eval(c, e->list[i]))) return exec(c, e->list[i + 1]);
    return e->b ? exec(c, e->b) : GO;
}

static flow exec_body(ft_jctx *c, const ft_jnode *e)
{
    for (size_t i = 0; i < e->n; i++) {
        const flow f = exec(c, e->list[i]);
        if (f != GO) return f;
    }
    return GO;
}

static flow exec_with(ft_jctx *c, const ft_jnode *e)
{
    ft_jscope *outer = c->scope;
    ft_jscope *s = ft_j_alloc(c, sizeof *s);
    *s = (ft_jscope){outer, NULL, 0, 0, false};
    for (size_t i = 0; i < e->n; i += 2) { /* values are evaluated in the outer scope */
        const ft_jv v = ft_j_eval(c, e->list[i + 1]);
        c->scope = s;
        assign(c, e->list[i], v);
        c->scope = outer;
    }
    c->scope = s;
    const flow f = exec(c, e->c);
    c->scope = outer;
    return f;
}

/* A block that collects text has its own scope, as its body may set names. */
static ft_jv capture_scoped(ft_jctx *c, const ft_jnode *body)
{
    ft_jscope *outer = c->scope;
    push_scope(c, outer);
    const ft_jv v = capture(c, body);
    c->scope = outer;
    return v;
}

static void exec_output(ft_jctx *c, const ft_jnode *e)
{
    const ft_jv v = ft_j_eval(c, e->a);
    c->line = e->line;
    if (v.kind == FT_J_STR) {
        emit(c, v.u.s, v.n);
        return;
    }
    const ft_jv s = ft_jv_to_str(c, v);
    emit(c, s.u.s, s.n);
}

static flow exec_node(ft_jctx *c, const ft_jnode *e)
{
    ft_jv v;
    switch (e->kind) {
    case FT_N_DATA: emit(c, e->text.p, e->text.n); return GO;
    case FT_N_OUTPUT: exec_output(c, e); return GO;
    case FT_N_BODY: return exec_body(c, e);
    case FT_N_IF: return exec_if(c, e);
    case FT_N_FOR: return exec_for(c, e);
    case FT_N_SET: assign(c, e->a, ft_j_eval(c, e->b)); return GO;
    case FT_N_SET_BLOCK:
        v = capture_scoped(c, e->c);
        assign(c, e->a, e->b ? ft_j_filter_chain(c, e->b, v) : v);
        return GO;
    case FT_N_MACRO: ft_j_bind(c, e->sym, new_macro(c, e)); return GO;
    case FT_N_CALL_BLOCK:
        v = ft_jv_to_str(c, ft_j_eval_call(c, e->a, new_macro(c, e)));
        emit(c, v.u.s, v.n);
        return GO;
    case FT_N_FILTER_BLOCK:
        v = ft_jv_to_str(c, ft_j_filter_chain(c, e->b, capture_scoped(c, e->c)));
        emit(c, v.u.s, v.n);
        return GO;
    case FT_N_WITH: return exec_with(c, e);
    case FT_N_DO: ft_j_eval(c, e->a); return GO;
    case FT_N_BREAK: return BREAK;
    default: return CONTINUE;
    }
}

static flow exec(ft_jctx *c, const ft_jnode *e)
{
    ft_j_step(c, 1);
    c->line = e->line;
    ft_j_enter(c);
    const flow f = exec_node(c, e);
    ft_j_leave(c);
    return f;
}

/* ---- parsing and rendering ---- */

/* Converts line ends to \n and drops one at the very end, like the lexer of Jinja. */
static ft_str normalise(ft_jctx *c, ft_str s)
{
    char *p = ft_j_alloc(c, s.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '\r') {
            p[n++] = '\n';
            if (i + 1 < s.n && s.p[i + 1] == '\n') i++;
        } else {
            p[n++] = s.p[i];
        }
    }
    if (n && p[n - 1] == '\n') n--;
    return (ft_str){p, n};
}

static void parse_template(ft_jinja *t, ft_str source)
{
    ft_jparser p = {.c = &t->c};
    ft_jlex(&t->c, normalise(&t->c, source), &p.tok, &p.n_tok);
    t->body = ft_jparse(&p);
    t->sym = p.sym;
    t->n_sym = p.n_sym;
}

ft_status ft_jinja_new(ft_jinja **out, ft_str source, ft_err *err)
{
    if (source.n > FT_JINJA_MAX_SOURCE)
        return ft_fail(err, FT_ELIMIT, "the template has %zu bytes, want at most %zu", source.n,
                       FT_JINJA_MAX_SOURCE);
    if (!ft_utf8_valid(source)) return ft_fail(err, FT_EFORMAT, "the template is not valid UTF-8");
    ft_jinja *t = ft_new(ft_jinja);
    ft_j_init(&t->c, (size_t)1 << 30, 50000000, err);
    if (setjmp(t->c.escape)) {
        const ft_status st = t->c.status;
        ft_jinja_free(t);
        return st;
    }
    parse_template(t, source);
    *out = t;
    return FT_OK;
}

void ft_jinja_free(ft_jinja *t)
{
    if (!t) return;
    ft_j_release(&t->c);
    ft_free(t);
}

bool ft_jinja_mentions(const ft_jinja *t, const char *name)
{
    for (size_t i = 0; i < t->n_sym; i++)
        if (ft_str_is(t->sym[i], name)) return true;
    return false;
}

/* Built-in functions first, so that a variable of the same name hides one. */
static void fill_root(ft_jctx *c, const ft_jinja *t, const json_t *vars)
{
    c->root = push_scope(c, NULL);
    c->root->slot = ft_j_alloc_n(c, t->n_sym, sizeof(ft_jslot));
    c->root->n = c->root->cap = (int)t->n_sym;
    for (size_t i = 0; i < t->n_sym; i++) {
        char key[256];
        ft_jslot *slot = &c->root->slot[i];
        *slot = (ft_jslot){-1, ft_jv_none()};
        const ft_jdef *d = ft_j_find_def(ft_j_functions, t->sym[i]);
        if (d) *slot = (ft_jslot){(int)i, ft_jv_ref(FT_J_FUNC, (void *)(uintptr_t)d)};
        if (t->sym[i].n >= sizeof key) continue;
        memcpy(key, t->sym[i].p, t->sym[i].n);
        key[t->sym[i].n] = 0;
        const json_t *j = json_object_get(vars, key);
        if (j) *slot = (ft_jslot){(int)i, ft_jv_from_json(c, j)};
    }
}

static void render(ft_jctx *c, const ft_jinja *t, const json_t *vars, ft_buf *out)
{
    ft_jsb b = {0};
    fill_root(c, t, vars);
    c->out = &b;
    exec(c, t->body);
    ft_buf_put(out, b.p, b.n);
    if (out->full) ft_j_fail(c, FT_ELIMIT, "%zu bytes of output do not fit in the buffer", b.n);
}

ft_status ft_jinja_render(const ft_jinja *t, const json_t *vars, const ft_jinja_limits *limits,
                          ft_buf *out, ft_err *err)
{
    static const ft_jinja_limits standard = {100000000, (size_t)256 << 20, (size_t)64 << 20};
    if (!limits) limits = &standard;
    if (!json_is_object(vars)) return ft_fail(err, FT_EINVAL, "template variables: want an object");
    ft_jctx *c = ft_new(ft_jctx);
    ft_j_init(c, limits->memory, limits->steps, err);
    c->max_out = limits->output;
    c->line = 1;
    if (setjmp(c->escape)) {
        const ft_status st = c->status;
        ft_j_release(c);
        ft_free(c);
        return st;
    }
    render(c, t, vars, out);
    ft_j_release(c);
    ft_free(c);
    return FT_OK;
}
