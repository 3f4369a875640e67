/* text/grammar_step.h - runs the automaton: advances a set of places by one byte.
 *
 * A place is a state and a context, which describes what may follow when the rule of the state
 * ends. A context is a set of pairs (state to continue in, context of that state). Contexts are
 * interned, so equal contexts have equal numbers, and places with the same state are merged: a set
 * has at most one place per state however ambiguous the grammar is. Contexts created only for
 * looking ahead are dropped again. */
#ifndef FT_TEXT_GRAMMAR_STEP_H
#define FT_TEXT_GRAMMAR_STEP_H

#include "text/grammar_auto.h"

#define FT_CTX_MAX (1u << 18) /* contexts of one text and its clones */
/* Work is counted in steps: a place that is looked at, or a node of the vocabulary's trie; a step
 * takes some 30 ns. A response that uses more than its steps is ended. Tokens are read on the engine
 * thread, so their bound is low; masks are computed beside it (engine/mask.c). */
#define FT_STEP_MASK  3000000u  /* for one mask */
#define FT_STEP_READ  200000u   /* to read or check one token */
#define FT_STEP_TOTAL 30000000u /* for a text and its clones, */
#define FT_STEP_TOKEN 30000u    /* and so many more for each token */

#define FT_CTX_NONE 0u
#define FT_CTX_END  1u /* the text is complete */
#define FT_CTX_EXIT 2u /* the caller of the walk knows the rest */

typedef struct ft_place {
    uint32_t state, ctx;
} ft_place;

typedef struct ft_places {
    ft_place *p;
    size_t n, cap;
    bool end, exit; /* the context FT_CTX_END or FT_CTX_EXIT was reached */
} ft_places;

typedef struct ft_stepper ft_stepper;

ft_stepper *ft_stepper_new(const ft_auto *a);
void ft_stepper_free(ft_stepper *s);
const char *ft_stepper_limit(const ft_stepper *s);
/* NULL, or a sentence: the work of a mask or of the text went over its bound. It stays so. */
const char *ft_stepper_spent(const ft_stepper *s);
bool ft_stepper_spend(ft_stepper *s, uint64_t n); /* false: too much */
void ft_stepper_refill(ft_stepper *s, bool mask); /* the steps of the next mask or token */
void ft_stepper_token(ft_stepper *s);             /* a token more: its share of the total */
void ft_stepper_stop(ft_stepper *s);              /* from another thread: all is spent */
uint32_t ft_stepper_mark(const ft_stepper *s);
void ft_stepper_drop(ft_stepper *s, uint32_t mark); /* forgets the contexts made since */

/* Appends to out; the places of out before `from` do not change. */
void ft_step_start(ft_stepper *s, ft_places *out);
void ft_step_byte(ft_stepper *s, ft_places *out, size_t from, size_t n, uint8_t byte);
/* The places where the text continues when a rule with this context ends. */
void ft_step_leave(ft_stepper *s, ft_places *out, uint32_t ctx);

#endif
