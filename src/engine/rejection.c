/* engine/rejection.c - rejection sampling: draft tokens are sampled from the drafter's
 * distribution q and accepted with probability min(1, p/q); a rejected one is replaced by a
 * sample from max(0, p - q), normalised. The response follows p, as without drafting, but a seed
 * gives different ids. */
#include "base/mem.h"
#include "base/rng.h"
#include "engine/slot.h"

/* Random number streams, distinct from those of the sampler. */
enum { DRAFT = 64, ACCEPT, REST };

static double unit(const ft_slot *s, uint64_t at, uint32_t stream)
{
    return ft_unit_f64(ft_rng_at(s->task.sampling.seed, at, stream));
}

/* The first id at which the cumulative sum of w exceeds u times its total; -1 when all are 0. */
static int32_t pick(const float *w, int V, double u)
{
    double sum = 0, at = 0;
    int32_t last = -1;
    for (int i = 0; i < V; i++) sum += (double)w[i];
    for (int32_t i = 0; i < V; i++) {
        if (!(w[i] > 0)) continue;
        last = i;
        if ((at += (double)w[i]) > u * sum) break;
    }
    return last;
}

bool ft_rejecting(const ft_slot *s)
{
    return s->draft.q && !ft_sampler_greedy(s->sampler) && !s->task.sampling.mirostat;
}

int32_t ft_reject_draft(ft_slot *s, const float *logits)
{
    const int V = s->e->m->V;
    const uint64_t at = (uint64_t)(s->n_ids + s->draft.n);
    float *q = s->draft.q + (size_t)s->draft.n * (size_t)V;
    if (!ft_sampler_probs(s->draft.sampler, logits, NULL, at, q)) return -1;
    return pick(q, V, unit(s, at, DRAFT));
}

int32_t ft_reject_draw(ft_slot *s, const float *logits, const uint32_t *mask, int i)
{
    const int V = s->e->m->V;
    const uint64_t at = (uint64_t)s->n_ids;
    const float *q = s->draft.q + (size_t)i * (size_t)V;
    const int32_t d = s->draft.id[i];
    float *p = s->draft.p;
    if (!ft_sampler_probs(s->sampler, logits, mask, at, p)) return -1;
    if (unit(s, at, ACCEPT) * (double)q[d] < (double)p[d]) return d;
    for (int k = 0; k < V; k++) p[k] = FT_MAX(p[k] - q[k], 0.0F);
    const int32_t id = pick(p, V, unit(s, at, REST));
    return id >= 0 ? id : ft_sampler_draw(s->sampler, logits, mask, at);
}
