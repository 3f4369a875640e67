/* engine/draft_methods.h - the draft methods: turns a list of names into a chain of drafters.
 * The chain has a fixed order, whatever the order of the list: n-gram methods first, because
 * they cost no forward pass, then the MTP head, assistant or draft model. In each step the first
 * drafter that proposes tokens is used. */
#ifndef FT_ENGINE_DRAFT_METHODS_H
#define FT_ENGINE_DRAFT_METHODS_H

#include "engine/engine.h"
#include "engine/ngram.h"

/* Bits, in the order of the chain. */
enum {
    FT_SPEC_NGRAM_SIMPLE = 1 << 0,
    FT_SPEC_NGRAM_MAP_K = 1 << 1,
    FT_SPEC_NGRAM_MAP_K4V = 1 << 2,
    FT_SPEC_NGRAM_MOD = 1 << 3,
    FT_SPEC_NGRAM_CACHE = 1 << 4,
    FT_SPEC_NGRAMS = (1 << 5) - 1,
    FT_SPEC_HEAD = 1 << 5,  /* draft-mtp: the model's MTP head, or an assistant */
    FT_SPEC_AUTO = 1 << 6,  /* with FT_SPEC_HEAD: if there is one */
    FT_SPEC_MODEL = 1 << 7, /* draft-simple: a draft model */
};

typedef struct ft_draft_methods {
    unsigned kinds;
    ft_ngram simple, map_k, map_k4v;
    ft_ngram_mod mod;
    const char *corpus, *responses; /* files of ngram-cache */
} ft_draft_methods;

void ft_draft_methods_defaults(ft_draft_methods *d);
/* "auto", "none", or names separated by commas, each at most once. 0 kinds: no drafting. */
ft_status ft_draft_methods_parse(unsigned *kinds, const char *list, ft_err *err);
/* Rejects sizes that are out of range. */
ft_status ft_draft_methods_check(const ft_draft_methods *d, ft_err *err);
/* Adds the n-gram drafters among them to the engine. */
ft_status ft_draft_methods_add(ft_engine *e, const ft_draft_methods *d, int slots, ft_err *err);
/* "ngram-mod, ngram-cache": the n-gram methods, in the order of the chain. */
void ft_draft_methods_names(unsigned kinds, char *out, size_t bytes);
/* The same with their sizes: "ngram-mod (n-match 24, n-min 48, n-max 64), ngram-cache". */
void ft_draft_methods_text(const ft_draft_methods *d, char *out, size_t bytes);

#endif
