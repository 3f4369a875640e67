/* serve/http.c - from sockets to calls and back. Only this file and accept.c use libmicrohttpd.
 *
 * A request is read, checked and passed to its handler on one of the library's threads. If the
 * response is not complete, the connection is suspended and no thread waits for it; ft_call_wake
 * resumes it and pump is called again. A streamed response does the same between two pieces. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "serve/body.h"
#include "serve/constraints.h"
#include "serve/server.h"

#include <assert.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    POOL_BYTES = 160 << 10, /* per connection: headers, and a buffer for reading or writing */
    PIECE_BYTES = 16 << 10,
    SPARE = 64, /* connections that libmicrohttpd may have beyond the limit of accept.c */
    OUT_MAX = 64 << 20,
    OFFLOAD_BYTES = 32 << 10, /* larger bodies are handled by offload.c */
    OFFLOAD_THREADS = 2,
    FETCH_THREADS = 4,
    FREE_BYTES = 64 << 10, /* smaller bodies are not counted in p.body_memory */
    TRIM_BYTES = 4 << 20,  /* after a larger request, freed memory is returned to the system */
};

/* ---- functions for handlers ---- */

const char *ft_call_query(const ft_call *c, const char *key)
{
    return MHD_lookup_connection_value(c->conn, MHD_GET_ARGUMENT_KIND, key);
}

const char *ft_call_header(const ft_call *c, const char *key)
{
    return MHD_lookup_connection_value(c->conn, MHD_HEADER_KIND, key);
}

void ft_call_add_header(ft_call *c, const char *name, const char *value)
{
    if (c->response) MHD_add_response_header(c->response, name, value);
}

static void common_headers(ft_call *c)
{
    const ft_serve_params *p = &c->s->p;
    ft_call_add_header(c, "Server", "foretoken");
    ft_call_add_header(c, "X-Request-Id", c->id);
    if (c->ignored[0]) ft_call_add_header(c, "X-Schema-Ignored", c->ignored);
    const char *origin = ft_call_header(c, "Origin");
    if (!origin) return;
    const ft_origin o = ft_auth_origin_allowed(&c->s->auth, origin, ft_call_header(c, "Host"));
    if (o == FT_ORIGIN_REFUSED) return;
    ft_call_add_header(c, "Access-Control-Allow-Origin", o == FT_ORIGIN_ANY ? "*" : origin);
    if (o != FT_ORIGIN_ANY) ft_call_add_header(c, "Vary", "Origin");
    if (p->cors_credentials && o == FT_ORIGIN_LISTED)
        ft_call_add_header(c, "Access-Control-Allow-Credentials", "true");
    ft_call_add_header(c, "Access-Control-Expose-Headers", "X-Request-Id, X-Schema-Ignored");
}

static void set_response(ft_call *c, int status, const char *type, struct MHD_Response *r)
{
    assert(!c->response);
    c->response = r;
    c->status = status;
    if (type) ft_call_add_header(c, "Content-Type", type);
    common_headers(c);
}

void ft_call_bytes(ft_call *c, int status, const char *type, const void *p, size_t n)
{
    set_response(c, status, type,
                 MHD_create_response_from_buffer(n, (void *)(uintptr_t)p, MHD_RESPMEM_MUST_COPY));
}

void ft_call_json(ft_call *c, int status, json_t *j)
{
    char *text = json_dumps(j, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
    json_decref(j);
    if (!text) text = strdup("{\"error\":{\"code\":\"server_error\",\"type\":\"server_error\"}}");
    set_response(c, status, "application/json; charset=utf-8",
                 MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE));
}

