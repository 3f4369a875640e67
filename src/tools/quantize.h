/* tools/quantize.h - a GGUF file becomes another one with other tensor types.
 * Opening makes the plan: every tensor with its type before and after. Writing carries it out, all
 * cores on the rows of each tensor, and the file appears when it is complete. Integers and whatever
 * mix.h keeps are copied as they are. */
#ifndef FT_TOOLS_QUANTIZE_H
#define FT_TOOLS_QUANTIZE_H

#include "base/err.h"
#include "base/progress.h"
#include "base/type.h"

typedef struct ft_quantize_opts {
    const char *mix;                /* "Q4_K_M" */
    const char *const *tensor_type; /* "PATTERN=TYPE": the first pattern that a name matches wins */
    int n_tensor_type;
    const char *tensor_type_file; /* more of them, one on a line; NULL for none */
    const char *output_type;      /* for output.weight, or NULL */
    const char *embedding_type;   /* for the token embeddings, or NULL */
    const char *imatrix;          /* a file, or NULL */
    bool keep_mtp;         /* the MTP block and projections at Q8_0: drafts are cheap, misses not */
    bool pure;             /* one type for all, no mix */
    bool leave_output;     /* output.weight stays as it is */
    bool allow_requantize; /* from one block type to another: loses twice */
    int threads;           /* 0: one per core */
    ft_progress_fn *progress; /* NULL: not reported */
} ft_quantize_opts;

typedef struct ft_quantize_row {
    ft_str name; /* borrowed until close */
    int64_t n[4];
    int n_dims;
    ft_type from, to;
    size_t bytes_from, bytes_to;
    bool weighted; /* by the importance matrix */
} ft_quantize_row;

typedef struct ft_quantize ft_quantize;

ft_status ft_quantize_open(ft_quantize **out, const char *in, const ft_quantize_opts *o,
                           ft_err *err);
void ft_quantize_close(ft_quantize *q); /* accepts NULL */
size_t ft_quantize_n(const ft_quantize *q);
const ft_quantize_row *ft_quantize_at(const ft_quantize *q, size_t i);
ft_status ft_quantize_write(ft_quantize *q, const char *out, uint64_t *bytes, ft_err *err);

#endif
