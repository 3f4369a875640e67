/* base/cursor.h - reads little-endian values from untrusted bytes.
 * A read past the end sets short_read, returns zero and does not advance; check once, at the
 * end. */
#ifndef FT_BASE_CURSOR_H
#define FT_BASE_CURSOR_H

#include "base/str.h"

typedef struct ft_cursor {
    const unsigned char *p;
    size_t n, pos;
    bool short_read;
} ft_cursor;

static inline ft_cursor ft_cursor_over(const void *p, size_t n)
{
    return (ft_cursor){.p = p, .n = n};
}

static inline size_t ft_cursor_left(const ft_cursor *c)
{
    return c->n - c->pos;
}

/* The next n bytes, or NULL (and short_read) when there are fewer. */
static inline const void *ft_cursor_bytes(ft_cursor *c, size_t n)
{
    if (c->short_read || n > c->n - c->pos) {
        c->short_read = true;
        return NULL;
    }
    const void *at = c->p + c->pos;
    c->pos += n;
    return at;
}

static inline uint64_t ft_cursor_uint(ft_cursor *c, size_t bytes)
{
    const unsigned char *b = ft_cursor_bytes(c, bytes);
    uint64_t v = 0;
    if (b)
        for (size_t i = 0; i < bytes; i++) v |= (uint64_t)b[i] << (8 * i);
    return v;
}

static inline uint8_t ft_cursor_u8(ft_cursor *c)
{
    return (uint8_t)ft_cursor_uint(c, 1);
}

static inline uint16_t ft_cursor_u16(ft_cursor *c)
{
    return (uint16_t)ft_cursor_uint(c, 2);
}

static inline uint32_t ft_cursor_u32(ft_cursor *c)
{
    return (uint32_t)ft_cursor_uint(c, 4);
}

static inline uint64_t ft_cursor_u64(ft_cursor *c)
{
    return ft_cursor_uint(c, 8);
}

#endif
