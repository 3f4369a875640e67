/* A random mix of everything against the server, with the real engine: 16 clients complete, half of
 * the prompts with a grammar, leave while they read, while they wait or at once, compute
 * embeddings, save, restore and erase slots, and load and unload models; with two models of which
 * one fits, and with a single one. Every response that is read to its end must be the one that the
 * model gives alone. Afterwards a plain request succeeds, all slots are idle, no descriptor is left
 * open, and the server closes.
 *
 * FT_MIX_SECONDS (20) is how long it takes, FT_MIX_SEED chooses another order. */
#define _GNU_SOURCE
#include "base/log.h"
#include "base/rng.h"
#include "client.h"
#include "folder.h"
#include "foretoken.h"
#include "serve/serve.h"
#include "tools/synth.h"
#include "unit.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

enum { CLIENTS = 16, PROMPTS = 6, SLOTS = 2, ACTIONS = 12, SILENCE_MS = 120000, CLOSE_S = 300 };

static ft_server *server;
static int port, models;
static double until_s;
static pthread_barrier_t calm;
static atomic_bool over;
static uint64_t seed;
static char folder[sizeof FOLDER], model[sizeof FOLDER + 20];
static json_t *alone[PROMPTS]; /* the tokens of the response to each, alone */
static atomic_int requests, read_whole, wrong;

static void quiet(void *user, ft_log_level level, const char *line)
{
    (void)user, (void)level, (void)line;
}

/* ---- the server ---- */

/* Random weights: small, so that much happens in a short time. */
static void make_model(void)
{
    ft_synth_result made;
    ft_err err;
    folder_new(folder);
    snprintf(model, sizeof model, "%s/model.gguf", folder);
    const ft_synth_opts o = {
        .shape = "micro", .type = "q8_0", .path = model, .mtp = true, .threads = 1};
    if (!ft_synth(&made, &o, &err)) return;
    fprintf(stderr, "%s\n", err.text);
    exit(1);
}

static ft_status load(void *user, int i, ft_llm **out, ft_request *r, ft_err *err)
{
    ft_llm_params p;
    ft_queue_params q;
    (void)user, (void)i;
    ft_llm_defaults(&p);
    p.model = model;
    p.slots = SLOTS;
    p.ctx = 1024;
    p.cells = 1536; /* fewer than all slots can fill */
    p.threads = 1;
    ft_status st = ft_llm_open(out, &p, err);
    if (st) return st;
    ft_queue_defaults(&q);
    q.prefix_bytes = 8 << 20;
    ft_request_defaults(r, *out);
    return ft_llm_start(*out, &q, err);
}

static void unload(void *user, int i, ft_llm *m)
{
    (void)user, (void)i;
    ft_llm_stop(m, false);
    ft_llm_close(m);
}

static void open_server(int n)
{
    static const ft_served_model names[] = {{.name = "one"}, {.name = "two"}};
    ft_models_params mp = {.at = names, .n = n, .max = 1, .load = load, .unload = unload};
    ft_serve_params p;
    ft_err err;
    ft_log_to(quiet, NULL);
    ft_serve_defaults(&p);
    p.port = 0;
    p.metrics = true;
    p.slot_save_path = folder;
    if (ft_server_open(&server, &p, &err) || ft_server_models(server, &mp, &err) ||
        ft_server_load(server, 0, &err))
        fail_msg("%s", err.text);
    port = ft_server_port(server);
    models = n;
}

static int descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;
    assert_non_null(d);
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

/* ---- clients ---- */

typedef struct client {
    ft_rng r;
    char body[40000];
} client;

static int below(client *c, int n)
{
    return (int)(ft_rng_u64(&c->r) % (uint64_t)n);
}

static const char *model_of(client *c)
{
    static const char *const name[] = {"one", "two"};
    return name[below(c, models)];
}

static int begin(const char *method, const char *path, const char *body)
{
    ft_buf b;
    client_request(&b, method, path, "Connection: close\r\n", body);
    const int fd = client_connect(port);
    if (fd >= 0) client_send(fd, ft_buf_z(&b), b.len, 0);
    ft_buf_release(&b);
    requests++;
    return fd;
}

