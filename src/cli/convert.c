/* cli/convert.c - foretoken convert: converts a Hugging Face checkpoint to a GGUF file. */
#include "tools/convert.h"
#include "base/buf.h"
#include "base/file.h"
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

static void report(const char *out, const ft_convert_result *r, const char *what)
{
    char size[24];
    printf("%s: %s, %zu tensors, %s, %s\n", out, r->arch, r->tensors, what,
           ft_human_bytes(size, r->bytes));
}

/* A file without its vocabulary, or without the layers, is only a part of a model. */
static bool is_whole(const ft_convert_opts *c)
{
    return !c->vocab_only && !c->no_vocab && c->mtp != FT_CONVERT_MTP_ONLY;
}

/* The vision tower in a file beside the model's: mmproj-NAME.gguf for NAME.gguf. */
static ft_status convert_tower(const char *dir, const char *out, ft_convert_opts c, bool quiet,
                               ft_err *err)
{
    const char *name = ft_file_name(out);
    ft_buf path;
    ft_buf_init(&path, 1 << 16);
    ft_buf_printf(&path, "%.*smmproj-%s", (int)(name - out), out, name);
    ft_convert_result r;
    c.vision = true;
    const ft_status st = ft_convert(dir, ft_buf_z(&path), &c, &r, err);
    if (!st && !quiet) report(ft_buf_z(&path), &r, r.type);
    ft_buf_release(&path);
    return st;
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
        .vision = ft_opts_flag(o, "mmproj-only"),
        .progress = quiet ? NULL : ft_bar_bytes,
    };
    const char *out = ft_opts_word(o, 1);
    ft_convert_result r;
    ft_err err;
    if (ft_convert(ft_opts_word(o, 0), out, &c, &r, &err)) return ft_die(&err);
    if (!quiet) report(out, &r, c.vocab_only ? "vocabulary only" : r.type);
    const bool tower = r.vision && !c.vision && !c.vocab_only && !ft_opts_flag(o, "no-mmproj");
    if (tower && convert_tower(ft_opts_word(o, 0), out, c, quiet, &err)) return ft_die(&err);
    if (!quiet && is_whole(&c)) ft_print_usage_of(out, ft_str_of(r.arch));
    return 0;
}
