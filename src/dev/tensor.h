/* dev/tensor.h - small values that name memory of a device: pointer, shape, stride. A view is
 * arithmetic on such a value; nothing here allocates or touches the memory. */
#ifndef FT_DEV_TENSOR_H
#define FT_DEV_TENSOR_H

#include "base/type.h"

#include <assert.h>

/* Activations, always f32: T rows of H heads of d values. A plain matrix has H == 1. */
typedef struct ft_mat {
    float *p;
    int T, H, d;
    int rs; /* values from one row to the next */
    int hs; /* values from one head to the next */
} ft_mat;

/* A parameter vector in f32; p == NULL where a model has none. */
typedef struct ft_vec {
    const float *p;
    int n;
} ft_vec;

/* A matrix (or E stacked ones) of any type in quant/, as the device keeps it. Row o of matrix e is
 * the weights of output o. */
typedef struct ft_weight {
    ft_type type;
    int n, k, E;        /* outputs, inputs, matrices (1 when not stacked) */
    const void *data;   /* on the device; plain file layout unless packed */
    size_t row_bytes;   /* bytes of a row in file layout */
    const float *scale; /* E factors on the result of each matrix, or NULL */
    void *packed;       /* the device's own layout, or NULL; owned by the device */
    int side;           /* of a device made of two: which one has it */
    bool lookup;        /* only embed reads it: no layout for products is made */
    bool rows;          /* single rows are read too, by embed or centroid_head */
    const char *name;   /* for messages and the per-op bench; borrowed */
} ft_weight;

static inline ft_mat ft_mat_at(float *p, int T, int n)
{
    return (ft_mat){p, T, 1, n, n, n};
}

static inline int ft_mat_cols(ft_mat m)
{
    return m.H * m.d;
}

/* n columns from column `from` on, as a plain matrix. m must have its heads side by side. */
static inline ft_mat ft_cols(ft_mat m, int from, int n)
{
    assert(m.hs == m.d && from + n <= m.H * m.d);
    return (ft_mat){m.p + from, m.T, 1, n, m.rs, n};
}

/* H heads of d values that stand `step` values apart, from column `from` on. */
static inline ft_mat ft_heads(ft_mat m, int from, int H, int d, int step)
{
    assert(m.hs == m.d && from + (H - 1) * step + d <= m.H * m.d);
    return (ft_mat){m.p + from, m.T, H, d, m.rs, step};
}

/* Rows [from, from + n). */
static inline ft_mat ft_rows(ft_mat m, int from, int n)
{
    assert(from + n <= m.T);
    m.p += (size_t)from * (size_t)m.rs;
    m.T = n;
    return m;
}

#endif
