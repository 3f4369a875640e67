#define _GNU_SOURCE
#include "model/bind.h"

#include "base/half.h"
#include "base/mem.h"
#include "quant/quant.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

void ft_bind_fail(ft_binder *b, ft_status st, const char *fmt, ...)
{
    if (b->st) return;
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    b->st = ft_fail(b->err, st, "%s", text);
}

ft_binder ft_binder_over(ft_model *m, ft_err *err)
{
    ft_binder b = {.m = m, .err = err};
    ft_str arch;
    if (ft_gguf_str(m->file, "general.architecture", &arch) && arch.n < sizeof b.prefix)
        memcpy(b.prefix, arch.p, arch.n);
    return b;
}

/* ---- keys ---- */

static const ft_gguf_kv *find_key(const ft_binder *b, const char *key, char full[96])
{
    snprintf(full, 96, "%s.%s", b->prefix, key);
    return ft_gguf_kv_find(b->m->file, full);
}

static int checked(ft_binder *b, const ft_gguf_kv *kv, uint64_t i, const char *full, int def,
                   int lo, int hi)
{
    int64_t v;
    if (!ft_gguf_kv_i64(kv, i, &v)) {
        ft_bind_fail(b, FT_EFORMAT, "key %s is not a whole number", full);
        return def;
    }
    if (v < lo || v > hi) {
        ft_bind_fail(b, FT_EFORMAT, "key %s is %lld, want %d to %d", full, (long long)v, lo, hi);
        return def;
    }
    return (int)v;
}

int ft_key(ft_binder *b, const char *key, int def, int lo, int hi)
{
    char full[96];
    const ft_gguf_kv *kv = find_key(b, key, full);
    if (!kv) return def;
    if (kv->array) {
        ft_bind_fail(b, FT_EFORMAT, "key %s is an array, want one number", full);
        return def;
    }
    return checked(b, kv, 0, full, def, lo, hi);
}

int ft_key_need(ft_binder *b, const char *key, int lo, int hi)
{
    char full[96];
    if (!find_key(b, key, full)) {
        ft_bind_fail(b, FT_EFORMAT, "key %s is missing", full);
        return lo;
    }
    return ft_key(b, key, lo, lo, hi);
}

float ft_key_f32(ft_binder *b, const char *key, float def)
{
    char full[96];
    double v;
    const ft_gguf_kv *kv = find_key(b, key, full);
    if (!kv) return def;
    if (kv->array || !ft_gguf_kv_f64(kv, 0, &v) || !isfinite(v)) {
        ft_bind_fail(b, FT_EFORMAT, "key %s is not a finite number", full);
        return def;
    }
    return (float)v;
}

bool ft_key_bool(ft_binder *b, const char *key, bool def)
{
    return ft_key(b, key, def, 0, 1) != 0;
}

int ft_key_layer(ft_binder *b, const char *key, int l, int layers, int def, int lo, int hi)
{
    char full[96];
    const ft_gguf_kv *kv = find_key(b, key, full);
    if (!kv) return def;
    if (!kv->array) return checked(b, kv, 0, full, def, lo, hi);
    if (kv->n < (uint64_t)layers) {
        ft_bind_fail(b, FT_EFORMAT, "key %s has %llu entries, want one for each of %d layers", full,
                     (unsigned long long)kv->n, layers);
        return def;
    }
    return checked(b, kv, (uint64_t)l, full, def, lo, hi);
}

ft_str ft_key_str(ft_binder *b, const char *key, const char *def)
{
    char full[96];
    ft_str s;
    const ft_gguf_kv *kv = find_key(b, key, full);
    return kv && ft_gguf_kv_str(kv, 0, &s) ? s : ft_str_of(def);
}

/* ---- tensors ---- */

static void *add_memory(ft_binder *b, void *p)
{
    ft_model *m = b->m;
    m->memory = ft_realloc(m->memory, sizeof *m->memory * (size_t)(m->n_memory + 1));
    return m->memory[m->n_memory++] = p;
}

const void *ft_bind_table(ft_binder *b, const void *host, size_t bytes)
{
    ft_dev *d = b->m->dev;
    void *p = d->alloc(d, bytes);
    if (!p) {
        ft_bind_fail(b, FT_ENOMEM, "no device memory for %zu bytes of tables", bytes);
        return NULL;
    }
    d->upload(d, p, host, bytes);
    b->m->table_bytes += bytes;
    return add_memory(b, p);
}

