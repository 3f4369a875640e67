/* text/jinja_expr.c - parses expressions. Precedence, from loose to tight: if-else, or, and, not,
 * comparisons, + -, ~, * / // %, **, unary signs, then calls, members, filters and tests. */
#include "text/jinja_run.h"

#include <stdio.h>

enum { MAX_NEST = 160 };

ft_jnode *ft_jnode_new(ft_jparser *p, ft_jnode_kind kind)
{
    ft_jnode *e = ft_j_alloc(p->c, sizeof *e);
    memset(e, 0, sizeof *e);
    e->kind = kind;
    e->line = p->tok[p->at].line;
    return e;
}

void ft_jnodes_put(ft_jparser *p, ft_jnodes *l, ft_jnode *e)
{
    if (l->n == l->cap) {
        const size_t cap = l->cap ? 2 * l->cap : 4;
        ft_jnode **v = ft_j_alloc_n(p->c, cap, sizeof *v);
        if (l->n) memcpy(v, l->v, l->n * sizeof *v);
        l->v = v;
        l->cap = cap;
    }
    l->v[l->n++] = e;
}

static const ft_jtok *current_token(const ft_jparser *p)
{
    return &p->tok[p->at];
}

void ft_jparse_unexpected(ft_jparser *p, const char *wanted)
{
    static const char *const names[] = {
        "the end of the template", "text", "'{{'", "'}}'", "'{%'", "'%}'"};
    const ft_jtok *t = current_token(p);
    char found[80];
    if (t->kind < FT_T_NAME)
        snprintf(found, sizeof found, "%s", names[t->kind]);
    else
        snprintf(found, sizeof found, "'%.*s'", (int)(t->text.n < 60 ? t->text.n : 60), t->text.p);
    p->c->line = t->line;
    ft_j_fail(p->c, FT_EFORMAT, "found %s, want %s", found, wanted);
}

bool ft_jparse_is_op(const ft_jparser *p, const char *op)
{
    return current_token(p)->kind == FT_T_OP && ft_str_is(current_token(p)->text, op);
}

bool ft_jparse_is_name(const ft_jparser *p, const char *name)
{
    return current_token(p)->kind == FT_T_NAME && ft_str_is(current_token(p)->text, name);
}

bool ft_jparse_skip_op(ft_jparser *p, const char *op)
{
    if (!ft_jparse_is_op(p, op)) return false;
    p->at++;
    return true;
}

bool ft_jparse_skip_name(ft_jparser *p, const char *name)
{
    if (!ft_jparse_is_name(p, name)) return false;
    p->at++;
    return true;
}

void ft_jparse_want_op(ft_jparser *p, const char *op)
{
    char want[16];
    snprintf(want, sizeof want, "'%s'", op);
    if (!ft_jparse_skip_op(p, op)) ft_jparse_unexpected(p, want);
}

ft_str ft_jparse_want_name(ft_jparser *p)
{
    if (current_token(p)->kind != FT_T_NAME) ft_jparse_unexpected(p, "a name");
    return p->tok[p->at++].text;
}

/* ---- names, literals ---- */

static ft_jnode *new_constant(ft_jparser *p, ft_jv v)
{
    ft_jnode *e = ft_jnode_new(p, FT_N_CONST);
    e->value = v;
    return e;
}

static ft_jnode *parse_name(ft_jparser *p)
{
    const ft_str s = current_token(p)->text;
    ft_jnode *e;
    if (ft_str_is(s, "true") || ft_str_is(s, "True"))
        e = new_constant(p, ft_jv_bool(true));
    else if (ft_str_is(s, "false") || ft_str_is(s, "False"))
        e = new_constant(p, ft_jv_bool(false));
    else if (ft_str_is(s, "none") || ft_str_is(s, "None"))
        e = new_constant(p, ft_jv_none());
    else {
        e = ft_jnode_new(p, FT_N_NAME);
        e->sym = ft_jparse_symbol(p, s);
        e->text = s;
        if (e->sym == FT_SYM_VARARGS) p->rest |= FT_REST_POS;
        if (e->sym == FT_SYM_KWARGS) p->rest |= FT_REST_KEY;
    }
    p->at++;
    return e;
}

