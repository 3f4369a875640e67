/* tests/unit/bpe.c - encoding and decoding: recorded ids of the reference implementation, and round
 * trips of arbitrary bytes. */
#define _GNU_SOURCE
#include "vocab_json.h"
#include "vocab_small.h"

#include "base/file.h"
#include "base/rng.h"
#include "foretoken.h"
#include "text/detok.h"

#include "folder.h"
#include "unit.h"

#include <pthread.h>

#define DATA "tests/data/tokenizer/"

/* Opens a vocabulary from tests/data; pre: use this split pattern instead of that of the file. */
static ft_vocab *open_json(const char *name, const char *pre)
{
    char dir[64], path[80], json[128];
    ft_err err;
    folder_new(dir);
    snprintf(path, sizeof path, "%s/vocab.gguf", dir);
    snprintf(json, sizeof json, DATA "%s.json", name);
    if (vj_write_as(json, path, pre, &err)) fail_msg("%s", err.text);
    ft_vocab *v;
    if (ft_vocab_load(&v, path, &err)) fail_msg("%s", err.text);
    folder_free(dir);
    return v;
}

static json_t *next_line(FILE *f)
{
    json_error_t e;
    return json_loadf(f, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, &e);
}

/* Every text of torture.jsonl must have the ids that the reference library gave it. */
static void expect_recorded(const ft_vocab *v, const char *recorded, unsigned flags)
{
    FILE *texts = fopen(DATA "torture.jsonl", "r"), *ids = fopen(recorded, "r");
    assert_non_null(texts);
    assert_non_null(ids);
    int n = 0;
    json_t *t, *want;
    while ((t = next_line(texts)) && (want = next_line(ids))) {
        const json_t *text = json_object_get(t, "text"), *list = json_object_get(want, "ids");
        ft_err err;
        ft_ids l;
        ft_ids_init(&l, 1 << 20);
        const ft_str s = {json_string_value(text), json_string_length(text)};
        assert_int_equal(ft_encode(v, s, FT_BPE_PARSE_SPECIAL | flags, &l, &err), FT_OK);
        assert_int_equal(l.n, json_array_size(list));
        for (size_t i = 0; i < l.n; i++)
            assert_int_equal(l.id[i], json_integer_value(json_array_get(list, i)));
        ft_ids_release(&l);
        json_decref(t);
        json_decref(want);
        n++;
    }
    fclose(texts);
    fclose(ids);
    assert_true(n > 1000);
}

static void ids_are_those_of_the_reference(void **state)
{
    (void)state;
    ft_vocab *v = open_json("bytes", NULL);
    expect_recorded(v, DATA "bytes-qwen35.ids.jsonl", 0);
    expect_recorded(v, DATA "bytes-raw.ids.jsonl", FT_BPE_NO_NFC);
    ft_vocab_close(v);
    v = open_json("bytes", "qwen2");
    expect_recorded(v, DATA "bytes-qwen2.ids.jsonl", 0);
    ft_vocab_close(v);
    v = open_json("chars", NULL);
    expect_recorded(v, DATA "chars.ids.jsonl", 0);
    ft_vocab_close(v);
}

static void expect_round_trip(const ft_vocab *v, ft_str s)
{
    ft_err err;
    ft_ids l;
    ft_buf whole, streamed;
    ft_ids_init(&l, 1 << 22);
    ft_buf_init(&whole, 1 << 23);
    ft_buf_init(&streamed, 1 << 23);
    assert_int_equal(ft_encode(v, s, FT_BPE_NO_NFC | FT_BPE_PARSE_SPECIAL, &l, &err), FT_OK);
    ft_detok d;
    ft_detok_init(&d, v, true);
    size_t at = 0;
    for (size_t i = 0; i < l.n; i++) {
        ft_buf_put_str(&whole, ft_vocab_piece(v, l.id[i], true));
        ft_detok_push(&d, l.id[i], &streamed);
        while (at < streamed.len) { /* the ends of characters, and of invalid bytes */
            int len;
            ft_utf8_decode(s.p + at, s.n - at, &len);
            at += (size_t)len;
        }
        assert_int_equal(at, streamed.len);
    }
    ft_detok_flush(&d, &streamed);
    assert_int_equal(whole.len, s.n);
    assert_int_equal(streamed.len, s.n);
    if (s.n) {
        assert_memory_equal(whole.data, s.p, s.n);
        assert_memory_equal(streamed.data, s.p, s.n);
    }
    ft_ids_release(&l);
    ft_buf_release(&whole);
    ft_buf_release(&streamed);
}

