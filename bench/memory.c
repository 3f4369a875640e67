/* memory: time of the ops with a cache or state, in layers of the 27b's shape (or of the numbers
 * given): attention over contexts of every length and encoding, delta nets, for steps of one row up
 * to prompts. All layers of a kind run in one step, each over its own memory, as in a model.
 *   memory [DEV [MEMORY BANDWIDTH in GB/s [CACHE TYPE...]]]
 * With cache types: only attention, in the shapes of the 27b and of the 35b-a3b, up to a context of
 * 131,000. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "dev/dev.h"
#include "dev/kv_row.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 16, TIMES = 9, ROWS = 4096 };

typedef struct bench {
    ft_dev *dev;
    double bandwidth; /* GB/s */
    float *x;         /* ROWS rows of noise, as wide as anything here */
    float *y;
    int wide, pass;
} bench;

typedef void step_fn(bench *b, void *user);

/* Best of some runs, in microseconds per layer. */
static double time_step(bench *b, const ft_batch *batch, step_fn *fn, void *user, int layers)
{
    static char passes[4096]; /* a captured step is identified by an address */
    const void *pass = &passes[b->pass++ % 4096];
    double best = 1e30;
    ft_err err;
    for (int i = 0; i < TIMES; i++) {
        const int64_t start = ft_now_ns();
        b->dev->record(b->dev, batch);
        if (!b->dev->replay(b->dev, pass)) {
            fn(b, user);
            b->dev->commit(b->dev);
        }
        if (b->dev->sync(b->dev, &err)) {
            fprintf(stderr, "%s\n", err.text);
            exit(1);
        }
        const double us = (double)(ft_now_ns() - start) * 1e-3 / layers;
        best = FT_MIN(best, us);
    }
    return best;
}

/* One sequence whose first row is at position `past`. */
typedef struct seq {
    ft_batch b;
    ft_span span;
    int32_t *ints;
} seq;

static void seq_init(seq *s, int rows, int past, int pages)
{
    s->ints = ft_new_n(int32_t, (size_t)(6 * rows + pages));
    int32_t *cell = s->ints, *end = cell + rows, *of = end + rows, *pos = of + rows;
    int32_t *page = s->ints + 6 * rows;
    for (int i = 0; i < rows; i++) {
        cell[i] = pos[i] = past + i;
        end[i] = past + i + 1;
        of[i] = 0;
    }
    for (int i = 0; i < pages; i++) page[i] = i;
    s->span = (ft_span){.n = rows, .start = past};
    s->b = (ft_batch){.T = rows, .S = 1, .n_out = 1, .max_ctx = past + rows};
    s->b.cell = cell;
    s->b.end = end;
    s->b.span_of = s->b.out_row = of;
    s->b.token = s->b.pos[0] = s->b.pos[1] = s->b.pos[2] = pos;
    s->b.span = &s->span;
    s->b.page[0] = s->b.page[1] = page;
    s->b.pages_per_seq = pages;
    s->b.slots = 1;
}

/* ---- attention ---- */

typedef struct attention {
    ft_kv kv[LAYERS];
    int H, rows;
    bool put;
} attention;

static void attention_step(bench *b, void *user)
{
    const attention *a = user;
    for (int l = 0; l < LAYERS; l++) {
        const ft_kv *kv = &a->kv[l];
        const int G = kv->G, d = kv->d;
        const ft_mat k = {b->x, a->rows, G, d, G * d, d};
        const ft_mat q = {b->x, a->rows, a->H, d, a->H * d, d};
        const ft_mat o = {b->y, a->rows, a->H, d, a->H * d, d};
        if (a->put)
            b->dev->op->kv_put(b->dev, kv, k, k);
        else
            b->dev->op->attend(b->dev, o, q, kv, (ft_attn){.scale = 1 / sqrtf((float)d)});
    }
}

