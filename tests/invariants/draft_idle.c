/* tests/invariants/draft_idle.c - a drafter that drafts nothing costs nothing: 32 responses of
 * which no draft token is accepted make the same passes, copies and waits as without drafting,
 * except for the few steps that the governor's credit pays for, in all rounds together. The device
 * is a simulated GPU: every pass is a captured one that computes nothing and takes its time on a
 * simulated clock. All logits are zero, so that the steps that are timed when a model is opened see
 * their draft tokens accepted. */
#define _XOPEN_SOURCE 700
#include "invariants.h"

#include "base/clock.h"

enum { STREAMS = 32, TOKENS = 49, ROUNDS = 6, DRAFTS = 3 };

static struct {
    int64_t ns, queued; /* the clock; passes that were not waited for */
    double row;         /* of a draft token in a step, as a share of a plain step */
} sim;

static struct calls {
    int trunk, draft, copy, wait;
} calls;

int64_t ft_now_ns(void)
{
    return sim.ns;
}

static void record(ft_dev *d, const ft_batch *b)
{
    d->batch = b;
    if (b->pad_spans) {
        calls.draft++;
        sim.queued += 60000 + 500 * b->T;
    } else {
        calls.trunk++;
        sim.queued += 160000 + 8000 * b->S + (int64_t)(sim.row * 416000 * (b->T - b->S));
    }
}

static bool replay(ft_dev *d, const void *pass)
{
    (void)pass;
    d->uncaptured = false;
    return true;
}

static void commit(ft_dev *d)
{
    (void)d;
}

static void finish(void)
{
    sim.ns += sim.queued;
    sim.queued = 0;
}

static ft_status sync_steps(ft_dev *d, ft_err *err)
{
    (void)d, (void)err;
    calls.wait++;
    finish();
    return FT_OK;
}

static void copy(ft_dev *d, void *to, const void *from, size_t bytes)
{
    (void)d;
    calls.copy++;
    finish();
    memmove(to, from, bytes);
}

static inv_model simulated_gpu(void)
{
    inv_model m = {.name = "foretoken-tiny", .dev = ft_dev_ref()};
    ft_dev *d = m.dev;
    d->record = record;
    d->replay = replay;
    d->commit = commit;
    d->sync = sync_steps;
    d->upload = d->download = d->move = copy;
    d->unified = false;
    d->captures = d->pipelined = true;
    m.m = inv_open("models/foretoken-tiny.gguf", d, NULL);
    return m;
}

/* All responses at once, from their first tokens on: the calls, and the time. */
static struct calls one_round(ft_engine *e, int draft_max, int64_t *ns)
{
    static inv_response r[STREAMS];
    static const double none[FT_DRAFT_MAX];
    ft_task j = inv_job(TOKENS, draft_max);
    j.sim_accept = none;
    j.ignore_eog = true;
    for (int32_t i = 0; i < STREAMS; i++) {
        inv_start(&r[i], ft_slot_new(e), &j, &i, 1);
        while (r[i].n == 1) ft_engine_step(e);
        ft_slot_pause(r[i].slot, true);
    }
    for (int i = 0; i < STREAMS; i++) ft_slot_pause(r[i].slot, false);
    calls = (struct calls){0};
    *ns -= sim.ns;
    while (ft_engine_step(e)) {
    }
    *ns += sim.ns;
    for (int i = 0; i < STREAMS; i++) ft_slot_free(r[i].slot);
    return calls;
}

/* When a model is opened, steps without and with draft tokens are timed, although all of these are
 * accepted. */
static void check_timed(const ft_engine *e)
{
    static const int rows[] = {1, 2, 1 + DRAFTS};
    for (size_t i = 0; i < FT_COUNT(rows); i++) {
        const int n = e->costs.trunk[0][0][rows[i]].n;
        check(n >= 3, "%d steps of %d rows were timed", n, rows[i]);
    }
    check(e->costs.first[1].n >= 3, "%d draft passes were timed", e->costs.first[1].n);
}

/* row: what a draft token adds to a step. */
static void check_idle(const inv_model *m, double row)
{
    ft_engine_params p = inv_params(DRAFTS);
    int64_t ns[2] = {0};
    int plain = 0;
    p.slots = STREAMS;
    p.adapt = true;
    p.rows = 256;
    sim.row = row;
    ft_engine *e = inv_engine(m, &p);
    ft_engine_time_drafts(e);
    check_timed(e);
    for (int i = 0; i < ROUNDS; i++) {
        const struct calls off = one_round(e, 0, &ns[0]), on = one_round(e, DRAFTS, &ns[1]);
        check(off.trunk == TOKENS - 1 && off.copy == off.trunk && off.wait == off.trunk,
              "%d steps without drafting: %d passes, %d copies, %d waits", TOKENS - 1, off.trunk,
              off.copy, off.wait);
        if (on.draft) continue;
        plain++;
        check(!memcmp(&on, &off, sizeof on), "%d passes, %d copies, %d waits, %d without drafting",
              on.trunk, on.copy, on.wait, off.trunk);
    }
    check(plain > 0, "draft passes in all %d rounds", ROUNDS);
    check((double)ns[0] >= 0.985 * (double)ns[1], "a row costs %.3f: %.4f times as fast", row,
          (double)ns[0] / (double)ns[1]);
    ft_engine_free(e);
}

int main(void)
{
    static const double rows[] = {0, 0.004, 0.01, 0.02, 0.03};
    if (getenv("FT_TEST_DEV") && strcmp(getenv("FT_TEST_DEV"), "cpu")) return inv_end();
    inv_model m = simulated_gpu();
    for (size_t i = 0; i < FT_COUNT(rows); i++) check_idle(&m, rows[i]);
    inv_model_close(&m);
    return inv_end();
}
