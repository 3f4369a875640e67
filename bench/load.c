/* bench/load.c - mixed load on a server for a given time: complete responses, clients that
 * disconnect at any moment, invalid requests, schemas, tools, long prompts, and too few KV cache
 * pages for all of them. Starts the server, checks every response, and at the end that all slots
 * and pages are free and memory did not grow. build/bench/load [SECONDS [PROGRAM [CLIENTS
 * [MODEL]]]] build/bench/load 3600 build-address-undefined/foretoken 6 */
#define _GNU_SOURCE
#include "../tests/serve/client.h"
#include "process.h"

#include "base/rng.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { MAX_CLIENTS = 64, SAMPLES = 64, SLOTS = 4, CTX = 4096, CELLS = 6144, WAIT_MS = 1800000 };

static int port;
static pid_t server;
static double end_s;
static atomic_llong asked, left, wrong;

typedef struct client {
    pthread_t thread;
    ft_rng rng;
} client;

/* A request, and its allowed responses. */
typedef struct shot {
    const char *name, *path, *body; /* body NULL: GET */
    int status;
    const char *has; /* in the body; NULL: anything */
} shot;

#define USER(text) "\"messages\":[{\"role\":\"user\",\"content\":\"" text "\"}]"
#define SCHEMA                                                                                     \
    "{\"type\":\"object\",\"properties\":{\"sum\":{\"type\":\"integer\"},\"note\":{\"type\":"      \
    "\"string\",\"maxLength\":20}},\"required\":[\"sum\"],\"additionalProperties\":false}"
#define TOOLS                                                                                      \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"parameters\":{"        \
    "\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\",\"maxLength\":12}},"        \
    "\"required\":[\"city\"]}}}]"

static const shot SHOTS[] = {
    {"chat", "/v1/chat/completions", "{" USER("What does tar do?") ",\"max_tokens\":48}", 200,
     "\"finish_reason\""},
    {"stream", "/v1/chat/completions",
     "{\"stream\":true,\"stream_options\":{\"include_usage\":true},\"max_tokens\":64," USER(
         "Define river.") "}",
     200, "[DONE]"},
    {"thought", "/v1/chat/completions",
     "{\"stream\":true,\"max_tokens\":80,\"thinking_budget_tokens\":12,\"chat_template_kwargs\":{"
     "\"enable_thinking\":true}," USER("How much is 3 + 4?") "}",
     200, "[DONE]"},
    {"schema", "/v1/chat/completions",
     "{\"max_tokens\":60,\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":"
     "\"s\",\"schema\":" SCHEMA "}}," USER("What is 3 + 4?") "}",
     200, "{\\\""},
    {"tools", "/v1/chat/completions",
     "{\"stream\":true,\"max_tokens\":80,\"tool_choice\":\"required\"," TOOLS
     "," USER("What is the weather in Rome?") "}",
     200, "weather"},
    {"several", "/v1/chat/completions",
     "{\"n\":3,\"logprobs\":true,\"top_logprobs\":3,\"max_tokens\":20," USER("Say something.") "}",
     200, "\"index\":2"},
    {"completions", "/v1/completions",
     "{\"prompt\":[\"Once upon a\",\"In the\"],\"max_tokens\":24,\"logprobs\":2}", 200,
     "text_offset"},
    {"native", "/completion",
     "{\"prompt\":\"The list:\",\"n_predict\":40,\"grammar\":\"root ::= (\\\"- \\\" [a-z ]+ "
     "\\\"\\\\n\\\")+\"}",
     200, "\"stop\":true"},
    {"messages", "/v1/messages", "{\"stream\":true,\"max_tokens\":40," USER("Define house.") "}",
     200, "message_stop"},
    {"responses", "/v1/responses", "{\"stream\":true,\"max_output_tokens\":40,\"input\":\"hello\"}",
     200, "\"type\":\"response."},
    {"ollama", "/api/chat", "{\"options\":{\"num_predict\":24}," USER("Define tree.") "}", 200,
     "\"done\":true"},
    {"embeddings", "/v1/embeddings", "{\"input\":[\"one\",\"two and three\"]}", 200,
     "\"embedding\""},
    {"tokenize", "/tokenize", "{\"content\":\"one two\",\"with_pieces\":true}", 200, "tokens"},
    {"template", "/apply-template", "{" USER("hi") "}", 200, "prompt"},
    {"models", "/v1/models", NULL, 200, "\"data\""},
    {"slots", "/slots", NULL, 200, "is_processing"},
    {"metrics", "/metrics", NULL, 200, "foretoken:"},
    {"page", "/", NULL, 200, "<"},
    /* invalid requests */
    {"no JSON", "/v1/chat/completions", "{\"messages\":[", 400, "invalid_request_error"},
    {"no messages", "/v1/chat/completions", "{}", 400, "messages"},
    {"a wrong type", "/completion", "{\"prompt\":\"x\",\"n_predict\":\"many\"}", 400, "n_predict"},
    {"a wrong schema", "/v1/chat/completions",
     "{\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"s\",\"schema\":{"
     "\"type\":\"thing\"}}}," USER("hi") "}",
     400, "error"},
    {"a wrong grammar", "/completion", "{\"prompt\":\"x\",\"grammar\":\"root ::= (\"}", 400,
     "error"},
    {"no route", "/v1/nothing", "{}", 404, "not_found_error"},
    {"another method", "/v1/chat/completions", NULL, 405, "error"},
    {"a wrong slot", "/slots/99?action=erase", "{}", 404, "slot"},
};

