/* base/progress.h - how far a long operation has come, reported to a function of the caller.
 * Any number of threads may add to one; the function is called by one of them at a time. */
#ifndef FT_BASE_PROGRESS_H
#define FT_BASE_PROGRESS_H

#include <stdint.h>

/* what: a name for people, NULL in the last call, which comes on success and on failure. */
typedef void ft_progress_fn(void *user, const char *what, uint64_t done, uint64_t total);

typedef struct ft_progress ft_progress;

/* NULL when fn is NULL; `what` is borrowed. */
ft_progress *ft_progress_new(const char *what, uint64_t total, ft_progress_fn *fn, void *user);
void ft_progress_add(ft_progress *p, uint64_t done); /* accepts NULL */
void ft_progress_free(ft_progress *p);               /* accepts NULL */

#endif
