/* kv/save.h - copies the state of a sequence to bytes and back: pages and delta-net states.
 * The bytes have the layout of the cache; caches with an equal ft_cache_layout can read each
 * other's. Copies go through the device. */
#ifndef FT_KV_SAVE_H
#define FT_KV_SAVE_H

#include "kv/kv.h"

uint64_t ft_cache_layout(const ft_cache *c); /* a hash of everything that determines the layout */
size_t ft_cache_page_bytes(const ft_cache *c, int space);
size_t ft_cache_state_bytes(const ft_cache *c); /* of one sequence, 0 without delta nets */

/* Calls fn for every piece of device memory that pages [from, to) of a page table consist of, in
 * the order of their bytes; table NULL: without addresses. The same for the delta-net states of a
 * slot. */
typedef void ft_piece_fn(void *user, int layer, void *device, size_t n);
void ft_cache_page_pieces(const ft_cache *c, const int32_t *table, int space, int from, int to,
                          ft_piece_fn *fn, void *user);
void ft_cache_state_pieces(const ft_cache *c, int slot, ft_piece_fn *fn, void *user);

/* Pages [from, to) of a sequence, which it must hold: bytes [to - from][page]. */
void ft_seq_pages_get(const ft_seq *s, int space, int from, int to, void *out);
void ft_seq_pages_put(ft_seq *s, int space, int from, int to, const void *in);
/* Moves the pages of a sequence to host memory and frees them; its length, states and journal
 * stay. Until they are restored, only ft_seq_rewind to 0 is allowed. NULL when memory runs out. */
typedef struct ft_swapped ft_swapped;
ft_swapped *ft_seq_swap_out(ft_seq *s);
bool ft_seq_swap_in(ft_seq *s, ft_swapped *p); /* frees p; false: there are not enough pages,
                                                * nothing has changed */
int ft_swapped_pages(const ft_swapped *p);     /* pages that it needs in the full-attention space */
void ft_swapped_free(ft_swapped *p);           /* accepts NULL */

/* The first window page that a sequence of len positions needs to continue. */
int ft_cache_window_first(const ft_cache *c, int len);
/* Whether the sequence holds all that a sequence of its first len positions needs: its window
 * exists, and the stored state of its delta nets is at len. */
bool ft_seq_holds(const ft_seq *s, int len);

#endif
