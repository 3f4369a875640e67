/* tests/invariants/rotation.c - if fewer responses than all run in each step, every response has
 * the ids that it has alone, and none of them rests in two steps in a row. */
#include "invariants.h"

enum { RESPONSES = 21, RUN = 16, TOKENS = 30, PROMPT = 9 };

/* As if a step of 16 rows were much faster than one of 21. */
static void prefer_fewer(ft_engine *e)
{
    e->rotation.time[RESPONSES] = (ft_rotation_time){1.0, FT_ROTATION_SAMPLES};
    e->rotation.time[RUN] = (ft_rotation_time){0.1, FT_ROTATION_SAMPLES};
}

/* Steps in which the response rested, and how many of them in a row at most. */
typedef struct rest {
    int n, now, most;
} rest;

static void watch(const ft_slot *s, rest *r)
{
    if (s->state != SLOT_DECODE) return;
    r->now = s->rows.n ? 0 : r->now + 1;
    r->n += !s->rows.n;
    r->most = FT_MAX(r->most, r->now);
}

static void together(const inv_model *m, int drafts)
{
    static inv_response alone[RESPONSES], r[RESPONSES];
    static int32_t prompt[RESPONSES][PROMPT];
    rest rested[RESPONSES] = {0};
    ft_engine_params p = inv_params(drafts);
    const ft_task t = inv_job(TOKENS, drafts);
    p.adapt = true;
    for (int i = 0; i < RESPONSES; i++) {
        inv_prompt(prompt[i], PROMPT, m->m->V, (uint64_t)i);
        inv_response_alone(&alone[i], m, &p, &t, prompt[i], PROMPT);
    }
    p.slots = RESPONSES;
    ft_engine *e = inv_engine(m, &p);
    for (int i = 0; i < RESPONSES; i++) inv_start(&r[i], ft_slot_new(e), &t, prompt[i], PROMPT);
    int fewer = 0;
    do {
        prefer_fewer(e);
        if (!ft_engine_step(e)) break;
        for (int i = 0; i < RESPONSES; i++) watch(r[i].slot, &rested[i]);
        fewer += e->resting == RESPONSES - RUN;
    } while (true);
    check(fewer > 0, "%s, %d draft tokens: all responses run in every step", m->name, drafts);
    for (int i = 0; i < RESPONSES; i++) {
        inv_done(&r[i]);
        check(inv_same(&r[i], &alone[i]), "%s, %d draft tokens: response %d differs at token %d",
              m->name, drafts, i, inv_first_difference(&r[i], &alone[i]));
        check(rested[i].most <= 1, "%s, %d draft tokens: response %d rests %d steps in a row",
              m->name, drafts, i, rested[i].most);
        check(drafts || rested[i].n > 0, "%s: response %d never rests", m->name, i);
        ft_slot_free(r[i].slot);
    }
    ft_engine_free(e);
}

int main(int argc, char **argv)
{
    static const char *const models[] = {"qwen35-dense", "gemma4-dense"};
    for (size_t i = 0; i < FT_COUNT(models); i++) {
        if (!inv_wanted(argc, argv, models[i])) continue;
        inv_model m = inv_model_golden(models[i], NULL, 2);
        together(&m, 0);
        if (m.m->drafter) together(&m, 3);
        inv_model_close(&m);
    }
    return inv_end();
}
