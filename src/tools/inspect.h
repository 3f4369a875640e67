/* tools/inspect.h - reports the contents of a GGUF file as text or JSON, and extracts an MTP block
 * from a model file or merges one into it. The report works on any GGUF file, also of architectures
 * that this program cannot run. */
#ifndef FT_TOOLS_INSPECT_H
#define FT_TOOLS_INSPECT_H

#include "base/buf.h"
#include "base/progress.h"

#include <jansson.h>

typedef struct ft_inspect_opts {
    const char *path;
    bool use_mmap;
    uint32_t ctx; /* context length for which memory is estimated */
    bool json;
    bool check; /* read every tensor; a damaged one is reported as an error after the report */
    int threads;
    json_t *caches; /* for the JSON report: cache sizes; NULL: not known */
} ft_inspect_opts;

/* Appends the report to out. With check, FT_EFORMAT names the first damaged block; the report is
 * complete also in that case. */
ft_status ft_inspect(ft_buf *out, const ft_inspect_opts *o, ft_err *err);

/* The type of most weight bytes of a file; NULL: the file cannot be read. */
const char *ft_inspect_type(const char *path);

typedef struct ft_mtp_opts {
    const char *path; /* the model */
    const char *head; /* merge: the file with the MTP block */
    const char *out;
    bool use_mmap;
    int threads;
    ft_progress_fn *progress; /* NULL: not reported */
} ft_mtp_opts;

/* Writes the MTP block with the embedding, the output matrix, all keys and the tokenizer. */
ft_status ft_mtp_extract(const ft_mtp_opts *o, ft_err *err);
/* Writes the model with the MTP block of `head` after its own blocks. */
ft_status ft_mtp_merge(const ft_mtp_opts *o, ft_err *err);

#endif
