/* tools/synth.h - writes a model with the dimensions of a known model and random weights, for
 * benchmarks, memory measurements and tests. The same seed gives the same file. */
#ifndef FT_TOOLS_SYNTH_H
#define FT_TOOLS_SYNTH_H

#include "base/err.h"
#include "base/progress.h"

typedef struct ft_synth_opts {
    const char *shape; /* see tools/shapes.c */
    const char *type; /* of the matrices: "Q4_K", or a mix such as "Q4_K_M", which means its base */
    const char *path;
    uint64_t seed;
    bool mtp;   /* with the MTP block, where the family has one */
    bool mix;   /* every matrix gets another type, cycling through all types from `type` on */
    bool blank; /* all weights are zero: a sparse file, for tests that read none of them */
    int threads;
    ft_progress_fn *progress; /* NULL: not reported */
    bool dry_run;             /* only compute the size */
} ft_synth_opts;

typedef struct ft_synth_result {
    uint64_t bytes; /* of the file; of the tensors alone for a dry run */
    uint64_t parameters;
    size_t tensors;
} ft_synth_result;

ft_status ft_synth(ft_synth_result *out, const ft_synth_opts *o, ft_err *err);

#endif
