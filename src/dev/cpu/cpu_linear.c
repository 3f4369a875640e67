/* Products with weights. Outputs are cut into strips; a strip of weights is read from memory once
 * and used for all rows, a few at a time, from the L1 cache. */
#include "dev/cpu/cpu_dev.h"

#include "quant/quant.h"

#include <string.h>

enum {
    STRIP = FT_COL_GRAIN,
    FEW_ROWS = 8,
    DECODE_ROWS = 16, /* rows from which on 16-bit weights are decoded once for all of them */
    NEAR_ROWS = 128,
    SCRATCH_ROWS = 8 * NEAR_ROWS, /* of a strip; for eight strips of NEAR_ROWS */
    NEAR_BYTES = 32 << 10
};
static_assert(STRIP % FT_PACK_ROWS == 0, "a strip is whole groups");
static_assert(FT_MANY_COLS <= FT_SPLIT_COLS, "product_cols has room for all columns of a call");

bool ft_cpu_wants8(const ft_cpu *c, const ft_weight *w)
{
    return w->packed || c->kern.dot8[w->type] || ft_cpu_splits(&c->kern, w);
}

/* Rows of weights that are decoded at a time; they stay in the L2 cache while activations pass. */
static int decoded_rows(const ft_weight *w)
{
    return FT_MAX(4, FT_MIN(STRIP, (1 << 16) / w->k));
}

size_t ft_cpu_product_scratch(const ft_cpu *c, const ft_weight *w)
{
    if (c->kern.dot8[w->type] || w->type == FT_F32) return 0;
    return ft_round_up((size_t)decoded_rows(w) * (size_t)w->k * sizeof(float), FT_HOST_ALIGN);
}

/* Rows of weights and their kernel: exactly one of the two is set. */
typedef struct rows_of {
    const unsigned char *at;
    size_t step;
    int k, cols; /* cols: maximum columns of a call */
    ft_dot8_fn *dot8, *many;
    ft_dotf_fn *dotf;
} rows_of;

/* Columns of a call of a kernel for many; a few that remain are left to the other kernel. */
static int many_cols(const rows_of *r, int left)
{
    const int n = FT_MIN(FT_MANY_COLS, left), rest = n % FT_MANY_GRAIN;
    return rest <= r->cols ? n - rest : n;
}

/* Multiplies some rows of x with n_rows rows of k weights by the kernel for their type; returns how
 * many. */
static int product_cols(const ft_part *p, float *out, int ld, const rows_of *r, int n_rows,
                        const ft_inputs *x, int at)
{
    const bool many = r->many && x->n - at > r->cols;
    const int n = many ? many_cols(r, x->n - at) : FT_MIN(r->cols, x->n - at);
    float *y[FT_SPLIT_COLS];
    ft_col8 col8[FT_SPLIT_COLS];
    const float *col[FT_COLS];
    for (int i = 0; i < n; i++) {
        const int t = x->row ? x->row[at + i] : x->first + at + i;
        y[i] = out + (size_t)(at + i) * (size_t)ld;
        if (r->dot8)
            col8[i] = ft_col8_at(p, &x->x8, t);
        else
            col[i] = ft_mat_head(x->x, t, 0);
    }
    if (r->dot8)
        (many ? r->many : r->dot8)(y, r->at, r->step, n_rows, r->k, col8, n);
    else
        r->dotf(y, r->at, r->step, n_rows, r->k, col, n);
    return n;
}

/* Weights that are decoded to f32 first, once for all rows of x: those of a type without a kernel,
 * and numbers of 16 bits where there are many rows, which gives the same sums. */
static void decoded_product(const ft_part *p, float *out, int ld, const ft_weight *w, int e, int lo,
                            int hi, const ft_inputs *x)
{
    const size_t k = (size_t)w->k;
    const rows_of r = {.at = p->scratch,
                       .step = k * sizeof(float),
                       .k = w->k,
                       .cols = FT_COLS,
                       .dotf = p->k->dotf[FT_F32]};
    for (int o = lo, n; o < hi; o += n) {
        n = FT_MIN(decoded_rows(w), hi - o);
        for (int i = 0; i < n; i++) {
            float *to = (float *)(void *)p->scratch + (size_t)i * k;
            if (w->type == FT_F16)
                p->k->f16_to_f32(to, ft_weight_row(w, e, o + i), w->k);
            else
                ft_row_decode(w->type, to, ft_weight_row(w, e, o + i), k);
        }
        for (int at = 0; at < x->n;) at += product_cols(p, out + (o - lo), ld, &r, n, x, at);
    }
}

