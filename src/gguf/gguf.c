/* gguf/gguf.c - opens a GGUF file and checks the whole header, the keys and the tensor directory
 * before it returns. Time and memory are bounded by the size of the file: every count in the file
 * is checked against the number of bytes left before memory is allocated for it. */
#define _POSIX_C_SOURCE 200809L
#include "gguf/gguf.h"

#include "base/cursor.h"
#include "base/dict.h"
#include "base/file.h"
#include "base/mem.h"
#include "gguf/show.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum {
    MAX_KV = 1 << 20,
    MAX_TENSOR = 1 << 20,
    MAX_KEY = 65535,
    MAX_NAME = 63, /* the format's limit */
    MAX_DIMS = 4,
    MIN_KV_BYTES = 8 + 1 + 4 + 1,
    MIN_TENSOR_BYTES = 8 + 1 + 4 + 4 + 8, /* a name of one byte, no dimensions */
    MIN_ALIGN = 8,
    MAX_ALIGN = 1 << 20,
    DEFAULT_ALIGN = 32,
    FIRST_AMBIGUOUS_TYPE = 42, /* from this number on, llama.cpp and its forks use the same numbers
                                  for different types */
    MAX_PARTS = 9999,
    ARENA_BLOCK = 1 << 16,
};
static const uint64_t max_string = (uint64_t)64 << 20, max_elems = (uint64_t)1 << 30;

typedef struct arena_block {
    struct arena_block *next;
    size_t used, cap;
    char data[];
} arena_block;

typedef struct kv_set {
    ft_gguf_kv *kv;
    size_t n, cap;
    ft_dict by_key;
} kv_set;

typedef struct part {
    ft_map map;
    const unsigned char *p;
    size_t bytes;
} part;

struct ft_gguf {
    char *path;
    uint32_t version;
    part *part;
    size_t n_part;
    kv_set keys; /* of the first part */
    ft_gguf_tensor *tensor;
    size_t n_tensor, cap_tensor;
    ft_dict by_name;
    arena_block *names;  /* zero-terminated copies of keys and names */
    arena_block *blocks; /* indexes of string arrays */
};

/* State while one part is read. */
typedef struct reader {
    ft_gguf *g;
    ft_cursor c;
    kv_set *keys;
    uint64_t n_tensor, n_kv;
    size_t align;
    size_t first; /* index of this part's first tensor */
} reader;

/* Position of a tensor in the data section of its part. */
typedef struct span {
    size_t at, bytes, tensor;
} span;

/* Allocates memory whose size comes from the file. ft_gguf_close frees it. NULL when there is not
 * enough. */
static void *alloc_block(ft_gguf *g, size_t bytes)
{
    arena_block *b = ft_try_alloc(sizeof *b + bytes);
    if (!b) return NULL;
    b->cap = b->used = bytes;
    b->next = g->blocks;
    g->blocks = b;
    return b->data;
}

static const char *keep_name(ft_gguf *g, ft_str s)
{
    arena_block *b = g->names;
    if (!b || b->cap - b->used < s.n + 1) {
        const size_t cap = FT_MAX((size_t)ARENA_BLOCK, s.n + 1);
        b = ft_alloc(sizeof *b + cap);
        b->cap = cap;
        b->next = g->names;
        g->names = b;
    }
    char *z = b->data + b->used;
    memcpy(z, s.p, s.n);
    z[s.n] = 0;
    b->used += s.n + 1;
    return z;
}

static void keys_release(kv_set *s)
{
    ft_free(s->kv);
    ft_dict_release(&s->by_key);
    *s = (kv_set){0};
}

/* ---- header ---- */

