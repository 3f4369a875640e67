/* tools/quantize.h - converts a GGUF file to one with other tensor types.
 * Opening makes the plan: the type of every tensor before and after. Writing executes it with all
 * cores on the rows of each tensor; the output file appears only when it is complete. Integer
 * tensors and those for which ft_mix_keeps() is true are copied unchanged. */
#ifndef FT_TOOLS_QUANTIZE_H
#define FT_TOOLS_QUANTIZE_H

#include "base/err.h"
#include "base/progress.h"
#include "base/type.h"

typedef struct ft_quantize_opts {
    const char *mix; /* "Q4_K_M" */
    const char *const
        *tensor_type; /* "PATTERN=TYPE": the first pattern that matches a name applies */
    int n_tensor_type;
    const char *tensor_type_file; /* a file with more of them, one per line; NULL for none */
    const char *output_type;      /* for output.weight, or NULL */
    const char *embedding_type;   /* for the token embeddings, or NULL */
    const char *imatrix;          /* a file, or NULL */
    bool keep_mtp;         /* MTP block and projections as Q8_0: keeps the acceptance rate high */
    bool pure;             /* one type for all tensors, no mix rules */
    bool leave_output;     /* output.weight keeps its type */
    bool allow_requantize; /* accept quantised sources: precision is lost a second time */
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
void ft_quantize_close(ft_quantize *q);        /* accepts NULL */
ft_str ft_quantize_arch(const ft_quantize *q); /* "qwen35"; borrowed until close */
size_t ft_quantize_n(const ft_quantize *q);
const ft_quantize_row *ft_quantize_at(const ft_quantize *q, size_t i);
ft_status ft_quantize_write(ft_quantize *q, const char *out, uint64_t *bytes, ft_err *err);

#endif
