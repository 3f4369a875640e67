/* tests/golden_run.h - runs a converted golden model and compares every stored array. It also
 * checks that the prompt gives the same result in one chunk, in several chunks, and in a batch with
 * other sequences. */
#ifndef FT_TESTS_GOLDEN_RUN_H
#define FT_TESTS_GOLDEN_RUN_H

#include "base/file.h"
#include "base/mem.h"
#include "engine/step.h"
#include "gguf/safetensors.h"
#include "kv/plan.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>

typedef struct golden {
    const char *name; /* of the folder */
    json_t *ref;
    ft_st *arrays;
    ft_model *m, *drafter;
    ft_cache *cache;
    ft_runner *run;
    const int32_t *prompt;
    int n, passed, failed;
    double tol;     /* NMSE */
    double in_turn; /* the same when the rows of a delta net are computed one by one */
    float *got[16]; /* layer inputs recorded by the probe */
} golden;

enum { GOLDEN_SLOTS = 3, GOLDEN_CELLS = 160, GOLDEN_MAX = 160 };

static void golden_report(golden *g, bool ok, const char *what, double value, double limit)
{
    *(ok ? &g->passed : &g->failed) += 1;
    if (!ok) printf("  FAIL %s: %s: %.3g, want at most %.3g\n", g->name, what, value, limit);
}

static double golden_nmse(const float *a, const float *b, size_t n)
{
    double e = 0, s = 0;
    for (size_t i = 0; i < n; i++) {
        e += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        s += (double)b[i] * (double)b[i];
    }
    return isfinite(e) ? e / s : (double)INFINITY;
}

static const float *golden_array(const golden *g, const char *name)
{
    const ft_st_tensor *t = ft_st_tensor_find(g->arrays, name);
    return t ? t->data : NULL;
}

static void golden_compare(golden *g, const char *what, const float *a, const float *b, size_t n,
                           double tol)
{
    const double e = golden_nmse(a, b, n);
    golden_report(g, e <= tol, what, e, tol);
}

