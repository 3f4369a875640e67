/* tests/unit/convert.c - conversion: vocabularies from small tokenizer files, checkpoints in their
 * different forms, and the errors for invalid folders. Weights are those of the golden folders. */
#define _XOPEN_SOURCE 700
#include "gguf/gguf.h"
#include "golden_build.h"
#include "quant/quant.h"

#include "folder.h"
#include "unit.h"

#include <math.h>

#define DENSE "tests/golden/qwen35-dense"
#define MOE   "tests/golden/qwen35-moe"

typedef struct box { /* a separate folder for each test */
    char dir[64], hf[80], out[80];
    ft_gguf *g;
    ft_err err;
} box;

static int setup(void **state)
{
    box *b = ft_new(box);
    folder_new(b->dir);
    snprintf(b->hf, sizeof b->hf, "%s/hf", b->dir);
    snprintf(b->out, sizeof b->out, "%s/out.gguf", b->dir);
    *state = b;
    return mkdir(b->hf, 0777);
}

static int teardown(void **state)
{
    static const char *const file[] = {"hf/config.json",
                                       "hf/model.safetensors",
                                       "hf/tokenizer.json",
                                       "hf/tokenizer_config.json",
                                       "hf/chat_template.jinja",
                                       "hf/generation_config.json",
                                       "out.gguf"};
    box *b = *state;
    char path[160];
    ft_gguf_close(b->g);
    for (size_t i = 0; i < FT_COUNT(file); i++) {
        snprintf(path, sizeof path, "%s/%s", b->dir, file[i]);
        unlink(path);
    }
    rmdir(b->hf);
    const int left = rmdir(b->dir); /* fails when other files were left behind */
    ft_free(b);
    return left;
}

static void put_file(const box *b, const char *name, const char *text)
{
    char path[160];
    ft_out_file *out;
    snprintf(path, sizeof path, "%s/%s", b->hf, name);
    assert_int_equal(ft_out_open(&out, path, NULL), FT_OK);
    ft_out_write(out, text, strlen(text));
    assert_int_equal(ft_out_commit(out, NULL), FT_OK);
}

static ft_status convert(box *b, ft_convert_opts o)
{
    o.threads = 2;
    const ft_status st = ft_convert(b->hf, b->out, &o, NULL, &b->err);
    ft_gguf_close(b->g);
    b->g = NULL;
    if (!st) assert_int_equal(ft_gguf_open(&b->g, b->out, true, &b->err), FT_OK);
    assert_true(ft_file_exists(b->out) == !st);
    return st;
}

static void refused(const box *b, ft_status st, const char *a, const char *c)
{
    assert_int_not_equal(st, FT_OK);
    if (!strstr(b->err.text, a) || !strstr(b->err.text, c))
        fail_msg("the error is \"%s\", want it to contain %s and %s", b->err.text, a, c);
    assert_null(strchr(b->err.text, '\n'));
}

/* ---- vocabulary ---- */

#define QWEN2                                                                                      \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}"                \
    "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define QWEN35                                                                                     \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{L}\\\\p{M}]+|\\\\p{N}"      \
    "| ?[^\\\\s\\\\p{L}\\\\p{M}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"

static const char qwen_config[] =
    "{\"model_type\": \"qwen3_5\", \"text_config\": {\"num_hidden_layers\": 4,"
    "\"max_position_embeddings\": 64, \"vocab_size\": 10, \"hidden_size\": 8,"
    "\"intermediate_size\": 16, \"num_attention_heads\": 2, \"num_key_value_heads\": 1,"
    "\"head_dim\": 4, \"linear_conv_kernel_dim\": 4, \"linear_key_head_dim\": 4,"
    "\"linear_value_head_dim\": 4, \"linear_num_key_heads\": 1, \"linear_num_value_heads\": 2,"
    "\"bos_token_id\": 5}}";

static const char gemma_config[] =
    "{\"model_type\": \"gemma4\", \"num_hidden_layers\": 1, \"max_position_embeddings\": 64,"
    "\"vocab_size\": 12, \"hidden_size\": 8, \"intermediate_size\": 16,"
    "\"num_attention_heads\": 2, \"head_dim\": 4, \"sliding_window\": 8,"
    "\"layer_types\": [\"full_attention\"]}";

