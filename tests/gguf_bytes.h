/* tests/gguf_bytes.h - builds valid and invalid GGUF files byte by byte. */
#ifndef FT_TESTS_GGUF_BYTES_H
#define FT_TESTS_GGUF_BYTES_H

#include "base/buf.h"
#include "gguf/gguf.h"

static inline void put_le(ft_buf *b, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++) ft_buf_putc(b, (char)(unsigned char)(v >> (8 * i)));
}

static inline void put_text(ft_buf *b, const char *z)
{
    put_le(b, strlen(z), 8);
    ft_buf_puts(b, z);
}

static inline void put_head(ft_buf *b, uint32_t version, uint64_t n_tensor, uint64_t n_kv)
{
    ft_buf_puts(b, "GGUF");
    put_le(b, version, 4);
    put_le(b, n_tensor, 8);
    put_le(b, n_kv, 8);
}

static inline void put_key(ft_buf *b, const char *key, uint32_t kind)
{
    put_text(b, key);
    put_le(b, kind, 4);
}

static inline void put_u32_key(ft_buf *b, const char *key, uint32_t v)
{
    put_key(b, key, FT_GGUF_U32);
    put_le(b, v, 4);
}

static inline void put_array_key(ft_buf *b, const char *key, uint32_t kind, uint64_t n)
{
    put_key(b, key, FT_GGUF_ARR);
    put_le(b, kind, 4);
    put_le(b, n, 8);
}

static inline void put_info(ft_buf *b, const char *name, int n_dims, const int64_t *n,
                            uint32_t type, uint64_t at)
{
    put_text(b, name);
    put_le(b, (uint64_t)n_dims, 4);
    for (int i = 0; i < n_dims; i++) put_le(b, (uint64_t)n[i], 8);
    put_le(b, type, 4);
    put_le(b, at, 8);
}

static inline void put_zeros(ft_buf *b, size_t n)
{
    for (size_t i = 0; i < n; i++) ft_buf_putc(b, 0);
}

static inline void put_pad(ft_buf *b, size_t align)
{
    while (b->len % align) ft_buf_putc(b, 0);
}

#endif
