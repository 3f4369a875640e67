/* dev/cuda/attend/attend_image.cuh - shared by the two kernels for the attention of vision towers.
 */
#ifndef FT_CUDA_ATTEND_IMAGE_CUH
#define FT_CUDA_ATTEND_IMAGE_CUH

#include "dev/cuda/common.cuh"
#include "dev/cuda/mma.cuh"
#include "dev/cuda/spans.cuh"

typedef struct image_args {
    ft_image_attn a;
    ft_mat o;
    unsigned char *q, *k, *v; /* [H][rows][D] f16, in an order of the kernel's own */
    int rows;                 /* at least those of a, zeros behind them */
    int tiles;                /* of a head */
    float scale;              /* times log2(e) */
} image_args;

/* attend_image_wgmma.cu: on GPUs with warpgroup instructions. */
void ft_cuda_attend_image_wgmma(ft_cuda *c, image_args *p);

/* Scratch memory for heads of D values: p->q, p->k, p->v. */
static inline bool image_heads(ft_cuda *c, image_args *p, int D)
{
    const size_t side = 2 * (size_t)D * (size_t)p->rows * (size_t)p->a.q.H;
    p->q = (unsigned char *)ft_cuda_scratch(c, FT_SCRATCH_IMAGE, 3 * side);
    p->k = p->q + side;
    p->v = p->k + side;
    return p->q;
}

/* ---- queries, keys and values ---- */

/* A warp reads one head of q, k or v (which: 0, 1, 2) of row t and normalises it; zeros beyond its
 * width, and in rows beyond the last. */
template <int D>
__device__ __forceinline__ void load_head(const image_args &p, int which, int t, int h, float *v)
{
    const int lane = threadIdx.x & 31, d = p.a.q.d;
    const ft_mat &m = which == 0 ? p.a.q : which == 1 ? p.a.k : p.a.v;
    const float *w = which == 0 ? p.a.q_norm.p : which == 1 ? p.a.k_norm.p : NULL;
    float sum = 0;
    for (int i = lane; i < D; i += 32) {
        const float x = t < m.T && i < d ? mat_head(m, t, h)[i] : 0.0f;
        v[i] = x;
        sum = fmaf(x, x, sum);
    }
    if (p.a.eps >= 0) {
        const float r = 1.0f / sqrtf(warp_sum(sum) / (float)d + p.a.eps);
        for (int i = lane; i < d; i += 32) v[i] = v[i] * r * (w ? w[i] : 1.0f);
    }
    __syncwarp();
}

/* Value i of a head that load_head has read; queries and keys are rotated. */
__device__ __forceinline__ float head_value(const image_args &p, int which, int t, const float *v,
                                            int i)
{
    const int d = p.a.q.d;
    if (which == 2 || t >= p.a.q.T || i >= d) return v[i];
    const int part = p.a.cs[1].p && i >= d / 2, at = part ? i - d / 2 : i;
    const ft_mat &cs = p.a.cs[part];
    const int n = cs.H * cs.d, half = n / 2;
    if (at >= n) return v[i];
    const float *rot = mat_head(cs, t, 0) + (at < half ? at : at - half), c = rot[0], s = rot[half];
    return at < half ? v[i] * c - v[i + half] * s : v[i] * c + v[i - half] * s;
}

/* ---- results ---- */

/* Values i and i + 1 of a head of row t. */
__device__ __forceinline__ void put_pair(const image_args &p, int t, int h, int i, float a, float b)
{
    const int d = p.a.q.d;
    if (t >= p.o.T || i >= d) return;
    if (p.o.operand)
        *(uint32_t *)operand_at(p.o, t, h * d + i) = operand_pair(a, b);
    else
        *(float2 *)(mat_head(p.o, t, h) + i) = make_float2(a, b);
}

#endif
