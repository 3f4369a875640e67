/* kv/kv.h - the memory of sequences: pages of keys and values, delta-net states, journals.
 * Each layer declares what it stores; a sequence is a set of page tables and a slot. All memory
 * is allocated when the cache is created: generating allocates nothing. Only the engine thread
 * may call these functions.
 * Keys and values are append-only, so rewinding sets a length. A delta net has a stored state
 * and a short journal of tentative rows: accepting some of them sets a number, and the next step
 * applies them before its own rows. */
#ifndef FT_KV_H
#define FT_KV_H

#include "dev/dev.h"
#include "dev/kv_row.h"
#include "kv/calibrate.h"

typedef enum ft_state_kind {
    FT_STATE_NONE,   /* nothing, or it reads another layer's keys and values */
    FT_STATE_FULL,   /* all positions */
    FT_STATE_WINDOW, /* the last `window` positions */
    FT_STATE_DELTA,  /* a delta-net state */
} ft_state_kind;

typedef struct ft_layer_state {
    ft_state_kind kind;
    int G, d;         /* FULL, WINDOW */
    int group;        /* FULL, WINDOW: query heads per key head */
    int window;       /* WINDOW */
    int Hk, Hv, S, C; /* DELTA */
} ft_layer_state;

typedef struct ft_cache_params {
    ft_layer_state *layer;
    int n_layer;
    int trunk;         /* layers of the model itself; those of a drafter follow */
    ft_kv_type kt, vt; /* the requested encodings; `plan` has those of each layer */
    bool exact;        /* use exactly these encodings for every layer */
    /* Statistics of the trunk's keys, [trunk], or NULL. Must outlive the cache. */
    const ft_kv_calibration *calibration;
    int slots;     /* sequences at a time */
    int cells;     /* maximum context length */
    int64_t total; /* positions of all sequences together; 0: slots * cells */
    int rows;      /* maximum rows of one sequence in a step; 0: 2048 */
    bool tail;     /* keep a recent-token window in q8_0 for turbo layers; the device supports it */
    int tentative; /* maximum rows that a step may undo: the length of the journal */
    /* [n_layer], made by ft_kv_plan_new from the fields above: the encodings of each layer. */
    struct ft_kv_choice *plan;
} ft_cache_params;

typedef struct ft_cache ft_cache;
typedef struct ft_seq ft_seq;

/* Device memory of a cache with these parameters. */
uint64_t ft_cache_bytes(const ft_cache_params *p);
uint64_t ft_cache_layer_bytes(const ft_cache_params *p, int l); /* of one layer */

ft_status ft_cache_new(ft_cache **out, ft_dev *d, const ft_cache_params *p, ft_err *err);
void ft_cache_free(ft_cache *c);                   /* all sequences must have been freed */
const ft_kv *ft_cache_kv(const ft_cache *c);       /* [n_layer] */
const ft_delta *ft_cache_delta(const ft_cache *c); /* [n_layer] */
/* Page tables in the layout of a batch, for both spaces; and pages per sequence. */
const int32_t *ft_cache_pages(const ft_cache *c, int space);
int ft_cache_pages_per_seq(const ft_cache *c);
int ft_cache_all_pages(const ft_cache *c);  /* of the full-attention space */
int ft_cache_free_pages(const ft_cache *c); /* of the full-attention space */

/* NULL when all slots are taken. The sequence is empty. */
ft_seq *ft_seq_new(ft_cache *c);
void ft_seq_free(ft_seq *s);
int ft_seq_len(const ft_seq *s); /* committed positions */
/* The position at which the sequence can be copied: that of the stored delta-net states, or its
 * length without delta nets. */
int ft_seq_stored(const ft_seq *s);
int ft_seq_slot(const ft_seq *s);
int ft_seq_pages(const ft_seq *s); /* pages that it holds in the full-attention space */
/* Reserves n more positions; false when pages or positions run out (nothing has changed then). */
bool ft_seq_reserve(ft_seq *s, int n);
/* The sequence's next n rows as a span that starts at row `row` of the step. Nothing else may
 * use the sequence until ft_seq_accept ends the span. */
ft_span ft_seq_span(ft_seq *s, int row, int n, bool tentative);
/* Ends the span after the step: its first `kept` rows are committed. All of them if it was not
 * tentative. */
void ft_seq_accept(ft_seq *s, int kept);
/* Makes the sequence len positions long, with windows that start at page window_first; the caller
 * fills in the contents (kv/save.h). false when there are not enough pages: the sequence is then
 * empty. */
bool ft_seq_adopt(ft_seq *s, int len, int window_first);
/* Rewinds to n <= len positions; false when a delta net or a window cannot go back that far (0
 * always works). And whether it could. */
bool ft_seq_rewind(ft_seq *s, int n);
bool ft_seq_can_rewind(const ft_seq *s, int n);

#endif
