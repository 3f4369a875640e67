/* engine/micro.h - micro-batches: a step of a model whose layers are on several devices is cut into
 * parts, which follow each other through the devices: while one device computes its layers for
 * part A, the device before it computes part B. A row's results do not depend on the other rows of
 * its part, so cutting changes nothing but the time.
 * A sequence's rows stay together, except those of a prompt, which are cut at multiples of
 * FT_CHUNK_ROWS positions. Where decode steps are faster in parts depends on the devices: a device
 * that mostly reads weights takes as long for half of the rows. Both ways are measured. */
#ifndef FT_ENGINE_MICRO_H
#define FT_ENGINE_MICRO_H

#include "dev/batch.h"

struct ft_rowset;

enum {
    FT_MICRO_MAX = 32,    /* parts of a step */
    FT_MICRO_CHOICES = 3, /* whole, one part per device, two parts per device */
    FT_MICRO_SIZES = 16,  /* numbers of rows, by powers of two */
    FT_MICRO_ABOVE = 64,  /* captured steps of up to this many rows stay whole */
};

/* A part: rows [row, row + T) of the step, its output rows [out, out + n_out) and its spans. */
typedef struct ft_micro_part {
    int row, T, out, n_out, span, S;
} ft_micro_part;

/* The parts of a step. Arrays are indexed as those of the whole step; rows and spans in them count
 * from the beginning of their part. */
typedef struct ft_micro {
    ft_micro_part part[FT_MICRO_MAX];
    int n;
    ft_span *span; /* [rows + FT_MICRO_MAX] */
    int32_t *span_of, *out_row;
} ft_micro;

void ft_micro_init(ft_micro *m, int rows, int out); /* maximum sizes of a step */
void ft_micro_release(ft_micro *m);
/* Cuts the step into up to `most` parts of about the same size; returns their number. 1: it cannot
 * be cut, and m is not filled. */
int ft_micro_cut(ft_micro *m, const struct ft_rowset *w, int most);

/* Times of decode steps. */
typedef struct ft_micro_times {
    double row_s[FT_MICRO_SIZES][FT_MICRO_CHOICES]; /* seconds per row */
    unsigned n[FT_MICRO_SIZES][FT_MICRO_CHOICES];
    unsigned steps;
} ft_micro_times;

/* How a step of T rows is cut: each way is measured at first and from time to time, else the
 * fastest is taken. */
int ft_micro_choose(ft_micro_times *t, int T);
void ft_micro_timed(ft_micro_times *t, int T, int choice, double seconds);

#endif