static ft_status read_header(reader *r, uint32_t *version, ft_err *err)
{
    ft_cursor *c = &r->c;
    const unsigned char *magic = ft_cursor_bytes(c, 4);
    *version = ft_cursor_u32(c);
    const int64_t n_tensor = (int64_t)ft_cursor_u64(c), n_kv = (int64_t)ft_cursor_u64(c);
    if (magic && memcmp(magic, "GGUF", 4) != 0) {
        const ft_str found = {(const char *)magic, 4};
        return ft_fail(err, FT_EFORMAT, "not a GGUF file: it starts with \"%s\", want \"GGUF\"",
                       ft_show(found).text);
    }
    if (c->short_read)
        return ft_fail(err, FT_EFORMAT, "%zu bytes, want at least 24 for a GGUF header", c->n);
    if (*version && !(*version & 0xffff))
        return ft_fail(err, FT_EUNSUPPORTED, "a big-endian GGUF file, want little-endian");
    if (*version != 2 && *version != 3)
        return ft_fail(err, FT_EUNSUPPORTED, "GGUF version %u, want 2 or 3", *version);
    const size_t left = ft_cursor_left(c);
    if (n_kv < 0 || n_kv > MAX_KV || (uint64_t)n_kv > left / MIN_KV_BYTES)
        return ft_fail(err, FT_EFORMAT,
                       "%lld keys declared, want at most %zu (what %zu bytes can hold)",
                       (long long)n_kv, FT_MIN(left / MIN_KV_BYTES, (size_t)MAX_KV), left);
    if (n_tensor < 0 || n_tensor > MAX_TENSOR || (uint64_t)n_tensor > left / MIN_TENSOR_BYTES)
        return ft_fail(
            err, FT_EFORMAT, "%lld tensors declared, want at most %zu (what %zu bytes can hold)",
            (long long)n_tensor, FT_MIN(left / MIN_TENSOR_BYTES, (size_t)MAX_TENSOR), left);
    r->n_kv = (uint64_t)n_kv;
    r->n_tensor = (uint64_t)n_tensor;
    return FT_OK;
}

/* ---- keys ---- */

/* Reads a length and that many bytes; false when the file is too short or the length exceeds max.
 * *len is the length found. */
static bool read_string(ft_cursor *c, uint64_t max, ft_str *out, uint64_t *len)
{
    *len = ft_cursor_u64(c);
    if (c->short_read || *len > max || *len > ft_cursor_left(c)) return false;
    out->p = ft_cursor_bytes(c, (size_t)*len);
    out->n = (size_t)*len;
    return true;
}

static ft_status read_strings(reader *r, ft_gguf_kv *kv, ft_err *err)
{
    if (kv->n > ft_cursor_left(&r->c) / 8)
        return ft_fail(err, FT_EFORMAT, "key %s: %llu strings declared, want at most %zu",
                       ft_show(kv->key).text, (unsigned long long)kv->n, ft_cursor_left(&r->c) / 8);
    ft_str *str = alloc_block(r->g, FT_MAX((size_t)kv->n, (size_t)1) * sizeof *str);
    if (!str)
        return ft_fail(err, FT_ENOMEM, "key %s: no memory for %llu strings", ft_show(kv->key).text,
                       (unsigned long long)kv->n);
    kv->str = str;
    for (uint64_t i = 0; i < kv->n; i++) {
        uint64_t len;
        if (!read_string(&r->c, max_string, &str[i], &len))
            return ft_fail(err, FT_EFORMAT,
                           "key %s: string %llu has length %llu, want at most %llu",
                           ft_show(kv->key).text, (unsigned long long)i, (unsigned long long)len,
                           (unsigned long long)FT_MIN((uint64_t)ft_cursor_left(&r->c), max_string));
    }
    return FT_OK;
}