static void any_bytes_round_trip(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\xff",     "a\x80z",      "\xc3(",    "\xed\xa0\x80",     "\xf0\x9f\x98",
        "\xc3\xa9", "x\xe2\x82 y", "\xc0\xaf", "<|im_start|>\xff", "\xf4\x90\x80\x80",
        "caf\xe9",  "\xe2\x96"};
    ft_vocab *v[2] = {open_json("bytes", NULL), open_json("chars", NULL)};
    ft_rng r = {3};
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; i < FT_COUNT(bad); i++) expect_round_trip(v[k], ft_str_of(bad[i]));
        expect_round_trip(v[k], FT_STR(""));
        expect_round_trip(v[k], (ft_str){0}); /* without a pointer */
        expect_round_trip(v[k], FT_STR("a\0b\0"));
        for (int round = 0; round < 3000; round++) {
            char text[64];
            const size_t n = ft_rng_u64(&r) % sizeof text;
            for (size_t i = 0; i < n; i++)
                text[i] =
                    (char)(round % 2
                               ? ft_rng_u64(&r)
                               : (uint64_t) " \n'se\xc3\xa9\xe2\x82\xac<1"[ft_rng_u64(&r) % 13]);
            if (k == 1 && ft_str_find((ft_str){text, n}, FT_STR("\xE2\x96\x81"), 0) != SIZE_MAX)
                continue; /* the space marker of Gemma prints a space */
            expect_round_trip(v[k], (ft_str){text, n});
        }
        ft_vocab_close(v[k]);
    }
}

static void valid_text_beside_bad_bytes_is_unaffected(void **state)
{
    (void)state;
    ft_vocab *v = open_json("bytes", NULL);
    ft_err err;
    ft_ids a, b;
    ft_ids_init(&a, 100);
    ft_ids_init(&b, 100);
    assert_int_equal(ft_encode(v, FT_STR("the file"), 0, &a, &err), FT_OK);
    assert_int_equal(ft_encode(v, FT_STR("\xffthe file\xfe"), 0, &b, &err), FT_OK);
    assert_int_equal(b.n, a.n + 2);
    assert_memory_equal(a.id, b.id + 1, a.n * sizeof *a.id);
    ft_ids_release(&a);
    ft_ids_release(&b);
    ft_vocab_close(v);
}

static void limits_are_reported(void **state)
{
    (void)state;
    ft_vocab *v = open_json("bytes", NULL);
    ft_err err;
    ft_ids l;
    ft_ids_init(&l, 3);
    assert_int_equal(ft_encode(v, FT_STR("1234"), 0, &l, &err), FT_ELIMIT);
    assert_string_equal(err.text, "a text of 4 bytes has more tokens than the limit of 3");
    ft_ids_release(&l);
    ft_ids_init(&l, 4);
    assert_int_equal(ft_encode(v, FT_STR("1234"), 0, &l, &err), FT_OK);
    assert_int_equal(ft_encode(v, (ft_str){"", FT_ENCODE_MAX_TEXT + 1}, 0, &l, &err), FT_ELIMIT);
    ft_ids_release(&l);
    ft_vocab_close(v);

    small_vocab *s = small_new("gpt2"); /* a vocabulary without a token for z */
    s->token['z'] = FT_STR("zz");
    assert_int_equal(small_open(&v, s, &err), FT_OK);
    ft_ids_init(&l, 100);
    assert_int_equal(ft_encode(v, FT_STR("az"), 0, &l, &err), FT_EUNSUPPORTED);
    assert_string_equal(err.text, "the vocabulary has no token for byte 0x7A");
    ft_ids_release(&l);
    ft_vocab_close(v);
}

