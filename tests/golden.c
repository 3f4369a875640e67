/* tests/golden.c - the golden folders: builds the GGUF of each, checks the result of the
 * conversion, and runs the model. The expected tensors are listed here independently of the tables
 * of the converter.
 *
 *   golden FOLDER...               check; ends with "N passed, N failed"
 *   golden --keep OUT FOLDER...    the same, and leave golden-NAME.gguf (and mmproj-NAME.gguf) in
 * OUT golden --folder TO FOLDER      only write the Hugging Face folder TO (config and weights) */
#define _XOPEN_SOURCE 700
#include "folder.h"
#include "gguf/gguf.h"
#include "golden_build.h"
#include "golden_run.h"
#include "quant/quant.h"

#include <math.h>
#include <stdarg.h>

static int passed, failed;

static void check(bool ok, const char *fmt, ...) FT_PRINTF(2, 3);
static void check(bool ok, const char *fmt, ...)
{
    if (ok) {
        passed++;
        return;
    }
    failed++;
    va_list ap;
    va_start(ap, fmt);
    fputs("FAILED: ", stdout);
    vprintf(fmt, ap);
    putchar('\n');
    va_end(ap);
}

typedef struct model {
    const char *name;
    json_t *config, *text, *manifest;
    ft_gguf *g;
    const char *prefix; /* of the names in the checkpoint */
    size_t expected;    /* number of tensors checked */
} model;

static int64_t cfg(const model *m, const char *key)
{
    const json_t *v = json_object_get(m->text, key);
    return json_integer_value(v ? v : json_object_get(m->config, key));
}

/* ---- shapes ---- */

/* The tensor exists and has exactly these dimensions, fastest first; 0 ends them. */
static void want(model *m, int64_t a, int64_t b, int64_t c, const char *fmt, ...) FT_PRINTF(5, 6);
static void want(model *m, int64_t a, int64_t b, int64_t c, const char *fmt, ...)
{
    char name[96];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    const ft_gguf_tensor *t = ft_gguf_tensor_find(m->g, name);
    m->expected++;
    if (!t) {
        check(false, "%s: no tensor %s", m->name, name);
        return;
    }
    check(t->n[0] == a && t->n[1] == (b ? b : 1) && t->n[2] == (c ? c : 1) && t->n[3] == 1,
          "%s: %s is {%lld, %lld, %lld}, want {%lld, %lld, %lld}", m->name, name,
          (long long)t->n[0], (long long)t->n[1], (long long)t->n[2], (long long)a, (long long)b,
          (long long)c);
    const bool vector = !b;
    check(!vector || t->type == FT_F32 || t->type == FT_I32, "%s: %s is %s, want F32", m->name,
          name, ft_type_name(t->type));
}

static void want_qwen_block(model *m, int i, bool delta)
{
    const int64_t E = cfg(m, "hidden_size"), D = cfg(m, "head_dim");
    const int64_t Hq = cfg(m, "num_attention_heads"), Hkv = cfg(m, "num_key_value_heads");
    const int64_t S = cfg(m, "linear_key_head_dim"), Hv = cfg(m, "linear_num_value_heads");
    const int64_t K = cfg(m, "linear_num_key_heads") * S, I = Hv * S;
    want(m, E, 0, 0, "blk.%d.attn_norm.weight", i);
    want(m, E, 0, 0, "blk.%d.post_attention_norm.weight", i);
    if (delta) {
        want(m, E, 2 * K + I, 0, "blk.%d.attn_qkv.weight", i);
        want(m, E, I, 0, "blk.%d.attn_gate.weight", i);
        want(m, 4, 2 * K + I, 0, "blk.%d.ssm_conv1d.weight", i);
        want(m, E, Hv, 0, "blk.%d.ssm_alpha.weight", i);
        want(m, E, Hv, 0, "blk.%d.ssm_beta.weight", i);
        want(m, Hv, 0, 0, "blk.%d.ssm_dt.bias", i);
        want(m, Hv, 0, 0, "blk.%d.ssm_a", i);
        want(m, S, 0, 0, "blk.%d.ssm_norm.weight", i);
        want(m, I, E, 0, "blk.%d.ssm_out.weight", i);
    } else {
        want(m, E, 2 * Hq * D, 0, "blk.%d.attn_q.weight", i);
        want(m, E, Hkv * D, 0, "blk.%d.attn_k.weight", i);
        want(m, E, Hkv * D, 0, "blk.%d.attn_v.weight", i);
        want(m, D, 0, 0, "blk.%d.attn_q_norm.weight", i);
        want(m, D, 0, 0, "blk.%d.attn_k_norm.weight", i);
        want(m, Hq * D, E, 0, "blk.%d.attn_output.weight", i);
    }
    const int64_t X = cfg(m, "num_experts"), Fe = cfg(m, "moe_intermediate_size");
    const int64_t F = cfg(m, "intermediate_size"), Fs = cfg(m, "shared_expert_intermediate_size");
    if (!X) {
        want(m, E, F, 0, "blk.%d.ffn_gate.weight", i);
        want(m, E, F, 0, "blk.%d.ffn_up.weight", i);
        want(m, F, E, 0, "blk.%d.ffn_down.weight", i);
        return;
    }
    want(m, E, X, 0, "blk.%d.ffn_gate_inp.weight", i);
    want(m, E, Fe, X, "blk.%d.ffn_gate_exps.weight", i);
    want(m, E, Fe, X, "blk.%d.ffn_up_exps.weight", i);
    want(m, Fe, E, X, "blk.%d.ffn_down_exps.weight", i);
    want(m, E, 0, 0, "blk.%d.ffn_gate_inp_shexp.weight", i);
    want(m, E, Fs, 0, "blk.%d.ffn_gate_shexp.weight", i);
    want(m, E, Fs, 0, "blk.%d.ffn_up_shexp.weight", i);
    want(m, Fs, E, 0, "blk.%d.ffn_down_shexp.weight", i);
}

