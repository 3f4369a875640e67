/* dev/cuda/product/route.cuh - a warp chooses the experts of a row: those with the largest logits,
 * the lower one among equals. */
#ifndef FT_DEV_CUDA_PRODUCT_ROUTE_CUH
#define FT_DEV_CUDA_PRODUCT_ROUTE_CUH

#include "dev/cuda/common.cuh"

/* Integers whose order is that of the floats, and back. */
__device__ __forceinline__ uint32_t rising(float x)
{
    const uint32_t u = __float_as_uint(x);
    return u >> 31 ? ~u : u | 0x80000000u;
}

__device__ __forceinline__ float risen(uint32_t k)
{
    return __uint_as_float(k >> 31 ? k & 0x7fffffffu : ~k);
}

__device__ __forceinline__ uint32_t warp_largest(uint32_t v)
{
#if __CUDA_ARCH__ >= 800
    return __reduce_max_sync(~0u, v);
#else
    for (int o = 16; o; o >>= 1) v = max(v, __shfl_xor_sync(~0u, v, o));
    return v;
#endif
}

__device__ __forceinline__ int warp_least(int v)
{
#if __CUDA_ARCH__ >= 800
    return __reduce_min_sync(~0u, v);
#else
    for (int o = 16; o; o >>= 1) v = min(v, __shfl_xor_sync(~0u, v, o));
    return v;
#endif
}

/* The largest of a lane's N keys and its expert, the lowest among equals. */
template <int N>
__device__ __forceinline__ void best_key(const uint32_t (&key)[N], uint32_t &best, int &at)
{
    uint32_t k[N];
    int from[N];
#pragma unroll
    for (int i = 0; i < N; i++) k[i] = key[i], from[i] = i;
#pragma unroll
    for (int s = 1; s < N; s *= 2)
#pragma unroll
        for (int i = 0; i < N; i += 2 * s)
            if (k[i + s] > k[i]) k[i] = k[i + s], from[i] = from[i + s];
    best = k[0];
    at = 32 * from[0] + (threadIdx.x & 31);
}

/* The keys of the experts of lane l, which are l, l + 32, ...: 0 if there is none, or it is taken.
 */
template <int N>
__device__ __forceinline__ void load_keys(uint32_t (&key)[N], const float *row, int E)
{
#pragma unroll
    for (int i = 0; i < N; i++) {
        const int e = (threadIdx.x & 31) + 32 * i;
        const float v = e < E ? __ldcg(row + e) + 0.0f : 0.0f; /* turns -0 into +0 */
        key[i] = e < E ? rising(v != v ? -INFINITY : v) : 0;
    }
}

/* Takes the best expert of a row: its key and number. best, at: those of this lane. */
template <int N>
__device__ __forceinline__ void take_best(uint32_t (&key)[N], uint32_t &best, int &at,
                                          uint32_t &top_key, int &top_at)
{
    top_key = warp_largest(best);
    top_at = warp_least(best == top_key ? at : 0x7fffffff);
#pragma unroll
    for (int j = 0; j < N; j++)
        if (top_at == (int)(threadIdx.x & 31) + 32 * j) key[j] = 0;
    best_key(key, best, at);
}

enum { ROUTE_MAX = 256 }; /* most experts for nth_expert and choose_row */

/* Expert of choice n of a row, for a warp. */
__device__ __forceinline__ int nth_expert(const float *row, int E, int n)
{
    uint32_t key[ROUTE_MAX / 32], best, top_key;
    int at, top_at;
    load_keys(key, row, E);
    best_key(key, best, at);
    do take_best(key, best, at, top_key, top_at);
    while (n--);
    return top_at < E ? top_at : 0;
}

/* The experts of all K choices of a row, at most 32, for a warp. */
__device__ __forceinline__ void choose_row(int32_t *id, const float *row, int E, int K)
{
    const int lane = threadIdx.x & 31;
    uint32_t key[ROUTE_MAX / 32], best, top_key;
    int at, top_at, mine = 0;
    load_keys(key, row, E);
    best_key(key, best, at);
    for (int i = 0; i < K; i++) {
        take_best(key, best, at, top_key, top_at);
        if (i == lane) mine = top_at;
    }
    if (lane < K) id[lane] = mine < E ? mine : 0;
}

/* Routing of one row by a warp: lane l has experts l, l + 32, ..., N of them. chosen: a second copy
 * of the ids, or NULL. */
template <int N>
__device__ __forceinline__ void route_row(const ft_expert_choice &r, const ft_mat &x, int E, int t,
                                          int32_t *chosen)
{
    const int lane = threadIdx.x & 31;
    const float *row = mat_head(x, t, 0);
    int32_t *id = r.id + (size_t)t * r.K;
    float *w = r.w + (size_t)t * r.K;
    uint32_t key[N], best;
    int at;
    load_keys(key, row, E);
    best_key(key, best, at);
    const float top = risen(warp_largest(best));
    float all = 0;
#pragma unroll
    for (int i = 0; i < N; i++) all += key[i] ? expf(risen(key[i]) - top) : 0.0f;
    all = warp_sum(all);
    float picked = 0, first = 0; /* first: the probability of choice number `lane` */
    for (int from = 0; from < r.K; from += 32) {
        const int n = min(32, r.K - from);
        uint32_t mine = 0; /* key and expert of choice from + lane */
        int mine_at = 0;
        for (int i = 0; i < n; i++) {
            uint32_t top_key;
            int top_at;
            take_best(key, best, at, top_key, top_at);
            if (i == lane) mine = top_key, mine_at = top_at;
        }
        const float p = expf(risen(mine) - top) / all;
        for (int i = 0; i < n; i++) picked += __shfl_sync(~0u, p, i);
        if (lane >= n) continue;
        if (mine_at >= E) mine_at = 0;
        id[from + lane] = mine_at;
        if (chosen) chosen[from + lane] = mine_at;
        if (!from) first = p;
        if (from) w[from + lane] = p;
    }
    for (int n = lane; n < r.K; n += 32) w[n] = (n < 32 ? first : w[n]) / fmaxf(picked, 0x1p-14f);
}

#endif
