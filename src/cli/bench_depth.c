#include "cli/bench_depth.h"

#include "base/mem.h"
#include "cli/cmd.h"
#include "cli/model_opts.h"
#include "cli/plot.h"

#include <stdio.h>

enum { FIRST = 256, DEEPEST = 8192, TOKENS = 16 };

/* The best of a few runs at each depth, so that other programs disturb the curve less. */
static ft_status measure(const ft_opts *o, ft_llm *m, ft_plot_line *l, const int *depth, int n,
                         ft_err *err)
{
    const int reps = (int)ft_opts_int(o, "repetitions");
    ft_status st = FT_OK;
    for (int i = 0; i < n && !st; i++) {
        for (int r = 0; r < reps && !st; r++) {
            double prompt, gen = 0;
            st = ft_llm_time(m, 0, TOKENS, depth[i], &prompt, &gen, err);
            if (!st && gen > 0) l->y[i] = FT_MAX(l->y[i], TOKENS / gen);
        }
        if (!st) printf("after %6d tokens  %10.2f tokens/s\n", depth[i], l->y[i]);
    }
    return st;
}

int ft_bench_depth(const ft_opts *o)
{
    ft_err err;
    ft_model_opts mo = {0};
    ft_llm *m = NULL;
    ft_llm_params p;
    const int wanted = (int)ft_opts_int(o, "n-depth"), deepest = wanted ? wanted : DEEPEST;
    int depth[FT_PLOT_X] = {1}, n = 1;
    for (int d = FT_MIN(FIRST, deepest); n < FT_PLOT_X; d = FT_MIN(2 * d, deepest)) {
        depth[n++] = d;
        if (d == deepest) break;
    }
    ft_plot plot = {.title = "tokens per second over tokens in the context",
                    .n_x = n,
                    .n_line = 1,
                    .x_name = depth};
    ft_status st = ft_model_opts_params(&mo, o, &p, &err);
    p.draft_max = 0;
    p.ctx = FT_MAX(p.ctx, depth[n - 1] + TOKENS + 2);
    if (!st) st = ft_llm_open(&m, &p, &err);
    if (!st) {
        plot.line[0].name = ft_llm_about(m)->name;
        st = measure(o, m, &plot.line[0], depth, n, &err);
    }
    if (!st) st = ft_plot_write(&plot, ft_opts_text(o, "plot"), &err);
    ft_llm_close(m);
    ft_model_opts_release(&mo);
    return st ? ft_die(&err) : 0;
}
