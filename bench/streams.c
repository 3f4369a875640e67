/* bench/streams.c - many streams at once for minutes, with draft tokens in every step, prompts and
 * responses of mixed lengths, clients that leave, and storms in which all leave at once. Starts the
 * server, learns each response alone, and checks that every greedy response under load is that one.
 * Afterwards slots, pages, descriptors and memory must be what they were. Prints percentiles of the
 * time to the first token and between tokens, and what the slowest responses waited for.
 *   build/bench/streams [SECONDS [STREAMS [plain|tls|haproxy [PROGRAM [MODEL]]]]]
 * Needs libcurl; openssl for tls, haproxy for haproxy. */
#define _GNU_SOURCE
#ifndef FT_HAVE_CURL
#error "bench/streams needs libcurl"
#endif
#include "common.h"
#include "process.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"

#include <curl/curl.h>
#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    STREAMS_MAX = 256,
    PROMPTS = 24,
    SLOTS = 16,
    CTX = 2048,
    TIMES_MAX = 1 << 20,
    STORM_EVERY_S = 30,
    STORM_S = 2,
    SILENCE_S = 1800, /* of a server that hangs */
};

static pid_t server, proxy;
static int server_port;
static char url[100], folder[] = "/tmp/foretoken-streams-XXXXXX";
static double begin_s, end_s;
static char *prompt[PROMPTS], *alone[PROMPTS];
static int length[PROMPTS];
static atomic_llong whole, left, wrong, tokens;

/* ---- measured times, in seconds ---- */

typedef struct times {
    double *at;
    int n;
} times;

/* Of responses that were read to their end. */
typedef struct parts {
    double first, prompt, all;
} parts;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static times gaps;
static struct {
    parts *at;
    int n;
} done;

static void put_gap(double s)
{
    pthread_mutex_lock(&lock);
    if (gaps.n < TIMES_MAX) gaps.at[gaps.n++] = s;
    pthread_mutex_unlock(&lock);
}

static void put_done(parts p)
{
    pthread_mutex_lock(&lock);
    if (done.n < TIMES_MAX) done.at[done.n++] = p;
    pthread_mutex_unlock(&lock);
}

static void expect(bool ok, const char *what, double found, double want)
{
    if (ok) return;
    fprintf(stderr, "streams: %s: %g, want %g\n", what, found, want);
    atomic_fetch_add(&wrong, 1);
}

/* ---- one request ---- */

typedef struct reading {
    ft_buf raw, text;
    size_t at;         /* of the next line */
    int events, leave; /* leaves after so many events; < 0: never */
    double start, first, last, prompt_ms;
    double give_up_s; /* leaves at this time */
    bool stream, stopped;
} reading;

static bool in_storm(double now)
{
    const double s = now - begin_s;
    return now < end_s && s > STORM_EVERY_S &&
           s - STORM_EVERY_S * (int)(s / STORM_EVERY_S) < STORM_S;
}

static void take_line(reading *r, const char *line, size_t n)
{
    if (r->stream && (n < 6 || strncmp(line, "data: ", 6))) return;
    const size_t skip = r->stream ? 6 : 0;
    json_t *j = json_loadb(line + skip, n - skip, 0, NULL);
    const double now = ft_now_s();
    if (json_string_length(json_object_get(j, "content"))) {
        ft_buf_puts(&r->text, json_string_value(json_object_get(j, "content")));
        if (r->first <= 0) r->first = now;
        if (r->events++ && r->stream) put_gap(now - r->last);
        r->last = now;
    }
    if (json_is_true(json_object_get(j, "stop"))) r->stopped = true;
    const json_t *t = json_object_get(j, "timings");
    if (t) r->prompt_ms = json_number_value(json_object_get(t, "prompt_ms"));
    json_decref(j);
}

