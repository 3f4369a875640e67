/* attend: time of attention over a long context for every encoding of the cache, and of storing a
 * token. One thread, its CPU time, best of seven. usage: attend [POSITIONS [TYPE]] */
#define _POSIX_C_SOURCE 200809L
#include "base/mem.h"
#include "base/rng.h"
#include "dev/dev.h"
#include "dev/kv_row.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROWS = 512, TIMES = 7, PROMPT = 64 };

static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void measure(ft_dev *dev, ft_kv_type type, int H, int G, int d, int cells)
{
    const int pages = cells / FT_PAGE_ROWS;
    ft_kv kv = {.kt = type, .vt = type, .G = G, .d = d};
    kv.k_row = kv.v_row = ft_kv_row_bytes(type, d);
    kv.k_page = kv.v_page = kv.k_row * (size_t)(G * FT_PAGE_ROWS);
    kv.k = dev->alloc(dev, kv.k_page * (size_t)pages);
    kv.v = dev->alloc(dev, kv.v_page * (size_t)pages);
    int32_t *page = ft_new_n(int32_t, (size_t)pages), cell[ROWS], end[ROWS], of[ROWS] = {0};
    for (int i = 0; i < pages; i++) page[i] = i;
    float *x = ft_new_n(float, (size_t)(ROWS * H * d)),
          *y = ft_new_n(float, (size_t)(PROMPT * H * d));
    ft_rng r = {1};
    for (int i = 0; i < ROWS * H * d; i++) x[i] = (float)ft_rng_f64(&r) - 0.5f;
    ft_span span = {.n = ROWS};
    ft_batch b = {.T = ROWS, .S = 1, .cell = cell, .end = end, .span_of = of, .span = &span};
    b.page[0] = b.page[1] = page;
    b.pages_per_seq = pages;
    const ft_mat k = {x, ROWS, G, d, G * d, d};
    double put = cpu_ms();
    for (int at = 0; at < cells; at += ROWS) {
        for (int i = 0; i < ROWS; i++) {
            cell[i] = at + i;
            end[i] = at + i + 1;
        }
        dev->record(dev, &b);
        dev->op->kv_put(dev, &kv, k, k);
        dev->commit(dev);
    }
    put = cpu_ms() - put;
    double took[2]; /* one row, and as many as a prompt has at a time */
    for (int j = 0; j < 2; j++) {
        b.T = span.n = j ? PROMPT : 1;
        for (int i = 0; i < b.T; i++) end[i] = cells - b.T + i + 1;
        const ft_mat q = {x, b.T, H, d, H * d, d}, o = {y, b.T, H, d, H * d, d};
        took[j] = 1e30;
        for (int i = 0; i < (j ? 2 : TIMES); i++) {
            const double start = cpu_ms();
            dev->record(dev, &b);
            dev->op->attend(dev, o, q, &kv, (ft_attn){.scale = 0.06f});
            dev->commit(dev);
            took[j] = FT_MIN(took[j], cpu_ms() - start);
        }
    }
    printf("%2d query, %d kv heads of %d, %5d cells, %-8s attend %7.2f ms, %d rows %5.1f GFLOP/s, "
           "kv_put %6.2f us a token\n",
           H, G, d, cells, ft_kv_type_name(type), took[0], PROMPT,
           4e-6 * PROMPT * H * d * cells / took[1], 1e3 * put / cells);
    dev->free(dev, kv.k);
    dev->free(dev, kv.v);
    ft_free(page);
    ft_free(x);
    ft_free(y);
}

int main(int argc, char **argv)
{
    const int only = argc > 1 ? atoi(argv[1]) : 0;
    static const int shape[][3] = {{2, 1, 256}, {16, 4, 256}, {32, 8, 128}};
    static const ft_kv_type type[] = {FT_KV_F16, FT_KV_Q8_0, FT_KV_TURBO4, FT_KV_TURBO3,
                                      FT_KV_TURBO2};
    ft_dev *dev = ft_dev_cpu(1);
    for (size_t s = 0; s < FT_COUNT(shape); s++)
        for (int cells = 16384; cells <= 32768; cells *= 2)
            for (size_t t = 0; t < FT_COUNT(type) && (!only || cells == only); t++)
                if (argc < 3 || !strcmp(argv[2], ft_kv_type_name(type[t])))
                    measure(dev, type[t], shape[s][0], shape[s][1], shape[s][2], cells);
    ft_dev_close(dev);
    return 0;
}
