/* tools/hf_qwen35.c - Qwen3.5 and Qwen3.6, dense (qwen35) and mixture of experts (qwen35moe): maps
 * their config to GGUF keys and their tensors to GGUF tensors. The MTP head becomes the last block,
 * after those of the model. */
#include "base/log.h"
#include "base/mem.h"
#include "tools/hf.h"

#include <stdio.h>
#include <string.h>

enum {
    ONE = FT_HF_ONE,
    V = FT_HF_DIM0, /* vocabulary */
    E,              /* width */
    E2,             /* 2 E */
    F,              /* FFN width */
    QG,             /* queries and their gates, 2 Hq D */
    Q,              /* Hq D */
    KV,             /* Hkv D */
    D,              /* head width */
    CH,             /* channels of the convolution: 2 K + I */
    C,              /* its taps */
    I,              /* value channels of a delta net, Hv S */
    HV,             /* its value heads */
    S,              /* their width */
    X,              /* experts */
    FE,             /* an expert's width */
    FE2,            /* 2 FE: gate and up in one tensor */
    FS,             /* the shared expert's width */
};

#define PLUS1 FT_HF_PLUS_ONE

static const ft_hf_row embed_rows[] = {
    {"model.embed_tokens.weight", "token_embd.weight", {V, E}, FT_HF_MORE_ROWS},
};

static const ft_hf_row head_rows[] = {
    {"model.norm.weight", "output_norm.weight", {E}, PLUS1},
};

static const ft_hf_row untied_rows[] = {
    {"lm_head.weight", "output.weight", {V, E}, FT_HF_MORE_ROWS},
};

static const ft_hf_row norm_rows[] = {
    {"input_layernorm.weight", "attn_norm.weight", {E}, PLUS1},
    {"post_attention_layernorm.weight", "post_attention_norm.weight", {E}, PLUS1},
};

static const ft_hf_row attn_rows[] = {
    {"self_attn.q_proj.weight", "attn_q.weight", {QG, E}, 0},
    {"self_attn.k_proj.weight", "attn_k.weight", {KV, E}, 0},
    {"self_attn.v_proj.weight", "attn_v.weight", {KV, E}, 0},
    {"self_attn.o_proj.weight", "attn_output.weight", {E, Q}, 0},
    {"self_attn.q_norm.weight", "attn_q_norm.weight", {D}, PLUS1},
    {"self_attn.k_norm.weight", "attn_k_norm.weight", {D}, PLUS1},
};

static const ft_hf_row delta_rows[] = {
    {"linear_attn.in_proj_qkv.weight", "attn_qkv.weight", {CH, E}, FT_HF_HEADS_TAIL},
    {"linear_attn.in_proj_z.weight", "attn_gate.weight", {I, E}, FT_HF_HEADS},
    {"linear_attn.in_proj_a.weight", "ssm_alpha.weight", {HV, E}, FT_HF_HEADS_ONE},
    {"linear_attn.in_proj_b.weight", "ssm_beta.weight", {HV, E}, FT_HF_HEADS_ONE},
    {"linear_attn.conv1d.weight", "ssm_conv1d.weight", {CH, ONE, C}, FT_HF_HEADS_TAIL},
    {"linear_attn.A_log", "ssm_a", {HV}, FT_HF_HEADS_ONE | FT_HF_NEG_EXP},
    {"linear_attn.dt_bias", "ssm_dt.bias", {HV}, FT_HF_HEADS_ONE},
    {"linear_attn.norm.weight", "ssm_norm.weight", {S}, 0}, /* the one norm without 1 + w */
    {"linear_attn.out_proj.weight", "ssm_out.weight", {E, I}, FT_HF_HEADS_COLS},
};

static const ft_hf_row ffn_rows[] = {
    {"mlp.gate_proj.weight", "ffn_gate.weight", {F, E}, 0},
    {"mlp.up_proj.weight", "ffn_up.weight", {F, E}, 0},
    {"mlp.down_proj.weight", "ffn_down.weight", {E, F}, 0},
};

static const ft_hf_row moe_rows[] = {
    {"mlp.gate.weight", "ffn_gate_inp.weight", {X, E}, 0},
    {"mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight", {ONE, E}, 0},
    {"mlp.shared_expert.gate_proj.weight", "ffn_gate_shexp.weight", {FS, E}, 0},
    {"mlp.shared_expert.up_proj.weight", "ffn_up_shexp.weight", {FS, E}, 0},
    {"mlp.shared_expert.down_proj.weight", "ffn_down_shexp.weight", {E, FS}, 0},
};

