/* text/merge_tree.h - encodes a piece token by token instead of merge by merge.
 * Gives exactly the result defined in merge.h, with about one trie lookup per token. Built once
 * from symbols and merge rules, then read by any number of threads. */
#ifndef FT_TEXT_MERGE_TREE_H
#define FT_TEXT_MERGE_TREE_H

#include "base/str.h"
#include "text/merge.h"

typedef struct ft_merge_tree ft_merge_tree;

/* A base symbol: the bytes that become this token before any merge. */
typedef struct ft_base_sym {
    ft_str bytes;
    uint32_t id;
} ft_base_sym;

/* NULL when the rules do not have the required order (see merge_tree.c) or memory is exhausted; the
 * caller then uses ft_merge. The bytes of the symbols must be a prefix code: no symbol is a prefix
 * of another. Ids are below n_ids; two rules that make the same id make it of the same symbols. */
ft_merge_tree *ft_merge_tree_new(const ft_merges *m, const ft_base_sym *sym, size_t n_sym,
                                 uint32_t n_ids);
void ft_merge_tree_free(ft_merge_tree *t);

/* Working memory of one thread; belongs to one tree. */
typedef struct ft_tree_work {
    uint32_t *id;              /* the result */
    uint16_t *spare;           /* how much longer the longest token from there is */
    uint64_t *dead;            /* bits: positions from which the search failed */
    uint64_t *memo;            /* pairs of tokens << 1 | whether they stay apart */
    uint32_t n_asked, n_known; /* of the first pairs of this piece */
    size_t cap;
} ft_tree_work;

void ft_tree_work_release(ft_tree_work *w);
/* Encodes s to w->id[0..] and returns the number of tokens; 0 when s is empty or contains bytes
 * that are not a symbol. */
size_t ft_merge_tree_encode(const ft_merge_tree *t, ft_tree_work *w, ft_str s);

#endif
