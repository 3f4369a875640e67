/* fuzz/safetensors.c - arbitrary bytes as a safetensors file; an accepted file is read completely.
 */
#include "gguf/safetensors.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    ft_st *s;
    ft_err err;
    if (ft_st_open_memory(&s, data, n, &err)) {
        if (!err.text[0] || strchr(err.text, '\n')) abort();
        return 0;
    }
    size_t total = 0;
    for (size_t i = 0; i < ft_st_n_tensor(s); i++) {
        const ft_st_tensor *t = ft_st_tensor_at(s, i);
        if (ft_st_tensor_find(s, t->name.p) != t) abort();
        total += t->bytes;
        float out[64];
        if (t->type == FT_ST_OTHER) continue;
        for (int64_t k = 0; k < t->count; k += 64)
            ft_st_read_f32(t, k, t->count - k < 64 ? t->count - k : 64, out);
    }
    if (total > n) abort();
    ft_st_close(s);
    return 0;
}
