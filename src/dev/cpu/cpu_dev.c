#include "dev/cpu/cpu_dev.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "quant/turbo_weights.h"

#include <string.h>

/* ---- memory accesses of jobs, and barriers ---- */

static void add_access(ft_cpu *c, ft_access t)
{
    if (t.lo == t.hi) return;
    if (c->n_access == c->cap_access) {
        c->cap_access = c->cap_access ? 2 * c->cap_access : 64;
        c->access = ft_realloc(c->access, (size_t)c->cap_access * sizeof *c->access);
    }
    c->access[c->n_access++] = t;
}

void ft_job_accesses(ft_cpu *c, const void *p, size_t bytes, bool write)
{
    if (p)
        add_access(c, (ft_access){.lo = (uintptr_t)p, .hi = (uintptr_t)p + bytes, .write = write});
}

static ft_access access_of(ft_mat m, bool write, ft_partition cut)
{
    return (ft_access){(uintptr_t)m.p, (uintptr_t)m.p + ft_mat_extent(m), write, cut, m.rs};
}

static bool overlap(ft_access a, ft_access b)
{
    return a.lo < b.hi && b.lo < a.hi;
}

void ft_job_reads_part(ft_cpu *c, ft_mat m, ft_partition cut)
{
    add_access(c, access_of(m, false, cut));
}

void ft_job_writes_part(ft_cpu *c, ft_mat m, ft_partition cut)
{
    const ft_access t = access_of(m, true, cut);
    for (int i = 0; i < FT_BUFFERS8; i++) {
        ft_buffer8 *r = &c->place[i];
        if (r->valid && overlap(access_of(r->x, false, cut), t)) r->valid = false;
    }
    add_access(c, t);
}

void ft_job_reads(ft_cpu *c, ft_mat m)
{
    ft_job_reads_part(c, m, (ft_partition){0});
}

void ft_job_writes(ft_cpu *c, ft_mat m)
{
    ft_job_writes_part(c, m, (ft_partition){0});
}

/* true when both divide it among the threads in the same way */
static bool alike(const ft_cpu *c, ft_partition a, ft_partition b)
{
    ft_part p = {.threads = ft_pool_threads(c->pool)};
    if (a.by != b.by || a.by == FT_PARTITION_NONE || a.n != b.n) return false;
    for (; a.grain != b.grain && p.thread < p.threads; p.thread++) {
        int lo, hi, to;
        ft_share(&p, a.n, a.grain, &lo, &hi);
        ft_share(&p, b.n, b.grain, &lo, &to);
        if (hi != to) return false;
    }
    return true;
}

static bool same_parts(const ft_cpu *c, ft_access a, ft_access b)
{
    return a.lo == b.lo && a.hi == b.hi && a.rs == b.rs && alike(c, a.cut, b.cut);
}

/* The accesses [from, n) are those of the new job. true when one of them conflicts with an earlier
 * one. */
static bool clashes(const ft_cpu *c, int from)
{
    for (int i = from; i < c->n_access; i++)
        for (int j = 0; j < from; j++)
            if ((c->access[i].write || c->access[j].write) && overlap(c->access[i], c->access[j]) &&
                !same_parts(c, c->access[i], c->access[j]))
                return true;
    return false;
}

void ft_job_add(ft_cpu *c, ft_job_fn *fn, const void *args, size_t bytes)
{
    assert(bytes <= FT_JOB_BYTES);
    if (c->n_job == c->cap_job) {
        const int cap = c->cap_job ? 2 * c->cap_job : 256;
        ft_cpu_job *more = ft_alloc_aligned((size_t)cap * sizeof *more, FT_HOST_ALIGN);
        if (c->n_job) memcpy(more, c->job, (size_t)c->n_job * sizeof *more);
        ft_free(c->job);
        c->job = more;
        c->cap_job = cap;
    }
    ft_cpu_job *j = &c->job[c->n_job++];
    j->fn = fn;
    memcpy(j->args, args, bytes);
    j->barrier = clashes(c, c->n_old);
    if (j->barrier) { /* only the accesses of the new job remain */
        memmove(c->access, c->access + c->n_old,
                (size_t)(c->n_access - c->n_old) * sizeof *c->access);
        c->n_access -= c->n_old;
    }
    c->n_old = c->n_access;
}

