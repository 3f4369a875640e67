/* tests/invariants/queue.c - many responses through the queue: each has the ids it has alone, while
 * others run, wait, are paused or are cancelled. */
#define _XOPEN_SOURCE 700
#include "engine/queue.h"
#include "base/clock.h"
#include "invariants.h"

#include <malloc.h>
#include <pthread.h>
#include <time.h>

enum { JOBS = 7, SLOTS = 3, MORE = 40 };

typedef struct job {
    ft_entry entry; /* first */
    inv_response got;
    int32_t prompt[200];
    int n_prompt;
    bool slow; /* its reader is slow, so it is paused */
    atomic_int room, tokens;
    atomic_bool over;
    ft_queue *q;
    int leave_after; /* cancelled after this many tokens; 0: never */
} job;

static bool emit(void *user, const ft_emit *e)
{
    job *j = user;
    j->got.id[j->got.n++] = e->id;
    atomic_fetch_add(&j->tokens, 1);
    if (atomic_load(&j->tokens) == j->leave_after) atomic_store(&j->entry.cancel, true);
    return true;
}

static bool ready(ft_entry *e)
{
    job *j = (job *)(void *)e;
    return !j->slow || atomic_load(&j->tokens) < atomic_load(&j->room);
}

static void after_step(ft_entry *e)
{
    (void)e;
}

