/* tests/invariants/draft_head.c - the state and the cost of the draft head: its keys and values
 * after any pattern of acceptance, prompts in chunks, one row for the output matrix, memory. */
#define _XOPEN_SOURCE 700
#include "invariants.h"

#include <jansson.h>
#include <math.h>

/* ---- draft tokens and acceptances, from the trace ---- */

typedef struct told {
    int32_t draft[INV_MAX]
                 [FT_DRAFT_MAX]; /* by position of the pending token; only those of the head */
    double h_l2[INV_MAX];        /* L2 norm of the hidden row from which they were computed */
    int n[INV_MAX];
    int32_t last[FT_DRAFT_MAX];
    int n_last, open; /* a draft without an acceptance yet */
    long long iter, accepted, drafted;
    int wrong, kept; /* kept: accepted by the last acceptance, of step `last_iter` */
    long long last_iter;
} told;

static int read_ids(const json_t *a, int32_t *out, int max)
{
    const int n = (int)json_array_size(a);
    for (int i = 0; i < n && i < max; i++)
        out[i] = (int32_t)json_integer_value(json_array_get(a, (size_t)i));
    return FT_MIN(n, max);
}

/* Reads a trace line: an acceptance must accept as many draft tokens as match its ids. */
static void read_trace(void *user, const char *line)
{
    told *t = user;
    json_error_t je;
    json_t *o = json_loads(line, 0, &je);
    const char *evt = json_string_value(json_object_get(o, "evt"));
    const long long iter = json_integer_value(json_object_get(o, "iter"));
    if (!evt) {
        t->wrong++;
    } else if (!strcmp(evt, "mtp_draft")) {
        t->n_last = read_ids(json_object_get(o, "drafts"), t->last, FT_DRAFT_MAX);
        t->wrong += t->open;
        t->open = 1;
        t->iter = iter;
        const int at = (int)json_integer_value(json_object_get(o, "attn_pos"));
        if (at < INV_MAX && strcmp(json_string_value(json_object_get(o, "drafter")), "oracle")) {
            memcpy(t->draft[at], t->last, sizeof t->last);
            t->n[at] = t->n_last;
            t->h_l2[at] = json_real_value(json_object_get(o, "h_l2"));
            /* the row of the last accepted token, or of the last prompt token */
            const int idx = (int)json_integer_value(json_object_get(o, "h_idx"));
            const bool next = t->drafted > 0 && iter == t->last_iter + 1;
            t->wrong += t->h_l2[at] <= 0 || idx < 0 || (next && idx != t->kept);
        }
    } else {
        int32_t ids[FT_DRAFT_MAX + 1];
        const int n = read_ids(json_object_get(o, "ids"), ids, FT_DRAFT_MAX + 1);
        const int kept = (int)json_integer_value(json_object_get(o, "n_accepted"));
        int same = 0;
        while (same < n && same < t->n_last && ids[same] == t->last[same]) same++;
        t->wrong += !t->open || iter != t->iter || same != kept ||
                    json_integer_value(json_object_get(o, "n_drafted_prev")) != t->n_last;
        t->open = 0;
        t->kept = kept;
        t->last_iter = iter;
        t->accepted += kept;
        t->drafted += t->n_last;
    }
    json_decref(o);
}

/* ---- cached positions of the head ---- */

enum { MOST_VALUES = 512 };

/* The key or value of the first attention head at a position of the draft block, f32. */
static void read_cell(float *to, const ft_slot *s, int c, bool value)
{
    const ft_cache *cache = s->e->cache;
    const ft_kv *kv = &ft_cache_kv(cache)[s->e->m->L];
    const int32_t *table =
        ft_cache_pages(cache, kv->space) + ft_seq_slot(s->seq) * ft_cache_pages_per_seq(cache);
    const size_t page = (size_t)table[c / FT_PAGE_ROWS], row = (size_t)(c % FT_PAGE_ROWS);
    assert(kv->d <= MOST_VALUES);
    s->e->m->dev->download(s->e->m->dev, to,
                           value ? kv->v + page * kv->v_page + row * kv->v_row
                                 : kv->k + page * kv->k_page + row * kv->k_row,
                           (size_t)kv->d * sizeof *to);
}

/* Largest squared difference of positions [1, n) of two slots, relative to the second. */
static double distance(const ft_slot *a, const ft_slot *b, int n)
{
    const int d = a->e->m->layer[a->e->m->L].d; /* of the first head */
    double worst = 0;
    for (int c = 1; c < n; c++)
        for (int v = 0; v < 2; v++) {
            float x[MOST_VALUES], y[MOST_VALUES];
            double e = 0, s = 0;
            read_cell(x, a, c, v);
            read_cell(y, b, c, v);
            for (int i = 0; i < d; i++) {
                const double diff = (double)x[i] - (double)y[i];
                e += diff * diff;
                s += (double)y[i] * (double)y[i];
            }
            worst = FT_MAX(worst, e / FT_MAX(s, 1e-30));
        }
    return worst;
}

