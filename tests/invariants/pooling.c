/* tests/invariants/pooling.c - the public API with LoRA adapters, pooled and unpooled embeddings,
 * and the classification head of a model that ranks. */
#define _XOPEN_SOURCE 700
#include "foretoken.h"
#include "gguf/writer.h"
#include "invariants.h"
#include "tools/synth_lora.h"

#include <math.h>
#include <semaphore.h>

enum { N = 40, LABELS = 2 };

static const char tiny[] = "models/foretoken-tiny.gguf";
static char adapter[64], ranker[64], saved[64];

static void must(ft_status st, const ft_err *err)
{
    if (!st) return;
    printf("%s\n", err->text);
    exit(1);
}

static ft_llm *open_llm(const char *path, const ft_lora_file *lora, int n_lora)
{
    ft_llm_params p;
    ft_llm *m = NULL;
    ft_err err;
    ft_llm_defaults(&p);
    p.model = path;
    p.slots = 2;
    p.ctx = 1024;
    p.threads = 1;
    p.lora = lora;
    p.n_lora = n_lora;
    must(ft_llm_open(&m, &p, &err), &err);
    return m;
}

static void some_ids(int32_t *ids, int n)
{
    for (int i = 0; i < n; i++) ids[i] = 500 + i * 13;
}

/* ---- pooling ---- */

static bool close_to(const float *a, const double *b, double norm, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (fabs((double)a[i] - b[i] / norm) > 1e-6 * (1 + fabs(b[i] / norm))) return false;
    return true;
}

static double length_of(const double *v, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += v[i] * v[i];
    return sqrt(sum);
}

static void check_pooling(void)
{
    int32_t ids[N];
    ft_err err;
    ft_llm *m = open_llm(tiny, NULL, 0);
    const size_t D = (size_t)ft_llm_about(m)->width;
    float *rows = ft_new_n(float, N *D), *v = ft_new_n(float, D);
    double *sum = ft_new_n(double, D);
    some_ids(ids, N);
    must(ft_llm_embed(m, ids, N, FT_POOL_NONE, rows, &err), &err);
    const struct {
        ft_pooling pooling;
        int first, end;
    } of[] = {{FT_POOL_MEAN, 0, N}, {FT_POOL_LAST, N - 1, N}, {FT_POOL_CLS, 0, 1}};
    for (size_t i = 0; i < FT_COUNT(of); i++) {
        memset(sum, 0, sizeof *sum * D);
        for (int t = of[i].first; t < of[i].end; t++)
            for (size_t k = 0; k < D; k++) sum[k] += (double)rows[(size_t)t * D + k];
        must(ft_llm_embed(m, ids, N, of[i].pooling, v, &err), &err);
        check(close_to(v, sum, length_of(sum, D), D), "pooling %d is not that of the rows",
              (int)of[i].pooling);
    }
    check(ft_llm_embed(m, ids, N, FT_POOL_RANK, v, &err) == FT_EUNSUPPORTED &&
              strstr(err.text, "no classification head"),
          "a model without a head ranks");
    check(!ft_llm_about(m)->ranks && ft_llm_about(m)->pooling == -1, "what it says of itself");
    ft_free(rows);
    ft_free(v);
    ft_free(sum);
    ft_llm_close(m);
}

static void post_done(void *user)
{
    sem_post(user);
}

/* Several texts without waiting, not normalized. */
static void check_raw(void)
{
    int32_t ids[N];
    ft_err err;
    ft_queue_params q;
    ft_embedding *b;
    const float *out;
    sem_t sem;
    ft_llm *m = open_llm(tiny, NULL, 0);
    const size_t D = (size_t)ft_llm_about(m)->width;
    float *rows = ft_new_n(float, N *D);
    double *sum = ft_new_n(double, D);
    const int32_t *const text[] = {ids, ids, ids};
    const int n_ids[] = {N, 3, N};
    ft_embedding_params p = {
        .ids = text, .n_ids = n_ids, .n = 3, .raw = true, .wake = post_done, .user = &sem};
    some_ids(ids, N);
    sem_init(&sem, 0, 0);
    must(ft_llm_embed(m, ids, N, FT_POOL_NONE, rows, &err), &err);
    for (size_t i = 0; i < N * D; i++) sum[i % D] += (double)rows[i];
    ft_queue_defaults(&q);
    must(ft_llm_start(m, &q, &err), &err);
    must(ft_embedding_new(&b, m, &p, &err), &err);
    sem_wait(&sem);
    must(ft_embedding_result(b, &out, &err), &err);
    check(close_to(out + 2 * D, sum, N, D), "the mean of a queue differs");
    ft_embedding_free(b);
    p.pooling = FT_POOL_NONE;
    must(ft_embedding_new(&b, m, &p, &err), &err);
    sem_wait(&sem);
    must(ft_embedding_result(b, &out, &err), &err);
    check(!memcmp(out, rows, sizeof *rows * N * D) &&
              !memcmp(out + (N + 3) * D, rows, sizeof *rows * N * D),
          "the rows of a queue differ");
    ft_embedding_free(b);
    p.pooling = FT_POOL_RANK;
    check(ft_embedding_new(&b, m, &p, &err) == FT_EUNSUPPORTED, "a model without a head ranks");
    ft_llm_close(m);
    sem_destroy(&sem);
    ft_free(rows);
    ft_free(sum);
}