static bool shape_is(const ft_gguf_tensor *t, int64_t a, int64_t c, int64_t e)
{
    return t->n[0] == a && t->n[1] == c && t->n[2] == e && t->n[3] == 1;
}

static bool wrong_shape(ft_binder *b, const ft_gguf_tensor *t, int64_t a, int64_t c, int64_t e)
{
    if (shape_is(t, a, c, e)) return false;
    if (b->flat && t->n[0] * t->n[1] * t->n[2] == a && t->n[3] == c) return false;
    ft_bind_fail(b, FT_EFORMAT, "tensor %s is [%lld, %lld, %lld, %lld], want [%lld, %lld, %lld, 1]",
                 t->name.p, (long long)t->n[0], (long long)t->n[1], (long long)t->n[2],
                 (long long)t->n[3], (long long)a, (long long)c, (long long)e);
    return true;
}

/* Decodes a whole small tensor to f32, every value times factor, and checks that it is finite. */
static float *decode(ft_binder *b, const ft_gguf_tensor *t, size_t n, float factor)
{
    float *f = ft_new_n(float, n);
    ft_row_decode(t->type, f, t->data, n);
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(f[i]))
            ft_bind_fail(b, FT_EFORMAT, "tensor %s: value %zu is not finite", t->name.p, i);
        f[i] *= factor;
    }
    return f;
}

static const float *vec_on_device(ft_binder *b, const ft_gguf_tensor *t, int n, float factor)
{
    float *f = decode(b, t, (size_t)n, factor);
    ft_dev_alloc_for(b->m->dev, t->name.p);
    const float *p = ft_bind_table(b, f, (size_t)n * sizeof(float));
    ft_free(f);
    return p;
}

/* The tensor `tail` in place of the last bytes of a name, which are `end`; NULL: there is none. */
static const ft_gguf_tensor *sibling(const ft_gguf *file, ft_str name, ft_str end, const char *tail)
{
    char other[96];
    if (!ft_str_ends(name, end)) return NULL;
    snprintf(other, sizeof other, "%.*s%s", (int)(name.n - end.n), name.p, tail);
    return ft_gguf_tensor_find(file, other);
}

#define UP      FT_STR("ffn_up_exps.scale")
#define GATE_UP FT_STR("ffn_gate_up_exps.weight")

/* Factors on the products of a matrix. Those of fused gate and up matrices have the name of the up
 * matrices, as in llama.cpp. */
static void bind_scale(ft_binder *b, ft_weight *w, const char *name, int E)
{
    const ft_str matrix = ft_str_of(name);
    const ft_gguf_tensor *t = sibling(b->m->file, matrix, FT_STR(".weight"), ".scale");
    if (!t) t = sibling(b->m->file, matrix, GATE_UP, UP.p);
    /* ffn_gate_inp.scale of Gemma is a vector over inputs, not a factor on outputs */
    if (!t || ft_str_ends(t->name, FT_STR(".ffn_gate_inp.scale"))) return;
    if (!wrong_shape(b, t, E, 1, 1)) w->scale = vec_on_device(b, t, E, 1);
}

ft_status ft_bind_check_scales(const ft_gguf *file, ft_err *err)
{
    for (size_t i = 0; i < ft_gguf_n_tensor(file); i++) {
        const ft_str name = ft_gguf_tensor_at(file, i)->name;
        if (!ft_str_ends(name, FT_STR(".scale")) ||
            sibling(file, name, FT_STR(".scale"), ".weight") || sibling(file, name, UP, GATE_UP.p))
            continue;
        return ft_fail(err, FT_EFORMAT, "tensor %s belongs to a matrix that is missing", name.p);
    }
    return FT_OK;
}

