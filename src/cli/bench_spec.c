#define _GNU_SOURCE
#include "cli/bench_spec.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/str.h"
#include "cli/bench_record.h"
#include "cli/bench_way.h"
#include "cli/cmd.h"
#include "cli/model_opts.h"
#include "cli/plot.h"
#include "cli/progress.h"
#include "report/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { CLASSES = 5, MAX_K = FT_DRAFT_MAX, WAYS = MAX_K + 2 }; /* off, adaptive, 1, 2, ... */
enum { MAX_IDS = 4096 };
enum { MAX_REPS = 64 };

static const char *const class_name[CLASSES] = {"chinese", "code", "dialogue", "prose",
                                                "repetition"};

/* Sums over the prompts of a class, for one way of drafting. */
typedef struct sum {
    int64_t tokens, decode_steps, draft_steps, drafted, accepted;
    double seconds, draft_s, verify_s;
    double spread_s; /* slowest repetition less the fastest, over all prompts */
    int64_t drafted_at[FT_DRAFT_MAX], accepted_at[FT_DRAFT_MAX];
    int other_ids; /* responses that differ from those without drafts */
} sum;

typedef struct bench {
    const ft_opts *o;
    ft_llm *m;
    int k_max, limit, tokens, reps;
    sum s[CLASSES][WAYS];
    int prompts[CLASSES];
    json_t *baseline; /* NULL: none */
    json_t *order;    /* the ways of the first prompt's runs, one after another */
    bool ordered;     /* the first prompt is done */
} bench;

typedef struct ids {
    int32_t id[MAX_IDS];
    int n;
} ids;

static bool keep_id(void *user, const ft_event *e)
{
    ids *s = user;
    if (e->id >= 0 && s->n < MAX_IDS) s->id[s->n++] = e->id;
    return true;
}

static void add(sum *s, const ft_response *r)
{
    s->tokens += FT_MAX(0, r->output_tokens - 1); /* time is measured from the first token on */
    s->seconds += r->output_s;
    s->decode_steps += r->decode_steps;
    s->draft_steps += r->draft_steps;
    s->drafted += r->drafted;
    s->accepted += r->accepted;
    s->draft_s += r->draft_s;
    s->verify_s += r->verify_s;
    for (int i = 0; i < FT_DRAFT_MAX; i++) {
        s->drafted_at[i] += r->drafted_at[i];
        s->accepted_at[i] += r->accepted_at[i];
    }
}

/* One response in a new session. */
static ft_status response(bench *b, const ft_request *given, int way, ids *out, ft_response *r,
                          ft_err *err)
{
    ft_session *s = ft_session_new(b->m);
    ft_request q = *given;
    out->n = 0;
    if (!b->ordered) way_run(b->order, way);
    q.draft_max = way == 0 ? 0 : way == 1 ? -1 : way - 1;
    q.draft_fixed = way > 1;
    q.on_event = keep_id;
    q.user = out;
    const ft_status st = ft_session_generate(s, &q, r, err);
    ft_session_free(s);
    return st;
}

static int by_time(const void *a, const void *b)
{
    const double x = ((const ft_response *)a)->output_s, y = ((const ft_response *)b)->output_s;
    return (x > y) - (x < y);
}

/* The ways are interleaved, b->reps times, and the response of median time counts. Each prompt and
 * each repetition begins with another way, so that none always runs with cold caches. */
static ft_status measure(bench *b, int class, const ft_request *q, ft_err *err)
{
    static ids out[WAYS];
    static ft_response r[WAYS][MAX_REPS];
    const int ways = b->k_max + 2;
    ft_status st = FT_OK;
    for (int i = 0; i < ways * b->reps && !st; i++) {
        const int turn = i / ways, way = (i + turn + b->prompts[class]) % ways;
        st = response(b, q, way, &out[way], &r[way][turn], err);
    }
    for (int way = 0; way < ways && !st; way++) {
        sum *s = &b->s[class][way];
        qsort(r[way], (size_t)b->reps, sizeof **r, by_time);
        add(s, &r[way][b->reps / 2]);
        s->spread_s += r[way][b->reps - 1].output_s - r[way][0].output_s;
        s->other_ids += out[way].n != out[0].n ||
                        memcmp(out[way].id, out[0].id, sizeof *out[0].id * (size_t)out[0].n) != 0;
    }
    return st;
}

