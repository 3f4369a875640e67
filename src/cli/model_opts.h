/* cli/model_opts.h - converts options to the structs of foretoken.h: the model to open, the
 * request. Options that were not given leave the default of the library, which for sampling is what
 * the model file recommends. */
#ifndef FT_CLI_MODEL_OPTS_H
#define FT_CLI_MODEL_OPTS_H

#include "cli/opts.h"
#include "cli/term.h"
#include "foretoken.h"

#include <jansson.h>

/* Owns what the parameters and the request point to. */
typedef struct ft_model_opts {
    void **own;
    int n_own;
} ft_model_opts;

void ft_model_opts_release(ft_model_opts *mo);

/* Fills p with the defaults and then the options. */
ft_status ft_model_opts_params(ft_model_opts *mo, const ft_opts *o, ft_llm_params *p, ft_err *err);
/* The same for a request. Without --seed the seed is random. */
ft_status ft_model_opts_request(ft_model_opts *mo, const ft_opts *o, const ft_llm *m, ft_request *r,
                                ft_err *err);
/* Sampling of bench: *s filled from the options; NULL, greedy decoding, if --temp is not given. */
const ft_sampling *ft_model_opts_bench_sampling(const ft_opts *o, const ft_llm *m, ft_sampling *s);
/* The variables for the chat template: enable_thinking and --chat-template-kwargs. */
ft_status ft_model_opts_template(const ft_opts *o, json_t **out, ft_err *err);
/* --system-prompt or its file; NULL: none. Belongs to mo. */
ft_status ft_model_opts_system(ft_model_opts *mo, const ft_opts *o, const char **out, ft_err *err);
/* The prompt: words, -p or -f; with from_stdin also standard input, after words or -p if both are
 * there. NULL and 0 bytes: there is none.
 * Belongs to mo. */
ft_status ft_model_opts_prompt(ft_model_opts *mo, const ft_opts *o, bool from_stdin, char **out,
                               size_t *bytes, ft_err *err);

int ft_model_opts_tail(const ft_opts *o); /* --kv-tail: as ft_llm_params.cache_tail */
/* The ids of the text of -f, or of standard input; yours (ft_free). */
ft_status ft_model_opts_ids(const ft_opts *o, const ft_llm *m, int32_t **ids, size_t *n,
                            ft_err *err);
/* Measures a text in chunks of --ctx-size tokens (512 unless given): opens the model with the
 * options and `prepare`, calls fn, closes the model. Returns the exit code. */
int ft_model_opts_chunks(const ft_opts *o, void (*prepare)(ft_llm_params *p, int ctx),
                         ft_status (*fn)(const ft_opts *o, ft_llm *m, int ctx, ft_err *err));
/* Prints, after a model was opened, with -v the cache table, else one line if the cache is not
 * plain f16 and notes are wanted. */
void ft_model_opts_cache_note(const ft_opts *o, const ft_llm *m, const ft_term *t, bool notes);

/* Replaces \n, \t, \r, \0, \e, \\, \", \' and \xHH in place. Returns the new length. */
size_t ft_unescape(char *text);

/* Renders messages to the prompt of r. *prompt is yours (ft_free). */
ft_status ft_model_opts_render(const ft_llm *m, const json_t *messages, const json_t *options,
                               ft_request *r, char **prompt, ft_err *err);

/* An image file, in memory that lives as long as mo. */
ft_status ft_model_opts_image(ft_model_opts *mo, const char *path, ft_image_input *out,
                              ft_err *err);
/* The content of a message with so many images before its text, which is taken over. */
json_t *ft_model_opts_content(json_t *text, int images);

#endif
