#include "model/adapter.h"

#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <xxhash.h>

enum { RANK_MAX = 8192 };

/* ---- the file ---- */

static ft_status check_keys(const ft_model *m, const ft_gguf *g, float *alpha, ft_err *err)
{
    ft_str s = FT_STR("");
    *alpha = 0;
    if (!ft_gguf_str(g, "general.type", &s) || !ft_str_is(s, "adapter"))
        return ft_fail(err, FT_EUNSUPPORTED, "general.type is \"%.*s\", want \"adapter\"",
                       FT_STR_FMT(s));
    s = FT_STR("");
    if (!ft_gguf_str(g, "adapter.type", &s) || !ft_str_is(s, "lora"))
        return ft_fail(err, FT_EUNSUPPORTED, "adapter.type is \"%.*s\", want \"lora\"",
                       FT_STR_FMT(s));
    s = FT_STR("");
    if (!ft_gguf_str(g, "general.architecture", &s) || !ft_str_is(s, m->arch->name))
        return ft_fail(err, FT_EUNSUPPORTED,
                       "the adapter is for architecture \"%.*s\", the model is %s", FT_STR_FMT(s),
                       m->arch->name);
    if (ft_gguf_kv_find(g, "adapter.alora.invocation_tokens"))
        return ft_fail(err, FT_EUNSUPPORTED,
                       "adapter.alora.invocation_tokens: activated LoRA is not supported");
    if (ft_gguf_kv_find(g, "adapter.lora.alpha") &&
        (!ft_gguf_f32(g, "adapter.lora.alpha", alpha) || !isfinite(*alpha)))
        return ft_fail(err, FT_EFORMAT, "key adapter.lora.alpha is not a finite number");
    return FT_OK;
}

/* The part of a tensor's name before the suffix; false: it has another suffix. */
static bool name_before(char out[96], ft_str name, const char *suffix)
{
    const ft_str end = ft_str_of(suffix);
    if (!ft_str_ends(name, end) || name.n - end.n >= 96) return false;
    memcpy(out, name.p, name.n - end.n);
    out[name.n - end.n] = 0;
    return true;
}

static ft_weight *find_weight(const ft_model *m, const char *name)
{
    for (int i = 0; m && i < m->n_weights; i++)
        if (m->weights[i]->name && !strcmp(m->weights[i]->name, name)) return m->weights[i];
    return NULL;
}

/* ---- one pair ---- */

typedef struct pair {
    char name[96];
    const ft_gguf_tensor *a, *b;
    ft_weight *w; /* the weight that it adapts */
    bool table;   /* that is looked up by token */
    bool draft;   /* and belongs to the draft head */
    int rank;
} pair;

static ft_status wrong_shape(const ft_gguf_tensor *t, long long k, long long n, long long E,
                             ft_err *err)
{
    return ft_fail(err, FT_EFORMAT,
                   "tensor %s is [%lld, %lld, %lld], want [%lld, %lld, %lld]: the adapter was made "
                   "for another model",
                   t->name.p, (long long)t->n[0], (long long)t->n[1], (long long)t->n[2], k, n, E);
}

static bool is_shape(const ft_gguf_tensor *t, int64_t k, int64_t n, int64_t E)
{
    return t->n[0] == k && t->n[1] == n && t->n[2] == E && t->n[3] == 1;
}

/* A is [k, r] and B is [r, n], of E experts [k, r, E] and [r, n, E]; of a table of n rows of k
 * values A is [r, n] and B is [r, k]. */
static ft_status check_shapes(pair *p, const ft_dev *dev, ft_err *err)
{
    const int64_t r = p->b->n[0], n = p->w->n, k = p->w->k, E = p->w->E;
    if (E > 1 && !dev->op->expert_linear)
        return ft_fail(err, FT_EUNSUPPORTED,
                       "tensor %s: the device %s does not support adapters for routed experts",
                       p->a->name.p, dev->name);
    if (r < 1 || r > RANK_MAX)
        return ft_fail(err, FT_EFORMAT, "tensor %s has rank %lld, want 1 to %d", p->b->name.p,
                       (long long)r, RANK_MAX);
    p->rank = (int)r;
    const int64_t a[] = {p->table ? r : k, p->table ? n : r}, outputs = p->table ? k : n;
    if (!is_shape(p->a, a[0], a[1], E)) return wrong_shape(p->a, a[0], a[1], E, err);
    if (!is_shape(p->b, r, outputs, E)) return wrong_shape(p->b, r, outputs, E, err);
    return FT_OK;
}

