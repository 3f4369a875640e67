/* tools/hf_vision.c - the vision towers of both families: what their config means and where their
 * tensors go in a file of type mmproj. Names, layouts and keys are those that llama.cpp reads; the
 * keys that it does not know are harmless to it. Norm weights are plain; nothing is added. */
#include "base/mem.h"
#include "tools/hf.h"

#include <stdio.h>
#include <string.h>

enum {
    C = FT_HF_DIM0, /* width */
    C3,             /* query, key and value */
    F,              /* FFN width */
    D,              /* head width */
    P,              /* side of a patch */
    TWO,            /* frames */
    THREE,          /* channels */
    PP,             /* values of a patch, 3 P P */
    G,              /* rows of the position table, or of one of its two planes */
    M,              /* merged: 4 C */
    E,              /* width of the text model */
};

static const ft_hf_row qwen_rows[] = {
    {"patch_embed.proj.weight",
     "v.patch_embd.weight",
     {C, THREE, TWO, P, P},
     FT_HF_FRAMES | FT_HF_LOWER},
    {"patch_embed.proj.weight",
     "v.patch_embd.weight.1",
     {C, THREE, TWO, P, P},
     FT_HF_FRAMES | FT_HF_UPPER},
    {"patch_embed.proj.bias", "v.patch_embd.bias", {C}, 0},
    {"pos_embed.weight", "v.position_embd.weight", {G, C}, 0},
    {"merger.norm.weight", "v.post_ln.weight", {C}, 0},
    {"merger.norm.bias", "v.post_ln.bias", {C}, 0},
    {"merger.linear_fc1.weight", "mm.0.weight", {M, M}, 0},
    {"merger.linear_fc1.bias", "mm.0.bias", {M}, 0},
    {"merger.linear_fc2.weight", "mm.2.weight", {E, M}, 0},
    {"merger.linear_fc2.bias", "mm.2.bias", {E}, 0},
};

static const ft_hf_row qwen_block_rows[] = {
    {"norm1.weight", "ln1.weight", {C}, 0},
    {"norm1.bias", "ln1.bias", {C}, 0},
    {"norm2.weight", "ln2.weight", {C}, 0},
    {"norm2.bias", "ln2.bias", {C}, 0},
    {"attn.qkv.weight", "attn_qkv.weight", {C3, C}, 0},
    {"attn.qkv.bias", "attn_qkv.bias", {C3}, 0},
    {"attn.proj.weight", "attn_out.weight", {C, C}, 0},
    {"attn.proj.bias", "attn_out.bias", {C}, 0},
    {"mlp.linear_fc1.weight", "ffn_up.weight", {F, C}, 0},
    {"mlp.linear_fc1.bias", "ffn_up.bias", {F}, 0},
    {"mlp.linear_fc2.weight", "ffn_down.weight", {C, F}, 0},
    {"mlp.linear_fc2.bias", "ffn_down.bias", {C}, 0},
};

static const ft_hf_row gemma_rows[] = {
    {"vision_tower.patch_embedder.input_proj.weight",
     "v.patch_embd.weight",
     {C, PP},
     FT_HF_CHANNELS},
    {"vision_tower.patch_embedder.position_embedding_table",
     "v.position_embd.weight",
     {TWO, G, C},
     0},
    {"vision_tower.std_bias", "v.std_bias", {C}, FT_HF_OPTIONAL},
    {"vision_tower.std_scale", "v.std_scale", {C}, FT_HF_OPTIONAL},
    {"embed_vision.embedding_projection.weight", "mm.input_projection.weight", {E, C}, 0},
};

static const ft_hf_row gemma_block_rows[] = {
    {"input_layernorm.weight", "ln1.weight", {C}, 0},
    {"post_attention_layernorm.weight", "attn_post_norm.weight", {C}, 0},
    {"pre_feedforward_layernorm.weight", "ln2.weight", {C}, 0},
    {"post_feedforward_layernorm.weight", "ffn_post_norm.weight", {C}, 0},
    {"self_attn.q_norm.weight", "attn_q_norm.weight", {D}, 0},
    {"self_attn.k_norm.weight", "attn_k_norm.weight", {D}, 0},
};

