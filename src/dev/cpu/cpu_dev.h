/* dev/cpu/cpu_dev.h - internals of the CPU device. Ops are recorded as jobs: a function, a copy of
 * its arguments, and the memory it reads and writes. commit() hands the whole list to the threads
 * at once; there is a barrier between two jobs only where the second depends on the first.
 *
 * Every thread runs every job and computes its part of it. How the work is divided never changes a
 * result: a sum is always computed by one thread in a fixed order. */
#ifndef FT_DEV_CPU_DEV_H
#define FT_DEV_CPU_DEV_H

#include "base/mem.h"
#include "base/pool.h"
#include "dev/cpu/kern.h"
#include "dev/host.h"

typedef struct ft_cpu ft_cpu;

/* One thread's view of a running job. */
typedef struct ft_part {
    ft_cpu *c;
    const ft_kern *k;
    const ft_batch *b;
    int thread, threads;
    unsigned char *scratch; /* this thread's scratch, of the size that the job requested */
} ft_part;

typedef void ft_job_fn(const ft_part *p, const void *args);

/* How a job divides a matrix among the threads. Two jobs that divide it in the same way need no
 * barrier for it: a thread reads only what it wrote. */
typedef struct ft_partition {
    enum { FT_PARTITION_NONE, FT_PARTITION_COLS, FT_PARTITION_ROWS, FT_PARTITION_HEADS } by;
    int n, grain; /* by columns, rows, or rows times heads, as ft_share computes them */
} ft_partition;

/* The form of activations that a weight needs: bytes with one scale per 32 values, one per 256, or
 * Hadamard-transformed as for TQ weights (quant/turbo_weights.h), with one scale per four values or
 * each row as the sum of two; or two bf16 parts; or f16 with one scale per row. */
typedef enum ft_form8 {
    FT_FORM_PLAIN,
    FT_FORM_WIDE,
    FT_FORM_HADAMARD,
    FT_FORM_TWICE,
    FT_FORM_SPLIT,
    FT_FORM_F16
} ft_form8;

/* Activations as bytes: the matrix they represent, and which of the device's buffers holds them. */
typedef struct ft_rows8 {
    ft_mat x;
    int place;
    ft_form8 form;
    ft_partition cut; /* of the job that computes them */
} ft_rows8;

/* Such a buffer. It is valid until x is written again. */
typedef struct ft_buffer8 {
    ft_mat x;
    bool valid;
    ft_form8 form;
    unsigned used; /* time of last use */
    unsigned char *mem;
    size_t bytes;
} ft_buffer8;

enum { FT_BUFFERS8 = 4, FT_JOB_BYTES = 576, FT_COL_GRAIN = 16 };

/* Memory [lo, hi) that a job accesses; rs: row stride of a matrix that is divided among threads. */
typedef struct ft_access {
    uintptr_t lo, hi;
    bool write;
    ft_partition cut;
    int rs;
} ft_access;

typedef struct ft_cpu_job {
    ft_job_fn *fn;
    bool barrier; /* barrier before it */
    _Alignas(16) unsigned char args[FT_JOB_BYTES];
} ft_cpu_job;

struct ft_cpu {
    ft_dev dev;
    ft_pool *pool;
    ft_kern kern;
    ft_cpu_job *job;
    int n_job, cap_job;
    ft_access *access; /* since the last barrier; those from n_old on belong to the next job */
    int n_access, n_old, cap_access;
    ft_buffer8 place[FT_BUFFERS8];
    unsigned clock;
    unsigned char *shared; /* scratch shared by the threads of one job */
    size_t shared_bytes;
    unsigned char *thread_scratch; /* per thread */
    size_t thread_scratch_bytes;
};

/* ---- recording ---- */

/* Declares what the next job accesses; several calls, then ft_job_add. */
void ft_job_reads(ft_cpu *c, ft_mat m);
void ft_job_writes(ft_cpu *c, ft_mat m);
void ft_job_accesses(ft_cpu *c, const void *p, size_t bytes, bool write);
/* The same for a matrix of which each thread accesses only its part. */
void ft_job_reads_part(ft_cpu *c, ft_mat m, ft_partition cut);
void ft_job_writes_part(ft_cpu *c, ft_mat m, ft_partition cut);
void ft_job_add(ft_cpu *c, ft_job_fn *fn, const void *args, size_t bytes);
#define FT_JOB(c, fn, args) ft_job_add(c, fn, &(args), sizeof(args))

/* Scratch for the next job: shared by all threads, or per thread. Jobs that use shared scratch wait
 * for each other. The addresses are known when the job runs. */
void ft_job_shared_scratch(ft_cpu *c, size_t bytes);
void ft_job_thread_scratch(ft_cpu *c, size_t bytes);

/* x as the bytes that a product with w takes, computed by a separate job unless they are still
 * valid. Call it before the next job declares its accesses; that job then reads them. */
