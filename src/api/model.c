/* api/model.c - opens a model: its file, drafter and device, and the memory that they need. */
#define _GNU_SOURCE
#include "api/images.h"

#include "api/adapters.h"
#include "api/prompt_scores.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/micro.h"
#include "kv/plan.h"
#include "model/rank.h"
#include "text/stream.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void ft_llm_defaults(ft_llm_params *p)
{
    *p = (ft_llm_params){
        .device = "auto",
        .cache_k = "f16",
        .cache_v = "f16",
        .cache_tail = -1,
        .slots = 1,
        .draft_max = 3,
        .draft_vocab = -1,
        .split_mode = "layer",
        .gpu_layers = -1,
        .cpu_moe = -1,
        .fit_target = 512,
        .spec_type = "auto",
        .image_cache_mib = 256,
        .yarn_ext_factor = -1,
        .yarn_attn_factor = -1,
        .yarn_beta_slow = -1,
        .yarn_beta_fast = -1,
    };
    ft_draft_methods d;
    ft_draft_methods_defaults(&d);
    p->ngram_simple = p->ngram_map_k = p->ngram_map_k4v =
        (ft_ngram_params){d.simple.n, d.simple.m, d.simple.min_hits};
    p->ngram_mod_match = d.mod.n_match;
    p->ngram_mod_min = d.mod.n_min;
    p->ngram_mod_max = d.mod.n_max;
}

