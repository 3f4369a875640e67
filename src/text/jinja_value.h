/* text/jinja_value.h - the values of a template, and the memory they live in.
 *
 * Everything that parsing or rendering allocates lives in one arena (ft_jctx) and is freed with it.
 * A failure (ft_j_fail) returns with longjmp to the function that set ctx->escape, so the functions
 * here do not return errors. Strings are valid UTF-8 and are never changed in place; lists,
 * dicts and namespaces are shared by reference, as in Python. */
#ifndef FT_TEXT_JINJA_VALUE_H
#define FT_TEXT_JINJA_VALUE_H

#include "base/err.h"
#include "base/str.h"

#include <jansson.h>
#include <setjmp.h>

typedef enum ft_jkind {
    FT_J_UNDEF,
    FT_J_NONE,
    FT_J_BOOL,
    FT_J_INT,
    FT_J_FLOAT,
    FT_J_STR,
    FT_J_LIST,
    FT_J_TUPLE,
    FT_J_DICT,
    FT_J_RANGE,
    FT_J_NS,     /* namespace: a dict whose members can be assigned */
    FT_J_LOOP,   /* the loop object of a for */
    FT_J_MACRO,  /* also the caller of a call block */
    FT_J_FUNC,   /* a built-in function */
    FT_J_METHOD, /* a method with its object */
    FT_J_CYCLER,
    FT_J_JOINER,
} ft_jkind;

typedef struct ft_jlist ft_jlist;
typedef struct ft_jdict ft_jdict;

typedef struct ft_jv {
    uint32_t kind; /* ft_jkind */
    uint32_t n;    /* bytes of a string, of an undefined value's name */
    union {
        bool b;
        int64_t i;
        double f;
        const char *s;
        ft_jlist *list; /* lists and tuples */
        ft_jdict *dict; /* dicts and namespaces */
        void *p;
    } u;
} ft_jv;

struct ft_jlist {
    ft_jv *v;
    size_t n, cap;
};

typedef struct ft_jpair {
    ft_jv key, value;
} ft_jpair;

struct ft_jdict { /* keeps the order of insertion */
    ft_jpair *v;
    size_t n, cap;
    uint32_t *slot; /* index + 1, once there are more than a few members */
    size_t n_slot;
};

typedef struct ft_jrange {
    int64_t start, step, n;
} ft_jrange;

typedef struct ft_jsb { /* text under construction */
    char *p;
    size_t n, cap;
} ft_jsb;

typedef struct ft_jctx {
    struct ft_jblock *blocks;
    char *top, *end; /* free part of the newest block */
    size_t bytes, max_bytes;
    uint64_t steps; /* left */
    int depth;      /* of recursion on the C stack */
    int line;       /* of the template, for messages */
    ft_jsb *out;    /* where output goes now */
    size_t max_out;
    struct ft_jscope *scope, *root;
    json_t *json; /* being converted, or NULL */
    jmp_buf escape;
    ft_err *err;
    ft_status status;
} ft_jctx;

#define FT_J_MAX_DEPTH 1600

/* ---- memory, limits, failure ---- */

void ft_j_init(ft_jctx *c, size_t max_bytes, uint64_t steps, ft_err *err);
void ft_j_release(ft_jctx *c);
void *ft_j_alloc(ft_jctx *c, size_t n); /* not zeroed, never NULL */
void *ft_j_alloc_n(ft_jctx *c, size_t n, size_t size);
_Noreturn void ft_j_fail(ft_jctx *c, ft_status st, const char *fmt, ...) FT_PRINTF(3, 4);
void ft_j_enter(ft_jctx *c); /* one level deeper, or fails */
void ft_j_leave(ft_jctx *c);

void ft_j_step_slow(ft_jctx *c);
static inline void ft_j_step(ft_jctx *c, size_t n)
{
    if (c->steps <= n) ft_j_step_slow(c);
    c->steps -= n;
}

/* ---- constructors ---- */