static ft_jnode *parse_string(ft_jparser *p)
{
    ft_jnode *e = new_constant(p, ft_jv_str(current_token(p)->text.p, current_token(p)->text.n));
    for (p->at++; current_token(p)->kind == FT_T_STR; p->at++) /* "a" "b" is one literal */
        e->value = ft_jv_concat(p->c, ft_jv_text(e->value), current_token(p)->text);
    return e;
}

static ft_jnode *parse_list(ft_jparser *p)
{
    ft_jnode *e = ft_jnode_new(p, FT_N_LIST);
    ft_jnodes l = {0};
    p->at++;
    while (!ft_jparse_is_op(p, "]")) {
        if (l.n) {
            ft_jparse_want_op(p, ",");
            if (ft_jparse_is_op(p, "]")) break;
        }
        ft_jnodes_put(p, &l, ft_jparse_expr(p));
    }
    p->at++;
    e->list = l.v;
    e->n = l.n;
    return e;
}

static ft_jnode *parse_dict(ft_jparser *p)
{
    ft_jnode *e = ft_jnode_new(p, FT_N_DICT);
    ft_jnodes l = {0};
    p->at++;
    while (!ft_jparse_is_op(p, "}")) {
        if (l.n) {
            ft_jparse_want_op(p, ",");
            if (ft_jparse_is_op(p, "}")) break;
        }
        ft_jnodes_put(p, &l, ft_jparse_expr(p));
        ft_jparse_want_op(p, ":");
        ft_jnodes_put(p, &l, ft_jparse_expr(p));
    }
    p->at++;
    e->list = l.v;
    e->n = l.n;
    return e;
}

static ft_jnode *parse_primary(ft_jparser *p)
{
    const ft_jtok *t = current_token(p);
    if (t->kind == FT_T_NAME) return parse_name(p);
    if (t->kind == FT_T_STR) return parse_string(p);
    if (t->kind == FT_T_INT || t->kind == FT_T_FLOAT) {
        ft_jnode *e = new_constant(p, t->kind == FT_T_INT ? ft_jv_int(t->i) : ft_jv_float(t->f));
        p->at++;
        return e;
    }
    if (ft_jparse_is_op(p, "[")) return parse_list(p);
    if (ft_jparse_is_op(p, "{")) return parse_dict(p);
    if (!ft_jparse_is_op(p, "(")) ft_jparse_unexpected(p, "an expression");
    p->at++;
    ft_jnode *e;
    if (ft_jparse_is_op(p, ")"))
        e = ft_jnode_new(p, FT_N_TUPLE);
    else
        e = ft_jparse_tuple(p, true);
    ft_jparse_want_op(p, ")");
    return e;
}

/* ---- calls, members, filters, tests ---- */

static ft_jcallargs *parse_args(ft_jparser *p)
{
    ft_jcallargs *a = ft_j_alloc(p->c, sizeof *a);
    ft_jnodes pos = {0}, kw = {0};
    ft_jlist *keys = ft_jlist_new(p->c, 0);
    ft_jparse_want_op(p, "(");
    while (!ft_jparse_is_op(p, ")")) {
        if (pos.n + kw.n) {
            ft_jparse_want_op(p, ",");
            if (ft_jparse_is_op(p, ")")) break;
        }
        if (ft_jparse_is_op(p, "*") || ft_jparse_is_op(p, "**"))
            ft_j_fail(p->c, FT_EUNSUPPORTED, "'*' and '**' in a call are not supported");
        const ft_jtok *next = &p->tok[p->at + (current_token(p)->kind != FT_T_END)];
        if (current_token(p)->kind == FT_T_NAME && next->kind == FT_T_OP &&
            ft_str_is(next->text, "=")) {
            ft_jlist_put(p->c, keys, ft_jv_str(current_token(p)->text.p, current_token(p)->text.n));
            p->at += 2;
            ft_jnodes_put(p, &kw, ft_jparse_expr(p));
        } else {
            if (kw.n) ft_jparse_unexpected(p, "name=value (a keyword argument came before)");
            ft_jnodes_put(p, &pos, ft_jparse_expr(p));
        }
    }
    p->at++;
    *a = (ft_jcallargs){.pos = pos.v, .n_pos = pos.n, .kw = kw.v, .n_kw = kw.n};
    a->key = ft_j_alloc_n(p->c, kw.n, sizeof *a->key);
    for (size_t i = 0; i < kw.n; i++) a->key[i] = ft_jv_text(keys->v[i]);
    return a;
}

