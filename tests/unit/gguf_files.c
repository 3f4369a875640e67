/* tests/unit/gguf_files.c - GGUF files on disk: the writer, round trips, split models. */
#define _GNU_SOURCE
#include "base/file.h"
#include "base/half.h"
#include "base/mem.h"
#include "base/pool.h"
#include "gguf/writer.h"
#include "gguf_bytes.h"

#include "folder.h"
#include "unit.h"

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

static const char *in_folder(const char *name)
{
    static char path[4][160];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static void save(const char *path, const ft_buf *b)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(ft_buf_z(b), 1, b->len, f), b->len);
    fclose(f);
}

typedef struct filler {
    ft_gguf_writer *w;
    size_t t;
} filler;

static void fill_byte(void *arg, size_t i)
{
    const filler *f = arg;
    const unsigned char v = (unsigned char)(i * 7);
    ft_gguf_writer_data(f->w, f->t, i, &v, 1);
}

static void write_model(const char *path)
{
    ft_err err;
    ft_gguf_writer *w;
    assert_int_equal(ft_gguf_writer_open(&w, path, &err), FT_OK);
    ft_gguf_put_str(w, "general.architecture", FT_STR("test"));
    ft_gguf_put_u32(w, "u", 4000000000u);
    ft_gguf_put_i32(w, "i", -5);
    ft_gguf_put_f32(w, "f", 1e-6f);
    ft_gguf_put_bool(w, "b", true);
    const int32_t ids[] = {3, -1, 7};
    ft_gguf_put_array(w, "ids", FT_GGUF_I32, ids, 3);
    const ft_str words[] = {FT_STR("one"), FT_STR(""), FT_STR("three")};
    ft_gguf_put_str_array(w, "words", words, 3);
    assert_true(ft_gguf_has(w, "ids"));
    assert_false(ft_gguf_has(w, "nothing"));
    const int64_t n[] = {32, 3}, m[] = {5};
    const size_t a = ft_gguf_put_tensor(w, "a.weight", FT_Q8_0, 2, n);
    const size_t c = ft_gguf_put_tensor(w, "c.weight", FT_F32, 1, m);
    assert_int_equal(ft_gguf_writer_begin(w, &err), FT_OK);
    assert_int_equal(ft_gguf_writer_tensor_bytes(w, a), 102);
    const float vals[] = {1, 2, 3, 4, 5};
    ft_gguf_writer_data(w, c, 0, vals, sizeof vals);
    assert_false(ft_file_exists(path)); /* not before it is complete */
    ft_pool *p = ft_pool_new(3, 0);
    ft_pool_each(p, 102, fill_byte, &(filler){w, a});
    ft_pool_free(p);
    const uint64_t bytes = ft_gguf_writer_file_bytes(w);
    assert_int_equal(ft_gguf_writer_commit(w, &err), FT_OK);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, bytes);
}

static void check_model(const char *path, bool use_mmap)
{
    ft_err err;
    ft_gguf *g;
    if (ft_gguf_open(&g, path, use_mmap, &err)) fail_msg("%s", err.text);
    assert_int_equal(ft_gguf_version(g), 3);
    assert_string_equal(ft_gguf_path(g), path);
    assert_true(ft_gguf_same_file(g, path));
    assert_false(ft_gguf_same_file(g, folder));
    uint32_t u;
    int64_t i;
    float f;
    bool flag;
    ft_str s;
    assert_true(ft_gguf_u32(g, "u", &u) && u == 4000000000u);
    assert_true(ft_gguf_i64(g, "i", &i) && i == -5);
    assert_true(ft_gguf_f32(g, "f", &f) && f == 1e-6f);
    assert_true(ft_gguf_bool(g, "b", &flag) && flag);
    assert_true(ft_gguf_kv_i64(ft_gguf_kv_find(g, "ids"), 1, &i) && i == -1);
    assert_true(ft_gguf_kv_str(ft_gguf_kv_find(g, "words"), 2, &s) && ft_str_is(s, "three"));
    const ft_gguf_tensor *a = ft_gguf_tensor_find(g, "a.weight");
    assert_int_equal(a->n[1], 3);
    for (size_t k = 0; k < 102; k++)
        assert_int_equal(((const unsigned char *)a->data)[k], (k * 7) & 255);
    const ft_gguf_tensor *c = ft_gguf_tensor_find(g, "c.weight");
    assert_int_equal((uintptr_t)c->data % 32, 0);
    assert_true(((const float *)c->data)[4] == 5);
    ft_gguf_close(g);
}

static void round_trip(void **state)
{
    (void)state;
    const char *path = in_folder("m.gguf");
    write_model(path);
    check_model(path, true);
    check_model(path, false);
    write_model(in_folder("n.gguf"));
    check_model(in_folder("n.gguf"), true);
}

