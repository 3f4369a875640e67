/* tests/late_copies.h - downloads in the background on any device: what the host gets is taken when
 * the copies begin, and arrives 50 milliseconds later, or not at all. */
#ifndef FT_TESTS_LATE_COPIES_H
#define FT_TESTS_LATE_COPIES_H

#include "base/mem.h"
#include "dev/copies.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

static bool late_fail; /* copies fail: the host gets other bytes */
static int late_n;     /* lists that were copied */

typedef struct late_list {
    ft_copy *list;
    size_t n;
    unsigned char *bytes;
    ft_copying *copying;
    bool fail;
} late_list;

static void *late_arrive(void *arg)
{
    late_list l = *(late_list *)arg;
    size_t at = 0;
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    for (size_t i = 0; i < l.n; at += l.list[i++].bytes) {
        if (l.fail)
            memset(l.list[i].host, 0xa5, l.list[i].bytes);
        else
            memcpy(l.list[i].host, l.bytes + at, l.list[i].bytes);
    }
    ft_free(l.list);
    ft_free(l.bytes);
    ft_free(arg);
    ft_copying_end(l.copying, !l.fail);
    return NULL;
}

/* save_list of dev/dev.h. */
static void late_save(ft_dev *d, const ft_copy *list, size_t n, ft_copying *copying)
{
    if (!n) return;
    late_list *l = ft_new(late_list);
    pthread_t thread;
    size_t all = 0;
    for (size_t i = 0; i < n; i++) all += list[i].bytes;
    *l = (late_list){ft_new_n(ft_copy, n), n, ft_alloc(all + 1), copying, late_fail};
    memcpy(l->list, list, n * sizeof *list);
    ft_copies now = {.dev = d};
    for (size_t i = 0, at = 0; i < n; at += list[i++].bytes)
        ft_copies_add(&now, l->bytes + at, list[i].device, list[i].bytes);
    ft_copies_run(&now);
    late_n++;
    ft_copying_begin(copying);
    if (pthread_create(&thread, NULL, late_arrive, l))
        late_arrive(l);
    else
        pthread_detach(thread);
}

#endif
