/* The scheduler of engine/queue.c in every order of events: 2 slots, 3 requests, with submit,
 * cancel, finish, pause and resume, a call, a stop with and without drain, and a device failure,
 * each possible between any two stages of the engine thread.
 *
 * queue.c is compiled into this program over an engine that has no model. One thread plays all
 * threads: the state of everything lies in `w`, an event changes it, and a depth-first search
 * returns to a state by copying it back. States that were seen are not searched again. Condition
 * variables are replaced by flags, so that a thread which nobody signals is seen to sleep. */
#include "engine/queue.h"
#include "unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static void signal_threads(const pthread_cond_t *c);
static void must_not_sleep(void);

#define pthread_cond_signal(c)    signal_threads(c)
#define pthread_cond_broadcast(c) signal_threads(c)
#define pthread_cond_wait(c, l)   must_not_sleep()
#include "engine/queue.c"

enum { SLOTS = 2, REQUESTS = 3, PAUSES = 3, MAX_DEPTH = 4096, MAX_STATES = 1 << 23 };

typedef struct request {
    ft_entry entry; /* first */
    bool submitted, refused, behind;
    int done;
} request;

/* A thread in ft_queue_call or ft_queue_stop. */
typedef struct waiter {
    bool begun, asleep, returned;
} waiter;

typedef struct world {
    ft_queue q;
    ft_entry *running[SLOTS];
    bool paused[SLOTS];
    int64_t idle_since[SLOTS];
    ft_task *task[SLOTS]; /* that the slot works on; NULL: none */
    bool held[SLOTS], failed[SLOTS];
    request r[REQUESTS];
    stage at; /* of the engine thread */
    bool asleep;
    bool kick_due; /* a thread is between a change and the kick that announces it */
    int pauses;    /* so far */
    uint64_t last_started;
    call call;
    waiter caller, drainer, stopper;
    bool fault;
    int calls_run;
    int ends; /* what the next step does: a bit for each slot that ends, or FAILS */
} world;

enum { FAILS = 1 << SLOTS };
static world w, saved[MAX_DEPTH];
static bool big[REQUESTS]; /* no pages for it beside others, unless these are paused */
static ft_slot slot[SLOTS];
static ft_slot *slots[SLOTS] = {&slot[0], &slot[1]};
static ft_engine engine;

/* ---- what went wrong, and how it came to that ---- */

static const char *event_name(int event);
static int trace[MAX_DEPTH], depth;

static void broken(const char *what)
{
    for (int i = 0; i <= depth; i++) print_message("%s\n", event_name(trace[i]));
    fail_msg("%s", what);
}

static void require(bool ok, const char *what)
{
    if (!ok) broken(what);
}

static void signal_threads(const pthread_cond_t *c)
{
    if (c == &w.q.work)
        w.asleep = false;
    else
        w.caller.asleep = w.drainer.asleep = w.stopper.asleep = false;
}

static void must_not_sleep(void)
{
    broken("a stage other than the first sleeps");
}

/* ---- an engine without a model ---- */

static int slot_of(const ft_slot *l)
{
    return (int)(l - slot);
}

static request *request_of(const ft_task *t)
{
    for (int i = 0; i < REQUESTS; i++)
        if (&w.r[i].entry.task == t) return &w.r[i];
    return NULL;
}

int64_t ft_now_ns(void)
{
    return 0; /* time is no part of the state */
}

bool ft_engine_can_admit(const ft_engine *e, const ft_task *t)
{
    (void)e;
    for (int i = 0; i < SLOTS; i++) {
        if (!w.task[i] || w.held[i]) continue;
        if (big[request_of(w.task[i]) - w.r] || big[request_of(t) - w.r]) return false;
    }
    return true;
}

ft_status ft_slot_start(ft_slot *l, const ft_task *t, ft_err *err)
{
    request *r = request_of(t);
    (void)err;
    require(!w.task[slot_of(l)], "a slot that is in use is started");
    require(r->entry.id > w.last_started, "a request overtakes an earlier one");
    w.last_started = r->entry.id;
    w.task[slot_of(l)] = &r->entry.task;
    w.failed[slot_of(l)] = w.held[slot_of(l)] = false;
    return FT_OK;
}

bool ft_engine_step(ft_engine *e)
{
    bool any = false;
    (void)e;
    for (int i = 0; i < SLOTS; i++) any |= w.task[i] && !w.held[i];
    require(any, "a step without a slot that can run");
    w.fault |= w.ends == FAILS;
    for (int i = 0; i < SLOTS; i++) {
        if (!w.task[i]) continue;
        w.failed[i] = w.fault;
        if (w.fault || (!w.held[i] && w.ends >> i & 1)) w.task[i] = NULL;
    }
    return true;
}

