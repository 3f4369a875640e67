/* tests/invariants/chain.c - drafts that follow one another on the device are the drafts that are
 * read one by one. A device whose memory is not ours chains its draft passes; here the cpu plays
 * one. What was drafted is compared, not only what was kept: a random head is seldom accepted. */
#define _XOPEN_SOURCE 700
#include "invariants.h"

enum { SLOTS = 3, BANS = 5 };

/* MIXED: the last slot must look. BANNED: a chain ends at an id that is banned, where others take
 * the next best. */
typedef enum way { PLAIN, MIXED, BANNED, WAYS } way;

/* The drafts of all steps, out of the trace. */
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

/* Slots that draft 4, 2 and 1 tokens a step. */
static void play(const inv_model *m, bool unified, way w, const ft_logit_bias *never, notes *out,
                 inv_response *r)
{
    ft_engine_params p = inv_params(4);
    p.slots = SLOTS;
    m->dev->unified = unified;
    m->dev->pipelined = !unified;
    ft_engine *e = inv_engine(m, &p);
    ft_engine_trace(e, note, out);
    for (int i = 0; i < SLOTS; i++) {
        int32_t ids[80];
        const int n = 20 + 20 * i;
        inv_prompt(ids, n, m->m->V, 7 + (uint64_t)i);
        ft_task j = inv_job(24, 4 >> i);
        if (w == MIXED && i == SLOTS - 1) j.sampling.repeat_penalty = 1.2f;
        if (w == BANNED) j.sampling.bias = never, j.sampling.n_bias = BANS;
        inv_start(&r[i], ft_slot_new(e), &j, ids, n);
    }
    while (ft_engine_round(e)) continue;
    for (int i = 0; i < SLOTS; i++) inv_done(&r[i]);
    ft_engine_free(e);
    m->dev->unified = true;
    m->dev->pipelined = false;
}

static void same_drafts(const char *name, const char *assistant)
{
    static notes one, all;
    static inv_response a[SLOTS], b[SLOTS];
    inv_model m = inv_model_golden(name, assistant, 1);
    ft_logit_bias never[BANS] = {0};
    for (way w = PLAIN; w < WAYS; w++) {
        one = all = (notes){0};
        play(&m, true, w, never, &one, a);
        play(&m, false, w, never, &all, b);
        for (int i = 0; i < BANS; i++) /* said by one slot, and drafted by others here and there */
            never[i] = (ft_logit_bias){a[0].id[a[0].n - 1 - i], -INFINITY};
        check(one.drafts > 30, "%s: %d drafts, want some", name, one.drafts);
        check(w == BANNED || !strcmp(one.text, all.text),
              "%s: other drafts when they follow one another", name);
        for (int i = 0; i < SLOTS; i++)
            check(inv_same(&a[i], &b[i]), "%s: another id at %d", name, inv_parting(&a[i], &b[i]));
    }
    inv_model_close(&m);
}

int main(void)
{
    if (getenv("FT_TEST_DEV") && strcmp(getenv("FT_TEST_DEV"), "cpu")) return inv_end();
    same_drafts("qwen35-dense", NULL);
    same_drafts("qwen35-moe", NULL);
    same_drafts("gemma4-edge", "gemma4-edge-assistant");
    same_drafts("gemma4-dense", "gemma4-dense-assistant");
    return inv_end();
}
