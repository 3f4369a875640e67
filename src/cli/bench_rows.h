/* cli/bench_rows.h - bench --rows: time of verification steps by their number of rows. */
#ifndef FT_CLI_BENCH_ROWS_H
#define FT_CLI_BENCH_ROWS_H

#include "cli/opts.h"

int ft_bench_rows(const ft_opts *o);

#endif