static client_response finish(int fd)
{
    client_response r;
    client_init(&r);
    while (fd >= 0 && client_more(fd, &r.raw, SILENCE_MS)) continue;
    client_parse(&r);
    if (fd >= 0) close(fd);
    return r;
}

/* Reads for a moment or not at all, then leaves, now and then without a farewell. */
static void leave(client *c, int fd)
{
    ft_buf b;
    if (fd < 0) return;
    ft_buf_init(&b, 1 << 24);
    usleep((useconds_t)below(c, 80000));
    if (below(c, 2)) client_more(fd, &b, 50);
    const struct linger hard = {1, 0};
    if (below(c, 3) == 0) setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close(fd);
    ft_buf_release(&b);
}

/* Sends it, then leaves or reads the answer, which has one of these statuses. */
static void call(client *c, const char *method, const char *path, const char *body, int or_else)
{
    const int fd = begin(method, path, body);
    if (below(c, 4) == 0) {
        leave(c, fd);
        return;
    }
    client_response r = finish(fd);
    if (r.status != 200 && (!or_else || r.status != or_else)) {
        wrong++;
        print_message("%s %s: %d %.200s\n", method, path, r.status, ft_buf_z(&r.body));
    }
    client_release(&r);
}

static void say(client *c, char *out, size_t cap, int prompt, bool stream, int tokens)
{
    snprintf(out, cap,
             "{\"model\":\"%s\",\"prompt\":\"%d files and a number: %d\",\"stream\":%s,"
             "\"temperature\":0,\"ignore_eos\":true,\"return_tokens\":true,\"n_predict\":%d%s}",
             model_of(c), prompt, prompt * 77, stream ? "true" : "false", tokens,
             prompt % 2 ? ",\"grammar\":\"root ::= [a-z ]+\"" : "");
}

static json_t *tokens_of(const client_response *r, bool stream)
{
    if (!stream) return json_incref(json_object_get(r->json, "tokens"));
    json_t *events = client_events(r), *all = json_array();
    const json_t *e;
    size_t i;
    json_array_foreach(events, i, e) json_array_extend(all, json_object_get(e, "tokens"));
    json_decref(events);
    return all;
}

static void complete(client *c)
{
    const bool stream = below(c, 2);
    const int k = below(c, PROMPTS);
    char body[400];
    say(c, body, sizeof body, k, stream, 24);
    client_response r = finish(begin("POST", "/completion", body));
    json_t *ids = tokens_of(&r, stream);
    if (r.status != 200 || !json_equal(ids, alone[k])) {
        wrong++;
        print_message("%s\n  found  %d %s\n", body, r.status, ft_buf_z(&r.body));
    }
    read_whole++;
    json_decref(ids);
    client_release(&r);
}

static void disconnect(client *c)
{
    char body[400];
    say(c, body, sizeof body, below(c, 50), below(c, 3) > 0, below(c, 2) ? 30 : 600);
    leave(c, begin("POST", "/completion", body));
}

static void embed(client *c)
{
    const int n = below(c, 2) ? 2 : 40;
    int at = snprintf(c->body, sizeof c->body, "{\"model\":\"%s\",\"input\":[\"a\"", model_of(c));
    for (int i = 1; i < n; i++)
        at += snprintf(c->body + at, sizeof c->body - (size_t)at,
                       ",\"one text of many, %d, with some words to read: %d\"", i, below(c, 1000));
    snprintf(c->body + at, sizeof c->body - (size_t)at, "]}");
    call(c, "POST", "/v1/embeddings", c->body, 0);
}

static void slot(client *c)
{
    static const char *const what[] = {"save", "restore", "erase"};
    char path[100], body[100];
    snprintf(path, sizeof path, "/slots/%d?action=%s", below(c, SLOTS), what[below(c, 3)]);
    snprintf(body, sizeof body, "{\"model\":\"%s\",\"filename\":\"file%d\"}", model_of(c),
             below(c, 3));
    call(c, "POST", path, body, 400); /* the slot is busy, or there is no such file */
}

static void look(client *c)
{
    static const char *const path[] = {"/props?model=", "/slots?model=", "/v1/models?", "/health?",
                                       "/metrics?"};
    char text[100];
    snprintf(text, sizeof text, "%s%s", path[below(c, 5)], model_of(c));
    call(c, "GET", text, NULL, 0);
}

