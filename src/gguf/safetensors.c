/* gguf/safetensors.c - reads safetensors checkpoints. The size, depth and number of values of the
 * JSON header are limited before it is parsed; every tensor is checked against the bounds of its
 * file before opening succeeds. */
#define _POSIX_C_SOURCE 200809L
#include "gguf/safetensors.h"

#include "base/cursor.h"
#include "base/dict.h"
#include "base/file.h"
#include "base/half.h"
#include "base/mem.h"
#include "gguf/show.h"

#include <assert.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum {
    MAX_HEADER = 100 << 20,
    MAX_DEPTH = 8,
    MAX_VALUES = 16 << 20,
    MAX_SHARDS = 10000,
    MAX_DIMS = 8,
};

typedef struct span {
    size_t at, bytes, tensor;
} span;

typedef struct shard {
    ft_map map;
    json_t *header; /* tensor names are borrowed from it */
} shard;

struct ft_st {
    shard *shard;
    size_t n_shard;
    ft_st_tensor *tensor;
    size_t n, cap;
    ft_dict by_name;
    json_t *index; /* or NULL */
};

/* ---- JSON ---- */

/* Rejects JSON that is nested too deeply or has too many values, before the parser allocates. */
static ft_status bound_json(const char *p, size_t n, ft_err *err)
{
    size_t depth = 0, values = 0;
    bool in_string = false;
    for (size_t i = 0; i < n; i++) {
        if (in_string) {
            if (p[i] == '\\')
                i++;
            else if (p[i] == '"')
                in_string = false;
            continue;
        }
        switch (p[i]) {
        case '"': in_string = true; break;
        case '{':
        case '[':
            if (++depth > MAX_DEPTH)
                return ft_fail(err, FT_ELIMIT, "JSON nested deeper than %d", MAX_DEPTH);
            values++;
            break;
        case '}':
        case ']': depth -= depth > 0; break;
        case ',': values++; break;
        default: break;
        }
    }
    if (values > MAX_VALUES)
        return ft_fail(err, FT_ELIMIT, "JSON of %zu values, want at most %d", values, MAX_VALUES);
    return FT_OK;
}

static ft_status parse_json(json_t **out, const char *p, size_t n, ft_err *err)
{
    const ft_status st = bound_json(p, n, err);
    if (st) return st;
    json_error_t e;
    *out = json_loadb(p, n, JSON_REJECT_DUPLICATES, &e);
    if (!*out)
        return ft_fail(err, FT_EFORMAT, "JSON: %s at byte %d", ft_show(ft_str_of(e.text)).text,
                       e.position);
    if (!json_is_object(*out)) return ft_fail(err, FT_EFORMAT, "JSON: want an object");
    return FT_OK;
}

/* ---- one tensor ---- */

static size_t type_bytes(const char *name, ft_st_type *type)
{
    static const struct {
        const char *name;
        ft_st_type type;
        size_t bytes;
    } known[] = {
        {"F32", FT_ST_F32, 4},       {"F16", FT_ST_F16, 2},       {"BF16", FT_ST_BF16, 2},
        {"I64", FT_ST_I64, 8},       {"F64", FT_ST_OTHER, 8},     {"F8_E4M3", FT_ST_F8_E4M3, 1},
        {"I32", FT_ST_OTHER, 4},     {"I16", FT_ST_OTHER, 2},     {"I8", FT_ST_OTHER, 1},
        {"U64", FT_ST_OTHER, 8},     {"U32", FT_ST_OTHER, 4},     {"U16", FT_ST_OTHER, 2},
        {"U8", FT_ST_OTHER, 1},      {"C64", FT_ST_OTHER, 8},     {"BOOL", FT_ST_OTHER, 1},
        {"F8_E5M2", FT_ST_OTHER, 1}, {"F8_E8M0", FT_ST_OTHER, 1},
    };
    for (size_t i = 0; i < FT_COUNT(known); i++) {
        if (strcmp(known[i].name, name) != 0) continue;
        *type = known[i].type;
        return known[i].bytes;
    }
    *type = FT_ST_OTHER;
    return 0; /* unknown: its size cannot be checked and its values cannot be read */
}

