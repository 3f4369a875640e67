/* kv/kv_priv.h - the inside of a cache, shared by the files of this folder. */
#ifndef FT_KV_KV_PRIV_H
#define FT_KV_KV_PRIV_H

#include "kv/kv.h"

/* One set of pages that all layers of a space share: page p of every layer belongs to the same
 * cells of the same sequence. */
typedef struct ft_space {
    int n_page, n_free;
    int32_t *free;  /* stack of page numbers */
    int32_t *table; /* [slots][pages_per_seq], -1 where there is none */
    int window;     /* widest window of its layers; 0 keeps everything */
} ft_space;

struct ft_cache {
    ft_dev *dev;
    ft_cache_params p;
    ft_layer_state *layer;
    ft_kv *kv, *recent; /* recent: of layers with a recent-token window in a second encoding */
    ft_delta *delta;
    ft_space space[2];
    int pages_per_seq;
    bool has_delta;
    ft_seq **seq; /* [slots] */
};

struct ft_seq {
    ft_cache *c;
    int slot, len;
    int first_page[2], end_page[2]; /* pages held: [first, end) in each space */
    int replay, plane;
    int span_n;     /* rows of the open span, 0 when none is open */
    bool tentative; /* of the open span */
    int stored;     /* cells whose effect is in the stored delta state */
};

typedef struct ft_delta_sizes {
    size_t conv, state, j_conv, j_k, j_d, j_g; /* values per slot */
} ft_delta_sizes;

/* What layer l has in the pages of a space, or NULL. */
static inline const ft_kv *ft_cache_kv_in(const ft_cache *c, int l, int space)
{
    const ft_state_kind keep = c->layer[l].keep;
    if (keep == (space == FT_SPACE_WINDOW ? FT_STATE_WINDOW : FT_STATE_FULL)) return &c->kv[l];
    return keep == FT_STATE_FULL ? c->kv[l].recent : NULL;
}

int ft_pages_for(int64_t cells);
ft_delta_sizes ft_delta_sizes_of(const ft_layer_state *l, int J);

/* All pages of a space back to the pool; pages from the pool up to `end`, which must be there. */
void ft_seq_drop_pages(ft_seq *s, int which);
void ft_seq_take_pages(ft_seq *s, int which, int end);

/* The sequence's row of a page table. */
static inline int32_t *ft_seq_table(const ft_seq *s, int which)
{
    return s->c->space[which].table + (size_t)s->slot * (size_t)s->c->pages_per_seq;
}

#endif
