/* tools/inspect.c - writes the report about a GGUF file: keys, tensors, architecture and memory
 * use, as text or JSON. */
#include "tools/inspect.h"

#include "base/mem.h"
#include "base/pool.h"
#include "base/utf8.h"
#include "gguf/gguf.h"
#include "gguf/show.h"
#include "quant/quant.h"
#include "tools/inspect_facts.h"

#include <jansson.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { FEW = 6, LONG_TEXT = 60 };

static const char *const kind_name[] = {"u8",   "i8",  "u16", "i16", "u32", "i32", "f32",
                                        "bool", "str", "arr", "u64", "i64", "f64"};

/* ---- sums per type ---- */

typedef struct per_type {
    size_t tensors;
    uint64_t bytes;
    double values;
} per_type;

static void sum_types(per_type sums[FT_TYPE_MAX], const ft_gguf *g)
{
    memset(sums, 0, FT_TYPE_MAX * sizeof *sums);
    for (size_t i = 0; i < ft_gguf_n_tensor(g); i++) {
        const ft_gguf_tensor *t = ft_gguf_tensor_at(g, i);
        sums[t->type].tensors++;
        sums[t->type].bytes += t->bytes;
        sums[t->type].values +=
            (double)t->n[0] * (double)t->n[1] * (double)t->n[2] * (double)t->n[3];
    }
}

/* ---- text ---- */

static void put_quoted(ft_buf *b, ft_str s)
{
    ft_buf_putc(b, '"');
    size_t i = 0;
    while (i < s.n && i < LONG_TEXT) {
        int len;
        const uint32_t c = ft_utf8_decode(s.p + i, s.n - i, &len);
        if (c == FT_UTF8_BAD || c < 32 || (c >= 127 && c < 160))
            ft_buf_printf(b, "\\x%02x", (unsigned)(unsigned char)s.p[i]);
        else
            ft_buf_put(b, s.p + i, (size_t)len);
        i += (size_t)len;
    }
    ft_buf_puts(b, i < s.n ? "\"..." : "\"");
}

static void put_element(ft_buf *b, const ft_gguf_kv *kv, uint64_t i)
{
    int64_t v;
    double f;
    ft_str s;
    if (ft_gguf_kv_str(kv, i, &s))
        put_quoted(b, s);
    else if (kv->kind == FT_GGUF_BOOL && ft_gguf_kv_i64(kv, i, &v))
        ft_buf_puts(b, v ? "true" : "false");
    else if (ft_gguf_kv_i64(kv, i, &v))
        ft_buf_printf(b, "%lld", (long long)v);
    else if (ft_gguf_kv_f64(kv, i, &f))
        ft_buf_printf(b, "%.7g", f);
}

static void put_key(ft_buf *b, const ft_gguf_kv *kv)
{
    ft_buf_printf(b, "  %s = ", ft_show(kv->key).text);
    if (!kv->array) {
        put_element(b, kv, 0);
        ft_buf_putc(b, '\n');
        return;
    }
    ft_buf_printf(b, "[%llu %s: ", (unsigned long long)kv->n, kind_name[kv->kind]);
    for (uint64_t i = 0; i < kv->n && i < FEW; i++) {
        if (i) ft_buf_puts(b, ", ");
        put_element(b, kv, i);
    }
    ft_buf_puts(b, kv->n > FEW ? ", ...]\n" : "]\n");
}

static void put_shape(ft_buf *b, const ft_gguf_tensor *t)
{
    char shape[96] = "";
    size_t n = 0;
    for (int i = 0; i < t->n_dims; i++)
        n += (size_t)snprintf(shape + n, sizeof shape - n, "%s%lld", i ? " x " : "",
                              (long long)t->n[i]);
    ft_buf_printf(b, "%-24s", shape);
}

static char *human(char out[24], double bytes)
{
    return ft_human_bytes(out, bytes < 0x1p63 ? (uint64_t)bytes : UINT64_MAX);
}

static void put_memory(ft_buf *b, const ft_facts *f, uint32_t ctx)
{
    char size[24];
    ft_buf_printf(b, "memory at %u tokens, one sequence: weights %s", ctx, human(size, f->weights));
    if (f->memory_known) {
        ft_buf_printf(b, ", KV at f16 %s", human(size, f->kv));
        if (f->state > 0) ft_buf_printf(b, ", recurrent state %s", human(size, f->state));
        if (f->mtp_kv > 0) ft_buf_printf(b, ", MTP KV %s", human(size, f->mtp_kv));
        ft_buf_printf(b, ", total %s", human(size, f->weights + f->kv + f->state + f->mtp_kv));
        if (f->memory_note[0]) ft_buf_printf(b, " (%s)", f->memory_note);
    } else {
        ft_buf_puts(b, ", cache unknown");
    }
    ft_buf_putc(b, '\n');
}

