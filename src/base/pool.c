#define _GNU_SOURCE
#include "base/pool.h"

#include "base/mem.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Spin iterations before a thread sleeps: about 40 us on the Arm machine measured and about 1 ms on
 * x86, because waking a thread of a virtual x86 machine takes longer than most gaps between the
 * jobs of a step. */
#if defined(__x86_64__)
enum { SPINS = 20000 };
#else
enum { SPINS = 4000 };
#endif

struct ft_pool {
    _Alignas(64) atomic_uint job;  /* counts jobs; workers wait for it to change */
    _Alignas(64) atomic_uint left; /* threads that have not finished the job */
    atomic_uint done;              /* counts finished jobs; the caller waits for it */
    _Alignas(64) atomic_uint arrived, phase;
    _Alignas(64) atomic_int sleepers;
    ft_pool_fn *fn;
    void *arg;
    int n;
    bool stop;
    bool
        oversubscribed; /* more threads than cores: spinning would take CPU time from the workers */
    pthread_t *thread;
};

typedef struct worker {
    ft_pool *pool;
    int index, cpu;
} worker;

static inline void cpu_relax(void)
{
#if defined(__aarch64__)
    __asm__ __volatile__("isb" ::: "memory");
#elif defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

int ft_cpu_count(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set)) return 1;
    const int n = CPU_COUNT(&set);
    return n > 0 ? n : 1;
}

int ft_cpu_online(void)
{
    return (int)FT_MAX(sysconf(_SC_NPROCESSORS_ONLN), 1);
}

static void futex_wait(atomic_uint *at, unsigned seen)
{
    syscall(SYS_futex, at, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *at)
{
    syscall(SYS_futex, at, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Waits until *at differs from seen: spin, then sleep. */
static void wait_change(ft_pool *p, atomic_uint *at, unsigned seen)
{
    const int spins = p->oversubscribed ? 50 : SPINS;
    for (int i = 0; i < spins; i++) {
        if (atomic_load_explicit(at, memory_order_acquire) != seen) return;
        cpu_relax();
    }
    atomic_fetch_add(&p->sleepers, 1);
    while (atomic_load(at) == seen) futex_wait(at, seen);
    atomic_fetch_sub(&p->sleepers, 1);
}

static void bump_and_wake(ft_pool *p, atomic_uint *at)
{
    atomic_fetch_add(at, 1);
    if (atomic_load(&p->sleepers)) futex_wake(at);
}

static void pin_to(int cpu)
{
    if (cpu < 0) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void *worker_main(void *arg)
{
    worker w = *(worker *)arg;
    ft_free(arg);
    ft_pool *p = w.pool;
    pin_to(w.cpu);
    for (unsigned seen = 0;; seen++) {
        wait_change(p, &p->job, seen);
        if (p->stop) return NULL;
        p->fn(p->arg, w.index, p->n);
        if (atomic_fetch_sub_explicit(&p->left, 1, memory_order_acq_rel) == 1)
            bump_and_wake(p, &p->done);
    }
}

/* The i-th core this process may use, or -1. */
static int nth_cpu(int i)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set)) return -1;
    for (int c = 0; c < CPU_SETSIZE; c++)
        if (CPU_ISSET(c, &set) && i-- == 0) return c;
    return -1;
}

ft_pool *ft_pool_new(int threads, int pin)
{
    const int cores = ft_cpu_count();
    ft_pool *p = ft_alloc_aligned(sizeof *p, 64);
    p->n = threads > 0 ? threads : cores;
    p->oversubscribed = p->n > cores;
    p->thread = ft_new_n(pthread_t, (size_t)p->n);
    for (int i = 1; i < p->n; i++) {
        worker *w = ft_new(worker);
        *w = (worker){p, i, pin && p->n <= cores ? nth_cpu(i) : -1};
        if (pthread_create(&p->thread[i], NULL, worker_main, w)) {
            ft_free(w);
            p->n = i; /* continue with the threads that could be started */
            break;
        }
    }
    return p;
}

void ft_pool_free(ft_pool *p)
{
    if (!p) return;
    p->stop = true;
    bump_and_wake(p, &p->job);
    futex_wake(&p->job);
    for (int i = 1; i < p->n; i++) pthread_join(p->thread[i], NULL);
    ft_free(p->thread);
    ft_free(p);
}

int ft_pool_threads(const ft_pool *p)
{
    return p->n;
}

void ft_pool_run(ft_pool *p, ft_pool_fn *fn, void *arg)
{
    if (p->n == 1) {
        fn(arg, 0, 1);
        return;
    }
    p->fn = fn;
    p->arg = arg;
    atomic_store(&p->left, (unsigned)p->n);
    const unsigned done = atomic_load(&p->done);
    bump_and_wake(p, &p->job);
    fn(arg, 0, p->n);
    if (atomic_fetch_sub_explicit(&p->left, 1, memory_order_acq_rel) == 1)
        bump_and_wake(p, &p->done);
    wait_change(p, &p->done, done);
}

void ft_pool_barrier(ft_pool *p)
{
    if (p->n == 1) return;
    const unsigned phase = atomic_load_explicit(&p->phase, memory_order_acquire);
    if (atomic_fetch_add(&p->arrived, 1) == (unsigned)p->n - 1) {
        atomic_store(&p->arrived, 0);
        bump_and_wake(p, &p->phase);
        return;
    }
    while (atomic_load_explicit(&p->phase, memory_order_acquire) == phase)
        wait_change(p, &p->phase, phase);
}

typedef struct each {
    ft_each_fn *fn;
    void *arg;
    size_t n;
    atomic_size_t next;
} each;

static void each_worker(void *arg, int thread, int threads)
{
    (void)thread, (void)threads;
    each *e = arg;
    for (size_t i; (i = atomic_fetch_add(&e->next, 1)) < e->n;) e->fn(e->arg, i);
}

void ft_pool_each(ft_pool *p, size_t n, ft_each_fn *fn, void *arg)
{
    each e = {.fn = fn, .arg = arg, .n = n};
    ft_pool_run(p, each_worker, &e);
}
