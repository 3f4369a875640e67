/* serve/accept.c - a thread that accepts connections and gives them to the HTTP threads.
 * libmicrohttpd could accept them itself, but its threads and MHD_quiesce_daemon both remove the
 * listening socket from the epoll set of a thread; if they do it at the same time, for instance
 * when a server with as many connections as it may have is told to end, it aborts the process. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/mem.h"
#include "serve/server.h"

#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    FULL_MS = 5,   /* how often a server that is full checks whether it still is */
    SHORT_MS = 50, /* how long it waits when the system has no descriptor or memory left */
    START_MS = 50, /* how long it waits at most for an HTTP thread to start a connection */
};

struct ft_accept {
    pthread_t thread;
    int end_fd; /* becomes readable when the thread has to end */
};

static bool full(const ft_server *s)
{
    const union MHD_DaemonInfo *i =
        MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
    return i && i->num_connections >= (unsigned)(s->p.connections + FT_PEER_RESERVE);
}

/* Waits for a connection, at most ms milliseconds (-1: without limit). false: the thread ends. */
static bool wait_for(int listen_fd, int end_fd, int ms)
{
    struct pollfd f[2] = {{.fd = listen_fd, .events = POLLIN}, {.fd = end_fd, .events = POLLIN}};
    poll(f, 2, ms);
    return !f[1].revents;
}

/* Gives a connection to an HTTP thread and waits until it is registered, so that connections are
 * registered in the order in which they arrived: limits close the oldest ones first. */
static void give(ft_server *s, int fd, const struct sockaddr *address, socklen_t n)
{
    while (!sem_trywait(&s->started)) continue; /* of connections that were waited for in vain */
    if (MHD_add_connection(s->daemon, fd, address, n) != MHD_YES) return; /* it has closed fd */
    const struct timespec until = ft_deadline(CLOCK_MONOTONIC, START_MS);
    while (sem_clockwait(&s->started, CLOCK_MONOTONIC, &until) < 0 && errno == EINTR) continue;
}

static void *accept_all(void *arg)
{
    ft_server *s = arg;
    const int end_fd = s->accept->end_fd;
    for (;;) {
        const bool no_place = full(s);
        if (!wait_for(no_place ? -1 : s->listen_fd, end_fd, no_place ? FULL_MS : -1)) return NULL;
        if (no_place) continue;
        struct sockaddr_storage a;
        socklen_t n = sizeof a;
        const int fd =
            accept4(s->listen_fd, (struct sockaddr *)&a, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            give(s, fd, (struct sockaddr *)&a, n);
        else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            if (!wait_for(-1, end_fd, SHORT_MS)) return NULL;
    }
}

static void release(ft_server *s)
{
    if (s->accept->end_fd >= 0) close(s->accept->end_fd);
    ft_free(s->accept);
    s->accept = NULL;
}

ft_status ft_accept_start(ft_server *s, ft_err *err)
{
    s->accept = ft_new(struct ft_accept);
    s->accept->end_fd = eventfd(0, EFD_CLOEXEC);
    if (s->accept->end_fd >= 0 && !pthread_create(&s->accept->thread, NULL, accept_all, s))
        return FT_OK;
    release(s);
    return ft_fail(err, FT_EIO, "cannot start the thread that accepts connections");
}

void ft_accept_stop(ft_server *s)
{
    const uint64_t one = 1;
    if (s->accept) {
        while (write(s->accept->end_fd, &one, sizeof one) < 0 && errno == EINTR) continue;
        pthread_join(s->accept->thread, NULL);
        release(s);
    }
    if (s->listen_fd >= 0) close(s->listen_fd);
    s->listen_fd = -1;
}
