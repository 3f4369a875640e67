/* tests/invariants.h - helpers for the invariant tests: models, responses, and an oracle drafter.
 * An invariant is stated over token ids: the same prompt and parameters give the same ids, whatever
 * was drafted and whatever other sequences ran. The oracle proposes the true continuation up to a
 * random position and wrong tokens from there on, so that every pattern of acceptance occurs. */
#ifndef FT_INVARIANTS_H
#define FT_INVARIANTS_H

#include "base/mem.h"
#include "base/rng.h"
#include "dev/remote.h"
#include "dev/split.h"
#include "engine/engine.h"
#include "engine/slot.h"
#include "golden_build.h"

#include <stdarg.h>
#include <stdio.h>

enum { INV_MAX = 1024 }; /* ids of a conversation */

static int inv_passed, inv_failed;

static void check(bool ok, const char *fmt, ...) FT_PRINTF(2, 3);
static void check(bool ok, const char *fmt, ...)
{
    *(ok ? &inv_passed : &inv_failed) += 1;
    if (ok) return;
    va_list ap;
    va_start(ap, fmt);
    fputs("FAILED: ", stdout);
    vprintf(fmt, ap);
    putchar('\n');
    va_end(ap);
}

static inline int inv_end(void)
{
    printf("%d passed, %d failed\n", inv_passed, inv_failed);
    return inv_failed != 0;
}

/* ---- models ---- */

/* Programs that check several models take names of models, to check only these. */
static inline bool inv_wanted(int argc, char **argv, const char *model)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], model)) return true;
    return argc < 2;
}

static inline ft_dev *inv_dev_named(const char *name, int threads)
{
    ft_dev *d;
    ft_err err;
    if (!ft_dev_open(&d, name, threads, &err)) return d;
    printf("%s\n", err.text);
    exit(1);
}

/* Several devices: a layer each, and the last one the rest. The host is a CPU device; idle: it has
 * no layer, so that GPUs capture their steps. With FT_TEST_SPREAD experts are spread over them. */
static inline ft_dev *inv_dev_split(ft_dev **dev, int n, bool idle)
{
    ft_split_rule r = {
        .first = !idle, .output = true, .lookup = idle, .layers = 1 << 20, .n_end = n - 2};
    for (int i = 0; i < r.n_end; i++) r.end[i] = 1 + !idle + i;
    if (getenv("FT_TEST_SPREAD")) r.spread = (UINT64_C(1) << n) - 1 - idle;
    return ft_dev_split(dev, n, &r);
}

static inline void inv_ranks_end(void)
{
    ft_remote_end();
    ft_link_close();
}

/* Under mpirun: a CPU device of this rank, and one of each other rank, which does not return. */
static inline ft_dev *inv_dev_ranks(int threads)
{
    static bool started;
    ft_dev *dev[FT_SPLIT_MAX] = {0};
    ft_err err = {0};
    ft_status st = started ? FT_OK : ft_link_open("test", &err);
    if (!st && ft_link_rank()) {
        st = ft_remote_serve(&(ft_remote_params){.device = "cpu",
                                                 .threads = 1,
                                                 .direct = getenv("FT_TEST_DIRECT") != NULL},
                             &err);
        ft_link_close();
        if (st) fprintf(stderr, "rank %d: %s\n", ft_link_rank(), err.text);
        exit(st != 0);
    }
    if (!started) atexit(inv_ranks_end);
    started = true;
    dev[0] = ft_dev_cpu(threads);
    for (int i = 1; i < ft_link_size() && !st; i++) st = ft_dev_remote(&dev[i], i, &err);
    if (st) printf("%s\n", err.text);
    if (st) exit(1);
    return inv_dev_split(dev, ft_link_size(), false);
}

/* The device of all invariant tests: FT_TEST_DEV, or the CPU. With a list the host of the split is
 * its first device if that is a CPU, else a CPU without layers. */
static inline ft_dev *inv_dev(int threads)
{
    char list[200], *at = list; /* not strtok, which drivers use */
    ft_dev *dev[FT_SPLIT_MAX];
    int n = 0;
    const char *names = getenv("FT_TEST_DEV");
    snprintf(list, sizeof list, "%s", names ? names : "cpu");
    if (!strcmp(list, "mpi")) return inv_dev_ranks(threads);
    if (!strchr(list, ',')) return inv_dev_named(list, threads);
    if (strncmp(list, "cpu", 3)) dev[n++] = ft_dev_cpu(threads);
    while (*at && n < FT_SPLIT_MAX) {
        char *end = at + strcspn(at, ","), *next = *end ? end + 1 : end;
        *end = 0;
        dev[n++] = inv_dev_named(at, threads);
        at = next;
    }
    return inv_dev_split(dev, n, dev[0]->cpu && strncmp(names, "cpu", 3));
}

