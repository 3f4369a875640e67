/* Attention for every shape, in f32 and without tensor cores: a warp takes a row and a head and
 * processes positions 32 at a time, one lane per score, then one lane per 32nd value. For f32
 * caches and head sizes that no supported model has; not optimised. */
#include "dev/cuda/attend/attend.cuh"

enum { WARPS = 4 };

static __global__ void __launch_bounds__(32 * WARPS) attend_scalar_kernel(const attend_args a)
{
    extern __shared__ float4 attend_scalar_shared[];
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    const int i = (blockIdx.x * WARPS + warp) / a.q.H, h = (blockIdx.x * WARPS + warp) % a.q.H;
    const int g = h / a.group, kw = a.k.width, vw = a.v.width, wide = max(kw, vw);
    float *query = (float *)attend_scalar_shared + warp * 2 * wide, *sum = query + wide;
    wait_for_previous_kernel();
    if (i >= a.q.T) return;
    const int row = batch_row(a, i), slot = a.b.span[a.b.span_of[row]].slot;
    const int32_t *pages = a.b.page[a.space] + slot * a.b.pages_per_seq;
    int lo, hi;
    seen_by_row(a, i, a.b.end[row], &lo, &hi);
    const float *from = mat_head(a.q, i, h);
    for (int j = lane; j < wide; j += 32) {
        query[j] = j < a.q.d ? from[j] : 0.0f;
        sum[j] = 0;
    }
    __syncwarp();
    if (a.k.hadamard) hadamard_vector(query, kw, a.hadamard, false);
    float M = -INFINITY, L = 0;
    for (int at = lo; at < hi; at += 32) {
        const int cell = at + lane;
        float s = -INFINITY;
        if (cell < hi) {
            const unsigned char *key =
                kv_page(a.k, pages[cell / FT_PAGE_ROWS], g) + cell % FT_PAGE_ROWS * a.k.row;
            float dot = 0;
            for (int j = 0; j < kw; j++)
                dot = fmaf(query[j], kv_value(a.k, key, a.hadamard.group, j), dot);
            s = dot * a.scale;
        }
        const float top = fmaxf(M, warp_max(s)), use = top == -INFINITY ? 0 : top;
        const float fade = exp2f(M - use), p = exp2f(s - use);
        M = top;
        L = fmaf(L, fade, warp_sum(p));
        for (int j = lane; j < vw; j += 32) sum[j] *= fade;
        for (int n = 0; n < 32 && at + n < hi; n++) {
            const int one = at + n;
            const float weight = __shfl_sync(0xffffffffu, p, n);
            const unsigned char *value =
                kv_page(a.v, pages[one / FT_PAGE_ROWS], g) + one % FT_PAGE_ROWS * a.v.row;
            for (int j = lane; j < vw; j += 32)
                sum[j] = fmaf(weight, kv_value(a.v, value, a.hadamard.group, j), sum[j]);
        }
    }
    if (a.total) {
        float *to = total_at(a, i, h);
        if (!lane) to[0] = M, to[1] = L;
        __syncwarp();
        for (int j = lane; j < vw; j += 32) to[2 + j] = sum[j];
        return;
    }
    const float inverse = inverse_of(L);
    for (int j = lane; j < vw; j += 32) sum[j] *= inverse;
    __syncwarp();
    if (a.v.hadamard) hadamard_vector(sum, vw, a.hadamard, true);
    float *to = mat_head(a.o, i, h);
    for (int j = lane; j < a.o.d; j += 32) to[j] = sum[j];
}

void ft_cuda_attend_scalar(ft_cuda *c, const attend_args *a)
{
    const size_t wide = (size_t)FT_MAX(a->k.width, a->v.width);
    FT_LAUNCH_NEXT(c, attend_scalar_kernel, ft_blocks((size_t)a->q.T * a->q.H, WARPS), 32 * WARPS,
                   WARPS * 2 * wide * sizeof(float), *a);
}
