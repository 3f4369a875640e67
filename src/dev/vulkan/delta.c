/* The gated delta net. */
#include "dev/vulkan/vulkan.h"

#include <string.h>

/* Push constants of delta.glsl. */
typedef struct delta_args {
    uint64_t o, y, al, be, A, dt, state, j_k, j_d, j_g, batch, z, w;
    int32_t o_rs, o_hs, y_rs, al_rs, be_rs, heads;
} delta_args;

/* What a dispatch of conv.comp computes. */
enum ft_vk_conv_part { CONV_ROWS, CONV_WINDOW, CONV_FEW };

void ft_vk_conv(ft_dev *d, ft_mat y, ft_mat u, ft_vec w, const ft_delta *s)
{
    ft_vk *v = (ft_vk *)d;
    const struct {
        ft_vk_mat y, u;
        uint64_t w, conv, journal, batch;
        int32_t CH, J;
    } a = {ft_vk_mat_of(y),
           ft_vk_mat_of(u),
           ft_vk_address(w.p),
           ft_vk_address(s->conv),
           ft_vk_address(s->j_conv),
           v->batch_mem.address,
           s->CH,
           s->J};
    const uint32_t taps = (uint32_t)s->C;
    const size_t columns = ft_vk_groups((size_t)s->CH, 128);
    assert(s->C <= FT_VK_TAPS);
    if (v->shape.rows <= FT_DECODE_ROWS) {
        FT_VK_RUN(v, FT_VK_CONV, FT_VK_SPEC(CONV_FEW, taps), a, columns, (size_t)v->shape.S, 1);
        return;
    }
    FT_VK_RUN(v, FT_VK_CONV, FT_VK_SPEC(CONV_ROWS, taps), a, columns, (size_t)u.T, 1);
    FT_VK_RUN(v, FT_VK_CONV, FT_VK_SPEC(CONV_WINDOW, taps), a, columns, (size_t)v->shape.S, 1);
}

void ft_vk_delta_rule(ft_dev *d, ft_mat o, ft_mat y, ft_mat a, ft_mat b, ft_vec A, ft_vec dt,
                      const ft_delta *s)
{
    ft_vk *v = (ft_vk *)d;
    const delta_args args = {ft_vk_address(o.p),
                             ft_vk_address(y.p),
                             ft_vk_address(a.p),
                             ft_vk_address(b.p),
                             ft_vk_address(A.p),
                             ft_vk_address(dt.p),
                             ft_vk_address(s->state),
                             ft_vk_address(s->j_k),
                             ft_vk_address(s->j_d),
                             ft_vk_address(s->j_g),
                             v->batch_mem.address,
                             0,
                             0,
                             o.rs,
                             o.hs,
                             y.rs,
                             a.rs,
                             b.rs,
                             s->Hk | s->Hv << 16};
    const ft_vk_shader shader = v->shuffles ? FT_VK_DELTA_SHUFFLE : FT_VK_DELTA;
    FT_VK_RUN(v, shader, FT_VK_SPEC((uint32_t)s->S, 128, (uint32_t)s->J), args, (size_t)s->Hv,
              (size_t)v->shape.S, ft_vk_groups((size_t)s->S, 32));
}

bool ft_vk_delta_norm(ft_vk *v, ft_mat y, ft_mat o, ft_mat z, ft_vec w, float eps)
{
    const ft_vk_command *c = v->cmd && v->n_list ? &v->list[v->n_list - 1] : NULL;
    delta_args a;
    if (!c || c->kind != FT_VK_DISPATCH || c->pipeline->shader != FT_VK_DELTA_SHUFFLE) return false;
    memcpy(&a, c->push, sizeof a);
    const uint32_t S = c->pipeline->spec[0], journal = c->pipeline->spec[2], heads = c->grid[0];
    const bool same = a.o == ft_vk_address(o.p) && a.o == ft_vk_address(y.p) && z.hs == o.hs &&
                      (o.T == 1 || z.rs == o.rs) && o.d == (int)S && y.d == o.d && z.d == o.d &&
                      o.H == (int)heads && y.hs == o.hs && (o.T == 1 || y.rs == o.rs);
    if (!same || S < 16 || S > 128 || (S & (S - 1)) || v->shape.rows > FT_DECODE_ROWS || !w.p ||
        v->props.limits.maxComputeWorkGroupInvocations < 4 * S)
        return false;
    a.z = ft_vk_address(z.p);
    a.w = ft_vk_address(w.p);
    uint32_t bits;
    memcpy(&bits, &eps, sizeof bits);
    v->n_list--; /* the barrier before it stays */
    ft_vk_dispatch(v, FT_VK_DELTA_SHUFFLE, FT_VK_SPEC(S, 4 * S, journal, true, bits), &a, sizeof a,
                   heads, (size_t)v->shape.S, 1);
    return true;
}