static ft_status prompt(bench *b, int class, const char *text, size_t n, ft_err *err)
{
    ft_model_opts mo = {0};
    ft_request q;
    ft_request_defaults(&q, b->m);
    q.sampling.temperature = 0;
    q.max_tokens = b->tokens;
    json_t *list = json_array(), *one = json_object(), *options = json_object();
    json_object_set_new(one, "role", json_string("user"));
    json_object_set_new(one, "content", ft_json_string(text, n));
    json_array_append_new(list, one);
    json_object_set_new(options, "add_generation_prompt", json_true());
    char *rendered = NULL;
    ft_status st = ft_model_opts_render(b->m, list, options, &q, &rendered, err);
    if (!st) st = measure(b, class, &q, err);
    b->prompts[class]++;
    b->ordered = true;
    json_decref(list);
    json_decref(options);
    free(rendered);
    ft_model_opts_release(&mo);
    return st;
}

/* The folder of prompts: --prompts, or the one of the source tree or the installation. */
static ft_status prompts_folder(const ft_opts *o, char out[4096], ft_err *err)
{
    static const char *const below[] = {"../bench/prompts", "../share/foretoken/prompts"};
    char exe[2048];
    const char *given = ft_opts_text(o, "prompts");
    const ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    snprintf(out, 4096, "%s", given ? given : "bench/prompts");
    if (given || ft_file_exists(out)) return FT_OK;
    exe[FT_MAX(n, 0)] = 0;
    char *slash = strrchr(exe, '/');
    for (size_t i = 0; slash && i < FT_COUNT(below); i++) {
        snprintf(out, 4096, "%.*s/%s", (int)(slash - exe), exe, below[i]);
        if (ft_file_exists(out)) return FT_OK;
    }
    return ft_fail(err, FT_ENOTFOUND, "no folder of prompts is installed, want --prompts DIR");
}

static ft_status class_run(bench *b, int class, const char *dir, ft_progress *bar, ft_err *err)
{
    char path[4200], *text;
    size_t n;
    snprintf(path, sizeof path, "%s/%s.txt", dir, class_name[class]);
    ft_status st = ft_file_read(&text, &n, path, 1 << 20, err);
    for (char *p = text; !st && *p && b->prompts[class] < b->limit;) {
        const size_t line = strcspn(p, "\n");
        if (line) st = prompt(b, class, p, line, err);
        ft_progress_add(bar, 1);
        p += line + (p[line] == '\n');
    }
    ft_free(text);
    return st;
}

/* ---- results ---- */

static double speed(const sum *s)
{
    return ratio((double)s->tokens, s->seconds);
}

/* Time of the responses outside draft and verification passes: text, callbacks, bookkeeping. */
static double other_s(const sum *s)
{
    return FT_MAX(0, s->seconds - s->draft_s - s->verify_s);
}

