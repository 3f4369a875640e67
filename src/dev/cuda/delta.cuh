/* dev/cuda/delta.cuh - the gated delta rule's two ways: rows in turn (delta.cu) and chunks as small
 * products on tensor cores (chunk.cu).
 *
 * A span is cut at multiples of FT_CHUNK_ROWS positions. A piece of at most FT_DECODE_ROWS rows,
 * and every tentative span, runs row by row; longer pieces of heads of 128 values run as chunks.
 * Short pieces stand at the two ends of a span, so that three passes do: the first one, the chunks,
 * the last one. */
#ifndef FT_CUDA_DELTA_CUH
#define FT_CUDA_DELTA_CUH

#include "dev/cuda/mma.cuh"
#include "dev/cuda/spans.cuh"

/* Row `row` of journal half `plane` of a slot, in an array of `width` values per row. */
__device__ __forceinline__ float *journal(float *base, const ft_delta &s, int slot, int plane,
                                          int row, int width)
{
    return base + (((size_t)slot * 2 + plane) * s.J + row) * width;
}

typedef struct delta_args {
    ft_batch b;
    ft_mat o, y, a, beta;
    const float *A, *dt;
    ft_delta s;
    float *copy; /* plain kernel: working states of tentative spans */
    int pass;    /* which rows: FIRST and LAST pieces, or ALL */
    /* chunks: what is made of them before they are walked, by number of the piece */
    uint16_t *qk;  /* [piece][Hk][2][64][128]: normalised queries, keys */
    uint16_t *tri; /* [piece][Hv][2][64][64]: what makes updates, what weighs them */
    float *fall;   /* [piece][Hv][3][64]: e^G, e^(G_n - G), and e^(G_n) in each of the last */
} delta_args;

__device__ __forceinline__ float log_decay(const delta_args &a, int t, int h)
{
    const float x = *mat_value(a.a, t, h) + a.dt[h];
    return a.A[h] * (x > 20 ? x : log1pf(expf(x)));
}

__device__ __forceinline__ float beta_of(const delta_args &a, int t, int h)
{
    return 1.0f / (1.0f + expf(-*mat_value(a.beta, t, h)));
}

/* One value of Z = decay Z + k d^T */
__device__ __forceinline__ float advanced(float z, float decay, float k, float d)
{
    return fmaf(k, d, __fmul_rn(decay, z));
}

/* d = beta (v - decay Z^T k) */
__device__ __forceinline__ float update_of(float v, float decay, float zk, float beta)
{
    return __fmul_rn(beta, fmaf(-decay, zk, v));
}

__device__ __forceinline__ float *state_of(const delta_args &a, int slot, int h)
{
    return a.s.state + ((size_t)slot * a.s.Hv + h) * a.s.S * a.s.S;
}

enum { ALL, FIRST, LAST, CHUNKS };

/* The rows [from, to) of a span that a pass runs. */
__device__ __forceinline__ void pass_rows(const ft_span &sp, int pass, int *from, int *to)
{
    const int head = min(sp.n, FT_CHUNK_ROWS - sp.start % FT_CHUNK_ROWS);
    const int tail = min(sp.n - head, (sp.start + sp.n - 1) % FT_CHUNK_ROWS + 1);
    int a = sp.tentative ? sp.n : head <= FT_DECODE_ROWS ? head : 0;
    int b = !sp.tentative && tail <= FT_DECODE_ROWS ? sp.n - tail : sp.n;
    if (pass == ALL) a = b = sp.n;
    *from = pass == LAST ? b : pass == CHUNKS ? a : 0;
    *to = pass == LAST ? sp.n : pass == CHUNKS ? b : a;
}

/* chunk.cu */
size_t ft_cuda_chunk_scratch(ft_cuda *c, delta_args *a);
void ft_cuda_chunks(ft_cuda *c, const delta_args *a);

#endif