static void put_types(ft_buf *b, const ft_gguf *g)
{
    per_type sums[FT_TYPE_MAX];
    char size[24];
    sum_types(sums, g);
    ft_buf_puts(b, "\ntypes:\n");
    for (uint32_t t = 0; t < FT_TYPE_MAX; t++)
        if (sums[t].tensors)
            ft_buf_printf(b, "  %-8s %6zu tensors  %10.4g million values  %s\n", ft_type_name(t),
                          sums[t].tensors, sums[t].values * 1e-6,
                          ft_human_bytes(size, sums[t].bytes));
}

static void put_text(ft_buf *b, const ft_gguf *g, const ft_facts *f, const ft_inspect_opts *o)
{
    char size[24];
    ft_str name;
    ft_buf_printf(b, "%s: %s, GGUF version %u, %zu keys, %zu tensors\n", o->path,
                  ft_human_bytes(size, ft_gguf_file_bytes(g)), ft_gguf_version(g), ft_gguf_n_kv(g),
                  ft_gguf_n_tensor(g));
    if (ft_gguf_str(g, "general.name", &name)) ft_buf_printf(b, "name: %s\n", ft_show(name).text);
    ft_buf_printf(b, "architecture: %s\n", f->words);
    ft_buf_printf(b, "drafter: %s\n", f->drafter);
    put_memory(b, f, o->ctx);
    for (const char *p = ft_buf_z(&f->warnings); *p;) {
        const size_t n = strcspn(p, "\n");
        ft_buf_printf(b, "warning: %.*s\n", (int)n, p);
        p += n + 1;
    }
    put_types(b, g);
    ft_buf_puts(b, "\nkeys:\n");
    for (size_t i = 0; i < ft_gguf_n_kv(g); i++) put_key(b, ft_gguf_kv_at(g, i));
    ft_buf_puts(b, "\ntensors:\n");
    for (size_t i = 0; i < ft_gguf_n_tensor(g); i++) {
        const ft_gguf_tensor *t = ft_gguf_tensor_at(g, i);
        ft_buf_printf(b, "  %-44s %-8s ", ft_show(t->name).text, ft_type_name(t->type));
        put_shape(b, t);
        ft_buf_printf(b, " %s\n", ft_human_bytes(size, t->bytes));
    }
}

/* ---- JSON ---- */

/* A string of the file as JSON; invalid UTF-8 is replaced. */
static json_t *text_json(ft_str s)
{
    ft_buf b;
    ft_buf_init(&b, s.n * 3 + 1);
    for (size_t i = 0; i < s.n;) {
        int len;
        const uint32_t c = ft_utf8_decode(s.p + i, s.n - i, &len);
        if (c == FT_UTF8_BAD)
            ft_buf_puts(&b, "\xef\xbf\xbd");
        else
            ft_buf_put(&b, s.p + i, (size_t)len);
        i += (size_t)len;
    }
    json_t *j = json_stringn(ft_buf_z(&b), b.len);
    ft_buf_release(&b);
    return j;
}

static json_t *element_json(const ft_gguf_kv *kv, uint64_t i)
{
    int64_t v;
    double f;
    ft_str s;
    if (ft_gguf_kv_str(kv, i, &s)) return text_json(s);
    if (ft_gguf_kv_i64(kv, i, &v))
        return kv->kind == FT_GGUF_BOOL ? json_boolean(v != 0) : json_integer(v);
    if (ft_gguf_kv_f64(kv, i, &f) && isfinite(f)) return json_real(f);
    return json_null();
}

static json_t *keys_json(const ft_gguf *g)
{
    json_t *keys = json_object();
    for (size_t i = 0; i < ft_gguf_n_kv(g); i++) {
        const ft_gguf_kv *kv = ft_gguf_kv_at(g, i);
        json_t *v;
        if (kv->array) {
            json_t *first = json_array();
            for (uint64_t k = 0; k < kv->n && k < FEW; k++)
                json_array_append_new(first, element_json(kv, k));
            v = json_pack("{s:s, s:I, s:o}", "array_of", kind_name[kv->kind], "count",
                          (json_int_t)kv->n, "first", first);
        } else {
            v = element_json(kv, 0);
        }
        json_t *name = text_json(kv->key);
        json_object_set_new(keys, json_string_value(name), v);
        json_decref(name);
    }
    return keys;
}

static json_t *tensors_json(const ft_gguf *g)
{
    json_t *all = json_array();
    for (size_t i = 0; i < ft_gguf_n_tensor(g); i++) {
        const ft_gguf_tensor *t = ft_gguf_tensor_at(g, i);
        json_t *shape = json_array();
        for (int k = 0; k < t->n_dims; k++) json_array_append_new(shape, json_integer(t->n[k]));
        json_array_append_new(all, json_pack("{s:o, s:s, s:o, s:I}", "name", text_json(t->name),
                                             "type", ft_type_name(t->type), "shape", shape, "bytes",
                                             (json_int_t)t->bytes));
    }
    return all;
}

