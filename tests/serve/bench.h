/* tests/serve/bench.h - runs a server with the scripted model in the test program; helpers for
 * checks. */
#ifndef FT_TESTS_SERVE_BENCH_H
#define FT_TESTS_SERVE_BENCH_H

#include "client.h"
#include "scripted.h"
#include "serve/serve.h"
#include "unit.h"

#include "base/log.h"

static ft_llm *model;
static ft_server *server;
static int port;

static inline void quiet(void *user, ft_log_level level, const char *line)
{
    (void)user, (void)level, (void)line;
}

static inline void open_server(const ft_serve_params *p, int slots, int waiting)
{
    ft_err err;
    ft_log_to(quiet, NULL);
    model = ft_scripted_open("models/foretoken-tiny.gguf", slots, waiting);
    if (ft_server_open(&server, p, &err)) fail_msg("%s", err.text);
    ft_server_attach(server, model);
    port = ft_server_port(server);
}

static inline void close_server(void)
{
    ft_server_close(server);
    ft_scripted_close(model);
    server = NULL;
    model = NULL;
}

/* The default server: 4 slots, a free port. */
static inline int open_usual(void **state)
{
    ft_serve_params p;
    (void)state;
    ft_serve_defaults(&p);
    p.port = 0;
    p.metrics = true;
    open_server(&p, 4, 64);
    return 0;
}

static inline int close_usual(void **state)
{
    (void)state;
    close_server();
    return 0;
}

static inline client_response post(const char *path, const char *body)
{
    return client_call(port, "POST", path, NULL, body);
}

static inline client_response get(const char *path)
{
    return client_call(port, "GET", path, NULL, NULL);
}

/* A request that must fail with this status and a message that contains these words. */
static inline void refused(const char *path, const char *body, int status, const char *words)
{
    client_response r = post(path, body);
    const char *text = client_text(r.json, "error.message");
    if (!text) text = client_text(r.json, "error");
    if (r.status != status || !text || !strstr(text, words))
        fail_msg("%s %s\n  found  %d %s\n  want   %d ...%s...", path, body, r.status,
                 ft_buf_z(&r.body), status, words);
    client_release(&r);
}

#define CHAT "/v1/chat/completions"

/* A chat request without thinking, to which the scripted model answers `say`. Other fields go in
 * front, each followed by a comma. Valid until the next call. */
static inline const char *ask(const char *more, const char *say)
{
    static char body[8192];
    const int n = snprintf(body, sizeof body,
                           "{%s\"chat_template_kwargs\":{\"enable_thinking\":false},"
                           "\"messages\":[{\"role\":\"user\",\"content\":\"say:%s\"}]}",
                           more, say);
    assert_true(n < (int)sizeof body);
    return body;
}

#define same_text(found, wanted)                                                                   \
    do {                                                                                           \
        const char *found_ = (found);                                                              \
        assert_string_equal(found_ ? found_ : "(nothing)", wanted);                                \
    } while (0)

/* The defaults, on a free port. */
static inline void usual(ft_serve_params *p)
{
    ft_serve_defaults(p);
    p->port = 0;
}

/* A connection on which text was sent. */
static inline int send_text(const char *text)
{
    const int fd = client_connect(port);
    assert_true(fd >= 0 && client_puts(fd, text));
    return fd;
}

/* POST if there is a body, else GET. */
static inline void assert_status(const char *path, const char *headers, const char *body, int want)
{
    client_response r = client_call(port, body ? "POST" : "GET", path, headers, body);
    if (r.status != want)
        fail_msg("%s with %s: found %d %s, wanted %d", path, headers ? headers : "no headers",
                 r.status, ft_buf_z(&r.body), want);
    client_release(&r);
}

#endif
