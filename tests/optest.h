/* tests/optest.h - runs an op test on the ref device and on the device under test. A test is a
 * function of its shape: it makes inputs, calls ops, and states the allowed error. The runner calls
 * it with one seed
 *   - on ref, whose results are the reference;
 *   - on the device, compared by normalised squared error;
 *   - on the device with other numbers of threads, which must give the same bits;
 *   - for tests of independent rows, with single rows alone, which must give the same bits too.
 * Guards around every block and the gaps between an output's rows must not change.
 *   --dev NAME   cpu (default), cuda, vulkan
 *   --bench      time every shape instead
 *   --part I/N   every Nth shape, from the Ith on: several processes share the work
 *   NAME...      only tests whose name contains one of these */
#ifndef FT_TESTS_OPTEST_H
#define FT_TESTS_OPTEST_H

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "dev/step.h"
#include "quant/quant.h"
#include "tools/synth_blocks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { T_GUARD = 64, T_SHAPE = 10, T_BLOCKS = 512, T_KEPT = 32, T_WEIGHTS = 16, T_POISON = 0xa5 };

typedef struct t_block {
    unsigned char *base; /* on the device, including the guard */
    size_t bytes;
} t_block;

typedef struct t_result {
    float *v; /* rows without gaps */
    int T, cols;
} t_result;

typedef struct ft_optest {
    ft_dev *dev;
    ft_step *step, step_mem;
    ft_batch batch;
    ft_rng rng;
    int pick;   /* >= 0: only this row */
    bool exact; /* compare bits with the reference instead of errors */
    bool bench;
    bool rows;           /* single rows of the next weights are read */
    bool rounded;        /* products with the next weights may round */
    double bytes, flops; /* of one run, for the bench */
    t_block block[T_BLOCKS];
    int n_block;
    t_result kept[T_KEPT], *truth;
    int n_kept;
    double worst;   /* largest error over its limit */
    char why[600];  /* first failure */
    double best_ns; /* bench */
    void *host[T_BLOCKS];
    int n_host;
    ft_weight bound[T_WEIGHTS];
    int n_bound;
} ft_optest;

typedef void t_fn(ft_optest *t, const int *n);
typedef struct t_case {
    const char *name;
    t_fn *fn;
    const int (*shape)[T_SHAPE];
    int n_shape;
    bool rows; /* rows do not depend on each other */
} t_case;
/* OPTEST: a test by its shapes. OPTEST_ROWS: shape[0] is T, and each row can be computed alone. */
#define OPTEST_AS(fn, independent, ...)                                                            \
    static const int fn##_shape[][T_SHAPE] = {__VA_ARGS__};                                        \
    static const t_case fn##_case = {#fn, fn, fn##_shape, FT_COUNT(fn##_shape), independent};
#define OPTEST(fn, ...)      OPTEST_AS(fn, false, __VA_ARGS__)
#define OPTEST_ROWS(fn, ...) OPTEST_AS(fn, true, __VA_ARGS__)

static inline void t_fail(ft_optest *t, const char *what, double found)
{
    if (!t->why[0]) snprintf(t->why, sizeof t->why, "%s (%g)", what, found);
}

/* ---- memory ---- */

static inline void *t_alloc(ft_optest *t, size_t bytes)
{
    const size_t all = bytes + 2 * T_GUARD;
    unsigned char *base = t->dev->alloc(t->dev, all), *host = ft_alloc(all);
    assert(base && t->n_block < T_BLOCKS);
    memset(host, T_POISON, T_GUARD);
    memset(host + T_GUARD + bytes, T_POISON, T_GUARD);
    t->dev->upload(t->dev, base, host, all);
    ft_free(host);
    t->block[t->n_block++] = (t_block){base, all};
    return base + T_GUARD;
}

static inline void *t_host(ft_optest *t, size_t bytes)
{
    assert(t->n_host < T_BLOCKS);
    return t->host[t->n_host++] = ft_alloc_aligned(bytes, 64);
}

static inline void *t_put(ft_optest *t, const void *src, size_t bytes)
{
    void *p = t_alloc(t, bytes);
    t->dev->upload(t->dev, p, src, bytes);
    return p;
}

static inline float t_draw(ft_optest *t, float lo, float hi)
{
    return lo + (float)ft_rng_f64(&t->rng) * (hi - lo);
}