static json_t *types_json(const ft_gguf *g)
{
    per_type sums[FT_TYPE_MAX];
    sum_types(sums, g);
    json_t *all = json_array();
    for (uint32_t t = 0; t < FT_TYPE_MAX; t++)
        if (sums[t].tensors)
            json_array_append_new(
                all, json_pack("{s:s, s:i, s:I, s:I, s:f}", "type", ft_type_name(t), "id", (int)t,
                               "tensors", (json_int_t)sums[t].tensors, "bytes",
                               (json_int_t)sums[t].bytes, "values", sums[t].values));
    return all;
}

static json_t *bytes_json(double bytes)
{
    return json_integer(bytes < 0x1p62 ? (json_int_t)bytes : (json_int_t)1 << 62);
}

static json_t *memory_json(const ft_facts *f, uint32_t ctx)
{
    json_t *m = json_pack("{s:I, s:o}", "ctx", (json_int_t)ctx, "weights", bytes_json(f->weights));
    if (!f->memory_known) return m;
    json_object_set_new(m, "kv_f16", bytes_json(f->kv));
    json_object_set_new(m, "recurrent_state", bytes_json(f->state));
    json_object_set_new(m, "mtp_kv_f16", bytes_json(f->mtp_kv));
    json_object_set_new(m, "total", bytes_json(f->weights + f->kv + f->state + f->mtp_kv));
    return m;
}

static void put_json(ft_buf *b, const ft_gguf *g, const ft_facts *f, const ft_inspect_opts *o)
{
    json_t *warnings = json_array();
    for (const char *p = ft_buf_z(&f->warnings); *p;) {
        const size_t n = strcspn(p, "\n");
        json_array_append_new(warnings, json_stringn(p, n));
        p += n + 1;
    }
    json_t *r =
        json_pack("{s:o, s:I, s:i, s:s, s:s, s:s, s:b, s:o, s:o, s:o, s:o, s:o}", "file",
                  text_json(ft_str_of(o->path)), "bytes", (json_int_t)ft_gguf_file_bytes(g),
                  "version", (int)ft_gguf_version(g), "architecture", f->arch, "description",
                  f->words, "drafter", f->drafter, "has_drafter", (int)f->has_drafter, "memory",
                  memory_json(f, o->ctx), "warnings", warnings, "types", types_json(g), "keys",
                  keys_json(g), "tensors", tensors_json(g));
    if (o->caches) json_object_set(r, "caches", o->caches);
    char *text = r ? json_dumps(r, JSON_COMPACT) : NULL;
    if (text) ft_buf_puts(b, text);
    ft_buf_putc(b, '\n');
    free(text);
    json_decref(r);
}

/* ---- check ---- */

typedef struct checker {
    const ft_gguf *g;
    _Atomic size_t bad; /* the first damaged tensor, or SIZE_MAX */
} checker;

static bool finite_tensor(const ft_gguf_tensor *t, size_t *at)
{
    const ft_type_info *info = ft_type_of(t->type);
    return !t->bytes || ft_row_finite(t->type, t->data, t->bytes / info->bytes * info->elems, at);
}

static void check_tensor(void *arg, size_t i)
{
    checker *c = arg;
    if (finite_tensor(ft_gguf_tensor_at(c->g, i), NULL)) return;
    size_t old = atomic_load(&c->bad);
    while (i < old && !atomic_compare_exchange_weak(&c->bad, &old, i)) {
    }
}

static ft_status check_tensors(const ft_gguf *g, int threads, ft_err *err)
{
    checker c = {g, SIZE_MAX};
    ft_pool *p = ft_pool_new(threads, 0);
    ft_pool_each(p, ft_gguf_n_tensor(g), check_tensor, &c);
    ft_pool_free(p);
    if (c.bad == SIZE_MAX) return FT_OK;
    const ft_gguf_tensor *t = ft_gguf_tensor_at(g, c.bad);
    size_t at = 0;
    finite_tensor(t, &at);
    return ft_fail(err, FT_EFORMAT,
                   "%s: tensor %s (%s): the scale of block %zu is not finite: the file is damaged",
                   ft_gguf_path(g), ft_show(t->name).text, ft_type_name(t->type), at);
}

ft_status ft_inspect(ft_buf *out, const ft_inspect_opts *o, ft_err *err)
{
    ft_gguf *g;
    ft_status st = ft_gguf_open(&g, o->path, o->use_mmap, err);
    if (st) return st;
    ft_facts f;
    ft_facts_init(&f, g, o->ctx);
    if (o->json)
        put_json(out, g, &f, o);
    else
        put_text(out, g, &f, o);
    ft_facts_release(&f);
    if (o->check) st = check_tensors(g, o->threads, err);
    if (o->check && !st && !o->json) ft_buf_puts(out, "\ncheck: every scale is finite\n");
    ft_gguf_close(g);
    return st;
}

const char *ft_inspect_type(const char *path)
{
    ft_gguf *g;
    if (ft_gguf_open(&g, path, true, NULL)) return NULL;
    const char *name = ft_type_name(ft_gguf_main_type(g));
    ft_gguf_close(g);
    return name;
}
