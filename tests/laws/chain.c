/* tests/laws/chain.c - drafts that follow one another on the device are the drafts that are read
 * one by one. A device whose memory is not ours chains its draft passes; here the cpu plays one.
 * What was drafted is compared, not only what was kept: a random head is seldom agreed to. */
#define _XOPEN_SOURCE 700
#include "laws.h"

enum { LANES = 3, BANS = 5 };

/* MIXED: the last lane must look. BANNED: a chain ends at an id that is banned, where others take
 * the next best. */
typedef enum way { PLAIN, MIXED, BANNED, WAYS } way;

/* The drafts of all rounds, out of the trace. */
typedef struct notes {
    char text[1 << 16];
    size_t n;
    int drafts;
} notes;

static void note(void *user, const char *line)
{
    notes *s = user;
    const char *from = strstr(line, ",\"drafts\"");
    if (!from) return;
    const int n = snprintf(s->text + s->n, sizeof s->text - s->n, "%s\n", from);
    if (n > 0 && (size_t)n < sizeof s->text - s->n) s->n += (size_t)n;
    for (; *from; from++) s->drafts += *from == '[' || *from == ',';
}

/* Lanes that draft 4, 2 and 1 tokens a round. */
static void play(const law_model *m, bool unified, way w, const ft_logit_bias *never, notes *out,
                 law_reply *r)
{
    ft_engine_params p = law_params(4);
    p.lanes = LANES;
    m->dev->unified = unified;
    m->dev->chains = !unified;
    ft_engine *e = law_engine(m, &p);
    ft_engine_trace(e, note, out);
    for (int i = 0; i < LANES; i++) {
        int32_t ids[80];
        const int n = 20 + 20 * i;
        law_prompt(ids, n, m->m->V, 7 + (uint64_t)i);
        ft_task j = law_job(24, 4 >> i);
        if (w == MIXED && i == LANES - 1) j.sampling.repeat_penalty = 1.2f;
        if (w == BANNED) j.sampling.bias = never, j.sampling.n_bias = BANS;
        law_start(&r[i], ft_lane_new(e), &j, ids, n);
    }
    while (ft_engine_round(e)) continue;
    for (int i = 0; i < LANES; i++) law_done(&r[i]);
    ft_engine_free(e);
    m->dev->unified = true;
    m->dev->chains = false;
}

static void same_drafts(const char *name, const char *assistant)
{
    static notes one, all;
    static law_reply a[LANES], b[LANES];
    law_model m = law_model_golden(name, assistant, 1);
    ft_logit_bias never[BANS] = {0};
    for (way w = PLAIN; w < WAYS; w++) {
        one = all = (notes){0};
        play(&m, true, w, never, &one, a);
        play(&m, false, w, never, &all, b);
        for (int i = 0; i < BANS; i++) /* said by one lane, and drafted by others here and there */
            never[i] = (ft_logit_bias){a[0].id[a[0].n - 1 - i], -INFINITY};
        law(one.drafts > 30, "%s: %d drafts, want some", name, one.drafts);
        law(w == BANNED || !strcmp(one.text, all.text),
            "%s: other drafts when they follow one another", name);
        for (int i = 0; i < LANES; i++)
            law(law_same(&a[i], &b[i]), "%s: another id at %d", name, law_parting(&a[i], &b[i]));
    }
    law_model_close(&m);
}

int main(void)
{
    if (getenv("FT_TEST_DEV") && strcmp(getenv("FT_TEST_DEV"), "cpu")) return law_end();
    same_drafts("qwen35-dense", NULL);
    same_drafts("qwen35-moe", NULL);
    same_drafts("gemma4-edge", "gemma4-edge-assistant");
    same_drafts("gemma4-dense", "gemma4-dense-assistant");
    return law_end();
}