static double uniform(client *c)
{
    return ft_rng_f64(&c->rng);
}

static int below(client *c, int n)
{
    return (int)(uniform(c) * n);
}

static _Thread_local double asked_s; /* time of the last request of this client */

static void report_wrong(const char *what, const client_response *r)
{
    fprintf(stderr, "load: %s: status %d after %.0f s, %.300s\n", what, r->status,
            ft_now_s() - asked_s, ft_buf_z(&r->body));
    atomic_fetch_add(&wrong, 1);
}

/* ---- clients ---- */

/* Sends a request and reads at most `most` bytes of its response; < 0: to its end. */
static client_response send_and_read(const shot *s, long most)
{
    client_response r;
    ft_buf b;
    asked_s = ft_now_s();
    client_init(&r);
    client_request(&b, s->body ? "POST" : "GET", s->path, "Connection: close\r\n", s->body);
    const int fd = client_connect(port);
    if (fd >= 0 && client_send(fd, ft_buf_z(&b), b.len, 0))
        while ((most < 0 || (long)r.raw.len < most) && client_more(fd, &r.raw, WAIT_MS)) continue;
    if (fd >= 0) close(fd);
    ft_buf_release(&b);
    client_parse(&r);
    return r;
}

static void complete_request(const shot *s)
{
    client_response r = send_and_read(s, -1);
    if (r.status != s->status || (s->has && !strstr(ft_buf_z(&r.body), s->has)))
        report_wrong(s->name, &r);
    client_release(&r);
    atomic_fetch_add(&asked, 1);
}

/* Disconnects after some bytes of the response, before any, or in the middle of the request. */
static void disconnect_early(client *c, const shot *s)
{
    const int how = below(c, 3);
    atomic_fetch_add(&left, 1);
    if (how == 0) {
        client_response r = send_and_read(s, 1 + below(c, 4000));
        client_release(&r);
        return;
    }
    ft_buf b;
    client_request(&b, s->body ? "POST" : "GET", s->path, NULL, s->body);
    const int fd = client_connect(port);
    const size_t n = how == 1 ? b.len : 1 + (size_t)below(c, (int)b.len);
    if (fd >= 0) client_send(fd, ft_buf_z(&b), n, 0);
    usleep((useconds_t)below(c, 200000));
    if (fd >= 0) close(fd);
    ft_buf_release(&b);
}