static size_t receive(char *p, size_t size, size_t n, void *user)
{
    reading *r = user;
    ft_buf_put(&r->raw, p, size * n);
    const char *z = ft_buf_z(&r->raw);
    for (const char *end; r->stream && (end = strchr(z + r->at, '\n'));) {
        take_line(r, z + r->at, (size_t)(end - (z + r->at)));
        r->at = (size_t)(end - z) + 1;
    }
    if (r->leave >= 0 && r->events >= r->leave) return 0;
    return size * n;
}

static int look(void *user, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    const reading *r = user;
    const double now = ft_now_s();
    (void)a, (void)b, (void)c, (void)d;
    return r->give_up_s > 0 && (now > r->give_up_s || in_storm(now));
}

static void reading_init(reading *r, bool stream)
{
    *r = (reading){.leave = -1, .stream = stream, .start = ft_now_s()};
    ft_buf_init(&r->raw, 1 << 26);
    ft_buf_init(&r->text, 1 << 24);
}

static void reading_release(reading *r)
{
    ft_buf_release(&r->raw);
    ft_buf_release(&r->text);
}

/* body NULL: GET. Returns the status, 0: none; *rc: why it ended. */
static long request(CURL *h, const char *path, const char *body, reading *r, CURLcode *rc)
{
    char to[200];
    long status = 0;
    struct curl_slist *head = curl_slist_append(NULL, "Content-Type: application/json");
    snprintf(to, sizeof to, "%s%s", url, path);
    curl_easy_reset(h);
    curl_easy_setopt(h, CURLOPT_URL, to);
    curl_easy_setopt(h, CURLOPT_HTTPHEADER, head);
    if (body) curl_easy_setopt(h, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, receive);
    curl_easy_setopt(h, CURLOPT_WRITEDATA, r);
    curl_easy_setopt(h, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(h, CURLOPT_XFERINFOFUNCTION, look);
    curl_easy_setopt(h, CURLOPT_XFERINFODATA, r);
    curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(h, CURLOPT_SSL_VERIFYPEER, 0L);
    curl_easy_setopt(h, CURLOPT_SSL_VERIFYHOST, 0L);
    curl_easy_setopt(h, CURLOPT_TIMEOUT, (long)SILENCE_S);
    *rc = curl_easy_perform(h);
    curl_easy_getinfo(h, CURLINFO_RESPONSE_CODE, &status);
    curl_slist_free_all(head);
    return status;
}

static char *body_of(int i, bool stream)
{
    json_t *j = json_pack("{s:s,s:i,s:f,s:b,s:b}", "prompt", prompt[i], "n_predict", length[i],
                          "temperature", 0.0, "ignore_eos", true, "stream", stream);
    char *z = json_dumps(j, 0);
    json_decref(j);
    return z;
}

static void make_prompts(void)
{
    static const char *const words[] = {"river", "house", "file", "tree", "number", "list"};
    static const int n_words[] = {3, 30, 150, 600}, n_tokens[] = {12, 40, 96};
    for (int i = 0; i < PROMPTS; i++) {
        ft_buf b;
        ft_buf_init(&b, 1 << 20);
        ft_buf_printf(&b, "%d ", i * 7);
        for (int k = 0; k < n_words[i % 4]; k++)
            ft_buf_printf(&b, "%s ", words[(k * (i + 3) + k / 7) % 6]);
        prompt[i] = ft_buf_take(&b);
        length[i] = n_tokens[i / 4 % 3];
    }
}

static void learn_alone(CURL *h, int n)
{
    for (int i = 0; i < n; i++) {
        reading r;
        CURLcode rc;
        char *body = body_of(i, false);
        reading_init(&r, false);
        const long status = request(h, "/completion", body, &r, &rc);
        take_line(&r, ft_buf_z(&r.raw), r.raw.len);
        if (rc || status != 200 || !r.text.len) {
            fprintf(stderr, "streams: alone: %s, status %ld, %s\n", curl_easy_strerror(rc), status,
                    ft_buf_z(&r.raw));
            kill(server, SIGTERM);
            exit(1);
        }
        if (!alone[i]) alone[i] = ft_strdup(ft_buf_z(&r.text));
        expect(!strcmp(alone[i], ft_buf_z(&r.text)), "a response after the load differs, prompt", i,
               i);
        reading_release(&r);
        free(body);
    }
}

/* ---- streams ---- */

static void read_stream(CURL *h, ft_rng *rng)
{
    reading r;
    CURLcode rc;
    const int i = (int)(ft_rng_u64(rng) % PROMPTS);
    const bool leaves = ft_rng_u64(rng) % 8 == 0;
    char *body = body_of(i, true);
    reading_init(&r, true);
    r.give_up_s = INFINITY; /* a storm ends it all the same */
    if (leaves && ft_rng_u64(rng) % 2)
        r.leave = 1 + (int)(ft_rng_u64(rng) % 20);
    else if (leaves)
        r.give_up_s = r.start + ft_rng_f64(rng);
    const long status = request(h, "/completion", body, &r, &rc);
    atomic_fetch_add(&tokens, r.events);
    if (rc == CURLE_WRITE_ERROR || rc == CURLE_ABORTED_BY_CALLBACK) {
        atomic_fetch_add(&left, 1);
    } else if (rc || status != 200 || !r.stopped || strcmp(ft_buf_z(&r.text), alone[i])) {
        fprintf(stderr, "streams: prompt %d: %s, status %ld, %.300s\n  want %.100s\n", i,
                curl_easy_strerror(rc), status, ft_buf_z(&r.raw), alone[i]);
        atomic_fetch_add(&wrong, 1);
    } else {
        atomic_fetch_add(&whole, 1);
        put_done((parts){r.first - r.start, r.prompt_ms * 1e-3, ft_now_s() - r.start});
    }
    reading_release(&r);
    free(body);
}

static void *run_stream(void *user)
{
    ft_rng rng = {(uint64_t)(uintptr_t)user + 1};
    CURL *h = curl_easy_init();
    while (ft_now_s() < end_s && atomic_load(&wrong) < 20) {
        if (in_storm(ft_now_s())) usleep((useconds_t)(ft_rng_u64(&rng) % 50000));
        read_stream(h, &rng);
    }
    curl_easy_cleanup(h);
    return NULL;
}

/* ---- server and proxy ---- */

static void start_server(const char *program, const char *model, bool tls)
{
    int fd[2];
    char slots[16], ctx[16], key[100], cert[100], line[1000];
    snprintf(slots, sizeof slots, "%d", SLOTS);
    snprintf(ctx, sizeof ctx, "%d", CTX);
    snprintf(key, sizeof key, "%s/key.pem", folder);
    snprintf(cert, sizeof cert, "%s/cert.pem", folder);
    if (tls) {
        snprintf(line, sizeof line,
                 "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout %s "
                 "-out %s 2>/dev/null",
                 key, cert);
        if (system(line)) exit(1);
    }
    if (pipe(fd)) exit(1);
    server = fork();
    if (!server) {
        dup2(fd[1], 2);
        close(fd[0]);
        close(fd[1]);
        execl(program, program, "serve", "--metrics", "--port", "0", "-np", slots, "-c", ctx,
              "--cache-ram", "24", "--log-disable", "--spec-adapt", "off", "-m", model,
              tls ? "--ssl-key-file" : (char *)NULL, key, "--ssl-cert-file", cert, (char *)NULL);
        exit(127);
    }
    close(fd[1]);
    FILE *f = fdopen(fd[0], "r");
    while (f && !server_port && fgets(line, sizeof line, f)) {
        const char *at = strstr(line, "ready at http");
        at = at ? strstr(at, "127.0.0.1:") : NULL;
        if (at) server_port = atoi(at + strlen("127.0.0.1:"));
    }
    if (!server_port) exit(1);
    if (!fork()) { /* drains its later output; ends with it */
        while (fgets(line, sizeof line, f)) fputs(line, stderr);
        _exit(0);
    }
    fclose(f);
    snprintf(url, sizeof url, "http%s://127.0.0.1:%d", tls ? "s" : "", server_port);
}

static int free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    socklen_t n = sizeof a;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(fd, (struct sockaddr *)&a, n) || getsockname(fd, (struct sockaddr *)&a, &n)) exit(1);
    close(fd);
    return ntohs(a.sin_port);
}

