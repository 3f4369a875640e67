/* tools/shapes_tensors.c - which tensors a model of a shape has, and what magnitudes keep a random
 * model sane: matrices keep the variance of their input, norms sit around one, decays are negative
 * and slow. With these no activation explodes or dies out, over any number of tokens. */
#include "base/mem.h"
#include "tools/shapes.h"

#include <math.h>
#include <stdio.h>

typedef struct lister {
    ft_shape_list *out;
    int layer;          /* -1: outside the blocks */
    const char *prefix; /* of a block's tensors */
} lister;

static ft_shape_tensor *add(lister *l, const char *name, ft_fill fill, int n_dims, int64_t n0,
                            int64_t n1, int64_t n2)
{
    ft_shape_list *o = l->out;
    if (o->n == o->cap) {
        o->cap = o->cap ? o->cap * 2 : 256;
        o->tensor = ft_realloc(o->tensor, o->cap * sizeof *o->tensor);
    }
    ft_shape_tensor *t = &o->tensor[o->n++];
    *t = (ft_shape_tensor){.n_dims = n_dims, .n = {n0, n1, n2}, .fill = fill};
    if (l->layer < 0)
        snprintf(t->name, sizeof t->name, "%s", name);
    else
        snprintf(t->name, sizeof t->name, "%s%d.%s", l->prefix, l->layer, name);
    return t;
}

/* {in, out}: a product with it keeps the variance of its input. */
static void matrix(lister *l, const char *name, int64_t in, int64_t out)
{
    add(l, name, FT_FILL_MATRIX, 2, in, out, 1)->a = 1 / sqrt((double)in);
}

static void experts(lister *l, const char *name, int64_t in, int64_t out, int64_t n)
{
    add(l, name, FT_FILL_MATRIX, 3, in, out, n)->a = 1 / sqrt((double)in);
}

/* Rows of embeddings; as an output matrix they give logits of deviation 1.5. */
static void embedding(lister *l, const char *name, int64_t width, int64_t rows)
{
    add(l, name, FT_FILL_MATRIX, 2, width, rows, 1)->a = 1.5 / sqrt((double)width);
}

static void uniform(lister *l, const char *name, int64_t n, double lo, double hi)
{
    ft_shape_tensor *t = add(l, name, FT_FILL_UNIFORM, 1, n, 1, 1);
    t->a = lo;
    t->b = hi;
}

static void norm(lister *l, const char *name, int64_t n)
{
    uniform(l, name, n, 0.9, 1.1);
}

/* ---- Qwen3.5 ---- */

static void qwen_attention(lister *l, const ft_model_shape *s)
{
    const int64_t q = (int64_t)s->heads * s->head, kv = (int64_t)s->kv_heads * s->head;
    matrix(l, "attn_q.weight", s->width, 2 * q);
    matrix(l, "attn_k.weight", s->width, kv);
    matrix(l, "attn_v.weight", s->width, kv);
    norm(l, "attn_q_norm.weight", s->head);
    norm(l, "attn_k_norm.weight", s->head);
    matrix(l, "attn_output.weight", q, s->width);
}

static void qwen_delta(lister *l, const ft_model_shape *s)
{
    const int64_t keys = (int64_t)s->key_heads * s->state;
    const int64_t values = (int64_t)s->value_heads * s->state, channels = 2 * keys + values;
    matrix(l, "attn_qkv.weight", s->width, channels);
    matrix(l, "attn_gate.weight", s->width, values);
    add(l, "ssm_conv1d.weight", FT_FILL_F32, 2, s->conv, channels, 1)->a = 0.5;
    matrix(l, "ssm_alpha.weight", s->width, s->value_heads);
    matrix(l, "ssm_beta.weight", s->width, s->value_heads);
    uniform(l, "ssm_dt.bias", s->value_heads, -6, -2);
    uniform(l, "ssm_a", s->value_heads, -4, -0.5);
    norm(l, "ssm_norm.weight", s->state);
    matrix(l, "ssm_out.weight", values, s->width);
}

static void dense_ffn(lister *l, int64_t width, int64_t ffn)
{
    matrix(l, "ffn_gate.weight", width, ffn);
    matrix(l, "ffn_up.weight", width, ffn);
    matrix(l, "ffn_down.weight", ffn, width);
}

