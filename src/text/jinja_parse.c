/* text/jinja_parse.c - parses statements. */
#include "text/jinja_run.h"

enum { MAX_BLOCKS = 100 };

int ft_jparse_symbol(ft_jparser *p, ft_str name)
{
    ft_j_step(p->c, p->n_sym / 8);
    for (size_t i = 0; i < p->n_sym; i++)
        if (ft_str_eq(p->sym[i], name)) return (int)i;
    if (p->n_sym == p->cap_sym) {
        const size_t cap = p->cap_sym ? 2 * p->cap_sym : 64;
        ft_str *s = ft_j_alloc_n(p->c, cap, sizeof *s);
        if (p->n_sym) memcpy(s, p->sym, p->n_sym * sizeof *s);
        p->sym = s;
        p->cap_sym = cap;
    }
    p->sym[p->n_sym] = name;
    return (int)p->n_sym++;
}

static void want_tag_end(ft_jparser *p)
{
    if (p->tok[p->at].kind != FT_T_TAG_END) ft_jparse_unexpected(p, "'%}'");
    p->at++;
}

/* true when the next tag is {% NAME ... with one of the names, a list that ends with NULL. */
static bool at_tag(const ft_jparser *p, const char *const *names)
{
    if (p->tok[p->at].kind != FT_T_TAG_BEGIN || p->tok[p->at + 1].kind != FT_T_NAME) return false;
    for (; *names; names++)
        if (ft_str_is(p->tok[p->at + 1].text, *names)) return true;
    return false;
}

static ft_jnode *parse_statement(ft_jparser *p);

/* Parses statements up to a tag with one of these names (NULL: to the end) and stops before it. */
static ft_jnode *parse_body(ft_jparser *p, const char *const *until)
{
    ft_jnode *body = ft_jnode_new(p, FT_N_BODY);
    ft_jnodes l = {0};
    if (p->at) body->line = p->tok[p->at - 1].line; /* of the tag that opens it */
    if (++p->c->depth > MAX_BLOCKS)
        ft_j_fail(p->c, FT_ELIMIT, "blocks nested more than %d levels deep", MAX_BLOCKS);
    for (;;) {
        const ft_jtok *t = &p->tok[p->at];
        p->c->line = t->line;
        if (t->kind == FT_T_END) {
            if (!until) break;
            p->c->line = body->line;
            ft_j_fail(p->c, FT_EFORMAT, "the block that starts here has no '%s'", until[0]);
        }
        if (t->kind == FT_T_DATA) {
            ft_jnode *e = ft_jnode_new(p, FT_N_DATA);
            e->text = t->text;
            p->at++;
            ft_jnodes_put(p, &l, e);
        } else if (t->kind == FT_T_VAR_BEGIN) {
            ft_jnode *e = ft_jnode_new(p, FT_N_OUTPUT);
            p->at++;
            e->a = ft_jparse_tuple(p, true);
            if (p->tok[p->at].kind != FT_T_VAR_END) ft_jparse_unexpected(p, "'}}'");
            p->at++;
            ft_jnodes_put(p, &l, e);
        } else {
            if (until && at_tag(p, until)) break;
            ft_jnodes_put(p, &l, parse_statement(p));
        }
    }
    p->c->depth--;
    body->list = l.v;
    body->n = l.n;
    return body;
}

/* A body and its closing tag. */
static ft_jnode *parse_block(ft_jparser *p, const char *end)
{
    const char *const until[] = {end, NULL};
    want_tag_end(p);
    ft_jnode *body = parse_body(p, until);
    p->at += 2;
    return body;
}

static ft_jnode *parse_if(ft_jparser *p)
{
    static const char *const until[] = {"endif", "elif", "else", NULL};
    static const char *const last[] = {"endif", NULL};
    ft_jnode *e = ft_jnode_new(p, FT_N_IF);
    ft_jnodes l = {0};
    for (;;) {
        ft_jnodes_put(p, &l, ft_jparse_tuple(p, true));
        want_tag_end(p);
        ft_jnodes_put(p, &l, parse_body(p, until));
        const ft_str word = p->tok[p->at + 1].text;
        p->at += 2;
        if (ft_str_is(word, "elif")) continue;
        if (ft_str_is(word, "else")) {
            want_tag_end(p);
            e->b = parse_body(p, last);
            p->at += 2;
        }
        want_tag_end(p);
        e->list = l.v;
        e->n = l.n;
        return e;
    }
}

