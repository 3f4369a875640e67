/* dev/cuda/product/chosen.cuh - the experts of a few rows, chosen and sorted by the blocks of the
 * kernels that multiply with them, without a kernel for it. Included by product.cuh. */
#ifndef FT_DEV_CUDA_PRODUCT_CHOSEN_CUH
#define FT_DEV_CUDA_PRODUCT_CHOSEN_CUH

#include "dev/cuda/product/route.cuh"

enum {
    SORT_SHORT = 32, /* most choices that a warp sorts */
    CHOSEN_ROWS = 4  /* most rows whose experts are chosen like this */
};

/* In shared memory: the choices of all rows, and the same sorted by expert. */
struct chosen_items {
    int32_t id[SORT_SHORT], list[SORT_SHORT];
    float w[SORT_SHORT];
    ft_item item[SORT_SHORT];
    int32_t n_item;
};

/* Sum of v over the lanes up to this one. */
__device__ __forceinline__ int warp_running_sum(int v)
{
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int o = 1; o < 32; o *= 2) {
        const int before = __shfl_up_sync(~0u, v, o);
        if (lane >= o) v += before;
    }
    return v;
}

/* Sorts at most SORT_SHORT choices by expert, by a warp. */
__device__ __forceinline__ void sort_short(ft_item *item, int32_t *list, int32_t *n_item,
                                           const int32_t *id, int n)
{
    const int lane = threadIdx.x & 31, e = lane < n ? id[lane] : -1 - lane;
    const uint32_t below = (1u << lane) - 1, same = __match_any_sync(~0u, e);
    const int before = __popc(same & below);
    const bool leads = !before && lane < n;
    const uint32_t leaders = __ballot_sync(~0u, leads);
    const int count = leads ? __popc(same) : 0;
    const int first = warp_running_sum(count) - count;
    const int to = __shfl_sync(~0u, first, __ffs((int)same) - 1) + before;
    if (lane < n) list[to] = lane;
    if (leads) item[__popc(leaders & below)] = ft_item{e, first, count};
    if (!lane) *n_item = __popc(leaders);
}

/* Chooses the experts of all rows, a warp each, and sorts them. WEIGHTS: their weights too. */
template <bool WEIGHTS>
__device__ __forceinline__ void choose_items(chosen_items &c, const ft_logits &l)
{
    const int warp = threadIdx.x >> 5, i = threadIdx.x;
    for (int t = warp; t < l.x.T; t += blockDim.x >> 5)
        if (WEIGHTS)
            route_row<ROUTE_MAX / 32>({c.id, c.w, l.K}, l.x, l.E, t, NULL);
        else
            choose_row(c.id + t * l.K, mat_head(l.x, t, 0), l.E, l.K);
    if (l.x.T == 1) { /* there is nothing to sort */
        __syncwarp();
        if (i < l.K) c.item[i] = ft_item{c.id[i], i, 1}, c.list[i] = i;
        if (!i) c.n_item = l.K;
        __syncthreads();
        return;
    }
    __syncthreads();
    if (!warp) sort_short(c.item, c.list, &c.n_item, c.id, l.x.T * l.K);
    __syncthreads();
}

#endif