static void bench_attention(bench *b, ft_kv_type kt, ft_kv_type vt, int H, int G, int d, int cells)
{
    static const int rows[] = {1, 2, 4, 8, 16, 512};
    static const int contexts[] = {0, 1000, 4000, 32000, 131000};
    const int pages = cells / FT_PAGE_ROWS;
    attention a = {.H = H};
    for (int l = 0; l < LAYERS; l++) {
        ft_kv *kv = &a.kv[l];
        *kv = (ft_kv){.kt = kt, .vt = vt, .G = G, .d = d};
        kv->k_row = ft_kv_row_bytes(kt, d);
        kv->v_row = ft_kv_row_bytes(vt, d);
        kv->k_page = kv->k_row * (size_t)(G * FT_PAGE_ROWS);
        kv->v_page = kv->v_row * (size_t)(G * FT_PAGE_ROWS);
        kv->k = b->dev->alloc(b->dev, kv->k_page * (size_t)pages);
        kv->v = b->dev->alloc(b->dev, kv->v_page * (size_t)pages);
    }
    seq s;
    a.put = true;
    a.rows = ROWS;
    double put = 0;
    for (int at = 0; at + ROWS <= cells; at += ROWS) {
        seq_init(&s, ROWS, at, pages);
        put = time_step(b, &s.b, attention_step, &a, LAYERS);
        ft_free(s.ints);
    }
    a.rows = 1;
    seq_init(&s, 1, 5, pages);
    const double one = time_step(b, &s.b, attention_step, &a, LAYERS);
    ft_free(s.ints);
    printf("keys %s, values %s, %d/%d heads of %d: kv_put %.1f us, %d rows %.1f us\n",
           ft_kv_type_name(kt), ft_kv_type_name(vt), H, G, d, one, ROWS, put);
    a.put = false;
    for (size_t p = 0; p < FT_COUNT(contexts) && contexts[p] < cells; p++) {
        printf("  past %5d:", contexts[p]);
        for (size_t r = 0; r < FT_COUNT(rows); r++) {
            if (contexts[p] + rows[r] > cells) continue;
            a.rows = rows[r];
            seq_init(&s, rows[r], contexts[p], pages);
            const double us = time_step(b, &s.b, attention_step, &a, LAYERS);
            const double bytes =
                (double)(a.kv[0].k_row + a.kv[0].v_row) * G * (contexts[p] + rows[r]);
            const double flops = 4.0 * H * d * rows[r] * (contexts[p] + rows[r] / 2.0);
            if (rows[r] <= 16)
                printf("  %d: %.1f us %.0f%%", rows[r], us, bytes / us * 1e-3 / b->bandwidth * 100);
            else
                printf("  %d: %.1f us %.0f TFLOP/s", rows[r], us, flops / us * 1e-6);
            ft_free(s.ints);
        }
        printf("\n");
    }
    for (int l = 0; l < LAYERS; l++) {
        b->dev->free(b->dev, a.kv[l].k);
        b->dev->free(b->dev, a.kv[l].v);
    }
}

/* ---- delta nets ---- */

typedef struct nets {
    ft_delta s[LAYERS];
    ft_vec w, A, dt;
    int rows, part; /* conv, delta_rule, gated_norm */
} nets;

static void nets_step(bench *b, void *user)
{
    const nets *n = user;
    for (int l = 0; l < LAYERS; l++) {
        const ft_delta *s = &n->s[l];
        const ft_mat u = ft_mat_at(b->x, n->rows, s->CH), y = ft_mat_at(b->y, n->rows, s->CH);
        const ft_mat a = ft_mat_at(b->x + 64, n->rows, s->Hv);
        const ft_mat in = {b->x, n->rows, s->Hv, s->S, s->CH, s->S};
        const ft_mat o = {b->y, n->rows, s->Hv, s->S, s->CH, s->S};
        if (n->part == 0) b->dev->op->conv(b->dev, y, u, n->w, s);
        if (n->part == 1) b->dev->op->delta_rule(b->dev, o, u, a, a, n->A, n->dt, s);
        if (n->part == 2) b->dev->op->gated_norm(b->dev, o, in, in, n->w, 1e-6f);
    }
}

