/* tests/invariants/split_capture.c - a model split over devices that capture steps gives the ids
 * that it gives on one device, with drafting, chained draft passes and sampling on the device. CPU
 * devices simulate such devices: a graph is a list of jobs, which run again with another batch. */
#define _XOPEN_SOURCE 700
#include "invariants.h"

#include "dev/batch_shape.h"
#include "dev/cpu/cpu_dev.h"
#include "dev/split.h"

enum { SLOTS = 3, TOKENS = 24, PARTS = 4, GRAPHS = 4096 };

/* ---- a CPU device that captures ---- */

typedef struct graph {
    const void *key;
    ft_batch_shape shape;
    ft_cpu_job *job;
    int n_job;
    bool draws;
    ft_drawn *y;
    ft_mat x;
} graph;

typedef struct sim {
    ft_dev *dev;
    ft_ops ops;
    void (*commit)(ft_dev *);
    bool only, capturing;
    graph now; /* the draw of this step, and the key of the graph that is captured */
    graph kept[GRAPHS];
    int n;
} sim;

static sim sims[PARTS];
static int n_sim, replays, captures, draws, uncaptured, most_graphs = GRAPHS;
static bool (*split_replay)(ft_dev *, const void *);
static void (*ref_draw)(ft_dev *, ft_drawn *, ft_mat);

static sim *sim_of(const ft_dev *d)
{
    for (int i = 0; i < n_sim; i++)
        if (sims[i].dev == d) return &sims[i];
    abort();
}

static graph *find_graph(sim *s, const void *key)
{
    const ft_batch_shape shape = ft_batch_shape_of(s->dev->batch);
    for (int i = 0; i < s->n; i++)
        if (s->kept[i].key == key && ft_batch_shape_same(&s->kept[i].shape, &shape))
            return &s->kept[i];
    return NULL;
}

static void sim_draw(ft_dev *d, ft_drawn *y, ft_mat x)
{
    sim *s = sim_of(d);
    s->now.draws = true;
    s->now.y = y;
    s->now.x = x;
}

/* Jobs, then a draw. */
static void run_now(sim *s)
{
    s->commit(s->dev);
    if (s->now.draws) ref_draw(s->dev, s->now.y, s->now.x);
    draws += s->now.draws;
    s->now.draws = false;
}

static void sim_commit(ft_dev *d)
{
    sim *s = sim_of(d);
    ft_cpu *c = (ft_cpu *)d;
    if (s->capturing && s->now.key) {
        if (s->n == most_graphs) { /* evicts the first */
            ft_free(s->kept[0].job);
            memmove(s->kept, s->kept + 1, sizeof *s->kept * (size_t)--s->n);
        }
        graph *g = &s->kept[s->n++];
        *g = s->now;
        g->shape = ft_batch_shape_of(d->batch);
        g->n_job = c->n_job;
        g->job = ft_alloc_aligned(sizeof *g->job * (size_t)(c->n_job + 1), 64);
        memcpy(g->job, c->job, sizeof *g->job * (size_t)c->n_job);
        captures++;
        if (!c->n_job && !g->draws) check(false, "an empty graph");
    }
    if (s->capturing && s->only)
        c->n_job = c->n_access = c->n_old = 0, s->now.draws = false;
    else
        run_now(s);
    s->capturing = false;
}

static void sim_capture(ft_dev *d, bool on)
{
    sim_of(d)->only = on;
}

static void sim_capture_pass(ft_dev *d, const void *key)
{
    sim *s = sim_of(d);
    if (s->capturing || ((ft_cpu *)d)->n_job) check(false, "ops before a capture");
    s->capturing = true;
    s->now = (graph){.key = key};
}

static bool sim_captured(ft_dev *d, const void *key)
{
    return find_graph(sim_of(d), key) != NULL;
}

static bool sim_replay(ft_dev *d, const void *key)
{
    sim *s = sim_of(d);
    ft_cpu *c = (ft_cpu *)d;
    const graph *g = find_graph(s, key);
    if (!g || s->only || c->n_job) check(false, "a replay of what was not captured");
    if (!g) return false;
    ft_cpu_job *own = c->job;
    c->job = g->job;
    c->n_job = g->n_job;
    s->now.draws = g->draws;
    s->now.y = g->y;
    s->now.x = g->x;
    run_now(s);
    c->job = own;
    replays++;
    return true;
}

