/* text/jinja_run.h - executes a parsed template: scopes, calls, and the tables of built-in names.
 */
#ifndef FT_TEXT_JINJA_RUN_H
#define FT_TEXT_JINJA_RUN_H

#include "text/jinja.h"
#include "text/jinja_ast.h"

struct ft_jinja {
    ft_jctx c; /* owns the tree */
    ft_jnode *body;
    ft_str *sym;
    size_t n_sym;
};

typedef struct ft_jslot {
    int sym;
    ft_jv value;
} ft_jslot;

typedef struct ft_jscope {
    struct ft_jscope *parent;
    ft_jslot *slot; /* in the root scope: one per symbol */
    int n, cap;
    bool kept; /* a macro refers to it: the next loop iteration needs a new one */
} ft_jscope;

typedef struct ft_jloop {
    ft_jv over;      /* a list, a tuple or a range */
    const ft_jv *v;  /* its elements, unless it is a range */
    size_t n, at;    /* n as it was at the start: the body may append */
    ft_jv last_seen; /* loop.changed() */
} ft_jloop;

typedef struct ft_jargs {
    const ft_jv *pos;
    size_t n_pos;
    const ft_str *key;
    const ft_jv *kw;
    size_t n_kw;
} ft_jargs;

/* Filters, tests, functions and methods share one signature; self is the operand on the left. */
typedef ft_jv (*ft_jfn)(ft_jctx *c, ft_jv self, const ft_jargs *a);

typedef struct ft_jdef {
    const char *name;
    ft_jfn fn;
    int min, max; /* positional and keyword arguments together; max -1: any number */
} ft_jdef;

typedef struct ft_jmethod {
    ft_jv self;
    const ft_jdef *def;
} ft_jmethod;

typedef struct ft_jmacro {
    const ft_jnode *node;
    ft_jscope *scope; /* where it was defined */
    ft_jv caller;     /* of a call block, or none */
} ft_jmacro;

typedef struct ft_jcycler {
    const ft_jlist *items;
    size_t at;
} ft_jcycler;

/* jinja_eval.c */
ft_jv ft_j_eval(ft_jctx *c, const ft_jnode *e);
ft_jv ft_j_attr(ft_jctx *c, ft_jv v, ft_str name); /* v.name: methods first, then members */
ft_jv ft_j_item(ft_jctx *c, ft_jv v, ft_jv key);   /* v[key]: members first */
ft_jv ft_j_call(ft_jctx *c, ft_jv f, const ft_jargs *a);
ft_jv ft_j_loop_item(const ft_jloop *l, size_t i);
ft_jv ft_j_apply(ft_jctx *c, const ft_jdef *d, const char *what, ft_jv self, const ft_jargs *a);
ft_jv ft_j_filter_chain(ft_jctx *c, const ft_jnode *e, ft_jv input);
ft_jv ft_j_eval_call(ft_jctx *c, const ft_jnode *e, ft_jv caller);
_Noreturn void ft_j_undefined(ft_jctx *c, ft_jv v);
ft_jv ft_j_printf(ft_jctx *c, ft_str fmt, const ft_jv *v, size_t n); /* jinja_format.c: "%s" % v */
ft_jv ft_j_str_format(ft_jctx *c, ft_str fmt, const ft_jargs *a);    /* "{}".format() */

/* jinja_op.c */
ft_jv ft_j_binary(ft_jctx *c, ft_jop op, ft_jv a, ft_jv b);
bool ft_j_compare_op(ft_jctx *c, ft_jop op, ft_jv a, ft_jv b);
ft_jv ft_j_slice(ft_jctx *c, ft_jv v, const ft_jv bound[3]);

/* jinja_exec.c */
ft_jv ft_j_call_macro(ft_jctx *c, const ft_jmacro *m, const ft_jargs *a);
void ft_j_bind(ft_jctx *c, int sym, ft_jv v); /* in the current scope */

/* jinja_args.c */
/* Argument number i, or by keyword; dflt when not given. */
ft_jv ft_j_arg(const ft_jargs *a, size_t i, const char *key, ft_jv dflt);
int64_t ft_j_arg_int(ft_jctx *c, const ft_jargs *a, size_t i, const char *key, int64_t dflt);
bool ft_j_arg_bool(const ft_jargs *a, size_t i, const char *key, bool dflt);
ft_jargs ft_j_args_rest(const ft_jargs *a, size_t from); /* without the first positional ones */

const ft_jdef *ft_j_find_filter(ft_str name);
const ft_jdef *ft_j_find_test(ft_str name);
const ft_jdef *ft_j_find_method(ft_jv self, ft_str name);
const ft_jdef *ft_j_find_def(const ft_jdef *table, ft_str name);
/* Tables that end with name NULL. */
extern const ft_jdef ft_j_text_filters[], ft_j_seq_filters[], ft_j_functions[];
extern const ft_jdef ft_j_list_methods[], ft_j_tuple_methods[], ft_j_dict_methods[];

/* jinja_str.c: text work shared by filters and methods */
bool ft_j_is_space(uint32_t cp);
ft_jv ft_j_strip(ft_jctx *c, ft_str s, ft_jv chars, bool left, bool right); /* chars: or none */
ft_jv ft_j_replace(ft_jctx *c, ft_str s, ft_str from, ft_str to, int64_t count);
typedef enum ft_jcase { FT_CASE_LOWER, FT_CASE_UPPER, FT_CASE_CAPITAL, FT_CASE_TITLE } ft_jcase;
ft_jv ft_j_recase(ft_jctx *c, ft_str s, ft_jcase how);
ft_jlist *ft_j_split_lines(ft_jctx *c, ft_str s);
ft_jv ft_j_join(ft_jctx *c, ft_str sep, const ft_jlist *l);
ft_str ft_j_want_str(ft_jctx *c, ft_jv v, const char *what);

#endif
