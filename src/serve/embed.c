/* serve/embed.c - embeddings, in three APIs. The engine thread computes them. No server thread
 * blocks, and a request is cancelled when its client disconnects. */
#include "base/mem.h"
#include "serve/ollama.h"
#include "serve/prompts.h"
#include "serve/rerank.h"
#include "serve/routes.h"

#include <math.h>
#include <stdlib.h>

typedef enum form { OPENAI, NATIVE, OLLAMA, OLLAMA_ONE, RERANK } form;

enum { VALUES_MAX = 1 << 24 }; /* numbers of a response */

typedef struct embedding {
    ft_served *d;
    form form;
    ft_prompts p;
    ft_pooling pooling;
    int dims, norm, top;
    bool base64;
    char *model;
    ft_embedding *vectors; /* NULL: not started */
    float *row;            /* [width]: one embedding, normalised as requested */
} embedding;

static void embedding_free(embedding *e)
{
    ft_embedding_free(e->vectors);
    ft_prompts_release(&e->p);
    ft_free(e->row);
    ft_free(e->model);
    ft_free(e);
}

/* norm: 0: maximum absolute value 1; 1: L1; 2: L2; p: p-norm; < 0: unchanged. */
static void normalise(float *x, int n, int norm)
{
    double sum = 0;
    if (norm < 0) return;
    for (int i = 0; i < n; i++) {
        const double a = fabs((double)x[i]);
        sum = norm == 0 ? fmax(sum, a) : sum + pow(a, norm);
    }
    if (norm > 1) sum = pow(sum, 1.0 / norm);
    for (int i = 0; i < n && sum > 0; i++) x[i] = (float)((double)x[i] / sum);
}

static json_t *in_base64(const float *x, int n)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *p = (const unsigned char *)x;
    const size_t bytes = sizeof *x * (size_t)n;
    ft_buf b;
    ft_buf_init(&b, SIZE_MAX / 2);
    for (size_t i = 0; i < bytes; i += 3) {
        const size_t left = bytes - i;
        const unsigned v = (unsigned)p[i] << 16 | (left > 1 ? (unsigned)p[i + 1] << 8 : 0u) |
                           (left > 2 ? (unsigned)p[i + 2] : 0u);
        ft_buf_putc(&b, digit[v >> 18]);
        ft_buf_putc(&b, digit[v >> 12 & 63]);
        ft_buf_putc(&b, left > 1 ? digit[v >> 6 & 63] : '=');
        ft_buf_putc(&b, left > 2 ? digit[v & 63] : '=');
    }
    json_t *j = json_stringn(ft_buf_z(&b), b.len);
    ft_buf_release(&b);
    return j;
}

static json_t *vector(const embedding *e, const float *from)
{
    float *x = e->row;
    memcpy(x, from, sizeof *x * (size_t)e->dims);
    normalise(x, e->dims, e->norm);
    if (e->base64) return in_base64(x, e->dims);
    json_t *j = json_array();
    for (int k = 0; k < e->dims; k++) json_array_append_new(j, json_real((double)x[k]));
    return j;
}

/* The vectors of a text: one, or without pooling one for each of its tokens, as they are. */
static json_t *vectors_of(const embedding *e, const float **at, int n_tokens)
{
    json_t *list = json_array();
    const int n = e->pooling == FT_POOL_NONE ? n_tokens : 1;
    for (int i = 0; i < n; i++, *at += e->pooling == FT_POOL_RANK ? 1 : e->d->info->width)
        json_array_append_new(list, vector(e, *at));
    return list;
}

