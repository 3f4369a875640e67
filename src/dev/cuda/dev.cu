/* The CUDA device: copies, upload of the batch, scratch memory. The ops are in the files of their
 * families, memory in memory.cu, weights in product/weights.cu, captured steps in graph.cu. */
#include "dev/cuda/attend/ranges.cuh"
#include "dev/cuda/cuda.h"

#include <stdio.h>
#include <string.h>

void ft_cuda_check(ft_cuda *c, cudaError_t e, const char *where)
{
    if (e == cudaSuccess || c->error != cudaSuccess) return;
    c->error = e;
    c->where = where;
}

/* ---- copies ---- */

static void upload(ft_dev *d, void *dst, const void *src, size_t bytes)
{
    ft_cuda *c = (ft_cuda *)d;
    ft_cuda_enter(d);
    for (int i = 0; i < FT_CUDA_BF16_COPIES; i++) c->bf16[i].valid = false;
    c->planned = NULL; /* it may be a choice of experts */
    ft_cuda_check(c, cudaMemcpyAsync(dst, src, bytes, cudaMemcpyHostToDevice, c->stream), "upload");
    ft_cuda_check(c, cudaStreamSynchronize(c->stream), "upload");
}

static void move(ft_dev *d, void *dst, const void *src, size_t bytes)
{
    ft_cuda *c = (ft_cuda *)d;
    ft_cuda_enter(d);
    ft_cuda_route_now(c);
    c->planned = NULL;
    ft_cuda_check(c, cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, c->stream), "move");
}

static void download(ft_dev *d, void *dst, const void *src, size_t bytes)
{
    ft_cuda *c = (ft_cuda *)d;
    ft_cuda_enter(d);
    ft_cuda_route_now(c);
    ft_cuda_check(c, cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToHost, c->stream),
                  "download");
    ft_cuda_check(c, cudaStreamSynchronize(c->stream), "download");
}

/* A peer copy if the driver has one between the two GPUs; else the driver stages it. Events belong
 * to the GPU on whose stream they are recorded. */
static bool copy_from(ft_dev *d, void *dst, ft_dev *from, const void *src, size_t bytes)
{
    ft_cuda *c = (ft_cuda *)d, *o = (ft_cuda *)from;
    if (from->copy_from != copy_from) return false;
    for (int i = 0; i < FT_CUDA_BF16_COPIES; i++) c->bf16[i].valid = false;
    c->planned = NULL;
    ft_cuda_enter(from);
    ft_cuda_route_now(o);
    ft_cuda_check(o, cudaEventRecord(o->ready, o->stream), "copy to a GPU");
    ft_cuda_enter(d);
    ft_cuda_check(c, cudaStreamWaitEvent(c->stream, o->ready, 0), "copy from a GPU");
    ft_cuda_check(c, cudaMemcpyPeerAsync(dst, c->index, src, o->index, bytes, c->stream),
                  "copy from a GPU");
    ft_cuda_check(c, cudaEventRecord(c->copied, c->stream), "copy from a GPU");
    ft_cuda_enter(from);
    ft_cuda_check(o, cudaStreamWaitEvent(o->stream, c->copied, 0), "copy to a GPU");
    ft_cuda_enter(d);
    return true;
}

static void *host_alloc(ft_dev *d, size_t bytes)
{
    void *p = NULL;
    ft_cuda_enter(d);
    if (cudaMallocHost(&p, bytes) == cudaSuccess) return p;
    cudaGetLastError();
    return NULL;
}

static void host_free(ft_dev *d, void *p)
{
    ft_cuda_enter(d);
    cudaFreeHost(p);
}

void *ft_cuda_scratch(ft_cuda *c, ft_cuda_scratch_id which, size_t bytes)
{
    if (bytes <= c->scratch_bytes[which]) return c->scratch[which];
    ft_cuda_retire(c, c->scratch[which]);
    c->scratch[which] = NULL;
    c->scratch_bytes[which] = 0;
    const cudaError_t e = cudaMalloc(&c->scratch[which], bytes);
    ft_cuda_check(c, e, "scratch memory");
    if (e == cudaSuccess) c->scratch_bytes[which] = bytes;
    return c->scratch[which];
}

