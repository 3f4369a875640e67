/* Norms and element-wise ops. All of them are bound by memory: the traffic is that of the inputs
 * and outputs, once. Results that products will read get their bf16 copy here. In a step of few
 * rows latency dominates: a norm of 5120 values takes 2.3 us on an H200, of 2048 values 1.5 us: the
 * wait for the previous kernel, one read, a sum over the block and one write. In a prompt of 2048
 * rows a norm takes 52 us with its bf16 copy (126 MB, 2.4 TB/s, 52 % of a plain read: a block
 * reads, waits for its sum, then writes), norm_add of 5376 values with one following norm 96 us
 * (220 MB, 49 %, for the same reason, twice), sigmoid_mul 66 us (201 MB, 65 %). */
#include "dev/cuda/norm.cuh"

/* ---- norms ---- */

/* A block computes one head of one row. The number of threads, and so the order of the sum, depends
 * on d only. */
static __global__ void rmsnorm_kernel(ft_mat y, ft_mat x, const float *w, float eps, out_bf16 s)
{
    wait_for_previous_kernel();
    __shared__ float sums[33];
    const int t = blockIdx.x / x.H, h = blockIdx.x % x.H;
    const float *in = mat_head(x, t, h);
    float sum = 0;
    for (int i = threadIdx.x; i < x.d; i += blockDim.x) sum += in[i] * in[i];
    sum = block_sum(sum, sums);
    const float r = 1.0f / sqrtf(sum / (float)x.d + eps);
    for (int i = threadIdx.x; i < x.d; i += blockDim.x)
        put(y, s, t, h * x.d + i, in[i] * r * (w ? w[i] : 1.0f));
    if (s.operand) operand_end(y, t);
}

/* The same for whole rows with float4 loads, each value read once. */

/* A thread's float4 values of the n of a row; zeros beyond the end. */
__device__ __forceinline__ void get_fours(float4 (&v)[NORM_FOURS], const float *p, int n)
{
#pragma unroll
    for (int k = 0; k < NORM_FOURS; k++) {
        const int i = threadIdx.x + k * blockDim.x;
        v[k] = i < n ? ((const float4 *)p)[i] : make_float4(0, 0, 0, 0);
    }
}

__device__ __forceinline__ float inverse_rms(const float4 (&v)[NORM_FOURS], int d, float eps,
                                             float *sums)
{
    float sum = 0;
#pragma unroll
    for (int k = 0; k < NORM_FOURS; k++) sum += square(v[k]);
    return 1.0f / sqrtf(block_sum(sum, sums) / (float)d + eps);
}

/* y = v * r * f */
__device__ __forceinline__ void put_fours(const ft_mat &y, const out_bf16 &s, int t,
                                          const float4 (&v)[NORM_FOURS], float r,
                                          const float4 (&f)[NORM_FOURS])
{
#pragma unroll
    for (int k = 0; k < NORM_FOURS; k++) {
        const int i = threadIdx.x + k * blockDim.x;
        const float4 x = times(v[k], r, f[k]);
        if (i < y.d / 4) put_four(y, s, t, i, x);
        if (s.hadamard) {
            float four[4] = {x.x, x.y, x.z, x.w};
            hadamard_put(s.hadamard, s.T, s.wide, t, 4 * i, four, i < y.d / 4);
        }
    }
    if (s.operand) operand_end(y, t);
}

static __global__ void rmsnorm_row_kernel(ft_mat y, ft_mat x, const float *w, float eps, out_bf16 s)
{
    __shared__ float sums[33];
    const int t = blockIdx.x, n = x.d / 4;
    float4 v[NORM_FOURS], f[NORM_FOURS];
#pragma unroll
    for (int k = 0; k < NORM_FOURS; k++) f[k] = make_float4(1, 1, 1, 1);
    if (w) get_fours(f, w, n); /* weights do not depend on the previous kernel */
    wait_for_previous_kernel();
    get_fours(v, mat_head(x, t, 0), n);
    put_fours(y, s, t, v, inverse_rms(v, x.d, eps, sums), f);
}

