/* Attention: the way in. Heads of 64 to 512 values over half-precision or quantised caches go to
 * the tensor cores (attend_walk.cu); all else is computed plainly (attend_plain.cu). */
#include "dev/cuda/attend.cuh"

extern "C" void ft_cuda_attend(ft_dev *d, ft_mat o, ft_mat q, const ft_kv *kv, ft_attn p)
{
    ft_cuda *c = (ft_cuda *)d;
    attend_args a = {};
    a.b = c->batch;
    a.k = kv_side_of(kv, false);
    a.v = kv_side_of(kv, true);
    a.turn = kv_turn_of(kv->d);
    a.o = o;
    a.q = q;
    a.scale = p.scale * 1.4426950408889634f;
    a.window = p.window;
    a.first = p.first;
    a.space = kv->space;
    a.out = p.out;
    a.group = q.H / kv->G;
    ft_cuda_wrote(c, o);
    a.ahead = p.ahead; /* the walk's tiles know rows that see one cell more than the last alone */
    if (p.ahead || !ft_cuda_attend_walk(c, &a)) ft_cuda_attend_plain(c, &a);
}
