/* Stores keys and values in the KV cache, byte for byte as quant/ encodes them: sums that decide
 * about a byte run over ascending indices, and multiply-adds are not fused. A warp writes a row, or
 * a group of a turbo row, whose time is that of two dependent sums of 128 values. A few kilobytes
 * per step: 3 us for f16 and q8_0, 4.5 us for turbo4 on an H200, all of it latency. A prompt's 2048
 * rows of the 27b take 33 us (25 MB, 17 % of a plain read; 0.2 % of the step): a warp has 1.5 KB to
 * copy after it has looked up the page. */
#include "dev/cuda/attend/kv_encode.cuh"

enum { WARPS = 4 };

typedef struct put_args {
    ft_batch b;
    kv_side side[2];
    kv_hadamard hadamard;
    ft_mat x[2];
    const float *mean; /* [G, d] of the keys, or NULL */
    int space, T;
    int groups; /* warps per row */
} put_args;

static __global__ void __launch_bounds__(32 * WARPS) kv_put_kernel(const put_args a)
{
    extern __shared__ float4 kv_put_shared[];
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    const int at = blockIdx.x * WARPS + warp, group = at % a.groups, i = at / a.groups;
    const int which = i & 1, G = a.side[0].G, t = i / 2 / G, g = i / 2 % G;
    const kv_side &s = a.side[which];
    const int padded = (s.d + 127) / 128 * 128;
    float *x = (float *)kv_put_shared + warp * padded;
    if (t >= a.T || group >= (s.hadamard ? s.width / a.hadamard.group : 1)) return;
    const int slot = a.b.span[a.b.span_of[t]].slot, cell = a.b.cell[t];
    const int page = a.b.page[a.space][slot * a.b.pages_per_seq + cell / FT_PAGE_ROWS];
    const float *from = mat_head(a.x[which], t, g);
    const float *mean = which || !a.mean ? NULL : a.mean + g * s.d;
    unsigned char *to = kv_page(s, page, g) + (cell % FT_PAGE_ROWS) * s.row;
    wait_for_previous_kernel();
    if (s.hadamard) {
        put_turbo(s, a.hadamard, to, from, mean, group, x);
        return;
    }
#pragma unroll 8
    for (int j = lane; j < padded; j += 32) {
        const float v = j < s.d ? from[j] : 0.0f;
        x[j] = mean && j < s.d ? __fsub_rn(v, mean[j]) : v;
    }
    __syncwarp();
    put_row(s, to, x);
}

/* Many rows of f16, without a mean: a thread has eight values. */
static __global__ void __launch_bounds__(256) kv_put_halves_kernel(const put_args a)
{
    const int pieces = a.side[0].d / 8, G = a.side[0].G;
    const int i = blockIdx.x * blockDim.x + threadIdx.x, at = i / pieces, c = i % pieces * 8;
    const int which = at & 1, t = at / 2 / G, g = at / 2 % G;
    if (t >= a.T) return;
    const kv_side &s = a.side[which];
    const int slot = a.b.span[a.b.span_of[t]].slot, cell = a.b.cell[t];
    const int page = a.b.page[a.space][slot * a.b.pages_per_seq + cell / FT_PAGE_ROWS];
    unsigned char *to = kv_page(s, page, g) + (cell % FT_PAGE_ROWS) * s.row + 2 * c;
    wait_for_previous_kernel();
    const float *from = mat_head(a.x[which], t, g) + c;
    float v[8];
    *(float4 *)v = ((const float4 *)from)[0];
    *(float4 *)(v + 4) = ((const float4 *)from)[1];
#pragma unroll
    for (int j = 0; j < 8; j++) v[j] = fminf(fmaxf(finite_or_zero(v[j]), -65504.0f), 65504.0f);
    *(uint4 *)to = pack_eight(v);
}

/* Whether heads of eight values at a time are at multiples of 16 bytes. */
static bool in_eights(const put_args *a)
{
    for (int i = 0; i < 2; i++) {
        const ft_mat *x = &a->x[i];
        if (a->side[i].type != FT_KV_F16 || x->d % 8 || x->hs % 4 || x->rs % 4 ||
            (uintptr_t)x->p % 16)
            return false;
    }
    return a->T > FT_SHAPE_ROWS && !a->mean;
}

extern "C" void ft_cuda_kv_put(ft_dev *dev, const ft_kv *kv, ft_mat k, ft_mat v)
{
    ft_cuda *c = (ft_cuda *)dev;
    put_args a;
    a.b = c->batch;
    a.side[0] = kv_side_of(kv, false);
    a.side[1] = kv_side_of(kv, true);
    a.hadamard = kv_hadamard_of(kv->d);
    a.x[0] = k;
    a.x[1] = v;
    a.mean = kv->mean;
    a.space = kv->space;
    a.T = k.T;
    a.groups = 1;
    if (in_eights(&a)) {
        FT_LAUNCH_NEXT(c, kv_put_halves_kernel,
                       ft_blocks((size_t)k.T * kv->G * 2 * (size_t)(kv->d / 8), 256), 256, 0, a);
        return;
    }
    for (int i = 0; i < 2; i++)
        if (a.side[i].hadamard) a.groups = FT_MAX(a.groups, a.side[i].width / a.hadamard.group);
    const size_t shared = WARPS * sizeof(float) * ((size_t)(kv->d + 127) / 128 * 128);
    FT_LAUNCH_NEXT(c, kv_put_kernel, ft_blocks((size_t)k.T * kv->G * 2 * a.groups, WARPS),
                   32 * WARPS, shared, a);
}
