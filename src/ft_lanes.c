/* ft_lanes.c - lanes seen from outside, and embeddings: the engine does not offer them yet. */
#include "base/err.h"

static ft_status not_yet(ft_err *err, const char *what)
{
    return ft_fail(err, FT_EUNSUPPORTED, "%s is not supported by this build", what);
}

int ft_llm_lanes(ft_llm *m, ft_lane_info *out, int cap)
{
    const ft_llm_info *i = ft_llm_about(m);
    for (int k = 0; k < cap && k < i->lanes; k++) out[k] = (ft_lane_info){.id = k, .ctx = i->ctx};
    return i->lanes;
}

ft_status ft_lane_save(ft_llm *m, int lane, const char *path, int *n_tokens, ft_err *err)
{
    (void)m, (void)lane, (void)path, (void)n_tokens;
    return not_yet(err, "saving a slot");
}

ft_status ft_lane_restore(ft_llm *m, int lane, const char *path, int *n_tokens, ft_err *err)
{
    (void)m, (void)lane, (void)path, (void)n_tokens;
    return not_yet(err, "restoring a slot");
}

ft_status ft_lane_erase(ft_llm *m, int lane, int *n_tokens, ft_err *err)
{
    (void)m, (void)lane, (void)n_tokens;
    return not_yet(err, "erasing a slot");
}

ft_status ft_llm_embed(ft_llm *m, const int32_t *ids, int n, ft_pooling pooling, float *out,
                       ft_err *err)
{
    (void)m, (void)ids, (void)n, (void)pooling, (void)out;
    return not_yet(err, "an embedding");
}