static void want_qwen(model *m)
{
    const int64_t E = cfg(m, "hidden_size"), V = cfg(m, "vocab_size");
    const int L = (int)cfg(m, "num_hidden_layers");
    want(m, E, V, 0, "token_embd.weight");
    want(m, E, 0, 0, "output_norm.weight");
    if (!json_is_true(json_object_get(m->config, "tie_word_embeddings")))
        want(m, E, V, 0, "output.weight");
    for (int i = 0; i < L; i++) want_qwen_block(m, i, i % 4 != 3);
    want_qwen_block(m, L, false);
    want(m, 2 * E, E, 0, "blk.%d.nextn.eh_proj.weight", L);
    want(m, E, 0, 0, "blk.%d.nextn.enorm.weight", L);
    want(m, E, 0, 0, "blk.%d.nextn.hnorm.weight", L);
    want(m, E, 0, 0, "blk.%d.nextn.shared_head_norm.weight", L);
}

static bool is_global(const model *m, int i)
{
    const json_t *types = json_object_get(m->text, "layer_types");
    return !strcmp(json_string_value(json_array_get(types, (size_t)i)), "full_attention");
}

static void want_gemma_block(model *m, int i, int first_shared)
{
    const bool global = is_global(m, i), own = i < first_shared;
    const bool k_is_v = json_is_true(json_object_get(m->text, "attention_k_eq_v"));
    const bool wide = json_is_true(json_object_get(m->text, "use_double_wide_mlp"));
    const int64_t E = cfg(m, "hidden_size"), Hq = cfg(m, "num_attention_heads");
    const int64_t D = cfg(m, global ? "global_head_dim" : "head_dim");
    const int64_t Hg = cfg(m, "num_global_key_value_heads");
    const int64_t Hkv = global && k_is_v && Hg ? Hg : cfg(m, "num_key_value_heads");
    const int64_t F = cfg(m, "intermediate_size") * (wide && !own ? 2 : 1);
    static const char *const norm[] = {"attn_norm", "post_attention_norm", "ffn_norm",
                                       "post_ffw_norm"};
    for (int k = 0; k < 4; k++) want(m, E, 0, 0, "blk.%d.%s.weight", i, norm[k]);
    want(m, E, D * Hq, 0, "blk.%d.attn_q.weight", i);
    want(m, D * Hq, E, 0, "blk.%d.attn_output.weight", i);
    want(m, D, 0, 0, "blk.%d.attn_q_norm.weight", i);
    if (own) {
        want(m, E, D * Hkv, 0, "blk.%d.attn_k.weight", i);
        want(m, D, 0, 0, "blk.%d.attn_k_norm.weight", i);
        if (!global || !k_is_v) want(m, E, D * Hkv, 0, "blk.%d.attn_v.weight", i);
    }
    want(m, E, F, 0, "blk.%d.ffn_gate.weight", i);
    want(m, E, F, 0, "blk.%d.ffn_up.weight", i);
    want(m, F, E, 0, "blk.%d.ffn_down.weight", i);
    want(m, 1, 0, 0, "blk.%d.layer_output_scale.weight", i);
    const int64_t P = cfg(m, "hidden_size_per_layer_input");
    if (P) {
        want(m, E, P, 0, "blk.%d.inp_gate.weight", i);
        want(m, P, E, 0, "blk.%d.proj.weight", i);
        want(m, E, 0, 0, "blk.%d.post_norm.weight", i);
    }
    const int64_t X = cfg(m, "num_experts"), Fe = cfg(m, "moe_intermediate_size");
    if (!X) return;
    want(m, E, X, 0, "blk.%d.ffn_gate_inp.weight", i);
    want(m, E, 0, 0, "blk.%d.ffn_gate_inp.scale", i);
    want(m, X, 0, 0, "blk.%d.ffn_down_exps.scale", i);
    want(m, E, 2 * Fe, X, "blk.%d.ffn_gate_up_exps.weight", i);
    want(m, Fe, E, X, "blk.%d.ffn_down_exps.weight", i);
    want(m, E, 0, 0, "blk.%d.pre_ffw_norm_2.weight", i);
    want(m, E, 0, 0, "blk.%d.post_ffw_norm_1.weight", i);
    want(m, E, 0, 0, "blk.%d.post_ffw_norm_2.weight", i);
}