void ft_cuda_max_carveout(ft_cuda *c, const void *kernel)
{
    const void **at = &c->kernel[ft_hash_address(kernel, FT_CUDA_KERNEL_BITS)];
    if (*at == kernel) return;
    *at = kernel; /* a hash collision only repeats the call */
    ft_cuda_check(c,
                  cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                       cudaSharedmemCarveoutMaxShared),
                  "shared memory");
}

/* ---- bf16 copies ---- */

void ft_cuda_wrote(ft_cuda *c, ft_mat m)
{
    const char *lo = (const char *)m.p, *hi = lo + ft_mat_extent(m);
    for (int i = 0; i < FT_CUDA_BF16_COPIES; i++) {
        ft_bf16_copy *s = &c->bf16[i];
        const char *from = (const char *)s->x.p;
        if (s->valid && from < hi && lo < from + ft_mat_extent(s->x)) s->valid = false;
    }
}

uint16_t *ft_cuda_bf16_copy(ft_cuda *c, ft_mat m, unsigned kinds, bool *found)
{
    int best = 0;
    for (int i = 0; i < FT_CUDA_BF16_COPIES; i++) {
        ft_bf16_copy *s = &c->bf16[i];
        if (s->valid && s->x.p == m.p && s->x.T == m.T && s->x.rs == m.rs &&
            ft_mat_cols(s->x) == ft_mat_cols(m) && s->kind & kinds) {
            s->used = ++c->clock;
            *found = true;
            return s->p;
        }
        if (s->used < c->bf16[best].used) best = i;
    }
    ft_bf16_copy *s = &c->bf16[best];
    const size_t k = ((size_t)ft_mat_cols(m) + 63) / 64 * 64;
    const size_t bytes = 2 * k * (size_t)m.T * sizeof(uint16_t);
    *found = false;
    if (bytes > s->bytes) {
        ft_cuda_retire(c, s->p);
        s->p = NULL;
        s->bytes = 0;
        ft_cuda_check(c, cudaMalloc((void **)&s->p, bytes), "scratch memory");
        if (!s->p) return NULL;
        s->bytes = bytes;
    }
    s->x = m;
    s->kind = (ft_copy_kind)(kinds & -kinds);
    s->valid = true;
    s->used = ++c->clock;
    return s->p;
}

/* The entry of m in the table of a kind: one of the four after its hash, if any is free. */
static const float **read_place(ft_cuda *c, ft_mat m, ft_copy_kind kind)
{
    const float **table = kind == FT_COPY_SPLIT  ? c->missed_read
                          : kind == FT_COPY_HALF ? c->half_read
                                                 : c->hadamard_read;
    const size_t at = ft_hash_address(m.p, FT_CUDA_READ_BITS);
    for (size_t i = at; i < at + 4; i++) {
        const float **entry = &table[i % FT_CUDA_READ];
        if (!*entry || *entry == m.p) return entry;
    }
    return &table[at];
}

void ft_cuda_reads(ft_cuda *c, ft_mat m, ft_copy_kind kind)
{
    *read_place(c, m, kind) = m.p; /* if it takes the place of another matrix, products make the
                                      copy of that one themselves */
}

uint16_t *ft_cuda_new_copy(ft_cuda *c, ft_mat m, bool *half)
{
    bool found;
    ft_cuda_wrote(c, m);
    *half = *read_place(c, m, FT_COPY_HALF) == m.p;
    return ft_cuda_bf16_copy(c, m, *half ? FT_COPY_HALF : FT_COPY_SPLIT, &found);
}

uint16_t *ft_cuda_wrote_with_bf16(ft_cuda *c, ft_mat m, bool *half)
{
    if (ft_mat_cols(m) % 64 == 0) return ft_cuda_new_copy(c, m, half);
    ft_cuda_wrote(c, m);
    *half = false;
    return NULL;
}

uint16_t *ft_cuda_wrote_with_missed(ft_cuda *c, ft_mat m, bool *half)
{
    if (*read_place(c, m, FT_COPY_SPLIT) == m.p) return ft_cuda_wrote_with_bf16(c, m, half);
    ft_cuda_wrote(c, m);
    *half = false;
    return NULL;
}

