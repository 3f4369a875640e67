/* tests/invariants/masks.c - a mask that takes long delays its own sequence only, and changes no
 * id: other sequences get tokens while it is computed, and all have the ids that they have with
 * masks that are ready at once, which are not left to another thread. A response can be cancelled
 * while its mask is computed. */
#define _XOPEN_SOURCE 700
#include "invariants.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

enum { HANG_S = 900, SLOTS = 4, TOKENS = 20 };

static atomic_int others;      /* tokens of the sequence without a mask */
static atomic_bool others_end; /* it has all of its tokens */
static atomic_int elsewhere;   /* masks that were not computed on the engine's thread */
static pthread_t engine_thread;

/* ---- a constraint: the allowed ids depend on the last id and on the number of ids ---- */

typedef enum delay {
    AT_ONCE,
    BEHIND, /* a mask is ready when the other sequence has two more tokens */
    RANDOM, /* after 0 to 4 ms */
    NEVER,  /* until it is stopped */
} delay;

typedef struct toy {
    int32_t last;
    int n;
    delay delay;
    atomic_bool *begun, *stopped;
    ft_rng rng;
} toy;

static void nap(long us)
{
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

static bool toy_allows(void *user, int32_t id)
{
    const toy *t = user;
    return (id + t->last + t->n) % 3 == 0;
}

static bool toy_allow(void *user, uint32_t *bits, int32_t V)
{
    toy *t = user;
    const int now = atomic_load(&others);
    if (!pthread_equal(pthread_self(), engine_thread)) atomic_fetch_add(&elsewhere, 1);
    if (t->begun) atomic_store(t->begun, true);
    while (t->delay == BEHIND && atomic_load(&others) < now + 2 && !atomic_load(&others_end))
        nap(50);
    while (t->delay == NEVER && !atomic_load(t->stopped)) nap(50);
    if (t->delay == RANDOM) nap((long)(ft_rng_u64(&t->rng) % 5) * 1000);
    memset(bits, 0, FT_MASK_WORDS(V) * sizeof *bits);
    for (int32_t i = 0; i < V; i++)
        if (toy_allows(user, i)) bits[i / 32] |= 1u << i % 32;
    return true;
}

static void toy_accept(void *user, int32_t id)
{
    toy *t = user;
    t->last = id;
    t->n++;
}

static void *toy_clone(void *user)
{
    toy *t = ft_new(toy);
    *t = *(toy *)user;
    return t;
}

static void toy_copy(void *user, const void *from)
{
    *(toy *)user = *(const toy *)from;
}

static void toy_stop(void *user)
{
    atomic_store(((toy *)user)->stopped, true);
}

static bool toy_quick(void *user)
{
    return ((const toy *)user)->delay == AT_ONCE;
}

static ft_mask toy_mask(toy *t)
{
    return (ft_mask){t,        toy_allow, toy_allows, toy_accept, toy_clone,
                     toy_copy, ft_free,   toy_stop,   toy_quick};
}

/* ---- beside others ---- */

static bool count(void *user, const ft_emit *e)
{
    atomic_fetch_add(&others, 1);
    return inv_emit(user, e);
}

static ft_task job_of(int kind, int draft_max)
{
    ft_task j = inv_job(TOKENS, draft_max);
    if (kind == 1) j.sampling.repeat_penalty = 1.2F;
    if (kind == 2) j.sampling.temperature = 0.9F;
    if (kind == 2) j.top_logprobs = 3;
    return j;
}

/* Slot 0 has no constraint, the others have one each. */
static void run_all(const inv_model *m, int kind, int draft_max, delay d, inv_response *r)
{
    ft_engine_params p = inv_params(draft_max);
    toy t[SLOTS];
    p.slots = SLOTS;
    ft_engine *e = inv_engine(m, &p);
    ft_engine_limit_step(e, 50);
    atomic_store(&others, 0);
    atomic_store(&others_end, false);
    for (int i = 0; i < SLOTS; i++) {
        int32_t prompt[40];
        ft_task j = job_of(kind, draft_max);
        t[i] = (toy){.delay = d, .rng = {(uint64_t)i}};
        inv_prompt(prompt, 10 + i * 7, m->m->V, (uint64_t)i + 9);
        if (i)
            j.mask = toy_mask(&t[i]);
        else
            j.max_tokens = 5 * TOKENS;
        inv_start(&r[i], ft_slot_new(e), &j, prompt, 10 + i * 7);
        if (!i) r[i].slot->task.emit = count;
    }
    while (ft_engine_step(e)) atomic_store(&others_end, !ft_slot_busy(r[0].slot));
    for (int i = 0; i < SLOTS; i++) inv_done(&r[i]);
    ft_engine_free(e);
}

static void beside(const inv_model *m, int kind, int draft_max)
{
    static inv_response ready[SLOTS], late[SLOTS];
    static const delay delays[] = {BEHIND, RANDOM};
    atomic_store(&elsewhere, 0);
    run_all(m, kind, draft_max, AT_ONCE, ready);
    check(!atomic_load(&elsewhere), "%s, kind %d: %d masks that take no time on another thread",
          m->name, kind, atomic_load(&elsewhere));
    for (size_t k = 0; k < FT_COUNT(delays); k++) {
        run_all(m, kind, draft_max, delays[k], late);
        for (int i = 0; i < SLOTS; i++)
            check(inv_same(&ready[i], &late[i]),
                  "%s, kind %d, %d draft tokens, delay %d: slot %d has another id at %d", m->name,
                  kind, draft_max, (int)delays[k], i, inv_first_difference(&ready[i], &late[i]));
    }
    check(atomic_load(&elsewhere), "%s, kind %d: no mask on another thread", m->name, kind);
}

/* ---- leaving ---- */

static void cancelled(const inv_model *m)
{
    static inv_response r[2];
    atomic_bool begun = false, stopped = false;
    ft_engine_params p = inv_params(0);
    toy t = {.delay = NEVER, .begun = &begun, .stopped = &stopped};
    p.slots = 2;
    ft_engine *e = inv_engine(m, &p);
    ft_engine_limit_step(e, 50);
    for (int i = 0; i < 2; i++) {
        int32_t prompt[10];
        ft_task j = job_of(2, 0);
        inv_prompt(prompt, 10, m->m->V, (uint64_t)i + 3);
        if (i) j.mask = toy_mask(&t);
        j.max_tokens = 200;
        inv_start(&r[i], ft_slot_new(e), &j, prompt, 10);
    }
    while (!atomic_load(&begun)) ft_engine_step(e);
    const int before = r[0].n;
    for (int i = 0; i < 10; i++) ft_engine_step(e);
    check(r[0].n > before, "%s: no token beside a mask that is never ready", m->name);
    ft_slot_cancel(r[1].slot);
    check(atomic_load(&stopped), "%s: the mask of a cancelled response was not stopped", m->name);
    check(!ft_slot_busy(r[1].slot) && r[1].n == 10, "%s: a token without its mask", m->name);
    while (ft_engine_step(e)) continue;
    check(r[0].n == 210, "%s: %d tokens beside a cancelled response", m->name, r[0].n - 10);
    ft_engine_free(e);
}

int main(void)
{
    static const struct {
        const char *model, *assistant;
    } models[] = {{"qwen35-dense", NULL}, {"gemma4-dense", "gemma4-dense-assistant"}};
    alarm(HANG_S);
    engine_thread = pthread_self();
    for (size_t i = 0; i < FT_COUNT(models); i++) {
        inv_model m = inv_model_golden(models[i].model, models[i].assistant, 1);
        for (int kind = 0; kind < 3; kind++)
            for (int k = 0; k <= 3; k += 3) beside(&m, kind, k);
        cancelled(&m);
        inv_model_close(&m);
    }
    return inv_end();
}