static void want_gemma(model *m, bool drafter)
{
    const int64_t E = cfg(m, "hidden_size"), V = cfg(m, "vocab_size");
    const int64_t P = cfg(m, "hidden_size_per_layer_input"), T = cfg(m, "backbone_hidden_size");
    const int L = (int)cfg(m, "num_hidden_layers");
    want(m, E, V, 0, "token_embd.weight");
    want(m, E, 0, 0, "output_norm.weight");
    want(m, cfg(m, "global_head_dim") / 2, 0, 0, "rope_freqs.weight");
    if (P) {
        want(m, P * L, V, 0, "per_layer_token_embd.weight");
        want(m, E, P * L, 0, "per_layer_model_proj.weight");
        want(m, P, 0, 0, "per_layer_proj_norm.weight");
    }
    for (int i = 0; i < L; i++) want_gemma_block(m, i, L - (int)cfg(m, "num_kv_shared_layers"));
    if (!drafter) return;
    want(m, 2 * T, E, 0, "nextn.pre_projection.weight");
    want(m, E, T, 0, "nextn.post_projection.weight");
    if (!json_is_true(json_object_get(m->config, "use_ordered_embeddings"))) return;
    want(m, E, cfg(m, "num_centroids"), 0, "masked_embd_centroids.weight");
    want(m, V, 0, 0, "masked_embd_ordering");
}

/* ---- vision towers ---- */

static int64_t vcfg(const model *m, const char *key)
{
    return json_integer_value(json_object_get(json_object_get(m->config, "vision_config"), key));
}

static void want_qwen_tower(model *m)
{
    const int64_t C = vcfg(m, "hidden_size"), F = vcfg(m, "intermediate_size");
    const int64_t E = cfg(m, "hidden_size"), L = vcfg(m, "depth");
    want(m, C, vcfg(m, "num_position_embeddings"), 0, "v.position_embd.weight");
    want(m, C, 0, 0, "v.patch_embd.bias");
    want(m, C, 0, 0, "v.post_ln.weight");
    want(m, C, 0, 0, "v.post_ln.bias");
    want(m, 4 * C, 4 * C, 0, "mm.0.weight");
    want(m, 4 * C, 0, 0, "mm.0.bias");
    want(m, 4 * C, E, 0, "mm.2.weight");
    want(m, E, 0, 0, "mm.2.bias");
    for (int i = 0; i < (int)L; i++) {
        static const char *const norm[] = {"ln1.weight", "ln1.bias", "ln2.weight", "ln2.bias"};
        for (int k = 0; k < 4; k++) want(m, C, 0, 0, "v.blk.%d.%s", i, norm[k]);
        want(m, C, 3 * C, 0, "v.blk.%d.attn_qkv.weight", i);
        want(m, 3 * C, 0, 0, "v.blk.%d.attn_qkv.bias", i);
        want(m, C, C, 0, "v.blk.%d.attn_out.weight", i);
        want(m, C, 0, 0, "v.blk.%d.attn_out.bias", i);
        want(m, C, F, 0, "v.blk.%d.ffn_up.weight", i);
        want(m, F, 0, 0, "v.blk.%d.ffn_up.bias", i);
        want(m, F, C, 0, "v.blk.%d.ffn_down.weight", i);
        want(m, C, 0, 0, "v.blk.%d.ffn_down.bias", i);
    }
    m->expected += 2; /* the patch kernel has four dimensions */
}

