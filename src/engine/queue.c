#include "engine/queue.h"

#include "base/clock.h"
#include "base/mem.h"
#include "engine/slot.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef struct call {
    void (*fn)(void *user, ft_queue *q);
    void *user;
    bool done;
    struct call *next;
} call;

struct ft_queue {
    ft_engine *e;
    ft_queue_limits p;
    int slots;
    ft_slot **slot;      /* [slots] */
    ft_entry **running;  /* [slots], NULL: idle; the engine thread alone */
    int64_t *idle_since; /* [slots] */

    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work;    /* for the engine thread */
    pthread_cond_t changed; /* for those who wait for it */
    atomic_bool hurry;      /* everything is cancelled */
    /* all under the lock */
    ft_entry *first, *last;
    int n_waiting, n_inside; /* inside: waiting or running */
    call *calls;
    uint64_t next_id;
    bool kicked, stopping, ended;
    ft_queue_totals total; /* of entries that are done */

    uint64_t step_at[FT_QUEUE_BUCKETS + 1]; /* the engine thread alone */
    double step_s;
};

/* ---- the engine thread ---- */

static bool cancelled(const ft_queue *q, const ft_entry *e)
{
    return atomic_load(&e->cancel) || atomic_load(&q->hurry);
}

static void count_entry(ft_queue_totals *t, const ft_entry *e)
{
    const ft_stats *s = &e->stats;
    t->prompt_tokens += (uint64_t)s->prompt_n;
    t->cached_tokens += (uint64_t)s->cached_n;
    t->output_tokens += (uint64_t)s->predicted_n;
    t->decode_steps += (uint64_t)s->decode_steps;
    t->drafted += (uint64_t)s->drafted;
    t->accepted += (uint64_t)s->accepted;
    t->prompt_s += s->prompt_s;
    t->output_s += s->predicted_s;
    t->cancelled += e->cancelled;
    t->responses++;
}

/* What only the engine thread may read, for those who ask. */
static void publish(ft_queue *q)
{
    ft_prefix_counts n = {0};
    if (q->e->prefix) ft_prefix_count(q->e->prefix, &n);
    pthread_mutex_lock(&q->lock);
    ft_queue_totals *t = &q->total;
    t->prefix_bytes = n.bytes;
    t->prefix_entries = n.points;
    t->prefix_hits = n.hits;
    t->prefix_misses = n.misses;
    t->pages = (uint64_t)ft_cache_all_pages(q->e->cache);
    t->pages_free = (uint64_t)ft_cache_free_pages(q->e->cache);
    t->pages_cached = 0;
    for (int i = 0; i < q->slots; i++)
        if (!q->running[i]) t->pages_cached += (uint64_t)ft_seq_pages(q->slot[i]->seq);
    t->steps = q->e->steps;
    t->preempted = q->e->preempted;
    memcpy(t->step_at, q->step_at, sizeof t->step_at);
    t->step_s = q->step_s;
    pthread_mutex_unlock(&q->lock);
}

/* The entry is its owner's again. */
static void give_back(ft_queue *q, ft_entry *e)
{
    publish(q);
    pthread_mutex_lock(&q->lock);
    q->n_inside--;
    count_entry(&q->total, e);
    pthread_mutex_unlock(&q->lock);
    e->done(e);
}

static void finish_entry(ft_queue *q, int i)
{
    ft_entry *e = q->running[i];
    const ft_slot *s = q->slot[i];
    q->running[i] = NULL;
    q->idle_since[i] = ft_now_ns();
    e->finish = ft_slot_finish(s);
    e->stats = *ft_slot_stats(s);
    snprintf(e->error, sizeof e->error, "%s", ft_slot_error(s));
    give_back(q, e);
}

/* Takes the first entry that waits, or a cancelled one wherever it stands. Under the lock. */
static ft_entry *take_waiting(ft_queue *q, bool only_cancelled)
{
    ft_entry *before = NULL;
    for (ft_entry *e = q->first; e; before = e, e = e->next) {
        if (only_cancelled && !cancelled(q, e)) continue;
        if (before)
            before->next = e->next;
        else
            q->first = e->next;
        if (q->last == e) q->last = before;
        q->n_waiting--;
        e->next = NULL;
        return e;
    }
    return NULL;
}