typedef struct inv_model {
    const char *name;
    ft_dev *dev;
    ft_model *m, *assistant;
} inv_model;

static inline ft_model *inv_open(const char *path, ft_dev *dev, const ft_model *target)
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

/* Builds the GGUF of a golden folder at a path unique to this process; the caller unlinks it. */
static inline void inv_golden_file(const char *name, char path[128])
{
    char dir[128];
    ft_err err;
    snprintf(dir, sizeof dir, "tests/golden/%s", name);
    snprintf(path, 128, "/tmp/foretoken-invariant-%d-%s.gguf", (int)getpid(), name);
    /* q8_0 is the fastest to compute; two models keep the bf16 of the checkpoint */
    const bool plain = !strcmp(name, "qwen35-gqa") || !strcmp(name, "gemma4-dense");
    if (golden_gguf(dir, path, plain ? NULL : "q8_0", &err)) {
        printf("%s: %s\n", dir, err.text);
        exit(1);
    }
}

static inline ft_model *inv_golden(const char *name, ft_dev *dev, const ft_model *target)
{
    char path[128];
    inv_golden_file(name, path);
    ft_model *m = inv_open(path, dev, target);
    unlink(path); /* the file stays mapped */
    return m;
}

static inline inv_model inv_model_golden(const char *name, const char *assistant, int threads)
{
    inv_model m = {.name = name, .dev = inv_dev(threads)};
    m.m = inv_golden(name, m.dev, NULL);
    if (assistant) m.assistant = inv_golden(assistant, m.dev, m.m);
    return m;
}

static inline inv_model inv_model_tiny(int threads)
{
    inv_model m = {.name = "foretoken-tiny", .dev = inv_dev(threads)};
    m.m = inv_open("models/foretoken-tiny.gguf", m.dev, NULL);
    return m;
}

static inline void inv_model_close(inv_model *m)
{
    ft_model_close(m->assistant);
    ft_model_close(m->m);
    ft_dev_close(m->dev);
}

/* ---- engines and responses ---- */

static inline ft_engine_params inv_params(int draft_max)
{
    return (ft_engine_params){.slots = 1,
                              .ctx = 256,
                              .rows = 64,
                              .kt = FT_KV_F32,
                              .vt = FT_KV_F32,
                              .draft_max = draft_max};
}

static inline ft_engine *inv_engine(const inv_model *m, const ft_engine_params *p)
{
    ft_engine *e = NULL;
    ft_err err;
    if (!ft_engine_new(&e, m->m, m->assistant, p, &err)) return e;
    printf("%s: %s\n", m->name, err.text);
    exit(1);
}

typedef struct inv_response {
    ft_slot *slot;
    int32_t id[INV_MAX]; /* the prompt, then the response */
    int n_prompt, n;
    int stop_after; /* tokens; 0: never */
    ft_stats stats;
    ft_finish finish;
} inv_response;

static inline bool inv_emit(void *user, const ft_emit *e)
{
    inv_response *r = user;
    r->id[r->n++] = e->id;
    return r->n - r->n_prompt != r->stop_after;
}

static inline ft_task inv_job(int max_tokens, int draft_max)
{
    ft_task j = {.max_tokens = max_tokens, .draft_max = draft_max, .top_logprobs = -1};
    ft_sample_defaults(&j.sampling);
    j.sampling.temperature = 0;
    return j;
}

static inline void inv_start(inv_response *r, ft_slot *s, const ft_task *job, const int32_t *prompt,
                             int n)
{
    ft_err err;
    ft_task j = *job;
    r->slot = s;
    r->n = r->n_prompt = n;
    memmove(r->id, prompt, sizeof *prompt * (size_t)n);
    j.prompt = prompt;
    j.n_prompt = n;
    j.emit = inv_emit;
    j.user = r;
    if (!ft_slot_start(s, &j, &err)) return;
    printf("slot: %s\n", err.text);
    exit(1);
}

