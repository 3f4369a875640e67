/* cli/bench_depth.h - bench --plot: decoding speed over the length of the context. */
#ifndef FT_CLI_BENCH_DEPTH_H
#define FT_CLI_BENCH_DEPTH_H

#include "cli/opts.h"

int ft_bench_depth(const ft_opts *o);

#endif