/* Prompts of many tokens that share prefixes of different lengths; some do not fit the context. */
static void long_prompt(client *c)
{
    ft_buf b;
    client_response r;
    const int words = below(c, 10) ? 100 + below(c, 2400) : 2 * CTX;
    const int kind = below(c, 3);
    ft_buf_init(&b, 1 << 20);
    ft_buf_puts(&b, "{\"max_tokens\":8,\"messages\":[{\"role\":\"user\",\"content\":\"");
    for (int i = 0; i < words; i++)
        ft_buf_printf(&b, "%s ", (i + kind) % 3 ? "river" : (i * 7 + kind) % 5 ? "house" : "12");
    ft_buf_puts(&b, "\"}]}");
    const shot s = {"a long prompt", "/v1/chat/completions", ft_buf_z(&b), 200, NULL};
    r = send_and_read(&s, below(c, 4) ? -1 : 1);
    const bool fits = words < 2 * CTX;
    if (r.status && r.status != (fits ? 200 : 400)) report_wrong(s.name, &r);
    client_release(&r);
    ft_buf_release(&b);
    atomic_fetch_add(&asked, 1);
}

static void garbage(client *c)
{
    char bytes[300];
    ft_buf raw;
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)below(c, 256);
    const int fd = client_connect(port);
    ft_buf_init(&raw, 1 << 20);
    if (fd >= 0 && client_send(fd, bytes, sizeof bytes, 0)) {
        client_puts(fd, "\r\n\r\n");
        client_more(fd, &raw, 500);
    }
    if (fd >= 0) close(fd);
    ft_buf_release(&raw);
    atomic_fetch_add(&left, 1);
}

static void *run_client(void *user)
{
    client *c = user;
    while (ft_now_s() < end_s) {
        const shot *s = &SHOTS[below(c, (int)FT_COUNT(SHOTS))];
        const double p = uniform(c);
        if (p < 0.70)
            complete_request(s);
        else if (p < 0.90)
            disconnect_early(c, s);
        else if (p < 0.97)
            long_prompt(c);
        else
            garbage(c);
    }
    return NULL;
}

/* ---- the server ---- */

/* The port, from the start-up line of the server. */
static void start_server(const char *program, const char *model)
{
    int fd[2];
    char slots[16], ctx[16], cells[16];
    snprintf(slots, sizeof slots, "%d", SLOTS);
    snprintf(ctx, sizeof ctx, "%d", CTX);
    snprintf(cells, sizeof cells, "%d", CELLS);
    setenv("ASAN_OPTIONS", "quarantine_size_mb=16:malloc_context_size=12", 0);
    if (pipe(fd)) exit(1);
    server = fork();
    if (!server) {
        dup2(fd[1], 2);
        close(fd[0]);
        close(fd[1]);
        execl(program, program, "serve", "--port", "0", "-np", slots, "-c", ctx, "--kv-cells",
              cells, "--cache-ram", "24", "--log-disable", "-m", model, (char *)NULL);
        exit(127);
    }
    close(fd[1]);
    FILE *f = fdopen(fd[0], "r");
    char line[1000];
    while (f && !port && fgets(line, sizeof line, f)) {
        const char *at = strstr(line, "ready at http://127.0.0.1:");
        if (at) port = atoi(at + strlen("ready at http://127.0.0.1:"));
        fputs(line, stderr);
    }
    if (!port) exit(1);
    if (!fork()) { /* drains its later output; ends with it */
        while (fgets(line, sizeof line, f)) fputs(line, stderr);
        _exit(0);
    }
    fclose(f);
}

/* The value of a metric in /metrics; -1: absent. */
static double metric(const char *name)
{
    const shot s = {name, "/metrics", NULL, 200, NULL};
    client_response r = send_and_read(&s, -1);
    const char *at = strstr(ft_buf_z(&r.body), name);
    const double v = at ? atof(at + strlen(name)) : -1;
    client_release(&r);
    return v;
}

