#include "api/prompt_scores.h"

#include "base/mem.h"

#include <math.h>

enum { STORED = 16 }; /* prompts */

typedef struct stored_prompt {
    int32_t *ids;
    int n, width;
    uint64_t salt, used;
    ft_token_prob *score; /* [n][width] */
} stored_prompt;

struct ft_score_store {
    stored_prompt at[STORED];
    uint64_t clock;
};

static int row_width(const ft_generate *a)
{
    return 1 + FT_MIN(a->r->top_logprobs, FT_LOGPROBS_MAX);
}

static uint64_t salt_of(const ft_generate *a)
{
    return a->r->cache_salt + a->lora_key;
}

static int common_prefix(const stored_prompt *p, const ft_ids *ids)
{
    const int most = FT_MIN(p->n, (int)ids->n);
    int n = 0;
    while (n < most && p->ids[n] == ids->id[n]) n++;
    return n;
}

/* Under the model's lock: the stored prompt with the longest common prefix. */
static stored_prompt *best_match(struct ft_score_store *s, const ft_generate *a, int *same)
{
    stored_prompt *best = NULL;
    *same = 0;
    for (int i = 0; s && i < STORED; i++) {
        stored_prompt *p = &s->at[i];
        if (!p->ids || p->salt != salt_of(a) || p->width < row_width(a)) continue;
        const int n = common_prefix(p, &a->ids);
        if (n <= *same) continue;
        best = p;
        *same = n;
    }
    return best;
}

void ft_scores_begin(ft_generate *a, ft_llm *m)
{
    const int w = row_width(a), n = (int)a->ids.n;
    int same;
    a->score = ft_new_n(ft_token_prob, (size_t)n * (size_t)w);
    for (int i = 0; i < n * w; i++)
        a->score[i] = (ft_token_prob){i % w ? -1 : a->ids.id[i / w], NAN};
    if (!a->r->cache_prompt || a->r->n_images) return;
    pthread_mutex_lock(&m->lock);
    stored_prompt *p = best_match(m->scores, a, &same);
    for (int i = 1; i < same; i++)
        memcpy(a->score + (size_t)i * (size_t)w, p->score + (size_t)i * (size_t)p->width,
               sizeof *a->score * (size_t)w);
    if (p) p->used = ++m->scores->clock;
    pthread_mutex_unlock(&m->lock);
    a->score_from = FT_MAX(0, same - 1); /* this row predicts the first token that differs */
}

void ft_scores_put(void *user, int i, const ft_logprob *p, int n)
{
    ft_generate *a = user;
    const int w = row_width(a);
    _Static_assert(sizeof *a->score == sizeof *p, "both are an id and its log probability");
    memcpy(a->score + (size_t)i * (size_t)w, p, sizeof *p * (size_t)FT_MIN(n, w));
}

void ft_scores_end(const ft_generate *a, ft_llm *m)
{
    const size_t n = a->ids.n, w = (size_t)row_width(a);
    if (!a->score || !a->r->cache_prompt || a->r->n_images) return;
    pthread_mutex_lock(&m->lock);
    if (!m->scores) m->scores = ft_new(struct ft_score_store);
    stored_prompt *p = &m->scores->at[0];
    for (int i = 1; i < STORED; i++)
        if (m->scores->at[i].used < p->used) p = &m->scores->at[i];
    ft_free(p->ids);
    ft_free(p->score);
    *p = (stored_prompt){.ids = ft_new_n(int32_t, n),
                         .n = (int)n,
                         .width = (int)w,
                         .salt = salt_of(a),
                         .used = ++m->scores->clock,
                         .score = ft_new_n(ft_token_prob, n * w)};
    memcpy(p->ids, a->ids.id, sizeof *p->ids * n);
    memcpy(p->score, a->score, sizeof *p->score * n * w);
    pthread_mutex_unlock(&m->lock);
}

void ft_scores_free(struct ft_score_store *s)
{
    for (int i = 0; s && i < STORED; i++) {
        ft_free(s->at[i].ids);
        ft_free(s->at[i].score);
    }
    ft_free(s);
}
