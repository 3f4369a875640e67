/* tests/invariants/draft_model.c - drafting with a second model: the ids are those without it,
 * alone and in a batch; draft tokens of the model itself are accepted; a draft model that is behind
 * catches up; memory stays within the estimate. */
#define _XOPEN_SOURCE 700
#include "gguf/writer.h"
#include "invariants.h"

/* The target and a complete draft model; the same name twice: a model that drafts for itself. */
static inv_model pair(const char *name, const char *second)
{
    inv_model m = inv_model_golden(name, NULL, 1);
    m.assistant = inv_golden(second, m.dev, NULL);
    return m;
}

static double acceptance(const inv_response *r)
{
    return (double)r->stats.accepted / FT_MAX(1.0, (double)r->stats.drafted);
}

/* Greedy and sampled responses, drafts of any length, prompts within and across chunks. */
static void same_ids(const inv_model *m, bool self)
{
    static const int ks[] = {1, 2, 3, 5, 8}, prompts[] = {1, 15, 62, 7, 90};
    static inv_response off, on;
    for (size_t i = 0; i < FT_COUNT(ks); i++)
        for (int t = 0; t < 2; t++) {
            int32_t ids[150];
            inv_prompt(ids, 150, m->m->V, 40 + i);
            ft_engine_params p = inv_params(0), q = inv_params(ks[i]);
            ft_task j = inv_job(30, 0), k = inv_job(30, ks[i]);
            j.sampling.temperature = k.sampling.temperature = (float)t;
            j.sampling.seed = k.sampling.seed = 11;
            inv_response_alone(&off, m, &p, &j, ids, prompts[i]);
            inv_response_alone(&on, m, &q, &k, ids, prompts[i]);
            check(inv_same(&off, &on), "%s, %d drafts, temperature %d: different id at %d", m->name,
                  ks[i], t, inv_first_difference(&off, &on));
            check(on.stats.drafted > 0, "%s: the second model drafted nothing", m->name);
            /* Long chunks of a prompt are summed in another order than single rows: a draft token
             * may differ where two are about equally likely, and with it the rest of its step. */
            const int most = prompts[i] <= FT_DECODE_ROWS ? 0 : ks[i];
            if (self && !t)
                check(on.stats.drafted - on.stats.accepted <= most,
                      "%s, %d drafts, prompt %d: acceptance %.3f of its own drafts", m->name, ks[i],
                      prompts[i], acceptance(&on));
        }
}

/* Every pattern of acceptance, with drafts of the second model in between. */
static void any_pattern(const inv_model *m)
{
    static inv_response off, on;
    int32_t ids[20];
    inv_prompt(ids, 20, m->m->V, 50);
    ft_engine_params p = inv_params(0);
    ft_task j = inv_job(60, 0);
    inv_response_alone(&off, m, &p, &j, ids, 20);
    inv_oracle o = {.silent = 4, .rng = {8}};
    p.draft_max = j.draft_max = 4;
    inv_response_oracle(&on, &o, &off, m, &p, &j);
    check(inv_same(&off, &on) && !o.wrong, "%s: different id at %d, %d steps wrong", m->name,
          inv_first_difference(&off, &on), o.wrong);
}

/* Eight responses at once; some of them do not draft, and one starts later. */
static void check_batched(const inv_model *m)
{
    static inv_response alone[INV_SLOTS], together[INV_SLOTS];
    int32_t ids[INV_SLOTS][80];
    ft_engine_params p = inv_params(0);
    ft_task j = inv_job(24, 0);
    for (int i = 0; i < INV_SLOTS; i++) {
        inv_prompt(ids[i], 80, m->m->V, 90 + (uint64_t)i);
        inv_response_alone(&alone[i], m, &p, &j, ids[i], 5 + 9 * i);
    }
    p.slots = INV_SLOTS;
    p.draft_max = 3;
    ft_engine *e = inv_engine(m, &p);
    for (int i = 0; i < INV_SLOTS; i++) {
        j.draft_max = i % 3 == 2 ? 0 : 1 + i % 3;
        inv_start(&together[i], ft_slot_new(e), &j, ids[i], 5 + 9 * i);
        if (i == 6)
            for (int n = 0; n < 4; n++) ft_engine_step(e);
    }
    while (ft_engine_step(e)) continue;
    for (int i = 0; i < INV_SLOTS; i++) {
        inv_done(&together[i]);
        check(inv_same(&alone[i], &together[i]), "%s: response %d of 8 has a different id at %d",
              m->name, i, inv_first_difference(&alone[i], &together[i]));
    }
    ft_engine_free(e);
}

