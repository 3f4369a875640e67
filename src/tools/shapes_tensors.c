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

static ft_shape_tensor *add_tensor(lister *l, const char *name, ft_fill fill, int n_dims,
                                   int64_t n0, int64_t n1, int64_t n2)
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
static void add_matrix(lister *l, const char *name, int64_t in, int64_t out)
{
    add_tensor(l, name, FT_FILL_MATRIX, 2, in, out, 1)->a = 1 / sqrt((double)in);
}

static void add_experts(lister *l, const char *name, int64_t in, int64_t out, int64_t n)
{
    add_tensor(l, name, FT_FILL_MATRIX, 3, in, out, n)->a = 1 / sqrt((double)in);
}

/* Embedding rows; used as the output matrix they give logits of standard deviation 1.5. */
static void add_embedding(lister *l, const char *name, int64_t width, int64_t rows)
{
    add_tensor(l, name, FT_FILL_MATRIX, 2, width, rows, 1)->a = 1.5 / sqrt((double)width);
}

static void add_uniform(lister *l, const char *name, int64_t n, double lo, double hi)
{
    ft_shape_tensor *t = add_tensor(l, name, FT_FILL_UNIFORM, 1, n, 1, 1);
    t->a = lo;
    t->b = hi;
}

static void add_norm(lister *l, const char *name, int64_t n)
{
    add_uniform(l, name, n, 0.9, 1.1);
}

/* ---- Qwen3.5 ---- */

static void qwen_attention(lister *l, const ft_model_shape *s)
{
    const int64_t q = (int64_t)s->heads * s->head, kv = (int64_t)s->kv_heads * s->head;
    add_matrix(l, "attn_q.weight", s->width, 2 * q);
    add_matrix(l, "attn_k.weight", s->width, kv);
    add_matrix(l, "attn_v.weight", s->width, kv);
    add_norm(l, "attn_q_norm.weight", s->head);
    add_norm(l, "attn_k_norm.weight", s->head);
    add_matrix(l, "attn_output.weight", q, s->width);
}

static void qwen_delta(lister *l, const ft_model_shape *s)
{
    const int64_t keys = (int64_t)s->key_heads * s->state;
    const int64_t values = (int64_t)s->value_heads * s->state, channels = 2 * keys + values;
    add_matrix(l, "attn_qkv.weight", s->width, channels);
    add_matrix(l, "attn_gate.weight", s->width, values);
    add_tensor(l, "ssm_conv1d.weight", FT_FILL_F32, 2, s->conv, channels, 1)->a = 0.5;
    add_matrix(l, "ssm_alpha.weight", s->width, s->value_heads);
    add_matrix(l, "ssm_beta.weight", s->width, s->value_heads);
    add_uniform(l, "ssm_dt.bias", s->value_heads, -6, -2);
    add_uniform(l, "ssm_a", s->value_heads, -4, -0.5);
    add_norm(l, "ssm_norm.weight", s->state);
    add_matrix(l, "ssm_out.weight", values, s->width);
}

static void dense_ffn(lister *l, int64_t width, int64_t ffn)
{
    add_matrix(l, "ffn_gate.weight", width, ffn);
    add_matrix(l, "ffn_up.weight", width, ffn);
    add_matrix(l, "ffn_down.weight", ffn, width);
}

static void qwen_ffn(lister *l, const ft_model_shape *s)
{
    if (s->family == FT_QWEN35) {
        dense_ffn(l, s->width, s->ffn);
        return;
    }
    const double a = 1 / sqrt((double)s->width);
    add_tensor(l, "ffn_gate_inp.weight", FT_FILL_F32, 2, s->width, s->experts, 1)->a = a;
    add_experts(l, "ffn_gate_exps.weight", s->width, s->expert_ffn, s->experts);
    add_experts(l, "ffn_up_exps.weight", s->width, s->expert_ffn, s->experts);
    add_experts(l, "ffn_down_exps.weight", s->expert_ffn, s->width, s->experts);
    add_tensor(l, "ffn_gate_inp_shexp.weight", FT_FILL_F32, 1, s->width, 1, 1)->a = a;
    add_matrix(l, "ffn_gate_shexp.weight", s->width, s->shared_ffn);
    add_matrix(l, "ffn_up_shexp.weight", s->width, s->shared_ffn);
    add_matrix(l, "ffn_down_shexp.weight", s->shared_ffn, s->width);
}

static void add_qwen(lister *l, const ft_model_shape *s, bool mtp)
{
    add_embedding(l, "token_embd.weight", s->width, s->vocab);
    add_norm(l, "output_norm.weight", s->width);
    if (s->untied) add_embedding(l, "output.weight", s->width, s->vocab);
    for (l->layer = 0; l->layer < s->layers + mtp; l->layer++) {
        add_norm(l, "attn_norm.weight", s->width);
        add_norm(l, "post_attention_norm.weight", s->width);
        if (l->layer == s->layers || ft_shape_is_attention(s, l->layer))
            qwen_attention(l, s);
        else
            qwen_delta(l, s);
        qwen_ffn(l, s);
    }
    if (!mtp) return;
    l->layer = s->layers;
    add_matrix(l, "nextn.eh_proj.weight", 2 * (int64_t)s->width, s->width);
    add_norm(l, "nextn.enorm.weight", s->width);
    add_norm(l, "nextn.hnorm.weight", s->width);
    add_norm(l, "nextn.shared_head_norm.weight", s->width);
}

