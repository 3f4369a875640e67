/* cli/synth.c - foretoken synth: writes a model with random weights. */
#include "tools/synth.h"
#include "tools/synth_lora.h"

#include "base/str.h"
#include "cli/cmd.h"
#include "cli/progress.h"

#include <stdio.h>

static int write_adapter(const ft_opts *o)
{
    const ft_synth_lora_opts s = {
        .model = ft_opts_word(o, 0),
        .type = ft_opts_word(o, 1),
        .path = ft_opts_word(o, 2),
        .only = ft_opts_text(o, "only"),
        .rank = (int)ft_opts_int(o, "rank"),
        .alpha = (float)ft_opts_float(o, "alpha"),
        .seed = (uint64_t)ft_opts_int(o, "seed"),
    };
    size_t n;
    ft_err err;
    if (ft_synth_lora(&n, &s, &err)) return ft_die(&err);
    if (!ft_opts_flag(o, "quiet")) printf("%s: %zu tensors\n", s.path, n);
    return 0;
}

int ft_cmd_synth(const ft_opts *o)
{
    const bool dry = ft_opts_flag(o, "dry-run");
    ft_err err;
    if (!dry && ft_opts_n_word(o) < 3) {
        ft_fail(&err, FT_EINVAL,
                "synth: no output file, want: foretoken synth SHAPE TYPE OUT.gguf");
        return ft_die(&err);
    }
    if (ft_opts_flag(o, "adapter") && !dry) return write_adapter(o);
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
