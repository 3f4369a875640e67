/* gguf/writer.c - writes a GGUF file. The header is collected in memory and written by _begin,
 * which also reserves the data section, so that threads can fill it in any order. */
#include "gguf/writer.h"

#include "base/buf.h"
#include "base/dict.h"
#include "base/file.h"
#include "base/half.h"
#include "base/mem.h"
#include "gguf/show.h"

#include <assert.h>

enum { ALIGN = 32, MAX_NAME = 63 };

typedef struct entry {
    char *name;
    ft_type type;
    int n_dims;
    int64_t n[4];
    size_t bytes;
    uint64_t at; /* in the data section */
} entry;

struct ft_gguf_writer {
    ft_out_file *out;
    char *path;
    ft_buf kv;
    uint64_t n_kv;
    char **key; /* owned; the dictionary borrows them */
    size_t cap_key;
    ft_dict keys, names;
    entry *tensor;
    size_t n_tensor, cap_tensor;
    uint64_t data_bytes, data_at, file_bytes;
    bool begun;
    ft_err err; /* the first error */
};

ft_status ft_gguf_writer_open(ft_gguf_writer **out, const char *path, ft_err *err)
{
    ft_gguf_writer *w = ft_new(ft_gguf_writer);
    const ft_status st = ft_out_open(&w->out, path, err);
    if (st) {
        ft_free(w);
        return st;
    }
    w->path = ft_strdup(path);
    ft_buf_init(&w->kv, (size_t)2 << 30);
    *out = w;
    return FT_OK;
}

static void put_uint(ft_buf *b, uint64_t v, size_t bytes)
{
    char out[8];
    for (size_t i = 0; i < bytes; i++) out[i] = (char)(unsigned char)(v >> (8 * i));
    ft_buf_put(b, out, bytes);
}

static void put_string(ft_buf *b, ft_str s)
{
    put_uint(b, s.n, 8);
    ft_buf_put_str(b, s);
}

/* ---- keys ---- */

/* Starts a key; false when it cannot be written. */
static bool start_key(ft_gguf_writer *w, const char *key)
{
    assert(!w->begun);
    if (w->err.code) return false;
    char *own = ft_strdup(key);
    if (!ft_dict_put(&w->keys, ft_str_of(own), 0)) {
        ft_free(own);
        ft_fail(&w->err, FT_EINVAL, "%s: key %s written twice", w->path,
                ft_show(ft_str_of(key)).text);
        return false;
    }
    if (w->n_kv == w->cap_key) {
        w->cap_key = w->cap_key ? w->cap_key * 2 : 64;
        w->key = ft_realloc(w->key, w->cap_key * sizeof *w->key);
    }
    w->key[w->n_kv++] = own;
    put_string(&w->kv, ft_str_of(key));
    return true;
}

static void put_scalar(ft_gguf_writer *w, const char *key, ft_gguf_kind kind, uint64_t v,
                       size_t bytes)
{
    if (!start_key(w, key)) return;
    put_uint(&w->kv, kind, 4);
    put_uint(&w->kv, v, bytes);
}

void ft_gguf_put_u32(ft_gguf_writer *w, const char *key, uint32_t v)
{
    put_scalar(w, key, FT_GGUF_U32, v, 4);
}

void ft_gguf_put_i32(ft_gguf_writer *w, const char *key, int32_t v)
{
    put_scalar(w, key, FT_GGUF_I32, (uint32_t)v, 4);
}

void ft_gguf_put_f32(ft_gguf_writer *w, const char *key, float v)
{
    put_scalar(w, key, FT_GGUF_F32, ft_f32_bits(v), 4);
}

void ft_gguf_put_bool(ft_gguf_writer *w, const char *key, bool v)
{
    put_scalar(w, key, FT_GGUF_BOOL, v, 1);
}

void ft_gguf_put_str(ft_gguf_writer *w, const char *key, ft_str v)
{
    if (!start_key(w, key)) return;
    put_uint(&w->kv, FT_GGUF_STR, 4);
    put_string(&w->kv, v);
}

