/* tests/serve/http.c - the HTTP layer below the APIs: routes, keys, origins, limits, and clients
 * that are slow, misbehave or disconnect. */
#define _GNU_SOURCE
#include "bench.h"
#include "folder.h"

#include "base/file.h"

#include <signal.h>
#include <sys/un.h>
#include <sys/wait.h>

#define SAY(how, what)                                                                             \
    "{\"stream\":true,\"chat_template_kwargs\":{\"enable_thinking\":false},\"messages\":[{"        \
    "\"role\":"                                                                                    \
    "\"user\",\"content\":\"say" how ":" what "\"}]}"

/* Waits until the model has this many responses running, with a generous time limit. */
static bool busy_becomes(int n)
{
    ft_llm_stats c;
    for (int i = 0; i < 6000; i++) {
        ft_llm_counts(model, &c);
        if (c.busy + c.waiting == n) return true;
        usleep(10000);
    }
    return false;
}

static int begin_request(const char *path, const char *body)
{
    ft_buf b;
    client_request(&b, "POST", path, NULL, body);
    const int fd = client_connect(port);
    assert_true(fd >= 0 && client_send(fd, ft_buf_z(&b), b.len, 0));
    ft_buf_release(&b);
    return fd;
}

/* ---- routes ---- */

static void routes(void **state)
{
    (void)state;
    client_response r = get("/nowhere");
    assert_int_equal(r.status, 404);
    same_text(client_text(r.json, "error.type"), "not_found_error");
    assert_int_equal(strncmp(client_header(&r, "X-Request-Id"), "req_", 4), 0);
    client_release(&r);
    r = get(CHAT);
    assert_int_equal(r.status, 405);
    same_text(client_header(&r, "Allow"), "POST");
    client_release(&r);
    r = client_call(port, "DELETE", "/props", NULL, NULL);
    assert_int_equal(r.status, 405);
    same_text(client_header(&r, "Allow"), "GET, POST");
    client_release(&r);
    r = client_call(port, "GET", "/health", "X-Request-Id: my-own-id\r\n", NULL);
    assert_int_equal(r.status, 200);
    same_text(client_header(&r, "X-Request-Id"), "my-own-id");
    client_release(&r);
    r = client_call(port, "HEAD", "/health", NULL, NULL);
    assert_int_equal(r.status, 200);
    client_release(&r);
}

static void origins(void **state)
{
    (void)state;
    client_response r = client_call(
        port, "OPTIONS", CHAT,
        "Origin: http://localhost\r\nAccess-Control-Request-Headers: x-thing\r\n", NULL);
    assert_int_equal(r.status, 200);
    same_text(client_header(&r, "Access-Control-Allow-Origin"), "http://localhost");
    same_text(client_header(&r, "Access-Control-Allow-Methods"), "GET, POST, DELETE, OPTIONS");
    same_text(client_header(&r, "Access-Control-Allow-Headers"), "x-thing");
    assert_null(client_header(&r, "Access-Control-Allow-Credentials"));
    client_release(&r);
    r = get("/health");
    assert_null(client_header(&r, "Access-Control-Allow-Origin"));
    client_release(&r);
}

/* The response does not depend on how the bytes of the request are split. */
static void any_cut(void **state)
{
    (void)state;
    const char *body = "{\"prompt\":\"say:one two three\",\"seed\":1}";
    for (size_t step = 1; step < 40; step += 6) {
        client_response r = client_step(port, "POST", "/v1/completions", NULL, body, step);
        assert_int_equal(r.status, 200);
        same_text(client_text(r.json, "choices.0.text"), "one two three");
        client_release(&r);
    }
    const char *chunked = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: "
                          "close\r\nTransfer-Encoding: chunked\r\n"
                          "Expect: 100-continue\r\n\r\n9\r\n{\"prompt\"\r\n10\r\n:\"say:one two\"  "
                          "\r\n1\r\n}\r\n0\r\n\r\n";
    const int fd = client_connect(port);
    client_response r;
    client_send(fd, chunked, strlen(chunked), 5);
    client_read(fd, &r);
    assert_int_equal(r.status, 200);
    same_text(client_text(r.json, "choices.0.text"), "one two");
    client_release(&r);
    close(fd);
}

