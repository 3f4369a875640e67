/* tests/invariants/draw.c - ids sampled on the device are those sampled from whole rows on the
 * host, with the same logprobs. The CPU simulates a device with its own memory, for which ref
 * samples; in the comparison run, the rows of logits are read. */
#define _XOPEN_SOURCE 700
#include "invariants.h"

enum { SLOTS = 6, TOKENS = 24, WAYS = 6 };

/* ---- a mask that can be cloned, as grammars can ---- */

typedef struct toy {
    int32_t last;
    int n;
} toy;

static bool toy_allows(void *user, int32_t id)
{
    const toy *t = user;
    return t->n % 5 == 4 || (id + t->last + t->n) % 3 != 0;
}

static bool toy_allow(void *user, uint32_t *bits, int32_t V)
{
    if (((toy *)user)->n % 5 == 4) return false;
    memset(bits, 0, FT_MASK_WORDS(V) * sizeof *bits);
    for (int32_t i = 0; i < V; i++)
        if (toy_allows(user, i)) bits[i / 32] |= 1u << i % 32;
    return true;
}

static void toy_accept(void *user, int32_t id)
{
    *(toy *)user = (toy){id, ((toy *)user)->n + 1};
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

typedef struct far_response {
    inv_response r;
    float p[TOKENS * 8]; /* logprobs, in order of arrival */
    int n_p;
    toy mask;
} far_response;

static bool far_emit(void *user, const ft_emit *e)
{
    far_response *f = user;
    for (int i = 0; i < e->n_logprob; i++)
        if (f->n_p < (int)FT_COUNT(f->p)) f->p[f->n_p++] = e->logprob[i].logprob;
    return inv_emit(&f->r, e);
}

static ft_task job_of(int i, int way)
{
    ft_task j = inv_job(TOKENS, way % 2 ? 3 : 0);
    ft_sample_params *s = &j.sampling;
    s->temperature = i == 3 ? 0 : 0.9f;
    s->seed = (uint64_t)(10 * way + i);
    s->top_k = i % 2 ? 20 + i : 0;
    if (i == 4) s->min_p = 0, s->top_p = 1;
    if (way >= 2 || i == 3) s->repeat_penalty = 1.2f;
    if (way >= 2 && i == 1) s->dry_multiplier = 0.7f; /* this one is sampled on the host */
    if (way == 4 || i == 2) j.top_logprobs = i;
    if (way == 5) j.draft_p_min = 0.001f;
    return j;
}

static void start_response(far_response *f, ft_slot *s, int i, int way, int V)
{
    int32_t ids[80];
    const int n = 12 + 9 * i;
    ft_task j = job_of(i, way);
    *f = (far_response){.r = {.slot = s, .n = n, .n_prompt = n}};
    inv_prompt(ids, n, V, 5 + (uint64_t)i);
    memcpy(f->r.id, ids, sizeof *ids * (size_t)n);
    if (i >= 4 || way == 3)
        j.mask = (ft_mask){&f->mask, toy_allow, toy_allows, toy_accept, toy_clone,
                           toy_copy, ft_free,   NULL,       NULL};
    j.prompt = ids;
    j.n_prompt = n;
    j.emit = far_emit;
    j.user = f;
    ft_err err;
    if (ft_slot_start(s, &j, &err)) check(false, "%s", err.text);
}

static int draws; /* requested from the device */

static void generate(const inv_model *m, bool near, int way, far_response *f)
{
    ft_engine_params p = inv_params(3);
    p.slots = SLOTS;
    m->dev->unified = near;
    ft_engine *e = inv_engine(m, &p);
    ft_err err;
    check(near || !ft_engine_warm_up(e, &err), "%s: %s", m->name, err.text);
    draws = 0;
    for (int i = 0; i < SLOTS; i++) start_response(&f[i], ft_slot_new(e), i, way, m->m->V);
    while (ft_engine_step(e)) continue;
    for (int i = 0; i < SLOTS; i++) inv_done(&f[i].r);
    ft_engine_free(e);
    m->dev->unified = true;
}

static void (*ref_draw)(ft_dev *, ft_drawn *, ft_mat);

static void count_draws(ft_dev *d, ft_drawn *y, ft_mat x)
{
    const ft_batch *b = d->batch;
    ref_draw(d, y, x);
    for (int t = 0; t < b->T; t++)
        if (b->draw[t].row >= 0 && ++draws % 7 == 0)
            y[b->draw[t].to].id = FT_DRAW_MORE; /* the device leaves out some rows */
}

static void check_same(const char *name, const char *assistant, bool narrow)
{
    static far_response near[SLOTS], far[SLOTS];
    inv_model m = inv_model_golden(name, assistant, 1);
    ft_dev *ref = ft_dev_ref();
    ft_err err;
    if (narrow) check(!ft_model_narrow(m.m, NULL, 4 * FT_NARROW, &err), "%s", err.text);
    ft_ops ops = *m.dev->op;
    ref_draw = ref->op->draw;
    ops.draw = count_draws;
    m.dev->op = &ops;
    for (int way = 0; way < WAYS; way++) {
        generate(&m, true, way, near);
        check(!draws, "%s: the device sampled although rows are readable", name);
        generate(&m, false, way, far);
        check(draws > 3 * TOKENS, "%s: %d ids sampled on the device, want more", name, draws);
        draws = 0;
        for (int i = 0; i < SLOTS; i++) {
            check(inv_same(&near[i].r, &far[i].r), "%s, way %d, sequence %d: different id at %d",
                  name, way, i, inv_first_difference(&near[i].r, &far[i].r));
            check(near[i].r.stats.drafted == far[i].r.stats.drafted &&
                      near[i].r.stats.accepted == far[i].r.stats.accepted,
                  "%s, way %d, sequence %d: other drafts", name, way, i);
            check(near[i].n_p == far[i].n_p && !memcmp(near[i].p, far[i].p, sizeof near[i].p),
                  "%s, way %d, sequence %d: other logprobs", name, way, i);
        }
    }
    inv_model_close(&m);
    ft_dev_close(ref);
}

int main(void)
{
    if (getenv("FT_TEST_DEV") && strcmp(getenv("FT_TEST_DEV"), "cpu")) return inv_end();
    check_same("qwen35-dense", NULL, false);
    check_same("qwen35-dense", NULL, true);
    check_same("gemma4-edge", "gemma4-edge-assistant", false);
    return inv_end();
}