static void qwen_ffn(lister *l, const ft_model_shape *s)
{
    if (s->family == FT_QWEN35) {
        dense_ffn(l, s->width, s->ffn);
        return;
    }
    const double a = 1 / sqrt((double)s->width);
    add(l, "ffn_gate_inp.weight", FT_FILL_F32, 2, s->width, s->experts, 1)->a = a;
    experts(l, "ffn_gate_exps.weight", s->width, s->expert_ffn, s->experts);
    experts(l, "ffn_up_exps.weight", s->width, s->expert_ffn, s->experts);
    experts(l, "ffn_down_exps.weight", s->expert_ffn, s->width, s->experts);
    add(l, "ffn_gate_inp_shexp.weight", FT_FILL_F32, 1, s->width, 1, 1)->a = a;
    matrix(l, "ffn_gate_shexp.weight", s->width, s->shared_ffn);
    matrix(l, "ffn_up_shexp.weight", s->width, s->shared_ffn);
    matrix(l, "ffn_down_shexp.weight", s->shared_ffn, s->width);
}

static void qwen(lister *l, const ft_model_shape *s, bool mtp)
{
    embedding(l, "token_embd.weight", s->width, s->vocab);
    norm(l, "output_norm.weight", s->width);
    if (s->untied) embedding(l, "output.weight", s->width, s->vocab);
    for (l->layer = 0; l->layer < s->layers + mtp; l->layer++) {
        norm(l, "attn_norm.weight", s->width);
        norm(l, "post_attention_norm.weight", s->width);
        if (l->layer == s->layers || ft_shape_is_attention(s, l->layer))
            qwen_attention(l, s);
        else
            qwen_delta(l, s);
        qwen_ffn(l, s);
    }
    if (!mtp) return;
    l->layer = s->layers;
    matrix(l, "nextn.eh_proj.weight", 2 * (int64_t)s->width, s->width);
    norm(l, "nextn.enorm.weight", s->width);
    norm(l, "nextn.hnorm.weight", s->width);
    norm(l, "nextn.shared_head_norm.weight", s->width);
}

/* ---- Gemma 4 ---- */

/* Attention scores are not divided by the root of the head's width, so these norms do it. */
static void head_norm(lister *l, const char *name, int64_t head)
{
    const double c = pow((double)head, -0.25);
    uniform(l, name, head, 0.9 * c, 1.1 * c);
}

static void gemma_attention(lister *l, const ft_model_shape *s)
{
    const bool sliding = ft_shape_is_sliding(s, l->layer);
    const int64_t head = sliding ? s->head : s->global_head;
    const int64_t kv = head * (sliding ? s->kv_heads : s->global_kv_heads);
    norm(l, "attn_norm.weight", s->width);
    matrix(l, "attn_q.weight", s->width, head * s->heads);
    if (l->layer < s->layers - s->shared_kv) {
        matrix(l, "attn_k.weight", s->width, kv);
        if (sliding || !s->k_is_v) matrix(l, "attn_v.weight", s->width, kv);
        head_norm(l, "attn_k_norm.weight", head);
    }
    head_norm(l, "attn_q_norm.weight", head);
    matrix(l, "attn_output.weight", head * s->heads, s->width);
    norm(l, "post_attention_norm.weight", s->width);
}

static void gemma_experts(lister *l, const ft_model_shape *s)
{
    add(l, "ffn_gate_inp.weight", FT_FILL_F32, 2, s->width, s->experts, 1)->a = 1;
    norm(l, "ffn_gate_inp.scale", s->width);
    norm(l, "pre_ffw_norm_2.weight", s->width);
    norm(l, "post_ffw_norm_1.weight", s->width);
    norm(l, "post_ffw_norm_2.weight", s->width);
    experts(l, "ffn_gate_up_exps.weight", s->width, 2 * (int64_t)s->expert_ffn, s->experts);
    experts(l, "ffn_down_exps.weight", s->expert_ffn, s->width, s->experts);
    norm(l, "ffn_down_exps.scale", s->experts);
}