void ft_cpu_product(const ft_part *p, float *out, int ld, const ft_weight *w, int e, int lo, int hi,
                    const ft_inputs *x)
{
    const ft_pack *pack = &p->k->pack[w->type];
    rows_of r = {.at = ft_weight_row(w, e, lo),
                 .step = w->row_bytes,
                 .k = w->k,
                 .cols = FT_COLS,
                 .dot8 = p->k->dot8[w->type],
                 .dotf = p->k->dotf[w->type]};
    int rows = hi - lo;
    if (ft_cpu_splits(p->k, w)) {
        r.cols = FT_SPLIT_COLS;
        r.dot8 = p->k->dot_split[w->type];
    }
    if (w->packed && lo % pack->group == 0 && (hi % pack->group == 0 || hi == w->n)) {
        const int groups = (w->n + pack->group - 1) / pack->group;
        r = (rows_of){.step = pack->bytes(w->k),
                      .k = w->k,
                      .cols = pack->cols,
                      .dot8 = pack->dot,
                      .many = p->k->many[w->type]};
        r.at = (const unsigned char *)w->packed +
               ((size_t)e * (size_t)groups + (size_t)(lo / pack->group)) * r.step;
        rows = (rows + pack->group - 1) / pack->group * pack->group;
    }
    const bool halves = w->type == FT_F16 || w->type == FT_BF16;
    if (!r.dot8 && (!r.dotf || (halves && x->n >= DECODE_ROWS)))
        decoded_product(p, out, ld, w, e, lo, hi, x);
    else
        for (int at = 0; at < x->n;) at += product_cols(p, out, ld, &r, rows, x, at);
}

/* ---- linear ---- */

typedef struct linear_args {
    ft_mat y;
    ft_inputs x;
    ft_weight w;
    bool acc;
} linear_args;

static int strips_of(const ft_weight *w)
{
    return (w->n + STRIP - 1) / STRIP;
}

/* Number of runs into which the rows are cut, so that a product with few outputs has work for every
 * thread. */
static int runs_of(int threads, int strips, int rows)
{
    enum { LEAST = 32 }; /* rows for which it is worth reading the weights */
    const int want = (2 * threads + strips - 1) / strips, most = FT_MAX(1, rows / LEAST);
    return FT_MIN(want, most);
}

/* Whether results go directly into y; else through scratch, for sums, scales and incomplete groups.
 */
static bool straight(const linear_args *a, int strip)
{
    return !a->acc && ft_weight_scale(&a->w, 0) == 1 && (strip + 1) * STRIP <= a->w.n;
}

/* Number of consecutive strips, of the `left` ones, that are computed together. With few rows one
 * call reads the weights once and prepares its columns for all of them; with more, weights are
 * small enough to stay in the L1 cache while rows pass. Kernels for many columns or for split
 * activations divide the weights themselves. */
static int together(const ft_part *p, const linear_args *a, int strip, int left, int rows)
{
    const int near = (int)(NEAR_BYTES / FT_MAX(1, a->w.row_bytes)) / STRIP;
    const int most = straight(a, strip) ? a->w.n / STRIP - strip : SCRATCH_ROWS / rows;
    const bool many = a->w.packed && p->k->many[a->w.type];
    const bool all = rows <= FEW_ROWS || many || ft_cpu_splits(p->k, &a->w);
    return FT_MIN(FT_MIN(left, most), all ? left : FT_MAX(1, near));
}

static void linear_scratch(const ft_part *p, const linear_args *a, int strip, int strips,
                           const ft_inputs *x)
{
    const float scale = ft_weight_scale(&a->w, 0);
    const int o = strip * STRIP, ld = strips * STRIP, n = FT_MIN(ld, a->w.n - o);
    float *out = (float *)(void *)(p->scratch + ft_cpu_product_scratch(p->c, &a->w));
    ft_cpu_product(p, out, ld, &a->w, 0, o, o + n, x);
    for (int t = 0; t < x->n; t++) {
        float *y = ft_mat_head(a->y, x->first + t, 0) + o;
        const float *r = out + (size_t)t * (size_t)ld;
        if (a->acc)
            for (int i = 0; i < n; i++) y[i] += r[i] * scale;
        else
            for (int i = 0; i < n; i++) y[i] = r[i] * scale;
    }
}

/* All strips of a thread process NEAR_ROWS rows before the next rows: those stay in its cache. */
static void linear_job(const ft_part *p, const void *args)
{
    const linear_args *a = args;
    const int T = a->x.n, strips = strips_of(&a->w), runs = runs_of(p->threads, strips, T);
    int lo, hi;
    ft_share(p, strips * runs, 1, &lo, &hi);
    for (int at = 0; at < T; at += NEAR_ROWS)
        for (int i = lo, n; i < hi; i += n) {
            const int strip = i / runs, o = strip * STRIP;
            const int from = FT_MAX(at, T * (i % runs) / runs);
            const int to = FT_MIN(at + NEAR_ROWS, T * (i % runs + 1) / runs);
            const ft_inputs x = {a->x.x, a->x.x8, NULL, from, to - from};
            n = 1;
            if (from >= to) continue;
            if (runs == 1) n = together(p, a, strip, hi - i, to - from);
            if (straight(a, strip))
                ft_cpu_product(p, ft_mat_head(a->y, from, 0) + o, a->y.rs, &a->w, 0, o,
                               o + n * STRIP, &x);
            else
                linear_scratch(p, a, strip, n, &x);
        }
}

