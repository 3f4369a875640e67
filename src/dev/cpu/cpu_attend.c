/* KV cache and attention.
 *
 * Positions are processed in blocks of one page, at absolute positions, with a running softmax
 * inside a range of RANGE positions; the ranges of a row are then merged in order. This order
 * depends only on the positions that the row sees, so the ranges of a long context may be computed
 * by different threads. The query heads of a group and a few rows of a span are computed together,
 * so that their keys and values are read once.
 *
 * A cache with a recent-token window is read in two passes, older positions first; sums of turbo
 * values are transformed back before the recent ones are added.
 *
 * Turbo caches are never expanded: products of a key's codes with the query's bytes are computed in
 * integers, and values are looked up one group of a page at a time, with their scales multiplied
 * into the weights. */
#include "base/half.h"
#include "dev/cpu/cpu_dev.h"

#include <string.h>

enum {
    BLOCK = FT_PAGE_ROWS,
    RANGE = 512,    /* positions, a multiple of BLOCK */
    TILE_Q = 64,    /* query vectors of a tile, unless the group of one row is larger */
    TILE_ROWS = 32, /* rows of a tile */
    NEAR_KEYS = 16  /* decoded keys that stay in the L1 cache while queries pass */
};

/* ---- kv_put ---- */

typedef struct put_args {
    ft_kv kv;
    ft_mat k, v;
} put_args;

static void encode(const ft_kern *k, ft_kv_type t, unsigned char *to, const float *x, int n)
{
    if (t == FT_KV_F16)
        k->f32_to_f16(to, x, n);
    else
        ft_kv_row_encode(t, to, x, n);
}

static void put_job(const ft_part *p, const void *args)
{
    const put_args *a = args;
    const ft_kv *kv = &a->kv;
    float *line = (float *)(void *)p->scratch;
    int lo, hi;
    ft_share(p, a->k.T * kv->G, 1, &lo, &hi);
    for (int i = lo; i < hi; i++) {
        const int t = i / kv->G, g = i % kv->G, cell = p->b->cell[t];
        const int slot = p->b->span[p->b->span_of[t]].slot;
        encode(p->k, kv->kt, kv->k + ft_kv_at(kv, p->b, slot, cell, g, kv->k_row, kv->k_page),
               ft_kv_centred(kv, line, ft_mat_head(a->k, t, g), g), kv->d);
        encode(p->k, kv->vt, kv->v + ft_kv_at(kv, p->b, slot, cell, g, kv->v_row, kv->v_page),
               ft_mat_head(a->v, t, g), kv->d);
    }
}

void ft_cpu_kv_put(ft_dev *d, const ft_kv *kv, ft_mat k, ft_mat v)
{
    ft_cpu *c = (ft_cpu *)d;
    const put_args a = {*kv, k, v};
    ft_job_reads_part(c, k, (ft_partition){FT_PARTITION_HEADS, k.T * k.H, 1});
    ft_job_reads_part(c, v, (ft_partition){FT_PARTITION_HEADS, v.T * v.H, 1});
    ft_job_thread_scratch(c, kv->mean ? (size_t)kv->d * sizeof(float) : 0);
    ft_job_accesses(c, kv->k, 1, true); /* the first byte represents the layer's cache */
    FT_JOB(c, put_job, a);
}

/* ---- attend ---- */

typedef struct attend_args {
    ft_mat o, q;
    ft_kv kv, recent; /* recent: only if kv.recent is set */
    ft_attn p;
    int ranges; /* > 0: each range is a separate work item and leaves a partial result */
    int heads;  /* query heads of a tile: those of a KV head, or some of them */
} attend_args;

/* Consecutive rows of one sequence and query heads of one KV head: the query vectors that are
 * computed together. */