enum { LONG = 640, DRAFTS = 3 };

static ft_engine *long_engine(const inv_model *m, int k, int rows)
{
    ft_engine_params p = inv_params(k);
    p.ctx = LONG + 64;
    p.rows = rows;
    return inv_engine(m, &p);
}

/* Continues the conversation of the slot, so that its head processes the rows it had deferred. */
static void continue_slot(const inv_response *r)
{
    static inv_response next;
    const ft_task j = inv_job(1, 0);
    inv_response_on(&next, r->slot, &j, r->id, r->n);
}

/* Steps with random acceptance (200 for the small models), compared with a response without
 * drafting. */
static void random_steps(const inv_model *m, int tokens, double tolerance)
{
    static inv_response off, on[2], fresh;
    static told heard[2];
    const bool mtp = m->m->drafter == FT_DRAFT_MTP;
    int32_t ids[24];
    inv_prompt(ids, 24, m->m->V, 21);
    ft_task j = inv_job(tokens, 0);
    ft_engine *e0 = long_engine(m, DRAFTS, 64);
    inv_response_on(&off, ft_slot_new(e0), &j, ids, 24);
    j.draft_max = DRAFTS;
    ft_engine *e[2];
    for (int i = 0; i < 2; i++) {
        inv_oracle o = {.truth = {&off}, .silent = 4, .rng = {(uint64_t)i + 60}};
        e[i] = long_engine(m, DRAFTS, 64);
        inv_oracle_add(e[i], &o);
        heard[i] = (told){0};
        ft_engine_trace(e[i], read_trace, &heard[i]);
        inv_response_on(&on[i], ft_slot_new(e[i]), &j, ids, 24);
        check(inv_same(&off, &on[i]), "%s: different id at %d", m->name,
              inv_first_difference(&off, &on[i]));
        check(on[i].stats.decode_steps * 4 > tokens && !o.wrong, "%s: %lld steps, %d of them wrong",
              m->name, (long long)on[i].stats.decode_steps, o.wrong);
        const ft_stats *s = &on[i].stats;
        check(!heard[i].wrong && heard[i].accepted == s->accepted && heard[i].drafted == s->drafted,
              "%s: the trace replays to %lld of %lld drafts, %d lines wrong; counted %lld of %lld",
              m->name, heard[i].accepted, heard[i].drafted, heard[i].wrong, (long long)s->accepted,
              (long long)s->drafted);
        if (!mtp) continue;
        if (i == 0) continue_slot(&off);
        continue_slot(&on[i]);
        const int n = FT_MIN(off.slot->head.fed, on[i].slot->head.fed);
        check(
            n > tokens && distance(on[i].slot, off.slot, n) <= 0,
            "%s: the positions of the head differ by %g from those of a response without drafting",
            m->name, distance(on[i].slot, off.slot, n));
    }
    int both = 0, differ = 0;
    for (int at = 0; at < INV_MAX; at++) {
        const int n = FT_MIN(heard[0].n[at], heard[1].n[at]);
        both += n > 0;
        differ +=
            n && (memcmp(heard[0].draft[at], heard[1].draft[at], sizeof(int32_t) * (size_t)n) ||
                  heard[0].h_l2[at] != heard[1].h_l2[at]);
    }
    check(both > 5 && !differ, "%s: %d of %d draft tokens depend on earlier acceptance", m->name,
          differ, both);
    if (mtp) { /* a prompt of the same ids; delta nets sum long chunks in another order, so the
                * token after it, of which the head's last position is computed, may differ */
        j.max_tokens = 1;
        ft_engine *f = long_engine(m, DRAFTS, 512);
        inv_response_on(&fresh, ft_slot_new(f), &j, off.id, off.n - 1);
        continue_slot(&fresh);
        const int other = fresh.id[fresh.n - 1] != off.id[off.n - 1];
        const int n = FT_MIN(fresh.slot->head.fed, on[0].slot->head.fed) - other;
        const double far = distance(on[0].slot, fresh.slot, n);
        check(n > tokens && far < tolerance, "%s: differs by %g from a fresh prompt", m->name, far);
        ft_engine_free(f);
    }
    for (int i = 0; i < 2; i++) ft_engine_free(e[i]);
    ft_engine_free(e0);
}