/* x in the form that a product with w takes; the quantising job comes first. */
static ft_inputs cols_of(ft_cpu *c, ft_mat x, const ft_weight *w)
{
    ft_inputs r = {.x = x, .n = x.T};
    if (ft_cpu_wants8(c, w)) r.x8 = ft_rows8_of(c, x, w);
    return r;
}

static void reads_cols(ft_cpu *c, const ft_inputs *x, const ft_weight *w)
{
    if (ft_cpu_wants8(c, w))
        ft_job_reads8(c, x->x8);
    else
        ft_job_reads(c, x->x);
}

void ft_cpu_linear(ft_dev *d, ft_mat y, ft_mat x, const ft_weight *w, bool acc)
{
    ft_cpu *c = (ft_cpu *)d;
    assert(x.hs == x.d && y.hs == y.d);
    const linear_args a = {y, cols_of(c, x, w), *w, acc};
    reads_cols(c, &a.x, w);
    if (runs_of(ft_pool_threads(c->pool), strips_of(w), x.T) > 1)
        ft_job_writes(c, y);
    else
        ft_job_writes_part(c, y, ft_partition_cols(y, FT_COL_GRAIN));
    ft_job_thread_scratch(c, ft_cpu_product_scratch(c, w) + SCRATCH_ROWS * STRIP * sizeof(float));
    FT_JOB(c, linear_job, a);
}

/* ---- embed ---- */

typedef struct embed_args {
    ft_mat y;
    ft_weight w;
    float scale;
} embed_args;

static void embed_job(const ft_part *p, const void *args)
{
    const embed_args *a = args;
    const ft_type_info *info = ft_type_of(a->w.type);
    const float scale = a->scale * ft_weight_scale(&a->w, 0);
    const int grain = FT_MAX(256, (int)info->elems), pieces = (a->w.k + grain - 1) / grain;
    int lo, hi;
    ft_share(p, a->y.T * pieces, 1, &lo, &hi);
    for (int i = lo; i < hi; i++) {
        const int t = i / pieces, at = i % pieces * grain, n = FT_MIN(grain, a->w.k - at);
        float *y = ft_mat_head(a->y, t, 0) + at;
        ft_row_decode(a->w.type, y,
                      ft_weight_row(&a->w, 0, ft_token_of(p->b, t)) +
                          ft_type_row(a->w.type, (size_t)at),
                      (size_t)n);
        for (int j = 0; j < n; j++) y[j] *= scale;
    }
}

void ft_cpu_embed(ft_dev *d, ft_mat y, const ft_weight *w, float scale)
{
    ft_cpu *c = (ft_cpu *)d;
    assert(y.hs == y.d);
    const embed_args a = {y, *w, scale};
    ft_job_writes(c, y);
    FT_JOB(c, embed_job, a);
}

/* ---- centroid_head ---- */

typedef struct centroid_args {
    ft_mat y, score;
    ft_inputs x;
    ft_weight w;
    const int32_t *order;
    int top;
} centroid_args;

static void centroid_fill_job(const ft_part *p, const void *args)
{
    const centroid_args *a = args;
    int lo, hi;
    ft_share(p, ft_mat_cols(a->y), 64, &lo, &hi);
    for (int t = 0; t < a->y.T; t++) {
        float *y = ft_mat_head(a->y, t, 0);
        for (int v = lo; v < hi; v++) y[v] = -INFINITY;
    }
}

/* Each thread finds a row's centroids and computes its share of their tokens. */
static void centroid_job(const ft_part *p, const void *args)
{
    const centroid_args *a = args;
    const int n_c = ft_mat_cols(a->score), group = a->w.n / n_c, top = FT_MIN(a->top, n_c);
    const float scale = ft_weight_scale(&a->w, 0);
    int lo, hi;
    ft_share(p, group, 1, &lo, &hi);
    for (int t = 0; t < a->y.T; t++) {
        const int32_t row = t;
        const ft_inputs x = {a->x.x, a->x.x8, &row, 0, 1};
        for (int i = 0, c = -1; i < top; i++) {
            c = ft_next_largest(ft_mat_head(a->score, t, 0), n_c, c);
            for (int j = lo; j < hi; j++) {
                const int id = a->order[(size_t)c * (size_t)group + (size_t)j];
                float r[FT_PACK_ROWS];
                ft_cpu_product(p, r, 1, &a->w, 0, id, id + 1, &x);
                ft_mat_head(a->y, t, 0)[id] = r[0] * scale;
            }
        }
    }
}

void ft_cpu_centroid_head(ft_dev *d, ft_mat y, ft_mat x, ft_mat score, const ft_weight *w,
                          const int32_t *order, int top)
{
    ft_cpu *c = (ft_cpu *)d;
    const centroid_args a = {y, score, cols_of(c, x, w), *w, order, top};
    ft_job_writes(c, y);
    FT_JOB(c, centroid_fill_job, a);
    reads_cols(c, &a.x, w);
    ft_job_reads(c, x); /* single rows of packed weights are decoded */
    ft_job_reads(c, score);
    ft_job_writes(c, y);
    ft_job_thread_scratch(c, ft_cpu_product_scratch(c, w));
    FT_JOB(c, centroid_job, a);
}