typedef struct tile {
    const attend_args *a;
    int row, rows, g, slot;
    int head, group, n;               /* the first query head, their number; n = rows * group */
    const ft_kv *kv;                  /* the cache that is read now ... */
    int kw, vw;                       /* ... values of a decoded key and value */
    int lo[TILE_ROWS], hi[TILE_ROWS]; /* ... and what each row sees of it */
    /* this thread's scratch */
    float *s, *keys, *values; /* [n, BLOCK], [NEAR_KEYS, kw], [BLOCK, vw] */
    float *m, *l, *o;         /* running softmax of a range: [n], [n], [n, vw] */
    float *M, *L, *O;         /* merged ranges */
    float *fold;              /* [n, BLOCK]: weights times the scales of a group */
    float *work, *q_scale;    /* [max(kw, vw)], and as bytes for turbo keys [n, groups] ... */
    int8_t *q8;               /* ... [n, kw] in planes, or for q8_0 [n, 2, d / 32], [n, 2, d] */
} tile;

static int tile_q(int group)
{
    return FT_MAX(TILE_Q, group);
}

static size_t tile_floats(int group, int kw, int vw)
{
    const size_t n = (size_t)tile_q(group), k = (size_t)kw, v = (size_t)vw;
    const size_t softmax = 2 * n * BLOCK + NEAR_KEYS * k + BLOCK * v + 4 * n + 2 * n * v;
    return softmax + FT_MAX(k, v) + n * (k / 16 + 1) + n * 2 * k / sizeof(float);
}

static void tile_place(tile *t, float *m)
{
    const size_t n = (size_t)tile_q(t->group), k = (size_t)t->kw, v = (size_t)t->vw;
    t->s = m;
    t->fold = t->s + n * BLOCK;
    t->keys = t->fold + n * BLOCK;
    t->values = t->keys + NEAR_KEYS * k;
    t->o = t->values + BLOCK * v;
    t->O = t->o + n * v;
    t->m = t->O + n * v;
    t->l = t->m + n;
    t->M = t->l + n;
    t->L = t->M + n;
    t->work = t->L + n;
    t->q_scale = t->work + FT_MAX(k, v);
    t->q8 = (int8_t *)(t->q_scale + n * (k / 16 + 1));
}

static int batch_row(const ft_part *p, const attend_args *a, int i)
{
    return a->p.out ? p->b->out_row[i] : i;
}

/* Selects which of the two caches is read next, and the positions of it that each row sees. */
static void tile_walk(const ft_part *p, tile *t, bool recent)
{
    const attend_args *a = t->a;
    t->kv = recent ? &a->recent : &a->kv;
    t->kw = ft_kv_row_width(t->kv->kt, t->kv->d);
    t->vw = ft_kv_row_width(t->kv->vt, t->kv->d);
    for (int i = 0; i < t->rows; i++) {
        int lo, hi;
        ft_attn_range(p->b, a->p, batch_row(p, a, t->row + i), &lo, &hi);
        const int cut = ft_kv_recent_start(&a->kv, hi);
        t->lo[i] = recent ? FT_MAX(lo, cut) : lo;
        t->hi[i] = recent ? hi : FT_MIN(hi, cut);
    }
}

/* The tile that starts at row i of q; t->rows is its number of rows. */
static void tile_open(const ft_part *p, tile *t, int i)
{
    const attend_args *a = t->a;
    const int span = p->b->span_of[batch_row(p, a, i)];
    const int most = FT_MIN(TILE_ROWS, FT_MAX(1, TILE_Q / t->group));
    t->row = i;
    t->rows = 0;
    t->slot = p->b->span[span].slot;
    for (; t->rows < most && i + t->rows < a->q.T; t->rows++) {
        if (p->b->span_of[batch_row(p, a, i + t->rows)] != span) break;
    }
    t->n = t->rows * t->group;
}