extern "C" void ft_cuda_rmsnorm(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, float eps)
{
    ft_cuda *c = (ft_cuda *)d;
    const int threads = x.d <= 32 ? 32 : x.d <= 256 ? 128 : x.d <= 2048 ? 512 : 1024;
    const bool fours = fits_fours(x, w.p) && in_fours(y);
    const out_bf16 s = fours ? out_both_of(c, y) : out_bf16_of(c, y);
    if (fours) {
        FT_LAUNCH_NEXT(c, rmsnorm_row_kernel, (unsigned)x.T, (unsigned)norm_threads(x.d), 0, y, x,
                       w.p, eps, s);
        return;
    }
    FT_LAUNCH_NEXT(c, rmsnorm_kernel, (unsigned)(x.T * x.H), (unsigned)threads, 0, y, x, w.p, eps,
                   s);
}

/* The norms computed from the resulting row. */
typedef struct norm_outs {
    ft_mat y[FT_NORMS];
    const float *w[FT_NORMS];
    out_bf16 s[FT_NORMS];
    int n;
} norm_outs;

/* A block computes a row. The number of threads depends on d only, and each thread rereads only
 * values that it wrote itself. */
static __global__ void norm_add_kernel(ft_mat y, ft_mat x, const float *w, float eps, float scale,
                                       norm_outs o)
{
    wait_for_previous_kernel();
    __shared__ float sums[33];
    const int t = blockIdx.x, d = x.d;
    const float *in = mat_head(x, t, 0);
    float *at = mat_head(y, t, 0), sum = 0, all = 0;
    for (int i = threadIdx.x; i < d; i += blockDim.x) sum += in[i] * in[i];
    sum = block_sum(sum, sums);
    const float r = 1.0f / sqrtf(sum / (float)d + eps);
    for (int i = threadIdx.x; i < d; i += blockDim.x) {
        const float v = (at[i] + in[i] * r * w[i]) * scale;
        at[i] = v;
        all += v * v;
    }
    if (!o.n) return;
    all = block_sum(all, sums);
    const float q = 1.0f / sqrtf(all / (float)d + eps);
    for (int k = 0; k < o.n; k++)
        for (int i = threadIdx.x; i < d; i += blockDim.x)
            put(o.y[k], o.s[k], t, i, at[i] * q * o.w[k][i]);
    for (int k = 0; k < o.n; k++)
        if (o.s[k].operand) operand_end(o.y[k], t);
}

/* The same with float4 loads, each value read once and kept in registers. */
static __global__ void norm_add_row_kernel(ft_mat y, ft_mat x, const float *w, float eps,
                                           float scale, norm_outs o)
{
    __shared__ float sums[33];
    const int t = blockIdx.x, n = x.d / 4;
    float4 v[NORM_FOURS], old[NORM_FOURS], f[NORM_FOURS];
    get_fours(f, w, n); /* weights do not depend on the previous kernel */
    for (int j = 0; j < o.n; j++) prefetch_l2(o.w[j], 4 * x.d, threadIdx.x, blockDim.x);
    wait_for_previous_kernel();
    get_fours(v, mat_head(x, t, 0), n);
    get_fours(old, mat_head(y, t, 0), n);
    const float r = inverse_rms(v, x.d, eps, sums);
#pragma unroll
    for (int k = 0; k < NORM_FOURS; k++) {
        const int i = threadIdx.x + k * blockDim.x;
        const float4 a = times(v[k], r, f[k]);
        v[k] = make_float4((old[k].x + a.x) * scale, (old[k].y + a.y) * scale,
                           (old[k].z + a.z) * scale, (old[k].w + a.w) * scale);
        if (i < n) ((float4 *)mat_head(y, t, 0))[i] = v[k];
    }
    if (!o.n) return;
    const float q = inverse_rms(v, x.d, eps, sums);
    for (int j = 0; j < o.n; j++) {
        get_fours(f, o.w[j], n);
        put_fours(o.y[j], o.s[j], t, v, q, f);
    }
}

extern "C" void ft_cuda_norm_add(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, float eps, float scale,
                                 const ft_norm_out *o, int n)
{
    ft_cuda *c = (ft_cuda *)d;
    norm_outs outs = {};
    const int wide = norm_threads(x.d);
    bool fours = fits_fours(x, w.p) && in_fours(y);
    ft_cuda_wrote(c, y);
    for (int i = 0; i < n; i++) fours = fours && in_fours(o[i].y) && (uintptr_t)o[i].w.p % 16 == 0;
    for (outs.n = 0; outs.n < n; outs.n++) {
        outs.y[outs.n] = o[outs.n].y;
        outs.w[outs.n] = o[outs.n].w.p;
        outs.s[outs.n] = fours ? out_both_of(c, o[outs.n].y) : out_bf16_of(c, o[outs.n].y);
    }
    if (fours)
        FT_LAUNCH_NEXT(c, norm_add_row_kernel, (unsigned)x.T, (unsigned)wide, 0, y, x, w.p, eps,
                       scale, outs);
    else
        FT_LAUNCH_NEXT(c, norm_add_kernel, (unsigned)x.T, (unsigned)wide, 0, y, x, w.p, eps, scale,
                       outs);
}

