/* api/queue.c - starts and stops the engine thread, and reads its statistics. */
#include "api/model.h"
#include "base/mem.h"

#include <string.h>

void ft_queue_defaults(ft_queue_params *p)
{
    *p = (ft_queue_params){.waiting = 256, .step_ms = 150, .prefix_bytes = (uint64_t)8 << 30};
}

ft_status ft_llm_start(ft_llm *m, const ft_queue_params *p, ft_err *err)
{
    if (m->queue && !ft_queue_stopped(m->queue))
        return ft_fail(err, FT_EINVAL, "the model's queue runs already");
    ft_queue_free(m->queue);
    m->queue = NULL;
    const ft_queue_limits limits = {.waiting = p->waiting,
                                    .per_client = p->per_client,
                                    .step_ms = p->step_ms,
                                    .prefix_bytes = p->prefix_bytes,
                                    .cache_dir = p->cache_dir};
    const int places = m->info.slots + p->waiting;
    m->info.jobs_max = p->per_client > 0 ? FT_MIN(p->per_client, places) : places;
    return ft_queue_new(&m->queue, m->engine, &limits, err);
}

void ft_llm_stop(ft_llm *m, bool drain)
{
    if (m->queue) ft_queue_stop(m->queue, drain);
}

void ft_llm_counts(ft_llm *m, ft_llm_stats *out)
{
    *out = (ft_llm_stats){0};
    if (!m->queue) return;
    ft_queue_totals t;
    ft_queue_counts(m->queue, &t);
    *out = (ft_llm_stats){
        .prompt_tokens = t.prompt_tokens,
        .cached_tokens = t.cached_tokens,
        .output_tokens = t.output_tokens,
        .steps = t.steps,
        .decode_steps = t.decode_steps,
        .drafted = t.drafted,
        .accepted = t.accepted,
        .preempted = t.preempted,
        .cancelled = t.cancelled,
        .responses = t.responses,
        .prompt_s = t.prompt_s,
        .output_s = t.output_s,
        .busy = t.busy,
        .waiting = t.waiting,
        .prefix_bytes = t.prefix_bytes,
        .prefix_hits = t.prefix_hits,
        .prefix_misses = t.prefix_misses,
        .prefix_entries = t.prefix_entries,
        .prefix_state = t.prefix_state,
        .run_s = t.run_s,
        .device_s = t.device_s,
        .pages = t.pages,
        .pages_free = t.pages_free,
        .pages_cached = t.pages_cached,
        .step_s = t.step_s,
        .failed = t.failed,
    };
    _Static_assert(sizeof out->step_at == sizeof t.step_at, "the histograms have equal buckets");
    memcpy(out->step_at, t.step_at, sizeof out->step_at);
}
