/* KV cache and attention: several sequences with contexts of different lengths, pages in random
 * order. */
#include "dev/kv_row.h"
#include "optest.h"

typedef struct seq {
    int past, n;
} seq;

/* A batch with one span per sequence, and page tables that point to random pages of the pool. */
static void spans(ft_optest *t, const seq *s, int S, int pages_per_seq)
{
    static int32_t cell[512], end[512], of[512], out[512], page[2048];
    static ft_span span[8];
    int T = 0;
    for (int i = 0; i < S; i++) {
        span[i] = (ft_span){.slot = S - 1 - i, .row = T, .n = s[i].n, .start = s[i].past};
        for (int r = 0; r < s[i].n; r++, T++) {
            cell[T] = s[i].past + r;
            end[T] = cell[T] + 1;
            of[T] = i;
        }
    }
    int n_out = 0;
    for (int r = 0; r < T; r++)
        if (r % 3 == 0 || r == T - 1) out[n_out++] = r;
    const int pages = S * pages_per_seq;
    for (int i = 0; i < pages; i++) page[i] = i;
    for (int i = pages - 1; i > 0; i--) {
        const int j = t_below(t, i + 1), keep = page[i];
        page[i] = page[j];
        page[j] = keep;
    }
    assert(T <= 512 && pages <= 2048);
    ft_batch *b = &t->batch;
    *b = (ft_batch){.T = T, .S = S, .n_out = n_out, .pages_per_seq = pages_per_seq};
    b->slots = S;
    b->max_ctx = pages_per_seq * FT_PAGE_ROWS;
    b->cell = t_ints(t, cell, T);
    b->end = t_ints(t, end, T);
    b->span_of = t_ints(t, of, T);
    b->out_row = t_ints(t, out, n_out);
    b->span = t_keep(t, span, (size_t)S * sizeof *span);
    b->page[0] = b->page[1] = t_ints(t, page, pages);
}

static ft_kv cache(ft_optest *t, int kt, int vt, int G, int d, int pages)
{
    ft_kv kv = {.kt = (ft_kv_type)kt, .vt = (ft_kv_type)vt, .G = G, .d = d, .space = FT_SPACE_FULL};
    kv.k_row = ft_kv_row_bytes(kv.kt, d);
    kv.v_row = ft_kv_row_bytes(kv.vt, d);
    kv.k_page = kv.k_row * (size_t)(G * FT_PAGE_ROWS);
    kv.v_page = kv.v_row * (size_t)(G * FT_PAGE_ROWS);
    kv.k = t_alloc(t, kv.k_page * (size_t)pages);
    kv.v = t_alloc(t, kv.v_page * (size_t)pages);
    return kv;
}

/* Fills n positions of a slot as a prompt, from `from` on. */
static void fill(ft_optest *t, const ft_kv *kv, int slot, int from, int n)
{
    const int G = kv->G, d = kv->d;
    int32_t *cell = ft_new_n(int32_t, (size_t)n), *zero = ft_new_n(int32_t, (size_t)n);
    for (int c = 0; c < n; c++) cell[c] = from + c;
    const ft_span span = {.slot = slot, .n = n, .start = from};
    t->batch.T = n;
    t->batch.S = 1;
    t->batch.cell = t_ints(t, cell, n);
    t->batch.span_of = t_ints(t, zero, n);
    t->batch.span = t_keep(t, &span, sizeof span);
    ft_mat k = t_uniform(t, n, G * d, -1, 1), v = t_uniform(t, n, G * d, -1, 1);
    t_begin(t);
    ft_kv_put(t->step, 0, ft_heads(k, 0, G, d, d), ft_heads(v, 0, G, d, d));
    t->dev->commit(t->dev);
    ft_free(cell);
    ft_free(zero);
}

/* Fills the positions before the rows: the context of every sequence. */
static void fill_past(ft_optest *t, const ft_kv *kv, const seq *s, int S)
{
    enum { PROMPT = 4096 };
    const ft_batch keep = t->batch;
    t->step->kv = kv;
    for (int i = 0; i < S; i++)
        for (int at = 0; at < s[i].past; at += PROMPT)
            fill(t, kv, S - 1 - i, at, FT_MIN(PROMPT, s[i].past - at));
    t->batch = keep;
}

/* Caches must hold the same bytes. Queries for turbo keys are rounded to eight bits, and turbo
 * codebooks may be rounded a little; the rest is the order of sums. A device with tensor cores uses
 * half precision for queries and weights. */
static double limit(const ft_optest *t, int kt, int vt)
{
    const bool gpu = !strcmp(t->dev->name, "cuda") || !strcmp(t->dev->name, "vulkan");
    const bool halves = gpu && kt != FT_KV_F32 && vt != FT_KV_F32;
    if (ft_kv_is_turbo((ft_kv_type)kt)) return 5e-4;
    if (ft_kv_is_turbo((ft_kv_type)vt)) return 1e-5;
    if (halves) return 1e-6;
    if (kt == FT_KV_Q8_0) return 2e-9; /* queries may be two bytes each */
    return kt == FT_KV_F32 && vt == FT_KV_F32 ? 1e-11 : 1e-10;
}

