/* dev/cuda/spans.cuh - pieces of spans as blocks of a grid. The rows of a span are read on the
 * device; the grid is sized for the largest number of pieces that T rows in S spans can have. */
#ifndef FT_CUDA_SPANS_CUH
#define FT_CUDA_SPANS_CUH

#include "dev/cuda/common.cuh"

/* Allows a kernel this much dynamic shared memory and sets the largest carveout. */
static inline void ft_cuda_shared(ft_cuda *c, const void *kernel, int bytes)
{
    ft_cuda_check(c,
                  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
                  "shared memory");
    ft_cuda_check(c,
                  cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                       cudaSharedmemCarveoutMaxShared),
                  "shared memory");
}

/* Whether a kernel runs for the first time on this GPU; *seen has a bit for each. */
static inline bool ft_cuda_first_use(const ft_cuda *c, uint64_t *seen)
{
    const uint64_t bit = UINT64_C(1) << (c->index % 64);
    const bool first = !(*seen & bit);
    *seen |= bit;
    return first;
}

static inline unsigned span_pieces(int T, int S, int rows)
{
    return (unsigned)FT_MAX(1, FT_MIN(T, (T + rows - 1) / rows + S - 1));
}

/* Piece i: spans in order, each in pieces of `rows` rows. Returns the span and the piece's first
 * row in it; false when there are fewer pieces. All lanes of a warp must call it. */
__device__ __forceinline__ bool span_piece(const ft_batch &b, int i, int rows, int *span, int *from)
{
    const int lane = threadIdx.x & 31;
    for (int first = 0; first < b.S; first += 32) {
        const int n = first + lane < b.S ? b.span[first + lane].n : 0;
        const int pieces = (n + rows - 1) / rows;
        int upto = pieces;
#pragma unroll
        for (int o = 1; o < 32; o *= 2) {
            const int before = __shfl_up_sync(0xffffffffu, upto, o);
            if (lane >= o) upto += before;
        }
        const unsigned beyond = __ballot_sync(0xffffffffu, i < upto);
        if (beyond) {
            const int at = __ffs(beyond) - 1;
            *span = first + at;
            *from = (i - __shfl_sync(0xffffffffu, upto - pieces, at)) * rows;
            return true;
        }
        i -= __shfl_sync(0xffffffffu, upto, 31);
    }
    return false;
}

/* The same for pieces that end at multiples of `rows` positions. */
static inline unsigned span_chunks(int T, int S, int rows)
{
    return (unsigned)FT_MIN(T, T / rows + 2 * S);
}

__device__ __forceinline__ int chunks_of(const ft_span &sp, int rows)
{
    return (sp.start % rows + sp.n + rows - 1) / rows;
}

/* The number of a span's first chunk. */
__device__ __forceinline__ int first_chunk(const ft_batch &b, int span, int rows)
{
    int sum = 0;
    for (int i = 0; i < span; i++) sum += chunks_of(b.span[i], rows);
    return sum;
}

/* Chunk i: its span and rows [from, to) in it. */
__device__ __forceinline__ bool span_chunk(const ft_batch &b, int i, int rows, int *span, int *from,
                                           int *to)
{
    for (int s = 0; s < b.S; s++) {
        const ft_span &sp = b.span[s];
        const int n = chunks_of(sp, rows);
        if (i < n) {
            *span = s;
            *from = max(0, i * rows - sp.start % rows);
            *to = min(sp.n, (i + 1) * rows - sp.start % rows);
            return true;
        }
        i -= n;
    }
    return false;
}

#endif
