/* dev/profile.h - time, memory traffic and arithmetic of every op of a step. A profiled step waits
 * after each op, so it is slower than an ordinary one; the ops' shares are meaningful, the sum is
 * not. Only steps with `least` to `most` rows are profiled. Of several steps the shortest time of
 * each op and layer is kept, because other programs can only add to it; or only the last step with
 * the most rows counts. */
#ifndef FT_DEV_METER_H
#define FT_DEV_METER_H

#include "dev/dev.h"

#include <stdint.h>

typedef struct ft_profile_row {
    const char *op;
    int layer; /* -1: before the first layer, or in no layer */
    int calls;
    double bytes, flops;  /* of all steps */
    double seconds, best; /* of this step, of the fastest step */
} ft_profile_row;

enum { FT_PROFILE_ROWS = 4096 };

typedef struct ft_profile {
    int least, most;
    bool last; /* only the last of the steps with the most rows counts */
    int steps; /* profiled, */
    int rows;  /* and their rows in total */
    int n;
    bool on;      /* the current step is profiled */
    int64_t mark; /* time at which the current op began */
    ft_profile_row row[FT_PROFILE_ROWS];
} ft_profile;

/* Call before a step of T rows, and with T = 0 after the last one. */
void ft_profile_begin(ft_profile *m, int T);
/* Call after an op: waits until it has run and adds its time. */
void ft_profile_op(ft_profile *m, ft_dev *d, const char *op, int layer, double bytes, double flops);
/* The positions that attention reads in a step: `pairs` counts them for every row, `cells` counts
 * each position of a span once. */
typedef struct ft_attended {
    double pairs, cells;
} ft_attended;
ft_attended ft_profile_attended(const ft_batch *b, ft_attn p);

#endif
