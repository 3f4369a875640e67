#define _GNU_SOURCE
#include "cli/bench_sim.h"

#include "base/mem.h"
#include "base/progress.h"
#include "cli/bench_way.h"
#include "cli/cmd.h"
#include "cli/model_opts.h"
#include "cli/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_K = FT_DRAFT_MAX, WAYS = MAX_K + 2 }; /* off, adaptive, 1, 2, ... */

typedef struct bench {
    int prompt, gen, depth, reps, seqs, k_max;
    double accept[MAX_K];
    int n_accept;
    ft_decode_time way[WAYS]; /* the run of median speed of each */
    double prompt_s[2];       /* without a drafter, and with one that processes the prompt too */
    char *name, *drafter;
    const ft_opts *opts;
    const ft_sampling *sampling; /* of the model that is open; NULL: greedy */
    json_t *order;               /* the ways of all runs, one after another */
} bench;

/* "0.8,0.75,0.7" */
static ft_status parse(bench *b, const char *text, ft_err *err)
{
    for (const char *p = text;; p++) {
        char *end;
        const double v = strtod(p, &end);
        if (end == p || (*end && *end != ',') || !(v >= 0 && v <= 1) || b->n_accept == MAX_K)
            return ft_fail(
                err, FT_EINVAL,
                "--sim-accept %s, want 1 to %d probabilities from 0 to 1, separated by commas",
                text, MAX_K);
        b->accept[b->n_accept++] = v;
        if (!*end) return FT_OK;
        p = end;
    }
}

/* The first run of each kind is a warm-up. */
static ft_status prompts(bench *b, ft_llm *m, bool drafting, ft_err *err)
{
    ft_status st = FT_OK;
    for (int i = -1; i < b->reps && b->prompt && !st; i++) {
        double p, g;
        st = ft_llm_time(m, b->prompt, 0, 0, &p, &g, err);
        double *best = &b->prompt_s[drafting];
        if (!st && i >= 0 && (!*best || p < *best)) *best = p;
    }
    return st;
}

static double speed(const ft_decode_time *t)
{
    return ratio((double)t->tokens, t->seconds);
}

static int by_speed(const void *a, const void *b)
{
    const double x = speed(a), y = speed(b);
    return (x > y) - (x < y);
}

/* All ways interleaved, so that a change of the machine's speed affects them alike; the first round
 * is a warm-up. */
static ft_status decode(bench *b, ft_llm *m, ft_progress *bar, ft_err *err)
{
    const int ways = b->k_max + 2, n = FT_MAX(1, b->reps);
    ft_decode_time *run = ft_new_n(ft_decode_time, (size_t)(ways * n));
    ft_decode_params p = {.seqs = b->seqs,
                          .depth = b->depth,
                          .n_gen = b->gen,
                          .accept = b->accept,
                          .n_accept = b->n_accept,
                          .sampling = b->sampling};
    ft_status st = FT_OK;
    for (int i = -1; i < n && !st; i++)
        for (int way = 0; way < ways && !st; way++) {
            p.draft_max = way == 0 ? 0 : way == 1 ? -1 : way - 1;
            if (i >= 0) way_run(b->order, way);
            st = ft_llm_decode(m, &p, &run[way * n + FT_MAX(0, i)], err);
            ft_progress_add(bar, 1);
        }
    for (int way = 0; way < ways && !st; way++) {
        qsort(run + way * n, (size_t)n, sizeof *run, by_speed);
        b->way[way] = run[way * n + n / 2];
    }
    ft_free(run);
    return st;
}

static ft_status measure(bench *b, const ft_llm_params *given, bool drafting, bool quiet,
                         ft_err *err)
{
    ft_llm_params p = *given;
    ft_llm *m = NULL;
    if (!drafting) p.draft_max = 0;
    ft_status st = ft_llm_open(&m, &p, err);
    if (!st && drafting && !ft_llm_about(m)->drafts)
        st = ft_fail(err, FT_EINVAL, "bench --sim-accept: %s", ft_llm_about(m)->drafter);
    if (!st) st = prompts(b, m, drafting, err);
    if (!st && drafting) {
        b->name = ft_strdup(ft_llm_about(m)->name);
        b->drafter = ft_strdup(ft_llm_about(m)->drafter);
        ft_sampling sampling;
        b->sampling = ft_model_opts_bench_sampling(b->opts, m, &sampling);
        ft_progress *bar =
            ft_progress_new("bench", (uint64_t)(FT_MAX(1, b->reps) + 1) * (uint64_t)(b->k_max + 2),
                            quiet ? NULL : ft_bar_count, NULL);
        st = decode(b, m, bar, err);
        ft_progress_free(bar);
    }
    ft_llm_close(m);
    return st;
}

/* ---- results ---- */

/* Share of the time in which the GPU waited for the CPU; 0 where that is not measured. */
static double idle(const ft_decode_time *t)
{
    return t->device_s > 0 ? FT_MAX(0.0, 1 - ratio(t->device_s, t->seconds)) : 0;
}

static double prompt_rate(const bench *b, int drafting)
{
    return ratio(b->prompt, b->prompt_s[drafting]);
}

