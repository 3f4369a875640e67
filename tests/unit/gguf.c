/* tests/unit/gguf.c - the GGUF reader: every check, on files built byte by byte. */
#include "base/half.h"
#include "base/mem.h"
#include "gguf_bytes.h"

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

static ft_buf b;

static int fresh(void **state)
{
    (void)state;
    ft_buf_init(&b, (size_t)8 << 20);
    return 0;
}

static int done(void **state)
{
    (void)state;
    ft_buf_release(&b);
    return 0;
}

/* The reader must reject the bytes in b with exactly this error; b is empty afterwards. */
static void refused(ft_status code, const char *text)
{
    ft_gguf *g = NULL;
    ft_err err = {0};
    assert_int_equal(ft_gguf_open_memory(&g, ft_buf_z(&b), b.len, &err), code);
    assert_string_equal(err.text, text);
    assert_null(g);
    ft_buf_clear(&b);
}

static ft_gguf *accepted(void)
{
    ft_gguf *g = NULL;
    ft_err err = {0};
    if (ft_gguf_open_memory(&g, ft_buf_z(&b), b.len, &err)) fail_msg("%s", err.text);
    return g;
}

static void magic_and_versions(void **state)
{
    (void)state;
    ft_buf_puts(&b, "GGUF");
    refused(FT_EFORMAT, "4 bytes, want at least 24 for a GGUF header");
    refused(FT_EFORMAT, "0 bytes, want at least 24 for a GGUF header");
    ft_buf_puts(&b, "GGML\n and other things that follow");
    refused(FT_EFORMAT, "not a GGUF file: it starts with \"GGML\", want \"GGUF\"");
    ft_buf_puts(&b, "\x7f\nEL and other things that follow");
    refused(FT_EFORMAT, "not a GGUF file: it starts with \"??EL\", want \"GGUF\"");
    static const uint32_t bad[] = {0, 1, 4};
    for (size_t i = 0; i < FT_COUNT(bad); i++) {
        char text[64];
        snprintf(text, sizeof text, "GGUF version %u, want 2 or 3", bad[i]);
        put_head(&b, bad[i], 0, 0);
        refused(FT_EUNSUPPORTED, text);
    }
    put_head(&b, 0x03000000, 0, 0);
    refused(FT_EUNSUPPORTED, "a big-endian GGUF file, want little-endian");
    for (uint32_t v = 2; v <= 3; v++) {
        put_head(&b, v, 0, 0);
        ft_gguf *g = accepted();
        assert_int_equal(ft_gguf_version(g), v);
        assert_int_equal(ft_gguf_file_bytes(g), 24);
        ft_gguf_close(g);
        ft_buf_clear(&b);
    }
}

static void counts_are_bounded_by_the_file(void **state)
{
    (void)state;
    put_head(&b, 3, 0, 1000000);
    put_zeros(&b, 140);
    refused(FT_EFORMAT, "1000000 keys declared, want at most 10 (what 140 bytes can hold)");
    put_head(&b, 3, 0, UINT64_MAX);
    refused(FT_EFORMAT, "-1 keys declared, want at most 0 (what 0 bytes can hold)");
    put_head(&b, 3, UINT64_MAX, 0);
    refused(FT_EFORMAT, "-1 tensors declared, want at most 0 (what 0 bytes can hold)");
    put_head(&b, 3, (uint64_t)1 << 40, 0);
    put_zeros(&b, 250);
    refused(FT_EFORMAT,
            "1099511627776 tensors declared, want at most 10 (what 250 bytes can hold)");
    /* the keys leave too few bytes for the declared tensors */
    put_head(&b, 3, 2, 1);
    put_array_key(&b, "a", FT_GGUF_U8, 60);
    put_zeros(&b, 60);
    refused(FT_EFORMAT, "the file ends inside the tensor directory");
}

