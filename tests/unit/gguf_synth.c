/* tests/unit/gguf_synth.c - random blocks and model shapes; warnings of inspect about files that
 * load but do not work well. */
#define _GNU_SOURCE
#include "base/dict.h"
#include "base/mem.h"
#include "gguf/writer.h"
#include "quant/quant.h"
#include "tools/inspect.h"
#include "tools/shapes.h"
#include "tools/synth_blocks.h"

#include "folder.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char dir[64], path[80];

static int fresh(void **state)
{
    (void)state;
    folder_new(dir);
    snprintf(path, sizeof path, "%s/model.gguf", dir);
    return 0;
}

static int done(void **state)
{
    (void)state;
    return folder_free(dir);
}

/* Every type: finite scales, mean zero, the requested standard deviation. */
static void blocks_have_the_deviation(void **state)
{
    (void)state;
    float v[256];
    for (uint32_t id = 0; id < FT_TYPE_MAX; id++) {
        const ft_type_info *info = ft_type_of(id);
        if (!info->name || !ft_tile_can((ft_type)id)) continue;
        for (double want = 0.01; want < 1; want *= 5) {
            ft_tile t;
            ft_tile_init(&t, (ft_type)id, want, 1 << 18, 7);
            double sum = 0, squares = 0;
            for (size_t b = 0; b < t.blocks; b++) {
                const unsigned char *p = t.data + b * info->bytes;
                assert_true(ft_row_finite((ft_type)id, p, info->elems, NULL));
                ft_row_decode((ft_type)id, v, p, info->elems);
                for (int i = 0; i < info->elems; i++) {
                    sum += (double)v[i];
                    squares += (double)v[i] * (double)v[i];
                }
            }
            const double n = (double)(t.blocks * info->elems), dev = sqrt(squares / n);
            /* the precision of scales of 4 and 8 bits */
            const double slack = id == FT_MXFP4 || id == FT_NVFP4 ? 1.45 : 1.05;
            if (!(dev < want * slack && dev > want / slack) || fabs(sum / n) > 0.03 * want)
                fail_msg("%s: deviation %g, want %g; mean %g", info->name, dev, want, sum / n);
            ft_tile_release(&t);
        }
    }
}

/* The rows of a matrix that repeats a tile are all different. */
static void rows_differ(void **state)
{
    (void)state;
    ft_tile t;
    ft_tile_init(&t, FT_Q4_0, 0.02, 1 << 14, 3);
    const size_t row = 8; /* blocks */
    for (size_t r = 1; r < t.blocks; r++) assert_true(r * row % t.blocks != 0);
    ft_tile_release(&t);
}

static void shapes_are_whole(void **state)
{
    (void)state;
    static const char *const names[] = {
        "27b",   "35b-a3b", "9b",  "4b",  "2b",      "0.8b", "tiny",          "tiny-moe",
        "micro", "e2b",     "e4b", "12b", "26b-a4b", "31b",  "e2b-assistant", "micro-gemma"};
    for (size_t k = 0; k < FT_COUNT(names); k++) {
        const ft_model_shape *s = ft_shape_find(names[k], NULL);
        assert_non_null(s);
        ft_shape_list l;
        ft_dict seen;
        ft_dict_init(&seen);
        ft_shape_tensors(&l, s, true);
        for (size_t i = 0; i < l.n; i++) {
            assert_true(ft_dict_put(&seen, ft_str_of(l.tensor[i].name), 0));
            for (int d = 0; d < l.tensor[i].n_dims; d++) assert_true(l.tensor[i].n[d] > 0);
        }
        assert_true(ft_dict_find(&seen, FT_STR("token_embd.weight"), NULL));
        ft_dict_release(&seen);
        ft_shape_list_release(&l);
    }
    ft_err err;
    assert_null(ft_shape_find("nothing", &err));
    assert_non_null(strstr(err.text, "want one of 27b"));
}

typedef struct head {
    int64_t blocks, declared;
    bool trunk, mtp;
    float norm; /* mean of the norm weights of the head */
    ft_type type;
    const char *arch, *kind;
    int tokens;
} head;

