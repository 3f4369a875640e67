/* engine/queue.c - the scheduler: which request runs on which slot, and when the engine thread
 * sleeps. tests/unit/queue_states.c checks what is said here in every order of events.
 *
 * A request (ft_entry) is in one of these states:
 *
 *     waiting   in the list first..last; entry->slot is -1
 *     running   running[i] points to it; its slot i takes part in steps
 *     paused    running, but ready() returned false: its slot takes no part until ready() is true
 *     done      done() was called, exactly once; the queue no longer knows it
 *
 *     put -> waiting -> running <-> paused        cancel, stop without drain: any state -> done
 *                          |                      device failure: any state -> done
 *                          +-> done
 *
 * The engine thread repeats the stages of `stage`, each of which decides one thing:
 *
 *     WAIT -> CALLS -> CANCEL -> PAUSE -> ADMIT -+-> STEP -> CALLS     a slot can run
 *      ^                                         +-> WAIT              none can
 *      +-> END   stopping, and no request is left
 *
 * ADMIT comes last, because ending a request makes its slot and its pages free, and pausing one its
 * pages (engine/preempt.c): in another order the thread would sleep although a request could start.
 *
 * Wake-ups. WAIT sleeps on `work` unless `kicked` is set or a call is pending. Everything that can
 * give the thread something to do sets `kicked` under the lock and signals `work`: put, cancel,
 * kick (a reader caught up), call, stop. `kicked` is cleared when the thread leaves WAIT, that is
 * before it looks at anything, so that a change made while it looks is seen in the next pass.
 * Other threads sleep on `changed`: in call until the call has run, in stop until the thread has
 * ended; both are broadcast. */
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
    bool *paused;        /* [slots]: its reader was behind when it was last looked at */
    int64_t *idle_since; /* [slots] */

    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work;    /* for the engine thread */
    pthread_cond_t changed; /* for those who wait for it */
    atomic_bool hurry;      /* everything is cancelled */
    /* all under the lock */
    ft_entry *first, *last; /* that wait */
    ft_entry *inside;       /* all that wait or run */
    int n_waiting, n_inside;
    call *calls;
    uint64_t next_id;
    bool kicked, stopping, ended;
    ft_queue_totals total; /* of entries that are done */

    uint64_t step_at[FT_QUEUE_BUCKETS + 1]; /* the engine thread alone */
    double step_s;
};

/* The stages of the engine thread; the top of this file says which follows which. */
typedef enum stage {
    STAGE_WAIT,   /* sleep until there is something to do */
    STAGE_CALLS,  /* run what other threads asked for, one call at a time */
    STAGE_CANCEL, /* end what was cancelled, one request at a time */
    STAGE_PAUSE,  /* pause requests whose reader is behind, resume the others */
    STAGE_ADMIT,  /* start what waits, one request at a time, in the order of arrival */
    STAGE_STEP,   /* one step of the engine, then report it */
    STAGE_END,
} stage;

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

/* Copies what only the engine thread may read to where ft_queue_counts finds it. */
static void publish(ft_queue *q)
{
    ft_prefix_counts n = {0};
    if (q->e->prefix) ft_prefix_count(q->e->prefix, &n);
    pthread_mutex_lock(&q->lock);
    ft_queue_totals *t = &q->total;
    t->prefix_bytes = n.bytes;
    t->prefix_entries = n.points;
    t->prefix_state = n.state;
    t->prefix_hits = q->e->reuse_hits;
    t->prefix_misses = q->e->reuse_misses;
    t->pages = (uint64_t)ft_cache_all_pages(q->e->cache);
    t->pages_free = (uint64_t)ft_cache_free_pages(q->e->cache);
    t->pages_cached = 0;
    for (int i = 0; i < q->slots; i++)
        if (!q->running[i]) t->pages_cached += (uint64_t)ft_seq_pages(q->slot[i]->seq);
    t->steps = q->e->steps;
    t->preempted = q->e->preempted;
    memcpy(t->step_at, q->step_at, sizeof t->step_at);
    t->step_s = q->step_s;
    const ft_device_time time = ft_engine_device_time(q->e);
    t->run_s = time.run_s;
    t->device_s = time.busy_s;
    pthread_mutex_unlock(&q->lock);
}

