/* serve/prompts.h - prompts that are not messages: text, token ids, or arrays that mix both. */
#ifndef FT_SERVE_PROMPTS_H
#define FT_SERVE_PROMPTS_H

#include "serve/generation.h"

enum { FT_PROMPTS_MAX = 1024 };

/* Reads an array of token ids. The caller frees p->ids. */
bool ft_ids_read(const ft_served *d, const json_t *v, const char *param, ft_prompt *p,
                 ft_http_error *error);

/* One or more prompts. A single prompt may have images if a is not NULL; they are added to a. */
typedef struct ft_prompts {
    ft_prompt *at;
    int n;
} ft_prompts;

/* Reads text, token ids, a mixed array, {prompt_string}, or an array of those. BOS is added before
 * leading text if the model uses one. */
bool ft_prompts_read(ft_gen_params *a, const ft_served *d, const json_t *v, const char *param,
                     ft_prompts *out, ft_http_error *error);
void ft_prompts_release(ft_prompts *p);

/* Fill-in-the-middle prompt for the text between prefix + more and suffix. extra: further files,
 * {filename, text} each, which come first. The prompt ends with the FIM middle token. The caller
 * frees p->ids. */
bool ft_prompt_infill(const ft_served *d, const json_t *extra, const char *prefix, const char *more,
                      const char *suffix, ft_prompt *p, ft_http_error *error);

#endif
