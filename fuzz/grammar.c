/* fuzz/grammar.c - arbitrary bytes as a grammar: it is rejected or compiled in bounded time and
 * memory; masks agree with ft_grammar_allows, and every allowed token is accepted. */
#include "text/grammar.h"
#include "base/mem.h"
#include "base/rng.h"

#include <stdlib.h>

enum { V = 280, EOG = 279 };

static ft_str token_bytes(void *user, int32_t id)
{
    static char text[V][4];
    (void)user;
    if (id < 256) {
        text[id][0] = (char)id;
        return (ft_str){text[id], 1};
    }
    for (int k = 0; k < 3; k++) text[id][k] = "ab\"{[0 x"[(id * 7 + k * 3) % 8];
    return (ft_str){text[id], 2 + (size_t)id % 2};
}

static bool is_eog(void *user, int32_t id)
{
    (void)user;
    return id == EOG;
}

static void check_walk(ft_grammar_state *s, ft_rng *r)
{
    for (int step = 0; step < 24; step++) {
        uint32_t bits[(V + 31) / 32];
        if (!ft_grammar_allow(s, bits, V)) abort();
        int n = 0, id = -1;
        for (int i = 0; i < V; i++)
            if ((bits[i / 32] >> i % 32 & 1) && ft_rng_u64(r) % (uint64_t)++n == 0) id = i;
        for (int k = 0; k < 6 && !ft_grammar_limit(s); k++) {
            const int i = (int)(ft_rng_u64(r) % V);
            if (ft_grammar_allows(s, i) != (bits[i / 32] >> i % 32 & 1)) abort();
        }
        if (id < 0) {
            if (!ft_grammar_ended(s) && !ft_grammar_limit(s)) abort();
            return;
        }
        if (!ft_grammar_accept(s, id) && !ft_grammar_limit(s)) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static ft_trie *t;
    if (!t) t = ft_trie_new(&(ft_token_source){NULL, V, token_bytes, is_eog});
    ft_grammar *g;
    ft_err err;
    if (ft_grammar_new(&g, (ft_str){(const char *)data, n}, NULL, &err)) return 0;
    ft_grammar_state *s;
    if (!ft_grammar_state_new(&s, g, t, NULL, &err)) {
        ft_rng r = {n ? data[n / 2] : 0};
        check_walk(s, &r);
        ft_grammar_state_free(s);
    }
    ft_grammar_free(g);
    return 0;
}