void ft_call_fail(ft_call *c, const ft_http_error *error)
{
    const ft_api api = c->route ? c->route->api : c->api;
    ft_call_json(c, ft_error_http_status(error->kind),
                 api == FT_API_ANTHROPIC ? ft_error_anthropic(error, c->id)
                 : api == FT_API_OLLAMA  ? ft_error_ollama(error)
                                         : ft_error_openai(error));
    if (error->kind == FT_ERR_BUSY) ft_call_add_header(c, "Retry-After", "1");
    if (error->kind == FT_ERR_AUTH) ft_call_add_header(c, "WWW-Authenticate", "Bearer");
}

void ft_call_wake(ft_call *c)
{
    pthread_mutex_lock(&c->lock);
    if (c->suspended && !c->offloaded) {
        c->suspended = false;
        MHD_resume_connection(c->conn);
    } else {
        c->woken = true;
    }
    pthread_mutex_unlock(&c->lock);
}

static void clear_woken(ft_call *c)
{
    pthread_mutex_lock(&c->lock);
    c->woken = false;
    pthread_mutex_unlock(&c->lock);
}

/* Returns false if the call was woken since clear_woken: check again. */
static bool suspend(ft_call *c)
{
    pthread_mutex_lock(&c->lock);
    const bool wait = !c->woken;
    if (wait) {
        c->suspended = true;
        MHD_suspend_connection(c->conn);
    }
    pthread_mutex_unlock(&c->lock);
    return wait;
}

/* A client that has closed its side of the connection may be gone or may still read the response.
 * Only sending tells: a client that is gone resets the connection. A stream sends a keep-alive;
 * before the response, HTTP/1.1 allows 100 Continue. */
bool ft_call_is_gone(ft_call *c)
{
    static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
    if (c->s->p.tls_key) return true; /* TLS has no half-closed connections */
    if (c->s->unix_path || c->probed) return false;
    if (c->stream) {
        c->probed = true;
        atomic_store(&c->ping_due, true);
        ft_call_wake(c);
        return false;
    }
    pthread_mutex_lock(&c->lock);
    if (c->suspended && !c->offloaded && !c->http_1_0)
        c->probed = send(c->fd, interim, sizeof interim - 1, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
    pthread_mutex_unlock(&c->lock);
    return false;
}

static bool is_cancelled(const ft_call *c)
{
    return atomic_load(&c->gone) || atomic_load(&c->s->closing);
}

/* ---- streams ---- */

static ssize_t take_out(ft_call *c, char *buf, size_t max)
{
    const size_t n = FT_MIN(max, c->out.len - c->sent);
    memcpy(buf, c->out.data + c->sent, n);
    c->sent += n;
    if (c->sent == c->out.len) {
        c->sent = 0;
        ft_buf_clear(&c->out);
    }
    atomic_store(&c->sent_ns, ft_now_ns());
    return (ssize_t)n;
}

static ssize_t read_stream(void *cls, uint64_t pos, char *buf, size_t max)
{
    ft_call *c = cls;
    (void)pos;
    for (;;) {
        clear_woken(c); /* before the checks, so that no wake-up is lost */
        if (is_cancelled(c)) return MHD_CONTENT_READER_END_WITH_ERROR;
        if (c->out.len > c->sent) return take_out(c, buf, max);
        if (c->ended) return MHD_CONTENT_READER_END_OF_STREAM;
        c->ended = c->pump(c);
        if (!c->ended && c->out.len == 0 && suspend(c)) return 0;
    }
}

void ft_call_stream(ft_call *c, const char *type)
{
    c->stream = true;
    atomic_store(&c->sent_ns, ft_now_ns());
    set_response(
        c, 200, type,
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, PIECE_BYTES, read_stream, c, NULL));
    ft_call_add_header(c, "Cache-Control", "no-cache");
    ft_call_add_header(c, "X-Accel-Buffering", "no");
}

/* ---- one request, from its headers to its response ---- */