static void gemma_blocks(lister *l, const ft_model_shape *s)
{
    for (l->layer = 0; l->layer < s->layers; l->layer++) {
        const bool wide = s->wide_ffn && l->layer >= s->layers - s->shared_kv;
        gemma_attention(l, s);
        norm(l, "ffn_norm.weight", s->width);
        dense_ffn(l, s->width, wide ? s->wide_ffn : s->ffn);
        norm(l, "post_ffw_norm.weight", s->width);
        if (s->experts) gemma_experts(l, s);
        if (s->per_layer) {
            matrix(l, "inp_gate.weight", s->width, s->per_layer);
            matrix(l, "proj.weight", s->per_layer, s->width);
            norm(l, "post_norm.weight", s->width);
        }
        uniform(l, "layer_output_scale.weight", 1, 0.9, 0.9);
    }
    l->layer = -1;
}

/* The table is the output matrix too, and the stream starts with a row of it times the root of the
 * width. Small rows and a large last norm keep a token from predicting itself. */
static void gemma(lister *l, const ft_model_shape *s)
{
    add(l, "token_embd.weight", FT_FILL_MATRIX, 2, s->width, s->vocab, 1)->a =
        0.25 / sqrt((double)s->width);
    uniform(l, "output_norm.weight", s->width, 5.4, 6.6);
    add(l, "rope_freqs.weight", FT_FILL_ROPE, 1, s->global_head / 2, 1, 1);
    if (s->per_layer) {
        const int64_t n = (int64_t)s->per_layer * s->layers;
        const double a = 1 / sqrt((double)s->per_layer);
        add(l, "per_layer_token_embd.weight", FT_FILL_MATRIX, 2, n, s->vocab, 1)->a = a;
        add(l, "per_layer_model_proj.weight", FT_FILL_HALF, 2, s->width, n, 1)->a = 1;
        norm(l, "per_layer_proj_norm.weight", s->per_layer);
    }
    gemma_blocks(l, s);
}

static void assistant(lister *l, const ft_model_shape *s)
{
    embedding(l, "token_embd.weight", s->width, s->vocab);
    norm(l, "output_norm.weight", s->width);
    add(l, "rope_freqs.weight", FT_FILL_ROPE, 1, s->global_head / 2, 1, 1);
    matrix(l, "nextn.pre_projection.weight", 2 * (int64_t)s->target_width, s->width);
    matrix(l, "nextn.post_projection.weight", s->width, s->target_width);
    if (s->centroids) {
        embedding(l, "masked_embd_centroids.weight", s->width, s->centroids);
        add(l, "masked_embd_ordering", FT_FILL_ORDER, 1, s->vocab, 1, 1);
    }
    gemma_blocks(l, s);
}

/* ---- vision towers ---- */

enum { PATCH = 16, POOL = 3 };

static void bias(lister *l, const char *name, int64_t n)
{
    uniform(l, name, n, -0.1, 0.1);
}

static void kernel(lister *l, const char *name, int64_t side, int64_t out)
{
    ft_shape_tensor *t = add(l, name, FT_FILL_F32, 4, side, side, 3);
    t->n[3] = out;
    t->a = 1 / sqrt(3.0 * (double)(side * side));
}

static void qwen_tower(lister *l, const ft_model_shape *s)
{
    const int64_t C = s->width, M = 4 * C;
    kernel(l, "v.patch_embd.weight", PATCH, C);
    kernel(l, "v.patch_embd.weight.1", PATCH, C);
    bias(l, "v.patch_embd.bias", C);
    add(l, "v.position_embd.weight", FT_FILL_F32, 2, C, s->positions, 1)->a = 0.3;
    for (l->layer = 0; l->layer < s->layers; l->layer++) {
        norm(l, "ln1.weight", C);
        bias(l, "ln1.bias", C);
        norm(l, "ln2.weight", C);
        bias(l, "ln2.bias", C);
        matrix(l, "attn_qkv.weight", C, 3 * C);
        bias(l, "attn_qkv.bias", 3 * C);
        matrix(l, "attn_out.weight", C, C);
        bias(l, "attn_out.bias", C);
        matrix(l, "ffn_up.weight", C, s->ffn);
        bias(l, "ffn_up.bias", s->ffn);
        matrix(l, "ffn_down.weight", s->ffn, C);
        bias(l, "ffn_down.bias", C);
    }
    l->layer = -1;
    norm(l, "v.post_ln.weight", C);
    bias(l, "v.post_ln.bias", C);
    matrix(l, "mm.0.weight", M, M);
    bias(l, "mm.0.bias", M);
    matrix(l, "mm.2.weight", M, s->target_width);
    bias(l, "mm.2.bias", s->target_width);
}