static json_t *sum_json(const sum *s, const sum *off, int way)
{
    char name[16];
    way_name(name, way);
    json_t *j = json_object(), *at = json_array();
    json_object_set_new(j, "drafts", json_string(name));
    json_object_set_new(j, "tokens_per_second", json_real(speed(s)));
    json_object_set_new(j, "against_off", json_real(ratio(speed(s), speed(off))));
    json_object_set_new(j, "rounds_per_second",
                        json_real(ratio((double)s->decode_steps, s->seconds)));
    json_object_set_new(j, "tokens", json_integer(s->tokens));
    json_object_set_new(j, "rounds", json_integer(s->decode_steps));
    json_object_set_new(j, "draft_n", json_integer(s->drafted));
    json_object_set_new(j, "draft_n_accepted", json_integer(s->accepted));
    json_object_set_new(j, "acceptance", json_real(ratio((double)s->accepted, (double)s->drafted)));
    for (int i = 0; i < FT_DRAFT_MAX && s->drafted_at[i]; i++)
        json_array_append_new(
            at, json_real(ratio((double)s->accepted_at[i], (double)s->drafted_at[i])));
    json_object_set_new(j, "acceptance_at", at);
    json_object_set_new(j, "accept_len",
                        json_real(ratio((double)s->tokens, (double)s->decode_steps)));
    json_object_set_new(j, "k_mean", json_real(ratio((double)s->drafted, (double)s->decode_steps)));
    json_object_set_new(j, "draft_ms", json_real(s->draft_s * 1e3));
    json_object_set_new(j, "verify_ms", json_real(s->verify_s * 1e3));
    json_object_set_new(j, "other_ms", json_real(other_s(s) * 1e3));
    json_object_set_new(j, "spread", json_real(ratio(s->spread_s, s->seconds)));
    json_object_set_new(j, "other_ids", json_integer(s->other_ids));
    return j;
}

static json_t *result_json(const bench *b)
{
    json_t *j = ft_bench_record(ft_llm_about(b->m)), *classes = json_object();
    json_object_set_new(j, "drafter", json_string(ft_llm_about(b->m)->drafter));
    json_object_set_new(j, "repetitions", json_integer(b->reps));
    json_object_set(j, "order", b->order);
    json_object_set_new(j, "tokens", json_integer(b->tokens));
    for (int c = 0; c < CLASSES; c++) {
        if (!b->prompts[c]) continue;
        json_t *ways = json_array();
        for (int w = 0; w < b->k_max + 2; w++)
            json_array_append_new(ways, sum_json(&b->s[c][w], &b->s[c][0], w));
        json_object_set_new(classes, class_name[c], ways);
    }
    json_object_set_new(j, "classes", classes);
    return j;
}

static void print_table(const bench *b)
{
    printf("%s, drafter: %s\n", ft_llm_about(b->m)->name, ft_llm_about(b->m)->drafter);
    printf("%-10s %-9s %9s %7s %6s %9s %7s %7s %6s %9s %9s %8s  %s\n", "prompts", "drafts",
           "tokens/s", "x off", "spread", "steps/s", "accept", "tok/stp", "drafts", "draft ms",
           "verify ms", "other ms", "by position");
    for (int c = 0; c < CLASSES; c++)
        for (int w = 0; w < b->k_max + 2 && b->prompts[c]; w++) {
            const sum *s = &b->s[c][w];
            char name[16];
            way_title(name, w);
            printf("%-10s %-9s %9.1f %7.3f %4.1f %% %9.1f %7.3f %7.2f %6.2f %9.1f %9.1f %8.1f ",
                   class_name[c], name, speed(s), ratio(speed(s), speed(&b->s[c][0])),
                   100 * ratio(s->spread_s, s->seconds), ratio((double)s->decode_steps, s->seconds),
                   ratio((double)s->accepted, (double)s->drafted),
                   ratio((double)s->tokens, (double)s->decode_steps),
                   ratio((double)s->drafted, (double)s->decode_steps), s->draft_s * 1e3,
                   s->verify_s * 1e3, other_s(s) * 1e3);
            for (int i = 0; i < FT_DRAFT_MAX && s->drafted_at[i]; i++)
                printf(" %.3f", ratio((double)s->accepted_at[i], (double)s->drafted_at[i]));
            if (s->other_ids) printf("  %d responses differ", s->other_ids);
            putchar('\n');
        }
}

