/* tests/invariants/split.c - a model split over several devices gives the ids that it gives on one,
 * for every split: CPU devices compute the same bits, so only the split can make a difference.
 * Under mpirun (FT_TEST_DEV=mpi) the devices are those of the ranks. */
#define _XOPEN_SOURCE 700
#include "invariants.h"

#include "dev/split.h"

enum { SLOTS = 2, TOKENS = 20 };

/* Two slots with drafting, one of them with a prompt that crosses a page boundary. */
static void generate_with(const inv_model *m, ft_kv_type type, inv_response *r)
{
    ft_engine_params p = inv_params(3);
    p.slots = SLOTS;
    p.kt = p.vt = type;
    ft_engine *e = inv_engine(m, &p);
    for (int i = 0; i < SLOTS; i++) {
        int32_t ids[80];
        const int n = 9 + 60 * i;
        inv_prompt(ids, n, m->m->V, 3 + (uint64_t)i);
        ft_task j = inv_job(TOKENS, 3);
        inv_start(&r[i], ft_slot_new(e), &j, ids, n);
    }
    while (ft_engine_step(e)) continue;
    for (int i = 0; i < SLOTS; i++) inv_done(&r[i]);
    ft_engine_free(e);
}

static void generate(const inv_model *m, inv_response *r)
{
    generate_with(m, FT_KV_F16, r);
}

static inv_model open_split(const char *name, const char *assistant, ft_split_rule r)
{
    ft_dev *dev[8];
    const int n = 2 + r.n_end;
    for (int i = 0; i < n; i++) dev[i] = ft_dev_cpu(i ? 1 : 2);
    inv_model m = {.name = name, .dev = ft_dev_split(dev, n, &r)};
    m.m = inv_golden(name, m.dev, NULL);
    const ft_split_rule drafter = {.output = true, .n_end = r.n_end}; /* on the last device */
    ft_split_set_rule(m.dev, &drafter);
    if (assistant) m.assistant = inv_golden(assistant, m.dev, m.m);
    ft_split_set_rule(m.dev, &r);
    return m;
}

static void check_splits(const char *name, const char *assistant)
{
    static inv_response one[SLOTS], two[SLOTS];
    inv_model whole = {.name = name, .dev = ft_dev_cpu(1)};
    whole.m = inv_golden(name, whole.dev, NULL);
    if (assistant) whole.assistant = inv_golden(assistant, whole.dev, whole.m);
    const int L = whole.m->L;
    generate(&whole, one);
    inv_model_close(&whole);
    ft_split_override pattern[] = {{.side = FT_SPLIT_HOST}, {.side = FT_SPLIT_HOST}};
    regcomp(&pattern[0].re, "ffn_(up|gate_inp)|attn_(q|output)", REG_EXTENDED | REG_NOSUB);
    regcomp(&pattern[1].re, "blk.1.*(ssm|attn|exps|per_layer)|output", REG_EXTENDED | REG_NOSUB);
#define RULE(f, e, o) {.first = (f), .experts = (e), .output = (o), .layers = L}
    ft_split_rule rule[] = {
        RULE(0, 0, true),      /* all but the embedding on the fast device */
        RULE(1, 1, true),      /* a layer on the host */
        RULE(L, L, true),      /* all layers, but not the output */
        RULE(L - 1, 0, false), /* the output too, but not the last layer */
        RULE(L, L, false),     /* everything */
        RULE(0, L, true),      /* all experts */
        RULE(1, L - 1, true),  /* a layer, and experts of others */
        RULE(0, 0, true),      /* three devices and an idle host, */
        RULE(1, 0, true),      /* four with layers, */
        RULE(0, 2, true),      /* and a device without layers */
        RULE(0, 0, true),      /* experts on two devices, */
        RULE(1, 0, true),      /* on four, */
        RULE(1, 2, true),      /* and on two besides those of layers on the host */
        RULE(0, 0, true),      /* some matrices of every layer, */
        RULE(1, 1, true),      /* and others */
    };
    ft_split_rule *const three = &rule[7], *const four = &rule[8], *const empty = &rule[9];
    ft_split_rule *const spread = &rule[10];
    spread[0].spread = 3;
    spread[1].spread = 15;
    spread[1].n_end = spread[2].n_end = 2;
    spread[1].end[0] = spread[2].end[0] = L - 2;
    spread[1].end[1] = spread[2].end[1] = L - 1;
    spread[2].spread = 12;
    three->lookup = true;
    three->n_end = four->n_end = empty->n_end = 2;
    three->end[0] = empty->end[0] = empty->end[1] = 1;
    three->end[1] = four->end[1] = L - 1;
    four->end[0] = L - 2;
    for (int i = 0; i < 2; i++) {
        rule[FT_COUNT(rule) - 2 + (size_t)i].over = &pattern[i];
        rule[FT_COUNT(rule) - 2 + (size_t)i].n_over = 1;
    }
    for (size_t i = 0; i < FT_COUNT(rule); i++) {
        inv_model m = open_split(name, assistant, rule[i]);
        generate(&m, two);
        for (int k = 0; k < SLOTS; k++) {
            check(inv_same(&one[k], &two[k]), "%s, rule %zu, sequence %d: different id at %d", name,
                  i, k, inv_first_difference(&one[k], &two[k]));
            check(one[k].stats.drafted == two[k].stats.drafted &&
                      one[k].stats.accepted == two[k].stats.accepted,
                  "%s, rule %zu: %d of %d draft tokens accepted, want %d of %d", name, i,
                  (int)two[k].stats.accepted, (int)two[k].stats.drafted, (int)one[k].stats.accepted,
                  (int)one[k].stats.drafted);
        }
        inv_model_close(&m);
    }
    for (int i = 0; i < 2; i++) regfree(&pattern[i].re);
}

