/* tests/invariants/ending.c - a constraint that reaches its end while end tokens are ignored: with
 * every way of sampling and drafting, the response continues as far as the constraint allows and is
 * complete then. The CPU samples from readable rows, then simulates a device with its own memory,
 * for which ref samples. Also banned ids: their replacements do not depend on drafting. */
#define _XOPEN_SOURCE 700
#include "invariants.h"

enum { PROMPT = 20, LENGTH = 33, END = 5, OTHER_END = 9 };

/* ---- a text of LENGTH ids that may also end at every other position */

typedef struct toy {
    int n;
    bool dead;
} toy;

static bool is_end(int32_t id)
{
    return id == END || id == OTHER_END;
}

static bool toy_allows(void *user, int32_t id)
{
    const toy *t = user;
    if (t->dead) return false;
    if (is_end(id)) return t->n == LENGTH || t->n % 2 == 0;
    return t->n < LENGTH && (id + t->n) % 3 == 0;
}

static bool toy_allow(void *user, uint32_t *bits, int32_t V)
{
    memset(bits, 0, FT_MASK_WORDS(V) * sizeof *bits);
    for (int32_t i = 0; i < V; i++)
        if (toy_allows(user, i)) bits[i / 32] |= 1u << i % 32;
    return true;
}

static void toy_accept(void *user, int32_t id)
{
    toy *t = user;
    if (!toy_allows(t, id) || is_end(id)) t->dead = true;
    t->n++;
}

static void toy_copy(void *user, const void *from)
{
    *(toy *)user = *(const toy *)from;
}

static void *toy_clone(void *user)
{
    toy *t = ft_new(toy);
    toy_copy(t, user);
    return t;
}

/* ---- responses ---- */

static const int32_t ends[] = {END, OTHER_END};

static ft_task job_of(float temperature, bool ignore)
{
    /* End tokens are likely, so that they are sampled wherever they are not banned. */
    static const ft_logit_bias bias[] = {{END, 4}, {OTHER_END, 4}};
    ft_task j = inv_job(100, 0);
    j.sampling.temperature = temperature;
    j.sampling.seed = 3;
    if (temperature > 0) j.sampling.bias = bias, j.sampling.n_bias = FT_COUNT(bias);
    j.eog = ends;
    j.n_eog = FT_COUNT(ends);
    j.ignore_eog = ignore;
    return j;
}

static void constrained_response(inv_response *r, const inv_model *m, ft_engine_params p, ft_task j,
                                 const inv_response *truth)
{
    int32_t ids[PROMPT];
    toy t = {0};
    j.mask =
        (ft_mask){&t, toy_allow, toy_allows, toy_accept, toy_clone, toy_copy, ft_free, NULL, NULL};
    j.draft_max = p.draft_max;
    inv_prompt(ids, PROMPT, m->m->V, 3);
    inv_oracle o = {.silent = 3, .rng = {(uint64_t)p.draft_max}};
    if (truth)
        inv_response_oracle(r, &o, truth, m, &p, &j);
    else
        inv_response_alone(r, m, &p, &j, ids, PROMPT);
}

static void check_complete(const char *name, const char *what, const inv_response *r)
{
    check(r->finish == FT_FINISH_EOG && r->n == PROMPT + LENGTH,
          "%s, %s: %d tokens and finish %d, want %d and %d", name, what, r->n - PROMPT,
          (int)r->finish, LENGTH, (int)FT_FINISH_EOG);
    for (int i = PROMPT; i < r->n; i++)
        check(!is_end(r->id[i]), "%s, %s: an end at %d", name, what, i - PROMPT);
}

static void check_same(const inv_model *m, float temperature)
{
    char what[64];
    static inv_response off, on;
    const ft_task j = job_of(temperature, true);
    constrained_response(&off, m, inv_params(0), j, NULL);
    snprintf(what, sizeof what, "temperature %g, no drafts", (double)temperature);
    check_complete(m->name, what, &off);
    static const int ks[] = {1, 3, 8};
    const bool near = m->dev->unified;
    for (int far = !near; far < 2; far++)
        for (size_t i = 0; i < FT_COUNT(ks); i++) {
            m->dev->unified = !far;
            constrained_response(&on, m, inv_params(ks[i]), j, &off);
            m->dev->unified = near;
            snprintf(what, sizeof what, "temperature %g, %d drafts, %s", (double)temperature, ks[i],
                     far ? "far" : "near");
            check_complete(m->name, what, &on);
            check(inv_same(&off, &on), "%s, %s: different id at %d", m->name, what,
                  inv_first_difference(&off, &on));
        }
}