/* Under the lock. */
static void enter(ft_queue *q, ft_entry *e)
{
    e->inside_prev = NULL;
    e->inside_next = q->inside;
    if (q->inside) q->inside->inside_prev = e;
    q->inside = e;
    q->n_inside++;
}

/* Under the lock. */
static void leave(ft_queue *q, ft_entry *e)
{
    if (e->inside_prev)
        e->inside_prev->inside_next = e->inside_next;
    else
        q->inside = e->inside_next;
    if (e->inside_next) e->inside_next->inside_prev = e->inside_prev;
    q->n_inside--;
}

/* The entry is its owner's again. */
static void give_back(ft_queue *q, ft_entry *e)
{
    publish(q);
    pthread_mutex_lock(&q->lock);
    leave(q, e);
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

/* Pauses the slot if its reader is behind, else resumes it. */
static void update_pause(ft_queue *q, int i)
{
    q->paused[i] = !q->running[i]->ready(q->running[i]);
    ft_slot_pause(q->slot[i], q->paused[i]);
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
    update_pause(q, i);
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

/* Starts the first that waits; false when none can start. */
static bool admit_one(ft_queue *q)
{
    ft_entry *e = any_idle(q) ? next_in(q) : NULL;
    if (e) start_entry(q, e);
    return e != NULL;
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

/* Ends a cancelled entry, one that runs or one that waits; false when there is none. */
static bool end_one_cancelled(ft_queue *q)
{
    for (int i = 0; i < q->slots; i++) {
        ft_entry *e = q->running[i];
        if (!e || !cancelled(q, e)) continue;
        e->cancelled = true;
        ft_slot_cancel(q->slot[i]);
        finish_entry(q, i);
        return true;
    }
    ft_entry *e = take_cancelled(q);
    if (!e) return false;
    e->cancelled = true;
    e->finish = FT_FINISH_STOP;
    give_back(q, e);
    return true;
}

static void update_pauses(ft_queue *q)
{
    for (int i = 0; i < q->slots; i++)
        if (q->running[i]) update_pause(q, i);
}

static bool any_can_run(const ft_queue *q)
{
    for (int i = 0; i < q->slots; i++)
        if (q->running[i] && !q->paused[i]) return true;
    return false;
}

static void step_done(ft_queue *q)
{
    for (int i = 0; i < q->slots; i++) {
        ft_entry *e = q->running[i];
        if (!e) continue;
        if (!ft_slot_busy(q->slot[i])) {
            finish_entry(q, i);
            continue;
        }
        const ft_slot *s = q->slot[i];
        if (!s->rows.n && !s->held.sampled) continue;
        atomic_store(&e->read, FT_MIN(slot_len(s), s->task.n_prompt));
        e->stepped(e);
    }
}

/* Runs the oldest call of another thread; false when there is none. */
static bool run_one_call(ft_queue *q)
{
    pthread_mutex_lock(&q->lock);
    call *c = q->calls;
    if (c) q->calls = c->next;
    pthread_mutex_unlock(&q->lock);
    if (!c) return false;
    c->fn(c->user, q);
    pthread_mutex_lock(&q->lock);
    c->done = true;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    return true;
}

/* Under the lock: where a waiting thread goes next; STAGE_WAIT: it sleeps on. */
static stage after_wait(ft_queue *q)
{
    if (q->kicked || q->calls) {
        q->kicked = false;
        return STAGE_CALLS;
    }
    return q->stopping && !q->n_inside ? STAGE_END : STAGE_WAIT;
}

static stage wait_for_work(ft_queue *q)
{
    stage next;
    pthread_mutex_lock(&q->lock);
    while ((next = after_wait(q)) == STAGE_WAIT) pthread_cond_wait(&q->work, &q->lock);
    pthread_mutex_unlock(&q->lock);
    return next;
}

static void timed_step(ft_queue *q)
{
    const int64_t start_entry = ft_now_ns();
    ft_engine_step(q->e);
    const double s = (double)(ft_now_ns() - start_entry) * 1e-9;
    int i = 0;
    while (i < FT_QUEUE_BUCKETS && s > (double)(1 << i) / 4096) i++;
    q->step_at[i]++;
    q->step_s += s;
}

static void step(ft_queue *q)
{
    timed_step(q);
    step_done(q);
    if (ft_engine_fault(q->e)) give_up(q);
}

/* Runs one stage and returns the next. STAGE_WAIT is the only one that sleeps. */
static stage advance(ft_queue *q, stage s)
{
    switch (s) {
    case STAGE_WAIT: return wait_for_work(q);
    case STAGE_CALLS: return run_one_call(q) ? STAGE_CALLS : STAGE_CANCEL;
    case STAGE_CANCEL: return end_one_cancelled(q) ? STAGE_CANCEL : STAGE_PAUSE;
    case STAGE_PAUSE: update_pauses(q); return STAGE_ADMIT;
    case STAGE_ADMIT:
        if (admit_one(q)) return STAGE_ADMIT;
        return any_can_run(q) ? STAGE_STEP : STAGE_WAIT;
    case STAGE_STEP: step(q); return STAGE_CALLS;
    case STAGE_END: break;
    }
    return STAGE_END;
}

static void end_thread(ft_queue *q)
{
    ft_engine_unshare(q->e);
    for (int i = 0; i < q->slots; i++) ft_slot_free(q->slot[i]);
    pthread_mutex_lock(&q->lock);
    q->slots = 0; /* others may have them now */
    q->ended = true;
    q->calls = NULL; /* their threads run them: call_over */
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

static void *engine_thread(void *user)
{
    ft_queue *q = user;
    for (stage s = STAGE_WAIT; s != STAGE_END;) s = advance(q, s);
    end_thread(q);
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
    q->paused = ft_new_n(bool, (size_t)q->slots);
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
        ft_free(q->paused);
        ft_free(q->idle_since);
        ft_free(q);
        return st;
    }
    *out = q;
    return FT_OK;
}

/* Under the lock: the engine thread has something to look at. */
static void kick(ft_queue *q)
{
    q->kicked = true;
    pthread_cond_signal(&q->work);
}

/* Under the lock. */
static void begin_stop(ft_queue *q, bool drain)
{
    q->stopping = true;
    if (!drain) atomic_store(&q->hurry, true);
    kick(q);
}

void ft_queue_stop(ft_queue *q, bool drain)
{
    pthread_mutex_lock(&q->lock);
    begin_stop(q, drain);
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
    ft_free(q->paused);
    ft_free(q->idle_since);
    ft_free(q);
}

/* ---- other threads ---- */

/* Under the lock: whether there is a place for one more. */
static ft_status has_place(const ft_queue *q, const ft_entry *e, ft_err *err)
{
    const int places = q->slots + q->p.waiting;
    int same = 0;
    if (e->continues) return FT_OK;
    if (q->n_inside >= places)
        return ft_fail(err, FT_EBUSY, "%d requests run or wait, want at most %d", q->n_inside,
                       places);
    if (!e->client || q->p.per_client <= 0) return FT_OK;
    for (const ft_entry *i = q->inside; i; i = i->inside_next) same += i->client == e->client;
    if (same < q->p.per_client) return FT_OK;
    return ft_fail(err, FT_EBUSY, "%d requests of this client run or wait, want at most %d", same,
                   q->p.per_client);
}

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
    } else if (!(st = has_place(q, e, err))) {
        e->id = ++q->next_id;
        if (q->last)
            q->last->next = e;
        else
            q->first = e;
        q->last = e;
        q->n_waiting++;
        enter(q, e);
        kick(q);
    }
    pthread_mutex_unlock(&q->lock);
    return st;
}

void ft_queue_kick(ft_queue *q)
{
    pthread_mutex_lock(&q->lock);
    kick(q);
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

/* Under the lock. */
static void begin_call(ft_queue *q, call *c)
{
    if (q->ended) return;
    call **at = &q->calls;
    while (*at) at = &(*at)->next;
    *at = c;
    kick(q);
}

/* Under the lock: whether the call has run. Where the engine thread has ended, it runs here: one at
 * a time, because the lock is paused. */
static bool call_over(ft_queue *q, call *c)
{
    if (!c->done && q->ended) {
        c->fn(c->user, q);
        c->done = true;
    }
    return c->done;
}

void ft_queue_call(ft_queue *q, void (*fn)(void *user, ft_queue *q), void *user)
{
    call c = {.fn = fn, .user = user};
    pthread_mutex_lock(&q->lock);
    begin_call(q, &c);
    while (!call_over(q, &c)) pthread_cond_wait(&q->changed, &q->lock);
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
