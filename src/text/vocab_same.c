/* text/vocab_same.c - compares the vocabularies of two files. The draft tokens of a model with
 * another vocabulary would always be rejected, so such a draft model is rejected when it is
 * loaded. */
#include "base/mem.h"
#include "text/vocab.h"

#include <stdio.h>

#define KEY(name) "tokenizer.ggml." name

/* Keys whose values must be equal; a key that is missing in both files counts as equal. */
static const char *const keys[] = {KEY("model"), KEY("pre"), KEY("bos_token_id"),
                                   KEY("eos_token_id")};
/* Flags that count as false when a file does not have them. */
static const char *const flags[] = {KEY("add_bos_token"), KEY("add_eos_token")};

enum { FIRST = 5 }; /* the first id whose text is compared */

/* Value i as text. */
static ft_str value_text(char *out, size_t bytes, const ft_gguf_kv *kv, uint64_t i)
{
    ft_str s;
    int64_t n = 0;
    if (ft_gguf_kv_str(kv, i, &s)) return s;
    const bool number = ft_gguf_kv_i64(kv, i, &n);
    snprintf(out, bytes, number ? "%lld" : "not a number", (long long)n);
    return ft_str_of(out);
}

static ft_status have_both(const char *key, const ft_gguf_kv *a, const ft_gguf_kv *b, ft_err *err)
{
    if (!a == !b) return FT_OK;
    return ft_fail(err, FT_EUNSUPPORTED, "%s has %s, %s does not have it; want the same vocabulary",
                   a ? "the draft model" : "the target", key, a ? "the target" : "the draft model");
}

/* Entries `from` up to `to` of a key that both have. */
static ft_status same_entries(const ft_gguf_kv *a, const ft_gguf_kv *b, uint64_t from, uint64_t to,
                              ft_err *err)
{
    for (uint64_t i = from; i < to; i++) {
        char x[32], y[32];
        const ft_str s = value_text(x, sizeof x, a, i), t = value_text(y, sizeof y, b, i);
        if (ft_str_eq(s, t)) continue;
        return ft_fail(err, FT_EUNSUPPORTED,
                       "%.*s entry %llu is \"%.*s\" in the draft model and \"%.*s\" in the target; "
                       "want the same vocabulary",
                       FT_STR_FMT(a->key), (unsigned long long)i, FT_STR_FMT(s), FT_STR_FMT(t));
    }
    return FT_OK;
}

static ft_status same_tokens(const ft_gguf_kv *a, const ft_gguf_kv *b, int apart, ft_err *err)
{
    const uint64_t least = FT_MIN(a->n, b->n);
    if (FT_MAX(a->n, b->n) - least > (uint64_t)apart)
        return ft_fail(err, FT_EUNSUPPORTED,
                       "%.*s has %llu entries in the draft model and %llu in the target; want at "
                       "most %d apart",
                       FT_STR_FMT(a->key), (unsigned long long)a->n, (unsigned long long)b->n,
                       apart);
    return same_entries(a, b, FIRST, least, err);
}

ft_status ft_vocab_same(const ft_gguf *draft, const ft_gguf *target, int apart, ft_err *err)
{
    for (size_t i = 0; i < FT_COUNT(keys); i++) {
        const ft_gguf_kv *a = ft_gguf_kv_find(draft, keys[i]),
                         *b = ft_gguf_kv_find(target, keys[i]);
        ft_status st = have_both(keys[i], a, b, err);
        if (!st && a) st = same_entries(a, b, 0, 1, err);
        if (st) return st;
    }
    for (size_t i = 0; i < FT_COUNT(flags); i++) {
        bool a = false, b = false;
        ft_gguf_bool(draft, flags[i], &a);
        ft_gguf_bool(target, flags[i], &b);
        if (a != b)
            return ft_fail(err, FT_EUNSUPPORTED,
                           "%s is %s in the draft model and %s in the target; want the same",
                           flags[i], a ? "true" : "false", b ? "true" : "false");
    }
    static const char tokens[] = KEY("tokens");
    const ft_gguf_kv *a = ft_gguf_kv_find(draft, tokens), *b = ft_gguf_kv_find(target, tokens);
    const ft_status st = have_both(tokens, a, b, err);
    return st || !a ? st : same_tokens(a, b, apart, err);
}
