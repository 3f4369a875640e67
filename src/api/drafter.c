/* api/drafter.c - selects the draft method of a loaded model: the list of names, the drafter's
 * own file, and the vocabulary that it drafts from. */
#include "api/model.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_TEXT = 256 << 20, LARGE_VOCAB = 8192 };

static ft_ngram ngram_of(ft_ngram_params p)
{
    return (ft_ngram){p.size_n, p.size_m, p.min_hits};
}

ft_status ft_draft_methods_of(ft_draft_methods *d, const ft_llm_params *p, ft_err *err)
{
    *d = (ft_draft_methods){
        .simple = ngram_of(p->ngram_simple),
        .map_k = ngram_of(p->ngram_map_k),
        .map_k4v = ngram_of(p->ngram_map_k4v),
        .mod = {p->ngram_mod_match, p->ngram_mod_min, p->ngram_mod_max},
        .corpus = p->lookup_static,
        .responses = p->lookup_dynamic,
    };
    ft_status st = ft_draft_methods_parse(&d->kinds, p->spec_type ? p->spec_type : "auto", err);
    if (!st) st = ft_draft_methods_check(d, err);
    if (!st && d->kinds & FT_SPEC_MODEL && !p->draft_model)
        st = ft_fail(err, FT_EINVAL, "draft-simple needs a draft model; name one with -md");
    if (!st && d->kinds & FT_SPEC_NGRAM_MOD && d->mod.n_match < 16)
        ft_log(FT_LOG_WARN, "ngram-mod hashes %d tokens; fewer than 16 have a low acceptance rate",
               d->mod.n_match);
    return st;
}

/* ---- the drafter's file ---- */

/* A complete model is used as a draft model if requested, or if the file holds nothing else. */
static ft_status choose_kind(const ft_llm *m, const char *path, ft_draft_methods *d, ft_err *err)
{
    ft_gguf *g = NULL;
    ft_status st = ft_gguf_open(&g, path, true, err);
    if (st) return st;
    const bool whole = ft_model_whole(g);
    if (d->kinds & FT_SPEC_AUTO && whole && !ft_model_head_for(g, m->model))
        d->kinds = (d->kinds & FT_SPEC_NGRAMS) | FT_SPEC_MODEL;
    if (d->kinds & FT_SPEC_MODEL && !whole)
        st = ft_fail(err, FT_EUNSUPPORTED,
                     "%s is a draft head or an assistant, draft-simple wants a whole model", path);
    else if (d->kinds & FT_SPEC_MODEL &&
             (st = ft_vocab_same(g, m->model->file, FT_DRAFT_VOCAB_DIFF_MAX, err)))
        ft_err_prefix(err, "%s", path);
    ft_gguf_close(g);
    return st;
}

ft_status ft_llm_open_drafter(ft_llm *m, const ft_llm_params *p, ft_draft_methods *d, ft_err *err)
{
    const char *path = p->draft_model;
    if (!path || !(d->kinds & (FT_SPEC_HEAD | FT_SPEC_MODEL)) || p->draft_max == 0) return FT_OK;
    if (ft_gguf_same_file(m->model->file, path)) {
        if (d->kinds & FT_SPEC_MODEL)
            return ft_fail(err, FT_EINVAL, "%s is the model itself, want a smaller model", path);
        if (m->model->drafter) return FT_OK;
        return ft_fail(err, FT_EUNSUPPORTED, "%s is the model itself, and %s", path,
                       m->model->no_draft ? m->model->no_draft : "it has no draft head");
    }
    ft_status st = choose_kind(m, path, d, err);
    if (st) return st;
    /* Entirely on one device, the first GPU if there is one: it runs several times per step. */
    if (d->kinds & FT_SPEC_MODEL)
        return ft_llm_open_file(&m->assistant, path, ft_split_local(m->dev), NULL, p, err);
    ft_split_set_rule(m->dev, &(ft_split_rule){.output = true, .n_end = m->rule.n_end});
    st = ft_llm_open_file(&m->assistant, path, m->dev, m->model, p, err);
    ft_split_set_rule(m->dev, &m->rule);
    return st;
}

/* ---- a narrow head ---- */

typedef struct tally {
    uint64_t count;
    int32_t id;
} tally;