ft_rows8 ft_rows8_of(ft_cpu *c, ft_mat x, const ft_weight *w);
void ft_job_reads8(ft_cpu *c, ft_rows8 r);

/* ---- inside a job ---- */

/* This thread's share [*lo, *hi) of n items, in multiples of `grain`. */
static inline void ft_share(const ft_part *p, int n, int grain, int *lo, int *hi)
{
    const int64_t pieces = (n + grain - 1) / grain;
    const int64_t a = pieces * p->thread / p->threads, b = pieces * (p->thread + 1) / p->threads;
    *lo = (int)FT_MIN(a * grain, n);
    *hi = (int)FT_MIN(b * grain, n);
}

static inline ft_partition ft_partition_cols(ft_mat m, int grain)
{
    return (ft_partition){FT_PARTITION_COLS, ft_mat_cols(m), grain};
}

static inline ft_partition ft_partition_rows(ft_mat m)
{
    return (ft_partition){FT_PARTITION_ROWS, m.T, 1};
}

/* Whole heads: all rows of some heads if there are enough for every thread, else some heads of each
 * row. */
static inline ft_partition ft_partition_heads(const ft_cpu *c, ft_mat m)
{
    if (m.H >= ft_pool_threads(c->pool)) return ft_partition_cols(m, m.d);
    return (ft_partition){FT_PARTITION_HEADS, m.T * m.H, 1};
}

/* Offsets of the scales and sums behind n bytes. */
static inline size_t ft_rows8_d(size_t n)
{
    return ft_round_up(n, FT_HOST_ALIGN);
}

static inline size_t ft_rows8_s(size_t n)
{
    return ft_rows8_d(n) + ft_round_up(n / FT_BLOCK8 * sizeof(float), FT_HOST_ALIGN);
}

static inline size_t ft_rows8_t(size_t n)
{
    return ft_rows8_s(n) + ft_round_up(n / FT_BLOCK8 * FT_SUMS8 * sizeof(float), FT_HOST_ALIGN);
}

/* Bytes of the split rows of k values that are interleaved with each other. */
static inline size_t ft_split_bytes(const ft_kern *k, size_t cols)
{
    return ft_round_up(cols, FT_SPLIT_PAD) * 4 * (size_t)k->split_rows;
}

/* Bytes of a row of k values as scaled f16. The scales follow the rows. */
static inline size_t ft_scaled16_bytes(size_t k)
{
    return ft_round_up(2 * k, FT_SCALED16);
}

static inline ft_col8 ft_col8_at(const ft_part *p, const ft_rows8 *r, int t)
{
    const size_t k = (size_t)ft_mat_cols(r->x), each = r->form == FT_FORM_TWICE ? 2 * k : k;
    const size_t n = each * (size_t)r->x.T, at = each * (size_t)t;
    const unsigned char *mem = p->c->place[r->place].mem;
    if (r->form == FT_FORM_SPLIT)
        return (ft_col8){.q = (const int8_t *)mem +
                              (size_t)(t / p->k->split_rows) * ft_split_bytes(p->k, k) +
                              t % p->k->split_rows * p->k->split_step};
    if (r->form == FT_FORM_F16) {
        const size_t row = ft_scaled16_bytes(k);
        return (ft_col8){.q = (const int8_t *)mem + (size_t)t * row,
                         .d = (const float *)(const void *)(mem + (size_t)r->x.T * row) + t};
    }
    if (r->form == FT_FORM_HADAMARD)
        return (ft_col8){(const int8_t *)mem + at,
                         (const float *)(const void *)(mem + ft_rows8_d(n)) + at / FT_HADAMARD8,
                         NULL, NULL};
    return (ft_col8){(const int8_t *)mem + at,
                     (const float *)(const void *)(mem + ft_rows8_d(n)) + at / FT_BLOCK8,
                     (const float *)(const void *)(mem + ft_rows8_s(n)) + at / FT_BLOCK8 * FT_SUMS8,
                     (const int32_t *)(const void *)(mem + ft_rows8_t(n)) +
                         at / FT_BLOCK8 * FT_STARTS8};
}

/* Rows of activations for a product: as bytes if the weight's kernel needs them, and always as
 * floats. row[i] is the i-th row; NULL: consecutive rows from `first` on. */
typedef struct ft_inputs {
    ft_mat x;
    ft_rows8 x8;
    const int32_t *row;
    int first, n;
} ft_inputs;

/* out[i * ld + o - lo] = W_e[o] . x_i for outputs o in [lo, hi), without the weight's scale. Up to
 * FT_PACK_ROWS - 1 values beyond the last output may be written. */
void ft_cpu_product(const ft_part *p, float *out, int ld, const ft_weight *w, int e, int lo, int hi,
                    const ft_inputs *x);