static const unsigned char *cells_at(const ft_part *p, const tile *t, int cell, bool values)
{
    const ft_kv *kv = t->kv;
    return values ? kv->v + ft_kv_at(kv, p->b, t->slot, cell, t->g, kv->v_row, kv->v_page)
                  : kv->k + ft_kv_at(kv, p->b, t->slot, cell, t->g, kv->k_row, kv->k_page);
}

static void decode_cells(const ft_kern *k, ft_kv_type type, float *to, const unsigned char *from,
                         size_t row, int n, int d)
{
    for (int i = 0; i < n; i++, from += row, to += d) {
        if (type == FT_KV_F16)
            k->f16_to_f32(to, from, d);
        else if (type == FT_KV_Q8_0)
            k->q8_0_to_f32(to, from, d);
        else
            ft_kv_row_decode(type, to, from, d);
    }
}

static const float *query_at(const tile *t, int i)
{
    return ft_mat_head(t->a->q, t->row + i / t->group, t->head + i % t->group);
}

/* The tile's queries in the form that turbo keys need. */
static void transform_queries(const tile *t)
{
    const ft_kv *kv = t->kv;
    const size_t groups = (size_t)(t->kw / ft_turbo_group(kv->d));
    for (int i = 0; i < t->n; i++)
        ft_cpu_turbo_query(t->q8 + (size_t)i * (size_t)t->kw, t->q_scale + (size_t)i * groups,
                           t->work, query_at(t, i), ft_kv_turbo(kv->kt), kv->d);
}

/* Keys of q8_0 are multiplied as bytes where there is a kernel for that: a query is the sum of two
 * rows of bytes, the second being the rounding error of the first, so that no precision is lost. */
static bool splits(const ft_part *p, const ft_kv *kv)
{
    return kv->kt == FT_KV_Q8_0 && p->k->dot8[FT_Q8_0];
}

static void split_queries(const tile *t)
{
    const int d = t->kv->d, blocks = d / FT_BLOCK8;
    for (int i = 0; i < t->n; i++) {
        const float *x = query_at(t, i);
        int8_t *q = t->q8 + 2 * (size_t)i * (size_t)d;
        float *scale = t->q_scale + 2 * i * blocks;
        for (int b = 0; b < blocks; b++, x += FT_BLOCK8, q += FT_BLOCK8) {
            float top = 0;
            for (int j = 0; j < FT_BLOCK8; j++) top = FT_MAX(top, fabsf(x[j]));
            const float s = top / 127, by = top > 0 ? 127 / top : 0, more = 254 * by;
            for (int j = 0; j < FT_BLOCK8; j++) {
                const float whole = rintf(x[j] * by);
                q[j] = (int8_t)whole;
                q[d + j] = (int8_t)rintf(ft_fma(-whole, s, x[j]) * more);
            }
            scale[b] = s;
            scale[blocks + b] = s / 254;
        }
    }
}

static void split_scores(const ft_part *p, const tile *t, const unsigned char *rows, int n)
{
    enum { PAIR = FT_COLS / 2 };
    const size_t d = (size_t)t->kv->d, blocks = d / FT_BLOCK8;
    for (int at = 0; at < t->n; at += PAIR) {
        float *y[FT_COLS];
        ft_col8 x[FT_COLS];
        const int queries = FT_MIN(PAIR, t->n - at);
        for (int i = 0; i < 2 * queries; i++) {
            const size_t v = (size_t)(2 * at + i);
            y[i] = (i % 2 ? t->fold : t->s) + v / 2 * BLOCK;
            x[i] = (ft_col8){t->q8 + v * d, t->q_scale + v * blocks, NULL, NULL};
        }
        p->k->dot8[FT_Q8_0](y, rows, t->kv->k_row, n, (int)d, x, 2 * queries);
        for (int i = 0; i < 2 * queries; i += 2)
            for (int c = 0; c < n; c++) y[i][c] += y[i + 1][c];
    }
}

static void prepare_queries(const ft_part *p, const tile *t)
{
    if (ft_kv_is_turbo(t->kv->kt)) transform_queries(t);
    if (splits(p, t->kv)) split_queries(t);
}

