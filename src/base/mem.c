#define _GNU_SOURCE
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void *gone(size_t bytes)
{
    fprintf(stderr, "foretoken: out of memory (%zu bytes wanted)\n", bytes);
    exit(1);
}

void *ft_try_alloc(size_t bytes)
{
    return calloc(1, bytes ? bytes : 1);
}

void *ft_alloc(size_t bytes)
{
    void *p = ft_try_alloc(bytes);
    return p ? p : gone(bytes);
}

void *ft_alloc_n(size_t n, size_t size)
{
    size_t bytes;
    if (!ft_mul_size(n, size, &bytes)) return gone(SIZE_MAX);
    return ft_alloc(bytes);
}

void *ft_realloc(void *p, size_t bytes)
{
    void *q = realloc(p, bytes ? bytes : 1);
    return q ? q : gone(bytes);
}

void *ft_alloc_aligned(size_t bytes, size_t align)
{
    void *p = NULL;
    if (posix_memalign(&p, align, bytes ? bytes : align)) return gone(bytes);
    memset(p, 0, bytes ? bytes : align);
    return p;
}

void ft_want_large_pages(void *p, size_t bytes)
{
    enum { PAGE = 4096 };
    const uintptr_t from = ft_round_up((uintptr_t)p, PAGE),
                    to = ((uintptr_t)p + bytes) / PAGE * PAGE;
    if (from < to) madvise((void *)from, to - from, MADV_HUGEPAGE);
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
