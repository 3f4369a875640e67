/* tools/convert_rows.h - the rows of many tensors, handed out to threads piece by piece in file
 * order, so that a file of any size is worked on with a few megabytes per thread. */
#ifndef FT_TOOLS_CONVERT_ROWS_H
#define FT_TOOLS_CONVERT_ROWS_H

#include "base/pool.h"

#include <stdbool.h>

typedef struct ft_rows {
    int64_t rows;
    int64_t cols;
} ft_rows;

/* Rows of t in one piece: as many as hold half a million values, at least one. */
int64_t ft_rows_piece(const ft_rows *t);
/* The most values in any piece of the n tensors: what a thread's buffer has to hold. */
int64_t ft_rows_values(const ft_rows *t, size_t n);

/* Works on rows [first, first + n) of a tensor; false stops the handing out. */
typedef bool ft_rows_fn(void *arg, int thread, size_t tensor, int64_t first, int64_t n);
/* Calls fn for all rows of all tensors; returns when done or stopped. */
void ft_rows_run(ft_pool *pool, const ft_rows *t, size_t n, ft_rows_fn *fn, void *arg);

#endif