static void turbo_scores(const ft_part *p, const tile *t, const unsigned char *rows, int n)
{
    const ft_kv *kv = t->kv;
    const size_t groups = (size_t)(t->kw / ft_turbo_group(kv->d));
    for (int at = 0; at < t->n; at += FT_COLS) {
        float *y[FT_COLS];
        ft_col8 x[FT_COLS];
        const int cols = FT_MIN(FT_COLS, t->n - at);
        for (int i = 0; i < cols; i++) {
            const size_t v = (size_t)(at + i);
            y[i] = t->s + v * BLOCK;
            x[i] = (ft_col8){t->q8 + v * (size_t)t->kw, t->q_scale + v * groups, NULL, NULL};
        }
        p->k->turbo[ft_kv_turbo(kv->kt)].dot(y, rows, kv->k_row, n, t->kw, x, cols);
    }
}

/* s[i, at + c] = q_i . k_c for n keys of a type that has a kernel */
static void plain_scores(const ft_part *p, const tile *t, ft_type type, const unsigned char *keys,
                         size_t row, int at, int n)
{
    for (int i = 0; i < t->n; i += FT_COLS) {
        float *y[FT_COLS];
        const float *x[FT_COLS];
        const int cols = FT_MIN(FT_COLS, t->n - i);
        for (int c = 0; c < cols; c++) {
            y[c] = t->s + (size_t)(i + c) * BLOCK + at;
            x[c] = query_at(t, i + c);
        }
        p->k->dotf[type](y, keys, row, n, t->kv->d, x, cols);
    }
}

/* s[i, c - from] = q_i . k_c for positions [from, from + n) of one page */
static void scores(const ft_part *p, const tile *t, int from, int n)
{
    static const ft_type plain[] = {
        [FT_KV_F32] = FT_F32, [FT_KV_F16] = FT_F16, [FT_KV_BF16] = FT_BF16, [FT_KV_Q8_0] = FT_Q8_0};
    const ft_kv *kv = t->kv;
    const unsigned char *rows = cells_at(p, t, from, false);
    if (ft_kv_is_turbo(kv->kt)) {
        turbo_scores(p, t, rows, n);
        return;
    }
    if (splits(p, kv)) {
        split_scores(p, t, rows, n);
        return;
    }
    /* Decodes keys once for many queries, as many as stay in the L1 cache: the sums are the same.
     * Byte products are summed in another order. */
    const bool wide = kv->kt == FT_KV_F32 || kv->kt == FT_KV_Q8_0;
    if (wide || (kv->kt <= FT_KV_BF16 && t->n <= 2 * FT_COLS)) {
        plain_scores(p, t, plain[kv->kt], rows, kv->k_row, 0, n);
        return;
    }
    for (int at = 0; at < n; at += NEAR_KEYS, rows += NEAR_KEYS * kv->k_row) {
        const int near = FT_MIN(NEAR_KEYS, n - at);
        decode_cells(p->k, kv->kt, t->keys, rows, kv->k_row, near, kv->d);
        plain_scores(p, t, FT_F32, (const unsigned char *)t->keys, (size_t)kv->d * sizeof(float),
                     at, near);
    }
}

/* s *= scale; returns the maximum of them and `top`. Independent lanes let the compiler vectorise.
 */
static float scale_top(float *s, int n, float scale, float top)
{
    enum { LANES = 8 };
    float most[LANES];
    int c = 0;
    for (int j = 0; j < LANES; j++) most[j] = top;
    for (; c + LANES <= n; c += LANES)
        for (int j = 0; j < LANES; j++) {
            const float v = s[c + j] * scale;
            s[c + j] = v;
            most[j] = v > most[j] ? v : most[j];
        }
    for (; c < n; c++) {
        s[c] *= scale;
        most[0] = s[c] > most[0] ? s[c] : most[0];
    }
    for (int j = 0; j < LANES; j++) top = most[j] > top ? most[j] : top;
    return top;
}

