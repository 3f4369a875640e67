/* bench/clients.c - many streams on a running server with llama.cpp's API, foretoken's or
 * llama.cpp's own: each sends one request after the other, with another prompt of WORDS words, and
 * reads a response of about TOKENS tokens, so that prompts arrive while other streams generate.
 *   build/bench/clients URL [STREAMS [SECONDS [WORDS [TOKENS]]]]
 * Prints tokens per second of all streams together, and percentiles of the time to the first token
 * and between two events of a stream, in milliseconds. The first fifth of the time does not count.
 * Fails if a request does. */
#define _GNU_SOURCE
#ifndef FT_HAVE_CURL
#error "bench/clients needs libcurl"
#endif
#include "common.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"

#include <curl/curl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STREAMS_MAX = 512, TIMES_MAX = 1 << 20, SILENCE_S = 600 };

static const char *server;
static int n_words = 200, n_tokens = 128;
static double count_from_s, end_s;
static atomic_int failures, responses;

/* ---- measured times, in seconds ---- */

typedef struct times {
    double *at;
    int n;
} times;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static times firsts, gaps;
static double output_tokens, prompt_tokens; /* within the time that counts */

static void put(times *t, double s)
{
    pthread_mutex_lock(&lock);
    if (t->n < TIMES_MAX) t->at[t->n++] = s;
    pthread_mutex_unlock(&lock);
}

static bool counts(double at_s)
{
    return at_s >= count_from_s && at_s < end_s;
}

/* The tokens of a response are spread evenly over the time in which it was received. */
static void put_tokens(double first_s, double last_s, double output, double prompt)
{
    const double from = FT_MAX(first_s, count_from_s), to = FT_MIN(last_s, end_s);
    pthread_mutex_lock(&lock);
    if (to > from) output_tokens += output * (to - from) / (last_s - first_s);
    if (counts(first_s)) prompt_tokens += prompt;
    pthread_mutex_unlock(&lock);
}

/* ---- one request ---- */

typedef struct reading {
    ft_buf raw;
    size_t at; /* of the next line */
    int events;
    double first, last, prompt_n, predicted_n;
    bool stopped;
} reading;

static void take_line(reading *r, const char *line, size_t n)
{
    if (n < 6 || strncmp(line, "data: ", 6)) return;
    json_t *j = json_loadb(line + 6, n - 6, 0, NULL);
    const double now = ft_now_s();
    const json_t *t = json_object_get(j, "timings");
    if (json_string_length(json_object_get(j, "content"))) {
        if (r->events++ && counts(now)) put(&gaps, now - r->last);
        if (r->events == 1) r->first = now;
        r->last = now;
    }
    if (json_is_true(json_object_get(j, "stop"))) r->stopped = true;
    if (t) {
        r->prompt_n = json_number_value(json_object_get(t, "prompt_n"));
        r->predicted_n = json_number_value(json_object_get(t, "predicted_n"));
    }
    json_decref(j);
}

static size_t receive(char *p, size_t size, size_t n, void *user)
{
    reading *r = user;
    ft_buf_put(&r->raw, p, size * n);
    const char *z = ft_buf_z(&r->raw);
    for (const char *end; (end = strchr(z + r->at, '\n'));) {
        take_line(r, z + r->at, (size_t)(end - (z + r->at)));
        r->at = (size_t)(end - z) + 1;
    }
    return size * n;
}

/* Half to one and a half times the number of tokens; no two prompts begin alike. */
static char *body_of(ft_rng *rng)
{
    static const char *const words[] = {"river", "house", "file",  "tree",  "number",
                                        "list",  "light", "green", "seven", "market"};
    ft_buf b;
    ft_buf_init(&b, 1 << 24);
    ft_buf_printf(&b, "%08x", (unsigned)ft_rng_u64(rng));
    for (int i = 0; i < n_words; i++) ft_buf_printf(&b, " %s", words[ft_rng_u64(rng) % 10]);
    const int n = n_tokens / 2 + (int)(ft_rng_u64(rng) % (uint64_t)(n_tokens + 1));
    json_t *j =
        json_pack("{s:s,s:i,s:f,s:b,s:b,s:b}", "prompt", ft_buf_z(&b), "n_predict", FT_MAX(1, n),
                  "temperature", 0.0, "ignore_eos", true, "cache_prompt", false, "stream", true);
    char *z = json_dumps(j, 0);
    json_decref(j);
    ft_buf_release(&b);
    return z;
}

