/* tests/golden_run.h - runs a converted golden model and compares every stored array.
 * The invariant beside it: the prompt in one chunk, in chunks, or beside other sequences gives the
 * same.
 */
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

typedef struct golden_image {
    int first, n; /* its tokens in the prompt */
} golden_image;

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
    double in_turn; /* the same where a delta net's rows run one by one */
    float *got[16]; /* layer inputs that the probe saw */
    int got_first;  /* row of the first of them */
    /* folders with images */
    int n_image, next_pos;
    golden_image image[4];
    float *image_rows; /* the tower's, of all images */
    int32_t *pos[3];   /* [n] as the folder has them */
    bool ahead;        /* rows of an image see each other in sliding layers */
} golden;

enum { GOLDEN_SLOTS = 3, GOLDEN_MORE = 24 }; /* MORE: cells behind the prompt */

static void golden_say(golden *g, bool ok, const char *what, double value, double limit)
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

/* A folder from elsewhere may lack an array, or have another size of it. */
static bool golden_has(const golden *g, const char *name, size_t values, ft_err *err)
{
    const ft_st_tensor *t = ft_st_tensor_find(g->arrays, name);
    if (t && t->type == FT_ST_F32 && (size_t)t->count == values) return true;
    ft_fail(err, FT_EFORMAT, "ref.safetensors: %s is %s with %lld values, want F32 with %zu", name,
            t ? t->type_name : "missing", t ? (long long)t->count : 0LL, values);
    return false;
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
    golden_say(g, e <= tol, what, e, tol);
}

