/* serve/rerank.h - ranking documents by a query: the prompts of the texts, and the list of scores.
 * serve/embed.c runs them. */
#ifndef FT_SERVE_RERANK_H
#define FT_SERVE_RERANK_H

#include "serve/prompts.h"

/* An array with the prompt of each document; NULL: the request is wrong. */
json_t *ft_rerank_prompts(const ft_served *d, const json_t *body, ft_http_error *error);
/* Most of the scores to return: all n, or top_n. */
bool ft_rerank_top(const json_t *body, int n, int *top, ft_http_error *error);
/* Sorted by score. A body with `texts` gets the answer of text-embeddings-inference, one with
 * `documents` that of Jina's API. */
json_t *ft_rerank_answer(const json_t *body, const char *model, const ft_prompts *p,
                         const float *score, int top);

#endif
