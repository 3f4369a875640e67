/* tests/laws.h - models for the laws, replies on them, and a drafter that knows the truth.
 * A law is stated over ids: the same prompt and parameters give the same ids, whatever was drafted,
 * whoever else was running. The oracle proposes the true continuation up to a place that it chooses
 * at random and something else from there on, so that every pattern of acceptance occurs. */
#ifndef FT_TESTS_LAWS_H
#define FT_TESTS_LAWS_H

#include "base/mem.h"
#include "base/rng.h"
#include "engine/engine.h"
#include "engine/lane.h"
#include "golden_build.h"

#include <stdarg.h>
#include <stdio.h>

enum { LAW_MAX = 1024 }; /* ids of a conversation */

static int law_passed, law_failed;

static void law(bool ok, const char *fmt, ...) FT_PRINTF(2, 3);
static void law(bool ok, const char *fmt, ...)
{
    *(ok ? &law_passed : &law_failed) += 1;
    if (ok) return;
    va_list ap;
    va_start(ap, fmt);
    fputs("FAILED: ", stdout);
    vprintf(fmt, ap);
    putchar('\n');
    va_end(ap);
}

static inline int law_end(void)
{
    printf("%d passed, %d failed\n", law_passed, law_failed);
    return law_failed != 0;
}

/* ---- models ---- */

/* The device of all laws: FT_TEST_DEV, or the cpu. */
static inline ft_dev *law_dev(int threads)
{
    const char *name = getenv("FT_TEST_DEV");
    ft_dev *d;
    ft_err err;
    if (!ft_dev_open(&d, name ? name : "cpu", threads, &err)) return d;
    printf("%s\n", err.text);
    exit(1);
}

typedef struct law_model {
    const char *name;
    ft_dev *dev;
    ft_model *m, *assistant;
} law_model;

static inline ft_model *law_open(const char *path, ft_dev *dev, const ft_model *target)
{
    ft_err err;
    ft_gguf *g = NULL;
    ft_model *m = NULL;
    ft_status st = ft_gguf_open(&g, path, true, &err);
    if (!st) st = ft_model_open(&m, g, dev, target, NULL, &err);
    if (!st) return m;
    printf("%s: %s\n", path, err.text);
    exit(1);
}

/* The GGUF of a golden folder, built where nobody else builds; the caller unlinks it. */
static inline void law_golden_file(const char *name, char path[128])
{
    char dir[128];
    ft_err err;
    snprintf(dir, sizeof dir, "tests/golden/%s", name);
    snprintf(path, 128, "/tmp/foretoken-law-%d-%s.gguf", (int)getpid(), name);
    /* q8_0 is the fastest to compute; two keep the checkpoint's bf16 */
    const bool plain = !strcmp(name, "qwen35-gqa") || !strcmp(name, "gemma4-dense");
    if (golden_gguf(dir, path, plain ? NULL : "q8_0", &err)) {
        printf("%s: %s\n", dir, err.text);
        exit(1);
    }
}

static inline ft_model *law_golden(const char *name, ft_dev *dev, const ft_model *target)
{
    char path[128];
    law_golden_file(name, path);
    ft_model *m = law_open(path, dev, target);
    unlink(path); /* the mapping keeps it */
    return m;
}

static inline law_model law_model_golden(const char *name, const char *assistant, int threads)
{
    law_model m = {.name = name, .dev = law_dev(threads)};
    m.m = law_golden(name, m.dev, NULL);
    if (assistant) m.assistant = law_golden(assistant, m.dev, m.m);
    return m;
}

static inline law_model law_model_tiny(int threads)
{
    law_model m = {.name = "foretoken-tiny", .dev = law_dev(threads)};
    m.m = law_open("models/foretoken-tiny.gguf", m.dev, NULL);
    return m;
}

static inline void law_model_close(law_model *m)
{
    ft_model_close(m->assistant);
    ft_model_close(m->m);
    ft_dev_close(m->dev);
}

/* ---- engines and replies ---- */

static inline ft_engine_params law_params(int draft_max)
{
    return (ft_engine_params){.lanes = 1,
                              .ctx = 256,
                              .rows = 64,
                              .kt = FT_KV_F32,
                              .vt = FT_KV_F32,
                              .draft_max = draft_max};
}

static inline ft_engine *law_engine(const law_model *m, const ft_engine_params *p)
{
    ft_engine *e = NULL;
    ft_err err;
    if (!ft_engine_new(&e, m->m, m->assistant, p, &err)) return e;
    printf("%s: %s\n", m->name, err.text);
    exit(1);
}

typedef struct law_reply {
    ft_lane *l;
    int32_t id[LAW_MAX]; /* the prompt, then the reply */
    int n_prompt, n;
    int stop_after; /* tokens; 0: never */
    ft_stats stats;
    ft_finish finish;
} law_reply;

static inline bool law_emit(void *user, const ft_emit *e)
{
    law_reply *r = user;
    r->id[r->n++] = e->id;
    return r->n - r->n_prompt != r->stop_after;
}

