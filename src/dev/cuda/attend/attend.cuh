/* dev/cuda/attend/attend.cuh - shared by the attention kernels.
 *
 * A row's result does not depend on the other rows: positions are processed page by page, in pages
 * at absolute positions, with a running softmax inside a range of FT_RANGE positions; the ranges of
 * a row are merged in order. Whether one block computes all ranges or each range has its own block
 * makes no difference to the result. Scores are multiplied by log2(e), so that exponentials are
 * powers of two. */
#ifndef FT_CUDA_ATTEND_CUH
#define FT_CUDA_ATTEND_CUH

#include "dev/cuda/attend/kv.cuh"

enum { FT_RANGE = 512 };

typedef struct attend_args {
    ft_batch b;
    kv_side k, v;
    kv_hadamard hadamard;
    ft_mat o, q;
    float scale; /* times log2(e) */
    int window, first, space;
    bool out, ahead;
    int group;                       /* query heads per KV head */
    int rows;                        /* rows of a tile */
    const ft_span_range *span_range; /* [b.S] */
    const ft_attn_parts *part_of;    /* [batch row] */
    float *part;                     /* [partial result]: m, l, then the sum */
} attend_args;

/* attend_mma.cu: on tensor cores. false: no kernel for this shape and device. */
bool ft_cuda_attend_mma(ft_cuda *c, attend_args *a);
/* attend_rows.cu: on tensor cores, for many rows with the heads of vision towers. false: the same
 */
bool ft_cuda_attend_rows(ft_cuda *c, attend_args *a);
/* attend_scalar.cu: any shape. */
void ft_cuda_attend_scalar(ft_cuda *c, const attend_args *a);

__device__ __forceinline__ int batch_row(const attend_args &a, int i)
{
    return a.out ? a.b.out_row[i] : i;
}

/* The positions [lo, hi) that a row with this end sees. */
__device__ __forceinline__ void seen(const attend_args &a, int end, int *lo, int *hi)
{
    int from = a.window && end > a.window ? end - a.window : 0;
    if (from < a.first) from = a.first;
    *lo = from;
    *hi = max(end, from);
}

/* The same for row i of q: a row of an image may see positions up to the end of the image. */
__device__ __forceinline__ void seen_by_row(const attend_args &a, int i, int end, int *lo, int *hi)
{
    seen(a, end, lo, hi);
    if (a.ahead) *hi = max(a.b.ahead[batch_row(a, i)], *lo);
}

/* Partial result 0 of a row and head; the others of the head follow it. */
__device__ __forceinline__ float *part_at(const attend_args &a, ft_attn_parts p, int h)
{
    return a.part + ((size_t)p.first * a.q.H + (size_t)h * p.n) * (a.q.d + 2);
}

/* Merges the softmax (m, l) of later positions into (M, L), and returns the two factors for the
 * sums. */
__device__ __forceinline__ void merge(float &M, float &L, float m, float l, float &was, float &is)
{
    if (m == -INFINITY) {
        was = 1;
        is = 0;
        return;
    }
    const float top = fmaxf(M, m);
    was = exp2_approx(M - top);
    is = exp2_approx(m - top);
    M = top;
    L = fmaf(l, is, __fmul_rn(L, was));
}

__device__ __forceinline__ float merged(float O, float o, float was, float is)
{
    return fmaf(o, is, __fmul_rn(O, was));
}

__device__ __forceinline__ float inverse_of(float L)
{
    return L > 0 || L != L ? __fdiv_rn(1.0f, L) : 0.0f;
}

#endif