static ft_status read_shape(ft_st_tensor *t, const json_t *shape, ft_err *err)
{
    if (!json_is_array(shape) || json_array_size(shape) > MAX_DIMS)
        return ft_fail(err, FT_EFORMAT, "shape: want an array of at most %d numbers", MAX_DIMS);
    t->n_dims = (int)json_array_size(shape);
    int64_t bound = 1; /* zeros count as one, so that they do not hide an overflow */
    bool empty = false;
    for (int i = 0; i < t->n_dims; i++) {
        const json_t *v = json_array_get(shape, (size_t)i);
        if (!json_is_integer(v) || json_integer_value(v) < 0)
            return ft_fail(err, FT_EFORMAT, "shape: entry %d is not a number >= 0", i);
        t->shape[i] = json_integer_value(v);
        empty = empty || t->shape[i] == 0;
        if (__builtin_mul_overflow(bound, FT_MAX(t->shape[i], (int64_t)1), &bound))
            return ft_fail(err, FT_EFORMAT, "shape: more values than 63 bits can count");
    }
    t->count = empty ? 0 : bound;
    return FT_OK;
}

static ft_status read_offsets(const json_t *pair, size_t data_bytes, span *s, ft_err *err)
{
    const json_t *a = json_array_get(pair, 0), *b = json_array_get(pair, 1);
    if (json_array_size(pair) != 2 || !json_is_integer(a) || !json_is_integer(b))
        return ft_fail(err, FT_EFORMAT, "data_offsets: want two numbers");
    const json_int_t from = json_integer_value(a), to = json_integer_value(b);
    if (from < 0 || to < from || (uint64_t)to > data_bytes)
        return ft_fail(err, FT_EFORMAT, "data_offsets: %lld to %lld, want a range within 0 to %zu",
                       (long long)from, (long long)to, data_bytes);
    s->at = (size_t)from;
    s->bytes = (size_t)(to - from);
    return FT_OK;
}

static ft_status read_tensor(ft_st_tensor *t, const json_t *v, const unsigned char *data,
                             size_t data_bytes, span *s, ft_err *err)
{
    const char *dtype = json_string_value(json_object_get(v, "dtype"));
    if (!dtype) return ft_fail(err, FT_EFORMAT, "dtype: want a string");
    ft_status st;
    if ((st = read_shape(t, json_object_get(v, "shape"), err))) return st;
    if ((st = read_offsets(json_object_get(v, "data_offsets"), data_bytes, s, err))) return st;
    const size_t each = type_bytes(dtype, &t->type);
    snprintf(t->type_name, sizeof t->type_name, "%.11s", ft_show(ft_str_of(dtype)).text);
    size_t want;
    if (each && (!ft_mul_size((size_t)t->count, each, &want) || want != s->bytes))
        return ft_fail(err, FT_EFORMAT, "%zu bytes for %lld values of %s, want %zu each", s->bytes,
                       (long long)t->count, t->type_name, each);
    t->bytes = s->bytes;
    t->data = data + s->at;
    return FT_OK;
}

/* ---- one file ---- */

static int span_order(const void *pa, const void *pb)
{
    const span *a = pa, *b = pb;
    if (a->at != b->at) return a->at < b->at ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    return a->tensor < b->tensor ? -1 : a->tensor > b->tensor;
}

/* All tensors of a file, sorted by data offset, without overlaps. */
typedef struct directory {
    ft_st_tensor *tensor;
    size_t n;
} directory;

static ft_status order_tensors(directory *d, const span *s, ft_err *err)
{
    ft_st_tensor *sorted = ft_new_n(ft_st_tensor, FT_MAX(d->n, (size_t)1));
    ft_status st = FT_OK;
    for (size_t i = 0; i < d->n && !st; i++) {
        sorted[i] = d->tensor[s[i].tensor];
        if (i + 1 < d->n && s[i].bytes > s[i + 1].at - s[i].at)
            st = ft_fail(err, FT_EFORMAT, "tensor %s overlaps tensor %s",
                         ft_show(sorted[i].name).text,
                         ft_show(d->tensor[s[i + 1].tensor].name).text);
    }
    ft_free(d->tensor);
    d->tensor = sorted;
    return st;
}

