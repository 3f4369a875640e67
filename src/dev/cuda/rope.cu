/* RoPE angles, norm with RoPE, and gated norm. A warp computes a head of a row. In a step of few
 * rows norm_rope takes 1.3 us and gated_norm 3 us on an H200, all of it latency. In a prompt, 2048
 * rows of the 27b: 27 us (59 MB, 48 % of a plain read: the vectors are short and a warp has only
 * one) and 66 us (201 MB with the bf16 copy, 65 %). */
#include "dev/cuda/rope.cuh"

enum { WARPS = 4 };

static __global__ void angles_kernel(ft_mat cs, ft_rope r, ft_batch b)
{
    wait_for_previous_kernel();
    const int half = r.n / 2, i = blockIdx.x * blockDim.x + threadIdx.x, t = i / half, j = i % half;
    if (t >= cs.T) return;
    double sine, cosine;
    sincos((double)b.pos[r.axis[j]][t] * r.freq[j], &sine, &cosine);
    float *row = mat_head(cs, t, 0);
    row[j] = (float)(cosine * (double)r.mscale);
    row[j + half] = (float)(sine * (double)r.mscale);
}

extern "C" void ft_cuda_rope_angles(ft_dev *d, ft_mat cs, const ft_rope *r)
{
    ft_cuda *c = (ft_cuda *)d;
    ft_cuda_wrote(c, cs);
    if (r->n < 2) return;
    FT_LAUNCH_NEXT(c, angles_kernel, ft_blocks((size_t)cs.T * (r->n / 2), 128), 128, 0, cs, *r,
                   c->batch);
}

__device__ __forceinline__ float inverse_rms(const float *x, int d, float eps)
{
    float sum = 0;
    for (int i = threadIdx.x & 31; i < d; i += 32) sum = fmaf(x[i], x[i], sum);
    return 1.0f / sqrtf(warp_sum(sum) / (float)d + eps);
}

static __global__ void __launch_bounds__(32 * WARPS)
    norm_rope_kernel(ft_mat x, ft_vec w, float eps, ft_mat cs)
{
    const int lane = threadIdx.x & 31, i = blockIdx.x * WARPS + threadIdx.x / 32;
    wait_for_previous_kernel();
    const int t = i / x.H, n = cs.H * cs.d, half = n / 2;
    if (t >= x.T) return;
    float *v = mat_head(x, t, i % x.H);
    const float *rot = mat_head(cs, t, 0);
    const float r = eps >= 0 ? inverse_rms(v, x.d, eps) : 1.0f;
    for (int j = lane; j < half; j += 32) {
        const float wa = w.p ? w.p[j] : 1.0f, wb = w.p ? w.p[j + half] : 1.0f;
        const float a = v[j] * r * wa, b = v[j + half] * r * wb;
        const float c = rot[j], s = rot[j + half];
        v[j] = a * c - b * s;
        v[j + half] = b * c + a * s;
    }
    for (int j = n + lane; j < x.d; j += 32) v[j] = v[j] * r * (w.p ? w.p[j] : 1.0f);
}

/* The same for heads of 32 N values where both values of a pair are in the same lane: everything is
 * read at once. */
template <int N>
static __global__ void __launch_bounds__(32 * WARPS)
    norm_rope_lanes_kernel(ft_mat x, ft_vec w, float eps, ft_mat cs)
{
    const int lane = threadIdx.x & 31, i = blockIdx.x * WARPS + threadIdx.x / 32;
    const int t = i / x.H, half = cs.H * cs.d / 64;
    float f[N], v[N], c[N / 2], s[N / 2], sum = 0;
#pragma unroll
    for (int j = 0; j < N; j++) f[j] = w.p ? __ldg(w.p + lane + 32 * j) : 1.0f;
    wait_for_previous_kernel();
    if (t >= x.T) return;
    float *at = mat_head(x, t, i % x.H) + lane;
    const float *rot = mat_head(cs, t, 0) + lane;
#pragma unroll
    for (int j = 0; j < N; j++) v[j] = at[32 * j];
#pragma unroll
    for (int j = 0; j < N / 2; j++) {
        c[j] = j < half ? rot[32 * j] : 1.0f;
        s[j] = j < half ? rot[32 * (j + half)] : 0.0f;
    }
#pragma unroll
    for (int j = 0; j < N; j++) sum = fmaf(v[j], v[j], sum);
    const float r = eps >= 0 ? 1.0f / sqrtf(warp_sum(sum) / (float)x.d + eps) : 1.0f;
#pragma unroll
    for (int j = 0; j < N; j++) v[j] = v[j] * r * f[j];
    rotate(v, c, s, half);
#pragma unroll
    for (int j = 0; j < N; j++) at[32 * j] = v[j];
}

typedef void norm_rope_fn(ft_mat x, ft_vec w, float eps, ft_mat cs);

static norm_rope_fn *norm_rope_of(int d, int rotated)
{
    if (rotated % 64) return norm_rope_kernel;
    switch (d) {
    case 64: return norm_rope_lanes_kernel<2>;
    case 128: return norm_rope_lanes_kernel<4>;
    case 256: return norm_rope_lanes_kernel<8>;
    case 512: return norm_rope_lanes_kernel<16>;
    }
    return norm_rope_kernel;
}

