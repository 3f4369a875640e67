#include "dev/copies.h"

#include "base/mem.h"

#include <pthread.h>

/* For all of them: they are few, and take milliseconds. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;

void ft_copies_add(ft_copies *c, void *host, void *device, size_t bytes)
{
    if (c->n == c->room) {
        c->room = FT_MAX((size_t)64, 2 * c->room);
        c->list = ft_realloc(c->list, c->room * sizeof *c->list);
    }
    c->list[c->n++] = (ft_copy){host, device, bytes};
}

static void clear(ft_copies *c)
{
    ft_free(c->list);
    c->list = NULL;
    c->n = c->room = 0;
}

void ft_copies_run(ft_copies *c)
{
    ft_dev *d = c->dev;
    const bool together = c->n && d->copy_list;
    if (together) d->copy_list(d, c->list, c->n, c->in);
    for (size_t i = 0; i < c->n && !together; i++) {
        const ft_copy *k = &c->list[i];
        if (c->in)
            d->upload(d, k->device, k->host, k->bytes);
        else
            d->download(d, k->host, k->device, k->bytes);
    }
    clear(c);
}

void ft_copies_save(ft_copies *c, ft_copying *copying)
{
    if (!c->dev->save_list) {
        ft_copies_run(c);
        return;
    }
    if (c->n) c->dev->save_list(c->dev, c->list, c->n, copying);
    clear(c);
}

bool ft_copying_wait(ft_copying *c)
{
    pthread_mutex_lock(&lock);
    while (c->pending) pthread_cond_wait(&ended, &lock);
    const bool ok = !c->failed;
    pthread_mutex_unlock(&lock);
    return ok;
}

void ft_copying_begin(ft_copying *c)
{
    pthread_mutex_lock(&lock);
    c->pending++;
    pthread_mutex_unlock(&lock);
}

void ft_copying_end(ft_copying *c, bool ok)
{
    pthread_mutex_lock(&lock);
    c->failed |= !ok;
    if (!--c->pending) pthread_cond_broadcast(&ended);
    pthread_mutex_unlock(&lock);
}
