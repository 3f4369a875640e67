/* The cuda device: memory, the way of a batch to the device, steps as graphs. The ops are in the
 * files of their families, weights in weights.cu. */
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

/* ---- memory ---- */

static void drop_graphs(ft_cuda *c)
{
    for (int i = 0; i < c->n_graph; i++)
        if (c->graph[i].exec) cudaGraphExecDestroy(c->graph[i].exec);
    c->n_graph = 0;
}

static void *cuda_alloc(ft_dev *d, size_t bytes)
{
    ft_cuda *c = (ft_cuda *)d;
    void *p = NULL;
    if (cudaMalloc(&p, bytes ? bytes : 1) != cudaSuccess) {
        cudaGetLastError(); /* being out of memory is the caller's to say, and no fault */
        return NULL;
    }
    ft_cuda_check(c, cudaMemsetAsync(p, 0, bytes, c->stream), "cudaMemset");
    return p;
}

static void cuda_free(ft_dev *d, void *p)
{
    ft_cuda *c = (ft_cuda *)d;
    if (!p) return;
    for (int i = 0; i < FT_CUDA_SHADOWS; i++) c->shadow[i].valid = false;
    drop_graphs(c); /* a graph may hold the address */
    ft_cuda_check(c, cudaStreamSynchronize(c->stream), "cudaStreamSynchronize");
    cudaFree(p);
}

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
    assert(!c->capturing); /* the step before this one had the same shapes */
    drop_graphs(c);
    ft_cuda_check(c, cudaStreamSynchronize(c->stream), "cudaStreamSynchronize");
    cudaFree(c->place[which]);
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
        assert(!c->capturing);
        drop_graphs(c);
        ft_cuda_check(c, cudaStreamSynchronize(c->stream), "cudaStreamSynchronize");
        cudaFree(s->p);
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

/* n values of src behind what is staged; returns where they will lie on the device. */
static const void *stage(ft_cuda *c, const void *src, size_t bytes)
{
    const size_t at = c->stage_used;
    c->stage_used += ft_round_up(bytes, 16);
    if (src && bytes) memcpy(c->stage + at, src, bytes);
    return src ? c->there + at : NULL;
}

