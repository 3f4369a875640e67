/* Ops that read single rows of a weight in file layout: embed and centroid_head. A row has a few
 * kilobytes: 2.5 us for an embedding on an H200, all of it latency. 2048 rows of 5120 values take
 * 126 us (48 MB, 8 % of a plain read; 0.06 % of a prompt): each thread decodes the scales of its
 * block again. */
#include "dev/cuda/quant.cuh"

/* ---- embed ---- */

/* A thread has eight columns of a row. */
static __global__ void embed_kernel(ft_mat y, const uint8_t *w, size_t row_bytes, int type, int k,
                                    const uint16_t *grid, const int32_t *token,
                                    const int32_t *drawn, float scale, const float *w_scale)
{
    wait_for_previous_kernel();
    const int t = blockIdx.x, i = (blockIdx.y * blockDim.x + threadIdx.x) * 8;
    if (i >= k) return;
    int id = token[t];
    if (id < 0) id = max(0, drawn[-1 - id]); /* same as ft_token_of */
    float v[8];
    decode8(type, w + (size_t)id * row_bytes, i, k, v, grid);
    const float s = scale * (w_scale ? *w_scale : 1.0f);
    for (int j = 0; j < 8 && i + j < k; j++) *mat_value(y, t, i + j) = s * v[j];
}

extern "C" void ft_cuda_embed(ft_dev *d, ft_mat y, const ft_weight *w, float scale)
{
    ft_cuda *c = (ft_cuda *)d;
    assert(w->lookup || w->rows || !w->packed);
    ft_cuda_wrote(c, y);
    const dim3 grid((unsigned)y.T, ft_blocks((size_t)w->k, 8 * 64));
    FT_LAUNCH_NEXT(c, embed_kernel, grid, 64, 0, y, (const uint8_t *)w->data, w->row_bytes,
                   (int)w->type, w->k, c->grid, c->batch.token, c->batch.drawn, scale, w->scale);
}

/* ---- centroid_head ---- */

/* Sort order of scores: the larger first, then the lower index; a NaN counts as -inf. */
__device__ __forceinline__ bool before(float a, int i, float b, int j)
{
    return a > b || (a == b && i < j);
}

__device__ __forceinline__ float number(float x)
{
    return x == x ? x : -INFINITY;
}

/* The `top` centroids of a row in descending order; a block has one row. */
static __global__ void centroids_kernel(int32_t *chosen, ft_mat score, int n_c, int top)
{
    wait_for_previous_kernel();
    __shared__ float best[32];
    __shared__ int at[32];
    __shared__ int last;
    const int t = blockIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    float bound = INFINITY;
    int bound_at = -1;
    for (int i = 0; i < top; i++) {
        float v = -INFINITY;
        int k = 0x7fffffff;
        for (int j = threadIdx.x; j < n_c; j += blockDim.x) {
            const float x = number(*mat_value(score, t, j));
            if (!before(bound, bound_at, x, j)) continue; /* taken already */
            if (before(x, j, v, k)) v = x, k = j;
        }
        for (int o = 16; o; o >>= 1) {
            const float w = __shfl_xor_sync(~0u, v, o);
            const int j = __shfl_xor_sync(~0u, k, o);
            if (before(w, j, v, k)) v = w, k = j;
        }
        if (!lane) best[warp] = v, at[warp] = k;
        __syncthreads();
        if (!threadIdx.x) {
            for (int j = 1; j < (int)blockDim.x / 32; j++)
                if (before(best[j], at[j], best[0], at[0])) best[0] = best[j], at[0] = at[j];
            last = at[0] < n_c ? at[0] : 0;
            chosen[t * top + i] = last;
        }
        __syncthreads();
        bound_at = last;
        bound = number(*mat_value(score, t, last));
        __syncthreads();
    }
}

static __global__ void minus_inf_kernel(ft_mat y)
{
    wait_for_previous_kernel();
    const int t = blockIdx.x, c = blockIdx.y * blockDim.x + threadIdx.x;
    if (c < y.H * y.d) *mat_value(y, t, c) = -INFINITY;
}

typedef struct head_args {
    ft_mat y, x;
    const uint8_t *w;
    size_t row_bytes;
    int type, k, group, top;
    const uint16_t *grid;
    const int32_t *order, *chosen;
    const float *scale;
} head_args;

/* A warp has one token of a chosen centroid. */
static __global__ void centroid_dot_kernel(const __grid_constant__ head_args a)
{
    wait_for_previous_kernel();
    const int t = blockIdx.x, lane = threadIdx.x & 31;
    const int i = blockIdx.y * (blockDim.x >> 5) + (threadIdx.x >> 5);
    if (i >= a.group * a.top) return;
    const int id = a.order[(size_t)a.chosen[t * a.top + i / a.group] * a.group + i % a.group];
    const float *x = mat_head(a.x, t, 0);
    float sum = 0;
    for (int k = 8 * lane; k < a.k; k += 256) {
        float v[8];
        decode8(a.type, a.w + (size_t)id * a.row_bytes, k, a.k, v, a.grid);
        for (int j = 0; j < 8 && k + j < a.k; j++) sum = fmaf(v[j], x[k + j], sum);
    }
    sum = warp_sum(sum);
    if (!lane) *mat_value(a.y, t, id) = sum * (a.scale ? *a.scale : 1.0f);
}

extern "C" void ft_cuda_centroid_head(ft_dev *d, ft_mat y, ft_mat x, ft_mat score,
                                      const ft_weight *w, const int32_t *order, int top)
{
    ft_cuda *c = (ft_cuda *)d;
    const int n_c = ft_mat_cols(score), group = w->n / n_c, some = FT_MIN(top, n_c);
    assert(w->rows || !w->packed);
    int32_t *chosen = (int32_t *)ft_cuda_scratch(c, FT_SCRATCH_LINEAR,
                                                 (size_t)x.T * (size_t)some * sizeof(int32_t));
    if (!chosen || !x.T) return;
    ft_cuda_wrote(c, y);
    const head_args a = {y,
                         x,
                         (const uint8_t *)w->data,
                         w->row_bytes,
                         (int)w->type,
                         w->k,
                         group,
                         some,
                         c->grid,
                         order,
                         chosen,
                         w->scale};
    FT_LAUNCH_NEXT(c, centroids_kernel, (unsigned)x.T, 256, 0, chosen, score, n_c, some);
    FT_LAUNCH_NEXT(c, minus_inf_kernel, dim3((unsigned)x.T, ft_blocks((size_t)w->n, 256)), 256, 0,
                   y);
    FT_LAUNCH_NEXT(c, centroid_dot_kernel,
                   dim3((unsigned)x.T, ft_blocks((size_t)group * (size_t)some, 8)), 256, 0, a);
}
