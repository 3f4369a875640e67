/* tools/inspect.h - what is in a GGUF file, in words or as JSON; and the drafter of a model taken
 * out of its file or put into one. Works on any GGUF, also of architectures nobody here runs. */
#ifndef FT_TOOLS_INSPECT_H
#define FT_TOOLS_INSPECT_H

#include "base/buf.h"
#include "base/progress.h"

#include <jansson.h>

typedef struct ft_inspect_opts {
    const char *path;
    bool use_mmap;
    uint32_t ctx; /* context length to count memory for */
    bool json;
    bool check; /* read every tensor; a damaged one is an error after the report */
    int threads;
    json_t *caches; /* for the JSON report: what caches take; NULL: not known */
} ft_inspect_opts;

/* Appends the report to out. With check, FT_EFORMAT names the first damaged block; the report is
 * complete all the same. */
ft_status ft_inspect(ft_buf *out, const ft_inspect_opts *o, ft_err *err);

typedef struct ft_mtp_opts {
    const char *path; /* the model */
    const char *head; /* merge: the file that has the drafter */
    const char *out;
    bool use_mmap;
    int threads;
    ft_progress_fn *progress; /* NULL: not reported */
} ft_mtp_opts;

/* The MTP block with the embedding, the output matrix, all keys and the tokenizer. */
ft_status ft_mtp_extract(const ft_mtp_opts *o, ft_err *err);
/* The model with the block of `head` behind its own. */
ft_status ft_mtp_merge(const ft_mtp_opts *o, ft_err *err);

#endif