static ft_jnode *parse_subscript(ft_jparser *p, ft_jnode *of)
{
    ft_jnode *part[3] = {NULL, NULL, NULL};
    ft_jnode *e = ft_jnode_new(p, FT_N_ITEM);
    bool slice = false;
    int n = 0;
    p->at++;
    if (!ft_jparse_is_op(p, ":")) part[0] = ft_jparse_tuple(p, true);
    while (n < 2 && ft_jparse_skip_op(p, ":")) {
        slice = true;
        n++;
        if (!ft_jparse_is_op(p, ":") && !ft_jparse_is_op(p, "]")) part[n] = ft_jparse_expr(p);
    }
    ft_jparse_want_op(p, "]");
    e->a = of;
    if (!slice) {
        e->b = part[0];
        return e;
    }
    e->kind = FT_N_SLICE;
    e->list = ft_j_alloc_n(p->c, 3, sizeof *e->list);
    memcpy(e->list, part, sizeof part);
    return e;
}

static ft_jnode *parse_member(ft_jparser *p, ft_jnode *of)
{
    ft_jnode *e = ft_jnode_new(p, FT_N_ATTR);
    p->at++;
    e->a = of;
    if (current_token(p)->kind == FT_T_INT) { /* a.0 is a[0] */
        e->kind = FT_N_ITEM;
        e->b = parse_primary(p);
        return e;
    }
    e->text = ft_jparse_want_name(p);
    ft_jparse_symbol(p, e->text);
    return e;
}

static ft_jnode *parse_call(ft_jparser *p, ft_jnode *of)
{
    ft_jnode *e = ft_jnode_new(p, FT_N_CALL);
    e->a = of;
    e->args = parse_args(p);
    return e;
}

static ft_jnode *parse_postfix(ft_jparser *p, ft_jnode *e)
{
    for (;;) {
        if (ft_jparse_is_op(p, "."))
            e = parse_member(p, e);
        else if (ft_jparse_is_op(p, "["))
            e = parse_subscript(p, e);
        else if (ft_jparse_is_op(p, "("))
            e = parse_call(p, e);
        else
            return e;
    }
}

static ft_jnode *parse_filter(ft_jparser *p, ft_jnode *of)
{
    ft_jnode *e = ft_jnode_new(p, FT_N_FILTER);
    e->a = of;
    e->text = ft_jparse_want_name(p);
    e->def = ft_j_find_filter(e->text);
    if (ft_jparse_is_op(p, "(")) e->args = parse_args(p);
    return e;
}

ft_jnode *ft_jparse_filters(ft_jparser *p)
{
    ft_jnode *e = parse_filter(p, NULL);
    while (ft_jparse_skip_op(p, "|")) e = parse_filter(p, e);
    return e;
}

/* true when the next token is an argument of `is NAME`, written without brackets. */
static bool bare_argument(const ft_jparser *p)
{
    const ft_jtok *t = current_token(p);
    if (t->kind == FT_T_STR || t->kind == FT_T_INT || t->kind == FT_T_FLOAT) return true;
    if (t->kind == FT_T_OP) return ft_jparse_is_op(p, "[") || ft_jparse_is_op(p, "{");
    if (t->kind != FT_T_NAME) return false;
    static const char *const stop[] = {"else", "or", "and", "if", "is", "in", "not", "recursive"};
    for (size_t i = 0; i < sizeof stop / sizeof stop[0]; i++)
        if (ft_str_is(t->text, stop[i])) return false;
    return true;
}

static ft_jnode *parse_test(ft_jparser *p, ft_jnode *of)
{
    const bool negate = ft_jparse_skip_name(p, "not");
    ft_jnode *e = ft_jnode_new(p, FT_N_TEST);
    e->a = of;
    e->text = ft_jparse_want_name(p);
    e->def = ft_j_find_test(e->text);
    if (ft_jparse_is_op(p, "(")) {
        e->args = parse_args(p);
    } else if (bare_argument(p)) {
        e->args = ft_j_alloc(p->c, sizeof *e->args);
        memset(e->args, 0, sizeof *e->args);
        e->args->pos = ft_j_alloc_n(p->c, 1, sizeof *e->args->pos);
        e->args->pos[0] = parse_postfix(p, parse_primary(p));
        e->args->n_pos = 1;
    }
    if (!negate) return e;
    ft_jnode *no = ft_jnode_new(p, FT_N_NOT);
    no->a = e;
    return no;
}

