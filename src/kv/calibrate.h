/* kv/calibrate.h - how well attention survives an encoding of the keys: the correlation of the
 * attention scores with the exact ones, layer by layer. The error of the keys themselves is
 * misleading: a large component common to all keys dominates it and cancels in the softmax. That
 * component, the mean, can be subtracted before keys are stored. */
#ifndef FT_KV_CALIBRATE_H
#define FT_KV_CALIBRATE_H

#include "dev/kv_row.h"
#include "dev/step.h"

/* The measurements of one layer. */
typedef struct ft_kv_calibration {
    bool measured;
    double plain, centred; /* correlation of scores with the keys as they are, and without their
                            * mean */
    float *mean;           /* [G, d] */
} ft_kv_calibration;

/* The keys of one layer and the last queries that attend to them, in host memory. */
typedef struct ft_kv_sample {
    int H, G, d;
    int cells, rows; /* the last query sees every position, the one before it all but one, ... */
    float *keys;     /* [G, cells, d] */
    float *q;        /* [rows, H, d] */
} ft_kv_sample;

/* Call it from a probe of "query" (dev/step.h), in a step of one sequence: it runs what has been
 * recorded so far. q is the probe's. */
ft_status ft_kv_sample_take(ft_kv_sample *out, const ft_step *s, int layer, ft_mat q, int rows,
                            ft_err *err);
void ft_kv_sample_release(ft_kv_sample *s);

/* mean[G, d] of the keys */
void ft_kv_sample_mean(const ft_kv_sample *s, float *mean);
/* Mean over heads and queries, for keys stored as t; mean: subtracted first, unless NULL. */
double ft_kv_sample_correlation(const ft_kv_sample *s, ft_kv_type t, const float *mean);

#endif