extern "C" void ft_cuda_norm_rope(ft_dev *d, ft_mat x, ft_vec w, float eps, ft_mat cs)
{
    ft_cuda *c = (ft_cuda *)d;
    if (eps < 0) w.p = NULL;
    ft_cuda_wrote(c, x);
    norm_rope_fn *norm_rope = norm_rope_of(x.d, ft_mat_cols(cs));
    FT_LAUNCH_NEXT(c, norm_rope, ft_blocks((size_t)x.T * x.H, WARPS), 32 * WARPS, 0, x, w, eps, cs);
}

/* The result is the input of the next product: its copies are written too, if it has any. */
typedef struct gated_bf16 {
    uint16_t *p, *hadamard; /* NULL: there is none */
    ft_plane plane;
    bool wide;
} gated_bf16;

static __global__ void __launch_bounds__(32 * WARPS)
    gated_norm_kernel(ft_mat y, ft_mat o, ft_mat z, ft_vec w, float eps, gated_bf16 s)
{
    const int lane = threadIdx.x & 31, i = blockIdx.x * WARPS + threadIdx.x / 32;
    const int t = i / o.H, h = i % o.H;
    prefetch_l2(w.p, o.d * 4, lane, 32);
    wait_for_previous_kernel();
    if (t >= o.T) return;
    const float *in = mat_head(o, t, h), *gate = mat_head(z, t, h);
    float *out = mat_head(y, t, h);
    const float r = inverse_rms(in, o.d, eps);
    for (int j = lane; j < o.d; j += 32) {
        const float v = in[j] * r * w.p[j] * silu(gate[j]);
        out[j] = v;
        if (s.p) bf16_put(s.p, s.plane, bf16_index(o.T, s.wide, t, h * o.d + j), v);
    }
}

/* The same for heads of 64 N values: everything is read at once. */
template <int N>
static __global__ void __launch_bounds__(32 * WARPS)
    gated_norm_lanes_kernel(ft_mat y, ft_mat o, ft_mat z, ft_vec w, float eps, gated_bf16 s)
{
    const int lane = threadIdx.x & 31, i = blockIdx.x * WARPS + threadIdx.x / 32;
    const int t = i / o.H, h = i % o.H;
    float2 f[N], v[N], gate[N];
    float sum = 0;
#pragma unroll
    for (int j = 0; j < N; j++) f[j] = __ldg((const float2 *)w.p + lane + 32 * j);
    wait_for_previous_kernel();
    if (t >= o.T) return;
#pragma unroll
    for (int j = 0; j < N; j++) {
        v[j] = ((const float2 *)mat_head(o, t, h))[lane + 32 * j];
        gate[j] = ((const float2 *)mat_head(z, t, h))[lane + 32 * j];
    }
#pragma unroll
    for (int j = 0; j < N; j++) sum = fmaf(v[j].y, v[j].y, fmaf(v[j].x, v[j].x, sum));
    const float r = 1.0f / sqrtf(warp_sum(sum) / (float)o.d + eps);
#pragma unroll
    for (int j = 0; j < N; j++) {
        const float2 u = make_float2(v[j].x * r * f[j].x * silu(gate[j].x),
                                     v[j].y * r * f[j].y * silu(gate[j].y));
        const int c = 2 * lane + 64 * j;
        *(float2 *)(mat_head(y, t, h) + c) = u;
        if (s.p) bf16_put_pair(s.p, s.plane, bf16_index(o.T, s.wide, t, h * o.d + c), u);
        if (s.hadamard) {
            float two[2] = {u.x, u.y};
            hadamard_put(s.hadamard, o.T, s.wide, t, h * o.d + c, two, true);
        }
    }
}

typedef void gated_norm_fn(ft_mat y, ft_mat o, ft_mat z, ft_vec w, float eps, gated_bf16 s);

static gated_norm_fn *gated_norm_of(ft_mat y, ft_mat o, ft_mat z, ft_vec w)
{
    const bool twos = mat_even(y) && mat_even(o) && mat_even(z) && (uintptr_t)w.p % 8 == 0;
    if (twos && o.d == 64) return gated_norm_lanes_kernel<1>;
    if (twos && o.d == 128) return gated_norm_lanes_kernel<2>;
    if (twos && o.d == 256) return gated_norm_lanes_kernel<4>;
    return gated_norm_kernel;
}

/* m as H heads of d values. */
static ft_mat as_heads(ft_mat m, int H, int d)
{
    assert(m.d == d || m.hs == m.d);
    if (m.d != d) m.hs = d;
    m.H = H;
    m.d = d;
    return m;
}

extern "C" void ft_cuda_gated_norm(ft_dev *d, ft_mat y, ft_mat o, ft_mat z, ft_vec w, float eps)
{
    ft_cuda *c = (ft_cuda *)d;
    y = as_heads(y, o.H, o.d);
    z = as_heads(z, o.H, o.d);
    gated_norm_fn *gated_norm = gated_norm_of(y, o, z, w);
    gated_bf16 s = {};
    s.p = ft_cuda_wrote_with_bf16(c, y, &s.plane.half);
    s.plane.at = bf16_plane(o.T, o.H * o.d);
    s.wide = ft_cuda_wide(c, o.T);
    if (gated_norm != gated_norm_kernel) s.hadamard = ft_cuda_wrote_with_hadamard(c, y);
    FT_LAUNCH_NEXT(c, gated_norm, ft_blocks((size_t)o.T * o.H, WARPS), 32 * WARPS, 0, y, o, z, w,
                   eps, s);
}
