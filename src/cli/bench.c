/* cli/bench.c - measures prompt and decoding speed, and the share of the memory bandwidth that
 * decoding uses. Reports medians, because other programs disturb single runs, and the best run. */
#define _GNU_SOURCE
#include "base/cpu.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/str.h"
#include "cli/bench_depth.h"
#include "cli/bench_ops.h"
#include "cli/bench_record.h"
#include "cli/bench_rows.h"
#include "cli/bench_seqs.h"
#include "cli/bench_sim.h"
#include "cli/bench_spec.h"
#include "cli/cmd.h"
#include "cli/model_opts.h"
#include "cli/progress.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct bench {
    int prompt, gen, depth, reps, seqs;
    const ft_sampling *sampling; /* NULL: greedy */
    double *prompt_s, *gen_s;    /* sorted when all are measured */
    double bandwidth;            /* bytes per second */
    ft_bench_ops *prompt_ops, *gen_ops;
    json_t *baseline; /* NULL: none */
} bench;

enum {
    OPS_GEN = 16,   /* tokens decoded op by op */
    WARM_UP = 4096, /* maximum number of prompt tokens of the warm-up */
};

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *s, int n)
{
    return n % 2 ? s[n / 2] : (s[n / 2 - 1] + s[n / 2]) / 2;
}

/* The slowest time less the fastest, over the median; of sorted times. */
static double spread(const double *s, int n)
{
    const double m = median(s, n);
    return m > 0 ? (s[n - 1] - s[0]) / m : 0;
}

static double rate(int tokens, double s)
{
    return s > 0 ? tokens / s : 0;
}

/* Seconds for a prompt, and for b->gen tokens of every sequence; most: of prompt tokens. */
static ft_status time_once(const bench *b, ft_llm *m, int most, double *p, double *g, ft_err *err)
{
    const int prompt = FT_MIN(b->prompt, most), depth = FT_MIN(b->depth, most);
    if (b->seqs == 1 && !b->sampling) return ft_llm_time(m, prompt, b->gen, depth, p, g, err);
    ft_decode_time t = {0};
    ft_status st = ft_llm_time(m, prompt, 0, 0, p, g, err);
    if (!st && b->gen)
        st = ft_llm_decode(
            m,
            &(ft_decode_params){
                .seqs = b->seqs, .depth = depth, .n_gen = b->gen, .sampling = b->sampling},
            &t, err);
    *g = t.tokens ? t.seconds * b->seqs * b->gen / (double)t.tokens : 0;
    return st;
}

static ft_status measure(bench *b, ft_llm *m, bool quiet, ft_err *err)
{
    ft_status st = FT_OK;
    ft_progress *bar =
        ft_progress_new("bench", (uint64_t)b->reps + 1, quiet ? NULL : ft_bar_count, NULL);
    for (int i = -1; i < b->reps && !st; i++) { /* the first one warms up and does not count */
        double p, g;
        st = time_once(b, m, i < 0 ? WARM_UP : INT_MAX, &p, &g, err);
        if (!st && i >= 0) {
            b->prompt_s[i] = p;
            b->gen_s[i] = g;
        }
        ft_progress_add(bar, 1);
    }
    ft_progress_free(bar);
    if (st) return st;
    qsort(b->prompt_s, (size_t)b->reps, sizeof *b->prompt_s, by_value);
    qsort(b->gen_s, (size_t)b->reps, sizeof *b->gen_s, by_value);
    b->bandwidth = ft_llm_bandwidth(m);
    const ft_ops_params prompt = {.n_prompt = b->prompt}, gen = {.n_gen = FT_MIN(b->gen, OPS_GEN),
                                                                 .depth = b->depth,
                                                                 .seqs = b->seqs};
    if (b->prompt > 1) st = ft_bench_ops_new(&b->prompt_ops, m, &prompt, b->bandwidth, err);
    if (b->gen && !st) st = ft_bench_ops_new(&b->gen_ops, m, &gen, b->bandwidth, err);
    return st;
}