uint16_t *ft_cuda_wrote_with_hadamard(ft_cuda *c, ft_mat m)
{
    bool found;
    if (*read_place(c, m, FT_COPY_HADAMARD) != m.p || ft_mat_cols(m) % 64) return NULL;
    return ft_cuda_bf16_copy(c, m, FT_COPY_HADAMARD, &found);
}

void ft_cuda_no_hadamard(ft_cuda *c, const uint16_t *copy)
{
    for (int i = 0; i < FT_CUDA_BF16_COPIES; i++)
        if (c->bf16[i].p == copy) c->bf16[i].valid = false;
}

/* ---- the batch ---- */

/* Reserves the next bytes of the staging buffer. */
static void *stage_take(ft_cuda *c, size_t bytes)
{
    void *p = c->stage + c->stage_used;
    c->stage_used += ft_round_up(bytes, 16);
    return p;
}

static const void *on_device(const ft_cuda *c, const void *staged)
{
    return c->batch_mem + ((const unsigned char *)staged - c->stage);
}

static const void *stage_bytes(ft_cuda *c, const void *src, size_t bytes)
{
    if (!src) return NULL;
    void *to = stage_take(c, bytes);
    if (bytes) memcpy(to, src, bytes);
    return on_device(c, to);
}

static const int32_t *stage(ft_cuda *c, const int32_t *src, int n)
{
    return (const int32_t *)stage_bytes(c, src, (size_t)n * sizeof *src);
}

static void stage_grow(ft_cuda *c, size_t bytes)
{
    if (bytes <= c->stage_bytes) return;
    ft_cuda_drop_graphs(c);
    ft_cuda_check(c, cudaStreamSynchronize(c->stream), "cudaStreamSynchronize");
    cudaFreeHost(c->stages[0]);
    cudaFree(c->batch_mem);
    c->stages[0] = c->batch_mem = NULL;
    c->stage_bytes = 0;
    bytes = ft_round_up(bytes + bytes / 2, 256);
    ft_cuda_check(c, cudaMallocHost((void **)&c->stages[0], FT_CUDA_STAGES * bytes),
                  "pinned memory");
    ft_cuda_check(c, cudaMalloc((void **)&c->batch_mem, bytes), "batch memory");
    if (!c->stages[0] || !c->batch_mem) return;
    for (int i = 1; i < FT_CUDA_STAGES; i++) c->stages[i] = c->stages[0] + (size_t)i * bytes;
    c->stage_bytes = bytes;
}

static const ft_span *stage_spans(ft_cuda *c, const ft_batch *b)
{
    const size_t own = sizeof(ft_span) * (size_t)b->S, all = sizeof(ft_span) * (size_t)c->shape.S;
    unsigned char *at = (unsigned char *)stage_take(c, all);
    if (own) memcpy(at, b->span, own);
    memset(at + own, 0, all - own);
    return (const ft_span *)on_device(c, at);
}

/* Every row of a span has memory for as many partial results as its last row can have in any layer,
 * even if it has fewer ranges of positions, or a sliding window skips some of them. */
static void stage_span_ranges(ft_cuda *c, const ft_batch *b)
{
    const size_t rows = sizeof(ft_attn_parts) * (size_t)b->T;
    const size_t spans = sizeof(ft_span_range) * (size_t)c->shape.S;
    ft_attn_parts *part = (ft_attn_parts *)stage_take(c, rows);
    ft_span_range *range = (ft_span_range *)stage_take(c, spans);
    int32_t sum = 0;
    memset(part, 0, rows);
    memset(range, 0, spans);
    for (int i = 0; i < b->S && b->end; i++) {
        const ft_span *s = &b->span[i];
        const int32_t end = b->end[s->row], last = b->end[s->row + s->n - 1];
        const int32_t n = most_ranges(last);
        range[i] = ft_span_range{s->row, s->n, s->slot, s->start, end, last > end, {sum, n}};
        for (int r = 0; r < s->n; r++, sum += n) part[s->row + r] = ft_attn_parts{sum, n};
    }
    c->parts_now = sum;
    c->parts_overflow = c->parts && sum > c->parts && b->T <= FT_SHAPE_ROWS;
    c->part_of = (const ft_attn_parts *)on_device(c, part);
    c->span_range = (const ft_span_range *)on_device(c, range);
}

