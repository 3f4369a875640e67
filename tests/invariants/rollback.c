/* tests/invariants/rollback.c - rejecting draft tokens costs nothing: a step whose draft tokens are
 * all rejected calls the device exactly as often, with as many rows, as one whose draft tokens are
 * all accepted, and copies nothing more. And passes are started, then waited for: a second start
 * before that is refused. */
#define _DEFAULT_SOURCE
#include "invariants.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { DRAFTS = 3, TOKENS = 96, PROMPT = 24 };

/* What the engine asked of the device. */
static struct calls {
    int64_t steps, rows, copies, ops;
    int64_t copied; /* bytes */
} now;

static ft_dev real;

static void count_record(ft_dev *d, const ft_batch *b)
{
    now.steps++;
    now.rows += b->n_out; /* output rows: a head reads what was accepted in rows without output */
    real.record(d, b);
}

static void count_copy(size_t bytes)
{
    now.copies++;
    now.copied += (int64_t)bytes;
}

static void count_upload(ft_dev *d, void *dst, const void *src, size_t n)
{
    count_copy(n);
    real.upload(d, dst, src, n);
}

static void count_download(ft_dev *d, void *dst, const void *src, size_t n)
{
    count_copy(n);
    real.download(d, dst, src, n);
}

static void count_move(ft_dev *d, void *dst, const void *src, size_t n)
{
    count_copy(n);
    real.move(d, dst, src, n);
}

/* Counts of a response with simulated acceptance, and its steps. */
static struct calls counted(const inv_model *m, double accept, ft_stats *stats)
{
    static inv_response r;
    double p[FT_DRAFT_MAX];
    int32_t ids[PROMPT];
    ft_profile *profile = ft_new(ft_profile);
    for (int i = 0; i < FT_DRAFT_MAX; i++) p[i] = accept;
    const ft_engine_params params = inv_params(DRAFTS);
    ft_engine *e = inv_engine(m, &params);
    ft_task j = inv_job(TOKENS, DRAFTS);
    profile->least = profile->most = 1 + DRAFTS;
    inv_prompt(ids, PROMPT, m->m->V, 3);
    j.sim_accept = p;
    ft_slot *s = ft_slot_new(e);
    inv_start(&r, s, &j, ids, PROMPT);
    while (r.n == PROMPT) ft_engine_step(e);
    now = (struct calls){0};
    ft_engine_meter(e, profile);
    while (ft_slot_busy(s)) ft_engine_step(e);
    ft_profile_begin(profile, 0);
    ft_engine_meter(e, NULL);
    inv_done(&r);
    *stats = r.stats;
    for (int i = 0; i < profile->n; i++) now.ops += profile->row[i].calls;
    now.ops /= FT_MAX(1, profile->steps);
    ft_free(profile);
    ft_engine_free(e);
    return now;
}

static void costs_nothing(const char *name, const char *assistant)
{
    inv_model m = inv_model_golden(name, assistant, 1);
    real = *m.dev;
    m.dev->record = count_record;
    m.dev->upload = count_upload;
    m.dev->download = count_download;
    m.dev->move = count_move;
    ft_stats none, all;
    const struct calls a = counted(&m, 0, &none), b = counted(&m, 1, &all);
    check(none.accepted == 0 && none.drafted > 2 * TOKENS, "%s: %lld of %lld accepted, want none",
          name, (long long)none.accepted, (long long)none.drafted);
    check(all.accepted == all.drafted && all.drafted > TOKENS / 2,
          "%s: %lld of %lld accepted, want all", name, (long long)all.accepted,
          (long long)all.drafted);
    /* The last steps draft fewer tokens: one of them, or three where all are rejected. */
    const double n = (double)none.decode_steps, k = (double)all.decode_steps;
    check(a.ops > 0 && a.ops == b.ops, "%s: %lld ops in a step when all are rejected, else %lld",
          name, (long long)a.ops, (long long)b.ops);
    check(fabs((double)a.steps / n - (double)b.steps / k) < 0.2,
          "%s: %.2f passes a step when all are rejected, else %.2f", name, (double)a.steps / n,
          (double)b.steps / k);
    check(fabs((double)a.rows / n - (double)b.rows / k) < 0.4,
          "%s: %.2f rows a step when all are rejected, else %.2f", name, (double)a.rows / n,
          (double)b.rows / k);
    check(a.copies == 0 && a.copied == 0, "%s: %lld copies of %lld bytes for rejected tokens", name,
          (long long)a.copies, (long long)a.copied);
    *m.dev = real;
    inv_model_close(&m);
}

