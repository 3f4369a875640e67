/* Attention on tensor cores: the choice of the kernel (attend_mma.cuh), and merging of the ranges
 * afterwards. */
#include "dev/cuda/attend/attend_few.cuh"

/* ---- merging ---- */

/* Ranges are read in chunks, CHUNKS of them ahead. */
enum { BACK_THREADS = 256, MERGE_THREADS = 128, CHUNK = 32, CHUNKS = MERGE_THREADS / CHUNK };

/* Factors for merging ranges into the sum of a row and head: the sum is multiplied by `was`, and
 * `is` times the sum of the range is added. l: the sums of their weights. */
typedef struct merging {
    float4 was[MERGE_THREADS / 4], is[MERGE_THREADS / 4], l[MERGE_THREADS / 4];
    float top[MERGE_THREADS / 32];
} merging;

/* The factors of the ranges from..., one per thread; M: the largest score so far. The running
 * maxima may be computed in parallel; the sums may not. */
__device__ __forceinline__ void merge_factors(merging *s, float m, float l, float &M)
{
    const int i = threadIdx.x, lane = i % 32, warp = i / 32;
    float upto = m;
#pragma unroll
    for (int o = 1; o < 32; o *= 2) {
        const float other = __shfl_up_sync(0xffffffffu, upto, o);
        if (lane >= o) upto = fmaxf(upto, other);
    }
    const float left = __shfl_up_sync(0xffffffffu, upto, 1);
    if (lane == 31) s->top[warp] = upto;
    __syncthreads();
    float before = lane ? fmaxf(M, left) : M;
#pragma unroll
    for (int w = 0; w < MERGE_THREADS / 32; w++) {
        if (w < warp) before = fmaxf(before, s->top[w]);
        M = fmaxf(M, s->top[w]);
    }
    const float top = fmaxf(before, m);
    const bool none = m == -INFINITY;
    ((float *)s->was)[i] = none ? 1.0f : exp2_approx(before - top);
    ((float *)s->is)[i] = none ? 0.0f : exp2_approx(m - top);
    ((float *)s->l)[i] = l;
}

/* Copies a chunk of ranges of which n are left: `group` columns of each. */
__device__ __forceinline__ void copy_chunk(float *to, const float *from, int group, int width,
                                           int n)
{
    const int shift = group == 128 ? 5 : 4, pieces = 1 << shift; /* of 16 bytes */
    const int step = MERGE_THREADS >> shift, piece = threadIdx.x & (pieces - 1);
    int range = (int)threadIdx.x >> shift;
    uint32_t at = shared_at(to + 4 * threadIdx.x);
    from += range * width + 4 * piece;
    for (; range < min(n, (int)CHUNK); range += step, from += step * width)
        copy_16(at, from), at += 16 * MERGE_THREADS;
    copy_commit();
}

/* Adds n ranges, at most a chunk, whose factors begin with number `first`: column threadIdx.x. */
__device__ __forceinline__ void add_chunk(const merging *s, const float *o, int group, int first,
                                          int n, float &L, float &O)
{
    int k = 0;
    o += threadIdx.x;
#pragma unroll 2
    for (; k + 4 <= n; k += 4, o += 4 * group) {
        const float4 was = s->was[(first + k) / 4], is = s->is[(first + k) / 4];
        const float4 l = s->l[(first + k) / 4];
        const float o1 = o[group], o2 = o[2 * group], o3 = o[3 * group];
        L = merged(merged(L, l.x, was.x, is.x), l.y, was.y, is.y);
        L = merged(merged(L, l.z, was.z, is.z), l.w, was.w, is.w);
        O = merged(merged(O, o[0], was.x, is.x), o1, was.y, is.y);
        O = merged(merged(O, o2, was.z, is.z), o3, was.w, is.w);
    }
    for (; k < n; k++, o += group) {
        const float was = ((const float *)s->was)[first + k],
                    is = ((const float *)s->is)[first + k];
        L = merged(L, ((const float *)s->l)[first + k], was, is);
        O = merged(O, *o, was, is);
    }
}

/* Merges the ranges of a row and head in order, and writes the copy of the result. A thread has a
 * column, a block as many columns as a Hadamard transform has. There is little to read and latency
 * dominates. */