/* The matrices of a block, each with four scalars where they are clipped. */
static const struct {
    const char *hf, *gguf;
    uint8_t shape[2];
} gemma_linears[] = {
    {"self_attn.q_proj", "attn_q", {C, C}}, {"self_attn.k_proj", "attn_k", {C, C}},
    {"self_attn.v_proj", "attn_v", {C, C}}, {"self_attn.o_proj", "attn_out", {C, C}},
    {"mlp.gate_proj", "ffn_gate", {F, C}},  {"mlp.up_proj", "ffn_up", {F, C}},
    {"mlp.down_proj", "ffn_down", {C, F}},
};

/* The 12B: no blocks, a patch is what three by three of the others are. */
static const ft_hf_row unified_rows[] = {
    {"vision_embedder.patch_dense.weight", "v.patch_embd.weight", {C, PP}, FT_HF_CHANNELS},
    {"vision_embedder.patch_dense.bias", "v.patch_embd.bias", {C}, 0},
    {"vision_embedder.patch_ln1.weight", "v.patch_norm.1.weight", {PP}, FT_HF_CHANNELS},
    {"vision_embedder.patch_ln1.bias", "v.patch_norm.1.bias", {PP}, FT_HF_CHANNELS},
    {"vision_embedder.patch_ln2.weight", "v.patch_norm.2.weight", {C}, 0},
    {"vision_embedder.patch_ln2.bias", "v.patch_norm.2.bias", {C}, 0},
    {"vision_embedder.pos_norm.weight", "v.patch_norm.3.weight", {C}, 0},
    {"vision_embedder.pos_norm.bias", "v.patch_norm.3.bias", {C}, 0},
    {"vision_embedder.pos_embedding", "v.position_embd.weight", {G, TWO, C}, FT_HF_PLANES},
    {"embed_vision.embedding_projection.weight", "mm.input_projection.weight", {E, C}, 0},
};

/* ---- both families ---- */

bool ft_hf_has_vision(const ft_hf *h)
{
    if (!json_is_object(json_object_get(h->config, "vision_config")) || !h->st) return false;
    for (size_t i = 0; i < ft_st_n_tensor(h->st); i++)
        for (const char *p = h->family->vision; p;) {
            const char *end = strchr(p, ' ');
            if (!strncmp(h->name[i], p, end ? (size_t)(end - p) : strlen(p))) return true;
            p = end ? end + 1 : NULL;
        }
    return false;
}

/* Every tensor of the tower has found its place. */
static void check_vision_used(ft_hf *h)
{
    for (size_t i = 0; h->st && i < ft_st_n_tensor(h->st) && !h->note.st; i++) {
        bool ours = false;
        for (const char *p = h->family->vision; p && !ours;) {
            const char *end = strchr(p, ' ');
            ours = !strncmp(h->name[i], p, end ? (size_t)(end - p) : strlen(p));
            p = end ? end + 1 : NULL;
        }
        if (ours && !h->used[i])
            ft_hf_bad(&h->cfg, "tensor %.200s has no place in a vision tower", h->name[i]);
    }
}

/* preprocessor_config.json, or the part of processor_config.json that stands for it. */
static ft_hf_obj preprocessor(ft_hf *h)
{
    if (h->preprocessor)
        return (ft_hf_obj){
            .at = {h->preprocessor, NULL}, .file = "preprocessor_config.json", .note = &h->note};
    ft_hf_obj all = {.at = {h->processor, NULL}, .file = "processor_config.json", .note = &h->note};
    return ft_hf_inner(&all, "image_processor");
}

static ft_hf_obj vision_config(ft_hf *h)
{
    ft_hf_obj whole = {.at = {h->config, NULL}, .file = "config.json", .note = &h->note};
    ft_hf_obj v = ft_hf_inner(&whole, "vision_config");
    if (!v.at[0]) ft_hf_bad(&whole, "vision_config is missing: the folder has no vision tower");
    return v;
}