static void print_table(const bench *b)
{
    printf("%s, drafter: %s\nSIMULATED acceptance:", b->name, b->drafter);
    for (int i = 0; i < b->n_accept; i++) printf("%s %g", i ? "," : "", b->accept[i]);
    printf(" for draft token 1, 2, ... after those before it; the output is meaningless\n");
    if (b->prompt)
        printf("prompt of %d: %.1f tokens/s without a drafter, %.1f with one (%.2f %% more time)\n",
               b->prompt, prompt_rate(b, 0), prompt_rate(b, 1),
               100 * (ratio(b->prompt_s[1], b->prompt_s[0]) - 1));
    printf("%-9s %9s %7s %9s %7s %7s %6s %12s %12s%s\n", "drafts", "tokens/s", "x off", "steps/s",
           "accept", "tok/step", "drafts", "draft ms/st", "verify ms/st",
           b->way[0].device_s > 0 ? " GPU idle" : "");
    for (int w = 0; w < b->k_max + 2; w++) {
        const ft_decode_time *t = &b->way[w];
        const double decode_steps = (double)t->decode_steps / b->seqs;
        char name[16];
        way_title(name, w);
        printf("%-9s %9.1f %7.3f %9.1f %7.3f %7.2f %6.2f %12.3f %12.3f", name, speed(t),
               ratio(speed(t), speed(&b->way[0])), ratio(decode_steps, t->seconds),
               ratio((double)t->accepted, (double)t->drafted),
               ratio((double)t->tokens, (double)t->decode_steps),
               ratio((double)t->drafted, (double)t->decode_steps),
               1e3 * ratio(t->draft_s, decode_steps), 1e3 * ratio(t->verify_s, decode_steps));
        if (t->device_s > 0) printf(" %7.1f %%", 100 * idle(t));
        putchar('\n');
    }
}

static json_t *way_json(const bench *b, int way)
{
    const ft_decode_time *t = &b->way[way];
    char name[16];
    way_name(name, way);
    return json_pack("{s:s, s:f, s:f, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f}", "drafts", name,
                     "tokens_per_second", speed(t), "against_off",
                     ratio(speed(t), speed(&b->way[0])), "tokens", (json_int_t)t->tokens, "rounds",
                     (json_int_t)t->decode_steps, "draft_n", (json_int_t)t->drafted,
                     "draft_n_accepted", (json_int_t)t->accepted, "seconds", t->seconds, "draft_s",
                     t->draft_s, "verify_s", t->verify_s, "gpu_idle", idle(t));
}

static void print_json(const bench *b)
{
    json_t *j = json_object(), *accept = json_array(), *ways = json_array();
    for (int i = 0; i < b->n_accept; i++) json_array_append_new(accept, json_real(b->accept[i]));
    for (int w = 0; w < b->k_max + 2; w++) json_array_append_new(ways, way_json(b, w));
    json_object_set_new(j, "model", json_string(b->name));
    json_object_set_new(j, "drafter", json_string(b->drafter));
    json_object_set_new(j, "simulated_acceptance", accept);
    json_object_set_new(j, "sequences", json_integer(b->seqs));
    json_object_set_new(j, "n_depth", json_integer(b->depth));
    json_object_set_new(j, "n_prompt", json_integer(b->prompt));
    json_object_set_new(j, "prompt_tps_off", json_real(prompt_rate(b, 0)));
    json_object_set_new(j, "prompt_tps", json_real(prompt_rate(b, 1)));
    json_object_set(j, "order", b->order);
    json_object_set_new(j, "ways", ways);
    char *text = json_dumps(j, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    puts(text);
    free(text);
    json_decref(j);
}

int ft_bench_sim(const ft_opts *o)
{
    ft_err err;
    ft_model_opts mo = {0};
    ft_llm_params p;
    const bool json = ft_opts_flag(o, "json"), quiet = json || ft_opts_flag(o, "quiet");
    bench *b = ft_new(bench);
    b->opts = o;
    b->order = json_array();
    b->prompt = (int)ft_opts_int(o, "n-prompt");
    b->gen = FT_MAX(1, (int)ft_opts_int(o, "n-gen"));
    b->depth = (int)ft_opts_int(o, "n-depth");
    b->reps = (int)ft_opts_int(o, "repetitions");
    b->seqs = (int)ft_opts_int(o, "seqs");
    ft_status st = parse(b, ft_opts_text(o, "sim-accept"), &err);
    if (!st) st = ft_model_opts_params(&mo, o, &p, &err);
    if (!st) {
        b->k_max = p.draft_max;
        p.slots = b->seqs;
        p.ctx = FT_MAX(p.ctx, FT_MAX(b->prompt, FT_MAX(1, b->depth) + b->gen) + MAX_K + 2);
        st = measure(b, &p, true, quiet, &err); /* first, because it fails if there is no drafter */
    }
    if (!st && b->prompt) st = measure(b, &p, false, quiet, &err);
    if (!st && json) print_json(b);
    if (!st && !json) print_table(b);
    ft_model_opts_release(&mo);
    json_decref(b->order);
    ft_free(b->name);
    ft_free(b->drafter);
    ft_free(b);
    return st ? ft_die(&err) : 0;
}