const char *ft_default_model(void)
{
    static char path[PATH_MAX + 64];
    static const char *const below[] = {"", "models/", "../models/", "../share/foretoken/"};
    char exe[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (n > 0) {
        exe[n] = 0;
        *strrchr(exe, '/') = 0;
        for (size_t i = 0; i < FT_COUNT(below); i++) {
            snprintf(path, sizeof path, "%s/%sforetoken-tiny.gguf", exe, below[i]);
            if (ft_file_exists(path)) return path;
        }
    }
    snprintf(path, sizeof path, "%s/foretoken/foretoken-tiny.gguf", FT_DATADIR);
    return ft_file_exists(path) ? path : NULL;
}

/* Memory for the engine on all devices but the host, if there are several. */
static uint64_t memory_needed(const ft_llm *m, const ft_engine_params *p)
{
    uint64_t cache[FT_ENGINE_LAYERS], step, draft;
    const int n = ft_engine_parts(m->model, m->assistant, p, &step, &draft, cache);
    uint64_t sum = step * (uint64_t)FT_MAX(1, ft_split_count(m->dev) - 1) + draft;
    for (int l = m->rule.first; l < n; l++) sum += cache[l];
    return sum;
}

/* Rejects a context whose cache would not fit, and names one that would. */
static ft_status check_memory(const ft_llm *m, const ft_engine_params *p, ft_err *err)
{
    const uint64_t need = memory_needed(m, p), have = m->dev->free_bytes(m->dev);
    if (!have || need <= have) return FT_OK;
    int lo = 0, hi = p->ctx;
    while (hi - lo > 64) {
        ft_engine_params q = *p;
        q.ctx = lo + (hi - lo) / 2;
        if (memory_needed(m, &q) <= have)
            lo = q.ctx;
        else
            hi = q.ctx;
    }
    char a[24], b[24];
    return ft_fail(
        err, FT_ENOMEM,
        "a context of %d tokens needs %s and %s are available; the largest that fits is %d", p->ctx,
        ft_human_bytes(a, need), ft_human_bytes(b, have), lo);
}

/* Sets a key of the file's architecture. */
static void set_arch_key(ft_gguf *g, const char *key, ft_gguf_kind kind, const void *value,
                         size_t bytes)
{
    char full[160];
    ft_str arch;
    if (!ft_gguf_str(g, "general.architecture", &arch)) return; /* ft_model_open reports it */
    snprintf(full, sizeof full, "%.*s.%s", (int)FT_MIN(arch.n, (size_t)80), arch.p, key);
    ft_gguf_set(g, full, kind, value, bytes);
}

/* Does the file itself scale RoPE frequencies? */
static bool has_rope_scaling(const ft_gguf *g)
{
    char key[160];
    ft_str arch, type;
    if (!ft_gguf_str(g, "general.architecture", &arch)) return false;
    snprintf(key, sizeof key, "%.*s.rope.scaling.type", (int)FT_MIN(arch.n, (size_t)80), arch.p);
    return ft_gguf_str(g, key, &type) && !ft_str_is(type, "none");
}

static void set_rope(ft_gguf *g, const ft_llm_params *p)
{
    const struct {
        const char *key;
        float value;
        bool given;
    } number[] = {
        {"rope.scaling.factor", p->rope_scale, p->rope_scale > 0},
        {"rope.freq_base", p->rope_freq_base, p->rope_freq_base > 0},
        {"rope.scaling.yarn_ext_factor", p->yarn_ext_factor, p->yarn_ext_factor >= 0},
        {"rope.scaling.yarn_attn_factor", p->yarn_attn_factor, p->yarn_attn_factor >= 0},
        {"rope.scaling.yarn_beta_slow", p->yarn_beta_slow, p->yarn_beta_slow > 0},
        {"rope.scaling.yarn_beta_fast", p->yarn_beta_fast, p->yarn_beta_fast > 0},
    };
    for (size_t i = 0; i < FT_COUNT(number); i++)
        if (number[i].given)
            set_arch_key(g, number[i].key, FT_GGUF_F32, &number[i].value, sizeof(float));
    const int32_t orig = p->yarn_orig_ctx;
    if (orig > 0)
        set_arch_key(g, "rope.scaling.original_context_length", FT_GGUF_I32, &orig, sizeof orig);
    const char *type = p->rope_scaling ? p->rope_scaling : p->rope_scale > 0 ? "linear" : NULL;
    if (type && (p->rope_scaling || !has_rope_scaling(g)))
        set_arch_key(g, "rope.scaling.type", FT_GGUF_STR, type, strlen(type));
}

/* Options that replace keys of the file. A drafter that reads the cache of the model gets its RoPE
 * frequencies. */
static ft_status set_keys(ft_gguf *g, const ft_llm_params *p, bool drafter, bool shares_cache,
                          ft_err *err)
{
    ft_status st = FT_OK;
    for (int i = 0; i < p->n_override_kv && !drafter && !st; i++)
        if ((st = ft_gguf_override(g, p->override_kv[i], err))) ft_err_prefix(err, "--override-kv");
    if (!st && (!drafter || shares_cache)) set_rope(g, p);
    return st;
}

/* Binding reads and repacks every weight, which takes a while: p->progress is told. */
ft_status ft_llm_open_file(ft_model **out, const char *path, ft_dev *dev, const ft_model *target,
                           const ft_llm_params *p, ft_err *err)
{
    ft_gguf *g = NULL;
    ft_status st = ft_gguf_open(&g, path, !p->no_mmap, err);
    if (st) return st;
    if ((st = set_keys(g, p, path == p->draft_model, target != NULL, err))) {
        ft_gguf_close(g);
        return st;
    }
    ft_progress *progress =
        ft_progress_new("loading", ft_gguf_file_bytes(g), p->progress, p->progress_user);
    if ((st = ft_model_open(out, g, dev, target, progress, err))) {
        ft_err_prefix(err, "%s", path);
        ft_gguf_close(g);
    }
    ft_progress_free(progress);
    return st;
}

/* The end tokens; checks the vocabulary against the model's own size. */
static ft_status open_vocab(ft_llm *m, ft_err *err)
{
    ft_status st = ft_vocab_open(&m->vocab, m->model->file, err);
    if (st) return st;
    const int n = FT_MIN(ft_vocab_count(m->vocab), m->model->V);
    m->eog = ft_new_n(int32_t, 64);
    for (int i = 0; i < n && m->n_eog < 64; i++)
        if (ft_vocab_is_eog(m->vocab, i)) m->eog[m->n_eog++] = i;
    return FT_OK;
}

static char *copy_of(ft_str s)
{
    char *z = ft_alloc(s.n + 1);
    if (s.n) memcpy(z, s.p, s.n);
    return z;
}

/* The caller's template: its source, or the name of a built-in one. */
static ft_status given_template(ft_str *source, const char *text, ft_err *err)
{
    if (!text) return FT_OK;
    const char *builtin = ft_chat_builtin(text);
    *source = ft_str_of(builtin ? builtin : text);
    if (builtin || strchr(text, '{')) return FT_OK;
    return ft_fail(err, FT_EINVAL,
                   "chat template \"%.60s\", want Jinja source, or one of chatml, gemma, gemma4",
                   text);
}

/* The chat template: the caller's, or the file's. A broken template in the file does not keep
 * the model from opening: the error is reported when the template is used. */
static ft_status open_chat(ft_llm *m, const ft_llm_params *p, ft_err *err)
{
    const ft_vocab_ids *ids = ft_vocab_special(m->vocab);
    ft_str source = FT_STR("");
    ft_status st = given_template(&source, p->template_text, err);
    if (st) return st;
    if (!p->template_text) ft_gguf_str(m->model->file, "tokenizer.chat_template", &source);
    const ft_str bos = ids->bos >= 0 ? ft_vocab_text(m->vocab, ids->bos) : FT_STR("");
    const ft_str eos = ids->eos >= 0 ? ft_vocab_text(m->vocab, ids->eos) : FT_STR("");
    m->bos = copy_of(bos);
    m->eos = copy_of(eos);
    if (!source.n) return FT_OK;
    m->template_text = copy_of(source);
    st = ft_chat_new(&m->chat, source, bos, eos, err);
    if (!st && p->template_text) st = ft_chat_check(m->chat, err);
    if (st && p->template_text) ft_err_prefix(err, "the chat template");
    if (!st || p->template_text) return st;
    ft_log(FT_LOG_WARN, "the chat template of the file cannot be used: %s", err ? err->text : "");
    return FT_OK;
}

static ft_status cache_types(ft_engine_params *e, const ft_llm_params *p, ft_err *err)
{
    e->kv_exact = p->cache_exact;
    e->kv_tail = ft_kv_tail_wanted(p->cache_tail, p->cache);
    if (p->cache) {
        if (ft_kv_pair_find(ft_str_of(p->cache), &e->kt, &e->vt)) return FT_OK;
        return ft_fail(err, FT_EINVAL,
                       "cache \"%s\", want quality, balanced, compact, or one or two (K/V) of %s",
                       p->cache, ft_kv_type_names());
    }
    if (!ft_kv_type_find(ft_str_of(p->cache_k), &e->kt))
        return ft_fail(err, FT_EINVAL, "cache type \"%s\" for keys, want %s", p->cache_k,
                       ft_kv_type_names());
    if (!ft_kv_type_find(ft_str_of(p->cache_v), &e->vt))
        return ft_fail(err, FT_EINVAL, "cache type \"%s\" for values, want %s", p->cache_v,
                       ft_kv_type_names());
    return FT_OK;
}

static void trace_line(void *user, const char *line)
{
    FILE *f = user;
    fprintf(f, "%s\n", line);
    fflush(f);
}

static ft_status open_trace(ft_llm *m, const ft_llm_params *p, ft_err *err)
{
    const char *to = p->spec_trace;
    if (p->trace) ft_engine_trace(m->engine, p->trace, p->trace_user);
    if (p->trace || !to || !*to) return FT_OK;
    m->trace = fopen(to, "a");
    if (!m->trace) return ft_fail_errno(err, "%s", to);
    ft_engine_trace(m->engine, trace_line, m->trace);
    return FT_OK;
}

static int batch_of(const ft_llm_params *p, const ft_dev *dev)
{
    return p->batch ? p->batch : dev->captures ? 2048 : 512;
}

bool ft_batch_widens(uint64_t need, uint64_t wide, uint64_t have)
{
    return wide <= have / 4 * 3 && wide - need <= have / 8;
}

/* Doubles the default batch of a GPU for models with experts, each of which gets only a few of the
 * rows, if there is memory. On an H200 prompts of the 35b-a3b run at 43,200 tokens/s instead of
 * 39,000. */
static void widen_batch(const ft_llm *m, ft_engine_params *e)
{
    if (!m->dev->captures || !m->model->limits.experts) return;
    ft_engine_params wide = *e;
    wide.rows = 2 * e->rows;
    if (ft_batch_widens(memory_needed(m, e), memory_needed(m, &wide), m->dev->free_bytes(m->dev)))
        *e = wide;
}

ft_status ft_llm_engine_params(ft_engine_params *e, const ft_model *m, const ft_llm_params *p,
                               const ft_draft_methods *d, ft_err *err)
{
    *e = (ft_engine_params){.slots = p->slots,
                            .cells = p->cells,
                            .rows = p->batch,
                            .draft_max = d->kinds ? p->draft_max : 0,
                            .ngram_draft_max = d->kinds & FT_SPEC_NGRAMS ? FT_DRAFT_MAX : 0,
                            .no_head = !(d->kinds & (FT_SPEC_HEAD | FT_SPEC_MODEL)),
                            .reject = p->spec_reject,
                            .adapt = !p->draft_fixed,
                            .micro = p->micro_batches,
                            .score_rows = p->score_rows};
    ft_status st;
    if ((st = cache_types(e, p, err))) return st;
    if (p->slots < 1 || p->slots > 4096)
        return ft_fail(err, FT_EINVAL, "%d slots, want 1 to 4096", p->slots);
    if (e->rows < FT_CHUNK_ROWS || e->rows > 8192)
        return ft_fail(err, FT_EINVAL, "a batch of %d, want %d to 8192", e->rows, FT_CHUNK_ROWS);
    if (p->micro_batches < 0 || p->micro_batches > FT_MICRO_MAX)
        return ft_fail(err, FT_EINVAL, "%d micro-batches, want 0 to %d", p->micro_batches,
                       FT_MICRO_MAX);
    if (p->score_rows && (p->score_rows < FT_CHUNK_ROWS || p->score_rows > 8192))
        return ft_fail(err, FT_EINVAL, "%d score_rows, want 0 or %d to 8192", p->score_rows,
                       FT_CHUNK_ROWS);
    if (p->draft_max < 0 || p->draft_max > FT_DRAFT_MAX)
        return ft_fail(err, FT_EINVAL, "%d draft tokens per step, want 0 to %d", p->draft_max,
                       FT_DRAFT_MAX);
    e->ctx = p->ctx > 0 ? p->ctx : p->ctx < 0 ? m->ctx_train : FT_MIN(m->ctx_train, 8192);
    if (p->cells < 0 || p->cells > (int64_t)1 << 40)
        return ft_fail(err, FT_EINVAL, "%lld KV cache positions in all, want 0 to %lld",
                       (long long)p->cells, (long long)1 << 40);
    if (e->ctx < 2 || e->ctx > 1 << 24)
        return ft_fail(err, FT_EINVAL, "a context of %d, want 2 to %d", e->ctx, 1 << 24);
    return FT_OK;
}

/* Before a compact cache is used. */
static ft_status measure_keys(ft_llm *m, const ft_llm_params *p, ft_engine_params *e, ft_err *err)
{
    if (!p->cache || p->cache_exact || !ft_kv_pair_measured(ft_str_of(p->cache))) return FT_OK;
    const ft_status st = ft_llm_calibrate(&m->calibration, m, e->kt, e->ctx, err);
    e->calibration = m->calibration;
    return st;
}

/* ARCH.pooling_type, in the numbering of GGUF files. */
static int pooling_of(const ft_gguf *g)
{
    static const int by_number[] = {FT_POOL_NONE, FT_POOL_MEAN, FT_POOL_CLS, FT_POOL_LAST,
                                    FT_POOL_RANK};
    char key[160];
    ft_str arch;
    uint32_t n;
    if (!ft_gguf_str(g, "general.architecture", &arch)) return -1;
    snprintf(key, sizeof key, "%.*s.pooling_type", (int)FT_MIN(arch.n, (size_t)80), arch.p);
    return ft_gguf_u32(g, key, &n) && n < FT_COUNT(by_number) ? by_number[n] : -1;
}

static void fill_info(ft_llm *m, const ft_llm_params *p, const ft_draft_methods *d,
                      const ft_engine_params *e, int64_t start)
{
    ft_llm_info *i = &m->info;
    ft_str name;
    if (!ft_gguf_str(m->model->file, "general.name", &name)) name = FT_STR("(no name)");
    m->name = ft_alloc(name.n + 1);
    memcpy(m->name, name.p, name.n);
    i->path = m->path;
    i->name = m->name;
    i->arch = m->model->arch->words;
    i->device = m->dev->name;
    i->place = m->place;
    i->drafts = e->draft_max > 0 && (ft_engine_drafts(m->engine) || d->kinds & FT_SPEC_NGRAMS);
    i->vision = m->images != NULL;
    i->image_marker = ft_llm_image_marker(m);
    i->has_template = m->chat != NULL;
    i->template_text = m->template_text;
    i->call_marker = ft_llm_call_marker(m);
    i->bos = m->bos;
    i->eos = m->eos;
    i->drafter = m->drafter = ft_drafter_text(m, p, d, e);
    ft_drafter_type(m, d, m->draft_type, sizeof m->draft_type);
    i->draft_type = i->drafts ? m->draft_type : "none";
    i->draft_adapts = e->adapt;
    i->draft_max = i->drafts ? e->draft_max : 0;
    ft_buf_init(&m->cache_table, 1 << 20);
    char special[sizeof m->cache_summary];
    i->cache_small = ft_engine_cache_table(&m->cache_table, m->cache_summary, special,
                                           sizeof special, m->model, m->assistant, e);
    i->cache = ft_buf_z(&m->cache_table);
    i->cache_summary = m->cache_summary;
    i->layers = m->model->L;
    i->draft_layers = m->assistant ? m->assistant->L : FT_MAX(0, m->model->n_layer - m->model->L);
    i->width = m->model->D;
    i->vocab = m->model->V;
    i->ctx = e->ctx;
    i->ctx_train = m->model->ctx_train;
    i->threads = m->dev->threads;
    i->slots = e->slots;
    i->parameters = m->model->weight_count + (m->assistant ? m->assistant->weight_count : 0);
    i->weight_bytes = m->model->weight_bytes + (m->assistant ? m->assistant->weight_bytes : 0);
    i->weight_type = ft_type_name(ft_gguf_main_type(m->model->file));
    i->cache_bytes = ft_engine_bytes(m->model, m->assistant, e);
    i->pooling = pooling_of(m->model->file);
    i->ranks = m->rank != NULL;
    ft_str text;
    if (ft_gguf_str(m->model->file, "tokenizer.chat_template.rerank", &text))
        i->rank_template = m->rank_template = copy_of(text);
    i->load_s = (double)(ft_now_ns() - start) * 1e-9;
    m->draft_max = i->drafts ? e->draft_max : 0;
}

static ft_status load_files(ft_llm *m, ft_llm_params *p, ft_draft_methods *d, ft_engine_params *e,
                            ft_err *err)
{
    const bool any_batch = !p->batch;
    ft_status st;
    if ((st = ft_draft_methods_of(d, p, err))) return st;
    p->threads = ft_rank_threads(p->threads);
    if ((st = ft_llm_open_devices(m, p, err))) return st;
    p->batch = batch_of(p, m->dev);
    if ((st = ft_llm_place(m, p, d, err))) return st;
    if ((st = ft_llm_open_file(&m->model, m->path, m->dev, NULL, p, err))) return st;
    if ((st = ft_llm_open_drafter(m, p, d, err))) return st;
    if ((st = open_vocab(m, err))) {
        ft_err_prefix(err, "%s", m->path);
        return st;
    }
    if ((st = ft_rank_open(&m->rank, m->model->file, m->model->D, err))) return st;
    if ((st = open_chat(m, p, err))) return st;
    if ((st = ft_llm_open_images(m, p, err))) return st;
    if (d->kinds & FT_SPEC_HEAD && p->draft_max > 0 && (st = ft_llm_narrow(m, p, err))) return st;
    if ((st = ft_llm_open_adapters(m, p, err))) return st;
    if ((st = ft_llm_engine_params(e, m->model, p, d, err))) return st;
    e->lora = m->lora;
    if ((st = measure_keys(m, p, e, err))) return st;
    if (any_batch) widen_batch(m, e);
    if ((st = check_memory(m, e, err))) return st;
    if ((st = ft_engine_new(&m->engine, m->model, m->assistant, e, err))) return st;
    if (m->dev->captures && (st = ft_engine_warm_up(m->engine, err))) return st;
    ft_engine_time_drafts(m->engine);
    if (e->draft_max > 0 && (st = ft_draft_methods_add(m->engine, d, e->slots, err))) return st;
    return open_trace(m, p, err);
}

ft_status ft_cache_sizes(const char *path, int ctx, const char *const *type, int n,
                         ft_cache_size *out, ft_err *err)
{
    ft_dev *dev = ft_dev_ref();
    ft_model *m = NULL;
    ft_llm_params p;
    ft_llm_defaults(&p);
    ft_status st = ft_llm_open_file(&m, path, dev, NULL, &p, err);
    for (int i = 0; i < n && !st; i++) {
        p.cache = type[i];
        ft_engine_params e = {
            .slots = 1, .ctx = ctx, .rows = batch_of(&p, dev), .draft_max = p.draft_max};
        if ((st = cache_types(&e, &p, err))) break;
        double f16;
        out[i].token_bytes = ft_engine_token_bytes(m, &e, &f16);
        out[i].ratio = out[i].token_bytes > 0 ? f16 / out[i].token_bytes : 1;
        ft_buf table;
        char words[sizeof out[i].special];
        ft_buf_init(&table, 1 << 20);
        ft_engine_cache_table(&table, words, out[i].special, sizeof words, m, NULL, &e);
        ft_buf_release(&table);
        out[i].bytes = ft_engine_cache_bytes(m, NULL, &e);
    }
    ft_model_close(m);
    ft_dev_close(dev);
    return st;
}

ft_status ft_llm_open(ft_llm **out, const ft_llm_params *p, ft_err *err)
{
    const int64_t start = ft_now_ns();
    const char *path = p->model ? p->model : ft_default_model();
    if (!path)
        return ft_fail(err, FT_ENOTFOUND,
                       "no model given and no foretoken-tiny.gguf found; name one with -m");
    ft_llm *m = ft_new(ft_llm);
    pthread_mutex_init(&m->lock, NULL);
    m->path = ft_strdup(path);
    ft_engine_params e;
    ft_draft_methods d;
    ft_llm_params q = *p;
    const ft_status st = load_files(m, &q, &d, &e, err);
    if (st) {
        ft_llm_close(m);
        return st;
    }
    fill_info(m, p, &d, &e, start);
    *out = m;
    return FT_OK;
}

void ft_llm_close(ft_llm *m)
{
    if (!m) return;
    ft_queue_free(m->queue);
    ft_engine_free(m->engine);
    ft_llm_close_images(m);
    ft_calibration_free(m->calibration, m->model);
    if (m->trace) fclose(m->trace);
    ft_model_close(m->assistant);
    ft_model_close(m->model);
    ft_chat_free(m->chat);
    ft_trie_free(m->trie);
    ft_vocab_close(m->vocab);
    ft_dev_close(m->dev);
    for (int i = 0; i < m->n_more; i++) ft_dev_close(m->more[i]);
    ft_llm_free_overrides(m);
    ft_free(m->eog);
    ft_free(m->path);
    ft_free(m->name);
    ft_free(m->drafter);
    ft_scores_free(m->scores);
    ft_rank_free(m->rank);
    ft_free(m->rank_template);
    ft_free(m->template_text);
    ft_free(m->bos);
    ft_free(m->eos);
    ft_buf_release(&m->cache_table);
    pthread_mutex_destroy(&m->lock);
    ft_free(m);
}

bool ft_llm_tag(const ft_llm *m, int32_t id)
{
    return m->chat && ft_vocab_type(m->vocab, id) == FT_TOKEN_CONTROL &&
           ft_stream_tag(ft_chat_family_of(m->chat), ft_vocab_text(m->vocab, id));
}

static ft_str token_bytes(void *user, int32_t id)
{
    const ft_llm *m = user;
    return ft_vocab_piece(m->vocab, id, ft_llm_tag(m, id));
}

static bool token_ends(void *user, int32_t id)
{
    return ft_vocab_is_eog(((const ft_llm *)user)->vocab, id);
}

const ft_trie *ft_llm_trie(ft_llm *m)
{
    pthread_mutex_lock(&m->lock);
    if (!m->trie) {
        const int n = FT_MIN(ft_vocab_count(m->vocab), m->model->V);
        m->trie = ft_trie_new(&(ft_token_source){m, n, token_bytes, token_ends});
    }
    pthread_mutex_unlock(&m->lock);
    return m->trie;
}

const ft_llm_info *ft_llm_about(const ft_llm *m)
{
    return &m->info;
}

const ft_vocab *ft_llm_vocab(const ft_llm *m)
{
    return m->vocab;
}