static void swap(client *c)
{
    char body[100];
    snprintf(body, sizeof body, "{\"model\":\"%s\"}", model_of(c));
    call(c, "POST", below(c, 2) ? "/models/load" : "/models/unload", body, 400);
}

/* After some actions everybody waits for everybody: a request that was forgotten is not saved by
 * the next one. */
static void *run_client(void *arg)
{
    static void (*const action[])(client *) = {complete, complete, disconnect, disconnect,
                                               embed,    slot,     look,       swap};
    client *c = arg;
    while (!over) {
        for (int i = 0; i < ACTIONS; i++) action[below(c, (int)FT_COUNT(action))](c);
        if (pthread_barrier_wait(&calm) == PTHREAD_BARRIER_SERIAL_THREAD)
            over = ft_now_s() >= until_s || wrong > 0;
        pthread_barrier_wait(&calm);
    }
    return NULL;
}

/* ---- the mix ---- */

static void learn_answers(void)
{
    client c = {.r = {1}};
    for (int i = 0; i < PROMPTS; i++) {
        char body[400];
        say(&c, body, sizeof body, i, false, 24);
        client_response r = finish(begin("POST", "/completion", body));
        assert_int_equal(r.status, 200);
        assert_int_equal(json_array_size(json_object_get(r.json, "tokens")), 24);
        if (!alone[i]) alone[i] = tokens_of(&r, false);
        client_release(&r);
    }
}

static bool all_idle(const char *name)
{
    char path[100];
    bool busy = false;
    json_t *s;
    size_t i;
    snprintf(path, sizeof path, "/slots?model=%s", name);
    client_response r = finish(begin("GET", path, NULL));
    json_array_foreach(r.json, i, s) busy |= json_is_true(json_object_get(s, "is_processing"));
    const bool idle = r.status == 200 && json_array_size(r.json) == SLOTS && !busy;
    client_release(&r);
    return idle;
}

/* What was there before is there again, after a moment. */
static void check_quiet(int before)
{
    int n = 0;
    bool idle = false;
    for (int i = 0; i < 600 && (!idle || n > before); i++) {
        usleep(50000);
        idle = all_idle("one");
        n = descriptors();
    }
    assert_true(idle);
    assert_true(n <= before);
    for (int i = 0; i < 100 && ft_server_busy(server); i++) usleep(50000);
    assert_int_equal(ft_server_busy(server), 0);
}

static void mix(int n, double seconds)
{
    static client c[CLIENTS];
    pthread_t t[CLIENTS];
    alarm((unsigned)seconds + 2 * SILENCE_MS / 1000 + CLOSE_S);
    open_server(n);
    learn_answers();
    all_idle("one"); /* the model that is loaded in the end, too */
    usleep(500000);  /* the connections so far are closed */
    const int before = descriptors();
    requests = read_whole = wrong = 0;
    until_s = ft_now_s() + seconds;
    over = false;
    pthread_barrier_init(&calm, NULL, CLIENTS);
    for (int i = 0; i < CLIENTS; i++) {
        c[i].r.state = seed + (uint64_t)(n * 100 + i);
        assert_int_equal(pthread_create(&t[i], NULL, run_client, &c[i]), 0);
    }
    for (int i = 0; i < CLIENTS; i++) pthread_join(t[i], NULL);
    pthread_barrier_destroy(&calm);
    print_message("%d model(s): %d requests, %d responses read to their end\n", n, requests,
                  read_whole);
    assert_int_equal(wrong, 0);
    assert_true(read_whole > 0);
    learn_answers();
    check_quiet(before);
    ft_server_close(server);
    alarm(0);
}

static double seconds(void)
{
    const char *s = getenv("FT_MIX_SECONDS");
    return s ? atof(s) : 20;
}

static void two_models(void **state)
{
    (void)state;
    mix(2, seconds() / 2);
}

static void one_model(void **state)
{
    (void)state;
    mix(1, seconds() / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(two_models), cmocka_unit_test(one_model)};
    const char *s = getenv("FT_MIX_SEED");
    seed = s ? strtoull(s, NULL, 10) : 1;
    signal(SIGPIPE, SIG_IGN);
    make_model();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (int i = 0; i < PROMPTS; i++) json_decref(alone[i]);
    folder_free(folder);
    return failed;
}
