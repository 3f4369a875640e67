#define _GNU_SOURCE
#include "serve/peer.h"

#include "base/clock.h"
#include "base/mem.h"
#include "serve/server.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

/* Lets the kernel detect a client that vanished: keep-alive probes, and a limit on unacknowledged
 * data. */
static void set_socket(int fd)
{
    const int on = 1, idle = 5, unheard_ms = 15000;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unheard_ms, sizeof unheard_ms);
}

/* An IPv4 address, or the /64 network of an IPv6 address, which one client usually has. */
static void take_address(ft_peer *p, const struct sockaddr *a)
{
    if (a && a->sa_family == AF_INET) {
        memcpy(p->address, &((const struct sockaddr_in *)(const void *)a)->sin_addr, 4);
        p->has_address = true;
    } else if (a && a->sa_family == AF_INET6) {
        const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
        const bool mapped = IN6_IS_ADDR_V4MAPPED(six);
        memcpy(p->address, mapped ? &six->s6_addr[12] : &six->s6_addr[0], mapped ? 4 : 8);
        p->has_address = true;
    }
}

static bool same_address(const ft_peer *a, const ft_peer *b)
{
    return a->has_address && b->has_address && !memcmp(a->address, b->address, sizeof a->address);
}

static bool unread(int fd)
{
    struct pollfd f = {.fd = fd, .events = POLLIN};
    return poll(&f, 1, 0) > 0 && f.revents & POLLIN;
}

static void shut(ft_peer *p)
{
    p->closing = true;
    shutdown(p->fd, SHUT_RDWR);
}

/* Order in which connections are closed: idle ones first, then those reading headers, then bodies;
 * among equals the oldest. */
static bool closes_before(const ft_peer *a, const ft_peer *b)
{
    const int ka = a->phase == FT_PHASE_BODY ? 2 : !a->served;
    const int kb = b->phase == FT_PHASE_BODY ? 2 : !b->served;
    return ka != kb ? ka < kb : a->since_s < b->since_s;
}

/* Closes one connection without a complete request; if `like` is not NULL, one from the same
 * address. Returns false if there is none. A request that has arrived but was not read yet counts
 * as complete. */
static bool close_one(ft_server *s, const ft_peer *newest, const ft_peer *like)
{
    ft_peer *first = NULL;
    for (ft_peer *p = s->peers; p; p = p->next) {
        if (p == newest || p->closing || p->phase == FT_PHASE_ANSWER) continue;
        if (like && !same_address(p, like)) continue;
        if ((!first || closes_before(p, first)) && !unread(p->fd)) first = p;
    }
    if (first) shut(first);
    return first != NULL;
}

/* Enforces the limits after p was added. Under the lock. */
static void enforce_limits(ft_server *s, ft_peer *p)
{
    const int share = s->p.per_address > 0 ? s->p.per_address : FT_MAX(1, s->p.connections / 2);
    int all = 0, same = 0;
    for (const ft_peer *q = s->peers; q; q = q->next) {
        all += !q->closing;
        same += !q->closing && same_address(p, q);
    }
    if (same > share)
        p->over = !close_one(s, p, p);
    else if (all > s->p.connections)
        p->over = !close_one(s, p, NULL);
}

ft_peer *ft_peer_add(ft_server *s, int fd, const struct sockaddr *address)
{
    ft_peer *p = ft_new(ft_peer);
    p->fd = fd;
    p->since_s = ft_now_s();
    take_address(p, address);
    set_socket(fd);
    pthread_mutex_lock(&s->lock);
    p->next = s->peers;
    if (s->peers) s->peers->prev = p;
    s->peers = p;
    s->n_peers++;
    enforce_limits(s, p);
    pthread_mutex_unlock(&s->lock);
    return p;
}

/* Closing a socket with unread bytes resets the connection, and the client may lose the response
 * that was just sent. So a duplicate of the socket stays open and is drained for a while. */
static void linger(ft_server *s, const ft_peer *p)
{
    if (s->n_lingering == FT_PEER_LINGERING) return;
    const int fd = fcntl(p->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return;
    const double now = ft_now_s();
    s->lingering[s->n_lingering].fd = fd;
    s->lingering[s->n_lingering].quiet_s = now + FT_PEER_QUIET_S;
    s->lingering[s->n_lingering++].until_s = now + FT_PEER_LINGER_S;
}

void ft_peer_drop(ft_server *s, ft_peer *p)
{
    pthread_mutex_lock(&s->lock);
    if (p->prev)
        p->prev->next = p->next;
    else
        s->peers = p->next;
    if (p->next) p->next->prev = p->prev;
    s->n_peers--;
    if (p->refused && !p->closing) linger(s, p);
    pthread_mutex_unlock(&s->lock);
    ft_free(p);
}

void ft_peer_phase(ft_server *s, ft_peer *p, ft_phase phase)
{
    pthread_mutex_lock(&s->lock);
    p->served |= phase == FT_PHASE_HEAD;
    p->phase = phase;
    p->since_s = ft_now_s();
    atomic_store(&p->received, 0);
    pthread_mutex_unlock(&s->lock);
}

static double limit_of(const ft_server *s, const ft_peer *p)
{
    switch (p->phase) {
    case FT_PHASE_BODY: return s->p.body_s + (double)atomic_load(&p->received) / FT_PEER_RATE;
    case FT_PHASE_ANSWER: return (double)s->p.timeout_s + s->p.write_s;
    case FT_PHASE_HEAD: break;
    }
    return p->served ? FT_IDLE_S : s->p.header_s;
}

/* Discards what can be read and returns the number of bytes; -1: closed. */
static long drain(int fd)
{
    char buf[64 << 10];
    long sum = 0;
    for (int i = 0; i < 256; i++) {
        const ssize_t n = recv(fd, buf, sizeof buf, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return -1;
        if (n < 0) break;
        sum += n;
    }
    return sum;
}

static void check_lingering(ft_server *s, double now)
{
    for (int i = 0; i < s->n_lingering;) {
        const long n = drain(s->lingering[i].fd);
        if (n > 0) s->lingering[i].quiet_s = now + FT_PEER_QUIET_S;
        if (n >= 0 && now < s->lingering[i].until_s && now < s->lingering[i].quiet_s) {
            i++;
            continue;
        }
        close(s->lingering[i].fd);
        s->lingering[i] = s->lingering[--s->n_lingering];
    }
}

/* libmicrohttpd closes a socket that was shut down. If a socket has unread bytes, the client was in
 * time and this machine is late, so its deadline does not apply. */
void ft_peers_tick(ft_server *s, double now)
{
    for (ft_peer *p = s->peers; p; p = p->next) {
        if (p->closing) continue;
        const bool late = now - p->since_s > limit_of(s, p);
        const bool idle = p->phase == FT_PHASE_HEAD && p->served;
        if ((late && (p->phase == FT_PHASE_ANSWER || !unread(p->fd))) ||
            (idle && atomic_load(&s->draining)))
            shut(p);
    }
    check_lingering(s, now);
}

void ft_peers_extend(ft_server *s, double late)
{
    for (ft_peer *p = s->peers; p; p = p->next) p->since_s += late;
}

void ft_peers_release(ft_server *s)
{
    for (int i = 0; i < s->n_lingering; i++) close(s->lingering[i].fd);
    s->n_lingering = 0;
}
