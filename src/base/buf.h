/* base/buf.h - a growable byte buffer with a maximum size set at initialisation.
 * Appending past the maximum sets `full` and drops the bytes: check once, at the end. The contents
 * are always followed by a zero byte, so data may be read as a C string. */
#ifndef FT_BASE_BUF_H
#define FT_BASE_BUF_H

#include "base/err.h"
#include "base/str.h"

typedef struct ft_buf {
    char *data; /* NULL until the first byte */
    size_t len, cap, max;
    bool full; /* bytes were dropped */
} ft_buf;

void ft_buf_init(ft_buf *b, size_t max);
void ft_buf_release(ft_buf *b);
void ft_buf_clear(ft_buf *b); /* len = 0, keeps the memory */
void ft_buf_put(ft_buf *b, const void *p, size_t n);
void ft_buf_puts(ft_buf *b, const char *z);
void ft_buf_putc(ft_buf *b, char c);
void ft_buf_put_str(ft_buf *b, ft_str s);
void ft_buf_printf(ft_buf *b, const char *fmt, ...) FT_PRINTF(2, 3);
const char *ft_buf_z(const ft_buf *b); /* "" when empty */
ft_str ft_buf_str(const ft_buf *b);    /* borrowed until the next change */
char *ft_buf_take(ft_buf *b); /* the caller owns the bytes (ft_free); the buffer is empty again */

#endif
