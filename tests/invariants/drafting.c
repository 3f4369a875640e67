/* tests/invariants/drafting.c - greedy ids do not depend on drafting: every architecture, every KV
 * cache type, every number of draft tokens, alone and in a batch. */
#define _XOPEN_SOURCE 700
#include "invariants.h"

static const ft_kv_type types[] = {FT_KV_F32, FT_KV_F16, FT_KV_BF16, FT_KV_Q8_0, FT_KV_Q4_0};

/* Without drafting; then with the head and with the oracle, for these numbers of draft tokens. */
static void check_equal(const inv_model *m, ft_kv_type t, const int *k, int n_k, int prompt,
                        int tokens)
{
    int32_t ids[96];
    inv_prompt(ids, prompt, m->m->V, (uint64_t)prompt);
    ft_engine_params p = inv_params(0);
    p.kt = p.vt = t;
    inv_response off = {0}, on = {0};
    ft_task j = inv_job(tokens, 0);
    inv_response_alone(&off, m, &p, &j, ids, prompt);
    for (int i = 0; i < n_k; i++) {
        inv_oracle o = {.silent = 2, .rng = {(uint64_t)k[i]}};
        p.draft_max = j.draft_max = k[i];
        inv_response_oracle(&on, &o, &off, m, &p, &j);
        check(inv_same(&off, &on), "%s, %s, %d drafts, prompt %d: different id at %d of %d",
              m->name, ft_kv_type_name(t), k[i], prompt, inv_first_difference(&off, &on), tokens);
        check(!o.wrong, "%s, %s, %d drafts: %d of %d steps accepted wrong draft tokens", m->name,
              ft_kv_type_name(t), k[i], o.wrong, o.decode_steps);
        check(!k[i] || o.decode_steps > 3, "%s: the oracle drafted in %d steps, want more than 3",
              m->name, o.decode_steps);
    }
}

/* Eight sequences with different prompts, each drafting, give the ids that each has alone. */
static void check_batched(const inv_model *m, ft_kv_type t, int k)
{
    static inv_response alone[INV_SLOTS], together[INV_SLOTS];
    ft_engine_params p = inv_params(0);
    p.kt = p.vt = t;
    ft_task j = inv_job(24, 0);
    int32_t ids[INV_SLOTS][80];
    for (int i = 0; i < INV_SLOTS; i++) {
        const int n = 5 + 9 * i;
        inv_prompt(ids[i], n, m->m->V, 77 + (uint64_t)i);
        inv_response_alone(&alone[i], m, &p, &j, ids[i], n);
    }
    p.slots = INV_SLOTS;
    p.draft_max = j.draft_max = k;
    inv_oracle o = {.silent = 3, .rng = {5}};
    ft_engine *e = inv_engine(m, &p);
    inv_oracle_add(e, &o);
    for (int i = 0; i < INV_SLOTS; i++) {
        o.truth[i] = &alone[i];
        inv_start(&together[i], ft_slot_new(e), &j, ids[i], alone[i].n_prompt);
    }
    while (ft_engine_step(e)) continue;
    for (int i = 0; i < INV_SLOTS; i++) {
        inv_done(&together[i]);
        check(inv_same(&alone[i], &together[i]),
              "%s, %s: sequence %d of 8 has a different id at %d", m->name, ft_kv_type_name(t), i,
              inv_first_difference(&alone[i], &together[i]));
    }
    check(!o.wrong, "%s: %d steps of 8 sequences accepted wrong draft tokens", m->name, o.wrong);
    ft_engine_free(e);
}

static void check_model(const char *name, const char *assistant)
{
    static const int every[] = {1, 2, 3, 4, 5, 6, 7, 8}, some[] = {2, 5};
    inv_model m = inv_model_golden(name, assistant, 1);
    check_equal(&m, FT_KV_F32, every, 8, 15, 40);
    check_equal(&m, FT_KV_F16, some, 2, 62, 40); /* drafts that cross a page boundary */
    for (size_t i = 2; i < FT_COUNT(types); i++) check_equal(&m, types[i], some, 2, 7, 32);
    check_batched(&m, FT_KV_F16, 4);
    inv_model_close(&m);
}

int main(int argc, char **argv)
{
    static const char *const model[][2] = {
        {"qwen35-dense", NULL},
        {"qwen35-gqa", NULL},
        {"qwen35-moe", NULL},
        {"gemma4-dense", "gemma4-dense-assistant"},
        {"gemma4-edge", "gemma4-edge-assistant"},
        {"gemma4-gqa", "gemma4-gqa-assistant"},
        {"gemma4-moe", NULL},
    };
    for (size_t i = 0; i < FT_COUNT(model); i++)
        if (inv_wanted(argc, argv, model[i][0])) check_model(model[i][0], model[i][1]);
    return inv_end();
}