static void expect(bool ok, const char *what, double found, double want)
{
    if (ok) return;
    fprintf(stderr, "load: %s: %g, want %g\n", what, found, want);
    atomic_fetch_add(&wrong, 1);
}

/* Without requests, all slots are idle, and erasing them frees their pages. */
static void check_all_free(void)
{
    for (int i = 0; i < 200 && metric("\nforetoken:requests_processing ") > 0; i++) usleep(100000);
    expect(metric("\nforetoken:requests_processing ") == 0, "responses that still run",
           metric("\nforetoken:requests_processing "), 0);
    for (int i = 0; i < SLOTS; i++) {
        char path[64];
        snprintf(path, sizeof path, "/slots/%d?action=erase", i);
        const shot s = {"erase", path, "{}", 200, "n_erased"};
        complete_request(&s);
    }
    const shot last = {"one more", "/completion", "{\"prompt\":\"x\",\"n_predict\":1}", 200, NULL};
    complete_request(&last); /* page counts are updated when a response ends */
    const double pages = metric("\nforetoken:pages_used ") + metric("\nforetoken:pages_cached ");
    expect(pages <= 2, "pages in use", pages, 2);
}

static int by_value(const void *a, const void *b)
{
    const long x = *(const long *)a, y = *(const long *)b;
    return (x > y) - (x < y);
}

/* Memory is flat when the median of the last quarter is about that of the second quarter. */
static void check_memory_flat(long *kb, int n)
{
    if (n < 16) return;
    long *a = kb + n / 4, *b = kb + n - n / 4;
    qsort(a, (size_t)(n / 4), sizeof *a, by_value);
    qsort(b, (size_t)(n / 4), sizeof *b, by_value);
    const double early = (double)a[n / 8] / 1024, late = (double)b[n / 8] / 1024;
    printf("memory: %.1f MiB in the second quarter, %.1f MiB in the last\n", early, late);
    expect(late < 1.05 * early + 4, "memory in MiB at the end", late, early);
}

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? atof(argv[1]) : 60;
    const int clients = argc > 3 ? FT_MIN(FT_MAX(atoi(argv[3]), 1), (int)MAX_CLIENTS) : 6;
    static client c[MAX_CLIENTS];
    long kb[SAMPLES];
    int n = 0, code = 0;
    start_server(argc > 2 ? argv[2] : "build/foretoken",
                 argc > 4 ? argv[4] : "models/foretoken-tiny.gguf");
    end_s = ft_now_s() + seconds;
    for (int i = 0; i < clients; i++) {
        c[i].rng = (ft_rng){(uint64_t)i + 1};
        pthread_create(&c[i].thread, NULL, run_client, &c[i]);
    }
    for (; n < SAMPLES; n++) {
        const double until = end_s - seconds + seconds * (n + 1) / SAMPLES;
        while (ft_now_s() < until) usleep(100000);
        kb[n] = resident_kib(server);
        if (!kb[n]) break; /* the server has exited */
        if (n % 8 == 7)
            fprintf(stderr,
                    "load: %.0f %%, %lld responses, %lld disconnected, %lld wrong, %.1f MiB\n",
                    100.0 * (n + 1) / SAMPLES, (long long)asked, (long long)left, (long long)wrong,
                    (double)kb[n] / 1024);
    }
    for (int i = 0; i < clients; i++) pthread_join(c[i].thread, NULL);
    check_all_free();
    check_memory_flat(kb, n);
    kill(server, SIGTERM);
    waitpid(server, &code, 0);
    expect(WIFEXITED(code) && !WEXITSTATUS(code), "the server's end", code, 0);
    printf("%lld responses, %lld disconnected clients, %lld wrong\n", (long long)asked,
           (long long)left, (long long)wrong);
    return wrong ? 1 : 0;
}
