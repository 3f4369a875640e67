/* tests/invariants/waiting.c - no prompt waits for ever: however many shorter ones keep coming, and
 * however many responses run beside it, a prompt with r tokens to go gets rows within r /
 * FT_CHUNK_ROWS + slots steps. */
#include "invariants.h"

enum { SLOTS_MAX = 8, LONG = 900, STEPS = 4000 };

typedef struct slot {
    ft_slot *slot;
    int32_t prompt[LONG];
    int len, since; /* tokens in the cache; steps since there were more */
} slot;

static bool emit(void *user, const ft_emit *e)
{
    (void)user, (void)e;
    return true;
}

static void begin(slot *s, const inv_model *m, int n, int max_tokens, uint64_t seed)
{
    ft_err err;
    ft_task t = inv_job(max_tokens, 0);
    inv_prompt(s->prompt, n, m->m->V, seed);
    t.prompt = s->prompt;
    t.n_prompt = n;
    t.ignore_eog = true;
    t.emit = emit;
    s->len = s->since = 0;
    if (ft_slot_start(s->slot, &t, &err)) check(false, "start: %s", err.text);
}

/* Steps that the prompt has gone without rows, and how many it may. */
static void watch(slot *s, int slots, int *worst)
{
    if (s->slot->state != SLOT_PREFILL) return;
    const int left = s->slot->task.n_prompt - slot_len(s->slot);
    s->since = slot_len(s->slot) > s->len ? 0 : s->since + 1;
    s->len = slot_len(s->slot);
    *worst = FT_MAX(*worst, s->since - (left + FT_CHUNK_ROWS - 1) / FT_CHUNK_ROWS - slots);
}

/* One long prompt; the other slots always have something shorter to read, or a response to give. */
static void beside(const inv_model *m, int slots, int rows, uint64_t seed)
{
    static slot s[SLOTS_MAX];
    ft_engine_params p = inv_params(0);
    ft_rng r = {seed};
    p.slots = slots;
    p.ctx = 1024;
    p.rows = rows;
    ft_engine *e = inv_engine(m, &p);
    ft_engine_limit_step(e, 1e-6); /* a chunk for each step while responses run */
    for (int i = 0; i < slots; i++) s[i].slot = ft_slot_new(e);
    begin(&s[0], m, LONG, 1, seed);
    int worst = -slots, done_at = -1;
    for (int step = 0; step < STEPS && done_at < 0; step++) {
        for (int i = 1; i < slots; i++)
            if (!ft_slot_busy(s[i].slot))
                begin(&s[i], m, 65 + (int)(ft_rng_u64(&r) % 256), 1 + (int)(ft_rng_u64(&r) % 6),
                      ft_rng_u64(&r));
        ft_engine_step(e);
        for (int i = 0; i < slots; i++) watch(&s[i], slots, &worst);
        if (!ft_slot_busy(s[0].slot)) done_at = step;
    }
    check(done_at >= 0, "%d slots, %d rows: a long prompt is not read after %d steps", slots, rows,
          STEPS);
    check(worst <= 0, "%d slots, %d rows: a prompt waited %d steps more than it may", slots, rows,
          worst);
    for (int i = 0; i < slots; i++) {
        if (ft_slot_busy(s[i].slot)) ft_slot_cancel(s[i].slot);
        ft_slot_free(s[i].slot);
    }
    ft_engine_free(e);
}

/* A response that never ends and a step of one chunk: the prompt beside it is read all the same. */
static void beside_response(const inv_model *m)
{
    static slot s[2];
    ft_engine_params p = inv_params(0);
    p.slots = 2;
    p.ctx = 1024;
    p.rows = FT_CHUNK_ROWS;
    ft_engine *e = inv_engine(m, &p);
    for (int i = 0; i < 2; i++) s[i].slot = ft_slot_new(e);
    begin(&s[0], m, 10, 900, 1);
    for (int i = 0; i < 3; i++) ft_engine_step(e);
    begin(&s[1], m, 300, 1, 2);
    for (int i = 0; i < 10 && ft_slot_busy(s[1].slot); i++) ft_engine_step(e);
    check(!ft_slot_busy(s[1].slot), "a prompt of 300 tokens waits for another's response");
    for (int i = 0; i < 2; i++) {
        if (ft_slot_busy(s[i].slot)) ft_slot_cancel(s[i].slot);
        ft_slot_free(s[i].slot);
    }
    ft_engine_free(e);
}

int main(void)
{
    inv_model m = inv_model_golden("qwen35-dense", NULL, 1);
    for (int slots = 2; slots <= SLOTS_MAX; slots += 2)
        for (int rows = 64; rows <= 256; rows *= 2)
            beside(&m, slots, rows, (uint64_t)(slots + rows));
    beside_response(&m);
    inv_model_close(&m);
    return inv_end();
}
