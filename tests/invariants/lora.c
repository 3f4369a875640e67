/* tests/invariants/lora.c - LoRA adapters: products beside those of the weights equal those of
 * merged weights; a scale of 0 changes no bit; sequences with different scales run in one batch,
 * with drafting, as each does alone; and cached prompts are shared by equal scales only. */
#define _XOPEN_SOURCE 700
#include "dev/split.h"
#include "gguf/writer.h"
#include "invariants.h"
#include "kv/prefix.h"
#include "model/adapter.h"
#include "quant/quant.h"
#include "tools/synth_lora.h"

#include <math.h>

enum { PROMPT = 70, TOKENS = 20, SCORED = 24 };

static void fail_on(ft_status st, const ft_err *err, const char *what)
{
    if (!st) return;
    printf("%s: %s\n", what, err->text);
    exit(1);
}

static const char *file_path(char path[128], const char *name, const char *what)
{
    snprintf(path, 128, "/tmp/foretoken-lora-%d-%s-%s.gguf", (int)getpid(), name, what);
    return path;
}

static ft_gguf *open_file(const char *path)
{
    ft_gguf *g = NULL;
    ft_err err;
    fail_on(ft_gguf_open(&g, path, true, &err), &err, path);
    return g;
}

/* A random adapter for a model file. */
static void write_adapter(const char *model, const char *path, const char *type, int rank,
                          float alpha, uint64_t seed)
{
    size_t n;
    ft_err err;
    const ft_synth_lora_opts o = {
        .model = model, .path = path, .type = type, .rank = rank, .alpha = alpha, .seed = seed};
    fail_on(ft_synth_lora(&n, &o, &err), &err, path);
}

static void add_adapter(ft_model *m, const char *path)
{
    ft_err err;
    fail_on(ft_adapter_add(m, NULL, open_file(path), &err), &err, path);
}

/* ---- merged weights ---- */

static float *decoded(const ft_gguf_tensor *t)
{
    const size_t n = (size_t)(t->n[0] * t->n[1] * t->n[2] * t->n[3]);
    float *f = ft_new_n(float, n);
    ft_row_decode(t->type, f, t->data, n);
    return f;
}

/* W += by B A, of every expert. */
static void merge_pair(float *w, const ft_gguf_tensor *t, const ft_gguf *adapter, double by)
{
    char name[160];
    snprintf(name, sizeof name, "%s.lora_a", t->name.p);
    const ft_gguf_tensor *a = ft_gguf_tensor_find(adapter, name);
    snprintf(name, sizeof name, "%s.lora_b", t->name.p);
    const ft_gguf_tensor *b = ft_gguf_tensor_find(adapter, name);
    if (!a) return;
    const bool table = a->n[0] == b->n[0] && a->n[1] == t->n[1];
    const size_t k = (size_t)t->n[0], r = (size_t)b->n[0];
    const size_t rows = (size_t)t->n[1];
    float *fa = decoded(a), *fb = decoded(b);
    for (size_t o = 0; o < rows * (size_t)t->n[2]; o++) {
        const float *ea = fa + o / rows * r * k; /* A of the expert */
        for (size_t i = 0; i < k; i++) {
            double sum = 0;
            for (size_t j = 0; j < r; j++)
                sum += table ? (double)fa[o * r + j] * (double)fb[i * r + j]
                             : (double)fb[o * r + j] * (double)ea[j * k + i];
            w[o * k + i] = (float)((double)w[o * k + i] + by * sum);
        }
    }
    ft_free(fa);
    ft_free(fb);
}

/* The model with merged weights in F32. The embedding and the output matrix of a tied model are
 * written apart: an adapter for the table leaves the output as it is. */
