#include "api/adapters.h"

#include "base/mem.h"
#include "model/adapter.h"

#include <math.h>

_Static_assert((int)FT_ADAPTERS_MAX == (int)FT_LORA_MAX, "one limit");

ft_status ft_llm_open_adapters(ft_llm *m, const ft_llm_params *p, ft_err *err)
{
    ft_model *head = m->assistant && m->assistant->target == m->model ? m->assistant : NULL;
    for (int i = 0; i < p->n_lora; i++) {
        const ft_lora_file *f = &p->lora[i];
        ft_gguf *g;
        if (!isfinite(f->scale))
            return ft_fail(err, FT_EINVAL, "%s: the scale is not a finite number", f->path);
        ft_status st = ft_gguf_open(&g, f->path, !p->no_mmap, err);
        if (st) return st;
        if ((st = ft_adapter_add(m->model, head, g, err))) {
            ft_err_prefix(err, "%s", f->path);
            ft_gguf_close(g);
            return st;
        }
        m->lora[i] = f->scale;
    }
    return FT_OK;
}

static const char *text_of(const ft_gguf *g, const char *key)
{
    ft_str s;
    return ft_gguf_str(g, key, &s) ? s.p : "";
}

int ft_llm_adapters(ft_llm *m, ft_adapter_info *out, int cap)
{
    pthread_mutex_lock(&m->lock);
    for (int i = 0; i < m->model->n_adapter && i < cap; i++) {
        const ft_gguf *g = m->model->adapter[i]->file;
        out[i] = (ft_adapter_info){.path = ft_gguf_path(g),
                                   .task_name = text_of(g, "adapter.lora.task_name"),
                                   .prompt_prefix = text_of(g, "adapter.lora.prompt_prefix"),
                                   .scale = m->lora[i]};
    }
    pthread_mutex_unlock(&m->lock);
    return m->model->n_adapter;
}

static ft_status check_scales(const ft_llm *m, const float *scale, int n, ft_err *err)
{
    if (n > m->model->n_adapter)
        return ft_fail(err, FT_EINVAL, "scales of %d adapters, the model has %d", n,
                       m->model->n_adapter);
    for (int i = 0; i < n; i++)
        if (!isfinite(scale[i]))
            return ft_fail(err, FT_EINVAL, "the scale of adapter %d is not a finite number", i);
    return FT_OK;
}

ft_status ft_llm_adapt(ft_llm *m, const float *scale, int n, ft_err *err)
{
    const ft_status st = check_scales(m, scale, n, err);
    if (st) return st;
    pthread_mutex_lock(&m->lock);
    for (int i = 0; i < FT_LORA_MAX; i++) m->lora[i] = i < n ? scale[i] : 0;
    pthread_mutex_unlock(&m->lock);
    return FT_OK;
}

ft_status ft_llm_adapter_scales(ft_llm *m, const float *own, int n, float out[FT_LORA_MAX],
                                ft_err *err)
{
    if (!own) {
        pthread_mutex_lock(&m->lock);
        memcpy(out, m->lora, sizeof m->lora);
        pthread_mutex_unlock(&m->lock);
        return FT_OK;
    }
    for (int i = 0; i < FT_LORA_MAX; i++) out[i] = i < n && i < m->model->n_adapter ? own[i] : 0;
    return check_scales(m, own, n, err);
}