static int by_count(const void *a, const void *b)
{
    const tally *x = a, *y = b;
    if (x->count != y->count) return x->count < y->count ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

static int by_id(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Counts each id in the text of a file. */
static ft_status count_text(tally *t, int V, const ft_llm *m, const char *path, ft_err *err)
{
    char *text;
    size_t n, n_ids;
    int32_t *ids;
    ft_status st = ft_file_read(&text, &n, path, MAX_TEXT, err);
    if (st) return st;
    st = ft_vocab_encode(m->vocab, text, n, FT_ENCODE_PARSE_SPECIAL, &ids, &n_ids, err);
    ft_free(text);
    if (st) return st;
    for (size_t i = 0; i < n_ids; i++)
        if (ids[i] >= 0 && ids[i] < V) t[ids[i]].count++;
    free(ids);
    return FT_OK;
}

/* Half of the vocabulary if the output matrix dominates a draft pass. BPE vocabularies list
 * merges by frequency, so the omitted ids are rare, and the first half needs no copy. */
static ft_status narrow_auto(ft_model *d, int V, ft_err *err)
{
    const ft_gguf_tensor *t;
    const ft_weight *head = d->arch->draft_head ? d->arch->draft_head(d, &t) : NULL;
    if (!head || head->scale || V < LARGE_VOCAB) return FT_OK;
    return ft_model_narrow(d, NULL, V / 2 / FT_NARROW * FT_NARROW, err);
}

/* The n most frequent ids: end tokens, ids of the text, then in the order of the file, because
 * BPE vocabularies list frequent tokens first. */
ft_status ft_llm_narrow(ft_llm *m, const ft_llm_params *p, ft_err *err)
{
    ft_model *d = m->assistant ? m->assistant : m->model;
    const int n = p->draft_vocab, V = m->model->V;
    if (n == 0 || n >= V || !d->drafter) return FT_OK;
    if (n < 0) return narrow_auto(d, V, err);
    if (n <= m->n_eog)
        return ft_fail(err, FT_EINVAL, "a draft vocabulary of %d, want more than %d", n, m->n_eog);
    tally *t = ft_new_n(tally, (size_t)V);
    int32_t *ids = ft_new_n(int32_t, (size_t)n);
    for (int32_t i = 0; i < V; i++) t[i].id = i;
    ft_status st = p->draft_vocab_text ? count_text(t, V, m, p->draft_vocab_text, err) : FT_OK;
    for (int i = 0; i < m->n_eog; i++) t[m->eog[i]].count = UINT64_MAX;
    qsort(t, (size_t)V, sizeof *t, by_count);
    for (int i = 0; i < n; i++) ids[i] = t[i].id;
    qsort(ids, (size_t)n, sizeof *ids, by_id);
    if (!st) st = ft_model_narrow(d, ids, n, err);
    ft_free(ids);
    ft_free(t);
    return st;
}

/* ---- descriptions ---- */

static const char *drafter_name(const ft_llm *m, const ft_draft_methods *d)
{
    if (!ft_engine_drafts(m->engine)) return "";
    if (d->kinds & FT_SPEC_MODEL) return "a draft model";
    if (!m->assistant) return "the model's MTP head";
    return m->assistant->drafter == FT_DRAFT_MTP ? "an MTP head in a separate file"
                                                 : "an assistant model";
}

/* In the spelling of --spec-type. */
void ft_drafter_type(const ft_llm *m, const ft_draft_methods *d, char *out, size_t bytes)
{
    char names[120];
    ft_draft_methods_names(d->kinds, names, sizeof names);
    const char *head = !ft_engine_drafts(m->engine) ? ""
                       : d->kinds & FT_SPEC_MODEL   ? "draft-simple"
                                                    : "draft-mtp";
    snprintf(out, bytes, "%s%s%s", names, *names && *head ? ", " : "", head);
}

char *ft_drafter_text(const ft_llm *m, const ft_llm_params *p, const ft_draft_methods *d,
                      const ft_engine_params *e)
{
    char text[600], names[320], size[24], narrow[48] = "", several[48] = "";
    const char *why = m->model->no_draft ? m->model->no_draft : "no drafter";
    const bool head = ft_engine_drafts(m->engine);
    const ft_model *by = m->assistant ? m->assistant : m->model;
    ft_draft_methods_text(d, names, sizeof names);
    if (e->draft_max == 0) {
        snprintf(text, sizeof text, "none: disabled");
        return ft_strdup(text);
    }
    if (!head && !names[0]) {
        snprintf(text, sizeof text, "none: %s", why);
        return ft_strdup(text);
    }
    ft_engine_params off = *e;
    off.draft_max = 0;
    const uint64_t takes =
        ft_engine_bytes(m->model, m->assistant, e) - ft_engine_bytes(m->model, m->assistant, &off);
    if (by->n_draft_ids)
        snprintf(narrow, sizeof narrow, " over %d of %d tokens", by->n_draft_ids, m->model->V);
    if (head && by->draft_heads > 1)
        snprintf(several, sizeof several, " (the first of %d)", by->draft_heads);
    snprintf(text, sizeof text, "%s%s%s%s%s, up to %d draft tokens per step, %s, %s%s%s", names,
             head && names[0] ? ", then " : "", drafter_name(m, d), several, narrow,
             head ? e->draft_max : e->ngram_draft_max, p->draft_fixed ? "fixed" : "adaptive",
             ft_human_bytes(size, takes),
             head || !(d->kinds & FT_SPEC_HEAD) || d->kinds & FT_SPEC_AUTO ? "" : "; no MTP head: ",
             head || !(d->kinds & FT_SPEC_HEAD) || d->kinds & FT_SPEC_AUTO ? "" : why);
    return ft_strdup(text);
}
