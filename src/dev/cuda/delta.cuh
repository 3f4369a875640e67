/* dev/cuda/delta.cuh - the two implementations of the gated delta rule: row by row (delta.cu), and
 * in chunks as small matrix products on tensor cores (chunk.cu).
 *
 * Rows after the first `serial` rows of a span are cut at multiples of FT_CHUNK_ROWS positions.
 * Pieces of at most FT_DECODE_ROWS rows, serial rows and tentative spans run row by row; longer
 * pieces of heads of 128 values run as chunks. Short pieces occur only at the two ends of a span,
 * so that there are three passes: the first piece, the chunks, the last piece. */
#ifndef FT_CUDA_DELTA_CUH
#define FT_CUDA_DELTA_CUH

#include "dev/cuda/mma.cuh"
#include "dev/cuda/spans.cuh"

/* Row `row` of journal `plane` of a slot, in an array of `width` values per row. */
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
    float *copy; /* delta_scalar_kernel: working copy of the state of tentative spans */
    int ahead;   /* the state of this many spans later is prefetched into the L2 cache; 0: none */
    int pass;    /* which rows: the FIRST or LAST piece of a span, or ALL */
    /* chunks: inputs prepared by chunk_prepare_kernel, by number of the chunk */
    uint16_t *qk;  /* [piece][Hk][2][64][128]: normalised queries, keys */
    uint16_t *tri; /* [piece][Hv][2][64][64]: (1 + A)^-1 diag(beta), and (q_i . k_j) D_ij */
    float *fall;   /* [piece][Hv][3][64]: e^G, e^(G_n - G), and e^(G_n) repeated */
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

/* The rows [from, to) of a span that a pass computes. */
__device__ __forceinline__ void pass_rows(const ft_span &sp, int pass, int *from, int *to)
{
    const int rest = sp.n - sp.serial;
    const int head = min(rest, FT_CHUNK_ROWS - (sp.start + sp.serial) % FT_CHUNK_ROWS);
    const int tail = min(rest - head, (sp.start + sp.n - 1) % FT_CHUNK_ROWS + 1);
    int a = sp.tentative ? sp.n : sp.serial + (head <= FT_DECODE_ROWS ? head : 0);
    int b = !sp.tentative && tail <= FT_DECODE_ROWS ? sp.n - tail : sp.n;
    if (pass == ALL) a = b = sp.n;
    *from = pass == LAST ? b : pass == CHUNKS ? a : 0;
    *to = pass == LAST ? sp.n : pass == CHUNKS ? b : a;
}

/* chunk.cu */
size_t ft_cuda_chunk_scratch(ft_cuda *c, delta_args *a);
void ft_cuda_chunks(ft_cuda *c, const delta_args *a);

#endif
