/* fuzz/bpe.c - encodes arbitrary bytes to ids and decodes them, with both families of vocabularies.
 * The first byte selects the family and the flags. */
#define _GNU_SOURCE
#include "text/bpe.h"
#include "base/buf.h"
#include "base/mem.h"
#include "text/detok.h"

#include "../tests/vocab_small.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(bool ok)
{
    if (!ok) abort();
}

static ft_vocab *new_vocab(const char *model)
{
    small_vocab *s = small_new(model);
    const bool bytes = !strcmp(model, "gpt2");
    static const char *const token[] = {"th", "the",  "he", "in", "ing",
                                        "aa", "aaaa", "er", "ab", "abab"};
    static const char *const merge[] = {"t h", "h e",   "th e", "i n", "in g",
                                        "a a", "aa aa", "e r",  "a b", "ab ab"};
    for (size_t i = 0; i < FT_COUNT(token); i++) small_put(s, token[i], FT_TOKEN_NORMAL);
    for (size_t i = 0; i < FT_COUNT(merge); i++) small_merge(s, merge[i]);
    small_put(s, "<|im_start|>", FT_TOKEN_CONTROL);
    small_put(s, "<think>", FT_TOKEN_USER);
    small_put(s, "<think><", FT_TOKEN_USER);
    if (bytes) {
        small_put(s, "\u0120the", FT_TOKEN_NORMAL);
        small_merge(s, "\u0120 the");

    } else {
        small_put(s, "\u2581", FT_TOKEN_NORMAL);
        small_put(s, "\u2581\u2581", FT_TOKEN_NORMAL);
        small_put(s, "\u2581the", FT_TOKEN_NORMAL);
        small_put(s, ".\u2581", FT_TOKEN_NORMAL);
        small_put(s, "\n\n", FT_TOKEN_USER);
        small_put(s, "\u00e9", FT_TOKEN_NORMAL);
        small_put(s, "e\u00e9", FT_TOKEN_NORMAL);
        small_merge(s, "\u2581 \u2581");
        small_merge(s, "\u2581 the");
        small_merge(s, ". \u2581");
        small_merge(s, "e \u00e9");
    }
    ft_vocab *v;
    ft_err err;
    if (small_open(&v, s, &err)) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    return v;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static ft_vocab *vocab[2];
    if (!vocab[0]) {
        vocab[0] = new_vocab("gpt2");
        vocab[1] = new_vocab("gemma4");
    }
    if (n == 0) return 0;
    const int family = data[0] & 1;
    const ft_vocab *v = vocab[family];
    unsigned flags = data[0] & 2 ? FT_BPE_PARSE_SPECIAL : 0;
    if (!(data[0] & 4)) flags |= FT_BPE_NO_NFC;
    char *copy = ft_alloc(n);
    const ft_str s = {memcpy(copy, data + 1, n - 1), n - 1};
    ft_ids l;
    ft_err err;
    ft_ids_init(&l, 4 * n + 64);
    check(!ft_encode(v, s, flags, &l, &err));
    ft_buf out;
    ft_buf_init(&out, 64 * n + 64);
    ft_detok d;
    ft_detok_init(&d, v, true);
    for (size_t i = 0; i < l.n; i++) ft_detok_push(&d, l.id[i], &out);
    ft_detok_flush(&d, &out);
    /* The space marker of Gemma prints a space, and normalisation changes the text. */
    const bool exact =
        family ? ft_str_find(s, FT_STR("\u2581"), 0) == SIZE_MAX : (flags & FT_BPE_NO_NFC) != 0;
    if (exact) check(ft_str_eq(ft_buf_str(&out), s));
    ft_ids_release(&l);
    ft_buf_release(&out);
    ft_free(copy);
    return 0;
}