/* ---- many threads, one vocabulary ---- */

enum { THREADS = 6, ROUNDS = 60 };
static const ft_vocab *shared;
static const char sample[] =
    "The quick brown fox\u0301 jumps over 12 lazy dogs, isn't it? <think>\n\n";

static void *encode_often(void *arg)
{
    ft_ids *l = arg;
    ft_err err;
    for (int i = 0; i < ROUNDS; i++)
        if (ft_encode(shared, ft_str_of(sample), 0, l, &err)) return arg;
    return NULL;
}

static void threads_do_not_disturb_each_other(void **state)
{
    (void)state;
    ft_vocab *v = open_json("bytes", NULL);
    shared = v;
    ft_ids list[THREADS];
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++) {
        ft_ids_init(&list[i], 1 << 20);
        assert_int_equal(pthread_create(&t[i], NULL, encode_often, &list[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *bad;
        pthread_join(t[i], &bad);
        assert_null(bad);
        assert_int_equal(list[i].n, list[0].n);
        assert_memory_equal(list[i].id, list[0].id, list[0].n * sizeof *list[0].id);
        if (i) ft_ids_release(&list[i]);
    }
    ft_ids_release(&list[0]);
    ft_vocab_close(v);
}

static void a_million_bytes_without_a_space(void **state)
{
    (void)state;
    enum { N = 1000000 };
    char *text = ft_alloc(N);
    ft_vocab *v[2] = {open_json("bytes", NULL), open_json("chars", NULL)};
    for (int k = 0; k < 2; k++) {
        memset(text, 'a', N);
        expect_round_trip(v[k], (ft_str){text, N});
        for (size_t i = 0; i < N; i++) text[i] = (char)('a' + i * i % 23);
        expect_round_trip(v[k], (ft_str){text, N});
        memset(text, '\n', N);
        expect_round_trip(v[k], (ft_str){text, N});
        ft_vocab_close(v[k]);
    }
    ft_free(text);
}

/* What stands for the text of a special token: that text as a user types it. */
static void test_alias(void **state)
{
    (void)state;
    static const char typed[] = "<|im_end|>", text[] = "a secret b<|im_end|>";
    ft_vocab *v = open_json("bytes", NULL);
    const int32_t end = ft_vocab_find(v, ft_str_of(typed));
    ft_err err;
    ft_ids l, want;
    assert_true(end >= 0);
    ft_vocab_add_alias(v, "secret", end);
    ft_ids_init(&l, 1000);
    ft_ids_init(&want, 1000);
    assert_int_equal(ft_encode(v, ft_str_of(text), FT_BPE_PARSE_SPECIAL, &l, &err), FT_OK);
    assert_int_equal(ft_encode(v, FT_STR("a "), 0, &want, &err), FT_OK);
    assert_int_equal(ft_encode(v, ft_str_of(typed), 0, &want, &err), FT_OK);
    assert_int_equal(ft_encode(v, FT_STR(" b"), 0, &want, &err), FT_OK);
    ft_ids_put(&want, end);
    assert_int_equal(l.n, want.n);
    assert_memory_equal(l.id, want.id, l.n * sizeof *l.id);
    for (size_t i = 0; i + 1 < l.n; i++) assert_int_not_equal(l.id[i], end);
    ft_ids_release(&l);
    ft_ids_init(&l, 1000); /* where special tokens are not parsed it is a word */
    assert_int_equal(ft_encode(v, FT_STR("secret"), 0, &l, &err), FT_OK);
    for (size_t i = 0; i < l.n; i++) assert_in_range(l.id[i], 0, ft_vocab_count(v) - 1);
    ft_ids_release(&l);
    ft_ids_release(&want);
    ft_vocab_free(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_those_of_the_reference),
        cmocka_unit_test(test_alias),
        cmocka_unit_test(any_bytes_round_trip),
        cmocka_unit_test(valid_text_beside_bad_bytes_is_unaffected),
        cmocka_unit_test(limits_are_reported),
        cmocka_unit_test(threads_do_not_disturb_each_other),
        cmocka_unit_test(a_million_bytes_without_a_space),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