static ft_status read_value(reader *r, ft_gguf_kv *kv, ft_err *err)
{
    ft_cursor *c = &r->c;
    uint32_t kind = ft_cursor_u32(c);
    kv->n = 1;
    if (kind == FT_GGUF_ARR) {
        kv->array = true;
        kind = ft_cursor_u32(c);
        kv->n = ft_cursor_u64(c);
        if (kind == FT_GGUF_ARR)
            return ft_fail(err, FT_EFORMAT, "key %s: an array of arrays, want an array of scalars",
                           ft_show(kv->key).text);
        if (kv->n > max_elems)
            return ft_fail(err, FT_EFORMAT, "key %s: an array of %llu elements, want at most %llu",
                           ft_show(kv->key).text, (unsigned long long)kv->n,
                           (unsigned long long)max_elems);
    }
    const size_t each = ft_gguf_kind_bytes(kind);
    if (!c->short_read && each == SIZE_MAX)
        return ft_fail(err, FT_EFORMAT, "key %s: value type %d, want 0 to 12",
                       ft_show(kv->key).text, (int)kind);
    kv->kind = (ft_gguf_kind)kind;
    const size_t start = c->pos;
    kv->data = c->p + start;
    if (!c->short_read && kind == FT_GGUF_STR) {
        const ft_status st = read_strings(r, kv, err);
        if (st) return st;
    } else if (!c->short_read) {
        ft_cursor_bytes(c, (size_t)kv->n * each); /* at most 2^30 times 8 */
    }
    if (c->short_read)
        return ft_fail(err, FT_EFORMAT, "the file ends inside the value of key %s",
                       ft_show(kv->key).text);
    kv->bytes = c->pos - start;
    return FT_OK;
}

static ft_status read_key(reader *r, ft_gguf_kv *kv, ft_err *err)
{
    ft_str key = {0};
    uint64_t len;
    if (!read_string(&r->c, MAX_KEY, &key, &len))
        return r->c.short_read || len <= MAX_KEY
                   ? ft_fail(err, FT_EFORMAT, "the file ends inside the name of key %zu",
                             r->keys->n)
                   : ft_fail(err, FT_EFORMAT, "key %zu: name of %llu bytes, want at most %d",
                             r->keys->n, (unsigned long long)len, MAX_KEY);
    if (!key.n) return ft_fail(err, FT_EFORMAT, "key %zu: empty name", r->keys->n);
    if (memchr(key.p, 0, key.n))
        return ft_fail(err, FT_EFORMAT, "key %s: a zero byte in its name", ft_show(key).text);
    kv->key = (ft_str){keep_name(r->g, key), key.n};
    return FT_OK;
}

static ft_status read_keys(reader *r, ft_err *err)
{
    kv_set *s = r->keys;
    for (uint64_t i = 0; i < r->n_kv; i++) {
        if (s->n == s->cap) {
            s->cap = s->cap ? s->cap * 2 : 64;
            s->kv = ft_realloc(s->kv, s->cap * sizeof *s->kv);
        }
        ft_gguf_kv *kv = &s->kv[s->n];
        *kv = (ft_gguf_kv){0};
        ft_status st = read_key(r, kv, err);
        if (st) return st;
        if (!ft_dict_put(&s->by_key, kv->key, (uint32_t)s->n))
            return ft_fail(err, FT_EFORMAT, "key %s occurs twice", ft_show(kv->key).text);
        if ((st = read_value(r, kv, err))) return st;
        s->n++;
    }
    return FT_OK;
}

static const ft_gguf_kv *find_key(const kv_set *s, const char *key)
{
    uint32_t i;
    return ft_dict_find(&s->by_key, ft_str_of(key), &i) ? &s->kv[i] : NULL;
}

static ft_status read_align(reader *r, ft_err *err)
{
    r->align = DEFAULT_ALIGN;
    const ft_gguf_kv *kv = find_key(r->keys, "general.alignment");
    if (!kv) return FT_OK;
    int64_t v = 0;
    if (kv->array || kv->kind != FT_GGUF_U32)
        return ft_fail(err, FT_EFORMAT, "key general.alignment: value type %d%s, want a u32",
                       (int)kv->kind, kv->array ? " array" : "");
    ft_gguf_kv_i64(kv, 0, &v);
    if (v < MIN_ALIGN || v > MAX_ALIGN || (v & (v - 1)))
        return ft_fail(err, FT_EFORMAT,
                       "key general.alignment: %lld, want a power of two from %d to %d",
                       (long long)v, MIN_ALIGN, MAX_ALIGN);
    r->align = (size_t)v;
    return FT_OK;
}