static void play(ft_optest *t, const seq *s, int S, const int *n)
{
    const int H = n[0], G = n[1], d = n[2], kt = n[3], vt = n[4];
    int T = 0, most = 0;
    for (int i = 0; i < S; i++) {
        T += s[i].n;
        most = FT_MAX(most, s[i].past + s[i].n);
    }
    const int pages = most / FT_PAGE_ROWS + 1;
    spans(t, s, S, pages);
    const ft_kv kv = cache(t, kt, vt, G, d, S * pages);
    fill_past(t, &kv, s, S);
    ft_mat q = t_uniform(t, T, H * d, -2, 2), o = t_output(t, T, H * d);
    ft_mat k = t_uniform(t, T, G * d, -1, 1), v = t_uniform(t, T, G * d, -1, 1);
    const int n_out = t->batch.n_out;
    ft_mat q2 = t_output(t, n_out, H * d), o2 = t_output(t, n_out, H * d);
    const ft_attn p = {.scale = 0.3f, .window = n[5], .first = n[6]};
    ft_attn gathered = p;
    gathered.out = true;
    t->step->kv = &kv;
    t_begin(t);
    ft_kv_put(t->step, 0, ft_heads(k, 0, G, d, d), ft_heads(v, 0, G, d, d));
    ft_gather_out(t->step, q2, q);
    ft_attend(t->step, 0, ft_heads(o, 0, H, d, d), ft_heads(q, 0, H, d, d), p);
    ft_attend(t->step, 0, ft_heads(o2, 0, H, d, d), ft_heads(q2, 0, H, d, d), gathered);
    ft_attend(t->step, 0, ft_heads(q, 0, H, d, d), ft_heads(q, 0, H, d, d), p); /* in place */
    t_cost(t, (double)(kv.k_row + kv.v_row) * G * most * 3, 0);
    t_expect(t, o, limit(t, kt, vt));
    t_check_gaps(t, o);
    t_expect_rest(t, o2, limit(t, kt, vt));
    t_expect_rest(t, q, limit(t, kt, vt));
    /* output rows computed separately are the same sums: bit-identical */
    const t_result all = t->kept[t->n_kept - 3], some = t->kept[t->n_kept - 2];
    if (memcmp(all.v, t->kept[t->n_kept - 1].v, sizeof(float) * (size_t)(all.T * all.cols)))
        t_fail(t, "in place differs", 0);
    for (int i = 0; i < n_out; i++) {
        const int row = i == n_out - 1 ? T - 1 : 3 * i;
        const size_t cols = (size_t)all.cols;
        if (memcmp(some.v + (size_t)i * cols, all.v + (size_t)row * cols, cols * sizeof(float)))
            t_fail(t, "gathered row differs, row", row);
    }
    /* bytes do not depend on the device */
    t_expect_memory(t, (float *)(void *)kv.k, kv.k_page * (size_t)(S * pages) / sizeof(float), 0);
    t_expect_memory(t, (float *)(void *)kv.v, kv.v_page * (size_t)(S * pages) / sizeof(float), 0);
}

/* H, G, d, type of keys and values, window, first, then context and rows of one sequence */
static void attend_one(ft_optest *t, const int *n)
{
    const seq s = {n[7], n[8]};
    play(t, &s, 1, n);
}
OPTEST(attend_one, {1, 1, 8, 0, 0, 0, 0, 0, 1}, {4, 2, 32, 0, 0, 0, 0, 63, 1},
       {4, 2, 32, 0, 0, 0, 0, 64, 1}, {6, 2, 64, 1, 1, 0, 0, 100, 5},
       {8, 1, 64, 2, 2, 0, 0, 130, 3}, {4, 4, 64, 3, 3, 0, 0, 70, 2}, {4, 2, 64, 4, 4, 0, 0, 70, 9},
       {4, 2, 64, 3, 4, 0, 0, 1, 40}, {4, 2, 32, 0, 0, 17, 0, 100, 33},
       {4, 2, 32, 1, 1, 64, 10, 3, 97}, {4, 2, 32, 0, 0, 0, 50, 40, 30},
       {2, 2, 20, 0, 0, 0, 0, 0, 200}, {8, 2, 128, 1, 1, 0, 0, 1500, 1},
       {8, 2, 128, 1, 1, 0, 0, 511, 5}, {8, 2, 64, 0, 1, 600, 0, 1025, 17},
       {24, 4, 256, 1, 1, 0, 0, 2000, 4}, {40, 1, 32, 0, 0, 0, 0, 600, 3},
       {6, 1, 256, 1, 1, 0, 0, 600, 70}, {4, 1, 512, 1, 7, 0, 0, 30, 70},
       {4, 2, 128, 3, 6, 200, 0, 450, 100}, {4, 2, 64, 2, 4, 0, 5, 0, 150},
       {4, 4, 80, 1, 1, 0, 0, 0, 1}, {4, 4, 80, 1, 1, 0, 0, 0, 200},
       {6, 2, 80, 1, 1, 0, 0, 700, 150}, {4, 2, 80, 1, 1, 100, 7, 70, 130},
       /* more ranges than a device reads at a time */
       {2, 1, 64, 1, 1, 0, 0, 66100, 1}, {4, 1, 128, 6, 7, 0, 0, 66100, 2})

static void attend_many(ft_optest *t, const int *n)
{
    const seq s[4] = {{0, 7}, {129, 1}, {700, 3}, {64, 20}};
    play(t, s, 4, n);
}
OPTEST(attend_many, {4, 2, 32, 0, 0}, {4, 4, 80, 1, 1, 90}, {6, 3, 64, 1, 1, 100}, {4, 4, 32, 3, 3},
       {8, 1, 16, 2, 0, 0, 5})

/* Every pair of encodings; head sizes of one group and several, padded ones, windows, small steps.
 */
