#include "base/buf.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>

void ft_buf_init(ft_buf *b, size_t max)
{
    *b = (ft_buf){.max = max};
}

void ft_buf_release(ft_buf *b)
{
    ft_free(b->data);
    *b = (ft_buf){.max = b->max};
}

void ft_buf_clear(ft_buf *b)
{
    b->len = 0;
    b->full = false;
    if (b->data) b->data[0] = 0;
}

/* Makes space for n more bytes and the terminator; false when that would exceed the maximum. */
static bool reserve(ft_buf *b, size_t n)
{
    if (b->full || n > b->max - b->len) {
        b->full = true;
        return false;
    }
    const size_t want = b->len + n + 1;
    if (want > b->cap) {
        size_t cap = b->cap ? b->cap + b->cap / 2 : 64;
        if (cap < want) cap = want;
        b->data = ft_realloc(b->data, cap);
        b->cap = cap;
    }
    return true;
}

void ft_buf_put(ft_buf *b, const void *p, size_t n)
{
    if (!reserve(b, n)) return;
    if (n) memcpy(b->data + b->len, p, n);
    b->len += n;
    b->data[b->len] = 0;
}

void ft_buf_puts(ft_buf *b, const char *z)
{
    ft_buf_put(b, z, strlen(z));
}

void ft_buf_putc(ft_buf *b, char c)
{
    ft_buf_put(b, &c, 1);
}

void ft_buf_put_str(ft_buf *b, ft_str s)
{
    ft_buf_put(b, s.p, s.n);
}

void ft_buf_printf(ft_buf *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    const int n = vsnprintf(NULL, 0, fmt, ap);
    if (n >= 0 && reserve(b, (size_t)n)) {
        vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
    va_end(ap);
}

const char *ft_buf_z(const ft_buf *b)
{
    return b->data ? b->data : "";
}

ft_str ft_buf_str(const ft_buf *b)
{
    return (ft_str){ft_buf_z(b), b->len};
}

char *ft_buf_take(ft_buf *b)
{
    char *p = b->data ? b->data : ft_alloc(1);
    *b = (ft_buf){.max = b->max};
    return p;
}
