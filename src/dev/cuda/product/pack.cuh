/* dev/cuda/product/pack.cuh - repacks weights from file layout on the device. */
#ifndef FT_DEV_CUDA_PACK_CUH
#define FT_DEV_CUDA_PACK_CUH

#include "dev/cuda/product/weights_low.cuh"

/* From raw, on the device, to w->packed. */
void ft_weights_pack(ft_cuda *c, const ft_weight *w, const void *raw);

#endif
