#include "dev/link_local.h"

#include "base/mem.h"

#include <pthread.h>
#include <string.h>

typedef struct parcel {
    struct parcel *next;
    int from, tag;
    size_t n;
    unsigned char bytes[];
} parcel;

/* Messages that have arrived, in order. */
typedef struct inbox {
    pthread_mutex_t lock;
    pthread_cond_t more;
    parcel *first, **end;
} inbox;

/* A thread: messages to it, and those from it to the engine thread. */
typedef struct local {
    bool open;
    inbox in, out;
} local;

static local all[FT_LINK_LOCALS];
static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER; /* of `open` */
static _Thread_local int self;

static void inbox_init(inbox *b)
{
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->more, NULL);
    b->first = NULL;
    b->end = &b->first;
}

static void inbox_release(inbox *b)
{
    for (parcel *p = b->first, *next; p; p = next) {
        next = p->next;
        ft_free(p);
    }
    pthread_mutex_destroy(&b->lock);
    pthread_cond_destroy(&b->more);
}

int ft_local_open(void)
{
    int i = 0;
    pthread_mutex_lock(&table);
    while (i < FT_LINK_LOCALS && all[i].open) i++;
    if (i < FT_LINK_LOCALS) all[i].open = true;
    pthread_mutex_unlock(&table);
    if (i == FT_LINK_LOCALS) return 0;
    inbox_init(&all[i].in);
    inbox_init(&all[i].out);
    return FT_LINK_LOCAL + i;
}

void ft_local_close(int rank)
{
    local *l = &all[rank - FT_LINK_LOCAL];
    inbox_release(&l->in);
    inbox_release(&l->out);
    pthread_mutex_lock(&table);
    l->open = false;
    pthread_mutex_unlock(&table);
}

void ft_local_enter(int rank)
{
    self = rank;
}

int ft_local_self(void)
{
    return self;
}

bool ft_local_has(int rank)
{
    return self || (rank >= FT_LINK_LOCAL && rank < FT_LINK_LOCAL + FT_LINK_LOCALS);
}

/* Where messages to a rank arrive; to rank 0: those of the thread `from`. */
static inbox *inbox_of(int rank, int from)
{
    return rank ? &all[rank - FT_LINK_LOCAL].in : &all[from - FT_LINK_LOCAL].out;
}

void ft_local_send(int to, int tag, const void *p, size_t n)
{
    inbox *b = inbox_of(to, self);
    parcel *at = ft_realloc(NULL, sizeof *at + n);
    *at = (parcel){.from = self, .tag = tag, .n = n};
    memcpy(at->bytes, p, n);
    pthread_mutex_lock(&b->lock);
    *b->end = at;
    b->end = &at->next;
    pthread_cond_broadcast(&b->more);
    pthread_mutex_unlock(&b->lock);
}

static parcel **find(inbox *b, int from, int tag)
{
    parcel **p = &b->first;
    while (*p && ((*p)->from != from || (*p)->tag != tag)) p = &(*p)->next;
    return p;
}

void *ft_local_take(int from, int tag, size_t *got)
{
    inbox *b = inbox_of(self, from);
    parcel **p;
    pthread_mutex_lock(&b->lock);
    while (!*(p = find(b, from, tag))) pthread_cond_wait(&b->more, &b->lock);
    parcel *const at = *p;
    *p = at->next;
    if (b->end == &at->next) b->end = p;
    pthread_mutex_unlock(&b->lock);
    *got = at->n;
    memmove(at, at->bytes, at->n);
    return at;
}