/* Query vector i sees positions [from, to) of the block that starts at `at`: s becomes their
 * weights. */
static void softmax_step(const ft_part *p, const tile *t, int i, int at, int from, int to)
{
    float *s = t->s + (size_t)i * BLOCK + (from - at), *o = t->o + (size_t)i * (size_t)t->vw;
    const int n = to - from;
    const float top = scale_top(s, n, t->a->p.scale, t->m[i]);
    float fade;
    p->k->exp_minus(&fade, &t->m[i], top, 1);
    p->k->exp_minus(s, s, top, n);
    t->m[i] = top;
    t->l[i] = ft_fma(t->l[i], fade, p->k->sum(s, n));
    for (int j = 0; j < t->vw; j++) o[j] *= fade;
}

/* o += weights times values for `count` query vectors from `first` on, which see n positions from
 * `from` of the block on. */
static void add_values(const ft_part *p, const tile *t, const float *values, int step, int first,
                       int count, int from, int n)
{
    p->k->mm(t->o + (size_t)first * (size_t)t->vw, t->vw, t->s + (size_t)first * BLOCK + from,
             BLOCK, values + (size_t)from * (size_t)step, step, count, t->vw, n);
}

/* The same for turbo values, group by group: rows are those of the positions seen. */
static void add_turbo_values(const ft_part *p, const tile *t, const unsigned char *rows, int first,
                             int count, int from, int n)
{
    const ft_kv *kv = t->kv;
    const ft_turbo type = ft_kv_turbo(kv->vt);
    const int group = ft_turbo_group(kv->d);
    const size_t bytes = ft_turbo_group_bytes(type, group);
    for (int at = 0; at < t->vw; at += group, rows += bytes) {
        float scale[BLOCK];
        for (int c = 0; c < n; c++) {
            uint16_t h;
            memcpy(&h, rows + (size_t)c * kv->v_row, sizeof h);
            scale[c] = ft_f16_to_f32(h);
        }
        for (int i = first; i < first + count; i++) {
            const float *s = t->s + (size_t)i * BLOCK + from;
            float *fold = t->fold + (size_t)i * BLOCK;
            for (int c = 0; c < n; c++) fold[c] = s[c] * scale[c];
        }
        p->k->turbo[type].values(t->values, rows, kv->v_row, n, group);
        p->k->mm(t->o + (size_t)first * (size_t)t->vw + at, t->vw, t->fold + (size_t)first * BLOCK,
                 BLOCK, t->values, group, count, group, n);
    }
}

/* One block: positions [at, at + BLOCK) clipped to [lo, hi). */
static void block(const ft_part *p, const tile *t, int at, int lo, int hi)
{
    const ft_kv *kv = t->kv;
    const unsigned char *rows = cells_at(p, t, lo, true);
    const bool turbo = ft_kv_is_turbo(kv->vt), as_is = kv->vt == FT_KV_F32;
    scores(p, t, lo, hi - lo);
    if (!turbo && !as_is) decode_cells(p->k, kv->vt, t->values, rows, kv->v_row, hi - lo, kv->d);
    for (int r = 0, n; r < t->rows;
         r += n) { /* rows that see the same positions are computed together */
        const int from = FT_MAX(t->lo[r], at), to = FT_MIN(t->hi[r], at + BLOCK);
        for (n = 1; r + n < t->rows; n++)
            if (FT_MAX(t->lo[r + n], at) != from || FT_MIN(t->hi[r + n], at + BLOCK) != to) break;
        if (from >= to) continue;
        const int first = r * t->group, count = n * t->group;
        for (int i = first; i < first + count; i++) softmax_step(p, t, i, lo, from, to);
        if (turbo)
            add_turbo_values(p, t, rows + (size_t)(from - lo) * kv->v_row, first, count, from - lo,
                             to - from);
        else if (as_is)
            add_values(p, t, (const float *)(const void *)rows, (int)(kv->v_row / sizeof(float)),
                       first, count, from - lo, to - from);
        else
            add_values(p, t, t->values, kv->d, first, count, from - lo, to - from);
    }
}