static void attend_pair(ft_optest *t, const int *n)
{
    const seq s[3] = {{n[7], n[8]}, {66, 1}, {n[8], 2}};
    play(t, s, 3, n);
}
#define WITH(kt, ...)                                                                              \
    {4, 2, 64, kt, __VA_ARGS__},                                                                   \
    {                                                                                              \
        6, 1, 128, kt, __VA_ARGS__                                                                 \
    }
#define EACH(kt)                                                                                   \
    WITH(kt, 0, 0, 0, 70, 1), WITH(kt, 1, 0, 0, 70, 2), WITH(kt, 2, 40, 0, 130, 3),                \
        WITH(kt, 3, 0, 7, 70, 8), WITH(kt, 4, 0, 0, 64, 17), WITH(kt, 5, 0, 0, 70, 1),             \
        WITH(kt, 6, 0, 3, 600, 5), WITH(kt, 7, 100, 0, 70, 17), WITH(kt, 8, 0, 0, 127, 4)
OPTEST(attend_pair, EACH(0), EACH(1), EACH(2), EACH(3), EACH(4), EACH(5), EACH(6), EACH(7), EACH(8),
       {4, 2, 32, 6, 7, 0, 0, 70, 3}, {4, 2, 80, 7, 6, 0, 0, 70, 3}, {4, 2, 96, 5, 3, 0, 0, 70, 3},
       {4, 2, 192, 6, 6, 0, 0, 70, 3}, {8, 1, 256, 6, 6, 0, 0, 1500, 1},
       {8, 1, 256, 7, 5, 200, 0, 1500, 16}, {24, 4, 256, 6, 7, 0, 0, 700, 4},
       {8, 1, 512, 7, 6, 0, 0, 70, 5}, {4, 2, 512, 3, 8, 0, 0, 513, 2},
       {40, 1, 64, 6, 6, 0, 0, 600, 3}, {4, 4, 20, 0, 6, 0, 0, 30, 2}, WITH(9, 9, 0, 0, 600, 3),
       WITH(10, 10, 0, 0, 70, 3), WITH(11, 11, 0, 0, 600, 17), WITH(12, 12, 40, 0, 70, 3),
       {24, 4, 256, 3, 3, 0, 0, 700, 4}, {24, 4, 256, 4, 4, 0, 0, 700, 1},
       {24, 4, 256, 9, 10, 0, 0, 700, 1}, {24, 4, 256, 11, 12, 0, 0, 700, 4},
       {8, 1, 512, 2, 2, 0, 0, 700, 3}, {8, 1, 512, 3, 12, 0, 0, 130, 1},
       {4, 2, 32, 9, 11, 0, 0, 70, 3}, {4, 2, 96, 10, 12, 0, 0, 70, 3},
       {8, 1, 256, 6, 6, 770, 0, 1500, 1}, {8, 1, 256, 7, 7, 390, 0, 1411, 1},
       {16, 2, 256, 7, 7, 0, 0, 1100, 1}, {16, 2, 256, 6, 6, 0, 0, 575, 1},
       {4, 4, 64, 1, 1, 0, 0, 16500, 3}, {8, 4, 256, 3, 3, 0, 0, 5000, 2})

/* Spans of a prompt beside others. */
static void attend_mixed(ft_optest *t, const int *n)
{
    const seq s[5] = {{70, 1}, {0, 7}, {700, 70}, {64, 3}, {5, 66}};
    play(t, s, 5, n);
}
OPTEST(attend_mixed, {4, 2, 64, 3, 3}, {6, 1, 128, 6, 7, 100, 3}, {4, 2, 256, 3, 7},
       {8, 1, 256, 1, 6}, {8, 1, 512, 7, 3}, {4, 2, 64, 2, 4, 300})

/* Norms and rotations of queries, keys and values in one op with storing: the bits are those of the
 * ops that it consists of. */
