/* cli/synth.c - foretoken synth: writes a model with random weights. */
#include "tools/synth.h"

#include "base/str.h"
#include "cli/cmd.h"
#include "cli/progress.h"

#include <stdio.h>

int ft_cmd_synth(const ft_opts *o)
{
    const bool dry = ft_opts_flag(o, "dry-run");
    ft_err err;
    if (!dry && ft_opts_n_word(o) < 3) {
        ft_fail(&err, FT_EINVAL,
                "synth: no output file, want: foretoken synth SHAPE TYPE OUT.gguf");
        return ft_die(&err);
    }
    const bool quiet = ft_opts_flag(o, "quiet");
    const ft_synth_opts s = {
        .shape = ft_opts_word(o, 0),
        .type = ft_opts_word(o, 1),
        .path = ft_opts_word(o, 2),
        .seed = (uint64_t)ft_opts_int(o, "seed"),
        .mtp = !ft_opts_flag(o, "no-mtp"),
        .mix = ft_opts_flag(o, "mix"),
        .threads = (int)ft_opts_int(o, "threads"),
        .progress = quiet ? NULL : ft_bar_bytes,
        .dry_run = dry,
    };
    ft_synth_result r;
    if (ft_synth(&r, &s, &err)) return ft_die(&err);
    char size[24];
    if (dry || !quiet)
        printf("%s%s: %zu tensors, %.3g billion parameters, %s (%llu bytes%s)\n",
               dry ? s.shape : s.path, dry ? " would be" : "", r.tensors,
               (double)r.parameters * 1e-9, ft_human_bytes(size, r.bytes),
               (unsigned long long)r.bytes, dry ? " without metadata" : "");
    return 0;
}