/* For one shape the arrays are at fixed addresses, because graphs contain them. */
static void stage_batch(ft_cuda *c, const ft_batch *b)
{
    const int pages = b->slots * b->pages_per_seq;
    void *head = stage_take(c, sizeof *b);
    ft_batch *n = &c->batch;
    *n = *b;
    n->S = c->shape.S;
    n->max_ctx = c->shape.ctx;
    for (int i = 0; i < 2; i++) n->page[i] = stage(c, b->page[i], pages);
    n->token = stage(c, b->token, b->T);
    for (int i = 0; i < 3; i++) n->pos[i] = stage(c, b->pos[i], b->T);
    n->cell = stage(c, b->cell, b->T);
    n->end = stage(c, b->end, b->T);
    n->span_of = stage(c, b->span_of, b->T);
    n->src_row = stage(c, b->src_row, b->T);
    n->dst_row = stage(c, b->dst_row, b->T);
    n->image_row = stage(c, b->image_row, b->T);
    n->ahead = stage(c, b->ahead, b->T);
    n->out_row = stage(c, b->out_row, b->n_out);
    n->span = stage_spans(c, b);
    stage_span_ranges(c, b);
    n->draw = (const ft_draw *)stage_bytes(c, b->draw, (size_t)b->T * sizeof *b->draw);
    n->draw_words = (const uint32_t *)stage_bytes(c, b->draw_words,
                                                  (size_t)b->n_draw_words * sizeof *b->draw_words);
    memcpy(head, n, sizeof *n);
    c->on = (const ft_batch *)on_device(c, head);
}

static void record(ft_dev *d, const ft_batch *b)
{
    ft_cuda *c = (ft_cuda *)d;
    const size_t i4 = sizeof(int32_t), T = (size_t)b->T;
    ft_cuda_enter(d);
    const size_t pages = (size_t)b->slots * (size_t)b->pages_per_seq * i4;
    d->batch = b;
    c->planned = NULL;
    c->unrouted.r.id = NULL;
    c->shape = ft_batch_shape_of(b);
    for (int i = 0; i < FT_CUDA_BF16_COPIES; i++) c->bf16[i].valid = false;
    const unsigned slot = c->steps++ % FT_CUDA_STAGES;
    ft_cuda_check(c, cudaEventSynchronize(c->staged[slot]), "batch");
    const size_t draws = b->draw ? T * sizeof(ft_draw) : 0, aside = (size_t)b->n_draw_words * i4;
    stage_grow(c, sizeof(ft_batch) + 2 * pages + (13 * T + (size_t)b->n_out) * i4 + draws + aside +
                      (sizeof(ft_span) + sizeof(ft_span_range)) * (T + 1) + 23 * 16);
    if (!c->stage_bytes) return;
    c->stage = c->stages[slot];
    c->stage_used = 0;
    stage_batch(c, b);
    if (c->capture_only) return;
    if (!c->timing) ft_cuda_check(c, cudaEventRecord(c->began, c->stream), "batch");
    c->timing = true;
    ft_cuda_check(
        c,
        cudaMemcpyAsync(c->batch_mem, c->stage, c->stage_used, cudaMemcpyHostToDevice, c->stream),
        "batch");
    ft_cuda_check(c, cudaEventRecord(c->staged[slot], c->stream), "batch");
}

static ft_status sync(ft_dev *d, ft_err *err)
{
    ft_cuda *c = (ft_cuda *)d;
    ft_cuda_enter(d);
    ft_cuda_route_now(c);
    if (c->timing) ft_cuda_check(c, cudaEventRecord(c->ended, c->stream), "a step");
    ft_cuda_check(c, cudaStreamSynchronize(c->stream), "a step");
    float ms = 0;
    if (c->timing && cudaEventElapsedTime(&ms, c->began, c->ended) == cudaSuccess)
        d->busy_s += (double)ms * 1e-3;
    c->timing = false;
    if (c->error == cudaSuccess) return FT_OK;
    return ft_fail(err, c->error == cudaErrorMemoryAllocation ? FT_ENOMEM : FT_EIO,
                   "device %s failed in %s: %s", d->name, c->where, cudaGetErrorString(c->error));
}