static void copied_keys_are_the_same_bytes(void **state)
{
    (void)state;
    write_model(in_folder("m.gguf"));
    ft_gguf *g, *h;
    ft_gguf_writer *w;
    assert_int_equal(ft_gguf_open(&g, in_folder("m.gguf"), true, NULL), FT_OK);
    assert_int_equal(ft_gguf_writer_open(&w, in_folder("copy.gguf"), NULL), FT_OK);
    for (size_t i = 0; i < ft_gguf_n_kv(g); i++) ft_gguf_put_kv(w, ft_gguf_kv_at(g, i));
    assert_int_equal(ft_gguf_writer_begin(w, NULL), FT_OK);
    assert_int_equal(ft_gguf_writer_commit(w, NULL), FT_OK);
    assert_int_equal(ft_gguf_open(&h, in_folder("copy.gguf"), true, NULL), FT_OK);
    assert_int_equal(ft_gguf_n_kv(h), ft_gguf_n_kv(g));
    assert_int_equal(ft_gguf_n_tensor(h), 0);
    for (size_t i = 0; i < ft_gguf_n_kv(g); i++) {
        const ft_gguf_kv *a = ft_gguf_kv_at(g, i), *c = ft_gguf_kv_at(h, i);
        assert_string_equal(a->key.p, c->key.p);
        assert_int_equal(a->kind, c->kind);
        assert_int_equal(a->array, c->array);
        assert_int_equal(a->n, c->n);
        assert_int_equal(a->bytes, c->bytes);
        assert_memory_equal(a->data, c->data, a->bytes);
    }
    ft_gguf_close(g);
    ft_gguf_close(h);
}

/* Keys that describe the layout of the source file must not be copied. */
static void layout_keys_are_not_copied(void **state)
{
    (void)state;
    ft_buf b;
    ft_buf_init(&b, 4096);
    put_head(&b, 3, 0, 3);
    put_u32_key(&b, "general.alignment", 4096);
    put_u32_key(&b, "split.count", 1);
    put_u32_key(&b, "kept", 1);
    ft_gguf *g;
    ft_gguf_writer *w;
    assert_int_equal(ft_gguf_open_memory(&g, b.data, b.len, NULL), FT_OK);
    assert_int_equal(ft_gguf_writer_open(&w, in_folder("c.gguf"), NULL), FT_OK);
    for (size_t i = 0; i < ft_gguf_n_kv(g); i++) ft_gguf_put_kv(w, ft_gguf_kv_at(g, i));
    assert_true(ft_gguf_has(w, "kept"));
    assert_false(ft_gguf_has(w, "general.alignment"));
    assert_false(ft_gguf_has(w, "split.count"));
    ft_gguf_writer_abort(w);
    ft_gguf_close(g);
    ft_buf_release(&b);
}

static void expect_begin(ft_gguf_writer *w, const char *text)
{
    ft_err err;
    assert_int_equal(ft_gguf_writer_begin(w, &err), FT_EINVAL);
    assert_non_null(strstr(err.text, text));
    assert_int_equal(ft_gguf_writer_commit(w, &err), FT_EINVAL);
    assert_non_null(strstr(err.text, text));
    assert_false(ft_file_exists(in_folder("bad.gguf")));
    char cmd[96];
    snprintf(cmd, sizeof cmd, "test -z \"$(ls -A %s)\"", folder);
    assert_int_equal(system(cmd), 0);
}

static void writer_errors_stick(void **state)
{
    (void)state;
    ft_gguf_writer *w;
    const int64_t n[] = {33, 2}, zero[] = {0}, fine[] = {32};
    assert_int_equal(ft_gguf_writer_open(&w, in_folder("bad.gguf"), NULL), FT_OK);
    ft_gguf_put_u32(w, "k", 1);
    ft_gguf_put_u32(w, "k", 2);
    ft_gguf_put_u32(w, "later", 2);
    expect_begin(w, "bad.gguf: key k written twice");
    assert_int_equal(ft_gguf_writer_open(&w, in_folder("bad.gguf"), NULL), FT_OK);
    ft_gguf_put_tensor(w, "t", FT_Q4_0, 2, n);
    expect_begin(w, "tensor t: rows of 33 values, want a multiple of 32 (the block of Q4_0)");
    assert_int_equal(ft_gguf_writer_open(&w, in_folder("bad.gguf"), NULL), FT_OK);
    ft_gguf_put_tensor(w, "t", FT_F32, 1, zero);
    expect_begin(w, "cannot be written");
    assert_int_equal(ft_gguf_writer_open(&w, in_folder("bad.gguf"), NULL), FT_OK);
    ft_gguf_put_tensor(w, "t", FT_F32, 1, fine);
    ft_gguf_put_tensor(w, "t", FT_F32, 1, fine);
    expect_begin(w, "tensor t written twice");
    ft_err err;
    assert_int_equal(ft_gguf_writer_open(&w, in_folder("no/such/folder.gguf"), &err), FT_EIO);
    assert_int_equal(ft_gguf_writer_open(&w, folder, &err), FT_EINVAL);
}

