/* dev/tensor.h - descriptors of device memory, passed by value: pointer, shape, strides. A view is
 * another descriptor of the same memory; nothing here allocates or accesses it. */
#ifndef FT_DEV_TENSOR_H
#define FT_DEV_TENSOR_H

#include "base/type.h"

#include <assert.h>

enum { FT_OPERAND_ROWS = 64 };

/* Activations, always f32: T rows of H heads of d values. A plain matrix has H == 1. */
typedef struct ft_mat {
    float *p;
    int T, H, d;
    int rs; /* values from one row to the next */
    int hs; /* values from one head to the next */
    /* Only products with rounded weights read it: a device that has `dense` stores it in a format
     * of its own. Written by layernorm, rmsnorm, norm_add (its norms), clamp, dense, glu and
     * attend_image, not in place. It has memory for a multiple of FT_OPERAND_ROWS rows, and rows
     * are viewed from such multiples on. */
    bool operand;
} ft_mat;

/* A parameter vector in f32; p == NULL: the model has none. */
typedef struct ft_vec {
    const float *p;
    int n;
} ft_vec;

/* A weight matrix (or E stacked ones) of any type in quant/, as the device stores it. Row o of
 * matrix e holds the weights of output o. */
typedef struct ft_weight {
    ft_type type;
    int n, k, E;          /* outputs, inputs, matrices (1 when not stacked) */
    const void *data;     /* on the device; in file layout unless packed */
    size_t row_bytes;     /* bytes of a row in file layout */
    const float *scale;   /* E factors on the result of each matrix, or NULL */
    void *packed;         /* repacked by the device, or NULL; owned by the device */
    int side;             /* on a split device: which of its devices has it */
    bool lookup;          /* only embed reads it: it is not repacked for products */
    bool rows;            /* single rows are read too, by embed or centroid_head */
    bool rounded;         /* products may round it and their inputs to f16: vision towers */
    const char *name;     /* for messages and the op benchmark; borrowed */
    struct ft_lora *lora; /* what adapters add to it; NULL: nothing */
} ft_weight;

/* What one adapter adds to a weight W: (W + scale B A) x, with a scale for each row x. A is [r, k]
 * and B is [n, r]. Of a table that is looked up by token, A is [n, r] and B is [k, r]. */
typedef struct ft_lora {
    int adapter; /* its number */
    ft_weight a, b;
    struct ft_lora *next; /* of the same weight, another adapter's */
} ft_lora;

static inline ft_mat ft_mat_at(float *p, int T, int n)
{
    return (ft_mat){p, T, 1, n, n, n, false};
}

static inline int ft_mat_cols(ft_mat m)
{
    return m.H * m.d;
}

/* Bytes from the first value to behind the last one, gaps between rows and heads included. */
static inline size_t ft_mat_extent(ft_mat m)
{
    if (!m.T) return 0;
    const size_t last = (size_t)(m.T - 1) * (size_t)m.rs + (size_t)(m.H - 1) * (size_t)m.hs;
    return (last + (size_t)m.d) * sizeof(float);
}

/* n columns from column `from` on, as a plain matrix. The heads of m must be contiguous. */
static inline ft_mat ft_cols(ft_mat m, int from, int n)
{
    assert(m.hs == m.d && from + n <= m.H * m.d && !m.operand);
    return (ft_mat){m.p + from, m.T, 1, n, m.rs, n, false};
}

/* H heads of d values, `step` values apart, from column `from` on. */
static inline ft_mat ft_heads(ft_mat m, int from, int H, int d, int step)
{
    assert(m.hs == m.d && from + (H - 1) * step + d <= m.H * m.d);
    assert(!m.operand || (!from && step == d && H * d == m.H * m.d));
    return (ft_mat){m.p + from, m.T, H, d, m.rs, step, m.operand};
}

/* Rows [from, from + n). */
static inline ft_mat ft_rows(ft_mat m, int from, int n)
{
    assert(from + n <= m.T && (!m.operand || from % FT_OPERAND_ROWS == 0));
    m.p += (size_t)from * (size_t)m.rs;
    m.T = n;
    return m;
}

#endif