static void want_gemma_tower(model *m)
{
    const json_t *v = json_object_get(m->config, "vision_config");
    const bool clipped = json_is_true(json_object_get(v, "use_clipped_linears"));
    const int64_t C = vcfg(m, "hidden_size"), F = vcfg(m, "intermediate_size");
    want(m, C, vcfg(m, "position_embedding_size"), 2, "v.position_embd.weight");
    want(m, C, cfg(m, "hidden_size"), 0, "mm.input_projection.weight");
    if (json_is_true(json_object_get(v, "standardize"))) {
        want(m, C, 0, 0, "v.std_bias");
        want(m, C, 0, 0, "v.std_scale");
    }
    static const char *const matrix[] = {"attn_q",   "attn_k", "attn_v",  "attn_out",
                                         "ffn_gate", "ffn_up", "ffn_down"};
    static const char *const bound[] = {"input_min", "input_max", "output_min", "output_max"};
    static const char *const norm[] = {"ln1", "ln2", "attn_post_norm", "ffn_post_norm"};
    for (int i = 0; i < (int)vcfg(m, "num_hidden_layers"); i++) {
        for (int k = 0; k < 4; k++) want(m, C, 0, 0, "v.blk.%d.%s.weight", i, norm[k]);
        want(m, vcfg(m, "head_dim"), 0, 0, "v.blk.%d.attn_q_norm.weight", i);
        want(m, vcfg(m, "head_dim"), 0, 0, "v.blk.%d.attn_k_norm.weight", i);
        for (int k = 0; k < 7; k++) {
            want(m, k == 6 ? F : C, k == 4 || k == 5 ? F : C, 0, "v.blk.%d.%s.weight", i,
                 matrix[k]);
            for (int b = 0; b < 4 && clipped; b++)
                want(m, 1, 0, 0, "v.blk.%d.%s.%s", i, matrix[k], bound[b]);
        }
    }
    m->expected++; /* the patch kernel has four dimensions */
}

/* ---- values ---- */

static float at(const model *m, const char *name, int64_t row, int64_t col)
{
    const ft_gguf_tensor *t = ft_gguf_tensor_find(m->g, name);
    if (!t || !t->n[0]) return NAN;
    float *x = ft_new_n(float, (size_t)t->n[0]);
    const size_t bytes = ft_type_row(t->type, (size_t)t->n[0]);
    ft_row_decode(t->type, x, (const char *)t->data + (size_t)row * bytes, (size_t)t->n[0]);
    const float v = x[col];
    ft_free(x);
    return v;
}

/* The value of the formula for [row, col] of a checkpoint tensor with this many columns. */
static float source(const model *m, const char *name, int64_t row, int64_t col, int64_t cols)
{
    char full[256];
    snprintf(full, sizeof full, "%s%s", m->prefix, name);
    const json_t *e = golden_entry(m->manifest, full);
    if (!e) e = golden_entry(m->manifest, name);
    if (!e) return NAN;
    const golden_formula f = golden_formula_of(e);
    return golden_value(&f, (uint64_t)(row * cols + col));
}

static void same(const model *m, const char *name, int64_t row, int64_t col, float expect)
{
    const float x = at(m, name, row, col);
    check(x == expect, "%s: %s[%lld][%lld] is %.9g, want %.9g", m->name, name, (long long)row,
          (long long)col, (double)x, (double)expect);
}

