/* text/toolgram.h - tools as a grammar: which calls a model may write, in its own syntax.
 * Parameters come in the order of the schema, those that are required always. A text stays plain
 * text up to its end tag; everything else is JSON that fits the parameter's schema (any JSON where
 * that schema cannot be enforced). */
#ifndef FT_TEXT_TOOLGRAM_H
#define FT_TEXT_TOOLGRAM_H

#include "base/buf.h"
#include "text/chat.h"

typedef enum ft_call_syntax {
    FT_CALLS_XML,    /* <tool_call> <function=NAME> <parameter=KEY> */
    FT_CALLS_JSON,   /* <tool_call> {"name": ..., "arguments": {...}} */
    FT_CALLS_GEMMA4, /* <|tool_call>call:NAME{key:value} */
} ft_call_syntax;

typedef struct ft_toolgram {
    ft_call_syntax syntax;
    const json_t *tools; /* [{type, function: {name, parameters}}] */
    const char *name;    /* the only one that may be called, or NULL */
    bool one;            /* a single call */
    const char *schema;  /* an answer of this shape may come instead of calls; NULL: calls alone */
} ft_toolgram;

/* Where a call begins: the text that sets a lazy grammar to work. */
const char *ft_toolgram_trigger(ft_call_syntax s);
/* Appends the grammar, whose first rule is "root". */
ft_status ft_toolgram_gbnf(ft_buf *out, const ft_toolgram *g, ft_err *err);

#endif