bool ft_slot_busy(const ft_slot *l)
{
    return w.task[slot_of(l)] != NULL;
}

void ft_slot_cancel(ft_slot *l)
{
    w.task[slot_of(l)] = NULL;
}

void ft_slot_pause(ft_slot *l, bool hold)
{
    w.held[slot_of(l)] = hold;
}

ft_finish ft_slot_finish(const ft_slot *l)
{
    return w.failed[slot_of(l)] ? FT_FINISH_ERROR : FT_FINISH_EOG;
}

const char *ft_engine_fault(const ft_engine *e)
{
    (void)e;
    return w.fault ? "the device has failed" : NULL;
}

ft_device_time ft_engine_device_time(const ft_engine *e)
{
    (void)e;
    return (ft_device_time){0};
}

const char *ft_slot_error(const ft_slot *l)
{
    (void)l;
    return "";
}

const ft_stats *ft_slot_stats(const ft_slot *l)
{
    static const ft_stats none;
    (void)l;
    return &none;
}

int ft_slot_match(const ft_slot *l, const ft_task *t)
{
    (void)l, (void)t;
    return 0;
}

ft_slot *ft_slot_new(ft_engine *e)
{
    (void)e;
    return NULL;
}

void ft_slot_free(ft_slot *l)
{
    require(!w.task[slot_of(l)], "a slot that is in use is freed");
}

ft_status ft_engine_share(ft_engine *e, uint64_t bytes, const char *dir, ft_err *err)
{
    (void)e, (void)bytes, (void)dir, (void)err;
    return FT_OK;
}

void ft_engine_unshare(ft_engine *e)
{
    (void)e;
}

void ft_engine_limit_step(ft_engine *e, double ms)
{
    (void)e, (void)ms;
}

int ft_cache_all_pages(const ft_cache *c)
{
    (void)c;
    return 0;
}

int ft_cache_free_pages(const ft_cache *c)
{
    (void)c;
    return 0;
}

int ft_seq_pages(const ft_seq *s)
{
    (void)s;
    return 0;
}

int ft_seq_len(const ft_seq *s)
{
    (void)s;
    return 0;
}

void ft_prefix_count(const ft_prefix *p, ft_prefix_counts *out)
{
    (void)p, (void)out;
}

/* ---- requests ---- */

static bool reader_ready(ft_entry *e)
{
    return !((request *)(void *)e)->behind;
}

static void after_step(ft_entry *e)
{
    (void)e;
}

static void request_done(ft_entry *e)
{
    request *r = (request *)(void *)e;
    require(r->submitted && !r->refused, "a request that the queue does not have is done");
    require(++r->done == 1, "a request is done twice");
    require(!e->cancelled || cancelled(&w.q, e), "a request that nobody cancelled was cancelled");
}

static void count_call(void *user, ft_queue *q)
{
    (void)user, (void)q;
    w.calls_run++;
}

/* ---- events ---- */

enum {
    ENGINE,               /* the engine thread runs its next stage; with STAGE_STEP: */
    ENGINE_ENDS,          /* a step after which slots 0, 1, or both are at their end, */
    ENGINE_FAILS = FAILS, /* or on which the device fails */
    KICK,                 /* the second half of a cancel or a resume */
    CALL,
    DRAIN,
    STOP,
    SUBMIT,
    CANCEL = SUBMIT + REQUESTS,
    PAUSE = CANCEL + REQUESTS,
    RESUME = PAUSE + REQUESTS,
    EVENTS = RESUME + REQUESTS,
};

static const char *event_name(int event)
{
    static const char *const one[] = {"engine",
                                      "engine, slot 0 ends",
                                      "engine, slot 1 ends",
                                      "engine, both slots end",
                                      "engine, the device fails",
                                      "kick",
                                      "call",
                                      "drain",
                                      "stop"};
    static const char *const of[] = {"submit", "cancel", "pause", "resume"};
    static char text[40];
    if (event < SUBMIT) return one[event];
    snprintf(text, sizeof text, "%s %d", of[(event - SUBMIT) / REQUESTS],
             (event - SUBMIT) % REQUESTS);
    return text;
}

static bool inside(const request *r)
{
    return r->submitted && !r->refused && !r->done;
}

static bool runs(const request *r)
{
    return w.running[0] == &r->entry || w.running[1] == &r->entry;
}

static bool request_may(int what, const request *r)
{
    switch (what) {
    case SUBMIT: return !r->submitted && (r == w.r || r[-1].submitted);
    case CANCEL: return inside(r) && !atomic_load(&r->entry.cancel);
    case PAUSE: return runs(r) && !r->behind && w.pauses < PAUSES;
    default: return runs(r) && r->behind;
    }
}

