/* Attention on tensor cores: which kernel walks (attend_walk.cuh), and what is left to do after it.
 */
#include "dev/cuda/attend_walk.cuh"

enum {
    SPLIT_ROWS = 64,        /* up to this many rows, a range of a long past is a block of its own */
    SPLIT_BYTES = 256 << 20 /* most that partial results may take */
};

/* ---- after the walk ---- */

enum { MERGE_THREADS = 256, AHEAD = 32 };

/* The ranges of a row and head in order; a block for each. */
static __global__ void __launch_bounds__(MERGE_THREADS) attend_merge_kernel(const attend_args a)
{
    extern __shared__ float attend_merge_shared[];
    const int i = blockIdx.x / a.q.H, h = blockIdx.x % a.q.H, D = a.q.d;
    int lo, hi;
    after_last();
    seen(a, batch_row(a, i), &lo, &hi);
    if (lo >= hi) return;
    const int n = (hi - 1) / FT_RANGE - lo / FT_RANGE + 1;
    if (n == 1 && !a.v.turned) return;
    const float *part = a.part + ((size_t)i * a.q.H + h) * a.ranges * (D + 2);
    float *to = mat_head(a.o, i, h);
    for (int c = threadIdx.x; c < D; c += MERGE_THREADS) {
        float M = -INFINITY, L = 0, O = 0;
        for (int from = 0; from < n; from += AHEAD) {
            float m[AHEAD], l[AHEAD], o[AHEAD]; /* all on their way before the first is used */
#pragma unroll
            for (int r = 0; r < AHEAD; r++) {
                const float *p = part + (size_t)min(from + r, n - 1) * (D + 2);
                m[r] = p[0];
                l[r] = p[1];
                o[r] = p[2 + c];
            }
#pragma unroll
            for (int r = 0; r < AHEAD; r++) {
                float was, is;
                if (from + r >= n) break;
                merge(M, L, m[r], l[r], was, is);
                O = merged(O, o[r], was, is);
            }
        }
        O *= inverse_of(L);
        if (a.v.turned)
            attend_merge_shared[c] = O;
        else
            to[c] = O;
    }
    if (!a.v.turned) return;
    __syncthreads();
    const int group = a.turn.group, at = threadIdx.x / 32 * group; /* a warp for each */
    if (at < D) turn_vector(attend_merge_shared + at, group, a.turn, true);
    __syncthreads();
    for (int c = threadIdx.x; c < D; c += MERGE_THREADS) to[c] = attend_merge_shared[c];
}

/* Sums of turned values come back, in place. */
static __global__ void __launch_bounds__(MERGE_THREADS) attend_back_kernel(const attend_args a)
{
    extern __shared__ float attend_back_shared[];
    const int i = blockIdx.x * (MERGE_THREADS / 32) + threadIdx.x / 32, D = a.q.d;
    float *x = attend_back_shared + threadIdx.x / 32 * D;
    after_last();
    if (i >= a.o.T * a.o.H) return;
    float *to = mat_head(a.o, i / a.o.H, i % a.o.H);
    for (int c = threadIdx.x & 31; c < D; c += 32) x[c] = to[c];
    __syncwarp();
    turn_vector(x, D, a.turn, true);
    for (int c = threadIdx.x & 31; c < D; c += 32) to[c] = x[c];
}

/* ---- the choice of kernels ---- */

static walk_kernel *kernel_for(int D, int WM, bool loop)
{
    switch (D) {
    case 64: return ft_cuda_walk_64(WM, loop);
    case 128: return ft_cuda_walk_128(WM, loop);
    case 256: return ft_cuda_walk_256(WM, loop);
    case 512: return ft_cuda_walk_512(WM, loop);
    }
    return NULL;
}

/* Ranges that a row of this step may touch. */
static int ranges_of(const attend_args *a)
{
    int cells = a->b.max_past;
    if (a->window) cells = FT_MIN(cells, a->window + SPLIT_ROWS + FT_RANGE);
    return FT_MAX(1, (cells + FT_RANGE - 1) / FT_RANGE);
}

/* The largest tile that has kernels for prompts too and fits into shared memory, in 16 vectors. */
static int widest(const ft_cuda *c, const attend_args *a)
{
    int WM = 4;
    while (WM && (!kernel_for(a->q.d, WM, true) ||
                  (size_t)layout_of(a, a->q.d, WM, c->cc).bytes > c->smem))
        WM /= 2;
    return WM;
}

bool ft_cuda_attend_walk(ft_cuda *c, attend_args *a)
{
    const int D = a->q.d, T = a->q.T, G = a->k.G, S = a->out ? T : FT_MAX(1, a->b.S);
    const bool exact = a->k.type == FT_KV_F32 || a->v.type == FT_KV_F32;
    const int wide = exact ? 0 : widest(c, a);
    if (a->group > 16 * wide) return false;
    const int ranges = ranges_of(a), most = a->out ? 1 : T - S + 1; /* rows of one sequence */
    const size_t part = sizeof(float) * (size_t)T * a->q.H * (size_t)ranges * (size_t)(D + 2);
    const bool loop = T > SPLIT_ROWS || part > SPLIT_BYTES;
    int WM = loop ? wide : 1;
    while (WM < wide && 16 * WM < FT_MAX(most, 1) * a->group) WM *= 2;
    const layout l = layout_of(a, D, WM, c->cc);
    walk_kernel *attend_walk = kernel_for(D, WM, loop);
    a->rows = 16 * WM / a->group;
    a->ranges = loop ? 0 : ranges;
    a->part = loop ? NULL : (float *)ft_cuda_scratch(c, FT_PLACE_ATTEND, part);
    ft_cuda_shared(c, (const void *)attend_walk, l.bytes);
    const unsigned tiles = a->out ? (unsigned)T : span_pieces(T, S, a->rows);
    const dim3 grid(tiles * (unsigned)G, loop ? 1u : (unsigned)ranges);
    FT_LAUNCH_NEXT(c, attend_walk, grid, THREADS, (size_t)l.bytes, *a, l);
    if (!loop && (ranges > 1 || a->v.turned))
        FT_LAUNCH_NEXT(c, attend_merge_kernel, (unsigned)(T * a->q.H), MERGE_THREADS,
                       (size_t)D * sizeof(float), *a);
    if (loop && a->v.turned)
        FT_LAUNCH_NEXT(c, attend_back_kernel, ft_blocks((size_t)T * a->q.H, MERGE_THREADS / 32),
                       MERGE_THREADS, MERGE_THREADS / 32 * (size_t)D * sizeof(float), *a);
    return true;
}
