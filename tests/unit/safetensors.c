/* tests/unit/safetensors.c - the safetensors reader: single files, indexes, and rejected input. */
#define _GNU_SOURCE
#include "gguf/safetensors.h"
#include "base/buf.h"
#include "base/half.h"
#include "base/mem.h"

#include "folder.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static int fresh(void **state)
{
    (void)state;
    folder_new(folder);
    return 0;
}

static int done(void **state)
{
    (void)state;
    return folder_free(folder);
}

static void file_of(ft_buf *b, const char *header, const void *data, size_t n)
{
    const uint64_t len = strlen(header);
    for (int i = 0; i < 8; i++) ft_buf_putc(b, (char)(unsigned char)(len >> (8 * i)));
    ft_buf_puts(b, header);
    ft_buf_put(b, data, n);
}

static void refused(const char *header, size_t data, const char *text)
{
    static const char zeros[256];
    ft_buf b;
    ft_buf_init(&b, (size_t)1 << 20);
    file_of(&b, header, zeros, data);
    ft_st *s = NULL;
    ft_err err;
    assert_true(ft_st_open_memory(&s, b.data, b.len, &err) != FT_OK);
    assert_null(s);
    if (!strstr(err.text, text)) fail_msg("\"%s\" has no \"%s\"", err.text, text);
    ft_buf_release(&b);
}

static void reads_values(void **state)
{
    (void)state;
    ft_buf data, b;
    ft_buf_init(&data, 4096);
    ft_buf_init(&b, 4096);
    const float f[] = {1.5f, -2};
    const uint16_t h[] = {ft_f32_to_f16(0.25f)}, w[] = {ft_f32_to_bf16(-3)};
    /* 0, smallest, 1, -448, NaN */
    const unsigned char e[] = {0x00, 0x01, 0x38, 0xfe, 0x7f};
    const int64_t i[] = {-7, (int64_t)1 << 40};
    ft_buf_put(&data, f, 8);
    ft_buf_put(&data, h, 2);
    ft_buf_put(&data, w, 2);
    ft_buf_put(&data, e, 5);
    ft_buf_put(&data, i, 16);
    ft_buf_put(&data, "x", 1);
    file_of(&b,
            "{\"__metadata__\":{\"format\":\"pt\"},"
            "\"i\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[17,33]},"
            "\"f\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},"
            "\"h\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[8,10]},"
            "\"w\":{\"dtype\":\"BF16\",\"shape\":[1],\"data_offsets\":[10,12]},"
            "\"e\":{\"dtype\":\"F8_E4M3\",\"shape\":[5],\"data_offsets\":[12,17]},"
            "\"none\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[12,12]},"
            "\"new\":{\"dtype\":\"F4_SOMETHING_NEW\",\"shape\":[2],\"data_offsets\":[33,34]}}    ",
            data.data, data.len);
    ft_st *s;
    ft_err err;
    if (ft_st_open_memory(&s, b.data, b.len, &err)) fail_msg("%s", err.text);
    assert_int_equal(ft_st_n_tensor(s), 7);
    assert_string_equal(ft_st_tensor_at(s, 0)->name.p, "f"); /* in the order of the data */
    float out[5];
    const ft_st_tensor *t = ft_st_tensor_find(s, "f");
    assert_int_equal(t->n_dims, 2);
    assert_int_equal(t->shape[1], 2);
    ft_st_read_f32(t, 1, 1, out);
    assert_true(out[0] == -2);
    ft_st_read_f32(ft_st_tensor_find(s, "h"), 0, 1, out);
    assert_true(out[0] == 0.25f);
    ft_st_read_f32(ft_st_tensor_find(s, "w"), 0, 1, out);
    assert_true(out[0] == -3);
    ft_st_read_f32(ft_st_tensor_find(s, "e"), 0, 5, out);
    assert_true(out[0] == 0 && out[1] == 0x1p-9f && out[2] == 1 && out[3] == -448 && isnan(out[4]));
    ft_st_read_f32(ft_st_tensor_find(s, "i"), 0, 2, out);
    assert_true(out[0] == -7 && out[1] == 0x1p40f);
    assert_int_equal(ft_st_tensor_find(s, "none")->count, 0);
    t = ft_st_tensor_find(s, "new");
    assert_int_equal(t->type, FT_ST_OTHER);
    assert_string_equal(t->type_name, "F4_SOMETHIN");
    assert_null(ft_st_tensor_find(s, "absent"));
    ft_st_close(s);
    ft_buf_release(&b);
    ft_buf_release(&data);
}

#define ONE(dtype, shape, offsets)                                                                 \
    "{\"a\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