void ft_job_shared_scratch(ft_cpu *c, size_t bytes)
{
    if (bytes > c->shared_bytes) {
        ft_free(c->shared);
        c->shared = ft_alloc_aligned(bytes, FT_HOST_ALIGN);
        c->shared_bytes = bytes;
    }
    ft_job_accesses(c, &c->shared, 1,
                    true); /* represents the scratch, whose address is known later */
}

void ft_job_thread_scratch(ft_cpu *c, size_t bytes)
{
    bytes = ft_round_up(bytes, 2 * FT_HOST_ALIGN);
    if (bytes <= c->thread_scratch_bytes) return;
    ft_free(c->thread_scratch);
    c->thread_scratch = ft_alloc_aligned(bytes * (size_t)ft_pool_threads(c->pool), FT_HOST_ALIGN);
    c->thread_scratch_bytes = bytes;
}

/* ---- activations as bytes ---- */

/* Columns [lo, hi) of a row, Hadamard-transformed. */
static void quantise_hadamard(ft_col8 to, const float *x, int lo, int hi)
{
    for (int at = lo; at < hi; at += FT_BLOCK8) {
        float v[FT_BLOCK8];
        ft_tq_hadamard(v, x + at, FT_BLOCK8);
        for (int i = 0; i < FT_BLOCK8; i += FT_HADAMARD8) {
            float top = 0;
            for (int j = i; j < i + FT_HADAMARD8; j++) top = FT_MAX(top, fabsf(v[j]));
            const float by = top > 0 ? 127 / top : 0;
            int8_t *q = (int8_t *)to.q + at;
            for (int j = i; j < i + FT_HADAMARD8; j++) q[j] = (int8_t)rintf(v[j] * by);
            ((float *)to.d)[(at + i) / FT_HADAMARD8] = top / 127;
        }
    }
}

/* The same, as the sum of two rows of bytes. */
static void quantise_twice(const ft_kern *kern, ft_col8 to, const float *x, int lo, int hi, int k)
{
    const ft_col8 rest = ft_col8_rest(to, k);
    for (int at = lo; at < hi; at += FT_BLOCK8) {
        float v[FT_BLOCK8];
        ft_tq_hadamard(v, x + at, FT_BLOCK8);
        kern->quantise(to, v, at, at + FT_BLOCK8, k);
        for (int i = 0; i < FT_BLOCK8; i++) v[i] -= to.d[at / FT_BLOCK8] * (float)to.q[at + i];
        kern->quantise(rest, v, at, at + FT_BLOCK8, k);
    }
}

/* Columns [lo, hi) of row t. */
static void quantise_row(const ft_part *p, const ft_rows8 *r, int t, int lo, int hi)
{
    const ft_col8 to = ft_col8_at(p, r, t);
    const float *x = ft_mat_head(r->x, t, 0) + lo;
    const int n = hi - lo;
    if (r->form == FT_FORM_SPLIT) {
        p->k->split((unsigned char *)to.q + (size_t)lo * 4 * (size_t)p->k->split_rows, x, n);
        return;
    }
    if (r->form == FT_FORM_F16) {
        p->k->to_scaled_f16((unsigned char *)to.q, (float *)to.d, x, n);
        return;
    }
    if (r->form == FT_FORM_HADAMARD)
        quantise_hadamard(to, ft_mat_head(r->x, t, 0), lo, hi);
    else if (r->form == FT_FORM_TWICE)
        quantise_twice(p->k, to, ft_mat_head(r->x, t, 0), lo, hi, ft_mat_cols(r->x));
    else if (r->form == FT_FORM_WIDE)
        p->k->quantise_wide(to, x, lo, hi);
    else
        p->k->quantise(to, x, lo, hi, ft_mat_cols(r->x));
}

