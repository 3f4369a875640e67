/* steps: time of one step of a model on a device, by its shape.
 *   steps MODEL [DEV [CACHE TYPE [SHAPE...]]]
 * A shape is SxN@P: S sequences with N rows each (more than one: tentative, like draft tokens) with
 * a context of P positions. The context is not computed: the cache holds zeros, which takes the
 * same time. Medians of whole steps, from the upload of the batch to the download of the ids. */
#include "base/clock.h"
#include "base/mem.h"
#include "common.h"
#include "dev/kv_row.h"
#include "engine/step.h"
#include "kv/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMES = 41, WARM = 4, JOURNAL = 9 };

typedef struct shape {
    int seqs, rows, past;
} shape;

typedef struct bench {
    ft_dev *dev;
    ft_model *m;
    ft_cache *cache;
    ft_runner *run;
} bench;

static void open_cache(bench *b, ft_kv_type kv, int slots, int cells)
{
    ft_err err;
    ft_cache_params cp = {.layer = b->m->layer,
                          .n_layer = b->m->n_layer,
                          .trunk = b->m->L,
                          .kt = kv,
                          .vt = kv,
                          .exact = true,
                          .slots = slots,
                          .cells = cells,
                          .tentative = JOURNAL};
    ft_kv_choice *plan = ft_kv_plan_new(&cp);
    cp.plan = plan;
    stop_on(ft_cache_new(&b->cache, b->dev, &cp, &err), &err);
    ft_free(plan);
    const ft_runner_params rp = {
        .model = b->m, .cache = b->cache, .slots = slots, .rows = 256, .out = 256, .cells = cells};
    stop_on(ft_runner_new(&b->run, &rp, &err), &err);
}

/* Moves a sequence to position `past` without computing anything. */
static void move_to(ft_seq *s, int past)
{
    while (ft_seq_len(s) < past) {
        const int n = FT_MIN(512, past - ft_seq_len(s));
        if (!ft_seq_reserve(s, n)) break;
        ft_seq_span(s, 0, n, false);
        ft_seq_accept(s, n);
    }
}

static double run_step(bench *b, ft_seq **seq, const shape *h)
{
    ft_err err;
    const int64_t start = ft_now_ns();
    ft_rowset *w = ft_runner_rows(b->run);
    for (int i = 0; i < h->seqs; i++) {
        if (!ft_seq_reserve(seq[i], h->rows)) exit(1);
        const int row = ft_rows_span(w, seq[i], h->rows, h->rows > 1);
        for (int r = 0; r < h->rows; r++) {
            w->token[row + r] = (7 * i + r) % b->m->V;
            ft_rows_out(w, row + r);
        }
    }
    stop_on(ft_runner_trunk(b->run, &err), &err);
    for (int i = 0; i < h->seqs * h->rows; i++)
        if (ft_runner_best(b->run, i) == FT_BEST_UNKNOWN) ft_runner_logits(b->run, i);
    for (int i = 0; i < h->seqs; i++) ft_seq_accept(seq[i], 1);
    return (double)(ft_now_ns() - start) * 1e-9;
}

static double time_shape(bench *b, const shape *h)
{
    double s[TIMES];
    ft_seq **seq = ft_new_n(ft_seq *, (size_t)h->seqs);
    for (int i = 0; i < h->seqs; i++) {
        seq[i] = ft_seq_new(b->cache);
        move_to(seq[i], h->past);
    }
    for (int i = -WARM; i < TIMES; i++) {
        const double t = run_step(b, seq, h);
        if (i >= 0) s[i] = t;
    }
    for (int i = 0; i < h->seqs; i++) ft_seq_free(seq[i]);
    ft_free(seq);
    qsort(s, TIMES, sizeof *s, by_value);
    return s[TIMES / 2];
}

int main(int argc, char **argv)
{
    static const char *const usual[] = {"1x1@0", "1x2@0", "1x4@0", "1x8@0", "4x1@0", "16x1@0"};
    const int given = argc > 4 ? argc - 4 : 0, n = given ? given : (int)FT_COUNT(usual);
    bench b = {0};
    ft_err err;
    ft_gguf *f;
    ft_kv_type kv = FT_KV_F16;
    double first = 0;
    if (argc < 2) {
        fprintf(stderr, "steps MODEL [DEV [CACHE TYPE [SxN@P...]]]\n");
        return 1;
    }
    if (argc > 3 && !ft_kv_type_find(ft_str_of(argv[3]), &kv)) {
        fprintf(stderr, "cache type \"%s\", want %s\n", argv[3], ft_kv_type_names());
        return 1;
    }
    stop_on(ft_dev_open(&b.dev, argc > 2 ? argv[2] : "auto", 0, &err), &err);
    stop_on(ft_gguf_open(&f, argv[1], true, &err), &err);
    stop_on(ft_model_open(&b.m, f, b.dev, NULL, NULL, &err), &err);
    for (int i = 0; i < n; i++) {
        shape h;
        const char *text = given ? argv[4 + i] : usual[i];
        if (sscanf(text, "%dx%d@%d", &h.seqs, &h.rows, &h.past) != 3 || h.seqs < 1 || h.rows < 1 ||
            h.past < 0 || h.seqs * h.rows > 256 || h.rows > JOURNAL || h.past > 1 << 20) {
            fprintf(stderr, "shape \"%s\", want SxN@P with N up to %d\n", text, JOURNAL);
            return 1;
        }
        open_cache(&b, kv, h.seqs, h.past + (TIMES + WARM) + 512);
        const double s = time_shape(&b, &h);
        if (!i) first = s;
        printf("%-12s %8.3f ms %9.1f rows/s  %.3f of the first\n", text, s * 1e3,
               h.seqs * h.rows / s, s / first);
        fflush(stdout);
        ft_runner_free(b.run);
        ft_cache_free(b.cache);
    }
    ft_model_close(b.m);
    b.dev->close(b.dev);
    return 0;
}
