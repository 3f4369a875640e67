/* tests/laws/warm.c - an engine that has run its steps before the first reply gives the same ones.
 */
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

static bool fresh;

static bool play_fresh(ft_dev *d, const void *pass)
{
    (void)pass;
    d->fresh = fresh;
    return false;
}

/* The governor does not take the first steps of a shape for what a step costs. */
static void first_steps_are_not_timed(void)
{
    static law_reply r;
    law_model m = law_model_golden("qwen35-dense", NULL, 1);
    if (!m.dev->replays) m.dev->replay = play_fresh;
    for (int i = 0; i < 2 && !m.dev->replays; i++) {
        ft_engine_params p = law_params(3);
        int32_t ids[20];
        law_prompt(ids, 20, m.m->V, 2);
        const ft_task j = law_job(12, 3);
        fresh = i == 0;
        ft_engine *e = law_engine(&m, &p);
        law_reply_on(&r, ft_lane_new(e), &j, ids, 20);
        int times = 0;
        for (int k = 0; k < FT_GOV_SIZES; k++)
            times += e->costs.trunk[0][k].n + e->costs.first[k].n + e->costs.next[k].n;
        law(fresh ? times == 0 : times > 4, "%d times of %s steps", times,
            fresh ? "fresh" : "settled");
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
    first_steps_are_not_timed();
    return law_end();
}