/* Of the split device: counts steps of generating sequences that were not captured before. */
static bool counted_replay(ft_dev *d, const void *pass)
{
    const bool again = split_replay(d, pass);
    uncaptured += d->uncaptured && ft_longest_span(d->batch) <= FT_DECODE_ROWS;
    return again;
}

static ft_dev *sim_dev(void)
{
    sim *s = &sims[n_sim++];
    ft_dev *d = s->dev = ft_dev_cpu(1);
    s->ops = *d->op;
    s->ops.draw = sim_draw;
    d->op = &s->ops;
    s->commit = d->commit;
    d->commit = sim_commit;
    d->captures = true;
    d->capture = sim_capture;
    d->capture_pass = sim_capture_pass;
    d->captured = sim_captured;
    d->replay = sim_replay;
    return d;
}

static void sims_end(void)
{
    for (int i = 0; i < n_sim; i++)
        for (int k = 0; k < sims[i].n; k++) ft_free(sims[i].kept[k].job);
    memset(sims, 0, sizeof sims);
    n_sim = 0;
}

/* ---- responses ---- */

/* Slots with other lengths and numbers of draft tokens; temperature: two of them are sampled. Two
 * rounds: the second meets shapes and states of the first. */
static void generate(const inv_model *m, bool warm, bool sampled, inv_response *r)
{
    ft_engine_params p = inv_params(4);
    ft_err err;
    p.slots = SLOTS;
    p.kt = p.vt = FT_KV_F16;
    ft_engine *e = inv_engine(m, &p);
    check(!warm || !ft_engine_warm_up(e, &err), "%s: warm-up", m->name);
    ft_slot *slot[SLOTS];
    for (int i = 0; i < SLOTS; i++) slot[i] = ft_slot_new(e);
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < SLOTS; i++) {
            int32_t ids[120];
            const int n = 9 + 40 * i;
            inv_prompt(ids, n, m->m->V, 3 + (uint64_t)i);
            ft_task j = inv_job(TOKENS + 5 * k, 4 >> i);
            if (sampled && i) j.sampling.temperature = 0.9f;
            if (i == 2) j.sampling.top_k = 20;
            j.sampling.seed = (uint64_t)(10 + i);
            inv_start(&r[k * SLOTS + i], slot[i], &j, ids, n);
        }
        while (ft_engine_step(e)) continue;
        for (int i = 0; i < SLOTS; i++) inv_done(&r[k * SLOTS + i]);
    }
    ft_engine_free(e);
}

/* parts: devices besides the host; host: the first layer and the embedding are there. */
static inv_model open_split(const char *name, const char *assistant, int parts, bool host)
{
    ft_dev *dev[1 + PARTS] = {ft_dev_cpu(1)};
    ft_split_rule r = {.first = host, .output = true, .lookup = !host, .layers = 1 << 20};
    for (int i = 0; i < parts; i++) dev[1 + i] = sim_dev();
    r.n_end = parts - 1;
    for (int i = 0; i < r.n_end; i++) r.end[i] = 1 + host + i;
    inv_model m = {.name = name, .dev = ft_dev_split(dev, 1 + parts, &r)};
    split_replay = m.dev->replay;
    m.dev->replay = counted_replay;
    m.m = inv_golden(name, m.dev, NULL);
    const ft_split_rule drafter = {.output = true, .lookup = !host, .n_end = r.n_end};
    ft_split_set_rule(m.dev, &drafter);
    if (assistant) m.assistant = inv_golden(assistant, m.dev, m.m);
    ft_split_set_rule(m.dev, &r);
    return m;
}

static void compare(const char *name, const inv_response *a, const inv_response *b, int parts)
{
    for (int k = 0; k < 2 * SLOTS; k++) {
        check(inv_same(&a[k], &b[k]), "%s, %d devices, response %d: different id at %d", name,
              parts, k, inv_first_difference(&a[k], &b[k]));
        check(a[k].stats.drafted == b[k].stats.drafted &&
                  a[k].stats.accepted == b[k].stats.accepted,
              "%s, %d devices, response %d: %d of %d draft tokens accepted, want %d of %d", name,
              parts, k, (int)b[k].stats.accepted, (int)b[k].stats.drafted, (int)a[k].stats.accepted,
              (int)a[k].stats.drafted);
    }
}