static __global__ void __launch_bounds__(MERGE_THREADS) attend_merge_kernel(const attend_args a)
{
    extern __shared__ float4 attend_merge_shared[]; /* CHUNKS chunks */
    __shared__ merging s;
    __shared__ float x[MERGE_THREADS];
    const int i = blockIdx.x / a.q.H, h = blockIdx.x % a.q.H, group = a.hadamard.group;
    const int width = PART_WIDTH(a.q.d), tid = threadIdx.x, c = blockIdx.y * group + tid;
    float *const chunks = (float *)attend_merge_shared;
    int lo, hi; /* part of the batch, which was uploaded before the previous kernel */
    const int end = a.b.end[batch_row(a, i)], bits = range_bits_of(a, end);
    seen(a, end, &lo, &hi);
    const float *part = part_at(a, a.part_of[batch_row(a, i)], h);
    const float *from = part + 2 + blockIdx.y * group;
    wait_for_previous_kernel();
    const int n = lo < hi ? ((hi - 1) >> bits) - (lo >> bits) + 1 : 0;
    if (!n || (n == 1 && (a.total || !a.v.hadamard))) { /* o is final */
        if (a.copy.p && tid < group) put_copy(a, i, h, c, mat_head(a.o, i, h)[c]);
        return;
    }
    for (int k = 0; k < CHUNKS; k++)
        copy_chunk(chunks + k * CHUNK * group, from + k * CHUNK * width, group, width,
                   n - k * CHUNK);
    float M = -INFINITY, L = 0, O = 0;
    float m = tid < n ? part[tid * width] : -INFINITY, l = tid < n ? part[tid * width + 1] : 0.0f;
    for (int at = 0; at < n; at += CHUNK) {
        const int slot = at / CHUNK % CHUNKS, next = at + MERGE_THREADS;
        float *const chunk = chunks + slot * CHUNK * group;
        if (!slot) {
            const int own = next + tid;
            merge_factors(&s, m, l, M);
            m = own < n ? part[own * width] : -INFINITY;
            l = own < n ? part[own * width + 1] : 0.0f;
        }
        copy_wait<CHUNKS - 1>();
        __syncthreads();
        if (tid < group) add_chunk(&s, chunk, group, slot * CHUNK, min(n - at, (int)CHUNK), L, O);
        __syncthreads();
        copy_chunk(chunk, from + next * width, group, width, n - next);
    }
    if (a.total) {
        float *to = total_at(a, i, h);
        if (!c) to[0] = M, to[1] = L;
        if (tid < group) to[2 + c] = O;
        return;
    }
    O *= inverse_of(L);
    if (a.v.hadamard) {
        x[tid] = O;
        __syncthreads();
        if (tid < 32) hadamard_vector(x, group, a.hadamard, true);
        __syncthreads();
        O = x[tid];
    }
    if (tid >= group) return;
    mat_head(a.o, i, h)[c] = O;
    put_copy(a, i, h, c, O);
}

/* Transforms sums of Hadamard-transformed values back, in place. */
static __global__ void __launch_bounds__(BACK_THREADS) attend_back_kernel(const attend_args a)
{
    extern __shared__ float attend_back_shared[];
    const int i = blockIdx.x * (BACK_THREADS / 32) + threadIdx.x / 32, D = a.q.d;
    float *x = attend_back_shared + threadIdx.x / 32 * D;
    wait_for_previous_kernel();
    if (i >= a.o.T * a.o.H) return;
    float *to = mat_head(a.o, i / a.o.H, i % a.o.H);
    for (int c = threadIdx.x & 31; c < D; c += 32) x[c] = to[c];
    __syncwarp();
    hadamard_vector(x, D, a.hadamard, true);
    for (int c = threadIdx.x & 31; c < D; c += 32) to[c] = x[c];
}

/* ---- the choice of kernels ---- */

static attend_mma_fn *kernel_for(const attend_args *a, int WM, bool loop)
{
    const int D = a->q.d;
    const attend_way way = way_of(a);
    switch (D) {
    case 64: return ft_cuda_attend_mma_64(WM, loop, way);
    case 128: return ft_cuda_attend_mma_128(WM, loop, way);
    case 256: return ft_cuda_attend_mma_256(WM, loop, way);
    case 512: return ft_cuda_attend_mma_512(WM, loop, way);
    }
    return NULL;
}

/* The largest tile that also has kernels for prompts and fits into shared memory, in units of 16
 * vectors. */
static int widest(const ft_cuda *c, const attend_args *a)
{
    int WM = 4;
    while (WM &&
           (!kernel_for(a, WM, true) || (size_t)layout_of(a, a->q.d, WM, c->cc).bytes > c->smem))
        WM /= 2;
    return WM;
}

/* Memory for the partial results of this step's shape; NULL: one block computes all ranges, because
 * there are too many or because rows see ahead, of which the ranges' arithmetic knows nothing. */
static float *parts_of(ft_cuda *c, const attend_args *a)
{
    const size_t rows = (size_t)FT_MAX(c->parts, c->parts_now);
    const size_t bytes = sizeof(float) * rows * (size_t)a->q.H * PART_WIDTH((size_t)a->q.d);
    if (a->ahead || c->shape.T > FT_SHAPE_ROWS || c->parts_overflow || bytes > FT_CUDA_PART_BYTES)
        return NULL;
    return (float *)ft_cuda_scratch(c, FT_SCRATCH_ATTEND, bytes);
}

/* Blocks for tiles of a->rows rows: one per tile, or, if their ranges are distributed, as many as
 * the GPU runs at a time, `each` per multiprocessor. */