static void put_heads(ft_optest *t, const int *n)
{
    const int H = n[0], G = n[1], d = n[2], rows = n[5];
    const seq s = {3, rows};
    const int pages = (3 + rows) / FT_PAGE_ROWS + 1;
    spans(t, &s, 1, pages);
    const ft_kv kv[2] = {cache(t, n[3], n[4], G, d, pages), cache(t, n[3], n[4], G, d, pages)};
    ft_mat q = t_uniform(t, rows, H * d, -2, 2), k = t_uniform(t, rows, G * d, -1, 1);
    ft_mat v = t_uniform(t, rows, G * d, -1, 1), cs = t_uniform(t, rows, n[8], -1, 1);
    ft_mat q2 = t_output(t, rows, H * d),
           o[2] = {t_output(t, rows, H * d), t_output(t, rows, H * d)};
    const ft_vec gain = t_vec(t, d, 0.3f, 0.8f), other = t_vec(t, d, 0.3f, 0.8f), none = {0};
    const ft_mat qh = ft_heads(q, 0, H, d, d), q2h = ft_heads(q2, 0, H, d, d);
    const ft_mat kh = ft_heads(k, 0, G, d, d), vh = ft_heads(v, 0, G, d, d);
    const ft_mat k2 = ft_heads(t_output(t, rows, G * d), 0, G, d, d);
    const ft_mat v2 = ft_heads(t_output(t, rows, G * d), 0, G, d, d);
    const ft_qkv x = {qh, kh, vh, gain, other, n[6], n[7], 1e-6f, cs};
    const ft_attn p = {.scale = 0.3f, .first = 3};
    t->batch.n_out = rows;
    int32_t *all = ft_new_n(int32_t, (size_t)rows);
    for (int r = 0; r < rows; r++) all[r] = r;
    t->batch.out_row = t_ints(t, all, rows);
    ft_free(all);
    t->step->kv = kv;
    t_begin(t);
    ft_gather_out(t->step, q2, q);
    ft_gather_out(t->step, ft_cols(k2, 0, G * d), k);
    ft_gather_out(t->step, ft_cols(v2, 0, G * d), v);
    ft_put_heads(t->step, 0, &x);
    ft_norm_rope(t->step, q2h, gain, 1e-6f, cs);
    if (n[6]) ft_rmsnorm(t->step, v2, n[7] ? k2 : v2, none, 1e-6f);
    ft_norm_rope(t->step, k2, other, 1e-6f, cs);
    ft_kv_put(t->step, 1, k2, v2);
    ft_attend(t->step, 0, ft_heads(o[0], 0, H, d, d), qh, p);
    ft_attend(t->step, 1, ft_heads(o[1], 0, H, d, d), q2h, p);
    t_expect(t, q, 1e-10);
    t_expect_rest(t, q2, 1e-10);
    const double bound = limit(t, n[3], n[4]) + 1e-7; /* keys may round differently to f16 */
    t_expect_rest(t, o[0], bound);
    t_expect_rest(t, o[1], bound);
    const size_t values = sizeof(float) * (size_t)(rows * H * d);
    if (memcmp(t->kept[0].v, t->kept[1].v, values)) t_fail(t, "queries differ", 0);
    if (memcmp(t->kept[2].v, t->kept[3].v, values)) t_fail(t, "results differ", 0);
}
OPTEST(put_heads, {4, 2, 256, FT_KV_F16, FT_KV_F16, 1, 0, 0, 64},
       {4, 2, 256, FT_KV_F16, FT_KV_F16, 70, 1, 0, 256},
       {4, 2, 64, FT_KV_F16, FT_KV_F16, 5, 1, 1, 64},
       {8, 4, 128, FT_KV_F16, FT_KV_F16, 64, 1, 0, 128},
       {4, 2, 512, FT_KV_F16, FT_KV_F16, 3, 1, 1, 128},
       {4, 1, 256, FT_KV_F16, FT_KV_F16, 4, 1, 1, 256},
       {4, 2, 128, FT_KV_Q8_0, FT_KV_F16, 6, 1, 0, 128},
       {16, 2, 256, FT_KV_TURBO3, FT_KV_TURBO3, 1, 0, 0, 64},
       {4, 2, 256, FT_KV_TURBO4, FT_KV_Q8_0, 6, 0, 0, 64},
       {4, 2, 512, FT_KV_Q8_0, FT_KV_TURBO3, 3, 1, 1, 128},
       {4, 2, 64, FT_KV_TURBO4, FT_KV_TURBO4, 5, 1, 0, 64},
       {4, 2, 96, FT_KV_F16, FT_KV_F16, 2, 1, 0, 96})

/* Scratch memory for few positions: longer contexts are read in segments. 0: no limit. */
static void limit_scratch(ft_optest *t, int rows, int positions)
{
    const ft_dev_limits l = {.rows = rows, .k = 64, .heads = 2, .head_d = 64, .ctx = positions};
    ft_err err;
    if (t->dev->reserve(t->dev, &l, &err)) t_fail(t, "reserve", 0);
}

/* A row's result does not depend on the other rows: the rows of a span one step at a time. Queries
 * have gates, which a device may apply to the result at once, and keys are normed and rotated,
 * which it may do when they are stored. */