static void put_tokenizer(const box *b, const char *regex, const char *merges)
{
    char text[2048];
    snprintf(text, sizeof text,
             "{\"added_tokens\": [{\"id\": 5, \"content\": \"<|endoftext|>\", \"special\": true},"
             "{\"id\": 6, \"content\": \"<|im_end|>\", \"special\": true},"
             "{\"id\": 7, \"content\": \"<think>\", \"special\": false}],"
             "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\","
             "\"pattern\": {\"Regex\": \"%s\"}}, {\"type\": \"ByteLevel\"}]},"
             "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2,"
             "\"\\u0120ab\": 3}, \"merges\": %s}}",
             regex, merges);
    put_file(b, "tokenizer.json", text);
}

static void text_is(const box *b, const char *key, uint64_t i, const char *expect)
{
    const ft_gguf_kv *kv = ft_gguf_kv_find(b->g, key);
    ft_str s = {"", 0};
    assert_non_null(kv);
    assert_true(i < kv->n && ft_gguf_kv_str(kv, i, &s));
    if (!ft_str_is(s, expect))
        fail_msg("%s[%d] is %.*s, want %s", key, (int)i, FT_STR_FMT(s), expect);
}

static void number_is(const box *b, const char *key, uint64_t i, int64_t expect)
{
    const ft_gguf_kv *kv = ft_gguf_kv_find(b->g, key);
    int64_t v = 0;
    assert_non_null(kv);
    assert_true(i < kv->n && ft_gguf_kv_i64(kv, i, &v));
    assert_int_equal(v, expect);
}

static void byte_level_vocabulary(void **state)
{
    box *b = *state;
    put_file(b, "config.json", qwen_config);
    put_tokenizer(b, QWEN35, "[[\"a\", \"b\"], [\"\\u0120\", \"ab\"]]");
    put_file(b, "tokenizer_config.json",
             "{\"eos_token\": {\"content\": \"<|im_end|>\"}, \"pad_token\": \"<|endoftext|>\","
             "\"add_bos_token\": false, \"chat_template\": \"plain\"}");
    put_file(b, "generation_config.json",
             "{\"eos_token_id\": [6, 5], \"temperature\": 0.5, \"top_k\": 20, \"do_sample\": true,"
             "\"suppress_tokens\": [3, 99]}");
    assert_int_equal(convert(b, (ft_convert_opts){.vocab_only = true}), FT_OK);
    text_is(b, "tokenizer.ggml.model", 0, "gpt2");
    text_is(b, "tokenizer.ggml.pre", 0, "qwen35");
    text_is(b, "tokenizer.ggml.tokens", 3,
            "\xC4\xA0"
            "ab");
    text_is(b, "tokenizer.ggml.tokens", 4, "[PAD4]");
    text_is(b, "tokenizer.ggml.tokens", 9, "[PAD9]");
    assert_int_equal(ft_gguf_kv_find(b->g, "tokenizer.ggml.tokens")->n, 10);
    static const int type[] = {1, 1, 1, 1, 5, 3, 3, 4, 5, 5};
    for (uint64_t i = 0; i < 10; i++) number_is(b, "tokenizer.ggml.token_type", i, type[i]);
    text_is(b, "tokenizer.ggml.merges", 0, "a b");
    text_is(b, "tokenizer.ggml.merges", 1, "\xC4\xA0 ab");
    number_is(b, "tokenizer.ggml.bos_token_id", 0, 5); /* from config.json */
    number_is(b, "tokenizer.ggml.eos_token_id", 0, 6);
    number_is(b, "tokenizer.ggml.eot_token_id", 0, 5); /* the other id of the list */
    number_is(b, "tokenizer.ggml.padding_token_id", 0, 5);
    number_is(b, "tokenizer.ggml.add_bos_token", 0, 0);
    number_is(b, "tokenizer.ggml.suppress_tokens", 0, 3);
    assert_int_equal(ft_gguf_kv_find(b->g, "tokenizer.ggml.suppress_tokens")->n, 1);
    text_is(b, "tokenizer.chat_template", 0, "plain");
    float temp = 0;
    assert_true(ft_gguf_f32(b->g, "general.sampling.temp", &temp) && temp == 0.5f);
    number_is(b, "general.sampling.top_k", 0, 20);
    text_is(b, "general.type", 0, "vocab");
    number_is(b, "qwen35.vocab_size", 0, 10);
}