static const ft_hf_row expert_rows[] = {
    {"mlp.experts.gate_up_proj", "ffn_gate_exps.weight", {X, FE2, E}, FT_HF_LOWER},
    {"mlp.experts.gate_up_proj", "ffn_up_exps.weight", {X, FE2, E}, FT_HF_UPPER},
    {"mlp.experts.down_proj", "ffn_down_exps.weight", {X, E, FE}, 0},
};

static const ft_hf_row mtp_rows[] = {
    {"mtp.fc.weight", "nextn.eh_proj.weight", {E, E2}, 0},
    {"mtp.pre_fc_norm_embedding.weight", "nextn.enorm.weight", {E}, PLUS1},
    {"mtp.pre_fc_norm_hidden.weight", "nextn.hnorm.weight", {E}, PLUS1},
    {"mtp.norm.weight", "nextn.shared_head_norm.weight", {E}, PLUS1},
    {"mtp.embed_tokens.weight",
     "nextn.embed_tokens.weight",
     {V, E},
     FT_HF_OPTIONAL | FT_HF_MORE_ROWS},
    {"mtp.lm_head.weight",
     "nextn.shared_head_head.weight",
     {V, E},
     FT_HF_OPTIONAL | FT_HF_MORE_ROWS},
};

typedef struct cfg {
    int64_t L, M, interval; /* trunk blocks, MTP blocks, every interval-th block is attention */
    int64_t Hq, Hkv, Hk, Hv, rotary, context, used;
    bool moe;
} cfg;

static void read_config(ft_hf *h, cfg *c)
{
    ft_hf_obj *o = &h->cfg;
    int64_t *dim = h->plan.dim;
    const int64_t big = 1 << 20;
    c->L = ft_hf_int(o, "num_hidden_layers", 1, 511);
    c->interval = ft_hf_int_or(o, "full_attention_interval", 1, 511, 4);
    c->context = ft_hf_int(o, "max_position_embeddings", 1, 1 << 30);
    c->M = ft_hf_int_or(o, "mtp_num_hidden_layers", 0, 1, ft_hf_tensor_has(h, "mtp.fc.weight"));
    dim[V] = h->V = ft_hf_int(o, "vocab_size", 1, 1 << 22);
    dim[E] = ft_hf_int(o, "hidden_size", 1, big);
    dim[E2] = 2 * dim[E];
    c->Hq = ft_hf_int(o, "num_attention_heads", 1, 4096);
    c->Hkv = ft_hf_int_or(o, "num_key_value_heads", 1, 4096, c->Hq);
    dim[D] = ft_hf_int_or(o, "head_dim", 2, 4096, FT_MAX(dim[E] / c->Hq, 2));
    dim[Q] = c->Hq * dim[D];
    dim[QG] = 2 * dim[Q];
    dim[KV] = c->Hkv * dim[D];
    dim[C] = ft_hf_int(o, "linear_conv_kernel_dim", 1, 64);
    dim[S] = ft_hf_int(o, "linear_key_head_dim", 1, 4096);
    c->Hk = ft_hf_int(o, "linear_num_key_heads", 1, 4096);
    dim[HV] = c->Hv = ft_hf_int(o, "linear_num_value_heads", 1, 4096);
    dim[I] = c->Hv * dim[S];
    dim[CH] = 2 * c->Hk * dim[S] + dim[I];
    const int64_t s = ft_hf_int(o, "linear_value_head_dim", 1, 4096);
    if (s != dim[S])
        ft_hf_bad(o, "linear_value_head_dim is %lld, want linear_key_head_dim = %lld", (long long)s,
                  (long long)dim[S]);
    if (c->Hv % c->Hk)
        ft_hf_bad(o, "linear_num_value_heads is %lld, want a multiple of %lld", (long long)c->Hv,
                  (long long)c->Hk);
    if (c->Hq % c->Hkv)
        ft_hf_bad(o, "num_attention_heads is %lld, want a multiple of %lld", (long long)c->Hq,
                  (long long)c->Hkv);
    c->moe = ft_hf_has(o, "num_experts");
    if (c->moe) {
        dim[X] = ft_hf_int(o, "num_experts", 1, 1024);
        c->used = ft_hf_int(o, "num_experts_per_tok", 1, dim[X]);
        dim[FE] = ft_hf_int(o, "moe_intermediate_size", 1, big);
        dim[FE2] = 2 * dim[FE];
        dim[FS] = ft_hf_int(o, "shared_expert_intermediate_size", 1, big);
        dim[F] = ft_hf_int_or(o, "intermediate_size", 1, big, 0);
    } else {
        dim[F] = ft_hf_int(o, "intermediate_size", 1, big);
    }
    h->plan.Hk = c->Hk;
    h->plan.Hv = c->Hv;
    h->plan.S = dim[S];
}