static void attend_alone(ft_optest *t, const int *n)
{
    const int H = n[0], G = n[1], d = n[2], past = n[7], rows = n[8];
    const seq s = {past, rows};
    if (n[9]) limit_scratch(t, rows * H * d / 128, n[9]);
    const int pages = (past + rows) / FT_PAGE_ROWS + 1;
    spans(t, &s, 1, pages);
    const ft_kv kv = cache(t, n[3], n[4], G, d, pages);
    fill_past(t, &kv, &s, 1);
    ft_mat q = t_uniform(t, rows, 2 * H * d, -2, 2), k = t_uniform(t, rows, G * d, -1, 1);
    ft_mat v = t_uniform(t, rows, G * d, -1, 1), cs = t_uniform(t, rows, d / 4 * 2, -1, 1);
    const ft_vec gain = t_vec(t, d, 0.3f, 0.8f);
    ft_mat o = t_output(t, rows, H * d), o2 = t_output(t, rows, H * d);
    const ft_attn p = {.scale = 0.3f, .window = n[5], .first = n[6]};
    t->step->kv = &kv;
    t_begin(t);
    ft_norm_rope(t->step, ft_heads(k, 0, G, d, d), gain, 1e-6f, cs);
    ft_kv_put(t->step, 0, ft_heads(k, 0, G, d, d), ft_heads(v, 0, G, d, d));
    ft_attend(t->step, 0, ft_heads(o, 0, H, d, d), ft_heads(q, 0, H, d, 2 * d), p);
    ft_sigmoid_mul(t->step, ft_heads(o, 0, H, d, d), ft_heads(q, d, H, d, 2 * d));
    t_run(t);
    const ft_batch all = t->batch;
    for (int r = 0; r < rows; r++) {
        const ft_mat own = ft_rows(q, r, 1), to = ft_heads(ft_rows(o2, r, 1), 0, H, d, d);
        const ft_span span = {.n = 1, .start = past + r};
        const int32_t zero = 0;
        t->batch.T = t->batch.n_out = 1;
        t->batch.cell = all.cell + r;
        t->batch.end = all.end + r;
        t->batch.span_of = t_ints(t, &zero, 1);
        t->batch.span = t_keep(t, &span, sizeof span);
        t_begin(t);
        ft_attend(t->step, 0, to, ft_heads(own, 0, H, d, 2 * d), p);
        ft_sigmoid_mul(t->step, to, ft_heads(own, d, H, d, 2 * d));
        t->dev->commit(t->dev);
    }
    if (n[9]) limit_scratch(t, 0, 0);
    t_expect_rest(t, o, limit(t, n[3], n[4]));
    t_expect_rest(t, o2, limit(t, n[3], n[4]));
    t_expect_rest(t, k, 1e-10);
    const t_result a = t->kept[0], b = t->kept[1];
    if (memcmp(a.v, b.v, sizeof(float) * (size_t)(a.T * a.cols)))
        t_fail(t, "rows together and alone differ, error",
               t_error(a.v, b.v, (size_t)(a.T * a.cols)));
}
OPTEST(attend_alone, {4, 2, 32, 0, 0, 0, 0, 60, 9}, {4, 1, 64, 1, 1, 0, 0, 505, 17},
       {6, 2, 32, 1, 1, 70, 3, 100, 16}, {8, 2, 64, 3, 4, 0, 0, 1020, 8},
       {2, 2, 32, 2, 2, 40, 0, 0, 20}, {4, 1, 64, 5, 5, 0, 0, 505, 17},
       {6, 2, 128, 6, 6, 70, 3, 100, 16}, {8, 2, 64, 7, 6, 0, 0, 1020, 8},
       {4, 2, 256, 3, 7, 0, 0, 600, 5}, {4, 1, 96, 8, 2, 0, 0, 60, 9},
       {4, 1, 64, 1, 1, 0, 0, 480, 70}, {2, 1, 128, 7, 7, 0, 0, 490, 66},
       {2, 2, 256, 1, 6, 100, 3, 460, 65}, {6, 1, 256, 1, 1, 0, 0, 480, 90},
       {4, 2, 128, 1, 1, 200, 3, 930, 80}, {4, 2, 80, 1, 1, 0, 0, 500, 70},
       {2, 2, 80, 1, 1, 90, 3, 100, 140}, {4, 2, 64, FT_KV_Q4_1, FT_KV_Q4_1, 0, 0, 505, 17},
       {4, 1, 128, FT_KV_Q5_0, FT_KV_Q5_1, 70, 3, 100, 16},
       {6, 2, 64, FT_KV_Q5_1, FT_KV_IQ4_NL, 0, 0, 480, 70},
       {2, 1, 256, FT_KV_IQ4_NL, FT_KV_Q5_0, 0, 0, 600, 5},
       {4, 1, 64, FT_KV_Q8_0, FT_KV_Q5_1, 0, 0, 60, 9}, {6, 1, 256, 7, 7, 0, 0, 480, 70},
       {6, 1, 256, 3, 3, 0, 0, 480, 66}, {12, 2, 256, 6, 6, 0, 0, 600, 4},
       {24, 4, 256, 3, 7, 0, 0, 1000, 3}, {16, 2, 256, 7, 3, 300, 0, 1000, 4},
       {12, 2, 256, 6, 6, 0, 0, 700, 2}, {16, 2, 256, 3, 3, 0, 0, 1000, 2},
       {6, 1, 256, 7, 7, 0, 0, 600, 5}, {4, 1, 512, 7, 6, 0, 0, 600, 4},
       {4, 1, 512, 3, 6, 0, 0, 600, 66}, {6, 1, 256, 3, 1, 0, 0, 600, 4},
       {8, 1, 64, 3, 3, 0, 0, 1500, 80, 600}, {4, 2, 64, 6, 7, 0, 0, 1100, 70, 600},
       {2, 1, 256, 7, 6, 0, 0, 1030, 66, 1200}, {4, 2, 128, 3, 6, 700, 0, 1500, 70, 2048},
       {2, 1, 64, 1, 7, 0, 5, 1600, 65, 600}, {2, 1, 512, 2, 3, 0, 0, 1030, 66, 4096},
       /* rows whose positions a device divides into ranges of different lengths */
       {8, 4, 64, 1, 1, 0, 0, 4093, 6}, {4, 2, 256, 3, 3, 0, 0, 8190, 5},
       {8, 4, 64, 1, 1, 0, 0, 4000, 130}, {2, 1, 64, 6, 7, 0, 0, 8100, 140},
       {4, 4, 256, 1, 1, 0, 0, 16380, 6}, {4, 4, 256, 7, 6, 0, 0, 16381, 4},
       {4, 2, 64, 1, 1, 3000, 0, 8190, 5}, {4, 4, 64, 3, 6, 0, 0, 4090, 7, 600})

/* Keys with a mean subtracted: the cache holds the same bytes as one that is given the difference,
 * and attention over them is more accurate. */
