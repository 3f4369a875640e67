/* tests/serve/client.h - a small HTTP client that gives access to status, headers, body and events.
 * Requests can be sent in chunks of any size, and sockets left half open. */
#ifndef FT_TESTS_CLIENT_H
#define FT_TESTS_CLIENT_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct client_response {
    int status;
    ft_buf raw;   /* everything */
    char *head;   /* status line and headers */
    ft_buf body;  /* chunks joined */
    json_t *json; /* the parsed body, NULL when it is not JSON */
} client_response;

static inline int client_connect(int port)
{
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, (struct sockaddr *)&a, sizeof a)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Sends in chunks of `step` bytes; 0: at once. */
static inline bool client_send(int fd, const char *p, size_t n, size_t step)
{
    for (size_t i = 0; i < n;) {
        const size_t want = step ? FT_MIN(step, n - i) : n - i;
        const ssize_t k = send(fd, p + i, want, MSG_NOSIGNAL);
        if (k <= 0) return false;
        i += (size_t)k;
        if (step) usleep(200);
    }
    return true;
}

static inline bool client_puts(int fd, const char *z)
{
    return client_send(fd, z, strlen(z), 0);
}

/* Receives more bytes; false at the end, or after ms milliseconds without any. */
static inline bool client_more(int fd, ft_buf *raw, int ms)
{
    char buf[65536];
    struct pollfd f = {fd, POLLIN, 0};
    if (poll(&f, 1, ms) <= 0) return false;
    const ssize_t k = recv(fd, buf, sizeof buf, 0);
    if (k <= 0) return false;
    ft_buf_put(raw, buf, (size_t)k);
    return true;
}

static inline const char *client_header(const client_response *r, const char *name)
{
    static _Thread_local char value[1024];
    const size_t n = strlen(name);
    for (const char *p = r->head; p && (p = strstr(p, "\r\n"));) {
        p += 2;
        if (strncasecmp(p, name, n) || p[n] != ':') continue;
        const char *v = p + n + 1;
        while (*v == ' ') v++;
        snprintf(value, sizeof value, "%.*s", (int)strcspn(v, "\r\n"), v);
        return value;
    }
    return NULL;
}

static inline void client_dechunk(client_response *r, const char *p, const char *end)
{
    const char *te = client_header(r, "Transfer-Encoding");
    if (!te || strcasecmp(te, "chunked")) {
        ft_buf_put(&r->body, p, (size_t)(end - p));
        return;
    }
    while (p < end) {
        char *next;
        const unsigned long n = strtoul(p, &next, 16);
        next = memchr(next, '\n', (size_t)(end - next));
        if (!next || !n || (size_t)(end - next - 1) < n) break;
        ft_buf_put(&r->body, next + 1, n);
        p = next + 1 + n + 2;
    }
}

static inline void client_parse(client_response *r)
{
    const char *z = ft_buf_z(&r->raw), *split = strstr(z, "\r\n\r\n");
    while (split && !strncmp(z, "HTTP/1.1 100", 12)) {
        z = split + 4;
        split = strstr(z, "\r\n\r\n");
    }
    if (!split) return;
    r->head = ft_alloc((size_t)(split - z) + 3);
    memcpy(r->head, z, (size_t)(split - z) + 2);
    r->status = atoi(r->head + strcspn(r->head, " "));
    client_dechunk(r, split + 4, ft_buf_z(&r->raw) + r->raw.len);
    r->json = json_loadb(ft_buf_z(&r->body), r->body.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
}

static inline void client_init(client_response *r)
{
    *r = (client_response){0};
    ft_buf_init(&r->raw, (size_t)1 << 30);
    ft_buf_init(&r->body, (size_t)1 << 30);
}

static inline void client_release(client_response *r)
{
    ft_buf_release(&r->raw);
    ft_buf_release(&r->body);
    ft_free(r->head);
    json_decref(r->json);
    *r = (client_response){0};
}

static inline void client_read(int fd, client_response *r)
{
    client_init(r);
    while (client_more(fd, &r->raw, 20000)) continue;
    client_parse(r);
}

static inline void client_request(ft_buf *out, const char *method, const char *path,
                                  const char *headers, const char *body)
{
    ft_buf_init(out, (size_t)1 << 30);
    ft_buf_printf(out, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s", method, path,
                  headers ? headers : "");
    if (body) ft_buf_printf(out, "Content-Length: %zu\r\n", strlen(body));
    ft_buf_puts(out, "\r\n");
    if (body) ft_buf_puts(out, body);
}

/* One request on a new connection, in chunks of `step` bytes. */
static inline client_response client_step(int port, const char *method, const char *path,
                                          const char *headers, const char *body, size_t step)
{
    client_response r;
    ft_buf b;
    char all[4096];
    snprintf(all, sizeof all, "Connection: close\r\n%s", headers ? headers : "");
    client_request(&b, method, path, all, body);
    const int fd = client_connect(port);
    client_send(fd, ft_buf_z(&b), b.len, step);
    client_read(fd, &r);
    if (fd >= 0) close(fd);
    ft_buf_release(&b);
    return r;
}

static inline client_response client_call(int port, const char *method, const char *path,
                                          const char *headers, const char *body)
{
    return client_step(port, method, path, headers, body, 0);
}

/* The JSON of every event of a stream, "event:" lines as the member "@event"; comments and [DONE]
 * as the texts ":" and "[DONE]". */
static inline json_t *client_events(const client_response *r)
{
    json_t *list = json_array();
    const char *name = NULL;
    size_t n_name = 0;
    for (const char *p = ft_buf_z(&r->body); *p;) {
        const size_t n = strcspn(p, "\n");
        if (!strncmp(p, "event: ", 7)) name = p + 7, n_name = n - 7;
        if (p[0] == ':') json_array_append_new(list, json_string(":"));
        if (!strncmp(p, "data: ", 6)) {
            json_t *j = json_loadb(p + 6, n - 6, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
            if (!j) j = json_stringn(p + 6, n - 6);
            if (name) json_object_set_new(j, "@event", json_stringn(name, n_name));
            name = NULL;
            json_array_append_new(list, j);
        }
        p += n + (p[n] == '\n');
    }
    return list;
}

/* "a.0.b": members and elements. NULL when absent. */
static inline json_t *client_at(const json_t *j, const char *path)
{
    char key[128];
    while (j && *path) {
        const size_t n = strcspn(path, ".");
        snprintf(key, sizeof key, "%.*s", (int)n, path);
        j = json_is_array(j) ? json_array_get(j, (size_t)atoi(key)) : json_object_get(j, key);
        path += n + (path[n] == '.');
    }
    return (json_t *)(uintptr_t)j;
}

static inline const char *client_text(const json_t *j, const char *path)
{
    return json_string_value(client_at(j, path));
}

static inline int64_t client_int(const json_t *j, const char *path)
{
    const json_t *v = client_at(j, path);
    return json_is_integer(v) ? json_integer_value(v) : INT64_MIN;
}

/* The concatenation of all texts at a path in a list of events. The caller frees it with free(). */
static inline char *client_join(const json_t *events, const char *path)
{
    ft_buf b;
    const json_t *e;
    size_t i;
    ft_buf_init(&b, 1 << 24);
    json_array_foreach(events, i, e)
    {
        const char *t = client_text(e, path);
        if (t) ft_buf_puts(&b, t);
    }
    return b.data ? ft_buf_take(&b) : ft_strdup("");
}

#endif