/* The sum of two normed rows first: x = rms(a) * aw + rms(b) * bw. */
typedef struct norm_pair {
    ft_mat a, b;
    const float *aw, *bw;
} norm_pair;

static __global__ void __launch_bounds__(512)
    norm_add_both_kernel(ft_mat y, norm_pair p, const float *w, float eps, float scale, norm_outs o)
{
    __shared__ float sums[2][33];
    const int t = blockIdx.x, d = y.d, n = d / 4;
    float4 v[NORM_FOURS], u[NORM_FOURS], f[NORM_FOURS], g[NORM_FOURS];
    get_fours(f, p.aw, n); /* weights do not depend on the previous kernel */
    get_fours(g, p.bw, n);
    prefetch_l2(w, 4 * d, threadIdx.x, blockDim.x);
    for (int j = 0; j < o.n; j++) prefetch_l2(o.w[j], 4 * d, threadIdx.x, blockDim.x);
    wait_for_previous_kernel();
    get_fours(v, mat_head(p.a, t, 0), n);
    get_fours(u, mat_head(p.b, t, 0), n);
    const float ra = inverse_rms(v, d, eps, sums[0]), rb = inverse_rms(u, d, eps, sums[1]);
#pragma unroll
    for (int k = 0; k < NORM_FOURS; k++) {
        const float4 a = times(v[k], ra, f[k]), b = times(u[k], rb, g[k]);
        v[k] = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
    }
    get_fours(f, w, n);
    get_fours(u, mat_head(y, t, 0), n);
    const float r = inverse_rms(v, d, eps, sums[0]);
#pragma unroll
    for (int k = 0; k < NORM_FOURS; k++) {
        const int i = threadIdx.x + k * blockDim.x;
        const float4 a = times(v[k], r, f[k]);
        v[k] = make_float4((u[k].x + a.x) * scale, (u[k].y + a.y) * scale, (u[k].z + a.z) * scale,
                           (u[k].w + a.w) * scale);
        if (i < n) ((float4 *)mat_head(y, t, 0))[i] = v[k];
    }
    if (!o.n) return;
    const float q = inverse_rms(v, d, eps, sums[1]);
    for (int j = 0; j < o.n; j++) {
        get_fours(f, o.w[j], n);
        put_fours(o.y[j], o.s[j], t, v, q, f);
    }
}

extern "C" void ft_cuda_norm_add_both(ft_dev *d, ft_mat y, const ft_norm_out *x, ft_vec w,
                                      float eps, float scale, const ft_norm_out *o, int n)
{
    ft_cuda *c = (ft_cuda *)d;
    bool fours = fits_fours(y, w.p);
    for (int i = 0; i < 2; i++) fours = fours && fits_fours(x[i].y, x[i].w.p);
    for (int i = 0; i < n; i++) fours = fours && in_fours(o[i].y) && (uintptr_t)o[i].w.p % 16 == 0;
    if (!fours) {
        ft_cuda_rmsnorm(d, x[0].y, x[0].y, x[0].w, eps);
        ft_cuda_norm_add(d, x[0].y, x[1].y, x[1].w, eps, 1, NULL, 0);
        ft_cuda_norm_add(d, y, x[0].y, w, eps, scale, o, n);
        return;
    }
    norm_outs outs = {};
    ft_cuda_wrote(c, y);
    for (; outs.n < n; outs.n++) {
        outs.y[outs.n] = o[outs.n].y;
        outs.w[outs.n] = o[outs.n].w.p;
        outs.s[outs.n] = out_both_of(c, o[outs.n].y);
    }
    const norm_pair p = {x[0].y, x[1].y, x[0].w.p, x[1].w.p};
    FT_LAUNCH_NEXT(c, norm_add_both_kernel, (unsigned)y.T, (unsigned)norm_threads(y.d), 0, y, p,
                   w.p, eps, scale, outs);
}

/* ---- element-wise ops ---- */

enum { EACH_THREADS = 256 };

/* Grid: rows, and pieces of a row. */
static dim3 each_grid(ft_mat y)
{
    return dim3((unsigned)y.T, FT_MIN(ft_blocks((size_t)ft_mat_cols(y), EACH_THREADS), 65535u));
}