/* Value heads are grouped in the checkpoint (g * r + j) and tiled in the file (j * Hk + g). */
static void check_delta(const model *m)
{
    const int64_t E = cfg(m, "hidden_size"), S = cfg(m, "linear_key_head_dim");
    const int64_t Hk = cfg(m, "linear_num_key_heads"), Hv = cfg(m, "linear_num_value_heads");
    const int64_t r = Hv / Hk, K2 = 2 * Hk * S, I = Hv * S;
#define LA "layers.1.linear_attn."
    for (int64_t g = 0; g < Hk; g++)
        for (int64_t j = 0; j < r; j++) {
            const int64_t hf = g * r + j, to = j * Hk + g, in = 37 % S;
            same(m, "blk.1.ssm_a", 0, to, -expf(source(m, LA "A_log", 0, hf, Hv)));
            same(m, "blk.1.ssm_dt.bias", 0, to, source(m, LA "dt_bias", 0, hf, Hv));
            same(m, "blk.1.ssm_alpha.weight", to, 5, source(m, LA "in_proj_a.weight", hf, 5, E));
            same(m, "blk.1.ssm_beta.weight", to, 7, source(m, LA "in_proj_b.weight", hf, 7, E));
            same(m, "blk.1.attn_gate.weight", to * S + in, 3,
                 source(m, LA "in_proj_z.weight", hf * S + in, 3, E));
            same(m, "blk.1.attn_qkv.weight", K2 + to * S + in, 11,
                 source(m, LA "in_proj_qkv.weight", K2 + hf * S + in, 11, E));
            same(m, "blk.1.ssm_conv1d.weight", K2 + to * S + in, 2,
                 source(m, LA "conv1d.weight", K2 + hf * S + in, 2, 4));
            same(m, "blk.1.ssm_out.weight", 9, to * S + in,
                 source(m, LA "out_proj.weight", 9, hf * S + in, I));
        }
    for (int64_t i = 0; i < K2; i += 61) {
        same(m, "blk.1.attn_qkv.weight", i, 0, source(m, LA "in_proj_qkv.weight", i, 0, E));
        same(m, "blk.1.ssm_conv1d.weight", i, 3, source(m, LA "conv1d.weight", i, 3, 4));
    }
    same(m, "blk.1.ssm_norm.weight", 0, 4, source(m, LA "norm.weight", 0, 4, S));
#undef LA
}

static void check_qwen_values(const model *m)
{
    const int64_t E = cfg(m, "hidden_size"), X = cfg(m, "num_experts");
    const int64_t Fe = cfg(m, "moe_intermediate_size"), V = cfg(m, "vocab_size");
    static const struct {
        const char *gguf, *hf;
    } plus_one[] = {
        {"output_norm.weight", "norm.weight"},
        {"blk.0.attn_norm.weight", "layers.0.input_layernorm.weight"},
        {"blk.2.post_attention_norm.weight", "layers.2.post_attention_layernorm.weight"},
        {"blk.3.attn_q_norm.weight", "layers.3.self_attn.q_norm.weight"},
        {"blk.3.attn_k_norm.weight", "layers.3.self_attn.k_norm.weight"},
        {"blk.4.attn_norm.weight", "mtp.layers.0.input_layernorm.weight"},
        {"blk.4.attn_q_norm.weight", "mtp.layers.0.self_attn.q_norm.weight"},
        {"blk.4.nextn.enorm.weight", "mtp.pre_fc_norm_embedding.weight"},
        {"blk.4.nextn.hnorm.weight", "mtp.pre_fc_norm_hidden.weight"},
        {"blk.4.nextn.shared_head_norm.weight", "mtp.norm.weight"},
    };
    for (size_t i = 0; i < FT_COUNT(plus_one); i++)
        for (int64_t c = 0; c < 256; c += 51)
            same(m, plus_one[i].gguf, 0, c, 1.0f + source(m, plus_one[i].hf, 0, c, 256));
    same(m, "token_embd.weight", V - 1, E - 1, source(m, "embed_tokens.weight", V - 1, E - 1, E));
    same(m, "blk.4.nextn.eh_proj.weight", 3, E + 1, source(m, "mtp.fc.weight", 3, E + 1, 2 * E));
    check_delta(m);
    for (int64_t x = 0; x < X; x += 5) {
#define EX "layers.3.mlp.experts."
        same(m, "blk.3.ffn_gate_exps.weight", x * Fe + 2, 1,
             source(m, EX "gate_up_proj", x * 2 * Fe + 2, 1, E));
        same(m, "blk.3.ffn_up_exps.weight", x * Fe + 2, 1,
             source(m, EX "gate_up_proj", x * 2 * Fe + Fe + 2, 1, E));
        same(m, "blk.3.ffn_down_exps.weight", x * E + 2, 1,
             source(m, EX "down_proj", x * E + 2, 1, Fe));
#undef EX
    }
    if (X)
        same(m, "blk.3.ffn_gate_inp_shexp.weight", 0, 8,
             source(m, "layers.3.mlp.shared_expert_gate.weight", 0, 8, E));
}

