/* gguf/value.c - typed access to the values of keys. Different writers store the same key with
 * different widths, so every integer kind is accepted as an integer and every float kind as a
 * float, when the value is in range. */
#include "base/half.h"
#include "gguf/gguf.h"

#include <math.h>

size_t ft_gguf_kind_bytes(uint32_t kind)
{
    static const unsigned char bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 255, 8, 8, 8};
    return kind < sizeof bytes && bytes[kind] != 255 ? bytes[kind] : SIZE_MAX;
}

static uint64_t load_le(const ft_gguf_kv *kv, uint64_t i, size_t bytes)
{
    const unsigned char *b = (const unsigned char *)kv->data + i * bytes;
    uint64_t v = 0;
    for (size_t k = 0; k < bytes; k++) v |= (uint64_t)b[k] << (8 * k);
    return v;
}

bool ft_gguf_kv_i64(const ft_gguf_kv *kv, uint64_t i, int64_t *out)
{
    if (i >= kv->n) return false;
    uint64_t u;
    switch (kv->kind) {
    case FT_GGUF_U8: *out = (int64_t)load_le(kv, i, 1); return true;
    case FT_GGUF_I8: *out = (int64_t)(load_le(kv, i, 1) << 56) >> 56; return true;
    case FT_GGUF_U16: *out = (int64_t)load_le(kv, i, 2); return true;
    case FT_GGUF_I16: *out = (int16_t)load_le(kv, i, 2); return true;
    case FT_GGUF_U32: *out = (int64_t)load_le(kv, i, 4); return true;
    case FT_GGUF_I32: *out = (int32_t)load_le(kv, i, 4); return true;
    case FT_GGUF_BOOL: *out = load_le(kv, i, 1) != 0; return true;
    case FT_GGUF_I64: *out = (int64_t)load_le(kv, i, 8); return true;
    case FT_GGUF_U64:
        u = load_le(kv, i, 8);
        if (u > INT64_MAX) return false;
        *out = (int64_t)u;
        return true;
    default: return false;
    }
}

bool ft_gguf_kv_f64(const ft_gguf_kv *kv, uint64_t i, double *out)
{
    if (i >= kv->n) return false;
    if (kv->kind == FT_GGUF_F32) {
        *out = (double)ft_f32_of_bits((uint32_t)load_le(kv, i, 4));
        return true;
    }
    if (kv->kind == FT_GGUF_F64) {
        const uint64_t u = load_le(kv, i, 8);
        memcpy(out, &u, 8);
        return true;
    }
    if (kv->kind == FT_GGUF_U64) {
        *out = (double)load_le(kv, i, 8);
        return true;
    }
    int64_t v;
    if (!ft_gguf_kv_i64(kv, i, &v)) return false;
    *out = (double)v;
    return true;
}

bool ft_gguf_kv_str(const ft_gguf_kv *kv, uint64_t i, ft_str *out)
{
    if (i >= kv->n || kv->kind != FT_GGUF_STR) return false;
    *out = kv->str[i];
    return true;
}

static const ft_gguf_kv *find_scalar(const ft_gguf *g, const char *key)
{
    const ft_gguf_kv *kv = ft_gguf_kv_find(g, key);
    return kv && !kv->array ? kv : NULL;
}

bool ft_gguf_i64(const ft_gguf *g, const char *key, int64_t *out)
{
    const ft_gguf_kv *kv = find_scalar(g, key);
    return kv && kv->kind != FT_GGUF_BOOL && ft_gguf_kv_i64(kv, 0, out);
}

bool ft_gguf_u32(const ft_gguf *g, const char *key, uint32_t *out)
{
    int64_t v;
    if (!ft_gguf_i64(g, key, &v) || v < 0 || v > UINT32_MAX) return false;
    *out = (uint32_t)v;
    return true;
}

bool ft_gguf_f32(const ft_gguf *g, const char *key, float *out)
{
    const ft_gguf_kv *kv = find_scalar(g, key);
    double v;
    if (!kv || (kv->kind != FT_GGUF_F32 && kv->kind != FT_GGUF_F64)) return false;
    if (!ft_gguf_kv_f64(kv, 0, &v) || (isfinite(v) && !isfinite((float)v))) return false;
    *out = (float)v;
    return true;
}

bool ft_gguf_bool(const ft_gguf *g, const char *key, bool *out)
{
    const ft_gguf_kv *kv = find_scalar(g, key);
    int64_t v;
    if (!kv || !ft_gguf_kv_i64(kv, 0, &v)) return false;
    *out = v != 0;
    return true;
}

bool ft_gguf_str(const ft_gguf *g, const char *key, ft_str *out)
{
    const ft_gguf_kv *kv = find_scalar(g, key);
    return kv && ft_gguf_kv_str(kv, 0, out);
}
