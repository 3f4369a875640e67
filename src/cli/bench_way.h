/* cli/bench_way.h - what is compared where drafting is timed: no drafts, the governor's choice, and
 * fixed numbers of drafts. */
#ifndef FT_CLI_BENCH_WAY_H
#define FT_CLI_BENCH_WAY_H

#include <stdio.h>

static inline double ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

static inline void way_name(char out[16], int way)
{
    if (way < 2)
        snprintf(out, 16, "%s", way ? "governed" : "off");
    else
        snprintf(out, 16, "K = %d", way - 1);
}

#endif