static void write_file(const head *h)
{
    ft_gguf_writer *w;
    assert_int_equal(ft_gguf_writer_open(&w, path, NULL), FT_OK);
    char key[64];
    if (h->arch) {
        ft_gguf_put_str(w, "general.architecture", ft_str_of(h->arch));
        snprintf(key, sizeof key, "%s.block_count", h->arch);
        ft_gguf_put_u32(w, key, (uint32_t)h->blocks);
        snprintf(key, sizeof key, "%s.nextn_predict_layers", h->arch);
        if (h->declared) ft_gguf_put_u32(w, key, (uint32_t)h->declared);
        snprintf(key, sizeof key, "%s.embedding_length", h->arch);
        ft_gguf_put_u32(w, key, 32);
    }
    if (h->kind) ft_gguf_put_str(w, "general.type", ft_str_of(h->kind));
    ft_str tokens[64] = {{0}};
    for (int i = 0; i < h->tokens; i++) tokens[i] = FT_STR("t");
    if (h->tokens) ft_gguf_put_str_array(w, "tokenizer.ggml.tokens", tokens, (uint64_t)h->tokens);
    const int64_t one[] = {32}, two[] = {64, 32}, embd[] = {32, 16};
    float norm[32];
    for (int i = 0; i < 32; i++) norm[i] = h->norm;
    ft_gguf_put_tensor(w, "token_embd.weight", FT_F32, 2, embd);
    if (h->trunk) ft_gguf_put_tensor(w, "blk.0.attn_norm.weight", FT_F32, 1, one);
    size_t t = 0;
    if (h->mtp) {
        snprintf(key, sizeof key, "blk.%d.nextn.eh_proj.weight", (int)h->blocks - 1);
        ft_gguf_put_tensor(w, key, h->type, 2, two);
        snprintf(key, sizeof key, "blk.%d.nextn.enorm.weight", (int)h->blocks - 1);
        t = ft_gguf_put_tensor(w, key, FT_F32, 1, one);
    }
    assert_int_equal(ft_gguf_writer_begin(w, NULL), FT_OK);
    if (h->mtp) ft_gguf_writer_data(w, t, 0, norm, sizeof norm);
    assert_int_equal(ft_gguf_writer_commit(w, NULL), FT_OK);
}

/* The report about such a file must contain the text (or, with a leading '!', must not). */
static void expect_report(const head *h, const char *text)
{
    write_file(h);
    for (int json = 0; json < 2; json++) {
        ft_buf b;
        ft_buf_init(&b, 1 << 20);
        ft_err err;
        const ft_inspect_opts o = {.path = path, .use_mmap = true, .ctx = 100, .json = json};
        if (ft_inspect(&b, &o, &err)) fail_msg("%s", err.text);
        const bool found = strstr(ft_buf_z(&b), text[0] == '!' ? text + 1 : text) != NULL;
        if (found == (text[0] == '!')) fail_msg("%s\nwant %s", ft_buf_z(&b), text);
        ft_buf_release(&b);
    }
}

static void heads_are_checked(void **state)
{
    (void)state;
    head h = {.blocks = 2,
              .declared = 1,
              .trunk = true,
              .mtp = true,
              .norm = 0.56f,
              .type = FT_Q8_0,
              .arch = "qwen35",
              .tokens = 16};
    expect_report(&h, "MTP block inside (blk.1)");
    expect_report(&h, "!below 6 bits");
    expect_report(&h, "!without the +1");
    expect_report(&h, "!token texts");
    h.norm = -0.44f;
    expect_report(
        &h,
        "blk.1.nextn.enorm.weight has mean -0.44, want a positive one: converted without the +1");
    h.norm = 0.56f;
    h.type = FT_Q4_0;
    expect_report(
        &h,
        "1 tensors of the MTP block are below 6 bits (blk.1.nextn.eh_proj.weight: Q4_0, 4.5 bits)");
    h.mtp = false;
    expect_report(&h, "qwen35.nextn_predict_layers is 1 but blk.1.nextn.eh_proj.weight is absent");
    expect_report(&h, "an MTP block is declared but its tensors are absent");
    h.declared = 0;
    expect_report(&h, "none: qwen35.nextn_predict_layers is 0 or absent");
    h = (head){.blocks = 2, .declared = 1, .mtp = true, .type = FT_F16, .arch = "qwen35moe_mtp"};
    expect_report(&h, "this file is one: an MTP head without its model");
    h.tokens = 7;
    expect_report(&h, "7 token texts for 16 rows of token_embd.weight");
}

static void other_files(void **state)
{
    (void)state;
    head h = {.blocks = 3, .arch = "llama", .tokens = 16};
    expect_report(&h, "llama, which this program does not run, 3 blocks, width 32");
    h.arch = NULL;
    expect_report(&h, "unknown: no key general.architecture");
    h.kind = "mmproj";
    expect_report(&h, "not a model that can run by itself");
    h.arch = "gemma4";
    expect_report(&h, "Gemma 4 drafters are files of their own");
    /* extreme values must not take long or overflow */
    h.arch = "qwen35";
    h.blocks = 4000000000u;
    expect_report(&h, "Qwen3.5 dense");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, fresh, done)
    const struct CMUnitTest tests[] = {
        T(blocks_have_the_deviation), T(rows_differ), T(shapes_are_whole),
        T(heads_are_checked),         T(other_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
