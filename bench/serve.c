/* bench/serve.c - many streams at once through the queue: tokens per second of one client and of
 * many, each with consecutive requests, alternately with and without drafting; and the gaps between
 * the tokens of a running stream while a long prompt arrives.
 *   build/bench/serve [MODEL [STREAMS [TOKENS [PROMPT [DEVICE]]]]] */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/mem.h"
#include "common.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_GAPS = 1 << 16, REPS = 3, ASKS = 3 };

typedef struct stream {
    ft_job *j;
    sem_t *sem;
    int32_t *ids;
    int n;
    double *at; /* arrival times of tokens */
    int n_at;
} stream;

static ft_llm *m; /* the model under test, with or without drafting */

static void die(const char *what, const ft_err *err)
{
    fprintf(stderr, "serve: %s: %s\n", what, err->text);
    exit(1);
}

static void wake(void *user)
{
    stream *s = user;
    if (s->n_at < MAX_GAPS) s->at[s->n_at++] = ft_now_s();
    sem_post(s->sem);
}

static void begin_stream(stream *s, sem_t *sem, int seed, int n_prompt, int tokens)
{
    static const char *const question[] = {"What does tar do?", "Define river.", "What is 3 + 4?",
                                           "How do I list files by size?", "Say something kind."};
    ft_request r;
    ft_err err;
    char text[200], *prompt = NULL;
    ft_request_defaults(&r, m);
    r.max_tokens = tokens;
    r.ignore_eos = true;
    r.sampling.temperature = seed % 2 ? 0.7f : 0;
    r.sampling.seed = (uint64_t)seed;
    r.cache_prompt = false;
    int32_t *ids = NULL;
    if (n_prompt) {
        ids = ft_new_n(int32_t, (size_t)n_prompt);
        for (int i = 0; i < n_prompt; i++) ids[i] = 300 + (i * 7919 + seed) % 9000;
        r.ids = ids;
        r.n_ids = n_prompt;
    } else {
        snprintf(text, sizeof text, "[{\"role\":\"user\",\"content\":\"%s (%d)\"}]",
                 question[seed % 5], seed);
        if (ft_llm_render(m, text, NULL, &prompt, &r.in_thought, &err)) die("template", &err);
        r.prompt = prompt;
        r.prompt_bytes = strlen(prompt);
    }
    *s = (stream){.sem = sem};
    s->ids = ft_new_n(int32_t, (size_t)tokens + 64);
    s->at = ft_new_n(double, MAX_GAPS);
    if (ft_job_new(&s->j, m, &r, wake, s, &err)) die("job", &err);
    ft_free(ids);
    free(prompt);
}

static bool drain_stream(stream *s)
{
    ft_event e;
    while (ft_job_next(s->j, &e))
        if (e.id >= 0) s->ids[s->n++] = e.id;
    return ft_job_done(s->j);
}

static void end_stream(stream *s)
{
    ft_job_free(s->j);
    ft_free(s->ids);
    ft_free(s->at);
}

/* Tokens per second of n clients with `requests` consecutive requests each, while all of them are
 * active. The ids of the first responses go to out[i]. */
static double measure_streams(int first, int n, int tokens, int requests, int32_t **out, int *n_out)
{
    stream *s = ft_new_n(stream, (size_t)n);
    int *sent = ft_new_n(int, (size_t)n), read = 0, left = n;
    double rate = 0;
    sem_t sem;
    sem_init(&sem, 0, 0);
    const double start = ft_now_s();
    for (int i = 0; i < n; i++) begin_stream(&s[i], &sem, first + i, 0, tokens);
    while (left) {
        sem_wait(&sem);
        for (int i = 0; i < n; i++) {
            if (sent[i] == requests) continue;
            const int before = s[i].n;
            const bool done = drain_stream(&s[i]);
            read += s[i].n - before;
            if (!done) continue;
            if (out && !sent[i]) {
                out[i] = ft_new_n(int32_t, (size_t)tokens);
                memcpy(out[i], s[i].ids, sizeof(int32_t) * (size_t)FT_MIN(tokens, s[i].n));
                n_out[i] = s[i].n;
            }
            end_stream(&s[i]);
            if (++sent[i] < requests) {
                begin_stream(&s[i], &sem, first + i + sent[i] * n, 0, tokens);
                continue;
            }
            if (left-- == n) rate = read / (ft_now_s() - start);
        }
    }
    sem_destroy(&sem);
    ft_free(s);
    ft_free(sent);
    return rate;
}

static double median(double *v)
{
    qsort(v, REPS, sizeof *v, by_value);
    return v[REPS / 2];
}

/* Number of streams with the same ids in both. */
static int same_ids(int streams, int tokens, int32_t **a, const int *n_a, int32_t **b,
                    const int *n_b)
{
    int same = 0;
    for (int i = 0; i < streams; i++)
        same += n_a[i] == n_b[i] &&
                !memcmp(a[i], b[i], sizeof(int32_t) * (size_t)FT_MIN(tokens, n_b[i]));
    return same;
}

/* Totals of many streams over all runs. */
typedef struct work {
    double steps, decode_steps, drafted, accepted, tokens;
} work;

/* Adds the counters of the model; sign: -1 before a run, 1 after it. */
static void add_counters(work *w, int sign)
{
    ft_llm_stats s;
    ft_llm_counts(m, &s);
    w->steps += sign * (double)s.steps;
    w->decode_steps += sign * (double)s.decode_steps;
    w->drafted += sign * (double)s.drafted;
    w->accepted += sign * (double)s.accepted;
    w->tokens += sign * (double)s.output_tokens;
}

