/* text/grammar_trie.h - the bytes of a vocabulary as a tree, laid out in preorder: the children of
 * node i begin at i + 1, the next sibling is at end[i]. Node 0 is the root. */
#ifndef FT_TEXT_GRAMMAR_TRIE_H
#define FT_TEXT_GRAMMAR_TRIE_H

#include "text/grammar.h"

#define FT_TRIE_NONE (-1)

struct ft_trie {
    int32_t V;
    uint32_t n;
    uint8_t *byte;   /* [n] */
    uint32_t *end;   /* [n] */
    int32_t *token;  /* [n] the lowest id with these bytes, or FT_TRIE_NONE */
    int32_t *twin;   /* [V] the next id with the same bytes, or FT_TRIE_NONE */
    uint32_t *of;    /* [V] node of an id, 0: none */
    uint32_t *above; /* [n] parent */
    int32_t *eog;
    uint8_t *is_eog; /* [V] */
    size_t n_eog;
};

#endif