/* ---- prompts ---- */

static const ft_ops *real;
static int V_rows;

static void count_linear(ft_dev *d, ft_mat y, ft_mat x, const ft_weight *w, bool acc)
{
    if (w->name && (!strcmp(w->name, "output.weight") || !strcmp(w->name, "token_embd.weight")))
        V_rows += x.T;
    real->linear(d, y, x, w, acc);
}

/* A prompt of any length computes one row of the output matrix, with or without a head. */
static void output_rows(const inv_model *m)
{
    static const int lengths[] = {1, 63, 64, 65, 200};
    ft_ops counting = *m->dev->op;
    real = m->dev->op;
    counting.linear = count_linear;
    m->dev->op = &counting;
    for (size_t i = 0; i < FT_COUNT(lengths); i++)
        for (int k = 0; k < 4; k += 3) {
            static int32_t ids[200];
            static inv_response r;
            inv_prompt(ids, 200, m->m->V, 2);
            const ft_engine_params p = inv_params(k);
            const ft_task j = inv_job(1, k);
            V_rows = 0;
            inv_response_alone(&r, m, &p, &j, ids, lengths[i]);
            check(V_rows == 1, "%s: %d rows of the output matrix for a prompt of %d", m->name,
                  V_rows, lengths[i]);
        }
    m->dev->op = real;
}

/* The same prompt in chunks of 64 and as a whole: same ids, same cached positions of the head. */
static void check_chunks(const inv_model *m)
{
    static inv_response a, b;
    int32_t ids[300];
    inv_prompt(ids, 300, m->m->V, 17);
    const ft_task j = inv_job(20, 3);
    ft_engine *ea = long_engine(m, 3, 64), *eb = long_engine(m, 3, 512);
    inv_response_on(&a, ft_slot_new(ea), &j, ids, 300);
    inv_response_on(&b, ft_slot_new(eb), &j, ids, 300);
    check(inv_same(&a, &b), "%s: different id at %d when a prompt is split into chunks", m->name,
          inv_first_difference(&a, &b));
    if (m->m->drafter == FT_DRAFT_MTP)
        check(distance(a.slot, b.slot, FT_MIN(a.slot->head.fed, b.slot->head.fed)) <= 0,
              "%s: the head's cells depend on the pieces of a prompt", m->name);
    ft_engine_free(ea);
    ft_engine_free(eb);
}

/* ---- a draft head does not change the probabilities ---- */

typedef struct probs {
    float p[40][6];
    int n;
} probs;

static bool keep_probs(void *user, const ft_emit *e)
{
    probs *p = user;
    for (int i = 0; i < e->n_logprob && i < 6; i++) p->p[p->n][i] = e->logprob[i].logprob;
    return ++p->n < 40;
}

static void check_probs(const inv_model *m)
{
    static probs p[3];
    int32_t ids[30];
    inv_prompt(ids, 30, m->m->V, 18);
    for (int i = 0; i < 3; i++) { /* no head; an unused head; a head that drafts */
        const ft_engine_params ep = inv_params(i ? 4 : 0);
        ft_engine *e = inv_engine(m, &ep);
        ft_slot *s = ft_slot_new(e);
        ft_task j = inv_job(100, i == 2 ? 4 : 0);
        ft_err err;
        p[i] = (probs){0};
        j.prompt = ids;
        j.n_prompt = 30;
        j.top_logprobs = 5;
        j.emit = keep_probs;
        j.user = &p[i];
        ft_slot_start(s, &j, &err);
        while (ft_engine_step(e)) continue;
        check(!memcmp(&p[0], &p[i], sizeof *p),
              "%s: different probabilities with a draft head (%d)", m->name, i);
        ft_engine_free(e);
    }
}

/* ---- memory ---- */

static void *(*real_alloc)(ft_dev *, size_t);
static uint64_t taken;
static int takings;

static void *count_alloc(ft_dev *d, size_t bytes)
{
    taken += bytes;
    takings++;
    return real_alloc(d, bytes);
}

