/* tools/convert.h - converts a Hugging Face model folder into one GGUF file.
 * Tensors are streamed in pieces of a few megabytes per thread. The output file appears only when
 * it is complete. */
#ifndef FT_TOOLS_CONVERT_H
#define FT_TOOLS_CONVERT_H

#include "base/err.h"
#include "base/progress.h"

typedef enum ft_convert_mtp {
    FT_CONVERT_MTP_KEEP,
    FT_CONVERT_MTP_DROP,
    FT_CONVERT_MTP_ONLY
} ft_convert_mtp;

typedef struct ft_convert_opts {
    const char *outtype; /* "f32", "f16", "bf16", "q8_0"; NULL or "auto": as in the checkpoint */
    ft_convert_mtp mtp;
    bool vocab_only;          /* keys and vocabulary, no tensors; the folder needs no weights */
    bool no_vocab;            /* the folder needs no tokenizer */
    bool vision;              /* the vision tower alone: a file of type mmproj; "auto" is BF16 */
    int threads;              /* 0: one per core */
    ft_progress_fn *progress; /* NULL: not reported */
} ft_convert_opts;

typedef struct ft_convert_result {
    uint64_t bytes; /* of the file */
    size_t tensors;
    const char *arch, *type; /* "qwen35", "BF16": static */
    bool vision;             /* the folder has a vision tower too */
} ft_convert_result;

/* result may be NULL */
ft_status ft_convert(const char *dir, const char *out, const ft_convert_opts *o,
                     ft_convert_result *result, ft_err *err);

#endif