static json_t *answer_of(const embedding *e, const float *out)
{
    json_t *list = json_array();
    int tokens = 0;
    for (int i = 0; i < e->p.n; i++) {
        tokens += e->p.at[i].n;
        json_t *all = vectors_of(e, &out, e->p.at[i].n), *v = json_incref(json_array_get(all, 0));
        json_array_append_new(list, e->form >= OLLAMA ? v
                                    : e->form == NATIVE
                                        ? json_pack("{s:i, s:O}", "index", i, "embedding", all)
                                        : json_pack("{s:s, s:i, s:o}", "object", "embedding",
                                                    "index", i, "embedding", v));
        if (e->form == NATIVE) json_decref(v);
        json_decref(all);
    }
    if (e->form == NATIVE) return list;
    if (e->form == OLLAMA_ONE) {
        json_t *j = json_pack("{s:O}", "embedding", json_array_get(list, 0));
        json_decref(list);
        return j;
    }
    if (e->form == OLLAMA)
        return json_pack("{s:s, s:o, s:i, s:i, s:i}", "model", e->model, "embeddings", list,
                         "total_duration", 0, "load_duration", 0, "prompt_eval_count", tokens);
    return json_pack("{s:s, s:o, s:s, s:{s:i, s:i}}", "object", "list", "data", list, "model",
                     e->model, "usage", "prompt_tokens", tokens, "total_tokens", tokens);
}

static bool pump(ft_call *c)
{
    const embedding *e = c->user;
    const float *out;
    ft_http_error error;
    ft_err err;
    if (!ft_embedding_done(e->vectors)) return false;
    const ft_status st = ft_embedding_result(e->vectors, &out, &err);
    if (!st) {
        ft_call_json(c, 200,
                     e->form == RERANK ? ft_rerank_answer(c->body, e->model, &e->p, out, e->top)
                                       : answer_of(e, out));
        return true;
    }
    ft_http_error_from(&error, st, NULL, &err);
    if (st == FT_EUNSUPPORTED) error.kind = FT_ERR_UNSUPPORTED;
    ft_call_fail(c, &error);
    return true;
}

static void cancel(ft_call *c)
{
    const embedding *e = c->user;
    ft_embedding_cancel(e->vectors);
}

static void release(ft_call *c)
{
    embedding_free(c->user);
}

static void wake(void *user)
{
    ft_call_wake(user);
}

static bool fits(const embedding *e, ft_http_error *error)
{
    for (int i = 0; i < e->p.n; i++) {
        const int n = e->p.at[i].n;
        if (!n) return ft_http_error_set(error, FT_ERR_INVALID, "input", "input[%d] is empty", i);
        if (n < e->d->info->ctx) continue;
        ft_http_error_set(error, FT_ERR_CONTEXT, "input",
                          "the request has %d tokens and exceeds the available context size: the "
                          "maximum context length is %d tokens",
                          n, e->d->info->ctx);
        error->n_prompt = n;
        error->n_ctx = e->d->info->ctx;
        return false;
    }
    return true;
}

/* Without pooling every token has a vector. */
static bool few_values(const embedding *e, ft_http_error *error)
{
    int64_t n = 0;
    for (int i = 0; i < e->p.n; i++) n += e->p.at[i].n;
    if (e->pooling != FT_POOL_NONE || n * e->dims <= VALUES_MAX) return true;
    return ft_http_error_set(error, FT_ERR_INVALID, "input",
                             "the input has %lld tokens, want at most %d without pooling",
                             (long long)n, VALUES_MAX / e->dims);
}

static bool read(embedding *e, const json_t *body, ft_http_error *error)
{
    const char *format = "float", *model = e->d->name;
    const json_t *input = ft_get(body, "input");
    if (!input) input = ft_get(body, "content");
    if (!input && e->form >= OLLAMA) input = ft_get(body, "prompt");
    if (e->pooling == FT_POOL_NONE && e->form != NATIVE)
        return ft_http_error_set(
            error, FT_ERR_INVALID, NULL,
            "this route returns one vector per text, which --pooling none does "
            "not make; use /embedding, or another pooling");
    if (!ft_want_text(body, "encoding_format", &format, error) ||
        !ft_want_text(body, "model", &model, error) ||
        !ft_want_int(body, "dimensions", 1, e->d->info->width, &e->dims, error) ||
        !ft_want_int(body, "embd_normalize", -1, 100, &e->norm, error) ||
        !ft_prompts_read(NULL, e->d, input, "input", &e->p, error) || !fits(e, error))
        return false;
    if (e->form == OLLAMA_ONE && e->p.n != 1)
        return ft_http_error_set(error, FT_ERR_INVALID, "prompt",
                                 "prompt has %d texts, want one; /api/embed takes several", e->p.n);
    if (!few_values(e, error)) return false;
    if (e->pooling == FT_POOL_NONE || e->pooling == FT_POOL_RANK) e->norm = -1;
    if (e->pooling == FT_POOL_RANK) e->dims = 1;
    e->base64 = !strcmp(format, "base64");
    e->model = ft_strdup(model);
    if (e->base64 || !strcmp(format, "float")) return true;
    return ft_http_error_set(error, FT_ERR_INVALID, "encoding_format",
                             "encoding_format is \"%.40s\", want float or base64", format);
}