static void start_proxy(void)
{
    char path[100];
    const int port = free_port();
    snprintf(path, sizeof path, "%s/haproxy.cfg", folder);
    FILE *f = fopen(path, "w");
    if (!f) exit(1);
    fprintf(f,
            "defaults\n mode http\n timeout connect 5s\n timeout client 30m\n timeout server 30m\n"
            " timeout http-request 30s\n timeout queue 60s\n"
            "frontend api\n bind 127.0.0.1:%d\n default_backend one\n"
            "backend one\n server one 127.0.0.1:%d\n",
            port, server_port);
    fclose(f);
    proxy = fork();
    if (!proxy) {
        execlp("haproxy", "haproxy", "-db", "-f", path, (char *)NULL);
        exit(127);
    }
    snprintf(url, sizeof url, "http://127.0.0.1:%d", port);
    sleep(2);
}

/* ---- what the server holds ---- */

static int descriptors(void)
{
    char path[64];
    int n = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)server);
    DIR *d = opendir(path);
    while (d && readdir(d)) n++;
    if (d) closedir(d);
    return n;
}

static double metric(CURL *h, const char *name)
{
    reading r;
    CURLcode rc;
    reading_init(&r, false);
    request(h, "/metrics", NULL, &r, &rc);
    const char *at = strstr(ft_buf_z(&r.raw), name);
    const double v = at ? atof(at + strlen(name)) : -1;
    reading_release(&r);
    return v;
}

