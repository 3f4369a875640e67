/* kv/kv_priv.h - the internals of the cache, shared by the files of this folder. */
#ifndef FT_KV_KV_PRIV_H
#define FT_KV_KV_PRIV_H

#include "kv/kv.h"

/* A pool of pages that all layers of a space share: page p of every layer belongs to the same
 * positions of the same sequence. */
typedef struct ft_space {
    int n_page, n_free;
    int32_t *free;  /* stack of page numbers */
    int32_t *table; /* [slots][pages_per_seq], -1 where there is none */
    int window;     /* widest window of its layers; 0: all positions are kept */
} ft_space;

struct ft_cache {
    ft_dev *dev;
    ft_cache_params p;
    ft_layer_state *layer;
    struct ft_kv_choice *plan;
    ft_kv *kv, *recent; /* recent: the recent-token windows */
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
    int stored;     /* positions that the stored delta state includes */
};

typedef struct ft_delta_sizes {
    size_t conv, state, j_conv, j_k, j_d, j_g; /* values per slot */
} ft_delta_sizes;

/* The pages of layer l in a space, or NULL. */
static inline const ft_kv *ft_cache_kv_in(const ft_cache *c, int l, int space)
{
    const ft_state_kind kind = c->layer[l].kind;
    if (kind == (space == FT_SPACE_WINDOW ? FT_STATE_WINDOW : FT_STATE_FULL)) return &c->kv[l];
    return kind == FT_STATE_FULL ? c->kv[l].recent : NULL;
}

int ft_pages_for(int64_t cells);
ft_delta_sizes ft_delta_sizes_of(const ft_layer_state *l, int J);

/* Returns all pages of a space to the pool; takes pages from the pool up to `end`, which must
 * exist. */
void ft_seq_drop_pages(ft_seq *s, int which);
void ft_seq_take_pages(ft_seq *s, int which, int end);

/* The sequence's row of a page table. */
static inline int32_t *ft_seq_table(const ft_seq *s, int which)
{
    return s->c->space[which].table + (size_t)s->slot * (size_t)s->c->pages_per_seq;
}

#endif