static void attend_centred(ft_optest *t, const int *n)
{
    const int H = n[0], G = n[1], d = n[2], rows = n[4];
    const seq s = {0, rows};
    const int pages = rows / FT_PAGE_ROWS + 1;
    spans(t, &s, 1, pages);
    ft_kv kv = cache(t, n[3], n[3], G, d, pages);
    kv.mean = t_vec(t, G * d, -20, 20).p;
    ft_mat q = t_uniform(t, rows, H * d, -0.2f, 0.2f), o = t_output(t, rows, H * d);
    ft_mat k = t_uniform(t, rows, G * d, -1, 1), v = t_uniform(t, rows, G * d, -1, 1);
    float *host = ft_new_n(float, (size_t)k.rs *(size_t)rows),
          *mean = ft_new_n(float, (size_t)(G * d));
    t->dev->download(t->dev, host, k.p, sizeof(float) * (size_t)k.rs * (size_t)rows);
    t->dev->download(t->dev, mean, kv.mean, sizeof(float) * (size_t)(G * d));
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < G * d; i++) host[r * k.rs + i] += mean[i];
    t->dev->upload(t->dev, k.p, host, sizeof(float) * (size_t)k.rs * (size_t)rows);
    ft_free(host);
    ft_free(mean);
    const ft_attn p = {.scale = 0.3f};
    t->step->kv = &kv;
    t_begin(t);
    ft_kv_put(t->step, 0, ft_heads(k, 0, G, d, d), ft_heads(v, 0, G, d, d));
    ft_attend(t->step, 0, ft_heads(o, 0, H, d, d), ft_heads(q, 0, H, d, d), p);
    t_expect(t, o, limit(t, n[3], n[3]));
    if (n[3] == FT_KV_F32) return;
    /* compared with f32 keys without a mean */
    const t_result centred = t->kept[0];
    ft_kv plain = cache(t, FT_KV_F32, n[3], G, d, pages);
    t->step->kv = &plain;
    t_begin(t);
    ft_kv_put(t->step, 0, ft_heads(k, 0, G, d, d), ft_heads(v, 0, G, d, d));
    ft_attend(t->step, 0, ft_heads(o, 0, H, d, d), ft_heads(q, 0, H, d, d), p);
    t_expect(t, o, limit(t, FT_KV_F32, n[3]));
    const double e = t_error(centred.v, t->kept[1].v, (size_t)(rows * H * d));
    if (!(e < n[5] * 1e-4)) t_fail(t, "centred keys are far from the truth, error", e);
}
OPTEST(attend_centred, {2, 1, 64, FT_KV_F32, 70}, {4, 2, 128, FT_KV_F16, 70, 1},
       {4, 2, 128, FT_KV_Q8_0, 70, 1}, {4, 2, 64, FT_KV_TURBO4, 70, 100},
       {6, 1, 128, FT_KV_TURBO4, 150, 100}, {4, 2, 256, FT_KV_TURBO3, 70, 300},
       {2, 1, 80, FT_KV_TURBO2, 70, 1000})

/* Rows of an image see all of it, and no further back than their window; the rows of text before
 * and after it have the same bits as without. n[8], n[9]: the image's first row and its rows. */
static void attend_ahead(ft_optest *t, const int *n)
{
    const int H = n[0], G = n[1], d = n[2], past = n[6], rows = n[7], from = n[8], to = from + n[9];
    const seq s[2] = {{past, rows}, {130, 2}};
    const int T = rows + 2, pages = (FT_MAX(past, 130) + rows) / FT_PAGE_ROWS + 1;
    int32_t ahead[512];
    spans(t, s, 2, pages);
    for (int r = 0; r < T; r++) ahead[r] = r >= from && r < to ? past + to : t->batch.end[r];
    t->batch.ahead = t_ints(t, ahead, T);
    const ft_kv kv = cache(t, n[3], n[4], G, d, 2 * pages);
    fill_past(t, &kv, s, 2);
    const int n_out = t->batch.n_out;
    ft_mat q = t_uniform(t, T, H * d, -2, 2), o = t_output(t, T, H * d);
    ft_mat k = t_uniform(t, T, G * d, -1, 1), v = t_uniform(t, T, G * d, -1, 1);
    ft_mat q2 = t_output(t, n_out, H * d), o2 = t_output(t, n_out, H * d);
    ft_mat plain = t_output(t, T, H * d);
    const ft_attn causal = {.scale = 0.3f, .window = n[5]};
    ft_attn p = causal, gathered = causal;
    p.ahead = gathered.ahead = gathered.out = true;
    t->step->kv = &kv;
    t_begin(t);
    ft_kv_put(t->step, 0, ft_heads(k, 0, G, d, d), ft_heads(v, 0, G, d, d));
    ft_gather_out(t->step, q2, q);
    ft_attend(t->step, 0, ft_heads(o, 0, H, d, d), ft_heads(q, 0, H, d, d), p);
    ft_attend(t->step, 0, ft_heads(o2, 0, H, d, d), ft_heads(q2, 0, H, d, d), gathered);
    ft_attend(t->step, 0, ft_heads(plain, 0, H, d, d), ft_heads(q, 0, H, d, d), causal);
    t_expect(t, o, limit(t, n[3], n[4]));
    t_check_gaps(t, o);
    t_expect_rest(t, o2, limit(t, n[3], n[4]));
    t_expect_rest(t, plain, limit(t, n[3], n[4]));
    const t_result all = t->kept[0], some = t->kept[1], text = t->kept[2];
    const size_t cols = (size_t)all.cols, bytes = cols * sizeof(float);
    for (int r = 0; r < T; r++) {
        const bool same = !memcmp(all.v + (size_t)r * cols, text.v + (size_t)r * cols, bytes);
        if (same != (ahead[r] == t->batch.end[r]))
            t_fail(t, same ? "row sees nothing ahead, row" : "row of text differs, row", r);
    }
    for (int i = 0; i < n_out; i++) {
        const int row = i == n_out - 1 ? T - 1 : 3 * i;
        if (memcmp(some.v + (size_t)i * cols, all.v + (size_t)row * cols, bytes))
            t_fail(t, "gathered row differs, row", row);
    }
}
OPTEST(attend_ahead, {2, 1, 32, 0, 0, 0, 0, 9, 2, 5}, {4, 2, 64, 1, 1, 0, 60, 40, 0, 40},
       {4, 2, 64, 1, 1, 40, 100, 100, 3, 90}, {4, 1, 128, 1, 1, 100, 700, 200, 20, 150},
       {8, 4, 256, 2, 2, 512, 500, 150, 7, 140}, {8, 4, 256, 3, 3, 64, 30, 90, 1, 70},
       {4, 4, 80, 1, 1, 40, 20, 150, 10, 130}, {4, 2, 256, 6, 6, 0, 450, 70, 10, 50},
       {4, 1, 512, 1, 7, 0, 5, 80, 30, 50}, {2, 2, 20, 0, 0, 17, 40, 60, 10, 40})