#define FOR_COLUMNS(c, cols)                                                                       \
    for (int c = blockIdx.y * blockDim.x + threadIdx.x; c < (cols); c += blockDim.x * gridDim.y)

static __global__ void act_mul_kernel(ft_mat y, ft_mat g, ft_mat u, int act, out_bf16 s)
{
    wait_for_previous_kernel();
    const int t = blockIdx.x;
    FOR_COLUMNS(c, y.H * y.d)
    put(y, s, t, c, act_of(*mat_value(g, t, c), act) * *mat_value(u, t, c));
}

extern "C" void ft_cuda_act_mul(ft_dev *d, ft_mat y, ft_mat g, ft_mat u, ft_act act)
{
    ft_cuda *c = (ft_cuda *)d;
    const out_bf16 s = out_bf16_of(c, y);
    FT_LAUNCH_NEXT(c, act_mul_kernel, each_grid(y), EACH_THREADS, 0, y, g, u, (int)act, s);
}

__device__ __forceinline__ float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

/* g has y's shape; two values at a time. */
static __global__ void sigmoid_mul_twos_kernel(ft_mat y, ft_mat g, out_bf16 s)
{
    wait_for_previous_kernel();
    const int t = blockIdx.x;
    FOR_COLUMNS(i, y.H * y.d / 2)
    {
        const float2 x = *(const float2 *)mat_value(g, t, 2 * i);
        float2 *at = (float2 *)mat_value(y, t, 2 * i), v = *at;
        v = make_float2(v.x * sigmoid(x.x), v.y * sigmoid(x.y));
        *at = v;
        if (s.p) bf16_put_pair(s.p, s.plane, bf16_index(s.T, s.wide, t, 2 * i), v);
        if (s.hadamard) { /* rows have a multiple of 64 columns: all lanes of a warp or none */
            float two[2] = {v.x, v.y};
            hadamard_put(s.hadamard, s.T, s.wide, t, 2 * i, two, true);
        }
    }
}

static __global__ void sigmoid_mul_kernel(ft_mat y, ft_mat g, out_bf16 s)
{
    wait_for_previous_kernel();
    const int t = blockIdx.x;
    const bool whole_row = g.H * g.d == 1;
    FOR_COLUMNS(c, y.H * y.d)
    {
        const float x = *mat_value(g, t, whole_row ? 0 : c);
        put(y, s, t, c, *mat_value(y, t, c) * sigmoid(x));
    }
}

extern "C" void ft_cuda_sigmoid_mul(ft_dev *d, ft_mat y, ft_mat g)
{
    ft_cuda *c = (ft_cuda *)d;
    if (ft_mat_cols(g) > 1 && mat_even(y) && mat_even(g)) {
        const dim3 grid((unsigned)y.T, ft_blocks((size_t)ft_mat_cols(y) / 2, EACH_THREADS));
        FT_LAUNCH_NEXT(c, sigmoid_mul_twos_kernel, grid, EACH_THREADS, 0, y, g, out_both_of(c, y));
        return;
    }
    FT_LAUNCH_NEXT(c, sigmoid_mul_kernel, each_grid(y), EACH_THREADS, 0, y, g, out_bf16_of(c, y));
}

static __global__ void add_kernel(ft_mat y, ft_mat x, float scale)
{
    wait_for_previous_kernel();
    const int t = blockIdx.x;
    FOR_COLUMNS(c, y.H * y.d)
    {
        float *at = mat_value(y, t, c);
        *at = (*at + *mat_value(x, t, c)) * scale;
    }
}

extern "C" void ft_cuda_add(ft_dev *d, ft_mat y, ft_mat x, float scale)
{
    ft_cuda *c = (ft_cuda *)d;
    ft_cuda_wrote(c, y);
    FT_LAUNCH_NEXT(c, add_kernel, each_grid(y), EACH_THREADS, 0, y, x, scale);
}

static __global__ void softcap_kernel(ft_mat y, float cap)
{
    wait_for_previous_kernel();
    const int t = blockIdx.x;
    FOR_COLUMNS(c, y.H * y.d)
    {
        float *at = mat_value(y, t, c);
        *at = cap * tanhf(*at / cap);
    }
}

