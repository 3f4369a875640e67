/* kv/calibrate.h - how much of attention survives when keys are encoded: the correlation of its
 * scores with the true ones, layer by layer. The error of the keys themselves does not tell: a
 * large part common to all of them hides it and cancels in the softmax. That part can be taken away
 * before keys are stored, which is what the mean is for. */
#ifndef FT_KV_CALIBRATE_H
#define FT_KV_CALIBRATE_H

#include "dev/kv_row.h"
#include "dev/step.h"

/* What was found for a layer. */
typedef struct ft_kv_calibration {
    bool measured;
    double plain, centred; /* correlation of scores, keys as they are and without their mean */
    float *mean;           /* [G, d] */
} ft_kv_calibration;

/* The keys of one layer and the last queries that meet them, on the host. */
typedef struct ft_kv_sample {
    int H, G, d;
    int cells, rows; /* the last query sees every cell, the one before it all but one, ... */
    float *keys;     /* [G, cells, d] */
    float *q;        /* [rows, H, d] */
} ft_kv_sample;

/* From inside a probe of "query" (dev/step.h), of a step of one sequence: runs what has been
 * recorded so far. q is the probe's. */
ft_status ft_kv_sample_take(ft_kv_sample *out, const ft_step *s, int layer, ft_mat q, int rows,
                            ft_err *err);
void ft_kv_sample_release(ft_kv_sample *s);

/* mean[G, d] of the keys */
void ft_kv_sample_mean(const ft_kv_sample *s, float *mean);
/* Mean over heads and queries, for keys stored as t, without `mean` unless that is NULL. */
double ft_kv_sample_correlation(const ft_kv_sample *s, ft_kv_type t, const float *mean);

#endif
