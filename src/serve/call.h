/* serve/call.h - one HTTP request and its answer, as every route sees it.
 *
 * A route reads c->body and the query, and then either answers at once (ft_call_json and friends)
 * or goes on later: it sets pump, cancel and release, and http.c calls pump on a server thread
 * each time somebody called ft_call_wake, with no thread waiting in between. pump appends to c->out
 * when c->stream is set, else it answers once when it is done.
 *
 * Everything here belongs to the thread that runs the route or pump; ft_call_wake, cancel and the
 * fields marked so may be touched from others. */
#ifndef FT_SERVE_CALL_H
#define FT_SERVE_CALL_H

#include "base/buf.h"
#include "serve/error.h"

#include <pthread.h>
#include <stdatomic.h>

enum { FT_IGNORED = 400 }; /* bytes for what is said about schemas */

typedef struct ft_call ft_call;
struct ft_server;
struct MHD_Connection;
struct MHD_Response;

typedef enum ft_api { FT_API_OPENAI, FT_API_ANTHROPIC, FT_API_OLLAMA } ft_api;

typedef struct ft_http_route {
    const char *method, *path; /* path may end in "/{}": one more part, in c->part */
    void (*run)(ft_call *c);
    ft_api api; /* how errors are said */
    bool open;  /* no key is wanted */
} ft_http_route;

struct ft_call {
    struct ft_server *s;
    const ft_http_route *route;
    char id[72];                       /* X-Request-Id */
    char part[32];                     /* of the path, where the route has one */
    json_t *body;                      /* an object; NULL for a GET */
    const char *model;                 /* that the request named; for the log */
    struct ft_served *served, *awaits; /* the model that it holds, or waits for (models.h) */
    uint64_t failures;                 /* to load it, when it began to wait */

    /* ---- an answer that takes its time ---- */
    bool (*pump)(ft_call *c);   /* true: complete */
    void (*cancel)(ft_call *c); /* the client left; any thread, under the server's lock */
    void (*release)(ft_call *c);
    void *user;
    bool stream; /* out is sent as it grows; set by ft_call_stream */
    ft_buf out;
    atomic_bool gone;     /* the client left, or time is up */
    atomic_bool ping_due; /* silence for ping_s: pump may say something */
    int ping_s;
    char note[160]; /* for the log: tokens, speed */

    /* ---- of http.c and watch.c ---- */
    struct MHD_Connection *conn;
    struct MHD_Response *response;
    int status; /* 0: not answered yet */
    bool queued, ended, refused, started;
    ft_error_kind refusal;
    char refusal_text[200];
    char allow[64]; /* methods, for a 405 */
    bool post;
    bool http_1_0;
    struct ft_peer *peer;
    uint64_t key;     /* of the API key that was given, see ft_auth_key; 0: none */
    long long charge; /* bytes of s->body_bytes that are this call's */
    ft_buf in;
    size_t sent;
    int fd;
    double begun_s;
    char ignored[FT_IGNORED]; /* X-Schema-Ignored, or "" */
    atomic_llong spoke_ns;    /* when out last grew */
    pthread_mutex_t lock;     /* suspended, woken */
    bool suspended, woken;
    bool elsewhere; /* suspended, and its route runs on another thread: nobody may resume it */
    bool probed;    /* see ft_call_left */
    bool listed;
    ft_call *prev, *next;
};

const char *ft_call_query(const ft_call *c, const char *key); /* NULL when absent */
const char *ft_call_header(const ft_call *c, const char *key);

/* Answers: status and body. j is stolen. */
void ft_call_json(ft_call *c, int status, json_t *j);
void ft_call_bytes(ft_call *c, int status, const char *type, const void *p, size_t n);
/* The API's error body. */
void ft_call_fail(ft_call *c, const ft_http_error *error);
/* The header goes out now, and whatever pump appends to c->out as it comes. */
void ft_call_stream(ft_call *c, const char *type);
/* One more header for the answer; after ft_call_json, _bytes or _stream. */
void ft_call_add_header(ft_call *c, const char *name, const char *value);

/* pump will be called. Any thread, as long as the call lives. */
void ft_call_wake(ft_call *c);

#endif