static void every_cut_is_a_short_file(void **state)
{
    (void)state;
    put_head(&b, 3, 1, 4);
    put_key(&b, "a.s", FT_GGUF_STR);
    put_text(&b, "text");
    put_u32_key(&b, "a.u", 7);
    put_array_key(&b, "a.arr", FT_GGUF_STR, 2);
    put_text(&b, "x");
    put_text(&b, "yz");
    put_array_key(&b, "a.f", FT_GGUF_F64, 2);
    put_zeros(&b, 16);
    const int64_t n[] = {8, 3};
    put_info(&b, "w", 2, n, FT_F32, 0);
    put_pad(&b, 32);
    put_zeros(&b, 96);
    ft_gguf_close(accepted());
    for (size_t cut = 0; cut < b.len; cut++) {
        char *copy = malloc(cut + 1); /* exact size, so that sanitizers detect reads past the end */
        memcpy(copy, b.data, cut);
        copy = realloc(copy, cut ? cut : 1);
        ft_gguf *g = NULL;
        ft_err err;
        assert_int_equal(ft_gguf_open_memory(&g, copy, cut, &err), FT_EFORMAT);
        free(copy);
    }
}

static void keys_and_strings(void **state)
{
    (void)state;
    put_head(&b, 3, 0, 1);
    put_le(&b, UINT64_MAX, 8);
    put_zeros(&b, 20);
    refused(FT_EFORMAT, "key 0: name of 18446744073709551615 bytes, want at most 65535");
    put_head(&b, 3, 0, 1);
    put_le(&b, 100, 8);
    put_zeros(&b, 20);
    refused(FT_EFORMAT, "the file ends inside the name of key 0");
    put_head(&b, 3, 0, 1);
    put_u32_key(&b, "", 1);
    put_zeros(&b, 8);
    refused(FT_EFORMAT, "key 0: empty name");
    put_head(&b, 3, 0, 1);
    put_le(&b, 3, 8);
    ft_buf_put(&b, "a\0b", 3);
    put_le(&b, 4, 4);
    put_le(&b, 1, 4);
    refused(FT_EFORMAT, "key a?b: a zero byte in its name");
    put_head(&b, 3, 0, 1);
    put_key(&b, "k", FT_GGUF_STR);
    put_le(&b, 1000, 8);
    refused(FT_EFORMAT, "key k: string 0 has length 1000, want at most 0");
    put_head(&b, 3, 0, 2);
    put_u32_key(&b, "twice", 1);
    put_u32_key(&b, "twice", 2);
    refused(FT_EFORMAT, "key twice occurs twice");
    put_head(&b, 3, 0, 1);
    put_key(&b, "\x1b[31m\nred", FT_GGUF_U64);
    put_le(&b, 1, 4);
    refused(FT_EFORMAT, "the file ends inside the value of key ?[31m?red");
}

static void value_types(void **state)
{
    (void)state;
    static const int bad[] = {13, -1, 1000};
    for (size_t i = 0; i < FT_COUNT(bad); i++) {
        char text[64];
        snprintf(text, sizeof text, "key k: value type %d, want 0 to 12", bad[i]);
        put_head(&b, 3, 0, 1);
        put_key(&b, "k", (uint32_t)bad[i]);
        put_zeros(&b, 16);
        refused(FT_EFORMAT, text);
    }
    put_head(&b, 3, 0, 1);
    put_array_key(&b, "k", 13, 1);
    put_zeros(&b, 16);
    refused(FT_EFORMAT, "key k: value type 13, want 0 to 12");
    put_head(&b, 3, 0, 1);
    put_array_key(&b, "k", FT_GGUF_ARR, 1);
    put_zeros(&b, 32);
    refused(FT_EFORMAT, "key k: an array of arrays, want an array of scalars");
    put_head(&b, 3, 0, 1);
    put_array_key(&b, "k", FT_GGUF_U64,
                  (uint64_t)1 << 61); /* overflows to zero when multiplied by eight */
    put_zeros(&b, 32);
    refused(FT_EFORMAT, "key k: an array of 2305843009213693952 elements, want at most 1073741824");
    put_head(&b, 3, 0, 1);
    put_array_key(&b, "k", FT_GGUF_U64, (uint64_t)1 << 29);
    put_zeros(&b, 32);
    refused(FT_EFORMAT, "the file ends inside the value of key k");
    put_head(&b, 3, 0, 1);
    put_array_key(&b, "k", FT_GGUF_STR, (uint64_t)1 << 29);
    put_zeros(&b, 32);
    refused(FT_EFORMAT, "key k: 536870912 strings declared, want at most 4");
}

