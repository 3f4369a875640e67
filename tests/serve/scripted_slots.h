/* tests/serve/scripted_slots.h - adapters, embeddings, slots and statistics of the scripted model.
 * Part of scripted.h. */
#ifndef FT_TESTS_SCRIPTED_SLOTS_H
#define FT_TESTS_SCRIPTED_SLOTS_H

int ft_llm_adapters(ft_llm *m, ft_adapter_info *out, int cap)
{
    pthread_mutex_lock(&m->lock);
    for (int i = 0; i < FT_MIN(cap, 2); i++)
        out[i] = (ft_adapter_info){i ? "two.gguf" : "one.gguf", i ? "rhymes" : "", "", m->lora[i]};
    pthread_mutex_unlock(&m->lock);
    return 2;
}

ft_status ft_llm_adapt(ft_llm *m, const float *scale, int n, ft_err *err)
{
    (void)err;
    pthread_mutex_lock(&m->lock);
    for (int i = 0; i < 2; i++) m->lora[i] = i < n ? scale[i] : 0;
    pthread_mutex_unlock(&m->lock);
    return FT_OK;
}

static inline void script_vector(const int32_t *ids, int n, bool raw, float *out)
{
    double sum = 0;
    for (int k = 0; k < SCRIPT_WIDTH; k++) {
        out[k] = 0;
        for (int i = 0; i < n; i++) out[k] += (float)((ids[i] >> k) % 7);
        sum += (double)out[k] * (double)out[k];
    }
    for (int k = 0; k < SCRIPT_WIDTH && sum > 0 && !raw; k++)
        out[k] = (float)((double)out[k] / sqrt(sum));
}

ft_status ft_embedding_new(ft_embedding **out, ft_llm *m, const ft_embedding_params *p, ft_err *err)
{
    pthread_mutex_lock(&m->lock);
    if (m->stop || m->n.failed) {
        pthread_mutex_unlock(&m->lock);
        return ft_fail(err, m->stop ? FT_ECANCELLED : FT_EDEVICE, "the script says so");
    }
    ft_embedding *b = ft_new(ft_embedding);
    b->m = m;
    b->wake = p->wake;
    b->user = p->user;
    b->due_s = ft_now_s() + p->n * m->embed_s;
    int rows = 0;
    for (int i = 0; i < p->n; i++) rows += p->pooling == FT_POOL_NONE ? p->n_ids[i] : 1;
    b->out = ft_new_n(float, (size_t)(rows * SCRIPT_WIDTH));
    float *at = b->out;
    for (int i = 0; i < p->n; i++) {
        const bool none = p->pooling == FT_POOL_NONE;
        if (p->pooling == FT_POOL_RANK) *at++ = (float)p->n_ids[i]; /* longer ones rank higher */
        for (int j = 0; p->pooling != FT_POOL_RANK && j < (none ? p->n_ids[i] : 1);
             j++, at += SCRIPT_WIDTH)
            script_vector(p->ids[i] + j, none ? 1 : p->n_ids[i], p->raw || none, at);
    }
    b->next = m->embeddings;
    m->embeddings = b;
    *out = b;
    pthread_mutex_unlock(&m->lock);
    return FT_OK;
}

bool ft_embedding_done(ft_embedding *b)
{
    pthread_mutex_lock(&b->m->lock);
    const bool done = b->done;
    pthread_mutex_unlock(&b->m->lock);
    return done;
}

ft_status ft_embedding_result(ft_embedding *b, const float **out, ft_err *err)
{
    *out = b->out;
    return b->cancelled ? ft_fail(err, FT_ECANCELLED, "the request was cancelled") : FT_OK;
}

void ft_embedding_cancel(ft_embedding *b)
{
    pthread_mutex_lock(&b->m->lock);
    b->cancelled = true;
    pthread_mutex_unlock(&b->m->lock);
}

void ft_embedding_free(ft_embedding *b)
{
    if (!b) return;
    pthread_mutex_lock(&b->m->lock);
    b->cancelled = b->freed = true;
    pthread_mutex_unlock(&b->m->lock);
}

int ft_llm_slots(ft_llm *m, ft_slot_info *out, int cap)
{
    if (!cap) return m->slots;
    pthread_mutex_lock(&m->lock);
    for (int i = 0; i < FT_MIN(cap, m->slots); i++)
        out[i] = (ft_slot_info){.id = i,
                                .busy = m->slot_busy[i],
                                .ctx = SCRIPT_CTX,
                                .prompt_tokens = m->slot_salt[i] ? 5 : 0,
                                .cache_salt = m->slot_salt[i]};
    pthread_mutex_unlock(&m->lock);
    return m->slots;
}

ft_status ft_slot_save(ft_llm *m, int slot, uint64_t salt, const char *path, int *n_tokens,
                       ft_err *err)
{
    FILE *f = fopen(path, "w");
    (void)m, (void)slot, (void)salt;
    if (!f) return ft_fail(err, FT_EIO, "%s cannot be written", path);
    if (strstr(path, "/full.bin")) {
        fclose(f);
        return ft_fail(err, FT_ENOSPC, "%s: write: No space left on device", path);
    }
    fclose(f);
    *n_tokens = 7;
    return FT_OK;
}

ft_status ft_slot_restore(ft_llm *m, int slot, uint64_t salt, const char *path, int *n_tokens,
                          ft_err *err)
{
    (void)m, (void)slot, (void)salt;
    if (access(path, R_OK)) return ft_fail(err, FT_EIO, "%s cannot be read", path);
    *n_tokens = 7;
    return FT_OK;
}

ft_status ft_slot_erase(ft_llm *m, int slot, uint64_t salt, int *n_tokens, ft_err *err)
{
    (void)m, (void)slot, (void)salt, (void)err;
    *n_tokens = 3;
    return FT_OK;
}

void ft_llm_counts(ft_llm *m, ft_llm_stats *out)
{
    pthread_mutex_lock(&m->lock);
    *out = m->n;
    for (ft_job *j = m->jobs; j; j = j->next) {
        const bool live = script_live(j);
        out->busy += live && j->slot >= 0;
        out->waiting += live && j->slot < 0;
    }
    for (ft_embedding *b = m->embeddings; b; b = b->next) out->busy += !b->done;
    pthread_mutex_unlock(&m->lock);
}

#endif
