/* tests/laws/warm.c - an engine that has run its steps before the first reply gives the same ones. */
#define _XOPEN_SOURCE 700
#include "laws.h"

static void same(const char *name, const char *assistant)
{
    static law_reply cold, warm;
    law_model m = law_model_golden(name, assistant, 1);
    ft_engine_params p = law_params(4);
    int32_t ids[70];
    law_prompt(ids, 70, m.m->V, 9);
    const ft_task j = law_job(40, 4);
    for (int ctx = 100; ctx <= 600; ctx += 500) {
        ft_err err;
        p.ctx = ctx;
        law_reply_alone(&cold, &m, &p, &j, ids, 50);
        ft_engine *e = law_engine(&m, &p);
        if (ft_engine_warm(e, &err)) law(false, "%s: %s", name, err.text);
        law_reply_on(&warm, ft_lane_new(e), &j, ids, 50);
        law(law_same(&cold, &warm), "%s, context %d: another id at %d", name, ctx,
            law_parting(&cold, &warm));
        law(cold.stats.drafted == warm.stats.drafted && cold.stats.accepted == warm.stats.accepted,
            "%s, context %d: other drafts", name, ctx);
        ft_engine_free(e);
    }
    law_model_close(&m);
}

int main(void)
{
    same("qwen35-dense", NULL);
    same("qwen35-moe", NULL);
    same("gemma4-edge", "gemma4-edge-assistant");
    same("gemma4-gqa", "gemma4-gqa-assistant");
    return law_end();
}
