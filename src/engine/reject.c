/* engine/reject.c - rejection sampling: drafts are drawn from the head's distribution q and kept
 * with probability min(1, p/q); a refused one is replaced by a draw from what p has over q. The
 * reply follows p, as without drafts, but a seed gives other ids. */
#include "base/mem.h"
#include "base/rng.h"
#include "engine/lane.h"

/* Streams of random numbers beside the sampler's own. */
enum { DRAFT = 64, ACCEPT, REST };

static double unit(const ft_lane *l, uint64_t at, uint32_t stream)
{
    return ft_unit_f64(ft_rng_at(l->job.sampling.seed, at, stream));
}

/* The id at which the sum of w passes u times its total; -1 when all are 0. */
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

bool ft_rejecting(const ft_lane *l)
{
    return l->q && !ft_sampler_greedy(l->sampler) && !l->job.sampling.mirostat;
}

int32_t ft_reject_draft(ft_lane *l, const float *logits)
{
    const int V = l->e->m->V;
    const uint64_t at = (uint64_t)(l->n_ids + l->n_draft);
    float *q = l->q + (size_t)l->n_draft * (size_t)V;
    if (!ft_sampler_probs(l->drafting, logits, NULL, at, q)) return -1;
    return pick(q, V, unit(l, at, DRAFT));
}

int32_t ft_reject_draw(ft_lane *l, const float *logits, const uint32_t *mask, int i)
{
    const int V = l->e->m->V;
    const uint64_t at = (uint64_t)l->n_ids;
    const float *q = l->q + (size_t)i * (size_t)V;
    const int32_t d = l->draft[i];
    float *p = l->p;
    if (!ft_sampler_probs(l->sampler, logits, mask, at, p)) return -1;
    if (unit(l, at, ACCEPT) * (double)q[d] < (double)p[d]) return d;
    for (int k = 0; k < V; k++) p[k] = FT_MAX(p[k] - q[k], 0.0F);
    const int32_t id = pick(p, V, unit(l, at, REST));
    return id >= 0 ? id : ft_sampler_draw(l->sampler, logits, mask, at);
}
