/* tests/invariants/sampling.c - sampled ids do not depend on drafting or on other sequences: seeds,
 * penalties, a mask that depends on the history, draft limits that change from step to step. */
#define _XOPEN_SOURCE 700
#include "invariants.h"

/* ---- a mask with state: the allowed ids depend on the last id and on the number of ids ---- */

typedef struct toy {
    int32_t last;
    int n, V;
} toy;

static bool toy_allows(void *user, int32_t id)
{
    const toy *t = user;
    return (id + t->last + t->n) % 3 != 0;
}

static bool toy_allow(void *user, uint32_t *bits, int32_t V)
{
    if (((toy *)user)->n % 5 == 4) return false; /* everything is allowed here */
    memset(bits, 0, FT_MASK_WORDS(V) * sizeof *bits);
    for (int32_t i = 0; i < V; i++)
        if (toy_allows(user, i)) bits[i / 32] |= 1u << i % 32;
    return true;
}

static bool toy_allows_now(void *user, int32_t id)
{
    return ((toy *)user)->n % 5 == 4 || toy_allows(user, id);
}

static void toy_accept(void *user, int32_t id)
{
    toy *t = user;
    t->last = id;
    t->n++;
}

static ft_mask toy_mask(toy *t)
{
    *t = (toy){0};
    return (ft_mask){.user = t, .allow = toy_allow, .allows = toy_allows_now, .accept = toy_accept};
}

/* ---- one response with and without drafting ---- */

static void on_off(const inv_model *m, const char *what, ft_task j, bool masked, bool adapt)
{
    int32_t ids[20];
    toy t;
    inv_prompt(ids, 20, m->m->V, 3);
    inv_response off = {0}, on = {0};
    ft_engine_params p = inv_params(0);
    j.draft_max = 0;
    j.max_tokens = 48;
    if (masked) j.mask = toy_mask(&t);
    inv_response_alone(&off, m, &p, &j, ids, 20);
    static const int ks[] = {1, 3, 8};
    for (size_t i = 0; i < FT_COUNT(ks); i++) {
        inv_oracle o = {.silent = 3, .rng = {i}};
        p.draft_max = j.draft_max = ks[i];
        p.adapt = adapt;
        if (masked) j.mask = toy_mask(&t);
        inv_response_oracle(&on, &o, &off, m, &p, &j);
        check(inv_same(&off, &on), "%s, %s, %d drafts: different id at %d", m->name, what, ks[i],
              inv_first_difference(&off, &on));
        check(!o.wrong, "%s, %s: %d steps accepted wrong draft tokens", m->name, what, o.wrong);
    }
}

static void samplings(const inv_model *m)
{
    ft_task j = inv_job(48, 0);
    on_off(m, "greedy under a mask", j, true, false);
    j.sampling.repeat_penalty = 1.1F;
    on_off(m, "greedy with a repeat penalty", j, false, false);
    j.sampling.frequency_penalty = 0.5F;
    j.sampling.presence_penalty = 0.5F;
    j.sampling.dry_multiplier = 0.8F;
    on_off(m, "greedy with every penalty", j, true, false);
    j = inv_job(48, 0);
    j.sampling.temperature = 1;
    j.sampling.seed = 42;
    on_off(m, "temperature 1", j, false, false);
    on_off(m, "temperature 1, governed", j, false, true);
    j.sampling.repeat_penalty = 1.2F;
    on_off(m, "temperature 1, penalty, mask", j, true, false);
    j.sampling.mirostat = 2;
    on_off(m, "mirostat", j, false, false);
}

/* ---- other sequences ---- */

