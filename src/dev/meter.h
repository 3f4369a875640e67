/* dev/meter.h - what every op of a step takes: time, bytes of memory, arithmetic. A step with a
 * meter waits after each op, so it is slower than one without; the ops' shares are what counts.
 * Steps whose number of rows is outside [least, most] pass unseen. Of several steps the quickest
 * time of each row counts: other programs can only disturb. */
#ifndef FT_DEV_METER_H
#define FT_DEV_METER_H

#include "dev/dev.h"

#include <stdint.h>

typedef struct ft_meter_row {
    const char *op;
    int layer; /* -1: before the first, or not of a layer */
    int calls;
    double bytes, flops;  /* of all steps */
    double seconds, best; /* of this step, of the quickest */
} ft_meter_row;

enum { FT_METER_ROWS = 4096 };

typedef struct ft_meter {
    int least, most;
    int steps; /* seen, */
    int rows;  /* and theirs together */
    int n;
    bool on; /* the step that runs is seen */
    int64_t mark;
    ft_meter_row row[FT_METER_ROWS];
} ft_meter;

/* Before a step of T rows; with T = 0 after the last one. */
void ft_meter_begin(ft_meter *m, int T);
/* After an op: runs it and adds it up. */
void ft_meter_op(ft_meter *m, ft_dev *d, const char *op, int layer, double bytes, double flops);
/* Cells that the rows of the step that is being recorded see, all of them together, and each cell
 * of a span once. */
typedef struct ft_seen {
    double pairs, cells;
} ft_seen;
ft_seen ft_meter_seen(const ft_batch *b, ft_attn p);

#endif