static ft_entry *take_cancelled(ft_queue *q)
{
    pthread_mutex_lock(&q->lock);
    ft_entry *e = take_waiting(q, true);
    pthread_mutex_unlock(&q->lock);
    return e;
}

/* The slot that was wished for, else the one that holds most of the prompt, else the one that has
 * been idle longest. */
static int choose_slot(const ft_queue *q, const ft_entry *e)
{
    if (e->wish >= 0 && e->wish < q->slots && !q->running[e->wish]) return e->wish;
    int best = -1, most = -1;
    for (int i = 0; i < q->slots; i++) {
        if (q->running[i]) continue;
        const int same = ft_slot_match(q->slot[i], &e->task);
        const bool older = best >= 0 && q->idle_since[i] < q->idle_since[best];
        if (same > most || (same == most && older)) {
            most = same;
            best = i;
        }
    }
    return best;
}

static bool any_idle(const ft_queue *q)
{
    for (int i = 0; i < q->slots; i++)
        if (!q->running[i]) return true;
    return false;
}

static void start_entry(ft_queue *q, ft_entry *e)
{
    const int i = choose_slot(q, e);
    ft_err err;
    e->wait_s = (double)(ft_now_ns() - e->t_put) * 1e-9;
    if (ft_slot_start(q->slot[i], &e->task, &err)) {
        e->finish = FT_FINISH_ERROR;
        snprintf(e->error, sizeof e->error, "%s", err.text);
        give_back(q, e);
        return;
    }
    atomic_store(&e->cached, ft_slot_stats(q->slot[i])->cached_n);
    atomic_store(&e->read, ft_slot_stats(q->slot[i])->cached_n);
    atomic_store(&e->slot, i);
    q->running[i] = e;
}

/* The first that waits, if there is room for it; nobody overtakes it. */
static ft_entry *next_in(ft_queue *q)
{
    pthread_mutex_lock(&q->lock);
    ft_entry *e = q->first;
    if (e) e = ft_engine_can_admit(q->e, &e->task) ? take_waiting(q, false) : NULL;
    pthread_mutex_unlock(&q->lock);
    return e;
}

static void admit_waiting(ft_queue *q)
{
    ft_entry *e;
    while ((e = take_cancelled(q))) {
        e->cancelled = true;
        e->finish = FT_FINISH_STOP;
        give_back(q, e);
    }
    while (any_idle(q) && (e = next_in(q))) start_entry(q, e);
}

/* The device has failed, and will go on failing: nobody waits for it in vain. */
static void give_up(ft_queue *q)
{
    ft_entry *e;
    do {
        pthread_mutex_lock(&q->lock);
        q->total.failed = true;
        e = take_waiting(q, false);
        pthread_mutex_unlock(&q->lock);
        if (!e) return;
        e->finish = FT_FINISH_ERROR;
        snprintf(e->error, sizeof e->error, "%s", ft_engine_fault(q->e));
        give_back(q, e);
    } while (true);
}

/* Ends the running entries that were cancelled. */
static void end_cancelled(ft_queue *q)
{
    for (int i = 0; i < q->slots; i++) {
        ft_entry *e = q->running[i];
        if (!e || !cancelled(q, e)) continue;
        e->cancelled = true;
        ft_slot_cancel(q->slot[i]);
        finish_entry(q, i);
    }
}

/* Pauses the entries whose reader is behind and resumes the others; false when none can run. */
static bool update_pauses(ft_queue *q)
{
    bool any = false;
    for (int i = 0; i < q->slots; i++) {
        ft_entry *e = q->running[i];
        if (!e) continue;
        const bool ready = e->ready(e);
        ft_slot_pause(q->slot[i], !ready);
        any |= ready;
    }
    return any;
}