/* A second request that arrives at step `at` changes nothing for the first. */
static void joined(const inv_model *m, const inv_response *alone, const ft_task *j, int at)
{
    int32_t ids[70];
    static inv_response a, b;
    ft_engine_params p = inv_params(3);
    p.slots = 2;
    inv_prompt(ids, 70, m->m->V, 900 + (uint64_t)at);
    inv_oracle o = {.truth = {alone}, .silent = 4, .rng = {(uint64_t)at}};
    ft_engine *e = inv_engine(m, &p);
    inv_oracle_add(e, &o);
    inv_start(&a, ft_slot_new(e), j, alone->id, alone->n_prompt);
    ft_slot *second = ft_slot_new(e);
    for (int round = 0; ft_slot_busy(a.slot); round++) {
        if (round == at) inv_start(&b, second, j, ids, 70);
        if (round == at + 3 && ft_slot_busy(second)) ft_slot_cancel(second);
        ft_engine_step(e);
    }
    inv_done(&a);
    check(inv_same(alone, &a), "%s: different id at %d when a request joins at step %d", m->name,
          inv_first_difference(alone, &a), at);
    ft_engine_free(e);
}

static void company(const inv_model *m, int decode_steps)
{
    int32_t ids[20];
    inv_prompt(ids, 20, m->m->V, 4);
    static inv_response alone;
    ft_engine_params p = inv_params(0);
    ft_task j = inv_job(30, 3);
    j.sampling.temperature = 1;
    j.sampling.seed = 7;
    inv_response_alone(&alone, m, &p, &j, ids, 20);
    for (int at = 0; at < decode_steps; at++) joined(m, &alone, &j, at);
}

/* Four identical requests: identical ids and identical acceptance. */
static void slots(const inv_model *m)
{
    int32_t ids[33];
    static inv_response r[4];
    ft_engine_params p = inv_params(4);
    p.slots = 4;
    inv_prompt(ids, 33, m->m->V, 12);
    const ft_task j = inv_job(60, 4);
    ft_engine *e = inv_engine(m, &p);
    for (int i = 0; i < 4; i++) inv_start(&r[i], ft_slot_new(e), &j, ids, 33);
    while (ft_engine_step(e)) continue;
    for (int i = 0; i < 4; i++) {
        inv_done(&r[i]);
        check(inv_same(&r[0], &r[i]), "%s: slot %d has a different id at %d", m->name, i,
              inv_first_difference(&r[0], &r[i]));
        check(r[i].stats.accepted == r[0].stats.accepted &&
                  r[i].stats.drafted == r[0].stats.drafted,
              "%s: slot %d accepted %lld of %lld drafts, slot 0 %lld of %lld", m->name, i,
              (long long)r[i].stats.accepted, (long long)r[i].stats.drafted,
              (long long)r[0].stats.accepted, (long long)r[0].stats.drafted);
    }
    ft_engine_free(e);
}

/* The number of draft tokens changes at every step, to none and back. */
static void changing(const inv_model *m)
{
    int32_t ids[20];
    inv_prompt(ids, 20, m->m->V, 5);
    inv_response off = {0}, on = {0};
    ft_engine_params p = inv_params(0);
    ft_task j = inv_job(100, 8);
    j.sampling.temperature = 1;
    inv_response_alone(&off, m, &p, &j, ids, 20);
    p.draft_max = 8;
    ft_engine *e = inv_engine(m, &p);
    inv_oracle o = {.truth = {&off}, .silent = 4, .rng = {1}};
    inv_oracle_add(e, &o);
    ft_rng rng = {99};
    inv_start(&on, ft_slot_new(e), &j, ids, 20);
    while (ft_slot_busy(on.slot)) {
        on.slot->task.draft_max = (int)(ft_rng_u64(&rng) % 9);
        on.slot->task.draft_min = (int)(ft_rng_u64(&rng) % 3);
        ft_engine_step(e);
    }
    inv_done(&on);
    check(inv_same(&off, &on), "%s: different id at %d when the limit changes", m->name,
          inv_first_difference(&off, &on));
    check(!o.wrong, "%s: %d steps accepted wrong draft tokens", m->name, o.wrong);
    ft_engine_free(e);
}