static int golden_argmax(const float *x, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

static int golden_int(const golden *g, const char *key, size_t i)
{
    json_t *v = json_object_get(g->ref, key);
    return (int)json_integer_value(json_is_array(v) ? json_array_get(v, i) : v);
}

/* Evaluates the prompt on a new sequence in chunks of `chunk`, with `beside` other sequences that
 * evaluate the reversed prompt. Writes the logits of every position to out [n, V] and the hidden
 * rows to hid [n, D]. */
static ft_seq *golden_prompt(golden *g, int chunk, int beside, float *out, float *hid)
{
    const int V = g->m->V, D = g->m->D;
    ft_err err;
    ft_seq *s = ft_seq_new(g->cache), *other[2] = {NULL, NULL};
    for (int i = 0; i < beside; i++) other[i] = ft_seq_new(g->cache);
    for (int at = 0; at < g->n; at += chunk) {
        const int n = FT_MIN(chunk, g->n - at);
        ft_rowset *w = ft_runner_rows(g->run);
        if (beside > 1 && ft_seq_reserve(other[1], n)) {
            const int row = ft_rows_span(w, other[1], n, false);
            for (int i = 0; i < n; i++) w->token[row + i] = g->prompt[g->n - 1 - at - i];
        }
        ft_seq_reserve(s, n);
        const int first = ft_rows_span(w, s, n, false);
        for (int i = 0; i < n; i++) {
            w->token[first + i] = g->prompt[at + i];
            if (i >= n - ft_ring_rows(g->run)) /* two rows must not share a ring position */
                w->dst_row[first + i] = ft_hidden_ring(g->run, ft_seq_slot(s), at + i);
            ft_rows_out(w, first + i);
        }
        if (beside && ft_seq_reserve(other[0], 1))
            w->token[ft_rows_span(w, other[0], 1, false)] = 5;
        if (ft_runner_trunk(g->run, &err)) printf("  %s\n", err.text);
        for (int i = 0; i < n; i++) {
            memcpy(out + (size_t)(at + i) * (size_t)V, ft_runner_logits(g->run, i),
                   sizeof(float) * (size_t)V);
            ft_runner_hidden_get(g->run, ft_hidden_trunk(g->run, first + i),
                                 hid + (size_t)(at + i) * (size_t)D);
        }
        ft_seq_accept(s, n);
        if (beside) ft_seq_accept(other[0], 1);
        if (beside > 1) ft_seq_accept(other[1], n);
    }
    for (int i = 0; i < beside; i++) ft_seq_free(other[i]);
    return s;
}

static void golden_greedy(golden *g, ft_seq *s)
{
    const size_t want = json_array_size(json_object_get(g->ref, "greedy"));
    int id = golden_int(g, "greedy", 0), wrong = 0;
    ft_err err;
    for (size_t i = 1; i < want; i++) {
        ft_rowset *w = ft_runner_rows(g->run);
        ft_seq_reserve(s, 1);
        const int row = ft_rows_span(w, s, 1, false);
        w->token[row] = id;
        ft_rows_out(w, row);
        if (ft_runner_trunk(g->run, &err)) printf("  %s\n", err.text);
        ft_seq_accept(s, 1);
        id = golden_argmax(ft_runner_logits(g->run, 0), g->m->V);
        if (id != golden_int(g, "greedy", i)) wrong++;
    }
    golden_report(g, wrong == 0, "greedy ids that differ", wrong, 0);
}

/* The Qwen head over the whole prompt: row j takes token j+1 and hidden row j. */
static void golden_mtp(golden *g, ft_seq *s, const float *hid)
{
    const int V = g->m->V, D = g->m->D, n = g->n, slot = ft_seq_slot(s);
    float *got = ft_new_n(float, (size_t)n *(size_t)V);
    ft_err err;
    ft_seq_reserve(s, 8);
    ft_rowset *w = ft_runner_rows(g->run);
    for (int j = 0; j < n; j++)
        ft_runner_hidden_set(g->run, ft_hidden_trunk(g->run, j), hid + (size_t)j * (size_t)D);
    const int first = ft_rows_draft(w, slot, 1, n, 2, false);
    for (int j = 0; j < n; j++) {
        w->token[first + j] = j + 1 < n ? g->prompt[j + 1] : golden_int(g, "next", 0);
        w->src_row[first + j] = ft_hidden_trunk(g->run, j);
        ft_rows_out(w, first + j);
    }
    if (ft_runner_draft(g->run, false, &err)) printf("  %s\n", err.text);
    for (int j = 0; j < n; j++) /* one row at a time: a device may copy only the requested rows */
        memcpy(got + (size_t)j * (size_t)V, ft_runner_logits(g->run, j), sizeof(float) * (size_t)V);
    golden_compare(g, "mtp_logits", got, golden_array(g, "mtp_logits"), (size_t)n * (size_t)V,
                   g->tol);
    const float *want = golden_array(g, "draft_logits");
    golden_compare(g, "draft_logits 0", got + (size_t)(n - 1) * (size_t)V, want, (size_t)V, g->tol);
    int id = golden_argmax(got + (size_t)(n - 1) * (size_t)V, V),
        src = ft_hidden_draft(g->run, n - 1);
    golden_report(g, id == golden_int(g, "drafts", 0), "draft 0", id, golden_int(g, "drafts", 0));
    for (int k = 1; k < 4; k++) {
        w = ft_runner_rows(g->run);
        const int row = ft_rows_draft(w, slot, n + k, 1, n + k + 1, false);
        w->token[row] = id;
        w->src_row[row] = src;
        ft_rows_out(w, row);
        if (ft_runner_draft(g->run, false, &err)) printf("  %s\n", err.text);
        golden_compare(g, "draft_logits", ft_runner_logits(g->run, 0), want + (size_t)k * (size_t)V,
                       (size_t)V, g->tol);
        id = golden_argmax(ft_runner_logits(g->run, 0), V);
        src = ft_hidden_draft(g->run, 0);
        golden_report(g, id == golden_int(g, "drafts", (size_t)k), "draft id", id,
                      golden_int(g, "drafts", (size_t)k));
    }
    ft_free(got);
}

/* Draft logits of a centroid head, which skips most ids: only its candidates are compared. */
static double golden_candidates(const float *got, const float *want, int V)
{
    float low = INFINITY;
    double e = 0, s = 0;
    for (int i = 0; i < V; i++) low = fminf(low, want[i]);
    for (int i = 0; i < V; i++) {
        const bool candidate = want[i] > low;
        if (candidate != isfinite(got[i])) return (double)INFINITY;
        if (!candidate) continue;
        e += ((double)got[i] - (double)want[i]) * ((double)got[i] - (double)want[i]);
        s += (double)want[i] * (double)want[i];
    }
    return e / s;
}

/* Four assistant steps, each with the inputs stored by the reference. */
static void golden_assistant(golden *g, ft_seq *s, const float *hid)
{
    const int V = g->m->V, D = g->m->D, n = g->n;
    const float *logits = golden_array(g, "draft_logits"), *rows = golden_array(g, "draft_hidden");
    ft_err err;
    for (int k = 0; k < 4; k++) {
        ft_rowset *w = ft_runner_rows(g->run);
        const int row = ft_rows_draft(w, ft_seq_slot(s), n, 1, n, true),
                  src = ft_hidden_trunk(g->run, 0);
        w->token[row] = k ? golden_int(g, "drafts", (size_t)k - 1) : golden_int(g, "next", 0);
        w->src_row[row] = src;
        ft_rows_out(w, row);
        ft_runner_hidden_set(g->run, src,
                             k ? rows + (size_t)(k - 1) * (size_t)D
                               : hid + (size_t)(n - 1) * (size_t)D);
        if (ft_runner_draft(g->run, false, &err)) printf("  %s\n", err.text);
        const float *got = ft_runner_logits(g->run, 0), *want = logits + (size_t)k * (size_t)V;
        bool centroid = false;
        for (int i = 0; i < V; i++) centroid |= isinf(got[i]) != 0;
        const double e =
            centroid ? golden_candidates(got, want, V) : golden_nmse(got, want, (size_t)V);
        golden_report(g, e <= g->tol, "assistant draft_logits", e, g->tol);
        const int id = golden_argmax(got, V);
        golden_report(g, id == golden_int(g, "drafts", (size_t)k), "assistant draft id", id,
                      golden_int(g, "drafts", (size_t)k));
        float *h = ft_new_n(float, (size_t)D);
        ft_runner_hidden_get(g->run, ft_hidden_draft(g->run, 0), h);
        golden_compare(g, "draft_hidden", h, rows + (size_t)k * (size_t)D, (size_t)D, g->tol);
        ft_free(h);
    }
}

static void golden_trunk(golden *g)
{
    const size_t nV = (size_t)g->n * (size_t)g->m->V, nD = (size_t)g->n * (size_t)g->m->D;
    float *logits = ft_new_n(float, nV), *hid = ft_new_n(float, nD);
    static const int chunk[] = {GOLDEN_MAX, 1, 7, 64, 64, 7}, beside[] = {0, 0, 0, 0, 1, 2};
    /* ref is slow: only the whole prompt, and the largest batch */
    const size_t step = strcmp(g->m->dev->name, "ref") ? 1 : FT_COUNT(chunk) - 1;
    for (size_t i = 0; i < FT_COUNT(chunk); i += step) {
        ft_seq *s = golden_prompt(g, chunk[i], beside[i], logits, hid);
        char what[64];
        snprintf(what, sizeof what, "logits in chunks of %d beside %d", chunk[i], beside[i]);
        const double tol = chunk[i] <= FT_DECODE_ROWS ? g->in_turn : g->tol;
        golden_compare(g, what, logits, golden_array(g, "logits"), nV, tol);
        golden_compare(g, "hidden", hid, golden_array(g, "hidden"), nD, tol);
        if (i == 0 && g->m->drafter == FT_DRAFT_MTP) golden_mtp(g, s, hid);
        golden_greedy(g, s);
        ft_seq_free(s);
    }
    ft_free(logits);
    ft_free(hid);
}

static void golden_probe(void *user, const ft_step *s, const char *what, int layer, ft_mat m)
{
    golden *g = user;
    if (strcmp(what, "layer_in") || layer >= 16 || s->b->T < 16 || g->got[layer]) return;
    g->got[layer] = ft_new_n(float, 16 * (size_t)m.d);
    for (int t = 0; t < 16; t++)
        memcpy(g->got[layer] + (size_t)t * (size_t)m.d, m.p + (size_t)t * (size_t)m.rs,
               sizeof(float) * (size_t)m.d);
}

/* Inputs of every layer at the first positions: only a device that executes immediately can be
 * probed. */
static void golden_layers(golden *g)
{
    for (int l = 0; l < 16; l++) {
        char name[16];
        snprintf(name, sizeof name, "layer_in.%d", l);
        const float *want = golden_array(g, name);
        if (want && g->got[l])
            golden_compare(g, name, g->got[l], want, 16 * (size_t)g->m->D, g->tol);
        ft_free(g->got[l]);
        g->got[l] = NULL;
    }
}

/* `gguf` is the converted model of the folder; `target` that of the model an assistant drafts for.
 */
static bool golden_open(golden *g, const char *dir, const char *gguf, const char *target,
                        ft_dev *dev, ft_err *err)
{
    char path[4096];
    json_error_t je;
    ft_gguf *f = NULL;
    snprintf(path, sizeof path, "%s/ref.json", dir);
    if (!(g->ref = json_load_file(path, 0, &je))) {
        ft_fail(err, FT_EFORMAT, "%s: %s", path, je.text);
        return false;
    }
    json_t *prompt = json_object_get(g->ref, "prompt");
    g->n = (int)json_array_size(prompt);
    int32_t *ids = ft_new_n(int32_t, (size_t)g->n);
    for (int i = 0; i < g->n; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(prompt, (size_t)i));
    g->prompt = ids;
    snprintf(path, sizeof path, "%s/ref.safetensors", dir);
    if (ft_st_open(&g->arrays, path, err)) return false;
    if (ft_gguf_open(&f, target ? target : gguf, true, err)) return false;
    if (ft_model_open(&g->m, f, dev, NULL, NULL, err)) return ft_gguf_close(f), false;
    if (target) {
        if (ft_gguf_open(&f, gguf, true, err)) return false;
        if (ft_model_open(&g->drafter, f, dev, g->m, NULL, err)) return ft_gguf_close(f), false;
    }
    ft_cache_params cp = {.layer = g->m->layer,
                          .n_layer = g->m->n_layer,
                          .kt = FT_KV_F32,
                          .vt = FT_KV_F32,
                          .slots = GOLDEN_SLOTS,
                          .cells = GOLDEN_CELLS,
                          .tentative = 9};
    ft_kv_choice *plan = ft_kv_plan_new(&cp);
    cp.plan = plan;
    const ft_status st = ft_cache_new(&g->cache, dev, &cp, err);
    ft_free(plan);
    if (st) return false;
    const ft_runner_params rp = {.model = g->m,
                                 .drafter = target          ? g->drafter
                                            : g->m->drafter ? g->m
                                                            : NULL,
                                 .cache = g->cache,
                                 .slots = GOLDEN_SLOTS,
                                 .rows = 2 * GOLDEN_MAX,
                                 .out = GOLDEN_MAX,
                                 .cells = GOLDEN_CELLS};
    return ft_runner_new(&g->run, &rp, err) == FT_OK;
}

static void golden_close(golden *g)
{
    ft_runner_free(g->run);
    ft_cache_free(g->cache);
    ft_model_close(g->drafter);
    ft_model_close(g->m);
    ft_st_close(g->arrays);
    json_decref(g->ref);
    ft_free((void *)(uintptr_t)g->prompt);
}

/* Runs everything on one device; counts go to passed and failed. */
static void golden_run(const char *name, const char *dir, const char *gguf, const char *target,
                       ft_dev *dev, double tol, double in_turn, int *passed, int *failed)
{
    golden g = {.name = name, .tol = tol, .in_turn = in_turn};
    ft_err err;
    if (!golden_open(&g, dir, gguf, target, dev, &err)) {
        printf("  FAIL %s: %s\n", name, err.text);
        g.failed++;
    } else if (target) {
        float *logits = ft_new_n(float, (size_t)g.n *(size_t)g.m->V),
              *hid = ft_new_n(float, (size_t)g.n *(size_t)g.m->D);
        ft_seq *s = golden_prompt(&g, GOLDEN_MAX, 0, logits, hid);
        golden_assistant(&g, s, hid);
        ft_seq_free(s);
        ft_free(logits);
        ft_free(hid);
    } else {
        const bool probe = !strcmp(dev->name, "ref");
        if (probe) ft_runner_probe(g.run, golden_probe, &g);
        golden_trunk(&g);
        if (probe) golden_layers(&g);
    }
    golden_close(&g);
    *passed += g.passed;
    *failed += g.failed;
}

#endif