static void bench_nets(bench *b, int Hk, int Hv, int S)
{
    static const char *const part[] = {"conv", "delta_rule", "gated_norm"};
    static const int rows[] = {1, 4, 16, 512, 4096};
    const size_t J = 16;
    nets n = {.rows = 1};
    const size_t CH = (size_t)(2 * Hk + Hv) * (size_t)S, state = (size_t)(Hv * S * S);
    for (int l = 0; l < LAYERS; l++) {
        ft_delta *s = &n.s[l];
        *s = (ft_delta){.Hk = Hk, .Hv = Hv, .S = S, .C = 4, .CH = (int)CH, .J = (int)J};
        s->conv = b->dev->alloc(b->dev, 3 * CH * sizeof(float));
        s->state = b->dev->alloc(b->dev, state * sizeof(float));
        s->j_conv = b->dev->alloc(b->dev, 2 * J * CH * sizeof(float));
        s->j_k = b->dev->alloc(b->dev, 2 * J * (size_t)(Hk * S) * sizeof(float));
        s->j_d = b->dev->alloc(b->dev, 2 * J * (size_t)(Hv * S) * sizeof(float));
        s->j_g = b->dev->alloc(b->dev, 2 * J * (size_t)Hv * sizeof(float));
    }
    n.w = (ft_vec){b->x, (int)CH * 4};
    n.A = n.dt = (ft_vec){b->x + 100, Hv};
    printf("delta nets, %d/%d heads of %d\n", Hk, Hv, S);
    for (n.part = 0; n.part < 3; n.part++) {
        printf("  %-10s:", part[n.part]);
        for (size_t r = 0; r < FT_COUNT(rows); r++)
            for (int tentative = 0; tentative <= (n.part < 2 && rows[r] <= 16); tentative++) {
                seq s;
                seq_init(&s, rows[r], 64, 1);
                s.span.tentative = tentative;
                s.span.replay = tentative ? rows[r] / 2 : 0;
                n.rows = rows[r];
                const double us = time_step(b, &s.b, nets_step, &n, LAYERS);
                printf("  %d%s: %.1f us", rows[r], tentative ? "t" : "", us);
                if (n.part == 1 && rows[r] == 1 && !tentative)
                    printf(" %.0f%%", 8.0 * (double)state / us * 1e-3 / b->bandwidth * 100);
                ft_free(s.ints);
            }
        printf("\n");
    }
}

/* Clocks rise under load only. */
static void warm(bench *b)
{
    const int64_t until = ft_now_ns() + 700000000;
    seq s;
    seq_init(&s, ROWS, 0, 1);
    const ft_mat x = ft_mat_at(b->x, ROWS, b->wide), y = ft_mat_at(b->y, ROWS, b->wide);
    ft_err err;
    while (ft_now_ns() < until) {
        b->dev->record(b->dev, &s.b);
        for (int i = 0; i < 20; i++)
            b->dev->op->rmsnorm(b->dev, y, x, (ft_vec){b->x, b->wide}, 1e-6f);
        b->dev->commit(b->dev);
        b->dev->sync(b->dev, &err);
    }
    ft_free(s.ints);
}

static void bench_types(bench *b, char **name)
{
    for (; *name; name++) {
        ft_kv_type t;
        if (!ft_kv_type_find(ft_str_of(*name), &t)) {
            fprintf(stderr, "memory: unknown cache type %s; want %s\n", *name, ft_kv_type_names());
            exit(1);
        }
        bench_attention(b, t, t, 24, 4, 256, 135168);
        bench_attention(b, t, t, 16, 2, 256, 135168);
    }
}

static void bench_all(bench *b)
{
    bench_nets(b, 16, 48, 128);
    bench_attention(b, FT_KV_F16, FT_KV_F16, 24, 4, 256, 36864);
    bench_attention(b, FT_KV_TURBO4, FT_KV_TURBO4, 24, 4, 256, 36864);
    bench_attention(b, FT_KV_Q8_0, FT_KV_TURBO4, 24, 4, 256, 36864);
    bench_attention(b, FT_KV_Q8_0, FT_KV_Q8_0, 16, 2, 256, 36864);
    bench_attention(b, FT_KV_F16, FT_KV_F16, 8, 2, 512, 8192);
}

int main(int argc, char **argv)
{
    bench b = {.bandwidth = argc > 2 ? atof(argv[2]) : 4660, .wide = 12288};
    ft_err err;
    if (ft_dev_open(&b.dev, argc > 1 ? argv[1] : "cuda", 0, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    const size_t n = (size_t)ROWS * (size_t)b.wide;
    float *noise = ft_new_n(float, n);
    ft_rng r = {1};
    for (size_t i = 0; i < n; i++) noise[i] = (float)ft_rng_f64(&r) * 2 - 1;
    b.x = b.dev->alloc(b.dev, n * sizeof(float));
    b.y = b.dev->alloc(b.dev, n * sizeof(float));
    b.dev->upload(b.dev, b.x, noise, n * sizeof(float));
    ft_free(noise);
    warm(&b);
    if (argc > 3)
        bench_types(&b, argv + 3);
    else
        bench_all(&b);
    ft_dev_close(b.dev);
    return 0;
}
