/* base/log.h - messages for the person who runs the program.
 * Only cli/ prints. Everything else calls ft_log, and the program decides what becomes of a line;
 * without a function to call, lines are dropped. */
#ifndef FT_BASE_LOG_H
#define FT_BASE_LOG_H

#include "base/err.h"

typedef enum ft_log_level { FT_LOG_ERROR, FT_LOG_WARN, FT_LOG_INFO, FT_LOG_DEBUG } ft_log_level;

typedef void ft_log_fn(void *user, ft_log_level level, const char *line);
void ft_log_to(ft_log_fn *fn, void *user); /* NULL: nowhere */
void ft_log_max(ft_log_level level); /* lines above this level are dropped; FT_LOG overrides */
void ft_log(ft_log_level level, const char *fmt, ...) FT_PRINTF(2, 3);

#endif
