/* text/toolgram.h - builds a grammar for the tool calls that a model may write, in its own syntax.
 * Parameters come in the order of the schema; required ones are always present. A string is plain
 * text up to its end tag; all other values are JSON that matches the schema of the parameter (any
 * JSON where that schema cannot be enforced). */
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
    const char *name;    /* the only tool that may be called, or NULL */
    bool one;            /* a single call */
    const char *schema;  /* a response that matches this schema is allowed instead of calls; NULL:
                            calls only */
} ft_toolgram;

/* The text that begins a call and triggers a lazy grammar. */
const char *ft_toolgram_trigger(ft_call_syntax s);
/* Appends the grammar, whose first rule is "root". */
ft_status ft_toolgram_gbnf(ft_buf *out, const ft_toolgram *g, ft_err *err);

#endif
