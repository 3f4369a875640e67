/* Sampling, compared with ref bit for bit. */
#include "optest.h"

enum { WAYS = 12, WORDS = 4096 };

static uint64_t unshift(uint64_t z, int by)
{
    uint64_t x = z;
    for (int n = by; n < 64; n += by) x = z ^ x >> by;
    return x;
}

static uint64_t inverse(uint64_t odd)
{
    uint64_t x = odd;
    for (int i = 0; i < 6; i++) x *= 2 - odd * x;
    return x;
}

static uint64_t unmix(uint64_t z)
{
    z = unshift(unshift(z, 31) * inverse(0x94D049BB133111EBu), 27);
    return unshift(z * inverse(0xBF58476D1CE4E5B9u), 30);
}

/* The position at which a seed gives the largest random number: the inverse of ft_rng_at. */
static uint64_t position_of_last(uint64_t seed)
{
    const uint64_t a = unmix(UINT64_MAX) ^ ft_mix64(0xD1B54A32D192ED03u + seed);
    const uint64_t at = (unmix(a) - seed) * inverse(0x9E3779B97F4A7C15u) - 1;
    assert(ft_rng_at(seed, at, FT_STREAM_DRAW) == UINT64_MAX);
    return at;
}

/* Row t's draw: different combinations of samplers. */
static ft_draw draw_of(ft_optest *t, int way, int V, uint32_t *aside, int *used)
{
    ft_draw d = {.temperature = t_draw(t, 0.3f, 2),
                 .top_k = way % 3 == 0 ? 1 + t_below(t, 60) : 0,
                 .top_p = way % 4 < 2 ? t_draw(t, 0.2f, 0.999f) : 1,
                 .log_min_p = way % 5 == 2 ? logf(t_draw(t, 0.001f, 0.5f)) : -INFINITY,
                 .repeat = t_draw(t, 0.8f, 1.5f),
                 .frequency = t_draw(t, -0.1f, 0.4f),
                 .presence = t_draw(t, -0.1f, 0.4f),
                 .seed = ft_rng_u64(&t->rng),
                 .position = (uint64_t)t_below(t, 100000),
                 .mask = -1,
                 .list = -1};
    if (way % 6 == 5) d.temperature = 0;
    if (way == 7) d.top_k = FT_MIN(FT_DRAW_K, V);
    if (way == 8) d.list = 20, d.top_k = 20, d.top_p = 1;
    if (way == 10) d.list = 0;
    if (way == 11) d.temperature = 1, d.position = position_of_last(d.seed);
    if (way % 4 == 3) { /* ids once each */
        d.edit = *used;
        d.n_edit = FT_MIN(90, V / 3);
        ft_edit *e = (ft_edit *)(void *)(aside + *used);
        for (int i = 0; i < d.n_edit; i++) {
            const float bias = i % 7 ? 0 : i % 21 ? t_draw(t, -9, 9) : -INFINITY;
            e[i] = (ft_edit){3 * i + t_below(t, 3), i % 5, bias};
        }
        *used += 3 * d.n_edit;
    }
    if (way % 3 == 1) {
        d.mask = *used;
        for (int i = 0; i < V / 32 + 1; i++)
            aside[(*used)++] = (uint32_t)ft_rng_u64(&t->rng) & (way == 4 ? 0x10u : UINT32_MAX);
    }
    return d;
}

/* kind 1: rounded values with many ties at the thresholds. 2: few are numbers. 3: infinities. 4: a
 * flat row: many in few bins. 5: a few above the rest. 6: none at all. 7: a few far above it. 8:
 * all but a few far below. */
static float value(ft_optest *t, int kind)
{
    float v = (float)ft_rng_normal(&t->rng) * (kind == 4 ? 0.02f : 3);
    if (kind == 1) v = roundf(v * 8) / 8;
    if (kind == 2 && t_below(t, 100)) v = t_below(t, 2) ? -INFINITY : NAN;
    if (kind == 3 && !t_below(t, 200)) v = INFINITY;
    if (kind == 5 && !t_below(t, 400)) v += 12;
    if (kind == 7 && !t_below(t, 2000)) v += 40;
    if (kind == 8 && t_below(t, 2000)) v = -1e30f;
    return kind == 6 ? -INFINITY : v;
}

/* A row's result as numbers; a row that the device left to the host matches anything where that is
 * allowed. */
static void put_result(ft_optest *t, float *to, const ft_drawn *y, int row, const ft_draw *d,
                       bool leaves)
{
    enum { COLS = 6 + 2 * FT_DRAW_TOP };
    const float *want = t->truth ? t->truth[0].v + (t->pick >= 0 ? t->pick : row) * COLS : NULL;
    memset(to, 0, COLS * sizeof *to);
    if (y->id == FT_DRAW_MORE && leaves && want) {
        memcpy(to, want, COLS * sizeof *to);
        return;
    }
    to[0] = (float)y->id;
    if (y->id < 0) return;
    to[1] = FT_MIN(y->x, 1e30f);
    to[2] = FT_MIN(y->max, 1e30f);
    if (d->list < 0) return;
    to[3] = (float)(y->sum >> 44);
    to[4] = (float)(y->sum >> 22 & 0x3fffff);
    to[5] = (float)(y->sum & 0x3fffff);
    for (int i = 0; i < y->n; i++) {
        to[6 + 2 * i] = (float)y->top[i].id;
        to[7 + 2 * i] = FT_MIN(y->top[i].x, 1e30f);
    }
}

