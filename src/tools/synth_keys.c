/* tools/synth_keys.c - writes the metadata of a synthetic model, with the same keys as a converted
 * one. */
#include "tools/synth_keys.h"

#include "base/mem.h"
#include "tools/synth_vocab.h"

#include <stdio.h>

/* Writes keys under "<arch>.". */
typedef struct keys {
    ft_gguf_writer *w;
    const char *arch;
    char name[96];
} keys;

static const char *full_key(keys *k, const char *key)
{
    snprintf(k->name, sizeof k->name, "%s.%s", k->arch, key);
    return k->name;
}

static void put_u32(keys *k, const char *key, int v)
{
    ft_gguf_put_u32(k->w, full_key(k, key), (uint32_t)v);
}

static void put_f32(keys *k, const char *key, float v)
{
    ft_gguf_put_f32(k->w, full_key(k, key), v);
}

static void qwen_keys(keys *k, const ft_model_shape *s, bool mtp)
{
    put_u32(k, "block_count", s->layers + mtp);
    if (mtp) put_u32(k, "nextn_predict_layers", 1);
    if (s->ffn) put_u32(k, "feed_forward_length", s->ffn);
    put_u32(k, "attention.head_count_kv", s->kv_heads);
    put_u32(k, "attention.key_length", s->head);
    put_u32(k, "attention.value_length", s->head);
    put_u32(k, "rope.dimension_count", s->rotary);
    const int pairs = s->rotary / 2;
    const int32_t sections[] = {(pairs + 2) / 3, (pairs + 1) / 3, pairs / 3, 0};
    ft_gguf_put_array(k->w, full_key(k, "rope.dimension_sections"), FT_GGUF_I32, sections, 4);
    put_f32(k, "rope.freq_base", 1e7f);
    put_u32(k, "ssm.conv_kernel", s->conv);
    put_u32(k, "ssm.inner_size", s->value_heads * s->state);
    put_u32(k, "ssm.state_size", s->state);
    put_u32(k, "ssm.time_step_rank", s->value_heads);
    put_u32(k, "ssm.group_count", s->key_heads);
    put_u32(k, "full_attention_interval", s->every);
    if (s->experts) put_u32(k, "expert_shared_feed_forward_length", s->shared_ffn);
}

static void gemma_arrays(keys *k, const ft_model_shape *s)
{
    const size_t n = (size_t)s->layers;
    uint8_t *sliding = ft_new_n(uint8_t, n);
    int32_t *kv = ft_new_n(int32_t, n), *ffn = ft_new_n(int32_t, n);
    for (int i = 0; i < s->layers; i++) {
        sliding[i] = ft_shape_is_sliding(s, i);
        kv[i] = sliding[i] ? s->kv_heads : s->global_kv_heads;
        ffn[i] = s->wide_ffn && i >= s->layers - s->shared_kv ? s->wide_ffn : s->ffn;
    }
    ft_gguf_put_array(k->w, full_key(k, "attention.sliding_window_pattern"), FT_GGUF_BOOL, sliding,
                      n);
    if (s->kv_heads == s->global_kv_heads)
        put_u32(k, "attention.head_count_kv", s->kv_heads);
    else
        ft_gguf_put_array(k->w, full_key(k, "attention.head_count_kv"), FT_GGUF_I32, kv, n);
    if (s->wide_ffn)
        ft_gguf_put_array(k->w, full_key(k, "feed_forward_length"), FT_GGUF_I32, ffn, n);
    else
        put_u32(k, "feed_forward_length", s->ffn);
    ft_free(sliding);
    ft_free(kv);
    ft_free(ffn);
}

