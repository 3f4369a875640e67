#include "tools/imatrix.h"

#include "base/dict.h"
#include "base/mem.h"
#include "gguf/gguf.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct entry {
    ft_str name; /* name of the weight: a part of the name of its sums in the file */
    int64_t cols, mats;
    float *mean;
} entry;

struct ft_imatrix {
    char *path;
    ft_gguf *g;
    entry *e;
    size_t n;
    ft_dict by_name;
};

static ft_status read_entry(ft_imatrix *m, const ft_gguf_tensor *sum, ft_err *err)
{
    const size_t tail = strlen(".in_sum2");
    const ft_str name = {sum->name.p, sum->name.n - tail};
    char counts[80];
    snprintf(counts, sizeof counts, "%.*s.counts", FT_STR_FMT(name));
    const ft_gguf_tensor *count = ft_gguf_tensor_find(m->g, counts);
    if (!count) return ft_fail(err, FT_EFORMAT, "%s: no tensor %s", m->path, counts);
    const int64_t cols = sum->n[0], mats = sum->n[1];
    if (sum->type != FT_F32 || count->type != FT_F32 || sum->n[2] != 1 || sum->n[3] != 1 ||
        count->n[0] * count->n[1] != mats || count->n[2] != 1 || count->n[3] != 1)
        return ft_fail(err, FT_EFORMAT, "%s: %s has {%lld, %lld} counts, want F32 {1, %lld}",
                       m->path, counts, (long long)count->n[0], (long long)count->n[1],
                       (long long)mats);
    entry *e = &m->e[m->n++];
    *e = (entry){.name = name, .cols = cols, .mats = mats};
    e->mean = ft_new_n(float, (size_t)(cols * mats));
    for (int64_t i = 0; i < mats; i++) {
        float n;
        memcpy(&n, (const char *)count->data + i * 4, 4);
        for (int64_t c = 0; c < cols; c++) {
            float s;
            memcpy(&s, (const char *)sum->data + (i * cols + c) * 4, 4);
            if (!isfinite(s) || !isfinite(n) || s < 0)
                return ft_fail(err, FT_EFORMAT, "%s: %s[%lld] is %g over %g, want a mean square",
                               m->path, sum->name.p, (long long)(i * cols + c), (double)s,
                               (double)n);
            e->mean[i * cols + c] = n > 0 ? s / n : 1.0f; /* an expert that never ran */
        }
    }
    if (!ft_dict_put(&m->by_name, name, (uint32_t)(m->n - 1)))
        return ft_fail(err, FT_EFORMAT, "%s: %s occurs twice", m->path, counts);
    return FT_OK;
}

ft_status ft_imatrix_open(ft_imatrix **out, const char *path, ft_err *err)
{
    ft_imatrix *m = ft_new(ft_imatrix);
    m->path = ft_strdup(path);
    ft_dict_init(&m->by_name);
    ft_status st = ft_gguf_open(&m->g, path, true, err);
    if (st) goto fail;
    const size_t n = ft_gguf_n_tensor(m->g);
    m->e = ft_new_n(entry, n + 1);
    for (size_t i = 0; i < n; i++) {
        const ft_gguf_tensor *t = ft_gguf_tensor_at(m->g, i);
        if (ft_str_ends(t->name, FT_STR(".in_sum2")) && (st = read_entry(m, t, err))) goto fail;
    }
    if (!m->n) {
        st = ft_fail(err, FT_EFORMAT, "%s: no tensor ends in .in_sum2, want an importance matrix",
                     path);
        goto fail;
    }
    *out = m;
    return FT_OK;
fail:
    ft_imatrix_close(m);
    return st;
}

void ft_imatrix_close(ft_imatrix *m)
{
    if (!m) return;
    for (size_t i = 0; i < m->n; i++) ft_free(m->e[i].mean);
    ft_free(m->e);
    ft_dict_release(&m->by_name);
    ft_gguf_close(m->g);
    ft_free(m->path);
    ft_free(m);
}

size_t ft_imatrix_n(const ft_imatrix *m)
{
    return m->n;
}

uint32_t ft_imatrix_chunks(const ft_imatrix *m)
{
    uint32_t n = 0;
    ft_gguf_u32(m->g, "imatrix.chunk_count", &n);
    return n;
}

ft_str ft_imatrix_dataset(const ft_imatrix *m)
{
    ft_str s = {"", 0};
    const ft_gguf_kv *kv = ft_gguf_kv_find(m->g, "imatrix.datasets");
    if (kv && kv->n) ft_gguf_kv_str(kv, 0, &s);
    return s;
}

ft_status ft_imatrix_find(const ft_imatrix *m, ft_str name, int64_t cols, int64_t mats,
                          const float **out, ft_err *err)
{
    uint32_t i;
    *out = NULL;
    if (!ft_dict_find(&m->by_name, name, &i)) return FT_OK;
    const entry *e = &m->e[i];
    if (e->cols != cols || e->mats != mats)
        return ft_fail(
            err, FT_EFORMAT,
            "%s: %.*s was measured with %lld columns of %lld matrices, want %lld of %lld", m->path,
            FT_STR_FMT(name), (long long)e->cols, (long long)e->mats, (long long)cols,
            (long long)mats);
    *out = e->mean;
    return FT_OK;
}
