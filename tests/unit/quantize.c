/* tests/unit/quantize.c - quantising: the types of the tensors, the effect of an importance matrix,
 * rejected input. */
#define _XOPEN_SOURCE 700
#include "tools/quantize.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "gguf/gguf.h"
#include "gguf/writer.h"
#include "quant/quant.h"
#include "tools/imatrix.h"
#include "tools/mix.h"

#include "folder.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct box {
    char dir[64], in[80], out[80], im[80];
    ft_quantize *q;
    ft_gguf *g;
    ft_err err;
} box;

static int setup(void **state)
{
    box *b = ft_new(box);
    folder_new(b->dir);
    snprintf(b->in, sizeof b->in, "%s/in.gguf", b->dir);
    snprintf(b->out, sizeof b->out, "%s/out.gguf", b->dir);
    snprintf(b->im, sizeof b->im, "%s/im.gguf", b->dir);
    *state = b;
    return 0;
}

static int teardown(void **state)
{
    box *b = *state;
    ft_quantize_close(b->q);
    ft_gguf_close(b->g);
    unlink(b->in);
    unlink(b->out);
    unlink(b->im);
    const int left = rmdir(b->dir);
    ft_free(b);
    return left;
}

/* ---- a small model: 16 blocks, every fourth with attention, and an MTP block ---- */

enum { L = 16, E = 256, F = 512, X = 3 };

typedef struct shape {
    char name[64];
    ft_type type;
    int64_t n[3];
} shape;

static size_t list_tensors(shape *s)
{
    size_t n = 0;
#define ADD(T, a, b, c, ...)                                                                       \
    do {                                                                                           \
        snprintf(s[n].name, sizeof s[n].name, __VA_ARGS__);                                        \
        s[n].type = T;                                                                             \
        s[n].n[0] = a, s[n].n[1] = b, s[n].n[2] = c;                                               \
        n++;                                                                                       \
    } while (0)
    ADD(FT_BF16, E, 40, 1, "token_embd.weight");
    ADD(FT_BF16, E, 40, 1, "output.weight");
    ADD(FT_I32, 40, 1, 1, "masked_embd_ordering");
    for (int l = 0; l <= L; l++) {
        const bool attn = l % 4 == 3 || l == L;
        ADD(FT_F32, E, 1, 1, "blk.%d.attn_norm.weight", l);
        if (attn)
            ADD(FT_BF16, E, 16, 1, "blk.%d.attn_v.weight", l);
        else
            ADD(FT_F16, E, 48, 1, "blk.%d.attn_qkv.weight", l);
        ADD(FT_BF16, E, 4, 1, "blk.%d.ffn_gate_inp.weight", l);
        ADD(FT_F32, 4, 16, 1, "blk.%d.ssm_conv1d.weight", l);
        ADD(FT_F32, F, 8, 1, "blk.%d.ffn_down.weight", l);
        ADD(FT_BF16, E, 4, X, "blk.%d.ffn_up_exps.weight", l);
        ADD(FT_BF16, 96, 4, 1, "blk.%d.narrow.weight", l); /* 256 does not divide it */
        ADD(FT_BF16, 20, 4, 1, "blk.%d.odd.weight", l);    /* neither does 32 */
    }
    ADD(FT_BF16, 2 * E, 8, 1, "blk.%d.nextn.eh_proj.weight", L);
    return n;
}

static void write_model(const box *b, bool poison)
{
    static shape s[256];
    const size_t n = list_tensors(s);
    ft_gguf_writer *w;
    assert_int_equal(ft_gguf_writer_open(&w, b->in, NULL), FT_OK);
    ft_gguf_put_str(w, "general.architecture", FT_STR("qwen35"));
    ft_gguf_put_u32(w, "general.file_type", 32);
    ft_gguf_put_u32(w, "qwen35.block_count", L + 1);
    ft_gguf_put_u32(w, "qwen35.nextn_predict_layers", 1);
    ft_gguf_put_u32(w, "qwen35.attention.head_count", 4);
    ft_gguf_put_u32(w, "qwen35.attention.head_count_kv", 2);
    ft_gguf_put_u32(w, "split.count", 1);
    for (size_t i = 0; i < n; i++) ft_gguf_put_tensor(w, s[i].name, s[i].type, 3, s[i].n);
    assert_int_equal(ft_gguf_writer_begin(w, NULL), FT_OK);
    ft_rng r = {5};
    for (size_t i = 0; i < n; i++) {
        const int64_t rows = s[i].n[1] * s[i].n[2];
        const size_t row = ft_type_row(s[i].type, (size_t)s[i].n[0]);
        for (int64_t k = 0; k < rows; k++) {
            float x[F];
            unsigned char bytes[F * 4];
            for (int64_t c = 0; c < s[i].n[0]; c++) x[c] = (float)ft_rng_normal(&r);
            if (s[i].type == FT_I32)
                for (size_t c = 0; c < row; c++) bytes[c] = (unsigned char)(c * 7);
            else
                ft_row_encode(s[i].type, bytes, x, (size_t)s[i].n[0], NULL);
            if (poison && k == 2 && !strcmp(s[i].name, "blk.5.ffn_down.weight"))
                memset(bytes + 40, 0xff, 4);
            ft_gguf_writer_data(w, i, (size_t)k * row, bytes, row);
        }
    }
    assert_int_equal(ft_gguf_writer_commit(w, NULL), FT_OK);
}

