/* vision: time of a vision tower for images of several sizes, from resized pixels to rows on the
 * host, and the share of each op. Median of the repetitions after one that warms up.
 *   vision MMPROJ.gguf [DEVICE [REPETITIONS [TOKENS ...]]]     "ops" as a last word prints the ops
 *   vision --picture SIDE FILE.png                              writes a square picture for
 * vision.sh An op is timed by waiting for it, so that the ops' sum exceeds the time of the tower.
 */
#define _XOPEN_SOURCE 700
#include "model/vision.h"
#include "base/clock.h"
#include "base/mem.h"
#include "common.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef FT_HAVE_PNG
#include <png.h>
#endif

enum { MAX_REPETITIONS = 100 };

/* A smooth pattern with some noise. */
static ft_image picture(int w, int h)
{
    ft_image m = {.w = w, .h = h, .rgb = ft_new_n(unsigned char, (size_t)w *(size_t)h * 3)};
    unsigned noise = 1;
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            for (int c = 0; c < 3; c++) {
                noise = noise * 1664525u + 1013904223u;
                m.rgb[((size_t)y * (size_t)w + (size_t)x) * 3 + (size_t)c] =
                    (unsigned char)(((unsigned)(x * (c + 1) + y * (3 - c)) / 8 +
                                     noise / (1u << 28)) %
                                    256);
            }
    return m;
}

static int write_picture(int side, const char *path)
{
#ifdef FT_HAVE_PNG
    ft_image m = picture(side, side);
    png_image p = {.version = PNG_IMAGE_VERSION,
                   .width = (png_uint_32)side,
                   .height = (png_uint_32)side,
                   .format = PNG_FORMAT_RGB};
    const int ok = png_image_write_to_file(&p, path, 0, m.rgb, 0, NULL);
    ft_image_release(&m);
    if (ok) return 0;
    fprintf(stderr, "%s: %s\n", path, p.message);
#else
    fprintf(stderr, "%s: built without libpng\n", path);
    (void)side;
#endif
    return 1;
}

static int by_time(const void *a, const void *b)
{
    return -by_value(&((const ft_profile_row *)a)->best, &((const ft_profile_row *)b)->best);
}

/* All layers of an op in one row. */
static void print_ops(const ft_profile *p, double peak_s)
{
    ft_profile_row sum[64];
    int n = 0;
    for (int i = 0; i < p->n; i++) {
        int k = 0;
        while (k < n && strcmp(sum[k].op, p->row[i].op)) k++;
        if (k == 64) continue;
        if (k == n) sum[n++] = (ft_profile_row){.op = p->row[i].op};
        sum[k].calls += p->row[i].calls;
        sum[k].best += p->row[i].best;
        sum[k].bytes += p->row[i].bytes;
        sum[k].flops += p->row[i].flops;
    }
    qsort(sum, (size_t)n, sizeof *sum, by_time);
    printf("    %-12s %6s %10s %8s %10s %10s\n", "op", "calls", "ms", "share", "Gflop/s", "GB/s");
    for (int k = 0; k < n; k++)
        printf("    %-12s %6d %10.3f %7.1f%% %10.0f %10.0f\n", sum[k].op, sum[k].calls,
               sum[k].best * 1e3, 100 * sum[k].best / peak_s, sum[k].flops / sum[k].best * 1e-9,
               sum[k].bytes / sum[k].best * 1e-9);
}

/* Arithmetic of the ops, and their times where `ops`. */
static ft_status profiled(ft_vision *v, const ft_image *m, const ft_grid *g, float *out, bool ops,
                          double *flops, ft_err *err)
{
    ft_profile *p = ft_new(ft_profile);
    *p = (ft_profile){.least = 1, .most = 1 << 30};
    v->profile = p;
    ft_profile_begin(p, g->gw * g->gh);
    const ft_status st = ft_vision_encode(v, m, g, out, err);
    ft_profile_begin(p, 0);
    v->profile = NULL;
    double seconds = 0;
    *flops = 0;
    for (int i = 0; i < p->n; i++) {
        *flops += p->row[i].flops;
        seconds += p->row[i].best;
    }
    if (ops && !st) print_ops(p, seconds);
    ft_free(p);
    return st;
}

