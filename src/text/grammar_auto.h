/* text/grammar_auto.h - a compiled grammar: one deterministic automaton over bytes per rule.
 * A state has one successor per byte and may also call rules: a call matches the rule and continues
 * in the return state of the call. Calls at the start of a rule form no cycle (left recursion is
 * rejected) and are ordered by rank. Every state can reach an end, so every accepted prefix can be
 * completed. */
#ifndef FT_TEXT_GRAMMAR_AUTO_H
#define FT_TEXT_GRAMMAR_AUTO_H

#include "text/gbnf.h"

#define FT_AUTO_NFA_MAX   1000000           /* nodes of the expanded rules */
#define FT_AUTO_TABLE_MAX ((size_t)8 << 20) /* entries of the table of successors */
#define FT_AUTO_WORK_MAX  8000000           /* steps of building */

enum { FT_AUTO_ACCEPT = 1, FT_AUTO_BYTES = 2, FT_AUTO_CALLS = 4 };

typedef struct ft_acall {
    uint32_t rank; /* of the rule */
    uint32_t ret;  /* where to go on; 0: the caller ends there too, so there is nothing to come back
                      for */
} ft_acall;

typedef struct ft_auto {
    uint32_t n_state; /* state 0 is dead */
    uint32_t n_class;
    uint8_t class_of[256];
    uint32_t *next;    /* [n_state, n_class] */
    uint8_t *flags;    /* [n_state] */
    uint32_t *call_at; /* [n_state + 1] */
    ft_acall *call;
    uint32_t n_rank;
    uint32_t *start; /* [n_rank] the first state of the rule with this rank */
    uint32_t root;   /* first state */
} ft_auto;

ft_status ft_auto_init(ft_auto *a, const ft_gbnf *g, ft_err *err);
void ft_auto_release(ft_auto *a);

#endif