static void erase_slots(CURL *h)
{
    for (int i = 0; i < SLOTS; i++) {
        char path[64];
        reading r;
        CURLcode rc;
        snprintf(path, sizeof path, "/slots/%d?action=erase", i);
        reading_init(&r, false);
        expect(request(h, path, "{}", &r, &rc) == 200, "erasing a slot", rc, 0);
        reading_release(&r);
    }
}

static void check_all_free(CURL *h, int fds, double mib)
{
    for (int i = 0;
         i < 600 && (metric(h, "\nforetoken:requests_processing ") > 0 || descriptors() > fds + 1);
         i++)
        usleep(100000); /* + 1: this connection */
    expect(metric(h, "\nforetoken:requests_processing ") == 0, "responses that still run",
           metric(h, "\nforetoken:requests_processing "), 0);
    learn_alone(h, PROMPTS);
    erase_slots(h);
    learn_alone(h, 1); /* page counts are updated when a response ends */
    const double pages =
        metric(h, "\nforetoken:pages_used ") + metric(h, "\nforetoken:pages_cached ");
    expect(pages <= 2, "pages in use", pages, 2);
    expect(descriptors() <= fds + 1, "descriptors", descriptors(), fds);
    const double now = (double)resident_kib(server) / 1024;
    printf("descriptors %d before, %d after; memory %.1f MiB before, %.1f MiB after; pages in use "
           "%g\n",
           fds, descriptors(), mib, now, pages);
    expect(now < 1.1 * mib + 16, "memory in MiB", now, mib);
}

/* ---- results ---- */

static int by_all(const void *a, const void *b)
{
    return by_value(&((const parts *)a)->all, &((const parts *)b)->all);
}

static void print_times(const char *what, double *at, int n)
{
    if (!n) return;
    qsort(at, (size_t)n, sizeof *at, by_value);
    printf("%-22s p50 %8.3f  p90 %8.3f  p99 %8.3f  max %8.3f s  (%d)\n", what, at[n / 2],
           at[n * 9 / 10], at[n * 99 / 100], at[n - 1], n);
}

