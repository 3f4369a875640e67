/* tools/hf_gemma4.c - Gemma 4: dense, edge (per-layer inputs, layers that share keys and values)
 * and mixture-of-experts models, and the drafter gemma4-assistant: maps their config to GGUF keys
 * and their tensors to GGUF tensors. Norm weights are stored unchanged (no 1 + w). */
#include "base/mem.h"
#include "tools/hf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ONE = FT_HF_ONE,
    V = FT_HF_DIM0, /* vocabulary */
    E,              /* width */
    F,              /* FFN width of this layer */
    Q,              /* Hq d of this layer */
    KV,             /* Hkv d of this layer */
    D,              /* head width of this layer */
    P,              /* width of the per-layer inputs */
    PL,             /* P times the number of layers */
    X,              /* experts */
    FE,             /* an expert's width */
    FE2,            /* 2 FE: gate and up in one tensor */
    T2,             /* drafter: twice the target's width */
    T,              /* drafter: the target's width */
    NC,             /* drafter: centroids */
};

static const ft_hf_row embed_rows[] = {
    {"model.embed_tokens.weight", "token_embd.weight", {V, E}, FT_HF_MORE_ROWS},
};

static const ft_hf_row head_rows[] = {
    {"model.norm.weight", "output_norm.weight", {E}, 0},
};

static const ft_hf_row untied_rows[] = {
    {"lm_head.weight", "output.weight", {V, E}, FT_HF_MORE_ROWS},
};

static const ft_hf_row per_layer_rows[] = {
    {"model.embed_tokens_per_layer.weight",
     "per_layer_token_embd.weight",
     {V, PL},
     FT_HF_MORE_ROWS},
    {"model.per_layer_model_projection.weight", "per_layer_model_proj.weight", {PL, E}, 0},
    {"model.per_layer_projection_norm.weight", "per_layer_proj_norm.weight", {P}, 0},
};

static const ft_hf_row layer_rows[] = {
    {"input_layernorm.weight", "attn_norm.weight", {E}, 0},
    {"self_attn.q_proj.weight", "attn_q.weight", {Q, E}, 0},
    {"self_attn.q_norm.weight", "attn_q_norm.weight", {D}, 0},
    {"self_attn.o_proj.weight", "attn_output.weight", {E, Q}, 0},
    {"post_attention_layernorm.weight", "post_attention_norm.weight", {E}, 0},
    {"pre_feedforward_layernorm.weight", "ffn_norm.weight", {E}, 0},
    {"mlp.gate_proj.weight", "ffn_gate.weight", {F, E}, 0},
    {"mlp.up_proj.weight", "ffn_up.weight", {F, E}, 0},
    {"mlp.down_proj.weight", "ffn_down.weight", {E, F}, 0},
    {"post_feedforward_layernorm.weight", "post_ffw_norm.weight", {E}, 0},
    {"layer_scalar", "layer_output_scale.weight", {ONE}, FT_HF_OPTIONAL},
};

static const ft_hf_row key_rows[] = {
    /* layers that compute their own keys and values */
    {"self_attn.k_proj.weight", "attn_k.weight", {KV, E}, 0},
    {"self_attn.k_norm.weight", "attn_k_norm.weight", {D}, 0},
};

static const ft_hf_row value_rows[] = {
    /* absent where values come from the key projection */
    {"self_attn.v_proj.weight", "attn_v.weight", {KV, E}, 0},
};

static const ft_hf_row moe_rows[] = {
    {"router.proj.weight", "ffn_gate_inp.weight", {X, E}, 0},
    {"router.scale", "ffn_gate_inp.scale", {E}, 0},
    {"router.per_expert_scale", "ffn_down_exps.scale", {X}, 0},
    {"experts.gate_up_proj", "ffn_gate_up_exps.weight", {X, FE2, E}, 0},
    {"experts.down_proj", "ffn_down_exps.weight", {X, E, FE}, 0},
    {"pre_feedforward_layernorm_2.weight", "pre_ffw_norm_2.weight", {E}, 0},
    {"post_feedforward_layernorm_1.weight", "post_ffw_norm_1.weight", {E}, 0},
    {"post_feedforward_layernorm_2.weight", "post_ffw_norm_2.weight", {E}, 0},
};

static const ft_hf_row per_layer_input_rows[] = {
    {"per_layer_input_gate.weight", "inp_gate.weight", {P, E}, 0},
    {"per_layer_projection.weight", "proj.weight", {E, P}, 0},
    {"post_per_layer_input_norm.weight", "post_norm.weight", {E}, 0},
};

static const ft_hf_row drafter_rows[] = {
    {"pre_projection.weight", "nextn.pre_projection.weight", {E, T2}, 0},
    {"post_projection.weight", "nextn.post_projection.weight", {T, E}, 0},
};

