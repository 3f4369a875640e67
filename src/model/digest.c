#include "base/mem.h"
#include "model/model.h"

#include <xxhash.h>

enum { SAMPLE = 4096 }; /* bytes at either end of a tensor */

uint64_t ft_gguf_digest(const ft_gguf *g)
{
    uint64_t h = ft_gguf_file_bytes(g);
    for (size_t i = 0; i < ft_gguf_n_tensor(g); i++) {
        const ft_gguf_tensor *t = ft_gguf_tensor_at(g, i);
        const size_t n = FT_MIN(t->bytes, (size_t)SAMPLE);
        const unsigned char *p = t->data;
        h = XXH3_64bits_withSeed(t->name.p, t->name.n, h + (uint64_t)t->type);
        h = XXH3_64bits_withSeed(t->n, sizeof t->n, h);
        h = XXH3_64bits_withSeed(p, n, h);
        h = XXH3_64bits_withSeed(p + t->bytes - n, n, h);
    }
    for (size_t i = 0; i < ft_gguf_n_kv(g); i++) {
        const ft_gguf_kv *kv = ft_gguf_kv_at(g, i);
        if (!kv->changed) continue;
        h = XXH3_64bits_withSeed(kv->key.p, kv->key.n, h);
        h = XXH3_64bits_withSeed(kv->data, kv->bytes, h);
    }
    return h;
}

uint64_t ft_model_digest(const ft_model *m)
{
    return ft_gguf_digest(m->file);
}