/* Measured on an H200 with driver 580 (docs/bench.md). */
enum {
    GRAPH_BYTES = 100 << 10, /* of a captured step, */
    LAYER_BYTES = 38 << 10,  /* plus this for each of its layers */
    KERNEL_BYTES = 10 << 20, /* code and data that the driver loads */
    PART_ROWS = 64,
};

static size_t bf16_copy_bytes(const ft_dev_limits *l)
{
    const size_t rows = (size_t)l->rows, plain = rows * (size_t)l->k;
    const size_t chosen = rows * (size_t)l->experts * (size_t)l->expert_k;
    return 2 * sizeof(uint16_t) * FT_MAX(plain, chosen) + 128 * rows;
}

/* Upper bound of the rows times ranges with partial results of attention: PART_ROWS rows of the
 * longest context, or more rows of shorter ones. */
static int parts_of(const ft_dev_limits *l)
{
    const size_t ranges = (size_t)most_ranges(l->ctx);
    const size_t each = sizeof(float) * (size_t)l->heads * (size_t)(l->head_d + FT_CUDA_PART_HEAD);
    return (int)FT_MIN(PART_ROWS * ranges, FT_CUDA_PART_BYTES / FT_MAX(each, (size_t)1));
}

/* Memory for expanded pages of the KV cache in a prompt, and for the sums of all rows between the
 * segments of a longer context. It is not used at the same time as the partial results. */
static size_t expand_bytes(const ft_dev_limits *l)
{
    const size_t values = (size_t)l->heads * (size_t)l->head_d, ctx = (size_t)l->ctx;
    const size_t sums = (size_t)l->rows * (size_t)l->heads * (size_t)(l->head_d + 2);
    if (!l->rows || !ctx || !values) return 0;
    return FT_MIN(ctx * values * 2 * sizeof(uint16_t), (size_t)FT_CUDA_EXPAND_BYTES) +
           sums * sizeof(float);
}

static uint64_t graph_bytes(const ft_dev_limits *l)
{
    const uint64_t whole = GRAPH_BYTES + (uint64_t)l->layers * LAYER_BYTES;
    return (uint64_t)l->graphs * whole + (uint64_t)l->draft_graphs * (GRAPH_BYTES + LAYER_BYTES);
}

/* bf16 copies; scratch of experts (sums and hidden values), of delta nets (3.5 bytes per value of a
 * row) and of attention; graphs; memory that the driver uses for the kernels. Weights, caches and
 * buffers are packed without gaps (memory.cu), except for the end of the last block. */
static uint64_t step_bytes(ft_dev *d, const ft_dev_limits *l)
{
    (void)d;
    const uint64_t rows = (uint64_t)l->rows, values = (uint64_t)l->heads * (uint64_t)l->head_d;
    const uint64_t experts = rows * (uint64_t)l->experts * (uint64_t)l->expert_k * 6;
    const uint64_t chunks = rows * values * 7 / 2;
    const uint64_t heads =
        (uint64_t)l->heads * (uint64_t)(l->head_d + FT_CUDA_PART_HEAD) * sizeof(float);
    const uint64_t parts = FT_MAX((uint64_t)parts_of(l) * heads, l->encoded ? expand_bytes(l) : 0) +
                           (l->recent ? 2 * rows * heads : 0);
    return FT_CUDA_BF16_COPIES * (uint64_t)ft_round_up(bf16_copy_bytes(l), FT_CUDA_BLOCK) +
           experts + chunks + parts + graph_bytes(l) + KERNEL_BYTES + FT_CUDA_BLOCK;
}

/* Other scratch is allocated when an op is first called. Buffers for the upload of weights are
 * freed. */
