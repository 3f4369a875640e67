/* cli/bench_sim.h - bench --sim-accept: what drafting earns at an acceptance that is given. */
#ifndef FT_CLI_BENCH_SIM_H
#define FT_CLI_BENCH_SIM_H

#include "cli/opts.h"

/* Opens the model twice, with a drafter and without, so that what is measured without is not
 * burdened by it; then decodes without drafts, governed, and with 1 to n_max drafts a step. */
int ft_bench_sim(const ft_opts *o);

#endif