static ft_jnode *parse_for(ft_jparser *p)
{
    static const char *const until[] = {"endfor", "else", NULL};
    static const char *const last[] = {"endfor", NULL};
    ft_jnode *e = ft_jnode_new(p, FT_N_FOR);
    e->a = ft_jparse_target(p);
    if (!ft_jparse_skip_name(p, "in")) ft_jparse_unexpected(p, "'in'");
    e->b = ft_jparse_tuple(p, false);
    if (ft_jparse_skip_name(p, "if")) e->c = ft_jparse_expr(p);
    if (ft_jparse_is_name(p, "recursive"))
        ft_j_fail(p->c, FT_EUNSUPPORTED, "recursive loops are not supported");
    want_tag_end(p);
    e->list = ft_j_alloc_n(p->c, 2, sizeof *e->list);
    e->n = 2;
    p->in_loop++;
    e->list[0] = parse_body(p, until);
    p->in_loop--;
    e->list[1] = NULL;
    const bool has_else = ft_str_is(p->tok[p->at + 1].text, "else");
    p->at += 2;
    if (has_else) {
        want_tag_end(p);
        e->list[1] = parse_body(p, last);
        p->at += 2;
    }
    want_tag_end(p);
    return e;
}

static ft_jnode *parse_set(ft_jparser *p)
{
    ft_jnode *e = ft_jnode_new(p, FT_N_SET);
    e->a = ft_jparse_target(p);
    if (ft_jparse_skip_op(p, "=")) {
        e->b = ft_jparse_tuple(p, true);
        want_tag_end(p);
        return e;
    }
    e->kind = FT_N_SET_BLOCK;
    if (ft_jparse_skip_op(p, "|")) e->b = ft_jparse_filters(p);
    e->c = parse_block(p, "endset");
    want_tag_end(p);
    return e;
}

/* (a, b=1): parameters of a macro or a call block. */
static ft_jcallargs *parse_params(ft_jparser *p)
{
    ft_jcallargs *a = ft_j_alloc(p->c, sizeof *a);
    ft_jnodes dflt = {0};
    ft_jlist *names = ft_jlist_new(p->c, 0);
    ft_jparse_want_op(p, "(");
    while (!ft_jparse_is_op(p, ")")) {
        if (names->n) {
            ft_jparse_want_op(p, ",");
            if (ft_jparse_is_op(p, ")")) break;
        }
        const ft_str name = ft_jparse_want_name(p);
        ft_jlist_put(p->c, names, ft_jv_str(name.p, name.n));
        ft_jnodes_put(p, &dflt, ft_jparse_skip_op(p, "=") ? ft_jparse_expr(p) : NULL);
    }
    p->at++;
    *a = (ft_jcallargs){.kw = dflt.v, .n_kw = names->n};
    a->key = ft_j_alloc_n(p->c, a->n_kw, sizeof *a->key);
    a->sym = ft_j_alloc_n(p->c, a->n_kw, sizeof *a->sym);
    for (size_t i = 0; i < a->n_kw; i++) {
        a->key[i] = ft_jv_text(names->v[i]);
        a->sym[i] = ft_jparse_symbol(p, a->key[i]);
    }
    return a;
}

/* Parses the body of a macro: break and continue cannot refer to loops around its definition. */
static void parse_macro_body(ft_jparser *p, ft_jnode *e, const char *end)
{
    const int loops = p->in_loop, rest = p->rest;
    p->in_loop = p->rest = 0;
    e->c = parse_block(p, end);
    e->rest = p->rest;
    p->in_loop = loops;
    p->rest = rest;
}

static ft_jnode *parse_macro(ft_jparser *p)
{
    ft_jnode *e = ft_jnode_new(p, FT_N_MACRO);
    e->text = ft_jparse_want_name(p);
    e->sym = ft_jparse_symbol(p, e->text);
    e->args = parse_params(p);
    parse_macro_body(p, e, "endmacro");
    if (p->tok[p->at].kind == FT_T_NAME) p->at++; /* {% endmacro name %} */
    want_tag_end(p);
    return e;
}