static ft_status open_plan(box *b, ft_quantize_opts o)
{
    o.threads = 2;
    ft_quantize_close(b->q);
    b->q = NULL;
    return ft_quantize_open(&b->q, b->in, &o, &b->err);
}

static const char *type_of(const box *b, const char *name)
{
    for (size_t i = 0; i < ft_quantize_n(b->q); i++)
        if (ft_str_is(ft_quantize_at(b->q, i)->name, name))
            return ft_type_name(ft_quantize_at(b->q, i)->to);
    return "none";
}

static void refused(const box *b, ft_status st, const char *a, const char *c)
{
    assert_int_not_equal(st, FT_OK);
    if (!strstr(b->err.text, a) || !strstr(b->err.text, c))
        fail_msg("the error is \"%s\", want it to contain %s and %s", b->err.text, a, c);
}

/* ---- tests ---- */

static void mix_gives_more_bits_to_sensitive_tensors(void **state)
{
    box *b = *state;
    write_model(b, false);
    assert_int_equal(open_plan(b, (ft_quantize_opts){.mix = "q4_k_m", .keep_mtp = true}), FT_OK);
    /* 17 layers: the first 2, from the 14th on, and every third between get Q6_K */
    static const char *const down[] = {"Q6_K", "Q6_K", "Q4_K", "Q4_K", "Q6_K", "Q4_K",
                                       "Q4_K", "Q6_K", "Q4_K", "Q4_K", "Q6_K", "Q4_K",
                                       "Q4_K", "Q6_K", "Q6_K", "Q6_K", "Q8_0"};
    for (int l = 0; l <= L; l++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.ffn_down.weight", l);
        assert_string_equal(type_of(b, name), down[l]);
        snprintf(name, sizeof name, "blk.%d.attn_%s.weight", l, l % 4 == 3 || l == L ? "v" : "qkv");
        assert_string_equal(type_of(b, name), down[l]); /* the same rule, counted over values */
        snprintf(name, sizeof name, "blk.%d.narrow.weight", l);
        assert_string_equal(type_of(b, name), l == L ? "Q8_0" : "Q5_0");
        snprintf(name, sizeof name, "blk.%d.odd.weight", l);
        assert_string_equal(type_of(b, name), "F16");
        snprintf(name, sizeof name, "blk.%d.ffn_gate_inp.weight", l);
        assert_string_equal(type_of(b, name), "BF16");
        snprintf(name, sizeof name, "blk.%d.ssm_conv1d.weight", l);
        assert_string_equal(type_of(b, name), "F32");
    }
    assert_string_equal(type_of(b, "token_embd.weight"), "Q4_K");
    assert_string_equal(type_of(b, "output.weight"), "Q6_K");
    assert_string_equal(type_of(b, "blk.16.nextn.eh_proj.weight"), "Q8_0");
    assert_string_equal(type_of(b, "masked_embd_ordering"), "I32");
}

