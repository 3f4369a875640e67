#define _DEFAULT_SOURCE
#include "base/mem.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LARGE_PAGE ((size_t)2 << 20)

static void *out_of_memory(size_t bytes)
{
    ft_log(FT_LOG_ERROR, "out of memory (%zu bytes requested)", bytes);
    exit(1);
}

void *ft_try_alloc(size_t bytes)
{
    return calloc(1, bytes ? bytes : 1);
}

void *ft_alloc(size_t bytes)
{
    void *p = ft_try_alloc(bytes);
    return p ? p : out_of_memory(bytes);
}

void *ft_alloc_n(size_t n, size_t size)
{
    size_t bytes;
    if (!ft_mul_size(n, size, &bytes)) return out_of_memory(SIZE_MAX);
    return ft_alloc(bytes);
}

void *ft_realloc(void *p, size_t bytes)
{
    void *q = realloc(p, bytes ? bytes : 1);
    return q ? q : out_of_memory(bytes);
}

void *ft_alloc_aligned(size_t bytes, size_t align)
{
    void *p = NULL;
    if (posix_memalign(&p, align, bytes ? bytes : align)) return out_of_memory(bytes);
    memset(p, 0, bytes ? bytes : align);
    return p;
}

void *ft_try_alloc_large(size_t bytes)
{
    void *p = NULL;
    if (bytes < LARGE_PAGE / 4) return ft_try_alloc(bytes);
    if (bytes > SIZE_MAX - LARGE_PAGE) return NULL;
    const size_t room = ft_round_up(bytes, LARGE_PAGE);
    if (posix_memalign(&p, LARGE_PAGE, room)) return NULL;
#ifdef MADV_HUGEPAGE
    madvise(p, room, MADV_HUGEPAGE); /* before the first access; a failure only costs speed */
#endif
    return memset(p, 0, bytes);
}

void ft_want_large_pages(void *p, size_t bytes)
{
    enum { PAGE = 4096 };
    const uintptr_t from = ft_round_up((uintptr_t)p, PAGE),
                    to = ((uintptr_t)p + bytes) / PAGE * PAGE;
#ifdef MADV_HUGEPAGE
    if (from < to) madvise((void *)from, to - from, MADV_HUGEPAGE);
#else
    (void)from, (void)to;
#endif
}

void ft_free(void *p)
{
    free(p);
}

char *ft_strdup(const char *s)
{
    const size_t n = strlen(s) + 1;
    return memcpy(ft_alloc(n), s, n);
}