static void check_gemma_values(const model *m)
{
    const int64_t E = cfg(m, "hidden_size"), D = cfg(m, "global_head_dim");
    const int64_t L = cfg(m, "num_hidden_layers"), F = cfg(m, "intermediate_size");
    same(m, "output_norm.weight", 0, 7, source(m, "norm.weight", 0, 7, E));
    same(m, "blk.1.attn_norm.weight", 0, 7, source(m, "layers.1.input_layernorm.weight", 0, 7, E));
    same(m, "blk.1.layer_output_scale.weight", 0, 0, source(m, "layers.1.layer_scalar", 0, 0, 1));
    same(m, "blk.0.ffn_down.weight", 5, 6, source(m, "layers.0.mlp.down_proj.weight", 5, 6, F));
    same(m, "rope_freqs.weight", 0, D / 8 - 1, 1.0f);
    same(m, "rope_freqs.weight", 0, D / 8, 1e30f);
    if (cfg(m, "hidden_size_per_layer_input"))
        same(m, "per_layer_token_embd.weight", 3, 65,
             source(m, "embed_tokens_per_layer.weight", 3, 65,
                    L * cfg(m, "hidden_size_per_layer_input")));
    const ft_gguf_tensor *ids = ft_gguf_tensor_find(m->g, "masked_embd_ordering");
    const json_t *e = golden_entry(m->manifest, "masked_embedding.token_ordering");
    check(!e == !ids, "%s: masked_embd_ordering is %s", m->name, ids ? "there" : "missing");
    for (int64_t i = 0; e && ids && i < ids->n[0]; i++) {
        int32_t id;
        memcpy(&id, (const char *)ids->data + i * 4, 4);
        const json_t *v = json_array_get(json_object_get(e, "values"), (size_t)i);
        if (id != json_integer_value(v)) check(false, "%s: ordering[%d]", m->name, (int)i);
    }
}

/* ---- one folder ---- */

static void check_key(const model *m, const char *key, int64_t expect)
{
    char full[96];
    ft_str arch = {"", 0};
    int64_t v = -1;
    ft_gguf_str(m->g, "general.architecture", &arch);
    snprintf(full, sizeof full, "%.*s.%s", FT_STR_FMT(arch), key);
    ft_gguf_i64(m->g, full, &v);
    check(v == expect, "%s: key %s is %lld, want %lld", m->name, full, (long long)v,
          (long long)expect);
}

static void check_model(model *m)
{
    const char *type = json_string_value(json_object_get(m->config, "model_type"));
    const bool gemma = !strncmp(type, "gemma4", 6), drafter = strstr(type, "assistant") != NULL;
    const int64_t L = cfg(m, "num_hidden_layers");
    if (gemma) {
        want_gemma(m, drafter);
        check_gemma_values(m);
        check_key(m, "attention.shared_kv_layers", cfg(m, "num_kv_shared_layers"));
        check_key(m, "embedding_length_per_layer_input", cfg(m, "hidden_size_per_layer_input"));
    } else {
        want_qwen(m);
        check_qwen_values(m);
        check_key(m, "ssm.time_step_rank", cfg(m, "linear_num_value_heads"));
    }
    if (drafter) {
        check_key(m, "embedding_length_out", cfg(m, "backbone_hidden_size"));
        check_key(m, "nextn_predict_layers", L);
        if (cfg(m, "num_centroids")) {
            check_key(m, "n_centroids", cfg(m, "num_centroids"));
            check_key(m, "centroid_top_k", cfg(m, "centroid_intermediate_top_k"));
        }
    }
    check_key(m, "block_count", gemma ? L : L + 1);
    check(ft_gguf_n_tensor(m->g) == m->expected, "%s: %zu tensors, want %zu", m->name,
          ft_gguf_n_tensor(m->g), m->expected);
}

/* Value (c, y, x) of the patch kernel's output o, where the tower wants it and the checkpoint has
 * it; both files store it as [output][channel][y][x]. */