static const ft_hf_row centroid_rows[] = {
    {"masked_embedding.centroids.weight", "masked_embd_centroids.weight", {NC, E}, 0},
};

typedef struct cfg {
    int64_t L, shared, window, context;
    int64_t Hq, Hkv, Hkv_global, d, d_global;
    int64_t used, centroids, top_k;
    bool drafter, double_wide, k_is_v, moe;
    bool *swa; /* L flags: this layer uses sliding-window attention */
} cfg;

/* Newer configs store the values of the global layers in per_layer_config. */
static int64_t of_global_layer(ft_hf *h, const cfg *c, const char *key, int64_t lo, int64_t hi)
{
    ft_hf_obj per = ft_hf_inner(&h->cfg, "per_layer_config");
    const char *layer;
    json_t *value;
    json_object_foreach(per.at[0], layer, value)
    {
        const long l = strtol(layer, NULL, 10);
        if (l < 0 || l >= c->L || c->swa[l] || !json_is_object(value)) continue;
        ft_hf_obj o = {.at = {value, NULL}, .file = h->cfg.file, .note = &h->note};
        if (ft_hf_has(&o, key)) return ft_hf_int(&o, key, lo, hi);
    }
    return 0;
}

static void read_attention(ft_hf *h, cfg *c)
{
    ft_hf_obj *o = &h->cfg;
    c->Hq = ft_hf_int(o, "num_attention_heads", 1, 4096);
    c->Hkv = ft_hf_int_or(o, "num_key_value_heads", 1, 4096, c->Hq);
    c->d = ft_hf_int(o, "head_dim", 2, 4096);
    c->k_is_v = ft_hf_bool_or(o, "attention_k_eq_v", false);
    c->d_global = ft_hf_int_or(o, "global_head_dim", 2, 4096, 0);
    if (!c->d_global) c->d_global = of_global_layer(h, c, "head_dim", 2, 4096);
    if (!c->d_global) c->d_global = c->d;
    c->Hkv_global = ft_hf_int_or(o, "num_global_key_value_heads", 1, 4096, 0);
    if (!c->Hkv_global) c->Hkv_global = of_global_layer(h, c, "num_key_value_heads", 1, 4096);
    if (ft_hf_has(o, "attention_k_eq_v") && !c->k_is_v) c->Hkv_global = 0;
    c->window = ft_hf_int(o, "sliding_window", 1, 1 << 30);
    c->shared = ft_hf_int_or(o, "num_kv_shared_layers", 0, c->L, 0);
    if (!c->drafter && c->Hq % c->Hkv)
        ft_hf_bad(o, "num_attention_heads is %lld, want a multiple of %lld", (long long)c->Hq,
                  (long long)c->Hkv);
}

static void read_config(ft_hf *h, cfg *c)
{
    ft_hf_obj *o = &h->cfg;
    int64_t *dim = h->plan.dim;
    const int64_t big = 1 << 20;
    c->L = ft_hf_int(o, "num_hidden_layers", 1, 511);
    c->context = ft_hf_int(o, "max_position_embeddings", 1, 1 << 30);
    c->swa = ft_hf_layer_types(h, c->L, "sliding_attention", "full_attention");
    if (!c->swa) {
        ft_hf_bad(o, "layer_types is missing, want a list of %lld", (long long)c->L);
        return;
    }
    dim[V] = h->V = ft_hf_int(o, "vocab_size", 1, 1 << 22);
    dim[E] = ft_hf_int(o, "hidden_size", 1, big);
    dim[F] = ft_hf_int(o, "intermediate_size", 1, big);
    dim[P] = ft_hf_int_or(o, "hidden_size_per_layer_input", 0, big, 0);
    dim[PL] = dim[P] * c->L;
    c->double_wide = ft_hf_bool_or(o, "use_double_wide_mlp", false);
    read_attention(h, c);
    c->moe = ft_hf_bool_or(o, "enable_moe_block", ft_hf_has(o, "num_experts"));
    if (c->moe) {
        dim[X] = ft_hf_int(o, "num_experts", 1, 1024);
        c->used = ft_hf_int(o, "top_k_experts", 1, dim[X]);
        dim[FE] = ft_hf_has(o, "expert_intermediate_size")
                      ? ft_hf_int(o, "expert_intermediate_size", 1, big)
                      : ft_hf_int(o, "moe_intermediate_size", 1, big);
        dim[FE2] = 2 * dim[FE];
    }
    if (!c->drafter) return;
    dim[T] = ft_hf_int(o, "backbone_hidden_size", 1, big);
    dim[T2] = 2 * dim[T];
    if (!ft_hf_bool_or(o, "use_ordered_embeddings", false)) return;
    dim[NC] = c->centroids = ft_hf_int_or(o, "num_centroids", 1, dim[V], 2048);
    c->top_k = ft_hf_int_or(o, "centroid_intermediate_top_k", 1, dim[NC], 32);
    if (dim[V] % dim[NC])
        ft_hf_bad(o, "vocab_size is %lld, want a multiple of num_centroids = %lld",
                  (long long)dim[V], (long long)dim[NC]);
}