static void alignment(void **state)
{
    (void)state;
    static const uint32_t bad[] = {0, 4, 48, 1u << 21, 0x80000000u};
    for (size_t i = 0; i < FT_COUNT(bad); i++) {
        char text[96];
        snprintf(text, sizeof text,
                 "key general.alignment: %u, want a power of two from 8 to 1048576", bad[i]);
        put_head(&b, 3, 0, 1);
        put_u32_key(&b, "general.alignment", bad[i]);
        refused(FT_EFORMAT, text);
    }
    put_head(&b, 3, 0, 1);
    put_key(&b, "general.alignment", FT_GGUF_U64);
    put_le(&b, 32, 8);
    refused(FT_EFORMAT, "key general.alignment: value type 10, want a u32");
    const int64_t n[] = {4};
    put_head(&b, 3, 2, 1);
    put_u32_key(&b, "general.alignment", 64);
    put_info(&b, "a", 1, n, FT_F32, 0);
    put_info(&b, "b", 1, n, FT_F32, 64);
    put_pad(&b, 64);
    put_zeros(&b, 64 + 16);
    ft_gguf *g = accepted();
    assert_int_equal(((const char *)ft_gguf_tensor_find(g, "b")->data - b.data) % 64, 0);
    ft_gguf_close(g);
}

static void one_tensor(const char *name, int n_dims, const int64_t *n, uint32_t type, uint64_t at,
                       size_t data)
{
    put_head(&b, 3, 1, 0);
    put_info(&b, name, n_dims, n, type, at);
    put_pad(&b, 32);
    put_zeros(&b, data);
}

static void tensor_names(void **state)
{
    (void)state;
    char name[70];
    memset(name, 'n', sizeof name);
    const int64_t n[] = {4};
    name[64] = 0;
    one_tensor(name, 1, n, FT_F32, 0, 16);
    refused(FT_EFORMAT, "tensor 0: name of 64 bytes, want 1 to 63");
    name[63] = 0;
    one_tensor(name, 1, n, FT_F32, 0, 16);
    ft_gguf *g = accepted();
    assert_non_null(ft_gguf_tensor_find(g, name));
    ft_gguf_close(g);
    ft_buf_clear(&b);
    one_tensor("", 1, n, FT_F32, 0, 16);
    refused(FT_EFORMAT, "tensor 0: empty name");
    put_head(&b, 3, 1, 0);
    put_le(&b, 3, 8);
    ft_buf_put(&b, "x\0y", 3);
    put_zeros(&b, 64);
    refused(FT_EFORMAT, "tensor x?y: a zero byte in its name");
    put_head(&b, 3, 2, 0);
    put_info(&b, "w", 1, n, FT_F32, 0);
    put_info(&b, "w", 1, n, FT_F32, 32);
    put_pad(&b, 32);
    put_zeros(&b, 64);
    refused(FT_EFORMAT, "tensor w occurs twice");
}

static void tensor_dims(void **state)
{
    (void)state;
    const int64_t five[] = {1, 1, 1, 1, 1};
    one_tensor("w", 5, five, FT_F32, 0, 64);
    refused(FT_EFORMAT, "tensor w: 5 dimensions, want at most 4");
    const int64_t neg[] = {4, -4};
    one_tensor("w", 2, neg, FT_F32, 0, 64);
    refused(FT_EFORMAT, "tensor w: dimension 1 is -4, want 0 or more");
    const int64_t huge[] = {(int64_t)1 << 32, (int64_t)1 << 31, 2, 1};
    one_tensor("w", 4, huge, FT_F32, 0, 64);
    refused(FT_EFORMAT, "tensor w: 4294967296 x 2147483648 x 2 x 1 values, want a 63-bit count");
    const int64_t hidden[] = {(int64_t)1 << 32, (int64_t)1 << 31, 2, 0};
    one_tensor("w", 4, hidden, FT_F32, 0, 64);
    refused(FT_EFORMAT, "tensor w: 4294967296 x 2147483648 x 2 x 0 values, want a 63-bit count");
    const int64_t wide[] = {(int64_t)1 << 62};
    one_tensor("w", 1, wide, FT_F32, 0, 64);
    refused(FT_EFORMAT, "tensor w: 4611686018427387904 values of F32, want a 64-bit size");
    one_tensor("w", 0, NULL, FT_F32, 0, 4);
    ft_gguf *g = accepted();
    const ft_gguf_tensor *t = ft_gguf_tensor_at(g, 0);
    assert_int_equal(t->n_dims, 0);
    for (int i = 0; i < 4; i++) assert_int_equal(t->n[i], 1);
    assert_int_equal(t->bytes, 4);
    ft_gguf_close(g);
}