static void start_array(ft_gguf_writer *w, ft_gguf_kind kind, uint64_t n)
{
    put_uint(&w->kv, FT_GGUF_ARR, 4);
    put_uint(&w->kv, kind, 4);
    put_uint(&w->kv, n, 8);
}

void ft_gguf_put_array(ft_gguf_writer *w, const char *key, ft_gguf_kind kind, const void *v,
                       uint64_t n)
{
    const size_t each = ft_gguf_kind_bytes(kind);
    assert(each && each != SIZE_MAX);
    if (!start_key(w, key)) return;
    start_array(w, kind, n);
    ft_buf_put(&w->kv, v, (size_t)n * each);
}

void ft_gguf_put_str_array(ft_gguf_writer *w, const char *key, const ft_str *v, uint64_t n)
{
    if (!start_key(w, key)) return;
    start_array(w, FT_GGUF_STR, n);
    for (uint64_t i = 0; i < n; i++) put_string(&w->kv, v[i]);
}

void ft_gguf_put_kv(ft_gguf_writer *w, const ft_gguf_kv *kv)
{
    if (ft_str_is(kv->key, "general.alignment") || ft_str_starts(kv->key, FT_STR("split."))) return;
    if (!start_key(w, kv->key.p)) return;
    if (kv->array)
        start_array(w, kv->kind, kv->n);
    else
        put_uint(&w->kv, kv->kind, 4);
    ft_buf_put(&w->kv, kv->data, kv->bytes);
}

bool ft_gguf_has(const ft_gguf_writer *w, const char *key)
{
    return ft_dict_find(&w->keys, ft_str_of(key), NULL);
}

/* ---- tensors ---- */

/* Fills e->n and e->bytes; false (with w->err set) when such a tensor cannot be written. */
static bool describe_tensor(ft_gguf_writer *w, entry *e, const int64_t *n)
{
    const ft_type_info *info = ft_type_of(e->type);
    const ft_str name = ft_str_of(e->name);
    size_t count = 1;
    bool fits = info->name && e->n_dims >= 0 && e->n_dims <= 4;
    for (int i = 0; i < 4; i++) {
        e->n[i] = fits && i < e->n_dims ? n[i] : 1;
        fits = fits && e->n[i] > 0 && ft_mul_size(count, (size_t)e->n[i], &count);
    }
    fits = fits && count <= INT64_MAX / 16;
    if (!fits || !name.n || name.n > MAX_NAME) {
        ft_fail(&w->err, FT_EINVAL,
                "%s: tensor %s of type %s and %lld x %lld x %lld x %lld values cannot be written",
                w->path, ft_show(name).text, ft_type_name(e->type), (long long)e->n[0],
                (long long)e->n[1], (long long)e->n[2], (long long)e->n[3]);
        return false;
    }
    if (e->n[0] % info->elems) {
        ft_fail(&w->err, FT_EINVAL,
                "%s: tensor %s: rows of %lld values, want a multiple of %d (the block of %s)",
                w->path, ft_show(name).text, (long long)e->n[0], info->elems, info->name);
        return false;
    }
    e->bytes = count / info->elems * info->bytes;
    return true;
}

size_t ft_gguf_put_tensor(ft_gguf_writer *w, const char *name, ft_type t, int n_dims,
                          const int64_t *n)
{
    assert(!w->begun);
    if (w->n_tensor == w->cap_tensor) {
        w->cap_tensor = w->cap_tensor ? w->cap_tensor * 2 : 64;
        w->tensor = ft_realloc(w->tensor, w->cap_tensor * sizeof *w->tensor);
    }
    entry *e = &w->tensor[w->n_tensor];
    *e = (entry){.name = ft_strdup(name), .type = t, .n_dims = n_dims};
    if (!w->err.code && describe_tensor(w, e, n)) {
        e->at = w->data_bytes;
        w->data_bytes += ft_round_up(e->bytes, ALIGN);
        if (!ft_dict_put(&w->names, ft_str_of(e->name), (uint32_t)w->n_tensor))
            ft_fail(&w->err, FT_EINVAL, "%s: tensor %s written twice", w->path,
                    ft_show(ft_str_of(name)).text);
    }
    return w->n_tensor++;
}