static inline int t_below(ft_optest *t, int n)
{
    return (int)(ft_rng_u64(&t->rng) % (uint64_t)n);
}

/* T rows of n columns with a gap after each row; when one row is picked, only that one. */
static inline ft_mat t_uniform(ft_optest *t, int T, int n, float lo, float hi)
{
    const int rs = (n + 15) / 16 * 16 + 16, rows = t->pick >= 0 ? 1 : T;
    float *v = ft_new_n(float, (size_t)T *(size_t)rs);
    for (int r = 0; r < T; r++)
        for (int c = 0; c < n; c++) v[(size_t)r * (size_t)rs + (size_t)c] = t_draw(t, lo, hi);
    const float *from = v + (t->pick >= 0 ? (size_t)t->pick * (size_t)rs : 0);
    float *p = t_put(t, from, (size_t)rows * (size_t)rs * sizeof(float));
    ft_free(v);
    ft_mat m = ft_mat_at(p, rows, n);
    m.rs = rs;
    return m;
}

static inline ft_mat t_output(ft_optest *t, int T, int n)
{
    const int rs = (n + 15) / 16 * 16 + 16, rows = t->pick >= 0 ? 1 : T;
    const size_t bytes = (size_t)rows * (size_t)rs * sizeof(float);
    unsigned char *host = ft_alloc(bytes);
    memset(host, T_POISON, bytes);
    ft_mat m = ft_mat_at(t_put(t, host, bytes), rows, n);
    ft_free(host);
    m.rs = rs;
    return m;
}

/* A matrix that only products with rounded weights read, full of NaN. */
static inline ft_mat t_operand(ft_optest *t, int T, int n)
{
    const int rs = (n + 15) / 16 * 16, rows = t->pick >= 0 ? 1 : T;
    const size_t all = (size_t)(rows + FT_OPERAND_ROWS - 1) / FT_OPERAND_ROWS * FT_OPERAND_ROWS;
    const size_t bytes = all * (size_t)rs * sizeof(float);
    unsigned char *host = ft_alloc(bytes);
    memset(host, 0xff, bytes);
    ft_mat m = ft_mat_at(t_put(t, host, bytes), rows, n);
    ft_free(host);
    m.rs = rs;
    m.operand = t->dev->op->dense && n >= 32;
    return m;
}

static inline ft_vec t_vec(ft_optest *t, int n, float lo, float hi)
{
    float *v = ft_new_n(float, (size_t)n);
    for (int i = 0; i < n; i++) v[i] = t_draw(t, lo, hi);
    ft_vec r = {t_put(t, v, (size_t)n * sizeof(float)), n};
    ft_free(v);
    return r;
}

/* A copy for the batch, whose arrays are in host memory. */
static inline void *t_keep(ft_optest *t, const void *src, size_t bytes)
{
    void *p = t_host(t, bytes + 1);
    memcpy(p, src, bytes);
    return p;
}

static inline int32_t *t_ints(ft_optest *t, const int32_t *v, int n)
{
    return t_keep(t, v, (size_t)n * sizeof *v);
}

/* Four random numbers of a table of normal ones, times 0.1: drawing each takes longer than encoding
 * it. */
static inline void t_draw_four(ft_optest *t, float *v)
{
    static float table[1 << 16];
    if (table[0] == 0) {
        ft_rng rng = {1};
        for (size_t i = 0; i < FT_COUNT(table); i++) table[i] = (float)ft_rng_normal(&rng) * 0.1f;
    }
    const uint64_t at = ft_rng_u64(&t->rng);
    for (int i = 0; i < 4; i++) v[i] = table[at >> 16 * i & 0xffff];
}

/* Random rows, encoded to the type; for types without an encoder, random blocks whose values have
 * the same deviation. */
static inline void t_draw_new(ft_optest *t, unsigned char *raw, ft_type type, size_t rows, int k)
{
    const size_t row = ft_type_row(type, (size_t)k);
    if (!ft_type_encodes(type)) {
        ft_tile blocks;
        ft_tile_init(&blocks, type, 0.1, rows * row, ft_rng_u64(&t->rng));
        memcpy(raw, blocks.data, rows * row);
        ft_tile_release(&blocks);
        return;
    }
    float *v = ft_new_n(float, (size_t)k + 3);
    for (size_t r = 0; r < rows; r++) {
        for (int i = 0; i < k; i += 4) t_draw_four(t, v + i);
        ft_row_encode(type, raw + r * row, v, (size_t)k, NULL);
    }
    ft_free(v);
}