/* With rejection sampling: other ids, but the same end. */
static void check_rejection(const inv_model *m)
{
    static inv_response r;
    ft_engine_params p = inv_params(3);
    p.reject = true;
    constrained_response(&r, m, p, job_of(0.9F, true), NULL);
    check_complete(m->name, "rejection sampling", &r);
}

/* A response that does not ignore end tokens ends earlier; one that bans them with a logit bias
 * ends with the constraint, too. */
static void check_not_ignored(const inv_model *m)
{
    static const ft_logit_bias never[] = {{END, -INFINITY}, {OTHER_END, -INFINITY}};
    static inv_response r;
    ft_task j = job_of(0.9F, false);
    constrained_response(&r, m, inv_params(3), j, NULL);
    check(r.finish == FT_FINISH_EOG && r.n < PROMPT + LENGTH, "%s: %d tokens, want fewer than %d",
          m->name, r.n - PROMPT, LENGTH);
    j.sampling.bias = never;
    constrained_response(&r, m, inv_params(3), j, NULL);
    check_complete(m->name, "banned by hand", &r);
}

/* ---- bans ---- */

enum { FREE = 40, BANS = 6 };

/* A response without a constraint. */
static void unconstrained(inv_response *r, const inv_model *m, int drafts,
                          const ft_logit_bias *bias, int n, const inv_response *truth)
{
    int32_t ids[PROMPT];
    ft_task j = inv_job(FREE, drafts);
    ft_engine_params p = inv_params(drafts);
    j.sampling.bias = bias;
    j.sampling.n_bias = (size_t)n;
    inv_prompt(ids, PROMPT, m->m->V, 3);
    inv_oracle o = {.silent = 3, .rng = {(uint64_t)drafts}};
    if (truth)
        inv_response_oracle(r, &o, truth, m, &p, &j);
    else
        inv_response_alone(r, m, &p, &j, ids, PROMPT);
}

static void check_bans(const inv_model *m)
{
    static inv_response off, on;
    ft_logit_bias never[BANS];
    unconstrained(&off, m, 0, NULL, 0, NULL);
    for (int i = 0; i < BANS; i++) never[i] = (ft_logit_bias){off.id[PROMPT + i], -INFINITY};
    unconstrained(&off, m, 0, never, BANS, NULL);
    for (int i = PROMPT; i < off.n; i++)
        for (int k = 0; k < BANS; k++)
            check(off.id[i] != never[k].id, "%s: the banned id %d at %d", m->name, off.id[i],
                  i - PROMPT);
    const bool near = m->dev->unified;
    for (int far = !near; far < 2; far++)
        for (int drafts = 0; drafts < 9; drafts += drafts + 1) {
            m->dev->unified = !far;
            unconstrained(&on, m, drafts, never, BANS, drafts ? &off : NULL);
            m->dev->unified = near;
            check(inv_same(&off, &on), "%s, bans, %d drafts, %s: different id at %d", m->name,
                  drafts, far ? "far" : "near", inv_first_difference(&off, &on));
        }
}

static void check_model(const char *name, const char *assistant)
{
    inv_model m = inv_model_golden(name, assistant, 1);
    ft_dev *ref = ft_dev_ref();
    ft_ops ops = *m.dev->op;
    if (m.dev->unified) {
        ops.draw = ref->op->draw;
        m.dev->op = &ops;
    }
    check_same(&m, 0);
    check_same(&m, 0.9F);
    check_rejection(&m);
    check_not_ignored(&m);
    check_bans(&m);
    inv_model_close(&m);
    ft_dev_close(ref);
}

int main(void)
{
    check_model("qwen35-dense", NULL);
    check_model("gemma4-edge", "gemma4-edge-assistant");
    return inv_end();
}
