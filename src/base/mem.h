/* base/mem.h - memory allocation and overflow-checked size arithmetic.
 * ft_new, ft_alloc and ft_realloc are for sizes that the program chose: they abort the program when
 * memory is exhausted, and the first two return zeroed memory. Sizes that come from files or
 * requests go through ft_mul_size and ft_try_alloc, which report failure to the caller. */
#ifndef FT_BASE_MEM_H
#define FT_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ft_new(T)      ((T *)ft_alloc(sizeof(T)))
#define ft_new_n(T, n) ((T *)ft_alloc_n((n), sizeof(T)))
#define FT_COUNT(a)    (sizeof(a) / sizeof(a)[0])
#define FT_MIN(a, b)   ((a) < (b) ? (a) : (b))
#define FT_MAX(a, b)   ((a) > (b) ? (a) : (b))

void *ft_alloc(size_t bytes);                       /* zeroed, never NULL */
void *ft_alloc_n(size_t n, size_t size);            /* zeroed, never NULL */
void *ft_realloc(void *p, size_t bytes);            /* never NULL; new bytes are not zeroed */
void *ft_try_alloc(size_t bytes);                   /* zeroed, NULL when memory is exhausted */
void *ft_alloc_aligned(size_t bytes, size_t align); /* zeroed, never NULL; ft_free releases it */
/* As ft_try_alloc, in large pages where the system supports them: for tables with random access. */
void *ft_try_alloc_large(size_t bytes);
/* Requests large pages for memory that is read sequentially; the system may ignore it. */
void ft_want_large_pages(void *p, size_t bytes);
void ft_free(void *p);          /* accepts NULL */
char *ft_strdup(const char *s); /* never NULL */

/* false on overflow, *out is then untouched */
static inline bool ft_mul_size(size_t a, size_t b, size_t *out)
{
    size_t r;
    if (__builtin_mul_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

static inline bool ft_add_size(size_t a, size_t b, size_t *out)
{
    size_t r;
    if (__builtin_add_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

/* x rounded up to a multiple of align (a power of two). The caller ensures that it does not
 * overflow. */
/* A number below 2^bits for an address, all bits of which count: those of large blocks end with
 * many zeros. */
static inline size_t ft_hash_address(const void *p, int bits)
{
    const uint64_t odd = 0x9e3779b97f4a7c15u;
    uint64_t x = (uintptr_t)p;
    x = (x ^ x >> 32) * odd;
    x = (x ^ x >> 29) * odd;
    return (size_t)(x >> (64 - bits));
}

static inline size_t ft_round_up(size_t x, size_t align)
{
    return (x + align - 1) & ~(align - 1);
}

#endif