static void quantise_job(const ft_part *p, const void *args)
{
    const ft_rows8 *r = args;
    const int cols = ft_mat_cols(r->x), d = r->x.d;
    int lo, hi;
    ft_share(p, r->cut.n, r->cut.grain, &lo, &hi);
    if (r->cut.by == FT_PARTITION_COLS)
        for (int t = 0; t < r->x.T; t++) quantise_row(p, r, t, lo, hi);
    else if (r->cut.by == FT_PARTITION_ROWS)
        for (int t = lo; t < hi; t++) quantise_row(p, r, t, 0, cols);
    else
        for (int i = lo; i < hi; i++)
            quantise_row(p, r, i / r->x.H, i % r->x.H * d, (i % r->x.H + 1) * d);
}

/* How to divide the work: like the job that wrote x, if no thread's part of it ends inside a block;
 * else by rows if there are enough of them, else by columns. Only by rows if a row has one scale.
 */
static ft_partition quantise_cut(const ft_cpu *c, ft_mat x, ft_form8 form)
{
    const int block = form == FT_FORM_WIDE ? FT_WIDE8 : FT_BLOCK8;
    const ft_access of = access_of(x, false, (ft_partition){0});
    const ft_partition rows = ft_partition_rows(x), cols = ft_partition_cols(x, block);
    if (form == FT_FORM_F16) return rows;
    for (int i = c->n_access - 1; i >= 0; i--) {
        const ft_access *t = &c->access[i];
        if (!t->write || !overlap(*t, of)) continue;
        if (t->lo != of.lo || t->hi != of.hi || t->rs != of.rs) break;
        if (alike(c, t->cut, rows)) return rows;
        if (alike(c, t->cut, cols)) return cols;
        if (t->cut.by == FT_PARTITION_HEADS && x.d % block == 0 && t->cut.n == x.T * x.H)
            return t->cut;
        break;
    }
    return x.T >= ft_pool_threads(c->pool) ? rows : cols;
}

void ft_job_reads8(ft_cpu *c, ft_rows8 r)
{
    ft_job_accesses(c, &c->place[r.place], 1, false);
}

/* Memory for n activations as bytes, with their scales and sums. */
static size_t bytes8(size_t n)
{
    return ft_rows8_t(n) + n / FT_BLOCK8 * FT_STARTS8 * sizeof(int32_t);
}

static size_t form_bytes(const ft_kern *kern, ft_form8 form, size_t T, size_t k)
{
    if (form == FT_FORM_SPLIT)
        return ft_round_up(T, (size_t)kern->split_rows) / (size_t)kern->split_rows *
               ft_split_bytes(kern, k);
    if (form == FT_FORM_F16) return T * (ft_scaled16_bytes(k) + sizeof(float));
    return bytes8(form == FT_FORM_TWICE ? 2 * T * k : T * k);
}

static ft_form8 form_of(const ft_kern *k, const ft_weight *w)
{
    if (ft_tq_is(w->type)) return w->packed ? FT_FORM_TWICE : FT_FORM_HADAMARD;
    if (ft_cpu_splits(k, w)) return FT_FORM_SPLIT;
    if (w->type == FT_F16) return FT_FORM_F16;
    return w->packed && k->pack[w->type].wide ? FT_FORM_WIDE : FT_FORM_PLAIN;
}

static void place_grow(ft_buffer8 *to, size_t bytes)
{
    if (bytes <= to->bytes) return;
    ft_free(to->mem);
    to->mem = ft_alloc_aligned(bytes, FT_HOST_ALIGN);
    to->bytes = bytes;
}

ft_rows8 ft_rows8_of(ft_cpu *c, ft_mat x, const ft_weight *w)
{
    const ft_form8 form = form_of(&c->kern, w);
    int best = 0;
    for (int i = 0; i < FT_BUFFERS8; i++) {
        ft_buffer8 *r = &c->place[i];
        if (r->valid && r->form == form && r->x.p == x.p && r->x.T == x.T && r->x.rs == x.rs &&
            ft_mat_cols(r->x) == ft_mat_cols(x)) {
            r->used = ++c->clock;
            return (ft_rows8){.x = x, .place = i, .form = form};
        }
        if (r->used < c->place[best].used) best = i;
    }
    ft_buffer8 *to = &c->place[best];
    place_grow(to, form_bytes(&c->kern, form, (size_t)x.T, (size_t)ft_mat_cols(x)));
    to->x = x;
    to->valid = true;
    to->form = form;
    to->used = ++c->clock;
    const ft_rows8 r = {x, best, form, quantise_cut(c, x, form)};
    ft_job_reads_part(c, x, r.cut);
    ft_job_accesses(c, to, 1, true);
    FT_JOB(c, quantise_job, r);
    return r;
}

