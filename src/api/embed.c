/* api/embed.c - texts as vectors: the hidden rows of each, pooled. Each text goes through the queue
 * like any request, so it is batched with whatever else runs. A few texts of a request are in the
 * queue at a time; when one is done the engine thread puts the next one, at the end of the queue.
 */
#include "api/adapters.h"
#include "base/mem.h"
#include "model/rank.h"

#include <math.h>

/* A text on its way through the engine. */
typedef struct text_run {
    ft_entry entry; /* first: the queue's functions get this */
    ft_embedding *b;
    ft_pooling pooling;
    int text, n, width;
    double *sum; /* [width] */
    float *rows; /* [n, width], of FT_POOL_NONE; borrowed */
    float lora[FT_LORA_MAX];
} text_run;

struct ft_embedding {
    ft_llm *m;
    int n, width;
    int32_t **ids; /* [n] */
    int *n_ids;    /* [n] */
    size_t *first; /* [n]: value of `out` at which the result of a text begins */
    float *out;
    bool raw;
    text_run *run;
    int runs;

    pthread_mutex_t lock;
    int next, active;     /* the next text to start; runs that are not over */
    bool cancelled, done; /* done: nothing is active any more */
    ft_status st;         /* the first failure */
    ft_err err;
    void (*wake)(void *user); /* NULL: the owner has left */
    void *user;
    atomic_int owners; /* the caller, and the queue while anything is active */
};

/* ---- one text ---- */