/* A slot can end in this step. */
static bool can_end(int i)
{
    return w.at == STAGE_STEP && w.task[i] && !w.held[i];
}

static bool possible(int event)
{
    switch (event) {
    case ENGINE: return w.at != STAGE_END && !(w.at == STAGE_WAIT && w.asleep);
    case ENGINE_ENDS: return can_end(0);
    case ENGINE_ENDS + 1: return can_end(1);
    case ENGINE_ENDS + 2: return can_end(0) && can_end(1);
    case ENGINE_FAILS: return w.at == STAGE_STEP;
    case KICK: return w.kick_due;
    case CALL: return !w.caller.begun;
    case DRAIN: return !w.drainer.begun;
    case STOP: return !w.stopper.begun;
    default: break;
    }
    const int i = (event - SUBMIT) % REQUESTS;
    return request_may(event - i, &w.r[i]);
}

static void engine_runs(void)
{
    if (w.at == STAGE_WAIT) {
        pthread_mutex_lock(&w.q.lock);
        w.at = after_wait(&w.q);
        w.asleep = w.at == STAGE_WAIT;
        pthread_mutex_unlock(&w.q.lock);
    } else {
        w.at = advance(&w.q, w.at);
    }
    if (w.at == STAGE_END) end_thread(&w.q);
}

/* A thread that was signalled looks whether what it waits for is over. */
static void wakes(waiter *t, bool over)
{
    if (!t->begun || t->asleep || t->returned) return;
    t->returned = over;
    t->asleep = !over;
}

static void submit(request *r)
{
    ft_err err;
    r->submitted = true;
    r->entry.wish = -1;
    r->entry.ready = reader_ready;
    r->entry.stepped = after_step;
    r->entry.done = request_done;
    r->refused = ft_queue_put(&w.q, &r->entry, &err) != FT_OK;
    require(!r->refused || w.q.stopping || w.q.total.failed, "a request is refused for no reason");
}

static void request_does(int what, request *r)
{
    if (what == SUBMIT) submit(r);
    if (what == PAUSE) r->behind = ++w.pauses;
    if (what == RESUME) r->behind = false;
    if (what == CANCEL) atomic_store(&r->entry.cancel, true);
    w.kick_due |= what == CANCEL || what == RESUME;
}

static void happen(int event)
{
    ft_queue *q = &w.q;
    const int i = (event - SUBMIT) % REQUESTS;
    w.ends = event <= ENGINE_FAILS ? event : 0;
    if (event >= SUBMIT)
        request_does(event - i, &w.r[i]);
    else if (event <= ENGINE_FAILS)
        engine_runs();
    else if (event == KICK)
        ft_queue_kick(q);
    w.kick_due &= event != KICK;
    pthread_mutex_lock(&q->lock);
    if (event == CALL) {
        w.call = (call){.fn = count_call};
        w.caller.begun = true;
        begin_call(q, &w.call);
    }
    if (event == DRAIN || event == STOP) begin_stop(q, event == DRAIN);
    w.drainer.begun |= event == DRAIN;
    w.stopper.begun |= event == STOP;
    if (!w.caller.asleep && w.caller.begun) wakes(&w.caller, call_over(q, &w.call));
    wakes(&w.drainer, q->ended);
    wakes(&w.stopper, q->ended);
    pthread_mutex_unlock(&q->lock);
}

/* ---- what holds in every state ---- */

/* Nobody is about to wake the engine thread: then there is nothing that it could do. */
static void check_asleep(void)
{
    const ft_queue *q = &w.q;
    const bool idle = !w.running[0] || !w.running[1];
    require(!q->calls, "asleep with a call pending");
    require(!q->stopping || q->n_inside, "asleep although the stop could be completed");
    require(!q->first || !idle || !ft_engine_can_admit(q->e, &q->first->task),
            "asleep although a waiting request could start");
    for (int i = 0; i < REQUESTS; i++)
        require(!inside(&w.r[i]) || !cancelled(q, &w.r[i].entry),
                "asleep with a cancelled request");
    for (int i = 0; i < SLOTS; i++)
        require(!w.running[i] || !w.running[i]->ready(w.running[i]),
                "asleep although a request could run");
}

static void check_waiter(const waiter *t, bool over)
{
    require(!t->begun || !t->asleep || !over, "a thread sleeps although what it waits for is over");
}

