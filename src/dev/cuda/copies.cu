/* Copies of pieces between host and device, as one: they pass through pinned buffers, and threads
 * copy between these and the host's memory while other buffers are transferred. With an H200,
 * 14.3 GiB of weights in the page cache were uploaded at 15.9 GiB/s, a quarter of the bus
 * bandwidth: the threads that read the page cache are the limit.
 *
 * Out of the device, a thread empties the buffers while the next steps run. The transfers to them
 * are on the stream of the steps, so the device's memory may change at once; the caller waits only
 * when all buffers are full. The thread also allocates them, one after another, while it has
 * nothing else to do: pinning 32 MiB took 13.6 ms, transferring them 0.6 ms. */
#include "dev/cuda/common.cuh"

extern "C" {
#include "base/mem.h"
#include "base/pool.h"
#include "dev/copies.h"
}

#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum {
    PIN_BYTES = 32 << 20,
    UPLOADS = 2,           /* buffers for copies into the device, */
    SAVES = 16,            /* and at most so many out of it, */
    SAVES_SHARE = 32,      /* or this fraction of the host's memory */
    PARTS = 4096,          /* most of a buffer */
    PART_BYTES = 1 << 20,  /* a longer piece is divided among the threads */
    THREADS = 8,           /* one copies 6 GB/s out of the page cache, the bus transfers 50 */
    ALONE_BYTES = 2 << 20, /* up to this size one thread is enough */
    ALIGN = 16,            /* of parts in a buffer */
};

/* A part of a piece that is in a pinned buffer. */
typedef struct part {
    unsigned char *host, *device, *pin;
    size_t bytes;
} part;

/* A buffer and what it holds. */
typedef struct stage {
    unsigned char *pin;
    part *p; /* [PARTS], pinned too: a kernel reads them */
    int n;
    size_t bytes;
    cudaEvent_t ended; /* its transfers */
    bool in;
    /* out of the device */
    bool ok; /* the transfers were started */
    ft_copying *copying;
    stage *next;
} stage;

struct ft_cuda_copies {
    stage *upload[UPLOADS];
    ft_pool *uploaders; /* threads */
    pthread_t saver;
    bool started;
    ft_pool *savers;      /* threads that it copies with */
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t full, empty;
    stage *first, *last; /* to be emptied, in this order */
    stage *idle;
    int n_save, max_save; /* buffers, full or idle; how many there may be */
    bool closing;
};

/* ---- buffers ---- */

static stage *stage_new(void)
{
    unsigned char *pin;
    if (cudaMallocHost((void **)&pin, PIN_BYTES + PARTS * sizeof(part)) != cudaSuccess) {
        cudaGetLastError();
        return NULL;
    }
    stage *s = ft_new(stage);
    s->pin = pin;
    s->p = (part *)(pin + PIN_BYTES);
    cudaEventCreateWithFlags(&s->ended, cudaEventDisableTiming | cudaEventBlockingSync);
    return s;
}

static void stage_free(stage *s)
{
    if (!s) return;
    cudaEventDestroy(s->ended);
    cudaFreeHost(s->pin);
    ft_free(s);
}

/* The parts are divided by bytes: thread i has those that begin in its share. */
static void copy_share(void *arg, int thread, int threads)
{
    const stage *s = (const stage *)arg;
    const size_t share = s->bytes / (size_t)threads + 1;
    for (int i = 0; i < s->n; i++) {
        const part *p = &s->p[i];
        if ((size_t)(p->pin - s->pin) / share != (size_t)thread) continue;
        memcpy(s->in ? p->pin : p->host, s->in ? p->host : p->pin, p->bytes);
    }
}

static void host_copies(ft_pool **pool, int threads, stage *s)
{
    if (s->bytes <= ALONE_BYTES) {
        copy_share(s, 0, 1);
        return;
    }
    if (!*pool) *pool = ft_pool_new(threads, 0);
    ft_pool_run(*pool, copy_share, s);
}