static void add_row(void *user, int cell, const float *row)
{
    text_run *t = user;
    const bool last = t->pooling == FT_POOL_LAST || t->pooling == FT_POOL_RANK;
    if (last && cell < t->n - 1) return;
    if (t->pooling == FT_POOL_CLS && cell > 0) return;
    if (t->pooling == FT_POOL_NONE)
        memcpy(t->rows + (size_t)cell * (size_t)t->width, row, sizeof *row * (size_t)t->width);
    for (int i = 0; i < t->width; i++) t->sum[i] += (double)row[i];
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

static void after_step(ft_entry *e)
{
    (void)e;
}

static void run_init(text_run *t, ft_llm *m, ft_pooling pooling)
{
    const int width = m->model->D;
    t->pooling = pooling;
    t->width = width;
    ft_llm_adapter_scales(m, NULL, 0, t->lora, NULL);
    t->sum = ft_new_n(double, (size_t)width);
    t->entry.task = (ft_task){.max_tokens = 0,
                              .top_logprobs = -1,
                              .lora = t->lora,
                              .hidden = add_row,
                              .emit = never,
                              .user = t};
    ft_sample_defaults(&t->entry.task.sampling);
    t->entry.wish = -1;
    t->entry.ready = ready;
    t->entry.stepped = after_step;
}

static void run_text(text_run *t, const int32_t *ids, int n)
{
    t->n = n;
    t->entry.task.prompt = ids;
    t->entry.task.n_prompt = n;
    memset(t->sum, 0, sizeof *t->sum * (size_t)t->width);
}

/* The rows of all tokens have been added: their result. */
static ft_status pooled(const text_run *t, const ft_llm *m, bool raw, float *out, ft_err *err)
{
    double norm = 0;
    for (int i = 0; i < t->width; i++) norm += t->sum[i] * t->sum[i];
    if (!isfinite(norm) || norm <= 0)
        return ft_fail(err, FT_EFORMAT, "the hidden rows are not numbers: the weights are damaged");
    if (t->pooling == FT_POOL_NONE) return FT_OK;
    if (t->pooling == FT_POOL_RANK) {
        *out = ft_rank_score(m->rank, t->sum);
        return FT_OK;
    }
    norm = raw ? t->pooling == FT_POOL_MEAN ? t->n : 1 : sqrt(norm);
    for (int i = 0; i < t->width; i++) out[i] = (float)(t->sum[i] / norm);
    return FT_OK;
}

/* ---- several, on the engine thread ---- */

static void drop(ft_embedding *b)
{
    if (atomic_fetch_sub(&b->owners, 1) > 1) return;
    for (int i = 0; i < b->n; i++) ft_free(b->ids[i]);
    for (int i = 0; i < b->runs; i++) ft_free(b->run[i].sum);
    ft_free(b->ids);
    ft_free(b->n_ids);
    ft_free(b->first);
    ft_free(b->out);
    ft_free(b->run);
    pthread_mutex_destroy(&b->lock);
    ft_free(b);
}

/* A run is over. The last one tells the owner. */
static void retire(ft_embedding *b)
{
    pthread_mutex_lock(&b->lock);
    const bool last = --b->active == 0;
    b->done = last;
    if (last && b->wake) b->wake(b->user);
    pthread_mutex_unlock(&b->lock);
    if (last) drop(b);
}

static void failed(ft_embedding *b, ft_status st, const ft_err *err)
{
    pthread_mutex_lock(&b->lock);
    if (!b->st) {
        b->st = st;
        b->err = *err;
    }
    pthread_mutex_unlock(&b->lock);
}

/* Gives the run the next text; false when there is none to do. */
static bool take_text(text_run *t)
{
    ft_embedding *b = t->b;
    pthread_mutex_lock(&b->lock);
    const bool more = b->next < b->n && !b->st && !b->cancelled;
    if (more) t->text = b->next++;
    pthread_mutex_unlock(&b->lock);
    if (more) run_text(t, b->ids[t->text], b->n_ids[t->text]);
    if (more) t->rows = b->out + b->first[t->text];
    return more;
}

static ft_status result_of(text_run *t, ft_err *err)
{
    const ft_entry *e = &t->entry;
    if (e->cancelled) return ft_fail(err, FT_ECANCELLED, "the request was cancelled");
    if (e->finish == FT_FINISH_ERROR) return ft_fail(err, FT_EDEVICE, "%s", e->error);
    return pooled(t, t->b->m, t->b->raw, t->b->out + t->b->first[t->text], err);
}

static void text_done(ft_entry *e)
{
    text_run *t = (text_run *)(void *)e;
    ft_embedding *b = t->b;
    ft_err err;
    ft_status st = result_of(t, &err);
    bool more = !st && take_text(t);
    if (more) {
        e->continues = true;
        st = ft_queue_put(b->m->queue, e, &err);
    }
    if (st) failed(b, st, &err);
    if (st || !more) retire(b);
}

/* Values of the result of a text of n tokens. */
static size_t out_values(ft_pooling pooling, int n, int width)
{
    if (pooling == FT_POOL_RANK) return 1;
    return (size_t)width * (size_t)(pooling == FT_POOL_NONE ? FT_MAX(0, n) : 1);
}

static ft_status check_pooling(const ft_llm *m, ft_pooling pooling, ft_err *err)
{
    if (pooling != FT_POOL_RANK || m->rank) return FT_OK;
    return ft_fail(err, FT_EUNSUPPORTED,
                   "this model cannot rank documents: it has no classification head "
                   "(cls.output.weight)");
}

static ft_embedding *embedding_of(ft_llm *m, const ft_embedding_params *p)
{
    ft_embedding *b = ft_new(ft_embedding);
    b->m = m;
    b->n = p->n;
    b->width = m->model->D;
    b->wake = p->wake;
    b->user = p->user;
    b->ids = ft_new_n(int32_t *, (size_t)p->n);
    b->n_ids = ft_new_n(int, (size_t)p->n);
    b->first = ft_new_n(size_t, (size_t)p->n);
    b->raw = p->raw;
    b->runs = FT_MIN(p->n, FT_MAX(1, m->info.slots / 2)); /* others find slots, too */
    b->run = ft_new_n(text_run, (size_t)b->runs);
    pthread_mutex_init(&b->lock, NULL);
    for (int i = 0; i < p->n; i++) {
        b->n_ids[i] = p->n_ids[i];
        b->ids[i] = ft_new_n(int32_t, (size_t)FT_MAX(1, p->n_ids[i]));
        if (p->n_ids[i] > 0) memcpy(b->ids[i], p->ids[i], sizeof(int32_t) * (size_t)p->n_ids[i]);
    }
    size_t all = 0;
    for (int i = 0; i < p->n; i++) {
        b->first[i] = all;
        all += out_values(p->pooling, p->n_ids[i], b->width);
    }
    b->out = ft_new_n(float, FT_MAX((size_t)1, all));
    for (int i = 0; i < b->runs; i++) {
        run_init(&b->run[i], m, p->pooling);
        b->run[i].b = b;
        b->run[i].entry.done = text_done;
        b->run[i].entry.client = p->client;
    }
    return b;
}

/* Puts the first texts into the queue. Where that has a place for one, the others follow it. */
static ft_status put_first(ft_embedding *b, ft_err *err)
{
    ft_err later;
    take_text(&b->run[0]);
    b->active = 2; /* the first run, and this function: nothing is over before it returns */
    atomic_store(&b->owners, 2);
    ft_status st = ft_queue_put(b->m->queue, &b->run[0].entry, err);
    if (st) return st;
    for (int i = 1; i < b->runs && take_text(&b->run[i]); i++) {
        b->run[i].entry.continues = true;
        pthread_mutex_lock(&b->lock);
        b->active++;
        pthread_mutex_unlock(&b->lock);
        st = ft_queue_put(b->m->queue, &b->run[i].entry, &later);
        if (!st) continue;
        failed(b, st, &later);
        retire(b);
    }
    retire(b);
    return FT_OK;
}

ft_status ft_embedding_new(ft_embedding **out, ft_llm *m, const ft_embedding_params *p, ft_err *err)
{
    if (!m->queue) return ft_fail(err, FT_EINVAL, "the model's queue was not started");
    if (p->n < 1) return ft_fail(err, FT_EINVAL, "%d texts, want at least one", p->n);
    ft_status st = check_pooling(m, p->pooling, err);
    if (st) return st;
    ft_embedding *b = embedding_of(m, p);
    for (int i = 0; i < b->n && !st; i++) {
        run_text(&b->run[0], b->ids[i], b->n_ids[i]);
        st = ft_task_check(m->engine, &b->run[0].entry.task, err);
    }
    if (!st) st = put_first(b, err);
    if (st) {
        atomic_store(&b->owners, 1);
        drop(b);
        return st;
    }
    *out = b;
    return FT_OK;
}

bool ft_embedding_done(ft_embedding *b)
{
    pthread_mutex_lock(&b->lock);
    const bool done = b->done;
    pthread_mutex_unlock(&b->lock);
    return done;
}

ft_status ft_embedding_result(ft_embedding *b, const float **out, ft_err *err)
{
    if (!ft_embedding_done(b)) return ft_fail(err, FT_EINVAL, "the vectors are not done");
    if (b->cancelled && !b->st) return ft_fail(err, FT_ECANCELLED, "the request was cancelled");
    if (b->st && err) *err = b->err;
    if (!b->st) *out = b->out;
    return b->st;
}

void ft_embedding_cancel(ft_embedding *b)
{
    pthread_mutex_lock(&b->lock);
    b->cancelled = true;
    const bool done = b->done;
    pthread_mutex_unlock(&b->lock);
    for (int i = 0; i < b->runs && !done; i++) ft_queue_cancel(b->m->queue, &b->run[i].entry);
}

void ft_embedding_free(ft_embedding *b)
{
    if (!b) return;
    pthread_mutex_lock(&b->lock);
    b->wake = NULL;
    pthread_mutex_unlock(&b->lock);
    ft_embedding_cancel(b);
    drop(b);
}

/* ---- one, for a caller that waits ---- */

typedef struct waiting {
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool done;
} waiting;

static void tell(void *user)
{
    waiting *w = user;
    pthread_mutex_lock(&w->lock);
    w->done = true;
    pthread_cond_signal(&w->over);
    pthread_mutex_unlock(&w->lock);
}

static ft_status by_queue(ft_llm *m, const int32_t *ids, int n, ft_pooling pooling, float *out,
                          ft_err *err)
{
    waiting w = {0};
    ft_embedding *b;
    const float *vector;
    const ft_embedding_params p = {
        .ids = &ids, .n_ids = &n, .n = 1, .pooling = pooling, .wake = tell, .user = &w};
    pthread_mutex_init(&w.lock, NULL);
    pthread_cond_init(&w.over, NULL);
    ft_status st = ft_embedding_new(&b, m, &p, err);
    if (!st) {
        pthread_mutex_lock(&w.lock);
        while (!w.done) pthread_cond_wait(&w.over, &w.lock);
        pthread_mutex_unlock(&w.lock);
        st = ft_embedding_result(b, &vector, err);
        if (!st) memcpy(out, vector, sizeof *out * out_values(pooling, n, m->model->D));
        ft_embedding_free(b);
    }
    pthread_mutex_destroy(&w.lock);
    pthread_cond_destroy(&w.over);
    return st;
}

static ft_status here(ft_llm *m, const int32_t *ids, int n, ft_pooling pooling, float *out,
                      ft_err *err)
{
    text_run t = {0};
    run_init(&t, m, pooling);
    run_text(&t, ids, n);
    t.rows = out;
    ft_slot *s = NULL;
    ft_status st = ft_task_check(m->engine, &t.entry.task, err);
    if (!st && !(s = ft_slot_new(m->engine))) st = ft_fail(err, FT_EBUSY, "every slot is taken");
    if (!st) st = ft_slot_start(s, &t.entry.task, err);
    while (!st && ft_slot_busy(s)) ft_engine_step(m->engine);
    if (!st && ft_slot_finish(s) == FT_FINISH_ERROR)
        st = ft_fail(err, FT_EDEVICE, "%s", ft_slot_error(s));
    if (!st) st = pooled(&t, m, false, out, err);
    if (s) ft_slot_free(s);
    ft_free(t.sum);
    return st;
}

ft_status ft_llm_embed(ft_llm *m, const int32_t *ids, int n, ft_pooling pooling, float *out,
                       ft_err *err)
{
    const bool queue = m->queue && !ft_queue_stopped(m->queue);
    const ft_status st = check_pooling(m, pooling, err);
    if (st) return st;
    return (queue ? by_queue : here)(m, ids, n, pooling, out, err);
}