static void throughput(ft_llm *const way[2], int streams, int tokens)
{
    static const char *const name[2] = {"drafting", "without"};
    const size_t n = (size_t)streams;
    int32_t **alone = ft_new_n(int32_t *, n), **many[2];
    int *n_alone = ft_new_n(int, n), *n_many[2];
    double one[2][REPS], all[2][REPS], rate[2];
    work done[2] = {{.steps = 0}, {.steps = 0}};
    m = way[0];
    for (int i = 0; i < streams; i++) measure_streams(i, 1, tokens, 1, &alone[i], &n_alone[i]);
    for (int w = 0; w < 2; w++) {
        m = way[w];
        many[w] = ft_new_n(int32_t *, n);
        n_many[w] = ft_new_n(int, n);
        measure_streams(0, streams, tokens, 1, many[w], n_many[w]);
    }
    for (int i = 0; i < 2 * REPS; i++) {
        m = way[i % 2];
        one[i % 2][i / 2] = measure_streams(0, 1, tokens, ASKS, NULL, NULL);
        add_counters(&done[i % 2], -1);
        all[i % 2][i / 2] = measure_streams(0, streams, tokens, ASKS, NULL, NULL);
        add_counters(&done[i % 2], 1);
    }
    for (int w = 0; w < 2; w++) {
        const double a = median(one[w]);
        rate[w] = median(all[w]);
        printf("%-9s one stream %7.1f tokens/s, %d streams %7.1f (%.2f x one), %d of them with the "
               "ids they have alone\n",
               name[w], a, streams, rate[w], rate[w] / a,
               same_ids(streams, tokens, alone, n_alone, many[w], n_many[w]));
    }
    printf("many: %.2f tokens per step with drafting, %.2f without; %.2f draft tokens per step, "
           "%.2f of them accepted\n",
           done[0].tokens / done[0].steps, done[1].tokens / done[1].steps,
           done[0].drafted / done[0].decode_steps, done[0].accepted / FT_MAX(1.0, done[0].drafted));
    printf("drafting / without: one stream %.3f, %d streams %.3f\n",
           median(one[0]) / median(one[1]), streams, rate[0] / rate[1]);
    for (int i = 0; i < streams; i++) {
        ft_free(alone[i]);
        ft_free(many[0][i]);
        ft_free(many[1][i]);
    }
    ft_free(alone);
    ft_free(n_alone);
    for (int w = 0; w < 2; w++) {
        ft_free(many[w]);
        ft_free(n_many[w]);
    }
}

static void print_gaps(const char *what, double *gap, int n)
{
    if (!n) return;
    qsort(gap, (size_t)n, sizeof *gap, by_value);
    printf("%-14s %8.2f ms median, %.2f ms p99 (%.2f x), %.2f ms worst, %d gaps\n", what,
           gap[n / 2] * 1e3, gap[n * 99 / 100] * 1e3, gap[n * 99 / 100] / gap[n / 2],
           gap[n - 1] * 1e3, n);
}

/* Measures the gaps of a running stream while a long prompt is evaluated. */
static void gaps(int prompt, int tokens)
{
    stream s, p;
    sem_t sem;
    double *all = ft_new_n(double, MAX_GAPS), *during = ft_new_n(double, MAX_GAPS);
    int n_all = 0, n_during = 0;
    sem_init(&sem, 0, 0);
    begin_stream(&s, &sem, 2, 0, tokens);
    while (s.n < tokens / 5) {
        sem_wait(&sem);
        drain_stream(&s);
    }
    const double from = ft_now_s();
    begin_stream(&p, &sem, 1, prompt, 2);
    double to = 0;
    for (bool a = false, b = false; !a || !b;) {
        sem_wait(&sem);
        if (!a) a = drain_stream(&s);
        if (!b && (b = drain_stream(&p))) to = ft_now_s();
    }
    for (int i = 1; i < s.n_at; i++) {
        const double g = s.at[i] - s.at[i - 1];
        all[n_all++] = g;
        if (s.at[i] > from && s.at[i - 1] < to) during[n_during++] = g;
    }
    printf("a prompt of %d tokens took %.2f s beside a stream of %d tokens; gaps of the stream:\n",
           prompt, to - from, tokens);
    print_gaps("in all", all, n_all);
    print_gaps("meanwhile", during, n_during);
    end_stream(&s);
    end_stream(&p);
    ft_free(all);
    ft_free(during);
    sem_destroy(&sem);
}

int main(int argc, char **argv)
{
    const int streams = argc > 2 ? atoi(argv[2]) : 32, tokens = argc > 3 ? atoi(argv[3]) : 64;
    const int prompt = argc > 4 ? atoi(argv[4]) : 4096;
    ft_llm_params p;
    ft_queue_params q;
    ft_err err;
    ft_llm_defaults(&p);
    p.model = argc > 1 ? argv[1] : "models/foretoken-tiny.gguf";
    p.slots = FT_MAX(2, streams);
    p.ctx = FT_MAX(2048, prompt + 64);
    p.cells = (int64_t)p.ctx * 2 + (int64_t)streams * (tokens + 128);
    if (argc > 5) p.device = argv[5];
    ft_queue_defaults(&q);
    ft_llm *way[2];
    for (int i = 0; i < 2; i++) {
        if (i) p.draft_max = 0;
        if (ft_llm_open(&way[i], &p, &err)) die(p.model, &err);
        if (ft_llm_start(way[i], &q, &err)) die("queue", &err);
    }
    if (streams > 1) throughput(way, streams, tokens);
    m = way[0];
    if (prompt) gaps(prompt, 600);
    for (int i = 0; i < 2; i++) ft_llm_close(way[i]);
    return 0;
}