static inline ft_task law_job(int max_tokens, int draft_max)
{
    ft_task j = {.max_tokens = max_tokens, .draft_max = draft_max, .top_logprobs = -1};
    ft_sample_defaults(&j.sampling);
    j.sampling.temperature = 0;
    return j;
}

static inline void law_start(law_reply *r, ft_lane *l, const ft_task *job, const int32_t *prompt,
                             int n)
{
    ft_err err;
    ft_task j = *job;
    r->l = l;
    r->n = r->n_prompt = n;
    memmove(r->id, prompt, sizeof *prompt * (size_t)n);
    j.prompt = prompt;
    j.n_prompt = n;
    j.emit = law_emit;
    j.user = r;
    if (!ft_lane_start(l, &j, &err)) return;
    printf("lane: %s\n", err.text);
    exit(1);
}

static inline void law_done(law_reply *r)
{
    r->stats = *ft_lane_stats(r->l);
    r->finish = ft_lane_finish(r->l);
    if (r->finish == FT_FINISH_ERROR) law(false, "reply failed: %s", ft_lane_error(r->l));
}

/* A whole reply on a lane. */
static inline void law_reply_on(law_reply *r, ft_lane *l, const ft_task *j, const int32_t *prompt,
                                int n)
{
    law_start(r, l, j, prompt, n);
    while (ft_lane_busy(l)) ft_engine_round(l->e);
    law_done(r);
}

/* The same on an engine of its own. */
static inline void law_reply_alone(law_reply *r, const law_model *m, const ft_engine_params *p,
                                   const ft_task *j, const int32_t *prompt, int n)
{
    ft_engine *e = law_engine(m, p);
    law_reply_on(r, ft_lane_new(e), j, prompt, n);
    ft_engine_free(e);
}

static inline bool law_same(const law_reply *a, const law_reply *b)
{
    return a->n == b->n && !memcmp(a->id, b->id, sizeof *a->id * (size_t)a->n);
}

/* Where two replies part, for messages. */
static inline int law_parting(const law_reply *a, const law_reply *b)
{
    int i = 0;
    while (i < a->n && i < b->n && a->id[i] == b->id[i]) i++;
    return i - a->n_prompt;
}

static inline void law_prompt(int32_t *id, int n, int V, uint64_t seed)
{
    ft_rng r = {seed};
    for (int i = 0; i < n; i++) id[i] = (int32_t)(ft_rng_u64(&r) % (uint64_t)V);
}

/* ---- the oracle ---- */

enum { LAW_LANES = 8 };

typedef struct law_oracle {
    const law_reply *truth[LAW_LANES]; /* by lane; NULL: it proposes nothing there */
    int expect[LAW_LANES];             /* drafts of this round that are true */
    int silent;                        /* out of 8 rounds, how many are left to the model's head */
    int V;
    ft_rng rng;
    int rounds, wrong; /* rounds that it drafted; those whose acceptance was not as planned */
    int kept[FT_DRAFT_MAX + 1]; /* how often so many were kept */
} law_oracle;

static inline void oracle_begin(void *state, int lane, const int32_t *ids, int n)
{
    (void)state, (void)lane, (void)ids, (void)n;
}

static inline int oracle_draft(void *state, int lane, const int32_t *ids, int n, int max,
                               int32_t *out)
{
    law_oracle *o = state;
    const law_reply *t = o->truth[lane];
    (void)ids;
    if (!t || (int)(ft_rng_u64(&o->rng) % 8) < o->silent) return 0;
    const int good = (int)(ft_rng_u64(&o->rng) % (uint64_t)(max + 1));
    for (int i = 0; i < max; i++) {
        const int32_t next = n + i < t->n ? t->id[n + i] : 0;
        out[i] = i == good ? (next + 1) % o->V : next;
    }
    o->expect[lane] = FT_MIN(good, FT_MAX(0, t->n - n));
    return max;
}

static inline void oracle_accept(void *state, int lane, int drafted, int accepted, bool mine)
{
    law_oracle *o = state;
    (void)drafted;
    if (!mine) return;
    o->rounds++;
    o->kept[accepted]++;
    if (accepted != o->expect[lane]) o->wrong++;
}

static inline void oracle_free(void *state)
{
    (void)state;
}

static inline void law_oracle_add(ft_engine *e, law_oracle *o)
{
    o->V = e->m->V;
    ft_engine_add_guesser(
        e, (ft_guesser){"oracle", o, oracle_begin, oracle_draft, oracle_accept, oracle_free});
}

/* A reply with drafts from an oracle of that truth and, between them, from the model's head. */
static inline void law_reply_oracle(law_reply *r, law_oracle *o, const law_reply *truth,
                                    const law_model *m, const ft_engine_params *p, const ft_task *j)
{
    ft_engine *e = law_engine(m, p);
    o->truth[0] = truth;
    law_oracle_add(e, o);
    law_reply_on(r, ft_lane_new(e), j, truth->id, truth->n_prompt);
    ft_engine_free(e);
}

#endif
