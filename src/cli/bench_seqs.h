/* cli/bench_seqs.h - bench --plot --seqs N: decoding speed over the number of sequences. */
#ifndef FT_CLI_BENCH_SEQS_H
#define FT_CLI_BENCH_SEQS_H

#include "cli/opts.h"

int ft_bench_seqs(const ft_opts *o);

#endif