static ft_status read_directory(directory *d, json_t *header, const unsigned char *data,
                                size_t data_bytes, ft_err *err)
{
    const size_t max = json_object_size(header);
    d->tensor = ft_new_n(ft_st_tensor, FT_MAX(max, (size_t)1));
    span *s = ft_new_n(span, FT_MAX(max, (size_t)1));
    ft_status st = FT_OK;
    for (void *it = json_object_iter(header); it && !st; it = json_object_iter_next(header, it)) {
        const char *name = json_object_iter_key(it);
        if (!strcmp(name, "__metadata__")) continue;
        ft_st_tensor *t = &d->tensor[d->n];
        t->name = ft_str_of(name);
        s[d->n].tensor = d->n;
        st = read_tensor(t, json_object_iter_value(it), data, data_bytes, &s[d->n], err);
        if (st) ft_err_prefix(err, "tensor %s", ft_show(t->name).text);
        d->n++;
    }
    if (!st) {
        qsort(s, d->n, sizeof *s, span_order);
        st = order_tensors(d, s, err);
    }
    ft_free(s);
    return st;
}

/* The caller releases *header, also on failure. */
static ft_status read_file(directory *d, json_t **header, const void *p, size_t n, ft_err *err)
{
    ft_cursor c = ft_cursor_over(p, n);
    const uint64_t len = ft_cursor_u64(&c);
    if (c.short_read)
        return ft_fail(err, FT_EFORMAT, "%zu bytes, want at least 8 for a safetensors header", n);
    if (len > MAX_HEADER || len > ft_cursor_left(&c))
        return ft_fail(err, FT_EFORMAT,
                       "not a safetensors file: a header of %llu bytes, want at most %zu",
                       (unsigned long long)len, FT_MIN(ft_cursor_left(&c), (size_t)MAX_HEADER));
    const char *text = ft_cursor_bytes(&c, (size_t)len);
    const ft_status st = parse_json(header, text, (size_t)len, err);
    if (st) return st;
    return read_directory(d, *header, c.p + c.pos, ft_cursor_left(&c), err);
}

static void add_tensor(ft_st *s, const ft_st_tensor *t)
{
    if (s->n == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 64;
        s->tensor = ft_realloc(s->tensor, s->cap * sizeof *s->tensor);
    }
    s->tensor[s->n] = *t;
    const bool is_new = ft_dict_put(&s->by_name, t->name, (uint32_t)s->n);
    assert(is_new); /* one file's keys are distinct, an index names each tensor once */
    (void)is_new;
    s->n++;
}

static ft_status open_shard(shard *h, directory *d, const char *path, ft_err *err)
{
    ft_status st = ft_map_open(&h->map, path, true, err);
    if (st) return st;
    st = read_file(d, &h->header, h->map.data, h->map.bytes, err);
    if (st) ft_err_prefix(err, "%s", path);
    return st;
}

static ft_status open_single(ft_st *s, const char *path, ft_err *err)
{
    s->shard = ft_new(shard);
    s->n_shard = 1;
    directory d = {0};
    const ft_status st = open_shard(s->shard, &d, path, err);
    for (size_t i = 0; i < d.n && !st; i++) add_tensor(s, &d.tensor[i]);
    ft_free(d.tensor);
    return st;
}

/* ---- an index and its shards ---- */

/* The folder of path with its slash, or "" */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    const size_t n = slash ? (size_t)(slash - path) + 1 : 0;
    char *z = ft_alloc(n + 1);
    memcpy(z, path, n);
    return z;
}

static char *join_path(const char *a, const char *b)
{
    const size_t n = strlen(a) + strlen(b) + 1;
    char *z = ft_alloc(n);
    snprintf(z, n, "%s%s", a, b);
    return z;
}

