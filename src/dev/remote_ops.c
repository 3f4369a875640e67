/* dev/remote_ops.c - the ops of a remote device: each writes its arguments into the stream of
 * commands, in the order in which remote_serve.c reads them. */
#include "dev/remote_priv.h"

#define PUT(V) ft_remote_put(r, &(V), sizeof(V))
#define BEGIN(OP)                                                                                  \
    ft_remote *r = (ft_remote *)d;                                                                 \
    ft_remote_begin(r, FT_REMOTE_##OP)

static void put_weight(ft_remote *r, const ft_weight *w)
{
    const ft_remote_weight as = ft_remote_weight_of(r, w);
    PUT(as);
}

static void put_experts(ft_remote *r, const ft_experts *e)
{
    const int32_t is[] = {e->E, e->F, (int32_t)e->act};
    put_weight(r, &e->gate);
    put_weight(r, &e->up);
    put_weight(r, &e->gate_up);
    put_weight(r, &e->down);
    PUT(is);
}

static void put_kv(ft_remote *r, const ft_kv *kv)
{
    PUT(*kv);
    if (kv->recent) PUT(*kv->recent);
}

static void embed(ft_dev *d, ft_mat y, const ft_weight *w, float scale)
{
    BEGIN(EMBED);
    PUT(y);
    put_weight(r, w);
    PUT(scale);
}

static void rmsnorm(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, float eps)
{
    BEGIN(RMSNORM);
    PUT(y);
    PUT(x);
    PUT(w);
    PUT(eps);
}

static void linear(ft_dev *d, ft_mat y, ft_mat x, const ft_weight *w, bool acc)
{
    BEGIN(LINEAR);
    PUT(y);
    PUT(x);
    put_weight(r, w);
    PUT(acc);
}

static void linears(ft_dev *d, const ft_product_out *o, int n, ft_mat x)
{
    BEGIN(LINEARS);
    PUT(n);
    for (int i = 0; i < n; i++) {
        PUT(o[i].y);
        put_weight(r, o[i].w);
    }
    PUT(x);
}

static void glu(ft_dev *d, ft_mat y, ft_mat u, ft_mat x, const ft_weight *gate, const ft_weight *up,
                ft_act act)
{
    BEGIN(GLU);
    PUT(y);
    PUT(u);
    PUT(x);
    put_weight(r, gate);
    put_weight(r, up);
    PUT(act);
}

static void rope_angles(ft_dev *d, ft_mat cs, const ft_rope *p)
{
    BEGIN(ROPE_ANGLES);
    PUT(cs);
    PUT(*p);
}

static void norm_rope(ft_dev *d, ft_mat x, ft_vec w, float eps, ft_mat cs)
{
    BEGIN(NORM_ROPE);
    PUT(x);
    PUT(w);
    PUT(eps);
    PUT(cs);
}

static void kv_put(ft_dev *d, const ft_kv *kv, ft_mat k, ft_mat v)
{
    BEGIN(KV_PUT);
    put_kv(r, kv);
    PUT(k);
    PUT(v);
}

static void attend(ft_dev *d, ft_mat o, ft_mat q, const ft_kv *kv, ft_attn p)
{
    BEGIN(ATTEND);
    PUT(o);
    PUT(q);
    put_kv(r, kv);
    PUT(p);
}

static void act_mul(ft_dev *d, ft_mat y, ft_mat g, ft_mat u, ft_act act)
{
    BEGIN(ACT_MUL);
    PUT(y);
    PUT(g);
    PUT(u);
    PUT(act);
}

static void sigmoid_mul(ft_dev *d, ft_mat y, ft_mat g)
{
    BEGIN(SIGMOID_MUL);
    PUT(y);
    PUT(g);
}

static void add(ft_dev *d, ft_mat y, ft_mat x, float scale)
{
    BEGIN(ADD);
    PUT(y);
    PUT(x);
    PUT(scale);
}

static void norm_add(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, float eps, float scale,
                     const ft_norm_out *o, int n)
{
    BEGIN(NORM_ADD);
    PUT(y);
    PUT(x);
    PUT(w);
    PUT(eps);
    PUT(scale);
    PUT(n);
    for (int i = 0; i < n; i++) PUT(o[i]);
}

static void softcap(ft_dev *d, ft_mat y, float c)
{
    BEGIN(SOFTCAP);
    PUT(y);
    PUT(c);
}

static void gather(ft_dev *d, ft_mat y, ft_mat x, int which)
{
    BEGIN(GATHER);
    PUT(y);
    PUT(x);
    PUT(which);
}

static void argmax(ft_dev *d, int32_t *id, ft_mat x)
{
    BEGIN(ARGMAX);
    PUT(id);
    PUT(x);
}

static void scatter(ft_dev *d, ft_mat y, ft_mat x)
{
    BEGIN(SCATTER);
    PUT(y);
    PUT(x);
}

static void conv(ft_dev *d, ft_mat y, ft_mat u, ft_vec w, const ft_delta *s)
{
    BEGIN(CONV);
    PUT(y);
    PUT(u);
    PUT(w);
    PUT(*s);
}

static void delta_rule(ft_dev *d, ft_mat o, ft_mat y, ft_mat a, ft_mat b, ft_vec A, ft_vec dt,
                       const ft_delta *s)
{
    BEGIN(DELTA_RULE);
    PUT(o);
    PUT(y);
    PUT(a);
    PUT(b);
    PUT(A);
    PUT(dt);
    PUT(*s);
}

static void gated_norm(ft_dev *d, ft_mat y, ft_mat o, ft_mat z, ft_vec w, float eps)
{
    BEGIN(GATED_NORM);
    PUT(y);
    PUT(o);
    PUT(z);
    PUT(w);
    PUT(eps);
}

static void route(ft_dev *d, ft_expert_choice c, ft_mat x)
{
    BEGIN(ROUTE);
    PUT(c);
    PUT(x);
}

static void moe(ft_dev *d, ft_mat y, ft_mat x, const ft_experts *e, ft_expert_choice c, ft_mat tmp,
                bool acc)
{
    BEGIN(MOE);
    PUT(y);
    PUT(x);
    put_experts(r, e);
    PUT(c);
    PUT(tmp);
    PUT(acc);
}

static void expert_linear(ft_dev *d, ft_mat y, ft_mat x, const ft_weight *w, ft_expert_choice c,
                          bool acc)
{
    BEGIN(EXPERT_LINEAR);
    PUT(y);
    PUT(x);
    put_weight(r, w);
    PUT(c);
    PUT(acc);
}

static void moe_shared(ft_dev *d, ft_mat y, ft_mat x, const ft_experts *e, ft_expert_choice c,
                       ft_mat tmp, const ft_shared_expert *sh)
{
    BEGIN(MOE_SHARED);
    PUT(y);
    PUT(x);
    put_experts(r, e);
    PUT(c);
    PUT(tmp);
    put_weight(r, sh->gate);
    put_weight(r, sh->up);
    put_weight(r, sh->down);
    PUT(sh->s);
    PUT(sh->g);
    PUT(sh->u);
}

static void centroid_head(ft_dev *d, ft_mat y, ft_mat x, ft_mat score, const ft_weight *w,
                          const int32_t *order, int top)
{
    BEGIN(CENTROID_HEAD);
    PUT(y);
    PUT(x);
    PUT(score);
    put_weight(r, w);
    PUT(order);
    PUT(top);
}

static void image_rows(ft_dev *d, ft_mat y, ft_mat x)
{
    BEGIN(IMAGE_ROWS);
    PUT(y);
    PUT(x);
}

static void mix(ft_dev *d, ft_mat y, ft_mat x, ft_mixing m, bool acc)
{
    BEGIN(MIX);
    PUT(y);
    PUT(x);
    PUT(m);
    PUT(acc);
}

const ft_ops ft_remote_ops = {
    .embed = embed,
    .rmsnorm = rmsnorm,
    .linear = linear,
    .linears = linears,
    .glu = glu,
    .rope_angles = rope_angles,
    .norm_rope = norm_rope,
    .kv_put = kv_put,
    .attend = attend,
    .act_mul = act_mul,
    .sigmoid_mul = sigmoid_mul,
    .add = add,
    .norm_add = norm_add,
    .softcap = softcap,
    .gather = gather,
    .argmax = argmax,
    .scatter = scatter,
    .conv = conv,
    .delta_rule = delta_rule,
    .gated_norm = gated_norm,
    .route = route,
    .moe = moe,
    .expert_linear = expert_linear,
    .moe_shared = moe_shared,
    .centroid_head = centroid_head,
    .image_rows = image_rows,
    .mix = mix,
};