/* ---- tensors ---- */

static ft_status read_dims(reader *r, ft_gguf_tensor *t, int64_t *count, ft_err *err)
{
    const uint32_t n_dims = ft_cursor_u32(&r->c);
    if (n_dims > MAX_DIMS)
        return ft_fail(err, FT_EFORMAT, "tensor %s: %u dimensions, want at most %d",
                       ft_show(t->name).text, n_dims, MAX_DIMS);
    t->n_dims = (int)n_dims;
    for (int i = 0; i < MAX_DIMS; i++) t->n[i] = i < t->n_dims ? (int64_t)ft_cursor_u64(&r->c) : 1;
    *count = 1;
    for (int i = 0; i < MAX_DIMS; i++) {
        if (t->n[i] < 0)
            return ft_fail(err, FT_EFORMAT, "tensor %s: dimension %d is %lld, want 0 or more",
                           ft_show(t->name).text, i, (long long)t->n[i]);
        /* a dimension of zero must not hide an overflow of the others */
        if (__builtin_mul_overflow(*count, FT_MAX(t->n[i], (int64_t)1), count))
            return ft_fail(err, FT_EFORMAT,
                           "tensor %s: %lld x %lld x %lld x %lld values, want a 63-bit count",
                           ft_show(t->name).text, (long long)t->n[0], (long long)t->n[1],
                           (long long)t->n[2], (long long)t->n[3]);
    }
    for (int i = 0; i < MAX_DIMS; i++)
        if (!t->n[i]) *count = 0;
    return FT_OK;
}

static ft_status read_type(reader *r, ft_gguf_tensor *t, int64_t count, ft_err *err)
{
    const uint32_t id = ft_cursor_u32(&r->c);
    if (r->c.short_read) return FT_OK; /* the caller reports it */
    const ft_type_info *info = ft_type_of(id);
    if (!info->name)
        return ft_fail(err, FT_EUNSUPPORTED, "tensor %s: type %d (%s), want a type of model files",
                       ft_show(t->name).text, (int)id, info->note);
    t->type = (ft_type)id;
    if (t->n[0] % info->elems)
        return ft_fail(err, FT_EFORMAT,
                       "tensor %s: rows of %lld values, want a multiple of %d (the block of %s)",
                       ft_show(t->name).text, (long long)t->n[0], info->elems, info->name);
    if (!ft_mul_size((size_t)(count / info->elems), info->bytes, &t->bytes))
        return ft_fail(err, FT_EFORMAT, "tensor %s: %lld values of %s, want a 64-bit size",
                       ft_show(t->name).text, (long long)count, info->name);
    return FT_OK;
}

static ft_status read_name(reader *r, ft_gguf_tensor *t, size_t nth, ft_err *err)
{
    ft_str name = {0};
    uint64_t len;
    if (!read_string(&r->c, MAX_NAME, &name, &len))
        return r->c.short_read || len <= MAX_NAME
                   ? ft_fail(err, FT_EFORMAT, "the file ends inside the name of tensor %zu", nth)
                   : ft_fail(err, FT_EFORMAT, "tensor %zu: name of %llu bytes, want 1 to %d", nth,
                             (unsigned long long)len, MAX_NAME);
    if (!name.n) return ft_fail(err, FT_EFORMAT, "tensor %zu: empty name", nth);
    if (memchr(name.p, 0, name.n))
        return ft_fail(err, FT_EFORMAT, "tensor %s: a zero byte in its name", ft_show(name).text);
    t->name = (ft_str){keep_name(r->g, name), name.n};
    return FT_OK;
}