/* A matrix and, where they are clipped, its bounds. */
static void clipped(lister *l, const ft_model_shape *s, const char *name, int64_t in, int64_t out)
{
    static const char *const bound[] = {"input_min", "input_max", "output_min", "output_max"};
    char full[64];
    snprintf(full, sizeof full, "%s.weight", name);
    matrix(l, full, in, out);
    for (int i = 0; i < 4 && s->clipped; i++) {
        const double lo = i % 2 ? 8 : -10;
        snprintf(full, sizeof full, "%s.%s", name, bound[i]);
        uniform(l, full, 1, lo, lo + 2);
    }
}

static void gemma_tower(lister *l, const ft_model_shape *s)
{
    const int64_t C = s->width, d = C / s->heads;
    kernel(l, "v.patch_embd.weight", PATCH, C);
    add(l, "v.position_embd.weight", FT_FILL_F32, 3, C, s->positions, 2)->a = 0.3;
    for (l->layer = 0; l->layer < s->layers; l->layer++) {
        norm(l, "ln1.weight", C);
        norm(l, "attn_post_norm.weight", C);
        norm(l, "ln2.weight", C);
        norm(l, "ffn_post_norm.weight", C);
        head_norm(l, "attn_q_norm.weight", d);
        head_norm(l, "attn_k_norm.weight", d);
        clipped(l, s, "attn_q", C, C);
        clipped(l, s, "attn_k", C, C);
        clipped(l, s, "attn_v", C, C);
        clipped(l, s, "attn_out", C, C);
        clipped(l, s, "ffn_gate", C, s->ffn);
        clipped(l, s, "ffn_up", C, s->ffn);
        clipped(l, s, "ffn_down", s->ffn, C);
    }
    l->layer = -1;
    if (!s->clipped) {
        bias(l, "v.std_bias", C);
        uniform(l, "v.std_scale", C, 0.2, 0.4);
    }
    matrix(l, "mm.input_projection.weight", C, s->target_width);
}

static void unified_tower(lister *l, const ft_model_shape *s)
{
    static const char *const name[] = {"v.patch_norm.1", "v.patch_norm.2", "v.patch_norm.3"};
    const int64_t C = s->width, side = PATCH * POOL, n = 3 * side * side;
    add(l, "v.patch_embd.weight", FT_FILL_F32, 2, n, C, 1)->a = 1 / sqrt((double)n);
    bias(l, "v.patch_embd.bias", C);
    for (int i = 0; i < 3; i++) {
        char full[64];
        snprintf(full, sizeof full, "%s.weight", name[i]);
        norm(l, full, i ? C : n);
        snprintf(full, sizeof full, "%s.bias", name[i]);
        bias(l, full, i ? C : n);
    }
    add(l, "v.position_embd.weight", FT_FILL_F32, 3, C, s->positions, 2)->a = 0.3;
    matrix(l, "mm.input_projection.weight", C, s->target_width);
}

void ft_shape_tensors(ft_shape_list *out, const ft_model_shape *s, bool mtp)
{
    *out = (ft_shape_list){0};
    lister l = {out, -1, ft_shape_is_tower(s) ? "v.blk." : "blk."};
    if (s->family == FT_QWEN35_TOWER)
        qwen_tower(&l, s);
    else if (s->family == FT_GEMMA4_TOWER)
        gemma_tower(&l, s);
    else if (s->family == FT_GEMMA4_UNIFIED)
        unified_tower(&l, s);
    else if (ft_shape_is_qwen(s))
        qwen(&l, s, mtp);
    else if (s->family == FT_GEMMA4)
        gemma(&l, s);
    else
        assistant(&l, s);
}

void ft_shape_list_release(ft_shape_list *l)
{
    ft_free(l->tensor);
    *l = (ft_shape_list){0};
}