/* The embedded model with a head of two labels. */
static void write_ranker(const float *head, int width, int D, float bias)
{
    ft_gguf *g;
    ft_gguf_writer *w;
    ft_err err;
    const float bias_of[LABELS] = {bias, 0};
    must(ft_gguf_open(&g, tiny, true, &err), &err);
    must(ft_gguf_writer_open(&w, ranker, &err), &err);
    for (size_t i = 0; i < ft_gguf_n_kv(g); i++) ft_gguf_put_kv(w, ft_gguf_kv_at(g, i));
    ft_gguf_put_u32(w, "qwen35.pooling_type", 4);
    ft_gguf_put_str(w, "tokenizer.chat_template.rerank", FT_STR("{query}\n{document}"));
    const size_t n = ft_gguf_n_tensor(g);
    for (size_t i = 0; i < n; i++) {
        const ft_gguf_tensor *t = ft_gguf_tensor_at(g, i);
        ft_gguf_put_tensor(w, t->name.p, t->type, t->n_dims, t->n);
    }
    ft_gguf_put_tensor(w, "cls.output.weight", FT_F32, 2, (int64_t[]){width, LABELS});
    ft_gguf_put_tensor(w, "cls.output.bias", FT_F32, 1, (int64_t[]){LABELS});
    must(ft_gguf_writer_begin(w, &err), &err);
    for (size_t i = 0; i < n; i++)
        ft_gguf_writer_data(w, i, 0, ft_gguf_tensor_at(g, i)->data,
                            ft_gguf_writer_tensor_bytes(w, i));
    ft_gguf_writer_data(w, n, 0, head, sizeof *head * (size_t)FT_MIN(width, D) * LABELS);
    ft_gguf_writer_data(w, n + 1, 0, bias_of, sizeof bias_of);
    must(ft_gguf_writer_commit(w, &err), &err);
    ft_gguf_close(g);
}

static void check_ranking(void)
{
    int32_t ids[N];
    ft_err err;
    ft_llm *m = open_llm(tiny, NULL, 0);
    const int D = ft_llm_about(m)->width;
    float *rows = ft_new_n(float, (size_t)(N * D)), *head = ft_new_n(float, (size_t)(LABELS * D));
    const float bias = 0.25f;
    float score;
    double y[LABELS] = {(double)bias, 0};
    some_ids(ids, N);
    must(ft_llm_embed(m, ids, N, FT_POOL_NONE, rows, &err), &err);
    ft_llm_close(m);
    for (int i = 0; i < LABELS * D; i++) head[i] = 0.02f * (float)(i * 7 % 11 - 5);
    for (int i = 0; i < LABELS * D; i++)
        y[i / D] += (double)head[i] * (double)rows[(N - 1) * D + i % D];
    write_ranker(head, D, D, bias);
    m = open_llm(ranker, NULL, 0);
    must(ft_llm_embed(m, ids, N, FT_POOL_RANK, &score, &err), &err);
    const double want = 1 / (1 + exp(y[1] - y[0]));
    check(fabs((double)score - want) < 1e-5, "score %g, want %g", (double)score, want);
    check(ft_llm_about(m)->ranks && ft_llm_about(m)->pooling == FT_POOL_RANK &&
              !strcmp(ft_llm_about(m)->rank_template, "{query}\n{document}"),
          "what a model that ranks says of itself");
    ft_llm_close(m);
    write_ranker(head, D - 1, D, bias);
    ft_llm_params p;
    ft_llm_defaults(&p);
    p.model = ranker;
    check(ft_llm_open(&m, &p, &err) == FT_EFORMAT && strstr(err.text, "cls.output.weight"),
          "a head of another width");
    ft_free(rows);
    ft_free(head);
    unlink(ranker);
}

/* ---- adapters ---- */

static bool add_id(void *user, const ft_event *e)
{
    inv_response *r = user;
    if (e->id >= 0 && r->n < INV_MAX) r->id[r->n++] = e->id;
    return true;
}

static ft_request request_of(ft_llm *m, const int32_t *ids, const float *scale, int n_scale)
{
    ft_request r;
    ft_request_defaults(&r, m);
    r.ids = ids;
    r.n_ids = N;
    r.max_tokens = 12;
    r.ignore_eos = true;
    r.sampling.temperature = 0;
    r.cache_prompt = true;
    r.lora = scale;
    r.n_lora = n_scale;
    return r;
}