static void check_activation(ft_hf_obj *v, const char *key)
{
    const char *act = ft_hf_text_or(v, key, "gelu_pytorch_tanh");
    if (strcmp(act, "gelu_pytorch_tanh"))
        ft_hf_bad(v, "vision_config: %s is %.60s, want gelu_pytorch_tanh", key, act);
}

static void put_f32s(ft_hf *h, const char *key, float v)
{
    const float list[3] = {v, v, v};
    char full[128];
    snprintf(full, sizeof full, "%s.%s", h->arch, key);
    ft_gguf_put_array(h->w, full, FT_GGUF_F32, list, 3);
}

static void put_common(ft_hf *h, int64_t image, int64_t heads, int64_t blocks, double eps,
                       float mean, float std)
{
    const int64_t *dim = h->plan.dim;
    ft_hf_key_bool(h, "has_vision_encoder", true);
    ft_hf_key_bool(h, "use_gelu", true);
    ft_hf_key_u32(h, "vision.image_size", image);
    ft_hf_key_u32(h, "vision.patch_size", dim[P]);
    ft_hf_key_u32(h, "vision.embedding_length", dim[C]);
    ft_hf_key_u32(h, "vision.feed_forward_length", dim[F]);
    ft_hf_key_u32(h, "vision.block_count", blocks);
    ft_hf_key_u32(h, "vision.attention.head_count", heads);
    ft_hf_key_f32(h, "vision.attention.layer_norm_epsilon", eps);
    ft_hf_key_u32(h, "vision.projection_dim", dim[E]);
    put_f32s(h, "vision.image_mean", mean);
    put_f32s(h, "vision.image_std", std);
}

static void begin(ft_hf *h)
{
    h->arch = "clip";
    h->plan.dim[TWO] = 2;
    h->plan.dim[THREE] = 3;
    h->plan.dim[E] = ft_hf_int(&h->cfg, "hidden_size", 1, 1 << 20);
    ft_gguf_put_str(h->w, "general.architecture", FT_STR("clip"));
}

/* ---- Qwen ---- */

static void read_qwen(ft_hf *h, ft_hf_obj *v, int64_t *side)
{
    int64_t *dim = h->plan.dim;
    dim[C] = ft_hf_int(v, "hidden_size", 4, 1 << 16);
    dim[C3] = 3 * dim[C];
    dim[F] = ft_hf_int(v, "intermediate_size", 1, 1 << 20);
    dim[P] = ft_hf_int_or(v, "patch_size", 1, 1024, 16);
    dim[G] = ft_hf_int(v, "num_position_embeddings", 1, 1 << 20);
    const int64_t merge = ft_hf_int_or(v, "spatial_merge_size", 1, 16, 2);
    dim[M] = merge * merge * dim[C];
    for (*side = 1; *side * *side < dim[G]; ++*side) {
    }
    if (*side * *side != dim[G])
        ft_hf_bad(v, "vision_config: num_position_embeddings is %lld, want a square number",
                  (long long)dim[G]);
    if (ft_hf_int_or(v, "temporal_patch_size", 1, 64, 2) != 2)
        ft_hf_bad(v, "vision_config: temporal_patch_size is not 2");
    if (ft_hf_int_or(v, "out_hidden_size", 1, 1 << 20, dim[E]) != dim[E])
        ft_hf_bad(v, "vision_config: out_hidden_size is not the text model's hidden_size, %lld",
                  (long long)dim[E]);
    if (json_array_size(ft_hf_get(v, "deepstack_visual_indexes")) > 0)
        ft_hf_bad(v, "vision_config: deepstack_visual_indexes is not empty: this is Qwen3-VL, "
                     "which is not supported");
    check_activation(v, "hidden_act");
}

