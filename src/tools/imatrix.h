/* tools/imatrix.h - an importance matrix: the importance of each column of each weight matrix, as
 * the mean square of its input activations. Reads the GGUF form: for a tensor NAME the sums
 * NAME.in_sum2 [columns, matrices] and NAME.counts [1, matrices]. */
#ifndef FT_TOOLS_IMATRIX_H
#define FT_TOOLS_IMATRIX_H

#include "base/err.h"
#include "base/str.h"

typedef struct ft_imatrix ft_imatrix;

ft_status ft_imatrix_open(ft_imatrix **out, const char *path, ft_err *err);
void ft_imatrix_close(ft_imatrix *m); /* accepts NULL */

size_t ft_imatrix_n(const ft_imatrix *m);
uint32_t ft_imatrix_chunks(const ft_imatrix *m); /* 0: not in the file */
ft_str ft_imatrix_dataset(const ft_imatrix *m);  /* empty: not in the file */

/* `cols` importances for each of `mats` matrices, or NULL when the file has none for the tensor. A
 * different shape in the file is an error. Borrowed until close. */
ft_status ft_imatrix_find(const ft_imatrix *m, ft_str name, int64_t cols, int64_t mats,
                          const float **out, ft_err *err);

#endif
