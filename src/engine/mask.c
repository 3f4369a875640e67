/* engine/mask.c - computes token masks beside the engine thread.
 *
 * The mask of a costly grammar takes tens of milliseconds. While other sequences are busy, it is
 * computed on a thread of its slot. The engine waits for it for a short time; if it is not ready
 * then, the sequence takes no part in steps until it is (verify.c copies the logits that wait for
 * it). A token depends on its logits and its mask, not on when the mask was ready.
 *
 * A constraint and its clones are used by one thread at a time: while ft_mask_busy returns true,
 * the engine thread does not touch those of the slot. */
#define _POSIX_C_SOURCE 200809L
#include "base/clock.h"
#include "base/mem.h"
#include "engine/slot.h"

#include <pthread.h>
#include <time.h>

enum { SLEEP_NS = 10000000 }; /* with all sequences waiting, how soon the engine looks around */

typedef enum phase { MASK_NONE, MASK_RUNNING, MASK_READY } phase;

struct ft_mask_thread {
    ft_slot *s;
    pthread_t thread;
    pthread_cond_t todo;
    /* under the lock */
    phase phase;
    void *state; /* the constraint whose mask it computes, */
    int at;      /* and the number of tokens that it has read */
    bool some;   /* what `allow` returned */
    bool quit;
};

struct ft_masks {
    pthread_mutex_t lock;
    pthread_cond_t done; /* a mask is ready */
};

ft_masks *ft_masks_new(void)
{
    ft_masks *m = ft_new(ft_masks);
    pthread_condattr_t a;
    pthread_mutex_init(&m->lock, NULL);
    pthread_condattr_init(&a);
    pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    pthread_cond_init(&m->done, &a);
    pthread_condattr_destroy(&a);
    return m;
}

void ft_masks_free(ft_masks *m)
{
    if (!m) return;
    pthread_mutex_destroy(&m->lock);
    pthread_cond_destroy(&m->done);
    ft_free(m);
}

/* ---- the thread of a slot ---- */