/* The positions of range number r for every query vector of the tile. */
static void walk_range(const ft_part *p, const tile *t, int r)
{
    int lo = INT32_MAX, hi = 0;
    for (int i = 0; i < t->rows; i++) {
        if (t->lo[i] >= t->hi[i]) continue;
        lo = FT_MIN(lo, t->lo[i]);
        hi = FT_MAX(hi, t->hi[i]);
    }
    lo = FT_MAX(lo, r * RANGE);
    hi = FT_MIN(hi, (r + 1) * RANGE);
    for (int i = 0; i < t->n; i++) {
        t->m[i] = -INFINITY;
        t->l[i] = 0;
    }
    memset(t->o, 0, (size_t)t->n * (size_t)t->vw * sizeof(float));
    for (int at = lo / BLOCK * BLOCK; at < hi; at += BLOCK)
        block(p, t, at, FT_MAX(at, lo), FT_MIN(at + BLOCK, hi));
}

/* Merges the softmax (m, l, o) of later positions into (M, L, O). */
static void merge(const ft_kern *k, float *M, float *L, float *O, float m, float l, const float *o,
                  int d)
{
    if (m == -INFINITY) return;
    if (*M == -INFINITY) {
        *M = m;
        *L = l;
        memcpy(O, o, (size_t)d * sizeof(float));
        return;
    }
    const float top = *M > m ? *M : m;
    float was, is;
    k->exp_minus(&was, M, top, 1);
    k->exp_minus(&is, &m, top, 1);
    *M = top;
    *L = ft_fma(l, is, *L * was);
    for (int j = 0; j < d; j++) O[j] = ft_fma(o[j], is, O[j] * was);
}

/* back: as many values as O has, for caches whose sums must be transformed back */
static void transform_back(const ft_kv *kv, float *o, float *O, float *back)
{
    if (ft_kv_is_turbo(kv->vt)) ft_cpu_turbo_back(o, back, O, ft_kv_turbo(kv->vt), kv->d);
}

static void store_result(float *y, float L, const float *O, int d)
{
    const float inv = L > 0 ? 1.0f / L : 0;
    for (int j = 0; j < d; j++) y[j] = O[j] * inv;
}

/* The recent positions of a row lie in at most two ranges: they leave at most two partial results.
 */
enum { NEWEST_RANGES = 2 };
static_assert(FT_KV_RECENT + BLOCK <= RANGE, "the recent positions of a row lie in two ranges");

static int partials(const attend_args *a)
{
    return a->ranges + (a->kv.recent ? NEWEST_RANGES : 0);
}

/* Address of a partial result: m, l, then the sum. */
static float *partial_at(const ft_part *p, const attend_args *a, int row, int head, int range)
{
    const size_t i = ((size_t)row * (size_t)a->q.H + (size_t)head) * (size_t)partials(a);
    return (float *)(void *)p->c->shared +
           (i + (size_t)range) * ((size_t)ft_kv_row_width(a->kv.vt, a->kv.d) + 2);
}

/* The first range that any row of the tile sees, and the end of the last. */
static void tile_ranges(const tile *t, int *first, int *end)
{
    int lo = INT32_MAX, hi = 0;
    for (int i = 0; i < t->rows; i++) {
        if (t->lo[i] >= t->hi[i]) continue;
        lo = FT_MIN(lo, t->lo[i]);
        hi = FT_MAX(hi, t->hi[i]);
    }
    *first = hi ? lo / RANGE : 0;
    *end = (hi + RANGE - 1) / RANGE;
}

