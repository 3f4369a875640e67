/* tests/unit/vocab.c - vocabularies: reading, rejected input, and the bytes that tokens print. */
#define _GNU_SOURCE
#include "vocab_small.h"

#include "unit.h"

static void expect_error(small_vocab *s, ft_status code, const char *text)
{
    ft_vocab *v;
    ft_err err;
    assert_int_equal(small_open(&v, s, &err), code);
    assert_string_equal(err.text, text);
}

static void broken_ones_are_refused(void **state)
{
    (void)state;
    small_vocab *s = small_new("gpt2");
    s->no_tokens = true;
    expect_error(s, FT_EFORMAT, "no key tokenizer.ggml.tokens");
    s = small_new("gpt2");
    s->n = 0;
    s->n_type = 0;
    expect_error(s, FT_EFORMAT, "tokenizer.ggml.tokens is empty");
    s = small_new("gpt2");
    s->no_merges = true;
    expect_error(s, FT_EFORMAT, "no key tokenizer.ggml.merges");
    s = small_new("gpt2");
    s->n_type = 7;
    expect_error(s, FT_EFORMAT, "tokenizer.ggml.token_type has 7 entries for 256 tokens");
    s = small_new("gpt2");
    s->type[3] = 9;
    expect_error(s, FT_EFORMAT, "the type of token 3 is out of range, want 0 to 6");
    s = small_new("gpt2");
    small_put(s, "a", FT_TOKEN_NORMAL);
    expect_error(s, FT_EFORMAT, "tokens 97 and 256 have the same text \"a\"");
    s = small_new("gpt2");
    small_merge(s, "ab");
    expect_error(s, FT_EFORMAT, "merge 0 \"ab\" has no space between two parts");
    s = small_new("gpt2");
    small_merge(s, "a b");
    expect_error(s, FT_EFORMAT, "merge 0 \"a b\": want both parts and their join to be tokens");
    s = small_new("gpt2");
    s->merge[s->n_merge++] = FT_STR("");
    expect_error(s, FT_EFORMAT, "merge 0 \"\" has no space between two parts");
    s = small_new("gpt2");
    s->model = NULL;
    expect_error(s, FT_EFORMAT, "no key tokenizer.ggml.model: the file has no vocabulary");
    s = small_new("gpt2");
    s->model = "bert";
    expect_error(s, FT_EUNSUPPORTED, "tokenizer model \"bert\", want gpt2 or gemma4");
    s = small_new("gpt2");
    s->pre = NULL;
    expect_error(s, FT_EFORMAT, "no key tokenizer.ggml.pre, want qwen2 or qwen35");
    s = small_new("gemma4");
    s->type[300] = s->type[261] = FT_TOKEN_BYTE;
    expect_error(s, FT_EFORMAT, "token 261 \"b\" has the type byte, want a text like <0x41>");
}

static void wrong_kinds(ft_gguf_writer *w)
{
    ft_gguf_put_u32(w, "tokenizer.ggml.merges", 3);
}

static void outside_ids(ft_gguf_writer *w)
{
    const int32_t suppress[] = {5, -1, 9999, 6};
    ft_gguf_put_u32(w, "tokenizer.ggml.bos_token_id", 100000);
    ft_gguf_put_u32(w, "tokenizer.ggml.eos_token_id", 0xFFFFFFFFu);
    ft_gguf_put_u32(w, "tokenizer.ggml.padding_token_id", 7);
    ft_gguf_put_array(w, "tokenizer.ggml.suppress_tokens", FT_GGUF_I32, suppress, 4);
}

static void ids_outside_count_as_absent(void **state)
{
    (void)state;
    ft_err err;
    ft_vocab *v;
    small_vocab *s = small_new("gpt2");
    s->no_merges = true;
    s->more = wrong_kinds;
    expect_error(s, FT_EFORMAT, "tokenizer.ggml.merges is not an array of strings");
    s = small_new("gpt2");
    s->more = outside_ids;
    assert_int_equal(small_open(&v, s, &err), FT_OK);
    const ft_vocab_ids *ids = ft_vocab_special(v);
    assert_int_equal(ids->bos, FT_NO_TOKEN);
    assert_int_equal(ids->eos, FT_NO_TOKEN);
    assert_int_equal(ids->pad, 7);
    size_t n;
    const int32_t *never = ft_vocab_suppressed(v, &n);
    assert_int_equal(n, 2);
    assert_true(never[0] == 5 && never[1] == 6);
    assert_int_equal(ft_vocab_text(v, -1).n, 0);
    assert_int_equal(ft_vocab_text(v, 256).n, 0);
    assert_int_equal(ft_vocab_type(v, 1 << 30), FT_TOKEN_UNDEFINED);
    assert_false(ft_vocab_is_eog(v, -1));
    ft_vocab_close(v);
}