static bool bind_any(ft_binder *b, ft_weight *w, int E, int n, int k, bool need, const char *name)
{
    *w = (ft_weight){0};
    const ft_gguf_tensor *t = ft_gguf_tensor_find(b->m->file, name);
    if (!t) {
        if (need) ft_bind_fail(b, FT_EFORMAT, "tensor %s is missing", name);
        return false;
    }
    if (b->st || wrong_shape(b, t, k, n, E ? E : 1)) return true;
    if (!ft_type_of(t->type)->name || t->type == FT_I32 || t->type == FT_I64 || t->type == FT_I8) {
        ft_bind_fail(b, FT_EUNSUPPORTED, "tensor %s has type %s, want weights", name,
                     ft_type_name(t->type));
        return true;
    }
    *w = (ft_weight){.type = t->type, .n = n, .k = k, .E = E ? E : 1, .name = t->name.p};
    w->lookup = b->lookup;
    w->rows = b->rows;
    w->rounded = b->rounded;
    w->row_bytes = ft_type_row(t->type, (size_t)k);
    bind_scale(b, w, name, w->E);
    ft_err err;
    ft_dev_alloc_for(b->m->dev, name);
    const ft_status st = b->m->dev->bind(b->m->dev, w, t->data, &err);
    if (st) {
        ft_bind_fail(b, st, "tensor %s: %s", name, err.text);
        return true;
    }
    ft_model *m = b->m;
    m->weight_bytes += t->bytes;
    ft_progress_add(m->progress, t->bytes);
    m->weight_count += (uint64_t)n * (uint64_t)k * (uint64_t)w->E;
    m->limits.k = FT_MAX(m->limits.k, k);
    m->weights = ft_realloc(m->weights, sizeof *m->weights * (size_t)(m->n_weights + 1));
    m->weights[m->n_weights++] = w;
    return true;
}

#define NAME(name)                                                                                 \
    char name[96];                                                                                 \
    va_list ap;                                                                                    \
    va_start(ap, fmt);                                                                             \
    vsnprintf(name, sizeof name, fmt, ap);                                                         \
    va_end(ap)

void ft_bind(ft_binder *b, ft_weight *w, int n, int k, const char *fmt, ...)
{
    NAME(name);
    bind_any(b, w, 0, n, k, true, name);
}

bool ft_bind_opt(ft_binder *b, ft_weight *w, int n, int k, const char *fmt, ...)
{
    NAME(name);
    return bind_any(b, w, 0, n, k, false, name);
}

void ft_bind_lookup(ft_binder *b, ft_weight *w, int n, int k, const char *name)
{
    b->lookup = true;
    bind_any(b, w, 0, n, k, true, name);
    b->lookup = false;
}

void ft_bind_patch(ft_binder *b, ft_weight *w, int n, int k, const char *name)
{
    b->flat = true;
    bind_any(b, w, 0, n, k, true, name);
    b->flat = false;
}

void ft_bind_rows(ft_binder *b, ft_weight *w, int n, int k, const char *name)
{
    b->rows = true;
    bind_any(b, w, 0, n, k, true, name);
    b->rows = false;
}

void ft_bind_ends(ft_binder *b, ft_weight *embed, ft_weight *head, int V, int D)
{
    if (ft_bind_opt(b, head, V, D, "output.weight")) {
        ft_bind_lookup(b, embed, V, D, "token_embd.weight");
    } else if (b->m->dev->alloc_for) { /* the first and the last layer may be on two devices */
        const uint64_t bytes = b->m->weight_bytes, count = b->m->weight_count;
        ft_bind_lookup(b, embed, V, D, "token_embd.weight");
        b->m->weight_bytes = bytes;
        b->m->weight_count = count;
        ft_bind(b, head, V, D, "token_embd.weight");
    } else {
        ft_bind_rows(b, embed, V, D, "token_embd.weight");
        *head = *embed;
    }
}

void ft_bind_stack(ft_binder *b, ft_weight *w, int E, int n, int k, const char *fmt, ...)
{
    NAME(name);
    bind_any(b, w, E, n, k, true, name);
}

bool ft_bind_stack_opt(ft_binder *b, ft_weight *w, int E, int n, int k, const char *fmt, ...)
{
    NAME(name);
    return bind_any(b, w, E, n, k, false, name);
}

static bool bind_vec(ft_binder *b, ft_vec *v, int n, float factor, bool need, const char *name)
{
    *v = (ft_vec){NULL, n};
    const ft_gguf_tensor *t = ft_gguf_tensor_find(b->m->file, name);
    if (!t) {
        if (need) ft_bind_fail(b, FT_EFORMAT, "tensor %s is missing", name);
        return false;
    }
    int64_t count = t->n[0] * t->n[1] * t->n[2] * t->n[3];
    if (count != n) {
        ft_bind_fail(b, FT_EFORMAT, "tensor %s has %lld values, want %d", name, (long long)count,
                     n);
        return true;
    }
    if (!b->st) v->p = vec_on_device(b, t, n, factor);
    b->m->weight_bytes += t->bytes;
    return true;
}

void ft_bind_vec(ft_binder *b, ft_vec *v, int n, float factor, const char *fmt, ...)
{
    NAME(name);
    bind_vec(b, v, n, factor, true, name);
}

