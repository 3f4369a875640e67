#define _GNU_SOURCE
/* tests/serve/image_url.c - downloads of images: which addresses may be connected to, and a host
 * that redirects, is slow, sends too much or fails. */
#include "serve/image_url.h"

#include "base/mem.h"
#include "unit.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAYBE __attribute__((unused)) /* unused in a build without libcurl */

enum { LIMIT = 5000 };
static int port;

static bool is_public(const char *text)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    struct sockaddr_in6 b = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &a.sin_addr) == 1)
        return ft_address_is_public((const struct sockaddr *)&a);
    assert_int_equal(inet_pton(AF_INET6, text, &b.sin6_addr), 1);
    return ft_address_is_public((const struct sockaddr *)&b);
}

static void test_addresses(void **state)
{
    static const char *const open[] = {
        "1.1.1.1",     "8.8.8.8",     "9.255.255.255",        "11.0.0.0",
        "172.15.0.1",  "172.32.0.1",  "192.167.1.1",          "100.63.255.255",
        "100.128.0.0", "169.253.1.1", "223.255.255.255",      "2606:4700:4700::1111",
        "2a00::1",     "2002:808::1", "::ffff:93.184.216.34", "64:ff9b::808:808",
    };
    static const char *const closed[] = {
        "0.0.0.0",
        "10.1.2.3",
        "127.0.0.1",
        "127.255.255.254",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.0.1",
        "100.64.0.1",
        "192.0.0.1",
        "192.0.2.1",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fc00::1",
        "fd12:3456::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::a00:1",
        "2002:7f00:1::",
        "2002:a00:1::",
        "2001::1",
        "2001:db8::1",
        "::127.0.0.1",
        "fec0::1",
        "4000::1",
    };
    const struct sockaddr unix_domain = {.sa_family = AF_UNIX};
    (void)state;
    for (size_t i = 0; i < FT_COUNT(open); i++)
        if (!is_public(open[i])) fail_msg("%s is not public", open[i]);
    for (size_t i = 0; i < FT_COUNT(closed); i++)
        if (is_public(closed[i])) fail_msg("%s is public", closed[i]);
    assert_false(ft_address_is_public(&unix_domain));
}

static void test_hosts(void **state)
{
    (void)state;
    assert_true(ft_image_url_listed("any", "example.org"));
    assert_true(ft_image_url_listed("a.org,Example.org", "example.ORG"));
    assert_false(ft_image_url_listed("a.org,example.org", "b.example.org"));
    assert_false(ft_image_url_listed("example.org", "example.or"));
    assert_false(ft_image_url_listed("", "example.org"));
}

/* ---- a host ---- */

static ssize_t endless(void *user, uint64_t pos, char *out, size_t max)
{
    (void)user, (void)pos;
    memset(out, 'x', max);
    return (ssize_t)max;
}

static ssize_t silent(void *user, uint64_t pos, char *out, size_t max)
{
    (void)user, (void)pos, (void)out, (void)max;
    usleep(20000);
    return 0;
}

static enum MHD_Result send_text(struct MHD_Connection *c, unsigned status, const char *text,
                                 const char *to)
{
    struct MHD_Response *r = MHD_create_response_from_buffer(strlen(text), (void *)(uintptr_t)text,
                                                             MHD_RESPMEM_MUST_COPY);
    if (to) MHD_add_response_header(r, "Location", to);
    const enum MHD_Result ok = MHD_queue_response(c, status, r);
    MHD_destroy_response(r);
    return ok;
}

static enum MHD_Result stream(struct MHD_Connection *c, MHD_ContentReaderCallback read)
{
    struct MHD_Response *r =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 1024, read, NULL, NULL);
    const enum MHD_Result ok = MHD_queue_response(c, 200, r);
    MHD_destroy_response(r);
    return ok;
}

static enum MHD_Result serve(void *cls, struct MHD_Connection *c, const char *url,
                             const char *method, const char *version, const char *data, size_t *n,
                             void **state)
{
    static char large[LIMIT + 2];
    char to[100];
    (void)cls, (void)method, (void)version, (void)data, (void)n;
    if (!*state) {
        *state = (void *)(uintptr_t)1;
        return MHD_YES;
    }
    memset(large, 'y', sizeof large - 1);
    if (!strcmp(url, "/image")) return send_text(c, 200, "picture", NULL);
    if (!strcmp(url, "/empty")) return send_text(c, 200, "", NULL);
    if (!strcmp(url, "/large")) return send_text(c, 200, large, NULL);
    if (!strcmp(url, "/fits")) return send_text(c, 200, large + 1, NULL);
    if (!strcmp(url, "/endless")) return stream(c, endless);
    if (!strcmp(url, "/silent")) return stream(c, silent);
    if (!strcmp(url, "/broken")) return send_text(c, 503, "no", NULL);
    if (!strcmp(url, "/file")) return send_text(c, 302, "", "file:///etc/passwd");
    if (!strncmp(url, "/hops/", 6)) {
        const int left = atoi(url + 6);
        snprintf(to, sizeof to, left > 1 ? "/hops/%d" : "/image", left - 1);
        return send_text(c, 302, "", to);
    }
    if (!strncmp(url, "/to/", 4)) {
        snprintf(to, sizeof to, "http://%.40s:%d/image", url + 4, port);
        return send_text(c, 301, "", to);
    }
    return send_text(c, 404, "not here", NULL);
}