/* Bytes of per-thread scratch that ft_cpu_product uses, from the start. */
size_t ft_cpu_product_scratch(const ft_cpu *c, const ft_weight *w);
/* Whether a product with w takes split activations. */
static inline bool ft_cpu_splits(const ft_kern *k, const ft_weight *w)
{
    /* a product with few outputs takes less time than splitting its input */
    const bool large = w->n >= 512 && (int64_t)w->n * w->k >= 1 << 18;
    return (w->rounded || (large && k->splits_large[w->type])) && k->dot_split[w->type];
}
bool ft_cpu_wants8(const ft_cpu *c, const ft_weight *w);

/* A query for turbo keys: Hadamard-transformed, then as bytes in planes; scale: one per group.
 * work: scratch as wide as the row. */
void ft_cpu_turbo_query(int8_t *q8, float *scale, float *work, const float *q, ft_turbo t, int d);
/* A sum of turbo values in planes, transformed back to the d values of o. */
void ft_cpu_turbo_back(float *o, float *work, const float *planes, ft_turbo t, int d);

/* ---- the ops ---- */

void ft_cpu_embed(ft_dev *d, ft_mat y, const ft_weight *w, float scale);
void ft_cpu_linear(ft_dev *d, ft_mat y, ft_mat x, const ft_weight *w, bool acc);
void ft_cpu_centroid_head(ft_dev *d, ft_mat y, ft_mat x, ft_mat score, const ft_weight *w,
                          const int32_t *order, int top);
void ft_cpu_route(ft_dev *d, ft_expert_choice r, ft_mat x);
void ft_cpu_expert_linear(ft_dev *d, ft_mat y, ft_mat x, const ft_weight *w, ft_expert_choice r,
                          bool acc);
void ft_cpu_moe(ft_dev *d, ft_mat y, ft_mat x, const ft_experts *e, ft_expert_choice r, ft_mat tmp,
                bool acc);
void ft_cpu_rmsnorm(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, float eps);
void ft_cpu_act_mul(ft_dev *d, ft_mat y, ft_mat g, ft_mat u, ft_act act);
void ft_cpu_sigmoid_mul(ft_dev *d, ft_mat y, ft_mat g);
void ft_cpu_add(ft_dev *d, ft_mat y, ft_mat x, float scale);
void ft_cpu_norm_add(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, float eps, float scale,
                     const ft_norm_out *o, int n);
void ft_cpu_softcap(ft_dev *d, ft_mat y, float c);
void ft_cpu_gather(ft_dev *d, ft_mat y, ft_mat x, int which);
void ft_cpu_argmax(ft_dev *d, int32_t *id, ft_mat x);
void ft_cpu_scatter(ft_dev *d, ft_mat y, ft_mat x);
void ft_cpu_gated_norm(ft_dev *d, ft_mat y, ft_mat o, ft_mat z, ft_vec w, float eps);
void ft_cpu_rope_angles(ft_dev *d, ft_mat cs, const ft_rope *r);
void ft_cpu_norm_rope(ft_dev *d, ft_mat x, ft_vec w, float eps, ft_mat cs);
void ft_cpu_kv_put(ft_dev *d, const ft_kv *kv, ft_mat k, ft_mat v);
void ft_cpu_attend(ft_dev *d, ft_mat o, ft_mat q, const ft_kv *kv, ft_attn p);
void ft_cpu_conv(ft_dev *d, ft_mat y, ft_mat u, ft_vec w, const ft_delta *s);
void ft_cpu_delta_rule(ft_dev *d, ft_mat o, ft_mat y, ft_mat a, ft_mat b, ft_vec A, ft_vec dt,
                       const ft_delta *s);

void ft_cpu_layernorm(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, ft_vec b, float eps);
void ft_cpu_affine(ft_dev *d, ft_mat y, ft_vec b, ft_vec w, ft_act act);
void ft_cpu_clamp(ft_dev *d, ft_mat y, ft_mat x, float lo, float hi);
void ft_cpu_mix(ft_dev *d, ft_mat y, ft_mat x, ft_mixing m, bool acc);
void ft_cpu_image_rows(ft_dev *d, ft_mat y, ft_mat x);

/* A chunk of rows of one value head in the blocked form: rows of q (scaled), k and v, decays g and
 * betas, state Z in and out, o. scratch: ft_delta_chunk_scratch(S) values. */
typedef struct ft_chunk {
    int n, S;
    const float *q, *k; /* [n, S] */
    const float *v;     /* rows v_step apart */
    float *o;           /* rows o_step apart */
    int v_step, o_step;
    const float *g, *beta;
    float *Z;
} ft_chunk;
void ft_delta_chunk(const ft_kern *k, const ft_chunk *c, float *scratch);
size_t ft_delta_chunk_scratch(int S);

#endif
