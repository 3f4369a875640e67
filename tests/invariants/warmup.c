/* tests/invariants/warmup.c - an engine that was warmed up before the first response gives the same
 * responses, and every step finds a captured graph. Where the device does not capture graphs, the
 * test simulates one that does. */
#define _XOPEN_SOURCE 700
#include "invariants.h"

#include "dev/batch_shape.h"

static void check_same(const char *name, const char *assistant)
{
    static inv_response cold, warm;
    inv_model m = inv_model_golden(name, assistant, 1);
    ft_engine_params p = inv_params(4);
    int32_t ids[70];
    inv_prompt(ids, 70, m.m->V, 9);
    const ft_task j = inv_job(40, 4);
    for (int ctx = 100; ctx <= 600; ctx += 500) {
        ft_err err;
        p.ctx = ctx;
        inv_response_alone(&cold, &m, &p, &j, ids, 50);
        ft_engine *e = inv_engine(&m, &p);
        if (ft_engine_warm_up(e, &err)) check(false, "%s: %s", name, err.text);
        inv_response_on(&warm, ft_slot_new(e), &j, ids, 50);
        check(inv_same(&cold, &warm), "%s, context %d: different id at %d", name, ctx,
              inv_first_difference(&cold, &warm));
        check(cold.stats.drafted == warm.stats.drafted &&
                  cold.stats.accepted == warm.stats.accepted,
              "%s, context %d: other drafts", name, ctx);
        ft_engine_free(e);
    }
    inv_model_close(&m);
}

/* ---- a simulated device that captures graphs ---- */

static struct {
    bool (*replay)(ft_dev *, const void *); /* of the device; NULL: it is simulated */
    bool rehearsing;
    int kept, steps, fresh;
    struct {
        const void *pass;
        ft_batch_shape shape;
    } step[4096];
} seen;

static bool is_kept(const void *pass, const ft_batch_shape *s)
{
    for (int i = 0; i < seen.kept; i++)
        if (seen.step[i].pass == pass && ft_batch_shape_same(&seen.step[i].shape, s)) return true;
    return false;
}

/* Captures steps of the warm-up only, without running them. */
static bool simulated_replay(ft_dev *d, const void *pass)
{
    const ft_batch_shape s = ft_batch_shape_of(d->batch);
    const bool again = is_kept(pass, &s);
    d->uncaptured = !seen.rehearsing && !again && s.T <= FT_SHAPE_ROWS;
    if (seen.rehearsing && !again && s.T <= FT_SHAPE_ROWS && seen.kept < (int)FT_COUNT(seen.step)) {
        seen.step[seen.kept].pass = pass;
        seen.step[seen.kept++].shape = s;
    }
    return seen.rehearsing;
}

static bool counted_replay(ft_dev *d, const void *pass)
{
    const bool again = seen.replay ? seen.replay(d, pass) : simulated_replay(d, pass);
    if (!seen.rehearsing && ft_longest_span(d->batch) <= FT_DECODE_ROWS) { /* not a prompt */
        seen.steps++;
        seen.fresh += d->uncaptured;
    }
    return again;
}

static void play_rehearse(ft_dev *d, bool on)
{
    (void)d;
    seen.rehearsing = on;
}

static void watch_device(ft_dev *d)
{
    memset(&seen, 0, sizeof seen);
    if (d->captures) seen.replay = d->replay;
    d->replay = counted_replay;
    if (!d->captures) d->capture = play_rehearse;
    d->captures = true;
}

/* Four prompts in one step, then responses with adaptive drafting: none of their steps is the first
 * of its batch shape. They differ in context length, in response length and in sampling. */
static void check_no_fresh_steps(inv_model m, int ctx, bool warm)
{
    enum { SLOTS = 4, PROMPT = 70 };
    static inv_response r[SLOTS];
    static int32_t ids[SLOTS][400];
    const char *name = m.name;
    ft_err err;
    watch_device(m.dev);
    ft_engine_params p = inv_params(3);
    p.slots = SLOTS;
    p.ctx = ctx;
    p.rows = 2048;
    ft_engine *e = inv_engine(&m, &p);
    if (warm && ft_engine_warm_up(e, &err)) check(false, "%s: %s", name, err.text);
    for (int i = 0; i < SLOTS; i++) {
        ft_task j = inv_job(24 + 7 * i, i);
        const int n = ctx > 512 ? 360 + 10 * i : PROMPT + i;
        if (i == 2) j.sampling.temperature = 0.8f;
        inv_prompt(ids[i], n, m.m->V, i);
        inv_start(&r[i], ft_slot_new(e), &j, ids[i], n);
    }
    while (ft_engine_step(e)) {
    }
    for (int i = 0; i < SLOTS; i++) inv_done(&r[i]);
    check(seen.steps > 30, "%s: %d steps, want more than 30", name, seen.steps);
    check(warm ? !seen.fresh : seen.fresh > 3, "%s, context %d: %d of %d steps %s", name, ctx,
          seen.fresh, seen.steps,
          warm ? "were not captured by the warm-up" : "were the first of their shape, want more");
    ft_engine_free(e);
    inv_model_close(&m);
}

/* ---- time ---- */

static bool fresh;

static bool play_fresh(ft_dev *d, const void *pass)
{
    (void)pass;
    d->uncaptured = fresh;
    return false;
}

/* The governor ignores the times of the first steps of a batch shape. */
static void first_steps_are_not_timed(void)
{
    static inv_response r;
    inv_model m = inv_model_golden("qwen35-dense", NULL, 1);
    if (!m.dev->captures) m.dev->replay = play_fresh;
    for (int i = 0; i < 2 && !m.dev->captures; i++) {
        ft_engine_params p = inv_params(3);
        int32_t ids[20];
        inv_prompt(ids, 20, m.m->V, 2);
        const ft_task j = inv_job(12, 3);
        fresh = i == 0;
        ft_engine *e = inv_engine(&m, &p);
        inv_response_on(&r, ft_slot_new(e), &j, ids, 20);
        int times = 0;
        for (int k = 0; k < FT_GOV_SIZES; k++)
            times += e->costs.trunk[0][0][k].n + e->costs.first[k].n + e->costs.next[k].n;
        check(fresh ? times == 0 : times > 4, "%d times of %s steps", times,
              fresh ? "fresh" : "settled");
        ft_engine_free(e);
    }
    inv_model_close(&m);
}

int main(void)
{
    check_same("qwen35-dense", NULL);
    check_same("qwen35-moe", NULL);
    check_same("gemma4-edge", "gemma4-edge-assistant");
    check_same("gemma4-gqa", "gemma4-gqa-assistant");
    for (int ctx = 256; ctx <= 1024; ctx += 768) {
        check_no_fresh_steps(inv_model_golden("qwen35-dense", NULL, 1), ctx, true);
        check_no_fresh_steps(inv_model_golden("qwen35-moe", NULL, 1), ctx, true);
        check_no_fresh_steps(inv_model_golden("gemma4-edge", "gemma4-edge-assistant", 1), ctx,
                             true);
    }
    inv_model two = inv_model_golden("qwen35-moe", NULL, 1);
    two.assistant = inv_golden("qwen35-gqa", two.dev, NULL);
    check_no_fresh_steps(two, 1024, true);
    check_no_fresh_steps(inv_model_golden("qwen35-dense", NULL, 1), 256, false);
    first_steps_are_not_timed();
    return inv_end();
}