static void pattern_decides_and_not_the_family(void **state)
{
    box *b = *state;
    put_file(b, "config.json", qwen_config);
    put_tokenizer(b, QWEN2, "[\"a b\", \"\\u0120 ab\"]"); /* merges as strings */
    assert_int_equal(convert(b, (ft_convert_opts){.vocab_only = true}), FT_OK);
    text_is(b, "tokenizer.ggml.pre", 0, "qwen2");
    text_is(b, "tokenizer.ggml.merges", 1, "\xC4\xA0 ab");
    put_tokenizer(b, "[a-z]+", "[]");
    unlink(b->out);
    refused(b, convert(b, (ft_convert_opts){.vocab_only = true}), "[a-z]+", "qwen35");
}

static void gemma_vocabulary(void **state)
{
    box *b = *state;
    put_file(b, "config.json", gemma_config);
    put_file(
        b, "tokenizer.json",
        "{\"added_tokens\": [{\"id\": 0, \"content\": \"<pad>\", \"special\": true},"
        "{\"id\": 1, \"content\": \"<eos>\", \"special\": true},"
        "{\"id\": 2, \"content\": \"<bos>\", \"special\": true},"
        "{\"id\": 3, \"content\": \"\\n\\n\", \"special\": false},"
        "{\"id\": 4, \"content\": \"<h1>\", \"special\": false},"
        "{\"id\": 5, \"content\": \"<|channel>\", \"special\": true},"
        "{\"id\": 9, \"content\": \"\\u2581\\u2581\", \"special\": false}],"
        "\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"String\": \" \"},"
        "\"content\": \"\\u2581\"},"
        "\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"String\": \" \"}},"
        "\"model\": {\"type\": \"BPE\", \"byte_fallback\": true, \"vocab\": {\"<pad>\": 0,"
        "\"<eos>\": 1, \"<bos>\": 2, \"\\n\\n\": 3, \"<h1>\": 4, \"<|channel>\": 5, \"<0x0A>\": 6,"
        "\"a\": 7, \"\\u2581\": 8, \"\\u2581\\u2581\": 9, \"\\u2581a\": 10},"
        "\"merges\": [[\"\\u2581\", \"\\u2581\"], [\"\\u2581\", \"a\"]]}}");
    put_file(b, "tokenizer_config.json",
             "{\"bos_token\": \"<bos>\", \"eos_token\": \"<eos>\","
             "\"chat_template\": \"not this one\"}");
    put_file(b, "chat_template.jinja", "{{ messages }}");
    assert_int_equal(convert(b, (ft_convert_opts){.vocab_only = true}), FT_OK);
    text_is(b, "tokenizer.ggml.model", 0, "gemma4");
    static const int type[] = {3, 3, 3, 4, 4, 4, 6, 1, 1, 4, 1, 5};
    for (uint64_t i = 0; i < 12; i++) number_is(b, "tokenizer.ggml.token_type", i, type[i]);
    number_is(b, "tokenizer.ggml.add_bos_token", 0, 1);
    number_is(b, "tokenizer.ggml.add_space_prefix", 0, 0);
    text_is(b, "tokenizer.chat_template", 0, "{{ messages }}");
    assert_int_equal(ft_gguf_kv_find(b->g, "tokenizer.ggml.scores")->n, 12);
}