/* After a turn without drafting the second model is behind; the acceptance rate of the next turn is
 * that of a new engine. The third turn shares only a prefix with the cached positions. */
static void check_behind(const inv_model *m)
{
    static inv_response first, hot, cold, other;
    int32_t ids[30], next[INV_MAX];
    inv_prompt(ids, 30, m->m->V, 70);
    const ft_engine_params p = inv_params(3);
    const ft_task off = inv_job(40, 0), on = inv_job(30, 3);
    ft_engine *e = inv_engine(m, &p);
    ft_slot *s = ft_slot_new(e);
    inv_response_on(&first, s, &off, ids, 30);
    check(ft_seq_len(s->draft_model.seq) == 0,
          "%s: processed %d tokens for a response without drafting", m->name,
          ft_seq_len(s->draft_model.seq));
    memcpy(next, first.id, sizeof *next * (size_t)first.n);
    inv_prompt(next + first.n, 10, m->m->V, 71);
    inv_response_on(&hot, s, &on, next, first.n + 10);
    inv_response_alone(&cold, m, &p, &on, next, first.n + 10);
    check(acceptance(&hot) > acceptance(&cold) - 0.1,
          "%s: acceptance rate %.3f after a turn, %.3f on a new engine", m->name, acceptance(&hot),
          acceptance(&cold));
    inv_response_on(&other, s, &on, ids, 25);
    inv_response_alone(&cold, m, &p, &on, ids, 25);
    check(inv_same(&other, &cold), "%s: a shorter prompt differs at %d", m->name,
          inv_first_difference(&other, &cold));
    check(acceptance(&other) > acceptance(&cold) - 0.1,
          "%s: acceptance rate %.3f, on a new engine %.3f", m->name, acceptance(&other),
          acceptance(&cold));
    ft_engine_free(e);
}

/* A response that fills the context to its last position. */
static void fill_context(const inv_model *m)
{
    static inv_response off, on;
    int32_t ids[15];
    inv_prompt(ids, 15, m->m->V, 80);
    for (int ctx = 42; ctx < 46; ctx++) {
        ft_engine_params p = inv_params(0), q = inv_params(5);
        p.ctx = q.ctx = ctx;
        const ft_task j = inv_job(-1, 0), k = inv_job(-1, 5);
        inv_response_alone(&off, m, &p, &j, ids, 15);
        inv_response_alone(&on, m, &q, &k, ids, 15);
        check(inv_same(&off, &on) && on.finish == FT_FINISH_CONTEXT,
              "%s: context %d ends after %d tokens, want %d", m->name, ctx, on.n, off.n);
    }
}

static void *(*real_alloc)(ft_dev *, size_t);
static uint64_t taken;

static void *count_alloc(ft_dev *d, size_t bytes)
{
    taken += bytes;
    return real_alloc(d, bytes);
}

static void memory(const inv_model *m)
{
    const ft_engine_params p = inv_params(3);
    real_alloc = m->dev->alloc;
    m->dev->alloc = count_alloc;
    taken = 0;
    ft_engine *e = inv_engine(m, &p);
    check(taken <= ft_engine_bytes(m->m, m->assistant, &p),
          "%s: %llu bytes allocated, want at most the estimate of %llu", m->name,
          (unsigned long long)taken, (unsigned long long)ft_engine_bytes(m->m, m->assistant, &p));
    m->dev->alloc = real_alloc;
    ft_engine_free(e);
}

static void check_pair(const char *name, const char *second)
{
    inv_model m = pair(name, second);
    same_ids(&m, !strcmp(name, second));
    any_pattern(&m);
    check_batched(&m);
    check_behind(&m);
    fill_context(&m);
    memory(&m);
    inv_model_close(&m);
}