static void tensor_types(void **state)
{
    (void)state;
    const int64_t n[] = {256};
    static const struct {
        uint32_t id;
        const char *what;
    } bad[] = {
        {4, "4 (Q4_2, removed from the format)"},
        {9, "9 (Q8_1, never stored in files)"},
        {15, "15 (Q8_K, never stored in files)"},
        {31, "31 (Q4_0_4_4, removed from the format)"},
        {43, "43 (TURBO3_0, a cache type that is never stored in files)"},
        {48, "48 (unknown)"},
        {0xffffffffu, "-1 (unknown)"},
    };
    for (size_t i = 0; i < FT_COUNT(bad); i++) {
        char text[128];
        snprintf(text, sizeof text, "tensor w: type %s, want a type of model files", bad[i].what);
        one_tensor("w", 1, n, bad[i].id, 0, 2048);
        refused(FT_EUNSUPPORTED, text);
    }
    const int64_t odd[] = {257};
    one_tensor("w", 1, odd, FT_Q4_K, 0, 2048);
    refused(FT_EFORMAT, "tensor w: rows of 257 values, want a multiple of 256 (the block of Q4_K)");
    for (uint32_t id = 0; id < FT_TYPE_MAX; id++) {
        const ft_type_info *info = ft_type_of(id);
        if (!info->name) continue;
        const size_t bytes = 256u / info->elems * info->bytes;
        one_tensor("w", 1, n, id, 0, bytes);
        ft_gguf *g = accepted();
        assert_int_equal(ft_gguf_tensor_at(g, 0)->bytes, bytes);
        assert_int_equal(ft_gguf_tensor_at(g, 0)->type, id);
        ft_gguf_close(g);
        ft_buf_clear(&b);
    }
}

static void offsets(void **state)
{
    (void)state;
    const int64_t n[] = {8};
    one_tensor("w", 1, n, FT_F32, 16, 64);
    refused(FT_EFORMAT, "tensor w: offset 16, want a multiple of 32");
    one_tensor("w", 1, n, FT_F32, 0, 31);
    refused(FT_EFORMAT, "tensor w: 32 bytes of F32 at offset 0, but the data section has 31 bytes "
                        "(is the file cut off?)");
    one_tensor("w", 1, n, FT_F32, UINT64_MAX - 31, 32);
    refused(FT_EFORMAT, "tensor w: 32 bytes of F32 at offset 18446744073709551584, but the data "
                        "section has 32 bytes (is the file cut off?)");
    put_head(&b, 3, 1, 0); /* the file ends before the padding of the data section */
    put_info(&b, "w", 1, n, FT_F32, 0);
    refused(FT_EFORMAT, "tensor w: 32 bytes of F32 at offset 0, but the data section has 0 bytes "
                        "(is the file cut off?)");
    /* gaps and any order are fine, and so is a last tensor without its padding */
    const int64_t m[] = {2};
    put_head(&b, 3, 3, 0);
    put_info(&b, "a", 1, n, FT_F32, 128);
    put_info(&b, "b", 1, n, FT_F32, 0);
    put_info(&b, "c", 1, m, FT_F32, 192);
    put_pad(&b, 32);
    put_zeros(&b, 200);
    ft_gguf *g = accepted();
    assert_string_equal(ft_gguf_tensor_at(g, 0)->name.p, "a");
    assert_ptr_equal((const char *)ft_gguf_tensor_find(g, "a")->data,
                     (const char *)ft_gguf_tensor_find(g, "b")->data + 128);
    ft_gguf_close(g);
}

