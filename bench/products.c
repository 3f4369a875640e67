/* products: speed of the kernels for quantised weights. Every thread multiplies its own matrix,
 * once from the L1 cache and once from memory, with 1 to 128 rows of activations. usage: products
 * [threads [type]] */
#include "base/clock.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/rng.h"
#include "dev/cpu/kern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { K = 2048, COLS = 128, NEAR = 24 << 10, FAR = 48 << 20, TIMES = 5 };

typedef struct run {
    ft_kern k;
    ft_type type;
    int n, groups, passes;
    unsigned char **w; /* of each thread */
    float **y;
    ft_col8 x[COLS], wide[COLS]; /* a scale for 32 activations, and for 256 */
} run;

/* One group at a time, like a strip of outputs. */
static void multiply(void *arg, int thread, int threads)
{
    const run *r = arg;
    const ft_pack *p = &r->k.pack[r->type];
    const size_t step = p->bytes(K);
    float *y[COLS];
    (void)threads;
    for (int c = 0; c < COLS; c++) y[c] = r->y[thread] + c * FT_PACK_ROWS * 4;
    for (int i = 0; i < r->passes; i++)
        for (int g = 0; g + 4 <= r->groups; g += 4)
            for (int at = 0, n; at < r->n; at += n) {
                const bool many = r->k.many[r->type] && r->n - at > p->cols;
                n = many ? r->n - at : FT_MIN(p->cols, r->n - at);
                (many ? r->k.many[r->type] : p->dot)(y + at, r->w[thread] + (size_t)g * step, step,
                                                     4 * p->group, K,
                                                     (p->wide ? r->wide : r->x) + at, n);
            }
}

static double seconds(ft_pool *pool, run *r)
{
    double best = 1e30;
    for (int i = 0; i < TIMES; i++) {
        const int64_t start = ft_now_ns();
        ft_pool_run(pool, multiply, r);
        best = FT_MIN(best, (double)(ft_now_ns() - start) * 1e-9);
    }
    return best;
}

static void measure(ft_pool *pool, run *r)
{
    const ft_pack *p = &r->k.pack[r->type];
    const double bytes = (double)ft_type_row(r->type, K) * p->group;
    static const int cols[] = {1, 2, 4, 8, 16, 128};
    for (int far = 0; far < 2; far++) {
        r->groups = (int)((size_t)(far ? FAR : NEAR) / p->bytes(K)) / 4 * 4;
        r->groups = FT_MAX(4, r->groups);
        r->passes = far ? 1 : 2000;
        printf("%-8s %-6s", ft_type_of(r->type)->name, far ? "memory" : "cache");
        for (size_t i = 0; i < FT_COUNT(cols); i++) {
            r->n = cols[i];
            const double s = seconds(pool, r) / r->passes / r->groups;
            printf("  %d: %5.1f GB/s %5.1f Gmac/s", r->n, bytes / s * 1e-9,
                   (double)p->group * K * r->n / s * 1e-9);
        }
        putchar('\n');
    }
}

/* q: K bytes; the rows of activations are contiguous, like those of a model. */
static ft_col8 column(const ft_kern *k, const float *x, int8_t *q, bool wide)
{
    const ft_col8 to = {.q = q,
                        .d = ft_new_n(float, K / FT_BLOCK8),
                        .s = ft_new_n(float, K / FT_BLOCK8 * FT_SUMS8),
                        .t = ft_alloc_aligned(K / FT_BLOCK8 * FT_STARTS8 * sizeof(int32_t), 64)};
    if (wide)
        k->quantise_wide(to, x, 0, K);
    else
        k->quantise(to, x, 0, K, K);
    return to;
}

static void columns(run *r)
{
    ft_rng g = {1};
    int8_t *q = ft_alloc_aligned(COLS * K + 8, 64), *wide = ft_alloc_aligned(COLS * K + 8, 64);
    for (int c = 0; c < COLS; c++) {
        float x[K];
        for (int i = 0; i < K; i++) x[i] = (float)ft_rng_f64(&g) - 0.5f;
        r->x[c] = column(&r->k, x, q + c * K, false);
        if (r->k.quantise_wide) r->wide[c] = column(&r->k, x, wide + c * K, true);
    }
}

int main(int argc, char **argv)
{
    ft_pool *pool = ft_pool_new(argc > 1 ? atoi(argv[1]) : 1, 1);
    const int threads = ft_pool_threads(pool);
    run *r = ft_new(run);
    ft_kern_init(&r->k, ft_cpu_isa());
    columns(r);
    r->w = ft_new_n(unsigned char *, (size_t)threads);
    r->y = ft_new_n(float *, (size_t)threads);
    for (int t = 0; t < threads; t++) {
        r->w[t] = ft_alloc_aligned(FAR + (1 << 20), 4096);
        r->y[t] = ft_alloc_aligned(COLS * FT_PACK_ROWS * 4 * sizeof(float), 64);
        ft_rng g = {(uint64_t)t + 1};
        for (size_t i = 0; i < FAR + (1 << 20); i++)
            r->w[t][i] = (unsigned char)(ft_rng_u64(&g) & 63);
        ft_want_large_pages(r->w[t], FAR);
    }
    for (int type = 0; type < FT_TYPE_MAX; type++) {
        r->type = (ft_type)type;
        if (!r->k.pack[type].dot || (argc > 2 && strcmp(argv[2], ft_type_of(r->type)->name)))
            continue;
        measure(pool, r);
    }
    ft_pool_free(pool);
    return 0;
}