static ft_status reserve(ft_dev *d, const ft_dev_limits *l, ft_err *err)
{
    ft_cuda *c = (ft_cuda *)d;
    const size_t bytes = bf16_copy_bytes(l);
    ft_cuda_enter(d);
    stage_grow(c,
               sizeof(uint32_t) *
                   ft_draw_words(l->vocab)); /* growing it later would drop the captured graphs */
    cudaStreamSynchronize(c->stream);
    cudaFree(c->raw);
    c->raw = NULL;
    c->raw_bytes = 0;
    ft_cuda_copies_close(c);
    ft_cuda_drop_graphs(c);
    c->parts = parts_of(l);
    c->expand_bytes = expand_bytes(l);
    for (int i = 0; i < FT_CUDA_BF16_COPIES; i++) {
        ft_bf16_copy *s = &c->bf16[i];
        if (bytes <= s->bytes) continue;
        cudaFree(s->p);
        s->p = NULL;
        s->bytes = 0;
        if (cudaMalloc((void **)&s->p, bytes) != cudaSuccess) {
            cudaGetLastError();
            return ft_fail(err, FT_ENOMEM, "no device memory for %d rows of a step: %zu bytes",
                           l->rows, bytes);
        }
        s->bytes = bytes;
    }
    return FT_OK;
}

static __global__ void read_kernel(const uint4 *p, size_t n, uint32_t *out)
{
    uint32_t sum = 0;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += 4 * (size_t)gridDim.x * blockDim.x) {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const size_t at = i + (size_t)k * gridDim.x * blockDim.x;
            if (at < n) sum += p[at].x ^ p[at].y ^ p[at].z ^ p[at].w;
        }
    }
    if (sum == 1) *out = sum; /* never true; keeps the compiler from removing the reads */
}

/* Reads memory several times the size of the L2 cache, or less if less is free. */
static double read_rate(ft_dev *d)
{
    ft_cuda *c = (ft_cuda *)d;
    ft_cuda_enter(d);
    const size_t bytes = (size_t)FT_MIN((uint64_t)2 << 30, ft_cuda_free_bytes(d) / 2) / 16 * 16;
    void *p = bytes ? d->alloc(d, bytes) : NULL;
    cudaEvent_t from, to;
    double best = 0;
    if (!p) return 0;
    cudaEventCreate(&from);
    cudaEventCreate(&to);
    for (int i = 0; i < 6; i++) {
        float ms = 0;
        cudaEventRecord(from, c->stream);
        read_kernel<<<(unsigned)c->sms * 8, 256, 0, c->stream>>>((const uint4 *)p, bytes / 16,
                                                                 (uint32_t *)p);
        cudaEventRecord(to, c->stream);
        ft_cuda_check(c, cudaEventSynchronize(to), "a read of memory");
        if (cudaEventElapsedTime(&ms, from, to) == cudaSuccess && ms > 0)
            best = FT_MAX(best, (double)bytes / (ms * 1e-3));
    }
    cudaEventDestroy(from);
    cudaEventDestroy(to);
    d->free(d, p);
    return best;
}

static void close_dev(ft_dev *d)
{
    ft_cuda *c = (ft_cuda *)d;
    ft_cuda_enter(d);
    cudaStreamSynchronize(c->stream);
    ft_cuda_drop_graphs(c);
    cudaEventDestroy(c->began);
    cudaEventDestroy(c->ended);
    cudaEventDestroy(c->ready);
    cudaEventDestroy(c->copied);
    ft_free(c->retired);
    for (int i = 0; i < FT_SCRATCH_COUNT; i++) cudaFree(c->scratch[i]);
    for (int i = 0; i < FT_CUDA_BF16_COPIES; i++) cudaFree(c->bf16[i].p);
    ft_cuda_copies_close(c);
    cudaFree(c->raw);
    cudaFree(c->grid);
    cudaFree(c->batch_mem);
    cudaFreeHost(c->stages[0]);
    for (int i = 0; i < FT_CUDA_STAGES; i++)
        if (c->staged[i]) cudaEventDestroy(c->staged[i]);
    ft_cuda_memory_close(c);
    cudaStreamDestroy(c->stream);
    ft_free(c);
}

