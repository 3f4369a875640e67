/* cli/bench_rows.h - bench --rows: what a step that verifies drafts costs against one without. */
#ifndef FT_CLI_BENCH_ROWS_H
#define FT_CLI_BENCH_ROWS_H

#include "cli/opts.h"

int ft_bench_rows(const ft_opts *o);

#endif