/* Everything that the tile sees of the selected cache, merged into M, L, O. */
static void merge_ranges(const ft_part *p, const tile *t)
{
    const size_t d = (size_t)t->vw;
    int r, end;
    for (tile_ranges(t, &r, &end); r < end; r++) {
        walk_range(p, t, r);
        for (int i = 0; i < t->n; i++)
            merge(p->k, &t->M[i], &t->L[i], t->O + (size_t)i * d, t->m[i], t->l[i],
                  t->o + (size_t)i * d, t->vw);
    }
}

static void whole_tile(const ft_part *p, tile *t)
{
    const int d = t->a->kv.d;
    const size_t width = (size_t)t->vw;
    for (int i = 0; i < t->n; i++) t->M[i] = -INFINITY, t->L[i] = 0;
    memset(t->O, 0, (size_t)t->n * width * sizeof(float));
    merge_ranges(p, t);
    for (int i = 0; i < t->n; i++) { /* removes the padding between rows */
        float *o = t->O + (size_t)i * (size_t)d;
        transform_back(t->kv, o, t->O + (size_t)i * width, t->work);
    }
    if (t->a->kv.recent) {
        tile_walk(p, t, true);
        prepare_queries(p, t);
        merge_ranges(p, t);
    }
    for (int i = 0; i < t->n; i++)
        store_result(ft_mat_head(t->a->o, t->row + i / t->group, t->head + i % t->group), t->L[i],
                     t->O + (size_t)i * (size_t)d, d);
}

static float *partial_of(const ft_part *p, const tile *t, int i, int as)
{
    return partial_at(p, t->a, t->row + i / t->group, t->head + i % t->group, as);
}

/* Stores the softmax of query vector i over a range as its partial result number `as`. */
static void put_partial(const ft_part *p, const tile *t, int i, int as)
{
    const size_t d = (size_t)t->vw;
    float *to = partial_of(p, t, i, as);
    to[0] = t->m[i];
    to[1] = t->l[i];
    memcpy(to + 2, t->o + (size_t)i * d, d * sizeof(float));
}

static void part_of_tile(const ft_part *p, const tile *t, int r)
{
    walk_range(p, t, r);
    for (int i = 0; i < t->n; i++) put_partial(p, t, i, r);
}

/* Only the ranges that a row sees itself: the rows of a tile may be far apart. */
static void recent_of_tile(const ft_part *p, tile *t)
{
    int r, end;
    tile_walk(p, t, true);
    prepare_queries(p, t);
    for (int i = 0; i < t->n * NEWEST_RANGES; i++)
        partial_of(p, t, i / NEWEST_RANGES, t->a->ranges + i % NEWEST_RANGES)[0] = -INFINITY;
    for (tile_ranges(t, &r, &end); r < end; r++) {
        walk_range(p, t, r);
        for (int i = 0; i < t->n; i++) {
            const int at = r - t->lo[i / t->group] / RANGE;
            if (at >= 0 && at < NEWEST_RANGES) put_partial(p, t, i, t->a->ranges + at);
        }
    }
    tile_walk(p, t, false);
}

static void attend_job(const ft_part *p, const void *args)
{
    const attend_args *a = args;
    const int group = a->q.H / a->kv.G;
    tile t = {.a = a, .group = a->heads};
    int item = 0; /* assigned round-robin: later rows see more */
    for (int i = 0; i < a->q.T; i += t.rows) {
        tile_open(p, &t, i);
        for (t.head = 0; t.head < a->q.H; t.head += t.group) {
            t.g = t.head / group;
            bool ready = false;
            tile_walk(p, &t, false);
            tile_place(&t, (float *)(void *)p->scratch);
            for (int r = 0; r < FT_MAX(1, a->ranges); r++) {
                if (item++ % p->threads != p->thread) continue;
                if (!ready) prepare_queries(p, &t);
                ready = true;
                if (a->ranges)
                    part_of_tile(p, &t, r);
                else
                    whole_tile(p, &t);
            }
            if (a->ranges && a->kv.recent && item++ % p->threads == p->thread)
                recent_of_tile(p, &t);
        }
    }
}