static void qwen_ids(ft_gguf_writer *w)
{
    ft_gguf_put_u32(w, "tokenizer.ggml.eos_token_id", 257);
}

static void qwen_ends_where_it_should(void **state)
{
    (void)state;
    ft_err err;
    ft_vocab *v;
    small_vocab *s = small_new("gpt2");
    small_put(s, "<|endoftext|>", FT_TOKEN_NORMAL);
    small_put(s, "<|im_end|>", FT_TOKEN_CONTROL);
    small_put(s, "<|file_sep|>", FT_TOKEN_USER);
    small_put(s, "<think>", FT_TOKEN_USER);
    small_put(s, "", FT_TOKEN_UNUSED);
    small_put(s, "</s>", FT_TOKEN_NORMAL);
    s->more = qwen_ids;
    assert_int_equal(small_open(&v, s, &err), FT_OK);
    assert_int_equal(ft_vocab_count(v), 262);
    assert_true(ft_vocab_is_eog(v, 256) && ft_vocab_is_eog(v, 257) && ft_vocab_is_eog(v, 258));
    assert_false(ft_vocab_is_eog(v, 259) || ft_vocab_is_eog(v, 261) || ft_vocab_is_eog(v, 'a'));
    assert_int_equal(ft_vocab_type(v, 256), FT_TOKEN_CONTROL); /* by its text */
    assert_int_equal(ft_vocab_special(v)->eot, 257);
    assert_int_equal(ft_vocab_special(v)->fim_sep, 258);
    assert_false(ft_vocab_add_bos(v));
    assert_int_equal(ft_vocab_piece(v, 257, false).n, 0);
    assert_true(ft_str_is(ft_vocab_piece(v, 257, true), "<|im_end|>"));
    assert_true(ft_str_is(ft_vocab_piece(v, 259, false), "<think>"));
    assert_true(ft_str_is(ft_vocab_text(v, 260), "[EMPTY_260]"));
    assert_int_equal(ft_vocab_piece(v, 260, true).n, 0);
    assert_true(ft_str_is(ft_vocab_text(v, ' '), "\u0120") &&
                ft_str_is(ft_vocab_piece(v, ' ', false), " "));
    assert_int_equal(ft_vocab_piece(v, 0xFF, false).p[0], (char)0xFF);
    assert_int_equal(ft_vocab_find(v, FT_STR("<think>")), 259);
    assert_int_equal(ft_vocab_find(v, FT_STR("<thin")), FT_NO_TOKEN);
    ft_vocab_close(v);
}

static void gemma_ids(ft_gguf_writer *w)
{
    ft_gguf_put_u32(w, "tokenizer.ggml.bos_token_id", 2);
    ft_gguf_put_u32(w, "tokenizer.ggml.eos_token_id", 1);
    ft_gguf_put_bool(w, "tokenizer.ggml.add_bos_token", false); /* wrong in some files */
}

static void gemma_ends_where_it_should(void **state)
{
    (void)state;
    ft_err err;
    ft_vocab *v;
    small_vocab *s = small_new("gemma4");
    small_put(s, "<turn|>", FT_TOKEN_CONTROL);
    small_put(s, "<|tool_response>", FT_TOKEN_USER);
    small_put(s, "</s>", FT_TOKEN_USER);
    small_put(s, "\xE2\x96\x81", FT_TOKEN_NORMAL);
    small_put(s, "\xE2\x96\x81\xE2\x96\x81", FT_TOKEN_USER);
    s->more = gemma_ids;
    assert_int_equal(small_open(&v, s, &err), FT_OK);
    assert_true(ft_vocab_add_bos(v) && !ft_vocab_add_eos(v));
    const int32_t turn = ft_vocab_find(v, FT_STR("<turn|>"));
    assert_true(ft_vocab_is_eog(v, 1) && ft_vocab_is_eog(v, turn) && ft_vocab_is_eog(v, turn + 1));
    assert_false(ft_vocab_is_eog(v, turn + 2) || ft_vocab_is_eog(v, 2));
    assert_int_equal(ft_vocab_type(v, 1), FT_TOKEN_CONTROL);
    assert_int_equal(ft_vocab_special(v)->eot, turn);
    assert_true(ft_str_is(ft_vocab_piece(v, turn + 3, false), " "));
    assert_true(ft_str_is(ft_vocab_piece(v, turn + 4, false), "  "));
    assert_int_equal(ft_vocab_piece(v, 4 + 0x80, false).n, 1);
    assert_int_equal(ft_vocab_piece(v, 4 + 0x80, false).p[0], (char)0x80);
    ft_ids l;
    ft_ids_init(&l, 100);
    assert_int_equal(ft_encode(v, FT_STR("a<turn|>"), FT_BPE_ADD_SPECIAL, &l, &err), FT_OK);
    assert_int_equal(l.id[0], 2); /* BOS once, and the end of the turn as plain text */
    assert_int_equal(l.n, 2 + 7);
    ft_ids_release(&l);
    ft_vocab_close(v);
}