static void write_merged(const char *model, const char *adapter, const char *path, double by)
{
    ft_gguf *g = open_file(model), *l = open_file(adapter);
    ft_gguf_writer *w;
    ft_err err;
    fail_on(ft_gguf_writer_open(&w, path, &err), &err, path);
    for (size_t i = 0; i < ft_gguf_n_kv(g); i++) ft_gguf_put_kv(w, ft_gguf_kv_at(g, i));
    const size_t n = ft_gguf_n_tensor(g);
    const ft_gguf_tensor *table = ft_gguf_tensor_find(g, "token_embd.weight");
    const bool tied = !ft_gguf_tensor_find(g, "output.weight");
    for (size_t i = 0; i < n; i++) {
        const ft_gguf_tensor *t = ft_gguf_tensor_at(g, i);
        const bool whole = t->type == FT_I32;
        ft_gguf_put_tensor(w, t->name.p, whole ? t->type : FT_F32, t->n_dims, t->n);
    }
    if (tied) ft_gguf_put_tensor(w, "output.weight", FT_F32, table->n_dims, table->n);
    fail_on(ft_gguf_writer_begin(w, &err), &err, path);
    for (size_t i = 0; i < n + tied; i++) {
        const ft_gguf_tensor *t = i < n ? ft_gguf_tensor_at(g, i) : table;
        float *f = t->type == FT_I32 ? NULL : decoded(t);
        if (f && i < n) merge_pair(f, t, l, by);
        ft_gguf_writer_data(w, i, 0, f ? (const void *)f : t->data,
                            ft_gguf_writer_tensor_bytes(w, i));
        ft_free(f);
    }
    fail_on(ft_gguf_writer_commit(w, &err), &err, path);
    ft_gguf_close(g);
    ft_gguf_close(l);
}

/* ---- logits ---- */

typedef struct logits {
    float *at; /* [SCORED, V] */
    int V;
} logits;

static void take_row(void *user, int i, const float *row)
{
    logits *l = user;
    memcpy(l->at + (size_t)i * (size_t)l->V, row, sizeof *row * (size_t)l->V);
}

static logits logits_of(ft_model *m, const float *scale)
{
    const ft_engine_params p = {.slots = 1,
                                .ctx = 128,
                                .rows = 64,
                                .kt = FT_KV_F32,
                                .vt = FT_KV_F32,
                                .score_rows = 64,
                                .lora = scale};
    logits l = {ft_new_n(float, SCORED *(size_t)m->V), m->V};
    int32_t ids[SCORED];
    ft_engine *e = NULL;
    ft_err err;
    inv_prompt(ids, SCORED, m->V, 9);
    fail_on(ft_engine_new(&e, m, NULL, &p, &err), &err, "engine");
    fail_on(ft_slot_score(ft_slot_new(e), ids, SCORED, 0, take_row, &l, &err), &err, "score");
    ft_engine_free(e);
    return l;
}

static double nmse(const logits *a, const logits *b)
{
    double error = 0, sum = 0;
    for (size_t i = 0; i < SCORED * (size_t)a->V; i++) {
        const double d = (double)a->at[i] - (double)b->at[i];
        error += d * d;
        sum += (double)b->at[i] * (double)b->at[i];
    }
    return error / sum;
}

/* On the reference device, in F32. */
static void check_merged(const char *name, const char *type, int rank, float alpha)
{
    char dir[128], model[128], adapter[128], merged[128];
    ft_err err;
    ft_dev *dev = ft_dev_ref();
    const float scale = 0.7f, zero = 0, by = alpha != 0 ? scale * alpha / (float)rank : scale;
    snprintf(dir, sizeof dir, "tests/golden/%s", name);
    file_path(model, name, "base");
    fail_on(golden_gguf(dir, model, NULL, &err), &err, dir);
    write_adapter(model, file_path(adapter, name, "adapter"), type, rank, alpha, 1);
    write_merged(model, adapter, file_path(merged, name, "merged"), (double)by);
    ft_model *m = inv_open(model, dev, NULL), *whole = inv_open(merged, dev, NULL);
    logits base = logits_of(m, NULL);
    add_adapter(m, adapter);
    logits added = logits_of(m, &scale), off = logits_of(m, &zero), want = logits_of(whole, NULL);
    check(nmse(&added, &want) < 1e-9, "%s, %s, rank %d: %g from merged weights", name, type, rank,
          nmse(&added, &want));
    check(nmse(&base, &want) > 1e-4, "%s: the adapter changes next to nothing: %g", name,
          nmse(&base, &want));
    check(!memcmp(off.at, base.at, sizeof(float) * SCORED * (size_t)base.V),
          "%s: a scale of 0 changes the logits", name);
    logits *all[] = {&base, &added, &off, &want};
    for (size_t i = 0; i < FT_COUNT(all); i++) ft_free(all[i]->at);
    ft_model_close(m);
    ft_model_close(whole);
    ft_dev_close(dev);
    unlink(model);
    unlink(adapter);
    unlink(merged);
}

/* ---- batches, drafting, cached prompts ---- */