static void round_done(ft_queue *q)
{
    for (int i = 0; i < q->slots; i++) {
        ft_entry *e = q->running[i];
        if (!e) continue;
        if (!ft_slot_busy(q->slot[i])) {
            finish_entry(q, i);
            continue;
        }
        const ft_slot *s = q->slot[i];
        if (!s->rows.n) continue;
        atomic_store(&e->read, FT_MIN(slot_len(s), s->task.n_prompt));
        e->round(e);
    }
}

static void run_calls(ft_queue *q)
{
    pthread_mutex_lock(&q->lock);
    for (call *c; (c = q->calls);) {
        q->calls = c->next;
        pthread_mutex_unlock(&q->lock);
        c->fn(c->user, q);
        pthread_mutex_lock(&q->lock);
        c->done = true;
        pthread_cond_broadcast(&q->changed);
    }
    pthread_mutex_unlock(&q->lock);
}

/* Waits until there is something to do; false when the thread shall end. */
static bool wait_for_work(ft_queue *q, bool can_go_on)
{
    pthread_mutex_lock(&q->lock);
    bool go = true;
    while (!can_go_on && !q->kicked && !q->calls) {
        if (q->stopping && !q->n_inside) {
            go = false;
            break;
        }
        pthread_cond_wait(&q->work, &q->lock);
    }
    q->kicked = false;
    pthread_mutex_unlock(&q->lock);
    return go;
}

static void timed_round(ft_queue *q)
{
    const int64_t start_entry = ft_now_ns();
    ft_engine_round(q->e);
    const double s = (double)(ft_now_ns() - start_entry) * 1e-9;
    int i = 0;
    while (i < FT_QUEUE_BUCKETS && s > (double)(1 << i) / 4096) i++;
    q->step_at[i]++;
    q->step_s += s;
}

static void *engine_thread(void *user)
{
    ft_queue *q = user;
    for (bool go = false; wait_for_work(q, go);) {
        run_calls(q);
        end_cancelled(q); /* before admit: what they paused is free for those that wait */
        admit_waiting(q);
        go = update_pauses(q);
        if (!go) continue;
        timed_round(q);
        round_done(q);
        if (ft_engine_fault(q->e)) give_up(q);
    }
    ft_engine_unshare(q->e);
    for (int i = 0; i < q->slots; i++) ft_slot_free(q->slot[i]);
    pthread_mutex_lock(&q->lock);
    q->slots = 0; /* others may have them now */
    q->ended = true;
    q->calls = NULL; /* whoever still waits helps himself */
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

/* ---- life ---- */

ft_status ft_queue_new(ft_queue **out, ft_engine *e, const ft_queue_limits *p, ft_err *err)
{
    if (p->waiting < 0 || p->waiting > 1 << 20)
        return ft_fail(err, FT_EINVAL, "%d requests may wait, want 0 to %d", p->waiting, 1 << 20);
    ft_queue *q = ft_new(ft_queue);
    q->e = e;
    q->p = *p;
    q->slots = e->p.slots;
    q->slot = ft_new_n(ft_slot *, (size_t)q->slots);
    q->running = ft_new_n(ft_entry *, (size_t)q->slots);
    q->idle_since = ft_new_n(int64_t, (size_t)q->slots);
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->work, NULL);
    pthread_cond_init(&q->changed, NULL);
    q->ended = true;
    ft_status st = FT_OK;
    for (int i = 0; i < q->slots && !st; i++)
        if (!(q->slot[i] = ft_slot_new(e)))
            st = ft_fail(err, FT_EINVAL,
                         "a session uses one of the %d slots, want all of them free", q->slots);
    ft_engine_limit_step(e, p->step_ms);
    if (!st) st = ft_engine_share(e, p->prefix_bytes, p->cache_dir, err);
    if (!st) {
        q->ended = false;
        if (pthread_create(&q->thread, NULL, engine_thread, q)) {
            q->ended = true;
            st = ft_fail(err, FT_EIO, "cannot start the engine thread");
        }
    }
    if (st) {
        ft_engine_unshare(e);
        for (int i = 0; i < q->slots; i++) ft_slot_free(q->slot[i]);
        ft_free(q->slot);
        ft_free(q->running);
        ft_free(q->idle_since);
        ft_free(q);
        return st;
    }
    *out = q;
    return FT_OK;
}