static void stage_grow(ft_cuda *c, size_t bytes)
{
    if (bytes <= c->stage_bytes) return;
    drop_graphs(c);
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

/* Cells that a launch is sized for: the same for a range of pasts, so that graphs are reused. */
static int past_bucket(int past)
{
    int b = 256;
    while (b < past) b *= 2;
    return b;
}

/* Arrays are laid out for the same T, S and tables at the same places: graphs hold addresses. */
static void record(ft_dev *d, const ft_batch *b)
{
    ft_cuda *c = (ft_cuda *)d;
    const size_t i4 = sizeof(int32_t), T = (size_t)b->T, out = (size_t)b->n_out;
    const size_t pages = (size_t)b->slots * (size_t)b->pages_per_seq * i4;
    d->batch = b;
    c->planned = NULL;
    for (int i = 0; i < FT_CUDA_SHADOWS; i++) c->shadow[i].valid = false;
    const unsigned turn = c->steps++ % FT_CUDA_STAGES;
    ft_cuda_check(c, cudaEventSynchronize(c->staged[turn]), "batch");
    const size_t draws = b->draw ? T * sizeof(ft_draw) : 0, aside = (size_t)b->n_aside * i4;
    stage_grow(c, sizeof(ft_batch) + 2 * pages + (9 * T + out) * i4 + sizeof(ft_span) * (T + 1) +
                      draws + aside + 18 * 16);
    if (!c->stage_bytes) return;
    c->stage = c->stages[turn];
    c->stage_used = sizeof(ft_batch) + 16 - sizeof(ft_batch) % 16;
    ft_batch *n = &c->batch;
    *n = *b;
    n->max_past = past_bucket(b->max_past);
    n->page[0] = (const int32_t *)stage(c, b->page[0], pages);
    n->page[1] = (const int32_t *)stage(c, b->page[1], pages);
    n->token = (const int32_t *)stage(c, b->token, T * i4);
    for (int i = 0; i < 3; i++) n->pos[i] = (const int32_t *)stage(c, b->pos[i], T * i4);
    n->cell = (const int32_t *)stage(c, b->cell, T * i4);
    n->end = (const int32_t *)stage(c, b->end, T * i4);
    n->span_of = (const int32_t *)stage(c, b->span_of, T * i4);
    n->src_row = (const int32_t *)stage(c, b->src_row, T * i4);
    n->dst_row = (const int32_t *)stage(c, b->dst_row, T * i4);
    n->out_row = (const int32_t *)stage(c, b->out_row, out * i4);
    n->span = (const ft_span *)stage(c, b->span, sizeof(ft_span) * (size_t)b->S);
    n->draw = (const ft_draw *)stage(c, b->draw, draws);
    n->aside = (const uint32_t *)stage(c, b->aside, aside);
    memcpy(c->stage, n, sizeof *n);
    c->on = (const ft_batch *)c->there;
    ft_cuda_check(
        c, cudaMemcpyAsync(c->there, c->stage, c->stage_used, cudaMemcpyHostToDevice, c->stream),
        "batch");
    ft_cuda_check(c, cudaEventRecord(c->staged[turn], c->stream), "batch");
}

/* ---- steps as graphs ---- */

enum { GRAPH_ROWS = 64 }; /* longer steps are worth their launches */

/* A place for one more; the one that was not wanted for longest goes if need be. */
static ft_cuda_graph *graph_place(ft_cuda *c)
{
    if (c->n_graph < FT_CUDA_GRAPHS) return &c->graph[c->n_graph++];
    ft_cuda_graph *old = c->graph;
    for (int i = 1; i < FT_CUDA_GRAPHS; i++)
        if (c->graph[i].used < old->used) old = &c->graph[i];
    if (old->exec) {
        ft_cuda_check(c, cudaStreamSynchronize(c->stream), "cudaStreamSynchronize");
        cudaGraphExecDestroy(old->exec);
    }
    return old;
}

static ft_cuda_graph *graph_of(ft_cuda *c, const void *pass)
{
    const ft_batch *b = &c->batch;
    for (int i = 0; i < c->n_graph; i++) {
        ft_cuda_graph *g = &c->graph[i];
        if (g->pass == pass && g->T == b->T && g->S == b->S && g->n_out == b->n_out &&
            g->max_past == b->max_past) {
            g->used = ++c->turn;
            return g;
        }
    }
    ft_cuda_graph *g = graph_place(c);
    memset(g, 0, sizeof *g);
    g->used = ++c->turn;
    g->pass = pass;
    g->T = b->T;
    g->S = b->S;
    g->n_out = b->n_out;
    g->max_past = b->max_past;
    return g;
}

/* The first step of a shape runs as it is and settles the scratch; the second is captured. */
static bool replay(ft_dev *d, const void *pass)
{
    ft_cuda *c = (ft_cuda *)d;
    d->fresh = false;
    if (c->error != cudaSuccess || c->batch.T > GRAPH_ROWS) return false;
    ft_cuda_graph *g = graph_of(c, pass);
    d->fresh = !g->exec;
    if (g->exec) {
        ft_cuda_check(c, cudaGraphLaunch(g->exec, c->stream), "cudaGraphLaunch");
        return true;
    }
    if (g->seen++ == 0) return false;
    ft_cuda_check(c, cudaStreamBeginCapture(c->stream, cudaStreamCaptureModeThreadLocal),
                  "cudaStreamBeginCapture");
    c->capturing = g;
    return false;
}

static void commit(ft_dev *d)
{
    ft_cuda *c = (ft_cuda *)d;
    ft_cuda_graph *g = c->capturing;
    if (!g) return;
    cudaGraph_t graph = NULL;
    c->capturing = NULL;
    ft_cuda_check(c, cudaStreamEndCapture(c->stream, &graph), "cudaStreamEndCapture");
    if (!graph) return;
    ft_cuda_check(c, cudaGraphInstantiate(&g->exec, graph, 0), "cudaGraphInstantiate");
    cudaGraphDestroy(graph);
    if (g->exec) ft_cuda_check(c, cudaGraphLaunch(g->exec, c->stream), "cudaGraphLaunch");
}

static ft_status sync(ft_dev *d, ft_err *err)
{
    ft_cuda *c = (ft_cuda *)d;
    ft_cuda_check(c, cudaStreamSynchronize(c->stream), "a step");
    if (c->error == cudaSuccess) return FT_OK;
    return ft_fail(err, c->error == cudaErrorMemoryAllocation ? FT_ENOMEM : FT_EIO,
                   "the cuda device failed in %s: %s", c->where, cudaGetErrorString(c->error));
}

static size_t shadow_bytes(const ft_dev_limits *l)
{
    const size_t rows = (size_t)l->rows, plain = rows * (size_t)l->k;
    const size_t chosen = rows * (size_t)l->experts * (size_t)l->expert_k;
    return 2 * sizeof(uint16_t) * FT_MAX(plain, chosen) + 128 * rows;
}

/* Shadows; scratch of experts (their sums and hidden values), of attention and delta nets; graphs,
 * and what the driver loads with the kernels. */
static uint64_t step_bytes(ft_dev *d, const ft_dev_limits *l)
{
    (void)d;
    const uint64_t rows = (uint64_t)l->rows;
    const uint64_t experts = rows * (uint64_t)l->experts * (uint64_t)l->expert_k * 8;
    const uint64_t chunks = rows * (uint64_t)l->heads * (uint64_t)l->head_d * 8;
    return FT_CUDA_SHADOWS * (uint64_t)shadow_bytes(l) + experts + chunks + ((uint64_t)96 << 20);
}

/* Scratch is sized when an op is first called: the first step of a shape is never captured. What
 * weights needed on their way here is not needed any more. */
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

static uint64_t room(ft_dev *d)
{
    (void)d;
    size_t free_bytes = 0, all = 0;
    return cudaMemGetInfo(&free_bytes, &all) == cudaSuccess ? free_bytes : 0;
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
    const size_t bytes = (size_t)FT_MIN((uint64_t)2 << 30, room(d) / 2) / 16 * 16;
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
    drop_graphs(c);
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
    cudaStreamDestroy(c->stream);
    ft_free(c);
}

static const ft_ops ops = {
    ft_cuda_embed,   ft_cuda_rmsnorm,       ft_cuda_linear,      ft_cuda_linears,
    ft_cuda_glu,     ft_cuda_rope_angles,   ft_cuda_norm_rope,   ft_cuda_kv_put,
    ft_cuda_attend,  ft_cuda_act_mul,       ft_cuda_sigmoid_mul, ft_cuda_add,
    ft_cuda_softcap, ft_cuda_gather,        ft_cuda_argmax,      ft_cuda_draw,
    ft_cuda_scatter,
    ft_cuda_conv,    ft_cuda_delta_rule,    ft_cuda_gated_norm,  ft_cuda_route,
    ft_cuda_moe,     ft_cuda_moe_shared,    ft_cuda_centroid_head,
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
    ft_cuda *c = ft_new(ft_cuda);
    e = cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking);
    for (int i = 0; i < FT_CUDA_STAGES && e == cudaSuccess; i++)
        e = cudaEventCreateWithFlags(&c->staged[i], cudaEventDisableTiming);
    if (e != cudaSuccess) {
        ft_free(c);
        return no_gpu(err, e);
    }
    c->sms = p.multiProcessorCount;
    c->cc = p.major * 10 + p.minor;
    c->smem = p.sharedMemPerBlockOptin;
    snprintf(c->words, sizeof c->words, "cuda: %.100s", p.name);
    ft_dev *d = &c->dev;
    d->op = &ops;
    d->name = "cuda";
    d->replays = true;
    d->chains = true;
    d->no_tail = true;
    d->threads = 1;
    d->alloc = cuda_alloc;
    d->free = cuda_free;
    d->upload = upload;
    d->move = move;
    d->download = download;
    d->bind = ft_cuda_bind;
    d->unbind = ft_cuda_unbind;
    d->reserve = reserve;
    d->weight_bytes = ft_cuda_weight_bytes;
    d->step_bytes = step_bytes;
    d->record = record;
    d->replay = replay;
    d->commit = commit;
    d->sync = sync;
    d->room = room;
    d->read_rate = read_rate;
    d->close = close_dev;
    *out = d;
    return FT_OK;
}
