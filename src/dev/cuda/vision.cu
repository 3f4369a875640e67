/* What vision towers need beside the ops of text models: norms with a mean, biases and their
 * activations, bounds, mixtures of rows. All of it is bound by memory. */
#include "dev/cuda/common.cuh"

enum { THREADS = 256 };

static dim3 grid_of(ft_mat y)
{
    return dim3((unsigned)y.T, FT_MIN(ft_blocks((size_t)ft_mat_cols(y), THREADS), 65535u));
}

#define FOR_COLUMNS(c, cols)                                                                       \
    for (int c = blockIdx.y * blockDim.x + threadIdx.x; c < (cols); c += blockDim.x * gridDim.y)

/* A block has a row and writes its bf16 copy or operand too; its threads, and so the order of the
 * sums, depend on nothing else. The squares are those of differences from the mean. */
static __global__ void layernorm_kernel(ft_mat y, ft_mat x, const float *w, const float *b,
                                        float eps, out_bf16 s)
{
    wait_for_previous_kernel();
    __shared__ float sums[33];
    const int t = blockIdx.x, n = x.d;
    const float *in = mat_head(x, t, 0);
    float sum = 0, squares = 0;
    for (int i = threadIdx.x; i < n; i += THREADS) sum += in[i];
    const float mean = block_sum(sum, sums) / (float)n;
    for (int i = threadIdx.x; i < n; i += THREADS) squares += (in[i] - mean) * (in[i] - mean);
    const float r = 1.0f / sqrtf(block_sum(squares, sums) / (float)n + eps);
    for (int i = threadIdx.x; i < n; i += THREADS)
        put(y, s, t, i, (in[i] - mean) * r * w[i] + b[i]);
    if (s.operand) operand_end(y, t);
}

/* true: rows and heads can be read in pieces of four values. */
static bool in_fours(ft_mat m)
{
    return (uintptr_t)m.p % 16 == 0 && m.d % 4 == 0 && m.rs % 4 == 0 && (m.H == 1 || m.hs % 4 == 0);
}

/* The same into an operand: a warp has a row, and reads it once. */
enum { ROW_FOURS = 12 }; /* maximum float4 values per lane */

static __global__ void layernorm_operand_kernel(ft_mat y, ft_mat x, const float *w, const float *b,
                                                float eps)
{
    const int lane = threadIdx.x & 31, t = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    const int n = x.d / 4;
    wait_for_previous_kernel();
    if (t >= x.T) return;
    const float4 *in = (const float4 *)mat_head(x, t, 0);
    float4 v[ROW_FOURS];
    float sum = 0, squares = 0;
#pragma unroll
    for (int k = 0; k < ROW_FOURS; k++) {
        const int i = lane + 32 * k;
        v[k] = i < n ? in[i] : make_float4(0, 0, 0, 0);
        sum += (v[k].x + v[k].y) + (v[k].z + v[k].w);
    }
    const float mean = warp_sum(sum) / (float)x.d;
#pragma unroll
    for (int k = 0; k < ROW_FOURS; k++) {
        v[k] = make_float4(v[k].x - mean, v[k].y - mean, v[k].z - mean, v[k].w - mean);
        if (lane + 32 * k < n)
            squares += (v[k].x * v[k].x + v[k].y * v[k].y) + (v[k].z * v[k].z + v[k].w * v[k].w);
    }
    const float r = 1.0f / sqrtf(warp_sum(squares) / (float)x.d + eps);
#pragma unroll
    for (int k = 0; k < ROW_FOURS; k++) {
        const int i = lane + 32 * k;
        if (i >= n) break;
        const float4 f = ((const float4 *)w)[i], g = ((const float4 *)b)[i];
        *(uint2 *)operand_at(y, t, 4 * i) =
            make_uint2(operand_pair(v[k].x * r * f.x + g.x, v[k].y * r * f.y + g.y),
                       operand_pair(v[k].z * r * f.z + g.z, v[k].w * r * f.w + g.w));
    }
    for (int c = x.d + lane; c < (x.d + 63) / 64 * 64; c += 32) operand_put(y, t, c, 0);
}

extern "C" void ft_cuda_layernorm(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, ft_vec b, float eps)
{
    ft_cuda *c = (ft_cuda *)d;
    const out_bf16 s = out_bf16_of(c, y);
    if (s.operand && in_fours(x) && x.d <= 128 * ROW_FOURS && (uintptr_t)w.p % 16 == 0 &&
        (uintptr_t)b.p % 16 == 0) {
        FT_LAUNCH_NEXT(c, layernorm_operand_kernel, ft_blocks((size_t)y.T, THREADS / 32), THREADS,
                       0, y, x, w.p, b.p, eps);
        return;
    }
    FT_LAUNCH_NEXT(c, layernorm_kernel, (unsigned)y.T, THREADS, 0, y, x, w.p, b.p, eps, s);
}

__device__ __forceinline__ float activated(float x, int act)
{
    if (act == FT_ACT_NONE) return x;
    if (act == FT_GELU_ERF) return 0.5f * x * erfcf(x * -0.70710678f); /* 1 + erf cancels */
    return act_of(x, act);
}