/* Speed over the number of draft tokens, one line per class; dashed: adaptive drafting. */
static ft_status plot(const bench *b, const char *path, ft_err *err)
{
    ft_plot p = {.title = "tokens per second over draft tokens per step", .n_x = b->k_max + 1};
    for (int c = 0; c < CLASSES; c++) {
        if (!b->prompts[c]) continue;
        ft_plot_line *l = &p.line[p.n_line++];
        l->name = class_name[c];
        l->y[0] = speed(&b->s[c][0]);
        for (int k = 1; k <= b->k_max; k++) l->y[k] = speed(&b->s[c][k + 1]);
        l->mark = speed(&b->s[c][1]);
    }
    return ft_plot_write(&p, path, err);
}

/* Speculation never changes the output: a response that differs is a bug, here or in the build. */
static ft_status check_ids(const bench *b, ft_err *err)
{
    int n = 0;
    for (int c = 0; c < CLASSES; c++)
        for (int w = 0; w < b->k_max + 2; w++) n += b->s[c][w].other_ids;
    if (!n) return FT_OK;
    return ft_fail(err, FT_EFORMAT, "bench --spec: %d responses differ from those without drafts",
                   n);
}

static ft_status run_classes(bench *b, int *result, ft_err *err)
{
    const char *only = ft_opts_text(b->o, "class"), *svg = ft_opts_text(b->o, "plot");
    const bool json = ft_opts_flag(b->o, "json");
    const bool quiet = json || ft_opts_flag(b->o, "quiet");
    ft_progress *bar = ft_progress_new("bench", 0, quiet ? NULL : ft_bar_count, NULL);
    char folder[4096];
    ft_status st = prompts_folder(b->o, folder, err);
    for (int c = 0; c < CLASSES && !st; c++)
        if (!strcmp(only, "all") || !strcmp(only, class_name[c]))
            st = class_run(b, c, folder, bar, err);
    ft_progress_free(bar);
    if (st) return st;
    json_t *now = result_json(b);
    if (json)
        ft_bench_print(now);
    else
        print_table(b);
    *result = ft_bench_compare(now, b->baseline, ft_opts_text(b->o, "baseline"));
    json_decref(now);
    st = check_ids(b, err);
    return svg && !st ? plot(b, svg, err) : st;
}

int ft_bench_spec(const ft_opts *o)
{
    ft_err err;
    ft_model_opts mo = {0};
    ft_llm_params p = {0};
    bench *b = ft_new(bench);
    b->o = o;
    b->order = json_array();
    b->tokens = ft_opts_set(o, "n-gen") ? (int)ft_opts_int(o, "n-gen") : 96;
    b->limit = (int)ft_opts_int(o, "n-prompts");
    b->reps =
        ft_opts_set(o, "repetitions") ? FT_MIN((int)ft_opts_int(o, "repetitions"), MAX_REPS) : 1;
    ft_status st = FT_OK;
    if (ft_opts_int(o, "seqs") > 1)
        st = ft_fail(&err, FT_EINVAL,
                     "bench --spec: --seqs %d, want 1; --sim-accept measures several sequences",
                     (int)ft_opts_int(o, "seqs"));
    if (!st) st = ft_bench_baseline(&b->baseline, ft_opts_text(o, "baseline"), &err);
    if (!st) st = ft_model_opts_params(&mo, o, &p, &err);
    b->k_max = p.draft_max;
    if (!st) st = ft_llm_open(&b->m, &p, &err);
    if (!st && !ft_llm_about(b->m)->drafts)
        st = ft_fail(&err, FT_EINVAL, "bench --spec: %s", ft_llm_about(b->m)->drafter);
    int result = 0;
    if (!st) st = run_classes(b, &result, &err);
    ft_llm_close(b->m);
    ft_model_opts_release(&mo);
    json_decref(b->baseline);
    json_decref(b->order);
    ft_free(b);
    return st ? ft_die(&err) : result;
}
