/* fuzz/gguf.c - arbitrary bytes as a GGUF file. An accepted file is read completely: every key,
 * every string and both ends of every tensor must be readable. */
#include "gguf/gguf.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static volatile unsigned char sink;

static void touch(const void *p, size_t n)
{
    const unsigned char *b = p;
    if (n) sink = (unsigned char)(b[0] ^ b[n - 1]);
}

static void walk_keys(const ft_gguf *g)
{
    for (size_t i = 0; i < ft_gguf_n_kv(g); i++) {
        const ft_gguf_kv *kv = ft_gguf_kv_at(g, i);
        if (ft_gguf_kv_find(g, kv->key.p) != kv) abort();
        touch(kv->data, kv->bytes);
        for (uint64_t k = 0; k < kv->n; k++) {
            int64_t v;
            double f;
            ft_str s;
            const bool is_int = ft_gguf_kv_i64(kv, k, &v), is_num = ft_gguf_kv_f64(kv, k, &f);
            if (is_int && !is_num) abort();
            if (ft_gguf_kv_str(kv, k, &s)) touch(s.p, s.n);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    ft_gguf *g;
    ft_err err;
    if (ft_gguf_open_memory(&g, data, n, &err)) {
        if (!err.text[0] || strchr(err.text, '\n')) abort();
        return 0;
    }
    walk_keys(g);
    size_t total = 0;
    for (size_t i = 0; i < ft_gguf_n_tensor(g); i++) {
        const ft_gguf_tensor *t = ft_gguf_tensor_at(g, i);
        if (ft_gguf_tensor_find(g, t->name.p) != t) abort();
        touch(t->data, t->bytes);
        total += t->bytes;
    }
    if (total > n) abort(); /* tensors must not overlap */
    uint32_t u;
    float f;
    bool b;
    ft_str s;
    ft_gguf_u32(g, "a.u32", &u);
    ft_gguf_f32(g, "a.f32", &f);
    ft_gguf_bool(g, "a.bool", &b);
    ft_gguf_str(g, "general.architecture", &s);
    ft_gguf_close(g);
    return 0;
}
