/* Norms and rotations of queries and keys, norms of values, and storing both in the KV cache, in
 * one kernel instead of three or four: in a step of few rows each of them is mostly latency. A warp
 * has a head of a row; of keys and values in turbo encodings each of several warps encodes a group.
 * The bits are those of norm_rope, rmsnorm and kv_put. */
#include "dev/cuda/attend/kv_encode.cuh"
#include "dev/cuda/rope.cuh"

enum { WARPS = 4, PUT_ROWS = 64 /* most */ };

typedef struct heads_args {
    ft_qkv x;
    ft_batch b;
    kv_side side[2];
    kv_hadamard hadamard;
    int space;
    int groups; /* warps per head of keys or values */
} heads_args;

/* The sum of squares in the order of rmsnorm_kernel, which has 4 warps, or 16 for 512 values. */
template <int N> __device__ __forceinline__ float block_order_sum(const float (&v)[N])
{
    enum { W = N == 16 ? 16 : 4 };
    float part[W];
#pragma unroll
    for (int w = 0; w < W; w++) {
        part[w] = 0;
#pragma unroll
        for (int j = w; j < N; j += W) part[w] = fmaf(v[j], v[j], part[w]);
        part[w] = warp_sum(part[w]);
    }
#pragma unroll
    for (int o = W / 2; o; o /= 2)
#pragma unroll
        for (int w = 0; w < o; w++) part[w] += part[w + o];
    return part[0];
}

template <int N> __device__ __forceinline__ float lane_order_sum(const float (&v)[N])
{
    float sum = 0;
#pragma unroll
    for (int j = 0; j < N; j++) sum = fmaf(v[j], v[j], sum);
    return warp_sum(sum);
}

/* Stores the values lane + 32 j of a head, which a warp has; of a turbo row only group `group`. */
template <int N>
__device__ __forceinline__ void put_head(const heads_args &a, const kv_side &s, unsigned char *to,
                                         const float (&v)[N], int group)
{
    __shared__ float4 put_heads_shared[WARPS][8 * N + 32]; /* a head, and scratch of a group */
    const int lane = threadIdx.x & 31;
    float *x = (float *)put_heads_shared[threadIdx.x / 32];
    if (s.type == FT_KV_F16) {
#pragma unroll
        for (int j = 0; j < N; j++) ((uint16_t *)to)[lane + 32 * j] = kv_half(v[j]);
        return;
    }
#pragma unroll
    for (int j = 0; j < N; j++) x[lane + 32 * j] = v[j];
    __syncwarp();
    if (s.hadamard)
        put_turbo(s, a.hadamard, to, x, NULL, group, x + 32 * N);
    else
        put_row(s, to, x);
}

template <int N>
static __global__ void __launch_bounds__(32 * WARPS) put_heads_kernel(const heads_args a)
{
    const int lane = threadIdx.x & 31, warp = blockIdx.x * WARPS + threadIdx.x / 32;
    const int H = a.x.q.p ? a.x.q.H : 0, G = a.x.k.H, stored = G * a.groups;
    const int all = H + 2 * stored, t = warp / all, i = warp % all;
    const int which = i < H ? 0 : i < H + stored ? 1 : 2; /* query, key, value */
    const ft_mat &m = which == 0 ? a.x.q : which == 1 || a.x.v_of_k ? a.x.k : a.x.v;
    const int at_side = i - H - (which == 2 ? stored : 0), group = at_side % a.groups;
    const int h = which ? at_side / a.groups : i;
    if (t >= a.x.k.T) return;
    const kv_side &side = a.side[which == 2];
    if (which && group && !side.hadamard) return;
    const float *w = which == 0 ? a.x.q_norm.p : which == 1 ? a.x.k_norm.p : NULL;
    const int half = a.x.cs.H * a.x.cs.d / 64;
    float f[N], v[N], c[N / 2], s[N / 2];
#pragma unroll
    for (int j = 0; j < N; j++) f[j] = w ? __ldg(w + lane + 32 * j) : 1.0f;
    unsigned char *to = NULL;
    if (which) {
        const int slot = a.b.span[a.b.span_of[t]].slot, cell = a.b.cell[t];
        const int page = a.b.page[a.space][slot * a.b.pages_per_seq + cell / FT_PAGE_ROWS];
        to = kv_page(side, page, h) + (cell % FT_PAGE_ROWS) * side.row;
    }
    wait_for_previous_kernel();
    float *at = mat_head(m, t, h) + lane;
    const float *rot = mat_head(a.x.cs, t, 0) + lane;
#pragma unroll
    for (int j = 0; j < N; j++) v[j] = at[32 * j];
#pragma unroll
    for (int j = 0; j < N / 2; j++) {
        c[j] = which < 2 && j < half ? rot[32 * j] : 1.0f;
        s[j] = which < 2 && j < half ? rot[32 * (j + half)] : 0.0f;
    }
    if (which < 2 || a.x.norm_v) {
        const float sum = which < 2 ? lane_order_sum(v) : block_order_sum(v);
        const float r = 1.0f / sqrtf(sum / (float)(32 * N) + a.x.eps);
#pragma unroll
        for (int j = 0; j < N; j++) v[j] = v[j] * r * f[j];
    }
    if (which < 2) rotate(v, c, s, half);
    if (which) {
        put_head(a, side, to, v, group);
        return;
    }
#pragma unroll
    for (int j = 0; j < N; j++) at[32 * j] = v[j];
}

