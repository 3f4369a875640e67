/* base/log.h - what the modules below the programs want to say, and how far they are.
 * Nothing below cli/ and serve/ prints. They call these, and a program decides what becomes of it:
 * by default warnings go to standard error and everything else is dropped. */
#ifndef FT_BASE_LOG_H
#define FT_BASE_LOG_H

#include "base/err.h"

typedef enum ft_log_level { FT_LOG_ERROR, FT_LOG_WARN, FT_LOG_INFO, FT_LOG_DEBUG } ft_log_level;

typedef void ft_log_fn(void *user, ft_log_level level, const char *line);
void ft_log_to(ft_log_fn *fn, void *user); /* fn NULL: the default again */
void ft_log_max(ft_log_level level); /* lines above this level are dropped; FT_LOG overrides */
void ft_log(ft_log_level level, const char *fmt, ...) FT_PRINTF(2, 3);

/* Progress of something long. On a terminal one line that redraws itself, else a plain line for
 * every tenth. Safe from many threads. */
typedef struct ft_progress ft_progress;
ft_progress *ft_progress_new(const char *what, uint64_t total, bool bytes, bool quiet);
void ft_progress_add(ft_progress *p, uint64_t done);     /* p may be NULL */
void ft_progress_note(ft_progress *p, const char *note); /* shown behind the bar */
void ft_progress_free(ft_progress *p);                   /* ends the line */

#endif
