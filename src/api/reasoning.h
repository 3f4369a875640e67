/* api/reasoning.h - tracks the reasoning block of a response and closes it when its budget is
 * spent or the client asks for it. It is a token constraint: while closing, only the closing
 * tokens are allowed, so they are sampled, verified and counted like all others. A grammar
 * behind it is inactive while the reasoning block is open. */
#ifndef FT_API_REASONING_H
#define FT_API_REASONING_H

#include "api/model.h"
#include "text/bpe.h"

#include <stdatomic.h>

typedef struct ft_thought {
    const ft_llm *m;
    enum { FT_THOUGHT_NONE, FT_THOUGHT_BEFORE, FT_THOUGHT_OPEN, FT_THOUGHT_OVER } where;
    ft_mask inner;     /* the grammar; user NULL: none */
    int budget, spent; /* tokens; budget < 0: any number */
    atomic_bool *end;  /* set by the client to close it */
    ft_str open, close;
    ft_buf tail;         /* text that may be the beginning of a tag */
    ft_ids end_ids;      /* tokens that close a reasoning block early */
    ft_ids gap_ids;      /* tokens that must follow before a grammar applies */
    const ft_ids *force; /* tokens being forced now; NULL: none */
    size_t at;
} ft_thought;

/* Wraps the mask if the request needs it. */
ft_status ft_thought_init(ft_thought *t, const ft_llm *m, const ft_request *r, ft_mask *mask,
                          ft_err *err);
void ft_thought_release(ft_thought *t);
/* The response is inside a reasoning block; also false if it is not tracked. */
bool ft_thought_open(const ft_thought *t);

#endif