void ft_hf_qwen35_vision(ft_hf *h)
{
    ft_hf_obj v = vision_config(h);
    begin(h);
    int64_t side = 1;
    read_qwen(h, &v, &side);
    const int64_t L = ft_hf_int(&v, "depth", 1, 512), heads = ft_hf_int(&v, "num_heads", 1, 1024);
    const int64_t merge = ft_hf_int_or(&v, "spatial_merge_size", 1, 16, 2);
    ft_hf_obj pre = preprocessor(h), size = ft_hf_inner(&pre, "size");
    const int64_t lo = ft_hf_int_or(&size, "shortest_edge", 1, 1 << 30, 65536);
    const int64_t hi = ft_hf_int_or(&size, "longest_edge", lo, 1 << 30, 16777216);
    if (h->note.st) return;
    ft_gguf_put_str(h->w, "clip.projector_type", FT_STR("qwen3vl_merger"));
    put_common(h, side * h->plan.dim[P], heads, L, 1e-6, 0.5f, 0.5f);
    ft_hf_key_u32(h, "vision.spatial_merge_size", merge);
    const uint8_t flat[512] = {0};
    ft_gguf_put_array(h->w, "clip.vision.is_deepstack_layers", FT_GGUF_BOOL, flat, (uint64_t)L);
    ft_hf_key_u32(h, "vision.image_min_pixels", lo);
    ft_hf_key_u32(h, "vision.image_max_pixels", hi);
    const char *prefix =
        ft_hf_tensor_has(h, "visual.patch_embed.proj.weight") ? "visual." : "model.visual.";
    ft_hf_add(h, prefix, "", qwen_rows, FT_COUNT(qwen_rows));
    for (int64_t l = 0; l < L; l++) {
        char hf[64], gguf[32];
        snprintf(hf, sizeof hf, "%sblocks.%d.", prefix, (int)l);
        snprintf(gguf, sizeof gguf, "v.blk.%d.", (int)l);
        ft_hf_add(h, hf, gguf, qwen_block_rows, FT_COUNT(qwen_block_rows));
    }
    check_vision_used(h);
}

/* ---- Gemma ---- */

static void add_gemma_block(ft_hf *h, int l)
{
    static const char *const bound[] = {"input_min", "input_max", "output_min", "output_max"};
    char hf[96], gguf[32], from[64], to[32];
    snprintf(hf, sizeof hf, "model.vision_tower.encoder.layers.%d.", l);
    snprintf(gguf, sizeof gguf, "v.blk.%d.", l);
    ft_hf_add(h, hf, gguf, gemma_block_rows, FT_COUNT(gemma_block_rows));
    for (size_t i = 0; i < FT_COUNT(gemma_linears); i++) {
        snprintf(from, sizeof from, "%s.linear.weight", gemma_linears[i].hf);
        snprintf(to, sizeof to, "%s.weight", gemma_linears[i].gguf);
        const ft_hf_row row = {from, to, {gemma_linears[i].shape[0], gemma_linears[i].shape[1]}, 0};
        ft_hf_add(h, hf, gguf, &row, 1);
        for (int k = 0; k < 4; k++) {
            snprintf(from, sizeof from, "%s.%s", gemma_linears[i].hf, bound[k]);
            snprintf(to, sizeof to, "%s.%s", gemma_linears[i].gguf, bound[k]);
            const ft_hf_row scalar = {from, to, {FT_HF_END}, FT_HF_OPTIONAL};
            ft_hf_add(h, hf, gguf, &scalar, 1);
        }
    }
}

/* The patch kernel in four dimensions, as every other program stores it. */
static void spread_kernel(ft_hf *h)
{
    const int64_t p = h->plan.dim[P];
    for (size_t i = 0; i < h->plan.n; i++) {
        ft_hf_item *it = &h->plan.item[i];
        if (strcmp(it->name, "v.patch_embd.weight")) continue;
        const int64_t n[4] = {p, p, 3, it->rows};
        memcpy(it->n, n, sizeof n);
        it->n_dims = 4;
    }
}