static ft_status measure(ft_vision *v, int tokens, int reps, bool ops, ft_err *err)
{
    int side = v->unit;
    while ((side / v->unit + 1) * (side / v->unit + 1) <= tokens) side += v->unit;
    ft_grid g;
    ft_status st = ft_vision_fit(v, side, side, 0, tokens, &g, err);
    if (st) return st;
    ft_image m = picture(g.W, g.H);
    const int T = g.rows * g.cols;
    float *out = ft_new_n(float, (size_t)T *(size_t)v->E);
    double s[MAX_REPETITIONS], before[MAX_REPETITIONS], flops = 0;
    for (int i = -1; i < reps && !st; i++) {
        const int64_t start = ft_now_ns();
        bool done;
        ft_encoding *e = NULL;
        st = ft_encoding_new(&e, v, &m, &g, err);
        const int64_t ready = ft_now_ns();
        if (!st) st = ft_encoding_run(e, INFINITY, out, &done, err);
        ft_encoding_free(e);
        if (i < 0) continue;
        s[i] = (double)(ft_now_ns() - start) * 1e-9;
        before[i] = (double)(ready - start) * 1e-9;
    }
    if (!st) {
        qsort(s, (size_t)reps, sizeof *s, by_value);
        qsort(before, (size_t)reps, sizeof *before, by_value);
        st = profiled(v, &m, &g, out, false, &flops, err);
    }
    if (!st)
        printf("%5d tokens, %6d patches: %9.2f ms (best %.2f; patches and upload %.2f), "
               "%.2f Tflop, %.1f Tflop/s\n",
               T, g.gw * g.gh, s[reps / 2] * 1e3, s[0] * 1e3, before[reps / 2] * 1e3, flops * 1e-12,
               flops / s[reps / 2] * 1e-12);
    if (!st && ops) st = profiled(v, &m, &g, out, true, &flops, err);
    ft_free(out);
    ft_image_release(&m);
    return st;
}

static ft_status bench(const char *path, const char *device, int reps, char **sizes, int n_sizes,
                       bool ops, ft_err *err)
{
    static char *usual[] = {"256", "1024", "4096"};
    ft_dev *dev = NULL;
    ft_gguf *file = NULL;
    ft_vision *v = NULL;
    ft_status st = ft_dev_open(&dev, device, 0, err);
    if (!st) st = ft_gguf_open(&file, path, true, err);
    if (!st && (st = ft_vision_open(&v, file, dev, 0, err))) ft_gguf_close(file);
    if (!st) printf("%s, %s, %s\n", path, v->tower->words, device);
    if (!n_sizes) sizes = usual, n_sizes = 3;
    for (int i = 0; i < n_sizes && !st; i++) {
        const int tokens = atoi(sizes[i]);
        if (tokens < 1 || tokens > 1 << 16)
            st = ft_fail(err, FT_EINVAL, "%s tokens, want 1 to 65536", sizes[i]);
        else
            st = measure(v, tokens, reps, ops, err);
    }
    ft_vision_close(v);
    ft_dev_close(dev);
    return st;
}

int main(int argc, char **argv)
{
    ft_err err;
    if (argc == 4 && !strcmp(argv[1], "--picture")) {
        const int side = atoi(argv[2]);
        return side < 1 || side > 16384 ? 2 : write_picture(side, argv[3]);
    }
    const bool ops = argc > 2 && !strcmp(argv[argc - 1], "ops");
    argc -= ops;
    if (argc < 2) {
        fprintf(stderr, "usage: vision MMPROJ.gguf [DEVICE [REPETITIONS [TOKENS ...]]] [ops]\n");
        return 2;
    }
    const int reps = argc > 3 ? FT_MAX(1, FT_MIN(atoi(argv[3]), (int)MAX_REPETITIONS)) : 5;
    if (bench(argv[1], argc > 2 ? argv[2] : "cpu", reps, argv + 4, FT_MAX(0, argc - 4), ops,
              &err)) {
        fprintf(stderr, "vision: %s\n", err.text);
        return 1;
    }
    return 0;
}
