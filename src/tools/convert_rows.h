/* tools/convert_rows.h - distributes the rows of many tensors over threads, piece by piece in file
 * order, so that a file of any size is processed with a few megabytes of memory per thread. */
#ifndef FT_TOOLS_CONVERT_ROWS_H
#define FT_TOOLS_CONVERT_ROWS_H

#include "base/pool.h"

#include <stdbool.h>

typedef struct ft_rows {
    int64_t rows;
    int64_t cols;
} ft_rows;

/* Rows of t in one piece: as many as contain half a million values, at least one. */
int64_t ft_rows_piece(const ft_rows *t);
/* The largest number of values in any piece of the n tensors: the buffer size a thread needs. */
int64_t ft_rows_values(const ft_rows *t, size_t n);

/* Processes rows [first, first + n) of a tensor; returning false stops all threads. */
typedef bool ft_rows_fn(void *arg, int thread, size_t tensor, int64_t first, int64_t n);
/* Calls fn for all rows of all tensors; returns when done or stopped. */
void ft_rows_run(ft_pool *pool, const ft_rows *t, size_t n, ft_rows_fn *fn, void *arg);

#endif