/* The next part of a list of pieces: byte `done` of piece i. */
typedef struct cursor {
    size_t i, done;
} cursor;

static void fill(stage *s, const ft_copy *list, size_t n, cursor *at)
{
    s->n = 0;
    s->bytes = 0;
    while (at->i < n && s->n < PARTS && s->bytes < PIN_BYTES) {
        const ft_copy *k = &list[at->i];
        const size_t most = FT_MIN((size_t)PART_BYTES, PIN_BYTES - s->bytes);
        const size_t some = FT_MIN(k->bytes - at->done, most);
        s->p[s->n++] = part{(unsigned char *)k->host + at->done,
                            (unsigned char *)k->device + at->done, s->pin + s->bytes, some};
        s->bytes += ft_round_up(some, ALIGN);
        at->done += some;
        if (at->done < k->bytes) continue;
        at->done = 0;
        at->i++;
    }
}

static ft_cuda_copies *copies_of(ft_cuda *c)
{
    if (c->copies) return c->copies;
    ft_cuda_copies *k = c->copies = ft_new(ft_cuda_copies);
    pthread_mutex_init(&k->lock, NULL);
    pthread_cond_init(&k->full, NULL);
    pthread_cond_init(&k->empty, NULL);
    const size_t host = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    k->max_save = (int)FT_MAX((size_t)2, FT_MIN((size_t)SAVES, host / SAVES_SHARE / PIN_BYTES));
    return k;
}

void ft_cuda_copies_close(ft_cuda *c)
{
    ft_cuda_copies *k = c->copies;
    if (!k) return;
    pthread_mutex_lock(&k->lock);
    k->closing = true;
    pthread_cond_signal(&k->full);
    pthread_mutex_unlock(&k->lock);
    if (k->started) pthread_join(k->saver, NULL);
    for (int i = 0; i < UPLOADS; i++) stage_free(k->upload[i]);
    for (stage *s = k->idle, *next; s; s = next) {
        next = s->next;
        stage_free(s);
    }
    ft_pool_free(k->uploaders);
    ft_pool_free(k->savers);
    pthread_mutex_destroy(&k->lock);
    pthread_cond_destroy(&k->full);
    pthread_cond_destroy(&k->empty);
    ft_free(k);
    c->copies = NULL;
}

/* ---- into the device ---- */

/* Returns when the host's memory has been read. */
static void upload_list(ft_cuda *c, const ft_copy *list, size_t n)
{
    ft_cuda_copies *k = copies_of(c);
    cursor at = {};
    for (int j = 0; j < FT_CUDA_BF16_COPIES; j++) c->bf16[j].valid = false;
    for (int turn = 0; at.i < n && c->error == cudaSuccess; turn = (turn + 1) % UPLOADS) {
        if (!k->upload[turn]) k->upload[turn] = stage_new();
        stage *s = k->upload[turn];
        if (!s) {
            ft_cuda_check(c, cudaErrorMemoryAllocation, "pinned memory");
            return;
        }
        ft_cuda_check(c, cudaEventSynchronize(s->ended), "copies");
        s->in = true;
        fill(s, list, n, &at);
        host_copies(&k->uploaders, FT_MIN(THREADS, ft_cpu_count()), s);
        for (int i = 0; i < s->n; i++)
            ft_cuda_check(c,
                          cudaMemcpyAsync(s->p[i].device, s->p[i].pin, s->p[i].bytes,
                                          cudaMemcpyHostToDevice, c->stream),
                          "copies");
        ft_cuda_check(c, cudaEventRecord(s->ended, c->stream), "copies");
    }
}

/* ---- out of the device ---- */

/* The bus is the limit, also for pieces that are too short for a copy of their own. */
static __global__ void save_kernel(const part *p)
{
    const part q = p[blockIdx.x];
    const bool aligned = (uintptr_t)q.device % sizeof(uint4) == 0;
    const size_t wide = aligned ? q.bytes / sizeof(uint4) : 0;
    const uint4 *from = (const uint4 *)q.device;
    uint4 *to = (uint4 *)q.pin;
    for (size_t i = threadIdx.x; i < wide; i += blockDim.x) to[i] = from[i];
    for (size_t i = wide * sizeof(uint4) + threadIdx.x; i < q.bytes; i += blockDim.x)
        q.pin[i] = q.device[i];
}

