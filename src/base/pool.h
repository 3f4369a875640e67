/* base/pool.h - a thread pool that runs one job at a time with low dispatch latency.
 * Workers spin briefly after a job and then sleep. The calling thread is worker 0, so a pool of one
 * thread calls the function directly, without atomics. Jobs do not nest. */
#ifndef FT_BASE_POOL_H
#define FT_BASE_POOL_H

#include <stddef.h>
#include <stdint.h>

typedef struct ft_pool ft_pool;
/* Called once on every thread, with this thread's index and the number of threads. */
typedef void ft_pool_fn(void *arg, int thread, int threads);

int ft_cpu_count(void);  /* cores this process may use, at least 1 */
int ft_cpu_online(void); /* cores of the machine */
/* threads <= 0: one per core. pin: bind each worker to a core of its own. */
ft_pool *ft_pool_new(int threads, int pin);
void ft_pool_free(ft_pool *p);
int ft_pool_threads(const ft_pool *p);
void ft_pool_run(ft_pool *p, ft_pool_fn *fn, void *arg); /* returns when every thread is done */
/* Waits until all threads of the running job have called it. Only for use inside the job. */
void ft_pool_barrier(ft_pool *p);

/* Calls fn(arg, i) for i in [0, n); idle threads take the next item. */
typedef void ft_each_fn(void *arg, size_t i);
void ft_pool_each(ft_pool *p, size_t n, ft_each_fn *fn, void *arg);

#endif