/* Bytes that drafting may use: cached positions of the head, journal, logits and hidden rows. */
static uint64_t allowance(const inv_model *m, const ft_engine_params *p)
{
    const uint64_t f = sizeof(float), K1 = (uint64_t)p->draft_max + 1, D = (uint64_t)m->m->D;
    uint64_t sum = 0;
    for (int l = 0; l < m->m->n_layer; l++) {
        const ft_layer_state *s = &m->m->layer[l];
        if (s->kind == FT_STATE_DELTA) {
            const uint64_t CH = (uint64_t)(2 * s->Hk * s->S + s->Hv * s->S);
            sum += 2 * K1 * f * (CH + (uint64_t)(s->Hk * s->S + s->Hv * s->S + s->Hv));
        } else if (l >= m->m->L) {
            sum += 2 * f * (uint64_t)(s->G * s->d) * (uint64_t)(p->ctx + 2 * FT_PAGE_ROWS);
        }
    }
    const uint64_t rows = (uint64_t)p->rows + FT_FEED_ROWS + 1;
    sum += f * K1 * ((uint64_t)m->m->V + 2 * D + 1);          /* logits, rows, the best id */
    sum += f * (FT_RING_ROWS + K1) * D + f * rows * (D + 16); /* ring, and rows gathered from it */
    return sum + f * m->m->arch->arena(m->m, 0, (int)K1);
}

static void memory(const inv_model *m)
{
    ft_engine_params off = inv_params(0), on = inv_params(3);
    const uint64_t a = ft_engine_bytes(m->m, m->assistant, &off),
                   b = ft_engine_bytes(m->m, m->assistant, &on);
    check(b >= a && b - a <= allowance(m, &on), "%s: drafting takes %llu bytes, want at most %llu",
          m->name, (unsigned long long)(b - a), (unsigned long long)allowance(m, &on));
    real_alloc = m->dev->alloc;
    m->dev->alloc = count_alloc;
    taken = 0;
    ft_engine *e = inv_engine(m, &on);
    check(taken <= b, "%s: %llu bytes allocated, want at most the estimate of %llu", m->name,
          (unsigned long long)taken, (unsigned long long)b);
    static inv_response r;
    int32_t ids[30];
    inv_prompt(ids, 30, m->m->V, 19);
    const ft_task j = inv_job(60, 3);
    takings = 0;
    inv_response_on(&r, ft_slot_new(e), &j, ids, 30);
    check(takings == 0, "%s: a response allocated device memory %d times", m->name, takings);
    m->dev->alloc = real_alloc;
    ft_engine_free(e);
}

/* ---- the acceptance rate of the trained model, also after a cached turn ---- */

/* Whether the response after a cached turn has the same ids as without cache; prompts are processed
 * in other chunks than responses, so rounding may change an id. Where they are the same, so are the
 * drafts, but for rounding. */
static bool turn(const inv_model *m, ft_engine *e, ft_engine *f, uint64_t seed)
{
    static inv_response first, hot, cold;
    int32_t ids[40], next[INV_MAX];
    inv_prompt(ids, 40, m->m->V, seed);
    const ft_task j = inv_job(100, 3);
    ft_slot *s = ft_slot_new(e), *t = ft_slot_new(f);
    inv_response_on(&first, s, &j, ids, 40);
    memcpy(next, first.id, sizeof *next * (size_t)first.n);
    inv_prompt(next + first.n, 10, m->m->V, seed + 100);
    inv_response_on(&hot, s, &j, next, first.n + 10);
    inv_response_on(&cold, t, &j, next, first.n + 10);
    ft_slot_free(s);
    ft_slot_free(t);
    check(hot.stats.cached_n >= first.n - 1, "%s: %d cached tokens", m->name, hot.stats.cached_n);
    if (!inv_same(&hot, &cold)) return false;
    const double a = (double)hot.stats.accepted / (double)hot.stats.drafted,
                 b = (double)cold.stats.accepted / (double)cold.stats.drafted;
    check(fabs(a - b) < 0.05, "%s: acceptance rate %.3f after a cached turn, %.3f without cache",
          m->name, a, b);
    return true;
}

static void turns(const inv_model *m)
{
    ft_engine *e = long_engine(m, 3, 512), *f = long_engine(m, 3, 512);
    int same = 0;
    for (uint64_t seed = 1; seed < 7; seed++) same += turn(m, e, f, seed);
    check(same >= 2, "%s: %d of 6 responses are the same with and without cache", m->name, same);
    ft_engine_free(e);
    ft_engine_free(f);
}

static void check_model(inv_model m, int tokens, double tolerance)
{
    random_steps(&m, tokens, tolerance);
    output_rows(&m);
    check_chunks(&m);
    check_probs(&m);
    memory(&m);
    if (!strcmp(m.name, "foretoken-tiny")) turns(&m);
    inv_model_close(&m);
}

int main(void)
{
    check_model(inv_model_golden("qwen35-dense", NULL, 1), LONG - 40, 1e-2);
    check_model(inv_model_golden("gemma4-gqa", "gemma4-gqa-assistant", 1), LONG - 40, 1e-2);
    check_model(inv_model_tiny(2), LONG - 40, 1e-2);
    return inv_end();
}
