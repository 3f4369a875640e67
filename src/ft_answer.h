/* ft_answer.h - a request in flight: what text becomes on the way in, and ids on the way out.
 * Made from a request on any thread; its task then belongs to the thread that runs the engine, and
 * so does everything below until the task has ended. The request must outlive the answer. */
#ifndef FT_ANSWER_H
#define FT_ANSWER_H

#include "base/buf.h"
#include "ft_sampling.h"
#include "ft_thought.h"
#include "text/detok.h"
#include "text/stop.h"
#include "text/stream.h"

typedef bool ft_event_fn(void *user, const ft_event *e); /* false cancels */

typedef struct ft_answer {
    const ft_llm *m;
    const ft_request *r;
    ft_event_fn *tell; /* may be NULL */
    void *user;

    ft_ids ids;
    ft_sample_setup setup;
    ft_grammar *grammar;
    ft_grammar_state *state;
    ft_thought thought;
    ft_mask mask;

    ft_detok detok;
    ft_stop stop;
    ft_stream *stream; /* NULL: everything is the answer */
    json_t *tools;
    ft_buf text, kept; /* of one token: its characters, and those that no stop text holds back */
    ft_event event;    /* of the token at hand; later events of it have id -1 */
    bool told;         /* the token at hand was reported */
    bool cancelled, stopped;
    int thought_tokens;
} ft_answer;

/* On failure everything is released. */
ft_status ft_answer_init(ft_answer *a, ft_llm *m, const ft_request *r, ft_event_fn *tell,
                         void *user, ft_err *err);
void ft_answer_release(ft_answer *a);
/* What a lane is to do for it. */
ft_task ft_answer_task(ft_answer *a);
/* The task has ended: what text still waits comes out. */
void ft_answer_end(ft_answer *a);
void ft_answer_reply(const ft_answer *a, ft_finish f, const ft_stats *s, ft_reply *out);

#endif
