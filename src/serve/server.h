/* serve/server.h - internals of the server, shared by its files. Threads: one accepts connections
 * (accept.c); libmicrohttpd's pool runs the route handlers; one checks deadlines and sockets
 * (watch.c); a few do blocking work (workers.c) or run handlers with large bodies (offload.c); the
 * engine thread only calls ft_call_wake. `lock` protects the lists of calls and connections and the
 * use counts of the models. No blocking function is called while it is held. */
#ifndef FT_SERVE_SERVER_H
#define FT_SERVE_SERVER_H

#include "report/report.h"
#include "serve/auth.h"
#include "serve/call.h"
#include "serve/metrics.h"
#include "serve/models.h"
#include "serve/peer.h"
#include "serve/serve.h"

#include <semaphore.h>

enum {
    FT_HEADER_MAX = 64 << 10, /* request line and headers */
    FT_IDLE_S = 75,           /* keep-alive time of an idle connection */
    FT_TICK_MS = 100,         /* interval at which deadlines and sockets are checked */
};

struct ft_work;
struct ft_offload;
struct ft_accept;

struct ft_server {
    ft_serve_params p;
    ft_auth auth;
    ft_metrics metrics;
    struct MHD_Daemon *daemon;
    struct ft_accept *accept; /* the thread that accepts connections */
    sem_t started;            /* posted for every connection that an HTTP thread has registered */
    int listen_fd, port;
    char address[256];
    char *tls_key, *tls_cert; /* contents of the files */
    char *unix_path;
    json_t *kwargs;
    int64_t created; /* seconds since 1970 */
    double begun_s;

    struct ft_models *models;
    atomic_bool ready, draining, closing, stop;

    pthread_mutex_t lock;
    ft_call *calls; /* requests without a complete response */
    ft_peer *peers;
    int n_calls, n_peers;
    struct {
        int fd;
        double quiet_s, until_s;
    } lingering[FT_PEER_LINGERING];
    int n_lingering;
    pthread_t watch;
    struct ft_work *work;
    pthread_t pull; /* the thread of a download (store.c) */
    bool pull_open; /* it has to be joined; changed only by who has set pulling */
    atomic_bool pulling;
    struct ft_offload *offload; /* runs handlers with large bodies */
    struct ft_offload *compile; /* runs handlers that compile a grammar */
    struct ft_offload *fetch;   /* runs handlers that download images; NULL: they may not */
    atomic_llong body_bytes;    /* memory of all large bodies, raw and parsed */
    atomic_bool trim_due;       /* a large request was freed: return memory to the system */
};

/* http.c: adds the call to, or removes it from, the list that watch.c checks. A call is not in the
 * list while its handler runs. */
void ft_call_list(ft_call *c, bool in);
/* http.c: called when the client has closed its side of the connection. Returns true if the client
 * is gone, false if it may still read; then a probe was sent to find out. */
bool ft_call_is_gone(ft_call *c);

/* offload.c: a pool of threads that run route handlers, so that large bodies do not block the HTTP
 * threads. run(c) is called once per call. */
struct ft_offload *ft_offload_new(int threads, void (*run)(ft_call *c));
bool ft_offload_put(struct ft_offload *o, ft_call *c); /* false: the pool was stopped */
void ft_offload_stop(struct ft_offload *o);            /* queued calls are still run */
void ft_offload_free(struct ft_offload *o);

/* server.c: calls with the same salt share cached prompts: those with the same API key, or all. */
uint64_t ft_call_salt(const ft_call *c);
/* false: there are several keys that share nothing, so that the call, which would change something
 * for all of them, was answered with an error. what: "the defaults are". */
bool ft_call_may_change(ft_call *c, const char *what);

/* server.c: returns freed memory to the system after large requests. */
void ft_server_trim(ft_server *s);

/* listen.c: opens the listening socket for p.host and p.port; sets listen_fd, port and address. */
ft_status ft_listen(ft_server *s, ft_err *err);

/* accept.c: accepts connections until ft_accept_stop, which also closes the listening socket. */
ft_status ft_accept_start(ft_server *s, ft_err *err);
void ft_accept_stop(ft_server *s);

/* route.c: finds the route of a request. Returns NULL and fills error (and *allow, for 405) if
 * there is none. part receives what matches "{}". */
const ft_http_route *ft_route_find(const ft_server *s, const char *method, const char *path,
                                   char part[FT_PART], char allow[64], ft_http_error *error);

/* route.c: the API to which a path belongs, whether or not it is a route. */
ft_api ft_route_api(const ft_server *s, const char *path);

/* prompt_log.c: writes the request body to --log-prompts-dir, if that is set. */
void ft_prompt_log(const ft_call *c, ft_str body);

/* request_log.c: logs a line for a completed call, which took s seconds. */
void ft_request_log(const ft_call *c, double s);

/* client.c: a number that identifies the client: its API key if there are several, else its
 * address; 0 on a Unix socket. */
uint64_t ft_call_client(const ft_call *c);

/* watch.c */
ft_status ft_watch_start(ft_server *s, ft_err *err);
void ft_watch_stop(ft_server *s);

/* workers.c: blocking work for a call. run(arg) runs on a worker thread, then answer(c, arg) as the
 * call's pump; drop(arg) is called after both. If too many items wait, the call gets an error
 * response and arg is dropped. */
typedef struct ft_work_item {
    void (*run)(void *arg);
    void (*answer)(ft_call *c, void *arg);
    void (*drop)(void *arg);
} ft_work_item;
void ft_work_start(ft_call *c, const ft_work_item *e, void *arg);
struct ft_work *ft_work_new(int threads);
void ft_store_stop(ft_server *s);     /* waits for the end of a download, whose call has ended */
void ft_work_free(struct ft_work *w); /* finishes running items, drops queued ones */

/* Writes prefix and n random letters and digits. out has strlen(prefix) + n + 1 bytes. */
void ft_random_id(char *out, const char *prefix, int n);
int64_t ft_unix_time(void);
#endif