/* Tokens that a job generates; returns its slot. */
static int by_job(inv_response *out, ft_llm *m, const int32_t *ids, const float *scale, int n)
{
    ft_err err;
    ft_job *j;
    ft_event e;
    sem_t sem;
    sem_init(&sem, 0, 0);
    out->n = 0;
    float *own = ft_new_n(float, (size_t)n + 1); /* the job copies them */
    if (n) memcpy(own, scale, sizeof *own * (size_t)n);
    const ft_request r = request_of(m, ids, scale ? own : NULL, n);
    must(ft_job_new(&j, m, &r, post_done, &sem, &err), &err);
    ft_free(own);
    while (!ft_job_done(j)) {
        while (ft_job_next(j, &e)) add_id(out, &e);
        if (!ft_job_done(j)) sem_wait(&sem);
    }
    ft_response got;
    must(ft_job_result(j, &got, &err), &err);
    ft_job_free(j);
    sem_destroy(&sem);
    return got.slot;
}

static void by_session(inv_response *out, ft_llm *m, const int32_t *ids, const float *scale, int n)
{
    ft_err err;
    ft_response got;
    ft_request r = request_of(m, ids, scale, n);
    ft_session *s = ft_session_new(m);
    out->n = 0;
    r.on_event = add_id;
    r.user = out;
    must(ft_session_generate(s, &r, &got, &err), &err);
    ft_session_free(s);
}

/* Saved with one scale: restored with the same, refused with another. */
static void check_saved(ft_llm *m, int slot)
{
    const float one = 1, half = 0.5f;
    ft_err err;
    int n;
    must(ft_llm_adapt(m, &half, 1, &err), &err);
    must(ft_slot_save(m, slot, 0, saved, &n, &err), &err);
    check(!ft_slot_restore(m, slot, 0, saved, &n, &err), "a slot: %s", err.text);
    must(ft_llm_adapt(m, &one, 1, &err), &err);
    check(ft_slot_restore(m, slot, 0, saved, &n, &err) == FT_EUNSUPPORTED &&
              strstr(err.text, "other adapters"),
          "a slot that was saved with another scale was restored");
    unlink(saved);
}

static void check_adapters(void)
{
    static inv_response plain, base, half, now;
    const float zero = 0, scale = 0.5f, bad = NAN, two[] = {1, 1};
    const ft_lora_file file = {adapter, 0.5f};
    ft_adapter_info info[2];
    ft_queue_params q;
    ft_err err;
    int32_t ids[N];
    size_t n;
    some_ids(ids, N);
    ft_llm *m = open_llm(tiny, NULL, 0);
    by_session(&plain, m, ids, NULL, 0);
    ft_llm_close(m);
    const ft_synth_lora_opts o = {
        .model = tiny, .path = adapter, .type = "F16", .rank = 8, .seed = 3};
    must(ft_synth_lora(&n, &o, &err), &err);
    m = open_llm(tiny, &file, 1);
    check(ft_llm_adapters(m, info, 2) == 1 && !strcmp(info[0].path, adapter) &&
              info[0].scale == 0.5f && !*info[0].task_name,
          "the list of adapters");
    by_session(&base, m, ids, &zero, 1);
    by_session(&now, m, ids, &zero, 0); /* no scales: none is applied */
    by_session(&half, m, ids, NULL, 0);
    check(inv_same(&base, &plain) && inv_same(&now, &plain), "a scale of 0 changes the response");
    check(!inv_same(&half, &plain), "the adapter changes nothing");
    ft_queue_defaults(&q);
    q.prefix_bytes = 1 << 26;
    must(ft_llm_start(m, &q, &err), &err);
    const float *const order[] = {NULL, &zero, &scale, &zero, NULL};
    int slot = 0;
    for (size_t i = 0; i < FT_COUNT(order); i++) {
        slot = by_job(&now, m, ids, order[i], order[i] ? 1 : 0);
        check(inv_same(&now, order[i] == &zero ? &plain : &half), "job %zu differs", i);
    }
    const ft_request wrong[] = {request_of(m, ids, two, 2), request_of(m, ids, &bad, 1)};
    ft_job *j;
    for (int i = 0; i < 2; i++)
        check(ft_job_new(&j, m, &wrong[i], post_done, NULL, &err) == FT_EINVAL, "wrong scales");
    check(ft_llm_adapt(m, two, 2, &err) == FT_EINVAL && ft_llm_adapt(m, &bad, 1, &err) == FT_EINVAL,
          "wrong scales of the model");
    check_saved(m, slot);
    must(ft_llm_adapt(m, &zero, 1, &err), &err);
    by_job(&now, m, ids, NULL, 0);
    check(inv_same(&now, &plain), "the scales of the model do not change");
    ft_llm_close(m);
    unlink(adapter);
}

int main(void)
{
    snprintf(adapter, sizeof adapter, "/tmp/foretoken-pooling-%d-adapter.gguf", (int)getpid());
    snprintf(ranker, sizeof ranker, "/tmp/foretoken-pooling-%d-ranker.gguf", (int)getpid());
    snprintf(saved, sizeof saved, "/tmp/foretoken-pooling-%d-slot", (int)getpid());
    check_pooling();
    check_raw();
    check_ranking();
    check_adapters();
    return inv_end();
}
