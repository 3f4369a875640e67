/* serve/call.h - one HTTP request and its response, as the route handlers see it.
 *
 * A handler reads c->body and the query. It then either responds at once (ft_call_json and similar
 * functions) or asynchronously: it sets pump, cancel and release, and http.c calls pump on a server
 * thread after each ft_call_wake. No thread waits in between. If c->stream is set, pump appends to
 * c->out; otherwise it responds once, when the work is done.
 *
 * All of this belongs to the thread that runs the handler or pump, except ft_call_wake, cancel and
 * the fields whose comments say otherwise. */
#ifndef FT_SERVE_CALL_H
#define FT_SERVE_CALL_H

#include "base/buf.h"
#include "serve/error.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    FT_IGNORED = 400, /* size of the list of schema keywords that are not enforced */
    FT_PART = 256,    /* size of the part of a path that a route takes as a parameter */
};

typedef struct ft_call ft_call;
struct ft_server;
struct MHD_Connection;
struct MHD_Response;

typedef enum ft_api { FT_API_OPENAI, FT_API_ANTHROPIC, FT_API_OLLAMA } ft_api;

typedef struct ft_http_route {
    const char *method, *path; /* path may end in "{}", which matches one path segment, or "{+}",
                                * which matches the rest (c->part) */
    void (*run)(ft_call *c);
    ft_api api; /* selects the format of errors */
    bool open;  /* no API key needed */
    bool list;  /* the body may be an array */
} ft_http_route;

struct ft_call {
    struct ft_server *s;
    const ft_http_route *route;
    char id[72];                       /* X-Request-Id */
    char method[12], path[120];        /* as requested, for the log; unprintable bytes are '?' */
    ft_api api;                        /* of the path; selects the format of errors */
    char part[FT_PART];                /* what matched "{}" */
    json_t *body;                      /* a JSON object; NULL for GET */
    const char *model;                 /* model name in the request, for the log */
    struct ft_served *served, *awaits; /* the model in use; the model being waited for (models.h) */
    uint64_t failures;                 /* number of failed loads when the wait began */

    /* ---- asynchronous responses ---- */
    bool (*pump)(ft_call *c); /* returns true when the response is complete */
    void (*cancel)(
        ft_call *c); /* the client disconnected; called on any thread, under the server's lock */
    void (*release)(ft_call *c);
    void *user;
    bool stream; /* out is sent as it grows; set by ft_call_stream */
    ft_buf out;
    atomic_bool gone;     /* the client disconnected, or the request timed out */
    atomic_bool ping_due; /* nothing was sent for ping_s seconds: pump may send a keep-alive */
    int ping_s;
    struct {
        bool set;
        int prompt, cached, output; /* tokens */
        double first_ms, per_second, per_step;
        const char *reason;
    } usage; /* of a response with tokens, for the log */

    /* ---- used by http.c and watch.c only ---- */
    struct MHD_Connection *conn;
    struct MHD_Response *response;
    int status; /* 0: no response yet */
    bool queued, ended, refused, started;
    ft_error_kind refusal;
    char refusal_text[200];
    char allow[64]; /* allowed methods, for a 405 */
    bool post;
    bool http_1_0;
    struct ft_peer *peer;
    uint64_t key;     /* identifies the API key, see ft_auth_allows; 0: none */
    long long charge; /* share of s->body_bytes charged to this call */
    ft_buf in;
    size_t sent;
    int fd;
    double begun_s;
    char ignored[FT_IGNORED]; /* X-Schema-Ignored header, or "" */
    atomic_llong sent_ns;     /* time of the last output */
    pthread_mutex_t lock;     /* protects suspended and woken */
    bool suspended, woken;
    bool offloaded; /* suspended while its handler runs on another thread: must not be resumed */
    bool probed;    /* see ft_call_is_gone */
    bool listed;
    ft_call *prev, *next;
};

const char *ft_call_query(const ft_call *c, const char *key); /* NULL when absent */
const char *ft_call_header(const ft_call *c, const char *key);

/* Sends a response with this status and body. Takes ownership of j. */
void ft_call_json(ft_call *c, int status, json_t *j);
void ft_call_bytes(ft_call *c, int status, const char *type, const void *p, size_t n);
/* Sends an error body in the format of the route's API. */
void ft_call_fail(ft_call *c, const ft_http_error *error);
/* Sends the headers now; what pump appends to c->out follows as it is produced. */
void ft_call_stream(ft_call *c, const char *type);
/* Adds a response header. Call it after ft_call_json, ft_call_bytes or ft_call_stream. */
void ft_call_add_header(ft_call *c, const char *name, const char *value);

/* Makes http.c call pump. May be called on any thread while the call exists. */
void ft_call_wake(ft_call *c);

#endif