static void check_captured(const char *name, const char *assistant)
{
    static inv_response one[2][2 * SLOTS], two[2 * SLOTS];
    inv_model whole = {.name = name, .dev = ft_dev_cpu(1)};
    whole.m = inv_golden(name, whole.dev, NULL);
    if (assistant) whole.assistant = inv_golden(assistant, whole.dev, whole.m);
    for (int i = 0; i < 2; i++) generate(&whole, false, i, one[i]);
    inv_model_close(&whole);
    for (int parts = 1; parts <= 3; parts++) {
        inv_model m = open_split(name, assistant, parts, false);
        check(m.dev->captures && m.dev->capture, "%s: a split that does not capture", name);
        for (int way = 0; way < 4; way++) {
            const bool warm = way & 1, sampled = way > 1;
            replays = captures = draws = uncaptured = 0;
            /* few graphs: some are gone when they are to be replayed */
            most_graphs = way == 2 ? 8 : GRAPHS;
            generate(&m, warm, sampled, two);
            compare(name, one[sampled], two, parts);
            check(replays > 10 * parts, "%s: %d replays", name, replays);
            check(!sampled || draws > TOKENS, "%s: %d draws", name, draws);
            check(!warm || captures > 20, "%s: %d captures", name, captures);
            check(!warm || !uncaptured, "%s: the warm-up did not capture %d steps", name,
                  uncaptured);
        }
        inv_model_close(&m);
        sims_end();
    }
    /* with a host that does not capture, steps run as they are; ids are still sampled there */
    inv_model m = open_split(name, assistant, 2, true);
    replays = draws = 0;
    check(!m.dev->captures && !m.dev->capture, "%s: a host that captures", name);
    generate(&m, true, true, two);
    compare(name, one[1], two, 2);
    check(!replays && draws > TOKENS, "%s: %d replays, %d draws", name, replays, draws);
    inv_model_close(&m);
    sims_end();
}

/* More sequences than a captured step has rows: micro-batches are captured. */
static void check_many(const char *name)
{
    enum { MANY = FT_SHAPE_ROWS + 8, LENGTH = 5 };
    static inv_response r[2][MANY];
    for (int split = 0; split < 3; split++) { /* one device; parts as measured, and two parts */
        inv_model m = {.name = name, .dev = split ? NULL : ft_dev_cpu(1)};
        if (split)
            m = open_split(name, NULL, 2, false);
        else
            m.m = inv_golden(name, m.dev, NULL);
        ft_engine_params p = inv_params(0);
        p.slots = MANY;
        p.ctx = 64;
        p.micro = split == 2 ? 2 : 0;
        ft_engine *e = inv_engine(&m, &p);
        replays = 0;
        for (int i = 0; i < MANY; i++) {
            int32_t ids[LENGTH];
            inv_prompt(ids, LENGTH, m.m->V, (uint64_t)i);
            const ft_task j = inv_job(24, 0);
            inv_start(&r[split > 0][i], ft_slot_new(e), &j, ids, LENGTH);
        }
        while (ft_engine_step(e)) continue;
        for (int i = 0; i < MANY; i++) {
            inv_done(&r[split > 0][i]);
            check(!split || inv_same(&r[0][i], &r[1][i]), "%s, sequence %d: different id at %d",
                  name, i, inv_first_difference(&r[0][i], &r[1][i]));
        }
        check(split < 2 || replays > 2 * 15, "%s: %d replays of micro-batches", name, replays);
        ft_engine_free(e);
        inv_model_close(&m);
        sims_end();
    }
}

int main(void)
{
    if (getenv("FT_TEST_DEV") && strcmp(getenv("FT_TEST_DEV"), "cpu")) return inv_end();
    ft_dev *ref = ft_dev_ref();
    ref_draw = ref->op->draw;
    check_captured("qwen35-dense", NULL);
    check_captured("qwen35-moe", NULL);
    check_captured("gemma4-edge", "gemma4-edge-assistant");
    check_captured("gemma4-gqa", "gemma4-gqa-assistant");
    check_many("qwen35-dense");
    ft_dev_close(ref);
    return inv_end();
}
