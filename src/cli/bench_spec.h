/* cli/bench_spec.h - bench --spec: what drafting earns. */
#ifndef FT_CLI_BENCH_SPEC_H
#define FT_CLI_BENCH_SPEC_H

#include "cli/opts.h"

/* Every prompt of every class without drafts, governed, and with 1 to n_max drafts a step, one
 * after the other, so that whatever disturbs the machine disturbs all of them. */
int ft_bench_spec(const ft_opts *o);

#endif