static ft_jnode *parse_filters_and_tests(ft_jparser *p, ft_jnode *e)
{
    for (;;) {
        if (ft_jparse_skip_op(p, "|"))
            e = parse_filter(p, e);
        else if (ft_jparse_skip_name(p, "is"))
            e = parse_test(p, e);
        else if (ft_jparse_is_op(p, "(") && (e->kind == FT_N_FILTER || e->kind == FT_N_TEST))
            e = parse_call(p, e);
        else
            return e;
    }
}

/* ---- operators ---- */

/* All recursion of expressions goes through this function, so it checks the nesting limit. */
ft_jnode *ft_jparse_unary(ft_jparser *p, bool with_filter)
{
    if (++p->c->depth > MAX_NEST)
        ft_j_fail(p->c, FT_ELIMIT, "an expression nested more than %d levels deep", MAX_NEST);
    ft_jnode *e;
    if (ft_jparse_is_op(p, "-") || ft_jparse_is_op(p, "+")) {
        e = ft_jnode_new(p, ft_jparse_is_op(p, "-") ? FT_N_NEG : FT_N_POS);
        p->at++;
        e->a = ft_jparse_unary(p, false);
    } else {
        e = parse_primary(p);
    }
    e = parse_postfix(p, e);
    if (with_filter) e = parse_filters_and_tests(p, e);
    p->c->depth--;
    return e;
}

typedef struct level { /* operators of one precedence */
    const char *text[4];
    ft_jop op[4];
} level;

static ft_jnode *parse_binary(ft_jparser *p, int depth);

static ft_jnode *parse_concat(ft_jparser *p)
{
    ft_jnode *first = parse_binary(p, 1);
    if (!ft_jparse_is_op(p, "~")) return first;
    ft_jnode *e = ft_jnode_new(p, FT_N_CONCAT);
    ft_jnodes l = {0};
    ft_jnodes_put(p, &l, first);
    while (ft_jparse_skip_op(p, "~")) ft_jnodes_put(p, &l, parse_binary(p, 1));
    e->list = l.v;
    e->n = l.n;
    return e;
}

static ft_jnode *parse_binary(ft_jparser *p, int depth)
{
    static const level levels[] = {
        {{"+", "-"}, {FT_O_ADD, FT_O_SUB}},
        {{"*", "/", "//", "%"}, {FT_O_MUL, FT_O_DIV, FT_O_FLOORDIV, FT_O_MOD}},
        {{"**"}, {FT_O_POW}},
    };
    if (depth == 3) return ft_jparse_unary(p, true);
    ft_jnode *left = depth == 0 ? parse_concat(p) : parse_binary(p, depth + 1);
    for (;;) {
        const level *l = &levels[depth];
        int i = 0;
        while (i < 4 && !(l->text[i] && ft_jparse_is_op(p, l->text[i]))) i++;
        if (i == 4) return left;
        ft_jnode *e = ft_jnode_new(p, FT_N_BINARY);
        p->at++;
        e->op = l->op[i];
        e->a = left;
        e->b = depth == 0 ? parse_concat(p) : parse_binary(p, depth + 1);
        left = e;
    }
}

static bool comparison(ft_jparser *p, ft_jop *op)
{
    static const char *const text[] = {"==", "!=", "<", "<=", ">", ">="};
    for (int i = 0; i < 6; i++)
        if (ft_jparse_skip_op(p, text[i])) {
            *op = (ft_jop)(FT_O_EQ + i);
            return true;
        }
    if (ft_jparse_skip_name(p, "in")) {
        *op = FT_O_IN;
        return true;
    }
    if (!ft_jparse_is_name(p, "not") || p->tok[p->at + 1].kind != FT_T_NAME ||
        !ft_str_is(p->tok[p->at + 1].text, "in"))
        return false;
    p->at += 2;
    *op = FT_O_NOT_IN;
    return true;
}

static ft_jnode *parse_compare(ft_jparser *p)
{
    ft_jnode *first = parse_binary(p, 0);
    ft_jnode *e = NULL;
    ft_jnodes l = {0};
    ft_jop op, ops[32];
    while (comparison(p, &op)) {
        if (!e) e = ft_jnode_new(p, FT_N_COMPARE);
        if (l.n == sizeof ops / sizeof ops[0])
            ft_j_fail(p->c, FT_ELIMIT, "a chain of more than %zu comparisons", l.n);
        ops[l.n] = op;
        ft_jnodes_put(p, &l, parse_binary(p, 0));
    }
    if (!e) return first;
    e->a = first;
    e->list = l.v;
    e->n = l.n;
    e->op_list = ft_j_alloc_n(p->c, l.n, sizeof op);
    memcpy(e->op_list, ops, l.n * sizeof op);
    return e;
}