static void options_win_over_the_mix(void **state)
{
    box *b = *state;
    write_model(b, false);
    static const char *const pattern[] = {"blk\\.(0|16)\\.ffn_down=q5_0", "attn_v=Q3_K",
                                          "norm=q8_0"};
    ft_quantize_opts o = {.mix = "Q4_K_S",
                          .tensor_type = pattern,
                          .n_tensor_type = 2,
                          .output_type = "q8_0",
                          .embedding_type = "iq4_nl",
                          .keep_mtp = true};
    assert_int_equal(open_plan(b, o), FT_OK);
    assert_string_equal(type_of(b, "blk.0.ffn_down.weight"), "Q5_0");
    assert_string_equal(type_of(b, "blk.16.ffn_down.weight"), "Q5_0"); /* requested: below Q8_0 */
    assert_string_equal(type_of(b, "blk.16.attn_v.weight"), "Q3_K");
    assert_string_equal(type_of(b, "blk.16.nextn.eh_proj.weight"), "Q8_0");
    assert_string_equal(type_of(b, "output.weight"), "Q8_0");
    assert_string_equal(type_of(b, "token_embd.weight"), "IQ4_NL");
    assert_string_equal(type_of(b, "blk.0.attn_norm.weight"), "F32");
    o = (ft_quantize_opts){.mix = "Q4_K_M", .pure = true, .leave_output = true};
    assert_int_equal(open_plan(b, o), FT_OK);
    assert_string_equal(type_of(b, "blk.0.ffn_down.weight"), "Q4_K");
    assert_string_equal(type_of(b, "blk.16.ffn_down.weight"), "Q4_K"); /* keep_mtp is off */
    assert_string_equal(type_of(b, "output.weight"), "BF16");
}

/* Mean squared difference over every step-th column. */
static double error_of(const ft_gguf *a, const ft_gguf *c, const char *name, int step)
{
    const ft_gguf_tensor *t = ft_gguf_tensor_find(a, name), *u = ft_gguf_tensor_find(c, name);
    double e = 0;
    for (int64_t r = 0; r < t->n[1] * t->n[2]; r++) {
        float x[F], y[F];
        const size_t cols = (size_t)t->n[0];
        ft_row_decode(t->type, x, (const char *)t->data + (size_t)r * ft_type_row(t->type, cols),
                      cols);
        ft_row_decode(u->type, y, (const char *)u->data + (size_t)r * ft_type_row(u->type, cols),
                      cols);
        for (int64_t i = 0; i < t->n[0]; i += step)
            e += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
    }
    return e * step / (double)(t->n[0] * t->n[1] * t->n[2]);
}

static void written_values_are_near_and_the_rest_is_equal(void **state)
{
    box *b = *state;
    uint64_t bytes;
    ft_gguf *in;
    write_model(b, false);
    assert_int_equal(open_plan(b, (ft_quantize_opts){.mix = "Q4_K_M", .keep_mtp = true}), FT_OK);
    assert_int_equal(ft_quantize_write(b->q, b->out, &bytes, &b->err), FT_OK);
    assert_int_equal(ft_gguf_open(&b->g, b->out, true, &b->err), FT_OK);
    assert_int_equal(ft_gguf_open(&in, b->in, true, &b->err), FT_OK);
    assert_int_equal(ft_gguf_file_bytes(b->g), bytes);
    uint32_t file = 0;
    assert_true(ft_gguf_u32(b->g, "general.file_type", &file) && file == 15);
    assert_null(ft_gguf_kv_find(b->g, "split.count"));
    for (size_t i = 0; i < ft_gguf_n_tensor(in); i++) {
        const ft_gguf_tensor *t = ft_gguf_tensor_at(in, i), *u = ft_gguf_tensor_at(b->g, i);
        assert_string_equal(t->name.p, u->name.p);
        assert_memory_equal(t->n, u->n, sizeof t->n);
        if (t->type == u->type)
            assert_memory_equal(t->data, u->data, t->bytes);
        else
            assert_true(error_of(in, b->g, t->name.p, 1) < 0.01);
    }
    ft_gguf_close(in);
}

