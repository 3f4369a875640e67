/* cli/bench_sim.h - bench --sim-accept: speed-up of drafting at a given acceptance rate. */
#ifndef FT_CLI_BENCH_SIM_H
#define FT_CLI_BENCH_SIM_H

#include "cli/opts.h"

/* Opens the model twice, with and without a drafter, so that the drafter does not slow down the
 * baseline; decodes without drafts, with adaptive drafts, and with 1 to n_max draft tokens per
 * step. */
int ft_bench_sim(const ft_opts *o);

#endif
