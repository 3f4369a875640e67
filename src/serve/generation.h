/* serve/generation.h - one request's responses: jobs of the engine, what came of them so far, and
 * the shape in which an API says it.
 *
 * A shape is a row of functions. Events are collected into choices; a streamed talk also says each
 * piece as it comes (neighbouring tokens that arrived together are one piece), an unstreamed one
 * says everything at the end. Nothing here waits. */
#ifndef FT_SERVE_GENERATION_H
#define FT_SERVE_GENERATION_H

#include "serve/params.h"

typedef struct ft_generation ft_generation;

typedef struct ft_tool_call {
    char id[40];
    char *name;
    ft_buf args;
} ft_tool_call;

typedef struct ft_choice {
    ft_job *job;
    int index, prompt; /* prompt: which of several */
    uint64_t seed;
    int n_prompt;     /* tokens */
    bool done, begun; /* begun: the shape's first piece was said */
    ft_status st;
    ft_err err;
    ft_response response;
    ft_buf answer, thought;
    ft_tool_call *call;
    int n_call;
    int n_tokens;     /* that came so far */
    json_t *ids;      /* of the tokens, when asked for */
    json_t *logprobs; /* entries as the chat API has them, when asked for */
    double first_s;   /* when the first token came; 0: not yet */
    bool time_up;     /* it was ended for max_ms */
    /* what arrived and was not said yet: text of one part, and the tokens with it */
    ft_event_part part;
    int part_call;
    bool drafted, piece_drafted; /* the newest token; those of the piece */
    ft_buf piece;
    json_t *piece_ids, *piece_probs;
    /* of the shape */
    int block, n_block; /* the open block or item, or -1; how many there were */
    int n_call_said;
} ft_choice;

/* A piece of a response. */
typedef struct ft_piece {
    ft_event_part part;
    int call;      /* of CALL and ARGS */
    const char *p; /* CALL: the name */
    size_t n;
    json_t *ids, *logprobs; /* arrays or NULL; borrowed */
    bool drafted;           /* its tokens were drafted and accepted */
} ft_piece;

typedef struct ft_api_format {
    const char *stream_type;         /* Content-Type of a stream; NULL: server-sent events */
    void (*begin)(ft_generation *t); /* before anything; may be NULL */
    void (*piece)(ft_generation *t, ft_choice *c, const ft_piece *p);
    void (*end)(ft_generation *t, ft_choice *c); /* a choice is complete */
    void (*finish)(ft_generation *t);            /* all are; may be NULL */
    void (*ping)(ft_generation *t); /* silence; NULL: a comment line, which clients skip */
    void (*progress)(ft_generation *t, ft_choice *c, const ft_job_progress *p); /* may be NULL */
    void (*error)(ft_generation *t,
                  const ft_http_error *error); /* in a stream; NULL: data: {"error": ...} */
    json_t *(*whole)(ft_generation *t);        /* the unstreamed answer */
} ft_api_format;

struct ft_generation {
    ft_call *c;
    ft_served *d;
    const ft_api_format *shape;
    char id[64];
    int64_t created;
    char *model; /* as the request named it */
    ft_choice *choice;
    int n;
    bool stream, include_usage, timings_per_token, return_tokens, progress, post_probs, failed;
    bool return_drafted; /* a piece holds drafted tokens or others, not both */
    bool finished;
    int max_ms;
    int top_logprobs;   /* < 0: none */
    bool drop_thought;  /* reasoning is not shown */
    bool both_thoughts; /* deepseek-legacy: in the answer too */
    int sequence;       /* of events, where an API counts them */
    int done_tokens;    /* progress said last */
    json_t *extra;      /* of the shape: kept and freed with the talk */
};

/* What a talk is made of: one prompt's ids for each entry. */
typedef struct ft_prompt {
    int32_t *ids;
    int n;
} ft_prompt;

/* Makes a->n jobs for each prompt and hands the call over to them, or answers with an error. extra
 * is stolen (may be NULL). The ask may be released afterwards. */
void ft_generation_start(ft_call *c, ft_served *d, const ft_api_format *shape, const char *prefix,
                         ft_gen_params *a, const ft_prompt *prompt, int n_prompt, const char *model,
                         json_t *extra);

/* Ends the thought of a running response. false: there is no such response. */
bool ft_generation_end_thought(ft_server *s, const char *id);

/* ---- for shapes ---- */

/* "data: JSON\n\n", with "event: NAME\n" in front unless name is NULL. j is stolen. */
void ft_generation_event(ft_generation *t, const char *name, json_t *j);
/* JSON and a newline. j is stolen. */
void ft_generation_line(ft_generation *t, json_t *j);
/* "stop", "length", "tool_calls" */
const char *ft_finish_reason(const ft_choice *c);
/* Sums over all choices; the prompt counts once for each prompt. */
typedef struct ft_usage {
    int prompt, cached, response, thought;
} ft_usage;
ft_usage ft_generation_usage(const ft_generation *t);
json_t *ft_usage_openai(const ft_generation *t);
json_t *ft_timings(const ft_response *r);
json_t *ft_progress_json(const ft_generation *t, const ft_job_progress *p);
double ft_generation_now(void);
/* A comment line, which clients skip. */
void ft_sse_ping(ft_generation *t);
/* How OpenAI's streams end: the sums in a chunk of their own if they were asked for (chunk is
 * stolen), then [DONE]. */
void ft_openai_finish(ft_generation *t, json_t *chunk);
/* response_fields: reads them into extra; of an answer leaves only these, each under the last part
 * of its path. j is stolen. */
bool ft_response_fields(const json_t *body, json_t *extra, ft_http_error *error);
json_t *ft_only_fields(const ft_generation *t, json_t *j);
/* The same in one piece: j with choices, which are stolen, and the sums. */
json_t *ft_openai_whole(ft_generation *t, json_t *j, json_t *choices);
/* null when the text is empty and `call` is set */
json_t *ft_choice_text(const ft_choice *c);
/* [{id, type, function: {name, arguments}}] */
json_t *ft_choice_calls(const ft_choice *c);

#endif
