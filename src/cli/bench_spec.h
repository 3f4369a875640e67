/* cli/bench_spec.h - bench --spec: speed-up of speculative decoding. */
#ifndef FT_CLI_BENCH_SPEC_H
#define FT_CLI_BENCH_SPEC_H

#include "cli/opts.h"

/* Runs every prompt of every class without drafts, with adaptive drafts, and with 1 to n_max draft
 * tokens per step, interleaved, so that a disturbance of the machine affects all of them. */
int ft_bench_spec(const ft_opts *o);

#endif