bool ft_bind_vec_opt(ft_binder *b, ft_vec *v, int n, float factor, const char *fmt, ...)
{
    NAME(name);
    return bind_vec(b, v, n, factor, false, name);
}

bool ft_bind_has(const ft_binder *b, const char *fmt, ...)
{
    NAME(name);
    return ft_gguf_tensor_find(b->m->file, name) != NULL;
}

float ft_bind_scalar(ft_binder *b, float def, const char *fmt, ...)
{
    NAME(name);
    const ft_gguf_tensor *t = ft_gguf_tensor_find(b->m->file, name);
    if (!t) return def;
    if (t->n[0] * t->n[1] * t->n[2] * t->n[3] != 1 || ft_type_of(t->type)->quant) {
        ft_bind_fail(b, FT_EFORMAT, "tensor %s is not one number", name);
        return def;
    }
    float *f = decode(b, t, 1, 1);
    const float v = f[0];
    ft_free(f);
    return v;
}

/* ---- rotary embedding ---- */

static double yarn_ramp(double lo, double hi, int j)
{
    const double r = (j - lo) / fmax(0.001, hi - lo);
    return 1 - fmin(1, fmax(0, r));
}

/* YaRN: pairs that rotate more than `fast` times over the original context keep their frequency,
 * those that rotate less than `slow` times are interpolated, and in between it is a mix. */
typedef struct yarn_range {
    double lo, hi, ext;
} yarn_range;

static yarn_range read_yarn(ft_binder *b, int n, double base)
{
    const int orig = ft_key(b, "rope.scaling.original_context_length", b->m->ctx_train, 0, 1 << 30);
    const double fast = (double)ft_key_f32(b, "rope.scaling.yarn_beta_fast", 32);
    const double slow = (double)ft_key_f32(b, "rope.scaling.yarn_beta_slow", 1);
    const double span = 2 * log(base);
    return (yarn_range){.lo = fmax(0, floor(n * log(orig / (fast * 2 * M_PI)) / span)),
                        .hi = fmin(n - 1, ceil(n * log(orig / (slow * 2 * M_PI)) / span)),
                        .ext = (double)ft_key_f32(b, "rope.scaling.yarn_ext_factor", 1)};
}

ft_rope ft_bind_rope(ft_binder *b, int n, double base, const float *factor, const int sections[4],
                     bool scaling)
{
    const int half = n / 2;
    const ft_str type = scaling ? ft_key_str(b, "rope.scaling.type", "none") : FT_STR("none");
    double f = (double)ft_key_f32(b, "rope.scaling.factor", 0);
    if (f == 0) f = (double)ft_key_f32(b, "rope.scale_linear", 1);
    if (f <= 0) f = 1;
    const bool yarn = ft_str_is(type, "yarn"), linear = ft_str_is(type, "linear");
    if (!yarn && !linear && !ft_str_is(type, "none"))
        ft_bind_fail(b, FT_EUNSUPPORTED, "rope.scaling.type is \"%.*s\", want none, linear or yarn",
                     FT_STR_FMT(type));
    const yarn_range y = read_yarn(b, n, base);
    double *freq = ft_new_n(double, (size_t)half);
    uint8_t *axis = ft_new_n(uint8_t, (size_t)half);
    const int total = sections ? sections[0] + sections[1] + sections[2] + sections[3] : 0;
    for (int j = 0; j < half; j++) {
        double t = pow(base, -2.0 * j / n);
        if (linear) t /= f;
        const double mix = yarn ? y.ext * yarn_ramp(y.lo, y.hi, j) : 0;
        if (yarn) t = t / f * (1 - mix) + t * mix;
        if (factor) t = factor[j] >= 1e20f ? 0 : t / (double)factor[j];
        freq[j] = t;
        const int m = total ? j % total : 0;
        if (total && m % 3 == 1 && m < 3 * sections[1])
            axis[j] = 1;
        else if (total && m % 3 == 2 && m < 3 * sections[2])
            axis[j] = 2;
    }
    ft_rope r = {.n = n, .mscale = ft_key_f32(b, "rope.scaling.attn_factor", 1)};
    if (yarn) r.mscale *= ft_key_f32(b, "rope.scaling.yarn_attn_factor", 1);
    if (yarn && y.ext != 0) r.mscale *= (float)(1 + 0.1 * log(f));
    r.freq = ft_bind_table(b, freq, sizeof(double) * (size_t)half);
    r.axis = ft_bind_table(b, axis, (size_t)half);
    ft_free(freq);
    ft_free(axis);
    return r;
}
