#define _GNU_SOURCE
#include "cli/bench_rows.h"

#include "base/mem.h"
#include "cli/bench_ops.h"
#include "cli/cmd.h"
#include "cli/model_opts.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_ROWS = FT_DRAFT_MAX + 1, STEPS = 32 }; /* rows per step; steps per run */

typedef struct bench {
    int rows, depth, reps;
    double *s[MAX_ROWS]; /* [reps * STEPS]: seconds of each step, by its rows */
    ft_bench_ops *ops;
} bench;

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The numbers of rows are interleaved; the first pass is a warm-up. */
static ft_status measure(bench *b, ft_llm *m, ft_err *err)
{
    ft_status st = FT_OK;
    for (int r = -1; r < b->reps && !st; r++)
        for (int n = 0; n < b->rows && !st; n++)
            st = ft_llm_steps(m, n + 1, b->depth, STEPS, b->s[n] + FT_MAX(0, r) * STEPS, err);
    if (st) return st;
    for (int n = 0; n < b->rows; n++)
        qsort(b->s[n], (size_t)(b->reps * STEPS), sizeof(double), by_value);
    const ft_ops_params ops = {.n_gen = STEPS, .rows = b->rows, .depth = b->depth};
    return ft_bench_ops_new(&b->ops, m, &ops, ft_llm_bandwidth(m), err);
}

static double median(const bench *b, int n)
{
    return b->s[n][b->reps * STEPS / 2];
}

static void print_json(const bench *b)
{
    json_t *j = json_object(), *steps = json_array();
    for (int n = 0; n < b->rows; n++) {
        json_t *one = json_object();
        json_object_set_new(one, "rows", json_integer(n + 1));
        json_object_set_new(one, "seconds", json_real(median(b, n)));
        json_object_set_new(one, "seconds_best", json_real(b->s[n][0]));
        json_object_set_new(one, "against_one", json_real(median(b, n) / median(b, 0)));
        json_array_append_new(steps, one);
    }
    json_object_set_new(j, "steps", steps);
    json_object_set_new(j, "step", ft_bench_ops_json(b->ops));
    char *text = json_dumps(j, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    puts(text);
    free(text);
    json_decref(j);
}

static void print_text(const bench *b, bool layers)
{
    for (int n = 0; n < b->rows; n++)
        printf("%2d %-4s %10.3f ms per step  (best %.3f of %d)  %5.2f times one row\n", n + 1,
               n ? "rows" : "row", median(b, n) * 1e3, b->s[n][0] * 1e3, b->reps * STEPS,
               median(b, n) / median(b, 0));
    ft_bench_ops_print(b->ops, layers);
}

int ft_bench_rows(const ft_opts *o)
{
    ft_err err;
    ft_model_opts mo = {0};
    ft_llm *m = NULL;
    ft_llm_params p;
    bench b = {.rows = (int)ft_opts_int(o, "rows"),
               .depth = (int)ft_opts_int(o, "n-depth"),
               .reps = (int)ft_opts_int(o, "repetitions")};
    for (int n = 0; n < b.rows; n++) b.s[n] = ft_new_n(double, (size_t)b.reps *STEPS);
    ft_status st = ft_model_opts_params(&mo, o, &p, &err);
    p.draft_max = b.rows - 1;
    p.ctx = FT_MAX(p.ctx, FT_MAX(1, b.depth) + MAX_ROWS * (STEPS + 1));
    if (!st) st = ft_llm_open(&m, &p, &err);
    if (!st) st = measure(&b, m, &err);
    if (!st && ft_opts_flag(o, "json"))
        print_json(&b);
    else if (!st)
        print_text(&b, ft_opts_flag(o, "layers"));
    ft_llm_close(m);
    ft_model_opts_release(&mo);
    ft_bench_ops_free(b.ops);
    for (int n = 0; n < b.rows; n++) ft_free(b.s[n]);
    return st ? ft_die(&err) : 0;
}
