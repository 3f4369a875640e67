/* api/queue.c - starts and stops the engine thread, and reads its statistics. */
#include "api/model.h"
#include "base/mem.h"

void ft_queue_defaults(ft_queue_params *p)
{
    *p = (ft_queue_params){.waiting = 256, .step_ms = 50, .prefix_bytes = (uint64_t)8 << 30};
}

ft_status ft_llm_start(ft_llm *m, const ft_queue_params *p, ft_err *err)
{
    if (m->queue && !ft_queue_stopped(m->queue))
        return ft_fail(err, FT_EINVAL, "the model's queue runs already");
    ft_queue_free(m->queue);
    m->queue = NULL;
    return ft_queue_new(&m->queue, m->engine, p, err);
}

void ft_llm_stop(ft_llm *m, bool drain)
{
    if (m->queue) ft_queue_stop(m->queue, drain);
}

void ft_llm_counts(ft_llm *m, ft_llm_stats *out)
{
    *out = (ft_llm_stats){0};
    if (m->queue) ft_queue_counts(m->queue, out);
}
