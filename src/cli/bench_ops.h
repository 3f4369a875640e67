/* cli/bench_ops.h - bench: the time of a step by op and by layer. */
#ifndef FT_CLI_BENCH_OPS_H
#define FT_CLI_BENCH_OPS_H

#include "foretoken.h"

#include <jansson.h>

typedef struct ft_bench_ops ft_bench_ops;

/* The ops of one step. bandwidth: of the memory, in bytes per second. */
ft_status ft_bench_ops_new(ft_bench_ops **out, ft_llm *m, const ft_ops_params *p, double bandwidth,
                           ft_err *err);
void ft_bench_ops_free(ft_bench_ops *b);
double ft_bench_ops_bytes(const ft_bench_ops *b); /* read or written by a step */
void ft_bench_ops_print(const ft_bench_ops *b, bool layers);
json_t *ft_bench_ops_json(const ft_bench_ops *b);

#endif