/* ---- the device ---- */

static void run_jobs(void *arg, int thread, int threads)
{
    ft_cpu *c = arg;
    const ft_part p = {
        c,      &c->kern, c->dev.batch,
        thread, threads,  c->thread_scratch + (size_t)thread * c->thread_scratch_bytes};
    /* The decay of a delta net makes subnormal products in every step. */
    const unsigned mode = ft_flush_subnormals();
    for (int i = 0; i < c->n_job; i++) {
        if (c->job[i].barrier) ft_pool_barrier(c->pool);
        c->job[i].fn(&p, c->job[i].args);
    }
    ft_restore_float_mode(mode);
}

static void record(ft_dev *d, const ft_batch *b)
{
    ft_cpu *c = (ft_cpu *)d;
    d->batch = b;
    c->n_job = c->n_access = c->n_old = 0;
    for (int i = 0; i < FT_BUFFERS8; i++) c->place[i].valid = false;
}

static void commit(ft_dev *d)
{
    ft_cpu *c = (ft_cpu *)d;
    if (c->n_job) ft_pool_run(c->pool, run_jobs, c);
    if (!d->keep_ops)
        c->n_job = c->n_access = c->n_old = 0; /* a probe commits in the middle of a step */
}

static ft_status sync(ft_dev *d, ft_err *err)
{
    (void)d, (void)err;
    return FT_OK;
}

typedef struct pack_args {
    const ft_pack *pack;
    ft_weight *w;
    size_t bytes, groups; /* bytes of a group, of a matrix */
} pack_args;

static void pack_group(void *arg, size_t i)
{
    const pack_args *a = arg;
    const ft_weight *w = a->w;
    const size_t group = (size_t)a->pack->group, row = i % a->groups * group;
    const size_t n = FT_MIN(group, (size_t)w->n - row);
    const unsigned char *from =
        (const unsigned char *)w->data + (i / a->groups * (size_t)w->n + row) * w->row_bytes;
    unsigned char *full = n < group ? ft_alloc(group * w->row_bytes) : NULL;
    if (full) from = memcpy(full, from, n * w->row_bytes);
    a->pack->rows((unsigned char *)w->packed + i * a->bytes, from, w->row_bytes, w->k);
    ft_free(full);
}

/* The mapped file stays as it is; products read a repacked copy if the kernel has a packed layout.
 */
static ft_status bind(ft_dev *d, ft_weight *w, const void *host, ft_err *err)
{
    ft_cpu *c = (ft_cpu *)d;
    const ft_pack *pack = &c->kern.pack[w->type];
    ft_host_bind(d, w, host, err);
    w->packed = NULL;
    if (!pack->dot || w->lookup) return FT_OK;
    const size_t group = (size_t)pack->group;
    const pack_args a = {pack, w, pack->bytes(w->k), ((size_t)w->n + group - 1) / group};
    const size_t groups = a.groups * (size_t)w->E;
    w->packed = ft_host_alloc(d, groups * a.bytes);
    if (!w->packed)
        return ft_fail(err, FT_ENOMEM, "no memory for the packed copy of \"%s\" (%zu bytes wanted)",
                       w->name ? w->name : "?", groups * a.bytes);
    ft_want_large_pages(w->packed, groups * a.bytes);
    ft_pool_each(c->pool, groups, pack_group, (void *)&a);
    return FT_OK;
}

static void unbind(ft_dev *d, ft_weight *w)
{
    ft_host_free(d, w->packed);
    w->packed = NULL;
    w->data = NULL;
}