static void named_templates(void **state)
{
    box *b = *state;
    put_file(b, "config.json", qwen_config);
    put_tokenizer(b, QWEN35, "[]");
    put_file(b, "tokenizer_config.json",
             "{\"chat_template\": [{\"name\": \"default\", \"template\": \"one\"},"
             "{\"name\": \"tool use\", \"template\": \"two\"}]}");
    assert_int_equal(convert(b, (ft_convert_opts){.vocab_only = true}), FT_OK);
    text_is(b, "tokenizer.chat_template", 0, "one");
    text_is(b, "tokenizer.chat_template.tool_use", 0, "two");
    text_is(b, "tokenizer.chat_templates", 0, "tool use");
}

static void broken_vocabularies_are_refused(void **state)
{
    box *b = *state;
    const ft_convert_opts o = {.vocab_only = true};
    put_file(b, "config.json", qwen_config);
    refused(b, convert(b, o), "tokenizer.json", "--no-vocab");
    put_file(b, "tokenizer.json", "{\"model\": {");
    refused(b, convert(b, o), "tokenizer.json", "line 1");
    put_file(b, "tokenizer.json", "[]");
    refused(b, convert(b, o), "tokenizer.json", "object");
    put_file(b, "tokenizer.json",
             "{\"model\": {\"type\": \"Unigram\"},"
             "\"pre_tokenizer\": {\"type\": \"ByteLevel\"}}");
    refused(b, convert(b, o), "pattern", "qwen2");
    put_file(b, "tokenizer.json",
             "{\"model\": {\"type\": \"BPE\"},"
             "\"pre_tokenizer\": {\"type\": \"Whitespace\"}}");
    refused(b, convert(b, o), "Whitespace", "ByteLevel");
    put_tokenizer(b, QWEN35, "[\"ab\"]");
    refused(b, convert(b, o), "merges[0]", "two strings");
    put_tokenizer(b, QWEN35, "[[\"a\", \" b\"]]");
    refused(b, convert(b, o), "merges[0]", "spaces");
    char small[sizeof qwen_config];
    memcpy(small, qwen_config, sizeof small);
    memcpy(strstr(small, "\"vocab_size\": 10"), "\"vocab_size\":  6", 16);
    put_file(b, "config.json", small);
    put_tokenizer(b, QWEN35, "[]");
    refused(b, convert(b, o), "<|im_end|>", "id 6");
}

/* ---- checkpoints ---- */

/* Writes the golden folder with an edited manifest: renamed, reshaped or dropped tensors. */
static void put_golden(const box *b, const char *golden, json_t *manifest)
{
    char path[160], *text;
    size_t n;
    snprintf(path, sizeof path, "%s/model.safetensors", b->hf);
    assert_int_equal(golden_safetensors(manifest, path, NULL), FT_OK);
    snprintf(path, sizeof path, "%s/config.json", golden);
    assert_int_equal(ft_file_read(&text, &n, path, 1 << 20, NULL), FT_OK);
    put_file(b, "config.json", text);
    ft_free(text);
}

static json_t *manifest_of(const char *golden)
{
    json_t *m;
    assert_int_equal(golden_manifest(&m, golden, NULL), FT_OK);
    return m;
}

static void set_text(json_t *manifest, const char *name, const char *key, const char *value)
{
    json_t *e = (json_t *)(uintptr_t)golden_entry(manifest, name);
    assert_non_null(e);
    json_object_set_new(e, key, json_string(value));
}

static float value_at(const box *b, const char *name, int64_t row, int64_t col)
{
    const ft_gguf_tensor *t = ft_gguf_tensor_find(b->g, name);
    assert_non_null(t);
    float x[1024];
    assert_true(t->n[0] <= 1024);
    ft_row_decode(t->type, x,
                  (const char *)t->data + (size_t)row * ft_type_row(t->type, (size_t)t->n[0]),
                  (size_t)t->n[0]);
    return x[col];
}

