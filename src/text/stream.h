/* text/stream.h - splits a response, while it is generated, into reasoning, content and tool calls.
 *
 * The input is fed in pieces of any size; deltas are passed to a callback. However the input is
 * split, the deltas of one kind and call concatenate to the same text, in the same order. Text that
 * may be the beginning of a tag is held back until it is decided. A call that cannot be parsed is
 * returned as content, and text after a call as FT_DELTA_AFTER. Only tags, and white space next to
 * reasoning and calls, are dropped. */
#ifndef FT_TEXT_STREAM_H
#define FT_TEXT_STREAM_H

#include "text/chat.h"

typedef enum ft_stream_kind {
    FT_DELTA_THOUGHT,
    FT_DELTA_CONTENT,
    FT_DELTA_AFTER, /* text after a call, which templates do not allow: log it and drop it */
    FT_DELTA_CALL,  /* call `index` begins; text is the function's name */
    FT_DELTA_ARGS,  /* a piece of the arguments of call `index`; all pieces form valid JSON */
} ft_stream_kind;

typedef struct ft_stream_delta {
    ft_stream_kind kind;
    int index;   /* of the call, from 0 */
    ft_str text; /* borrowed for the call of the callback */
} ft_stream_delta;

typedef void (*ft_stream_fn)(void *user, const ft_stream_delta *d);

typedef struct ft_stream_opts {
    ft_chat_family family;
    bool in_thought;     /* the prompt ends inside a reasoning block */
    bool keep_thoughts;  /* reasoning and its tags are content (reasoning_format none) */
    bool calls;          /* parse tool calls */
    const json_t *tools; /* types of parameters; NULL: guess from the text. Borrowed */
} ft_stream_opts;

typedef struct ft_stream ft_stream;

ft_stream *ft_stream_new(const ft_stream_opts *o, ft_stream_fn fn, void *user);
void ft_stream_free(ft_stream *s);
void ft_stream_feed(ft_stream *s, ft_str text);
/* End of the response: sends the text held back. A call that was cut off is closed, so that its
 * arguments are valid JSON. */
void ft_stream_end(ft_stream *s);
int ft_stream_n_calls(const ft_stream *s);
/* true when this text is a tag that the parser reads: the texts of such control tokens must be fed
 * to the parser. */
bool ft_stream_tag(ft_chat_family f, ft_str text);

#endif
