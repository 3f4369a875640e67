/* cli/convert.c - foretoken convert: converts a Hugging Face checkpoint to a GGUF file. */
#include "tools/convert.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/cmd.h"
#include "cli/progress.h"

#include <stdio.h>
#include <string.h>

static ft_convert_mtp mtp_of(const char *word)
{
    if (!strcmp(word, "drop")) return FT_CONVERT_MTP_DROP;
    return strcmp(word, "only") ? FT_CONVERT_MTP_KEEP : FT_CONVERT_MTP_ONLY;
}

int ft_cmd_convert(const ft_opts *o)
{
    const bool quiet = ft_opts_flag(o, "quiet");
    const ft_convert_opts c = {
        .outtype = ft_opts_text(o, "outtype"),
        .mtp = mtp_of(ft_opts_text(o, "convert-mtp")),
        .vocab_only = ft_opts_flag(o, "vocab-only"),
        .no_vocab = ft_opts_flag(o, "no-vocab"),
        .threads = (int)ft_opts_int(o, "threads"),
        .progress = quiet ? NULL : ft_bar_bytes,
    };
    const char *out = ft_opts_word(o, 1);
    ft_convert_result r;
    ft_err err;
    if (ft_convert(ft_opts_word(o, 0), out, &c, &r, &err)) return ft_die(&err);
    char size[24];
    if (!quiet)
        printf("%s: %s, %zu tensors, %s, %s\n", out, r.arch, r.tensors,
               c.vocab_only ? "vocabulary only" : r.type, ft_human_bytes(size, r.bytes));
    return 0;
}