static ft_status list_shards(json_t *map, ft_dict *files, ft_err *err)
{
    for (void *it = json_object_iter(map); it; it = json_object_iter_next(map, it)) {
        const char *tensor = json_object_iter_key(it);
        const char *file = json_string_value(json_object_iter_value(it));
        if (!file)
            return ft_fail(err, FT_EFORMAT, "weight_map: tensor %s: want a file name",
                           ft_show(ft_str_of(tensor)).text);
        if (!*file || strchr(file, '/') || !strcmp(file, ".") || !strcmp(file, ".."))
            return ft_fail(err, FT_EFORMAT,
                           "weight_map: shard \"%s\", want the name of a file beside the index",
                           ft_show(ft_str_of(file)).text);
        ft_dict_put(files, ft_str_of(file), (uint32_t)files->n);
        if (files->n > MAX_SHARDS)
            return ft_fail(err, FT_ELIMIT, "weight_map: more than %d shards", MAX_SHARDS);
    }
    return FT_OK;
}

/* Adds the tensors that the index assigns to this shard. */
static ft_status add_shard(ft_st *s, json_t *map, const char *file, const char *path, size_t *taken,
                           ft_err *err)
{
    directory d = {0};
    const ft_status st = open_shard(&s->shard[s->n_shard++], &d, path, err);
    for (size_t i = 0; i < d.n && !st; i++) {
        const char *wanted = json_string_value(json_object_get(map, d.tensor[i].name.p));
        if (!wanted || strcmp(wanted, file) != 0) continue;
        add_tensor(s, &d.tensor[i]);
        ++*taken;
    }
    ft_free(d.tensor);
    return st;
}

static ft_status open_shards(ft_st *s, json_t *map, const char *folder, ft_err *err)
{
    ft_dict files;
    ft_dict_init(&files);
    ft_status st = list_shards(map, &files, err);
    s->shard = ft_new_n(shard, FT_MAX(files.n, (size_t)1));
    size_t taken = 0;
    for (size_t i = 0; i < files.n && !st; i++) {
        char *path = join_path(folder, files.key[i].p);
        st = add_shard(s, map, files.key[i].p, path, &taken, err);
        ft_free(path);
    }
    ft_dict_release(&files);
    if (st || taken == json_object_size(map)) return st;
    for (void *it = json_object_iter(map); it; it = json_object_iter_next(map, it)) {
        const char *name = json_object_iter_key(it);
        if (ft_st_tensor_find(s, name)) continue;
        return ft_fail(err, FT_EFORMAT, "tensor %s is not in its shard %s",
                       ft_show(ft_str_of(name)).text,
                       ft_show(ft_str_of(json_string_value(json_object_iter_value(it)))).text);
    }
    return FT_OK;
}

static ft_status open_index(ft_st *s, const char *path, ft_err *err)
{
    ft_map m;
    ft_status st = ft_map_open(&m, path, true, err);
    if (st) return st;
    if (m.bytes > MAX_HEADER)
        st = ft_fail(err, FT_ELIMIT, "an index of %zu bytes, want at most %d", m.bytes, MAX_HEADER);
    if (!st) st = parse_json(&s->index, (const char *)m.data, m.bytes, err);
    ft_map_close(&m);
    json_t *map = json_object_get(s->index, "weight_map");
    if (!st && !json_is_object(map))
        st = ft_fail(err, FT_EFORMAT, "no weight_map, want one in an index of shards");
    if (!st) {
        char *folder = folder_of(path);
        st = open_shards(s, map, folder, err);
        ft_free(folder);
    }
    if (st) ft_err_prefix(err, "%s", path);
    return st;
}

static ft_status open_folder(ft_st *s, const char *path, ft_err *err)
{
    static const char *const names[] = {"/model.safetensors.index.json", "/model.safetensors"};
    for (size_t i = 0; i < FT_COUNT(names); i++) {
        char *file = join_path(path, names[i]);
        const bool there = ft_file_exists(file);
        ft_status st = FT_OK;
        if (there) st = i ? open_single(s, file, err) : open_index(s, file, err);
        ft_free(file);
        if (there) return st;
    }
    return ft_fail(err, FT_ENOTFOUND,
                   "%s: a folder with neither model.safetensors.index.json nor model.safetensors",
                   path);
}