static ft_hf_obj rope_of(ft_hf *h, const char *kind)
{
    ft_hf_obj all = ft_hf_inner(&h->cfg, "rope_parameters");
    return ft_hf_inner(&all, kind);
}

/* Writes a scalar when all layers have the same value, else a list. */
static void put_per_layer(ft_hf *h, const char *key, const cfg *c, const int32_t *v)
{
    for (int64_t l = 1; l < c->L; l++)
        if (v[l] != v[0]) {
            ft_hf_key_i32s(h, key, v, (size_t)c->L);
            return;
        }
    ft_hf_key_u32(h, key, v[0]);
}

static int64_t kv_heads(const cfg *c, int64_t l)
{
    return c->swa[l] || !c->Hkv_global ? c->Hkv : c->Hkv_global;
}

static int64_t ffn_width(const cfg *c, int64_t F0, int64_t l)
{
    return c->double_wide && l >= c->L - c->shared ? 2 * F0 : F0;
}

static void put_attention_keys(ft_hf *h, const cfg *c)
{
    int32_t kv[512], ff[512];
    bool *swa = c->swa;
    for (int64_t l = 0; l < c->L; l++) {
        kv[l] = (int32_t)kv_heads(c, l);
        ff[l] = (int32_t)ffn_width(c, h->plan.dim[F], l);
    }
    put_per_layer(h, "feed_forward_length", c, ff);
    ft_hf_key_u32(h, "attention.head_count", c->Hq);
    put_per_layer(h, "attention.head_count_kv", c, kv);
    ft_hf_key_u32(h, "attention.key_length", c->d_global);
    ft_hf_key_u32(h, "attention.value_length", c->d_global);
    ft_hf_key_u32(h, "attention.key_length_swa", c->d);
    ft_hf_key_u32(h, "attention.value_length_swa", c->d);
    ft_hf_key_f32(h, "attention.layer_norm_rms_epsilon",
                  ft_hf_num_or(&h->cfg, "rms_norm_eps", 0, 1, 1e-6));
    ft_hf_key_u32(h, "attention.sliding_window", c->window);
    uint8_t flag[512];
    for (int64_t l = 0; l < c->L; l++) flag[l] = swa[l];
    char key[128];
    snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", h->arch);
    ft_gguf_put_array(h->w, key, FT_GGUF_BOOL, flag, (uint64_t)c->L);
    ft_hf_key_u32(h, "attention.shared_kv_layers", c->shared);
    ft_hf_obj full = rope_of(h, "full_attention"), near = rope_of(h, "sliding_attention");
    ft_hf_key_u32(h, "rope.dimension_count", c->d_global);
    ft_hf_key_u32(
        h, "rope.dimension_count_swa",
        (int64_t)((double)c->d * ft_hf_num_or(&near, "partial_rotary_factor", 0.001, 1, 1)));
    ft_hf_key_f32(h, "rope.freq_base", ft_hf_num_or(&full, "rope_theta", 1, 1e12, 1e6));
    ft_hf_key_f32(h, "rope.freq_base_swa", ft_hf_num_or(&near, "rope_theta", 1, 1e12, 1e4));
}

static void put_keys(ft_hf *h, const cfg *c)
{
    const int64_t *dim = h->plan.dim;
    ft_hf_key_u32(h, "block_count", c->L);
    ft_hf_key_u32(h, "context_length", c->context);
    ft_hf_key_u32(h, "embedding_length", dim[E]);
    put_attention_keys(h, c);
    ft_hf_key_u32(h, "embedding_length_per_layer_input", dim[P]);
    if (ft_hf_has(&h->cfg, "final_logit_softcapping"))
        ft_hf_key_f32(h, "final_logit_softcapping",
                      ft_hf_num_or(&h->cfg, "final_logit_softcapping", 0, 1e6, 0));
    if (c->moe) {
        ft_hf_key_u32(h, "expert_count", dim[X]);
        ft_hf_key_u32(h, "expert_used_count", c->used);
        ft_hf_key_u32(h, "expert_feed_forward_length", dim[FE]);
    }
    if (c->drafter) {
        ft_hf_key_u32(h, "embedding_length_out", dim[T]);
        ft_hf_key_u32(h, "nextn_predict_layers", c->L);
        ft_hf_key_bool(h, "use_ordered_embeddings", c->centroids > 0);
        if (c->centroids) {
            ft_hf_key_u32(h, "n_centroids", c->centroids);
            ft_hf_key_u32(h, "centroid_top_k", c->top_k);
        }
    }
    ft_hf_key_u32(h, "vocab_size", dim[V]);
}