static void on_done(ft_entry *e)
{
    atomic_store(&((job *)(void *)e)->over, true);
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

static void job_init(job *j, const inv_model *m, int i, int k)
{
    *j = (job){.n_prompt = 5 + i * 23};
    inv_prompt(j->prompt, j->n_prompt, m->m->V, (uint64_t)i + 50);
    j->entry.task = inv_job(12 + i, k);
    j->entry.task.sampling.temperature = i % 2 ? 0.8f : 0;
    j->entry.task.sampling.seed = (uint64_t)i;
    j->entry.task.prompt = j->prompt;
    j->entry.task.n_prompt = j->n_prompt;
    j->entry.task.emit = emit;
    j->entry.task.user = j;
    j->entry.wish = -1;
    j->entry.ready = ready;
    j->entry.stepped = after_step;
    j->entry.done = on_done;
}

static ft_queue *queue_on(ft_engine *e, int waiting)
{
    ft_queue *q = NULL;
    ft_err err;
    const ft_queue_limits p = {.waiting = waiting};
    if (!ft_queue_new(&q, e, &p, &err)) return q;
    printf("queue: %s\n", err.text);
    exit(1);
}

static void put_job(ft_queue *q, job *j)
{
    ft_err err;
    j->q = q;
    if (ft_queue_put(q, &j->entry, &err)) check(false, "put: %s", err.text);
}

static void wait_for(job *j)
{
    while (!atomic_load(&j->over)) {
        if (j->slow && atomic_load(&j->tokens) >= atomic_load(&j->room)) {
            atomic_fetch_add(&j->room, 1);
            ft_queue_kick(j->q);
        }
        nap();
    }
}

static void response_alone(inv_response *r, const inv_model *m, const ft_engine_params *p,
                           const job *j)
{
    ft_engine_params alone = *p;
    alone.slots = 1;
    inv_response_alone(r, m, &alone, &j->entry.task, j->prompt, j->n_prompt);
}

static bool same_response(const job *j, const inv_response *want)
{
    const int n = want->n - want->n_prompt;
    return j->got.n == n &&
           !memcmp(j->got.id, want->id + want->n_prompt, sizeof *want->id * (size_t)n);
}

/* More jobs than slots, one of them slow and one cancelled: the ids of the others are those alone.
 */
static void check_batched(const inv_model *m, int k)
{
    ft_engine_params p = inv_params(k);
    p.slots = SLOTS;
    static job j[JOBS];
    static inv_response want[JOBS];
    for (int i = 0; i < JOBS; i++) {
        job_init(&j[i], m, i, k);
        response_alone(&want[i], m, &p, &j[i]);
    }
    j[1].slow = true;
    j[4].leave_after = 3;
    ft_engine *e = inv_engine(m, &p);
    const int pages = ft_cache_free_pages(e->cache);
    ft_queue *q = queue_on(e, JOBS);
    for (int i = 0; i < JOBS; i++) put_job(q, &j[i]);
    for (int i = 0; i < JOBS; i++) wait_for(&j[i]);
    for (int i = 0; i < JOBS; i++) {
        if (i == 4) continue;
        check(same_response(&j[i], &want[i]),
              "%s, %d drafts: job %d of %d differs from itself alone", m->name, k, i, JOBS);
        check(j[i].entry.finish == want[i].finish, "%s: job %d has another finish reason", m->name,
              i);
    }
    check(j[4].entry.cancelled, "%s: a cancelled job was not marked as cancelled", m->name);
    check(j[4].got.n >= 3 && j[4].got.n <= 3 + 1 + k, "%s: %d tokens after a cancel at the third",
          m->name, j[4].got.n);
    ft_queue_totals s;
    ft_queue_counts(q, &s);
    check(s.responses == JOBS && s.cancelled == 1 && !s.busy && !s.waiting, "%s: counts", m->name);
    ft_queue_free(q);
    check(ft_cache_free_pages(e->cache) == pages, "%s: pages were not freed", m->name);
    ft_engine_free(e);
}

/* Fewer pages than all responses need: some are preempted, and none loses tokens. All start at
 * once, where the queue would let some of them wait. */
static void check_preemption(const inv_model *m, int k, int64_t cells)
{
    enum { N = 4 };
    ft_engine_params p = inv_params(k);
    p.slots = N;
    p.ctx = 400;
    static inv_response want[N], got[N];
    int32_t ids[N][150];
    ft_task j = inv_job(80, k);
    for (int i = 0; i < N; i++) {
        inv_prompt(ids[i], 90 + 10 * i, m->m->V, (uint64_t)i + 9);
        inv_response_alone(&want[i], m, &p, &j, ids[i], 90 + 10 * i);
    }
    p.cells = cells;
    ft_engine *e = inv_engine(m, &p);
    const int pages = ft_cache_free_pages(e->cache);
    ft_slot *s[N];
    for (int i = 0; i < N; i++) s[i] = ft_slot_new(e);
    for (int i = 0; i < N; i++) inv_start(&got[i], s[i], &j, ids[i], 90 + 10 * i);
    for (int n = 0; ft_engine_step(e); n++)
        if (n == 30) ft_slot_cancel(s[2]); /* in any state */
    for (int i = 0; i < N; i++) {
        inv_done(&got[i]);
        check(i == 2 || inv_same(&got[i], &want[i]),
              "%s, %d drafts, %d cells: response %d differs at %d, ended %d", m->name, k,
              (int)cells, i, inv_first_difference(&got[i], &want[i]), got[i].finish);
    }
    check(e->preempted > 0, "%s, %d cells: no response was preempted", m->name, (int)cells);
    for (int i = 0; i < N; i++) ft_slot_free(s[i]);
    check(ft_cache_free_pages(e->cache) == pages, "%s: pages were not freed", m->name);
    ft_engine_free(e);
}

/* A response that does not fit even alone ends with the reason context. */
static void too_long(const inv_model *m)
{
    ft_engine_params p = inv_params(2);
    p.ctx = 400;
    p.cells = 64;
    static inv_response r;
    int32_t ids[100];
    ft_err err;
    inv_prompt(ids, 100, m->m->V, 1);
    ft_engine *e = inv_engine(m, &p);
    ft_slot *s = ft_slot_new(e);
    const ft_task j = inv_job(200, 2);
    inv_response_on(&r, s, &j, ids, 100);
    check(r.finish == FT_FINISH_CONTEXT && r.n > 100,
          "a response without pages ended with reason %d after %d", r.finish, r.n - 100);
    ft_task t = j;
    int32_t many[200] = {0};
    t.prompt = many;
    t.n_prompt = 200;
    check(ft_task_check(e, &t, &err) == FT_ECONTEXT, "a prompt that cannot fit was accepted");
    ft_engine_free(e);
}

/* The queue has a maximum length; a drain finishes all entries, a stop cancels them. */
static void check_ends(const inv_model *m)
{
    ft_engine_params p = inv_params(2);
    static job j[MORE];
    ft_err err;
    ft_engine *e = inv_engine(m, &p);
    ft_queue *q = queue_on(e, 2);
    for (int i = 0; i < 4; i++) {
        job_init(&j[i], m, i, 2);
        j[i].slow = true; /* does not finish before it is told to */
    }
    for (int i = 0; i < 3; i++) put_job(q, &j[i]);
    check(ft_queue_put(q, &j[3].entry, &err) == FT_EBUSY, "a fourth request was accepted");
    check(ft_queue_before(q, &j[2].entry) >= 1, "the last request has no request before it");
    ft_queue_cancel(q, &j[1].entry);
    wait_for(&j[1]);
    check(j[1].got.n == 0 && j[1].entry.cancelled, "a waiting request was cancelled too late");
    for (int i = 0; i < 3; i++) atomic_store(&j[i].room, 1000);
    ft_queue_stop(q, true);
    check(atomic_load(&j[0].over) && atomic_load(&j[2].over),
          "a drain did not finish all requests");
    check(j[0].got.n == 12 && j[2].got.n == 14, "a drain cut responses off");
    check(ft_queue_put(q, &j[3].entry, &err) == FT_ECANCELLED,
          "a stopped queue accepted a request");
    ft_queue_free(q);

    q = queue_on(e, MORE);
    for (int i = 0; i < MORE; i++) {
        job_init(&j[i], m, i % JOBS, 2);
        j[i].entry.task.max_tokens = -1;
        put_job(q, &j[i]);
    }
    ft_queue_stop(q, false);
    for (int i = 0; i < MORE; i++)
        check(atomic_load(&j[i].over) && j[i].entry.cancelled, "a stop did not cancel job %d", i);
    ft_queue_free(q);
    ft_engine_free(e);
}

static ft_status (*true_sync)(ft_dev *d, ft_err *err);
static int syncs_left;

static ft_status broken_sync(ft_dev *d, ft_err *err)
{
    if (syncs_left-- > 0) return true_sync(d, err);
    return ft_fail(err, FT_EDEVICE, "the GPU has fallen off the bus");
}

/* A device that fails permanently: running and waiting requests get the error, and new requests are
 * rejected. */
static void device_fails(const inv_model *m)
{
    ft_engine_params p = inv_params(2);
    static job j[6];
    ft_err err;
    ft_queue_totals n;
    ft_engine *e = inv_engine(m, &p);
    true_sync = m->dev->sync;
    syncs_left = 5;
    m->dev->sync = broken_sync;
    ft_queue *q = queue_on(e, 6);
    for (int i = 0; i < 6; i++) job_init(&j[i], m, i, 2);
    for (int i = 0; i < 5; i++) put_job(q, &j[i]);
    for (int i = 0; i < 5; i++) {
        wait_for(&j[i]);
        check(j[i].entry.finish == FT_FINISH_ERROR && strstr(j[i].entry.error, "bus"),
              "job %d ended %d on a device that failed: %s", i, j[i].entry.finish,
              j[i].entry.error);
    }
    check(ft_queue_put(q, &j[5].entry, &err) == FT_EDEVICE,
          "a queue with a failed device accepted a request");
    ft_queue_counts(q, &n);
    check(n.failed && !n.busy && !n.waiting, "the failure of the device is not reported");
    ft_queue_free(q);
    ft_engine_free(e);
    m->dev->sync = true_sync;
}

static void count_up(void *user, ft_queue *q)
{
    (void)q;
    ++*(int *)user;
}

typedef struct caller {
    ft_queue *q;
    int n;
} caller;

static void *call_often(void *user)
{
    caller *c = user;
    for (int i = 0; i < 50; i++) ft_queue_call(c->q, count_up, &c->n);
    return NULL;
}

/* Calls from several threads between steps; none is lost, during or after. */
static void check_calls(const inv_model *m)
{
    ft_engine_params p = inv_params(0);
    static job j;
    ft_engine *e = inv_engine(m, &p);
    ft_queue *q = queue_on(e, 1);
    caller c[3] = {{q, 0}, {q, 0}, {q, 0}};
    pthread_t t[3];
    job_init(&j, m, 3, 0);
    put_job(q, &j);
    for (int i = 0; i < 3; i++) pthread_create(&t[i], NULL, call_often, &c[i]);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    wait_for(&j);
    ft_queue_stop(q, true);
    ft_queue_call(q, count_up, &c[0].n);
    check(c[0].n == 51 && c[1].n == 50 && c[2].n == 50, "a call was lost");
    ft_queue_free(q);
    ft_engine_free(e);
}

static void forget_all(void *user, ft_queue *q)
{
    (void)user;
    for (ft_slot *s; (s = ft_queue_slot(q, *(int *)user)); ++*(int *)user) ft_slot_forget(s, NULL);
}

/* Thousands of short requests, some of them cancelled: pages are freed, the prefix cache stays
 * within its budget, and the heap does not grow. */
static void thousands(const inv_model *m, int n)
{
    enum { AT_ONCE = 8, BUDGET = 2 << 20 };
    ft_engine_params p = inv_params(2);
    static job j[AT_ONCE];
    ft_err err;
    ft_queue *q = NULL;
    const ft_queue_limits qp = {.waiting = AT_ONCE, .prefix_bytes = BUDGET};
    p.slots = SLOTS;
    ft_engine *e = inv_engine(m, &p);
    if (ft_queue_new(&q, e, &qp, &err)) check(false, "%s", err.text);
    size_t early = 0;
    for (int i = 0; i < n; i += AT_ONCE) {
        for (int k = 0; k < AT_ONCE; k++) {
            job_init(&j[k], m, (i + k) % 5, 2);
            j[k].entry.task.max_tokens = 1 + (i + k) % 3;
            j[k].entry.task.cache_prompt = true;
            j[k].leave_after = (i + k) % 7 == 3;
            j[k].prompt[(i + k) % 5] = (i / 3 + k) % m->m->V; /* few are equal */
            put_job(q, &j[k]);
        }
        for (int k = 0; k < AT_ONCE; k++) wait_for(&j[k]);
        if (i < n / 2) early = mallinfo2().uordblks;
    }
    const size_t late = mallinfo2().uordblks;
    int slot = 0;
    ft_queue_totals s;
    ft_queue_call(q, forget_all, &slot);
    check(ft_cache_free_pages(e->cache) == ft_cache_all_pages(e->cache),
          "%s: %d of %d pages are free after %d requests", m->name, ft_cache_free_pages(e->cache),
          ft_cache_all_pages(e->cache), n);
    ft_queue_counts(q, &s);
    check(s.responses == (uint64_t)n && !s.busy && !s.waiting && s.prefix_bytes <= BUDGET,
          "%s: %d responses of %d, %d bytes stored", m->name, (int)s.responses, n,
          (int)s.prefix_bytes);
    /* A device that captures graphs may still see a new batch shape. */
    const size_t more = m->dev->captures ? 4 << 20 : 64 << 10;
    check(late < early + more, "%s: the heap grew from %zu to %zu bytes", m->name, early, late);
    ft_queue_free(q);
    ft_engine_free(e);
}

/* The only running entry is cancelled while it is paused and another waits: the slot it leaves goes
 * to the one that waits, without anything else waking the engine thread. */
static void cancelled_before_waiting(const inv_model *m)
{
    static job j[2];
    ft_engine_params p = inv_params(0);
    p.slots = 1;
    ft_engine *e = inv_engine(m, &p);
    ft_queue *q = queue_on(e, 2);
    for (int i = 0; i < 2; i++) job_init(&j[i], m, i, 0);
    j[0].slow = true; /* its reader never reads a token, so it is paused */
    for (int i = 0; i < 2; i++) put_job(q, &j[i]);
    while (atomic_load(&j[0].entry.slot) < 0) nap();
    for (int i = 0; i < 100; i++) nap(); /* the engine thread sleeps by now */
    ft_queue_cancel(q, &j[0].entry);
    const int64_t limit = ft_now_ns() + 20 * (int64_t)1000000000;
    while (!atomic_load(&j[1].over) && ft_now_ns() < limit) nap();
    check(atomic_load(&j[0].over), "%s: the cancelled request did not end", m->name);
    check(atomic_load(&j[1].over), "%s: the waiting request was never started", m->name);
    ft_queue_free(q);
    ft_engine_free(e);
}

/* Fewer pages than all responses need, and the reader of the first response stops reading: the
 * others get the pages they need, and the first continues where it was when its reader resumes. */
static void stalled(const inv_model *m, int k)
{
    enum { N = 4 };
    static job j[N];
    static inv_response want[N];
    ft_engine_params p = inv_params(k);
    p.slots = 2;
    p.ctx = 400;
    for (int i = 0; i < N; i++) {
        job_init(&j[i], m, 4 + i % 3, k);
        j[i].entry.task.max_tokens = 80;
        response_alone(&want[i], m, &p, &j[i]);
    }
    p.cells = 64 * 2;
    ft_engine *e = inv_engine(m, &p);
    ft_queue *q = queue_on(e, N);
    j[0].slow = true;
    atomic_store(&j[0].room, 30);
    for (int i = 0; i < N; i++) put_job(q, &j[i]);
    const int64_t limit = ft_now_ns() + 60 * (int64_t)1000000000;
    for (int i = 1; i < N; i++) {
        while (!atomic_load(&j[i].over) && ft_now_ns() < limit) nap();
        check(atomic_load(&j[i].over) && same_response(&j[i], &want[i]),
              "%s, %d drafts: job %d waits for a reader that has stopped", m->name, k, i);
    }
    check(!atomic_load(&j[0].over) && e->preempted > 0, "%s: no response was preempted", m->name);
    atomic_store(&j[0].room, 1000);
    ft_queue_kick(q);
    while (!atomic_load(&j[0].over) && ft_now_ns() < limit) nap();
    check(atomic_load(&j[0].over) && same_response(&j[0], &want[0]),
          "%s, %d drafts: the paused response continues with other ids", m->name, k);
    ft_queue_free(q);
    ft_engine_free(e);
}

/* A client at its limit of requests is rejected even when the queue has free places; each entry
 * that ends frees one. */
static void shares(const inv_model *m)
{
    static job j[8];
    ft_engine_params p = inv_params(0);
    const ft_queue_limits qp = {.waiting = 8, .per_client = 3};
    ft_queue *q = NULL;
    ft_err err;
    ft_engine *e = inv_engine(m, &p);
    if (ft_queue_new(&q, e, &qp, &err)) check(false, "%s", err.text);
    for (int i = 0; i < 8; i++) {
        job_init(&j[i], m, i % JOBS, 0);
        j[i].slow = true;
        j[i].q = q;
        j[i].entry.client = i < 4 ? 7 : i == 4 ? 8 : 0;
    }
    for (int i = 0; i < 3; i++) put_job(q, &j[i]);
    check(ft_queue_put(q, &j[3].entry, &err) == FT_EBUSY && strstr(err.text, "of this client"),
          "a fourth request of a client whose share is 3");
    for (int i = 4; i < 8; i++) put_job(q, &j[i]); /* another client, and nobody's */
    ft_queue_cancel(q, &j[1].entry);
    wait_for(&j[1]);
    put_job(q, &j[3]);
    check(ft_queue_put(q, &j[1].entry, &err) == FT_EBUSY, "a share that was given back twice");
    ft_queue_stop(q, false);
    for (int i = 0; i < 8; i++) check(atomic_load(&j[i].over), "job %d did not end", i);
    ft_queue_free(q);
    ft_engine_free(e);
}

int main(void)
{
    static const char *const model[][2] = {{"qwen35-dense", NULL},
                                           {"qwen35-moe", NULL},
                                           {"gemma4-gqa", "gemma4-gqa-assistant"},
                                           {"gemma4-edge", NULL}};
    for (size_t i = 0; i < FT_COUNT(model); i++) {
        inv_model m = inv_model_golden(model[i][0], model[i][1], 1);
        check_batched(&m, 0);
        check_batched(&m, 3);
        check_preemption(&m, 0, 64 * 2);
        check_preemption(&m, 3, 64 * 2);
        stalled(&m, 0);
        stalled(&m, 3);
        if (i == 0) {
            check_ends(&m);
            shares(&m);
            cancelled_before_waiting(&m);
            device_fails(&m);
            check_calls(&m);
            too_long(&m);
            thousands(&m, 1000);
        }
        inv_model_close(&m);
    }
    return inv_end();
}
