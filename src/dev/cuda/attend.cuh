/* dev/cuda/attend.cuh - what the ways through an attention share.
 *
 * A row's result is defined without its companions: cells are taken in pages at absolute cell
 * numbers with a running softmax inside a range of FT_RANGE cells; the ranges of a row are merged
 * in order. Whether one block walks all ranges or each has its own block does not show. Scores are
 * kept times log2(e), so that exponentials are powers of two. */
#ifndef FT_CUDA_ATTEND_CUH
#define FT_CUDA_ATTEND_CUH

#include "dev/cuda/kv.cuh"

enum { FT_RANGE = 512 };

typedef struct attend_args {
    ft_batch b;
    kv_side k, v;
    kv_turn turn;
    ft_mat o, q;
    float scale; /* times log2(e) */
    int window, first, space;
    bool out, ahead;
    int group;               /* query heads of a key head */
    int rows;                /* rows of a tile */
    const ft_reach *reach;   /* [b.S] */
    const ft_parts *part_of; /* [batch row] */
    float *part;             /* [partial result]: m, l, then the sum */
} attend_args;

/* attend_walk.cu: on tensor cores. false: no kernel for this shape and device. */
bool ft_cuda_attend_walk(ft_cuda *c, attend_args *a);
/* attend_plain.cu: any shape. */
void ft_cuda_attend_plain(ft_cuda *c, const attend_args *a);

__device__ __forceinline__ int batch_row(const attend_args &a, int i)
{
    return a.out ? a.b.out_row[i] : i;
}

/* The cells [lo, hi) that a row with this end sees. */
__device__ __forceinline__ void seen(const attend_args &a, int end, int *lo, int *hi)
{
    int from = a.window && end > a.window ? end - a.window : 0;
    if (from < a.first) from = a.first;
    *lo = from;
    *hi = max(end, from);
}

/* Partial result 0 of a row and head; the others of the head follow it. */
__device__ __forceinline__ float *part_at(const attend_args &a, ft_parts p, int h)
{
    return a.part + ((size_t)p.first * a.q.H + (size_t)h * p.n) * (a.q.d + 2);
}

/* Adds the softmax (m, l) of later cells to (M, L); the sums follow with the two factors. */
__device__ __forceinline__ void merge(float &M, float &L, float m, float l, float &was, float &is)
{
    if (m == -INFINITY) {
        was = 1;
        is = 0;
        return;
    }
    const float top = fmaxf(M, m);
    was = exp2_fast(M - top);
    is = exp2_fast(m - top);
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
