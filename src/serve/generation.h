/* serve/generation.h - the generation of one request: its engine jobs, their output so far, and
 * the format in which an API presents it.
 *
 * An ft_api_format is a table of functions, one table per API. Engine events are collected into
 * choices. A streamed generation sends each piece as it arrives (tokens that arrive together form
 * one piece); an unstreamed one sends everything at the end. Nothing here blocks. */
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
    int index, prompt; /* prompt: index of the prompt */
    uint64_t seed;
    int n_prompt;     /* prompt length in tokens */
    bool done, begun; /* begun: the first piece was sent */
    ft_status st;
    ft_err err;
    ft_response response;
    ft_buf answer, thought;
    ft_tool_call *call;
    int n_call;
    int n_tokens;     /* generated so far */
    json_t *ids;      /* token ids, if requested */
    json_t *logprobs; /* entries in the chat API's format, if requested */
    double first_s;   /* time of the first token; 0: none yet */
    bool time_up;     /* stopped by max_ms */
    /* output that was not sent yet: text of one part, with its tokens */
    ft_event_part part;
    int part_call;
    bool drafted, piece_drafted; /* the newest token; the tokens of the piece */
    ft_buf piece;
    json_t *piece_ids, *piece_probs;
    /* used by the API format */
    int block, n_block; /* the open block or item, or -1; number of blocks so far */
    int n_call_sent;
} ft_choice;

/* A piece of a response. */
typedef struct ft_piece {
    ft_event_part part;
    int call;      /* call index, for CALL and ARGS */
    const char *p; /* for CALL: the function name */
    size_t n;
    json_t *ids, *logprobs; /* arrays or NULL; borrowed */
    bool drafted;           /* its tokens are accepted draft tokens */
} ft_piece;

typedef struct ft_api_format {
    const char *stream_type;         /* Content-Type of a stream; NULL: server-sent events */
    void (*begin)(ft_generation *t); /* before the first piece; may be NULL */
    void (*piece)(ft_generation *t, ft_choice *c, const ft_piece *p);
    void (*end)(ft_generation *t, ft_choice *c); /* a choice is complete */
    void (*finish)(ft_generation *t);            /* all choices are complete; may be NULL */
    void (*ping)(ft_generation *t);              /* keep-alive; NULL: an SSE comment line */
    void (*progress)(ft_generation *t, ft_choice *c, const ft_job_progress *p); /* may be NULL */
    void (*error)(ft_generation *t,
                  const ft_http_error *error); /* in a stream; NULL: data: {"error": ...} */
    json_t *(*whole)(ft_generation *t);        /* the unstreamed response */
} ft_api_format;

struct ft_generation {
    ft_call *c;
    ft_served *d;
    const ft_api_format *format;
    char id[64];
    int64_t created;
    char *model; /* as named in the request */
    ft_choice *choice;
    int n;
    bool stream, include_usage, timings_per_token, return_tokens, progress, post_probs, failed;
    bool return_drafted; /* a piece holds only accepted draft tokens, or none */
    bool finished;
    int max_ms;
    int top_logprobs;   /* < 0: no logprobs */
    bool drop_thought;  /* reasoning is left out */
    bool both_thoughts; /* deepseek-legacy: reasoning is also part of the answer */
    int sequence;       /* event number, for APIs that number events */
    int done_tokens;    /* progress that was reported last */
    json_t *warnings; /* sent with the response, or with the first event of a stream; NULL: none */
    json_t *extra;    /* data of the API format; freed with the generation */
};

/* Token ids of one prompt. */
typedef struct ft_prompt {
    int32_t *ids;
    int n;
} ft_prompt;

/* Starts a->n jobs for each prompt and makes the call asynchronous, or responds with an error.
 * Takes ownership of extra (may be NULL). a may be released afterwards. */
void ft_generation_start(ft_call *c, ft_served *d, const ft_api_format *format, const char *prefix,
                         ft_gen_params *a, const ft_prompt *prompt, int n_prompt, const char *model,
                         json_t *extra);

/* Ends the reasoning phase of a running response. Returns false if there is no such response. */
bool ft_generation_end_thought(ft_server *s, const char *id);

/* ---- for the API formats ---- */

/* Sends "data: JSON\n\n", preceded by "event: NAME\n" unless name is NULL. Takes ownership of j. */
void ft_generation_event(ft_generation *t, const char *name, json_t *j);
/* Sends JSON and a newline. Takes ownership of j. */
void ft_generation_line(ft_generation *t, json_t *j);
/* "stop", "length", "tool_calls" */
const char *ft_finish_reason(const ft_choice *c);
/* Totals over all choices. Each prompt is counted once, however many choices it has. */
typedef struct ft_usage {
    int prompt, cached, response, thought;
} ft_usage;
ft_usage ft_generation_usage(const ft_generation *t);
json_t *ft_usage_openai(const ft_generation *t);
json_t *ft_progress_json(const ft_generation *t, const ft_job_progress *p);
/* With timings_per_token: adds the timings of the response so far, or as of `at`. */
void ft_live_timings(const ft_generation *t, const ft_choice *c, const ft_job_progress *at,
                     json_t *j);
/* Adds the warnings to the first object that is sent. Returns j. */
json_t *ft_with_warnings(ft_generation *t, json_t *j);
/* Sends an SSE comment line, which clients ignore. */
void ft_sse_ping(ft_generation *t);
/* Ends an OpenAI stream: sends the usage chunk if it was requested, then [DONE]. Takes ownership of
 * chunk. */
void ft_openai_finish(ft_generation *t, json_t *chunk);
/* Log probabilities of the prompt, one entry per token; empty unless a->r.score_prompt was set. */
json_t *ft_prompt_probs(const ft_generation *t, const ft_choice *c);
/* response_fields of llama.cpp: ft_response_fields reads the list into extra; ft_only_fields
 * reduces a response to these fields, each under its path, and takes
 * ownership of j. */
bool ft_response_fields(const json_t *body, json_t *extra, ft_http_error *error);
json_t *ft_only_fields(const ft_generation *t, json_t *j);
/* The final object of /completion, which other APIs return as __verbose on request; the data for it
 * that ft_native_extra stores in extra. */
json_t *ft_native_object(const ft_generation *t, const ft_choice *c);
void ft_native_extra(json_t *extra, const ft_served *d, const ft_gen_params *a,
                     const ft_prompt *prompt, int n_prompt);
/* The unstreamed OpenAI response: adds choices and usage to j. Takes ownership of choices. */
json_t *ft_openai_whole(ft_generation *t, json_t *j, json_t *choices);
/* null if the text is empty and there are tool calls */
json_t *ft_choice_text(const ft_choice *c);
/* [{id, type, function: {name, arguments}}] */
json_t *ft_choice_calls(const ft_choice *c);

#endif
