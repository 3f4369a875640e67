/* kv/plan.h - chooses the encoding of each layer's keys and values.
 * The caller requests one pair of encodings. Unless it must be used exactly, some layers get
 * better ones:
 * - sliding-window layers use f16 instead of a turbo encoding: they are small and lose the most;
 * - turbo keys with measured statistics (kv/calibrate.h) stay turbo if the attention scores
 *   survive; otherwise they are stored without their mean; if that does not suffice either, as
 *   q8_0;
 * - turbo keys without statistics become q8_0 if the values are turbo too and many query heads
 *   share a key head: such models tend to have a large component common to all keys, which uses
 *   up the few bits;
 * - with turbo2 values, the values of the first and last two full-attention layers become q8_0;
 * - on request, the most recent FT_KV_RECENT positions of trunk layers with a turbo side are also
 *   kept as q8_0 (or f16) and read from there: most of the loss of a small encoding comes from
 *   nearby positions.
 * The choice depends on the trunk alone, so that it is the same with and without a drafter. */
#ifndef FT_KV_PLAN_H
#define FT_KV_PLAN_H

#include "base/buf.h"
#include "kv/kv.h"

enum {
    FT_KV_MANY_HEADS = 6,      /* from this many query heads per key head on, keys are upgraded */
    FT_KV_BOUNDARY = 2,        /* layers at each end ... */
    FT_KV_BOUNDARY_LAYERS = 8, /* ... of a model with at least this many */
};
/* Correlation of scores: at or above GOOD keys stay as they are, below BAD they are not stored
 * as turbo. */
#define FT_KV_GOOD 0.95
#define FT_KV_BAD  0.83

typedef struct ft_kv_choice {
    ft_kv_type kt, vt;
    bool tail;       /* there is a recent-token window, ... */
    ft_kv_type nt;   /* ... keys and values in this encoding */
    bool centred;    /* keys are stored without their measured mean */
    const char *why; /* the reason in a few words; NULL: as requested */
} ft_kv_choice;

/* The plan of a cache, [n_layer], for ft_cache_params.plan. It is computed once, from the other
 * fields, and everything that needs an encoding reads it from there. Free it with ft_free. */
ft_kv_choice *ft_kv_plan_new(const ft_cache_params *p);
/* The rule for one layer that stores keys and values. */
ft_kv_choice ft_kv_plan_layer(const ft_cache_params *p, int l);

/* The pair of encodings of a name: a preset (quality, balanced, compact), one encoding for both,
 * or KEYS/VALUES. */
bool ft_kv_pair_find(ft_str name, ft_kv_type *kt, ft_kv_type *vt);
/* Whether the preset needs measured statistics: compact. */
bool ft_kv_pair_measured(ft_str name);
/* Whether to keep a recent-token window: 1 yes, 0 no, < 0: with the presets quality and
 * balanced. name: NULL if no pair was named. */
bool ft_kv_tail_wanted(int wish, const char *name);

/* Bytes per token of the trunk's cache, for a token that every layer sees; *f16: if all were
 * f16. */
double ft_kv_token_bytes(const ft_cache_params *p, double *f16);

/* Layers that differ from the request, by reason: "3 window, 4 boundary". */
void ft_kv_plan_special(char *to, size_t cap, const ft_cache_params *p);

/* One line: encodings, bytes per token, ratio to f16, recent-token window, total. False: all
 * f16. */
bool ft_kv_plan_summary(char *to, size_t cap, const ft_cache_params *p);

/* Appends a table: equal layers on one line, bytes per token, total, ratio to f16. */
void ft_kv_plan_table(ft_buf *out, const ft_cache_params *p);

#endif