static void merge_job(const ft_part *p, const void *args)
{
    const attend_args *a = args;
    const int width = ft_kv_row_width(a->kv.vt, a->kv.d), d = a->kv.d;
    float *O = (float *)(void *)p->scratch;
    int lo, hi;
    ft_share(p, a->q.T * a->q.H, 1, &lo, &hi);
    for (int i = lo; i < hi; i++) {
        float M = -INFINITY, L = 0;
        memset(O, 0, (size_t)width * sizeof(float));
        for (int r = 0; r < partials(a); r++) {
            const float *part = partial_at(p, a, i / a->q.H, i % a->q.H, r);
            if (r == a->ranges) transform_back(&a->kv, O, O, O + width);
            merge(p->k, &M, &L, O, part[0], part[1], part + 2, r < a->ranges ? width : d);
        }
        if (!a->kv.recent) transform_back(&a->kv, O, O, O + width);
        store_result(ft_mat_head(a->o, i / a->q.H, i % a->q.H), L, O, d);
    }
}

static int tiles_of(ft_mat q, const ft_kv *kv)
{
    return (q.T * (q.H / kv->G) + TILE_Q - 1) / TILE_Q * kv->G;
}

/* Query heads per tile: all that share a KV head, unless some threads would be idle; then each
 * smaller tile reads the keys and values again. */
static int heads_of(const ft_cpu *c, ft_mat q, const ft_kv *kv, int ranges)
{
    const int group = q.H / kv->G, tiles = tiles_of(q, kv);
    int heads = group;
    while (!ranges && group / heads * tiles < ft_pool_threads(c->pool) && heads > 1) do
            heads--;
        while (group % heads);
    return heads;
}

/* Number of ranges that are separate work items: only for contexts so long and rows so few that
 * whole tiles would leave threads idle. */
static int split(const ft_cpu *c, ft_mat q, const ft_kv *kv)
{
    int end = 0;
    for (int t = 0; t < c->dev.batch->T; t++) end = FT_MAX(end, c->dev.batch->end[t]);
    const int ranges = (end + RANGE - 1) / RANGE, threads = ft_pool_threads(c->pool);
    const int tiles = tiles_of(q, kv);
    return threads > 1 && ranges > 1 && tiles < 4 * threads && q.T <= TILE_Q ? ranges : 0;
}

void ft_cpu_attend(ft_dev *d, ft_mat o, ft_mat q, const ft_kv *kv, ft_attn p)
{
    ft_cpu *c = (ft_cpu *)d;
    attend_args a = {.o = o, .q = q, .kv = *kv, .p = p, .ranges = split(c, q, kv)};
    a.heads = heads_of(c, q, kv, a.ranges);
    if (kv->recent) a.recent = *kv->recent;
    const int kw = ft_kv_row_width(kv->kt, kv->d), vw = ft_kv_row_width(kv->vt, kv->d);
    const size_t part = (size_t)q.T * (size_t)q.H * ((size_t)vw + 2) * sizeof(float);
    ft_job_reads(c, q);
    ft_job_accesses(c, kv->k, 1, false);
    if (kv->recent) ft_job_accesses(c, kv->recent->k, 1, false);
    if (a.ranges)
        ft_job_shared_scratch(c, part * (size_t)partials(&a));
    else
        ft_job_writes(c, o);
    ft_job_thread_scratch(c, tile_floats(q.H / kv->G, kw, vw) * sizeof(float));
    FT_JOB(c, attend_job, a);
    if (!a.ranges) return;
    ft_job_shared_scratch(c, 0);
    ft_job_writes(c, o);
    FT_JOB(c, merge_job, a);
}