static void mtp_keep_drop_only(void **state)
{
    box *b = *state;
    json_t *m = manifest_of(DENSE);
    put_golden(b, DENSE, m);
    assert_int_equal(convert(b, (ft_convert_opts){.no_vocab = true}), FT_OK);
    number_is(b, "qwen35.block_count", 0, 5);
    number_is(b, "qwen35.nextn_predict_layers", 0, 1);
    const size_t all = ft_gguf_n_tensor(b->g);
    ft_convert_opts o = {.no_vocab = true, .mtp = FT_CONVERT_MTP_DROP};
    assert_int_equal(convert(b, o), FT_OK);
    number_is(b, "qwen35.block_count", 0, 4);
    assert_null(ft_gguf_kv_find(b->g, "qwen35.nextn_predict_layers"));
    assert_null(ft_gguf_tensor_find(b->g, "blk.4.attn_q.weight"));
    const size_t trunk = ft_gguf_n_tensor(b->g);
    o.mtp = FT_CONVERT_MTP_ONLY;
    assert_int_equal(convert(b, o), FT_OK);
    number_is(b, "qwen35.block_count", 0, 5);
    assert_null(ft_gguf_tensor_find(b->g, "blk.0.attn_norm.weight"));
    assert_non_null(ft_gguf_tensor_find(b->g, "blk.4.nextn.eh_proj.weight"));
    assert_non_null(ft_gguf_tensor_find(b->g, "token_embd.weight"));
    assert_int_equal(ft_gguf_n_tensor(b->g) + trunk, all + 2); /* embedding and norm in both */
    json_decref(m);
}

static void out_types(void **state)
{
    static const struct {
        const char *name;
        ft_type type;
        int file;
    } row[] = {{NULL, FT_BF16, 32}, {"f32", FT_F32, 0}, {"f16", FT_F16, 1}, {"q8_0", FT_Q8_0, 7}};
    box *b = *state;
    json_t *m = manifest_of(DENSE);
    put_golden(b, DENSE, m);
    const golden_formula f =
        golden_formula_of(golden_entry(m, "model.language_model.embed_tokens.weight"));
    for (size_t i = 0; i < FT_COUNT(row); i++) {
        assert_int_equal(convert(b, (ft_convert_opts){.no_vocab = true, .outtype = row[i].name}),
                         FT_OK);
        assert_int_equal(ft_gguf_tensor_find(b->g, "token_embd.weight")->type, row[i].type);
        assert_int_equal(ft_gguf_tensor_find(b->g, "output_norm.weight")->type, FT_F32);
        assert_int_equal(ft_gguf_tensor_find(b->g, "blk.0.ssm_conv1d.weight")->type, FT_F32);
        number_is(b, "general.file_type", 0, row[i].file);
        const double got = (double)value_at(b, "token_embd.weight", 7, 9);
        assert_true(fabs(got - (double)golden_value(&f, 7 * 256 + 9)) < 0.12 / 127);
    }
    refused(b, ft_convert(b->hf, b->out, &(ft_convert_opts){.outtype = "q9"}, NULL, &b->err), "q9",
            "bf16");
    json_decref(m);
}

/* Experts that are separate tensors in the checkpoint are stacked. */
static void experts_one_by_one(void **state)
{
    static const char *const name[] = {"gate_proj", "up_proj", "down_proj"};
    box *b = *state;
    json_t *m = manifest_of(MOE);
    for (int l = -1; l < 4; l++) {
        char base[96], full[160];
        if (l < 0)
            snprintf(base, sizeof base, "mtp.layers.0.mlp.experts");
        else
            snprintf(base, sizeof base, "model.language_model.layers.%d.mlp.experts", l);
        for (size_t i = json_array_size(m); i-- > 0;) {
            const char *s = json_string_value(json_object_get(json_array_get(m, i), "name"));
            if (!strncmp(s, base, strlen(base))) json_array_remove(m, i);
        }
        for (int x = 0; x < 16; x++)
            for (int k = 0; k < 3; k++) {
                snprintf(full, sizeof full, "%s.%d.%s.weight", base, x, name[k]);
                json_array_append_new(m, json_pack("{s:s, s:[ii], s:s, s:f, s:f}", "name", full,
                                                   "shape", 256, 256, "dtype", "BF16", "offset",
                                                   0.0, "scale", 0.1));
            }
    }
    put_golden(b, MOE, m);
    assert_int_equal(convert(b, (ft_convert_opts){.no_vocab = true}), FT_OK);
    const ft_gguf_tensor *t = ft_gguf_tensor_find(b->g, "blk.2.ffn_up_exps.weight");
    assert_true(t && t->n[0] == 256 && t->n[1] == 256 && t->n[2] == 16);
    const golden_formula f = golden_formula_of(
        golden_entry(m, "model.language_model.layers.2.mlp.experts.11.up_proj.weight"));
    assert_true(value_at(b, "blk.2.ffn_up_exps.weight", 11 * 256 + 200, 3) ==
                golden_value(&f, 200 * 256 + 3));
    json_decref(m);
}

