/* serve/peer.h - connections: limits on their number, deadlines for each phase, and the orderly
 * close of a connection whose request was rejected before its body was read.
 *
 * Up to p.connections connections are accepted. Beyond that, and beyond the limit per address, the
 * connection that has waited longest without a complete request is closed to make space. If all
 * connections are busy with requests, up to FT_PEER_RESERVE more are accepted for routes without an
 * API key, such as /health; other requests on them get a 503. */
#ifndef FT_SERVE_PEER_H
#define FT_SERVE_PEER_H

#include "base/err.h"

#include <stdatomic.h>
#include <sys/socket.h>

struct ft_server;

enum {
    FT_PEER_RESERVE = 64,    /* extra connections for /health */
    FT_PEER_RATE = 64 << 10, /* minimum average rate of a long body, in bytes per second */
    FT_PEER_LINGERING =
        64, /* maximum number of rejected connections whose bodies are read and discarded */
    FT_PEER_QUIET_S = 1,   /* discard until nothing has arrived for this long, */
    FT_PEER_LINGER_S = 10, /* but at most for this long */
};

typedef enum ft_phase {
    FT_PHASE_HEAD,   /* idle, TLS handshake, or reading the request line and headers */
    FT_PHASE_BODY,   /* reading a body */
    FT_PHASE_ANSWER, /* processing a complete request */
} ft_phase;

typedef struct ft_peer {
    int fd;
    ft_phase phase;
    bool served;      /* at least one request was completed */
    bool over;        /* beyond p.connections: only routes without an API key */
    bool closing;     /* shut down; libmicrohttpd will close it */
    bool refused;     /* rejected before the body was read: close with linger */
    bool probed;      /* half closed; a probe was sent to find out whether the client is gone */
    bool has_address; /* not a Unix socket */
    uint8_t address[16];
    double since_s;         /* start of the phase */
    atomic_size_t received; /* bytes of the body */
    struct ft_peer *prev, *next;
} ft_peer;

/* Registers an accepted connection; address may be NULL. Call ft_peer_drop before the socket is
 * closed. */
ft_peer *ft_peer_add(struct ft_server *s, int fd, const struct sockaddr *address);
void ft_peer_drop(struct ft_server *s, ft_peer *p);
void ft_peer_phase(struct ft_server *s, ft_peer *p, ft_phase phase);

/* Checks deadlines and lingering sockets. Called by the watch thread, under the server's lock. */
void ft_peers_tick(struct ft_server *s, double now);
/* Moves all deadlines by `late` seconds, during which this machine was too busy to read. Under the
 * lock. */
void ft_peers_extend(struct ft_server *s, double late);
void ft_peers_release(struct ft_server *s);

#endif