/* Weights made before: a shape is run many times with the same ones, and making and encoding them
 * takes longer than most ops. */
typedef struct t_drawn {
    uint64_t from, to; /* the state of the random stream before and after */
    ft_type type;
    size_t bytes;
    int k;
    unsigned char *raw;
} t_drawn;

static inline void t_draw_rows(ft_optest *t, unsigned char *raw, ft_type type, size_t rows, int k)
{
    static t_drawn kept[T_WEIGHTS]; /* as many as a test binds */
    static int next;
    const size_t row = ft_type_row(type, (size_t)k), bytes = rows * row;
    for (size_t i = 0; i < FT_COUNT(kept); i++) {
        const t_drawn *d = &kept[i];
        if (d->raw && d->from == t->rng.state && d->type == type && d->k == k &&
            d->bytes == bytes) {
            memcpy(raw, d->raw, bytes);
            t->rng.state = d->to;
            return;
        }
    }
    t_drawn *d = &kept[next++ % (int)FT_COUNT(kept)];
    ft_free(d->raw);
    *d = (t_drawn){.from = t->rng.state, .type = type, .bytes = bytes, .k = k};
    t_draw_new(t, raw, type, rows, k);
    d->to = t->rng.state;
    d->raw = memcpy(ft_alloc(bytes), raw, bytes);
}

/* E matrices of n rows of k weights. */
static inline ft_weight t_weight_of(ft_optest *t, ft_type type, int n, int k, int E,
                                    const unsigned char *raw)
{
    ft_weight w = {.type = type, .n = n, .k = k, .E = E, .name = "test"};
    w.rows = t->rows;
    w.rounded = t->rounded;
    ft_err err;
    if (t->dev->bind(t->dev, &w, raw, &err)) t_fail(t, err.text, 0);
    assert(t->n_bound < T_WEIGHTS);
    t->bound[t->n_bound++] = w;
    return w;
}

/* Of random weights. */
static inline ft_weight t_weight(ft_optest *t, ft_type type, int n, int k, int E)
{
    const size_t rows = (size_t)n * (size_t)E;
    unsigned char *raw = t_host(t, rows * ft_type_row(type, (size_t)k));
    t_draw_rows(t, raw, type, rows, k);
    return t_weight_of(t, type, n, k, E, raw);
}

/* ---- running ---- */

static inline void t_begin(ft_optest *t)
{
    t->dev->record(t->dev, &t->batch);
    t->step->b = &t->batch;
    t->step->T = t->batch.T;
    t->step->n_out = t->batch.n_out;
}

/* Runs the ops recorded since t_begin. */
static inline void t_run(ft_optest *t)
{
    ft_err err;
    const int64_t limit = ft_now_ns() + (t->bench ? 150000000 : 0);
    t->dev->keep_ops = t->bench;
    do {
        const int64_t start = ft_now_ns();
        t->dev->commit(t->dev);
        if (t->dev->sync(t->dev, &err)) t_fail(t, err.text, 0);
        const double ns = (double)(ft_now_ns() - start);
        if (t->best_ns == 0 || ns < t->best_ns) t->best_ns = ns;
    } while (ft_now_ns() < limit);
    t->dev->keep_ops = false;
    if (t->bench) t->dev->commit(t->dev); /* and its list of ops is discarded */
}

static inline t_result t_read(ft_optest *t, ft_mat m)
{
    const int cols = ft_mat_cols(m);
    t_result r = {ft_new_n(float, (size_t)m.T *(size_t)cols), m.T, cols};
    float *row = ft_new_n(float, (size_t)m.rs + (size_t)cols);
    for (int y = 0; y < m.T; y++) {
        const int width = (m.H - 1) * m.hs + m.d;
        t->dev->download(t->dev, row, m.p + (size_t)y * (size_t)m.rs,
                         (size_t)width * sizeof(float));
        for (int c = 0; c < cols; c++)
            r.v[(size_t)y * (size_t)cols + (size_t)c] = row[c / m.d * m.hs + c % m.d];
    }
    ft_free(row);
    return r;
}

