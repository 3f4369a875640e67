/* serve/watch.c - deadlines and disconnected clients. libmicrohttpd does not watch suspended
 * connections, so this thread checks every FT_TICK_MS whether their clients are still connected: a
 * response that nobody reads must not keep a slot busy.
 *
 * A call is in the list that is checked from the return of its handler until it ends, but not while
 * a handler runs. When its client has disconnected or its time is up, `gone` is set, cancel is
 * called and the call is woken, all under the server's lock; it then ends on an HTTP thread. This
 * thread blocks on nothing but the next tick and the lock. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/mem.h"
#include "serve/server.h"

#include <poll.h>
#include <time.h>

static void abandon_call(ft_call *c)
{
    if (atomic_exchange(&c->gone, true)) return;
    if (c->cancel) c->cancel(c);
    ft_call_wake(c);
}

static void check_calls(ft_server *s, double now)
{
    struct pollfd *f = ft_new_n(struct pollfd, (size_t)s->n_calls + 1);
    nfds_t n = 0;
    for (ft_call *c = s->calls; c; c = c->next)
        f[n++] = (struct pollfd){.fd = c->fd, .events = POLLRDHUP};
    poll(f, n, 0);
    n = 0;
    for (ft_call *c = s->calls; c; c = c->next, n++) {
        const bool left = (f[n].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0 ||
                          (f[n].revents & POLLRDHUP && ft_call_is_gone(c));
        if (left || now - c->begun_s > s->p.timeout_s) abandon_call(c);
        const double silent = now - (double)atomic_load(&c->sent_ns) * 1e-9;
        if (c->stream && c->ping_s > 0 && silent >= c->ping_s) {
            atomic_store(&c->sent_ns, ft_now_ns());
            atomic_store(&c->ping_due, true);
            ft_call_wake(c);
        }
    }
    ft_free(f);
}

static void *watch_thread(void *arg)
{
    ft_server *s = arg;
    const struct timespec tick = {0, FT_TICK_MS * 1000000L};
    double last = ft_now_s();
    while (!atomic_load(&s->stop)) {
        pthread_mutex_lock(&s->lock);
        const double now = ft_now_s();
        /* a late tick: the machine was busy or the process was stopped */
        const double late = now - last - FT_TICK_MS * 1e-3;
        if (late >= FT_TICK_MS * 1e-3) ft_peers_extend(s, late);
        last = now;
        check_calls(s, now);
        ft_peers_tick(s, now);
        pthread_mutex_unlock(&s->lock);
        ft_server_trim(s);
        nanosleep(&tick, NULL);
    }
    return NULL;
}

ft_status ft_watch_start(ft_server *s, ft_err *err)
{
    if (pthread_create(&s->watch, NULL, watch_thread, s))
        return ft_fail(err, FT_ENOMEM, "cannot start a thread");
    return FT_OK;
}

void ft_watch_stop(ft_server *s)
{
    atomic_store(&s->stop, true);
    pthread_join(s->watch, NULL);
}
