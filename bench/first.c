/* bench/first.c - the first minutes of a server: the time until it is ready, the difference between
 * estimated and used memory, and the latencies of the first responses. SLOTS streams at a time,
 * RESPONSES in total, with different prompts and lengths, half of them sampled, all with adaptive
 * drafting. build/bench/first MODEL [SLOTS [RESPONSES [DEVICE [CONTEXT]]]] */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "common.h"
#include "dev/dev.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_TIMES = 1 << 16 };

typedef struct stream {
    ft_job *j;
    sem_t *sem;
    double start, last;
    int n; /* number of measured times */
} stream;

typedef struct times {
    const char *name;
    double *v;
    int n;
} times;

static times first = {.name = "first"}, second = {.name = "second"}, gap = {.name = "later"};

static void die(const char *what, const ft_err *err)
{
    fprintf(stderr, "first: %s: %s\n", what, err->text);
    exit(1);
}

static void add_time(times *t, double v)
{
    if (!t->v) t->v = ft_new_n(double, MAX_TIMES);
    if (t->n < MAX_TIMES) t->v[t->n++] = v;
}

/* On the engine thread. */
static void wake(void *user)
{
    stream *s = user;
    const double now = ft_now_s();
    add_time(s->n == 0 ? &first : s->n == 1 ? &second : &gap, now - (s->n ? s->last : s->start));
    s->last = now;
    s->n++;
    sem_post(s->sem);
}

static void begin_stream(stream *s, ft_llm *m, int seed, sem_t *sem)
{
    ft_request r;
    ft_err err;
    ft_rng rng = {(uint64_t)seed};
    int32_t ids[800];
    ft_request_defaults(&r, m);
    r.n_ids = 80 + (int)(ft_rng_u64(&rng) % 700);
    for (int i = 0; i < r.n_ids; i++) ids[i] = 300 + (int32_t)(ft_rng_u64(&rng) % 9000);
    r.ids = ids;
    r.max_tokens = 24 + (int)(ft_rng_u64(&rng) % 80);
    r.ignore_eos = true;
    r.cache_prompt = false;
    r.sampling.temperature = seed % 2 ? 0.7f : 0;
    r.sampling.seed = (uint64_t)seed;
    *s = (stream){.sem = sem, .start = ft_now_s()};
    if (ft_job_new(&s->j, m, &r, wake, s, &err)) die("job", &err);
}

static bool stream_done(stream *s)
{
    ft_event e;
    while (ft_job_next(s->j, &e)) {
    }
    return ft_job_done(s->j);
}

static void responses(ft_llm *m, int slots, int n)
{
    stream *s = ft_new_n(stream, (size_t)slots);
    sem_t sem;
    sem_init(&sem, 0, 0);
    int started = 0, busy = 0;
    for (; started < slots && started < n; started++, busy++)
        begin_stream(&s[started], m, started, &sem);
    while (busy) {
        sem_wait(&sem);
        for (int i = 0; i < slots; i++) {
            if (!s[i].j || !stream_done(&s[i])) continue;
            ft_job_free(s[i].j);
            s[i].j = NULL;
            busy--;
            if (started >= n) continue;
            begin_stream(&s[i], m, started++, &sem);
            busy++;
        }
    }
    sem_destroy(&sem);
    ft_free(s);
}

static void print_times(times *t)
{
    if (!t->n) return;
    qsort(t->v, (size_t)t->n, sizeof *t->v, by_value);
    printf("%-7s %8.2f ms median %8.2f p90 %8.2f p99 %8.2f worst of %d\n", t->name,
           t->v[t->n / 2] * 1e3, t->v[t->n * 9 / 10] * 1e3, t->v[t->n * 99 / 100] * 1e3,
           t->v[t->n - 1] * 1e3, t->n);
    ft_free(t->v);
}

int main(int argc, char **argv)
{
    const double start = ft_now_s();
    const int slots = argc > 2 ? atoi(argv[2]) : 4, n = argc > 3 ? atoi(argv[3]) : 40;
    ft_llm_params p;
    ft_queue_params q;
    ft_err err;
    ft_llm *m;
    ft_dev *d; /* to read the free memory */
    ft_llm_defaults(&p);
    p.model = argc > 1 ? argv[1] : "models/foretoken-tiny.gguf";
    p.slots = slots;
    p.device = argc > 4 ? argv[4] : "auto";
    p.ctx = argc > 5 ? atoi(argv[5]) : 4096;
    if (ft_dev_open(&d, p.device, 1, &err)) die(p.device, &err);
    const double opened = ft_now_s(), free_before = (double)d->free_bytes(d);
    ft_queue_defaults(&q);
    if (ft_llm_open(&m, &p, &err)) die(p.model, &err);
    if (ft_llm_start(m, &q, &err)) die("queue", &err);
    const ft_llm_info *i = ft_llm_about(m);
    printf("%d slots, context %d: ready in %.2f s, %.2f s of them to open the device; ", slots,
           p.ctx, ft_now_s() - start, opened - start);
    const double ready = free_before - (double)d->free_bytes(d), expected = (double)i->device_bytes;
    responses(m, slots, n);
    const double taken = free_before - (double)d->free_bytes(d);
    printf("%.1f MB estimated, %.1f MB used when ready, %.1f MB after %d responses (%+.2f %%)\n",
           expected * 1e-6, ready * 1e-6, taken * 1e-6, n, (taken / expected - 1) * 100);
    print_times(&first);
    print_times(&second);
    print_times(&gap);
    ft_llm_close(m);
    ft_dev_close(d);
    return 0;
}