static bool read_rerank(embedding *e, const json_t *body, ft_http_error *error)
{
    const char *model = e->d->name;
    json_t *prompts = NULL;
    if (!e->d->info->ranks)
        return ft_http_error_set(error, FT_ERR_UNSUPPORTED, NULL,
                                 "this model cannot rank documents: it has no classification head; "
                                 "load a reranking model");
    bool ok = ft_want_text(body, "model", &model, error) &&
              (prompts = ft_rerank_prompts(e->d, body, error)) &&
              ft_prompts_read(NULL, e->d, prompts, "documents", &e->p, error) && fits(e, error) &&
              ft_rerank_top(body, e->p.n, &e->top, error);
    json_decref(prompts);
    if (ok) e->model = ft_strdup(model);
    return ok;
}

static ft_status begin(embedding *e, ft_call *c, ft_err *err)
{
    const size_t n = (size_t)e->p.n;
    const int32_t **ids = ft_new_n(const int32_t *, n);
    int *n_ids = ft_new_n(int, n);
    for (size_t i = 0; i < n; i++) {
        ids[i] = e->p.at[i].ids;
        n_ids[i] = e->p.at[i].n;
    }
    const ft_embedding_params p = {.ids = ids,
                                   .n_ids = n_ids,
                                   .n = e->p.n,
                                   .pooling = e->pooling,
                                   .raw = e->norm != 2,
                                   .client = ft_call_client(c),
                                   .wake = wake,
                                   .user = c};
    const ft_status st = ft_embedding_new(&e->vectors, e->d->llm, &p, err);
    ft_free(ids);
    ft_free(n_ids);
    return st;
}

static void start_embedding(ft_call *c, form f)
{
    ft_http_error error;
    ft_err err;
    ft_served *d = ft_call_model(c, NULL);
    if (!d) return;
    embedding *e = ft_new(embedding);
    const int own = f == RERANK ? (int)FT_POOL_RANK : c->s->p.pooling;
    const int pooling = own >= 0 ? own : d->info->pooling;
    *e = (embedding){.d = d,
                     .form = f,
                     .pooling = pooling < 0 ? FT_POOL_MEAN : (ft_pooling)pooling,
                     .dims = d->info->width,
                     .norm = c->s->p.embd_normalize};
    const bool ollama = f == OLLAMA || f == OLLAMA_ONE;
    bool unload, ok = !ollama || ft_ollama_keep_alive(c, d, &unload, &error);
    ok = ok && (f == RERANK ? read_rerank : read)(e, c->body, &error);
    const ft_status st = ok ? begin(e, c, &err) : FT_OK;
    if (st) ok = ft_http_error_from(&error, st, NULL, &err);
    if (st == FT_EUNSUPPORTED) error.kind = FT_ERR_UNSUPPORTED;
    if (st == FT_EDEVICE)
        error.kind = FT_ERR_UNAVAILABLE; /* rejected before it started: the client may retry */
    if (!ok) {
        ft_call_fail(c, &error);
        embedding_free(e);
        return;
    }
    e->row = ft_new_n(float, (size_t)d->info->width);
    c->user = e;
    c->pump = pump;
    c->cancel = cancel;
    c->release = release;
}

void ft_run_embeddings(ft_call *c)
{
    start_embedding(c, OPENAI);
}

void ft_run_embedding(ft_call *c)
{
    start_embedding(c, NATIVE);
}

void ft_run_ollama_embed(ft_call *c)
{
    start_embedding(c, OLLAMA);
}

/* The older form: one prompt, one vector. */
void ft_run_ollama_embeddings(ft_call *c)
{
    start_embedding(c, OLLAMA_ONE);
}

void ft_run_rerank(ft_call *c)
{
    start_embedding(c, RERANK);
}
