/* Copies of pieces between host and device, as one: they pass through two pinned buffers, and
 * threads copy between these and the host's memory while the other one is transferred. With an
 * H200, 14.3 GiB of weights in the page cache were uploaded at 15.9 GiB/s, a quarter of the bus
 * bandwidth: the threads that read the page cache are the limit. */
#include "dev/cuda/common.cuh"

extern "C" {
#include "base/mem.h"
#include "base/pool.h"
}

#include <string.h>

enum {
    PIN_BYTES = 32 << 20,
    PARTS = 4096,          /* most of a buffer */
    PART_BYTES = 1 << 20,  /* a longer piece is divided among the threads */
    THREADS = 8,           /* one copies 6 GB/s out of the page cache, the bus transfers 50 */
    ALONE_BYTES = 2 << 20, /* up to this size one thread is enough */
};

/* A part of a piece that is in a pinned buffer. */
typedef struct part {
    unsigned char *host, *device, *pin;
    size_t bytes;
} part;

typedef struct stage {
    part p[PARTS];
    int n;
    size_t bytes;
    bool in;
} stage;

/* The parts are divided by bytes: thread i has those that begin in its share. */
static void copy_share(void *arg, int thread, int threads)
{
    const stage *s = (const stage *)arg;
    const size_t share = s->bytes / (size_t)threads + 1;
    size_t at = 0;
    for (int i = 0; i < s->n; at += s->p[i++].bytes) {
        if (at / share != (size_t)thread) continue;
        const part *p = &s->p[i];
        memcpy(s->in ? p->pin : p->host, s->in ? p->host : p->pin, p->bytes);
    }
}

static void host_copies(ft_cuda *c, stage *s)
{
    if (s->bytes <= ALONE_BYTES) {
        copy_share(s, 0, 1);
        return;
    }
    if (!c->copiers) c->copiers = ft_pool_new(FT_MIN(THREADS, ft_cpu_count()), 0);
    ft_pool_run(c->copiers, copy_share, s);
}

/* The next part of a list of pieces: byte `done` of piece i. */
typedef struct cursor {
    size_t i, done;
} cursor;

/* Takes parts from the list until the buffer is full. */
static void fill(stage *s, unsigned char *pin, const ft_copy *list, size_t n, cursor *at)
{
    s->n = 0;
    s->bytes = 0;
    while (at->i < n && s->n < PARTS && s->bytes < PIN_BYTES) {
        const ft_copy *k = &list[at->i];
        const size_t most = FT_MIN((size_t)PART_BYTES, PIN_BYTES - s->bytes);
        const size_t some = FT_MIN(k->bytes - at->done, most);
        s->p[s->n++] = part{(unsigned char *)k->host + at->done,
                            (unsigned char *)k->device + at->done, pin + s->bytes, some};
        s->bytes += some;
        at->done += some;
        if (at->done < k->bytes) continue;
        at->done = 0;
        at->i++;
    }
}

static void transfer(ft_cuda *c, const stage *s)
{
    for (int i = 0; i < s->n; i++) {
        const part *p = &s->p[i];
        ft_cuda_check(
            c,
            s->in ? cudaMemcpyAsync(p->device, p->pin, p->bytes, cudaMemcpyHostToDevice, c->stream)
                  : cudaMemcpyAsync(p->pin, p->device, p->bytes, cudaMemcpyDeviceToHost, c->stream),
            "copies");
    }
}

static bool pin_ready(ft_cuda *c)
{
    for (int i = 0; i < 2 && c->error == cudaSuccess; i++) {
        if (c->pin[i]) continue;
        ft_cuda_check(c, cudaMallocHost((void **)&c->pin[i], PIN_BYTES), "pinned memory");
        ft_cuda_check(c, cudaEventCreateWithFlags(&c->pinned[i], cudaEventDisableTiming),
                      "cudaEventCreate");
    }
    return c->error == cudaSuccess;
}

/* Into the device: returns when the host's memory has been read. */
extern "C" void ft_cuda_copy_list(ft_dev *d, const ft_copy *list, size_t n, bool in)
{
    ft_cuda *c = (ft_cuda *)d;
    stage *const both = (stage *)ft_alloc(2 * sizeof(stage));
    cursor at = {};
    ft_cuda_enter(d);
    for (int j = 0; j < FT_CUDA_BF16_COPIES && in; j++) c->bf16[j].valid = false;
    for (int k = 0; pin_ready(c) && (at.i < n || both[0].n || both[1].n); k ^= 1) {
        stage *s = &both[k];
        ft_cuda_check(c, cudaEventSynchronize(c->pinned[k]), "copies");
        if (s->n && !in) host_copies(c, s);
        s->in = in;
        fill(s, c->pin[k], list, n, &at);
        if (in) host_copies(c, s);
        transfer(c, s);
        ft_cuda_check(c, cudaEventRecord(c->pinned[k], c->stream), "copies");
        if (in) s->n = 0; /* nothing is left to do when the buffer has been read */
    }
    ft_free(both);
}