/* A cache without a recent-token window or a mean, and heads whose norms have the order of sums
 * above. */
static bool heads_fit(const ft_kv *kv, const ft_qkv *x)
{
    const int d = x->k.d;
    if (kv->mean || kv->recent) return false;
    if (x->k.T > PUT_ROWS || ft_mat_cols(x->cs) % 64 || (x->norm_v && x->v.H == 1)) return false;
    return d == 64 || d == 128 || d == 256 || d == 512;
}

static void put_apart(ft_dev *d, const ft_kv *kv, const ft_qkv *x)
{
    const ft_vec none = {};
    if (x->q.p) ft_cuda_norm_rope(d, x->q, x->q_norm, x->eps, x->cs);
    if (x->norm_v) ft_cuda_rmsnorm(d, x->v, x->v_of_k ? x->k : x->v, none, x->eps);
    ft_cuda_norm_rope(d, x->k, x->k_norm, x->eps, x->cs);
    ft_cuda_kv_put(d, kv, x->k, x->v);
    if (kv->recent) ft_cuda_kv_put(d, kv->recent, x->k, x->v);
}

extern "C" void ft_cuda_put_heads(ft_dev *d, const ft_kv *kv, const ft_qkv *x)
{
    ft_cuda *c = (ft_cuda *)d;
    if (!heads_fit(kv, x)) {
        put_apart(d, kv, x);
        return;
    }
    heads_args a;
    a.x = *x;
    a.b = c->batch;
    a.side[0] = kv_side_of(kv, false);
    a.side[1] = kv_side_of(kv, true);
    a.hadamard = kv_hadamard_of(kv->d);
    a.space = kv->space;
    a.groups = 1;
    for (int i = 0; i < 2; i++)
        if (a.side[i].hadamard) a.groups = FT_MAX(a.groups, a.side[i].width / a.hadamard.group);
    if (x->q.p) ft_cuda_wrote(c, x->q);
    const int warps = (x->q.p ? x->q.H : 0) + 2 * x->k.H * a.groups;
    const unsigned blocks = ft_blocks((size_t)x->k.T * (size_t)warps, WARPS);
    switch (x->k.d) {
    case 64: FT_LAUNCH_NEXT(c, put_heads_kernel<2>, blocks, 32 * WARPS, 0, a); return;
    case 128: FT_LAUNCH_NEXT(c, put_heads_kernel<4>, blocks, 32 * WARPS, 0, a); return;
    case 256: FT_LAUNCH_NEXT(c, put_heads_kernel<8>, blocks, 32 * WARPS, 0, a); return;
    case 512: FT_LAUNCH_NEXT(c, put_heads_kernel<16>, blocks, 32 * WARPS, 0, a); return;
    }
}