/* ---- open and close ---- */

ft_status ft_st_open(ft_st **out, const char *path, ft_err *err)
{
    ft_st *s = ft_new(ft_st);
    struct stat info;
    ft_status st;
    if (stat(path, &info))
        st = ft_fail_errno(err, "%s", path);
    else if (S_ISDIR(info.st_mode))
        st = open_folder(s, path, err);
    else if (ft_str_ends(ft_str_of(path), FT_STR(".json")))
        st = open_index(s, path, err);
    else
        st = open_single(s, path, err);
    if (st) {
        ft_st_close(s);
        return st;
    }
    *out = s;
    return FT_OK;
}

ft_status ft_st_open_memory(ft_st **out, const void *p, size_t n, ft_err *err)
{
    ft_st *s = ft_new(ft_st);
    s->shard = ft_new(shard);
    s->n_shard = 1;
    directory d = {0};
    const ft_status st = read_file(&d, &s->shard->header, p, n, err);
    for (size_t i = 0; i < d.n && !st; i++) add_tensor(s, &d.tensor[i]);
    ft_free(d.tensor);
    if (st) {
        ft_st_close(s);
        return st;
    }
    *out = s;
    return FT_OK;
}

void ft_st_close(ft_st *s)
{
    if (!s) return;
    for (size_t i = 0; i < s->n_shard; i++) {
        ft_map_close(&s->shard[i].map);
        json_decref(s->shard[i].header);
    }
    ft_free(s->shard);
    ft_free(s->tensor);
    ft_dict_release(&s->by_name);
    json_decref(s->index);
    ft_free(s);
}

/* ---- accessors ---- */

size_t ft_st_n_tensor(const ft_st *s)
{
    return s->n;
}

const ft_st_tensor *ft_st_tensor_at(const ft_st *s, size_t i)
{
    return i < s->n ? &s->tensor[i] : NULL;
}

const ft_st_tensor *ft_st_tensor_find(const ft_st *s, const char *name)
{
    uint32_t i;
    return ft_dict_find(&s->by_name, ft_str_of(name), &i) ? &s->tensor[i] : NULL;
}

/* E4M3 (the "FN" variant): no infinities; exponent and mantissa all ones is NaN. */
static float e4m3_to_f32(unsigned char b)
{
    const int e = (b >> 3) & 15, m = b & 7;
    float v;
    if ((b & 0x7f) == 0x7f)
        v = NAN;
    else
        v = e ? ldexpf((float)(8 + m), e - 10) : ldexpf((float)m, -9);
    return b & 0x80 ? -v : v;
}

static uint16_t load16(const unsigned char *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

void ft_st_read_f32(const ft_st_tensor *t, int64_t first, int64_t n, float *out)
{
    assert(first >= 0 && n >= 0 && first <= t->count && n <= t->count - first);
    assert(t->type != FT_ST_OTHER);
    const unsigned char *p = t->data;
    const size_t from = (size_t)first, end = (size_t)n;
    int64_t v;
    switch (t->type) {
    case FT_ST_F32: memcpy(out, p + from * 4, end * 4); break;
    case FT_ST_F16:
        for (size_t i = 0; i < end; i++) out[i] = ft_f16_to_f32(load16(p + (from + i) * 2));
        break;
    case FT_ST_BF16:
        for (size_t i = 0; i < end; i++) out[i] = ft_bf16_to_f32(load16(p + (from + i) * 2));
        break;
    case FT_ST_F8_E4M3:
        for (size_t i = 0; i < end; i++) out[i] = e4m3_to_f32(p[from + i]);
        break;
    case FT_ST_I64:
        for (size_t i = 0; i < end; i++) {
            memcpy(&v, p + (from + i) * 8, 8);
            out[i] = (float)v;
        }
        break;
    case FT_ST_OTHER: break;
    }
}
