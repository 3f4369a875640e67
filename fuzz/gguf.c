/* fuzz/gguf.c - arbitrary bytes as a GGUF file. An accepted file is read completely: every key,
 * every string and both ends of every tensor must be readable. Then it is added to a small model as
 * a LoRA adapter. */
#include "base/mem.h"
#include "dev/dev.h"
#include "model/adapter.h"

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

/* Takes the file. */
static void add_adapter(ft_gguf *g)
{
    static ft_dev *dev;
    ft_weight w[] = {{.n = 8, .k = 4, .E = 1, .name = "blk.0.attn_q.weight"},
                     {.n = 16, .k = 4, .E = 1, .name = "token_embd.weight", .lookup = true},
                     {.n = 6, .k = 4, .E = 2, .name = "blk.0.ffn_up_exps.weight"},
                     {.n = 6, .k = 4, .E = 1, .name = "blk.1.ffn_up_shexp.weight"}};
    ft_weight *all[FT_COUNT(w)];
    ft_model m = {.arch = &ft_arch_qwen35, .file = g, .L = 1, .weights = all};
    ft_err err;
    if (!dev) dev = ft_dev_ref();
    m.dev = dev;
    for (; m.n_weights < (int)FT_COUNT(w); m.n_weights++) all[m.n_weights] = &w[m.n_weights];
    if (ft_adapter_add(&m, NULL, g, &err)) {
        if (!err.text[0] || strchr(err.text, '\n')) abort();
        ft_gguf_close(g);
        return;
    }
    for (size_t i = 0; i < FT_COUNT(w); i++) {
        const ft_lora *l = w[i].lora;
        if (!l) continue;
        touch(l->a.data, l->a.row_bytes * (size_t)(l->a.n * l->a.E));
        touch(l->b.data, l->b.row_bytes * (size_t)(l->b.n * l->b.E));
        if (l->b.E != w[i].E || m.lora.rank < l->b.k) abort();
    }
    ft_adapters_free(&m);
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
    add_adapter(g);
    return 0;
}