/* 8-bit floats are multiplied with the scale of their block of 128 by 128. */
static void eight_bit_floats(void **state)
{
    box *b = *state;
    json_t *m = manifest_of(DENSE);
    const char *name = "model.language_model.layers.0.mlp.gate_proj.weight"; /* [512, 256] */
    set_text(m, name, "dtype", "F8_E4M3");
    json_t *bytes = json_array();
    for (int i = 0; i < 512 * 256; i++)
        json_array_append_new(bytes, json_integer(i % 256 == 3 ? 0x40 : 0x38)); /* 2 and 1 */
    json_object_set_new((json_t *)(uintptr_t)golden_entry(m, name), "values", bytes);
    put_golden(b, DENSE, m);
    refused(b, convert(b, (ft_convert_opts){.no_vocab = true}), "gate_proj.weight_scale_inv",
            "F8_E4M3");
    json_array_append_new(m,
                          json_pack("{s:s, s:[ii], s:s, s:f, s:f}", "name",
                                    "model.language_model.layers.0.mlp.gate_proj.weight_scale_inv",
                                    "shape", 4, 2, "dtype", "F32", "offset", 1.0, "scale", 0.5));
    put_golden(b, DENSE, m);
    assert_int_equal(convert(b, (ft_convert_opts){.no_vocab = true, .outtype = "f32"}), FT_OK);
    const golden_formula f = golden_formula_of(
        golden_entry(m, "model.language_model.layers.0.mlp.gate_proj.weight_scale_inv"));
    const float s = golden_value(&f, 2 * 2 + 0), r = golden_value(&f, 3 * 2 + 1);
    assert_true(value_at(b, "blk.0.ffn_gate.weight", 300, 3) == 2 * s);
    assert_true(value_at(b, "blk.0.ffn_gate.weight", 300, 4) == s);
    assert_true(value_at(b, "blk.0.ffn_gate.weight", 511, 255) == r);
    json_decref(m);
}

/* Tolerated: key projections of a layer with shared KV, vision tensors, and names with or without
 * the language_model part. */
static void tolerated_tensors(void **state)
{
    box *b = *state;
    json_t *m = manifest_of("tests/golden/gemma4-edge");
    json_array_append_new(m, json_pack("{s:s, s:[ii], s:s, s:f, s:f}", "name",
                                       "model.language_model.layers.7.self_attn.k_proj.weight",
                                       "shape", 128, 256, "dtype", "BF16", "offset", 0.0, "scale",
                                       0.1));
    json_array_append_new(m,
                          json_pack("{s:s, s:[i], s:s, s:f, s:f}", "name", "model.vision_tower.x",
                                    "shape", 4, "dtype", "BF16", "offset", 0.0, "scale", 0.1));
    set_text(m, "model.language_model.norm.weight", "name", "model.norm.weight");
    put_golden(b, "tests/golden/gemma4-edge", m);
    assert_int_equal(convert(b, (ft_convert_opts){.no_vocab = true}), FT_OK);
    assert_null(ft_gguf_tensor_find(b->g, "blk.7.attn_k.weight"));
    json_decref(m);
}