void ft_call_list(ft_call *c, bool in)
{
    ft_server *s = c->s;
    pthread_mutex_lock(&s->lock);
    if (in && !c->listed) {
        c->prev = NULL;
        c->next = s->calls;
        if (s->calls) s->calls->prev = c;
        s->calls = c;
        s->n_calls++;
    } else if (!in && c->listed) {
        if (c->prev)
            c->prev->next = c->next;
        else
            s->calls = c->next;
        if (c->next) c->next->prev = c->prev;
        s->n_calls--;
    }
    c->listed = in;
    pthread_mutex_unlock(&s->lock);
}

static void refuse(ft_call *c, const ft_http_error *error)
{
    c->refused = true;
    c->refusal = error->kind;
    snprintf(c->refusal_text, sizeof c->refusal_text, "%.190s", error->text);
}

static void set_request_id(ft_call *c)
{
    const char *given = ft_call_header(c, "X-Request-Id");
    const size_t n = given ? strlen(given) : 0;
    bool plain = n > 0 && n < sizeof c->id;
    for (size_t i = 0; i < n && plain; i++) plain = given[i] > 32 && given[i] < 127;
    if (plain)
        memcpy(c->id, given, n + 1);
    else
        ft_random_id(c->id, "req_", 24);
}

/* ---- checks before the body is read ---- */

typedef struct framing {
    int lengths, encodings, hosts;
} framing;

static enum MHD_Result count_header(void *cls, enum MHD_ValueKind kind, const char *key,
                                    const char *value)
{
    framing *f = cls;
    (void)kind, (void)value;
    f->lengths += !strcasecmp(key, "Content-Length");
    f->encodings += !strcasecmp(key, "Transfer-Encoding");
    f->hosts += !strcasecmp(key, "Host");
    return MHD_YES;
}