static void draw(ft_optest *t, const int *n)
{
    const int T = n[0], V = n[1], kind = n[2], rows = t->pick >= 0 ? 1 : T;
    const int first = t->pick >= 0 ? t->pick : 0, cols = 6 + 2 * FT_DRAW_TOP;
    if (!t->dev->op->draw) return;
    float *v = ft_new_n(float, (size_t)T *(size_t)V);
    for (int i = 0; i < T * V; i++) v[i] = value(t, kind);
    ft_mat x = ft_mat_at(t_put(t, v, sizeof *v * (size_t)(T * V)), T, V);
    ft_free(v);
    uint32_t *aside = ft_new_n(uint32_t, (size_t)T * (size_t)(V / 32 + 1 + 300));
    ft_draw *d = ft_new_n(ft_draw, (size_t)T);
    int used = 0;
    for (int i = 0; i < T; i++) {
        d[i] = draw_of(t, (i + n[3]) % WAYS, V, aside, &used);
        d[i].row = T - 1 - i;
        if (n[4] && !d[i].top_k) d[i].top_k = 10 + i;
        d[i].to = t->pick >= 0 ? 0 : i;
    }
    if (T > 4 && t->pick < 0) d[1].row = -1; /* unused draw */
    t->batch = (ft_batch){.T = rows,
                          .draw = t_keep(t, d + first, sizeof *d * (size_t)rows),
                          .draw_words = t_keep(t, aside, sizeof *aside * (size_t)(used + 1)),
                          .n_draw_words = used + 1,
                          .sampled = n[4] ? 1 : 2};
    ft_drawn *y = t_alloc(t, sizeof *y * (size_t)rows), *got = ft_new_n(ft_drawn, (size_t)rows);
    t_begin(t);
    ft_draw_rows(t->step, y, x);
    t_run(t);
    t->dev->download(t->dev, got, y, sizeof *got * (size_t)rows);
    float *out = ft_new_n(float, (size_t)(rows * cols)); /* released with the result */
    for (int i = 0; i < rows; i++) {
        const ft_draw *w = &t->batch.draw[i];
        const bool leaves = kind == 1 || kind == 3 || kind == 4 || (kind == 8 && w->list > 0);
        if (w->row >= 0) put_result(t, out + i * cols, &got[i], i, w, leaves);
    }
    t_cost(t, 16.0 * T * V, 20.0 * T * V);
    ft_free(got);
    ft_free(d);
    ft_free(aside);
    t_expect_values(t, (t_result){out, rows, cols}, 0);
}
OPTEST_ROWS(draw, {12, 10}, {12, 1000}, {24, 5000, 1}, {12, 5000, 2}, {12, 9000, 3}, {12, 40000, 4},
            {12, 20000, 5}, {3, 300, 6}, {12, 100000}, {1, 65537, 0, 2}, {2, 65537, 5, 3},
            {64, 3000, 0, 5}, {16, 248320, 5}, {12, 30000, 7}, {12, 30000, 8}, {12, 20000, 5, 0, 1})

/* The steps of greedy draws are shorter. */
static void draw_greedy(ft_optest *t, const int *n)
{
    const int T = n[0], V = n[1];
    if (!t->dev->op->draw) return;
    ft_mat x = t_uniform(t, T, V, -3, 3);
    uint32_t *aside = ft_new_n(uint32_t, (size_t)T * (size_t)(V / 32 + 1));
    ft_draw *d = ft_new_n(ft_draw, (size_t)T);
    const int words = V / 32 + 1;
    for (int i = 0; i < T * words; i++) aside[i] = (uint32_t)ft_rng_u64(&t->rng) & 0x01010101u;
    for (int i = 0; i < T; i++)
        d[i] = (ft_draw){.row = i, .to = i, .mask = i % 3 ? i * words : -1, .list = -1, .top_p = 1};
    t->batch = (ft_batch){.T = T,
                          .draw = t_keep(t, d, sizeof *d * (size_t)T),
                          .draw_words = t_keep(t, aside, sizeof *aside * (size_t)(T * words)),
                          .n_draw_words = T * words};
    ft_drawn *y = t_alloc(t, sizeof *y * (size_t)T), got[FT_DRAW_ROWS];
    t_begin(t);
    ft_draw_rows(t->step, y, x);
    t_run(t);
    t->dev->download(t->dev, got, y, sizeof *got * (size_t)T);
    float *out = ft_new_n(float, 2 * (size_t)T);
    for (int i = 0; i < T; i++) {
        out[2 * i] = (float)got[i].id;
        out[2 * i + 1] = got[i].x;
    }
    ft_free(d);
    ft_free(aside);
    t_expect_values(t, (t_result){out, T, 2}, 0);
}
OPTEST(draw_greedy, {1, 100}, {7, 5000}, {64, 2500})

int main(int argc, char **argv)
{
    const t_case *const all[] = {&draw_case, &draw_greedy_case};
    return t_main(argc, argv, all, FT_COUNT(all));
}
