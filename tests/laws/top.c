/* tests/laws/top.c - replies drawn from short lists of logits are those drawn from whole rows. ref
 * plays a device whose memory is far away: there lists are made; where it is near, rows are read.
 */
#define _XOPEN_SOURCE 700
#include "laws.h"

enum { LANES = 4, TOKENS = 24 };

static ft_task job_of(int i, int how)
{
    ft_task j = law_job(TOKENS, how % 2 ? 3 : 0);
    j.sampling.temperature = i == 3 ? 0 : 0.9f;
    j.sampling.seed = (uint64_t)(10 * how + i);
    j.sampling.top_k = 20 + i;
    if (how >= 2 || i == 3) j.sampling.repeat_penalty = 1.2f;
    if (how >= 2) j.sampling.dry_multiplier = 0.7f;
    return j;
}

static void play(const law_model *m, bool near, int how, law_reply *r)
{
    ft_engine_params p = law_params(3);
    p.lanes = LANES;
    m->dev->unified = near;
    ft_engine *e = law_engine(m, &p);
    for (int i = 0; i < LANES; i++) {
        int32_t ids[64];
        const int n = 12 + 13 * i;
        law_prompt(ids, n, m->m->V, 5 + (uint64_t)i);
        const ft_task j = job_of(i, how);
        law_start(&r[i], ft_lane_new(e), &j, ids, n);
    }
    while (ft_engine_round(e)) continue;
    for (int i = 0; i < LANES; i++) law_done(&r[i]);
    ft_engine_free(e);
    m->dev->unified = true;
}

static int lists; /* rows that were asked for */
static void (*ref_top)(ft_dev *, ft_pick *, int, ft_mat);

static void count_top(ft_dev *d, ft_pick *y, int n, ft_mat x)
{
    lists += x.T;
    ref_top(d, y, n, x);
    y[0].id = lists % 5 ? y[0].id : -2; /* a row that the device leaves out now and then */
}

static void same(const char *name)
{
    static law_reply near[LANES], far[LANES];
    law_model m = {.name = name, .dev = ft_dev_ref()};
    m.m = law_golden(name, m.dev, NULL);
    ft_ops ops = *m.dev->op;
    ref_top = ops.top;
    ops.top = count_top;
    m.dev->op = &ops;
    for (int how = 0; how < 4; how++) {
        play(&m, true, how, near);
        law(!lists, "%s: short lists where rows are near", name);
        play(&m, false, how, far);
        law(lists > TOKENS, "%s: %d short lists, want more", name, lists);
        lists = 0;
        for (int i = 0; i < LANES; i++)
            law(law_same(&near[i], &far[i]), "%s, way %d, sequence %d: another id at %d", name, how,
                i, law_parting(&near[i], &far[i]));
    }
    law_model_close(&m);
}

int main(void)
{
    if (getenv("FT_TEST_DEV") && strcmp(getenv("FT_TEST_DEV"), "cpu")) return law_end();
    same("qwen35-dense");
    same("gemma4-edge");
    return law_end();
}