/* Normalised squared error; infinite where one is not finite and the other is, or they differ. */
static inline double t_error(const float *got, const float *want, size_t n)
{
    double sum = 0, base = 1e-30;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(got[i]) || !isfinite(want[i])) {
            if (memcmp(&got[i], &want[i], sizeof(float))) return HUGE_VAL;
            continue;
        }
        const double d = (double)got[i] - (double)want[i];
        sum += d * d;
        base += (double)want[i] * (double)want[i];
    }
    return sum / base;
}

/* The recorded ops have run or run now; y must agree with ref to the given error. */
static inline void t_expect_values(ft_optest *t, t_result r, double limit)
{
    const int i = t->n_kept;
    assert(i < T_KEPT);
    t->kept[t->n_kept++] = r;
    if (!t->truth) return;
    const size_t n = (size_t)r.T * (size_t)r.cols;
    const size_t from = t->pick >= 0 ? (size_t)t->pick * (size_t)r.cols : 0;
    const float *want = t->truth[i].v + from;
    if (t->exact) {
        if (memcmp(r.v, want, n * sizeof(float)))
            t_fail(t, "bits differ, error", t_error(r.v, want, n));
        return;
    }
    const double e = t_error(r.v, want, n);
    if (!(e <= limit)) t_fail(t, "error too large", e);
    if (e / limit > t->worst) t->worst = e / limit;
}

static inline void t_expect_rest(ft_optest *t, ft_mat y, double limit)
{
    t_expect_values(t, t_read(t, y), limit);
}

static inline void t_expect(ft_optest *t, ft_mat y, double limit)
{
    t_run(t);
    t_expect_rest(t, y, limit);
}

/* A block of device memory that ops changed, n values. */
static inline void t_expect_memory(ft_optest *t, const float *p, size_t n, double limit)
{
    t_expect_rest(t, ft_mat_at((float *)p, 1, (int)n), limit);
}

static inline void t_cost(ft_optest *t, double bytes, double flops)
{
    t->bytes = bytes;
    t->flops = flops;
}

/* Checks the gaps of an output: the fill pattern after each row. */
static inline void t_check_gaps(ft_optest *t, ft_mat y)
{
    unsigned char gap[64];
    for (int r = 0; r < y.T; r++) {
        const int cols = ft_mat_cols(y);
        t->dev->download(t->dev, gap, y.p + (size_t)r * (size_t)y.rs + cols, sizeof gap);
        for (size_t i = 0; i < sizeof gap; i++)
            if (gap[i] != T_POISON) {
                t_fail(t, "wrote past the end of row", r);
                return;
            }
    }
}

static inline void t_check_guards(ft_optest *t)
{
    for (int i = 0; i < t->n_block; i++) {
        unsigned char g[2 * T_GUARD];
        const t_block *b = &t->block[i];
        t->dev->download(t->dev, g, b->base, T_GUARD);
        t->dev->download(t->dev, g + T_GUARD, b->base + b->bytes - T_GUARD, T_GUARD);
        for (int j = 0; j < 2 * T_GUARD; j++)
            if (g[j] != T_POISON) {
                t_fail(t, "wrote outside block", i);
                break;
            }
    }
}

static inline void t_play(ft_optest *t, const t_case *c, int shape, ft_dev *dev)
{
    t->dev = dev;
    t->step = &t->step_mem;
    t->step_mem = (ft_step){.dev = dev, .b = &t->batch};
    t->batch = (ft_batch){0};
    t->rng = (ft_rng){(uint64_t)shape * 77 + 5};
    t->n_kept = t->n_block = t->n_host = t->n_bound = 0;
    t->best_ns = t->bytes = t->flops = 0;
    c->fn(t, c->shape[shape]);
    t_check_guards(t);
    for (int i = 0; i < t->n_bound; i++) dev->unbind(dev, &t->bound[i]);
    for (int i = 0; i < t->n_block; i++) dev->free(dev, t->block[i].base);
    for (int i = 0; i < t->n_host; i++) ft_free(t->host[i]);
}

static inline void t_forget(t_result *r, int n)
{
    for (int i = 0; i < n; i++) ft_free(r[i].v);
}

static inline void t_name(char *to, size_t cap, const t_case *c, int shape)
{
    int n = snprintf(to, cap, "%s", c->name), last = T_SHAPE;
    while (last > 1 && !c->shape[shape][last - 1]) last--;
    for (int i = 0; i < last && (size_t)n < cap; i++)
        n += snprintf(to + n, cap - (size_t)n, " %d", c->shape[shape][i]);
}

