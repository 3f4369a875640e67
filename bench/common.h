/* bench/common.h - what several benches need: sorted times, lists of numbers, and an end at the
 * first error. */
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

/* Whole numbers from `least` on, separated by commas, at most `max` of them: how many, or 0 if text
 * is anything else. */
static inline int parse_ints(const char *text, int least, int *out, int max)
{
    int n = 0;
    for (const char *p = text; n < max; p++) {
        char *end;
        out[n++] = (int)strtol(p, &end, 10);
        if (end == p || out[n - 1] < least || (*end && *end != ',')) return 0;
        if (!*end) return n;
        p = end;
    }
    return 0;
}

#endif
