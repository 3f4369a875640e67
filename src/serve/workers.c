/* serve/workers.c - threads for calls that have to wait for the engine thread: slot actions and
 * their files. Each item waits for one ft_queue_call, which runs between two steps. An item whose
 * call has ended before a thread took it is dropped without being run; on shutdown this applies to
 * all queued items.
 *
 * Waiting and waking:
 * - A worker (`more`) waits for an item or stop. put_item and ft_work_free signal it.
 * - A call (suspended) waits for `done`. Its worker wakes it with ft_call_wake.
 * - ft_work_free joins the workers; running items are completed first. */
#include "base/mem.h"
#include "serve/server.h"

enum { MAX_WAITING = 256 };

/* Shared by the worker and the call; the last of them frees it. */
typedef struct item {
    const ft_work_item *e;
    void *arg;
    ft_server *s;
    ft_served *d; /* held, because the work may outlive the call */
    pthread_mutex_t lock;
    ft_call *c; /* NULL: the call has ended */
    bool done;
} item;

struct ft_work {
    pthread_mutex_t lock;
    pthread_cond_t more;
    item *list[MAX_WAITING];
    int first, n;
    bool stop;
    pthread_t *thread;
    int threads;
};

static void drop_item(item *i)
{
    i->e->drop(i->arg);
    ft_served_drop(i->s, i->d);
    pthread_mutex_destroy(&i->lock);
    ft_free(i);
}

static void run_item(item *i)
{
    pthread_mutex_lock(&i->lock);
    const bool live = i->c != NULL;
    pthread_mutex_unlock(&i->lock);
    if (live) i->e->run(i->arg);
    pthread_mutex_lock(&i->lock);
    i->done = true;
    const bool last = !i->c;
    if (!last) ft_call_wake(i->c);
    pthread_mutex_unlock(&i->lock);
    if (last) drop_item(i);
}

static void *worker_thread(void *arg)
{
    struct ft_work *w = arg;
    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (!w->n && !w->stop) pthread_cond_wait(&w->more, &w->lock);
        if (!w->n) break;
        item *i = w->list[w->first];
        w->first = (w->first + 1) % MAX_WAITING;
        w->n--;
        pthread_mutex_unlock(&w->lock);
        run_item(i);
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

struct ft_work *ft_work_new(int threads)
{
    struct ft_work *w = ft_new(struct ft_work);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->more, NULL);
    w->thread = ft_new_n(pthread_t, (size_t)threads);
    while (w->threads < threads && !pthread_create(&w->thread[w->threads], NULL, worker_thread, w))
        w->threads++;
    return w;
}

void ft_work_free(struct ft_work *w)
{
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_broadcast(&w->more);
    pthread_mutex_unlock(&w->lock);
    for (int i = 0; i < w->threads; i++) pthread_join(w->thread[i], NULL);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->more);
    ft_free(w->thread);
    ft_free(w);
}

static bool put_item(struct ft_work *w, item *i)
{
    pthread_mutex_lock(&w->lock);
    const bool room = w->n < MAX_WAITING && w->threads > 0 && !w->stop;
    if (room) {
        w->list[(w->first + w->n++) % MAX_WAITING] = i;
        pthread_cond_signal(&w->more);
    }
    pthread_mutex_unlock(&w->lock);
    return room;
}

static bool pump(ft_call *c)
{
    item *i = c->user;
    pthread_mutex_lock(&i->lock);
    const bool done = i->done;
    pthread_mutex_unlock(&i->lock);
    if (done) i->e->answer(c, i->arg);
    return done;
}

static void release(ft_call *c)
{
    item *i = c->user;
    pthread_mutex_lock(&i->lock);
    i->c = NULL;
    const bool last = i->done;
    pthread_mutex_unlock(&i->lock);
    if (last) drop_item(i);
}

void ft_work_start(ft_call *c, const ft_work_item *e, void *arg)
{
    item *i = ft_new(item);
    i->e = e;
    i->arg = arg;
    i->c = c;
    i->s = c->s;
    i->d = c->served;
    if (i->d) ft_served_hold(c->s, i->d);
    pthread_mutex_init(&i->lock, NULL);
    if (put_item(c->s->work, i)) {
        c->user = i;
        c->pump = pump;
        c->release = release;
        return;
    }
    ft_http_error error;
    ft_http_error_set(&error, FT_ERR_BUSY, NULL, "%d requests of this kind are already waiting",
                      MAX_WAITING);
    ft_call_fail(c, &error);
    drop_item(i);
}
