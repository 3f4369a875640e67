/* text/vocab_same.c - whether two files mean the same by every id. A draft model of another
 * vocabulary would draft nonsense that is always refused, so it is better refused at once. */
#include "base/mem.h"
#include "text/vocab.h"

#include <stdio.h>

#define KEY(name) "tokenizer.ggml." name

/* Keys whose every value must be the same; one that neither file has is. */
static const char *const keys[] = {
    KEY("model"),  KEY("pre"),          KEY("tokens"),       KEY("token_type"),
    KEY("merges"), KEY("bos_token_id"), KEY("eos_token_id"),
};

/* Value i in words. */
static ft_str value(char *out, size_t bytes, const ft_gguf_kv *kv, uint64_t i)
{
    ft_str s;
    int64_t n = 0;
    if (ft_gguf_kv_str(kv, i, &s)) return s;
    const bool number = ft_gguf_kv_i64(kv, i, &n);
    snprintf(out, bytes, number ? "%lld" : "no number", (long long)n);
    return ft_str_of(out);
}

static ft_status same_key(const char *key, const ft_gguf_kv *a, const ft_gguf_kv *b, ft_err *err)
{
    if (!a && !b) return FT_OK;
    if (!a || !b)
        return ft_fail(err, FT_EUNSUPPORTED, "%s has %s, %s has not; want the same vocabulary",
                       a ? "the draft model" : "the target", key,
                       a ? "the target" : "the draft model");
    if (a->n != b->n)
        return ft_fail(err, FT_EUNSUPPORTED,
                       "%s has %llu entries in the draft model and %llu in the target; want the "
                       "same vocabulary",
                       key, (unsigned long long)a->n, (unsigned long long)b->n);
    for (uint64_t i = 0; i < a->n; i++) {
        char x[32], y[32];
        const ft_str s = value(x, sizeof x, a, i), t = value(y, sizeof y, b, i);
        if (ft_str_eq(s, t)) continue;
        return ft_fail(err, FT_EUNSUPPORTED,
                       "%s entry %llu is \"%.*s\" in the draft model and \"%.*s\" in the target; "
                       "want the same vocabulary",
                       key, (unsigned long long)i, FT_STR_FMT(s), FT_STR_FMT(t));
    }
    return FT_OK;
}

ft_status ft_vocab_same(const ft_gguf *draft, const ft_gguf *target, ft_err *err)
{
    ft_status st = FT_OK;
    for (size_t i = 0; i < FT_COUNT(keys) && !st; i++)
        st = same_key(keys[i], ft_gguf_kv_find(draft, keys[i]), ft_gguf_kv_find(target, keys[i]),
                      err);
    return st;
}