static unsigned blocks_of(const ft_cuda *c, const attend_args *a, int each)
{
    const int T = a->q.T, S = FT_MAX(1, c->shape.S);
    const unsigned tiles = (a->out ? (unsigned)T : span_pieces(T, S, a->rows)) * (unsigned)a->k.G;
    const unsigned held = (unsigned)(each * c->sms);
    if (!a->part) return tiles;
    return c->shape.ctx <= FT_SHAPE_SHORT_CTX ? FT_MIN(tiles, held) : held;
}

/* Launches the kernel for tiles of 16 WM vectors. */
static void launch(ft_cuda *c, attend_args *a, int WM)
{
    const layout l = layout_of(a, a->q.d, WM, c->cc);
    attend_mma_fn *attend_mma = kernel_for(a, WM, !a->part);
    a->rows = 16 * WM / a->group;
    ft_cuda_shared(c, (const void *)attend_mma, l.bytes);
    FT_LAUNCH_NEXT(c, attend_mma, blocks_of(c, a, 2), THREADS, (size_t)l.bytes, *a, l);
}

static few_kernel few_for(const attend_args *a, int NB)
{
    const int kt = a->k.type, vt = a->v.type;
    if (a->q.d == 512) return ft_cuda_attend_few_512(NB);
    if (a->q.d != 256) return {};
    switch (NB) {
    case 1: return ft_cuda_attend_few_256_1(kt, vt);
    case 2: return ft_cuda_attend_few_256_2(kt, vt);
    case 3: return ft_cuda_attend_few_256_3(kt, vt);
    case 4: return ft_cuda_attend_few_256_4(kt, vt);
    }
    return {};
}

/* Groups of eight vectors for the rows of a tile: as many as the longest span has, or the number
 * that rows fill best. */
static int few_groups(const attend_args *a, int most)
{
    const int all = (most * a->group + 7) / 8;
    int best = 1;
    for (int NB = 1; NB <= all && few_for(a, NB).fn; NB++)
        if (8 * NB / a->group * best >= 8 * best / a->group * NB) best = NB;
    return few_for(a, all).fn ? all : best;
}

/* The same for encoded caches; false: there is no kernel for the head size. */
static bool launch_few(ft_cuda *c, attend_args *a, int most)
{
    const int NB = few_groups(a, most);
    const few_kernel few = few_for(a, NB);
    attend_few_fn *attend_few = few.fn;
    if (!attend_few || a->group > 8 * NB || !a->part || way_of(a) == HALVES) return false;
    few_layout l =
        few_layout_of(a, a->q.d, NB, few.unit, ((int)c->smem + 1024) / few.blocks - 1024);
    if ((size_t)l.bytes > c->smem) return false;
    a->rows = 8 * NB / a->group;
    ft_cuda_shared(c, (const void *)attend_few, l.bytes);
    FT_LAUNCH_NEXT(c, attend_few, blocks_of(c, a, few.blocks), THREADS, (size_t)l.bytes, *a, l);
    return true;
}

/* The long spans of a prompt; the others are left. */
static void attend_expanded(ft_cuda *c, const attend_args *a)
{
    for (int i = 0; i < a->segment.n; i++) {
        attend_args e = ft_cuda_expand(c, a, i);
        launch(c, &e, widest(c, &e));
    }
}

static void launch_merge(ft_cuda *c, attend_args *a)
{
    const int group = a->hadamard.group, bytes = CHUNKS * CHUNK * group * (int)sizeof(float);
    if (!a->total) a->copy = out_missed_of(c, a->o);
    ft_cuda_shared(c, (const void *)attend_merge_kernel, bytes);
    FT_LAUNCH_NEXT(c, attend_merge_kernel,
                   dim3((unsigned)(a->q.T * a->q.H), (unsigned)(a->q.d / group)), MERGE_THREADS,
                   (size_t)bytes, *a);
}

bool ft_cuda_attend_mma(ft_cuda *c, attend_args *a)
{
    const int D = a->q.d, T = a->q.T;
    const bool exact = a->k.type == FT_KV_F32 || a->v.type == FT_KV_F32;
    const int wide = exact ? 0 : widest(c, a), most = a->out ? 1 : FT_MAX(1, c->shape.rows);
    if (a->group > 16 * wide) return false;
    a->part_of = c->part_of;
    a->span_range = c->span_range;
    a->part = parts_of(c, a);
    const bool loop = !a->part, near = c->shape.ctx <= FT_SHAPE_SHORT_CTX;
    int WM = loop ? wide : 1;
    while (WM < wide && 16 * WM < most * a->group) WM *= 2;
    const bool expand = loop && way_of(a) == EXPAND && ft_cuda_expand_plan(c, a);
    if (expand) attend_expanded(c, a);
    if ((!expand || c->shape.S > 1) && !launch_few(c, a, most)) launch(c, a, WM);
    const bool back = a->v.hadamard && !a->total;
    if (!loop && (!near || back)) launch_merge(c, a);
    if (loop && back)
        FT_LAUNCH_NEXT(c, attend_back_kernel, ft_blocks((size_t)T * a->q.H, BACK_THREADS / 32),
                       BACK_THREADS, BACK_THREADS / 32 * (size_t)D * sizeof(float), *a);
    return true;
}