/* Part `no` of a model of `count` parts, with `n` tensors named from `first` on. */
static void write_part(const char *name, int no, int count, int total, int n, int first)
{
    ft_buf b;
    ft_buf_init(&b, 1 << 16);
    put_head(&b, 3, (uint64_t)n, no == 0 ? 4 : 3);
    put_key(&b, "split.no", FT_GGUF_U16);
    put_le(&b, (uint64_t)no, 2);
    put_key(&b, "split.count", FT_GGUF_U16);
    put_le(&b, (uint64_t)count, 2);
    put_key(&b, "split.tensors.count", FT_GGUF_I32);
    put_le(&b, (uint64_t)total, 4);
    if (no == 0) {
        put_key(&b, "general.architecture", FT_GGUF_STR);
        put_text(&b, "test");
    }
    for (int i = 0; i < n; i++) {
        char t[8];
        snprintf(t, sizeof t, "t%d", first + i);
        const int64_t dims[] = {8};
        put_info(&b, t, 1, dims, FT_F32, (uint64_t)i * 32);
    }
    if (n) put_pad(&b, 32);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < 8; k++) put_le(&b, ft_f32_bits((float)(first + i)), 4);
    save(in_folder(name), &b);
    ft_buf_release(&b);
}

static void open_fails(const char *name, const char *text)
{
    ft_gguf *g = NULL;
    ft_err err;
    assert_true(ft_gguf_open(&g, in_folder(name), true, &err) != FT_OK);
    assert_null(g);
    if (!strstr(err.text, text)) fail_msg("\"%s\" has no \"%s\"", err.text, text);
    assert_non_null(strstr(err.text, folder)); /* the file is named */
}

static void split_models(void **state)
{
    (void)state;
    write_part("m-00001-of-00003.gguf", 0, 3, 5, 0, 0);
    write_part("m-00002-of-00003.gguf", 1, 3, 5, 2, 0);
    write_part("m-00003-of-00003.gguf", 2, 3, 5, 3, 2);
    for (int use_mmap = 0; use_mmap < 2; use_mmap++) {
        ft_gguf *g;
        ft_err err;
        if (ft_gguf_open(&g, in_folder("m-00001-of-00003.gguf"), use_mmap, &err))
            fail_msg("%s", err.text);
        assert_int_equal(ft_gguf_n_tensor(g), 5);
        assert_int_equal(ft_gguf_n_kv(g), 4);
        assert_true(ft_gguf_same_file(g, in_folder("m-00003-of-00003.gguf")));
        for (int i = 0; i < 5; i++) {
            char t[8];
            snprintf(t, sizeof t, "t%d", i);
            assert_true(((const float *)ft_gguf_tensor_find(g, t)->data)[7] == (float)i);
        }
        ft_gguf_close(g);
    }
    open_fails("m-00002-of-00003.gguf", "part 2 of 3 of a split model, want part 1: ");
    open_fails("m-00002-of-00003.gguf", "m-00001-of-00003.gguf");
    rename(in_folder("m-00001-of-00003.gguf"), in_folder("other.gguf"));
    open_fails("other.gguf", "want a name that ends in -00001-of-00003.gguf");
    rename(in_folder("other.gguf"), in_folder("m-00001-of-00003.gguf"));
    write_part("m-00003-of-00003.gguf", 1, 3, 5, 3, 2);
    open_fails("m-00001-of-00003.gguf", "key split.no: 1, want 2 to 2");
    write_part("m-00003-of-00003.gguf", 2, 4, 5, 3, 2);
    open_fails("m-00001-of-00003.gguf", "key split.count: 4, want 3 to 3");
    write_part("m-00003-of-00003.gguf", 2, 3, 5, 3, 1);
    open_fails("m-00001-of-00003.gguf", "tensor t1 occurs twice");
    write_part("m-00003-of-00003.gguf", 2, 3, 5, 2, 2);
    open_fails("m-00001-of-00003.gguf", "4 tensors in 3 parts, want 5 (split.tensors.count)");
    unlink(in_folder("m-00003-of-00003.gguf"));
    open_fails("m-00001-of-00003.gguf", "part 3 of 3: ");
    write_part("one.gguf", 0, 1, 2, 2, 0);
    ft_gguf *g;
    assert_int_equal(ft_gguf_open(&g, in_folder("one.gguf"), true, NULL), FT_OK);
    ft_gguf_close(g);
}

static void wrong_files(void **state)
{
    (void)state;
    open_fails("absent.gguf", "No such file");
    ft_buf b;
    ft_buf_init(&b, 64);
    save(in_folder("empty.gguf"), &b);
    open_fails("empty.gguf", "0 bytes, want at least 24");
    ft_buf_puts(&b, "just some text that is long enough");
    save(in_folder("text.gguf"), &b);
    open_fails("text.gguf", "not a GGUF file");
    ft_buf_release(&b);
    ft_gguf *g;
    ft_err err;
    assert_int_equal(ft_gguf_open(&g, folder, true, &err), FT_EINVAL);
    assert_int_equal(ft_gguf_open(&g, "/dev/zero", true, &err), FT_EINVAL);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, fresh, done)
    const struct CMUnitTest tests[] = {
        T(round_trip),
        T(copied_keys_are_the_same_bytes),
        T(layout_keys_are_not_copied),
        T(writer_errors_stick),
        T(split_models),
        T(wrong_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