static ft_status read_tensor(reader *r, span *s, ft_err *err)
{
    ft_gguf *g = r->g;
    if (g->n_tensor == g->cap_tensor) {
        g->cap_tensor = g->cap_tensor ? g->cap_tensor * 2 : 64;
        g->tensor = ft_realloc(g->tensor, g->cap_tensor * sizeof *g->tensor);
    }
    ft_gguf_tensor *t = &g->tensor[g->n_tensor];
    *t = (ft_gguf_tensor){0};
    int64_t count = 0;
    ft_status st;
    if ((st = read_name(r, t, g->n_tensor - r->first, err))) return st;
    if ((st = read_dims(r, t, &count, err))) return st;
    if ((st = read_type(r, t, count, err))) return st;
    const uint64_t at = ft_cursor_u64(&r->c);
    if (r->c.short_read)
        return ft_fail(err, FT_EFORMAT, "the file ends inside the description of tensor %s",
                       ft_show(t->name).text);
    if (at % r->align)
        return ft_fail(err, FT_EFORMAT, "tensor %s: offset %llu, want a multiple of %zu",
                       ft_show(t->name).text, (unsigned long long)at, r->align);
    if (!ft_dict_put(&g->by_name, t->name, (uint32_t)g->n_tensor))
        return ft_fail(err, FT_EFORMAT, "tensor %s occurs twice", ft_show(t->name).text);
    *s = (span){(size_t)at, t->bytes, g->n_tensor};
    g->n_tensor++;
    return FT_OK;
}

static int span_order(const void *pa, const void *pb)
{
    const span *a = pa, *b = pb;
    if (a->at != b->at) return a->at < b->at ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    return a->tensor < b->tensor ? -1 : a->tensor > b->tensor;
}

/* From FIRST_AMBIGUOUS_TYPE on, a type number has different meanings in llama.cpp and its forks.
 * The distance to the next tensor must match the size of the type that this program assumes. */
static ft_status check_ambiguous(const reader *r, const span *s, size_t next, bool last,
                                 ft_err *err)
{
    const ft_gguf_tensor *t = &r->g->tensor[s->tensor];
    const size_t found = next - s->at, pad = (r->align - s->bytes % r->align) % r->align;
    if (last ? found - s->bytes <= pad : found == s->bytes + pad) return FT_OK;
    return ft_fail(
        err, FT_EFORMAT,
        "tensor %s: type %d read as %s needs %zu bytes, but there are %zu bytes before %s; "
        "another program may use this number for another type",
        ft_show(t->name).text, (int)t->type, ft_type_name(t->type), s->bytes, found,
        last ? "the end of the file" : "the next tensor");
}

/* Rejects tensors that overlap. */
static ft_status check_spans(const reader *r, const span *s, size_t n, size_t data_bytes,
                             ft_err *err)
{
    for (size_t i = 0; i < n; i++) {
        const ft_gguf_tensor *t = &r->g->tensor[s[i].tensor];
        const bool last = i + 1 == n;
        const size_t next = last ? data_bytes : s[i + 1].at;
        if (s[i].bytes && (int)t->type >= FIRST_AMBIGUOUS_TYPE) {
            const ft_status st = check_ambiguous(r, &s[i], next, last, err);
            if (st) return st;
        }
        if (s[i].bytes > next - s[i].at) /* next >= at: sorted and in bounds */
            return ft_fail(err, FT_EFORMAT,
                           "tensor %s: %zu bytes of %s from offset %zu overlap tensor %s, which "
                           "starts at offset %zu",
                           ft_show(t->name).text, s[i].bytes, ft_type_name(t->type), s[i].at,
                           ft_show(r->g->tensor[s[i + 1].tensor].name).text, next);
    }
    return FT_OK;
}

