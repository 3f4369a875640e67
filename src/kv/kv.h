/* kv/kv.h - what sequences remember: pages of keys and values, delta-net states, journals.
 * Each layer says what it keeps; a sequence is page tables and a slot over that list. All memory is
 * taken when the cache is made: a response allocates nothing. Only the engine thread comes here.
 *
 * Keys and values are append-only, so rewinding is setting a length. A delta net keeps its stored
 * state and a short journal of tentative rows: accepting some of them is setting a number, and the
 * next step applies them before its own rows. */
#ifndef FT_KV_H
#define FT_KV_H

#include "dev/dev.h"
#include "dev/kv_row.h"
#include "kv/calibrate.h"

typedef enum ft_state_kind {
    FT_STATE_NONE,   /* nothing, or another layer's keys and values */
    FT_STATE_FULL,   /* every cell */
    FT_STATE_WINDOW, /* the last `window` cells */
    FT_STATE_DELTA,  /* a delta-net state */
} ft_state_kind;

typedef struct ft_layer_state {
    ft_state_kind keep;
    int G, d;         /* FULL, WINDOW */
    int group;        /* FULL, WINDOW: query heads per key head */
    int window;       /* WINDOW */
    int Hk, Hv, S, C; /* DELTA */
} ft_layer_state;

typedef struct ft_cache_params {
    ft_layer_state *layer;
    int n_layer;
    int trunk;         /* layers of the model itself; those of a drafter come after them */
    ft_kv_type kt, vt; /* wished for; kv/plan.h says what each layer gets */
    bool exact;        /* every layer gets just these */
    /* What was measured of the trunk's keys, [trunk], or NULL. Borrowed as long as the cache. */
    const ft_kv_calibration *calibration;
    int slots;     /* sequences at a time */
    int cells;     /* longest sequence */
    int64_t total; /* cells of all sequences together; 0 = slots * cells */
    int rows;      /* most rows of a sequence in one step; 0: 2048 */
    bool tail; /* the most recent positions of turbo layers shall be kept apart; the device can do
                  it */
    int tentative; /* most rows that a step may take back: the journal's length */
    /* [n_layer], made by ft_kv_plan_new from the fields above: the encodings of each layer. */
    struct ft_kv_choice *plan;
} ft_cache_params;

typedef struct ft_cache ft_cache;
typedef struct ft_seq ft_seq;

/* Bytes that a cache with these parameters takes on the device. */
uint64_t ft_cache_bytes(const ft_cache_params *p);
uint64_t ft_cache_layer_bytes(const ft_cache_params *p, int l); /* of one layer */

ft_status ft_cache_new(ft_cache **out, ft_dev *d, const ft_cache_params *p, ft_err *err);
void ft_cache_free(ft_cache *c);                   /* every sequence must be gone */
const ft_kv *ft_cache_kv(const ft_cache *c);       /* [n_layer] */
const ft_delta *ft_cache_delta(const ft_cache *c); /* [n_layer] */
/* Page tables as a batch wants them: both spaces, and pages per sequence. */
const int32_t *ft_cache_pages(const ft_cache *c, int space);
int ft_cache_pages_per_seq(const ft_cache *c);
int ft_cache_all_pages(const ft_cache *c);  /* of the full space */
int ft_cache_free_pages(const ft_cache *c); /* of the full space */

/* NULL when every slot is taken. The sequence starts empty. */
ft_seq *ft_seq_new(ft_cache *c);
void ft_seq_free(ft_seq *s);
int ft_seq_len(const ft_seq *s); /* committed cells */
int ft_seq_slot(const ft_seq *s);
int ft_seq_pages(const ft_seq *s); /* that it holds of the full space */
/* Makes room for n more cells; false when pages or cells run out (nothing has changed then). */
bool ft_seq_reserve(ft_seq *s, int n);
/* The sequence's next n rows as a span that begins at row `row` of the step. Between the span and
 * the call that ends it nothing else may touch the sequence. */
ft_span ft_seq_span(ft_seq *s, int row, int n, bool tentative);
/* After the step: of the span's rows the first `kept` stay. All of them, if it was not tentative.
 */
void ft_seq_accept(ft_seq *s, int kept);
/* The sequence becomes one of len cells, a multiple of FT_PAGE_ROWS, whose windows begin at page
 * window_first; what they hold is the caller's to fill in (kv/save.h). false when there are not
 * enough pages: it is empty then. */
bool ft_seq_adopt(ft_seq *s, int len, int window_first);
/* Back to n <= len cells; false when a delta net cannot go back that far (n == 0 always works). */
bool ft_seq_rewind(ft_seq *s, int n);

#endif
