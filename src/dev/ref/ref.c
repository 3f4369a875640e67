#include "dev/ref/ref.h"

#include "base/mem.h"
#include "quant/quant.h"

float *ft_ref_row(ft_dev *d, size_t n)
{
    ft_ref *r = (ft_ref *)d;
    if (n > r->row_cap) {
        r->row = ft_realloc(r->row, n * sizeof(float));
        r->row_cap = n;
    }
    return r->row;
}

const float *ft_ref_weight(ft_dev *d, const ft_weight *w, int e, int o)
{
    float *row = ft_ref_row(d, (size_t)w->k);
    ft_row_decode(w->type, row, ft_weight_row(w, e, o), (size_t)w->k);
    return row;
}

static void unbind(ft_dev *d, ft_weight *w)
{
    (void)d;
    w->data = NULL;
}

static ft_status reserve(ft_dev *d, const ft_dev_limits *l, ft_err *err)
{
    (void)d, (void)l, (void)err;
    return FT_OK;
}

static void record(ft_dev *d, const ft_batch *b)
{
    d->batch = b;
}

static void commit(ft_dev *d)
{
    (void)d;
}

static ft_status sync(ft_dev *d, ft_err *err)
{
    (void)d, (void)err;
    return FT_OK;
}

static void close(ft_dev *d)
{
    ft_free(((ft_ref *)d)->row);
    ft_free(d);
}

static const ft_ops ops = {
    .embed = ft_ref_embed,
    .rmsnorm = ft_ref_rmsnorm,
    .linear = ft_ref_linear,
    .linears = ft_host_linears,
    .glu = ft_host_glu,
    .rope_angles = ft_ref_rope_angles,
    .norm_rope = ft_ref_norm_rope,
    .kv_put = ft_ref_kv_put,
    .attend = ft_ref_attend,
    .act_mul = ft_ref_act_mul,
    .sigmoid_mul = ft_ref_sigmoid_mul,
    .add = ft_ref_add,
    .norm_add = ft_ref_norm_add,
    .softcap = ft_ref_softcap,
    .gather = ft_ref_gather,
    .argmax = ft_ref_argmax,
    .draw = ft_ref_draw,
    .scatter = ft_ref_scatter,
    .conv = ft_ref_conv,
    .delta_rule = ft_ref_delta_rule,
    .gated_norm = ft_ref_gated_norm,
    .route = ft_ref_route,
    .moe = ft_ref_moe,
    .expert_linear = ft_ref_expert_linear,
    .centroid_head = ft_ref_centroid_head,
    .layernorm = ft_ref_layernorm,
    .affine = ft_ref_affine,
    .clamp = ft_ref_clamp,
    .mix = ft_ref_mix,
    .image_rows = ft_ref_image_rows,
};

ft_dev *ft_dev_ref(void)
{
    ft_ref *r = ft_new(ft_ref);
    r->dev = (ft_dev){
        .op = &ops,
        .name = "ref",
        .unified = true,
        .threads = 1,
        .alloc = ft_host_alloc,
        .free = ft_host_free,
        .upload = ft_host_copy,
        .download = ft_host_copy,
        .move = ft_host_copy,
        .bind = ft_host_bind,
        .unbind = unbind,
        .reserve = reserve,
        .weight_bytes = ft_host_weight_bytes,
        .step_bytes = ft_host_step_bytes,
        .record = record,
        .replay = ft_host_replay,
        .commit = commit,
        .sync = sync,
        .free_bytes = ft_host_free_bytes,
        .read_rate = ft_host_read_rate,
        .close = close,
    };
    return &r->dev;
}
