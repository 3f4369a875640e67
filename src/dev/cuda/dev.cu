/* The cuda device: copies, the way of a batch to the device, scratch. The ops are in the files of
 * their families, memory in memory.cu, weights in weights.cu, steps as graphs in graph.cu. */
#include "dev/cuda/cuda.h"

extern "C" {
#include "base/pool.h"
}

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
    for (int i = 0; i < FT_CUDA_SHADOWS; i++) c->shadow[i].valid = false;
    ft_cuda_check(c, cudaMemcpyAsync(dst, src, bytes, cudaMemcpyHostToDevice, c->stream), "upload");
    ft_cuda_check(c, cudaStreamSynchronize(c->stream), "upload");
}

static void move(ft_dev *d, void *dst, const void *src, size_t bytes)
{
    ft_cuda *c = (ft_cuda *)d;
    ft_cuda_check(c, cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, c->stream), "move");
}

static void download(ft_dev *d, void *dst, const void *src, size_t bytes)
{
    ft_cuda *c = (ft_cuda *)d;
    ft_cuda_check(c, cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToHost, c->stream),
                  "download");
    ft_cuda_check(c, cudaStreamSynchronize(c->stream), "download");
}

void *ft_cuda_scratch(ft_cuda *c, ft_cuda_place which, size_t bytes)
{
    if (bytes <= c->place_bytes[which]) return c->place[which];
    ft_cuda_retire(c, c->place[which]);
    c->place[which] = NULL;
    c->place_bytes[which] = 0;
    const cudaError_t e = cudaMalloc(&c->place[which], bytes);
    ft_cuda_check(c, e, "scratch memory");
    if (e == cudaSuccess) c->place_bytes[which] = bytes;
    return c->place[which];
}

void ft_cuda_alike(ft_cuda *c, const void *kernel)
{
    const void **at = &c->kernel[((uintptr_t)kernel >> 4) * 2654435761u % FT_CUDA_KERNELS];
    if (*at == kernel) return;
    *at = kernel; /* one that was there before is asked for again: it costs little */
    ft_cuda_check(c,
                  cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                       cudaSharedmemCarveoutMaxShared),
                  "shared memory");
}

/* ---- shadows ---- */

static size_t extent(ft_mat m)
{
    if (!m.T) return 0;
    const size_t last = (size_t)(m.T - 1) * (size_t)m.rs + (size_t)(m.H - 1) * (size_t)m.hs;
    return (last + (size_t)m.d) * sizeof(float);
}

void ft_cuda_wrote(ft_cuda *c, ft_mat m)
{
    const char *lo = (const char *)m.p, *hi = lo + extent(m);
    for (int i = 0; i < FT_CUDA_SHADOWS; i++) {
        ft_shadow *s = &c->shadow[i];
        const char *from = (const char *)s->x.p;
        if (s->valid && from < hi && lo < from + extent(s->x)) s->valid = false;
    }
}

uint16_t *ft_cuda_shadow(ft_cuda *c, ft_mat m, bool *found)
{
    int best = 0;
    for (int i = 0; i < FT_CUDA_SHADOWS; i++) {
        ft_shadow *s = &c->shadow[i];
        if (s->valid && s->x.p == m.p && s->x.T == m.T && s->x.rs == m.rs &&
            ft_mat_cols(s->x) == ft_mat_cols(m)) {
            s->used = ++c->clock;
            *found = true;
            return s->p;
        }
        if (s->used < c->shadow[best].used) best = i;
    }
    ft_shadow *s = &c->shadow[best];
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
    s->valid = true;
    s->used = ++c->clock;
    return s->p;
}

uint16_t *ft_cuda_wrote_both(ft_cuda *c, ft_mat m)
{
    bool found;
    ft_cuda_wrote(c, m);
    return ft_mat_cols(m) % 64 ? NULL : ft_cuda_shadow(c, m, &found);
}

/* ---- the batch ---- */

/* The next bytes of what is staged, and where they will lie on the device. */
static void *stage_take(ft_cuda *c, size_t bytes)
{
    void *p = c->stage + c->stage_used;
    c->stage_used += ft_round_up(bytes, 16);
    return p;
}