static ft_status place_tensors(reader *r, span *s, size_t n, ft_err *err)
{
    const size_t size = r->c.n;
    size_t start;
    if (!ft_add_size(r->c.pos, r->align - 1, &start)) start = SIZE_MAX;
    start &= ~(r->align - 1);
    const size_t data_bytes = start <= size ? size - start : 0;
    for (size_t i = 0; i < n; i++) {
        ft_gguf_tensor *t = &r->g->tensor[s[i].tensor];
        if (s[i].at > data_bytes || s[i].bytes > data_bytes - s[i].at)
            return ft_fail(err, FT_EFORMAT,
                           "tensor %s: %zu bytes of %s at offset %zu, but the data section has %zu "
                           "bytes (is the file cut off?)",
                           ft_show(t->name).text, s[i].bytes, ft_type_name(t->type), s[i].at,
                           data_bytes);
        t->data = s[i].bytes ? r->c.p + start + s[i].at : r->c.p + r->c.pos;
    }
    qsort(s, n, sizeof *s, span_order);
    return check_spans(r, s, n, data_bytes, err);
}

static ft_status read_tensors(reader *r, ft_err *err)
{
    if (!r->n_tensor) return FT_OK;
    if (r->n_tensor > ft_cursor_left(&r->c) / MIN_TENSOR_BYTES)
        return ft_fail(err, FT_EFORMAT, "the file ends inside the tensor directory");
    span *s = ft_new_n(span, (size_t)r->n_tensor);
    ft_status st = FT_OK;
    for (size_t i = 0; i < r->n_tensor && !st; i++) st = read_tensor(r, &s[i], err);
    if (!st) st = place_tensors(r, s, (size_t)r->n_tensor, err);
    ft_free(s);
    return st;
}

static ft_status read_part(ft_gguf *g, const part *p, kv_set *keys, uint32_t *version, ft_err *err)
{
    reader r = {.g = g, .c = ft_cursor_over(p->p, p->bytes), .keys = keys, .first = g->n_tensor};
    ft_status st;
    if ((st = read_header(&r, version, err))) return st;
    if ((st = read_keys(&r, err))) return st;
    if ((st = read_align(&r, err))) return st;
    return read_tensors(&r, err);
}

/* ---- parts ---- */

static ft_status split_key(const kv_set *s, const char *key, int64_t lo, int64_t hi, int64_t *out,
                           ft_err *err)
{
    const ft_gguf_kv *kv = find_key(s, key);
    if (!kv) return ft_fail(err, FT_EFORMAT, "key %s is missing from a split file", key);
    if (kv->array || !ft_gguf_kv_i64(kv, 0, out))
        return ft_fail(err, FT_EFORMAT, "key %s is not a whole number", key);
    if (*out < lo || *out > hi)
        return ft_fail(err, FT_EFORMAT, "key %s: %lld, want %lld to %lld", key, (long long)*out,
                       (long long)lo, (long long)hi);
    return FT_OK;
}

/* The path of part i (counted from 0) of n, derived from `path`, the path of part `mine`. NULL when
 * `path` does not end in "-0000X-of-0000N.gguf". */
static char *part_path(const char *path, int64_t mine, int64_t i, int64_t n)
{
    char suffix[48];
    snprintf(suffix, sizeof suffix, "-%05d-of-%05d.gguf", (int)mine + 1, (int)n);
    const ft_str p = ft_str_of(path);
    if (!ft_str_ends(p, ft_str_of(suffix))) return NULL;
    const size_t keep = p.n - strlen(suffix);
    char *z = ft_alloc(keep + sizeof suffix);
    memcpy(z, path, keep);
    snprintf(z + keep, sizeof suffix, "-%05d-of-%05d.gguf", (int)i + 1, (int)n);
    return z;
}

static ft_status open_part(ft_gguf *g, const char *path, int64_t i, int64_t n, bool use_mmap,
                           ft_err *err)
{
    part *p = &g->part[i];
    ft_status st = ft_map_open(&p->map, path, use_mmap, err);
    if (st) {
        ft_err_prefix(err, "part %d of %d", (int)i + 1, (int)n);
        return st;
    }
    p->p = p->map.data;
    p->bytes = p->map.bytes;
    kv_set keys = {0};
    uint32_t version;
    int64_t no = 0, count = 0;
    st = read_part(g, p, &keys, &version, err);
    if (!st) st = split_key(&keys, "split.no", i, i, &no, err);
    if (!st && find_key(&keys, "split.count"))
        st = split_key(&keys, "split.count", n, n, &count, err);
    keys_release(&keys);
    if (st) ft_err_prefix(err, "%s", path);
    return st;
}