/* Scratch is sized when a job is recorded: it grows in the first steps and is reused later. */
static ft_status reserve(ft_dev *d, const ft_dev_limits *l, ft_err *err)
{
    ft_cpu *c = (ft_cpu *)d;
    (void)err;
    const size_t rows = (size_t)l->rows, plain = rows * (size_t)l->k;
    const size_t chosen = rows * (size_t)l->experts * (size_t)l->expert_k;
    for (int i = 0; i < FT_BUFFERS8; i++) place_grow(&c->place[i], bytes8(FT_MAX(plain, chosen)));
    return FT_OK;
}

static void spin(void *arg, int thread, int threads)
{
    const ft_cpu *c = arg;
    (void)thread, (void)threads;
    c->kern.spin(200000);
}

static double arithmetic(ft_dev *d)
{
    ft_cpu *c = (ft_cpu *)d;
    double best = 0;
    for (int i = 0; i < 5; i++) {
        const int64_t start = ft_now_ns();
        ft_pool_run(c->pool, spin, c);
        const double s = (double)(ft_now_ns() - start) * 1e-9;
        best = fmax(best, c->kern.spin(0) * 200000 * ft_pool_threads(c->pool) / s);
    }
    return best;
}

static void close(ft_dev *d)
{
    ft_cpu *c = (ft_cpu *)d;
    ft_pool_free(c->pool);
    for (int i = 0; i < FT_BUFFERS8; i++) ft_free(c->place[i].mem);
    ft_free(c->job);
    ft_free(c->access);
    ft_free(c->shared);
    ft_free(c->thread_scratch);
    ft_free(c);
}

static const ft_ops ops = {
    .embed = ft_cpu_embed,
    .rmsnorm = ft_cpu_rmsnorm,
    .linear = ft_cpu_linear,
    .linears = ft_host_linears,
    .glu = ft_host_glu,
    .rope_angles = ft_cpu_rope_angles,
    .norm_rope = ft_cpu_norm_rope,
    .kv_put = ft_cpu_kv_put,
    .attend = ft_cpu_attend,
    .act_mul = ft_cpu_act_mul,
    .sigmoid_mul = ft_cpu_sigmoid_mul,
    .add = ft_cpu_add,
    .norm_add = ft_cpu_norm_add,
    .softcap = ft_cpu_softcap,
    .gather = ft_cpu_gather,
    .argmax = ft_cpu_argmax,
    .scatter = ft_cpu_scatter,
    .conv = ft_cpu_conv,
    .delta_rule = ft_cpu_delta_rule,
    .gated_norm = ft_cpu_gated_norm,
    .route = ft_cpu_route,
    .moe = ft_cpu_moe,
    .expert_linear = ft_cpu_expert_linear,
    .centroid_head = ft_cpu_centroid_head,
    .layernorm = ft_cpu_layernorm,
    .affine = ft_cpu_affine,
    .clamp = ft_cpu_clamp,
    .mix = ft_cpu_mix,
    .image_rows = ft_cpu_image_rows,
};

ft_dev *ft_dev_cpu(int threads)
{
    ft_cpu *c = ft_new(ft_cpu);
    c->pool = ft_pool_new(threads, 1);
    ft_kern_init(&c->kern, ft_cpu_isa());
    c->dev = (ft_dev){
        .op = &ops,
        .name = "cpu",
        .cpu = true,
        .unified = true,
        .threads = ft_pool_threads(c->pool),
        .alloc = ft_host_alloc,
        .free = ft_host_free,
        .upload = ft_host_copy,
        .download = ft_host_copy,
        .move = ft_host_copy,
        .bind = bind,
        .unbind = unbind,
        .reserve = reserve,
        .weight_bytes = ft_host_weight_bytes,
        .step_bytes = ft_host_step_bytes,
        .record = record,
        .replay = ft_host_replay,
        .commit = commit,
        .sync = sync,
        .free_bytes = ft_host_free_bytes,
        .read_rate = ft_host_read_rate,
        .arithmetic = arithmetic,
        .close = close,
    };
    return &c->dev;
}
