/* Shares of the queue: one client leaves places for others. */
#define _GNU_SOURCE
#include "bench.h"

/* A request from another address of this machine, with headers of its own. */
static int begin_from(const char *address, const char *headers, const char *body)
{
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in from = {.sin_family = AF_INET}, to = {.sin_family = AF_INET};
    char all[400];
    ft_buf b;
    from.sin_addr.s_addr = inet_addr(address);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons((uint16_t)port);
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    snprintf(all, sizeof all, "Connection: close\r\n%s", headers);
    client_request(&b, "POST", "/completion", all, body);
    assert_true(client_send(fd, ft_buf_z(&b), b.len, 0));
    ft_buf_release(&b);
    return fd;
}

static void answer_is(int fd, int status)
{
    client_response r;
    client_read(fd, &r);
    close(fd);
    if (r.status != status) fail_msg("status %d, want %d: %s", r.status, status, ft_buf_z(&r.body));
    client_release(&r);
}

/* Waits until so many jobs run or wait. A call is counted before its job begins, and a rejected
 * request is answered before its jobs have ended, so calls do not tell. */
static void jobs_are(int n)
{
    ft_llm_stats now = {0};
    for (int i = 0; i < 4000; i++) {
        ft_llm_counts(model, &now);
        if (now.busy + now.waiting == n) return;
        usleep(5000);
    }
    assert_int_equal(now.busy + now.waiting, n);
}

/* More prompts than one client may have are wrong, and the error names the limit; it would be no
 * use to try again later. */
static void prompts_give(int n, int status)
{
    char text[400] = "{\"prompt\":[\"say:a\"";
    client_response r;
    for (int i = 1; i < n; i++) strcat(text, ",\"say:a\"");
    strcat(text, "]}");
    const int fd = begin_from("127.0.0.1", "", text);
    client_read(fd, &r);
    close(fd);
    if (r.status != status) fail_msg("status %d, want %d: %s", r.status, status, ft_buf_z(&r.body));
    if (status == 400) assert_non_null(strstr(ft_buf_z(&r.body), "want at most 6"));
    client_release(&r);
    jobs_are(0);
}

/* One client, however many prompts it has, leaves places for others. A client is an address, or an
 * API key where there are several. */
static void shares(void **state)
{
    ft_serve_params p;
    (void)state;
    ft_serve_defaults(&p);
    p.port = 0;
    open_server(&p, 1, 9);
    model->info.jobs_max = 6;
    prompts_give(7, 400);
    prompts_give(6, 200);
    jobs_are(0);
    int held[6];
    for (int i = 0; i < 6; i++)
        held[i] = begin_from("127.0.0.1", "", "{\"prompt\":\"say/hold:a\"}");
    jobs_are(6);
    answer_is(begin_from("127.0.0.1", "", "{\"prompt\":\"say:a\"}"), 429);
    answer_is(begin_from("127.0.0.1", "X-Api-Key: other\r\n", "{\"prompt\":\"say:a\"}"), 429);
    const int other = begin_from("127.0.0.2", "", "{\"prompt\":\"say:a\"}");
    jobs_are(7);
    ft_scripted_go(model);
    answer_is(other, 200);
    for (int i = 0; i < 6; i++) answer_is(held[i], 200);
    close_server();

    p.api_key = "first,second";
    open_server(&p, 1, 9);
    model->info.jobs_max = 1;
    held[0] =
        begin_from("127.0.0.1", "Authorization: Bearer first\r\n", "{\"prompt\":\"say/hold:a\"}");
    jobs_are(1);
    answer_is(begin_from("127.0.0.2", "X-Api-Key: first\r\n", "{\"prompt\":\"say:a\"}"), 429);
    answer_is(begin_from("127.0.0.2", "X-Api-Key: first\r\nAuthorization: Basic 1\r\n",
                         "{\"prompt\":\"say:a\"}"),
              429);
    held[1] = begin_from("127.0.0.1", "X-Api-Key: second\r\n", "{\"prompt\":\"say:a\"}");
    jobs_are(2);
    ft_scripted_go(model);
    answer_is(held[0], 200);
    answer_is(held[1], 200);
    close_server();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(shares)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
