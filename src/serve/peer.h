/* serve/peer.h - connections: how many there may be, how long each phase of one may take, and how
 * one is closed whose request was refused before its body had arrived.
 *
 * A new connection is always accepted while p.connections allow it. Beyond that, and beyond the
 * share of one address, the connection that has waited longest without a complete request is closed
 * to make place. When every connection is being answered, a few more (FT_PEER_RESERVE) are accepted
 * for routes without a key, such as /health; other requests on them get a 503. */
#ifndef FT_SERVE_PEER_H
#define FT_SERVE_PEER_H

#include "base/err.h"

#include <stdatomic.h>
#include <sys/socket.h>

struct ft_server;

enum {
    FT_PEER_RESERVE = 64,    /* connections kept for /health */
    FT_PEER_RATE = 64 << 10, /* bytes per second that a long body must reach on average */
    FT_PEER_LINGERING = 64,  /* refused connections whose bodies are read and dropped */
    FT_PEER_QUIET_S = 1,     /* until nothing has come for so long, */
    FT_PEER_LINGER_S = 10,   /* and at most for so long */
};

typedef enum ft_phase {
    FT_PHASE_HEAD,   /* waiting for, or reading, a request line and headers; TLS handshake */
    FT_PHASE_BODY,   /* reading a body */
    FT_PHASE_ANSWER, /* a complete request is being answered */
} ft_phase;

typedef struct ft_peer {
    int fd;
    ft_phase phase;
    bool served;      /* one request was answered */
    bool over;        /* beyond p.connections: only routes without a key */
    bool closing;     /* was shut down, its end is on the way */
    bool refused;     /* answered before its body was read: close gently */
    bool probed;      /* half closed, and a probe was sent to find out whether it is gone */
    bool has_address; /* not a Unix socket */
    uint8_t address[16];
    double since_s;         /* when the phase began */
    atomic_size_t received; /* bytes of the body */
    struct ft_peer *prev, *next;
} ft_peer;

/* A connection was accepted; address may be NULL. ft_peer_drop before its socket is closed. */
ft_peer *ft_peer_add(struct ft_server *s, int fd, const struct sockaddr *address);
void ft_peer_drop(struct ft_server *s, ft_peer *p);
void ft_peer_phase(struct ft_server *s, ft_peer *p, ft_phase phase);

/* Deadlines and lingering sockets; from the watch thread, under the server's lock. */
void ft_peers_tick(struct ft_server *s, double now);
/* Nobody's time ran for so long: this machine was busy. Under the lock. */
void ft_peers_forgive(struct ft_server *s, double late);
void ft_peers_release(struct ft_server *s);

#endif