static void refuses_bad_headers(void **state)
{
    (void)state;
    ft_st *s;
    ft_err err;
    assert_int_equal(ft_st_open_memory(&s, "1234567", 7, &err), FT_EFORMAT);
    assert_string_equal(err.text, "7 bytes, want at least 8 for a safetensors header");
    assert_int_equal(ft_st_open_memory(&s, "GGUF\3\0\0\0\0\0", 10, &err), FT_EFORMAT);
    assert_non_null(strstr(err.text, "not a safetensors file"));
    refused("{\"a\":", 0, "JSON: ");
    refused("[1]", 0, "JSON: want an object");
    refused("{\"a\":[[[[[[[[1]]]]]]]]}", 0, "JSON nested deeper than 8");
    refused("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", 0, "duplicate");
    refused("{\"a\":1}", 0, "tensor a: dtype: want a string");
    refused(ONE("F32", "[1]", "[0,4]"), 3, "data_offsets: 0 to 4, want a range within 0 to 3");
    refused(ONE("F32", "[1]", "[4,0]"), 8, "data_offsets: 4 to 0");
    refused(ONE("F32", "[1]", "[-4,0]"), 8, "data_offsets: -4 to 0");
    refused(ONE("F32", "[1]", "[0]"), 8, "data_offsets: want two numbers");
    refused(ONE("F32", "[1]", "\"x\""), 8, "data_offsets: want two numbers");
    refused(ONE("F32", "[2]", "[0,4]"), 8, "4 bytes for 2 values of F32, want 4 each");
    refused(ONE("F32", "[-1]", "[0,4]"), 8, "shape: entry 0 is not a number >= 0");
    refused(ONE("F32", "[1.5]", "[0,4]"), 8, "shape: entry 0 is not a number >= 0");
    refused(ONE("F32", "3", "[0,4]"), 8, "shape: want an array of at most 8 numbers");
    refused(ONE("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 8, "shape: want an array of at most 8");
    refused(ONE("F32", "[4294967296,4294967296]", "[0,0]"), 8, "more values than 63 bits");
    refused(ONE("F32", "[4611686018427387904]", "[0,0]"), 8,
            "want 4 each"); /* overflows to 0 when multiplied by 4 */
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
            "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
            16, "tensor a overlaps tensor b");
}

static void save(const char *name, const void *p, size_t n)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    fclose(f);
}

static void save_text(const char *name, const char *z)
{
    save(name, z, strlen(z));
}

static void save_shard(const char *name, const char *header, float v)
{
    ft_buf b;
    ft_buf_init(&b, 4096);
    file_of(&b, header, &v, 4);
    save(name, b.data, b.len);
    ft_buf_release(&b);
}

static void folder_fails(const char *text)
{
    ft_st *s = NULL;
    ft_err err;
    assert_true(ft_st_open(&s, folder, &err) != FT_OK);
    assert_null(s);
    if (!strstr(err.text, text)) fail_msg("\"%s\" has no \"%s\"", err.text, text);
}

static void index_and_shards(void **state)
{
    (void)state;
    folder_fails("a folder with neither model.safetensors.index.json nor model.safetensors");
    save_shard("s1.safetensors", ONE("F32", "[1]", "[0,4]"), 1);
    save_shard("s2.safetensors",
               "{\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
               "\"not in the index\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[4,4]}}",
               2);
    const char *index = "model.safetensors.index.json";
    save_text(index, "{\"metadata\":{\"total_size\":8},\"weight_map\":"
                     "{\"b\":\"s2.safetensors\",\"a\":\"s1.safetensors\"}}");
    ft_st *s;
    ft_err err;
    if (ft_st_open(&s, folder, &err)) fail_msg("%s", err.text);
    assert_int_equal(ft_st_n_tensor(s), 2);
    float v;
    ft_st_read_f32(ft_st_tensor_find(s, "b"), 0, 1, &v);
    assert_true(v == 2);
    ft_st_close(s);
    char path[128];
    snprintf(path, sizeof path, "%s/s1.safetensors", folder);
    assert_int_equal(ft_st_open(&s, path, &err), FT_OK);
    assert_int_equal(ft_st_n_tensor(s), 1);
    ft_st_close(s);

    save_text(index, "{\"weight_map\":{\"c\":\"s1.safetensors\"}}");
    folder_fails("tensor c is not in its shard s1.safetensors");
    save_text(index, "{\"weight_map\":{\"a\":\"s3.safetensors\"}}");
    folder_fails("s3.safetensors: No such file");
    save_text(index, "{\"weight_map\":{\"a\":\"../s1.safetensors\"}}");
    folder_fails("shard \"../s1.safetensors\", want the name of a file beside the index");
    save_text(index, "{\"weight_map\":{\"a\":\"/etc/passwd\"}}");
    folder_fails("want the name of a file beside the index");
    save_text(index, "{\"weight_map\":{\"a\":\"..\"}}");
    folder_fails("want the name of a file beside the index");
    save_text(index, "{\"weight_map\":{\"a\":7}}");
    folder_fails("tensor a: want a file name");
    save_text(index, "{\"weight_map\":{\"a\":\"s1.safetensors\",\"a\":\"s2.safetensors\"}}");
    folder_fails("duplicate");
    save_text(index, "{}");
    folder_fails("no weight_map");
}

static void single_file_in_a_folder(void **state)
{
    (void)state;
    save_shard("model.safetensors", ONE("F32", "[1]", "[0,4]"), 3);
    ft_st *s;
    assert_int_equal(ft_st_open(&s, folder, NULL), FT_OK);
    float v;
    ft_st_read_f32(ft_st_tensor_find(s, "a"), 0, 1, &v);
    assert_true(v == 3);
    ft_st_close(s);
    ft_err err;
    assert_int_equal(ft_st_open(&s, "/no/such/file", &err), FT_EIO);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, fresh, done)
    const struct CMUnitTest tests[] = {
        T(reads_values),
        T(refuses_bad_headers),
        T(index_and_shards),
        T(single_file_in_a_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