static const void *on_device(const ft_cuda *c, const void *staged)
{
    return c->there + ((const unsigned char *)staged - c->stage);
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
    cudaFree(c->there);
    c->stages[0] = c->there = NULL;
    c->stage_bytes = 0;
    bytes = ft_round_up(bytes + bytes / 2, 256);
    ft_cuda_check(c, cudaMallocHost((void **)&c->stages[0], FT_CUDA_STAGES * bytes),
                  "pinned memory");
    ft_cuda_check(c, cudaMalloc((void **)&c->there, bytes), "batch memory");
    if (!c->stages[0] || !c->there) return;
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

/* Every row of a span has as many partial results as the last one, whatever a window leaves of
 * them: one for each range of cells up to its end. */
static void stage_reach(ft_cuda *c, const ft_batch *b)
{
    const size_t rows = sizeof(ft_parts) * (size_t)b->T;
    const size_t spans = sizeof(ft_reach) * (size_t)c->shape.S;
    ft_parts *part = (ft_parts *)stage_take(c, rows);
    ft_reach *reach = (ft_reach *)stage_take(c, spans);
    int32_t sum = 0;
    memset(part, 0, rows);
    memset(reach, 0, spans);
    for (int i = 0; i < b->S && b->end; i++) {
        const ft_span *s = &b->span[i];
        const int32_t end = b->end[s->row], last = b->end[s->row + s->n - 1];
        const int32_t n = FT_MAX(1, (last + FT_SHAPE_NEAR - 1) / FT_SHAPE_NEAR);
        reach[i] = ft_reach{s->row, s->n, s->slot, s->past, end, last > end, {sum, n}};
        for (int r = 0; r < s->n; r++, sum += n) part[s->row + r] = ft_parts{sum, n};
    }
    c->parts_now = sum;
    c->crowded = c->parts && sum > c->parts && b->T <= FT_SHAPE_ROWS;
    c->part_of = (const ft_parts *)on_device(c, part);
    c->reach = (const ft_reach *)on_device(c, reach);
}

/* Arrays lie at the same places for the same shape: graphs hold addresses. */
static void stage_batch(ft_cuda *c, const ft_batch *b)
{
    const int pages = b->slots * b->pages_per_seq;
    void *head = stage_take(c, sizeof *b);
    ft_batch *n = &c->batch;
    *n = *b;
    n->S = c->shape.S;
    n->max_past = c->shape.past;
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
    stage_reach(c, b);
    n->draw = (const ft_draw *)stage_bytes(c, b->draw, (size_t)b->T * sizeof *b->draw);
    n->aside = (const uint32_t *)stage_bytes(c, b->aside, (size_t)b->n_aside * sizeof *b->aside);
    memcpy(head, n, sizeof *n);
    c->on = (const ft_batch *)on_device(c, head);
}

static void record(ft_dev *d, const ft_batch *b)
{
    ft_cuda *c = (ft_cuda *)d;
    const size_t i4 = sizeof(int32_t), T = (size_t)b->T;
    const size_t pages = (size_t)b->slots * (size_t)b->pages_per_seq * i4;
    d->batch = b;
    c->planned = NULL;
    c->shape = ft_shape_of(b);
    for (int i = 0; i < FT_CUDA_SHADOWS; i++) c->shadow[i].valid = false;
    const unsigned turn = c->steps++ % FT_CUDA_STAGES;
    ft_cuda_check(c, cudaEventSynchronize(c->staged[turn]), "batch");
    const size_t draws = b->draw ? T * sizeof(ft_draw) : 0, aside = (size_t)b->n_aside * i4;
    stage_grow(c, sizeof(ft_batch) + 2 * pages + (13 * T + (size_t)b->n_out) * i4 + draws + aside +
                      (sizeof(ft_span) + sizeof(ft_reach)) * (T + 1) + 23 * 16);
    if (!c->stage_bytes) return;
    c->stage = c->stages[turn];
    c->stage_used = 0;
    stage_batch(c, b);
    if (c->rehearsing) return;
    ft_cuda_check(
        c, cudaMemcpyAsync(c->there, c->stage, c->stage_used, cudaMemcpyHostToDevice, c->stream),
        "batch");
    ft_cuda_check(c, cudaEventRecord(c->staged[turn], c->stream), "batch");
}

static ft_status sync(ft_dev *d, ft_err *err)
{
    ft_cuda *c = (ft_cuda *)d;
    ft_cuda_check(c, cudaStreamSynchronize(c->stream), "a step");
    if (c->error == cudaSuccess) return FT_OK;
    return ft_fail(err, c->error == cudaErrorMemoryAllocation ? FT_ENOMEM : FT_EIO,
                   "the cuda device failed in %s: %s", c->where, cudaGetErrorString(c->error));
}

/* What was seen on an H200 with driver 580 (docs/bench.md). */
enum {
    GRAPH_BYTES = 100 << 10, /* of a kept step, */
    LAYER_BYTES = 38 << 10,  /* and of each layer in it */
    KERNEL_BYTES = 10 << 20, /* what the driver loads */
};

static size_t shadow_bytes(const ft_dev_limits *l)
{
    const size_t rows = (size_t)l->rows, plain = rows * (size_t)l->k;
    const size_t chosen = rows * (size_t)l->experts * (size_t)l->expert_k;
    return 2 * sizeof(uint16_t) * FT_MAX(plain, chosen) + 128 * rows;
}

/* Rows and ranges that partial results of an attention have room for. */
static int parts_of(const ft_dev_limits *l)
{
    const size_t ranges = ((size_t)l->past + FT_SHAPE_NEAR - 1) / FT_SHAPE_NEAR;
    const size_t each = sizeof(float) * (size_t)l->heads * (size_t)(l->head_d + 2);
    return (int)FT_MIN(FT_SHAPE_ROWS * ranges, FT_CUDA_PART_BYTES / FT_MAX(each, (size_t)1));
}

static uint64_t graph_bytes(const ft_dev_limits *l)
{
    const uint64_t whole = GRAPH_BYTES + (uint64_t)l->layers * LAYER_BYTES;
    return (uint64_t)l->kept * whole + (uint64_t)l->kept_short * (GRAPH_BYTES + LAYER_BYTES);
}

/* Shadows; scratch of experts (their sums and hidden values), of delta nets (3.5 bytes for each
 * value of a row) and attention; graphs; what the driver loads with the kernels. Weights, caches
 * and buffers lose nothing (memory.cu) but the end of their last block. */
static uint64_t step_bytes(ft_dev *d, const ft_dev_limits *l)
{
    (void)d;
    const uint64_t rows = (uint64_t)l->rows, values = (uint64_t)l->heads * (uint64_t)l->head_d;
    const uint64_t experts = rows * (uint64_t)l->experts * (uint64_t)l->expert_k * 6;
    const uint64_t chunks = rows * values * 7 / 2;
    const uint64_t parts =
        (uint64_t)parts_of(l) * (uint64_t)l->heads * (uint64_t)(l->head_d + 2) * sizeof(float);
    return FT_CUDA_SHADOWS * (uint64_t)ft_round_up(shadow_bytes(l), FT_CUDA_BLOCK) + experts +
           chunks + parts + graph_bytes(l) + KERNEL_BYTES + FT_CUDA_BLOCK;
}

/* Other scratch is sized when an op is first called. What weights needed on their way here is not
 * needed any more. */
static ft_status reserve(ft_dev *d, const ft_dev_limits *l, ft_err *err)
{
    ft_cuda *c = (ft_cuda *)d;
    const size_t bytes = shadow_bytes(l);
    stage_grow(c, sizeof(uint32_t) * ft_draw_words(l->vocab)); /* graphs go when it grows later */
    cudaStreamSynchronize(c->stream);
    cudaFree(c->raw);
    c->raw = NULL;
    c->raw_bytes = 0;
    ft_pool_free(c->readers);
    c->readers = NULL;
    ft_cuda_drop_graphs(c);
    c->parts = parts_of(l);
    for (int i = 0; i < FT_CUDA_SHADOWS; i++) {
        ft_shadow *s = &c->shadow[i];
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
    if (sum == 1) *out = sum; /* never, but the reads must count */
}

/* Over memory several times the size of the cache, or less where there is less. */
static double read_rate(ft_dev *d)
{
    ft_cuda *c = (ft_cuda *)d;
    const size_t bytes = (size_t)FT_MIN((uint64_t)2 << 30, ft_cuda_room(d) / 2) / 16 * 16;
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
    cudaStreamSynchronize(c->stream);
    ft_cuda_drop_graphs(c);
    ft_free(c->retired);
    for (int i = 0; i < FT_PLACE_COUNT; i++) cudaFree(c->place[i]);
    for (int i = 0; i < FT_CUDA_SHADOWS; i++) cudaFree(c->shadow[i].p);
    for (int i = 0; i < 2; i++) {
        cudaFreeHost(c->pin[i]);
        if (c->pinned[i]) cudaEventDestroy(c->pinned[i]);
    }
    ft_pool_free(c->readers);
    cudaFree(c->raw);
    cudaFree(c->grid);
    cudaFree(c->there);
    cudaFreeHost(c->stages[0]);
    for (int i = 0; i < FT_CUDA_STAGES; i++)
        if (c->staged[i]) cudaEventDestroy(c->staged[i]);
    ft_cuda_memory_close(c);
    cudaStreamDestroy(c->stream);
    ft_free(c);
}

static const ft_ops ops = {
    ft_cuda_embed,         ft_cuda_rmsnorm,     ft_cuda_linear,      ft_cuda_linears,
    ft_cuda_glu,           ft_cuda_rope_angles, ft_cuda_norm_rope,   ft_cuda_kv_put,
    ft_cuda_attend,        ft_cuda_act_mul,     ft_cuda_sigmoid_mul, ft_cuda_add,
    ft_cuda_norm_add,      ft_cuda_softcap,     ft_cuda_gather,      ft_cuda_argmax,
    ft_cuda_draw,          ft_cuda_scatter,     ft_cuda_conv,        ft_cuda_delta_rule,
    ft_cuda_gated_norm,    ft_cuda_route,       ft_cuda_moe,         ft_cuda_moe_shared,
    ft_cuda_centroid_head, ft_cuda_layernorm,   ft_cuda_affine,      ft_cuda_clamp,
    ft_cuda_mix,           ft_cuda_image_rows,
};

static ft_status no_gpu(ft_err *err, cudaError_t e)
{
    cudaGetLastError();
    return ft_fail(err, FT_EUNSUPPORTED, "no CUDA device: %s", cudaGetErrorString(e));
}

extern "C" ft_status ft_dev_cuda(ft_dev **out, ft_err *err)
{
    int n = 0;
    cudaDeviceProp p;
    cudaError_t e = cudaGetDeviceCount(&n);
    if (e == cudaSuccess && n == 0) e = cudaErrorNoDevice;
    if (e == cudaSuccess) e = cudaSetDevice(0);
    if (e == cudaSuccess) e = cudaGetDeviceProperties(&p, 0);
    if (e != cudaSuccess) return no_gpu(err, e);
    if (p.major * 10 + p.minor < 75)
        return ft_fail(err, FT_EUNSUPPORTED,
                       "CUDA device \"%s\" has compute capability %d.%d, want 7.5 or newer", p.name,
                       p.major, p.minor);
    cudaFuncAttributes code;
    if (cudaFuncGetAttributes(&code, read_kernel) != cudaSuccess) {
        cudaGetLastError();
        return ft_fail(err, FT_EUNSUPPORTED,
                       "CUDA device \"%s\" has compute capability %d.%d, for which this build has "
                       "no code: want one made with it in CUDA_ARCH",
                       p.name, p.major, p.minor);
    }
    ft_cuda *c = ft_new(ft_cuda);
    e = cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking);
    for (int i = 0; i < FT_CUDA_STAGES && e == cudaSuccess; i++)
        e = cudaEventCreateWithFlags(&c->staged[i], cudaEventDisableTiming);
    if (e != cudaSuccess) {
        ft_free(c);
        return no_gpu(err, e);
    }
    ft_cuda_memory_open(c, p.totalGlobalMem);
    c->sms = p.multiProcessorCount;
    c->cc = code.ptxVersion;
    c->smem = p.sharedMemPerBlockOptin;
    snprintf(c->words, sizeof c->words, "cuda: %.100s", p.name);
    ft_dev *d = &c->dev;
    d->op = &ops;
    d->name = "cuda";
    d->replays = true;
    d->chains = true;
    d->no_tail = true;
    d->threads = 1;
    d->alloc = ft_cuda_alloc;
    d->free = ft_cuda_free;
    d->upload = upload;
    d->move = move;
    d->download = download;
    d->bind = ft_cuda_bind;
    d->unbind = ft_cuda_unbind;
    d->reserve = reserve;
    d->weight_bytes = ft_cuda_weight_bytes;
    d->step_bytes = step_bytes;
    d->record = record;
    d->replay = ft_cuda_replay;
    d->commit = ft_cuda_commit;
    d->rehearse = ft_cuda_rehearse;
    d->sync = sync;
    d->room = ft_cuda_room;
    d->read_rate = read_rate;
    d->close = close_dev;
    *out = d;
    return FT_OK;
}
