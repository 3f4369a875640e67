/* cli/bench_way.h - the ways of drafting that are compared: none, adaptive, and fixed numbers of
 * draft tokens. */
#ifndef FT_CLI_BENCH_WAY_H
#define FT_CLI_BENCH_WAY_H

#include <stdio.h>

static inline double ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

/* In JSON the adaptive way is called "governed", as it always was. */
static inline void way_name(char out[16], int way)
{
    if (way < 2)
        snprintf(out, 16, "%s", way ? "governed" : "off");
    else
        snprintf(out, 16, "K = %d", way - 1);
}

/* For tables. */
static inline void way_title(char out[16], int way)
{
    if (way == 1)
        snprintf(out, 16, "adaptive");
    else
        way_name(out, way);
}

#endif
