/* base/err.h - how a failure is reported: the functions that fill an ft_err (base/status.h).
 * A message names the thing, the value found and the value wanted; lower case, no newline. */
#ifndef FT_BASE_ERR_H
#define FT_BASE_ERR_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FT_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* Fills err (when not NULL) and returns code, so that failing is one line. */
ft_status ft_fail(ft_err *err, ft_status code, const char *fmt, ...) FT_PRINTF(3, 4);
/* The same with ": " and the text of errno appended; the code is FT_EIO, or FT_ENOMEM for ENOMEM.
 */
ft_status ft_fail_errno(ft_err *err, const char *fmt, ...) FT_PRINTF(2, 3);
/* Puts "text: " in front of the message already in err. */
void ft_err_prefix(ft_err *err, const char *fmt, ...) FT_PRINTF(2, 3);

#endif
