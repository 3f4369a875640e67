/* Ops that have no kernel yet: calling one is a fault that sync reports. */
#include "dev/cuda/cuda.h"

static void missing(ft_dev *d, const char *op)
{
    ft_cuda_check((ft_cuda *)d, cudaErrorNotSupported, op);
}

#define WEAK extern "C" __attribute__((weak)) void
WEAK ft_cuda_embed(ft_dev *d, ft_mat, const ft_weight *, float)
{
    missing(d, "embed");
}
WEAK ft_cuda_rmsnorm(ft_dev *d, ft_mat, ft_mat, ft_vec, float)
{
    missing(d, "rmsnorm");
}
WEAK ft_cuda_linear(ft_dev *d, ft_mat, ft_mat, const ft_weight *, bool)
{
    missing(d, "linear");
}
WEAK ft_cuda_rope_angles(ft_dev *d, ft_mat, const ft_rope *)
{
    missing(d, "rope_angles");
}
WEAK ft_cuda_norm_rope(ft_dev *d, ft_mat, ft_vec, float, ft_mat)
{
    missing(d, "norm_rope");
}
WEAK ft_cuda_kv_put(ft_dev *d, const ft_kv *, ft_mat, ft_mat)
{
    missing(d, "kv_put");
}
WEAK ft_cuda_attend(ft_dev *d, ft_mat, ft_mat, const ft_kv *, ft_attn)
{
    missing(d, "attend");
}
WEAK ft_cuda_act_mul(ft_dev *d, ft_mat, ft_mat, ft_mat, ft_act)
{
    missing(d, "act_mul");
}
WEAK ft_cuda_sigmoid_mul(ft_dev *d, ft_mat, ft_mat)
{
    missing(d, "sigmoid_mul");
}
WEAK ft_cuda_add(ft_dev *d, ft_mat, ft_mat, float)
{
    missing(d, "add");
}
WEAK ft_cuda_softcap(ft_dev *d, ft_mat, float)
{
    missing(d, "softcap");
}
WEAK ft_cuda_gather(ft_dev *d, ft_mat, ft_mat, int)
{
    missing(d, "gather");
}
WEAK ft_cuda_scatter(ft_dev *d, ft_mat, ft_mat)
{
    missing(d, "scatter");
}
WEAK ft_cuda_conv(ft_dev *d, ft_mat, ft_mat, ft_vec, const ft_delta *)
{
    missing(d, "conv");
}
WEAK ft_cuda_delta_rule(ft_dev *d, ft_mat, ft_mat, ft_mat, ft_mat, ft_vec, ft_vec, const ft_delta *)
{
    missing(d, "delta_rule");
}
WEAK ft_cuda_gated_norm(ft_dev *d, ft_mat, ft_mat, ft_mat, ft_vec, float)
{
    missing(d, "gated_norm");
}
WEAK ft_cuda_route(ft_dev *d, ft_route, ft_mat)
{
    missing(d, "route");
}
WEAK ft_cuda_moe(ft_dev *d, ft_mat, ft_mat, const ft_experts *, ft_route, ft_mat, bool)
{
    missing(d, "moe");
}
WEAK ft_cuda_centroid_head(ft_dev *d, ft_mat, ft_mat, ft_mat, const ft_weight *, const int32_t *,
                           int)
{
    missing(d, "centroid_head");
}