static void check_kernel(const model *m, bool qwen)
{
    const ft_gguf_tensor *t = ft_gguf_tensor_find(m->g, "v.patch_embd.weight");
    const ft_gguf_tensor *t1 = ft_gguf_tensor_find(m->g, "v.patch_embd.weight.1");
    const char *name = qwen ? "model.visual.patch_embed.proj.weight"
                            : "model.vision_tower.patch_embedder.input_proj.weight";
    const golden_formula f = golden_formula_of(golden_entry(m->manifest, name));
    const int64_t C = vcfg(m, "hidden_size");
    check(t && t->type == FT_F32 && t->n[0] == 16 && t->n[1] == 16 && t->n[2] == 3 && t->n[3] == C,
          "%s: v.patch_embd.weight is not F32 {16, 16, 3, %lld}", m->name, (long long)C);
    check(!qwen == !t1, "%s: v.patch_embd.weight.1 is %s", m->name, t1 ? "there" : "missing");
    if (!t || (qwen && !t1)) return;
    for (int64_t i = 0; i < C * 768; i += 101) {
        const int64_t o = i / 768, c = i / 256 % 3, yx = i % 256;
        const float *x = t->data;
        for (int frame = 0; frame < (qwen ? 2 : 1); frame++, x = t1 ? t1->data : x) {
            const int64_t from = qwen ? ((o * 3 + c) * 2 + frame) * 256 + yx : o * 768 + yx * 3 + c;
            const float want_x = golden_value(&f, (uint64_t)from);
            if (x[i] != want_x)
                check(false, "%s: patch kernel %d [%lld] is %g, want %g", m->name, frame,
                      (long long)i, (double)x[i], (double)want_x);
        }
    }
    check(true, "%s", name);
}

static void check_tower(model *m, const char *path)
{
    ft_err err;
    ft_str type = {"", 0};
    const bool qwen = !strncmp(json_string_value(json_object_get(m->config, "model_type")), "q", 1);
    ft_gguf_close(m->g);
    m->g = NULL;
    m->expected = 0;
    const bool ok = !ft_gguf_open(&m->g, path, true, &err);
    check(ok, "%s: %s", m->name, err.text);
    if (!ok) return;
    if (qwen)
        want_qwen_tower(m);
    else
        want_gemma_tower(m);
    check_kernel(m, qwen);
    check_key(m, "vision.projection_dim", cfg(m, "hidden_size"));
    check_key(m, "vision.embedding_length", vcfg(m, "hidden_size"));
    check(ft_gguf_str(m->g, "general.type", &type) && ft_str_is(type, "mmproj"),
          "%s: general.type is \"%.*s\", want mmproj", m->name, FT_STR_FMT(type));
    check(ft_gguf_n_tensor(m->g) == m->expected, "%s: mmproj: %zu tensors, want %zu", m->name,
          ft_gguf_n_tensor(m->g), m->expected);
}

/* A folder with images has a tower too. */
static bool has_tower(const char *dir)
{
    char file[4096];
    snprintf(file, sizeof file, "%s/preprocessor_config.json", dir);
    return ft_file_exists(file);
}

static void check_folder(const char *dir, const char *path, const char *mmproj)
{
    char file[4096];
    json_error_t je;
    ft_err err;
    model m = {.name = dir, .prefix = "model."};
    snprintf(file, sizeof file, "%s/config.json", dir);
    m.config = json_load_file(file, 0, &je);
    const bool ok = m.config && !golden_manifest(&m.manifest, dir, &err) &&
                    !golden_ggufs(dir, path, has_tower(dir) ? mmproj : NULL, NULL, &err) &&
                    !ft_gguf_open(&m.g, path, true, &err);
    check(ok, "%s: %s", dir, m.config ? err.text : je.text);
    if (ok) {
        m.text = json_object_get(m.config, "text_config");
        if (golden_entry(m.manifest, "model.language_model.norm.weight"))
            m.prefix = "model.language_model.";
        check_model(&m);
        if (has_tower(dir)) check_tower(&m, mmproj);
    }
    ft_gguf_close(m.g);
    json_decref(m.manifest);
    json_decref(m.config);
}

static const char *base_name(char *dir)
{
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/') dir[--n] = 0;
    const char *slash = strrchr(dir, '/');
    return slash ? slash + 1 : dir;
}

#define BF16_FILE ".gguf"
#define F32_FILE  "-f32.gguf"

/* Runs the converted model of a folder on a device; end: of the names of the files. The tolerances
 * depend on the family and on the device: ref computes in double, the others in float. */