extern "C" void ft_cuda_softcap(ft_dev *d, ft_mat y, float cap)
{
    ft_cuda *c = (ft_cuda *)d;
    ft_cuda_wrote(c, y);
    FT_LAUNCH_NEXT(c, softcap_kernel, each_grid(y), EACH_THREADS, 0, y, cap);
}

/* ---- rows ---- */

static __global__ void gather_kernel(ft_mat y, ft_mat x, const int32_t *from, out_bf16 s)
{
    wait_for_previous_kernel();
    const int t = blockIdx.x, r = from[t];
    FOR_COLUMNS(c, y.H * y.d)
    put(y, s, t, c, *mat_value(x, r, c));
}

extern "C" void ft_cuda_gather(ft_dev *d, ft_mat y, ft_mat x, int which)
{
    ft_cuda *c = (ft_cuda *)d;
    const int32_t *from = which == FT_OUT ? c->batch.out_row : c->batch.src_row;
    const out_bf16 s = out_bf16_of(c, y);
    if (y.T) FT_LAUNCH_NEXT(c, gather_kernel, each_grid(y), EACH_THREADS, 0, y, x, from, s);
}

static __global__ void scatter_kernel(ft_mat y, ft_mat x, const int32_t *to)
{
    wait_for_previous_kernel();
    const int t = blockIdx.x, r = to[t];
    if (r < 0) return;
    FOR_COLUMNS(c, x.H * x.d)
    *mat_value(y, r, c) = *mat_value(x, t, c);
}

extern "C" void ft_cuda_scatter(ft_dev *d, ft_mat y, ft_mat x)
{
    ft_cuda *c = (ft_cuda *)d;
    ft_cuda_wrote(c, y);
    FT_LAUNCH_NEXT(c, scatter_kernel, each_grid(x), EACH_THREADS, 0, y, x, c->batch.dst_row);
}

/* ---- argmax ---- */

enum { ARGMAX_PIECES = 32 };

/* The larger value wins, then the lower index. A NaN is never larger. */
__device__ __forceinline__ void better(float &v, int &i, float w, int j)
{
    if (w > v || (w == v && j < i)) v = w, i = j;
}

__device__ __forceinline__ void warp_best(float &v, int &i)
{
#pragma unroll
    for (int o = 16; o; o >>= 1)
        better(v, i, __shfl_xor_sync(0xffffffffu, v, o), __shfl_xor_sync(0xffffffffu, i, o));
}

/* A block has a piece of a row; the next kernel reduces the pieces. */
static __global__ void argmax_kernel(float2 *part, ft_mat x)
{
    wait_for_previous_kernel();
    __shared__ float top[32];
    __shared__ int at[32];
    const int t = blockIdx.x, n = x.H * x.d, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const float *row = mat_head(x, t, 0);
    float v = -INFINITY;
    int i = 0x7fffffff;
    for (int c = blockIdx.y * blockDim.x + threadIdx.x; c < n; c += blockDim.x * gridDim.y)
        if (row[c] > v) v = row[c], i = c;
    warp_best(v, i);
    if (!lane) top[warp] = v, at[warp] = i;
    __syncthreads();
    if (warp) return;
    const int warps = blockDim.x >> 5;
    v = lane < warps ? top[lane] : -INFINITY;
    i = lane < warps ? at[lane] : 0x7fffffff;
    warp_best(v, i);
    if (!lane) part[t * ARGMAX_PIECES + blockIdx.y] = make_float2(v, __int_as_float(i));
}

static __global__ void argmax_join_kernel(int32_t *id, const float2 *part)
{
    wait_for_previous_kernel();
    const float2 p = part[blockIdx.x * ARGMAX_PIECES + threadIdx.x];
    float v = p.x;
    int i = __float_as_int(p.y);
    warp_best(v, i);
    if (!threadIdx.x) id[blockIdx.x] = i == 0x7fffffff ? -1 : i;
}

extern "C" void ft_cuda_argmax(ft_dev *d, int32_t *id, ft_mat x)
{
    ft_cuda *c = (ft_cuda *)d;
    float2 *part =
        (float2 *)ft_cuda_scratch(c, FT_SCRATCH_LINEAR, (size_t)x.T * ARGMAX_PIECES * sizeof *part);
    if (!part || !x.T) return;
    FT_LAUNCH_NEXT(c, argmax_kernel, dim3((unsigned)x.T, ARGMAX_PIECES), 1024, 0, part, x);
    FT_LAUNCH_NEXT(c, argmax_join_kernel, (unsigned)x.T, ARGMAX_PIECES, 0, id, part);
}