/* A thread has N columns, one or four. The bf16 copy is padded with zeros. */
template <int N>
static __global__ void affine_kernel(ft_mat y, const float *b, const float *w, int act, out_bf16 s)
{
    wait_for_previous_kernel();
    const int t = blockIdx.x, i = (blockIdx.y * blockDim.x + threadIdx.x) * N;
    float v[N] = {};
    if (i < y.d) {
        float *at = mat_head(y, t, 0) + i;
        if (N == 4)
            *(float4 *)v = *(const float4 *)at;
        else
            v[0] = at[0];
#pragma unroll
        for (int j = 0; j < N; j++)
            v[j] = activated((v[j] + (b ? b[i + j] : 0.0f)) * (w ? w[i + j] : 1.0f), act);
        if (N == 4)
            *(float4 *)at = *(const float4 *)v;
        else
            at[0] = v[0];
    }
    if (!s.p || i >= (y.d + 63) / 64 * 64) return;
    if (N == 1) bf16_put(s.p, s.plane, bf16_index(s.T, s.wide, t, i), v[0]);
#pragma unroll
    for (int j = 0; j + 1 < N; j += 2)
        bf16_put_pair(s.p, s.plane, bf16_index(s.T, s.wide, t, i + j), make_float2(v[j], v[j + 1]));
}

/* After an activation comes a product, for which the copy is written. */
extern "C" void ft_cuda_affine(ft_dev *d, ft_mat y, ft_vec b, ft_vec w, ft_act act)
{
    ft_cuda *c = (ft_cuda *)d;
    out_bf16 s = {};
    ft_cuda_wrote(c, y);
    if (act != FT_ACT_NONE) {
        s.p = ft_cuda_new_copy(c, y, &s.plane.half);
        s.plane.at = bf16_plane(y.T, y.d);
        s.T = y.T;
        s.wide = ft_cuda_wide(c, y.T);
    }
    const int n = in_fours(y) ? 4 : 1;
    const dim3 grid((unsigned)y.T, ft_blocks((size_t)((y.d + 63) / 64 * 64 / n), THREADS));
    FT_LAUNCH_NEXT(c, n == 4 ? affine_kernel<4> : affine_kernel<1>, grid, THREADS, 0, y, b.p, w.p,
                   (int)act, s);
}

__device__ __forceinline__ float bounded(float x, float lo, float hi)
{
    return fminf(fmaxf(x, lo), hi);
}

template <int N> static __global__ void clamp_kernel(ft_mat y, ft_mat x, float lo, float hi)
{
    wait_for_previous_kernel();
    const int t = blockIdx.x, i = (blockIdx.y * blockDim.x + threadIdx.x) * N;
    if (y.operand && !blockIdx.y) operand_end(y, t);
    if (i >= y.H * y.d) return;
    if (N == 1) {
        const float v = bounded(*mat_value(x, t, i), lo, hi);
        if (y.operand)
            operand_put(y, t, i, v);
        else
            *mat_value(y, t, i) = v;
        return;
    }
    float4 v = *(const float4 *)mat_value(x, t, i);
    v = make_float4(bounded(v.x, lo, hi), bounded(v.y, lo, hi), bounded(v.z, lo, hi),
                    bounded(v.w, lo, hi));
    if (y.operand)
        *(uint2 *)operand_at(y, t, i) = make_uint2(operand_pair(v.x, v.y), operand_pair(v.z, v.w));
    else
        *(float4 *)mat_value(y, t, i) = v;
}

extern "C" void ft_cuda_clamp(ft_dev *d, ft_mat y, ft_mat x, float lo, float hi)
{
    ft_cuda *c = (ft_cuda *)d;
    ft_cuda_wrote(c, y);
    const int n = in_fours(y) && in_fours(x) ? 4 : 1;
    const dim3 grid((unsigned)y.T, ft_blocks((size_t)(ft_mat_cols(y) / n), THREADS));
    FT_LAUNCH_NEXT(c, n == 4 ? clamp_kernel<4> : clamp_kernel<1>, grid, THREADS, 0, y, x, lo, hi);
}

static __global__ void mix_kernel(ft_mat y, ft_mat x, ft_mixing m, bool acc)
{
    wait_for_previous_kernel();
    const int t = blockIdx.x;
    float *at = mat_head(y, t, 0);
    FOR_COLUMNS(i, y.d)
    {
        float v = acc ? at[i] : 0.0f;
        for (int j = 0; j < m.n; j++)
            v = fmaf(m.w[t * m.n + j], mat_head(x, m.row[t * m.n + j], 0)[i], v);
        at[i] = v;
    }
}

extern "C" void ft_cuda_mix(ft_dev *d, ft_mat y, ft_mat x, ft_mixing m, bool acc)
{
    ft_cuda *c = (ft_cuda *)d;
    ft_cuda_wrote(c, y);
    FT_LAUNCH_NEXT(c, mix_kernel, grid_of(y), THREADS, 0, y, x, m, acc);
}

static __global__ void image_rows_kernel(ft_mat y, ft_mat x, const int32_t *image_row)
{
    wait_for_previous_kernel();
    const int t = blockIdx.x, from = image_row[t];
    if (from < 0) return;
    FOR_COLUMNS(i, y.d)
    mat_head(y, t, 0)[i] = mat_head(x, from, 0)[i];
}

extern "C" void ft_cuda_image_rows(ft_dev *d, ft_mat y, ft_mat x)
{
    ft_cuda *c = (ft_cuda *)d;
    ft_cuda_wrote(c, y);
    FT_LAUNCH_NEXT(c, image_rows_kernel, grid_of(y), THREADS, 0, y, x, c->batch.image_row);
}