static void request(CURL *h, ft_rng *rng)
{
    char to[500];
    long status = 0;
    reading r = {0};
    char *body = body_of(rng);
    struct curl_slist *head = curl_slist_append(NULL, "Content-Type: application/json");
    ft_buf_init(&r.raw, 1 << 26);
    snprintf(to, sizeof to, "%s/completion", server);
    curl_easy_reset(h);
    curl_easy_setopt(h, CURLOPT_URL, to);
    curl_easy_setopt(h, CURLOPT_HTTPHEADER, head);
    curl_easy_setopt(h, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, receive);
    curl_easy_setopt(h, CURLOPT_WRITEDATA, &r);
    curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(h, CURLOPT_TIMEOUT, (long)SILENCE_S);
    const double start = ft_now_s();
    const CURLcode rc = curl_easy_perform(h);
    curl_easy_getinfo(h, CURLINFO_RESPONSE_CODE, &status);
    if (rc || status != 200 || !r.stopped) {
        const size_t shown = FT_MIN(r.raw.len, 300); /* the end has the error */
        fprintf(stderr, "clients: %s: %s, status %ld, %zu bytes that end with: %s\n", to,
                curl_easy_strerror(rc), status, r.raw.len, ft_buf_z(&r.raw) + r.raw.len - shown);
        atomic_fetch_add(&failures, 1);
    } else {
        atomic_fetch_add(&responses, 1);
        if (r.events && counts(start)) put(&firsts, r.first - start);
        if (r.events) put_tokens(r.first, r.last, r.predicted_n, r.prompt_n);
    }
    curl_slist_free_all(head);
    ft_buf_release(&r.raw);
    free(body);
}

static void *run_stream(void *user)
{
    ft_rng rng = {(uint64_t)(uintptr_t)user * 7919 + 1};
    CURL *h = curl_easy_init();
    while (ft_now_s() < end_s && !atomic_load(&failures)) request(h, &rng);
    curl_easy_cleanup(h);
    return NULL;
}

/* ---- results ---- */

static double percentile_ms(const times *t, double p)
{
    return t->n ? 1e3 * t->at[(int)(p * (t->n - 1) + 0.5)] : 0;
}

static void print(int streams)
{
    const double s = end_s - count_from_s;
    qsort(firsts.at, (size_t)firsts.n, sizeof *firsts.at, by_value);
    qsort(gaps.at, (size_t)gaps.n, sizeof *gaps.at, by_value);
    printf(
        "streams responses  tokens/s  prompt/s first p50       p90       p99   gap p50       p99  "
        "     max\n%7d %9d %9.1f %9.1f %9.1f %9.1f %9.1f %9.2f %9.2f %9.2f\n",
        streams, atomic_load(&responses), output_tokens / s, prompt_tokens / s,
        percentile_ms(&firsts, 0.5), percentile_ms(&firsts, 0.9), percentile_ms(&firsts, 0.99),
        percentile_ms(&gaps, 0.5), percentile_ms(&gaps, 0.99), percentile_ms(&gaps, 1));
}

static int number(int argc, char **argv, int i, int least, int most, int otherwise)
{
    if (argc <= i) return otherwise;
    char *end;
    const long v = strtol(argv[i], &end, 10);
    if (*end || end == argv[i] || v < least || v > most) {
        fprintf(stderr, "clients: argument %d is \"%s\", want %d to %d\n", i, argv[i], least, most);
        exit(1);
    }
    return (int)v;
}

int main(int argc, char **argv)
{
    static pthread_t thread[STREAMS_MAX];
    if (argc < 2 || argc > 6) {
        fprintf(stderr, "usage: clients URL [STREAMS [SECONDS [WORDS [TOKENS]]]]\n");
        return 1;
    }
    server = argv[1];
    const int streams = number(argc, argv, 2, 1, STREAMS_MAX, 16);
    const int seconds = number(argc, argv, 3, 1, 86400, 30);
    n_words = number(argc, argv, 4, 1, 100000, n_words);
    n_tokens = number(argc, argv, 5, 1, 100000, n_tokens);
    firsts.at = ft_new_n(double, TIMES_MAX);
    gaps.at = ft_new_n(double, TIMES_MAX);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    const double begin = ft_now_s();
    count_from_s = begin + 0.2 * seconds;
    end_s = begin + seconds;
    for (int i = 0; i < streams; i++)
        if (pthread_create(&thread[i], NULL, run_stream, (void *)(uintptr_t)i)) {
            perror("clients: a thread");
            return 1;
        }
    for (int i = 0; i < streams; i++) pthread_join(thread[i], NULL);
    if (!atomic_load(&failures)) print(streams);
    ft_free(firsts.at);
    ft_free(gaps.at);
    curl_global_cleanup();
    return atomic_load(&failures) ? 1 : 0;
}