/* text NULL: the two vocabularies must be equal. */
static void expect_same(small_vocab *draft, const char *text)
{
    small_vocab *target = small_new("gpt2");
    small_put(target, "ab", FT_TOKEN_NORMAL);
    small_merge(target, "a b");
    ft_gguf *d = NULL, *t = NULL;
    ft_err err = {0};
    assert_int_equal(small_file(&d, draft, &err), FT_OK);
    assert_int_equal(small_file(&t, target, &err), FT_OK);
    assert_int_equal(ft_vocab_same(d, t, 2, &err), text ? FT_EUNSUPPORTED : FT_OK);
    if (text) assert_string_equal(err.text, text);
    ft_gguf_close(d);
    ft_gguf_close(t);
}

static small_vocab *like_the_target(void)
{
    small_vocab *s = small_new("gpt2");
    small_put(s, "ab", FT_TOKEN_NORMAL);
    small_merge(s, "a b");
    return s;
}

static void has_eos(ft_gguf_writer *w)
{
    ft_gguf_put_u32(w, "tokenizer.ggml.eos_token_id", 3);
}

static void adds_bos(ft_gguf_writer *w)
{
    ft_gguf_put_bool(w, "tokenizer.ggml.add_bos_token", true);
}

/* The meaning of ids must be equal; a few additional ids at the end are allowed. */
static void a_draft_model_must_have_the_same_vocabulary(void **state)
{
    (void)state;
    expect_same(like_the_target(), NULL);
    small_vocab *s = like_the_target();
    s->token[256] = FT_STR("ba");
    expect_same(s, "tokenizer.ggml.tokens entry 256 is \"ba\" in the draft model and \"ab\" in the "
                   "target; want the same vocabulary");
    s = like_the_target();
    s->token[5] = FT_STR("other");
    expect_same(s,
                "tokenizer.ggml.tokens entry 5 is \"other\" in the draft model and \"\xC4\x85\" in "
                "the target; want the same vocabulary");
    s = like_the_target();
    s->token[4] = FT_STR("other");
    expect_same(s, NULL);
    s = like_the_target();
    small_put(s, "ba", FT_TOKEN_NORMAL);
    small_put(s, "baa", FT_TOKEN_NORMAL);
    expect_same(s, NULL);
    s = like_the_target();
    for (const char *const *t = (const char *const[]){"x1", "x2", "x3", NULL}; *t; t++)
        small_put(s, *t, FT_TOKEN_NORMAL);
    expect_same(s, "tokenizer.ggml.tokens has 260 entries in the draft model and 257 in the "
                   "target; want at most 2 apart");
    s = like_the_target();
    s->more = adds_bos;
    expect_same(s, "tokenizer.ggml.add_bos_token is true in the draft model and false in the "
                   "target; want the same");
    s = like_the_target();
    s->pre = "qwen2";
    expect_same(s, "tokenizer.ggml.pre entry 0 is \"qwen2\" in the draft model and \"qwen35\" in "
                   "the target; want the same vocabulary");
    s = like_the_target();
    s->more = has_eos;
    expect_same(
        s, "the draft model has tokenizer.ggml.eos_token_id, the target does not have it; want the "
           "same vocabulary");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_ones_are_refused),
        cmocka_unit_test(ids_outside_count_as_absent),
        cmocka_unit_test(qwen_ends_where_it_should),
        cmocka_unit_test(gemma_ends_where_it_should),
        cmocka_unit_test(a_draft_model_must_have_the_same_vocabulary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