static void check_rules(void)
{
    const ft_split_rule r = {.first = 2, .experts = 5, .output = true, .layers = 8};
    check(ft_split_side(&r, "blk.1.attn_q.weight", false) == FT_SPLIT_HOST, "layer 1 of 2");
    check(ft_split_side(&r, "blk.2.attn_q.weight", false) == FT_SPLIT_FAST, "layer 2");
    check(ft_split_side(&r, "blk.4.ffn_up_exps.weight", false) == FT_SPLIT_HOST, "experts of 4");
    check(ft_split_side(&r, "blk.5.ffn_up_exps.weight", false) == FT_SPLIT_FAST, "experts of 5");
    check(ft_split_side(&r, "blk.4.ffn_up_shexp.weight", false) == FT_SPLIT_FAST, "shared expert");
    check(ft_split_side(&r, "output.weight", false) == FT_SPLIT_FAST, "output");
    check(ft_split_side(&r, "token_embd.weight", true) == FT_SPLIT_HOST, "embedding");
    check(ft_split_side(&r, "blk.8.nextn.eh_proj.weight", false) == FT_SPLIT_FAST, "draft block");
    const ft_split_rule n = {
        .first = 1, .output = true, .lookup = true, .layers = 8, .end = {3, 3}, .n_end = 2};
    static const int side[] = {0, 1, 1, 3, 3, 3, 3, 3, 3};
    for (int l = 0; l < 9; l++)
        check(ft_split_layer_side(&n, l) == side[l], "layer %d of three ranges", l);
    check(ft_split_side(&n, "output.weight", false) == 3, "output of three ranges");
    check(ft_split_side(&n, "token_embd.weight", true) == 0, "embedding beside layer 0");
}

/* The same over the ranks of a job, with caches of several types. */
static void check_ranks(const char *name, const char *assistant)
{
    static const ft_kv_type type[] = {FT_KV_F16, FT_KV_Q8_0, FT_KV_TURBO4};
    static inv_response one[FT_COUNT(type)][SLOTS], two[SLOTS];
    inv_model ranks = inv_model_golden(name, assistant, 1); /* the other ranks stay in here */
    inv_model whole = {.name = name, .dev = ft_dev_cpu(1)};
    whole.m = inv_golden(name, whole.dev, NULL);
    if (assistant) whole.assistant = inv_golden(assistant, whole.dev, whole.m);
    for (size_t i = 0; i < FT_COUNT(type); i++) {
        if (i == 2 && whole.m->limits.head_d % 64) continue;
        generate_with(&whole, type[i], one[i]);
        generate_with(&ranks, type[i], two);
        for (int k = 0; k < SLOTS; k++) {
            check(inv_same(&one[i][k], &two[k]), "%s, %d ranks, cache %zu: different id at %d",
                  name, ft_link_size(), i, inv_first_difference(&one[i][k], &two[k]));
            check(one[i][k].stats.accepted == two[k].stats.accepted,
                  "%s, %d ranks, cache %zu: other draft tokens", name, ft_link_size(), i);
        }
    }
    inv_model_close(&whole);
    inv_model_close(&ranks);
}

static int check_job(void)
{
    static const char *const name[] = {"qwen35-dense", "qwen35-gqa", "qwen35-moe", "gemma4-dense",
                                       "gemma4-edge",  "gemma4-gqa", "gemma4-moe"};
    for (size_t i = 0; i < FT_COUNT(name); i++) {
        char assistant[64];
        snprintf(assistant, sizeof assistant, "%s-assistant", name[i]);
        const bool own = !strncmp(name[i], "gemma4", 6) && strcmp(name[i], "gemma4-moe");
        check_ranks(name[i], own ? assistant : NULL);
    }
    return inv_end();
}

int main(void)
{
    if (getenv("FT_TEST_DEV") && !strcmp(getenv("FT_TEST_DEV"), "mpi")) return check_job();
    if (getenv("FT_TEST_DEV") && strcmp(getenv("FT_TEST_DEV"), "cpu")) return inv_end();
    check_rules();
    check_splits("qwen35-dense", NULL);
    check_splits("qwen35-gqa", NULL);
    check_splits("qwen35-moe", NULL);
    check_splits("gemma4-dense", "gemma4-dense-assistant");
    check_splits("gemma4-edge", "gemma4-edge-assistant");
    check_splits("gemma4-moe", NULL);
    return inv_end();
}