/* When the transfers have ended: to the host's memory. */
static void empty(ft_cuda_copies *k, stage *s)
{
    const bool ok = cudaEventSynchronize(s->ended) == cudaSuccess && s->ok;
    if (ok) host_copies(&k->savers, FT_MAX(1, FT_MIN(THREADS, ft_cpu_count() / 2)), s);
    ft_copying_end(s->copying, ok);
}

/* Empties buffers; allocates one if there is none to empty, as long as there may be more. */
static void *saver(void *arg)
{
    ft_cuda *c = (ft_cuda *)arg;
    ft_cuda_copies *k = c->copies;
    cudaSetDevice(c->index);
    pthread_mutex_lock(&k->lock);
    for (;;) {
        while (!k->first && !k->closing && k->n_save == k->max_save)
            pthread_cond_wait(&k->full, &k->lock);
        stage *s = k->first;
        if (!s && k->closing) break;
        const bool fresh = !s;
        if (s) k->first = s->next;
        pthread_mutex_unlock(&k->lock);
        if (fresh)
            s = stage_new();
        else
            empty(k, s);
        pthread_mutex_lock(&k->lock);
        if (s) {
            s->next = k->idle;
            k->idle = s;
            k->n_save += fresh;
        } else {
            k->max_save = k->n_save; /* no more memory can be pinned */
        }
        pthread_cond_signal(&k->empty);
    }
    pthread_mutex_unlock(&k->lock);
    return NULL;
}

/* An empty buffer, if need be when one has been emptied. NULL: none can be allocated. */
static stage *idle_stage(ft_cuda_copies *k)
{
    pthread_mutex_lock(&k->lock);
    while (!k->idle && k->max_save) pthread_cond_wait(&k->empty, &k->lock);
    stage *s = k->idle;
    if (s) k->idle = s->next;
    pthread_mutex_unlock(&k->lock);
    return s;
}

static void give(ft_cuda_copies *k, stage *s)
{
    s->next = NULL;
    pthread_mutex_lock(&k->lock);
    if (k->first)
        k->last->next = s;
    else
        k->first = s;
    k->last = s;
    pthread_cond_signal(&k->full);
    pthread_mutex_unlock(&k->lock);
}

extern "C" void ft_cuda_save_list(ft_dev *d, const ft_copy *list, size_t n, ft_copying *copying)
{
    ft_cuda *c = (ft_cuda *)d;
    ft_cuda_copies *k = copies_of(c);
    cursor at = {};
    ft_cuda_enter(d);
    if (!k->started) k->started = !pthread_create(&k->saver, NULL, saver, c);
    while (at.i < n) {
        stage *s = k->started ? idle_stage(k) : NULL;
        ft_copying_begin(copying);
        if (!s) {
            ft_cuda_check(c, cudaErrorMemoryAllocation, "pinned memory");
            ft_copying_end(copying, false);
            return;
        }
        s->copying = copying;
        s->in = false;
        fill(s, list, n, &at);
        FT_LAUNCH(c, save_kernel, (unsigned)s->n, 512, 0, s->p);
        ft_cuda_check(c, cudaEventRecord(s->ended, c->stream), "copies");
        s->ok = c->error == cudaSuccess;
        give(k, s);
    }
}

extern "C" void ft_cuda_copy_list(ft_dev *d, const ft_copy *list, size_t n, bool in)
{
    ft_copying copying = {};
    ft_cuda_enter(d);
    if (in) {
        upload_list((ft_cuda *)d, list, n);
        return;
    }
    ft_cuda_save_list(d, list, n, &copying);
    ft_copying_wait(&copying);
}
