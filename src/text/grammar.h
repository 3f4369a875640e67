/* text/grammar.h - computes which tokens may come next so that the text matches a grammar.
 *
 * ft_grammar is a compiled GBNF text: immutable, shared by any number of threads and states.
 * ft_trie holds the bytes of a vocabulary: immutable, made once per model.
 * ft_grammar_state is a position in a text. It advances one token at a time and can be cloned;
 * clones share a bounded cache of masks, so a state and its clones belong to one thread. The
 * grammar and the trie must outlive the states.
 *
 * Matching is done on bytes: a token may end in the middle of a character, or of several rules at
 * once. Tokens that end a response are allowed exactly where the grammar accepts. A token is
 * allowed only if the text up to its end can still be completed. When a limit would be exceeded
 * (nesting, ambiguity), the token is not allowed. */
#ifndef FT_TEXT_GRAMMAR_H
#define FT_TEXT_GRAMMAR_H

#include "base/err.h"
#include "base/str.h"

/* ---- the grammar ---- */

typedef struct ft_grammar ft_grammar;

#define FT_GRAMMAR_NEST_MAX 1000 /* rules inside rules; deeper text is not allowed */

/* root NULL: "root". Rejects, naming the rule: syntax errors, unknown rules, left recursion,
 * grammars that match no finite text, and grammars beyond the limits of gbnf.h and grammar_auto.h.
 */
ft_status ft_grammar_new(ft_grammar **out, ft_str gbnf, const char *root, ft_err *err);
void ft_grammar_free(ft_grammar *g);
size_t ft_grammar_states(const ft_grammar *g); /* number of automaton states */

/* ---- the vocabulary ---- */

/* Gives the bytes of a vocabulary; used only while the trie is built. Tokens without
 * bytes are never allowed by a grammar, nor are tokens of more than FT_TRIE_DEPTH_MAX bytes. */
typedef struct ft_token_source {
    void *user;
    int32_t n;
    ft_str (*bytes)(void *user, int32_t id); /* must stay valid until the trie is made */
    bool (*is_eog)(void *user, int32_t id);  /* ends a response; its bytes do not matter then */
} ft_token_source;

#define FT_TRIE_DEPTH_MAX 512

typedef struct ft_trie ft_trie;
ft_trie *ft_trie_new(const ft_token_source *v);
void ft_trie_free(ft_trie *t);
size_t ft_trie_nodes(const ft_trie *t);

/* ---- a place in a text ---- */

typedef struct ft_grammar_state ft_grammar_state;

/* A lazy state allows every token until one of the ids is generated or one of the words appears in
 * the text. With `feed` the grammar must match the trigger itself, else matching begins after it.
 * Bytes of the same token after the word are matched too; if they do not match, no token is allowed
 * afterwards. */
typedef struct ft_grammar_lazy {
    const int32_t *id;
    size_t n_id;
    const ft_str *word; /* 1..128 bytes each */
    size_t n_word;
    bool feed;
} ft_grammar_lazy;

/* lazy NULL: matching begins at once. It is copied. */
ft_status ft_grammar_state_new(ft_grammar_state **out, const ft_grammar *g, const ft_trie *t,
                               const ft_grammar_lazy *lazy, ft_err *err);
void ft_grammar_state_free(ft_grammar_state *s);
ft_grammar_state *ft_grammar_state_clone(const ft_grammar_state *s);
/* dst and src must be clones of one state. */
void ft_grammar_state_copy(ft_grammar_state *dst, const ft_grammar_state *src);

/* Fills bits [V] (id i is bit i % 32 of word i / 32); false: everything is allowed, bits are
 * untouched. */
bool ft_grammar_allow(ft_grammar_state *s, uint32_t *bits, int32_t V);
bool ft_grammar_allows(ft_grammar_state *s, int32_t id);
/* false: the token was not allowed; nothing is allowed from then on. */
bool ft_grammar_accept(ft_grammar_state *s, int32_t id);
/* The same for bytes that are not a token. */
bool ft_grammar_accept_bytes(ft_grammar_state *s, ft_str bytes);
bool ft_grammar_waiting(const ft_grammar_state *s);   /* lazy, and not triggered yet */
bool ft_grammar_accepting(const ft_grammar_state *s); /* the text may end here */
bool ft_grammar_ended(
    const ft_grammar_state *s); /* only the end of the text can follow, or no token is allowed */
/* NULL, or a message about the limit that excluded tokens since the state was made (shared with
 * clones). */
const char *ft_grammar_limit(const ft_grammar_state *s);
/* NULL, or a sentence: masks took more work than a response may; nothing is allowed any more. */
const char *ft_grammar_spent(const ft_grammar_state *s);
/* Called by another thread while a mask of the state or of a clone is computed: that ends soon, and
 * nothing is allowed any more. */
void ft_grammar_stop(ft_grammar_state *s);
/* Computes the mask of the first token of the grammar, which is kept. FT_ELIMIT: that alone is too
 * much work. */
ft_status ft_grammar_probe(ft_grammar_state *s, ft_err *err);

/* The same functions with a void pointer, for the constraint interface of the engine. */
typedef struct ft_grammar_mask {
    bool (*allow)(void *user, uint32_t *bits, int32_t V);
    bool (*allows)(void *user, int32_t id);
    void (*accept)(void *user, int32_t id);
    void *(*clone)(void *user);
    void (*copy)(void *user, const void *from);
    void (*free)(void *user);
    void (*stop)(void *user);
} ft_grammar_mask;
extern const ft_grammar_mask ft_grammar_mask_functions;

#endif
