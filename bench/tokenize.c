/* bench/tokenize.c - usage: tokenize VOCAB.gguf FILE [N]. Encodes FILE N times and prints the best
 * speed in MB per second of CPU time (not wall-clock time, because the machine may be busy). */
#define _POSIX_C_SOURCE 200809L
#include "base/file.h"
#include "base/mem.h"
#include "foretoken.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int main(int argc, char **argv)
{
    ft_err err;
    ft_vocab *v = NULL;
    char *text = NULL;
    size_t n = 0, n_ids = 0;
    if (argc < 3) {
        fprintf(stderr, "usage: tokenize VOCAB.gguf FILE [N]\n");
        return 1;
    }
    const int64_t t0 = cpu_ns();
    if (ft_vocab_load(&v, argv[1], &err) ||
        ft_file_read(&text, &n, argv[2], (size_t)1 << 30, &err)) {
        fprintf(stderr, "tokenize: %s\n", err.text);
        return 1;
    }
    const int64_t load = cpu_ns() - t0;
    int64_t best = INT64_MAX;
    for (int i = argc > 3 ? atoi(argv[3]) : 3; i > 0; i--) {
        int32_t *ids;
        const int64_t start = cpu_ns();
        if (ft_vocab_encode(v, text, n, 0, &ids, &n_ids, &err)) {
            fprintf(stderr, "tokenize: %s\n", err.text);
            return 1;
        }
        best = FT_MIN(best, cpu_ns() - start);
        free(ids);
    }
    printf("{\"bytes\": %zu, \"ids\": %zu, \"load_ms\": %.1f, \"mb_per_s\": %.2f}\n", n, n_ids,
           (double)load * 1e-6, (double)n * 1e3 / (double)best);
    ft_free(text);
    ft_vocab_free(v);
    return 0;
}
