#include "cli/bench_seqs.h"

#include "base/mem.h"
#include "cli/cmd.h"
#include "cli/model_opts.h"
#include "cli/plot.h"

#include <stdio.h>

enum { TILE = 16, TILES = 12 };

/* Numbers of sequences up to `most`: powers of two, then both sides of the sizes at which the tiles
 * of a device may change. */
static int numbers(int most, int *n)
{
    const int apart = TILE * ((most + TILE * TILES - 1) / (TILE * TILES));
    int count = 0;
    for (int i = 1; i < most && i < TILE; i *= 2) n[count++] = i;
    for (int i = apart; i < most; i += apart) {
        n[count++] = i;
        if (i + 1 < most) n[count++] = i + 1;
    }
    n[count++] = most;
    return count;
}

/* The best of a few runs of each number, as the engine learns in them how many sequences should run
 * in a step. */
static ft_status measure(const ft_opts *o, ft_llm *m, ft_plot_line *l, const int *seqs, int n,
                         ft_err *err)
{
    const int reps = (int)ft_opts_int(o, "repetitions");
    ft_status st = FT_OK;
    for (int i = 0; i < n && !st; i++) {
        const ft_decode_params p = {.seqs = seqs[i],
                                    .depth = (int)ft_opts_int(o, "n-depth"),
                                    .n_gen = (int)ft_opts_int(o, "n-gen")};
        for (int r = 0; r < reps && !st; r++) {
            ft_decode_time t;
            st = ft_llm_decode(m, &p, &t, err);
            if (!st && t.seconds > 0) l->y[i] = FT_MAX(l->y[i], (double)t.tokens / t.seconds);
        }
        if (!st) printf("%6d sequences  %10.2f tokens/s\n", seqs[i], l->y[i]);
    }
    return st;
}

int ft_bench_seqs(const ft_opts *o)
{
    ft_err err;
    ft_model_opts mo = {0};
    ft_llm *m = NULL;
    ft_llm_params p;
    int seqs[FT_PLOT_X];
    ft_plot plot = {.title = "tokens per second over sequences", .n_line = 1, .x_name = seqs};
    if (!ft_opts_int(o, "n-gen")) {
        ft_fail(&err, FT_EINVAL, "bench: --plot with --seqs and --n-gen 0, want at least 1");
        return ft_die(&err);
    }
    plot.n_x = numbers((int)ft_opts_int(o, "seqs"), seqs);
    ft_status st = ft_model_opts_params(&mo, o, &p, &err);
    p.draft_max = 0;
    p.slots = seqs[plot.n_x - 1];
    p.ctx = FT_MAX(p.ctx, (int)(ft_opts_int(o, "n-depth") + ft_opts_int(o, "n-gen")) + 3);
    if (!st) st = ft_llm_open(&m, &p, &err);
    if (!st) {
        plot.line[0].name = ft_llm_about(m)->name;
        st = measure(o, m, &plot.line[0], seqs, plot.n_x, &err);
    }
    if (!st) st = ft_plot_write(&plot, ft_opts_text(o, "plot"), &err);
    ft_llm_close(m);
    ft_model_opts_release(&mo);
    return st ? ft_die(&err) : 0;
}
