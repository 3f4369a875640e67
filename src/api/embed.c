/* api/embed.c - embeds a text: its hidden rows, pooled. It runs through the queue like any
 * request, so it is batched with other requests. */
#include "api/model.h"
#include "base/mem.h"

#include <math.h>

typedef struct embedding {
    ft_entry entry; /* must be first: the queue's callbacks receive a pointer to it */
    ft_pooling pooling;
    int n, width;
    double *sum; /* [width] */
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool done;
} embedding;

static void add_row(void *user, int cell, const float *row)
{
    embedding *m = user;
    if (m->pooling == FT_POOL_LAST && cell < m->n - 1) return;
    for (int i = 0; i < m->width; i++) m->sum[i] += (double)row[i];
}

static bool never(void *user, const ft_emit *e)
{
    (void)user, (void)e;
    return false;
}

static bool ready(ft_entry *e)
{
    (void)e;
    return true;
}

static void after_round(ft_entry *e)
{
    (void)e;
}

static void over(ft_entry *e)
{
    embedding *m = (embedding *)(void *)e;
    pthread_mutex_lock(&m->lock);
    m->done = true;
    pthread_cond_signal(&m->over);
    pthread_mutex_unlock(&m->lock);
}

static ft_status by_queue(embedding *m, ft_queue *q, ft_err *err)
{
    const ft_status st = ft_queue_put(q, &m->entry, err);
    if (st) return st;
    pthread_mutex_lock(&m->lock);
    while (!m->done) pthread_cond_wait(&m->over, &m->lock);
    pthread_mutex_unlock(&m->lock);
    if (m->entry.cancelled) return ft_fail(err, FT_ECANCELLED, "the engine has stopped");
    if (m->entry.finish == FT_FINISH_ERROR) return ft_fail(err, FT_EDEVICE, "%s", m->entry.error);
    return FT_OK;
}

static ft_status here(embedding *m, ft_engine *e, ft_err *err)
{
    ft_slot *s = ft_slot_new(e);
    if (!s) return ft_fail(err, FT_EBUSY, "all slots are in use");
    ft_status st = ft_slot_start(s, &m->entry.task, err);
    while (!st && ft_slot_busy(s)) ft_engine_round(e);
    if (!st && ft_slot_finish(s) == FT_FINISH_ERROR)
        st = ft_fail(err, FT_EDEVICE, "%s", ft_slot_error(s));
    ft_slot_free(s);
    return st;
}

static ft_status normalise(const embedding *m, float *out, ft_err *err)
{
    double norm = 0;
    for (int i = 0; i < m->width; i++) norm += m->sum[i] * m->sum[i];
    if (!isfinite(norm) || norm <= 0)
        return ft_fail(err, FT_EFORMAT, "the hidden rows are not numbers: the weights are damaged");
    norm = sqrt(norm);
    for (int i = 0; i < m->width; i++) out[i] = (float)(m->sum[i] / norm);
    return FT_OK;
}

ft_status ft_llm_embed(ft_llm *m, const int32_t *ids, int n, ft_pooling pooling, float *out,
                       ft_err *err)
{
    embedding b = {.pooling = pooling, .n = n, .width = m->model->D};
    b.entry.task = (ft_task){.prompt = ids,
                             .n_prompt = n,
                             .max_tokens = 0,
                             .top_logprobs = -1,
                             .hidden = add_row,
                             .emit = never,
                             .user = &b};
    ft_sample_defaults(&b.entry.task.sampling);
    b.entry.wish = -1;
    b.entry.ready = ready;
    b.entry.round = after_round;
    b.entry.done = over;
    ft_status st = ft_task_check(m->engine, &b.entry.task, err);
    if (st) return st;
    b.sum = ft_new_n(double, (size_t)b.width);
    pthread_mutex_init(&b.lock, NULL);
    pthread_cond_init(&b.over, NULL);
    const bool queue = m->queue && !ft_queue_stopped(m->queue);
    st = queue ? by_queue(&b, m->queue, err) : here(&b, m->engine, err);
    if (!st) st = normalise(&b, out, err);
    pthread_mutex_destroy(&b.lock);
    pthread_cond_destroy(&b.over);
    ft_free(b.sum);
    return st;
}
