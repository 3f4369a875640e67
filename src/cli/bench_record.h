/* cli/bench_record.h - the output of bench as a record: what was measured, where and when; and its
 * comparison with an earlier record. */
#ifndef FT_CLI_BENCH_RECORD_H
#define FT_CLI_BENCH_RECORD_H

#include "foretoken.h"

#include <jansson.h>

/* A new record: machine, commit, date, command and model. */
json_t *ft_bench_record(const ft_llm_info *i);
void ft_bench_print(const json_t *record); /* to standard output */

enum { FT_BENCH_SLOWER = 1, FT_BENCH_OTHER = 2 };

/* The record in a file; NULL without a path. */
ft_status ft_bench_baseline(json_t **out, const char *path, ft_err *err);
/* Compares the speeds of a record with those of an earlier one, which may be NULL, and prints each
 * of them to standard error. 0, FT_BENCH_SLOWER if one is more than 5 % below, FT_BENCH_OTHER if
 * it is a record of another machine, model or test. */
int ft_bench_compare(const json_t *now, const json_t *then, const char *path);

#endif
