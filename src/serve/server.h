/* serve/server.h - the inside of the server, shared by its files.
 * Threads: libmicrohttpd's pool runs the routes; one thread watches clocks and sockets (watch.c);
 * a few run what has to wait (work.c); the engine thread only ever calls ft_call_wake. `lock`
 * guards the two lists and who holds which model; nothing that waits is called while it is held. */
#ifndef FT_SERVE_SERVER_H
#define FT_SERVE_SERVER_H

#include "serve/auth.h"
#include "serve/call.h"
#include "serve/metrics.h"
#include "serve/models.h"
#include "serve/peer.h"
#include "serve/serve.h"

enum {
    FT_HEADER_MAX = 64 << 10, /* request line and headers */
    FT_IDLE_S = 75,           /* a connection that is kept for the next request */
    FT_TICK_MS = 100,         /* how often clocks and sockets are looked at */
};

struct ft_work;
struct ft_offload;

struct ft_server {
    ft_serve_params p;
    ft_auth auth;
    ft_metrics metrics;
    struct MHD_Daemon *daemon;
    int listen_fd, port;
    char address[256];
    char *tls_key, *tls_cert; /* the files' contents */
    char *unix_path;
    json_t *kwargs;
    int64_t created; /* seconds since 1970 */
    double begun_s;

    struct ft_models *models;
    atomic_bool ready, draining, closing, stop;

    pthread_mutex_t lock;
    ft_call *calls; /* requests that are not answered yet */
    ft_peer *peers;
    int n_calls, n_peers;
    struct {
        int fd;
        double quiet_s, until_s;
    } lingering[FT_PEER_LINGERING];
    int n_lingering;
    pthread_t watch;
    struct ft_work *work;
    struct ft_offload *offload; /* runs routes with large bodies, */
    struct ft_offload *compile; /* and those that need a grammar */
    atomic_llong body_bytes;    /* memory of all large bodies, raw and parsed */
    atomic_bool trim_due;       /* a large request was released */
};

/* http.c: clocks and sockets of a call are watched, or not; while a route runs they are not. */
void ft_call_list(ft_call *c, bool in);
/* http.c: the client has closed its side of the connection. false: it may still read, and a probe
 * is on its way that will tell; true: it is gone. */
bool ft_call_left(ft_call *c);

/* offload.c: calls whose route runs on a thread of its own, so that a large body does not keep the
 * HTTP threads from other clients. run(c) is called there once. */
struct ft_offload *ft_offload_new(int threads, void (*run)(ft_call *c));
bool ft_offload_put(struct ft_offload *o, ft_call *c); /* false: stopped */
void ft_offload_stop(struct ft_offload *o);            /* what was put is still run */
void ft_offload_free(struct ft_offload *o);

/* server.c: cached prompts are shared by calls with the same one: those of one API key, or all. */
uint64_t ft_call_salt(const ft_call *c);

/* server.c: gives freed memory back to the system after large requests. */
void ft_server_trim(ft_server *s);

/* listen.c: a socket for p.host and p.port; fills listen_fd, port and address. */
ft_status ft_listen(ft_server *s, ft_err *err);

/* route.c: the route of a request, or NULL with error (and *allow, for 405) filled. part gets what
 * stands for "/{}". */
const ft_http_route *ft_route_find(const ft_server *s, const char *method, const char *path,
                                   char part[32], char allow[64], ft_http_error *error);

/* record.c: what came, kept where the server was told to. */
void ft_prompt_log(const ft_call *c, ft_str body);

/* client.c: a number that stands for the call's client: for its API key where there are several,
 * else for its address; 0: for none, on a Unix socket. */
uint64_t ft_call_client(const ft_call *c);

/* watch.c */
ft_status ft_watch_start(ft_server *s, ft_err *err);
void ft_watch_stop(ft_server *s);

/* work.c: something that waits, done for a call on a thread of its own kind: run(arg) there, then
 * answer(c, arg) as any pump, and drop(arg) when both the work and the call are over. When too many
 * wait already the call is answered so and arg is dropped. */
typedef struct ft_work_item {
    void (*run)(void *arg);
    void (*answer)(ft_call *c, void *arg);
    void (*drop)(void *arg);
} ft_work_item;
void ft_work_start(ft_call *c, const ft_work_item *e, void *arg);
struct ft_work *ft_work_new(int threads);
void ft_work_free(struct ft_work *w); /* what runs is finished, what waits is dropped */

/* prefix and n letters and digits that nobody can guess. out holds strlen(prefix) + n + 1. */
void ft_random_id(char *out, const char *prefix, int n);
int64_t ft_unix_time(void);
/* Text that may hold anything as a JSON string. */
json_t *ft_json_string(const char *p, size_t n);

#endif
