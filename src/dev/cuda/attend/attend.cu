/* Attention: chooses the kernel. Heads of 64 to 512 values over f16, bf16 or quantised caches use
 * tensor cores (attend_mma.cu), everything else is computed by attend_scalar.cu. A cache with a
 * recent-token window is read in two passes. */
#include "dev/cuda/attend/attend.cuh"

/* The arguments for one pass, over a cache of its own. */
static attend_args args_of(const ft_cuda *c, ft_mat o, ft_mat q, const ft_kv *kv, ft_attn p)
{
    attend_args a = {};
    a.b = c->batch;
    a.k = kv_side_of(kv, false);
    a.v = kv_side_of(kv, true);
    a.hadamard = kv_hadamard_of(kv->d);
    a.o = o;
    a.q = q;
    a.scale = p.scale * 1.4426950408889634f;
    a.window = p.window;
    a.range_limit = range_limit(kv->G, p.window);
    a.first = p.first;
    a.space = kv->space;
    a.out = p.out;
    a.group = q.H / kv->G;
    a.ahead = p.ahead;
    return a;
}

static void run_pass(ft_cuda *c, attend_args *a)
{
    if (!ft_cuda_attend_mma(c, a)) ft_cuda_attend_scalar(c, a);
}

/* Joins the totals of both passes. A block has a row, a head, and as many columns as a Hadamard
 * transform: sums over transformed values are transformed back before they are added. */
static __global__ void __launch_bounds__(128)
    join_passes_kernel(const attend_args older, const attend_args recent)
{
    __shared__ float x[128];
    const int i = blockIdx.x / older.q.H, h = blockIdx.x % older.q.H;
    const int c = blockIdx.y * blockDim.x + threadIdx.x;
    wait_for_previous_kernel();
    const float *a = total_at(older, i, h), *b = total_at(recent, i, h);
    float O = c < older.v.width ? a[2 + c] : 0.0f, M = a[0], L = a[1], was, is;
    if (older.v.hadamard) {
        x[threadIdx.x] = O;
        __syncthreads();
        if (threadIdx.x < 32) hadamard_vector(x, blockDim.x, older.hadamard, true);
        __syncthreads();
        O = x[threadIdx.x];
    }
    if (c >= older.o.d) return;
    merge(M, L, b[0], b[1], was, is);
    O = merged(O, b[2 + c], was, is) * inverse_of(L);
    mat_head(older.o, i, h)[c] = O;
    put_copy(older, i, h, c, O);
}

/* The older positions and the recent-token window, each into its totals; o may be q. */
static void attend_both(ft_cuda *c, attend_args *older, attend_args *recent)
{
    const int group = older->hadamard.group;
    const int width = FT_MAX(FT_MAX(older->v.width, recent->v.width), older->q.d);
    const size_t rows = (size_t)older->q.T * (size_t)older->q.H, each = (size_t)width + 2;
    float *total =
        (float *)ft_cuda_scratch(c, FT_SCRATCH_ATTEND_MORE, 2 * rows * each * sizeof(float));
    if (!total) return;
    older->pass = PASS_OLDER;
    recent->pass = PASS_RECENT;
    older->total = total;
    recent->total = total + rows * each;
    older->total_width = recent->total_width = width;
    run_pass(c, older);
    run_pass(c, recent);
    older->copy = out_missed_of(c, older->o);
    FT_LAUNCH_NEXT(c, join_passes_kernel,
                   dim3((unsigned)rows, ft_blocks((size_t)older->v.width, (size_t)group)),
                   (unsigned)group, 0, *older, *recent);
}

extern "C" void ft_cuda_attend(ft_dev *d, ft_mat o, ft_mat q, const ft_kv *kv, ft_attn p)
{
    ft_cuda *c = (ft_cuda *)d;
    attend_args a = args_of(c, o, q, kv, p);
    ft_cuda_wrote(c, o);
    if (!kv->recent) {
        run_pass(c, &a);
        return;
    }
    attend_args recent = args_of(c, o, q, kv->recent, p);
    attend_both(c, &a, &recent);
}
