/* api/generate.h - a request in progress: text to ids on input, ids to text on output.
 * Created on any thread; its task then belongs to the engine thread, and so does everything
 * below until the task has ended. The request must outlive it. */
#ifndef FT_API_GENERATE_H
#define FT_API_GENERATE_H

#include "api/checkpoints.h"
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

    float lora[FT_LORA_MAX]; /* scales of the adapters, and a hash of both */
    uint64_t lora_key;
    ft_ids ids;
    ft_prompt_images images;
    ft_prompt_marks marks;
    ft_sample_setup setup;
    ft_grammar *grammar;
    ft_grammar_state *state;
    ft_thought thought;
    ft_mask mask;

    ft_detok detok;
    ft_stop stop;
    ft_stream *stream; /* NULL: all text is the answer */
    json_t *tools;
    ft_buf text, kept; /* of one token: its characters, and those that no stop string holds back */
    ft_event event;    /* of the current token; further events of it have id -1 */
    bool told;         /* the current token was reported */
    bool cancelled, stopped;
    int thought_tokens;
    ft_token_prob *score; /* [ids.n][1 + top_logprobs], see ft_job_scores; NULL: not requested */
    int score_from;       /* prompt tokens up to here have been scored before */
} ft_generate;

/* On failure everything is released. */
ft_status ft_generate_init(ft_generate *a, ft_llm *m, const ft_request *r, ft_event_fn *tell,
                           void *user, ft_err *err);
void ft_generate_release(ft_generate *a);
/* The task that a slot runs for it. */
ft_task ft_generate_task(ft_generate *a);
/* The task has ended: emits the remaining text. */
void ft_generate_end(ft_generate *a);
void ft_generate_result(const ft_generate *a, ft_finish f, const ft_stats *s, ft_response *out);

#endif
