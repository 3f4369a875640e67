/* engine/drafters.h - who drafts: a list of names becomes a chain of guessers.
 * The chain has one order, whatever the list's: n-grams first because they cost nothing, then the
 * model's head or assistant, or a second model. A round is drafted by the first that proposes
 * something. */
#ifndef FT_ENGINE_DRAFTERS_H
#define FT_ENGINE_DRAFTERS_H

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
    FT_SPEC_HEAD = 1 << 5,  /* draft-mtp: the model's head, or an assistant */
    FT_SPEC_AUTO = 1 << 6,  /* with FT_SPEC_HEAD: if there is one */
    FT_SPEC_MODEL = 1 << 7, /* draft-simple: a second model */
};

typedef struct ft_drafters {
    unsigned kinds;
    ft_ngram simple, map_k, map_k4v;
    ft_ngram_mod mod;
    const char *corpus, *replies; /* files of ngram-cache */
} ft_drafters;

void ft_drafters_defaults(ft_drafters *d);
/* "auto", "none", or names separated by commas; none of them twice. 0 kinds: nothing drafts. */
ft_status ft_drafters_parse(unsigned *kinds, const char *list, ft_err *err);
/* Sizes that cannot be, in one sentence. */
ft_status ft_drafters_check(const ft_drafters *d, ft_err *err);
/* Gives the engine the guessers among them. */
ft_status ft_drafters_add(ft_engine *e, const ft_drafters *d, int lanes, ft_err *err);
/* "ngram-mod, ngram-cache": the guessers, in the chain's order. */
void ft_drafters_names(unsigned kinds, char *out, size_t bytes);

#endif