/* The length of the body must be unambiguous (request smuggling). */
static bool check_framing(ft_call *c, ft_http_error *error)
{
    framing f = {0};
    MHD_get_connection_values(c->conn, MHD_HEADER_KIND, count_header, &f);
    if (f.lengths > 1 || f.encodings > 1 || f.hosts > 1)
        return ft_http_error_set(error, FT_ERR_INVALID, NULL,
                                 "the header %s occurs %d times, want it once",
                                 f.lengths > 1     ? "Content-Length"
                                 : f.encodings > 1 ? "Transfer-Encoding"
                                                   : "Host",
                                 FT_MAX(FT_MAX(f.lengths, f.encodings), f.hosts));
    if (f.lengths && f.encodings)
        return ft_http_error_set(
            error, FT_ERR_INVALID, NULL,
            "both Content-Length and Transfer-Encoding are given, want one of them");
    const union MHD_ConnectionInfo *size =
        MHD_get_connection_info(c->conn, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (size && size->header_size > FT_HEADER_MAX)
        return ft_http_error_set(error, FT_ERR_HEADERS, NULL,
                                 "the headers have %zu bytes, the maximum is %d", size->header_size,
                                 FT_HEADER_MAX);
    return true;
}

/* Checks the Host header and the origin. */
static bool check_origin(ft_call *c, ft_http_error *error)
{
    const char *host = ft_call_header(c, "Host"), *origin = ft_call_header(c, "Origin");
    if (!ft_auth_host(&c->s->auth, host))
        return ft_http_error_set(error, FT_ERR_FORBIDDEN, NULL,
                                 "Host is \"%.60s\", want localhost, an address or a name of "
                                 "--allowed-hosts",
                                 host);
    if (origin && ft_auth_origin_allowed(&c->s->auth, origin, host) == FT_ORIGIN_REFUSED)
        return ft_http_error_set(error, FT_ERR_FORBIDDEN, NULL,
                                 "pages from the origin \"%.60s\" may not use this server; "
                                 "--cors-origins lists those that may",
                                 origin);
    return true;
}

static bool is_type(const char *type, const char *want)
{
    const size_t n = strlen(want);
    return !strncasecmp(type, want, n) && strchr("; \t", type[n]);
}

/* Browsers must send application/json, which a page of another origin can send only after a CORS
 * preflight. Other clients need not: curl -d sends the content type of a form. */
static bool check_content_type(ft_call *c, ft_http_error *error)
{
    const char *type = ft_call_header(c, "Content-Type");
    const bool page = ft_call_header(c, "Origin") || ft_call_header(c, "Sec-Fetch-Site");
    if (type && is_type(type, "application/json")) return true;
    if (!page && (!type || is_type(type, "application/x-www-form-urlencoded"))) return true;
    return ft_http_error_set(error, FT_ERR_MEDIA, NULL,
                             "Content-Type is \"%.60s\", want application/json", type ? type : "");
}

static bool check_length(const ft_call *c, ft_http_error *error)
{
    const char *n = ft_call_header(c, "Content-Length");
    if (!n || strtoull(n, NULL, 10) <= c->s->p.body_max) return true;
    return ft_http_error_set(error, FT_ERR_TOO_LARGE, NULL,
                             "the body has %.20s bytes, larger than the maximum of %zu bytes", n,
                             c->s->p.body_max);
}

static void copy_printable(char *to, size_t size, const char *from)
{
    size_t n = 0;
    for (; from[n] && n + 1 < size; n++) to[n] = from[n] > 32 && from[n] < 127 ? from[n] : '?';
    to[n] = 0;
}

/* All checks that need only the headers. */
static bool check_headers(ft_call *c, const char *url, const char *method, ft_http_error *error)
{
    ft_server *s = c->s;
    ft_http_error no_route;
    const bool options = !strcmp(method, "OPTIONS");
    const char *as = !strcmp(method, "HEAD") ? "GET" : method;
    c->api = ft_route_api(s, url);
    copy_printable(c->method, sizeof c->method, method);
    copy_printable(c->path, sizeof c->path, url);
    if (!options) c->route = ft_route_find(s, as, url, c->part, c->allow, &no_route);
    const bool open = options || (c->route && c->route->open);
    if (!check_framing(c, error) || !check_origin(c, error)) return false;
    if (atomic_load(&s->draining))
        return ft_http_error_set(error, FT_ERR_UNAVAILABLE, NULL, "the server is shutting down");
    if (!open && !ft_auth_allows(&s->auth, ft_call_header(c, "Authorization"),
                                 ft_call_header(c, "X-Api-Key"), &c->key))
        return ft_http_error_set(
            error, FT_ERR_AUTH, NULL,
            "no valid API key; want one in Authorization: Bearer or in X-Api-Key");
    if (!options && !c->route) {
        *error = no_route;
        return false;
    }
    if (!open && c->peer && c->peer->over)
        return ft_http_error_set(error, FT_ERR_UNAVAILABLE, NULL,
                                 "too many connections: %d are busy, or half as many from this "
                                 "address",
                                 s->p.connections);
    return !c->post || (check_content_type(c, error) && check_length(c, error));
}

static ft_call *begin_call(ft_server *s, struct MHD_Connection *conn)
{
    ft_call *c = ft_new(ft_call);
    c->s = s;
    c->conn = conn;
    c->begun_s = ft_now_s();
    c->ping_s = s->p.ping_s;
    ft_buf_init(&c->in, s->p.body_max);
    ft_buf_init(&c->out, OUT_MAX);
    pthread_mutex_init(&c->lock, NULL);
    const union MHD_ConnectionInfo *i =
        MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CONNECTION_FD);
    c->fd = i ? i->connect_fd : -1;
    i = MHD_get_connection_info(conn, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    c->peer = i ? i->socket_context : NULL;
    set_request_id(c);
    if (c->peer) ft_peer_phase(s, c->peer, FT_PHASE_BODY);
    MHD_set_connection_option(conn, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned)s->p.body_s);
    return c;
}