/* A higher p_min drafts less and has a higher acceptance rate; the ids do not change. */
static void thresholds(const inv_model *m)
{
    static const float ps[] = {0, 0.5F, 0.9F, 1.5F};
    int32_t ids[20];
    inv_prompt(ids, 20, m->m->V, 6);
    static inv_response r[4];
    const ft_engine_params p = inv_params(4);
    for (int i = 0; i < 4; i++) {
        ft_task j = inv_job(80, 4);
        j.draft_p_min = ps[i];
        inv_response_alone(&r[i], m, &p, &j, ids, 20);
        check(inv_same(&r[0], &r[i]), "%s: different id at %d with p_min %g", m->name,
              inv_first_difference(&r[0], &r[i]), (double)ps[i]);
        const int before = FT_MAX(0, i - 1);
        check(r[i].stats.drafted <= r[before].stats.drafted,
              "%s: %lld drafts with p_min %g, %lld with %g", m->name, (long long)r[i].stats.drafted,
              (double)ps[i], (long long)r[before].stats.drafted, (double)ps[before]);
    }
    const ft_stats *all = &r[0].stats, *sure = &r[2].stats;
    check(sure->drafted > 0 && r[3].stats.drafted == 0, "%s: %lld draft tokens with p_min 1.5",
          m->name, (long long)r[3].stats.drafted);
    check(sure->accepted * all->drafted >= all->accepted * sure->drafted,
          "%s: sure drafts are accepted less often", m->name);
}

/* ---- rejection sampling ---- */

enum { REPLIES = 800, IDS = 512 };

/* Counts how often each id is the second token, which is the first drafted one. */
static double histogram(const inv_model *m, bool reject, int count[IDS])
{
    int32_t ids[8];
    static inv_response r;
    inv_prompt(ids, 8, m->m->V, 70);
    ft_engine_params p = inv_params(reject ? 2 : 0);
    p.reject = reject;
    ft_engine *e = inv_engine(m, &p);
    ft_slot *s = ft_slot_new(e);
    ft_task j = inv_job(3, p.draft_max);
    j.sampling.temperature = 0.4F;
    double accepted = 0;
    memset(count, 0, sizeof *count * IDS);
    for (int i = 0; i < REPLIES; i++) {
        j.sampling.seed = (uint64_t)i + (reject ? 100000 : 0);
        inv_response_on(&r, s, &j, ids, 8);
        accepted += (double)r.stats.accepted;
        count[r.id[9] % IDS]++;
    }
    ft_engine_free(e);
    return accepted;
}

/* Tests whether two samples have the same distribution: chi-square over the ids that are frequent
 * enough, and the rest as one class. A value far above its mean, the number of classes, is a
 * failure. */
static void distribution(const inv_model *m)
{
    int a[IDS], b[IDS], n = 1, rest[2] = {0};
    histogram(m, false, a);
    const double accepted = histogram(m, true, b);
    double chi = 0;
    for (int i = 0; i < IDS; i++) {
        if (a[i] + b[i] < 16) {
            rest[0] += a[i];
            rest[1] += b[i];
            continue;
        }
        n++;
        chi += (double)((a[i] - b[i]) * (a[i] - b[i])) / (a[i] + b[i]);
    }
    const int d = rest[0] - rest[1], all = rest[0] + rest[1];
    if (all) chi += (double)(d * d) / all;
    check(n > 5 && chi < 2 * n + 10,
          "%s: other frequencies with rejection: chi-square %.1f over %d", m->name, chi, n);
    check(accepted > 0, "%s: rejection sampling accepted nothing", m->name);
}

int main(void)
{
    inv_model m = inv_model_golden("qwen35-dense", NULL, 2);
    samplings(&m);
    company(&m, 24);
    slots(&m);
    changing(&m);
    distribution(&m);
    inv_model_close(&m);
    m = inv_model_golden("gemma4-gqa", "gemma4-gqa-assistant", 1);
    samplings(&m);
    company(&m, 8);
    slots(&m);
    changing(&m);
    inv_model_close(&m);
    m = inv_model_tiny(2);
    on_off(&m, "greedy", inv_job(48, 0), false, true);
    company(&m, 2);
    slots(&m);
    thresholds(&m);
    inv_model_close(&m);
    return inv_end();
}