/* C++17 has no designated initialisers: the table is filled by assignment. */
static ft_ops cuda_ops(bool dense)
{
    ft_ops o = {};
    o.embed = ft_cuda_embed;
    o.rmsnorm = ft_cuda_rmsnorm;
    o.linear = ft_cuda_linear;
    o.linears = ft_cuda_linears;
    o.norm_linears = ft_cuda_norm_linears;
    o.glu = ft_cuda_glu;
    o.rope_angles = ft_cuda_rope_angles;
    o.norm_rope = ft_cuda_norm_rope;
    o.kv_put = ft_cuda_kv_put;
    o.put_heads = ft_cuda_put_heads;
    o.attend = ft_cuda_attend;
    o.act_mul = ft_cuda_act_mul;
    o.sigmoid_mul = ft_cuda_sigmoid_mul;
    o.add = ft_cuda_add;
    o.norm_add_both = ft_cuda_norm_add_both;
    o.norm_add = ft_cuda_norm_add;
    o.softcap = ft_cuda_softcap;
    o.gather = ft_cuda_gather;
    o.argmax = ft_cuda_argmax;
    o.draw = ft_cuda_draw;
    o.scatter = ft_cuda_scatter;
    o.conv = ft_cuda_conv;
    o.delta_rule = ft_cuda_delta_rule;
    o.gated_norm = ft_cuda_gated_norm;
    o.route = ft_cuda_route;
    o.moe = ft_cuda_moe;
    o.expert_linear = ft_cuda_expert_linear;
    o.moe_shared = ft_cuda_moe_shared;
    o.centroid_head = ft_cuda_centroid_head;
    o.layernorm = ft_cuda_layernorm;
    o.affine = ft_cuda_affine;
    o.dense = dense ? ft_cuda_dense : NULL;
    o.attend_image = ft_cuda_attend_image;
    o.clamp = ft_cuda_clamp;
    o.mix = ft_cuda_mix;
    o.image_rows = ft_cuda_image_rows;
    return o;
}

static void fill_device(ft_cuda *c)
{
    ft_dev *d = &c->dev;
    c->ops = cuda_ops(c->cc == 90); /* dense needs warpgroup instructions */
    d->op = &c->ops;
    if (c->index)
        snprintf(c->name, sizeof c->name, "cuda:%d", c->index);
    else
        snprintf(c->name, sizeof c->name, "cuda");
    d->name = c->name;
    d->captures = true;
    d->pipelined = true;
    d->threads = 1;
    d->enter = ft_cuda_enter;
    d->copy_from = copy_from;
    d->alloc = ft_cuda_alloc;
    d->free = ft_cuda_free;
    d->upload = upload;
    d->host_alloc = host_alloc;
    d->host_free = host_free;
    d->move = move;
    d->download = download;
    d->copy_list = ft_cuda_copy_list;
    d->save_list = ft_cuda_save_list;
    d->bind = ft_cuda_bind;
    d->unbind = ft_cuda_unbind;
    d->reserve = reserve;
    d->weight_bytes = ft_cuda_weight_bytes;
    d->step_bytes = step_bytes;
    d->record = record;
    d->replay = ft_cuda_replay;
    d->commit = ft_cuda_commit;
    d->capture = ft_cuda_capture;
    d->capture_pass = ft_cuda_capture_pass;
    d->captured = ft_cuda_captured;
    d->sync = sync;
    d->free_bytes = ft_cuda_free_bytes;
    d->read_rate = read_rate;
    d->close = close_dev;
}

static ft_status no_gpu(ft_err *err, cudaError_t e)
{
    cudaGetLastError();
    return ft_fail(err, FT_EUNSUPPORTED, "no CUDA device: %s", cudaGetErrorString(e));
}

extern "C" int ft_dev_cuda_count(void)
{
    int n = 0;
    if (cudaGetDeviceCount(&n) == cudaSuccess) return n;
    cudaGetLastError();
    return 0;
}

/* Copies go from GPU to GPU directly from now on, where that is possible. */
static void enable_peers(int index, int n)
{
    for (int i = 0; i < n; i++) {
        int can = 0;
        if (i != index && cudaDeviceCanAccessPeer(&can, index, i) == cudaSuccess && can)
            cudaDeviceEnablePeerAccess(i, 0);
    }
    cudaGetLastError(); /* already enabled, or not supported */
}

/* Whether the build has code for a GPU, the current one; *code: which. */
static ft_status check_code(const cudaDeviceProp *p, cudaFuncAttributes *code, ft_err *err)
{
    if (p->major * 10 + p->minor < 75)
        return ft_fail(err, FT_EUNSUPPORTED,
                       "CUDA device \"%s\" has compute capability %d.%d, want 7.5 or newer",
                       p->name, p->major, p->minor);
    if (cudaFuncGetAttributes(code, read_kernel) == cudaSuccess) return FT_OK;
    cudaGetLastError();
    return ft_fail(err, FT_EUNSUPPORTED,
                   "CUDA device \"%s\" has compute capability %d.%d, for which this build has no "
                   "code: want one made with it in CUDA_ARCH",
                   p->name, p->major, p->minor);
}

