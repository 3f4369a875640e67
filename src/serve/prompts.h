/* serve/prompts.h - prompts that are not messages: text, ids, or both mixed. */
#ifndef FT_SERVE_PROMPTS_H
#define FT_SERVE_PROMPTS_H

#include "serve/generation.h"

enum { FT_PROMPTS_MAX = 1024 };

/* An array of ids. p->ids is yours: free(). */
bool ft_ids_read(const ft_served *d, const json_t *v, const char *param, ft_prompt *p,
                 ft_http_error *error);

/* Several prompts, or one, which may have images where a is not NULL: they become a's. */
typedef struct ft_prompts {
    ft_prompt *at;
    int n;
} ft_prompts;

/* Text, ids, a mixed array, {prompt_string}, or an array of those. Text at the start gets BOS where
 * the model wants it. */
bool ft_prompts_read(ft_gen_params *a, const ft_served *d, const json_t *v, const char *param,
                     ft_prompts *out, ft_http_error *error);
void ft_prompts_release(ft_prompts *p);

/* What asks for the text between prefix + more and suffix: other files first, {filename, text}
 * each, and what follows the middle mark is the response. p->ids is yours: free(). */
bool ft_prompt_infill(const ft_served *d, const json_t *extra, const char *prefix, const char *more,
                      const char *suffix, ft_prompt *p, ft_http_error *error);

#endif
