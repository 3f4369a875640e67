/* The largest values of long rows, for drawing: what leaves the device is a short list instead of a
 * row of a quarter of a million logits.
 *
 * A row is cut into groups; the n-th largest of the groups' maxima is a bound that at least n
 * values reach, and that few others do. Those that reach it are collected, sorted and cut to n.
 * Rows in which too many reach it (whose large values stand in few groups) are left out. */
#include "dev/cuda/common.cuh"

#include <float.h>

enum {
    GROUPS = 4096,     /* of a row: a thread's values */
    GROUP_BLOCK = 128, /* groups of a block */
    CANDIDATES = 2048, /* values that may reach the bound */
    SORT_THREADS = 1024,
};

/* Larger values have larger keys; 0: does not count. */
__device__ __forceinline__ uint32_t key_of(float x)
{
    if (!(x > -INFINITY)) return 0;
    const uint32_t b = __float_as_uint(fminf(x, FLT_MAX));
    return b & 0x80000000u ? ~b : b | 0x80000000u;
}

/* Sorts n values, a power of two, in falling order; the block's threads together. */
template <class V> __device__ static void sort_falling(V *v, int n)
{
    for (int k = 2; k <= n; k *= 2)
        for (int j = k / 2; j; j /= 2) {
            __syncthreads();
            for (int i = threadIdx.x; i < n / 2; i += blockDim.x) {
                const int a = 2 * i - (i & (j - 1)), b = a + j;
                const V x = v[a], y = v[b];
                if ((x < y) == !(a & k)) v[a] = y, v[b] = x;
            }
        }
    __syncthreads();
}

static __global__ void top_groups_kernel(uint32_t *most, ft_mat x)
{
    after_last();
    const int t = blockIdx.x, g = blockIdx.y * GROUP_BLOCK + threadIdx.x, n = x.H * x.d;
    const float *row = mat_head(x, t, 0);
    uint32_t best = 0;
    for (int i = g; i < n; i += GROUPS) best = max(best, key_of(row[i]));
    most[(size_t)t * GROUPS + g] = best;
}

/* bound[t]: the n-th largest of the maxima, at least 1; found[t]: nobody yet. */
static __global__ void top_bound_kernel(uint32_t *bound, int32_t *found, const uint32_t *most,
                                        int n)
{
    after_last();
    __shared__ uint32_t v[GROUPS];
    for (int i = threadIdx.x; i < GROUPS; i += blockDim.x)
        v[i] = most[(size_t)blockIdx.x * GROUPS + i];
    sort_falling(v, GROUPS);
    if (threadIdx.x) return;
    bound[blockIdx.x] = max(v[n - 1], 1u);
    found[blockIdx.x] = 0;
}

/* Key, then the lower index first. */
static __global__ void top_collect_kernel(unsigned long long *pick, int32_t *found,
                                          const uint32_t *bound, ft_mat x)
{
    after_last();
    const int t = blockIdx.x, g = blockIdx.y * GROUP_BLOCK + threadIdx.x, n = x.H * x.d;
    const float *row = mat_head(x, t, 0);
    const uint32_t least = bound[t];
    for (int i = g; i < n; i += GROUPS) {
        const uint32_t k = key_of(row[i]);
        if (k < least) continue;
        const int at = atomicAdd(&found[t], 1);
        if (at < CANDIDATES)
            pick[(size_t)t * CANDIDATES + at] = (unsigned long long)k << 32 | (uint32_t)~i;
    }
}

static __global__ void top_sort_kernel(ft_pick *y, const unsigned long long *pick,
                                       const int32_t *found, ft_mat x, int n)
{
    after_last();
    __shared__ unsigned long long v[CANDIDATES];
    const int t = blockIdx.x, got = found[t];
    if (got > CANDIDATES) {
        if (!threadIdx.x) y[(size_t)t * n].id = -2;
        return;
    }
    for (int i = threadIdx.x; i < CANDIDATES; i += blockDim.x)
        v[i] = i < got ? pick[(size_t)t * CANDIDATES + i] : 0;
    sort_falling(v, CANDIDATES);
    /* the n best by falling ~index, which is rising index; none is 0 */
    for (int i = threadIdx.x; i < n; i += blockDim.x) v[i] = v[i] & 0xffffffffu;
    sort_falling(v, n);
    const float *row = mat_head(x, t, 0);
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        const int id = v[i] ? (int)~(uint32_t)v[i] : -1;
        y[(size_t)t * n + i].id = id;
        y[(size_t)t * n + i].x = id < 0 ? -INFINITY : row[id];
    }
}

extern "C" void ft_cuda_top(ft_dev *d, ft_pick *y, int n, ft_mat x)
{
    ft_cuda *c = (ft_cuda *)d;
    const size_t T = (size_t)x.T, picks = T * CANDIDATES * sizeof(unsigned long long);
    unsigned char *p = (unsigned char *)ft_cuda_scratch(
        c, FT_PLACE_TOP, picks + T * (GROUPS + 2) * sizeof(uint32_t));
    if (!p || !x.T) return;
    assert(n <= SORT_THREADS && !(n & (n - 1)) && (x.H == 1 || x.hs == x.d));
    unsigned long long *pick = (unsigned long long *)p;
    uint32_t *most = (uint32_t *)(p + picks), *bound = most + T * GROUPS;
    int32_t *found = (int32_t *)(bound + T);
    const dim3 grid((unsigned)x.T, GROUPS / GROUP_BLOCK);
    FT_LAUNCH_NEXT(c, top_groups_kernel, grid, GROUP_BLOCK, 0, most, x);
    FT_LAUNCH_NEXT(c, top_bound_kernel, (unsigned)x.T, SORT_THREADS, 0, bound, found, most, n);
    FT_LAUNCH_NEXT(c, top_collect_kernel, grid, GROUP_BLOCK, 0, pick, found, bound, x);
    FT_LAUNCH_NEXT(c, top_sort_kernel, (unsigned)x.T, SORT_THREADS, 0, y, pick, found, x, n);
}