static void end_call(ft_call *c)
{
    ft_server *s = c->s;
    ft_call_list(c, false);
    if (c->peer) ft_peer_phase(s, c->peer, FT_PHASE_HEAD);
    const double s_all = ft_now_s() - c->begun_s;
    const char *route = c->route ? c->route->path : "-";
    ft_metrics_request(&s->metrics, route, c->status);
    if (s->p.log_requests) ft_request_log(c, s_all);
    if (c->release) c->release(c);
    ft_served_drop(s, c->served);
    json_decref(c->body);
    ft_buf_release(&c->in);
    ft_buf_release(&c->out);
    pthread_mutex_destroy(&c->lock);
    if (c->charge > TRIM_BYTES) atomic_store(&s->trim_due, true);
    atomic_fetch_sub(&s->body_bytes, c->charge);
    ft_free(c);
    atomic_fetch_sub(&s->metrics.active, 1);
}

/* Adds n bytes to the memory charged to this call. Returns false if all calls together exceed the
 * limit. */
static bool charge(ft_call *c, size_t n)
{
    ft_server *s = c->s;
    c->charge += (long long)n;
    return atomic_fetch_add(&s->body_bytes, (long long)n) + (long long)n <=
           (long long)s->p.body_memory;
}

static enum MHD_Result queue_response(ft_call *c)
{
    c->queued = true;
    MHD_set_connection_option(c->conn, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned)c->s->p.write_s);
    if (atomic_load(&c->s->draining)) ft_call_add_header(c, "Connection", "close");
    const enum MHD_Result rc = MHD_queue_response(c->conn, (unsigned)c->status, c->response);
    MHD_destroy_response(c->response);
    c->response = NULL;
    return rc;
}

static void preflight(ft_call *c)
{
    const ft_serve_params *p = &c->s->p;
    ft_call_bytes(c, 200, NULL, "", 0);
    ft_call_add_header(c, "Access-Control-Allow-Methods", p->cors_methods);
    const char *wanted = ft_call_header(c, "Access-Control-Request-Headers");
    ft_call_add_header(c, "Access-Control-Allow-Headers",
                       strcmp(p->cors_headers, "*") || !wanted ? p->cors_headers : wanted);
    ft_call_add_header(c, "Access-Control-Max-Age", "86400");
}

static void send_refusal(ft_call *c)
{
    ft_http_error error;
    ft_http_error_set(&error, c->refusal, NULL, "%s", c->refusal_text);
    ft_call_fail(c, &error);
    if (c->refusal == FT_ERR_METHOD) ft_call_add_header(c, "Allow", c->allow);
    if (c->refusal == FT_ERR_UNAVAILABLE) ft_call_add_header(c, "Retry-After", "1");
}

/* Checks the memory of the parsed body before it is parsed. */
static bool check_body_memory(ft_call *c, ft_http_error *error)
{
    const size_t cost = ft_body_cost(ft_buf_str(&c->in)), max = c->s->p.body_memory / 4;
    if (cost > max)
        return ft_http_error_set(
            error, FT_ERR_TOO_LARGE, NULL,
            "the JSON of the body would take %zu MiB of memory, the maximum is %zu",
            (cost >> 20) + 1, max >> 20);
    if (cost <= FREE_BYTES || charge(c, cost)) return true;
    return ft_http_error_set(error, FT_ERR_UNAVAILABLE, NULL, "too many large requests at a time");
}

static void parse(ft_call *c)
{
    ft_http_error error;
    if (!c->post || c->body) return;
    if (check_body_memory(c, &error) &&
        ft_body_parse(&c->body, ft_buf_str(&c->in), c->route && c->route->list, &error)) {
        ft_prompt_log(c, ft_buf_str(&c->in));
        ft_buf_release(&c->in);
        return;
    }
    ft_call_fail(c, &error);
    if (error.kind == FT_ERR_UNAVAILABLE) ft_call_add_header(c, "Retry-After", "1");
}

/* Runs the handler; the body is complete. */
static void run_route(ft_call *c)
{
    if (!c->route) {
        preflight(c);
        return;
    }
    parse(c);
    if (c->response) return;
    c->route->run(c);
    if (!c->response || c->stream) ft_call_list(c, true);
}

