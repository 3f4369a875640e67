/* base/log.h - log messages and progress reports of the library.
 * Modules below cli/ and serve/ do not print; they call these functions. A program can install a
 * log function; by default warnings go to standard error and all other levels are dropped. */
#ifndef FT_BASE_LOG_H
#define FT_BASE_LOG_H

#include "base/err.h"

typedef enum ft_log_level { FT_LOG_ERROR, FT_LOG_WARN, FT_LOG_INFO, FT_LOG_DEBUG } ft_log_level;

typedef void ft_log_fn(void *user, ft_log_level level, const char *line);
void ft_log_to(ft_log_fn *fn, void *user); /* fn NULL: restore the default */
void ft_log_max(ft_log_level level); /* lines above this level are dropped; FT_LOG overrides */
void ft_log(ft_log_level level, const char *fmt, ...) FT_PRINTF(2, 3);

/* Progress of a long operation. On a terminal: one line that is redrawn; otherwise one line for
 * every 10 %. Thread-safe. */
typedef struct ft_progress ft_progress;
ft_progress *ft_progress_new(const char *what, uint64_t total, bool bytes, bool quiet);
void ft_progress_add(ft_progress *p, uint64_t done);     /* p may be NULL */
void ft_progress_note(ft_progress *p, const char *note); /* shown after the bar */
void ft_progress_free(ft_progress *p);                   /* ends the line */

#endif
