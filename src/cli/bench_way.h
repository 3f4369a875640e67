/* cli/bench_way.h - the ways of drafting that are compared: none, adaptive, and fixed numbers of
 * draft tokens. */
#ifndef FT_CLI_BENCH_WAY_H
#define FT_CLI_BENCH_WAY_H

#include <jansson.h>
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

/* Adds the way of a run to the list of runs, which shows that they were interleaved. */
static inline void way_run(json_t *order, int way)
{
    char name[16];
    way_name(name, way);
    json_array_append_new(order, json_string(name));
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