static ft_status check_first(const ft_gguf *g, int64_t no, int64_t count, ft_err *err)
{
    if (no == 0) return FT_OK;
    char *first = part_path(g->path, no, 0, count);
    const ft_status st = ft_fail(err, FT_EINVAL, "part %d of %d of a split model, want part 1%s%s",
                                 (int)no + 1, (int)count, first ? ": " : "", first ? first : "");
    ft_free(first);
    return st;
}

static ft_status open_parts(ft_gguf *g, bool use_mmap, ft_err *err)
{
    int64_t count = 0, no = 0, total = 0;
    if (!find_key(&g->keys, "split.count")) return FT_OK;
    ft_status st = split_key(&g->keys, "split.count", 0, MAX_PARTS, &count, err);
    if (!st && count > 1) st = split_key(&g->keys, "split.no", 0, count - 1, &no, err);
    if (st || count <= 1) return st;
    if ((st = check_first(g, no, count, err))) return st;
    if ((st = split_key(&g->keys, "split.tensors.count", 0, MAX_TENSOR, &total, err))) return st;
    g->part = ft_realloc(g->part, (size_t)count * sizeof *g->part);
    memset(g->part + 1, 0, (size_t)(count - 1) * sizeof *g->part);
    g->n_part = (size_t)count;
    for (int64_t i = 1; i < count; i++) {
        char *path = part_path(g->path, 0, i, count);
        if (!path)
            return ft_fail(err, FT_EINVAL,
                           "part 1 of %d of a split model, want a name that ends in "
                           "-00001-of-%05d.gguf",
                           (int)count, (int)count);
        st = open_part(g, path, i, count, use_mmap, err);
        ft_free(path);
        if (st) return st;
    }
    if (g->n_tensor != (size_t)total)
        return ft_fail(err, FT_EFORMAT, "%zu tensors in %d parts, want %lld (split.tensors.count)",
                       g->n_tensor, (int)count, (long long)total);
    return FT_OK;
}

/* ---- open and close ---- */

static ft_gguf *new_gguf(const char *path)
{
    ft_gguf *g = ft_new(ft_gguf);
    g->path = ft_strdup(path);
    g->part = ft_new(part);
    g->n_part = 1;
    return g;
}

ft_status ft_gguf_open(ft_gguf **out, const char *path, bool use_mmap, ft_err *err)
{
    ft_gguf *g = new_gguf(path);
    part *p = g->part;
    ft_status st = ft_map_open(&p->map, path, use_mmap, err);
    if (!st) {
        p->p = p->map.data;
        p->bytes = p->map.bytes;
        st = read_part(g, p, &g->keys, &g->version, err);
        if (!st) st = open_parts(g, use_mmap, err);
        if (st) ft_err_prefix(err, "%s", path);
    }
    if (st) {
        ft_gguf_close(g);
        return st;
    }
    *out = g;
    return FT_OK;
}

ft_status ft_gguf_open_memory(ft_gguf **out, const void *p, size_t n, ft_err *err)
{
    ft_gguf *g = new_gguf("");
    g->part->p = p;
    g->part->bytes = n;
    ft_status st = read_part(g, g->part, &g->keys, &g->version, err);
    int64_t count = 0;
    if (!st && ft_gguf_i64(g, "split.count", &count) && count > 1)
        st = ft_fail(err, FT_EUNSUPPORTED, "a split model of %lld parts, want a single file",
                     (long long)count);
    if (st) {
        ft_gguf_close(g);
        return st;
    }
    *out = g;
    return FT_OK;
}

static void blocks_free(arena_block *b)
{
    for (arena_block *next; b; b = next) {
        next = b->next;
        ft_free(b);
    }
}