/* ---- results ---- */

static double step_bytes(const bench *b)
{
    return b->gen_ops ? ft_bench_ops_bytes(b->gen_ops) : 0;
}

/* Tokens per second of all sequences together. */
static double decode_rate(const bench *b, double seconds)
{
    return rate(b->gen * b->seqs, seconds);
}

/* Bytes read and written per second of decoding. */
static double read_rate(const bench *b)
{
    return step_bytes(b) * rate(b->gen, median(b->gen_s, b->reps));
}

static json_t *result_json(const bench *b, const ft_llm_info *i)
{
    json_t *j = ft_bench_record(i);
    json_object_set_new(j, "n_prompt", json_integer(b->prompt));
    json_object_set_new(j, "n_gen", json_integer(b->gen));
    json_object_set_new(j, "n_depth", json_integer(b->depth));
    json_object_set_new(j, "sequences", json_integer(b->seqs));
    json_object_set_new(j, "repetitions", json_integer(b->reps));
    json_object_set_new(j, "prompt_tps", json_real(rate(b->prompt, median(b->prompt_s, b->reps))));
    json_object_set_new(j, "prompt_tps_best", json_real(rate(b->prompt, b->prompt_s[0])));
    json_object_set_new(j, "prompt_spread", json_real(spread(b->prompt_s, b->reps)));
    json_object_set_new(j, "decode_tps", json_real(decode_rate(b, median(b->gen_s, b->reps))));
    json_object_set_new(j, "decode_tps_best", json_real(decode_rate(b, b->gen_s[0])));
    json_object_set_new(j, "decode_spread", json_real(spread(b->gen_s, b->reps)));
    json_object_set_new(j, "bytes_per_token", json_real(step_bytes(b) / b->seqs));
    json_object_set_new(j, "decode_bytes_per_second", json_real(read_rate(b)));
    json_object_set_new(j, "memory_bytes_per_second", json_real(b->bandwidth));
    json_object_set_new(j, "memory_percent",
                        json_real(b->bandwidth > 0 ? 100 * read_rate(b) / b->bandwidth : 0));
    if (b->prompt_ops) json_object_set_new(j, "prompt_step", ft_bench_ops_json(b->prompt_ops));
    if (b->gen_ops) json_object_set_new(j, "decode_step", ft_bench_ops_json(b->gen_ops));
    return j;
}

static void print_text(const bench *b, const ft_llm_info *i)
{
    char cpu[128], size[24];
    ft_cpu_name(cpu);
    printf("%s (%s), %s, %s, %d threads\n", i->name, i->arch, ft_human_bytes(size, i->weight_bytes),
           cpu, i->threads);
    if (i->place[0]) printf("%s\n", i->place);
    if (b->prompt)
        printf("prompt  %6d tokens  %10.2f tokens/s  (best %.2f of %d, spread %.1f %%)\n",
               b->prompt, rate(b->prompt, median(b->prompt_s, b->reps)),
               rate(b->prompt, b->prompt_s[0]), b->reps, 100 * spread(b->prompt_s, b->reps));
    if (!b->gen) return;
    printf("decode  %6d tokens  %10.2f tokens/s  (best %.2f of %d, spread %.1f %%)", b->gen,
           decode_rate(b, median(b->gen_s, b->reps)), decode_rate(b, b->gen_s[0]), b->reps,
           100 * spread(b->gen_s, b->reps));
    if (b->seqs > 1) printf(", %d sequences together", b->seqs);
    if (b->depth) printf(", after %d tokens", b->depth);
    putchar('\n');
    printf("        %s per %s: %.2f GB/s", ft_human_bytes(size, (uint64_t)step_bytes(b)),
           b->seqs > 1 ? "step of all sequences" : "token", read_rate(b) * 1e-9);
    if (b->bandwidth > 0) /* 0: the device cannot measure it */
        printf(", %.0f %% of the memory bandwidth (%.2f GB/s)", 100 * read_rate(b) / b->bandwidth,
               b->bandwidth * 1e-9);
    putchar('\n');
}