static bool only_first(const struct sockaddr *a)
{
    return a->sa_family == AF_INET &&
           ((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr == htonl(INADDR_LOOPBACK);
}

static ft_status get(const char *host, const char *path, const ft_image_url_rules *r, char out[64],
                     ft_err *err)
{
    char url[200];
    void *bytes = NULL;
    size_t n = 0;
    snprintf(url, sizeof url, "http://%s:%d%s", host, port, path);
    const ft_status st = ft_image_url_get(url, r, &bytes, &n, err);
    if (!st) snprintf(out, 64, "%zu %.*s", n, (int)FT_MIN(n, (size_t)20), (const char *)bytes);
    free(bytes);
    return st;
}

MAYBE static void test_downloads(void **state)
{
    static const struct {
        const char *path, *want; /* the result, or a part of the error */
        ft_status st;
    } t[] = {
        {"/image", "7 picture", FT_OK},
        {"/empty", "0 ", FT_OK},
        {"/fits", "5000 yyyyyyyyyyyyyyyyyyyy", FT_OK},
        {"/hops/3", "7 picture", FT_OK},
        {"/hops/4", "more than 3 redirections", FT_EINVAL},
        {"/large", "more than 5000 bytes", FT_ELIMIT},
        {"/endless", "more than 5000 bytes", FT_ELIMIT},
        {"/silent", "within 1 seconds", FT_ELIMIT},
        {"/broken", "status 503", FT_EIO},
        {"/absent", "status 404", FT_EINVAL},
        {"/file", "want http or https", FT_EINVAL},
        {"/to/127.0.0.1", "7 picture", FT_OK},
        {"/to/127.0.0.2", "private or local address", FT_EINVAL},
    };
    (void)state;
    for (size_t i = 0; i < FT_COUNT(t); i++) {
        const double seconds = strcmp(t[i].path, "/silent") ? 60 : 1;
        const ft_image_url_rules r = {"any", LIMIT, seconds, only_first};
        char out[64] = "";
        ft_err err = {0};
        assert_int_equal(get("127.0.0.1", t[i].path, &r, out, &err), t[i].st);
        const char *got = t[i].st ? err.text : out;
        if (t[i].st ? !strstr(got, t[i].want) : strcmp(got, t[i].want))
            fail_msg("%s: %s, want %s", t[i].path, got, t[i].want);
        assert_null(strchr(got, '\n'));
    }
}

/* Every redirection is checked like the first address. */
MAYBE static void test_refused(void **state)
{
    const ft_image_url_rules listed = {"127.0.0.1,example.org", LIMIT, 60, only_first};
    const ft_image_url_rules open = {"any", LIMIT, 60, NULL};
    static const char *const local[] = {"127.0.0.1", "localhost", "127.1", "2130706433",
                                        "0x7f000001"};
    char out[64];
    ft_err err;
    void *bytes;
    size_t n;
    (void)state;
    assert_int_equal(get("127.0.0.1", "/image", &listed, out, &err), FT_OK);
    assert_int_equal(get("127.0.0.2", "/image", &listed, out, &err), FT_EINVAL);
    assert_non_null(strstr(err.text, "not among those of --allow-image-urls"));
    assert_int_equal(get("127.0.0.1", "/to/localhost", &listed, out, &err), FT_EINVAL);
    assert_non_null(strstr(err.text, "not among those of --allow-image-urls"));
    for (size_t i = 0; i < FT_COUNT(local); i++) {
        assert_int_equal(get(local[i], "/image", &open, out, &err), FT_EINVAL);
        if (!strstr(err.text, "private or local")) fail_msg("%s: %s", local[i], err.text);
    }
    assert_int_equal(ft_image_url_get("http://me:key@127.0.0.1/", &listed, &bytes, &n, &err),
                     FT_EINVAL);
    assert_null(strstr(err.text, "key"));
    assert_int_equal(ft_image_url_get("ftp://example.org/x", &open, &bytes, &n, &err), FT_EINVAL);
    assert_int_equal(ft_image_url_get("http://", &open, &bytes, &n, &err), FT_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_hosts),
#ifdef FT_HAVE_CURL
        cmocka_unit_test(test_downloads),
        cmocka_unit_test(test_refused),
#endif
    };
    struct MHD_Daemon *d =
        MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION, 0, NULL,
                         NULL, serve, NULL, MHD_OPTION_END);
    if (!d) return 1;
    port = (int)MHD_get_daemon_info(d, MHD_DAEMON_INFO_BIND_PORT)->port;
    setenv("http_proxy", "http://127.0.0.1:1", 1); /* must not be used */
    const int rc = cmocka_run_group_tests(tests, NULL, NULL);
    MHD_stop_daemon(d);
    return rc;
}