static void run_model(char *dir, const char *models, const char *end, const char *device)
{
    char path[4096], target[4096], mmproj[4096];
    const char *name = base_name(dir), *tail = strstr(name, "-assistant");
    const bool ref = !strcmp(device, "ref");
    snprintf(path, sizeof path, "%s/golden-%s%s", models, name, end);
    snprintf(target, sizeof target, "%s/golden-%.*s%s", models, tail ? (int)(tail - name) : 0, name,
             end);
    snprintf(mmproj, sizeof mmproj, "%s/mmproj-%s.gguf", models, name);
    ft_dev *dev;
    ft_err err;
    if (ft_dev_open(&dev, device, 0, &err)) {
        check(false, "%s", err.text);
        return;
    }
    /* Tensor cores use half-precision operands for some products. Gemma does not scale its
     * attention scores, so the rounding of queries has the largest effect: the worst error observed
     * is 1.3e-5, in one row of an assistant. The errors of the chunked delta net (4e-7 of the
     * squared norm, 3e-8 to 1.2e-7 from each operand) change expert scores by up to 1e-3. In
     * qwen35-moe the fourth and the fifth expert are closer than that in six rows: 0.167356 and
     * 0.166754 in row 6 of the second layer, 0.232167 and 0.231555 in row 41 of the last, 0.288019
     * and 0.287551 in row 57 of the head. A row that selects the other expert has an error of 1e-2,
     * and later rows depend on it: 7e-4 over all. Rows computed one by one use no half-precision
     * operands, and their limit would detect a different expert. */
    const bool halves = !strcmp(device, "cuda"), qwen = strstr(name, "qwen") != NULL;
    const double exact = (qwen ? 1e-9 : 1e-6) * (ref ? 1 : 10);
    double tol = !halves ? exact : !strcmp(name, "qwen35-moe") ? 1e-3 : qwen ? 1e-5 : 3e-5;
    double in_turn = halves ? qwen ? 1e-8 : tol : exact;
    if (halves && !strcmp(end, BF16_FILE)) tol = in_turn = 3e-5;
    golden_run(name, dir, path, tail ? target : NULL, has_tower(dir) ? mmproj : NULL, dev, tol,
               in_turn, &passed, &failed);
    ft_dev_close(dev);
}

/* CUDA rounds the inputs of products with BF16 weights to f16. In the random models that is an
 * error of 3e-6 for Qwen; expert choices change, and Gemma amplifies it to 7e-3. So all models run
 * with F32 weights, which have the same values, and those that it affects least with BF16 too. */
static void run_on_cuda(char *dir, const char *models)
{
    const char *name = base_name(dir);
    run_model(dir, models, F32_FILE, "cuda");
    if (strstr(name, "qwen") && !strstr(name, "moe")) run_model(dir, models, BF16_FILE, "cuda");
}

static int usage(void)
{
    fprintf(stderr,
            "golden: want [--keep FOLDER] [--dev ref|cpu|cuda|vulkan|all|none] FOLDER..., or "
            "--folder FROM TO\n");
    return 1;
}

int main(int argc, char **argv)
{
    ft_err err;
    int first = 1;
    const char *keep = NULL, *dev = "all";
    if (argc == 4 && !strcmp(argv[1], "--folder")) {
        if (!golden_folder(argv[3], argv[2], &err)) return 0;
        fprintf(stderr, "golden: %s\n", err.text);
        return 1;
    }
    for (; first + 1 < argc && argv[first][0] == '-'; first += 2) {
        if (!strcmp(argv[first], "--keep"))
            keep = argv[first + 1];
        else if (!strcmp(argv[first], "--dev"))
            dev = argv[first + 1];
        else
            return usage();
    }
    static const char *const known[] = {"ref", "cpu", "cuda", "vulkan", "all", "none"};
    bool found = false;
    for (size_t i = 0; i < FT_COUNT(known); i++) found |= !strcmp(dev, known[i]);
    if (first >= argc || !found) return usage();
    char tmp[64], path[4096], mmproj[4096];
    if (!keep) folder_new(tmp);
    const char *models = keep ? keep : tmp;
    for (int i = first; i < argc; i++) {
        snprintf(path, sizeof path, "%s/golden-%s" BF16_FILE, models, base_name(argv[i]));
        snprintf(mmproj, sizeof mmproj, "%s/mmproj-%s.gguf", models, base_name(argv[i]));
        check_folder(argv[i], path, mmproj);
        snprintf(path, sizeof path, "%s/golden-%s" F32_FILE, models, base_name(argv[i]));
        if (!strcmp(dev, "cuda") && golden_gguf(argv[i], path, "f32", &err))
            check(false, "%s: %s", argv[i], err.text);
    }
    for (int i = first; i < argc; i++) {
        if (!strcmp(dev, "ref") || !strcmp(dev, "all"))
            run_model(argv[i], models, BF16_FILE, "ref");
        if (!strcmp(dev, "cpu") || !strcmp(dev, "all"))
            run_model(argv[i], models, BF16_FILE, "cpu");
        if (!strcmp(dev, "vulkan")) run_model(argv[i], models, BF16_FILE, dev);
        if (!strcmp(dev, "cuda")) run_on_cuda(argv[i], models);
    }
    if (!keep) folder_free(tmp);
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}