/* A golden model with two adapters. */
static inv_model adapted(const char *name, const char *assistant, ft_dev *dev)
{
    char model[128], path[128];
    inv_model m = {.name = name, .dev = dev};
    inv_golden_file(name, model);
    m.m = inv_open(model, m.dev, NULL);
    if (assistant) m.assistant = inv_golden(assistant, m.dev, m.m);
    for (uint64_t i = 0; i < 2; i++) {
        write_adapter(model, file_path(path, name, "adapter"), i ? "Q8_0" : "F16", i ? 32 : 5,
                      i ? 0 : 7, i + 2);
        add_adapter(m.m, path);
        unlink(path);
    }
    unlink(model);
    return m;
}

static const float scales[][2] = {{0, 0}, {1, 0}, {0.25f, 1}, {0, -1}, {0, 0}, {1, 0}, {1, 1}};

/* Every sequence of a batch, drafting or not, has the ids that it has alone without drafting; the
 * first one those of the model without adapters. */
static void check_batched(const inv_model *m, const inv_response *plain, const int32_t *ids, int k)
{
    enum { N = FT_COUNT(scales) };
    static inv_response alone[N], together[N];
    ft_engine_params p = inv_params(0);
    ft_task j = inv_job(TOKENS, 0);
    for (int i = 0; i < N; i++) {
        j.lora = scales[i];
        inv_response_alone(&alone[i], m, &p, &j, ids, PROMPT);
    }
    check(inv_same(&alone[0], plain), "%s: a scale of 0 changes the response", m->name);
    check(!inv_same(&alone[0], &alone[1]) && !inv_same(&alone[1], &alone[2]) &&
              !inv_same(&alone[1], &alone[6]),
          "%s: different scales give the same response", m->name);
    p.slots = N;
    p.draft_max = j.draft_max = k;
    inv_oracle o = {.silent = 3, .rng = {5}};
    ft_engine *e = inv_engine(m, &p);
    if (k) inv_oracle_add(e, &o);
    for (int i = 0; i < N; i++) {
        o.truth[i] = &alone[i];
        j.lora = scales[i];
        inv_start(&together[i], ft_slot_new(e), &j, ids, PROMPT);
    }
    while (ft_engine_step(e)) continue;
    for (int i = 0; i < N; i++) {
        inv_done(&together[i]);
        check(inv_same(&alone[i], &together[i]),
              "%s, %d drafts: sequence %d has a different id at %d", m->name, k, i,
              inv_first_difference(&alone[i], &together[i]));
    }
    check(!o.wrong, "%s: %d steps accepted wrong draft tokens", m->name, o.wrong);
    ft_engine_free(e);
}

/* The same prompt with other scales computes all of it again; with the same ones it does not. */
static void check_cached(const inv_model *m, const int32_t *ids)
{
    static inv_response cold[2], warm;
    ft_engine_params p = inv_params(2);
    ft_task j = inv_job(TOKENS, 2);
    ft_err err;
    p.slots = 2;
    j.cache_prompt = true;
    for (int i = 0; i < 2; i++) {
        j.lora = scales[1 + i];
        inv_response_alone(&cold[i], m, &p, &j, ids, PROMPT);
    }
    ft_engine *e = inv_engine(m, &p);
    fail_on(ft_engine_share(e, 1 << 28, NULL, &err), &err, "share");
    ft_slot *s[] = {ft_slot_new(e), ft_slot_new(e)};
    static const int turn[][3] = {{0, 0, 0}, {1, 0, 0}, {1, 1, 1}, {0, 1, 1}, {0, 0, 1}};
    for (size_t i = 0; i < FT_COUNT(turn); i++) {
        const int which = turn[i][0];
        j.lora = scales[1 + which];
        inv_response_on(&warm, s[turn[i][1]], &j, ids, PROMPT);
        check(inv_same(&warm, &cold[which]), "%s: response %zu differs", m->name, i);
        check((warm.stats.cached_n > 0) == turn[i][2], "%s: response %zu has %d cached tokens",
              m->name, i, warm.stats.cached_n);
    }
    ft_engine_free(e);
    e = inv_engine(m, &p); /* without checkpoints, on one slot */
    s[0] = ft_slot_new(e);
    for (int i = 0; i < 2; i++) {
        j.lora = scales[1 + i];
        inv_response_on(&warm, s[0], &j, ids, PROMPT);
        check(inv_same(&warm, &cold[i]) && !warm.stats.cached_n,
              "%s: a slot goes on from a prompt with other scales", m->name);
    }
    ft_engine_free(e);
}

