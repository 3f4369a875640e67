#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A message may quote a file or a request: control characters must neither end its line in a log
 * nor reach a terminal. */
static void remove_controls(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 127) *text = '?';
}

FT_PRINTF(3, 0) static void fill(ft_err *err, ft_status code, const char *fmt, va_list ap)
{
    err->code = code;
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    remove_controls(err->text);
}

ft_status ft_fail(ft_err *err, ft_status code, const char *fmt, ...)
{
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        fill(err, code, fmt, ap);
        va_end(ap);
    }
    return code;
}

ft_status ft_fail_errno(ft_err *err, const char *fmt, ...)
{
    const int e = errno;
    const bool full = e == ENOSPC || e == EDQUOT;
    const ft_status code = e == ENOMEM ? FT_ENOMEM : full ? FT_ENOSPC : FT_EIO;
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        fill(err, code, fmt, ap);
        va_end(ap);
        const size_t n = strlen(err->text);
        snprintf(err->text + n, sizeof err->text - n, ": %s", strerror(e));
    }
    return code;
}

void ft_err_prefix(ft_err *err, const char *fmt, ...)
{
    if (!err) return;
    char old[sizeof err->text];
    memcpy(old, err->text, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    remove_controls(err->text);
    const size_t n = strlen(err->text);
    snprintf(err->text + n, sizeof err->text - n, ": %s", old);
}
