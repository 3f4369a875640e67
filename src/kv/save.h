/* kv/save.h - what a sequence remembers as bytes, and back: pages and delta-net states.
 * The layout of the bytes is that of the cache; two caches of equal layout (ft_cache_layout) can
 * read each other's. Copies go through the device. */
#ifndef FT_KV_SAVE_H
#define FT_KV_SAVE_H

#include "kv/kv.h"

uint64_t ft_cache_layout(const ft_cache *c); /* a hash of everything that the bytes depend on */
size_t ft_cache_page_bytes(const ft_cache *c, int space);
size_t ft_cache_state_bytes(const ft_cache *c);   /* of one sequence, 0 without delta nets */
size_t ft_cache_journal_bytes(const ft_cache *c); /* the same of rows not yet applied */

/* Pages [from, to) of a sequence that has them: bytes [to - from][page]. */
void ft_seq_pages_get(const ft_seq *s, int space, int from, int to, void *out);
void ft_seq_pages_put(ft_seq *s, int space, int from, int to, const void *in);
void ft_seq_state_get(const ft_seq *s, void *out);
void ft_seq_state_put(ft_seq *s, const void *in);
void ft_seq_journal_get(const ft_seq *s, void *out);
void ft_seq_journal_put(ft_seq *s, const void *in);
/* The pages of a sequence moved to host memory, so that others can have them; its length, states
 * and journal stay. Until they are back nothing else may be done with it but ft_seq_rewind to 0.
 * NULL when memory is gone. */
typedef struct ft_swapped ft_swapped;
ft_swapped *ft_seq_swap_out(ft_seq *s);
bool ft_seq_swap_in(ft_seq *s, ft_swapped *p); /* frees p; false: not enough pages, all as before */
int ft_swapped_pages(const ft_swapped *p);     /* that it wants of the full space */
void ft_swapped_free(ft_swapped *p);           /* accepts NULL */

/* No rows wait in the journal: the stored state is that of the sequence's length. */
bool ft_seq_settled(const ft_seq *s);
/* The first page of windows that a sequence of len cells needs to go on. */
int ft_cache_window_first(const ft_cache *c, int len);
/* Whether the sequence holds all that a sequence of its first len cells would need: len is a page
 * border, its window is there, and a delta net is just there. */
bool ft_seq_holds(const ft_seq *s, int len);

#endif