static inline ft_jv ft_jv_none(void)
{
    return (ft_jv){FT_J_NONE, 0, {.i = 0}};
}
static inline ft_jv ft_jv_bool(bool b)
{
    return (ft_jv){FT_J_BOOL, 0, {.b = b}};
}
static inline ft_jv ft_jv_int(int64_t i)
{
    return (ft_jv){FT_J_INT, 0, {.i = i}};
}
static inline ft_jv ft_jv_float(double f)
{
    return (ft_jv){FT_J_FLOAT, 0, {.f = f}};
}
static inline ft_jv ft_jv_ref(ft_jkind kind, void *p)
{
    return (ft_jv){kind, 0, {.p = p}};
}
/* The bytes are borrowed: they live in the arena, in the template or in the program. */
static inline ft_jv ft_jv_str(const char *p, size_t n)
{
    return (ft_jv){FT_J_STR, (uint32_t)n, {.s = p}};
}
static inline ft_jv ft_jv_z(const char *z)
{
    return ft_jv_str(z, strlen(z));
}
static inline ft_jv ft_jv_undef(ft_str name)
{
    return (ft_jv){FT_J_UNDEF, (uint32_t)name.n, {.s = name.p}};
}
static inline ft_str ft_jv_text(ft_jv v) /* of a string or an undefined name */
{
    return (ft_str){v.u.s, v.n};
}
static inline bool ft_jv_is_seq(ft_jv v)
{
    return v.kind == FT_J_LIST || v.kind == FT_J_TUPLE;
}

ft_jv ft_jv_copy_str(ft_jctx *c, ft_str s);
ft_jv ft_jv_concat(ft_jctx *c, ft_str a, ft_str b);
ft_jlist *ft_jlist_new(ft_jctx *c, size_t cap);
void ft_jlist_put(ft_jctx *c, ft_jlist *l, ft_jv v);
ft_jdict *ft_jdict_new(ft_jctx *c, size_t cap);
void ft_jdict_put(ft_jctx *c, ft_jdict *d, ft_jv key, ft_jv value); /* replaces */
ft_jv *ft_jdict_find(ft_jctx *c, const ft_jdict *d, ft_jv key);     /* NULL when absent */
ft_jv *ft_jdict_find_z(ft_jctx *c, const ft_jdict *d, const char *key);
bool ft_jdict_remove(ft_jctx *c, ft_jdict *d, ft_jv key);
ft_jv ft_jv_from_json(ft_jctx *c, const json_t *j);
ft_jv ft_jv_pair(ft_jctx *c, ft_jv a, ft_jv b); /* a tuple */
/* Stable merge sort of n pairs by key; tmp has space for n pairs. */
void ft_jpairs_sort(ft_jctx *c, ft_jpair *v, ft_jpair *tmp, size_t n, bool reverse);

/* ---- queries ---- */

const char *ft_jv_type(ft_jv v); /* as Python names it */
bool ft_jv_truth(ft_jv v);
bool ft_jv_equal(ft_jctx *c, ft_jv a, ft_jv b);
int ft_jv_compare(ft_jctx *c, ft_jv a, ft_jv b);     /* fails when they cannot be compared */
bool ft_jv_number(ft_jv v, double *out);             /* int, float and bool */
bool ft_jv_integer(ft_jv v, int64_t *out);           /* int and bool */
bool ft_jv_length(ft_jctx *c, ft_jv v, size_t *out); /* false: has none */
bool ft_jv_contains(ft_jctx *c, ft_jv box, ft_jv item);
/* All elements: characters of a string, keys of a dict. Fails when v cannot be iterated. A list or
 * tuple is returned itself: do not change it. */
const ft_jlist *ft_jv_elements(ft_jctx *c, ft_jv v);
size_t ft_j_utf8_count(ft_str s);

/* ---- text ---- */

void ft_jsb_put(ft_jctx *c, ft_jsb *b, const char *p, size_t n);
void ft_jsb_puts(ft_jctx *c, ft_jsb *b, const char *z);
void ft_jsb_put_char(ft_jctx *c, ft_jsb *b, uint32_t code);
ft_jv ft_jsb_value(const ft_jsb *b);
/* As Python's str() prints it; an undefined value is empty. */
void ft_jv_print(ft_jctx *c, ft_jsb *b, ft_jv v);
void ft_jv_repr(ft_jctx *c, ft_jsb *b, ft_jv v);
ft_jv ft_jv_to_str(ft_jctx *c, ft_jv v); /* the same as a value; strings are returned as they are */
/* Python's repr of a double: the shortest digits that read back. out has at least 40 bytes. */
void ft_j_format_float(double f, char *out);

typedef struct ft_jjson {
    bool ascii, sort, pretty;
    ft_str indent, comma, colon;
} ft_jjson;
void ft_jv_to_json(ft_jctx *c, ft_jsb *b, ft_jv v, const ft_jjson *o);

#endif
