#include "cli/bench_ops.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sums for one op over all layers, or for one layer over all ops. */
typedef struct sum {
    const char *op;
    int layer;
    double calls, seconds, bytes, flops; /* of one step */
} sum;

struct ft_bench_ops {
    const char *what;
    int rows; /* of a step */
    double seconds, bytes, bandwidth, arithmetic;
    sum *op, *layer;
    int n_op, n_layer;
};

static sum *sum_of(sum *s, int *n, const char *op, int layer)
{
    for (int i = 0; i < *n; i++)
        if (s[i].layer == layer && (!op || !strcmp(s[i].op, op))) return &s[i];
    s[*n] = (sum){.op = op, .layer = layer};
    return &s[(*n)++];
}

static void sum_add(sum *s, const ft_op_time *t)
{
    s->calls += t->calls;
    s->seconds += t->seconds;
    s->bytes += t->bytes;
    s->flops += t->flops;
}

static int by_seconds(const void *a, const void *b)
{
    const double x = ((const sum *)a)->seconds, y = ((const sum *)b)->seconds;
    return (x < y) - (x > y);
}

static int by_layer(const void *a, const void *b)
{
    return ((const sum *)a)->layer - ((const sum *)b)->layer;
}

ft_status ft_bench_ops_new(ft_bench_ops **out, ft_llm *m, const ft_ops_params *p, double bandwidth,
                           ft_err *err)
{
    ft_op_time *t;
    int n, rows;
    *out = NULL;
    const ft_status st = ft_llm_ops(m, p, &t, &n, &rows, err);
    if (st) return st;
    ft_bench_ops *b = *out = ft_new(ft_bench_ops);
    b->what = p->n_prompt ? "prompt" : "decode";
    b->rows = rows;
    b->bandwidth = bandwidth;
    b->arithmetic = ft_llm_arithmetic(m);
    b->op = ft_new_n(sum, (size_t)n + 1);
    b->layer = ft_new_n(sum, (size_t)n + 1);
    for (int i = 0; i < n; i++) {
        sum_add(sum_of(b->op, &b->n_op, t[i].op, 0), &t[i]);
        sum_add(sum_of(b->layer, &b->n_layer, NULL, t[i].layer), &t[i]);
        b->seconds += t[i].seconds;
        b->bytes += t[i].bytes;
    }
    free(t);
    qsort(b->op, (size_t)b->n_op, sizeof *b->op, by_seconds);
    qsort(b->layer, (size_t)b->n_layer, sizeof *b->layer, by_layer);
    return FT_OK;
}

void ft_bench_ops_free(ft_bench_ops *b)
{
    if (!b) return;
    ft_free(b->op);
    ft_free(b->layer);
    ft_free(b);
}

double ft_bench_ops_bytes(const ft_bench_ops *b)
{
    return b->bytes;
}

static double percent(double done, double seconds, double most)
{
    return seconds > 0 && most > 0 ? 100 * done / seconds / most : 0;
}

/* What was done, and which share of `most` that is unless it is 0: not known. */
static void print_share(const char *unit, double done, double seconds, double most)
{
    printf(" %9.2f %s", done * 1e-6, unit);
    if (most > 0) printf(" %4.0f %%", percent(done, seconds, most));
}

static void print_sum(const ft_bench_ops *b, const sum *s)
{
    printf(" %6.0f %9.1f us %5.1f %%", s->calls, s->seconds * 1e6, 100 * s->seconds / b->seconds);
    print_share("MB", s->bytes, s->seconds, b->bandwidth);
    print_share("MFLOP", s->flops, s->seconds, b->arithmetic);
    putchar('\n');
}

void ft_bench_ops_print(const ft_bench_ops *b, bool layers)
{
    printf("\n%s: a step of %d %s, op by op", b->what, b->rows, b->rows == 1 ? "row" : "rows");
    if (b->bandwidth > 0) printf("; %% of %.1f GB/s", b->bandwidth * 1e-9);
    if (b->arithmetic > 0) printf("; %% of %.0f GFLOP/s", b->arithmetic * 1e-9);
    putchar('\n');
    for (int i = 0; i < b->n_op; i++) {
        printf("  %-14s", b->op[i].op);
        print_sum(b, &b->op[i]);
    }
    for (int i = 0; layers && i < b->n_layer; i++) {
        if (b->layer[i].layer < 0)
            printf("  %-14s", "before");
        else
            printf("  layer %-8d", b->layer[i].layer);
        print_sum(b, &b->layer[i]);
    }
}

static json_t *sums_json(const ft_bench_ops *b, const sum *s, int n)
{
    json_t *a = json_array();
    for (int i = 0; i < n; i++, s++) {
        json_t *j = json_object();
        if (s->op)
            json_object_set_new(j, "op", json_string(s->op));
        else
            json_object_set_new(j, "layer", json_integer(s->layer));
        json_object_set_new(j, "calls", json_real(s->calls));
        json_object_set_new(j, "seconds", json_real(s->seconds));
        json_object_set_new(j, "bytes", json_real(s->bytes));
        json_object_set_new(j, "flops", json_real(s->flops));
        json_object_set_new(j, "memory_percent",
                            json_real(percent(s->bytes, s->seconds, b->bandwidth)));
        json_object_set_new(j, "arithmetic_percent",
                            json_real(percent(s->flops, s->seconds, b->arithmetic)));
        json_array_append_new(a, j);
    }
    return a;
}

json_t *ft_bench_ops_json(const ft_bench_ops *b)
{
    json_t *j = json_object();
    json_object_set_new(j, "rows", json_integer(b->rows));
    json_object_set_new(j, "seconds", json_real(b->seconds));
    json_object_set_new(j, "arithmetic_per_second", json_real(b->arithmetic));
    json_object_set_new(j, "ops", sums_json(b, b->op, b->n_op));
    json_object_set_new(j, "layers", sums_json(b, b->layer, b->n_layer));
    return j;
}