/* true when all runs of the shape agree */
static inline bool t_shape(const t_case *c, int shape, ft_dev *ref, ft_dev **dev, int n_dev)
{
    ft_optest *a = ft_new(ft_optest), *b = ft_new(ft_optest), *o = ft_new(ft_optest);
    char name[128];
    const char *how = "device";
    a->pick = b->pick = -1;
    t_play(a, c, shape, ref);
    b->truth = a->kept;
    t_play(b, c, shape, dev[0]);
    snprintf(o->why, sizeof o->why, "%s", b->why);
    for (int i = 1; i < n_dev && !o->why[0]; i++) {
        *o = (ft_optest){.pick = -1, .exact = true, .truth = b->kept};
        how = "other threads";
        t_play(o, c, shape, dev[i]);
        t_forget(o->kept, o->n_kept);
    }
    const int T = c->shape[shape][0], step = T > 8 ? T / 5 : 1;
    for (int r = 0; c->rows && r < T && !o->why[0]; r += step) {
        *o = (ft_optest){.pick = r, .exact = true, .truth = b->kept};
        how = "row alone";
        t_play(o, c, shape, dev[0]);
        t_forget(o->kept, o->n_kept);
    }
    t_name(name, sizeof name, c, shape);
    const bool ok = !o->why[0];
    if (!ok) printf("FAIL %s, %s: %s\n", name, how, o->why);
    t_forget(a->kept, a->n_kept);
    t_forget(b->kept, b->n_kept);
    ft_free(a);
    ft_free(b);
    ft_free(o);
    return ok;
}

static inline void t_bench(const t_case *c, int shape, ft_dev *dev)
{
    ft_optest *t = ft_new(ft_optest);
    char name[128];
    t->pick = -1;
    t->bench = true;
    t_play(t, c, shape, dev);
    t_name(name, sizeof name, c, shape);
    printf("%-40s %10.1f us %8.2f GB/s %8.2f GFLOP/s\n", name, t->best_ns * 1e-3,
           t->bytes / t->best_ns, t->flops / t->best_ns);
    t_forget(t->kept, t->n_kept);
    ft_free(t);
}

static inline bool t_wanted(const t_case *c, int argc, char **argv, int from)
{
    if (from >= argc) return true;
    for (int i = from; i < argc; i++)
        if (strstr(c->name, argv[i])) return true;
    return false;
}

static inline int t_main(int argc, char **argv, const t_case *const *cases, int n)
{
    int at = 1, passed = 0, failed = 0, threads = 0, part = 0, parts = 1, shapes = 0;
    bool bench = false;
    const char *name = "cpu";
    for (; at < argc && argv[at][0] == '-'; at++) {
        if (!strcmp(argv[at], "--bench")) bench = true;
        if (!strcmp(argv[at], "--dev") && at + 1 < argc) name = argv[++at];
        if (!strcmp(argv[at], "--threads") && at + 1 < argc) threads = atoi(argv[++at]);
        if (!strcmp(argv[at], "--part") && at + 1 < argc &&
            (sscanf(argv[++at], "%d/%d", &part, &parts) != 2 || part < 1 || parts < part)) {
            printf("--part %s, want I/N\n0 passed, 1 failed\n", argv[at]);
            return 1;
        }
    }
    const bool cpu = !strcmp(name, "cpu");
    const int counts[3] = {bench ? threads : 2, 1, 3}, n_dev = cpu && !bench ? 3 : 1;
    ft_dev *ref = ft_dev_ref(), *dev[3] = {NULL, NULL, NULL};
    ft_err err;
    for (int i = 0; i < n_dev; i++)
        if (ft_dev_open(&dev[i], name, counts[i], &err)) {
            printf("%s\n0 passed, 1 failed\n", err.text);
            return 1;
        }
    for (int i = 0; i < n; i++)
        for (int s = 0; s < cases[i]->n_shape && t_wanted(cases[i], argc, argv, at); s++) {
            if (part && shapes++ % parts != part - 1) continue;
            if (bench)
                t_bench(cases[i], s, dev[0]);
            else if (t_shape(cases[i], s, ref, dev, n_dev))
                passed++;
            else
                failed++;
        }
    for (int i = 0; i < n_dev; i++) ft_dev_close(dev[i]);
    ft_dev_close(ref);
    if (!bench) printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}

#endif