/* A GGUF file has no list of layer types: they follow from the interval, so the list of the
 * checkpoint must match it. */
static void check_layer_types(ft_hf *h, const cfg *c)
{
    bool *full = ft_hf_layer_types(h, c->L, "full_attention", "linear_attention");
    for (int64_t i = 0; full && i < c->L; i++)
        if (full[i] != ((i + 1) % c->interval == 0)) {
            ft_hf_bad(&h->cfg,
                      "layer_types[%lld] is %s_attention, want the other type: every %lldth layer "
                      "is full_attention",
                      (long long)i, full[i] ? "full" : "linear", (long long)c->interval);
            break;
        }
    ft_free(full);
}

static void put_rope(ft_hf *h, const cfg *c)
{
    ft_hf_obj *o = &h->cfg;
    ft_hf_obj rope =
        ft_hf_inner(o, ft_hf_has(o, "rope_parameters") ? "rope_parameters" : "rope_scaling");
    const double theta =
        ft_hf_num_or(&rope, "rope_theta", 1, 1e12, ft_hf_num_or(o, "rope_theta", 1, 1e12, 10000));
    const double part = ft_hf_num_or(&rope, "partial_rotary_factor", 0.001, 1,
                                     ft_hf_num_or(o, "partial_rotary_factor", 0.001, 1, 0.25));
    ft_hf_key_u32(h, "rope.dimension_count", (int64_t)((double)h->plan.dim[D] * part));
    ft_hf_key_f32(h, "rope.freq_base", theta);
    int32_t section[4] = {11, 11, 10, 0};
    const json_t *list = ft_hf_get(&rope, "mrope_section");
    if (list) {
        const size_t n = json_array_size(list);
        if (n < 3 || n > 4)
            ft_hf_bad(&rope, "mrope_section has %zu entries, want 3 or 4", n);
        else
            for (size_t i = 0; i < 4; i++)
                section[i] = (int32_t)json_integer_value(json_array_get(list, i));
    }
    ft_hf_key_i32s(h, "rope.dimension_sections", section, 4);
    const char *type = ft_hf_text_or(&rope, "rope_type", ft_hf_text_or(&rope, "type", "default"));
    if (strcmp(type, "yarn") && strcmp(type, "linear")) return;
    char key[128];
    snprintf(key, sizeof key, "%s.rope.scaling.type", h->arch);
    ft_gguf_put_str(h->w, key, ft_str_of(type));
    ft_hf_key_f32(h, "rope.scaling.factor", ft_hf_num_or(&rope, "factor", 1, 1e6, 1));
    ft_hf_key_u32(h, "rope.scaling.original_context_length",
                  ft_hf_int_or(&rope, "original_max_position_embeddings", 1, 1 << 30, c->context));
}

static void put_keys(ft_hf *h, const cfg *c)
{
    const int64_t *dim = h->plan.dim;
    ft_hf_key_u32(h, "block_count", c->L + c->M);
    ft_hf_key_u32(h, "context_length", c->context);
    ft_hf_key_u32(h, "embedding_length", dim[E]);
    if (dim[F]) ft_hf_key_u32(h, "feed_forward_length", dim[F]);
    ft_hf_key_u32(h, "attention.head_count", c->Hq);
    ft_hf_key_u32(h, "attention.head_count_kv", c->Hkv);
    ft_hf_key_u32(h, "attention.key_length", dim[D]);
    ft_hf_key_u32(h, "attention.value_length", dim[D]);
    ft_hf_key_f32(h, "attention.layer_norm_rms_epsilon",
                  ft_hf_num_or(&h->cfg, "rms_norm_eps", 0, 1, 1e-6));
    put_rope(h, c);
    ft_hf_key_u32(h, "ssm.conv_kernel", dim[C]);
    ft_hf_key_u32(h, "ssm.state_size", dim[S]);
    ft_hf_key_u32(h, "ssm.group_count", c->Hk);
    ft_hf_key_u32(h, "ssm.time_step_rank", c->Hv);
    ft_hf_key_u32(h, "ssm.inner_size", dim[I]);
    ft_hf_key_u32(h, "full_attention_interval", c->interval);
    if (c->moe) {
        ft_hf_key_u32(h, "expert_count", dim[X]);
        ft_hf_key_u32(h, "expert_used_count", c->used);
        ft_hf_key_u32(h, "expert_feed_forward_length", dim[FE]);
        ft_hf_key_u32(h, "expert_shared_feed_forward_length", dim[FS]);
    }
    if (c->M) ft_hf_key_u32(h, "nextn_predict_layers", c->M);
    ft_hf_key_u32(h, "vocab_size", dim[V]);
}

