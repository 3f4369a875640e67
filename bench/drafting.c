/* drafting: the speed of adaptive drafting relative to no drafting, for every combination of
 * streams, response lengths and simulated acceptance rates.
 *   drafting [-m MODEL] [-d DEVICE] [-t THREADS] [-s STREAMS,...] [-n TOKENS,...] [-a RATE,...]
 *            [-r RUNS] [-x RATIO]
 * Both are interleaved; a line has the medians of RUNS runs and of the ratios of runs that follow
 * each other, and the share of the time in which the GPU waited. "noise" is the median of the
 * ratios of two runs without drafting (0 with one run): how far it is from 1 shows what a ratio is
 * worth on a busy machine. The engine keeps what it learned from one combination to the next, as a
 * server does. The first tokens of a combination do not count: a change of the acceptance rate may
 * cost four steps once, which is much of a short run.
 * Fails if a ratio is below RATIO (0.985). */
#define _XOPEN_SOURCE 700
#include "common.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST = 16, RUNS_MAX = 64, SETTLE = 48 }; /* tokens of each stream that do not count */

typedef struct list {
    double v[MOST];
    int n;
} list;

typedef struct bench {
    ft_llm_params p;
    list streams, tokens, accept;
    int runs, below, lines;
    double ratio, worst;
} bench;

/* Decoding without drafting and with it, of one combination. */
typedef struct pair {
    double speed[2][RUNS_MAX], busy_s[2], seconds[2];
} pair;

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static void run_once(ft_llm *m, const ft_decode_params *p, pair *to, int drafting, int run)
{
    ft_decode_params one = *p;
    ft_decode_time t;
    ft_err err;
    one.draft_max = drafting ? -1 : 0;
    stop_on(ft_llm_decode(m, &one, &t, &err), &err);
    to->speed[drafting][run] = (double)t.tokens / t.seconds;
    to->busy_s[drafting] += t.device_s;
    to->seconds[drafting] += t.seconds;
}

static double idle_percent(const pair *r, int drafting)
{
    return r->busy_s[drafting] > 0 ? 100 * (1 - r->busy_s[drafting] / r->seconds[drafting]) : 0;
}

/* The median of the ratios of a run with drafting and the one without it beside it. */
static double median_ratio(const pair *r, int n)
{
    double ratio[RUNS_MAX];
    for (int i = 0; i < n; i++) ratio[i] = r->speed[1][i] / r->speed[0][i];
    return median(ratio, n);
}

/* The same for pairs of runs without drafting. */
static double noise_of(const pair *r, int n)
{
    double ratio[RUNS_MAX];
    for (int i = 0; i < n / 2; i++) ratio[i] = r->speed[0][2 * i + 1] / r->speed[0][2 * i];
    return n < 2 ? 0 : median(ratio, n / 2);
}

static void combination(bench *b, ft_llm *m, const ft_decode_params *p)
{
    pair r = {0};
    for (int n = 0; n < SETTLE; n += p->n_gen) run_once(m, p, &r, 1, 0);
    r = (pair){0};
    for (int i = 0; i < b->runs; i++) {
        run_once(m, p, &r, i % 2, i); /* each is first in every second run */
        run_once(m, p, &r, !(i % 2), i);
    }
    const double ratio = median_ratio(&r, b->runs), noise = noise_of(&r, b->runs);
    const double off = median(r.speed[0], b->runs), on = median(r.speed[1], b->runs);
    printf("%7d %6d %6.2f %10.1f %10.1f %7.3f %7.1f %7.1f %7.3f%s\n", p->seqs, p->n_gen,
           p->accept[0], off, on, ratio, idle_percent(&r, 0), idle_percent(&r, 1), noise,
           ratio < b->ratio ? "  BELOW" : "");
    fflush(stdout);
    b->below += ratio < b->ratio;
    b->worst = FT_MIN(b->worst, ratio);
    b->lines++;
}

static void measure(bench *b, int streams)
{
    ft_llm_params p = b->p;
    ft_llm *m = NULL;
    ft_decode_time t;
    ft_err err;
    p.slots = streams;
    stop_on(ft_llm_open(&m, &p, &err), &err);
    ft_decode_params d = {.seqs = streams, .n_gen = 32, .draft_max = 0};
    stop_on(ft_llm_decode(m, &d, &t, &err), &err); /* a warm-up */
    for (int i = 0; i < b->tokens.n; i++)
        for (int j = 0; j < b->accept.n; j++) {
            d.n_gen = (int)b->tokens.v[i];
            d.accept = &b->accept.v[j];
            d.n_accept = 1;
            combination(b, m, &d);
        }
    ft_llm_close(m);
}

/* Numbers from `least` to `most`, separated by commas. */
static bool parse_list(list *to, const char *text, double least, double most)
{
    to->n = 0;
    for (const char *p = text; to->n < MOST; p++) {
        char *end;
        const double v = strtod(p, &end);
        if (end == p || !(v >= least && v <= most)) return false;
        to->v[to->n++] = v;
        if (!*end) return true;
        if (*end != ',') return false;
        p = end;
    }
    return false;
}

static void options(bench *b, int argc, char **argv)
{
    bool ok = true;
    for (int c; (c = getopt(argc, argv, "m:d:t:s:n:a:r:x:")) != -1;) {
        if (c == 'm') b->p.model = optarg;
        if (c == 'd') b->p.device = optarg;
        if (c == 't') b->p.threads = atoi(optarg);
        if (c == 's') ok = ok && parse_list(&b->streams, optarg, 1, 256);
        if (c == 'n') ok = ok && parse_list(&b->tokens, optarg, 1, 1 << 16);
        if (c == 'a') ok = ok && parse_list(&b->accept, optarg, 0, 1);
        if (c == 'r') b->runs = atoi(optarg);
        if (c == 'x') b->ratio = atof(optarg);
        ok = ok && c != '?';
    }
    if (ok && b->runs > 0 && b->runs <= RUNS_MAX && optind == argc) return;
    fprintf(stderr, "usage: drafting [-m MODEL] [-d DEVICE] [-t THREADS] [-s STREAMS,...] "
                    "[-n TOKENS,...] [-a RATE,...] [-r RUNS] [-x RATIO]\n");
    exit(1);
}

int main(int argc, char **argv)
{
    bench b = {.streams = {{1, 2, 4, 8, 32}, 5},
               .tokens = {{16, 32, 96}, 3},
               .accept = {{0, 0.3, 0.45, 0.6, 0.75, 0.9}, 6},
               .runs = 5,
               .ratio = 0.985,
               .worst = 1e9};
    ft_llm_defaults(&b.p);
    options(&b, argc, argv);
    for (int i = 0; i < b.tokens.n; i++) b.p.ctx = FT_MAX(b.p.ctx, (int)b.tokens.v[i] + 64);
    printf("%7s %6s %6s %10s %10s %7s %7s %7s %7s\n", "streams", "tokens", "accept", "off/s",
           "on/s", "ratio", "idle %", "idle %", "noise");
    for (int i = 0; i < b.streams.n; i++) measure(&b, (int)b.streams.v[i]);
    printf("worst %.3f, %d of %d below %g\n", b.worst, b.below, b.lines, b.ratio);
    return b.below != 0;
}
