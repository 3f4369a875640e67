/* Attention: chooses the kernel. Heads of 64 to 512 values over f16, bf16 or quantised caches use
 * tensor cores (attend_mma.cu), those of vision towers have kernels of their own (attend_rows.cu);
 * everything else is computed by attend_scalar.cu. */
#include "dev/cuda/attend/attend.cuh"

extern "C" void ft_cuda_attend(ft_dev *d, ft_mat o, ft_mat q, const ft_kv *kv, ft_attn p)
{
    ft_cuda *c = (ft_cuda *)d;
    attend_args a = {};
    a.b = c->batch;
    a.k = kv_side_of(kv, false);
    a.v = kv_side_of(kv, true);
    a.hadamard = kv_hadamard_of(kv->d);
    a.o = o;
    a.q = q;
    a.scale = p.scale * 1.4426950408889634f;
    a.window = p.window;
    a.first = p.first;
    a.space = kv->space;
    a.out = p.out;
    a.group = q.H / kv->G;
    ft_cuda_wrote(c, o);
    a.ahead = p.ahead;
    if (!ft_cuda_attend_rows(c, &a) && !ft_cuda_attend_mma(c, &a)) ft_cuda_attend_scalar(c, &a);
}