static ft_status check_type(const ft_gguf_tensor *t, ft_err *err)
{
    if (ft_type_of(t->type)->name && t->type != FT_I32 && t->type != FT_I64 && t->type != FT_I8)
        return FT_OK;
    return ft_fail(err, FT_EUNSUPPORTED, "tensor %s has type %s, want weights", t->name.p,
                   ft_type_name(t->type));
}

/* The pair that tensor t of the file begins: t is its A. */
static ft_status find_pair(pair *p, const ft_model *m, const ft_model *head, const ft_gguf *g,
                           const ft_gguf_tensor *t, ft_err *err)
{
    char other[112];
    int l;
    p->a = t;
    snprintf(other, sizeof other, "%s.lora_b", p->name);
    if (!(p->b = ft_gguf_tensor_find(g, other)))
        return ft_fail(err, FT_EFORMAT, "tensor %s is missing", other);
    p->w = find_weight(m, p->name);
    p->draft = !p->w || (sscanf(p->name, "blk.%d.", &l) == 1 && l >= m->L);
    if (!p->w) p->w = find_weight(head, p->name);
    if (!p->w && ft_gguf_tensor_find(m->file, p->name))
        return ft_fail(err, FT_EUNSUPPORTED, "tensor %s: adapters for %s are not supported",
                       t->name.p, p->name);
    if (!p->w)
        return ft_fail(err, FT_EFORMAT,
                       "tensor %s: the model has no tensor %s; the adapter was made for another "
                       "model",
                       t->name.p, p->name);
    p->table = ft_str_ends(ft_str_of(p->name), FT_STR("token_embd.weight"));
    ft_status st = check_shapes(p, m->dev, err);
    if (!st) st = check_type(p->a, err);
    return st ? st : check_type(p->b, err);
}

/* All pairs, checked. *out is the caller's. */
static ft_status find_pairs(pair **out, int *n, const ft_model *m, const ft_model *head,
                            const ft_gguf *g, ft_err *err)
{
    const size_t all = ft_gguf_n_tensor(g);
    pair *p = *out = ft_new_n(pair, all + 1);
    *n = 0;
    ft_status st = FT_OK;
    for (size_t i = 0; i < all && !st; i++) {
        const ft_gguf_tensor *t = ft_gguf_tensor_at(g, i);
        char name[96], other[112];
        if (name_before(p[*n].name, t->name, ".lora_a")) {
            st = find_pair(&p[*n], m, head, g, t, err);
            ++*n;
        } else if (name_before(name, t->name, ".lora_b")) {
            snprintf(other, sizeof other, "%s.lora_a", name);
            if (!ft_gguf_tensor_find(g, other))
                st = ft_fail(err, FT_EFORMAT, "tensor %s is missing", other);
        } else {
            st = ft_fail(err, FT_EUNSUPPORTED,
                         "tensor %s is not part of a pair, want names ending in .lora_a and "
                         ".lora_b",
                         t->name.p);
        }
    }
    if (!st && !*n) st = ft_fail(err, FT_EFORMAT, "the adapter has no tensors");
    return st;
}

/* ---- on the device ---- */

static ft_status bind_matrix(ft_model *m, ft_weight *w, const ft_gguf_tensor *t, const pair *p,
                             const float *scale, bool lookup, ft_err *err)
{
    ft_err why;
    *w = (ft_weight){.type = t->type,
                     .n = (int)t->n[1],
                     .k = (int)t->n[0],
                     .E = (int)t->n[2],
                     .row_bytes = ft_type_row(t->type, (size_t)t->n[0]),
                     .scale = scale,
                     .lookup = lookup,
                     .name = t->name.p};
    ft_dev_alloc_for(m->dev, p->name); /* beside the weight that it adapts */
    const ft_status st = m->dev->bind(m->dev, w, t->data, &why);
    return st ? ft_fail(err, st, "tensor %s: %s", t->name.p, why.text) : FT_OK;
}

/* alpha / rank on the device, where B is. An expert has a factor of its own, which is part of its
 * weights: what an adapter adds is multiplied by it too. */
static ft_status put_factor(ft_model *m, void **out, const pair *p, float alpha, ft_err *err)
{
    const size_t E = (size_t)p->w->E, n = strlen(p->name), bytes = E * sizeof(float);
    const float factor = alpha != 0 ? alpha / (float)p->rank : 1;
    const bool scaled = E > 1 && p->w->scale;
    char name[96];
    *out = NULL;
    if (factor == 1 && !scaled) return FT_OK;
    snprintf(name, sizeof name, "%.*s.scale", (int)(n > 7 ? n - 7 : n), p->name);
    ft_dev_alloc_for(m->dev, name);
    if (!(*out = m->dev->alloc(m->dev, bytes)))
        return ft_fail(err, FT_ENOMEM, "no device memory for tensor %s", p->b->name.p);
    float *each = ft_new_n(float, E);
    if (scaled) m->dev->download(m->dev, each, p->w->scale, bytes);
    for (size_t i = 0; i < E; i++) each[i] = scaled ? each[i] * factor : factor;
    m->dev->upload(m->dev, *out, each, bytes);
    ft_free(each);
    return FT_OK;
}