static inline void inv_done(inv_response *r)
{
    r->stats = *ft_slot_stats(r->slot);
    r->finish = ft_slot_finish(r->slot);
    if (r->finish == FT_FINISH_ERROR)
        check(false, "the response failed: %s", ft_slot_error(r->slot));
}

/* A whole response on a slot. */
static inline void inv_response_on(inv_response *r, ft_slot *s, const ft_task *j,
                                   const int32_t *prompt, int n)
{
    inv_start(r, s, j, prompt, n);
    while (ft_slot_busy(s)) ft_engine_step(s->e);
    inv_done(r);
}

/* The same on a new engine. */
static inline void inv_response_alone(inv_response *r, const inv_model *m,
                                      const ft_engine_params *p, const ft_task *j,
                                      const int32_t *prompt, int n)
{
    ft_engine *e = inv_engine(m, p);
    inv_response_on(r, ft_slot_new(e), j, prompt, n);
    ft_engine_free(e);
}

static inline bool inv_same(const inv_response *a, const inv_response *b)
{
    return a->n == b->n && !memcmp(a->id, b->id, sizeof *a->id * (size_t)a->n);
}

/* Index of the first id that differs, for messages. */
static inline int inv_first_difference(const inv_response *a, const inv_response *b)
{
    int i = 0;
    while (i < a->n && i < b->n && a->id[i] == b->id[i]) i++;
    return i - a->n_prompt;
}

static inline void inv_prompt(int32_t *id, int n, int V, uint64_t seed)
{
    ft_rng r = {seed};
    for (int i = 0; i < n; i++) id[i] = (int32_t)(ft_rng_u64(&r) % (uint64_t)V);
}

/* ---- the oracle ---- */

enum { INV_SLOTS = 8 };

typedef struct inv_oracle {
    const inv_response *truth[INV_SLOTS]; /* by slot; NULL: no proposals for that slot */
    int expect[INV_SLOTS];                /* draft tokens of this step that are correct */
    int silent; /* out of 8 steps, the number in which only the draft head drafts */
    int V;
    ft_rng rng;
    int decode_steps, wrong; /* steps it drafted for; steps whose acceptance was not as planned */
    int kept[FT_DRAFT_MAX + 1]; /* number of steps by number of accepted tokens */
} inv_oracle;

static inline void oracle_begin(void *state, int slot, const int32_t *ids, int n)
{
    (void)state, (void)slot, (void)ids, (void)n;
}

static inline int oracle_draft(void *state, int slot, const int32_t *ids, int n, int max,
                               int32_t *out)
{
    inv_oracle *o = state;
    const inv_response *t = o->truth[slot];
    (void)ids;
    if (!t || (int)(ft_rng_u64(&o->rng) % 8) < o->silent) return 0;
    const int good = (int)(ft_rng_u64(&o->rng) % (uint64_t)(max + 1));
    for (int i = 0; i < max; i++) {
        const int32_t next = n + i < t->n ? t->id[n + i] : 0;
        out[i] = i == good ? (next + 1) % o->V : next;
    }
    o->expect[slot] = FT_MIN(good, FT_MAX(0, t->n - n));
    return max;
}

static inline void oracle_accept(void *state, int slot, int drafted, int accepted, bool mine)
{
    inv_oracle *o = state;
    (void)drafted;
    if (!mine) return;
    o->decode_steps++;
    o->kept[accepted]++;
    if (accepted != o->expect[slot]) o->wrong++;
}

static inline void oracle_free(void *state)
{
    (void)state;
}

static inline void inv_oracle_add(ft_engine *e, inv_oracle *o)
{
    o->V = e->m->V;
    ft_engine_add_ngram_drafter(
        e, (ft_ngram_drafter){"oracle", o, oracle_begin, oracle_draft, oracle_accept, oracle_free});
}

/* A response with draft tokens from an oracle and, in between, from the draft head of the model. */
static inline void inv_response_oracle(inv_response *r, inv_oracle *o, const inv_response *truth,
                                       const inv_model *m, const ft_engine_params *p,
                                       const ft_task *j)
{
    ft_engine *e = inv_engine(m, p);
    o->truth[0] = truth;
    inv_oracle_add(e, o);
    inv_response_on(r, ft_slot_new(e), j, truth->id, truth->n_prompt);
    ft_engine_free(e);
}

#endif
