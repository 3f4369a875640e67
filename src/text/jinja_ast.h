/* text/jinja_ast.h - tokens and syntax tree of a template: made once by the parser, then only read.
 */
#ifndef FT_TEXT_JINJA_AST_H
#define FT_TEXT_JINJA_AST_H

#include "text/jinja_value.h"

typedef enum ft_jtok_kind {
    FT_T_END,
    FT_T_DATA, /* text outside of tags */
    FT_T_VAR_BEGIN,
    FT_T_VAR_END,
    FT_T_TAG_BEGIN,
    FT_T_TAG_END,
    FT_T_NAME,
    FT_T_STR, /* text is the decoded literal */
    FT_T_INT,
    FT_T_FLOAT,
    FT_T_OP,
} ft_jtok_kind;

typedef struct ft_jtok {
    ft_jtok_kind kind;
    int line;
    ft_str text;
    int64_t i;
    double f;
} ft_jtok;

typedef enum ft_jnode_kind {
    /* expressions */
    FT_N_CONST,
    FT_N_NAME,
    FT_N_LIST,
    FT_N_TUPLE,
    FT_N_DICT,   /* list: key, value, key, value */
    FT_N_ATTR,   /* a.text */
    FT_N_ITEM,   /* a[b] */
    FT_N_SLICE,  /* a[list[0]:list[1]:list[2]], each may be NULL */
    FT_N_CALL,   /* a(args) */
    FT_N_FILTER, /* a | text(args); a may be NULL inside filter blocks */
    FT_N_TEST,   /* a is text(args) */
    FT_N_NOT,
    FT_N_NEG,
    FT_N_POS,
    FT_N_AND,
    FT_N_OR,
    FT_N_BINARY,  /* a op b */
    FT_N_COMPARE, /* a, then list of operands, ops in op_list */
    FT_N_CONCAT,  /* list, joined as text */
    FT_N_IF_EXPR, /* a if b else c; c may be NULL */
    /* statements */
    FT_N_DATA,
    FT_N_OUTPUT,       /* {{ a }} */
    FT_N_BODY,         /* list */
    FT_N_IF,           /* list: condition, body, condition, body; b: else body or NULL */
    FT_N_FOR,          /* for a in b if c; list: body, else body or NULL */
    FT_N_SET,          /* a = b */
    FT_N_SET_BLOCK,    /* a = body c, through filters b (or NULL) */
    FT_N_MACRO,        /* sym, params in args, body c */
    FT_N_CALL_BLOCK,   /* a: the call; params in args, body c */
    FT_N_FILTER_BLOCK, /* b: filters, body c */
    FT_N_WITH,         /* list: target, value, ...; body c */
    FT_N_DO,           /* a, result dropped */
    FT_N_BREAK,
    FT_N_CONTINUE,
} ft_jnode_kind;

typedef enum ft_jop {
    FT_O_ADD,
    FT_O_SUB,
    FT_O_MUL,
    FT_O_DIV,
    FT_O_FLOORDIV,
    FT_O_MOD,
    FT_O_POW,
    FT_O_EQ,
    FT_O_NE,
    FT_O_LT,
    FT_O_LE,
    FT_O_GT,
    FT_O_GE,
    FT_O_IN,
    FT_O_NOT_IN,
} ft_jop;

typedef struct ft_jnode ft_jnode;

typedef struct ft_jcallargs { /* of a call, or the parameters of a macro */
    ft_jnode **pos;
    size_t n_pos;
    ft_str *key;   /* keyword arguments; for a macro: all parameter names */
    int *sym;      /* macro parameters: their symbols */
    ft_jnode **kw; /* for a macro: the default of parameter i, or NULL */
    size_t n_kw;
} ft_jcallargs;

struct ft_jnode {
    ft_jnode_kind kind;
    int line;
    int sym;     /* NAME, MACRO */
    ft_jop op;   /* BINARY */
    ft_str text; /* attribute, filter, test, data */
    ft_jv value; /* CONST */
    ft_jnode *a, *b, *c;
    ft_jnode **list;
    size_t n;
    ft_jop *op_list;
    ft_jcallargs *args;
    int rest;        /* MACRO, CALL_BLOCK: which of varargs, kwargs the body uses */
    const void *def; /* FILTER, TEST: its row in the table; NULL when there is none */
};

/* Fixed symbols: names that the interpreter itself binds. */
enum { FT_SYM_LOOP, FT_SYM_CALLER, FT_SYM_VARARGS, FT_SYM_KWARGS, FT_SYM_FIXED };
enum { FT_REST_POS = 1, FT_REST_KEY = 2 };

typedef struct ft_jparser {
    ft_jctx *c;
    ft_jtok *tok;
    size_t n_tok, at;
    ft_str *sym; /* names by symbol */
    size_t n_sym, cap_sym;
    int in_loop; /* loops around this point, inside of the macro */
    int rest;    /* FT_REST_ bits seen since the macro began */
} ft_jparser;

/* jinja_lex.c: splits the source (line ends already unified) into tokens. */
void ft_jlex(ft_jctx *c, ft_str source, ft_jtok **out, size_t *n);

/* jinja_parse.c: the whole token list. */
ft_jnode *ft_jparse(ft_jparser *p);
int ft_jparse_symbol(ft_jparser *p, ft_str name);

/* jinja_expr.c */
ft_jnode *ft_jparse_expr(ft_jparser *p);                    /* one, with `x if y else z` */
ft_jnode *ft_jparse_tuple(ft_jparser *p, bool conditional); /* one, or several with commas */
ft_jnode *ft_jparse_target(ft_jparser *p);                  /* names to assign to */
ft_jnode *ft_jparse_filters(ft_jparser *p); /* `name(args) | name`, for filter blocks */
ft_jnode *ft_jparse_unary(ft_jparser *p, bool with_filter);
ft_jnode *ft_jnode_new(ft_jparser *p, ft_jnode_kind kind);
bool ft_jparse_is_op(const ft_jparser *p, const char *op);
bool ft_jparse_is_name(const ft_jparser *p, const char *name);
bool ft_jparse_skip_op(ft_jparser *p, const char *op); /* true, and skips it, when it is next */
bool ft_jparse_skip_name(ft_jparser *p, const char *name);
void ft_jparse_want_op(ft_jparser *p, const char *op);
ft_str ft_jparse_want_name(ft_jparser *p);
_Noreturn void ft_jparse_unexpected(ft_jparser *p, const char *wanted);

/* A list of nodes that grows while parsing. */
typedef struct ft_jnodes {
    ft_jnode **v;
    size_t n, cap;
} ft_jnodes;
void ft_jnodes_put(ft_jparser *p, ft_jnodes *l, ft_jnode *e);

#endif