static ft_jnode *parse_not(ft_jparser *p)
{
    ft_jnode *top = NULL, **hole = &top;
    while (ft_jparse_is_name(p, "not")) {
        ft_jnode *e = ft_jnode_new(p, FT_N_NOT);
        p->at++;
        *hole = e;
        hole = &e->a;
    }
    *hole = parse_compare(p);
    return top;
}

static ft_jnode *parse_logic(ft_jparser *p, bool is_or)
{
    ft_jnode *left = is_or ? parse_logic(p, false) : parse_not(p);
    while (ft_jparse_is_name(p, is_or ? "or" : "and")) {
        ft_jnode *e = ft_jnode_new(p, is_or ? FT_N_OR : FT_N_AND);
        p->at++;
        e->a = left;
        e->b = is_or ? parse_logic(p, false) : parse_not(p);
        left = e;
    }
    return left;
}

ft_jnode *ft_jparse_expr(ft_jparser *p)
{
    ft_jnode *left = parse_logic(p, true);
    while (ft_jparse_is_name(p, "if")) {
        ft_jnode *e = ft_jnode_new(p, FT_N_IF_EXPR);
        p->at++;
        e->a = left;
        e->b = parse_logic(p, true);
        if (ft_jparse_skip_name(p, "else")) {
            if (++p->c->depth > MAX_NEST)
                ft_j_fail(p->c, FT_ELIMIT, "more than %d nested if-else", MAX_NEST);
            e->c = ft_jparse_expr(p);
            p->c->depth--;
        }
        left = e;
    }
    return left;
}

static bool tuple_ends(const ft_jparser *p)
{
    const ft_jtok *t = current_token(p);
    return t->kind == FT_T_VAR_END || t->kind == FT_T_TAG_END || ft_jparse_is_op(p, ")") ||
           ft_jparse_is_op(p, "]") || ft_jparse_is_op(p, "=") || ft_jparse_is_name(p, "in");
}

ft_jnode *ft_jparse_tuple(ft_jparser *p, bool conditional)
{
    ft_jnode *first = conditional ? ft_jparse_expr(p) : parse_logic(p, true);
    if (!ft_jparse_is_op(p, ",")) return first;
    ft_jnode *e = ft_jnode_new(p, FT_N_TUPLE);
    ft_jnodes l = {0};
    ft_jnodes_put(p, &l, first);
    while (ft_jparse_skip_op(p, ",") && !tuple_ends(p))
        ft_jnodes_put(p, &l, conditional ? ft_jparse_expr(p) : parse_logic(p, true));
    e->list = l.v;
    e->n = l.n;
    return e;
}

static ft_jnode *parse_single_target(ft_jparser *p)
{
    if (++p->c->depth > MAX_NEST)
        ft_j_fail(p->c, FT_ELIMIT, "names nested more than %d levels deep", MAX_NEST);
    ft_jnode *e;
    if (ft_jparse_skip_op(p, "(")) {
        e = ft_jparse_target(p);
        ft_jparse_want_op(p, ")");
    } else {
        if (current_token(p)->kind != FT_T_NAME) ft_jparse_unexpected(p, "a name to assign to");
        e = parse_name(p);
        if (e->kind != FT_N_NAME) ft_j_fail(p->c, FT_EFORMAT, "a constant cannot be assigned to");
        if (ft_jparse_is_op(p, ".")) e = parse_member(p, e);
    }
    p->c->depth--;
    return e;
}

ft_jnode *ft_jparse_target(ft_jparser *p)
{
    ft_jnode *first = parse_single_target(p);
    if (!ft_jparse_is_op(p, ",")) return first;
    ft_jnode *e = ft_jnode_new(p, FT_N_TUPLE);
    ft_jnodes l = {0};
    ft_jnodes_put(p, &l, first);
    while (ft_jparse_skip_op(p, ",") && !tuple_ends(p))
        ft_jnodes_put(p, &l, parse_single_target(p));
    e->list = l.v;
    e->n = l.n;
    return e;
}