/* One divisor per pair of a global head: 1 where the pair rotates, 1e30 where it does not. */
static void add_rope_freqs(ft_hf *h, const cfg *c)
{
    ft_hf_obj full = rope_of(h, "full_attention");
    const double part = ft_hf_num_or(&full, "partial_rotary_factor", 0, 1, 0.25);
    const int64_t n = c->d_global / 2, turning = (int64_t)((double)c->d_global * part / 2);
    float f[2048];
    for (int64_t i = 0; i < n; i++) f[i] = i < turning ? 1.0f : 1e30f;
    ft_hf_add_made(h, "rope_freqs.weight", f, n);
}

static void add_layer(ft_hf *h, const cfg *c, int64_t l, int64_t F0)
{
    char hf[64], gguf[32];
    snprintf(hf, sizeof hf, "model.layers.%d.", (int)l);
    snprintf(gguf, sizeof gguf, "blk.%d.", (int)l);
    int64_t *dim = h->plan.dim;
    dim[D] = c->swa[l] ? c->d : c->d_global;
    dim[Q] = c->Hq * dim[D];
    dim[KV] = kv_heads(c, l) * dim[D];
    dim[F] = ffn_width(c, F0, l);
    ft_hf_add(h, hf, gguf, layer_rows, FT_COUNT(layer_rows));
    if (l < c->L - c->shared) {
        ft_hf_add(h, hf, gguf, key_rows, FT_COUNT(key_rows));
        if (c->swa[l] || !c->k_is_v) ft_hf_add(h, hf, gguf, value_rows, FT_COUNT(value_rows));
    }
    if (c->moe) ft_hf_add(h, hf, gguf, moe_rows, FT_COUNT(moe_rows));
    if (dim[P]) ft_hf_add(h, hf, gguf, per_layer_input_rows, FT_COUNT(per_layer_input_rows));
}

/* A layer that shares the keys and values of another layer may still have its own projections in
 * the checkpoint. They are unused and are skipped. */
static void skip_shared(ft_hf *h, const cfg *c)
{
    static const char *const part[] = {"k_proj.", "v_proj.", "k_norm."};
    for (int64_t l = c->L - c->shared; l < c->L; l++)
        for (size_t i = 0; i < FT_COUNT(part); i++) {
            char name[96];
            snprintf(name, sizeof name, "model.layers.%d.self_attn.%s", (int)l, part[i]);
            ft_hf_forget(h, name);
        }
}

static void add_tensors(ft_hf *h, const cfg *c)
{
    const int64_t F0 = h->plan.dim[F];
    ft_hf_add(h, "", "", embed_rows, FT_COUNT(embed_rows));
    add_rope_freqs(h, c);
    if (h->plan.dim[P]) ft_hf_add(h, "", "", per_layer_rows, FT_COUNT(per_layer_rows));
    for (int64_t l = 0; l < c->L; l++) add_layer(h, c, l, F0);
    skip_shared(h, c);
    ft_hf_add(h, "", "", head_rows, FT_COUNT(head_rows));
    if (c->drafter) {
        ft_hf_add(h, "", "", drafter_rows, FT_COUNT(drafter_rows));
        if (c->centroids) {
            ft_hf_add(h, "", "", centroid_rows, FT_COUNT(centroid_rows));
            ft_hf_add_ids(h, "masked_embedding.token_ordering", "masked_embd_ordering", h->V);
        }
    } else if (!ft_hf_tied(h)) {
        ft_hf_add(h, "", "", untied_rows, FT_COUNT(untied_rows));
    }
}

static void build_gemma4(ft_hf *h)
{
    cfg c;
    memset(&c, 0, sizeof c);
    const char *type = json_string_value(json_object_get(h->config, "model_type"));
    c.drafter = type && strstr(type, "assistant");
    h->arch = c.drafter ? "gemma4-assistant" : "gemma4";
    if (h->mtp == FT_CONVERT_MTP_ONLY)
        ft_hf_bad(&h->cfg, "model_type is %s, which has no MTP block", type);
    read_config(h, &c);
    if (!h->note.st) {
        ft_gguf_put_str(h->w, "general.architecture", ft_str_of(h->arch));
        put_keys(h, &c);
        add_tensors(h, &c);
        ft_hf_check_all_used(h);
    }
    ft_free(c.swa);
}

const ft_hf_family ft_hf_gemma4 = {
    .model_types = "gemma4 gemma4_text gemma4_unified gemma4_unified_text gemma4_assistant "
                   "gemma4_unified_assistant",
    .skip = "model.vision_tower. model.embed_vision. model.audio_tower. model.embed_audio. "
            "model.vision_embedder. model.audio_embedder. lm_head.weight",
    .build = build_gemma4,
};