static void print_results(double seconds)
{
    double *v = ft_new_n(double, (size_t)done.n + 1);
    printf("%lld responses, %lld clients left, %lld wrong, %.1f events/s\n", (long long)whole,
           (long long)left, (long long)wrong, (double)tokens / seconds);
    for (int i = 0; i < done.n; i++) v[i] = done.at[i].first;
    print_times("first token", v, done.n);
    for (int i = 0; i < done.n; i++) v[i] = done.at[i].first - done.at[i].prompt;
    print_times("  waiting for a slot", v, done.n);
    for (int i = 0; i < done.n; i++) v[i] = done.at[i].prompt;
    print_times("  reading the prompt", v, done.n);
    print_times("gap between events", gaps.at, gaps.n);
    for (int i = 0; i < done.n; i++) v[i] = done.at[i].all;
    print_times("whole response", v, done.n);
    qsort(done.at, (size_t)done.n, sizeof *done.at, by_all);
    parts sum = {0};
    const int from = done.n * 99 / 100;
    for (int i = from; i < done.n; i++) {
        sum.first += done.at[i].first;
        sum.prompt += done.at[i].prompt;
        sum.all += done.at[i].all;
    }
    if (done.n)
        printf("the slowest 1 %%: %.0f %% of the time for a slot, %.0f %% for the prompt, %.0f %% "
               "for the response\n",
               100 * (sum.first - sum.prompt) / sum.all, 100 * sum.prompt / sum.all,
               100 * (sum.all - sum.first) / sum.all);
    ft_free(v);
}

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? atof(argv[1]) : 60;
    const int streams = argc > 2 ? FT_MIN(FT_MAX(atoi(argv[2]), 1), (int)STREAMS_MAX) : 64;
    const char *way = argc > 3 ? argv[3] : "plain";
    pthread_t thread[STREAMS_MAX];
    int code = 0;
    curl_global_init(CURL_GLOBAL_DEFAULT);
    gaps.at = ft_new_n(double, TIMES_MAX);
    done.at = ft_new_n(parts, TIMES_MAX);
    make_prompts();
    if (!mkdtemp(folder)) return 1;
    start_server(argc > 4 ? argv[4] : "build/foretoken",
                 argc > 5 ? argv[5] : "models/foretoken-tiny.gguf", !strcmp(way, "tls"));
    const int fds = descriptors(); /* before any connection */
    if (!strcmp(way, "haproxy")) start_proxy();
    CURL *h = curl_easy_init();
    learn_alone(h, PROMPTS);
    double mib = 0;
    begin_s = ft_now_s();
    end_s = begin_s + seconds;
    for (int i = 0; i < streams; i++)
        pthread_create(&thread[i], NULL, run_stream, (void *)(uintptr_t)i);
    while (ft_now_s() < end_s) {
        sleep(1); /* memory counts from a quarter of the time on: then all buffers exist */
        if (mib <= 0 && ft_now_s() - begin_s >= seconds / 4)
            mib = (double)resident_kib(server) / 1024;
    }
    for (int i = 0; i < streams; i++) pthread_join(thread[i], NULL);
    printf("%s, %d streams, %d slots, %.0f s\n", way, streams, SLOTS, ft_now_s() - begin_s);
    print_results(ft_now_s() - begin_s);
    const double drafted = metric(h, "\nforetoken:spec_decode_num_draft_tokens_total ");
    printf("%.0f draft tokens, %.0f accepted\n", drafted,
           metric(h, "\nforetoken:spec_decode_num_accepted_tokens_total "));
    expect(drafted > 0, "draft tokens", drafted, 1);
    check_all_free(h, fds, mib);
    curl_easy_cleanup(h);
    if (proxy) kill(proxy, SIGTERM), waitpid(proxy, &code, 0);
    kill(server, SIGTERM);
    waitpid(server, &code, 0);
    expect(WIFEXITED(code) && !WEXITSTATUS(code), "the server's end", code, 0);
    char line[200];
    snprintf(line, sizeof line, "rm -r %s", folder);
    if (system(line)) fprintf(stderr, "streams: cannot remove %s\n", folder);
    puts(wrong ? "FAILED" : "ok");
    return wrong ? 1 : 0;
}
