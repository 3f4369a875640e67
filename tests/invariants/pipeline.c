/* tests/invariants/pipeline.c - micro-batches: steps of a model on several devices that are cut
 * into parts give the ids of one device, for any number of sequences, with drafting; and two
 * devices compute at the same time. Under mpirun (FT_TEST_DEV=mpi) the devices are those of the
 * ranks. */
#define _GNU_SOURCE
#include "invariants.h"

#include "dev/cpu/cpu_dev.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

enum { SLOTS = 8, TOKENS = 14, PROMPT = 300 };

/* n sequences with prompts of other lengths, some of several chunks. */
static void generate(const inv_model *m, int n, int drafts, int micro, inv_response *r)
{
    ft_engine_params p = inv_params(drafts);
    p.slots = n;
    p.ctx = 400;
    p.rows = 256;
    p.kt = p.vt = FT_KV_F16;
    p.micro = micro;
    ft_engine *e = inv_engine(m, &p);
    for (int i = 0; i < n; i++) {
        int32_t ids[PROMPT];
        const int len = i == 1 ? PROMPT : 3 + 23 * i;
        inv_prompt(ids, len, m->m->V, 7 + (uint64_t)i);
        ft_task j = inv_job(TOKENS + i, drafts);
        inv_start(&r[i], ft_slot_new(e), &j, ids, len);
    }
    while (ft_engine_step(e)) continue;
    for (int i = 0; i < n; i++) inv_done(&r[i]);
    ft_engine_free(e);
}

/* Layers over n CPU devices, the first of which is the host. */
static ft_dev *cpus(int n)
{
    ft_dev *dev[4];
    for (int i = 0; i < n; i++) dev[i] = ft_dev_cpu(1);
    return inv_dev_split(dev, n, false);
}

static void open_on(inv_model *m, const char *name, const char *assistant, ft_dev *dev)
{
    *m = (inv_model){.name = name, .dev = dev};
    m->m = inv_golden(name, dev, NULL);
    if (assistant) m->assistant = inv_golden(assistant, dev, m->m);
}

static void compare(const char *name, int n, int micro, const inv_response *a,
                    const inv_response *b)
{
    for (int i = 0; i < n; i++) {
        check(inv_same(&a[i], &b[i]), "%s, %d sequences, %d micro-batches, %d: different id at %d",
              name, n, micro, i, inv_first_difference(&a[i], &b[i]));
        check(a[i].stats.accepted == b[i].stats.accepted,
              "%s, %d sequences, %d micro-batches, %d: %d draft tokens accepted, want %d", name, n,
              micro, i, (int)b[i].stats.accepted, (int)a[i].stats.accepted);
    }
}

static void check_ids(const char *name, const char *assistant, int parts, int step)
{
    static inv_response one[SLOTS], two[SLOTS];
    const bool ranks = getenv("FT_TEST_DEV") && !strcmp(getenv("FT_TEST_DEV"), "mpi");
    inv_model whole, split;
    open_on(&split, name, assistant, ranks ? inv_dev(1) : cpus(parts)); /* other ranks stay here */
    open_on(&whole, name, assistant, ft_dev_cpu(1));
    for (int n = 1; n <= SLOTS; n += step) {
        generate(&whole, n, 3, 0, one);
        for (int micro = 0; micro <= 4; micro += 2) {
            generate(&split, n, 3, micro, two);
            compare(name, n, micro, one, two);
        }
    }
    inv_model_close(&whole);
    inv_model_close(&split);
}

/* ---- two devices at the same time ---- */

/* The second part of a step on the host and the first one on the other device wait for each other
 * before they compute: without a pipeline the host would wait for the other device's results
 * first. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t more;
    void (*commit[2])(ft_dev *);
    int to_wait[2]; /* how many lists of ops go first; below 0: none waits */
    bool here[2], met, late;
} meet = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, {0}, {-1, -1}, {0}, false, false};

static void meet_other(int side)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    pthread_mutex_lock(&meet.lock);
    if (meet.to_wait[side] >= 0 && meet.to_wait[side]-- == 0) {
        meet.here[side] = true;
        pthread_cond_broadcast(&meet.more);
        while (!meet.here[!side] && !meet.late)
            meet.late =
                pthread_cond_timedwait(&meet.more, &meet.lock, &until) == ETIMEDOUT || meet.late;
        meet.met = meet.here[0] && meet.here[1];
    }
    pthread_mutex_unlock(&meet.lock);
}

enum { LAYER = 6 }; /* a list of fewer jobs is not a layer */

static void commit_host(ft_dev *d)
{
    if (((ft_cpu *)d)->n_job >= LAYER) meet_other(0);
    meet.commit[0](d);
}

static void commit_other(ft_dev *d)
{
    if (((ft_cpu *)d)->n_job >= LAYER) meet_other(1);
    meet.commit[1](d);
}

static void set_meeting(int host, int other)
{
    pthread_mutex_lock(&meet.lock);
    meet.to_wait[0] = host;
    meet.to_wait[1] = other;
    meet.here[0] = meet.here[1] = meet.met = meet.late = false;
    pthread_mutex_unlock(&meet.lock);
}

static void check_overlap(void)
{
    static inv_response r[4];
    ft_dev *dev[] = {ft_dev_cpu(1), ft_dev_cpu(1)};
    for (int i = 0; i < 2; i++) {
        meet.commit[i] = dev[i]->commit;
        dev[i]->commit = i ? commit_other : commit_host;
    }
    inv_model m;
    open_on(&m, "qwen35-dense", NULL, inv_dev_split(dev, 2, false));
    ft_engine_params p = inv_params(0);
    p.slots = 4;
    p.micro = 2;
    ft_engine *e = inv_engine(&m, &p);
    for (int i = 0; i < 4; i++) {
        int32_t ids[12];
        inv_prompt(ids, 12, m.m->V, (uint64_t)i);
        const ft_task j = inv_job(8, 0);
        inv_start(&r[i], ft_slot_new(e), &j, ids, 12);
    }
    for (int step = 0, more = 1; more; step++) {
        set_meeting(1, 0);
        more = ft_engine_step(e);
        pthread_mutex_lock(&meet.lock);
        check(meet.met && !meet.late, "step %d: the devices did not compute at the same time",
              step);
        pthread_mutex_unlock(&meet.lock);
        set_meeting(-1, -1);
    }
    for (int i = 0; i < 4; i++) inv_done(&r[i]);
    ft_engine_free(e);
    inv_model_close(&m);
}

int main(void)
{
    const char *dev = getenv("FT_TEST_DEV");
    const bool ranks = dev && !strcmp(dev, "mpi");
    if (dev && !ranks && strcmp(dev, "cpu")) return inv_end();
    check_ids("qwen35-dense", NULL, 2, ranks ? 7 : 1);
    check_ids("qwen35-moe", NULL, 3, 7);
    check_ids("gemma4-edge", "gemma4-edge-assistant", 3, 7);
    if (!ranks) check_overlap();
    return inv_end();
}
