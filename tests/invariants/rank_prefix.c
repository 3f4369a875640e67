/* tests/invariants/rank_prefix.c - prefix checkpoints of a model on several ranks: the bytes of a
 * layer stay with the rank that computes it. Only under mpirun (FT_TEST_DEV=mpi). */
#define _XOPEN_SOURCE 700
#include "invariants.h"

enum { PROMPT = 230, TOKENS = 12, SHORT = 100 };

static ft_engine *engine_of(const inv_model *m, uint64_t budget)
{
    ft_engine_params p = inv_params(2);
    ft_err err;
    p.slots = 2;
    p.ctx = 300;
    ft_engine *e = inv_engine(m, &p);
    if (ft_engine_share(e, budget, NULL, &err)) check(false, "%s: %s", m->name, err.text);
    return e;
}

/* Runs the beginning of the prompt; returns the bytes between the ranks until the first step. */
static uint64_t run(inv_response *r, ft_slot *s, int n)
{
    int32_t ids[PROMPT];
    ft_task j = inv_job(TOKENS, 2);
    const uint64_t before = ft_link_bytes();
    inv_prompt(ids, PROMPT, s->e->m->V, 5);
    j.cache_prompt = true;
    inv_start(r, s, &j, ids, n);
    const uint64_t bytes = ft_link_bytes() - before;
    while (ft_slot_busy(s)) ft_engine_step(s->e);
    inv_done(r);
    return bytes;
}

static ft_prefix_counts counts(const ft_engine *e)
{
    ft_prefix_counts n = {0};
    if (e->prefix) ft_prefix_count(e->prefix, &n);
    return n;
}

/* Hits on another slot, also after a checkpoint was divided in two. */
static uint64_t check_hits(const inv_model *m, inv_response *cold)
{
    static inv_response warm;
    uint64_t bytes[2];
    for (int i = 0; i < 2; i++) { /* without checkpoints, and with them */
        ft_engine *e = engine_of(m, i ? 1 << 30 : 0);
        const uint64_t before = ft_link_bytes();
        run(cold, ft_slot_new(e), PROMPT);
        bytes[i] = ft_link_bytes() - before;
        if (!i) ft_engine_free(e);
        if (!i) continue;
        const uint64_t all = counts(e).bytes;
        check(counts(e).points > 0 && all > 10000, "%s: a checkpoint of %d bytes", m->name,
              (int)all);
        check(bytes[1] < bytes[0] + all / 8, "%s: %lld bytes more for a checkpoint of %lld",
              m->name, (long long)(bytes[1] - bytes[0]), (long long)all);
        ft_slot *s = ft_slot_new(e);
        for (int k = 0; k < 2; k++) {
            ft_slot_forget(s, NULL);
            const uint64_t hit = run(&warm, s, PROMPT);
            check(warm.stats.cached_n >= 192, "%s: %d cached positions", m->name,
                  (int)warm.stats.cached_n);
            check(inv_same(cold, &warm), "%s: different id at %d", m->name,
                  inv_first_difference(cold, &warm));
            check(hit < all / 8, "%s: %lld bytes for a hit of %lld", m->name, (long long)hit,
                  (long long)all);
            static inv_response other;
            ft_slot_forget(s, NULL);
            run(&other, s, SHORT); /* its checkpoint is one of the longer prompt too */
        }
        ft_engine_free(e);
        return all;
    }
    return 0;
}

/* The budget is that of each rank. */
static void check_budget(const inv_model *m, uint64_t all)
{
    static inv_response r;
    ft_engine *e = engine_of(m, all - all / 20);
    run(&r, ft_slot_new(e), PROMPT);
    check(counts(e).bytes > all - all / 20, "%s: %lld of %lld bytes kept", m->name,
          (long long)counts(e).bytes, (long long)all);
    ft_engine_free(e);
    e = engine_of(m, all / 50);
    run(&r, ft_slot_new(e), PROMPT);
    check(counts(e).bytes <= (uint64_t)ft_link_size() * (all / 50), "%s: more than the budget",
          m->name);
    ft_engine_free(e);
}

/* A saved slot has all bytes, and is restored to the ranks. */
static void check_file(const inv_model *m, const inv_response *cold)
{
    static inv_response warm;
    char path[] = "/tmp/foretoken-ranks-XXXXXX";
    ft_err err = {0};
    int n = 0;
    close(mkstemp(path));
    ft_engine *e = engine_of(m, 1 << 30);
    ft_slot *s = ft_slot_new(e);
    run(&warm, s, PROMPT);
    check(!ft_slot_write(s, path, &n, &err) && n > PROMPT, "%s: %s", m->name, err.text);
    ft_engine_free(e);
    e = engine_of(m, 1 << 30);
    s = ft_slot_new(e);
    check(!ft_slot_read(s, 0, NULL, path, &n, &err) && n > PROMPT, "%s: %s", m->name, err.text);
    ft_slot *other = ft_slot_new(e);
    run(&warm, other, PROMPT);
    check(warm.stats.cached_n >= 192 && inv_same(cold, &warm),
          "%s: %d positions from a file, different id at %d", m->name, (int)warm.stats.cached_n,
          inv_first_difference(cold, &warm));
    ft_engine_free(e);
    unlink(path);
}

static void check_model(const char *name, const char *assistant)
{
    static inv_response cold;
    inv_model m = inv_model_golden(name, assistant, 1);
    const uint64_t all = check_hits(&m, &cold);
    check_budget(&m, all);
    check_file(&m, &cold);
    inv_model_close(&m);
}

int main(void)
{
    if (!getenv("FT_TEST_DEV") || strcmp(getenv("FT_TEST_DEV"), "mpi")) return inv_end();
    check_model("qwen35-dense", NULL);
    check_model("gemma4-edge", "gemma4-edge-assistant");
    return inv_end();
}