/* "NVIDIA 570.86.15 (CUDA 12.8)"; the version of the kernel module is not visible everywhere. */
static void driver_version(char *to, size_t cap)
{
    char text[32] = "";
    int cuda = 0;
    FILE *f = fopen("/sys/module/nvidia/version", "r");
    if (f && !fgets(text, sizeof text, f)) text[0] = 0;
    if (f) fclose(f);
    text[strcspn(text, "\n")] = 0;
    if (cudaDriverGetVersion(&cuda) != cudaSuccess) cudaGetLastError();
    snprintf(to, cap, "NVIDIA%s%s (CUDA %d.%d)", text[0] ? " " : "", text, cuda / 1000,
             cuda % 1000 / 10);
}

extern "C" bool ft_dev_cuda_info(int index, ft_dev_info *out)
{
    cudaDeviceProp p;
    cudaFuncAttributes code;
    size_t unused = 0, all = 0;
    memset(out, 0, sizeof *out);
    if (index < 0 || index >= ft_dev_cuda_count()) return false;
    if (cudaGetDeviceProperties(&p, index) != cudaSuccess) {
        cudaGetLastError();
        return false;
    }
    out->kind = p.integrated ? "integrated GPU" : "discrete GPU";
    out->bytes = p.totalGlobalMem;
    snprintf(out->name, sizeof out->name, "%.159s", p.name);
    driver_version(out->driver, sizeof out->driver);
    snprintf(out->features, sizeof out->features, "compute capability %d.%d", p.major, p.minor);
    if (cudaSetDevice(index) != cudaSuccess || cudaMemGetInfo(&unused, &all) != cudaSuccess) {
        cudaGetLastError();
        snprintf(out->lacks, sizeof out->lacks, "memory for a context");
    } else if (check_code(&p, &code, NULL)) {
        snprintf(out->lacks, sizeof out->lacks, "code for it, which this build does not have");
    }
    out->free = unused;
    return true;
}

extern "C" ft_status ft_dev_cuda(ft_dev **out, int index, ft_err *err)
{
    int n = 0;
    cudaDeviceProp p;
    cudaError_t e = cudaGetDeviceCount(&n);
    if (e == cudaSuccess && n == 0) e = cudaErrorNoDevice;
    if (e == cudaSuccess && index >= n)
        return ft_fail(err, FT_EUNSUPPORTED, "device \"cuda:%d\", this machine has %d GPU%s", index,
                       n, n == 1 ? "" : "s");
    if (e == cudaSuccess) e = cudaSetDevice(index);
    if (e == cudaSuccess) e = cudaGetDeviceProperties(&p, index);
    if (e != cudaSuccess) return no_gpu(err, e);
    enable_peers(index, n);
    cudaFuncAttributes code;
    const ft_status st = check_code(&p, &code, err);
    if (st) return st;
    ft_cuda *c = ft_new(ft_cuda);
    e = cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking);
    c->index = index;
    for (int i = 0; i < FT_CUDA_STAGES && e == cudaSuccess; i++)
        e = cudaEventCreateWithFlags(&c->staged[i], cudaEventDisableTiming);
    if (e == cudaSuccess) e = cudaEventCreate(&c->began);
    if (e == cudaSuccess) e = cudaEventCreate(&c->ended);
    if (e == cudaSuccess) e = cudaEventCreateWithFlags(&c->ready, cudaEventDisableTiming);
    if (e == cudaSuccess) e = cudaEventCreateWithFlags(&c->copied, cudaEventDisableTiming);
    if (e != cudaSuccess) {
        ft_free(c);
        return no_gpu(err, e);
    }
    ft_cuda_memory_open(c, p.totalGlobalMem);
    c->sms = p.multiProcessorCount;
    c->cc = code.ptxVersion;
    c->smem = p.sharedMemPerBlockOptin;
    fill_device(c);
    *out = &c->dev;
    return FT_OK;
}
