/* text/grammar_nfa.h - the rules of a grammar as graphs with bytes, calls and empty edges, in
 * between the trees of gbnf.h and the automaton of grammar_auto.h. Small rules are copied into
 * their callers. */
#ifndef FT_TEXT_GRAMMAR_NFA_H
#define FT_TEXT_GRAMMAR_NFA_H

#include "text/gbnf.h"

typedef enum ft_ekind { FT_E_EMPTY, FT_E_BYTE, FT_E_CALL } ft_ekind;

typedef struct ft_edge {
    uint32_t to, next; /* next: the node's other edges, 0 is none */
    uint32_t rule;     /* CALL */
    uint8_t kind, lo, hi;
} ft_edge;

typedef struct ft_nfa {
    uint32_t *first; /* [n_node] edge, 0 is none */
    uint8_t *live;   /* [n_node] an end can be reached */
    uint8_t *skip;   /* [n_node] an end can be reached without a byte */
    size_t n_node, cap_node;
    ft_edge *edge;
    size_t n_edge, cap_edge;
    size_t n_rule;
    uint32_t *start, *end; /* [n_rule], 0: the rule was copied into its callers */
    uint8_t *nullable, *productive;
} ft_nfa;

ft_status ft_nfa_init(ft_nfa *n, const ft_gbnf *g, ft_err *err);
void ft_nfa_release(ft_nfa *n);

#endif
