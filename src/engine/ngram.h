/* engine/ngram.h - n-gram drafters that continue the text as it continued before.
 *   ngram-simple   the latest place where the last n ids stood already
 *   ngram-map-k    the same through a hash of the history, as far as it was right last time
 *   ngram-map-k4v  the continuation that clearly came most often, out of at most four
 *   ngram-mod      one table for all slots: a hash of n ids gives the next one
 *   ngram-cache    counts of what followed 1 to 4 ids: here, in earlier responses, in a corpus
 * All memory but the counts of ngram-cache is taken when they are made. A wrong guess costs rows of
 * a step and nothing else: the model has the last word. */
#ifndef FT_ENGINE_NGRAM_H
#define FT_ENGINE_NGRAM_H

#include "base/err.h"
#include "engine/ngram_drafter.h"

typedef struct ft_ngram {
    int n;        /* ids that must repeat */
    int m;        /* ids to copy at most */
    int min_hits; /* how often they must have been seen */
} ft_ngram;

typedef struct ft_ngram_mod {
    int n_match; /* ids that are hashed */
    int n_min;   /* a shorter continuation is not proposed */
    int n_max;   /* a longer one is cut */
} ft_ngram_mod;

enum { FT_NGRAM_MAX = 1024 }; /* of every size above */

ft_ngram_drafter ft_ngram_simple(ft_ngram p);
ft_ngram_drafter ft_ngram_map(ft_ngram p, int slots, bool values); /* values: map-k4v */
ft_ngram_drafter ft_ngram_table(ft_ngram_mod p, int slots);
/* Files of counts, NULL for none: corpus is read, responses is read if it is there and written back
 * with what the slots saw when the n-gram drafter is freed. Records are little-endian int32: four
 * ids (unused ones -1), a number, and that many pairs of id and count. */
ft_status ft_ngram_cache(ft_ngram_drafter *out, const char *corpus, const char *responses,
                         int slots, ft_err *err);

#endif
