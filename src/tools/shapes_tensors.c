/* tools/shapes_tensors.c - lists the tensors of a model of a given shape, with magnitudes that keep
 * a random model numerically stable: matrices preserve the variance of their input, norm weights
 * are near one, decays are slow. Activations then neither overflow nor vanish, for any number of
 * tokens. */
#include "base/mem.h"
#include "tools/shapes.h"

#include <math.h>
#include <stdio.h>

typedef struct lister {
    ft_shape_list *out;
    int layer; /* -1: outside the blocks */
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
        snprintf(t->name, sizeof t->name, "blk.%d.%s", l->layer, name);
    return t;
}

/* A matrix {in, out} whose product preserves the variance of its input. */
static void matrix(lister *l, const char *name, int64_t in, int64_t out)
{
    add(l, name, FT_FILL_MATRIX, 2, in, out, 1)->a = 1 / sqrt((double)in);
}

static void experts(lister *l, const char *name, int64_t in, int64_t out, int64_t n)
{
    add(l, name, FT_FILL_MATRIX, 3, in, out, n)->a = 1 / sqrt((double)in);
}

/* Embedding rows; used as the output matrix they give logits of standard deviation 1.5. */
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

static void qwen_attention(lister *l, const ft_shape *s)
{
    const int64_t q = (int64_t)s->heads * s->head, kv = (int64_t)s->kv_heads * s->head;
    matrix(l, "attn_q.weight", s->width, 2 * q);
    matrix(l, "attn_k.weight", s->width, kv);
    matrix(l, "attn_v.weight", s->width, kv);
    norm(l, "attn_q_norm.weight", s->head);
    norm(l, "attn_k_norm.weight", s->head);
    matrix(l, "attn_output.weight", q, s->width);
}

static void qwen_delta(lister *l, const ft_shape *s)
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

static void qwen_ffn(lister *l, const ft_shape *s)
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

static void qwen(lister *l, const ft_shape *s, bool mtp)
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

/* Gemma does not divide attention scores by the square root of the head width, so these norms are
 * scaled instead. */
static void head_norm(lister *l, const char *name, int64_t head)
{
    const double c = pow((double)head, -0.25);
    uniform(l, name, head, 0.9 * c, 1.1 * c);
}

static void gemma_attention(lister *l, const ft_shape *s)
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

static void gemma_experts(lister *l, const ft_shape *s)
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

static void gemma_blocks(lister *l, const ft_shape *s)
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

/* The embedding is also the output matrix, and the residual stream starts with one of its rows
 * times the square root of the width. Small rows and a large final norm avoid that every token
 * predicts itself. */
static void gemma(lister *l, const ft_shape *s)
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

static void assistant(lister *l, const ft_shape *s)
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

void ft_shape_tensors(ft_shape_list *out, const ft_shape *s, bool mtp)
{
    *out = (ft_shape_list){0};
    lister l = {out, -1};
    if (ft_shape_is_qwen(s))
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
