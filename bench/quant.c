/* bench/quant [ROWS]: error and speed of every encoder and decoder, one thread.
 * Rows of 2048 values are drawn from three distributions of standard size 0.02: Gaussian, Student t
 * with 3 degrees of freedom, Laplace. The error is the root mean square over 0.02, without and with
 * importances (log-normal, sigma 1.5, one per column); speeds count the bytes of f32. */
#define _POSIX_C_SOURCE 200809L
#include "quant/quant.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

enum { COLS = 2048, REPEAT = 3 };

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double draw(ft_rng *r, int distribution)
{
    if (distribution == 0) return 0.02 * ft_rng_normal(r);
    if (distribution == 1) {
        const double a = ft_rng_normal(r), b = ft_rng_normal(r), c = ft_rng_normal(r);
        return 0.02 * ft_rng_normal(r) / sqrt((a * a + b * b + c * c) / 3);
    }
    const double u = ft_rng_f64(r) - 0.5;
    return 0.02 * (u < 0 ? 1 : -1) * log(1 - 2 * fabs(u) + 1e-300);
}

/* Best time of encoding all rows. */
static double encode(ft_type t, uint8_t *blocks, const float *x, int64_t rows, const float *weight)
{
    double best = 1e30;
    for (int k = 0; k < REPEAT; k++) {
        const double start = cpu_seconds();
        for (int64_t i = 0; i < rows; i++)
            ft_row_encode(t, blocks + ft_type_row(t, COLS) * (size_t)i, x + COLS * i, COLS, weight);
        best = FT_MIN(best, cpu_seconds() - start);
    }
    return best;
}

static double rms_error(const float *x, const float *y, size_t n, const float *weight)
{
    double sum = 0, all = 0;
    for (size_t i = 0; i < n; i++) {
        const double e = (double)x[i] - (double)y[i], w = weight ? (double)weight[i % COLS] : 1;
        sum += w * e * e;
        all += w;
    }
    return sqrt(sum / all) / 0.02;
}

static void row_of(ft_type t, float *const x[3], int64_t rows, const float *weight)
{
    const size_t n = COLS * (size_t)rows;
    uint8_t *blocks = ft_alloc(ft_type_row(t, n));
    float *y = ft_new_n(float, n);
    double seconds[2] = {0, 0}, decode = 1e30;
    printf("%-7s", ft_type_name(t));
    for (int d = 0; d < 3; d++)
        for (int w = 0; w < 2; w++) {
            const double s = encode(t, blocks, x[d], rows, w ? weight : NULL);
            if (d == 0) seconds[w] = s;
            const double start = cpu_seconds();
            ft_row_decode(t, y, blocks, n);
            decode = FT_MIN(decode, cpu_seconds() - start);
            printf(" %9.6f", rms_error(x[d], y, n, w ? weight : NULL));
        }
    const double mb = 4e-6 * (double)n;
    printf(" %9.0f %9.0f %9.0f\n", mb / seconds[0], mb / seconds[1], mb / decode);
    ft_free(blocks);
    ft_free(y);
}

int main(int argc, char **argv)
{
    int64_t rows = 128;
    if (argc > 2 || (argc == 2 && !ft_parse_i64(argv[1], 1, 100000, &rows))) {
        fprintf(stderr, "bench/quant: want at most one argument, rows from 1 to 100000\n");
        return 1;
    }
    float *x[3], *weight = ft_new_n(float, COLS);
    ft_rng r = {99};
    for (int i = 0; i < COLS; i++) weight[i] = (float)exp(1.5 * ft_rng_normal(&r));
    for (int d = 0; d < 3; d++) {
        x[d] = ft_new_n(float, COLS *(size_t)rows);
        r.state = 1000 + (uint64_t)d;
        for (int64_t i = 0; i < COLS * rows; i++) x[d][i] = (float)draw(&r, d);
    }
    printf("%-7s %9s %9s %9s %9s %9s %9s %9s %9s %9s\n", "type", "gauss", "weighted", "t3",
           "weighted", "laplace", "weighted", "enc MB/s", "weighted", "dec MB/s");
    for (uint32_t t = 0; t < FT_TYPE_MAX; t++)
        if (ft_type_encodes((ft_type)t)) row_of((ft_type)t, x, rows, weight);
    for (int d = 0; d < 3; d++) ft_free(x[d]);
    ft_free(weight);
    return 0;
}