/* ---- Gemma 4 ---- */

/* Gemma does not divide attention scores by the square root of the head width, so these norms are
 * scaled instead. */
static void add_head_norm(lister *l, const char *name, int64_t head)
{
    const double c = pow((double)head, -0.25);
    add_uniform(l, name, head, 0.9 * c, 1.1 * c);
}

static void gemma_attention(lister *l, const ft_model_shape *s)
{
    const bool sliding = ft_shape_is_sliding(s, l->layer);
    const int64_t head = sliding ? s->head : s->global_head;
    const int64_t kv = head * (sliding ? s->kv_heads : s->global_kv_heads);
    add_norm(l, "attn_norm.weight", s->width);
    add_matrix(l, "attn_q.weight", s->width, head * s->heads);
    if (l->layer < s->layers - s->shared_kv) {
        add_matrix(l, "attn_k.weight", s->width, kv);
        if (sliding || !s->k_is_v) add_matrix(l, "attn_v.weight", s->width, kv);
        add_head_norm(l, "attn_k_norm.weight", head);
    }
    add_head_norm(l, "attn_q_norm.weight", head);
    add_matrix(l, "attn_output.weight", head * s->heads, s->width);
    add_norm(l, "post_attention_norm.weight", s->width);
}

static void gemma_experts(lister *l, const ft_model_shape *s)
{
    add_tensor(l, "ffn_gate_inp.weight", FT_FILL_F32, 2, s->width, s->experts, 1)->a = 1;
    add_norm(l, "ffn_gate_inp.scale", s->width);
    add_norm(l, "pre_ffw_norm_2.weight", s->width);
    add_norm(l, "post_ffw_norm_1.weight", s->width);
    add_norm(l, "post_ffw_norm_2.weight", s->width);
    add_experts(l, "ffn_gate_up_exps.weight", s->width, 2 * (int64_t)s->expert_ffn, s->experts);
    add_experts(l, "ffn_down_exps.weight", s->expert_ffn, s->width, s->experts);
    add_norm(l, "ffn_down_exps.scale", s->experts);
}

static void gemma_blocks(lister *l, const ft_model_shape *s)
{
    for (l->layer = 0; l->layer < s->layers; l->layer++) {
        const bool wide = s->wide_ffn && l->layer >= s->layers - s->shared_kv;
        gemma_attention(l, s);
        add_norm(l, "ffn_norm.weight", s->width);
        dense_ffn(l, s->width, wide ? s->wide_ffn : s->ffn);
        add_norm(l, "post_ffw_norm.weight", s->width);
        if (s->experts) gemma_experts(l, s);
        if (s->per_layer) {
            add_matrix(l, "inp_gate.weight", s->width, s->per_layer);
            add_matrix(l, "proj.weight", s->per_layer, s->width);
            add_norm(l, "post_norm.weight", s->width);
        }
        add_uniform(l, "layer_output_scale.weight", 1, 0.9, 0.9);
    }
    l->layer = -1;
}

/* The embedding is also the output matrix, and the residual stream starts with one of its rows
 * times the square root of the width. Small rows and a large final norm avoid that every token
 * predicts itself. */
static void add_gemma(lister *l, const ft_model_shape *s)
{
    add_tensor(l, "token_embd.weight", FT_FILL_MATRIX, 2, s->width, s->vocab, 1)->a =
        0.25 / sqrt((double)s->width);
    add_uniform(l, "output_norm.weight", s->width, 5.4, 6.6);
    add_tensor(l, "rope_freqs.weight", FT_FILL_ROPE, 1, s->global_head / 2, 1, 1);
    if (s->per_layer) {
        const int64_t n = (int64_t)s->per_layer * s->layers;
        const double a = 1 / sqrt((double)s->per_layer);
        add_tensor(l, "per_layer_token_embd.weight", FT_FILL_MATRIX, 2, n, s->vocab, 1)->a = a;
        add_tensor(l, "per_layer_model_proj.weight", FT_FILL_HALF, 2, s->width, n, 1)->a = 1;
        add_norm(l, "per_layer_proj_norm.weight", s->per_layer);
    }
    gemma_blocks(l, s);
}

static void add_assistant(lister *l, const ft_model_shape *s)
{
    add_embedding(l, "token_embd.weight", s->width, s->vocab);
    add_norm(l, "output_norm.weight", s->width);
    add_tensor(l, "rope_freqs.weight", FT_FILL_ROPE, 1, s->global_head / 2, 1, 1);
    add_matrix(l, "nextn.pre_projection.weight", 2 * (int64_t)s->target_width, s->width);
    add_matrix(l, "nextn.post_projection.weight", s->width, s->target_width);
    if (s->centroids) {
        add_embedding(l, "masked_embd_centroids.weight", s->width, s->centroids);
        add_tensor(l, "masked_embd_ordering", FT_FILL_ORDER, 1, s->vocab, 1, 1);
    }
    gemma_blocks(l, s);
}

void ft_shape_tensors(ft_shape_list *out, const ft_model_shape *s, bool mtp)
{
    *out = (ft_shape_list){0};
    lister l = {out, -1};
    if (ft_shape_is_qwen(s))
        add_qwen(&l, s, mtp);
    else if (s->family == FT_GEMMA4)
        add_gemma(&l, s);
    else
        add_assistant(&l, s);
}

void ft_shape_list_release(ft_shape_list *l)
{
    ft_free(l->tensor);
    *l = (ft_shape_list){0};
}