/* A recent-token window in q8_0 beside turbo pages: rows before, at and far behind its start,
 * together and alone. */
static void attend_newest(ft_optest *t, const int *n)
{
    const int H = n[0], G = n[1], d = n[2], kt = n[3], vt = n[4], past = n[7], rows = n[8];
    const seq s[2] = {{past, rows}, {130, 2}};
    const int T = rows + 2, pages = (FT_MAX(past, 130) + rows) / FT_PAGE_ROWS + 1;
    spans(t, s, 2, pages);
    ft_kv kv = cache(t, kt, vt, G, d, 2 * pages);
    const int best = d % 32 ? FT_KV_F16 : FT_KV_Q8_0;
    const ft_kv recent = cache(t, best, best, G, d, 2 * pages);
    kv.recent = &recent;
    fill_past(t, &kv, s, 2);
    ft_mat q = t_uniform(t, T, H * d, -2, 2), k = t_uniform(t, T, G * d, -1, 1);
    ft_mat o = t_output(t, T, H * d), one = t_output(t, 1, H * d);
    const ft_attn p = {.scale = 0.3f, .window = n[5], .first = n[6]};
    t->step->kv = &kv;
    t_begin(t);
    ft_kv_put(t->step, 0, ft_heads(k, 0, G, d, d), ft_heads(k, 0, G, d, d));
    ft_attend(t->step, 0, ft_heads(o, 0, H, d, d), ft_heads(q, 0, H, d, d), p);
    t_expect(t, o, limit(t, kt, vt));
    t_check_gaps(t, o);
    const ft_batch all = t->batch;
    for (int r = 0; r < rows; r += FT_MAX(1, rows / 4)) {
        const ft_span span = {.slot = 1, .n = 1, .start = past + r};
        const int32_t zero = 0;
        t->batch.T = t->batch.S = t->batch.n_out = 1;
        t->batch.cell = all.cell + r;
        t->batch.end = all.end + r;
        t->batch.span_of = t_ints(t, &zero, 1);
        t->batch.span = t_keep(t, &span, sizeof span); /* batches are in host memory */
        t_begin(t);
        ft_attend(t->step, 0, ft_heads(one, 0, H, d, d), ft_heads(ft_rows(q, r, 1), 0, H, d, d), p);
        t_expect(t, one, limit(t, kt, vt));
        const size_t cols = (size_t)(H * d);
        if (memcmp(t->kept[t->n_kept - 1].v, t->kept[0].v + (size_t)r * cols, cols * sizeof(float)))
            t_fail(t, "row together and alone differ, row", r);
    }
}
OPTEST(attend_newest, {4, 2, 64, 6, 6, 0, 0, 0, 300}, {4, 2, 64, 7, 6, 0, 0, 127, 2},
       {4, 2, 128, 6, 6, 0, 0, 190, 5}, {8, 1, 256, 3, 7, 0, 0, 1500, 1},
       {8, 1, 256, 7, 5, 0, 0, 600, 16}, {6, 2, 128, 6, 1, 0, 0, 700, 3},
       {4, 2, 80, 7, 6, 0, 0, 500, 4}, {4, 2, 64, 5, 6, 100, 0, 300, 70},
       {2, 1, 64, 6, 6, 0, 400, 380, 40}, {4, 2, 192, 6, 7, 0, 0, 1030, 1})

/* Products of results: from the second one on, a device may write what the product reads when it
 * attends. n[7]: the weights' type; n[8]: with a recent-token window. */
