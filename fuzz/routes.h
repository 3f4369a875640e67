/* fuzz/routes.h - the routes of the server without sockets: the functions of serve/http.c are here,
 * the model is the scripted one. A request is answered once, with a status that the API has, and
 * everything that goes out is JSON. Wants _GNU_SOURCE. */
#ifndef FT_FUZZ_ROUTES_H
#define FT_FUZZ_ROUTES_H

#include "serve/body.h"
#include "serve/server.h"

#include "../tests/serve/scripted.h"

#include <semaphore.h>

static ft_server *server;
static sem_t woken; /* a wait that nobody ends is found as a timeout */

const char *ft_call_query(const ft_call *c, const char *key)
{
    return !strcmp(key, "action") ? c->part : NULL;
}

const char *ft_call_header(const ft_call *c, const char *key)
{
    (void)c, (void)key;
    return NULL;
}

void ft_call_add_header(ft_call *c, const char *name, const char *value)
{
    if (!c->status || !name || !value) abort();
}

static void record_status(ft_call *c, int status)
{
    if (c->status || status < 200 || status > 599) abort();
    c->status = status;
}

void ft_call_json(ft_call *c, int status, json_t *j)
{
    char *text = json_dumps(j, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!j || !text) abort();
    free(text);
    json_decref(j);
    record_status(c, status);
}

void ft_call_bytes(ft_call *c, int status, const char *type, const void *p, size_t n)
{
    if (!type || (!p && n)) abort();
    record_status(c, status);
}

void ft_call_fail(ft_call *c, const ft_http_error *bad)
{
    if (!bad->text[0]) abort();
    json_decref(ft_error_anthropic(bad, c->id));
    json_decref(ft_error_ollama(bad));
    ft_call_json(c, ft_error_http_status(bad->kind), ft_error_openai(bad));
}

void ft_call_stream(ft_call *c, const char *type)
{
    if (!type) abort();
    c->stream = true;
    record_status(c, 200);
}

void ft_call_list(ft_call *c, bool in)
{
    (void)c, (void)in;
}

void ft_call_wake(ft_call *c)
{
    (void)c;
    sem_post(&woken);
}

/* Every line of a stream is empty, a comment, the name of an event, or JSON. */
static void check_out(ft_call *c)
{
    for (const char *p = ft_buf_z(&c->out); *p;) {
        const size_t n = strcspn(p, "\n");
        const char *text = !strncmp(p, "data: ", 6) ? p + 6 : p;
        const size_t bytes = n - (size_t)(text - p);
        const bool plain = !n || p[0] == ':' || !strncmp(p, "event: ", 7) ||
                           (bytes == 6 && !memcmp(text, "[DONE]", 6));
        json_t *j = plain ? NULL : json_loadb(text, bytes, 0, NULL);
        if (!plain && !j) abort();
        json_decref(j);
        p += n + (p[n] == '\n');
    }
    ft_buf_clear(&c->out);
}

static void start_model(void)
{
    server = ft_new(ft_server);
    sem_init(&woken, 0, 0);
    ft_serve_defaults(&server->p);
    server->p.props = true;
    server->p.slot_save_path = "/tmp/no such folder";
    server->kwargs = json_object();
    ft_metrics_init(&server->metrics);
    server->models = ft_models_new(server);
    pthread_mutex_init(&server->lock, NULL);
    ft_llm *m = ft_scripted_open("models/foretoken-tiny.gguf", 4, 2048);
    m->hurry = m->go = true;
    server->work = ft_work_new(1);
    ft_server_attach(server, m);
}

/* The model's thread allocates beside every input, which looks like a leak and would be searched
 * for each time, for a second: leaks are left to tests/serve. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

static const ft_http_route *route_of(unsigned char k, char part[FT_PART])
{
    static const char *const path[] = {"/v1/chat/completions",
                                       "/v1/completions",
                                       "/completion",
                                       "/infill",
                                       "/v1/responses",
                                       "/v1/messages",
                                       "/v1/messages/count_tokens",
                                       "/tokenize",
                                       "/detokenize",
                                       "/apply-template",
                                       "/v1/embeddings",
                                       "/embedding",
                                       "/api/chat",
                                       "/api/generate",
                                       "/api/embed",
                                       "/props",
                                       "/slots/save",
                                       "/v1/chat/completions/control",
                                       "/v1/chat/completions/input_tokens",
                                       "/v1/responses/input_tokens",
                                       "/api/show"};
    char allow[64];
    ft_http_error bad;
    return ft_route_find(server, "POST", path[k % FT_COUNT(path)], part, allow, &bad);
}

/* Answers one request with this body, which need not be JSON. */
static inline void answer_once(unsigned char route, ft_str body)
{
    ft_http_error bad;
    ft_call *c = ft_new(ft_call);
    c->s = server;
    strcpy(c->id, "req_fuzz");
    ft_buf_init(&c->out, 1 << 24);
    c->route = route_of(route, c->part);
    if (ft_body_parse(&c->body, body, c->route->list, &bad)) {
        c->route->run(c);
        if (!c->status && !c->pump) abort();
        while (c->pump && (!c->status || c->stream)) {
            const bool done = c->pump(c);
            check_out(c);
            if (done) break;
            sem_wait(&woken);
        }
    } else {
        ft_call_fail(c, &bad);
    }
    if (!c->status) abort();
    if (c->release) c->release(c);
    ft_served_drop(server, c->served);
    json_decref(c->body);
    ft_buf_release(&c->out);
    ft_free(c);
}

#endif