void ft_gguf_close(ft_gguf *g)
{
    if (!g) return;
    keys_release(&g->keys);
    ft_dict_release(&g->by_name);
    ft_free(g->tensor);
    blocks_free(g->names);
    blocks_free(g->blocks);
    for (size_t i = 0; i < g->n_part; i++) ft_map_close(&g->part[i].map);
    ft_free(g->part);
    ft_free(g->path);
    ft_free(g);
}

void ft_gguf_set(ft_gguf *g, const char *key, ft_gguf_kind kind, const void *value, size_t bytes)
{
    kv_set *s = &g->keys;
    uint32_t at;
    ft_gguf_kv kv = {.kind = kind, .n = 1, .bytes = bytes, .changed = true};
    const ft_str copy = {keep_name(g, (ft_str){value, bytes}), bytes};
    kv.data = copy.p;
    if (kind == FT_GGUF_STR) {
        arena_block *b = ft_alloc(sizeof *b + sizeof copy);
        memcpy(b->data, &copy, sizeof copy);
        b->next = g->blocks;
        g->blocks = b;
        kv.str = (const ft_str *)(const void *)b->data;
    }
    if (ft_dict_find(&s->by_key, ft_str_of(key), &at)) {
        kv.key = s->kv[at].key;
        s->kv[at] = kv;
        return;
    }
    s->kv = ft_realloc(s->kv, (s->n + 1) * sizeof *s->kv);
    s->cap = s->n + 1;
    kv.key = (ft_str){keep_name(g, ft_str_of(key)), strlen(key)};
    ft_dict_put(&s->by_key, kv.key, (uint32_t)s->n);
    s->kv[s->n++] = kv;
}

/* ---- accessors ---- */

const char *ft_gguf_path(const ft_gguf *g)
{
    return g->path;
}

uint32_t ft_gguf_version(const ft_gguf *g)
{
    return g->version;
}

uint64_t ft_gguf_file_bytes(const ft_gguf *g)
{
    uint64_t n = 0;
    for (size_t i = 0; i < g->n_part; i++) n += g->part[i].bytes;
    return n;
}

bool ft_gguf_same_file(const ft_gguf *g, const char *path)
{
    struct stat st;
    if (!g->part[0].map.bytes || stat(path, &st)) return false;
    for (size_t i = 0; i < g->n_part; i++)
        if (g->part[i].map.dev == st.st_dev && g->part[i].map.inode == st.st_ino) return true;
    return false;
}

size_t ft_gguf_n_tensor(const ft_gguf *g)
{
    return g->n_tensor;
}

const ft_gguf_tensor *ft_gguf_tensor_at(const ft_gguf *g, size_t i)
{
    return i < g->n_tensor ? &g->tensor[i] : NULL;
}

ft_type ft_gguf_main_type(const ft_gguf *g)
{
    uint64_t bytes[FT_TYPE_MAX] = {0};
    int best = 0;
    for (size_t i = 0; i < g->n_tensor; i++) bytes[g->tensor[i].type] += g->tensor[i].bytes;
    for (int i = 0; i < FT_TYPE_MAX; i++)
        if (bytes[i] > bytes[best]) best = i;
    return (ft_type)best;
}

const ft_gguf_tensor *ft_gguf_tensor_find(const ft_gguf *g, const char *name)
{
    uint32_t i;
    return ft_dict_find(&g->by_name, ft_str_of(name), &i) ? &g->tensor[i] : NULL;
}

size_t ft_gguf_n_kv(const ft_gguf *g)
{
    return g->keys.n;
}

const ft_gguf_kv *ft_gguf_kv_at(const ft_gguf *g, size_t i)
{
    return i < g->keys.n ? &g->keys.kv[i] : NULL;
}

const ft_gguf_kv *ft_gguf_kv_find(const ft_gguf *g, const char *key)
{
    return find_key(&g->keys, key);
}
