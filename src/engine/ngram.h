/* engine/ngram.h - n-gram drafters: they continue the text as it continued before.
 *   ngram-simple   the latest earlier occurrence of the last n ids
 *   ngram-map-k    the same through a hash of the history, limited to the length that was accepted
 *   ngram-map-k4v  the clearly most frequent continuation of at most four
 *   ngram-mod      one table for all slots: a hash of n ids gives the next id
 *   ngram-cache    counts of what followed 1 to 4 ids: in this sequence, earlier responses, a
 * corpus All memory except the counts of ngram-cache is allocated at creation. A wrong draft token
 * costs a row of a step and nothing else: the model verifies it. */
#ifndef FT_ENGINE_NGRAM_H
#define FT_ENGINE_NGRAM_H

#include "base/err.h"
#include "engine/ngram_drafter.h"

typedef struct ft_ngram {
    int n;        /* ids that must repeat */
    int m;        /* maximum number of ids to copy */
    int min_hits; /* how often they must have occurred */
} ft_ngram;

typedef struct ft_ngram_mod {
    int n_match; /* ids that are hashed */
    int n_min;   /* shorter continuations are not proposed */
    int n_max;   /* longer ones are truncated */
} ft_ngram_mod;

enum { FT_NGRAM_MAX = 1024 }; /* maximum of every size above */

ft_ngram_drafter ft_ngram_simple(ft_ngram p);
ft_ngram_drafter ft_ngram_map(ft_ngram p, int slots, bool values); /* values: map-k4v */
ft_ngram_drafter ft_ngram_table(ft_ngram_mod p, int slots);
/* Files of counts, or NULL: corpus is read; responses is read if it exists, and written back
 * with the counts of all slots when the drafter is freed. Records are little-endian int32: four
 * ids (unused ones -1), a number, and that many pairs of id and count. */
ft_status ft_ngram_cache(ft_ngram_drafter *out, const char *corpus, const char *responses,
                         int slots, ft_err *err);

#endif