/* Queues the response, or suspends the connection until there is one. */
static enum MHD_Result respond_or_suspend(ft_call *c)
{
    while (!c->queued) {
        if (c->response) return queue_response(c);
        clear_woken(c); /* before the checks, so that no wake-up is lost */
        if (is_cancelled(c)) return MHD_NO;
        const bool done = c->pump(c);
        assert(!done || c->response);
        (void)done;
        if (!c->response && suspend(c)) return MHD_YES;
    }
    return MHD_YES;
}

/* Runs the handler on a thread of offload.c while the connection is suspended. */
static void run_offloaded(ft_call *c)
{
    struct MHD_Connection *conn = c->conn;
    if (!is_cancelled(c)) run_route(c);
    pthread_mutex_lock(&c->lock);
    c->offloaded = c->suspended = false;
    pthread_mutex_unlock(&c->lock);
    MHD_resume_connection(conn); /* the call may be freed at any time from here on */
}

/* Whether the request names an image that is to be fetched: a text that is an address. */
static bool has_address(const json_t *v)
{
    const char *text = json_string_value(v), *key;
    json_t *one;
    size_t i;
    if (text)
        return !strncasecmp(text, "http://", 7) || !strncasecmp(text, "https://", 8) ||
               !strncasecmp(text, "file://", 7);
    json_array_foreach((json_t *)(uintptr_t)v, i, one) if (has_address(one)) return true;
    json_object_foreach((json_t *)(uintptr_t)v, key, one) if (has_address(one)) return true;
    return false;
}

/* Large bodies, requests that need a grammar and requests that wait for a download run on thread
 * pools of their own, so that none blocks the others. Returns false if the handler is to run on
 * this thread. */
static bool offload(ft_call *c)
{
    if (!c->post) return false;
    const bool large = c->in.len >= OFFLOAD_BYTES;
    if (!large) parse(c);
    const bool fetches = !large && c->s->fetch && has_address(c->body);
    if (!large && (c->response || !(fetches || ft_constraints_any(c->body)))) return false;
    pthread_mutex_lock(&c->lock);
    const bool ok = ft_offload_put(fetches ? c->s->fetch
                                   : large ? c->s->offload
                                           : c->s->compile,
                                   c);
    if (ok) {
        c->offloaded = c->suspended = true;
        MHD_suspend_connection(c->conn);
    }
    pthread_mutex_unlock(&c->lock);
    return ok;
}

static void add_body(ft_call *c, const char *data, size_t n)
{
    ft_http_error error;
    if (c->peer) atomic_fetch_add(&c->peer->received, n);
    if (c->refused) return;
    ft_buf_put(&c->in, data, n);
    if (c->in.full) {
        ft_http_error_set(&error, FT_ERR_TOO_LARGE, NULL,
                          "the body is larger than the maximum of %zu bytes", c->s->p.body_max);
        refuse(c, &error);
    } else if (c->in.len > FREE_BYTES && !charge(c, n)) {
        ft_http_error_set(&error, FT_ERR_UNAVAILABLE, NULL, "too many large requests at a time");
        refuse(c, &error);
    }
    if (c->refused) ft_buf_release(&c->in);
}

/* Called when the headers are complete. A rejected request gets its response now and the connection
 * is closed, without waiting for the body. */
static enum MHD_Result on_headers(ft_call *c, const char *url, const char *method,
                                  const char *version)
{
    ft_http_error error;
    c->post = !strcmp(method, "POST") || !strcmp(method, "DELETE");
    c->http_1_0 = !strcmp(version, "HTTP/1.0");
    if (check_headers(c, url, method, &error)) return MHD_YES;
    refuse(c, &error);
    if (!ft_call_header(c, "Content-Length") && !ft_call_header(c, "Transfer-Encoding"))
        return MHD_YES; /* no body: the response follows */
    c->started = true;
    if (c->peer) c->peer->refused = true;
    send_refusal(c);
    ft_call_add_header(c, "Connection", "close");
    return respond_or_suspend(c);
}

