/* dev/cuda/product/dense.cuh - weights of vision towers (ft_weight.rounded) and their products on
 * GPUs with warpgroup instructions: f16 times f16. */
#ifndef FT_DEV_CUDA_DENSE_CUH
#define FT_DEV_CUDA_DENSE_CUH

#include "dev/cuda/common.cuh"

/* Whether a weight is stored for these products: as [units of 64 columns][outputs][64] f16, in
 * which the eight 16-byte pieces of an output are swizzled, then a factor for each output. */
static inline bool ft_dense_is(const ft_cuda *c, const ft_weight *w)
{
    return w->rounded && c->cc == 90 && !w->lookup && !w->rows && w->E == 1;
}

/* Bytes of such a weight. */
size_t ft_dense_bytes(const ft_weight *w);
/* From raw, in file layout on the device, to w->packed. */
void ft_dense_pack(ft_cuda *c, const ft_weight *w, const void *raw);

/* y = act(x W^T + b), y += x W^T + b when acc; with `up`: y = act(x W^T) * (x up^T). */
void ft_dense_run(ft_cuda *c, ft_mat y, ft_mat x, const ft_weight *w, const ft_weight *up,
                  const float *b, ft_act act, bool acc);

#endif
