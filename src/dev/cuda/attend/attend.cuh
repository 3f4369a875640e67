/* dev/cuda/attend/attend.cuh - shared by the attention kernels.
 *
 * A row's result does not depend on the other rows: positions are processed page by page, in pages
 * at absolute positions, with a running softmax inside a range (ranges.cuh); the ranges of a row
 * are merged in order. Whether one block computes all ranges or each range has its own block
 * makes no difference to the result. Scores are multiplied by log2(e), so that exponentials are
 * powers of two. */
#ifndef FT_CUDA_ATTEND_CUH
#define FT_CUDA_ATTEND_CUH

#include "dev/cuda/attend/kv.cuh"
#include "dev/cuda/attend/ranges.cuh"

/* A cache with a recent-token window takes two passes, over the older positions and over the
 * window, each with its own encoding and pages. Their sums are joined afterwards (attend.cu). */
typedef enum attend_pass { PASS_ALL, PASS_OLDER, PASS_RECENT } attend_pass;

/* Prompts: pages of long spans are expanded to halves before they are read (expand.cu), a segment
 * of the positions at a time. Segment 0 of a span starts at the first position that it sees,
 * rounded down to a multiple of RANGE_MOST. */
typedef struct attend_segment {
    int rows;      /* spans of this many rows are long; 0: no pages are expanded */
    int positions; /* of a segment, a multiple of RANGE_MOST */
    int n, at;     /* segments; the number of this one */
    float *sums; /* between segments, as `total`; NULL: `total` is used, or there is one segment */
} attend_segment;

typedef struct attend_args {
    ft_batch b;
    kv_side k, v;
    kv_hadamard hadamard;
    ft_mat o, q;
    float scale; /* times log2(e) */
    int window, first, space;
    int range_limit; /* of range_bits */
    bool out, ahead;
    int group;                       /* query heads per KV head */
    int rows;                        /* rows of a tile */
    const ft_span_range *span_range; /* [b.S] */
    const ft_attn_parts *part_of;    /* [batch row] */
    float *part;                     /* [partial result]: see PART_WIDTH */
    attend_pass pass;
    float *total; /* of a pass, [row of q, H]: m, l, then a sum of total_width values; NULL: there
                     is one pass, which writes o */
    int total_width;
    attend_segment segment;
    unsigned char *expanded; /* memory for the expanded pages */
    out_bf16 copy; /* of o, for a product; written by the kernel that makes the final result */
} attend_args;

/* Writes value c of a row and head to the copy of o, if there is one. */
__device__ __forceinline__ void put_copy(const attend_args &a, int row, int h, int c, float v)
{
    if (!a.copy.p) return;
    bf16_put(a.copy.p, a.copy.plane, bf16_index(a.copy.T, a.copy.wide, row, h * a.o.d + c), v);
}

/* attend_mma.cu: on tensor cores. false: no kernel for this shape and device. */
bool ft_cuda_attend_mma(ft_cuda *c, attend_args *a);
/* expand.cu: whether pages of this step are expanded; sets a->segment. Then, for each segment,
 * launches the expansion and returns the arguments for the kernel that reads its pages. */
bool ft_cuda_expand_plan(ft_cuda *c, attend_args *a);
attend_args ft_cuda_expand(ft_cuda *c, const attend_args *a, int segment);
/* attend_scalar.cu: any shape. */
void ft_cuda_attend_scalar(ft_cuda *c, const attend_args *a);

__device__ __forceinline__ int batch_row(const attend_args &a, int i)
{
    return a.out ? a.b.out_row[i] : i;
}

/* Of the positions [lo, hi), those of this pass. */
__device__ __forceinline__ void cut_to_pass(const attend_args &a, int *lo, int *hi)
{
    if (a.pass == PASS_ALL) return;
    const int cut = min(*hi, max(*lo, FT_KV_RECENT_FROM(*hi)));
    if (a.pass == PASS_OLDER)
        *hi = cut;
    else
        *lo = cut;
}

/* The positions [lo, hi) that a row with this end sees, in all passes. */
__device__ __forceinline__ void seen_in_all(const attend_args &a, int end, int *lo, int *hi)
{
    int from = a.window && end > a.window ? end - a.window : 0;
    if (from < a.first) from = a.first;
    *lo = from;
    *hi = max(end, from);
}

/* ...and in this pass. */
__device__ __forceinline__ void seen(const attend_args &a, int end, int *lo, int *hi)
{
    seen_in_all(a, end, lo, hi);
    cut_to_pass(a, lo, hi);
}

/* The same for row i of q: a row of an image may see positions up to the end of the image. */
__device__ __forceinline__ void seen_by_row(const attend_args &a, int i, int end, int *lo, int *hi)
{
    seen_in_all(a, end, lo, hi);
    if (a.ahead) *hi = max(a.b.ahead[batch_row(a, i)], *lo);
    cut_to_pass(a, lo, hi);
}

/* The ranges of a row with this end have 2^range_bits_of positions. */
__device__ __forceinline__ int range_bits_of(const attend_args &a, int end)
{
    return range_bits(end, a.range_limit);
}

/* The total of a row of q and a head. */
__device__ __forceinline__ float *total_at(const attend_args &a, int i, int h)
{
    return a.total + ((size_t)i * a.q.H + h) * (a.total_width + 2);
}

/* Floats of a partial result: two that are not used, the maximum, the sum of the weights, then a
 * sum of d values, which therefore begins at a multiple of 16 bytes. */
#define PART_WIDTH(d) ((d) + FT_CUDA_PART_HEAD)

/* The maximum of partial result 0 of a row and head; the others of the head follow it. */
__device__ __forceinline__ float *part_at(const attend_args &a, ft_attn_parts p, int h)
{
    return a.part + 2 + ((size_t)p.first * a.q.H + (size_t)h * p.n) * PART_WIDTH(a.q.d);
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
