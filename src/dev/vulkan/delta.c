/* The gated delta net. */
#include "dev/vulkan/vulkan.h"

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
    const struct {
        uint64_t o, y, al, be, A, dt, state, j_k, j_d, j_g, batch;
        int32_t o_rs, o_hs, y_rs, al_rs, be_rs, J, heads;
    } args = {ft_vk_address(o.p),
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
              o.rs,
              o.hs,
              y.rs,
              a.rs,
              b.rs,
              s->J,
              s->Hk | s->Hv << 16};
    const ft_vk_shader shader = v->shuffles ? FT_VK_DELTA_SHUFFLE : FT_VK_DELTA;
    FT_VK_RUN(v, shader, FT_VK_SPEC((uint32_t)s->S), args, (size_t)s->Hv, (size_t)v->shape.S,
              ft_vk_groups((size_t)s->S, 32));
}