static ft_status bench_model(const ft_opts *o, bench *b, ft_llm *m, int *result, ft_err *err)
{
    const bool json = ft_opts_flag(o, "json");
    ft_sampling sampling;
    b->sampling = ft_model_opts_bench_sampling(o, m, &sampling);
    const ft_status st = measure(b, m, json || ft_opts_flag(o, "quiet"), err);
    if (st) return st;
    json_t *now = result_json(b, ft_llm_about(m));
    if (json)
        ft_bench_print(now);
    else
        print_text(b, ft_llm_about(m));
    *result = ft_bench_compare(now, b->baseline, ft_opts_text(o, "baseline"));
    json_decref(now);
    if (!json && b->prompt_ops) ft_bench_ops_print(b->prompt_ops, ft_opts_flag(o, "layers"));
    if (!json && b->gen_ops) ft_bench_ops_print(b->gen_ops, ft_opts_flag(o, "layers"));
    if (fflush(stdout) && errno != EPIPE)
        return ft_fail_errno(err, "cannot write to standard output");
    return FT_OK;
}

int ft_cmd_bench(const ft_opts *o)
{
    ft_err err;
    if (ft_opts_flag(o, "spec")) return ft_bench_spec(o);
    const bool other =
        ft_opts_set(o, "rows") || ft_opts_text(o, "sim-accept") || ft_opts_text(o, "plot");
    if (other && ft_opts_text(o, "baseline")) {
        ft_fail(&err, FT_EINVAL,
                "bench: --baseline with --rows, --sim-accept or --plot, want it alone or with "
                "--spec");
        return ft_die(&err);
    }
    if (ft_opts_set(o, "rows")) return ft_bench_rows(o);
    if (ft_opts_text(o, "sim-accept")) return ft_bench_sim(o);
    if (ft_opts_text(o, "plot"))
        return ft_opts_int(o, "seqs") > 1 ? ft_bench_seqs(o) : ft_bench_depth(o);
    bench b = {.prompt = (int)ft_opts_int(o, "n-prompt"),
               .gen = (int)ft_opts_int(o, "n-gen"),
               .depth = (int)ft_opts_int(o, "n-depth"),
               .reps = (int)ft_opts_int(o, "repetitions"),
               .seqs = (int)ft_opts_int(o, "seqs")};
    if (!b.prompt && !b.gen) {
        ft_fail(&err, FT_EINVAL,
                "bench: --n-prompt and --n-gen are both 0, want at least one above 0");
        return ft_die(&err);
    }
    ft_model_opts mo = {0};
    ft_llm *m = NULL;
    ft_llm_params p = {0};
    b.prompt_s = ft_new_n(double, (size_t)b.reps);
    b.gen_s = ft_new_n(double, (size_t)b.reps);
    ft_status st = ft_bench_baseline(&b.baseline, ft_opts_text(o, "baseline"), &err);
    if (!st) st = ft_model_opts_params(&mo, o, &p, &err);
    p.draft_max = 0;
    p.slots = b.seqs;
    const int need = FT_MAX(b.prompt, FT_MAX(1, b.depth) + b.gen) + 2;
    p.ctx = FT_MAX(p.ctx, need);
    if (!st) st = ft_llm_open(&m, &p, &err);
    int result = 0;
    if (!st) st = bench_model(o, &b, m, &result, &err);
    ft_llm_close(m);
    ft_model_opts_release(&mo);
    ft_bench_ops_free(b.prompt_ops);
    ft_bench_ops_free(b.gen_ops);
    json_decref(b.baseline);
    ft_free(b.prompt_s);
    ft_free(b.gen_s);
    return st ? ft_die(&err) : result;
}
