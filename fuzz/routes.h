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

/* The query of the address is in the body too. */
const char *ft_call_query(const ft_call *c, const char *key)
{
    return json_string_value(json_object_get(c->body, key));
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
    pthread_mutex_lock(&server->lock);
    server->calls = in ? c : NULL;
    pthread_mutex_unlock(&server->lock);
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

/* Models as the program has them, without files: loading takes no time, a download two steps. */
static ft_status load_scripted(void *user, int i, ft_llm **out, ft_request *defaults, ft_err *err)
{
    (void)i, (void)err;
    *out = user;
    ft_request_defaults(defaults, *out);
    return FT_OK;
}

static void unload_scripted(void *user, int i, ft_llm *m)
{
    (void)user, (void)i, (void)m;
}

static ft_status pull_scripted(void *user, const char *name, ft_pull_progress *progress,
                               void *progress_user, ft_err *err)
{
    (void)user;
    for (uint64_t i = 1; i <= 2; i++)
        if (!progress(progress_user, name, i == 1 ? "" : "00ff", i, 2))
            return ft_fail(err, FT_EIO, "stopped");
    return strlen(name) % 2 ? FT_OK : ft_fail(err, FT_ENOTFOUND, "there is no %.80s", name);
}

static ft_status remove_scripted(void *user, int i, ft_err *err)
{
    (void)user, (void)i, (void)err;
    return FT_OK;
}

static ft_status derive_scripted(void *user, int i, const char *name, const char *params,
                                 ft_err *err)
{
    (void)user, (void)i, (void)params;
    return name[0] == 'x' ? ft_fail(err, FT_EINVAL, "the name is %.80s", name) : FT_OK;
}

static void start_model(void)
{
    server = ft_new(ft_server);
    sem_init(&woken, 0, 0);
    ft_serve_defaults(&server->p);
    server->p.props = server->p.metrics = true;
    server->p.slot_save_path = "/tmp/no such folder";
    server->kwargs = json_object();
    ft_metrics_init(&server->metrics);
    server->models = ft_models_new(server);
    pthread_mutex_init(&server->lock, NULL);
    ft_llm *m = ft_scripted_open("models/foretoken-tiny.gguf", 4, 2048);
    m->hurry = m->go = true;
    server->work = ft_work_new(1);
    static const ft_served_model model = {.name = "foretoken-tiny", .bytes = 1000};
    const ft_models_params p = {.at = &model,
                                .n = 1,
                                .load = load_scripted,
                                .unload = unload_scripted,
                                .pull = pull_scripted,
                                .remove = remove_scripted,
                                .derive = derive_scripted,
                                .user = m};
    ft_err err;
    if (ft_server_models(server, &p, &err) || ft_server_load(server, 0, &err)) abort();
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
    static const char *const path[] = {
        "POST /v1/chat/completions",
        "POST /v1/completions",
        "POST /completion",
        "POST /infill",
        "POST /v1/responses",
        "POST /v1/messages",
        "POST /v1/messages/count_tokens",
        "POST /tokenize",
        "POST /detokenize",
        "POST /apply-template",
        "POST /v1/embeddings",
        "POST /embedding",
        "POST /api/chat",
        "POST /api/generate",
        "POST /api/embed",
        "POST /props",
        "POST /slots/0",
        "POST /v1/chat/completions/control",
        "POST /v1/chat/completions/input_tokens",
        "POST /v1/responses/input_tokens",
        "POST /api/show",
        "POST /rerank",
        "POST /lora-adapters",
        "POST /models/load",
        "POST /models/unload",
        "POST /api/embeddings",
        "POST /api/pull",
        "DELETE /api/delete",
        "POST /api/copy",
        "POST /api/create",
        "POST /api/push",
        "GET /v1/models",
        "GET /v1/models/foretoken-tiny",
        "GET /props",
        "GET /slots",
        "GET /metrics",
        "GET /lora-adapters",
        "GET /api/tags",
        "GET /api/ps",
        "GET /health",
        "GET /",
    };
    char allow[64], method[8] = "";
    ft_http_error bad;
    const char *line = path[k % FT_COUNT(path)];
    memcpy(method, line, strcspn(line, " "));
    return ft_route_find(server, method, strchr(line, ' ') + 1, part, allow, &bad);
}

/* Whether the body of a request may be an array. */
static inline bool wants_list(unsigned char route)
{
    char part[FT_PART];
    return route_of(route, part)->list;
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
        const char *id = json_string_value(json_object_get(c->body, "id"));
        if (id && strchr(c->route->path, '{')) snprintf(c->part, sizeof c->part, "%s", id);
        c->route->run(c);
        if (!c->status && !c->pump) abort();
        ft_call_list(c, true);
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
    ft_call_list(c, false);
    if (c->release) c->release(c);
    ft_served_drop(server, c->served);
    json_decref(c->body);
    ft_buf_release(&c->out);
    ft_free(c);
}

#endif