static int golden_argmax(const float *x, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

/* The best id that may be sampled: ids that stand for images may not. */
static int golden_best(const golden *g, const float *x)
{
    const json_t *banned = json_object_get(g->ref, "banned");
    int best = -1;
    for (int i = 0; i < g->m->V; i++) {
        bool ban = false;
        for (size_t k = 0; k < json_array_size(banned); k++)
            ban |= json_integer_value(json_array_get(banned, k)) == i;
        if (!ban && (best < 0 || x[i] > x[best])) best = i;
    }
    return best;
}

static int golden_int(const golden *g, const char *key, size_t i)
{
    json_t *v = json_object_get(g->ref, key);
    return (int)json_integer_value(json_is_array(v) ? json_array_get(v, i) : v);
}

/* The image that token i belongs to, and the row of the tower that it stands for; NULL for text. */
static const golden_image *golden_image_at(const golden *g, int i, int *row)
{
    *row = 0;
    for (int k = 0; k < g->n_image; *row += g->image[k++].n) {
        const golden_image *m = &g->image[k];
        if (i < m->first || i >= m->first + m->n) continue;
        *row += i - m->first;
        return m;
    }
    return NULL;
}

/* Rows of one image that see each other must be in one pass. */
static int golden_chunk(const golden *g, int at, int chunk)
{
    int row, end = FT_MIN(at + chunk, g->n);
    const golden_image *m = end < g->n ? golden_image_at(g, end, &row) : NULL;
    if (m && g->ahead && end > m->first) end = m->first + m->n;
    return end - at;
}

/* Row t of a pass is prompt token i: its position and, where it is an image's, the tower's row. */
static void golden_row(golden *g, ft_rowset *w, int t, int i, int32_t shift, bool ahead)
{
    int row;
    ft_err err;
    if (!g->n_image) return;
    const golden_image *m = golden_image_at(g, i, &row);
    const int j = shift ? i - 1 : i; /* a draft head stands at the position of the token before */
    const int32_t pos[3] = {g->pos[0][j] + shift, g->pos[1][j] + shift, g->pos[2][j] + shift};
    ft_rows_at(w, t, pos);
    if (!m) return;
    w->token[t] = 0;
    if (ft_runner_image_put(g->run, t, g->image_rows + (size_t)row * (size_t)g->m->D, 1, &err))
        printf("  %s\n", err.text);
    ft_rows_image(w, t, t);
    if (ahead && g->ahead) ft_rows_ahead(w, t, m->first + m->n);
}

/* Row t stands k places behind the prompt. */
static void golden_row_after(golden *g, ft_rowset *w, int t, int k)
{
    const int32_t p = g->next_pos + k, pos[3] = {p, p, p};
    if (g->n_image) ft_rows_at(w, t, pos);
}

/* The prompt on a fresh sequence in chunks of `chunk`, with `beside` other sequences that read the
 * prompt backwards. Logits of every position go to out [n, V], hidden rows to hid [n, D]. */
static ft_seq *golden_prompt(golden *g, int chunk, int beside, float *out, float *hid)
{
    const int V = g->m->V, D = g->m->D;
    ft_err err;
    ft_seq *s = ft_seq_new(g->cache), *other[2] = {NULL, NULL};
    for (int i = 0; i < beside; i++) other[i] = ft_seq_new(g->cache);
    for (int at = 0, n; at < g->n; at += n) {
        n = golden_chunk(g, at, chunk);
        ft_rowset *w = ft_runner_rows(g->run);
        if (beside > 1 && ft_seq_reserve(other[1], n)) {
            const int row = ft_rows_span(w, other[1], n, false);
            for (int i = 0; i < n; i++) w->token[row + i] = g->prompt[g->n - 1 - at - i];
        }
        ft_seq_reserve(s, n);
        const int first = ft_rows_span(w, s, n, false);
        for (int i = 0; i < n; i++) {
            w->token[first + i] = g->prompt[at + i];
            golden_row(g, w, first + i, at + i, 0, true);
            if (i >= n - ft_ring_rows(g->run)) /* no two rows to one place */
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
        golden_row_after(g, w, row, (int)i - 1);
        ft_rows_out(w, row);
        if (ft_runner_trunk(g->run, &err)) printf("  %s\n", err.text);
        ft_seq_accept(s, 1);
        id = golden_best(g, ft_runner_logits(g->run, 0));
        if (id != golden_int(g, "greedy", i)) wrong++;
    }
    golden_say(g, wrong == 0, "greedy ids that differ", wrong, 0);
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
        if (j + 1 < n)
            golden_row(g, w, first + j, j + 1, 1, false);
        else
            golden_row_after(g, w, first + j, 0);
        w->src_row[first + j] = ft_hidden_trunk(g->run, j);
        ft_rows_out(w, first + j);
    }
    if (ft_runner_draft(g->run, false, &err)) printf("  %s\n", err.text);
    for (int j = 0; j < n;
         j++) /* a row at a time: a device may bring over only what is asked for */
        memcpy(got + (size_t)j * (size_t)V, ft_runner_logits(g->run, j), sizeof(float) * (size_t)V);
    golden_compare(g, "mtp_logits", got, golden_array(g, "mtp_logits"), (size_t)n * (size_t)V,
                   g->tol);
    const float *want = golden_array(g, "draft_logits");
    golden_compare(g, "draft_logits 0", got + (size_t)(n - 1) * (size_t)V, want, (size_t)V, g->tol);
    int id = golden_argmax(got + (size_t)(n - 1) * (size_t)V, V),
        src = ft_hidden_draft(g->run, n - 1);
    golden_say(g, id == golden_int(g, "drafts", 0), "draft 0", id, golden_int(g, "drafts", 0));
    for (int k = 1; k < 4; k++) {
        w = ft_runner_rows(g->run);
        const int row = ft_rows_draft(w, slot, n + k, 1, n + k + 1, false);
        w->token[row] = id;
        w->src_row[row] = src;
        golden_row_after(g, w, row, k);
        ft_rows_out(w, row);
        if (ft_runner_draft(g->run, false, &err)) printf("  %s\n", err.text);
        golden_compare(g, "draft_logits", ft_runner_logits(g->run, 0), want + (size_t)k * (size_t)V,
                       (size_t)V, g->tol);
        id = golden_argmax(ft_runner_logits(g->run, 0), V);
        src = ft_hidden_draft(g->run, 0);
        golden_say(g, id == golden_int(g, "drafts", (size_t)k), "draft id", id,
                   golden_int(g, "drafts", (size_t)k));
    }
    ft_free(got);
}

/* Draft logits where a centroid head leaves most ids out: only its candidates are compared. */
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

/* Four assistant steps, each fed what the reference stored for it. */
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
        golden_say(g, e <= g->tol, "assistant draft_logits", e, g->tol);
        const int id = golden_argmax(got, V);
        golden_say(g, id == golden_int(g, "drafts", (size_t)k), "assistant draft id", id,
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
    const int chunk[] = {g->n, 1, 7, 64, 64, 7}, beside[] = {0, 0, 0, 0, 1, 2};
    /* ref takes its time: the whole prompt, and the busiest mix */
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
    const int first = g->got_first;
    if (strcmp(what, "layer_in") || layer >= 16 || s->b->T < first + 16 || g->got[layer]) return;
    g->got[layer] = ft_new_n(float, 16 * (size_t)m.d);
    for (int t = 0; t < 16; t++)
        memcpy(g->got[layer] + (size_t)t * (size_t)m.d, m.p + (size_t)(first + t) * (size_t)m.rs,
               sizeof(float) * (size_t)m.d);
}

/* Inputs of every layer at the first positions: only a device that runs at once can be probed. */
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

/* `gguf` is the folder's converted model; `target` that of the model an assistant drafts for. */
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
    const size_t rows = (size_t)g->n, V = (size_t)g->m->V, D = (size_t)g->m->D;
    g->got_first = golden_int(g, "layer_in_first", 0);
    if (g->n < 1 || g->got_first < 0) {
        ft_fail(err, FT_EFORMAT, "%s/ref.json: the prompt is empty", dir);
        return false;
    }
    const bool own = !target, mtp = own && g->m->drafter == FT_DRAFT_MTP;
    if (own && !(golden_has(g, "logits", rows * V, err) && golden_has(g, "hidden", rows * D, err)))
        return false;
    if (mtp && !golden_has(g, "mtp_logits", rows * V, err)) return false;
    if ((mtp || target) && !golden_has(g, "draft_logits", 4 * V, err)) return false;
    if (target && !golden_has(g, "draft_hidden", 4 * D, err)) return false;
    ft_cache_params cp = {.layer = g->m->layer,
                          .n_layer = g->m->n_layer,
                          .kt = FT_KV_F32,
                          .vt = FT_KV_F32,
                          .slots = GOLDEN_SLOTS,
                          .cells = g->n + GOLDEN_MORE,
                          .rows = g->n,
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
                                 .rows = 2 * g->n + 2,
                                 .out = g->n,
                                 .cells = g->n + GOLDEN_MORE};
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
    ft_free(g->image_rows);
    ft_free(g->pos[0]);
}

#include "golden_vision.h"

/* Runs everything on one device; counts go to passed and failed. mmproj: of a folder with images,
 * else NULL. */
static void golden_run(const char *name, const char *dir, const char *gguf, const char *target,
                       const char *mmproj, ft_dev *dev, double tol, double in_turn, int *passed,
                       int *failed)
{
    golden g = {.name = name, .tol = tol, .in_turn = in_turn};
    ft_err err;
    if (!golden_open(&g, dir, gguf, target, dev, &err) ||
        (mmproj && !golden_vision(&g, dir, mmproj, dev, &err))) {
        printf("  FAIL %s: %s\n", name, err.text);
        g.failed++;
    } else if (target) {
        float *logits = ft_new_n(float, (size_t)g.n *(size_t)g.m->V),
              *hid = ft_new_n(float, (size_t)g.n *(size_t)g.m->D);
        ft_seq *s = golden_prompt(&g, g.n, 0, logits, hid);
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