static ft_jnode *parse_call_block(ft_jparser *p)
{
    ft_jnode *e = ft_jnode_new(p, FT_N_CALL_BLOCK);
    e->text = FT_STR("caller");
    if (ft_jparse_is_op(p, "(")) {
        e->args = parse_params(p);
    } else {
        e->args = ft_j_alloc(p->c, sizeof *e->args);
        memset(e->args, 0, sizeof *e->args);
    }
    e->a = ft_jparse_expr(p);
    if (e->a->kind != FT_N_CALL) ft_j_fail(p->c, FT_EFORMAT, "'call': want a call such as m()");
    parse_macro_body(p, e, "endcall");
    want_tag_end(p);
    return e;
}

static ft_jnode *parse_with(ft_jparser *p)
{
    ft_jnode *e = ft_jnode_new(p, FT_N_WITH);
    ft_jnodes l = {0};
    while (p->tok[p->at].kind != FT_T_TAG_END) {
        if (l.n) ft_jparse_want_op(p, ",");
        ft_jnodes_put(p, &l, ft_jparse_target(p));
        ft_jparse_want_op(p, "=");
        ft_jnodes_put(p, &l, ft_jparse_expr(p));
    }
    e->list = l.v;
    e->n = l.n;
    e->c = parse_block(p, "endwith");
    want_tag_end(p);
    return e;
}

static ft_jnode *parse_filter_block(ft_jparser *p)
{
    ft_jnode *e = ft_jnode_new(p, FT_N_FILTER_BLOCK);
    e->b = ft_jparse_filters(p);
    e->c = parse_block(p, "endfilter");
    want_tag_end(p);
    return e;
}

static ft_jnode *parse_jump(ft_jparser *p, ft_jnode_kind kind)
{
    ft_jnode *e = ft_jnode_new(p, kind);
    if (!p->in_loop) ft_j_fail(p->c, FT_EFORMAT, "'break' or 'continue' outside of a loop");
    want_tag_end(p);
    return e;
}

static ft_jnode *parse_generation(ft_jparser *p)
{
    ft_jnode *e = parse_block(p, "endgeneration");
    want_tag_end(p);
    return e;
}

static ft_jnode *parse_do(ft_jparser *p)
{
    ft_jnode *e = ft_jnode_new(p, FT_N_DO);
    e->a = ft_jparse_tuple(p, true);
    want_tag_end(p);
    return e;
}

static ft_jnode *parse_statement(ft_jparser *p)
{
    static const struct {
        const char *name;
        ft_jnode *(*parse)(ft_jparser *p);
    } tags[] = {
        {"if", parse_if},
        {"for", parse_for},
        {"set", parse_set},
        {"macro", parse_macro},
        {"call", parse_call_block},
        {"with", parse_with},
        {"filter", parse_filter_block},
        {"generation", parse_generation},
        {"do", parse_do},
    };
    static const char *const refused[] = {"include", "import", "from", "extends", "block"};
    p->at++;
    if (p->tok[p->at].kind != FT_T_NAME) ft_jparse_unexpected(p, "the name of a tag");
    const ft_str name = p->tok[p->at].text;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (ft_str_is(name, refused[i]))
            ft_j_fail(p->c, FT_EUNSUPPORTED,
                      "the tag '%s' is not supported: a chat template is a single file",
                      refused[i]);
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++)
        if (ft_str_is(name, tags[i].name)) {
            p->at++;
            return tags[i].parse(p);
        }
    if (ft_str_is(name, "break") || ft_str_is(name, "continue")) {
        p->at++;
        return parse_jump(p, ft_str_is(name, "break") ? FT_N_BREAK : FT_N_CONTINUE);
    }
    ft_jparse_unexpected(p, "a supported tag that is allowed here");
}

ft_jnode *ft_jparse(ft_jparser *p)
{
    static const char *const fixed[] = {"loop", "caller", "varargs", "kwargs"};
    for (int i = 0; i < FT_SYM_FIXED; i++) ft_jparse_symbol(p, ft_str_of(fixed[i]));
    return parse_body(p, NULL);
}
