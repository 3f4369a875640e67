/* Connections: how many there are, how long they may take, and what closes them. */
#define _GNU_SOURCE
#include "bench.h"

/* true: the server closes the connection within a minute, whatever comes. */
static bool is_closed(int fd, const char *drip)
{
    const double from = ft_now_s();
    ft_buf raw;
    ft_buf_init(&raw, 1 << 20);
    bool closed = false;
    while (!closed && ft_now_s() - from < 60) {
        if (drip) client_send(fd, drip, 1, 0);
        struct pollfd f = {fd, POLLIN, 0};
        closed = poll(&f, 1, 100) > 0 && !client_more(fd, &raw, 0);
    }
    ft_buf_release(&raw);
    close(fd);
    return closed;
}

static void slow_bodies(void **state)
{
    ft_serve_params p;
    (void)state;
    usual(&p);
    p.body_s = 1;
    open_server(&p, 2, 4);
    assert_true(is_closed(send_text("POST /completion HTTP/1.1\r\nHost: localhost\r\n"
                                    "Content-Length: 100000\r\n\r\n"),
                          " "));
    assert_true(is_closed(send_text("POST /completion HTTP/1.1\r\nHost: localhost\r\n"
                                    "Content-Length: 100000\r\n\r\n{"),
                          NULL));
    close_server();
}

/* More connections that never finish a request than the server has places. */
static void health_has_a_place(void **state)
{
    enum { N = 150 };
    static const char *const drip[] = {
        "", "POST /completion HTTP/1.1\r\n",
        "POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n{"};
    ft_serve_params p;
    (void)state;
    for (int same = 0; same < 2; same++) {
        int fd[N];
        usual(&p);
        p.connections = same ? 200 : 40;
        p.per_address = same ? 30 : 1000;
        open_server(&p, 2, 4);
        for (int i = 0; i < N; i++) fd[i] = send_text(drip[i % 3]);
        for (int i = 0; i < 5; i++) {
            assert_status("/health", NULL, NULL, 200);
            assert_status("/completion", NULL, "{\"prompt\":\"say:x\"}", 200);
        }
        for (int i = 0; i < N; i++) close(fd[i]);
        close_server();
    }
}

/* Clients come and go, more than there are places, when the server is told to end. */
static void ends_when_full(void **state)
{
    enum { N = 100, TIMES = 20 };
    ft_serve_params p;
    (void)state;
    usual(&p);
    p.connections = 4;
    p.per_address = 1000;
    for (int i = 0; i < TIMES; i++) {
        int fd[N];
        open_server(&p, 2, 4);
        for (int j = 0; j < N; j++) fd[j] = send_text("GET /health HTTP/1.1\r\n\r\n");
        for (int j = 0; j < N / 2; j++) close(fd[j]);
        ft_server_drain(server);
        for (int j = N / 2; j < N; j++) close(fd[j]);
        close_server();
    }
}

/* Every place is taken by a request that is being answered. */
static void health_beside_answers(void **state)
{
    enum { N = 8 };
    ft_serve_params p;
    int fd[N];
    (void)state;
    usual(&p);
    p.connections = N;
    p.per_address = N;
    open_server(&p, N, 64);
    ft_buf b;
    client_request(&b, "POST", "/v1/completions", NULL, "{\"prompt\":\"say/hold:a b\"}");
    for (int i = 0; i < N; i++) {
        fd[i] = client_connect(port);
        client_send(fd[i], ft_buf_z(&b), b.len, 0);
    }
    ft_llm_stats n = {0};
    for (int i = 0; i < 6000 && n.busy < N; i++) {
        ft_llm_counts(model, &n);
        usleep(10000);
    }
    assert_status("/health", NULL, NULL, 200);
    assert_status("/v1/completions", NULL, "{\"prompt\":\"say:x\"}", 503);
    ft_scripted_go(model);
    for (int i = 0; i < N; i++) {
        ft_buf raw;
        ft_buf_init(&raw, 1 << 20);
        while (!strstr(ft_buf_z(&raw), "\"choices\"") && client_more(fd[i], &raw, 20000)) continue;
        assert_non_null(strstr(ft_buf_z(&raw), "\"choices\""));
        ft_buf_release(&raw);
        close(fd[i]);
    }
    ft_buf_release(&b);
    close_server();
}

/* A client that closes its side of the connection still gets its response. */
static void half_closed(void **state)
{
    static const char *const body[] = {"{\"prompt\":\"say/2ms:one two three four five\"}",
                                       "{\"stream\":true,\"prompt\":\"say/2ms:one two three\"}"};
    (void)state;
    for (size_t i = 0; i < FT_COUNT(body); i++) {
        ft_buf b;
        client_request(&b, "POST", "/v1/completions", "Connection: close\r\n", body[i]);
        const int fd = client_connect(port);
        client_send(fd, ft_buf_z(&b), b.len, 0);
        shutdown(fd, SHUT_WR);
        client_response r;
        client_read(fd, &r);
        assert_int_equal(r.status, 200);
        assert_non_null(strstr(ft_buf_z(&r.body), i ? "[DONE]" : "one two three four five"));
        client_release(&r);
        ft_buf_release(&b);
        close(fd);
    }
    ft_buf b; /* and while it waits, too */
    client_request(&b, "POST", "/v1/completions", "Connection: close\r\n",
                   "{\"prompt\":\"say/hold:a b\"}");
    const int fd = client_connect(port);
    client_send(fd, ft_buf_z(&b), b.len, 0);
    shutdown(fd, SHUT_WR);
    usleep(500000);
    ft_scripted_go(model);
    client_response r;
    client_read(fd, &r);
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(ft_buf_z(&r.body), "a b"));
    client_release(&r);
    ft_buf_release(&b);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest one[] = {cmocka_unit_test(half_closed)};
    const struct CMUnitTest own[] = {
        cmocka_unit_test(slow_bodies),
        cmocka_unit_test(health_has_a_place),
        cmocka_unit_test(ends_when_full),
        cmocka_unit_test(health_beside_answers),
    };
    int failed = cmocka_run_group_tests_name("one server", one, open_usual, close_usual);
    failed += cmocka_run_group_tests_name("settings", own, NULL, NULL);
    const int n = (int)(FT_COUNT(one) + FT_COUNT(own));
    printf("%d passed, %d failed\n", n - failed, failed);
    return failed;
}