static enum MHD_Result on_access(void *cls, struct MHD_Connection *conn, const char *url,
                                 const char *method, const char *version, const char *data,
                                 size_t *n, void **con_cls)
{
    ft_server *s = cls;
    ft_call *c = *con_cls;
    if (!c) {
        *con_cls = c = begin_call(s, conn);
        atomic_fetch_add(&s->metrics.active, 1);
        return on_headers(c, url, method, version);
    }
    if (*n) {
        add_body(c, data, *n);
        *n = 0;
        return MHD_YES;
    }
    if (!c->started) {
        c->started = true;
        if (c->peer) ft_peer_phase(s, c->peer, FT_PHASE_ANSWER);
        if (c->refused)
            send_refusal(c);
        else if (offload(c))
            return MHD_YES;
        else if (!c->response)
            run_route(c);
    }
    return respond_or_suspend(c);
}

static void on_completed(void *cls, struct MHD_Connection *conn, void **con_cls,
                         enum MHD_RequestTerminationCode why)
{
    ft_call *c = *con_cls;
    (void)cls, (void)conn;
    *con_cls = NULL;
    if (!c) return;
    if (why != MHD_REQUEST_TERMINATED_COMPLETED_OK) atomic_store(&c->gone, true);
    end_call(c);
}

static void on_connection(void *cls, struct MHD_Connection *conn, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *i =
            MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CONNECTION_FD);
        const int fd = i ? i->connect_fd : -1;
        i = MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
        *context = ft_peer_add(cls, fd, i ? i->client_addr : NULL);
        sem_post(&((ft_server *)cls)->started);
    } else if (*context) {
        ft_peer_drop(cls, *context);
        *context = NULL;
    }
}

/* ---- starting and stopping ---- */

static ft_status start_daemon(ft_server *s, ft_err *err)
{
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC |
                     MHD_USE_NO_LISTEN_SOCKET;
    size_t n;
    ft_status st;
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_END, 0, NULL}, {MHD_OPTION_END, 0, NULL}, {MHD_OPTION_END, 0, NULL}};
    if (s->p.tls_key || s->p.tls_cert) {
        if (!s->p.tls_key || !s->p.tls_cert)
            return ft_fail(err, FT_EINVAL,
                           "only one of --ssl-key-file and --ssl-cert-file is given, want both");
        if (MHD_is_feature_supported(MHD_FEATURE_SSL) != MHD_YES)
            return ft_fail(err, FT_EUNSUPPORTED, "this libmicrohttpd was built without TLS");
        if ((st = ft_file_read(&s->tls_key, &n, s->p.tls_key, 1 << 20, err))) return st;
        if ((st = ft_file_read(&s->tls_cert, &n, s->p.tls_cert, 1 << 20, err))) return st;
        flags |= MHD_USE_TLS;
        tls[0] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0, s->tls_key};
        tls[1] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0, s->tls_cert};
    }
    const unsigned threads = (unsigned)FT_MAX(1, s->p.threads);
    s->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, on_access, s, MHD_OPTION_THREAD_POOL_SIZE, threads > 1 ? threads : 0u,
        MHD_OPTION_CONNECTION_LIMIT, /* it closes those beyond it; accept.c lets them wait */
        (unsigned)(s->p.connections + FT_PEER_RESERVE + SPARE) + threads,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES,
        MHD_OPTION_CONNECTION_MEMORY_INCREMENT, (size_t)PIECE_BYTES, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)s->p.body_s, MHD_OPTION_NOTIFY_COMPLETED, on_completed, s,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1,
        MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
    if (s->daemon) return FT_OK;
    return ft_fail(err, FT_EIO, "cannot start the HTTP threads%s",
                   s->p.tls_key ? " (are the key and the certificate PEM files?)" : "");
}

