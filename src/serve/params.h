/* serve/params.h - parses the generation parameters that all APIs share from JSON into an
 * ft_request. base/request.def defines the names, types and ranges of the fields. Absent and null
 * fields get the server's default. What ft_gen_params points to is valid until
 * ft_gen_params_release, or part of the body. */
#ifndef FT_SERVE_PARAMS_H
#define FT_SERVE_PARAMS_H

#include "serve/server.h"

enum {
    FT_PARAM_STOPS = 64,
    FT_PARAM_STOP_BYTES = 256,
    FT_PARAM_SOURCE = 1 << 20,
    FT_PARAM_PROBS = 100
};
enum { FT_PARAM_IMAGE_S = 30 }; /* seconds for all images of a request that are downloaded */
enum { FT_PARAM_BIASES = 16384, FT_PARAM_BREAKERS = 64, FT_PARAM_BREAKER_BYTES = 256 };

typedef struct ft_gen_params {
    ft_request r;
    int n; /* choices per prompt */
    bool stream, include_usage, timings_per_token, return_tokens, progress, post_probs;
    bool return_drafted;
    bool drop_thought, both_thoughts; /* see ft_generation */
    int ping_s;
    int max_ms; /* time limit of a response with more than one line, in ms; 0: none */
    char **own; /* freed by ft_gen_params_release */
    int n_own;
    const char *stop[FT_PARAM_STOPS];
    const char *trigger; /* trigger of the tool-call grammar */
    const char **breaker;
    int32_t *bias_id;
    float *bias;
    float lora[FT_ADAPTERS_MAX];
    char samplers[256];
    const char *image_hosts, *media_path; /* as in ft_serve_params */
    double image_s;          /* time that is left for downloads of this request's images */
    ft_image_input image[FT_REQUEST_IMAGES]; /* r.images points here; own holds the bytes */
    char ignored[FT_IGNORED]; /* schema keywords that are not enforced, for X-Schema-Ignored */
    json_t *warnings; /* what the request has and the response ignores: an array of strings */
} ft_gen_params;

/* Sets the server's defaults and a random seed. */
void ft_gen_params_init(ft_gen_params *a, ft_server *s, const ft_served *d);
void ft_gen_params_release(ft_gen_params *a);
/* Registers p to be freed by ft_gen_params_release. Returns p. */
char *ft_gen_params_own(ft_gen_params *a, char *p);

/* Never samples this token. */
bool ft_gen_params_ban(ft_gen_params *a, const ft_served *d, int32_t id, ft_http_error *error);

/* Adds a sentence to the `warnings` of the response. */
void ft_gen_params_warn(ft_gen_params *a, const char *fmt, ...) FT_PRINTF(2, 3);

/* Parses every generation parameter in the object. */
bool ft_gen_params_fields(ft_gen_params *a, const ft_served *d, const json_t *body,
                          ft_http_error *error);
/* Checked fields: return true and leave *out unchanged if the field is absent. */
bool ft_want_int(const json_t *body, const char *name, int64_t lo, int64_t hi, int *out,
                 ft_http_error *error);
bool ft_want_bool(const json_t *body, const char *name, bool *out, ft_http_error *error);
bool ft_want_text(const json_t *body, const char *name, const char **out, ft_http_error *error);
/* NULL if the field is absent or null. */
json_t *ft_get(const json_t *body, const char *name);

#endif
