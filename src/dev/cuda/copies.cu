/* Copies of many pieces between host and device, as one: they pass through two pinned buffers, and
 * threads copy between these and the host's memory while the other one is transferred. */
#include "dev/cuda/common.cuh"

extern "C" {
#include "base/mem.h"
#include "base/pool.h"
}

#include <string.h>

enum { PARTS = 4096 };

/* A part of a piece that is in a pinned buffer. */
typedef struct part {
    unsigned char *host, *pin;
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
    if (s->bytes < FT_CUDA_PIN_BYTES / 16)
        copy_share(s, 0, 1);
    else
        ft_pool_run(ft_cuda_readers(c), copy_share, s);
}

/* Takes parts from the list until the buffer is full; *i and *done: the next piece and how much of
 * it was taken. */
static void fill(stage *s, unsigned char *pin, const ft_copy *list, size_t n, size_t *i,
                 size_t *done)
{
    s->n = 0;
    s->bytes = 0;
    while (*i < n && s->n < PARTS && s->bytes < FT_CUDA_PIN_BYTES) {
        const ft_copy *k = &list[*i];
        const size_t some = FT_MIN(k->bytes - *done, (size_t)FT_CUDA_PIN_BYTES - s->bytes);
        s->p[s->n++] = part{(unsigned char *)k->host + *done, pin + s->bytes, some};
        s->bytes += some;
        *done += some;
        if (*done < k->bytes) break;
        *done = 0;
        ++*i;
    }
}

/* Transfers what fill has taken, beginning with byte `done` of piece i. */
static void transfer(ft_cuda *c, const stage *s, const ft_copy *list, size_t i, size_t done)
{
    for (int j = 0; j < s->n; j++) {
        unsigned char *device = (unsigned char *)list[i].device + done;
        const part *p = &s->p[j];
        ft_cuda_check(
            c,
            s->in ? cudaMemcpyAsync(device, p->pin, p->bytes, cudaMemcpyHostToDevice, c->stream)
                  : cudaMemcpyAsync(p->pin, device, p->bytes, cudaMemcpyDeviceToHost, c->stream),
            "copies");
        done = 0;
        i++;
    }
}

extern "C" void ft_cuda_copy_list(ft_dev *d, const ft_copy *list, size_t n, bool in)
{
    ft_cuda *c = (ft_cuda *)d;
    stage *const both = (stage *)ft_alloc(2 * sizeof(stage));
    size_t i = 0, done = 0;
    ft_cuda_enter(d);
    for (int j = 0; j < FT_CUDA_BF16_COPIES && in; j++) c->bf16[j].valid = false;
    for (int k = 0; ft_cuda_pin_ready(c) && (i < n || both[0].n || both[1].n); k ^= 1) {
        stage *s = &both[k];
        ft_cuda_check(c, cudaEventSynchronize(c->pinned[k]), "copies");
        if (s->n && !in) host_copies(c, s);
        const size_t first = i, from = done;
        s->in = in;
        fill(s, c->pin[k], list, n, &i, &done);
        if (in) host_copies(c, s);
        transfer(c, s, list, first, from);
        ft_cuda_check(c, cudaEventRecord(c->pinned[k], c->stream), "copies");
        if (in) s->n = 0; /* nothing is left to do when the buffer has been read */
    }
    ft_free(both);
}
