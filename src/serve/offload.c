/* serve/offload.c - threads that run handlers with large bodies. Parsing, rendering and tokenizing
 * megabytes takes seconds, during which an HTTP thread could not serve other clients. */
#include "base/mem.h"
#include "serve/server.h"

struct ft_offload {
    pthread_mutex_t lock;
    pthread_cond_t more;
    void (*run)(ft_call *c);
    ft_call **list; /* at most one per connection */
    int n, cap;
    bool stop;
    pthread_t *thread;
    int threads;
};

static ft_call *take_first(struct ft_offload *o)
{
    ft_call *c = o->list[0];
    memmove(o->list, o->list + 1, sizeof *o->list * (size_t)--o->n);
    return c;
}

static void *work(void *arg)
{
    struct ft_offload *o = arg;
    pthread_mutex_lock(&o->lock);
    for (;;) {
        while (!o->n && !o->stop) pthread_cond_wait(&o->more, &o->lock);
        if (!o->n) break;
        ft_call *c = take_first(o);
        pthread_mutex_unlock(&o->lock);
        o->run(c);
        pthread_mutex_lock(&o->lock);
    }
    pthread_mutex_unlock(&o->lock);
    return NULL;
}

struct ft_offload *ft_offload_new(int threads, void (*run)(ft_call *c))
{
    struct ft_offload *o = ft_new(struct ft_offload);
    pthread_mutex_init(&o->lock, NULL);
    pthread_cond_init(&o->more, NULL);
    o->run = run;
    o->thread = ft_new_n(pthread_t, (size_t)threads);
    while (o->threads < threads && !pthread_create(&o->thread[o->threads], NULL, work, o))
        o->threads++;
    return o;
}

bool ft_offload_put(struct ft_offload *o, ft_call *c)
{
    pthread_mutex_lock(&o->lock);
    const bool ok = !o->stop && o->threads > 0;
    if (ok) {
        if (o->n == o->cap) {
            o->cap = o->cap ? 2 * o->cap : 16;
            o->list = ft_realloc(o->list, sizeof *o->list * (size_t)o->cap);
        }
        o->list[o->n++] = c;
        pthread_cond_signal(&o->more);
    }
    pthread_mutex_unlock(&o->lock);
    return ok;
}

void ft_offload_stop(struct ft_offload *o)
{
    if (!o) return;
    pthread_mutex_lock(&o->lock);
    const bool first = !o->stop;
    o->stop = true;
    pthread_cond_broadcast(&o->more);
    pthread_mutex_unlock(&o->lock);
    for (int i = 0; first && i < o->threads; i++) pthread_join(o->thread[i], NULL);
}

void ft_offload_free(struct ft_offload *o)
{
    if (!o) return;
    ft_offload_stop(o);
    pthread_mutex_destroy(&o->lock);
    pthread_cond_destroy(&o->more);
    ft_free(o->list);
    ft_free(o->thread);
    ft_free(o);
}