size_t ft_gguf_writer_tensor_bytes(const ft_gguf_writer *w, size_t tensor)
{
    assert(tensor < w->n_tensor);
    return w->tensor[tensor].bytes;
}

/* ---- writing ---- */

ft_status ft_gguf_writer_begin(ft_gguf_writer *w, ft_err *err)
{
    assert(!w->begun);
    if (!w->err.code && w->kv.full)
        ft_fail(&w->err, FT_ELIMIT, "%s: the keys take more than 2 GiB", w->path);
    if (w->err.code) {
        if (err) *err = w->err;
        return w->err.code;
    }
    w->begun = true;
    ft_buf b;
    ft_buf_init(&b, (size_t)1 << 30);
    ft_buf_put(&b, "GGUF", 4);
    put_uint(&b, 3, 4);
    put_uint(&b, w->n_tensor, 8);
    put_uint(&b, w->n_kv, 8);
    ft_out_write(w->out, b.data, b.len);
    ft_out_write(w->out, ft_buf_z(&w->kv), w->kv.len);
    ft_buf_release(&w->kv);
    ft_buf_clear(&b);
    for (size_t i = 0; i < w->n_tensor; i++) {
        const entry *e = &w->tensor[i];
        put_string(&b, ft_str_of(e->name));
        put_uint(&b, (uint64_t)e->n_dims, 4);
        for (int d = 0; d < e->n_dims; d++) put_uint(&b, (uint64_t)e->n[d], 8);
        put_uint(&b, e->type, 4);
        put_uint(&b, e->at, 8);
    }
    const uint64_t end = ft_out_size(w->out) + b.len;
    while (w->n_tensor && (ft_out_size(w->out) + b.len) % ALIGN) ft_buf_putc(&b, 0);
    ft_out_write(w->out, ft_buf_z(&b), b.len);
    ft_buf_release(&b);
    w->data_at = ft_out_size(w->out);
    assert(w->data_at - end < ALIGN);
    ft_out_grow(w->out, w->data_bytes);
    w->file_bytes = w->data_at + w->data_bytes;
    return FT_OK;
}

uint64_t ft_gguf_writer_file_bytes(const ft_gguf_writer *w)
{
    return w->file_bytes;
}

void ft_gguf_writer_data(ft_gguf_writer *w, size_t tensor, size_t offset, const void *p, size_t n)
{
    assert(w->begun && tensor < w->n_tensor);
    const entry *e = &w->tensor[tensor];
    assert(offset <= e->bytes && n <= e->bytes - offset);
    ft_out_write_at(w->out, w->data_at + e->at + offset, p, n);
}

static void writer_free(ft_gguf_writer *w)
{
    for (size_t i = 0; i < w->n_kv; i++) ft_free(w->key[i]);
    for (size_t i = 0; i < w->n_tensor; i++) ft_free(w->tensor[i].name);
    ft_free(w->key);
    ft_free(w->tensor);
    ft_dict_release(&w->keys);
    ft_dict_release(&w->names);
    ft_buf_release(&w->kv);
    ft_free(w->path);
    ft_free(w);
}

ft_status ft_gguf_writer_commit(ft_gguf_writer *w, ft_err *err)
{
    ft_status st = w->err.code;
    if (st) {
        if (err) *err = w->err;
        ft_out_abort(w->out);
    } else {
        assert(w->begun);
        st = ft_out_commit(w->out, err);
    }
    writer_free(w);
    return st;
}

void ft_gguf_writer_abort(ft_gguf_writer *w)
{
    if (!w) return;
    ft_out_abort(w->out);
    writer_free(w);
}
