/* The gated delta net. */
#include "dev/vulkan/vulkan.h"

#include <string.h>

/* Push constants of delta.glsl. */
typedef struct delta_args {
    uint64_t o, y, al, be, A, dt, state, j_k, j_d, j_g, batch, z, w;
    int32_t o_rs, o_hs, y_rs, al_rs, be_rs, heads;
} delta_args;

/* Push constants of conv.comp. */
typedef struct conv_args {
    ft_vk_mat y, u;
    uint64_t w, conv, journal, batch;
    int32_t CH, J;
} conv_args;

/* Push constants of delta_conv.comp. */
typedef struct delta_conv_args {
    delta_args delta;
    int32_t u_rs, pad;
    uint64_t u, w, conv, journal;
} delta_conv_args;

/* What a dispatch of conv.comp computes. */
enum ft_vk_conv_part { CONV_ROWS, CONV_WINDOW, CONV_FEW, CONV_STATE };
enum { CONV_EACH = 8 }; /* rows of an invocation, of many */

void ft_vk_conv(ft_dev *d, ft_mat y, ft_mat u, ft_vec w, const ft_delta *s)
{
    ft_vk *v = (ft_vk *)d;
    const conv_args a = {ft_vk_mat_of(y),
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
    FT_VK_RUN(v, FT_VK_CONV, FT_VK_SPEC(CONV_ROWS, taps), a, columns,
              ft_vk_groups((size_t)u.T, CONV_EACH), 1);
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

/* The convolution of these rows, if the list ends with it and the delta rule, each after a barrier,
 * and the device has enough push constants; false: something else. */
static bool conv_before(const ft_vk *v, const delta_args *a, uint32_t S, uint32_t journal,
                        conv_args *conv)
{
    const ft_vk_command *c = v->n_list > 3 ? &v->list[v->n_list - 3] : NULL;
    if (!c || c[-1].kind != FT_VK_BARRIER || c[0].kind != FT_VK_DISPATCH ||
        c[1].kind != FT_VK_BARRIER || c->pipeline->shader != FT_VK_CONV ||
        c->pipeline->spec[0] != CONV_FEW ||
        v->props.limits.maxPushConstantsSize < sizeof(delta_conv_args))
        return false;
    memcpy(conv, c->push, sizeof *conv);
    const uint32_t heads = 2 * (uint32_t)(a->heads & 0xffff) + (uint32_t)(a->heads >> 16);
    return conv->y.p == a->y && conv->y.rs == a->y_rs && (uint32_t)conv->CH == heads * S &&
           (uint32_t)conv->J == journal;
}

/* The delta rule with the convolution before it and the gated norm after it: takes both off the
 * list. The state of the convolution is written after this. */
static void delta_conv(ft_vk *v, const delta_args *a, const conv_args *conv, uint32_t S,
                       uint32_t journal, uint32_t eps)
{
    const delta_conv_args all = {*a, conv->u.rs, 0, conv->u.p, conv->w, conv->conv, conv->journal};
    const ft_vk_command *c = &v->list[v->n_list - 3];
    const uint32_t taps = c->pipeline->spec[1], columns = c->grid[0], heads = c[2].grid[0];
    v->n_list -= 3;
    ft_vk_dispatch(v, FT_VK_DELTA_CONV, FT_VK_SPEC(S, 4 * S, journal, true, eps, taps), &all,
                   sizeof all, heads, (size_t)v->shape.S, 1);
    FT_VK_RUN(v, FT_VK_CONV, FT_VK_SPEC(CONV_STATE, taps), *conv, columns, (size_t)v->shape.S, 1);
}

bool ft_vk_delta_norm(ft_vk *v, ft_mat y, ft_mat o, ft_mat z, ft_vec w, float eps)
{
    enum { SHARED = 27 << 10 }; /* bytes of shared memory of a head of 128 values */
    const ft_vk_command *c = v->cmd && v->n_list ? &v->list[v->n_list - 1] : NULL;
    delta_args a;
    if (!c || c->kind != FT_VK_DISPATCH || c->pipeline->shader != FT_VK_DELTA_SHUFFLE) return false;
    memcpy(&a, c->push, sizeof a);
    const uint32_t S = c->pipeline->spec[0], journal = c->pipeline->spec[2], heads = c->grid[0];
    const bool same = a.o == ft_vk_address(o.p) && a.o == ft_vk_address(y.p) && z.hs == o.hs &&
                      (o.T == 1 || z.rs == o.rs) && o.d == (int)S && y.d == o.d && z.d == o.d &&
                      o.H == (int)heads && y.hs == o.hs && (o.T == 1 || y.rs == o.rs);
    if (!same || S < 32 || S > 128 || (S & (S - 1)) || v->shape.rows > FT_DECODE_ROWS || !w.p ||
        v->props.limits.maxComputeWorkGroupInvocations < 4 * S ||
        v->props.limits.maxComputeSharedMemorySize < SHARED)
        return false;
    a.z = ft_vk_address(z.p);
    a.w = ft_vk_address(w.p);
    uint32_t bits;
    memcpy(&bits, &eps, sizeof bits);
    conv_args conv;
    if (conv_before(v, &a, S, journal, &conv)) {
        delta_conv(v, &a, &conv, S, journal, bits);
        return true;
    }
    v->n_list--; /* the barrier before it stays */
    ft_vk_dispatch(v, FT_VK_DELTA_SHUFFLE, FT_VK_SPEC(S, 4 * S, journal, true, bits), &a, sizeof a,
                   heads, (size_t)v->shape.S, 1);
    return true;
}

void ft_vk_beside_conv(ft_vk *v, ft_mat y)
{
    const ft_vk_command *c = v->cmd && v->n_list ? &v->list[v->n_list - 1] : NULL;
    conv_args a;
    if (!c || c->kind != FT_VK_DISPATCH || c->pipeline->shader != FT_VK_CONV ||
        c->pipeline->spec[0] != CONV_STATE)
        return;
    memcpy(&a, c->push, sizeof a);
    if (a.u.p != ft_vk_address(y.p)) ft_vk_beside(v);
}
