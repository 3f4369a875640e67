#include "tools/synth_lora.h"

#include "base/mem.h"
#include "base/rng.h"
#include "gguf/writer.h"
#include "quant/quant.h"

#include <math.h>
#include <stdio.h>

/* What is added to a product has about a tenth of the size of its input. */
#define STRENGTH 0.3

typedef struct matrix {
    int64_t n[3];
    double size; /* values are uniform in [-size, size] */
    ft_type type;
} matrix;

static bool wanted(const ft_gguf_tensor *t, const char *only)
{
    return (t->n_dims == 2 || t->n_dims == 3) && t->n[1] > 1 && ft_str_ends(t->name, FT_STR(".weight")) &&
           !strstr(t->name.p, "ssm_conv1d") && !strstr(t->name.p, "centroids") &&
           (!only || strstr(t->name.p, only));
}

/* A and B of a tensor. A table that is looked up by token has A transposed. */
static void shape_pair(matrix m[2], const ft_gguf_tensor *t, int64_t r, ft_type type)
{
    const bool table = ft_str_ends(t->name, FT_STR("token_embd.weight"));
    const int64_t in = table ? t->n[1] : t->n[0], out = table ? t->n[0] : t->n[1];
    m[0] = (matrix){.n = {in, r, t->n[2]}, .size = table ? 1 : 1 / sqrt((double)in)};
    if (table) m[0] = (matrix){.n = {r, in, 1}, .size = m[0].size};
    m[1] = (matrix){.n = {r, out, t->n[2]}, .size = STRENGTH / sqrt((double)r)};
    for (int i = 0; i < 2; i++)
        m[i].type = m[i].n[0] % ft_type_of(type)->elems ? FT_F16 : type; /* as converters do */
}

static void write_matrix(ft_gguf_writer *w, size_t tensor, const matrix *m, uint64_t seed)
{
    const size_t k = (size_t)m->n[0], row = ft_type_row(m->type, k);
    ft_rng r = {ft_rng_at(seed, tensor, 5)};
    float *v = ft_new_n(float, k);
    void *out = ft_alloc(row);
    for (int64_t i = 0; i < m->n[1] * m->n[2]; i++) {
        for (size_t j = 0; j < k; j++) v[j] = (float)(m->size * (2 * ft_rng_f64(&r) - 1));
        ft_row_encode(m->type, out, v, k, NULL);
        ft_gguf_writer_data(w, tensor, (size_t)i * row, out, row);
    }
    ft_free(out);
    ft_free(v);
}

static ft_status put_pairs(ft_gguf_writer *w, const ft_gguf *g, const ft_synth_lora_opts *o,
                           ft_type type, matrix *m, size_t *n, ft_err *err)
{
    *n = 0;
    for (size_t i = 0; i < ft_gguf_n_tensor(g); i++) {
        const ft_gguf_tensor *t = ft_gguf_tensor_at(g, i);
        if (!wanted(t, o->only)) continue;
        shape_pair(m + *n, t, o->rank, type);
        for (int j = 0; j < 2; j++, ++*n) {
            char name[160];
            snprintf(name, sizeof name, "%.140s.lora_%c", t->name.p, j ? 'b' : 'a');
            ft_gguf_put_tensor(w, name, m[*n].type, t->n_dims, m[*n].n);
        }
    }
    if (!*n)
        return ft_fail(err, FT_EINVAL, "%s has no matrix %s%s", o->model,
                       o->only ? "whose name contains " : "", o->only ? o->only : "");
    const ft_status st = ft_gguf_writer_begin(w, err);
    for (size_t i = 0; i < *n && !st; i++) write_matrix(w, i, &m[i], o->seed);
    return st;
}

ft_status ft_synth_lora(size_t *tensors, const ft_synth_lora_opts *o, ft_err *err)
{
    ft_gguf *g;
    ft_gguf_writer *w;
    ft_type type;
    ft_str arch = FT_STR("");
    if (!ft_type_find(ft_str_of(o->type), &type) ||
        (type != FT_F32 && type != FT_F16 && type != FT_BF16 && type != FT_Q8_0))
        return ft_fail(err, FT_EINVAL, "type \"%s\" of an adapter, want F32, F16, BF16 or Q8_0",
                       o->type);
    ft_status st = ft_gguf_open(&g, o->model, true, err);
    if (st) return st;
    if ((st = ft_gguf_writer_open(&w, o->path, err))) {
        ft_gguf_close(g);
        return st;
    }
    ft_gguf_str(g, "general.architecture", &arch);
    ft_gguf_put_str(w, "general.type", FT_STR("adapter"));
    ft_gguf_put_str(w, "general.architecture", arch);
    ft_gguf_put_str(w, "adapter.type", FT_STR("lora"));
    if (o->alpha != 0) ft_gguf_put_f32(w, "adapter.lora.alpha", o->alpha);
    matrix *m = ft_new_n(matrix, 2 * ft_gguf_n_tensor(g) + 2);
    st = put_pairs(w, g, o, type, m, tensors, err);
    if (st)
        ft_gguf_writer_abort(w);
    else
        st = ft_gguf_writer_commit(w, err);
    ft_free(m);
    ft_gguf_close(g);
    return st;
}
