/* serve/params.h - parses the fields that all APIs share from JSON into an ft_request.
 * The rows of base/request.def say how a field is spelled, its type and its range; absent and null
 * mean the server's default. What ft_gen_params points to lives until ft_gen_params_release or is
 * part of the body. */
#ifndef FT_SERVE_PARAMS_H
#define FT_SERVE_PARAMS_H

#include "serve/server.h"

enum {
    FT_PARAM_STOPS = 64,
    FT_PARAM_STOP_BYTES = 256,
    FT_PARAM_SOURCE = 1 << 20,
    FT_PARAM_PROBS = 100
};
enum { FT_PARAM_BIASES = 16384, FT_PARAM_BREAKERS = 64, FT_PARAM_BREAKER_BYTES = 256 };

typedef struct ft_gen_params {
    ft_request r;
    int n; /* responses to each prompt */
    bool stream, include_usage, timings_per_token, return_tokens, progress, post_probs;
    bool return_drafted;
    bool drop_thought, both_thoughts; /* as in ft_generation */
    int ping_s;
    int max_ms; /* time limit for a response that has begun a second line; 0: none */
    char **own; /* freed by ft_gen_params_release */
    int n_own;
    const char *stop[FT_PARAM_STOPS];
    const char *trigger; /* of the grammar for tool calls */
    const char **breaker;
    int32_t *bias_id;
    float *bias;
    char samplers[256];
    char ignored[FT_IGNORED]; /* parts of schemas that are not enforced, for X-Schema-Ignored */
} ft_gen_params;

/* The server's defaults and a random seed. */
void ft_gen_params_init(ft_gen_params *a, ft_server *s, const ft_served *d);
void ft_gen_params_release(ft_gen_params *a);
/* Keeps p, which ft_gen_params_release frees. */
char *ft_gen_params_keep(ft_gen_params *a, char *p);

/* Reads every field that the object has. */
bool ft_gen_params_fields(ft_gen_params *a, const ft_served *d, const json_t *body,
                          ft_http_error *error);
/* A schema for the answer. */
bool ft_gen_params_schema(ft_gen_params *a, const json_t *schema, const char *param,
                          ft_http_error *error);

/* Checked values: true when the field is absent (*out is unchanged) or valid. */
bool ft_want_int(const json_t *body, const char *name, int64_t lo, int64_t hi, int *out,
                 ft_http_error *error);
bool ft_want_bool(const json_t *body, const char *name, bool *out, ft_http_error *error);
bool ft_want_text(const json_t *body, const char *name, const char **out, ft_http_error *error);
/* Absent or null: NULL. */
json_t *ft_get(const json_t *body, const char *name);

#endif
