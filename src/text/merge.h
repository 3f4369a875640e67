/* text/merge.h - the merge rules of a vocabulary, and BPE merging of a run of symbols.
 * The result is that of the definition: repeatedly merge the adjacent pair of lowest rank, the
 * leftmost among equals, until no adjacent pair has a rule. */
#ifndef FT_TEXT_MERGE_H
#define FT_TEXT_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FT_MAX_RULES ((uint32_t)1 << 26)
#define FT_NO_SYM    0xFFFFFFFFu /* a symbol that is not a token: it never merges */

typedef struct ft_sym {
    uint32_t id;  /* token, or FT_NO_SYM */
    uint32_t len; /* bytes of text */
} ft_sym;

typedef struct ft_rule {
    uint32_t a, b;
    uint32_t rank, id; /* lowest first; what the pair becomes */
} ft_rule;

typedef struct ft_merges {
    ft_rule *slot; /* open addressing; a == FT_NO_SYM is empty */
    size_t n_slot; /* a power of two */
    uint64_t seed; /* so that a crafted file cannot force collisions */
    uint32_t n;    /* ranks */
} ft_merges;

/* false when memory is exhausted. */
bool ft_merges_init(ft_merges *m, uint32_t max_rules);
void ft_merges_release(ft_merges *m);
/* Adds a rule with the next rank: a and b become id. A pair that already has a rule keeps it. */
void ft_merges_put(ft_merges *m, uint32_t a, uint32_t b, uint32_t id);

/* Working memory of one thread. */
typedef struct ft_merge_work {
    struct ft_node *node;
    uint64_t *heap;
    ft_rule *memo;
    size_t cap, n_heap, heap_cap;
} ft_merge_work;

void ft_merge_work_release(ft_merge_work *w);
/* Merges sym[0..n) in place and returns how many symbols are left. */
size_t ft_merge(const ft_merges *m, ft_merge_work *w, ft_sym *sym, size_t n);

#endif