/* A device with a clock: each pass takes a second of it. */
static void count_second(ft_dev *d)
{
    d->busy_s += 1;
    real.commit(d);
}

/* Only the passes of steps count as the device's time, and only time with work as the engine's. */
static void device_time(void)
{
    static inv_response r;
    inv_model m = inv_model_golden("qwen35-dense", NULL, 1);
    const ft_engine_params p = inv_params(0);
    int32_t ids[PROMPT];
    real = *m.dev;
    m.dev->commit = count_second;
    ft_engine *e = inv_engine(&m, &p);
    inv_prompt(ids, PROMPT, m.m->V, 3);
    m.dev->busy_s = 1000; /* before the first step */
    const ft_task j = inv_job(10, 0);
    for (int i = 1; i <= 2; i++) {
        inv_response_on(&r, ft_slot_new(e), &j, ids, PROMPT);
        ft_slot_free(r.slot);
        const ft_device_time t = ft_engine_device_time(e);
        const double steps = (double)e->steps;
        check(steps == 10 * i && t.busy_s == steps, "%g seconds on the device in %g steps",
              t.busy_s, steps);
        check(t.run_s > 0 && t.run_s < 60, "work for %g seconds", t.run_s);
        usleep(1000);
        const ft_device_time later = ft_engine_device_time(e);
        check(!ft_engine_step(e) && later.run_s == t.run_s, "time without work counts");
        m.dev->busy_s += 100; /* between two requests */
    }
    ft_engine_free(e);
    *m.dev = real;
    inv_model_close(&m);
}

/* In a child: a pass is started while another runs. */
static int started_twice(const inv_model *m, bool wait)
{
    fflush(stdout);
    const pid_t child = fork();
    if (child) {
        int how = 0;
        check(waitpid(child, &how, 0) == child, "no child");
        return WIFSIGNALED(how) ? WTERMSIG(how) : 0;
    }
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    if (!wait && !freopen("/dev/null", "w", stderr)) _exit(1);
    const ft_engine_params p = inv_params(DRAFTS);
    ft_engine *e = inv_engine(m, &p);
    ft_seq *s = ft_seq_new(e->cache);
    ft_err err;
    ft_seq_reserve(s, 4);
    for (int i = 0; i < 2; i++) {
        ft_rowset *w = ft_runner_rows(e->runner);
        w->token[ft_rows_span(w, s, 1, false)] = 1;
        ft_runner_trunk_begin(e->runner);
        if (wait && ft_runner_wait(e->runner, &err)) _exit(1);
        ft_seq_accept(s, 1);
    }
    _exit(0);
}

static void starts_once(void)
{
    inv_model m = inv_model_golden("qwen35-dense", NULL, 1);
    check(started_twice(&m, true) == 0, "two passes, one after the other, fail");
    check(started_twice(&m, false) == SIGABRT, "a second pass is started while the first runs");
    inv_model_close(&m);
}

int main(void)
{
    if (getenv("FT_TEST_DEV") && strcmp(getenv("FT_TEST_DEV"), "cpu")) return inv_end();
    costs_nothing("qwen35-dense", NULL);
    costs_nothing("qwen35-moe", NULL);
    costs_nothing("gemma4-edge", "gemma4-edge-assistant");
    device_time();
    starts_once();
    return inv_end();
}