void ft_queue_stop(ft_queue *q, bool drain)
{
    pthread_mutex_lock(&q->lock);
    q->stopping = true;
    if (!drain) atomic_store(&q->hurry, true);
    q->kicked = true;
    pthread_cond_signal(&q->work);
    while (!q->ended) pthread_cond_wait(&q->changed, &q->lock);
    pthread_mutex_unlock(&q->lock);
}

bool ft_queue_stopped(ft_queue *q)
{
    pthread_mutex_lock(&q->lock);
    const bool ended = q->ended;
    pthread_mutex_unlock(&q->lock);
    return ended;
}

void ft_queue_free(ft_queue *q)
{
    if (!q) return;
    ft_queue_stop(q, false);
    pthread_join(q->thread, NULL);
    pthread_mutex_destroy(&q->lock);
    pthread_cond_destroy(&q->work);
    pthread_cond_destroy(&q->changed);
    ft_free(q->slot);
    ft_free(q->running);
    ft_free(q->idle_since);
    ft_free(q);
}

/* ---- other threads ---- */

ft_status ft_queue_put(ft_queue *q, ft_entry *e, ft_err *err)
{
    atomic_store(&e->slot, -1);
    e->next = NULL;
    e->t_put = ft_now_ns();
    ft_status st = FT_OK;
    pthread_mutex_lock(&q->lock);
    if (q->stopping) {
        st = ft_fail(err, FT_ECANCELLED, "the engine is stopping");
    } else if (q->total.failed) {
        st = ft_fail(err, FT_EDEVICE, "the device has failed");
    } else if (q->n_inside >= q->slots + q->p.waiting) {
        st = ft_fail(err, FT_EBUSY, "%d requests run or wait, want at most %d", q->n_inside,
                     q->slots + q->p.waiting);
    } else {
        e->id = ++q->next_id;
        if (q->last)
            q->last->next = e;
        else
            q->first = e;
        q->last = e;
        q->n_waiting++;
        q->n_inside++;
        q->kicked = true;
        pthread_cond_signal(&q->work);
    }
    pthread_mutex_unlock(&q->lock);
    return st;
}

void ft_queue_kick(ft_queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->kicked = true;
    pthread_cond_signal(&q->work);
    pthread_mutex_unlock(&q->lock);
}

void ft_queue_cancel(ft_queue *q, ft_entry *e)
{
    atomic_store(&e->cancel, true);
    ft_queue_kick(q);
}

int ft_queue_before(ft_queue *q, const ft_entry *e)
{
    int n = 0;
    pthread_mutex_lock(&q->lock);
    for (const ft_entry *i = q->first; i && i != e; i = i->next) n++;
    pthread_mutex_unlock(&q->lock);
    return n;
}

void ft_queue_call(ft_queue *q, void (*fn)(void *user, ft_queue *q), void *user)
{
    call c = {.fn = fn, .user = user};
    pthread_mutex_lock(&q->lock);
    if (!q->ended) {
        call **at = &q->calls;
        while (*at) at = &(*at)->next;
        *at = &c;
        q->kicked = true;
        pthread_cond_signal(&q->work);
        while (!c.done && !q->ended) pthread_cond_wait(&q->changed, &q->lock);
    }
    if (!c.done) fn(user, q); /* one at a time: the lock is paused */
    pthread_mutex_unlock(&q->lock);
}

int ft_queue_ctx(const ft_queue *q)
{
    return q->e->p.ctx;
}

ft_slot *ft_queue_slot(ft_queue *q, int i)
{
    return i >= 0 && i < q->slots ? q->slot[i] : NULL;
}

ft_entry *ft_queue_entry(ft_queue *q, int i)
{
    return q->running[i];
}

void ft_queue_counts(ft_queue *q, ft_queue_totals *out)
{
    pthread_mutex_lock(&q->lock);
    *out = q->total;
    out->waiting = q->n_waiting;
    out->busy = q->n_inside - q->n_waiting;
    pthread_mutex_unlock(&q->lock);
}
