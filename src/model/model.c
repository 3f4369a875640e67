/* model/model.c - selects the architecture of a file, and implements what all models share. */
#include "model/model.h"

#include "base/mem.h"
#include "model/adapter.h"
#include "model/bind.h"

#include <stdio.h>

static const ft_arch *const archs[] = {&ft_arch_qwen35, &ft_arch_qwen35moe, &ft_arch_gemma4,
                                       &ft_arch_gemma4_assistant, NULL};

const ft_arch *const *ft_arch_list(void)
{
    return archs;
}

static bool named(const ft_arch *a, ft_str name)
{
    if (ft_str_is(name, a->name)) return true;
    for (const char *const *p = a->alias; p && *p; p++)
        if (ft_str_is(name, *p)) return true;
    return false;
}

static ft_status find_arch(const ft_arch **out, const ft_gguf *g, ft_err *err)
{
    ft_str name, type;
    if (ft_gguf_str(g, "general.type", &type) && !ft_str_is(type, "model"))
        return ft_fail(err, FT_EUNSUPPORTED, "general.type is \"%.*s\", want \"model\"",
                       FT_STR_FMT(type));
    if (!ft_gguf_str(g, "general.architecture", &name))
        return ft_fail(err, FT_EFORMAT, "key general.architecture is missing");
    char known[128] = "";
    size_t n = 0;
    for (int i = 0; archs[i]; i++) {
        if (named(archs[i], name)) {
            *out = archs[i];
            return FT_OK;
        }
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "", archs[i]->name);
    }
    return ft_fail(err, FT_EUNSUPPORTED, "architecture \"%.*s\", want one of %s", FT_STR_FMT(name),
                   known);
}

bool ft_model_whole(const ft_gguf *file)
{
    const ft_arch *arch = NULL;
    ft_str name;
    return !find_arch(&arch, file, NULL) && arch->forward &&
           ft_gguf_str(file, "general.architecture", &name) && ft_str_is(name, arch->name) &&
           ft_gguf_tensor_find(file, "blk.0.attn_norm.weight");
}

bool ft_model_head_for(const ft_gguf *file, const ft_model *target)
{
    ft_str name;
    char key[96];
    if (!ft_gguf_str(file, "general.architecture", &name) || !ft_str_is(name, target->arch->name))
        return false;
    snprintf(key, sizeof key, "blk.%d.nextn.eh_proj.weight", target->L);
    const ft_gguf_tensor *t = ft_gguf_tensor_find(file, key);
    return t && t->n[1] == target->D;
}

ft_status ft_model_open(ft_model **out, ft_gguf *file, ft_dev *dev, const ft_model *target,
                        ft_progress *progress, ft_err *err)
{
    const ft_arch *arch = NULL;
    ft_status st = find_arch(&arch, file, err);
    if (!st) st = ft_bind_check_scales(file, err);
    if (st) return st;
    assert(arch);
    if (!arch->forward && !target)
        return ft_fail(err, FT_EUNSUPPORTED, "%s is a drafter and cannot run without its target",
                       arch->name);
    ft_model *m = ft_new(ft_model);
    m->arch = arch;
    m->dev = dev;
    m->file = file;
    m->target = target;
    m->progress = progress;
    ft_dev_alloc_for(dev, "model"); /* tables that belong to no tensor */
    if ((st = arch->bind(m, err))) {
        m->file = NULL;
        ft_model_close(m);
        return st;
    }
    m->progress = NULL;
    *out = m;
    return FT_OK;
}

ft_status ft_model_narrow(ft_model *m, const int32_t *ids, int n, ft_err *err)
{
    const ft_gguf_tensor *t = NULL;
    const ft_weight *whole = m->arch->draft_head ? m->arch->draft_head(m, &t) : NULL;
    /* A companion scale would have to be narrowed too: such a head is not narrowed. */
    if (!whole || whole->scale)
        return ft_fail(err, FT_EUNSUPPORTED, "drafts of %s cannot be limited to some tokens",
                       m->arch->words);
    assert(n <= whole->n);
    if (!ids) {
        assert(n % FT_NARROW == 0);
        m->narrow = *whole;
        m->narrow.n = m->n_draft_ids = n;
        return FT_OK;
    }
    const size_t row = ft_type_row(t->type, (size_t)t->n[0]);
    unsigned char *rows = m->narrow_rows = ft_alloc_aligned(row * (size_t)n + 64, 64);
    m->draft_ids = ft_new_n(int32_t, (size_t)n);
    for (int i = 0; i < n; i++) {
        assert(ids[i] >= 0 && ids[i] < t->n[1] && (!i || ids[i] > ids[i - 1]));
        m->draft_ids[i] = ids[i];
        memcpy(rows + (size_t)i * row, (const unsigned char *)t->data + (size_t)ids[i] * row, row);
    }
    m->narrow = (ft_weight){
        .type = t->type, .n = n, .k = (int)t->n[0], .E = 1, .row_bytes = row, .name = "draft head"};
    ft_dev_alloc_for(m->dev, "output.weight");
    const ft_status st = m->dev->bind(m->dev, &m->narrow, rows, err);
    if (!st) m->n_draft_ids = n;
    return st;
}

void ft_model_close(ft_model *m)
{
    if (!m) return;
    ft_adapters_free(m);
    if (m->draft_ids && m->n_draft_ids) m->dev->unbind(m->dev, &m->narrow);
    ft_free(m->narrow_rows);
    ft_free(m->draft_ids);
    for (int i = 0; i < m->n_weights; i++) m->dev->unbind(m->dev, m->weights[i]);
    for (int i = 0; i < m->n_memory; i++) m->dev->free(m->dev, m->memory[i]);
    m->arch->release(m);
    ft_free(m->weights);
    ft_free(m->memory);
    ft_free(m->layer);
    ft_free(m->cfg);
    ft_gguf_close(m->file);
    ft_free(m);
}