static void check_model(const char *name, const char *assistant)
{
    static inv_response plain;
    int32_t ids[PROMPT];
    inv_model base = inv_model_golden(name, assistant, 1);
    const ft_engine_params p = inv_params(0);
    const ft_task j = inv_job(TOKENS, 0);
    inv_prompt(ids, PROMPT, base.m->V, 21);
    inv_response_alone(&plain, &base, &p, &j, ids, PROMPT);
    inv_model_close(&base);
    inv_model m = adapted(name, assistant, inv_dev(1));
    check_batched(&m, &plain, ids, 0);
    check_batched(&m, &plain, ids, 3);
    check_cached(&m, ids);
    inv_model_close(&m);
}

/* Half of the layers on a second device: the same ids. */
static void check_split(const char *name)
{
    static inv_response want, got;
    const ft_split_rule rule = {.first = 2, .layers = 64, .output = true};
    inv_model one = adapted(name, NULL, ft_dev_cpu(1));
    ft_dev *const both[2] = {ft_dev_cpu(1), ft_dev_cpu(1)};
    inv_model two = adapted(name, NULL, ft_dev_split(both, 2, &rule));
    const ft_engine_params p = inv_params(3);
    ft_task j = inv_job(TOKENS, 3);
    int32_t ids[PROMPT];
    inv_prompt(ids, PROMPT, one.m->V, 21);
    j.lora = scales[2];
    inv_response_alone(&want, &one, &p, &j, ids, PROMPT);
    inv_response_alone(&got, &two, &p, &j, ids, PROMPT);
    check(inv_same(&want, &got), "%s: a split model differs at %d", name,
          inv_first_difference(&want, &got));
    inv_model_close(&one);
    inv_model_close(&two);
}

/* Experts spread over two devices: an adapter for them is refused, one for attention is not. */
static void check_spread(const char *name)
{
    char model[128], path[128];
    size_t n;
    ft_err err;
    const ft_split_rule rule = {.layers = 64, .output = true, .spread = 3};
    ft_dev *const both[2] = {ft_dev_cpu(1), ft_dev_cpu(1)};
    inv_model m = {.name = name, .dev = ft_dev_split(both, 2, &rule)};
    inv_golden_file(name, model);
    m.m = inv_open(model, m.dev, NULL);
    write_adapter(model, file_path(path, name, "adapter"), "F16", 4, 4, 2);
    ft_gguf *g = open_file(path);
    const ft_status st = ft_adapter_add(m.m, NULL, g, &err);
    check(st == FT_EUNSUPPORTED && strstr(err.text, "_exps.weight.lora_a: the device ") &&
              strstr(err.text, "does not support adapters for routed experts"),
          "%s: an adapter for spread experts: \"%s\"", name, st ? err.text : "accepted");
    check(m.m->n_adapter == 0, "%s: a rejected adapter leaves something behind", name);
    if (st) ft_gguf_close(g);
    const ft_synth_lora_opts attention = {.model = model,
                                          .path = path,
                                          .type = "F16",
                                          .rank = 4,
                                          .alpha = 4,
                                          .seed = 2,
                                          .only = "attn_q"};
    fail_on(ft_synth_lora(&n, &attention, &err), &err, path);
    add_adapter(m.m, path);
    check(m.m->n_adapter == 1, "%s: no adapter for attention beside spread experts", name);
    unlink(path);
    unlink(model);
    inv_model_close(&m);
}

/* ---- files that do not fit ---- */

typedef struct wrong {
    const char *what, *type, *adapter, *arch, *tensor;
    int64_t a[3], b[3];
    const char *says;
} wrong;

