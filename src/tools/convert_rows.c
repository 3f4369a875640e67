#define _POSIX_C_SOURCE 200809L
#include "tools/convert_rows.h"

#include "base/mem.h"

#include <pthread.h>

#define PIECE ((int64_t)1 << 19)

typedef struct job {
    const ft_rows *t;
    size_t n;
    ft_rows_fn *fn;
    void *arg;
    pthread_mutex_t lock;
    size_t tensor; /* the next piece starts here */
    int64_t row;
    bool stop;
} job;

int64_t ft_rows_piece(const ft_rows *t)
{
    return FT_MAX(1, FT_MIN(t->rows, PIECE / FT_MAX(1, t->cols)));
}

int64_t ft_rows_values(const ft_rows *t, size_t n)
{
    int64_t most = 1;
    for (size_t i = 0; i < n; i++) most = FT_MAX(most, ft_rows_piece(&t[i]) * t[i].cols);
    return most;
}

static bool next_piece(job *j, size_t *tensor, int64_t *first, int64_t *n)
{
    pthread_mutex_lock(&j->lock);
    while (j->tensor < j->n && j->row >= j->t[j->tensor].rows) {
        j->tensor++;
        j->row = 0;
    }
    const bool more = !j->stop && j->tensor < j->n;
    if (more) {
        *tensor = j->tensor;
        *first = j->row;
        *n = FT_MIN(ft_rows_piece(&j->t[j->tensor]), j->t[j->tensor].rows - j->row);
        j->row += *n;
    }
    pthread_mutex_unlock(&j->lock);
    return more;
}

static void process_pieces(void *arg, int thread, int threads)
{
    (void)threads;
    job *j = arg;
    size_t tensor;
    int64_t first, n;
    while (next_piece(j, &tensor, &first, &n)) {
        if (j->fn(j->arg, thread, tensor, first, n)) continue;
        pthread_mutex_lock(&j->lock);
        j->stop = true;
        pthread_mutex_unlock(&j->lock);
    }
}

void ft_rows_run(ft_pool *pool, const ft_rows *t, size_t n, ft_rows_fn *fn, void *arg)
{
    job j = {.t = t, .n = n, .fn = fn, .arg = arg};
    pthread_mutex_init(&j.lock, NULL);
    ft_pool_run(pool, process_pieces, &j);
    pthread_mutex_destroy(&j.lock);
}