static void check(void)
{
    const ft_queue *q = &w.q;
    int n = 0, busy = 0, live = 0;
    for (const ft_entry *e = q->first; e; e = e->next, n++)
        require(e->next ? e->id < e->next->id : e == q->last, "the waiting list is out of order");
    for (int i = 0; i < SLOTS; i++) busy += w.running[i] != NULL;
    for (int i = 0; i < REQUESTS; i++) live += inside(&w.r[i]);
    require(n == q->n_waiting && n + busy == q->n_inside && live == q->n_inside,
            "requests are counted wrongly");
    if (w.at == STAGE_WAIT && w.asleep && !w.kick_due) check_asleep();
    if (w.at == STAGE_END) require(!live && q->ended, "ended before every request is done");
    check_waiter(&w.caller, w.call.done || q->ended);
    check_waiter(&w.drainer, q->ended);
    check_waiter(&w.stopper, q->ended);
    require(w.calls_run == (w.caller.begun && w.call.done), "a call ran not once");
}

/* ---- the search ---- */

/* Everything that a decision depends on; counters, times and texts are left out. */
static size_t describe(uint8_t *out)
{
    const ft_queue *q = &w.q;
    uint8_t *p = out;
    *p++ = (uint8_t)w.at;
    *p++ = (uint8_t)(w.kick_due | w.pauses << 1);
    *p++ = (uint8_t)(w.asleep | q->kicked << 1 | q->stopping << 2 | q->ended << 3 | w.fault << 5 |
                     q->total.failed << 6 | (int)atomic_load(&q->hurry) << 7);
    const waiter *t[] = {&w.caller, &w.drainer, &w.stopper};
    for (size_t i = 0; i < FT_COUNT(t); i++)
        *p++ = (uint8_t)(t[i]->begun | t[i]->asleep << 1 | t[i]->returned << 2);
    *p++ = (uint8_t)((q->calls != NULL) | w.call.done << 1);
    for (int i = 0; i < SLOTS; i++) {
        *p++ = (uint8_t)(w.running[i] ? (request *)(void *)w.running[i] - w.r + 1 : 0);
        *p++ = (uint8_t)(w.task[i] ? request_of(w.task[i]) - w.r + 1 : 0);
        *p++ = (uint8_t)(w.held[i] | w.failed[i] << 1 | (w.running[i] && w.paused[i]) << 2);
    }
    for (const ft_entry *e = q->first; e; e = e->next)
        *p++ = (uint8_t)((const request *)(const void *)e - w.r + 1);
    for (int i = 0; i < REQUESTS; i++) {
        const request *r = &w.r[i];
        const bool in = inside(r);
        *p++ = (uint8_t)(r->submitted | in << 1 | (in && atomic_load(&r->entry.cancel)) << 2 |
                         (in && r->behind) << 3);
    }
    return (size_t)(p - out);
}

static XXH128_hash_t *seen; /* open addressing; {0, 0}: free */
static int n_seen, most;

static bool is_new(void)
{
    uint8_t text[64];
    const XXH128_hash_t h = XXH3_128bits(text, describe(text));
    for (size_t i = (size_t)h.low64 % MAX_STATES;; i = (i + 1) % MAX_STATES) {
        if (XXH128_isEqual(seen[i], h)) return false;
        if (seen[i].low64 || seen[i].high64) continue;
        seen[i] = h;
        assert_true(++n_seen < MAX_STATES / 2);
        return true;
    }
}

/* Every event from here, then every event from there. */
static void explore(void)
{
    require(depth + 1 < MAX_DEPTH, "the search is too deep");
    most = FT_MAX(most, depth);
    memcpy(&saved[depth], &w, sizeof w);
    for (int event = 0; event < EVENTS; event++) {
        if (!possible(event)) continue;
        trace[depth] = event;
        happen(event);
        check();
        if (is_new()) {
            depth++;
            explore();
            depth--;
        }
        memcpy(&w, &saved[depth], sizeof w);
    }
}

static void begin(void)
{
    memset(&w, 0, sizeof w);
    w.q = (ft_queue){.e = &engine,
                     .p.waiting = REQUESTS,
                     .slots = SLOTS,
                     .slot = slots,
                     .running = w.running,
                     .paused = w.paused,
                     .idle_since = w.idle_since};
    pthread_mutex_init(&w.q.lock, NULL);
    seen = calloc(MAX_STATES, sizeof *seen);
    assert_non_null(seen);
    n_seen = most = depth = 0;
}

static void search(const char *name)
{
    begin();
    explore();
    print_message("%s: %d states, %d events deep\n", name, n_seen, most);
    assert_true(n_seen > 10000); /* the search did take place */
    free(seen);
}

static void every_order(void **state)
{
    (void)state;
    search("requests that fit beside each other");
}

static void every_order_big(void **state)
{
    (void)state;
    big[1] = true;
    search("one that runs only alone");
    big[1] = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_order),
        cmocka_unit_test(every_order_big),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