ft_status ft_server_open(ft_server **out, const ft_serve_params *p, ft_err *err)
{
    ft_server *s = ft_new(ft_server);
    s->p = *p;
    s->listen_fd = -1;
    s->begun_s = ft_now_s();
    s->created = ft_unix_time();
    if (!s->p.threads) s->p.threads = 4;
    pthread_mutex_init(&s->lock, NULL);
    sem_init(&s->started, 0, 0);
    ft_metrics_init(&s->metrics);
    s->models = ft_models_new(s);
    json_error_t je;
    s->kwargs = json_loads(p->template_kwargs ? p->template_kwargs : "{}", 0, &je);
    ft_status st = FT_OK;
    if (!json_is_object(s->kwargs))
        st = ft_fail(err, FT_EINVAL, "--chat-template-kwargs: \"%.60s\", want a JSON object",
                     p->template_kwargs);
    const ft_status keys = ft_auth_init(&s->auth, p->api_key, p->api_key_file, p->cors_origins,
                                        p->allowed_hosts, st ? NULL : err);
    if (!st) st = keys;
    if (!st && p->slot_save_path) st = ft_folder_private(p->slot_save_path, err);
    if (!st && p->prompts_dir) st = ft_folder_private(p->prompts_dir, err);
    if (!st) st = ft_listen(s, err);
    s->offload = ft_offload_new(OFFLOAD_THREADS, run_offloaded);
    s->compile = ft_offload_new(OFFLOAD_THREADS, run_offloaded);
    if (p->image_hosts || p->media_path) s->fetch = ft_offload_new(FETCH_THREADS, run_offloaded);
    if (!st) st = start_daemon(s, err);
    if (!st) {
        s->work = ft_work_new(2);
        st = ft_watch_start(s, err);
    }
    if (!st && (st = ft_accept_start(s, err))) ft_watch_stop(s);
    if (st) {
        ft_accept_stop(s);
        if (s->daemon) MHD_stop_daemon(s->daemon);
        s->daemon = NULL;
        atomic_store(&s->stop, true);
        ft_server_close(s);
        return st;
    }
    *out = s;
    return FT_OK;
}

void ft_server_drain(ft_server *s)
{
    if (!atomic_exchange(&s->draining, true)) ft_accept_stop(s);
}

/* Cancels all calls: no connection may be suspended when the daemon stops. Returns the number of
 * calls. */
static int cancel_calls(ft_server *s)
{
    pthread_mutex_lock(&s->lock);
    const int n = s->n_calls;
    for (ft_call *c = s->calls; c; c = c->next) {
        if (!atomic_exchange(&c->gone, true) && c->cancel) c->cancel(c);
        ft_call_wake(c);
    }
    pthread_mutex_unlock(&s->lock);
    return n;
}

void ft_server_close(ft_server *s)
{
    if (!s) return;
    if (s->daemon) {
        ft_server_drain(s);
        atomic_store(&s->closing, true);
        ft_offload_stop(s->offload);
        ft_offload_stop(s->compile);
        ft_offload_stop(s->fetch);
        while (cancel_calls(s)) usleep(2000);
        ft_watch_stop(s);
        MHD_stop_daemon(s->daemon);
    }
    ft_offload_free(s->offload);
    ft_offload_free(s->compile);
    ft_offload_free(s->fetch);
    ft_peers_release(s);
    ft_work_free(s->work);
    ft_store_stop(s);
    if (s->unix_path) unlink(s->unix_path);
    ft_free(s->unix_path);
    ft_free(s->tls_key);
    ft_free(s->tls_cert);
    ft_models_free(s->models);
    ft_auth_release(&s->auth);
    ft_metrics_release(&s->metrics);
    json_decref(s->kwargs);
    pthread_mutex_destroy(&s->lock);
    sem_destroy(&s->started);
    ft_free(s);
}
