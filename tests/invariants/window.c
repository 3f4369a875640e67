/* tests/invariants/window.c - responses that end inside a run of accepted draft tokens: by an end
 * token, a limit, the caller, or the context. Ids, finish reason and the free context are those of
 * a response without drafting, and the conversation can continue from there. */
#define _XOPEN_SOURCE 700
#include "invariants.h"

enum { TAIL = 7 }; /* ids of the next turn; few enough to be computed row by row */

typedef enum way { BY_EOG, BY_LIMIT, BY_CALLER, BY_CONTEXT, WAYS } way;

static const char *const way_name[] = {"end token", "limit", "caller", "context"};

typedef struct turn {
    inv_response first, second;
    int cached, pages; /* cached positions and free pages after the first turn */
} turn;

/* A response that ends after `at` tokens in the given way, then another turn on the same slot. */
static void two_turns(turn *t, const inv_model *m, const inv_response *truth, way w, int at, int k,
                      inv_oracle *o)
{
    ft_engine_params p = inv_params(k);
    const int32_t eog = truth->id[truth->n_prompt + at - 1];
    ft_task j = inv_job(w == BY_LIMIT ? at : at + 20, k);
    if (w == BY_EOG) {
        j.eog = &eog;
        j.n_eog = 1;
    }
    if (w == BY_CONTEXT) p.ctx = truth->n_prompt + at;
    t->first.stop_after = w == BY_CALLER ? at : 0;
    ft_engine *e = inv_engine(m, &p);
    const int all = ft_cache_free_pages(e->cache);
    if (o) {
        o->truth[0] = truth;
        inv_oracle_add(e, o);
    }
    ft_slot *s = ft_slot_new(e);
    inv_response_on(&t->first, s, &j, truth->id, truth->n_prompt);
    t->cached = slot_len(s);
    t->second.n = 0;
    if (w != BY_CONTEXT) {
        int32_t next[INV_MAX];
        memcpy(next, t->first.id, sizeof *next * (size_t)t->first.n);
        inv_prompt(next + t->first.n, TAIL, m->m->V, 31);
        if (o) o->truth[0] = NULL;
        j.max_tokens = 6;
        j.n_eog = 0;
        inv_response_on(&t->second, s, &j, next, t->first.n + TAIL);
    }
    ft_slot_free(s);
    t->pages = all - ft_cache_free_pages(e->cache);
    ft_engine_free(e);
}

static void ends(const inv_model *m, const inv_response *truth, way w, int at, int k)
{
    static turn off, on;
    inv_oracle o = {.silent = 1, .rng = {(uint64_t)(at * 31 + k)}};
    two_turns(&off, m, truth, w, at, 0, NULL);
    two_turns(&on, m, truth, w, at, k, &o);
    const bool same = inv_same(&off.first, &on.first) && off.first.finish == on.first.finish;
    check(same, "%s, prompt %d, %d drafts, ended by %s after %d: %d tokens (%d), want %d (%d)",
          m->name, truth->n_prompt, k, way_name[w], at, on.first.n - truth->n_prompt,
          on.first.finish, off.first.n - truth->n_prompt, off.first.finish);
    /* An end token may be cached although it is not part of the response. */
    check(on.cached >= off.cached && on.cached <= on.first.n + 1,
          "%s, %s after %d: %d cells held, want %d to %d", m->name, way_name[w], at, on.cached,
          off.cached, on.first.n + 1);
    check(on.pages == 0, "%s, %s: %d pages were not freed", m->name, way_name[w], on.pages);
    check(inv_same(&off.second, &on.second),
          "%s, %d drafts, %s after %d: the next turn differs at %d", m->name, k, way_name[w], at,
          inv_first_difference(&off.second, &on.second));
    check(w == BY_CONTEXT || on.second.stats.cached_n >= off.second.stats.cached_n,
          "%s: %d tokens found again, %d without drafts", m->name, on.second.stats.cached_n,
          off.second.stats.cached_n);
}

static void check_model(const char *name, const char *assistant, const int *prompts, int n)
{
    static const int ks[] = {8, 1, 3, 5};
    inv_model m = inv_model_golden(name, assistant, 1);
    const ft_engine_params p = inv_params(0);
    const ft_task j = inv_job(24, 0);
    for (int i = 0; i < n; i++) {
        int32_t ids[80];
        inv_response truth = {0};
        inv_prompt(ids, prompts[i], m.m->V, 8);
        inv_response_alone(&truth, &m, &p, &j, ids, prompts[i]);
        for (int at = 1; at <= 9; at++) {
            const way w = (way)((at + i) % WAYS);
            ends(&m, &truth, w, at, ks[(at + i) / WAYS % 4]);
            if (i < 2) ends(&m, &truth, (way)((w + 1) % WAYS), at, 8);
            if (i == 0) ends(&m, &truth, BY_CONTEXT, at, at == 9 ? 8 : at);
        }
    }
    inv_model_close(&m);
}

int main(void)
{
    static const int qwen[] = {15, 1, 56, 59, 62, 63, 64, 65}, gemma[] = {15, 60, 64};
    check_model("qwen35-dense", NULL, qwen, 8);
    check_model("gemma4-gqa", "gemma4-gqa-assistant", gemma, 3);
    return inv_end();
}