static void broken_checkpoints_are_refused(void **state)
{
    box *b = *state;
    const ft_convert_opts o = {.no_vocab = true};
    const char *down = "model.language_model.layers.2.mlp.down_proj.weight";
    json_t *m = manifest_of(DENSE), *e = (json_t *)(uintptr_t)golden_entry(m, down);
    refused(b, convert(b, o), "config.json", "Hugging Face");
    put_file(b, "config.json", "{\"model_type\": \"llama\"}");
    refused(b, convert(b, o), "llama", "qwen3_5, qwen3_5_moe, gemma4 or gemma4_assistant");
    put_file(b, "config.json", "{\"model_typ\": \"gemma4\"}");
    refused(b, convert(b, o), "model_type is \"\"", "gemma4");
    put_file(b, "config.json", "{");
    refused(b, convert(b, o), "config.json", "line 1");
    set_text(m, down, "name", "model.language_model.layers.2.mlp.down_prox.weight");
    put_golden(b, DENSE, m);
    refused(b, convert(b, o), "layers.2.mlp.down_proj.weight is missing", "[256, 512]");
    json_object_set_new(e, "name", json_string(down));
    json_object_set_new(e, "shape", json_pack("[ii]", 256, 511));
    put_golden(b, DENSE, m);
    refused(b, convert(b, o), "layers.2.mlp.down_proj.weight", "[256, 511], want [256, 512]");
    json_object_set_new(e, "shape", json_pack("[ii]", 256, 512));
    json_object_set_new(e, "dtype", json_string("I64"));
    json_object_set_new(e, "values", json_array()); /* all zero */
    put_golden(b, DENSE, m);
    refused(b, convert(b, o), "layers.2.mlp.down_proj.weight", "I64, want F32");
    json_object_set_new(e, "dtype", json_string("BF16"));
    json_object_del(e, "values");
    json_array_append_new(m, json_pack("{s:s, s:[i], s:s, s:f, s:f}", "name", "model.layers.0.odd",
                                       "shape", 4, "dtype", "BF16", "offset", 0.0, "scale", 0.1));
    put_golden(b, DENSE, m);
    refused(b, convert(b, o), "model.layers.0.odd", "not part of architecture qwen35");
    json_decref(m);
    m = manifest_of("tests/golden/gemma4-edge-assistant");
    e = (json_t *)(uintptr_t)golden_entry(m, "masked_embedding.token_ordering");
    json_array_set_new(json_object_get(e, "values"), 3, json_integer(0));
    json_array_set_new(json_object_get(e, "values"), 4, json_integer(0));
    put_golden(b, "tests/golden/gemma4-edge-assistant", m);
    refused(b, convert(b, o), "token_ordering", "once");
    json_decref(m);
}

static void broken_configs_are_refused(void **state)
{
    static const struct {
        const char *from, *to, *word;
    } row[] = {
        {"\"num_hidden_layers\": 4", "\"num_hidden_layers\": 0", "num_hidden_layers is 0"},
        {"\"hidden_size\": 8", "\"hidden_size\": \"\"", "hidden_size is a string"},
        {"\"head_dim\": 4", "\"head_dim\": 4.5", "head_dim is a number, want a whole number"},
        {"\"linear_key_head_dim\": 4", "\"linear_key_head_dim\": 5", "linear_value_head_dim is 4"},
        {"\"linear_num_key_heads\": 1", "\"linear_num_key_heads\": 3", "want a multiple of 3"},
        {"\"vocab_size\": 10", "\"vocab_siz_\": 10", "vocab_size is missing"},
        {"\"bos_token_id\": 5", "\"layer_types\": [1]", "layer_types has 1 entries, want 4"},
    };
    box *b = *state;
    for (size_t i = 0; i < FT_COUNT(row); i++) {
        char text[1024];
        const char *at = strstr(qwen_config, row[i].from);
        assert_non_null(at);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - qwen_config), qwen_config, row[i].to,
                 at + strlen(row[i].from));
        put_file(b, "config.json", text);
        put_tokenizer(b, QWEN35, "[]");
        refused(b, convert(b, (ft_convert_opts){.vocab_only = true}), "config.json", row[i].word);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(byte_level_vocabulary),
        TEST(pattern_decides_and_not_the_family),
        TEST(gemma_vocabulary),
        TEST(named_templates),
        TEST(broken_vocabularies_are_refused),
        TEST(mtp_keep_drop_only),
        TEST(out_types),
        TEST(experts_one_by_one),
        TEST(eight_bit_floats),
        TEST(tolerated_tensors),
        TEST(broken_checkpoints_are_refused),
        TEST(broken_configs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
