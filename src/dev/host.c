#include "dev/host.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "base/pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* calloc returns untouched pages, which a memset would all allocate at once: caches are sized for
 * the longest context and mostly stay empty. The pointer to free is stored in front of the block.
 */
void *ft_host_alloc(ft_dev *d, size_t bytes)
{
    (void)d;
    size_t want;
    if (!ft_add_size(bytes, FT_HOST_ALIGN + sizeof(void *), &want)) return NULL;
    unsigned char *base = ft_try_alloc(want);
    if (!base) return NULL;
    const uintptr_t at = (uintptr_t)base + sizeof(void *);
    unsigned char *p = base + (ft_round_up(at, FT_HOST_ALIGN) - (uintptr_t)base);
    memcpy(p - sizeof(void *), &base, sizeof base);
    return p;
}

void ft_host_free(ft_dev *d, void *p)
{
    (void)d;
    if (!p) return;
    unsigned char *base;
    memcpy(&base, (unsigned char *)p - sizeof base, sizeof base);
    ft_free(base);
}

void ft_host_copy(ft_dev *d, void *dst, const void *src, size_t bytes)
{
    (void)d;
    memcpy(dst, src, bytes);
}

ft_status ft_host_bind(ft_dev *d, ft_weight *w, const void *host, ft_err *err)
{
    (void)d, (void)err;
    w->data = host;
    w->row_bytes = ft_type_row(w->type, (size_t)w->k);
    return FT_OK;
}

bool ft_host_replay(ft_dev *d, const void *pass)
{
    (void)d, (void)pass;
    return false;
}

void ft_host_linears(ft_dev *d, const ft_product_out *o, int n, ft_mat x)
{
    for (int i = 0; i < n; i++) d->op->linear(d, o[i].y, x, o[i].w, false);
}

void ft_host_glu(ft_dev *d, ft_mat y, ft_mat u, ft_mat x, const ft_weight *gate,
                 const ft_weight *up, ft_act act)
{
    d->op->linear(d, y, x, gate, false);
    d->op->linear(d, u, x, up, false);
    d->op->act_mul(d, y, y, u, act);
}

uint64_t ft_host_weight_bytes(ft_dev *d, const ft_weight *w)
{
    (void)d;
    return (uint64_t)w->row_bytes * (uint64_t)w->n * (uint64_t)w->E;
}

/* Activations as bytes, in addition to the floats. */
uint64_t ft_host_step_bytes(ft_dev *d, const ft_dev_limits *l)
{
    (void)d;
    return (uint64_t)l->rows * (uint64_t)l->k * 4;
}

/* A line of /proc/meminfo, in bytes; 0: there is none. */
static uint64_t meminfo(const char *key)
{
    FILE *f = fopen("/proc/meminfo", "r");
    const size_t n = strlen(key);
    uint64_t kb = 0;
    char line[128];
    while (f && !kb && fgets(line, sizeof line, f))
        if (!strncmp(line, key, n) && line[n] == ':') kb = strtoull(line + n + 1, NULL, 10);
    if (f) fclose(f);
    return kb << 10;
}

uint64_t ft_host_free_bytes(ft_dev *d)
{
    (void)d;
    return meminfo("MemAvailable");
}

void ft_dev_cpu_info(ft_dev_info *out)
{
    *out = (ft_dev_info){.kind = "CPU"};
    ft_cpu_name(out->name);
    out->bytes = meminfo("MemTotal");
    out->free = meminfo("MemAvailable");
    snprintf(out->features, sizeof out->features, "instruction sets %s", ft_cpu_isa_names());
}

enum { READ_BYTES = 256 << 20 };

typedef struct reading {
    const uint64_t *data;
    uint64_t sum[64];
} reading;

/* Sixteen bytes: with narrower loads the additions would be the limit. */
typedef uint64_t pair __attribute__((vector_size(16)));

static void read_slice(void *arg, int thread, int threads)
{
    reading *r = arg;
    const size_t n = READ_BYTES / sizeof(pair), part = n / (size_t)threads / 4 * 4;
    const pair *p = (const pair *)(const void *)r->data + part * (size_t)thread;
    pair a = {0}, b = {0}, c = {0}, d = {0};
    for (size_t i = 0; i < part; i += 4) {
        a += p[i];
        b += p[i + 1];
        c += p[i + 2];
        d += p[i + 3];
    }
    a += b + c + d;
    r->sum[thread % 64] = a[0] + a[1];
}

double ft_host_read_rate(ft_dev *d)
{
    ft_pool *pool = ft_pool_new(d->threads, 1);
    uint64_t *data = ft_new_n(uint64_t, READ_BYTES / sizeof *data);
    ft_want_large_pages(data, READ_BYTES); /* like packed weights */
    for (size_t i = 0; i < READ_BYTES / sizeof *data; i += 512)
        data[i] = i; /* allocates every page */
    reading r = {.data = data};
    double best = 0;
    for (int i = 0; i < 5; i++) {
        const double start = ft_now_s();
        ft_pool_run(pool, read_slice, &r);
        best = fmax(best, READ_BYTES / (ft_now_s() - start));
    }
    ft_free(data);
    ft_pool_free(pool);
    return best;
}