/* Every eighth column is marked important: its error must become smaller. */
static void importance_moves_the_error(void **state)
{
    box *b = *state;
    uint64_t bytes;
    ft_gguf_writer *w;
    ft_gguf *in, *plain;
    const char *name = "blk.2.ffn_up_exps.weight";
    write_model(b, false);
    assert_int_equal(ft_gguf_writer_open(&w, b->im, NULL), FT_OK);
    ft_gguf_put_str(w, "general.type", FT_STR("imatrix"));
    ft_gguf_put_u32(w, "imatrix.chunk_count", 9);
    ft_gguf_put_str_array(w, "imatrix.datasets", &FT_STR("some.txt"), 1);
    ft_gguf_put_tensor(w, "blk.2.ffn_up_exps.weight.in_sum2", FT_F32, 2, (int64_t[]){E, X});
    ft_gguf_put_tensor(w, "blk.2.ffn_up_exps.weight.counts", FT_F32, 2, (int64_t[]){1, X});
    assert_int_equal(ft_gguf_writer_begin(w, NULL), FT_OK);
    float sum[E * X];
    for (int i = 0; i < E * X; i++) sum[i] = i % 8 ? 0.4f : 4000.0f;
    ft_gguf_writer_data(w, 0, 0, sum, sizeof sum);
    ft_gguf_writer_data(w, 1, 0, (float[]){4, 4, 0}, 12); /* the last expert never ran */
    assert_int_equal(ft_gguf_writer_commit(w, NULL), FT_OK);

    ft_imatrix *m;
    const float *mean;
    assert_int_equal(ft_imatrix_open(&m, b->im, &b->err), FT_OK);
    assert_int_equal(ft_imatrix_find(m, ft_str_of(name), E, X, &mean, &b->err), FT_OK);
    assert_true(mean[E] == 1000.0f && mean[E + 201] == 0.1f && mean[2 * E] == 1.0f);
    assert_int_equal(ft_imatrix_find(m, FT_STR("blk.1.x"), E, X, &mean, &b->err), FT_OK);
    assert_null(mean);
    refused(b, ft_imatrix_find(m, ft_str_of(name), E, 1, &mean, &b->err), name, "3 matrices");
    ft_imatrix_close(m);

    ft_quantize_opts o = {.mix = "Q4_K_S"};
    assert_int_equal(open_plan(b, o), FT_OK);
    assert_int_equal(ft_quantize_write(b->q, b->out, &bytes, &b->err), FT_OK);
    assert_int_equal(ft_gguf_open(&plain, b->out, false, &b->err), FT_OK);
    o.imatrix = b->im;
    assert_int_equal(open_plan(b, o), FT_OK);
    assert_int_equal(ft_quantize_write(b->q, b->out, &bytes, &b->err), FT_OK);
    assert_int_equal(ft_gguf_open(&b->g, b->out, true, &b->err), FT_OK);
    assert_int_equal(ft_gguf_open(&in, b->in, true, &b->err), FT_OK);
    uint32_t chunks = 0;
    assert_true(ft_gguf_u32(b->g, "quantize.imatrix.chunks_count", &chunks) && chunks == 9);
    assert_true(error_of(in, b->g, name, 8) < 0.8 * error_of(in, plain, name, 8));
    ft_gguf_close(in);
    ft_gguf_close(plain);
}

static void rejected_input(void **state)
{
    box *b = *state;
    uint64_t bytes;
    write_model(b, true);
    refused(b, open_plan(b, (ft_quantize_opts){.mix = "Q9_Z"}), "Q9_Z", "Q4_K_M");
    static const char *const bad[] = {"ffn_down", "(=q8_0", "x=q9", "x=iq2_xxs"};
    static const char *const why[] = {"PATTERN=TYPE", "pattern \"(\"", "q9", "iq2_xxs"};
    for (int i = 0; i < 4; i++) {
        ft_quantize_opts o = {.mix = "Q8_0", .tensor_type = &bad[i], .n_tensor_type = 1};
        refused(b, open_plan(b, o), "", why[i]);
    }
    refused(b, open_plan(b, (ft_quantize_opts){.mix = "Q8_0", .imatrix = b->in}), "in.gguf",
            "in_sum2");
    assert_int_equal(open_plan(b, (ft_quantize_opts){.mix = "Q8_0"}), FT_OK);
    refused(b, ft_quantize_write(b->q, b->out, &bytes, &b->err), "blk.5.ffn_down.weight: row 2",
            "not finite");
    assert_false(ft_file_exists(b->out));
    refused(b, ft_quantize_write(b->q, b->in, &bytes, &b->err), "in.gguf", "another");
}

static void quantised_input_is_refused_unless_allowed(void **state)
{
    box *b = *state;
    uint64_t bytes;
    write_model(b, false);
    assert_int_equal(open_plan(b, (ft_quantize_opts){.mix = "Q8_0"}), FT_OK);
    assert_int_equal(ft_quantize_write(b->q, b->out, &bytes, &b->err), FT_OK);
    ft_quantize_close(b->q);
    b->q = NULL;
    assert_int_equal(rename(b->out, b->in), 0);
    refused(b, open_plan(b, (ft_quantize_opts){.mix = "Q4_K_M"}), "Q8_0", "--allow-requantize");
    ft_quantize_opts o = {.mix = "Q4_K_M", .allow_requantize = true};
    assert_int_equal(open_plan(b, o), FT_OK);
    assert_int_equal(ft_quantize_write(b->q, b->out, &bytes, &b->err), FT_OK);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(mix_gives_more_bits_to_sensitive_tensors),
        TEST(options_win_over_the_mix),
        TEST(written_values_are_near_and_the_rest_is_equal),
        TEST(importance_moves_the_error),
        TEST(rejected_input),
        TEST(quantised_input_is_refused_unless_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
