/* text/merge_tree.h - encoding a piece token by token instead of merge by merge.
 * Gives exactly the tokens of the rule in merge.h, in about one look per token. Made once from
 * symbols and merge rules, then read by any number of threads. */
#ifndef FT_TEXT_MERGE_TREE_H
#define FT_TEXT_MERGE_TREE_H

#include "base/str.h"
#include "text/merge.h"

typedef struct ft_merge_tree ft_merge_tree;

/* What merging begins with: the bytes that become this token. */
typedef struct ft_base_sym {
    ft_str bytes;
    uint32_t id;
} ft_base_sym;

/* NULL when the rules are not of the kind that this works for (merge_tree.c says which), or memory
 * is gone; then ft_merge is the way. The bytes of symbols must be a code: no one's beginning is
 * another. Ids are below n_ids; two rules that make the same id make it of the same symbols. */
ft_merge_tree *ft_merge_tree_new(const ft_merges *m, const ft_base_sym *sym, size_t n_sym,
                                 uint32_t n_ids);
void ft_merge_tree_free(ft_merge_tree *t);

/* Working memory of one thread; belongs to one tree. */
typedef struct ft_tree_work {
    uint32_t *id;              /* the answer */
    uint16_t *spare;           /* how much longer the longest token from there is */
    uint64_t *dead;            /* bits: places that lead nowhere */
    uint64_t *memo;            /* pairs of tokens << 1 | do they stay apart */
    uint32_t n_asked, n_known; /* of the first pairs of this piece */
    size_t cap;
} ft_tree_work;

void ft_tree_work_release(ft_tree_work *w);
/* How many tokens s has, which then are w->id[0..]. 0 when s is empty or not all of it is made of
 * symbols. */
size_t ft_merge_tree_encode(const ft_merge_tree *t, ft_tree_work *w, ft_str s);

#endif