/* Several requests on one connection. */
static void kept_alive(void **state)
{
    (void)state;
    const int fd = client_connect(port);
    for (int i = 0; i < 3; i++) {
        ft_buf raw;
        ft_buf_init(&raw, 1 << 16);
        client_puts(fd, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
        while (!strstr(ft_buf_z(&raw), "\"ok\"}") && client_more(fd, &raw, 5000)) continue;
        assert_int_equal(strncmp(ft_buf_z(&raw), "HTTP/1.1 200", 12), 0);
        ft_buf_release(&raw);
    }
    close(fd);
}

static void bad_bodies(void **state)
{
    (void)state;
    ft_buf b;
    ft_buf_init(&b, 1 << 20);
    for (int i = 0; i < 200; i++) ft_buf_puts(&b, "{\"a\":[");
    refused(CHAT, ft_buf_z(&b), 400, "more than 128 levels deep");
    ft_buf_release(&b);
    refused(CHAT, "{\"a\":\"\xff\"}", 400, "byte 6 of the body is not UTF-8");
    refused(CHAT, "{\"a\":\"\\u0000\"}", 400, "byte");
    refused(CHAT, "{} x", 400, "byte");
    refused(CHAT, "nothing", 400, "byte");
    refused(CHAT, "", 400, "messages is absent");
    ft_buf_init(&b, 1 << 20);
    ft_buf_puts(&b, "X-Long: ");
    for (int i = 0; i < 70000; i++) ft_buf_putc(&b, 'x');
    ft_buf_puts(&b, "\r\n");
    client_response r;
    ft_buf req;
    client_request(&req, "GET", "/health", ft_buf_z(&b), NULL);
    const int fd = client_connect(port);
    client_send(fd, ft_buf_z(&req), req.len, 0);
    client_init(&r);
    while (!strstr(ft_buf_z(&r.raw), "}}") && client_more(fd, &r.raw, 5000)) continue;
    client_parse(&r);
    assert_int_equal(r.status, 431);
    close(fd);
    client_release(&r);
    ft_buf_release(&req);
    ft_buf_release(&b);
}

/* ---- clients that disconnect ---- */

static void gone(void **state)
{
    (void)state;
    int fd = begin_request(CHAT, SAY("/stay", "a b c")); /* decoding */
    assert_true(busy_becomes(1));
    close(fd);
    assert_true(busy_becomes(0));
    fd = begin_request("/v1/completions", "{\"prompt\":\"say/stay:a b c\"}");
    assert_true(busy_becomes(1)); /* before the first token */
    close(fd);
    assert_true(busy_becomes(0));
    int slot[6];
    for (int i = 0; i < 6; i++) slot[i] = begin_request(CHAT, SAY("/hold", "a b"));
    assert_true(busy_becomes(6)); /* the last two wait for a slot */
    close(slot[5]);
    assert_true(busy_becomes(5));
    close(slot[4]);
    assert_true(busy_becomes(4));
    for (int i = 0; i < 4; i++) close(slot[i]);
    assert_true(busy_becomes(0));
    client_response r = get("/metrics"); /* the server still serves other clients */
    assert_non_null(strstr(ft_buf_z(&r.body), "\nforetoken:cancelled_total 8\n"));
    client_release(&r);
    r = get("/health");
    assert_int_equal(r.status, 200);
    client_release(&r);
}

/* A client that does not read delays only its own response. */
static void slow_reader(void **state)
{
    (void)state;
    ft_buf b;
    ft_buf_init(&b, 1 << 24);
    ft_buf_puts(&b, "{\"stream\":true,\"logprobs\":5,\"prompt\":\"say:");
    for (int i = 0; i < 3000; i++) ft_buf_puts(&b, "ab ");
    ft_buf_puts(&b, "\"}");
    const int fd = socket(AF_INET, SOCK_STREAM, 0), small = 4096;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    ft_buf req;
    client_request(&req, "POST", "/v1/completions", "Connection: close\r\n", ft_buf_z(&b));
    client_send(fd, ft_buf_z(&req), req.len, 0);
    assert_true(busy_becomes(1));
    for (int i = 0; i < 5; i++) {
        client_response r = post("/v1/completions", "{\"prompt\":\"say:one two\"}");
        same_text(client_text(r.json, "choices.0.text"), "one two");
        client_release(&r);
    }
    client_response r;
    client_read(fd, &r); /* then it receives the whole response */
    json_t *e = client_events(&r);
    char *text = client_join(e, "choices.0.text");
    assert_int_equal(strlen(text), 9000 - (text[strlen(text) - 1] != ' '));
    same_text(json_string_value(json_array_get(e, json_array_size(e) - 1)), "[DONE]");
    free(text);
    json_decref(e);
    client_release(&r);
    close(fd);
    ft_buf_release(&req);
    ft_buf_release(&b);
}

/* ---- many ---- */

enum { IDLE = 1000, STREAMS = 200 };

static void idle_connections(void **state)
{
    (void)state;
    static int fd[IDLE];
    for (int i = 0; i < IDLE; i++) assert_true((fd[i] = client_connect(port)) >= 0);
    client_response r = get("/health");
    assert_int_equal(r.status, 200);
    client_release(&r);
    for (int i = 0; i < IDLE; i++) close(fd[i]);
}

static void streams(void **state)
{
    (void)state;
    static int fd[STREAMS];
    static client_response r[STREAMS];
    for (int i = 0; i < STREAMS; i++) {
        char body[300];
        snprintf(body, sizeof body,
                 "{\"stream\":true,\"prompt\":\"say/2ms:number %d of the streams, one two three\"}",
                 i);
        ft_buf b;
        client_request(&b, "POST", "/v1/completions", "Connection: close\r\n", body);
        fd[i] = client_connect(port);
        assert_true(fd[i] >= 0 && client_send(fd[i], ft_buf_z(&b), b.len, 0));
        ft_buf_release(&b);
    }
    for (int i = 0; i < STREAMS; i++) {
        char want[100];
        client_read(fd[i], &r[i]);
        json_t *e = client_events(&r[i]);
        char *text = client_join(e, "choices.0.text");
        snprintf(want, sizeof want, "number %d of the streams, one two three", i);
        assert_string_equal(text, want);
        free(text);
        json_decref(e);
        client_release(&r[i]);
        close(fd[i]);
    }
    assert_true(busy_becomes(0));
}

static int open_many(void **state)
{
    ft_serve_params p;
    (void)state;
    usual(&p);
    p.connections = 2000;
    open_server(&p, SCRIPT_LANES, 1000);
    return 0;
}

/* ---- servers with other settings ---- */

static void keys(void **state)
{
    static const struct {
        const char *method, *path, *body;
        bool open;
    } route[] = {
        {"GET", "/health", NULL, true},
        {"GET", "/v1/health", NULL, true},
        {"GET", "/v1/models", NULL, false},
        {"GET", "/props", NULL, false},
        {"GET", "/slots", NULL, false},
        {"GET", "/metrics", NULL, false},
        {"GET", "/api/tags", NULL, false},
        {"POST", "/tokenize", "{}", false},
        {"POST", CHAT, SAY("", "x"), false},
        {"POST", "/v1/completions", "{\"prompt\":\"x\"}", false},
        {"POST", "/completion", "{\"prompt\":\"x\"}", false},
        {"POST", "/v1/responses", "{\"input\":\"x\"}", false},
        {"POST", "/v1/messages", "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", false},
        {"POST", "/v1/embeddings", "{\"input\":\"x\"}", false},
        {"POST", "/api/chat", "{\"messages\":[]}", false}};
    static const struct {
        const char *header;
        bool right;
    } key[] = {{NULL, false},
               {"Authorization: Bearer wrong\r\n", false},
               {"Authorization: Bearer k1x\r\n", false},
               {"Authorization: Bearer k\r\n", false},
               {"X-Api-Key: \r\n", false},
               {"Authorization: Bearer k1\r\n", true},
               {"X-Api-Key: second\r\n", true}};
    ft_serve_params p;
    (void)state;
    usual(&p);
    p.api_key = "k1,second";
    p.metrics = true;
    open_server(&p, 4, 64);
    for (size_t i = 0; i < FT_COUNT(route); i++)
        for (size_t k = 0; k < FT_COUNT(key); k++) {
            client_response r =
                client_call(port, route[i].method, route[i].path, key[k].header, route[i].body);
            const int want = route[i].open || key[k].right ? 200 : 401;
            if (r.status != want)
                fail_msg("%s with %s: %d, want %d", route[i].path,
                         key[k].header ? key[k].header : "no key", r.status, want);
            const json_t *type =
                client_at(r.json, "error.type"); /* in the Ollama API the error is a string */
            if (want == 401 && type) same_text(json_string_value(type), "authentication_error");
            client_release(&r);
        }
    client_response r = client_call(port, "OPTIONS", CHAT, NULL, NULL);
    assert_int_equal(r.status, 200);
    client_release(&r);
    close_server();
}

/* Every other route: 401 without the key, and any other status with it. */
static void keys_everywhere(void **state)
{
    static const char *const gets[] = {"/models", "/api/version", "/api/ps"};
    static const char *const posts[] = {
        "/models/load",
        "/models/unload",
        "/props",
        "/slots/0?action=erase",
        "/chat/completions",
        "/v1/chat/completions/input_tokens",
        "/v1/chat/completions/control",
        "/completions",
        "/infill",
        "/responses",
        "/v1/responses/input_tokens",
        "/v1/messages/count_tokens",
        "/detokenize",
        "/apply-template",
        "/embedding",
        "/embeddings",
        "/rerank",
        "/v1/rerank",
        "/reranking",
        "/v1/reranking",
        "/api/show",
        "/api/generate",
        "/api/embed",
    };
    static const char *const pages[] = {"/", "/web/style.css", "/web/app.js", "/web/libs.js"};
    ft_serve_params p;
    (void)state;
    usual(&p);
    p.api_key = "k1";
    open_server(&p, 4, 64);
    for (size_t i = 0; i < FT_COUNT(gets) + FT_COUNT(posts); i++) {
        const bool reads = i < FT_COUNT(gets);
        const char *path = reads ? gets[i] : posts[i - FT_COUNT(gets)];
        for (int k = 0; k < 3; k++) {
            static const char *const key[] = {NULL, "X-Api-Key: k\r\n", "X-Api-Key: k1\r\n"};
            client_response r =
                client_call(port, reads ? "GET" : "POST", path, key[k], reads ? NULL : "{}");
            if ((r.status == 401) != (k < 2) || r.status == 404 || r.status == 405 || !r.status)
                fail_msg("%s with %s: %d", path, key[k] ? key[k] : "no key", r.status);
            client_release(&r);
        }
    }
    for (size_t i = 0; i < FT_COUNT(pages); i++) {
        client_response r = get(pages[i]);
        assert_int_equal(r.status, 200);
        const char *policy = client_header(&r, "Content-Security-Policy");
        assert_non_null(policy);
        assert_null(strstr(policy, "unsafe"));
        client_release(&r);
    }
    client_response r = get("/web/nothing.js");
    assert_int_equal(r.status, 404);
    client_release(&r);
    close_server();
}

static void full(void **state)
{
    ft_serve_params p;
    (void)state;
    usual(&p);
    open_server(&p, 1, 1);
    const int a = begin_request(CHAT, SAY("/hold", "a b")),
              b = begin_request(CHAT, SAY("/hold", "a b"));
    assert_true(busy_becomes(2));
    client_response r = post(CHAT, SAY("", "x"));
    assert_int_equal(r.status, 429);
    same_text(client_text(r.json, "error.type"), "rate_limit_error");
    same_text(client_header(&r, "Retry-After"), "1");
    client_release(&r);
    r = get("/slots?fail_on_no_slot=1");
    assert_int_equal(r.status, 503);
    client_release(&r);
    ft_scripted_go(model);
    assert_true(busy_becomes(0));
    close(a);
    close(b);
    close_server();
}

/* Stops this process for longer than the time limit of a header. */
static void stop_for_a_while(void)
{
    const pid_t me = getpid(), helper = fork();
    if (!helper) {
        kill(me, SIGSTOP);
        usleep(1500000);
        kill(me, SIGCONT);
        _exit(0);
    }
    assert_true(helper > 0);
    waitpid(helper, NULL, 0);
}

static void a_prefix(void **state)
{
    ft_serve_params p;
    (void)state;
    usual(&p);
    p.body_max = 1000;
    p.api_prefix = "/llm";
    p.cors_origins = "localhost,https://b.example";
    p.alias = "one,two";
    p.props = true;
    p.metrics = p.slots = false;
    open_server(&p, 2, 4);
    char big[5000];
    memset(big, ' ', sizeof big);
    big[2000] = 0;
    refused("/llm/v1/completions", big, 413, "maximum of 1000 bytes");
    big[2000] = ' ';
    big[sizeof big - 1] = 0;
    refused("/llm/v1/completions", big, 413,
            "maximum of 1000 bytes"); /* too large: not read at all */
    client_response r = get("/health");
    assert_int_equal(r.status, 404);
    client_release(&r);
    r = client_call(port, "GET", "/llm/health", "Origin: http://localhost:3000\r\n", NULL);
    same_text(client_header(&r, "Access-Control-Allow-Origin"), "http://localhost:3000");
    client_release(&r);
    r = client_call(port, "GET", "/llm/health", "Origin: http://localhost.evil.example\r\n", NULL);
    assert_null(client_header(&r, "Access-Control-Allow-Origin"));
    client_release(&r);
    r = get("/llm/v1/models");
    same_text(client_text(r.json, "data.0.id"), "one");
    same_text(client_text(r.json, "data.0.aliases.1"), "two");
    assert_int_equal(json_array_size(client_at(r.json, "data")), 1);
    client_release(&r);
    r = get("/llm/metrics");
    assert_int_equal(r.status, 501);
    client_release(&r);
    r = get("/llm/slots");
    assert_int_equal(r.status, 501);
    client_release(&r);
    r = post("/llm/props", "{\"top_k\":7}");
    assert_int_equal(r.status, 200);
    client_release(&r);
    r = get("/llm/props");
    assert_int_equal(client_int(r.json, "default_generation_settings.params.top_k"), 7);
    client_release(&r);
    close_server();
}

static void slow_headers(void **state)
{
    ft_serve_params p;
    (void)state;
    usual(&p);
    p.header_s = 1;
    open_server(&p, 2, 4);
    /* the time limit of one second for headers does not include time in which the server was
     * stopped; on a busy machine this client may be late, but not every time */
    int fd, status = 0;
    for (int i = 0; i < 8 && status != 200; i++) {
        fd = client_connect(port);
        client_puts(fd, "GET /health HTTP/1.1\r\nHost: localhost\r\n");
        stop_for_a_while();
        client_puts(fd, "Connection: close\r\n\r\n");
        client_response r;
        client_read(fd, &r);
        status = r.status;
        client_release(&r);
        close(fd);
    }
    assert_int_equal(status, 200);
    /* a client that does not send its headers in time is disconnected, even if it keeps sending
     * bytes */
    fd = client_connect(port);
    const double from = ft_now_s();
    ft_buf raw;
    ft_buf_init(&raw, 4096);
    while (client_send(fd, "GET /", 1, 0) && ft_now_s() - from < 60) {
        struct pollfd f = {fd, POLLIN, 0};
        if (poll(&f, 1, 100) > 0 && !client_more(fd, &raw, 0)) break;
    }
    assert_true(ft_now_s() - from < 60);
    ft_buf_release(&raw);
    close(fd);
    close_server();
}

/* Optional features: the web page, logging requests to files, and prefix reuse for prompts in which
 * a client changes a counter. */
static void optional_features(void **state)
{
    ft_serve_params p;
    char folder[sizeof FOLDER], path[200], *text = NULL;
    size_t n;
    (void)state;
    folder_new(folder);
    usual(&p);
    p.no_page = true;
    p.normalize = true;
    p.prompts_dir = folder;
    open_server(&p, 2, 4);
    client_response r = get("/");
    assert_int_equal(r.status, 404);
    client_release(&r);
    const char *body =
        "{\"messages\":[{\"role\":\"system\",\"content\":\"x-anthropic-billing-header: "
        "cch=1;\\nBe brief.\\nToken usage: 7/8\"},{\"role\":\"user\",\"content\":\"Token "
        "usage: mine\"}]}";
    r = client_call(port, "POST", "/apply-template", "X-Request-Id: ../a\r\n", body);
    const char *prompt = client_text(r.json, "prompt");
    assert_non_null(prompt);
    assert_null(strstr(prompt, "billing"));
    assert_null(strstr(prompt, "7/8"));
    assert_non_null(strstr(prompt, "Be brief."));
    assert_non_null(strstr(prompt, "Token usage: mine"));
    client_release(&r);
    snprintf(path, sizeof path, "%s/___a.json", folder);
    assert_int_equal(ft_file_read(&text, &n, path, 1 << 20, NULL), FT_OK);
    assert_int_equal(n, strlen(body));
    assert_memory_equal(text, body, n);
    ft_free(text);
    close_server();
    assert_int_equal(folder_free(folder), 0);
}

static void unix_socket(void **state)
{
    ft_serve_params p;
    (void)state;
    char path[100];
    snprintf(path, sizeof path, "/tmp/ft-test-%d.sock", (int)getpid());
    usual(&p);
    p.host = path;
    open_server(&p, 2, 4);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    client_response r;
    client_puts(fd, "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    client_read(fd, &r);
    assert_int_equal(r.status, 200);
    client_release(&r);
    close(fd);
    close_server();
    assert_int_not_equal(access(path, F_OK), 0);
}

/* Before the model is loaded, and while the last responses finish. */
static void beginning_and_end(void **state)
{
    ft_serve_params p;
    ft_err err;
    (void)state;
    usual(&p);
    model = ft_scripted_open("models/foretoken-tiny.gguf", 2, 4);
    assert_int_equal(ft_server_open(&server, &p, &err), FT_OK);
    port = ft_server_port(server);
    client_response r = get("/health");
    assert_int_equal(r.status, 503);
    same_text(client_text(r.json, "error.type"), "unavailable_error");
    client_release(&r);
    refused(CHAT, SAY("", "x"), 503, "loading");
    r = get("/v1/models");
    assert_int_equal(r.status, 200);
    assert_true(json_is_null(client_at(r.json, "data.0.meta")));
    client_release(&r);
    ft_server_attach(server, model);
    r = get("/health");
    assert_int_equal(r.status, 200);
    client_release(&r);

    const int fd = begin_request(CHAT, SAY("/stay", "a b c d e f g h i j")),
              idle = client_connect(port);
    assert_true(busy_becomes(1));
    ft_server_drain(server);
    assert_true(client_connect(port) < 0); /* no new connections */
    ft_scripted_go(model);
    ft_buf raw;
    ft_buf_init(&raw, 1 << 20);
    while (!strstr(ft_buf_z(&raw), "[DONE]") && client_more(fd, &raw, 5000)) continue;
    assert_non_null(strstr(ft_buf_z(&raw), "[DONE]"));
    ft_buf_release(&raw);
    close(fd);
    close(idle);
    close_server();
}

/* Closing a server while responses are running. */
static void torn_down(void **state)
{
    ft_serve_params p;
    (void)state;
    usual(&p);
    open_server(&p, 2, 16);
    int fd[8];
    for (int i = 0; i < 8; i++)
        fd[i] = i % 2 ? begin_request(CHAT, SAY("/hold", "a b"))
                      : begin_request("/v1/completions", "{\"prompt\":\"say/hold:a b\"}");
    assert_true(busy_becomes(8));
    const int half = client_connect(port);
    client_puts(half,
                "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{");
    close_server();
    for (int i = 0; i < 8; i++) close(fd[i]);
    close(half);
}

static void refused_starts(void **state)
{
    ft_serve_params p;
    ft_err err;
    ft_server *s;
    (void)state;
    usual(&p);
    p.host = "not a host";
    assert_int_equal(ft_server_open(&s, &p, &err), FT_EINVAL);
    usual(&p);
    p.api_key_file = "/nowhere/keys";
    assert_int_not_equal(ft_server_open(&s, &p, &err), FT_OK);
    usual(&p);
    p.tls_key = "README.md";
    assert_int_equal(ft_server_open(&s, &p, &err), FT_EINVAL);
    p.tls_cert = "README.md";
    assert_int_not_equal(ft_server_open(&s, &p, &err), FT_OK);
    usual(&p);
    p.template_kwargs = "[]";
    assert_int_equal(ft_server_open(&s, &p, &err), FT_EINVAL);
}

/* The device fails during a response: that response ends with an error, new requests are rejected,
 * and the program that runs the server is notified. */
static void device_fails(void **state)
{
    (void)state;
    ft_serve_params p;
    usual(&p);
    open_server(&p, 4, 64);
    assert_false(ft_server_failed(server));
    client_response r = post(CHAT, SAY("/die", "half a response"));
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(ft_buf_z(&r.body), "the script says so"));
    assert_null(strstr(ft_buf_z(&r.body), "[DONE]"));
    client_release(&r);
    refused(CHAT, SAY("", "x"), 503, "the device has failed");
    r = get("/health");
    assert_int_equal(r.status, 503);
    client_release(&r);
    assert_true(ft_server_failed(server));
    close_server();
}

int main(void)
{
    const struct CMUnitTest one[] = {
        cmocka_unit_test(routes),      cmocka_unit_test(origins),    cmocka_unit_test(any_cut),
        cmocka_unit_test(kept_alive),  cmocka_unit_test(bad_bodies), cmocka_unit_test(gone),
        cmocka_unit_test(slow_reader),
    };
    const struct CMUnitTest many[] = {cmocka_unit_test(idle_connections),
                                      cmocka_unit_test(streams)};
    const struct CMUnitTest own[] = {
        cmocka_unit_test(keys),           cmocka_unit_test(keys_everywhere),
        cmocka_unit_test(full),           cmocka_unit_test(a_prefix),
        cmocka_unit_test(slow_headers),   cmocka_unit_test(optional_features),
        cmocka_unit_test(unix_socket),    cmocka_unit_test(beginning_and_end),
        cmocka_unit_test(torn_down),      cmocka_unit_test(device_fails),
        cmocka_unit_test(refused_starts),
    };
    int failed = cmocka_run_group_tests_name("one server", one, open_usual, close_usual);
    failed += cmocka_run_group_tests_name("many clients", many, open_many, close_usual);
    failed += cmocka_run_group_tests_name("settings", own, NULL, NULL);
    const int n = (int)(FT_COUNT(one) + FT_COUNT(many) + FT_COUNT(own));
    printf("%d passed, %d failed\n", n - failed, failed);
    return failed;
}
