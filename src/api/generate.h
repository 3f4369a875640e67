/* api/generate.h - a request in flight: what text becomes on the way in, and ids on the way out.
 * Made from a request on any thread; its task then belongs to the thread that runs the engine, and
 * so does everything below until the task has ended. The request must outlive the answer. */
#ifndef FT_API_GENERATE_H
#define FT_API_GENERATE_H

#include "api/images.h"
#include "api/reasoning.h"
#include "api/sampling.h"
#include "base/buf.h"
#include "text/detok.h"
#include "text/stop.h"
#include "text/stream.h"

typedef bool ft_event_fn(void *user, const ft_event *e); /* false cancels */

typedef struct ft_generate {
    const ft_llm *m;
    const ft_request *r;
    ft_event_fn *tell; /* may be NULL */
    void *user;

    ft_ids ids;
    ft_prompt_images images;
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
} ft_generate;

/* On failure everything is released. */
ft_status ft_generate_init(ft_generate *a, ft_llm *m, const ft_request *r, ft_event_fn *tell,
                           void *user, ft_err *err);
void ft_generate_release(ft_generate *a);
/* What a slot is to do for it. */
ft_task ft_generate_task(ft_generate *a);
/* The task has ended: what text still waits comes out. */
void ft_generate_end(ft_generate *a);
void ft_generate_result(const ft_generate *a, ft_finish f, const ft_stats *s, ft_response *out);

#endif
