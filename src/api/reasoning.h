/* api/reasoning.h - watches a response's thought, and closes it when its budget is spent or someone
 * says so. It is a constraint like any other: the tokens that close a thought are the only ones
 * allowed then, so they are drawn, verified and counted as all others are. A grammar behind it
 * sleeps while the thought is open. */
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
    atomic_bool *end;  /* someone wants it closed */
    ft_str open, close;
    ft_buf tail;         /* the text that may be the beginning of a tag */
    ft_ids end_ids;      /* what closes a thought before its time */
    ft_ids gap_ids;      /* what must lie between a thought and a grammar */
    const ft_ids *force; /* being said now; NULL: nothing */
    size_t at;
} ft_thought;

/* Puts itself in front of the mask where the request has a use for it. */
ft_status ft_thought_init(ft_thought *t, const ft_llm *m, const ft_request *r, ft_mask *mask,
                          ft_err *err);
void ft_thought_release(ft_thought *t);
/* The response is inside a thought; false too where nobody watches. */
bool ft_thought_open(const ft_thought *t);

#endif