static ft_status bind_pair(ft_model *m, struct ft_adapter *a, const pair *p, float alpha,
                           ft_err *err)
{
    ft_lora *l = &a->lora[a->n];
    l->adapter = m->n_adapter;
    ft_status st = put_factor(m, &a->memory[a->n], p, alpha, err);
    if (!st) st = bind_matrix(m, &l->a, p->a, p, NULL, p->table, err);
    if (!st && (st = bind_matrix(m, &l->b, p->b, p, a->memory[a->n], false, err)))
        m->dev->unbind(m->dev, &l->a);
    if (st) {
        if (a->memory[a->n]) m->dev->free(m->dev, a->memory[a->n]);
        return st;
    }
    a->n++;
    return FT_OK;
}

/* From now on products with the weights add those of the adapter. */
static void attach(ft_model *m, const ft_model *head, const struct ft_adapter *a, const pair *p)
{
    for (int i = 0; i < a->n; i++) {
        const bool shared = strstr(p[i].name, "_shexp.") != NULL;
        ft_lora **at = &p[i].w->lora;
        while (*at) at = &(*at)->next;
        *at = &a->lora[i];
        *(p[i].draft ? &m->draft_adapters : &m->adapters) |= 1u << m->n_adapter;
        const int wide = FT_MAX(p[i].w->n, p[i].w->k);
        m->lora.rank = FT_MAX(m->lora.rank, p[i].rank);
        m->limits.k = FT_MAX(m->limits.k, p[i].rank);
        if (shared) m->lora.shared = FT_MAX(m->lora.shared, wide);
        if (p[i].w->E == 1) continue;
        m->lora.routed = FT_MAX(m->lora.routed, wide);
        m->lora.chosen = FT_MAX(m->limits.experts, head ? head->limits.experts : 0);
        m->limits.expert_k = FT_MAX(m->limits.expert_k, p[i].rank);
    }
}

static void adapter_free(ft_model *m, struct ft_adapter *a)
{
    for (int i = 0; i < a->n; i++) {
        m->dev->unbind(m->dev, &a->lora[i].a);
        m->dev->unbind(m->dev, &a->lora[i].b);
        if (a->memory[i]) m->dev->free(m->dev, a->memory[i]);
    }
    ft_free(a->lora);
    ft_free(a->memory);
    ft_gguf_close(a->file);
    ft_free(a);
}

ft_status ft_adapter_add(ft_model *m, ft_model *head, ft_gguf *file, ft_err *err)
{
    pair *p = NULL;
    int n;
    float alpha;
    if (m->n_adapter == FT_LORA_MAX)
        return ft_fail(err, FT_ELIMIT, "more than %d adapters", FT_LORA_MAX);
    ft_status st = check_keys(m, file, &alpha, err);
    if (!st) st = find_pairs(&p, &n, m, head, file, err);
    if (st) {
        ft_free(p);
        return st;
    }
    struct ft_adapter *a = ft_new(struct ft_adapter);
    a->lora = ft_new_n(ft_lora, (size_t)n);
    a->memory = ft_new_n(void *, (size_t)n);
    for (int i = 0; i < n && !st; i++) st = bind_pair(m, a, &p[i], alpha, err);
    if (st) {
        adapter_free(m, a);
    } else {
        attach(m, head, a, p);
        a->file = file;
        a->digest = ft_gguf_digest(file);
        m->adapter[m->n_adapter++] = a;
    }
    ft_free(p);
    return st;
}

void ft_adapters_free(ft_model *m)
{
    for (int i = 0; i < m->n_adapter; i++) adapter_free(m, m->adapter[i]);
    m->n_adapter = 0;
}

uint64_t ft_adapters_key(const ft_model *m, const float *scale)
{
    uint64_t h = 0;
    for (int i = 0; scale && i < m->n_adapter; i++) {
        const uint64_t seed = h + m->adapter[i]->digest + 1;
        if (scale[i] != 0) h = XXH3_64bits_withSeed(&scale[i], sizeof scale[i], seed) | 1;
    }
    return h;
}