static void gemma_keys(keys *k, const ft_model_shape *s)
{
    put_u32(k, "block_count", s->layers);
    gemma_arrays(k, s);
    put_u32(k, "attention.sliding_window", s->window);
    put_u32(k, "attention.shared_kv_layers", s->shared_kv);
    put_u32(k, "attention.key_length", s->global_head);
    put_u32(k, "attention.value_length", s->global_head);
    put_u32(k, "attention.key_length_swa", s->head);
    put_u32(k, "attention.value_length_swa", s->head);
    put_u32(k, "rope.dimension_count", s->global_head);
    put_u32(k, "rope.dimension_count_swa", s->head);
    put_f32(k, "rope.freq_base", 1e6f);
    put_f32(k, "rope.freq_base_swa", 1e4f);
    put_u32(k, "embedding_length_per_layer_input", s->per_layer);
    if (s->family == FT_GEMMA4) {
        put_f32(k, "final_logit_softcapping", 30);
        return;
    }
    put_u32(k, "embedding_length_out", s->target_width);
    put_u32(k, "nextn_predict_layers", s->layers);
    if (!s->centroids) return;
    ft_gguf_put_bool(k->w, full_key(k, "use_ordered_embeddings"), true);
    put_u32(k, "n_centroids", s->centroids);
    put_u32(k, "centroid_top_k", FT_MIN(s->centroids / 4, 32));
}

/* The value of general.file_type for this type; -1: none. */
static int file_type(ft_type t)
{
    static const struct {
        ft_type type;
        int label;
    } labels[] = {
        {FT_F32, 0},    {FT_F16, 1},     {FT_Q4_0, 2},     {FT_Q4_1, 3},    {FT_Q8_0, 7},
        {FT_Q5_0, 8},   {FT_Q5_1, 9},    {FT_Q2_K, 10},    {FT_Q3_K, 12},   {FT_Q4_K, 15},
        {FT_Q5_K, 17},  {FT_Q6_K, 18},   {FT_IQ2_XXS, 19}, {FT_IQ2_XS, 20}, {FT_IQ3_XXS, 23},
        {FT_IQ1_S, 24}, {FT_IQ4_NL, 25}, {FT_IQ3_S, 26},   {FT_IQ2_S, 28},  {FT_IQ4_XS, 30},
        {FT_IQ1_M, 31}, {FT_BF16, 32},   {FT_TQ1_0, 36},   {FT_TQ2_0, 37},  {FT_MXFP4, 38},
        {FT_NVFP4, 39}, {FT_Q1_0, 40},   {FT_Q2_0, 41},    {FT_TQ3_1S, 43}, {FT_TQ4_1S, 44},
    };
    for (size_t i = 0; i < FT_COUNT(labels); i++)
        if (labels[i].type == t) return labels[i].label;
    return -1;
}

void ft_synth_keys(ft_gguf_writer *w, const ft_model_shape *s, ft_type type, bool mtp)
{
    keys k = {.w = w, .arch = ft_shape_arch(s)};
    char name[80];
    snprintf(name, sizeof name, "synthetic %s", s->name);
    ft_gguf_put_str(w, "general.architecture", ft_str_of(k.arch));
    ft_gguf_put_str(w, "general.type", FT_STR("model"));
    ft_gguf_put_str(w, "general.name", ft_str_of(name));
    ft_gguf_put_str(w, "general.size_label", ft_str_of(s->name));
    if (file_type(type) >= 0) ft_gguf_put_u32(w, "general.file_type", (uint32_t)file_type(type));
    ft_gguf_put_u32(w, "general.quantization_version", 2);
    put_u32(&k, "context_length", s->context);
    put_u32(&k, "embedding_length", s->width);
    put_u32(&k, "vocab_size", s->vocab);
    put_u32(&k, "attention.head_count", s->heads);
    put_f32(&k, "attention.layer_norm_rms_epsilon", 1e-6f);
    if (s->experts) {
        put_u32(&k, "expert_count", s->experts);
        put_u32(&k, "expert_used_count", s->used);
        put_u32(&k, "expert_feed_forward_length", s->expert_ffn);
    }
    if (ft_shape_is_qwen(s)) {
        qwen_keys(&k, s, mtp);
        ft_synth_vocab_qwen(w, s->vocab);
    } else {
        gemma_keys(&k, s);
        ft_synth_vocab_gemma(w, s->vocab);
    }
}