static void check_status(ft_status st, const ft_err *err)
{
    if (!st) return;
    printf("%s\n", err->text);
    exit(1);
}

/* Writes additional Q8_0 rows: the first rows again, scaled. */
static void more_rows(ft_gguf_writer *w, size_t tensor, const ft_gguf_tensor *t, size_t bytes)
{
    enum { BLOCK = 34 };
    for (size_t at = t->bytes; at < bytes; at += BLOCK) {
        uint8_t block[BLOCK];
        memcpy(block, (const uint8_t *)t->data + (at - t->bytes), BLOCK);
        block[1] += 4; /* the exponent of the scale */
        ft_gguf_writer_data(w, tensor, at, block, BLOCK);
    }
}

/* The golden model with V rows in its vocabulary matrices: fewer, or more, which often have the
 * largest logits. */
static ft_model *resized(const char *name, int V, ft_dev *dev)
{
    char path[128], other[160];
    ft_gguf *g = NULL;
    ft_gguf_writer *w = NULL;
    ft_err err;
    inv_golden_file(name, path);
    snprintf(other, sizeof other, "%s.resized", path);
    check_status(ft_gguf_open(&g, path, true, &err), &err);
    check_status(ft_gguf_writer_open(&w, other, &err), &err);
    for (size_t i = 0; i < ft_gguf_n_kv(g); i++) ft_gguf_put_kv(w, ft_gguf_kv_at(g, i));
    for (size_t i = 0; i < ft_gguf_n_tensor(g); i++) {
        const ft_gguf_tensor *t = ft_gguf_tensor_at(g, i);
        const bool ids =
            ft_str_is(t->name, "token_embd.weight") || ft_str_is(t->name, "output.weight");
        const int64_t n[4] = {t->n[0], ids ? V : t->n[1], t->n[2], t->n[3]};
        check(!ids || t->type == FT_Q8_0, "%s is %s, want q8_0", t->name.p, ft_type_name(t->type));
        ft_gguf_put_tensor(w, t->name.p, t->type, t->n_dims, n);
    }
    check_status(ft_gguf_writer_begin(w, &err), &err);
    for (size_t i = 0; i < ft_gguf_n_tensor(g); i++) {
        const ft_gguf_tensor *t = ft_gguf_tensor_at(g, i);
        const size_t bytes = ft_gguf_writer_tensor_bytes(w, i);
        ft_gguf_writer_data(w, i, 0, t->data, FT_MIN(bytes, t->bytes));
        more_rows(w, i, t, bytes);
    }
    check_status(ft_gguf_writer_commit(w, &err), &err);
    ft_gguf_close(g);
    ft_model *m = inv_open(other, dev, NULL);
    unlink(path);
    unlink(other);
    return m;
}

/* A draft model with a few ids fewer or more than the target. */
static void other_sizes(void)
{
    static const int sizes[] = {390, 512 + 128};
    for (size_t i = 0; i < FT_COUNT(sizes); i++) {
        inv_model m = inv_model_golden("qwen35-dense", NULL, 1);
        m.assistant = resized("qwen35-dense", sizes[i], m.dev);
        check(m.assistant->V == sizes[i], "a model of %d tokens, want %d", m.assistant->V,
              sizes[i]);
        same_ids(&m, false);
        check_batched(&m);
        inv_model_close(&m);
    }
}

/* A different vocabulary: the error names both sizes. */
static void refused(void)
{
    inv_model m = pair("qwen35-dense", "gemma4-dense");
    ft_engine *e = NULL;
    ft_err err;
    const ft_engine_params p = inv_params(3);
    check(ft_engine_new(&e, m.m, m.assistant, &p, &err) && strstr(err.text, "512") &&
              strstr(err.text, "768"),
          "a draft model of another vocabulary: %s", err.text);
    inv_model_close(&m);
}

int main(void)
{
    check_pair("qwen35-dense", "qwen35-dense");
    check_pair("qwen35-moe", "qwen35-gqa");
    check_pair("gemma4-edge", "gemma4-edge");
    check_pair("gemma4-moe", "gemma4-gqa");
    other_sizes();
    refused();
    return inv_end();
}