static void *run_masks(void *user)
{
    ft_mask_thread *t = user;
    ft_masks *m = t->s->e->masks;
    pthread_mutex_lock(&m->lock);
    while (!t->quit) {
        if (t->phase != MASK_RUNNING) {
            pthread_cond_wait(&t->todo, &m->lock);
            continue;
        }
        pthread_mutex_unlock(&m->lock);
        const bool some = t->s->task.mask.allow(t->state, t->s->bits, t->s->e->m->V);
        pthread_mutex_lock(&m->lock);
        t->some = some;
        t->phase = MASK_READY;
        pthread_cond_broadcast(&m->done);
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

/* The thread of the slot; NULL: none could be started. */
static ft_mask_thread *thread_of(ft_slot *s)
{
    if (s->mask_thread) return s->mask_thread;
    ft_mask_thread *t = ft_new(ft_mask_thread);
    t->s = s;
    pthread_cond_init(&t->todo, NULL);
    if (!pthread_create(&t->thread, NULL, run_masks, t)) return s->mask_thread = t;
    pthread_cond_destroy(&t->todo);
    ft_free(t);
    return NULL;
}

/* Waits until the slot's mask is ready, or until then; 0: however long it takes. */
static bool wait_ready(ft_slot *s, int64_t until_ns)
{
    ft_masks *m = s->e->masks;
    const ft_mask_thread *t = s->mask_thread;
    const struct timespec until = {until_ns / 1000000000, until_ns % 1000000000};
    const int64_t start = ft_now_ns();
    bool in_time = true;
    pthread_mutex_lock(&m->lock);
    while (t->phase == MASK_RUNNING && in_time) {
        if (until_ns)
            in_time = !pthread_cond_timedwait(&m->done, &m->lock, &until);
        else
            pthread_cond_wait(&m->done, &m->lock);
    }
    const bool ready = t->phase != MASK_RUNNING;
    pthread_mutex_unlock(&m->lock);
    s->e->mask_wait_ns += ft_now_ns() - start;
    return ready;
}

/* ---- the engine thread ---- */

/* Nobody is delayed by a mask that is computed here. */
static bool alone(const ft_slot *s)
{
    const ft_engine *e = s->e;
    if (e->prefill.limit_s <= 0) return true;
    for (int i = 0; i < e->p.slots; i++)
        if (&e->slot[i] != s && e->slot[i].state >= SLOT_PREFILL) return false;
    return true;
}

/* Whether the thread computes the mask of the task's own constraint here, or has done so. A clone
 * may have read other draft tokens since. */
static bool holds(const ft_slot *s, const void *state)
{
    const ft_mask_thread *t = s->mask_thread;
    if (!t || state != s->task.mask.user) return false;
    pthread_mutex_lock(&s->e->masks->lock);
    const bool same = t->phase != MASK_NONE && t->state == state && t->at == s->n_ids;
    pthread_mutex_unlock(&s->e->masks->lock);
    return same;
}

static bool start(ft_slot *s, void *state)
{
    ft_mask_thread *t = thread_of(s);
    if (!t) return false;
    pthread_mutex_lock(&s->e->masks->lock);
    t->state = state;
    t->at = s->n_ids;
    t->phase = MASK_RUNNING;
    pthread_cond_signal(&t->todo);
    pthread_mutex_unlock(&s->e->masks->lock);
    return true;
}

static void forget(ft_slot *s)
{
    pthread_mutex_lock(&s->e->masks->lock);
    s->mask_thread->phase = MASK_NONE;
    pthread_mutex_unlock(&s->e->masks->lock);
}

bool ft_mask_busy(const ft_slot *s)
{
    if (!s->mask_thread) return false;
    pthread_mutex_lock(&s->e->masks->lock);
    const bool busy = s->mask_thread->phase == MASK_RUNNING;
    pthread_mutex_unlock(&s->e->masks->lock);
    return busy;
}

bool ft_mask_known(const ft_slot *s)
{
    return holds(s, s->task.mask.user) && !ft_mask_busy(s);
}

static bool quick(const ft_slot *s, void *state)
{
    const ft_mask *k = &s->task.mask;
    return k->quick && !ft_mask_busy(s) && k->quick(state);
}

bool ft_mask_find(ft_slot *s, void *state, bool *some)
{
    const bool begun = holds(s, state);
    if (!begun && (alone(s) || quick(s, state) || !start(s, state))) {
        *some = s->task.mask.allow(state, s->bits, s->e->m->V);
        return true;
    }
    if (!wait_ready(s, alone(s) ? 0 : s->e->mask_until_ns)) return false;
    *some = s->mask_thread->some;
    forget(s);
    return true;
}

void ft_mask_limit(ft_engine *e, double seconds)
{
    e->mask_until_ns = ft_now_ns() + (int64_t)(FT_MIN(seconds, e->prefill.limit_s / 2) * 1e9);
}

void ft_mask_wait_any(const ft_engine *e)
{
    const int64_t until_ns = ft_now_ns() + SLEEP_NS;
    const struct timespec until = {until_ns / 1000000000, until_ns % 1000000000};
    pthread_mutex_lock(&e->masks->lock);
    bool running = false;
    for (int i = 0; i < e->p.slots; i++) {
        const ft_slot *s = &e->slot[i];
        if (!s->held.on) continue;
        running = s->mask_thread->phase == MASK_RUNNING;
        if (!running) break;
    }
    if (running) pthread_cond_timedwait(&e->masks->done, &e->masks->lock, &until);
    pthread_mutex_unlock(&e->masks->lock);
}

void ft_mask_drop(ft_slot *s)
{
    if (!s->mask_thread) return;
    if (ft_mask_busy(s) && s->task.mask.stop) s->task.mask.stop(s->mask_thread->state);
    wait_ready(s, 0);
    forget(s);
}

void ft_mask_thread_free(ft_slot *s)
{
    ft_mask_thread *t = s->mask_thread;
    if (!t) return;
    ft_mask_drop(s);
    pthread_mutex_lock(&s->e->masks->lock);
    t->quit = true;
    pthread_cond_signal(&t->todo);
    pthread_mutex_unlock(&s->e->masks->lock);
    pthread_join(t->thread, NULL);
    pthread_cond_destroy(&t->todo);
    ft_free(t);
    s->mask_thread = NULL;
}