static void overlaps(void **state)
{
    (void)state;
    const int64_t n[] = {16}, m[] = {8};
    put_head(&b, 3, 2, 0);
    put_info(&b, "second", 1, m, FT_F32, 32);
    put_info(&b, "first", 1, n, FT_F32, 0);
    put_pad(&b, 32);
    put_zeros(&b, 64);
    refused(FT_EFORMAT, "tensor first: 64 bytes of F32 from offset 0 overlap tensor second, which "
                        "starts at offset 32");
    put_head(&b, 3, 2, 0);
    put_info(&b, "a", 1, m, FT_F32, 0);
    put_info(&b, "b", 1, m, FT_F32, 0);
    put_pad(&b, 32);
    put_zeros(&b, 64);
    refused(FT_EFORMAT,
            "tensor a: 32 bytes of F32 from offset 0 overlap tensor b, which starts at offset 0");
}

/* Type numbers from 42 on have different meanings in llama.cpp and its forks: the distance to the
 * next tensor decides. */
static void ambiguous_types(void **state)
{
    (void)state;
    const int64_t n[] = {256};
    for (int off = -32; off <= 32; off += 32) {
        put_head(&b, 3, 2, 0);
        put_info(&b, "w", 1, n, FT_TQ3_1S, 0); /* 128 bytes */
        put_info(&b, "x", 1, n, FT_F32, (uint64_t)(128 + off));
        put_pad(&b, 32);
        put_zeros(&b, (size_t)(128 + off) + 1024);
        if (off == 0) {
            ft_gguf_close(accepted());
            ft_buf_clear(&b);
            continue;
        }
        char text[256];
        snprintf(
            text, sizeof text,
            "tensor w: type 45 read as TQ3_1S needs 128 bytes, but there are %d bytes before the "
            "next tensor; another program may use this number for another type",
            128 + off);
        refused(FT_EFORMAT, text);
    }
    one_tensor("w", 1, n, FT_Q2_0, 0, 72 + 24); /* 72 bytes and the padding */
    ft_gguf_close(accepted());
    ft_buf_clear(&b);
    one_tensor("w", 1, n, FT_Q2_0, 0, 72 + 25);
    refused(FT_EFORMAT,
            "tensor w: type 42 read as Q2_0 needs 72 bytes, but there are 97 bytes before "
            "the end of the file; another program may use this number for another type");
}

static void scalars_of_any_width(void **state)
{
    (void)state;
    put_head(&b, 3, 0, 13);
    static const struct {
        const char *key;
        uint32_t kind;
        int bytes;
        uint64_t bits;
        int64_t want;
    } ints[] = {
        {"u8", FT_GGUF_U8, 1, 200, 200},
        {"i8", FT_GGUF_I8, 1, 0xff, -1},
        {"u16", FT_GGUF_U16, 2, 65535, 65535},
        {"i16", FT_GGUF_I16, 2, 0x8000, -32768},
        {"u32", FT_GGUF_U32, 4, 1u << 31, 1u << 31},
        {"i32", FT_GGUF_I32, 4, 0xfffffffe, -2},
        {"u64", FT_GGUF_U64, 8, 1, 1},
        {"i64", FT_GGUF_I64, 8, UINT64_MAX, -1},
    };
    for (size_t i = 0; i < FT_COUNT(ints); i++) {
        put_key(&b, ints[i].key, ints[i].kind);
        put_le(&b, ints[i].bits, ints[i].bytes);
    }
    put_key(&b, "big", FT_GGUF_U64);
    put_le(&b, UINT64_MAX, 8);
    put_key(&b, "f32", FT_GGUF_F32);
    put_le(&b, ft_f32_bits(0.5f), 4);
    put_key(&b, "f64", FT_GGUF_F64);
    put_le(&b, 0x7fe0000000000000u, 8); /* 2^1023: not representable as f32 */
    put_key(&b, "bool", FT_GGUF_BOOL);
    put_le(&b, 2, 1);
    put_key(&b, "str", FT_GGUF_STR);
    put_text(&b, "hello");
    ft_gguf *g = accepted();
    int64_t v;
    uint32_t u;
    float f;
    bool flag;
    ft_str s;
    for (size_t i = 0; i < FT_COUNT(ints); i++) {
        assert_true(ft_gguf_i64(g, ints[i].key, &v));
        assert_int_equal(v, ints[i].want);
        assert_int_equal(ft_gguf_u32(g, ints[i].key, &u), ints[i].want >= 0);
        assert_false(ft_gguf_f32(g, ints[i].key, &f));
    }
    assert_false(ft_gguf_i64(g, "big", &v));
    assert_false(ft_gguf_i64(g, "f32", &v));
    assert_false(ft_gguf_i64(g, "absent", &v));
    assert_true(ft_gguf_f32(g, "f32", &f) && f == 0.5f);
    assert_false(ft_gguf_f32(g, "f64", &f));
    assert_true(ft_gguf_bool(g, "bool", &flag) && flag);
    assert_true(ft_gguf_str(g, "str", &s) && ft_str_is(s, "hello"));
    assert_false(ft_gguf_str(g, "u8", &s));
    ft_gguf_close(g);
}

