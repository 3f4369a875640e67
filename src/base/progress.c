#define _POSIX_C_SOURCE 200809L
#include "base/progress.h"

#include "base/mem.h"

#include <pthread.h>

struct ft_progress {
    const char *what;
    uint64_t done, total;
    ft_progress_fn *fn;
    void *user;
    pthread_mutex_t lock;
};

ft_progress *ft_progress_new(const char *what, uint64_t total, ft_progress_fn *fn, void *user)
{
    if (!fn) return NULL;
    ft_progress *p = ft_new(ft_progress);
    p->what = what;
    p->total = total ? total : 1;
    p->fn = fn;
    p->user = user;
    pthread_mutex_init(&p->lock, NULL);
    return p;
}

void ft_progress_add(ft_progress *p, uint64_t done)
{
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    p->done += FT_MIN(done, p->total - p->done);
    p->fn(p->user, p->what, p->done, p->total);
    pthread_mutex_unlock(&p->lock);
}

void ft_progress_free(ft_progress *p)
{
    if (!p) return;
    p->fn(p->user, NULL, p->done, p->total);
    pthread_mutex_destroy(&p->lock);
    ft_free(p);
}
