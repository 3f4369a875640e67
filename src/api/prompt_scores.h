/* api/prompt_scores.h - log probabilities of the tokens of a prompt. Those of recent prompts are
 * stored, so that prompts with a common beginning, such as the candidates of a question, are scored
 * from where they differ, and the engine can reuse the cached context before that. */
#ifndef FT_API_PROMPT_SCORES_H
#define FT_API_PROMPT_SCORES_H

#include "api/generate.h"
#include "api/model.h"

/* Allocates a->score and fills what an earlier prompt has in common with this one. */
void ft_scores_begin(ft_generate *a, ft_llm *m);
/* ft_task.scored, with the ft_generate as user */
void ft_scores_put(void *user, int i, const ft_logprob *p, int n);
/* The prompt was read: stores the scores. */
void ft_scores_end(const ft_generate *a, ft_llm *m);
void ft_scores_free(struct ft_score_store *s); /* accepts NULL */

#endif