static void check_wrong(ft_model *m, const wrong *w)
{
    char path[128], name[128];
    ft_gguf_writer *f;
    ft_err err;
    const int dims = w->a[2] > 1 ? 3 : 2;
    file_path(path, "wrong", w->what);
    fail_on(ft_gguf_writer_open(&f, path, &err), &err, path);
    ft_gguf_put_str(f, "general.type", ft_str_of(w->type));
    ft_gguf_put_str(f, "general.architecture", ft_str_of(w->arch));
    ft_gguf_put_str(f, "adapter.type", ft_str_of(w->adapter));
    if (w->a[0]) {
        snprintf(name, sizeof name, "%s.lora_a", w->tensor);
        ft_gguf_put_tensor(f, name, FT_F32, dims, w->a);
    }
    if (w->b[0]) {
        snprintf(name, sizeof name, "%s.lora_b", w->tensor);
        ft_gguf_put_tensor(f, name, FT_F32, dims, w->b);
    }
    if (!w->a[0] && !w->b[0] && w->tensor)
        ft_gguf_put_tensor(f, w->tensor, FT_F32, 1, (int64_t[]){64});
    fail_on(ft_gguf_writer_begin(f, &err), &err, path);
    fail_on(ft_gguf_writer_commit(f, &err), &err, path);
    ft_gguf *g = open_file(path);
    const ft_status st = ft_adapter_add(m, NULL, g, &err);
    check(st && strstr(err.text, w->says), "%s: \"%s\", want \"%s\"", w->what,
          st ? err.text : "accepted", w->says);
    if (st) ft_gguf_close(g);
    unlink(path);
}

static void check_files(void)
{
    inv_model m = inv_model_golden("qwen35-moe", NULL, 1);
    const ft_weight *q = NULL, *e = NULL;
    for (int i = 0; i < m.m->n_weights; i++) {
        if (!strcmp(m.m->weights[i]->name, "blk.3.attn_q.weight")) q = m.m->weights[i];
        if (strstr(m.m->weights[i]->name, "ffn_down_exps")) e = m.m->weights[i];
    }
    const char *t = "blk.3.attn_q.weight", *arch = m.m->arch->name;
    const wrong all[] = {
        {"type", "model", "lora", arch, t, {q->k, 4}, {4, q->n}, "general.type is \"model\""},
        {"kind", "adapter", "ia3", arch, t, {q->k, 4}, {4, q->n}, "adapter.type is \"ia3\""},
        {"arch", "adapter", "lora", "llama", t, {q->k, 4}, {4, q->n}, "architecture \"llama\""},
        {"k", "adapter", "lora", arch, t, {q->k + 1, 4}, {4, q->n}, "lora_a is ["},
        {"rank", "adapter", "lora", arch, t, {q->k, 5}, {4, q->n}, "lora_a is ["},
        {"n", "adapter", "lora", arch, t, {q->k, 4}, {4, q->n - 1}, "lora_b is ["},
        {"half", "adapter", "lora", arch, t, {q->k, 4}, {0}, "lora_b is missing"},
        {"other half", "adapter", "lora", arch, t, {0}, {4, q->n}, "lora_a is missing"},
        {"none", "adapter", "lora", arch, NULL, {0}, {0}, "no tensors"},
        {"norm", "adapter", "lora", arch, "blk.0.attn_norm.weight", {0}, {0}, "not part of a pair"},
        {"vector",
         "adapter",
         "lora",
         arch,
         "blk.0.attn_norm.weight",
         {64, 4},
         {4, 64},
         "not supported"},
        {"no such",
         "adapter",
         "lora",
         arch,
         "blk.99.attn_q.weight",
         {64, 4},
         {4, 64},
         "the model has no tensor blk.99.attn_q.weight"},
        {"experts",
         "adapter",
         "lora",
         arch,
         e->name,
         {e->k, 4, e->E - 1},
         {4, e->n, e->E - 1},
         "lora_a is ["},
        {"one expert", "adapter", "lora", arch, e->name, {e->k, 4}, {4, e->n}, "lora_a is ["},
    };
    for (size_t i = 0; i < FT_COUNT(all); i++) check_wrong(m.m, &all[i]);
    check(m.m->n_adapter == 0 && !q->lora, "a rejected adapter leaves something behind");
    inv_model_close(&m);
}

int main(void)
{
    check_files();
    check_merged("qwen35-dense", "F32", 3, 5);
    check_merged("qwen35-gqa", "F16", 8, 0);
    check_merged("qwen35-moe", "F32", 4, 8);
    check_merged("gemma4-dense", "BF16", 1, 0);
    check_merged("gemma4-edge", "F32", 5, 2);
    check_merged("gemma4-moe", "F32", 4, 4);
    check_model("qwen35-dense", NULL);
    check_model("qwen35-moe", NULL);
    check_model("gemma4-dense", "gemma4-dense-assistant");
    check_model("gemma4-moe", NULL);
    if (!getenv("FT_TEST_DEV")) check_split("qwen35-dense");
    if (!getenv("FT_TEST_DEV")) check_split("qwen35-moe");
    check_spread("qwen35-moe");
    check_spread("gemma4-moe");
    return inv_end();
}
