/* kv/plan.h - which encoding each layer's keys and values get.
 * One pair is wished for. Unless it must be exact, some layers get better ones:
 *   - layers with a window keep f16 where a turbo encoding was wished for: they are small, and they
 *     suffer most;
 *   - turbo keys that were measured (kv/calibrate.h) stay as wished for if the scores of attention
 *     survive; else they are stored without their mean; if that does not do either, as q8_0;
 *   - keys that were not measured become q8_0 when both sides are turbo and many query heads share
 *     a key head: models of that kind tend to have a large part common to all keys, which eats up
 *     the few bits;
 *   - with turbo2 values, the values of the first and last two layers that keep every cell become
 *     q8_0;
 *   - if that is wished for, the newest FT_KV_RECENT cells of layers of the trunk with a turbo side
 *     are kept as q8_0 (or f16) too and read there: most of what a few bits cost is lost on near
 *     cells.
 * The choice looks at the trunk alone, so that it is the same with and without a drafter. */
#ifndef FT_KV_PLAN_H
#define FT_KV_PLAN_H

#include "base/buf.h"
#include "kv/kv.h"

enum {
    FT_KV_MANY_HEADS = 6,      /* query heads per key head from which on keys are upgraded */
    FT_KV_BOUNDARY = 2,        /* layers at each end ... */
    FT_KV_BOUNDARY_LAYERS = 8, /* ... of at least so many */
};
/* Correlations of scores: from here on keys stay as they are, below this they are not turbo. */
#define FT_KV_GOOD 0.95
#define FT_KV_BAD  0.83

typedef struct ft_kv_choice {
    ft_kv_type kt, vt;
    bool tail;       /* the most recent positions are kept apart, ... */
    ft_kv_type nt;   /* ... keys and values in this encoding */
    bool centred;    /* keys without the mean that the calibration has found */
    const char *why; /* in a few words, NULL: as wished for */
} ft_kv_choice;

/* Of layer l, which keeps keys and values. */
ft_kv_choice ft_kv_plan(const ft_cache_params *p, int l);

/* The pair that a name means: a preset (quality, balanced, compact), one encoding for both, or
 * KEYS/VALUES. */
bool ft_kv_pair_find(ft_str name, ft_kv_type *kt, ft_kv_type *vt);
/* A preset that wants the keys measured first: compact. */
bool ft_kv_pair_measured(ft_str name);
/* Whether the most recent positions are kept apart: 1 yes, 0 no, < 0: with the presets quality and
 * balanced. name: NULL where no pair was named. */
bool ft_kv_tail_wanted(int wish, const char *name);

/* Bytes of the trunk's cache for one token that every layer sees; *f16: if all were f16. */
double ft_kv_token_bytes(const ft_cache_params *p, double *f16);

/* Layers that get something else than was wished for, by reason: "3 window, 4 boundary". */
void ft_kv_plan_special(char *to, size_t cap, const ft_cache_params *p);

/* One line: encodings, bytes per token, ratio to f16, most recent positions, total. False: all f16.
 */
bool ft_kv_plan_summary(char *to, size_t cap, const ft_cache_params *p);

/* Appends a table: layers that are alike on one line, bytes per token, total, ratio to f16. */
void ft_kv_plan_table(ft_buf *out, const ft_cache_params *p);

#endif
