/* bench/common.h - what several benches need: sorted times, and an end at the first error. */
#ifndef FT_BENCH_COMMON_H
#define FT_BENCH_COMMON_H

#include "foretoken.h"

#include <stdio.h>
#include <stdlib.h>

/* For qsort: doubles in ascending order. */
static inline int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline void stop_on(ft_status st, const ft_err *err)
{
    if (!st) return;
    fprintf(stderr, "%s\n", err->text);
    exit(1);
}

#endif