static void attend_product(ft_optest *t, const int *n)
{
    const seq s[4] = {{0, 7}, {129, 1}, {700, 3}, {1030, 1}};
    const int H = n[0], G = n[1], d = n[2], T = 12, out = 40, pages = 1031 / FT_PAGE_ROWS + 1;
    spans(t, s, 4, pages);
    ft_kv kv = cache(t, n[3], n[4], G, d, 4 * pages);
    const ft_kv recent = cache(t, FT_KV_Q8_0, FT_KV_Q8_0, G, d, 4 * pages);
    if (n[8]) kv.recent = &recent;
    fill_past(t, &kv, s, 4);
    ft_weight w = t_weight(t, (ft_type)n[7], out, H * d, 1);
    ft_mat o = t_output(t, T, H * d), k = t_uniform(t, T, G * d, -1, 1), q[3], y[3];
    const ft_attn p = {.scale = 0.3f, .window = n[5], .first = n[6]};
    for (int i = 0; i < 3; i++) {
        q[i] = t_uniform(t, T, H * d, -2, 2);
        y[i] = t_output(t, T, out);
    }
    t->step->kv = &kv;
    t_begin(t);
    ft_kv_put(t->step, 0, ft_heads(k, 0, G, d, d), ft_heads(k, 0, G, d, d));
    for (int i = 0; i < 3; i++) {
        ft_attend(t->step, 0, ft_heads(o, 0, H, d, d), ft_heads(q[i], 0, H, d, d), p);
        ft_linear(t->step, y[i], o, &w);
    }
    t_run(t);
    for (int i = 0; i < 3; i++) t_expect_rest(t, y[i], 5e-4);
    t_expect_rest(t, o, limit(t, n[3], n[4]));
    t_check_gaps(t, o);
}
OPTEST(attend_product, {4, 2, 64, FT_KV_F16, FT_KV_F16, 0, 0, FT_Q4_K},
       {4, 2, 256, FT_KV_F16, FT_KV_F16, 0, 0, FT_Q8_0}, {4, 1, 512, 1, 1, 0, 0, FT_Q4_K},
       {4, 2, 128, FT_KV_F16, FT_KV_F16, 600, 3, FT_F16}, {4, 2, 128, 3, 3, 0, 0, FT_F32},
       {4, 2, 256, FT_KV_TURBO3, FT_KV_TURBO3, 0, 0, FT_Q4_K},
       {4, 2, 64, FT_KV_TURBO4, FT_KV_TURBO4, 0, 0, FT_BF16, 1},
       {4, 2, 128, FT_KV_TURBO3, FT_KV_TURBO3, 0, 0, FT_TQ4_1S, 1})

/* Needle in a haystack: each row's query is one of the keys, and its result must be nearest to the
 * value at that position. n[3]: how many of 33 needles may be missed. */
static void attend_needle(ft_optest *t, const int *n)
{
    enum { ROWS = 33 };
    const int d = n[0], type = n[1], cells = n[2];
    const seq s = {cells - ROWS, ROWS};
    const int pages = cells / FT_PAGE_ROWS + 1;
    spans(t, &s, 1, pages);
    const ft_kv kv = cache(t, type, type, 1, d, pages);
    const size_t width = (size_t)((d + 15) / 16 * 16 + 16);
    ft_mat k = t_uniform(t, cells, d, -1, 1), v = t_uniform(t, cells, d, -1, 1);
    float *keys = ft_new_n(float, width *(size_t)cells),
          *values = ft_new_n(float, width *(size_t)cells);
    t->dev->download(t->dev, keys, k.p, sizeof(float) * width * (size_t)cells);
    t->dev->download(t->dev, values, v.p, sizeof(float) * width * (size_t)cells);
    const ft_batch rows = t->batch;
    int32_t *cell = ft_new_n(int32_t, (size_t)cells), *zero = ft_new_n(int32_t, (size_t)cells);
    const ft_span span = {.n = cells};
    for (int c = 0; c < cells; c++) cell[c] = c;
    t->batch.T = cells;
    t->batch.cell = t_ints(t, cell, cells);
    t->batch.span_of = t_ints(t, zero, cells);
    t->batch.span = t_keep(t, &span, sizeof span); /* batches are in host memory */
    t->step->kv = &kv;
    t_begin(t);
    ft_kv_put(t->step, 0, ft_heads(k, 0, 1, d, d), ft_heads(v, 0, 1, d, d));
    t_run(t);
    t->batch = rows;
    ft_mat q = t_output(t, ROWS, d), o = t_output(t, ROWS, d);
    for (int r = 0; r < ROWS; r++)
        t->dev->upload(t->dev, q.p + (size_t)r * (size_t)q.rs,
                       keys + width * (size_t)(r * (cells - ROWS) / ROWS),
                       sizeof(float) * (size_t)d);
    t_begin(t);
    ft_attend(t->step, 0, ft_heads(o, 0, 1, d, d), ft_heads(q, 0, 1, d, d), (ft_attn){.scale = 1});
    t_expect(t, o, limit(t, type, type));
    int lost = 0;
    for (int r = 0; r < ROWS; r++) {
        int best = -1;
        double top = HUGE_VAL;
        for (int c = 0; c < cells; c++) {
            double e = 0;
            for (int i = 0; i < d; i++) {
                const double a =
                    (double)t->kept[0].v[r * d + i] - (double)values[width * (size_t)c + (size_t)i];
                e += a * a;
            }
            if (e < top) top = e, best = c;
        }
        lost += best != r * (cells - ROWS) / ROWS;
    }
    if (lost > n[3]) t_fail(t, "needles were lost", lost);
    ft_free(keys);
    ft_free(values);
    ft_free(cell);
    ft_free(zero);
}
OPTEST(attend_needle, {128, FT_KV_F16, 4096, 0}, {128, FT_KV_Q8_0, 4096, 0},
       {128, FT_KV_TURBO4, 4096, 0}, {128, FT_KV_TURBO3, 4096, 0}, {128, FT_KV_TURBO2, 4096, 1},
       {64, FT_KV_TURBO3, 4096, 1}, {256, FT_KV_TURBO3, 8192, 0})

int main(int argc, char **argv)
{
    const t_case *const all[] = {&attend_one_case,   &attend_many_case,   &attend_pair_case,
                                 &attend_mixed_case, &attend_alone_case,  &attend_centred_case,
                                 &attend_ahead_case, &attend_newest_case, &attend_needle_case,
                                 &put_heads_case,    &attend_product_case};
    return t_main(argc, argv, all, FT_COUNT(all));
}