static void add_experts(ft_hf *h, const char *hf, const char *gguf)
{
    char name[256];
    snprintf(name, sizeof name, "%smlp.experts.gate_up_proj", hf);
    if (ft_hf_tensor_has(h, name)) {
        ft_hf_add(h, hf, gguf, expert_rows, FT_COUNT(expert_rows));
        return;
    }
    static const struct {
        const char *hf, *gguf;
        uint8_t rows, cols;
    } stack[] = {
        {"gate_proj", "ffn_gate_exps", FE, E},
        {"up_proj", "ffn_up_exps", FE, E},
        {"down_proj", "ffn_down_exps", E, FE},
    };
    for (size_t i = 0; i < FT_COUNT(stack); i++) {
        char to[64];
        snprintf(name, sizeof name, "%smlp.experts.%%d.%s.weight", hf, stack[i].hf);
        snprintf(to, sizeof to, "%s%s.weight", gguf, stack[i].gguf);
        ft_hf_add_stack(h, name, to, h->plan.dim[X], stack[i].rows, stack[i].cols);
    }
}

static void add_block(ft_hf *h, const cfg *c, const char *hf, const char *gguf, bool delta)
{
    ft_hf_add(h, hf, gguf, norm_rows, FT_COUNT(norm_rows));
    if (delta)
        ft_hf_add(h, hf, gguf, delta_rows, FT_COUNT(delta_rows));
    else
        ft_hf_add(h, hf, gguf, attn_rows, FT_COUNT(attn_rows));
    if (c->moe) {
        ft_hf_add(h, hf, gguf, moe_rows, FT_COUNT(moe_rows));
        add_experts(h, hf, gguf);
    } else {
        ft_hf_add(h, hf, gguf, ffn_rows, FT_COUNT(ffn_rows));
    }
}

static void add_tensors(ft_hf *h, const cfg *c)
{
    char hf[64], gguf[32];
    ft_hf_add(h, "", "", embed_rows, FT_COUNT(embed_rows));
    for (int64_t i = 0; i < c->L && h->mtp != FT_CONVERT_MTP_ONLY; i++) {
        snprintf(hf, sizeof hf, "model.layers.%d.", (int)i);
        snprintf(gguf, sizeof gguf, "blk.%d.", (int)i);
        add_block(h, c, hf, gguf, (i + 1) % c->interval != 0);
    }
    if (c->M) {
        snprintf(gguf, sizeof gguf, "blk.%d.", (int)c->L);
        add_block(h, c, "mtp.layers.0.", gguf, false);
        ft_hf_add(h, "", gguf, mtp_rows, FT_COUNT(mtp_rows));
    }
    ft_hf_add(h, "", "", head_rows, FT_COUNT(head_rows));
    if (!ft_hf_tied(h)) ft_hf_add(h, "", "", untied_rows, FT_COUNT(untied_rows));
}

/* Decides how many MTP blocks the file gets: the config may declare one that the checkpoint does
 * not contain. */
static void choose_mtp_blocks(ft_hf *h, cfg *c)
{
    if (c->M && h->st && !ft_hf_tensor_has(h, "mtp.fc.weight")) {
        if (h->mtp == FT_CONVERT_MTP_KEEP)
            ft_log(FT_LOG_WARN, "%s: the config declares an MTP block, but the checkpoint has none",
                   h->dir);
        c->M = 0;
    }
    if (h->mtp == FT_CONVERT_MTP_ONLY && !c->M)
        ft_hf_bad(&h->cfg, "mtp_num_hidden_layers is 0, want 1 for a file of the MTP block only");
    if (h->mtp == FT_CONVERT_MTP_DROP) c->M = 0;
}

static void build_qwen35(ft_hf *h)
{
    cfg c;
    memset(&c, 0, sizeof c);
    read_config(h, &c);
    check_layer_types(h, &c);
    choose_mtp_blocks(h, &c);
    h->arch = c.moe ? "qwen35moe" : "qwen35";
    if (h->note.st) return;
    ft_gguf_put_str(h->w, "general.architecture", ft_str_of(h->arch));
    put_keys(h, &c);
    add_tensors(h, &c);
    if (h->mtp == FT_CONVERT_MTP_DROP) ft_hf_forget(h, "mtp.");
    if (h->mtp == FT_CONVERT_MTP_ONLY) ft_hf_forget(h, "model.layers.");
    ft_hf_check_all_used(h);
}

const ft_hf_family ft_hf_qwen35 = {
    .model_types = "qwen3_5 qwen3_5_text qwen3_5_moe qwen3_5_moe_text",
    .skip = "model.visual. visual. lm_head.weight",
    .build = build_qwen35,
};