static void put_gemma(ft_hf *h, const char *projector, int64_t K, int64_t tokens)
{
    const int64_t unit = h->plan.dim[P] * K;
    ft_gguf_put_str(h->w, "clip.vision.projector_type", ft_str_of(projector));
    ft_hf_key_u32(h, "vision.projector.scale_factor", K);
    ft_hf_key_u32(h, "vision.image_min_pixels", 0);
    ft_hf_key_u32(h, "vision.image_max_pixels", tokens * unit * unit);
    const char *ahead = ft_hf_text_or(&h->cfg, "use_bidirectional_attention", "none");
    ft_gguf_put_str(h->w, "foretoken.image_attention",
                    strcmp(ahead, "vision") ? FT_STR("causal") : FT_STR("bidirectional"));
}

static void build_unified(ft_hf *h, ft_hf_obj *v, int64_t K, int64_t tokens)
{
    int64_t *dim = h->plan.dim;
    const int64_t side = ft_hf_int_or(v, "model_patch_size", 1, 4096, dim[P] * K);
    dim[C] = ft_hf_int(v, "mm_embed_dim", 1, 1 << 16);
    dim[G] = ft_hf_int_or(v, "mm_posemb_size", 1, 1 << 20, 1120);
    dim[PP] = 3 * side * side;
    if (side != dim[P] * K)
        ft_hf_bad(v,
                  "vision_config: model_patch_size is %lld, want patch_size * "
                  "pooling_kernel_size = %lld",
                  (long long)side, (long long)(dim[P] * K));
    if (h->note.st) return;
    put_common(h, 224, 1, 0, 1e-5, 0, 1);
    put_gemma(h, "gemma4uv", K, tokens);
    ft_hf_add(h, "model.", "", unified_rows, FT_COUNT(unified_rows));
}

void ft_hf_gemma4_vision(ft_hf *h)
{
    int64_t *dim = h->plan.dim;
    ft_hf_obj v = vision_config(h), pre = preprocessor(h);
    begin(h);
    dim[P] = ft_hf_int_or(&v, "patch_size", 1, 1024, 16);
    const int64_t K = ft_hf_int_or(&v, "pooling_kernel_size", 1, 64, 3);
    const int64_t tokens = ft_hf_int_or(&pre, "max_soft_tokens", 1, 1 << 16, 280);
    if (ft_hf_tensor_has(h, "model.vision_embedder.patch_dense.weight")) {
        build_unified(h, &v, K, tokens);
        if (!h->note.st) check_vision_used(h);
        return;
    }
    const int64_t L = ft_hf_int(&v, "num_hidden_layers", 1, 512);
    const int64_t heads = ft_hf_int(&v, "num_attention_heads", 1, 1024);
    dim[C] = ft_hf_int(&v, "hidden_size", 4, 1 << 16);
    dim[F] = ft_hf_int(&v, "intermediate_size", 1, 1 << 20);
    dim[D] = ft_hf_int_or(&v, "head_dim", 4, 4096, dim[C] / heads);
    dim[G] = ft_hf_int_or(&v, "position_embedding_size", 1, 1 << 20, 10240);
    dim[PP] = 3 * dim[P] * dim[P];
    check_activation(&v, "hidden_activation");
    if (dim[D] * heads != dim[C] ||
        ft_hf_int_or(&v, "num_key_value_heads", 1, 1024, heads) != heads)
        ft_hf_bad(&v, "vision_config: %lld heads of %lld are not hidden_size = %lld",
                  (long long)heads, (long long)dim[D], (long long)dim[C]);
    if (h->note.st) return;
    put_common(h, 224, heads, L, ft_hf_num_or(&v, "rms_norm_eps", 0, 1, 1e-6), 0, 1);
    put_gemma(h, "gemma4v", K, tokens);
    ft_hf_add(h, "model.", "", gemma_rows, FT_COUNT(gemma_rows));
    spread_kernel(h);
    for (int64_t l = 0; l < L; l++) add_gemma_block(h, (int)l);
    check_vision_used(h);
}
