/* Prompts over encoded caches: the pages that long spans see are expanded to halves in scratch
 * memory, once for all rows of the step, and the kernel for f16 caches reads them from there. Keys
 * are in the order of key_column, as everywhere: a row has the same bits as when its pages are
 * decoded in registers. The scratch memory is bounded; longer contexts are read in segments. */
#include "dev/cuda/attend/attend_mma.cuh"

enum { LONG_ROWS = 64 };

typedef struct expand_args {
    attend_args a;
    unsigned char *to[2]; /* keys, values: [long span][page of the segment][G][position][D] */
    int raw;              /* bytes in front of the expanded page in shared memory */
} expand_args;

/* Long span number n; -1: there are fewer. All lanes of a warp must call it. */
__device__ __forceinline__ int long_span(const attend_args &a, int n)
{
    const int lane = threadIdx.x & 31;
    for (int first = 0; first < a.b.S; first += 32) {
        const int i = first + lane;
        unsigned found = __ballot_sync(0xffffffffu, i < a.b.S && a.b.span[i].n >= a.segment.rows);
        for (; found; found &= found - 1)
            if (!n--) return first + __ffs(found) - 1;
    }
    return -1;
}

/* The number of the page that this block expands; -1: none. */
__device__ __forceinline__ int page_to_expand(const attend_args &a)
{
    const int pages = a.segment.positions / PAGE, span = long_span(a, blockIdx.x / pages);
    if (span < 0) return -1;
    const ft_span_range &s = a.span_range[span];
    int lo, hi;
    seen_by_span(a, s, &lo, &hi);
    const int cell = segment_start(a, lo) + (int)(blockIdx.x % pages) * PAGE;
    if (cell >= hi || cell + PAGE <= lo) return -1;
    return a.b.page[a.space][(size_t)s.slot * a.b.pages_per_seq + cell / PAGE];
}

/* A block expands a page of a KV head's keys or values. */
template <int D>
static __global__ void __launch_bounds__(THREADS) expand_kernel(const expand_args x)
{
    extern __shared__ uint4 expand_shared[];
    enum { PIECES = D / 8 };
    __shared__ uint16_t table[16];
    unsigned char *raw = (unsigned char *)expand_shared, *tile = raw + x.raw;
    const int g = blockIdx.y;
    const bool keys = blockIdx.z == 0;
    const kv_side &s = keys ? x.a.k : x.a.v;
    wait_for_previous_kernel();
    const int page = page_to_expand(x.a);
    if (page < 0) return;
    if (threadIdx.x < 16)
        table[threadIdx.x] = __half_as_ushort(__float2half_rn(s.f.value[threadIdx.x]));
    fetch<D, THREADS>(s, shared_at(raw), page, g, threadIdx.x);
    copy_commit();
    copy_wait<0>();
    __syncthreads();
    if (s.type != FT_KV_F16) {
        const codebook book = codebook_for(s, table);
        FOR_ENCODING(s, expand_rows<D, ROWS>(tile, raw, book, keys));
        __syncthreads();
    } else {
        tile = raw;
    }
    uint4 *to = (uint4 *)x.to[!keys] + ((size_t)blockIdx.x * s.G + g) * PAGE * PIECES;
#pragma unroll 4
    for (int i = threadIdx.x; i < PAGE * PIECES; i += THREADS)
        to[i] = ((const uint4 *)tile)[swizzled(i / PIECES, i % PIECES, PIECES)];
}

typedef void expand_fn(const expand_args);

static expand_fn *expand_for(int D)
{
    switch (D) {
    case 64: return expand_kernel<64>;
    case 128: return expand_kernel<128>;
    case 256: return expand_kernel<256>;
    case 512: return expand_kernel<512>;
    }
    return NULL;
}

/* Upper bound of the positions from the first range that a span sees to its end. */
static int positions_seen(const ft_cuda *c, const attend_args *a)
{
    int window = a->window ? a->window : c->shape.ctx;
    if (a->pass == PASS_RECENT) window = FT_MIN(window, FT_KV_RECENT + PAGE);
    const size_t from_first = (size_t)window + (size_t)c->shape.rows + RANGE_MOST;
    const size_t seen = FT_MIN(from_first, (size_t)c->shape.ctx);
    return (int)((seen + RANGE_MOST - 1) / RANGE_MOST * RANGE_MOST);
}

/* Bytes of a page of all KV heads, keys or values, as halves. */
static size_t page_bytes(const attend_args *a)
{
    return (size_t)a->k.G * PAGE * (size_t)a->q.d * 2;
}

/* The most long spans that this step can have. */
static int long_spans(const ft_cuda *c, const attend_args *a)
{
    return FT_MIN(c->shape.S, (a->q.T - c->shape.rows) / LONG_ROWS + 1);
}

bool ft_cuda_expand_plan(ft_cuda *c, attend_args *a)
{
    attend_segment *s = &a->segment;
    if (a->out || c->shape.T <= FT_SHAPE_ROWS || c->shape.rows < LONG_ROWS) return false;
    const size_t each = 2 * page_bytes(a) * (size_t)long_spans(c, a); /* of a page of each span */
    const size_t sums =
        a->total ? 0 : sizeof(float) * (size_t)(a->q.T * a->q.H) * (size_t)(a->q.d + 2);
    const size_t most = c->expand_bytes ? c->expand_bytes : (size_t)FT_CUDA_PART_BYTES;
    const int all = positions_seen(c, a);
    size_t pages = (size_t)all / PAGE, bytes = pages * each;
    s->n = 1;
    if (bytes > most) {
        pages = most > sums ? (most - sums) / each / (RANGE_MOST / PAGE) * (RANGE_MOST / PAGE) : 0;
        if (!pages) return false;
        s->n = (all + (int)pages * PAGE - 1) / ((int)pages * PAGE);
        bytes = sums + pages * each;
    }
    s->sums = (float *)ft_cuda_scratch(c, FT_SCRATCH_ATTEND, FT_MAX(bytes, c->expand_bytes));
    if (!s->sums) return false;
    a->expanded = (unsigned char *)s->sums + (s->n > 1 ? sums : 0);
    if (s->n == 1 || a->total) s->sums = NULL;
    s->positions = (int)pages * PAGE;
    s->rows = LONG_ROWS;
    return true;
}

attend_args ft_cuda_expand(ft_cuda *c, const attend_args *a, int segment)
{
    const int D = a->q.d, pages = a->segment.positions / PAGE * long_spans(c, a);
    expand_args x = {*a, {a->expanded, a->expanded + (size_t)pages * page_bytes(a)}, 0};
    x.a.segment.at = segment;
    x.raw = (FT_MAX(scratch_bytes(a->k, D), scratch_bytes(a->v, D)) + 16 + 127) / 128 * 128;
    const int shared = x.raw + PAGE * 2 * D;
    expand_fn *expand = expand_for(D);
    ft_cuda_shared(c, (const void *)expand, shared);
    FT_LAUNCH_NEXT(c, expand, dim3((unsigned)pages, (unsigned)a->k.G, 2), THREADS, (size_t)shared,
                   x);
    attend_args e = x.a;
    kv_side *const side[] = {&e.k, &e.v};
    for (int i = 0; i < 2; i++) {
        side[i]->halves = true;
        side[i]->p = x.to[i];
        side[i]->row = 2 * D;
        side[i]->page = page_bytes(a);
    }
    return e;
}