static void string_arrays_are_indexed(void **state)
{
    (void)state;
    enum { N = 50000 };
    put_head(&b, 3, 0, 2);
    put_array_key(&b, "tokens", FT_GGUF_STR, N);
    char text[32];
    for (int i = 0; i < N; i++) {
        snprintf(text, sizeof text, "%.*s%d", i % 7, "______", i);
        put_text(&b, text);
    }
    put_array_key(&b, "flags", FT_GGUF_BOOL, 2);
    put_le(&b, 0x0100, 2);
    ft_gguf *g = accepted();
    const ft_gguf_kv *kv = ft_gguf_kv_find(g, "tokens");
    assert_int_equal(kv->n, N);
    ft_str s;
    for (int i = N - 1; i >= 0; i--) {
        snprintf(text, sizeof text, "%.*s%d", i % 7, "______", i);
        assert_true(ft_gguf_kv_str(kv, (uint64_t)i, &s));
        assert_true(ft_str_is(s, text));
    }
    assert_false(ft_gguf_kv_str(kv, N, &s));
    int64_t v;
    kv = ft_gguf_kv_find(g, "flags");
    assert_true(ft_gguf_kv_i64(kv, 0, &v) && v == 0);
    assert_true(ft_gguf_kv_i64(kv, 1, &v) && v == 1);
    assert_false(ft_gguf_kv_i64(kv, 2, &v));
    ft_gguf_close(g);
}

/* Very many keys in the smallest space: linear time, or this test takes minutes. */
static void many_keys_take_linear_time(void **state)
{
    (void)state;
    enum { N = 200000 };
    put_head(&b, 3, 0, N);
    char key[16];
    for (int i = 0; i < N; i++) {
        snprintf(key, sizeof key, "%x", i);
        put_key(&b, key, FT_GGUF_U8);
        put_le(&b, 1, 1);
    }
    ft_gguf *g = accepted();
    assert_int_equal(ft_gguf_n_kv(g), N);
    assert_ptr_equal(ft_gguf_kv_find(g, "1869f"), ft_gguf_kv_at(g, 0x1869f));
    ft_gguf_close(g);
}

static void split_in_memory_is_refused(void **state)
{
    (void)state;
    put_head(&b, 3, 0, 1);
    put_u32_key(&b, "split.count", 3);
    refused(FT_EUNSUPPORTED, "a split model of 3 parts, want a single file");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, fresh, done)
    const struct CMUnitTest tests[] = {
        T(magic_and_versions),
        T(counts_are_bounded_by_the_file),
        T(every_cut_is_a_short_file),
        T(keys_and_strings),
        T(value_types),
        T(alignment),
        T(tensor_names),
        T(tensor_dims),
        T(tensor_types),
        T(offsets),
        T(overlaps),
        T(ambiguous_types),
        T(scalars_of_any_width),
        T(string_arrays_are_indexed),
        T(many_keys_take_linear_time),
        T(split_in_memory_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
